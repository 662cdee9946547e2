//! An HTTP server of one text, for monitoring systems.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use giusto_units::TimeDelta;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use crate::Clock;

/// Connections at a time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 8;
/// The longest request, in bytes: a scraper sends a few hundred.
const MAX_REQUEST: usize = 8192;
/// The most header lines of a request.
const MAX_HEADERS: usize = 64;
/// The time that a client has for its request, and again for reading the answer.
const CLIENT_TIMEOUT: TimeDelta = TimeDelta::from_seconds(2);
/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(200);

/// Serves one text at one path (HTTP/1.1, RFC 9112). Dropping it closes the port.
///
/// It has threads of its own, bounded in number; a client is bounded in time and in bytes. `render` is never called on the
/// thread that measures.
///
/// # Example
///
/// ```
/// use std::{io::{Read, Write}, net::TcpStream};
/// use giusto_net::http::TextServer;
///
/// let server = TextServer::start(([127, 0, 0, 1], 0).into(), "/metrics", "text/plain", || "up 1\n".to_owned())?;
/// let mut client = TcpStream::connect(server.local_addr())?;
/// client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TextServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The text and its path.
struct Page<F> {
    path: &'static str,
    content_type: &'static str,
    render: F,
}

impl TextServer {
    /// Listens on `address`; `render` makes the text for each request of `path`.
    ///
    /// # Errors
    ///
    /// Where the address is not available.
    pub fn start(
        address: SocketAddr,
        path: &'static str,
        content_type: &'static str,
        render: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, page) = (Arc::clone(&stop), Arc::new(Page { path, content_type, render }));
        let serve = move || accept(&listener, &page, &stopped);
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TextServer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only fails if that thread has panicked.
            let _ = thread.join();
        }
    }
}

/// One of the open connections; dropping it makes room for another.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn accept<F: Fn() -> String + Send + Sync + 'static>(
    listener: &TcpListener,
    page: &Arc<Page<F>>,
    stop: &AtomicBool,
) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Relaxed) {
        let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // An interruption of the wait is handled in the next turn.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(LOOK)), None);
        match listener.accept() {
            Ok((client, _)) => {
                let slot = Slot(Arc::clone(&open));
                if open.fetch_add(1, Relaxed) < MAX_CONNECTIONS {
                    let page = Arc::clone(page);
                    // Without a thread, the connection is closed.
                    let _ = thread::Builder::new().name("metrics-client".to_owned()).spawn(move || {
                        // A client that has disconnected needs no answer.
                        let _ = answer(client, &page);
                        drop(slot);
                    });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Too many open files, for example: they become fewer.
            Err(_) => thread::park_timeout(LOOK),
        }
    }
}

fn answer<F: Fn() -> String>(mut client: TcpStream, page: &Page<F>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT.to_std()))?;
    let request = read_request(&mut client)?;
    let (status, content_type, text) = respond(&request, page);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let body = if request.starts_with(b"HEAD ") { "" } else { &text };
    client.write_all(format!("{head}{body}").as_bytes())?;
    client.shutdown(Shutdown::Write)
}

/// The status, the type and the text of the answer.
fn respond<F: Fn() -> String>(request: &[u8], page: &Page<F>) -> (&'static str, &'static str, String) {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let complete = parsed.parse(request).is_ok_and(|status| status.is_complete());
    match (parsed.method, parsed.path) {
        (Some("GET" | "HEAD"), Some(target)) if complete => {
            if target.split('?').next() == Some(page.path) {
                ("200 OK", page.content_type, (page.render)())
            } else {
                ("404 Not Found", PLAIN, format!("nothing here: see {}\n", page.path))
            }
        }
        (Some(_), Some(_)) if complete => {
            ("405 Method Not Allowed\r\nAllow: GET, HEAD", PLAIN, "use GET\n".to_owned())
        }
        _ => ("400 Bad Request", PLAIN, "not an HTTP request\n".to_owned()),
    }
}

/// Reads a request up to the end of its header, its longest length, or the timeout.
fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let clock = Clock::start();
    let end = clock.now() + CLIENT_TIMEOUT;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while request.len() < MAX_REQUEST && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = end.saturating_since(clock.now()).to_std();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => break,
            length => request.extend_from_slice(part.get(..length).unwrap_or_default()),
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> TextServer {
        TextServer::start(([127, 0, 0, 1], 0).into(), "/metrics", "text/x", || "a 1\n".to_owned()).unwrap()
    }

    fn ask(server: &TextServer, request: &[u8]) -> String {
        let mut client = TcpStream::connect(server.local_addr()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client.write_all(request).unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is no failure.
        let _ = client.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn each_request_gets_its_status() {
        let server = server();
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", "a 1\n"),
            ("GET /metrics?x=1 HTTP/1.0\r\nA: b\r\n\r\n", "200 OK", "a 1\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found", "nothing here: see /metrics\n"),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found", "nothing here: see /metrics\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "use GET\n"),
            ("\x16\x03\x01\r\n\r\n", "400 Bad Request", "not an HTTP request\n"),
        ] {
            let answer = ask(&server, request.as_bytes());
            let (head, found) =
                answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {answer}"));
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert_eq!(found, body, "{request}");
        }
        let long = [&b"GET /metrics HTTP/1.1\r\nA: "[..], &[b'a'; 2 * MAX_REQUEST]].concat();
        let answer = ask(&server, &long);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[test]
    fn silent_clients_take_no_more_than_their_slots() {
        let server = server();
        let silent: Vec<_> =
            (0..3 * MAX_CONNECTIONS).map(|_| TcpStream::connect(server.local_addr()).unwrap()).collect();
        // The slots are free again after the clients' time, however busy this machine is.
        let answered = (0..200).any(|_| {
            thread::park_timeout(Duration::from_millis(100));
            ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n")
        });
        assert!(answered);
        drop(silent);
    }

    #[test]
    fn a_dropped_server_closes_its_port() {
        let server = server();
        let address = server.local_addr();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
        assert!(TcpListener::bind(address).is_ok());
    }
}
