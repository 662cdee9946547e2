//! What to send, and when: the algorithms of giusto as pure state machines.
//!
//! Every type here takes `now` as an argument and returns decisions. None owns a clock, a socket, a thread, a file or a source
//! of randomness, so the same code runs over real sockets, in a simulation and inside somebody else's program.
//!
//! | module | answers |
//! |---|---|
//! | [`units`] | what is a time, a rate, a size? |
//! | [`control`] | how much may be sent? |
//! | [`ecn`] | what does the network say in the IP header? |
//! | [`pace`] | when may the next datagram leave? |
//! | [`media`] | what is in it? |
//! | [`rtp`] | how does media travel? |
//! | [`session`] | how do two ends of a measurement speak to each other? |
//! | [`measure`] | what arrived, and when? |

pub mod control;
pub mod ecn;
pub mod measure;
pub mod media;
pub mod pace;
pub mod rtp;
pub mod session;
pub mod units;
