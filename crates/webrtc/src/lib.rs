#![doc = include_str!("../README.md")]
//!
//! ```text
//!   page -- offer (HTTP) --> BrowserPeer::answer --> answer
//!   UDP, by the first byte (RFC 7983):   0-3 STUN --> IceLite        20-63 DTLS --> Dtls --> keys
//!   VideoSource --> MediaSender (pacer, controller) --> SRTP --> browser -- SRTCP: TWCC or RFC 8888 --> MediaSender
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`sdp`] | the offer and the answer |
//! | [`ice`] | ICE-lite: answers checks, holds the browser's consent |
//! | [`dtls`] | DTLS 1.2 and 1.3, and the check of the certificate's fingerprint |
//! | [`srtp`] | SRTP and SRTCP |
//! | [`exchange`] | DTLS between two giusto ends |
//! | [`peer`] | the call as a state machine, without clock and socket |
//! | [`call`] | the loop that gives a call a clock, a socket and a web page |
//! | [`result`] | what a call was like, at both ends |

pub mod call;
pub mod dtls;
pub mod exchange;
mod fingerprint;
pub mod ice;
mod key_frames;
mod page;
pub mod peer;
pub mod result;
pub mod sdp;
pub mod srtp;

pub use fingerprint::{Fingerprint, FingerprintError};
