//! TCP connections through a relay: intended for a few control connections.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::ClockId,
};

use super::shared::{LOOK, Shared, spawn};
use crate::clock;

/// The maximum number of connections. Each has two threads.
const MAX_CONNECTIONS: usize = 16;
/// Interval between attempts to connect.
const RETRY: Duration = Duration::from_millis(10);

/// Accepts connections and copies each to the target and back, until the relay stops.
pub(super) fn serve(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut connections: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.load(Relaxed) {
        let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // Whether there is a connection, a timeout or a signal: `accept` finds out.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(LOOK)), None);
        let Ok((client, _)) = listener.accept() else { continue };
        connections.retain(|connection| !connection.is_finished());
        let ours = Arc::clone(shared);
        let begun = connections.len() < MAX_CONNECTIONS;
        let spawned = begun.then(|| spawn("relay-tcp-copy", move || pass(&ours, &client)));
        match spawned {
            Some(Ok(connection)) => connections.push(connection),
            // The client's connection is closed.
            _ => _ = shared.counters.refused_connections.fetch_add(1, Relaxed),
        }
    }
    for connection in connections {
        let _ = connection.join();
    }
}

/// Copies both directions of one connection until both have ended.
fn pass(shared: &Shared, client: &TcpStream) {
    let Some(server) = connect(shared).filter(|server| [client, server].into_iter().all(prepare)) else {
        shared.counters.refused_connections.fetch_add(1, Relaxed);
        return;
    };
    shared.counters.connections.fetch_add(1, Relaxed);
    thread::scope(|scope| {
        let back = thread::Builder::new()
            .name("relay-tcp-copy".to_owned())
            .spawn_scoped(scope, || copy(shared, &server, client));
        if back.is_ok() {
            copy(shared, client, &server);
        }
    });
}

/// Connects to the target, which may not listen yet.
fn connect(shared: &Shared) -> Option<TcpStream> {
    let begun = clock::read(ClockId::CLOCK_MONOTONIC);
    loop {
        if let Ok(server) = TcpStream::connect_timeout(&shared.target, LOOK) {
            return Some(server);
        }
        let waited = Duration::from_nanos(clock::read(ClockId::CLOCK_MONOTONIC).saturating_sub(begun));
        if waited >= shared.connect_timeout || shared.stop.load(Relaxed) {
            return None;
        }
        let _ = ppoll(&mut [], Some(TimeSpec::from_duration(RETRY)), None);
    }
}

/// Sets timeouts of reads and writes, so that they notice the end of the relay.
fn prepare(stream: &TcpStream) -> bool {
    let settings = [
        stream.set_nonblocking(false),
        stream.set_read_timeout(Some(LOOK)),
        stream.set_write_timeout(Some(LOOK)),
        stream.set_nodelay(true),
    ];
    settings.iter().all(Result::is_ok)
}

/// Copies one direction to its end, and forwards the end.
fn copy(shared: &Shared, from: &TcpStream, to: &TcpStream) {
    let ended = copy_bytes(shared, from, to);
    let (to_side, from_side) = match ended {
        Ok(()) => (to.shutdown(Shutdown::Write), Ok(())),
        Err(_) => (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both)),
    };
    // An end that is already closed needs no notification.
    let _ = to_side.and(from_side);
}

fn copy_bytes(shared: &Shared, mut from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if is_pause(&error) => 0,
            Err(error) => return Err(error),
        };
        write_all(shared, to, buffer.get(..read).unwrap_or(&[]))?;
        if shared.stop.load(Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
    }
}

fn write_all(shared: &Shared, mut to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() && !shared.stop.load(Relaxed) {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or(&[]),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A timeout or a signal: the caller checks whether to go on.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
