//! A network of numbers.
//!
//! Everything here runs in virtual time: nothing reads a clock, opens a socket or draws randomness that it was not given.
//! Same seed, same bytes.
//!
//! | module | answers |
//! |---|---|
//! | [`simulation`] | how does a run go? |
//! | [`engine`] | what happens next? |
//! | [`network`] | which links lie between two hosts? |
//! | [`packet`] | what does the network see of a packet? |
//! | [`link`] | when does it come out at the other end, if at all? |
//! | [`traffic`] | who sends, and who listens? |
//! | [`machine`] | how coarse are the clock and the sleeps of who sends? |
//! | [`random`] | whence comes chance? |
//! | [`trace`] | what happened? |
//! | [`record`] | the record of a run: statistics, and how they came about over time |

pub mod engine;
pub mod link;
pub mod machine;
pub mod network;
pub mod packet;
pub mod random;
pub mod record;
pub mod simulation;
pub mod trace;
pub mod traffic;
