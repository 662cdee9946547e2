//! Answers, whole and as streams.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

pub use hyper::StatusCode as Status;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Parts that wait for a client before [`Sink::send`] waits for it.
const MAX_WAITING: usize = 4;

/// The answer to a request.
pub struct Response {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) is_page: bool,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Whole(Bytes),
    Stream(Box<dyn FnOnce(&Sink) + Send>),
}

impl Response {
    /// An HTML page. Its scripts and style elements need the [nonce](crate::Request::nonce) of the request.
    pub fn page(html: impl Into<String>) -> Self {
        let page = Self::whole(Status::OK, "text/html; charset=utf-8", html.into());
        Self { is_page: true, ..page }
    }

    /// JSON.
    pub fn json(text: impl Into<String>) -> Self {
        Self::whole(Status::OK, "application/json", text.into())
    }

    /// Bytes of another type, such as `application/pdf`.
    pub fn bytes(content_type: &'static str, bytes: Vec<u8>) -> Self {
        let content = Content::Whole(bytes.into());
        Self { status: Status::OK, content_type, is_page: false, content }
    }

    /// A plain text with a status.
    pub fn text(status: Status, text: impl Into<String>) -> Self {
        Self::whole(status, "text/plain; charset=utf-8", text.into())
    }

    /// A stream of JSON objects, one a line: `write` sends each with the line feed after it. It runs in a thread of its own, and should
    /// return soon after the [`Sink`] says that the client is gone.
    pub fn lines(write: impl FnOnce(&Sink) + Send + 'static) -> Self {
        Self::stream("application/x-ndjson", write)
    }

    /// Server-sent events (HTML Living Standard, §9.2): `write` sends them with [`Sink::event`]. It runs as that of [`Self::lines`].
    pub fn events(write: impl FnOnce(&Sink) + Send + 'static) -> Self {
        Self::stream("text/event-stream", write)
    }

    fn whole(status: Status, content_type: &'static str, text: String) -> Self {
        Self { status, content_type, is_page: false, content: Content::Whole(text.into()) }
    }

    fn stream(content_type: &'static str, write: impl FnOnce(&Sink) + Send + 'static) -> Self {
        Self { status: Status::OK, content_type, is_page: false, content: Content::Stream(Box::new(write)) }
    }
}

/// The client has gone away, or the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has gone away")]
pub struct Gone;

/// Where a stream goes.
#[derive(Debug)]
pub struct Sink {
    parts: mpsc::Sender<Bytes>,
    gone: Arc<AtomicBool>,
}

impl Sink {
    /// Sends a part. Waits while the client is slow, but never longer than the client is there.
    ///
    /// # Errors
    ///
    /// [`Gone`]: nobody reads any more.
    pub fn send(&self, part: impl Into<String>) -> Result<(), Gone> {
        self.parts.blocking_send(Bytes::from(part.into())).map_err(|_| Gone)
    }

    /// Sends an event, called `name`, with `data`: any text without carriage returns.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn event(&self, name: &str, data: &str) -> Result<(), Gone> {
        let lines: String = data.split('\n').flat_map(|line| ["data: ", line, "\n"]).collect();
        self.send(format!("event: {name}\n{lines}\n"))
    }

    /// Whether nobody reads any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// A flag that is set when nobody reads any more, to stop a computation with.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }
}

/// The body of an answer, as hyper sends it.
#[derive(Debug)]
pub(crate) enum Sent {
    Whole(Option<Bytes>),
    Stream(Stream),
}

/// The far side of a [`Sink`].
#[derive(Debug)]
pub(crate) struct Stream {
    parts: mpsc::Receiver<Bytes>,
    gone: Arc<AtomicBool>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.gone.store(true, Relaxed);
    }
}

pub(crate) fn stream() -> (Sink, Stream) {
    let (sender, parts) = mpsc::channel(MAX_WAITING);
    let gone = Arc::new(AtomicBool::new(false));
    (Sink { parts: sender, gone: Arc::clone(&gone) }, Stream { parts, gone })
}

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.parts.poll_recv(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
