//! Pages on loopback for the browser of the user: HTTP/1.1 on 127.0.0.1, behind a random token.
//!
//! A [`Server`] has a thread of its own. [`Routes`] say what it answers; a handler gets a [`Request`] and returns a [`Response`], whole or
//! as a stream that ends when the client goes away. Handlers and streams run in further threads, so that they may compute or wait.
//!
//! # What keeps others out
//!
//! | from | limit |
//! |---|---|
//! | other hosts | the server is bound to 127.0.0.1 alone |
//! | other users of this machine | 128 random bits in the path of the address, compared in constant time: 404 without them; [`open`] keeps them out of the arguments of processes |
//! | names of other sites (DNS rebinding) | `Host` must be the bound address, or `localhost` with its port: 421 |
//! | pages of other sites | `Origin` must be absent or our own: 403 |
//! | what a page might include | `Content-Security-Policy`: scripts and styles by nonce, no other server, no frames, no forms |
//! | too much at once | bodies of [`MAX_BODY`] bytes, [`MAX_CONNECTIONS`] connections, a time limit for headers and for bodies |
//!
//! Nothing is encrypted: it does not leave the machine.
//!
//! # Example
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream};
//! use giusto_serve::{Response, Routes, Server, Settings};
//!
//! let routes = Routes::new()
//!     .get("", |request| Response::page(format!("<script nonce=\"{}\">let a = 1;</script>", request.nonce())))
//!     .post("run", |_| Response::lines(|sink| {
//!         for line in ["{\"done\":1}\n", "{\"done\":2}\n"] {
//!             if sink.send(line).is_err() {
//!                 return; // The page is gone.
//!             }
//!         }
//!     }));
//! let server = Server::start(routes, &Settings::default())?;
//! let address = server.address();
//! let mut client = TcpStream::connect(address)?;
//! let (path, end) = (server.path(), "Connection: close\r\nContent-Length: 0");
//! client.write_all(format!("POST {path}run HTTP/1.1\r\nHost: {address}\r\n{end}\r\n\r\n").as_bytes())?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("{\"done\":2}"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod browser;
mod content;
mod guard;
mod routes;
mod server;

pub use browser::{OpenError, Opened, has_display, open};
pub use content::{Gone, Response, Sink, Status};
pub use routes::{Request, Routes};
pub use server::{MAX_BODY, MAX_CONNECTIONS, Server, Settings, StartError};
