//! A small HTTP server: one text for monitoring systems, or a page that posts back.

use std::{
    cmp::Reverse,
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use giusto_units::{TimeDelta, Timestamp};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use crate::Clock;

/// Connections at a time; a further one takes the place of the first of the host that has the most.
const MAX_CONNECTIONS: usize = 8;
/// The longest header of a request, in bytes: a scraper sends a few hundred, a browser a thousand.
const MAX_REQUEST: usize = 8192;
/// The longest body of a request, in bytes: session descriptions have 10 kB.
const MAX_BODY: usize = 256 * 1024;
/// The most header lines of a request.
const MAX_HEADERS: usize = 64;
/// The time that a client has for its request, and again for reading the answer.
const CLIENT_TIMEOUT: TimeDelta = TimeDelta::from_seconds(2);
/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(200);

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method, such as `GET`.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// The header `Host`.
    pub host: Option<String>,
    /// The header `Origin`: the site whose page asks.
    pub origin: Option<String>,
    /// Its body, with POST.
    pub body: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code and phrase, and further header lines if there are any.
    pub status: &'static str,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// Its body.
    pub body: String,
}

impl Request {
    /// A request without its body, and the length of the body, from the lines of its header; `None` if they are damaged.
    pub fn parse(head: &[u8]) -> Option<(Self, usize)> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        parsed.parse(head).ok().filter(httparse::Status::is_complete)?;
        let header = |name: &str| {
            let found = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(found.value).ok().map(|value| value.trim().to_owned())
        };
        // Without a length, a request has no body (RFC 9112 §6.3).
        let length = header("Content-Length").map_or(Ok(0), |length| length.parse());
        let request = Self {
            method: parsed.method?.to_owned(),
            path: parsed.path?.split('?').next()?.to_owned(),
            host: header("Host"),
            origin: header("Origin"),
            body: Vec::new(),
        };
        Some((request, length.ok()?))
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

impl Response {
    /// Status 200.
    pub fn ok(content_type: &'static str, body: impl Into<String>) -> Self {
        Self { status: "200 OK", content_type, body: body.into() }
    }

    /// Another status, with a text.
    pub fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type: PLAIN, body: body.into() }
    }
}

/// An HTTP/1.1 server (RFC 9112) with one request per connection. Dropping it closes the port.
///
/// It has threads of its own, bounded in number; a client is bounded in time and in bytes.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`; `respond` answers each request, with the client's address. It runs in threads of the server.
    ///
    /// # Errors
    ///
    /// Where the address is not available.
    pub fn start(
        address: SocketAddr,
        respond: impl Fn(SocketAddr, &Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, respond) = (Arc::clone(&stop), Arc::new(respond));
        let serve = move || accept(&listener, &respond, &stopped);
        let thread = thread::Builder::new().name("http".to_owned()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only fails if that thread has panicked.
            let _ = thread.join();
        }
    }
}

/// Serves one text at one path. Dropping it closes the port.
///
/// `render` is never called on the thread that measures. See [`Server`] for its bounds.
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
pub struct TextServer(Server);

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
        let respond = move |_, request: &Request| match request.method.as_str() {
            _ if !request.host.as_deref().is_none_or(is_own) => Response::text(
                "421 Misdirected Request",
                "Host must be an IP address, localhost or the name of this machine\n",
            ),
            "GET" | "HEAD" if request.path == path => Response::ok(content_type, render()),
            "GET" | "HEAD" => Response::text("404 Not Found", format!("nothing here: see {path}\n")),
            _ => Response::text("405 Method Not Allowed\r\nAllow: GET, HEAD", "use GET\n"),
        };
        Server::start(address, respond).map(Self)
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// Whether the header `Host` is one that a page of another site cannot have: it must be an IP address, `localhost`, or the name of
/// this machine. The name of another site may lead here too, by its DNS server (DNS rebinding).
fn is_own(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
        return true;
    }
    if let Some(v6) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return v6.parse::<IpAddr>().is_ok();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || (!name.is_empty() && name.eq_ignore_ascii_case(own.trim()))
}

/// The open connections, in the order in which they came.
#[derive(Default)]
struct Slots(Mutex<Vec<(u64, IpAddr, TcpStream)>>);

impl Slots {
    /// Takes a slot for a connection from `ip`; where there is none, that of the host that has the most, whose first is closed.
    fn take(self: &Arc<Self>, id: u64, ip: IpAddr, connection: TcpStream) -> Slot {
        let mut open = self.lock();
        if open.len() >= MAX_CONNECTIONS {
            let held = |of: IpAddr| open.iter().filter(|(_, ip, _)| *ip == of).count();
            let counts = open.iter().map(|(_, ip, _)| held(*ip)).enumerate();
            if let Some((first, _)) = counts.max_by_key(|(index, held)| (*held, Reverse(*index))) {
                // Its thread reads the end.
                let _ = open.remove(first).2.shutdown(Shutdown::Both);
            }
        }
        open.push((id, ip, connection));
        Slot(Arc::clone(self), id)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, IpAddr, TcpStream)>> {
        // The list is consistent after each change, even if a thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the open connections; dropping it makes room for another.
struct Slot(Arc<Slots>, u64);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.lock().retain(|(id, ..)| *id != self.1);
    }
}

fn accept(
    listener: &TcpListener,
    respond: &Arc<impl Fn(SocketAddr, &Request) -> Response + Send + Sync + 'static>,
    stop: &AtomicBool,
) {
    let open = Arc::new(Slots::default());
    let mut number = 0;
    while !stop.load(Relaxed) {
        let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // An interruption of the wait is handled in the next turn.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(LOOK)), None);
        match listener.accept() {
            Ok((client, from)) => {
                // Without a descriptor for it, the connection is closed.
                let Ok(same) = client.try_clone() else { continue };
                number += 1;
                let slot = open.take(number, from.ip(), same);
                let respond = Arc::clone(respond);
                // Without a thread, the connection is closed.
                let _ = thread::Builder::new().name("http-client".to_owned()).spawn(move || {
                    // A client that has disconnected needs no answer.
                    let _ = answer(client, from, &*respond);
                    drop(slot);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Too many open files, for example: they become fewer.
            Err(_) => thread::park_timeout(LOOK),
        }
    }
}

fn answer(
    mut client: TcpStream,
    from: SocketAddr,
    respond: &impl Fn(SocketAddr, &Request) -> Response,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT.to_std()))?;
    let (request, response) = match read_request(&mut client)? {
        Some(request) => {
            let response = respond(from, &request);
            (request.method, response)
        }
        None => (String::new(), Response::text("400 Bad Request", "not an HTTP request\n")),
    };
    let Response { status, content_type, body } = response;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if request == "HEAD" { "" } else { &body };
    client.write_all(format!("{head}{body}").as_bytes())?;
    client.shutdown(Shutdown::Write)
}

/// Reads a request: its header and its body, within their longest lengths and the timeout. `None` if it is none.
fn read_request(client: &mut TcpStream) -> io::Result<Option<Request>> {
    let clock = Clock::start();
    let end = clock.now() + CLIENT_TIMEOUT;
    let mut bytes = Vec::new();
    let blank = |bytes: &[u8]| bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
    let head = loop {
        if let Some(head) = blank(&bytes) {
            break head;
        }
        if bytes.len() >= MAX_REQUEST || !read_part(client, clock, end, &mut bytes)? {
            return Ok(None);
        }
    };
    let body = bytes.split_off(head);
    let Some((request, length)) = Request::parse(&bytes).filter(|(_, length)| *length <= MAX_BODY) else {
        return Ok(None);
    };
    let mut request = Request { body, ..request };
    while request.body.len() < length {
        if !read_part(client, clock, end, &mut request.body)? {
            return Ok(None);
        }
    }
    request.body.truncate(length);
    Ok(Some(request))
}

/// Appends what has arrived; false at the end of the stream.
fn read_part(client: &mut TcpStream, clock: Clock, end: Timestamp, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; 4096];
    let left = end.saturating_since(clock.now()).to_std();
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    client.set_read_timeout(Some(left))?;
    let length = client.read(&mut part)?;
    bytes.extend_from_slice(part.get(..length).unwrap_or_default());
    Ok(length > 0)
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
    fn the_name_of_another_site_gets_no_text() {
        let server = server();
        for (host, status) in [
            ("localhost", "200 OK"),
            ("127.0.0.1:9100", "200 OK"),
            ("192.0.2.7", "200 OK"),
            ("[::1]:9100", "200 OK"),
            ("[::1]", "200 OK"),
            ("evil.example", "421 Misdirected Request"),
            ("evil.example:9100", "421 Misdirected Request"),
            ("127.0.0.1.evil.example", "421 Misdirected Request"),
            ("localhost.evil.example", "421 Misdirected Request"),
            ("", "421 Misdirected Request"),
        ] {
            let answer = ask(&server, format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{host:?}: {answer}");
            assert_eq!(answer.ends_with("a 1\n"), status == "200 OK", "{host:?}");
        }
    }

    #[test]
    fn silent_clients_keep_nobody_out() {
        let server = server();
        let silent: Vec<_> =
            (0..3 * MAX_CONNECTIONS).map(|_| TcpStream::connect(server.local_addr()).unwrap()).collect();
        for _ in 0..3 {
            let answer = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
            assert!(answer.ends_with("a 1\n"), "{answer}");
        }
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

    #[test]
    fn a_posted_body_arrives_whole_or_not_at_all() {
        let respond = |_, request: &Request| {
            let text = format!("{} {} {:?}", request.method, request.body.len(), request.origin);
            Response::ok("text/plain", text)
        };
        let server = TextServer(Server::start(([127, 0, 0, 1], 0).into(), respond).unwrap());
        let post = |length: &str, sent: usize| {
            let head = format!("POST /a HTTP/1.1\r\nOrigin: http://x\r\ncontent-length: {length}\r\n\r\n");
            ask(&server, &[head.as_bytes(), &vec![b'a'; sent]].concat())
        };
        assert!(post("100000", 100_000).ends_with("POST 100000 Some(\"http://x\")"));
        assert!(post("0", 0).ends_with("POST 0 Some(\"http://x\")"));
        for length in ["-1", "99999999999", "ten"] {
            assert!(post(length, 10).starts_with("HTTP/1.1 400"), "{length}");
        }
    }
}
