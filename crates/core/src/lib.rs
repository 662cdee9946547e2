//! What to send, and when: the algorithms of giusto as pure state machines.
//!
//! Every type here takes `now` as an argument and returns decisions. None owns a clock, a socket, a thread, a file or a source
//! of randomness, so the same code runs over real sockets, in a simulation and inside somebody else's program.
//!
//! | module | answers |
//! |---|---|
//! | [`measure`] | what arrived, and when? |
//! | [`units`] | what is a time, a rate, a size? |

pub mod measure;
pub mod units;
