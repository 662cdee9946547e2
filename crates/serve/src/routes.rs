//! Which handler answers which request.

use hyper::{Method, body::Bytes};

use crate::content::{Response, Status};

/// A request that has passed all checks.
#[derive(Debug)]
pub struct Request {
    pub(crate) query: String,
    pub(crate) body: Bytes,
    pub(crate) nonce: String,
}

impl Request {
    /// What follows the question mark, as it came; empty if there is none.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// The body, at most [`MAX_BODY`](crate::MAX_BODY) bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The random text that the attribute `nonce` of each script and style element of a [page](Response::page) must have.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }
}

type Handler = Box<dyn Fn(&Request) -> Response + Send + Sync>;

struct Route {
    method: Method,
    path: &'static str,
    handler: Handler,
}

/// What a server answers. Paths are relative to the server's address: its first page has the path "".
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
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.with(Method::GET, path, Box::new(handler))
    }

    /// Answers POST of `path`.
    #[must_use]
    pub fn post(
        self,
        path: &'static str,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.with(Method::POST, path, Box::new(handler))
    }

    fn with(mut self, method: Method, path: &'static str, handler: Handler) -> Self {
        self.0.push(Route { method, path, handler });
        self
    }

    /// The handler of a path, or the answer where there is none, with the methods that the path has.
    pub(crate) fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<&Handler, (Response, Option<&'static str>)> {
        let asked = if method == Method::HEAD { &Method::GET } else { method };
        let mut methods = self.0.iter().filter(|route| route.path == path).peekable();
        let Some(first) = methods.peek() else {
            return Err((Response::text(Status::NOT_FOUND, "nothing here\n"), None));
        };
        let allowed = if first.method == Method::GET { "GET, HEAD" } else { "POST" };
        methods.find(|route| route.method == *asked).map(|route| &route.handler).ok_or_else(|| {
            (Response::text(Status::METHOD_NOT_ALLOWED, format!("use {allowed}\n")), Some(allowed))
        })
    }
}
