//! Runs over real sockets.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what to send, and how to keep time |
//! | [`send`], [`recv`], [`loopback`] | one end of a run, or both |
//! | [`peer`] | other programs measured by the same meter |
//! | [`result`], [`figures`] | the result of a run |

pub mod figures;
pub mod loopback;
pub mod peer;
pub mod plan;
pub mod recv;
pub mod result;
pub mod send;
