//! A small HTTP/1.1 server (RFC 9112): text for monitoring systems, pages on loopback, streams of events.
//!
//! A [`Server`] answers each request by a function. [`TextServer`] serves one text, [`Pages`] what [`Routes`] say, behind a token.
//! [`post`] is a client: it reports to another server.
//!
//! A connection has one request and a thread of its own, so that an answer may compute or wait. Clients are bounded in number, in time
//! and in bytes by [`Limits`].

mod guard;
mod limits;
mod message;
mod pages;
mod post;
mod receive;
mod server;
mod stream;
mod text;
#[cfg(feature = "tls")]
mod tls;

pub use limits::Limits;
pub use message::{Announced, Request, Response};
pub use pages::{PageRequest, Pages, Routes, StartError};
pub use post::{PostError, post};
pub use server::Server;
pub use stream::{Gone, Sink};
pub use text::TextServer;
