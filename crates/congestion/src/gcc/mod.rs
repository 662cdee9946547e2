//! Google Congestion Control, of draft-ietf-rmcat-gcc-02 and of libwebrtc: delay first, loss beside it, and probes to learn what the
//! path could carry.
//!
//! | part | module |
//! |---|---|
//! | what the delay says | [`delay`] |
//! | how the rate moves | [`rate`] |
//! | what the losses say | [`loss`] |
//! | the same at the receiver, for REMB | [`receive_side`] |
//!
//! | controller | module |
//! |---|---|
//! | `gcc:libwebrtc` | [`libwebrtc`] |
//! | `gcc:draft-02`, `gcc:draft-02-literal` | [`draft`] |
//! | `gcc:thesis` | [`thesis`] |
//! | `gcc:remb` | [`receiver_driven`], with [`receive_side`] at the other end |

mod arithmetic;
pub mod delay;
pub mod draft;
pub mod libwebrtc;
pub mod loss;
pub mod rate;
pub mod receive_side;
pub mod receiver_driven;
mod settled;
#[cfg(feature = "thesis")]
pub mod thesis;

pub use draft::{Draft, DraftConfig};
pub use libwebrtc::{GccConfigError, Libwebrtc, LibwebrtcConfig};
pub use receive_side::{ReceiveSide, ReceiveSideConfig};
pub use receiver_driven::{ReceiverDriven, ReceiverDrivenConfig};
