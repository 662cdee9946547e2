//! A network of numbers.
//!
//! Everything here runs in virtual time: nothing reads a clock, opens a socket or draws randomness that it was not given.
//! Same seed, same bytes.
//!
//! | module | answers |
//! |---|---|
//! | [`packet`] | what does the network see of a packet? |
//! | [`link`] | when does it come out at the other end, if at all? |
//! | [`traffic`] | who sends, and who listens? |
//! | [`random`] | whence comes chance? |

pub mod link;
pub mod packet;
pub mod random;
pub mod traffic;
