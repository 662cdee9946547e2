//! What a call returns, and why one failed.

use std::ffi::CString;

/// What a call returns: `GIUSTO_OK`, `GIUSTO_NONE`, or an error, which is negative.
#[repr(i32)]
#[allow(clippy::enum_variant_names, reason = "their names in C")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiustoStatus {
    /// Done.
    GiustoOk = 0,
    /// Done, and there is nothing: no probe to send, nothing new in the feedback.
    GiustoNone = 1,
    /// An argument is NULL where it must not be, out of range, or of a wrong size. Nothing has changed.
    GiustoInvalidArgument = -1,
    /// No controller has this name, or a constant in it is unknown or out of its range.
    GiustoUnknownController = -2,
    /// The datagram is not valid RTCP. Nothing has changed.
    GiustoInvalidRtcp = -3,
    /// The library has an error, which it has caught. The controller is of no more use: free it.
    GiustoBroken = -4,
}

/// A failure with its text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: GiustoStatus,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self { status: GiustoStatus::GiustoInvalidArgument, text: text.into() }
    }
}

/// A text for C: what follows a NUL is left out.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
