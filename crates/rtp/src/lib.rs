#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | this module | RTP headers, header extensions, and the NTP clocks of RTP and RTCP |
//! | [`av1`] | AV1: OBU elements and fragments |
//! | [`flexfec`] | parity packets |
//! | [`h264`] | H.264: NAL units, packets, fragments |
//! | [`voice`] | voice codecs: payload types, clocks, packet times |
//! | [`vp8`] | VP8: payload descriptor and frame header |
//! | [`vp9`] | VP9: payload descriptor |
//! | [`rtcp`] | RTCP reports and congestion control feedback |
#![cfg_attr(not(test), no_std)]

#[macro_use]
extern crate alloc;

mod abs_send_time;
pub mod av1;
mod extension;
pub mod flexfec;
pub mod h264;
mod header;
mod ntp;
mod retransmission;
pub mod rtcp;
mod transport_sequence;
mod unwrapper;
pub mod voice;
pub mod vp8;
pub mod vp9;

pub use abs_send_time::{AbsSendTime, AbsSendTimeUnwrapper};
pub use extension::{ExtensionElement, ExtensionElements, ExtensionError, ExtensionForm, ExtensionWriter};
pub use header::{RTP_HEADER_BYTES, RtpError, RtpExtension, RtpHeader};
pub use ntp::{NtpDelay, NtpShort, NtpShortUnwrapper, NtpTimestamp};
pub use retransmission::{RTX_HEADER_BYTES, RtxHeader};
pub use transport_sequence::{FeedbackRequest, TransportSequence};
pub use unwrapper::SequenceUnwrapper;
