//! Texts for reading: one at one path, such as metrics, or several.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

use giusto_units::TimeDelta;

use super::{Limits, Request, Response, Server};

/// Serves one text at one path, or what a function answers. Dropping it closes the port.
///
/// `render` is never called on the thread that measures. Up to 8 clients are served at a time, each within 2 s.
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
        let limits = Limits { max_connections: 8, max_body: 0, timeout: TimeDelta::from_seconds(2) };
        Self::serve(address, limits, move |request| {
            if request.path == path {
                Response::ok(content_type, render())
            } else {
                Response::text("404 Not Found", format!("nothing here: see {path}\n"))
            }
        })
    }

    /// Listens on `address`; `respond` answers each GET and HEAD request that comes from this machine's own names.
    ///
    /// # Errors
    ///
    /// Where the address is not available.
    pub fn serve(
        address: SocketAddr,
        limits: Limits,
        respond: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let respond = move |_, request: &Request| match request.method.as_str() {
            _ if !request.host.as_deref().is_none_or(is_own) => Response::text(
                "421 Misdirected Request",
                "Host must be an IP address, localhost or the name of this machine\n",
            ),
            "GET" | "HEAD" => respond(request),
            _ => Response::text("405 Method Not Allowed", "use GET\n").with_header("Allow", "GET, HEAD"),
        };
        Server::start(address, limits, respond).map(Self)
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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
        time::Duration,
    };

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
        let long = [&b"GET /metrics HTTP/1.1\r\nA: "[..], &vec![b'a'; 40_000]].concat();
        let answer = ask(&server, &long);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[test]
    fn the_name_of_another_site_gets_no_text() {
        let server = server();
        let own = ["localhost", "127.0.0.1:9100", "192.0.2.7", "[::1]:9100", "[::1]"];
        let others =
            ["evil.example", "evil.example:9100", "127.0.0.1.evil.example", "localhost.evil.example", ""];
        for (hosts, status) in [(own, "200 OK"), (others, "421 Misdirected Request")] {
            for host in hosts {
                let answer =
                    ask(&server, format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{host:?}: {answer}");
                assert_eq!(answer.ends_with("a 1\n"), status == "200 OK", "{host:?}");
            }
        }
    }
}
