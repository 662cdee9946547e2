//! Google Congestion Control, of draft-ietf-rmcat-gcc-02 and of libwebrtc: delay first, loss beside it, and probes to learn what the
//! path could carry.
//!
//! | part | module |
//! |---|---|
//! | what the delay says | [`delay`] |
//! | how the rate moves | [`rate`] |
//! | what the losses say | [`loss`] |

pub mod delay;
pub mod loss;
pub mod rate;
