//! How do two ends of a measurement speak to each other?
//!
//! [`Sender`] and [`Receiver`] are the two endpoints, without clock or socket. [`wire`] is what they say.

pub mod wire;
