//! Google Congestion Control, as in draft-ietf-rmcat-gcc-02 and in libwebrtc: a delay-based and a loss-based estimate, and probes that
//! measure what the path can carry.
//!
//! | part | module |
//! |---|---|
//! | over-use detection from delays | [`delay`] |
//! | rate control and probing | [`rate`] |
//! | loss-based estimates | [`loss`] |
//! | the estimator at the receiver, for REMB | [`receive_side`] |
//!
//! | controller | module |
//! |---|---|
//! | `gcc:libwebrtc`, `gcc:libwebrtc+giusto` | [`libwebrtc`] |
//! | `gcc:draft-02`, `gcc:draft-02+giusto` | [`draft`] |
//! | `gcc:thesis` | `thesis`, with the feature of that name |
//! | `gcc:remb` | [`receiver_driven`], with [`receive_side`] at the other end |

mod arithmetic;
mod by_arrival;
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
