//! A client that reports to a server.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use giusto_units::TimeDelta;

/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 16_384;

/// Why a server did not accept a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// It cannot be reached, or does not answer in time.
    #[error("{url}: {error}")]
    Io {
        /// The URL.
        url: String,
        /// What the system says.
        error: io::Error,
    },
    /// It refused.
    #[error("{url}: the server answered with status {status}")]
    Status {
        /// The URL.
        url: String,
        /// The status code.
        status: u16,
    },
    /// The answer is no HTTP.
    #[error("{0}: the server does not answer by HTTP")]
    Answer(String),
}

/// Posts a JSON text to a URL that begins with `http://`, or with the feature `tls` `https://`. `timeout` is the time for each step: connecting, sending and the answer.
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
    let failed = |error| PostError::Io { url: url.to_owned(), error };
    let answer = exchange(url, json, timeout.to_std()).map_err(failed)?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    // Where the header is longer than what was read, the status has been read all the same.
    let is_http = !matches!(parsed.parse(&answer), Err(error) if error != httparse::Error::TooManyHeaders);
    match parsed.code.filter(|_| is_http) {
        Some(200..=299) => Ok(()),
        Some(status) => Err(PostError::Status { url: url.to_owned(), status }),
        None => Err(PostError::Answer(url.to_owned())),
    }
}

fn exchange(url: &str, json: &str, timeout: Duration) -> io::Result<Vec<u8>> {
    let (secured, host, path) = parts(url).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "expected a URL such as http://HOST:PORT/PATH")
    })?;
    let bare = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(bare, _)| bare);
    let port = if secured { ":443" } else { ":80" };
    let name = format!("{host}{}", bare.map_or(port, |_| ""));
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in name.to_socket_addrs()? {
        let server = match TcpStream::connect_timeout(&address, timeout) {
            Ok(server) => server,
            Err(error) => {
                last = error;
                continue;
            }
        };
        server.set_write_timeout(Some(timeout))?;
        server.set_read_timeout(Some(timeout))?;
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
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        match server.read(&mut part)? {
            0 => break,
            length => answer.extend(part.iter().take(length)),
        }
    }
    Ok(answer)
}
