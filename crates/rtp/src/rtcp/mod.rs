//! RTCP: reports and feedback messages (RFC 3550 §6, RFC 4585).
//!
//! Each packet is a value with typed fields. [`Packets`] reads the packets of a datagram in order. The
//! `write` method of a value appends it to a buffer; several values in one buffer form a compound packet.
//!
//! | value | packet type, format | text |
//! |---|---|---|
//! | [`SenderReport`] | 200 | RFC 3550 §6.4.1 |
//! | [`ReceiverReport`] | 201 | RFC 3550 §6.4.2 |
//! | [`SourceDescription`] | 202 | RFC 3550 §6.5 |
//! | [`Bye`] | 203 | RFC 3550 §6.6 |
//! | [`NadaFeedback`] | 204, 0 | RFC 8698 §5.3 |
//! | [`Nack`] | 205, 1 | RFC 4585 §6.2.1 |
//! | [`CongestionFeedback`] | 205, 11 | RFC 8888 §3.1 |
//! | [`ScreamFeedback`] | 205, 30 | draft-johansson-rmcat-scream-cc-00 §3 |
//! | [`TransportFeedback`] | 205, 15 | draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1 |
//! | [`PictureLoss`] | 206, 1 | RFC 4585 §6.3.1 |
//! | [`FullIntra`] | 206, 4 | RFC 5104 §4.3.1 |
//! | [`Remb`] | 206, 15 | draft-alvestrand-rmcat-remb-03 §2.2 |
//! | [`ExtendedReport`] | 207 | RFC 3611 §2, §4.4, §4.5, §4.7 |
//!
//! All packets start with the same four bytes (RFC 3550 §6.4.1):
//!
//! | bits | field |
//! |---|---|
//! | 2 | version, 2 |
//! | 1 | padding: the last byte of the packet is the number of padding bytes |
//! | 5 | a count, or the format of a feedback message (RFC 4585 §6.1) |
//! | 8 | packet type |
//! | 16 | length of the packet in 32-bit words, minus one |

mod ccfb;
mod description;
mod error;
mod frame;
mod nada;
mod packets;
mod remb;
mod repair;
mod reports;
mod scream_draft;
mod twcc;
mod twcc_chunks;
mod twcc_encode;
mod xr;

pub use ccfb::{ArrivalOffset, CongestionFeedback, PacketReception, ReportCount, StreamFeedback};
pub use description::{Bye, Description, SourceDescription};
pub use error::RtcpError;
pub use nada::NadaFeedback;
pub use packets::{Packet, Packets};
pub use remb::Remb;
pub use repair::{FullIntra, IntraRequest, Nack, NackEntry, PictureLoss};
pub use reports::{ReceiverReport, ReportBlock, SenderReport};
pub use scream_draft::{ReceptionTime, ReceptionTimeUnwrapper, ScreamFeedback};
pub use twcc::{ArrivalTicks, TransportFeedback, TransportFeedbackUnwrapper};
pub use twcc_encode::{Arrival, Encoded, TransportFeedbackEncoder};
pub use xr::{DelaySinceLast, ExtendedReport, JitterBufferKind, LossConcealment, VoipMetrics};
