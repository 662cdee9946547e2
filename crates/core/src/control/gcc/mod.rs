//! Google Congestion Control, of draft-ietf-rmcat-gcc-02 and of libwebrtc: delay first, loss beside it, and probes to learn what the
//! path could carry.
//!
//! | part | module |
//! |---|---|
//! | what the delay says | [`delay`] |
//! | how the rate moves | [`rate`] |
//! | what the losses say | [`loss`] |
//! | the same at the receiver, for REMB | [`receive_side`] |
//! | all of it as a student's simulation has it | [`thesis`] |
//!
//! | controller | module |
//! |---|---|
//! | `gcc:libwebrtc` | [`libwebrtc`] |

#[cfg(test)]
mod closed_loop;
pub mod delay;
pub mod libwebrtc;
pub mod loss;
pub mod rate;
pub mod receive_side;
mod settled;
pub mod thesis;

pub use libwebrtc::{GccConfigError, Libwebrtc, LibwebrtcConfig};
pub use receive_side::{ReceiveSide, ReceiveSideConfig};
