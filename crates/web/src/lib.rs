//! The engine of the pages that `giusto explore --out` writes: requests and answers as JSON, without a clock, a thread, a file or a socket.
//!
//! `make web` compiles it to WebAssembly. A page starts it in several workers: one answers questions, the others run further seeds and
//! controllers for it and hand it the records.

mod engine;
#[cfg(target_arch = "wasm32")]
mod exports;
mod request;

pub use engine::Engine;
pub use request::{File, Request, Run};
