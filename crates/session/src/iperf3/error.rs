//! Error numbers of iperf3.

use std::fmt;

/// The number of an error that a server sends (`i_errno` in `iperf_api.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The duration is out of range.
    pub const DURATION: Self = Self(5);
    /// Too many streams.
    pub const STREAMS: Self = Self(6);
    /// The datagrams are too short or too long.
    pub const SIZE: Self = Self(20);
    /// The traffic class is out of range.
    pub const CLASS: Self = Self(21);
    /// Not implemented.
    pub const UNSUPPORTED: Self = Self(13);
    /// The requested rate is above the server's limit.
    pub const RATE: Self = Self(27);
    /// The test is longer than the server permits; from 3.19 on.
    pub const TOO_LONG: Self = Self(37);
    /// An unknown message.
    pub const MESSAGE: Self = Self(110);
    /// The parameters could not be read.
    pub const PARAMETERS: Self = Self(114);
    /// The results could not be read.
    pub const RESULTS: Self = Self(117);
    /// The protocol is not available.
    pub const PROTOCOL: Self = Self(131);
    /// The user name or the password is missing or wrong.
    pub const AUTHORISATION: Self = Self(142);
    /// No datagram came.
    pub const NO_DATA: Self = Self(144);
    /// No thread can be started.
    pub const THREAD: Self = Self(150);
    /// The test lasted too long; from 3.19 on.
    pub const EXPIRED: Self = Self(160);
    /// The server could not open a port for the streams.
    pub const STREAM_LISTEN: Self = Self(202);
    /// A stream did not begin.
    pub const STREAM_ACCEPT: Self = Self(204);

    /// What it means; `None` if it is seldom sent by a server.
    pub const fn meaning(self) -> Option<&'static str> {
        Some(match self {
            Self::DURATION => "the duration is out of range",
            Self::STREAMS => "too many streams",
            Self(7) | Self::SIZE => "the size of the datagrams is out of range",
            Self::UNSUPPORTED => "not implemented",
            Self(16) => "more than one end condition",
            Self::CLASS => "the DSCP is out of range",
            Self::RATE => "the rate of all streams is above the server's limit",
            Self::TOO_LONG => "the test is longer than the server permits",
            Self(109) => "the control connection was closed",
            Self::MESSAGE => "an unknown message",
            Self::PARAMETERS => "the parameters could not be read",
            Self::RESULTS => "the results could not be read",
            Self(120) => "the server was stopped",
            Self(121) => "the server is busy",
            Self::PROTOCOL => "the protocol is not available",
            Self::AUTHORISATION => {
                "it demands a user name and a password, which giusto cannot send; start it without --authorized-users-path"
            }
            Self::NO_DATA => "no datagrams arrived there",
            Self::THREAD => "no thread can be started",
            Self::EXPIRED => "the test lasted longer than announced",
            Self::STREAM_LISTEN => "it could not open its UDP port",
            Self(201 | 203..=207) => "a stream failed",
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{meaning} (error {})", self.0),
            None => write!(f, "error {}", self.0),
        }
    }
}
