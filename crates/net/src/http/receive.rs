//! The request of a connection, from its bytes.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
};

use giusto_units::Timestamp;

use super::{
    limits::Limits,
    message::{Announced, Request, Response},
};
use crate::Clock;

/// The longest header of a request, in bytes: a scraper sends a few hundred, a browser a thousand.
const MAX_HEADER: usize = 16 * 1024;

/// What a connection brought.
pub(super) enum Received {
    Request(Request),
    /// What is said to a client whose request is not answered.
    Refused(Response),
}

/// Reads a request: its header and its body, within their longest lengths and times.
///
/// # Errors
///
/// The client has gone, or its header did not come in time.
pub(super) fn receive(client: &mut TcpStream, limits: &Limits) -> io::Result<Received> {
    let damaged = || Received::Refused(Response::text("400 Bad Request", "not an HTTP request\n"));
    let refused = |status, text: &str| Received::Refused(Response::text(status, text));
    let mut reader = Reader::new(client, limits);
    let mut bytes = Vec::new();
    let end = loop {
        // A part may bring the rest of the blank line.
        let seen = bytes.len().saturating_sub(3);
        if !reader.read(&mut bytes)? {
            return Ok(damaged());
        }
        let fresh = bytes.get(seen..).unwrap_or_default();
        if let Some(at) = fresh.windows(4).position(|four| four == b"\r\n\r\n") {
            break seen + at + 4;
        }
        if bytes.len() > MAX_HEADER {
            let text = format!("the header of a request has at most {MAX_HEADER} bytes\n");
            return Ok(refused("431 Request Header Fields Too Large", &text));
        }
    };
    let body = bytes.split_off(end);
    let Some((request, announced)) = Request::parse(&bytes) else { return Ok(damaged()) };
    let Announced { length, coded, waits } = announced;
    if coded {
        return Ok(refused("411 Length Required", "send the body with a Content-Length\n"));
    }
    if length > limits.max_body {
        let text = format!("the body of a request has at most {} bytes\n", limits.max_body);
        return Ok(refused("413 Content Too Large", &text));
    }
    let mut request = Request { body, ..request };
    if waits && request.body.len() < length {
        reader.client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    reader.restart(limits);
    while request.body.len() < length {
        match reader.read(&mut request.body) {
            Ok(true) => {}
            Ok(false) => return Ok(damaged()),
            Err(error) if is_late(&error) => {
                return Ok(refused("408 Request Timeout", "the body came too slowly\n"));
            }
            Err(error) => return Err(error),
        }
    }
    request.body.truncate(length);
    Ok(Received::Request(request))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Reads from a client until a time.
struct Reader<'a> {
    client: &'a mut TcpStream,
    clock: Clock,
    end: Timestamp,
}

impl<'a> Reader<'a> {
    fn new(client: &'a mut TcpStream, limits: &Limits) -> Self {
        let clock = Clock::start();
        Self { client, clock, end: clock.now() + limits.timeout }
    }

    /// Gives the client its whole time again.
    fn restart(&mut self, limits: &Limits) {
        self.end = self.clock.now() + limits.timeout;
    }

    /// Appends what has arrived; false at the end of the stream.
    fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let mut part = [0; 16 * 1024];
        let left = self.end.saturating_since(self.clock.now()).to_std();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_read_timeout(Some(left))?;
        let length = self.client.read(&mut part)?;
        bytes.extend_from_slice(part.get(..length).unwrap_or_default());
        Ok(length > 0)
    }
}
