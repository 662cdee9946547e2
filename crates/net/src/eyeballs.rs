//! "Happy eyeballs" (RFC 8305): the addresses of a host in the order in which they are tried, and the race of TCP connections to them.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto_units::{TimeDelta, Timestamp};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use socket2::Socket;

use crate::{Clock, PathOptions, SocketError, TrafficClass, socket::stream_socket};

/// "Connection Attempt Delay" of RFC 8305 §5: "One recommended value for a default delay is 250 milliseconds".
pub const ATTEMPT_DELAY: TimeDelta = TimeDelta::from_millis(250);
/// Maximum time between two checks of the stop flag.
const LOOK: TimeDelta = TimeDelta::from_millis(100);

/// The addresses in the order in which they are tried: the families take turns, beginning with that of the first address (RFC 8305 §4,
/// with a "First Address Family Count" of 1). Within a family the order is that of the system (RFC 6724).
pub fn in_turns(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<&SocketAddr>, Vec<&SocketAddr>) =
        addresses.iter().partition(|address| address.is_ipv6() == is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::with_capacity(addresses.len());
    while all.len() < addresses.len() {
        all.extend(first.next().copied());
        all.extend(second.next().copied());
    }
    all
}

/// A TCP connection to that of the addresses which accepts one first, and this address. An attempt begins 250 ms after the one before,
/// or at once where all have failed, and is given up after `limit`; with the first success the others end (RFC 8305 §5).
///
/// # Errors
///
/// That of the last attempt, where all fail. The source of [`SocketError::Connect`] is [`io::ErrorKind::TimedOut`] after `limit`,
/// [`io::ErrorKind::Interrupted`] after `stop`, and [`io::ErrorKind::AddrNotAvailable`] where there is no address.
pub fn connect_first(
    addresses: &[SocketAddr],
    (path, class): (&PathOptions, TrafficClass),
    limit: TimeDelta,
    stop: &AtomicBool,
) -> Result<(SocketAddr, TcpStream), SocketError> {
    let clock = Clock::start();
    let in_turns = in_turns(addresses);
    let mut waiting = in_turns.iter().copied();
    let mut under_way: Vec<Attempt> = Vec::new();
    let nowhere = in_turns.first().copied().unwrap_or_else(|| ([0; 4], 0).into());
    let mut failure = failed(nowhere, io::ErrorKind::AddrNotAvailable.into());
    let mut next_at = Timestamp::ZERO;
    loop {
        let now = clock.now();
        while under_way.is_empty() || now >= next_at {
            let Some(to) = waiting.next() else {
                next_at = Timestamp::MAX;
                break;
            };
            next_at = now + ATTEMPT_DELAY;
            match Attempt::begin(to, path, class, now + limit) {
                Ok(attempt) => under_way.push(attempt),
                Err(error) => failure = error,
            }
        }
        if under_way.is_empty() {
            return Err(failure);
        }
        let due = under_way.iter().map(|attempt| attempt.until).chain([next_at, now + LOOK]).min();
        let wait = due.unwrap_or(now).saturating_since(now);
        let mut wanted: Vec<_> =
            under_way.iter().map(|attempt| PollFd::new(attempt.socket.as_fd(), PollFlags::POLLOUT)).collect();
        // Interrupted by a signal, it is asked again below.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(wait.to_std())), None);
        let ready: Vec<bool> = wanted.iter().map(|fd| fd.any() == Some(true)).collect();
        if stop.load(Ordering::Relaxed) {
            return Err(failed(nowhere, io::ErrorKind::Interrupted.into()));
        }
        let now = clock.now();
        for (attempt, is_ready) in std::mem::take(&mut under_way).into_iter().zip(ready) {
            let to = attempt.to;
            match attempt.outcome(is_ready, now) {
                Outcome::UnderWay(attempt) => under_way.push(attempt),
                Outcome::Connected(stream) => return Ok((to, stream)),
                Outcome::Failed(error) => failure = failed(to, error),
            }
        }
    }
}

fn failed(address: SocketAddr, source: io::Error) -> SocketError {
    SocketError::Connect { address, source }
}

/// A connection that is being made.
struct Attempt {
    to: SocketAddr,
    socket: Socket,
    until: Timestamp,
}

enum Outcome {
    UnderWay(Attempt),
    Connected(TcpStream),
    Failed(io::Error),
}

impl Attempt {
    fn begin(
        to: SocketAddr,
        path: &PathOptions,
        class: TrafficClass,
        until: Timestamp,
    ) -> Result<Self, SocketError> {
        let (socket, name) = stream_socket(to, path, class)?;
        let connect = || {
            socket.set_nonblocking(true)?;
            match socket.connect(&name) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(()),
            }
        };
        connect().map_err(|error| failed(to, error))?;
        Ok(Self { to, socket, until })
    }

    fn outcome(self, is_ready: bool, now: Timestamp) -> Outcome {
        if !is_ready {
            let is_late = now >= self.until;
            return if is_late {
                Outcome::Failed(io::ErrorKind::TimedOut.into())
            } else {
                Outcome::UnderWay(self)
            };
        }
        let connected = match self.socket.take_error() {
            Ok(None) => self.socket.set_nonblocking(false),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match connected {
            Ok(()) => Outcome::Connected(self.socket.into()),
            Err(error) => Outcome::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_families_take_turns() {
        let parse =
            |words: &str| words.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let all = parse("[::1]:1 [::2]:1 [::3]:1 1.1.1.1:1 1.1.1.2:1");
        assert_eq!(in_turns(&all), parse("[::1]:1 1.1.1.1:1 [::2]:1 1.1.1.2:1 [::3]:1"));
        let all = parse("1.1.1.1:1 [::1]:1 1.1.1.2:1");
        assert_eq!(in_turns(&all), parse("1.1.1.1:1 [::1]:1 1.1.1.2:1"));
        assert!(in_turns(&[]).is_empty());
    }

    /// A listener whose queue is full, and which therefore answers no further SYN, and the connections that fill it.
    fn silent() -> (TcpListener, Vec<TcpStream>) {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = TcpListener::from(socket);
        let to = listener.local_addr().unwrap();
        let wait = std::time::Duration::from_millis(200);
        let filling = std::iter::from_fn(|| TcpStream::connect_timeout(&to, wait).ok()).take(64).collect();
        (listener, filling)
    }

    #[test]
    fn a_silent_address_costs_a_quarter_of_a_second_and_a_closed_one_nothing() {
        let path = (&PathOptions::default(), TrafficClass::default());
        let stop = AtomicBool::new(false);
        let limit = TimeDelta::from_seconds(20);
        let (full, _filling) = silent();
        let (silent, listener) = (full.local_addr().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let clock = Clock::start();
        let (to, mut stream) = connect_first(&[silent, open], path, limit, &stop).unwrap();
        let took = clock.now() - Timestamp::ZERO;
        assert_eq!((to, stream.peer_addr().unwrap()), (open, open));
        // The first has its head start, and is not waited for.
        assert!(took >= ATTEMPT_DELAY && took < TimeDelta::from_seconds(15), "{took}");
        // It blocks, as another one does.
        let (mut far, _) = listener.accept().unwrap();
        io::Write::write_all(&mut far, b"x").unwrap();
        io::Read::read_exact(&mut stream, &mut [0]).unwrap();

        let (to, _) = connect_first(&[closed, open, silent], path, limit, &stop).unwrap();
        assert_eq!(to, open);
        // If all fail, the error is that of the last attempt.
        let error = connect_first(&[closed, closed], path, limit, &stop).unwrap_err();
        let SocketError::Connect { address, source } = error else { panic!("{error}") };
        assert_eq!((address, source.kind()), (closed, io::ErrorKind::ConnectionRefused));
        let limit = TimeDelta::from_millis(50);
        let kind = |outcome: Result<_, SocketError>| match outcome {
            Err(SocketError::Connect { source, .. }) => source.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(connect_first(&[silent], path, limit, &stop)), io::ErrorKind::TimedOut);
        assert_eq!(kind(connect_first(&[], path, limit, &stop)), io::ErrorKind::AddrNotAvailable);
        let stop = AtomicBool::new(true);
        assert_eq!(kind(connect_first(&[silent], path, limit, &stop)), io::ErrorKind::Interrupted);
    }
}
