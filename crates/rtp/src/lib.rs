//! How does media travel? RTP (RFC 3550), its header extensions (RFC 8285), and the reports about it, RTCP.
//!
//! | module | holds |
//! |---|---|
//! | here | the RTP header, its extensions, the clocks that travel in both protocols |
//! | [`voice`] | voice codecs: payload types, clocks, packet times |
//! | [`rtcp`] | reports and congestion-control feedback: TWCC, RFC 8888, the first SCReAM's, REMB, SR, RR |

mod abs_send_time;
mod extension;
mod header;
mod ntp;
pub mod rtcp;
mod transport_sequence;
mod unwrapper;
pub mod voice;

pub use abs_send_time::{AbsSendTime, AbsSendTimeUnwrapper};
pub use extension::{ExtensionElement, ExtensionElements, ExtensionError, ExtensionForm, ExtensionWriter};
pub use header::{RTP_HEADER_BYTES, RtpError, RtpExtension, RtpHeader};
pub use ntp::{NtpDelay, NtpShort, NtpShortUnwrapper, NtpTimestamp};
pub use transport_sequence::{FeedbackRequest, TransportSequence};
pub use unwrapper::SequenceUnwrapper;
