//! The far end of TCP load.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_net::{Clock, await_readable};
use giusto_session::{host, probe::Prefixes};
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
    /// Listens on `address`. One host gets at most half of the connections.
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
        let (halt, open, ended) = (AtomicBool::new(false), Connections::default(), Mutex::new(Vec::new()));
        let take_ended = || std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
        thread::scope(|scope| {
            let mut goes_on = true;
            while goes_on && !stop.load(Ordering::Relaxed) {
                let refused = loop {
                    let (stream, from) = match self.listener.accept() {
                        Ok(accepted) => accepted,
                        Err(error) => break error.kind(),
                    };
                    let admitted = self.prefixes.admit(from.ip().to_canonical());
                    if !admitted || !open.admit(host(from.ip()), self.max_connections) {
                        continue;
                    }
                    let (ended, halt, open) = (&ended, &halt, &open);
                    let serving = thread::Builder::new().spawn_scoped(scope, move || {
                        let served = serve(&stream, from, halt);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).extend(served);
                        open.end(host(from.ip()));
                    });
                    if serving.is_err() {
                        // Without a thread the connection is closed.
                        open.end(host(from.ip()));
                    }
                };
                for served in take_ended() {
                    goes_on &= on_turn(Some(served));
                }
                goes_on = goes_on && on_turn(None);
                match refused {
                    _ if !goes_on => {}
                    io::ErrorKind::WouldBlock => await_readable(&self.listener, LOOK),
                    // Too many open files, for example: the connection waits on.
                    _ => thread::park_timeout(LOOK),
                }
            }
            halt.store(true, Ordering::Relaxed);
        });
        for served in take_ended() {
            on_turn(Some(served));
        }
    }
}

/// The open connections of each host.
#[derive(Debug, Default)]
struct Connections(Mutex<BTreeMap<IpAddr, usize>>);

impl Connections {
    /// Whether one more of `host` has room.
    fn admit(&self, host: IpAddr, most: usize) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&host).copied().unwrap_or(0);
        let has_room = all < most && own < most.div_ceil(2);
        if has_room {
            open.insert(host, own + 1);
        }
        has_room
    }

    fn end(&self, host: IpAddr) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&host) {
            *own = own.saturating_sub(1);
        }
        open.retain(|_, own| *own > 0);
    }
}

/// Serves one connection to its end. Returns what a load connection has carried.
fn serve(mut stream: &TcpStream, from: SocketAddr, halt: &AtomicBool) -> Option<TcpServed> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(LOOK)).ok()?;
    // A client that does not read its answers is not worth a thread.
    stream.set_write_timeout(Some(IDLE)).ok()?;
    let mut reader = Patient { stream, halt, silent: 0 };
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
    stream: &'a TcpStream,
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
    fn one_host_gets_half_of_the_connections() {
        let [one, other, third] = [1, 2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        let open = Connections::default();
        let admitted = |hosts: &[IpAddr]| hosts.iter().map(|host| open.admit(*host, 5)).collect::<Vec<_>>();
        assert_eq!(admitted(&[one, one, one, one]), [true, true, true, false]);
        assert_eq!(admitted(&[other, other, other, third]), [true, true, false, false]);
        open.end(one);
        assert_eq!(admitted(&[third, one]), [true, false]);
        open.end(third);
        assert_eq!(admitted(&[one, one]), [true, false]);
        // Hosts without connections are forgotten.
        for host in [one, one, one, other, other] {
            open.end(host);
        }
        assert!(open.0.lock().unwrap().is_empty());
    }

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
