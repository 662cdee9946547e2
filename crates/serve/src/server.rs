//! The server: its thread, its connections and their limits.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    pin::Pin,
    sync::Arc,
    thread,
    time::Duration,
};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Method,
    body::{Body as _, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue},
    header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
    task, time,
};

use crate::{
    content::{self, Content, Response, Sent, Status},
    guard::{self, Guard},
    routes::{Request, Routes},
};

/// The longest body of a request, in bytes.
pub const MAX_BODY: usize = 1 << 20;
/// Connections at a time; further ones are closed at once. A browser opens six to a server.
pub const MAX_CONNECTIONS: usize = 32;
/// The longest header of a request, in bytes.
const MAX_HEADER: usize = 16 * 1024;
/// How long the end of a dropped server waits for its clients.
const PATIENCE: Duration = Duration::from_millis(500);
/// After a failed accept: too many open files, for example; they become fewer.
const RETRY: Duration = Duration::from_millis(200);

/// The settings of a [`Server`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The port on 127.0.0.1; 0 takes any free one. Default: 0.
    pub port: u16,
    /// Time that a client has for the header of a request, and for its body. Default: 5 s.
    pub request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { port: 0, request_timeout: Duration::from_secs(5) }
    }
}

/// Why a server did not start.
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

/// An HTTP server on 127.0.0.1, in a thread of its own. Dropping it ends it within about a second.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    path: String,
    /// How long the end waits for clients.
    stop: Option<oneshot::Sender<Duration>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens, with a new token.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the port and the fix.
    pub fn start(routes: Routes, settings: &Settings) -> Result<Self, StartError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port));
        let bound =
            TcpListener::bind(wanted).map_err(|error| StartError::Bind { port: settings.port, error });
        let listener = bound?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let guard = Guard::new(guard::random()?, address);
        let path = format!("/{}/", guard.token());
        // Each connection may have a handler or a stream.
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(2 * MAX_CONNECTIONS)
            .thread_name("page-client")
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared { guard, routes, timeout: settings.request_timeout });
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(serve(listener, shared, stopped));
            // Streams end, as their clients are gone now.
            runtime.shutdown_timeout(PATIENCE);
        };
        let thread = thread::Builder::new().name("page".to_owned()).spawn(serve)?;
        Ok(Self { address, path, stop: Some(stop), thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of its first page, with the token: all paths of [`Routes`] follow it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The address of its first page. Whoever has it can do what the page can.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// Accepts no more connections, and waits until the streams have ended, but no longer than `patience`.
    pub fn finish(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        if let Some(stop) = self.stop.take() {
            // It only fails if that thread has panicked.
            let _ = stop.send(patience);
        }
        if let Some(thread) = self.thread.take() {
            // As above.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(PATIENCE);
    }
}

async fn serve(listener: tokio::net::TcpListener, shared: Arc<Shared>, stop: oneshot::Receiver<Duration>) {
    let connections = Arc::new(GracefulShutdown::new());
    let accepting = task::spawn(accept(listener, shared, Arc::clone(&connections)));
    let patience = stop.await.unwrap_or(PATIENCE);
    accepting.abort();
    // It was cancelled.
    let _ = accepting.await;
    if let Some(connections) = Arc::into_inner(connections) {
        // The streams that have not ended are cut off.
        let _ = time::timeout(patience, connections.shutdown()).await;
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>, connections: Arc<GracefulShutdown>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((client, _)) = listener.accept().await else {
            time::sleep(RETRY).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        // A page draws each update when it comes.
        let _ = client.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let service = service_fn({
            let shared = Arc::clone(&shared);
            move |request| answer(Arc::clone(&shared), request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.timeout)
            .max_buf_size(MAX_HEADER)
            .serve_connection(TokioIo::new(client), service);
        let connection = connections.watch(connection);
        task::spawn(async move {
            // A client that has disconnected needs no answer.
            let _ = connection.await;
            drop(slot);
        });
    }
}

/// What all connections use.
struct Shared {
    guard: Guard,
    routes: Routes,
    timeout: Duration,
}

type Answer = Pin<Box<dyn Future<Output = Result<hyper::Response<Sent>, Infallible>> + Send>>;

fn answer(shared: Arc<Shared>, request: hyper::Request<Incoming>) -> Answer {
    Box::pin(async move {
        let is_head = request.method() == Method::HEAD;
        let nonce = guard::random();
        let (response, allowed) = match &nonce {
            Ok(nonce) => respond(shared, request, nonce.clone()).await,
            Err(error) => (Response::text(Status::INTERNAL_SERVER_ERROR, format!("{error}\n")), None),
        };
        Ok(sent(response, allowed, &nonce.unwrap_or_default(), is_head))
    })
}

async fn respond(
    shared: Arc<Shared>,
    request: hyper::Request<Incoming>,
    nonce: String,
) -> (Response, Option<&'static str>) {
    let (head, body) = request.into_parts();
    let path = match shared.guard.admit(head.uri.path(), &head.headers) {
        Ok(path) => path.to_owned(),
        Err(refused) => return (refused, None),
    };
    if let Err(refused) = shared.routes.find(&head.method, &path) {
        return refused;
    }
    let too_long =
        || Response::text(Status::PAYLOAD_TOO_LARGE, format!("a request has at most {MAX_BODY} bytes\n"));
    if body.size_hint().lower() > MAX_BODY as u64 {
        return (too_long(), None);
    }
    let body = match time::timeout(shared.timeout, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return (too_long(), None),
        Ok(Err(error)) => return (Response::text(Status::BAD_REQUEST, format!("{error}\n")), None),
        Err(_) => return (Response::text(Status::REQUEST_TIMEOUT, "the body came too slowly\n"), None),
    };
    let request = Request { query: head.uri.query().unwrap_or_default().to_owned(), body, nonce };
    let handled = task::spawn_blocking(move || match shared.routes.find(&head.method, &path) {
        Ok(handler) => (handler(&request), None),
        Err(refused) => refused,
    });
    let failed = |_| (Response::text(Status::INTERNAL_SERVER_ERROR, "the handler failed\n"), None);
    handled.await.unwrap_or_else(failed)
}

/// The answer as hyper sends it, with the headers of all answers.
fn sent(
    response: Response,
    allowed: Option<&'static str>,
    nonce: &str,
    is_head: bool,
) -> hyper::Response<Sent> {
    let body = match response.content {
        Content::Whole(bytes) => Sent::Whole(Some(bytes)),
        Content::Stream(_) if is_head => Sent::Whole(None),
        Content::Stream(write) => {
            let (sink, stream) = content::stream();
            task::spawn_blocking(move || write(&sink));
            Sent::Stream(stream)
        }
    };
    let mut answer = hyper::Response::new(body);
    *answer.status_mut() = response.status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, response.content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(methods) = allowed {
        headers.insert(ALLOW, HeaderValue::from_static(methods));
    }
    let policy = policy(response.is_page.then_some(nonce));
    // Hexadecimal digits fit into a header.
    headers.extend(HeaderValue::from_str(&policy).ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
    answer
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
