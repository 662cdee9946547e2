//! What to send, and when: the algorithms of giusto as pure state machines.
//!
//! Every type here takes `now` as an argument and returns decisions. None owns a clock, a socket, a thread, a file or a source
//! of randomness, so the same code runs over real sockets, in a simulation and inside somebody else's program.
//!
//! | module | answers |
//! |---|---|
//! | [`units`] | what is a time, a rate, a size? |
//! | [`pace`] | when may the next datagram leave? |

pub mod pace;
pub mod units;
