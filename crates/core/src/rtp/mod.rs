//! How does media travel? RTP (RFC 3550).

mod header;

pub use header::{RTP_HEADER_BYTES, RtpError, RtpExtension, RtpHeader};
