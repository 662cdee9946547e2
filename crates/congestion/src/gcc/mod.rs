//! Google Congestion Control, as in draft-ietf-rmcat-gcc-02 and in libwebrtc: a delay-based and a loss-based estimate, and probes that
//! measure what the path can carry.
//!
//! | controller | module |
//! |---|---|
//! | `gcc:libwebrtc`, `gcc:libwebrtc+giusto` | [`libwebrtc`] |
//! | `gcc:draft-02`, `gcc:draft-02+giusto` | [`draft`] |
//! | `gcc:thesis` | `thesis`, with the feature of that name |
//! | `gcc:remb`, `gcc:rmcat-02` | [`receiver_driven`], with [`receive_side`] at the other end |
//!
//! Their parts are over-use detection from delays (`delay`), rate control and probing (`rate`), and loss-based estimates (`loss`);
//! [`config`] has the constants.

mod arithmetic;
mod by_arrival;
pub mod config;
mod constants;
pub(crate) mod delay;
pub mod draft;
pub mod libwebrtc;
pub(crate) mod loss;
pub(crate) mod rate;
pub mod receive_side;
pub mod receiver_driven;
mod settled;
#[cfg(feature = "thesis")]
pub(crate) mod thesis;
