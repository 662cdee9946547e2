//! Requests and responses.

use super::stream::Sink;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method, such as `GET`.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// What follows the question mark, as it came; empty if there is none.
    pub query: String,
    /// The header `Host`.
    pub host: Option<String>,
    /// The header `Origin`: the site whose page asks.
    pub origin: Option<String>,
    /// Its body, with POST.
    pub body: Vec<u8>,
}

/// The most header lines of a request.
const MAX_HEADERS: usize = 64;

/// What the header of a request says of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Bytes. Without a length, a request has no body (RFC 9112 §6.3).
    pub length: usize,
    /// The body has a transfer coding, such as `chunked`.
    pub coded: bool,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    pub waits: bool,
}

impl Request {
    /// A request without its body, from the lines of its header; `None` if they are damaged, or if a header that must be single is there
    /// twice.
    pub fn parse(head: &[u8]) -> Option<(Self, Announced)> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        parsed.parse(head).ok().filter(httparse::Status::is_complete)?;
        let header = |name: &str| -> Option<Option<&str>> {
            let mut found = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
            let Some(first) = found.next() else { return Some(None) };
            let text = std::str::from_utf8(first.value).ok()?;
            found.next().is_none().then_some(Some(text.trim()))
        };
        let announced = Announced {
            length: header("Content-Length")?.map_or(Ok(0), str::parse).ok()?,
            coded: header("Transfer-Encoding")?.is_some(),
            waits: header("Expect")?.is_some_and(|value| value.eq_ignore_ascii_case("100-continue")),
        };
        let (path, query) = parsed.path.map(|path| path.split_once('?').unwrap_or((path, "")))?;
        let request = Self {
            method: parsed.method?.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: header("Host")?.map(str::to_owned),
            origin: header("Origin")?.map(str::to_owned),
            body: Vec::new(),
        };
        Some((request, announced))
    }
}

/// The body of an answer.
pub(super) enum Content {
    Whole(Vec<u8>),
    Stream(Box<dyn FnOnce(&Sink) + Send>),
}

/// The answer to a request.
pub struct Response {
    /// Status code and phrase.
    pub(super) status: &'static str,
    /// Lines of the header, `Content-Type` first.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content: Content,
}

/// The `Content-Type` of plain texts.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
/// The `Content-Type` of pages.
pub(super) const HTML: &str = "text/html; charset=utf-8";

impl Response {
    /// Status 200, with a body of this type, such as `application/pdf`.
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", content_type, Content::Whole(body.into()))
    }

    /// An HTML page, which no other may frame (RFC 7034).
    pub fn page(html: impl Into<String>) -> Self {
        Self::ok(HTML, html.into()).with_header("X-Frame-Options", "DENY")
    }

    /// JSON.
    pub fn json(text: impl Into<String>) -> Self {
        Self::ok("application/json", text.into())
    }

    /// A plain text with a status code and its phrase, such as `404 Not Found`.
    pub fn text(status: &'static str, text: impl Into<String>) -> Self {
        Self::new(status, PLAIN, Content::Whole(text.into().into_bytes()))
    }

    /// A stream of JSON objects, one a line: `write` sends each with the line feed after it. It runs in the thread of the connection, and
    /// should return soon after the [`Sink`] says that the client is gone.
    pub fn lines(write: impl FnOnce(&Sink) + Send + 'static) -> Self {
        Self::new("200 OK", "application/x-ndjson", Content::Stream(Box::new(write)))
    }

    /// Server-sent events (HTML Living Standard, §9.2): `write` sends them with [`Sink::event`]. It runs as that of [`Self::lines`].
    pub fn events(write: impl FnOnce(&Sink) + Send + 'static) -> Self {
        Self::new("200 OK", "text/event-stream", Content::Stream(Box::new(write)))
    }

    /// With one more line in its header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn new(status: &'static str, content_type: &str, content: Content) -> Self {
        Self { status, headers: vec![("Content-Type", content_type.to_owned())], content }
    }

    pub(super) fn is_page(&self) -> bool {
        self.headers.first().is_some_and(|(_, value)| value == HTML)
    }

    /// All its bytes; of a stream the header alone.
    pub(super) fn whole(&self) -> Vec<u8> {
        match &self.content {
            Content::Whole(bytes) => [self.head().as_bytes(), bytes].concat(),
            Content::Stream(_) => self.head().into_bytes(),
        }
    }

    /// Status line and header. Without the length of a stream, the end of the connection is its end (RFC 9112 §6.3).
    pub(super) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\nConnection: close\r\n", self.status);
        let length = match &self.content {
            Content::Whole(bytes) => Some(("Content-Length", bytes.len().to_string())),
            Content::Stream(_) => None,
        };
        for (name, value) in self.headers.iter().chain(&length) {
            head.extend([*name, ": ", value, "\r\n"]);
        }
        head + "\r\n"
    }
}
