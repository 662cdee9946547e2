//! Pages on loopback for the browser of the user: HTTP/1.1 on 127.0.0.1, behind a random token.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use super::{
    guard::{self, Guard},
    limits::Limits,
    message::{Request, Response},
    server::Server,
};

/// A request of a page that has passed all checks.
#[derive(Debug)]
pub struct PageRequest<'a> {
    request: &'a Request,
    nonce: &'a str,
}

impl PageRequest<'_> {
    /// What follows the question mark, as it came; empty if there is none.
    pub fn query(&self) -> &str {
        &self.request.query
    }

    /// The body, at most [`Limits::max_body`] bytes.
    pub fn body(&self) -> &[u8] {
        &self.request.body
    }

    /// The random text that the attribute `nonce` of each script and style element of a [page](Response::page) must have.
    pub fn nonce(&self) -> &str {
        self.nonce
    }
}

type Handler = Box<dyn Fn(&PageRequest<'_>) -> Response + Send + Sync>;

struct Route {
    method: &'static str,
    path: &'static str,
    handler: Handler,
}

/// What [`Pages`] answer. Paths are relative to the server's address: its first page has the path "".
#[derive(Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers GET and HEAD of `path`.
    #[must_use]
    pub fn get(
        self,
        path: &'static str,
        handler: impl Fn(&PageRequest<'_>) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.with("GET", path, Box::new(handler))
    }

    /// Answers POST of `path`.
    #[must_use]
    pub fn post(
        self,
        path: &'static str,
        handler: impl Fn(&PageRequest<'_>) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.with("POST", path, Box::new(handler))
    }

    fn with(mut self, method: &'static str, path: &'static str, handler: Handler) -> Self {
        self.0.push(Route { method, path, handler });
        self
    }

    /// The handler of a path, or the answer where there is none, with the methods that the path has.
    fn find(&self, method: &str, path: &str) -> Result<&Handler, Response> {
        let asked = if method == "HEAD" { "GET" } else { method };
        let mut methods = self.0.iter().filter(|route| route.path == path).peekable();
        let Some(first) = methods.peek() else {
            return Err(Response::text("404 Not Found", "nothing here\n"));
        };
        let allowed = if first.method == "GET" { "GET, HEAD" } else { "POST" };
        methods.find(|route| route.method == asked).map(|route| &route.handler).ok_or_else(|| {
            let refused = Response::text("405 Method Not Allowed", format!("use {allowed}\n"));
            refused.with_header("Allow", allowed)
        })
    }
}

/// Why pages are not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The port is not available.
    #[error("127.0.0.1:{port}: {error}: choose another port, or port 0 for any free port")]
    Bind {
        /// The port that was asked for.
        port: u16,
        /// What the system says.
        error: io::Error,
    },
    /// No thread or no event queue.
    #[error("the server of the page did not start: {0}: fewer open files and threads help")]
    System(#[from] io::Error),
    /// The system has no random numbers.
    #[error("the token of the page: {0}: the system must provide random numbers")]
    Random(#[from] rand::rngs::SysError),
}

/// Serves pages on loopback. Dropping it closes its port and cuts its streams off.
///
/// # What keeps others out
///
/// | from | limit |
/// |---|---|
/// | other hosts | the server is bound to 127.0.0.1 alone |
/// | other users of this machine | 128 random bits in the path of the address, compared in constant time: 404 without them |
/// | names of other sites (DNS rebinding) | `Host` must be the bound address, or `localhost` with its port: 421 |
/// | pages of other sites | `Origin` must be absent or our own: 403 |
/// | what a page might include | `Content-Security-Policy`: scripts and styles by nonce, no other server, no frames, no forms |
/// | too much at once | [`Limits`] |
///
/// Nothing is encrypted: it does not leave the machine.
///
/// # Example
///
/// ```
/// use std::{io::{Read, Write}, net::TcpStream};
/// use giusto_net::http::{Limits, Pages, Response, Routes};
///
/// let routes = Routes::new()
///     .get("", |request| Response::page(format!("<script nonce=\"{}\">let a = 1;</script>", request.nonce())))
///     .post("run", |_| Response::lines(|sink| {
///         for line in ["{\"done\":1}\n", "{\"done\":2}\n"] {
///             if sink.send(line).is_err() {
///                 return; // The page is gone.
///             }
///         }
///     }));
/// let pages = Pages::start(routes, 0, Limits::default())?;
/// let (address, path) = (pages.address(), pages.path());
/// let mut client = TcpStream::connect(address)?;
/// client.write_all(format!("POST {path}run HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("{\"done\":2}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pages {
    server: Server,
    path: String,
}

impl Pages {
    /// Listens with a new token on `port` of 127.0.0.1; 0 takes any free one.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the port and the fix.
    pub fn start(routes: Routes, port: u16, limits: Limits) -> Result<Self, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| StartError::Bind { port, error })?;
        let token = guard::random()?;
        let path = format!("/{token}/");
        let guard = Guard::new(token, listener.local_addr()?);
        let respond = move |_, request: &Request| match guard::random() {
            Ok(nonce) => {
                let response = respond(&guard, &routes, request, &nonce);
                let nonce = response.is_page().then_some(nonce.as_str());
                closed(response, nonce)
            }
            Err(error) => closed(Response::text("500 Internal Server Error", format!("{error}\n")), None),
        };
        Ok(Self { server: Server::listen(listener, limits, respond)?, path })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The path of its first page, with the token: all paths of [`Routes`] follow it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The address of its first page. Whoever has it can do what the page can.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address(), self.path)
    }

    /// Accepts no more connections, and waits until the streams have ended, but no longer than `patience`.
    pub fn finish(self, patience: Duration) {
        self.server.finish(patience);
    }
}

fn respond(guard: &Guard, routes: &Routes, request: &Request, nonce: &str) -> Response {
    let handler = guard.admit(request).and_then(|path| routes.find(&request.method, path));
    handler.map_or_else(|refused| refused, |handler| handler(&PageRequest { request, nonce }))
}

/// With the headers of all answers.
fn closed(response: Response, nonce: Option<&str>) -> Response {
    response
        .with_header("Cache-Control", "no-store")
        .with_header("X-Content-Type-Options", "nosniff")
        .with_header("Referrer-Policy", "no-referrer")
        .with_header("Cross-Origin-Resource-Policy", "same-origin")
        .with_header("Cross-Origin-Opener-Policy", "same-origin")
        .with_header("Content-Security-Policy", policy(nonce))
}

/// The content security policy: nothing at all, and for a page what its own elements need.
fn policy(nonce: Option<&str>) -> String {
    let none = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    nonce.map_or_else(|| none.to_owned(), |nonce| {
        format!(
            "{none}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data: blob:; connect-src 'self'"
        )
    })
}
