//! The far end of TCP load.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_net::{Clock, await_readable};
use giusto_session::probe::Prefixes;
use serde::Serialize;

use super::{ANSWER, ASK, BLOCK_HEADER, FILLER, LOAD, MAGIC, PROBE, TOTAL, answer};
use crate::measured::RunError;

/// A connection without bytes for this time is closed.
const IDLE: Duration = Duration::from_secs(10);
/// The time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A server of TCP load.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpListener,
    address: SocketAddr,
    prefixes: Prefixes,
    max_connections: usize,
}

/// A load connection that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct TcpServed {
    /// The other end.
    pub from: String,
    /// What arrived.
    pub received_bytes: u64,
    /// From the first to the last byte, in seconds.
    pub duration_s: f64,
    /// The rate over that time, in bit/s; `None` if it was too short.
    pub rx_rate_bps: Option<f64>,
}

impl TcpServer {
    /// Listens on `address`.
    ///
    /// # Errors
    ///
    /// [`RunError::Listen`].
    pub fn open(address: SocketAddr, prefixes: Prefixes, max_connections: usize) -> Result<Self, RunError> {
        let failed = |source| RunError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, prefixes, max_connections })
    }

    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set or `on_turn` returns false; it is called several times a second, and with each load connection that
    /// has ended.
    pub fn run(&self, stop: &AtomicBool, mut on_turn: impl FnMut(Option<TcpServed>) -> bool) {
        let (halt, open) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        let ended = Mutex::new(Vec::new());
        let take_ended = || std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
        thread::scope(|scope| {
            let mut goes_on = true;
            while goes_on && !stop.load(Ordering::Relaxed) {
                while let Ok((stream, from)) = self.listener.accept() {
                    let is_full = open.load(Ordering::Relaxed) >= self.max_connections;
                    if is_full || !self.prefixes.admit(from.ip().to_canonical()) {
                        continue;
                    }
                    open.fetch_add(1, Ordering::Relaxed);
                    let (ended, halt) = (&ended, &halt);
                    let open_there = Arc::clone(&open);
                    let serving = thread::Builder::new().spawn_scoped(scope, move || {
                        let served = serve(stream, from, halt);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).extend(served);
                        open_there.fetch_sub(1, Ordering::Relaxed);
                    });
                    if serving.is_err() {
                        // Without a thread the connection is closed.
                        open.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                for served in take_ended() {
                    goes_on &= on_turn(Some(served));
                }
                goes_on = goes_on && on_turn(None);
                if goes_on {
                    await_readable(&self.listener, LOOK);
                }
            }
            halt.store(true, Ordering::Relaxed);
        });
        for served in take_ended() {
            on_turn(Some(served));
        }
    }
}

/// Serves one connection to its end. Returns what a load connection has carried.
fn serve(mut stream: TcpStream, from: SocketAddr, halt: &AtomicBool) -> Option<TcpServed> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(LOOK)).ok()?;
    // A client that does not read its answers is not worth a thread.
    stream.set_write_timeout(Some(IDLE)).ok()?;
    let mut reader = Patient { stream: stream.try_clone().ok()?, halt, silent: 0 };
    let mut hello = [0; MAGIC.len() + 1];
    reader.read_exact(&mut hello).ok()?;
    let (magic, kind) = hello.split_at(MAGIC.len());
    match *kind {
        _ if magic != MAGIC => None,
        [PROBE] => {
            let mut request = [0; 8];
            while reader.read_exact(&mut request).is_ok() {
                stream.write_all(&answer(ASK, u64::from_be_bytes(request))).ok()?;
            }
            None
        }
        [LOAD] => Some(take_load(&mut reader, &mut stream, from)),
        _ => None,
    }
}

fn take_load(reader: &mut impl Read, writer: &mut impl Write, from: SocketAddr) -> TcpServed {
    const BUFFER: usize = 262_144;
    let clock = Clock::start();
    let mut buffer = vec![0; BUFFER];
    let mut received = 0_u64;
    let mut last = clock.now();
    let mut header = [0; BLOCK_HEADER];
    let outcome = (|| -> io::Result<()> {
        while reader.read_exact(&mut header).is_ok() {
            let [kind, a, b, c] = header;
            let mut left = u32::from_be_bytes([0, a, b, c]) as usize;
            received += BLOCK_HEADER as u64;
            if kind == ASK && left == ANSWER - 1 {
                let mut number = [0; ANSWER - 1];
                reader.read_exact(&mut number)?;
                received += number.len() as u64;
                writer.write_all(&answer(ASK, u64::from_be_bytes(number)))?;
                left = 0;
            } else if kind != FILLER {
                return Err(io::ErrorKind::InvalidData.into());
            }
            while left > 0 {
                let length = left.min(BUFFER);
                let read = reader.read(buffer.get_mut(..length).unwrap_or_default())?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                received += read as u64;
                left -= read;
            }
            last = clock.now();
        }
        writer.write_all(&answer(TOTAL, received))
    })();
    // What arrived before an error counts.
    drop(outcome);
    let duration_s = last.as_nanos() as f64 / 1e9;
    TcpServed {
        from: from.to_string(),
        received_bytes: received,
        duration_s,
        rx_rate_bps: (duration_s > 1e-3).then(|| received as f64 * 8.0 / duration_s),
    }
}

/// Reads with a timeout, again and again until the connection was silent for too long or the server ends.
struct Patient<'a> {
    stream: TcpStream,
    halt: &'a AtomicBool,
    silent: u32,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.silent += 1;
                    if self.halt.load(Ordering::Relaxed) || LOOK * self.silent >= IDLE {
                        return Err(error);
                    }
                }
                Ok(read) => {
                    self.silent = 0;
                    return Ok(read);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tcp::block_header;

    #[test]
    fn blocks_are_counted_and_requests_answered() {
        let from = ([127, 0, 0, 1], 1).into();
        let input = [
            &block_header(FILLER, 3)[..],
            b"abc",
            &block_header(ASK, 8),
            &7_u64.to_be_bytes(),
            &block_header(FILLER, 0),
        ]
        .concat();
        let mut output = Vec::new();
        let served = take_load(&mut &input[..], &mut output, from);
        assert_eq!(served.received_bytes, input.len() as u64);
        assert_eq!(output, [answer(ASK, 7), answer(TOTAL, input.len() as u64)].concat());
        // Nonsense ends the connection; what is cut off is no total.
        for (input, counted) in [(&[9, 0, 0, 1, 0][..], 4), (&[FILLER, 0, 0, 9, 1, 2][..], 6)] {
            let mut output = Vec::new();
            assert_eq!(take_load(&mut &input[..], &mut output, from).received_bytes, counted);
            assert!(output.is_empty());
        }
    }
}
