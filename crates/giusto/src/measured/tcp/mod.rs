//! TCP as load: the kernel's TCP to a `giusto recv --accept tcp`, and the responsiveness of a path under that load.
//!
//! A connection begins with `MAGIC` and a byte for its kind. On a load connection follow blocks, each with a kind and a length of 24
//! bits; the far end answers a probe block by its content, and the end of the data by the number of bytes. On a probe connection
//! the far end answers each 8 bytes. An answer is a kind and 8 bytes.

mod client;
mod responsiveness;
mod server;

pub use client::{TcpInterval, TcpLoad, TcpResult};
pub use responsiveness::Responsiveness;
pub use server::{TcpServed, TcpServer};

/// The first bytes of each connection: a name and a version.
const MAGIC: &[u8; 7] = b"giusto\x01";
/// A load connection.
const LOAD: u8 = b'L';
/// A connection whose requests are answered at once.
const PROBE: u8 = b'P';

/// The kinds of blocks, and of the answers to them.
const FILLER: u8 = 0;
const ASK: u8 = 1;
const TOTAL: u8 = 2;
/// Bytes of an answer: a kind and a number.
const ANSWER: usize = 9;
/// Bytes in front of a block.
const BLOCK_HEADER: usize = 4;
/// The content of a block of filler.
const BLOCK: usize = 65_536;

/// The header of a block.
fn block_header(kind: u8, length: usize) -> [u8; BLOCK_HEADER] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    [kind, a, b, c]
}

/// An answer.
fn answer(kind: u8, number: u64) -> [u8; ANSWER] {
    let mut bytes = [kind; ANSWER];
    bytes[1..].copy_from_slice(&number.to_be_bytes());
    bytes
}
