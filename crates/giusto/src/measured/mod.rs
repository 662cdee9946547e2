//! Runs over real sockets.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what to send, and how to pace it |
//! | [`send`], [`recv`], [`loopback`] | the sending end, the receiving end, or both |
//! | [`peer`] | other programs, measured by the same meter |
//! | [`result`] | the result of a run |

pub mod loopback;
pub mod peer;
pub mod plan;
pub mod recv;
pub mod result;
pub mod send;
