//! A client that reports to a server.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use giusto_units::{TimeDelta, Timestamp};

use crate::Clock;

/// The longest time for a report, from the connection to the end of the answer.
const MAX_TIME: TimeDelta = TimeDelta::from_seconds(30);

/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 16_384;

/// Why a server did not accept a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// It cannot be reached, or does not answer in time.
    #[error("{url}: {error}")]
    Io {
        /// Scheme and host of the URL: the rest may be secret.
        url: String,
        /// What the system says.
        error: io::Error,
    },
    /// It refused.
    #[error("{url}: the server answered with status {status}")]
    Status {
        /// Scheme and host of the URL.
        url: String,
        /// The status code.
        status: u16,
    },
    /// The answer is no HTTP.
    #[error("{0}: the server does not answer by HTTP")]
    Answer(String),
}

/// Posts a JSON text to a URL that begins with `http://`, or with the feature `tls` `https://`. `timeout` is the time for each step: connecting, sending and the answer; all together have 30 s.
///
/// # Errors
///
/// [`PostError`] unless the status is 200 to 299.
///
/// # Example
///
/// ```
/// use giusto_net::http::{Limits, Response, Server, post};
/// use giusto_units::TimeDelta;
///
/// let server = Server::start(([127, 0, 0, 1], 0).into(), Limits::default(), |_, request| {
///     let accepted = request.method == "POST" && request.path == "/in" && request.body == b"{}";
///     Response::text(if accepted { "202 Accepted" } else { "404 Not Found" }, "")
/// })?;
/// let url = |path| format!("http://{}{path}", server.local_addr());
/// let second = TimeDelta::from_seconds(1);
/// assert!(post(&url("/in"), "{}", second).is_ok());
/// assert!(post(&url("/out"), "{}", second).unwrap_err().to_string().ends_with("status 404"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn post(url: &str, json: &str, timeout: TimeDelta) -> Result<(), PostError> {
    let clock = Clock::start();
    let ends = clock.now() + MAX_TIME;
    let answer = exchange(url, json, Limit { clock, timeout, ends });
    let url = shown(url);
    let answer = answer.map_err(|error| PostError::Io { url: url.clone(), error })?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    // Where the header is longer than what was read, the status has been read all the same.
    let is_http = !matches!(parsed.parse(&answer), Err(error) if error != httparse::Error::TooManyHeaders);
    match parsed.code.filter(|_| is_http) {
        Some(200..=299) => Ok(()),
        Some(status) => Err(PostError::Status { url, status }),
        None => Err(PostError::Answer(url)),
    }
}

/// The time that is left.
#[derive(Debug, Clone, Copy)]
struct Limit {
    clock: Clock,
    timeout: TimeDelta,
    ends: Timestamp,
}

impl Limit {
    /// For the next step.
    fn step(&self) -> io::Result<Duration> {
        let left = self.ends.saturating_since(self.clock.now()).min(self.timeout);
        if left > TimeDelta::ZERO { Ok(left.to_std()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

/// A connection whose steps are limited.
struct Limited(TcpStream, Limit);

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(self.1.step()?))?;
        self.0.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(self.1.step()?))?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Scheme and host of a URL.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "the URL".to_owned() };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default())
}

fn exchange(url: &str, json: &str, limit: Limit) -> io::Result<Vec<u8>> {
    let (secured, host, path) = parts(url).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "expected a URL such as http://HOST:PORT/PATH")
    })?;
    let bare = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(bare, _)| bare);
    let port = if secured { ":443" } else { ":80" };
    let name = format!("{host}{}", bare.map_or(port, |_| ""));
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in name.to_socket_addrs()? {
        let server = match TcpStream::connect_timeout(&address, limit.step()?) {
            Ok(server) => Limited(server, limit),
            Err(error) => {
                last = error;
                continue;
            }
        };
        let length = json.len();
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{json}"
        );
        #[cfg(feature = "tls")]
        if secured {
            let own = bare.unwrap_or(host).trim_start_matches('[').trim_end_matches(']');
            return talk(super::tls::connect(own, &super::tls::bundle(), server)?, &request);
        }
        return talk(server, &request);
    }
    Err(last)
}

/// Whether a URL asks for TLS, its host with the port, and its path.
fn parts(url: &str) -> Option<(bool, &str, &str)> {
    let secured = url.strip_prefix("https://").filter(|_| cfg!(feature = "tls"));
    let rest = secured.or_else(|| url.strip_prefix("http://"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    Some((secured.is_some(), host, path))
}

/// Asks, and reads the answer up to its end, or to the end of its header.
fn talk(mut server: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    server.write_all(request.as_bytes())?;
    server.flush()?;
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    let mut server = server.take(MAX_ANSWER);
    loop {
        match answer.windows(4).position(|end| end == b"\r\n\r\n") {
            // An interim response, which may come before the final one without being asked for (RFC 9110 §15.2).
            Some(end) if answer.starts_with(b"HTTP/1.1 1") => drop(answer.drain(..end + 4)),
            Some(_) => return Ok(answer),
            None => match server.read(&mut part)? {
                0 => return Ok(answer),
                length => answer.extend(part.iter().take(length)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn errors_do_not_show_the_secret_part_of_a_url() {
        for (url, expected) in [
            ("https://hooks.example/services/T0/secret", "https://hooks.example"),
            ("http://user:secret@127.0.0.1:80?secret", "http://127.0.0.1:80"),
            ("hooks.example/secret", "the URL"),
        ] {
            assert_eq!(shown(url), expected);
        }
        for url in ["ftp://hooks.example/secret", "https://secret@127.0.0.1:9/", "http://127.0.0.1:9?secret"]
        {
            let error = post(url, "{}", TimeDelta::from_seconds(1)).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn interim_responses_come_before_the_answer() {
        for (answer, expected) in [
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                None,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n", Some("status 404")),
            ("HTTP/1.1 100 Continue\r\n\r\n", Some("does not answer by HTTP")),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let server = thread::spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                let _ = client.read(&mut [0; 1024]).unwrap();
                client.write_all(answer.as_bytes()).unwrap();
            });
            let error = post(&url, "{}", TimeDelta::from_seconds(5)).err().map(|error| error.to_string());
            assert_eq!(error.is_none(), expected.is_none(), "{error:?}");
            assert!(error.unwrap_or_default().ends_with(expected.unwrap_or_default()));
            server.join().unwrap();
        }
    }

    #[test]
    fn a_slow_answer_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        // A byte each 20 ms, within each timeout, for 4 s.
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut is_written = || {
                // Waits.
                let _ = client.read(&mut [0; 1024]);
                client.write_all(b"x").is_ok()
            };
            (0..200).take_while(|_| is_written()).count()
        });
        let clock = Clock::start();
        let (timeout, ends) = (TimeDelta::from_seconds(1), clock.now() + TimeDelta::from_millis(300));
        let error = exchange(&url, "{}", Limit { clock, timeout, ends }).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(server.join().unwrap() < 200);
    }
}
