//! Events of calls, and the errors that end them.

use std::net::SocketAddr;

use giusto_units::TimeDelta;

use super::messages::{Answer, CallRefusal, Offer};
use crate::envelope::WireError;

/// Identifies a call of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// An event of one call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallEvent {
    /// At the listener: a caller that has proved its address offers a call. It waits for
    /// [`Calls::accept`](super::Calls::accept) or [`Calls::refuse`](super::Calls::refuse).
    Offered {
        /// The call.
        id: CallId,
        /// The caller.
        from: SocketAddr,
        /// What it offers.
        offer: Box<Offer>,
    },
    /// At the caller: the call was accepted. It waits for [`Calls::begin`](super::Calls::begin).
    Accepted {
        /// The call.
        id: CallId,
        /// The answer.
        answer: Answer,
    },
    /// At the listener: the key exchange with a caller failed.
    NotAuthentic {
        /// The caller.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// The far end has proved another address, or this end's own address has changed.
    Moved {
        /// The call.
        id: CallId,
        /// The address of the far end.
        to: SocketAddr,
    },
    /// The call has ended. Its media can be taken with [`Calls::take_media`](super::Calls::take_media).
    Ended {
        /// The call.
        id: CallId,
        /// The error that ended it, if any.
        outcome: Result<(), CallError>,
    },
}

/// Error that ends a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No answer.
    #[error(
        "nothing answered within {0}: start `giusto call --listen` there, or check the address and the firewall"
    )]
    NoAnswer(TimeDelta),
    /// The host of the far end answered "port unreachable" for half a second.
    #[error(
        "no program listens at the port (the host answered \"port unreachable\"): start `giusto call --listen` there, or check address, \
         port and firewall"
    )]
    PortUnreachable,
    /// The far end refused the call.
    #[error("the far end refused the call: {0}")]
    Refused(CallRefusal),
    /// The far end proved no common key; its unauthenticated answer is enclosed.
    #[error("the far end did not prove that it has the same key; its unauthenticated answer: {0}")]
    Unauthenticated(CallRefusal),
    /// Nothing came from the far end for this long.
    #[error("the far end is silent: nothing came from it for {0:.1}")]
    Silent(TimeDelta),
    /// The host of the far end says that nothing listens at its port.
    #[error("the far end has gone: its host answers that nothing listens at its port any more")]
    Gone,
    /// The far end ended the call before its time.
    #[error("the far end ended the call after {after:.1} of {planned:.1}")]
    EndedThere {
        /// How long it has lasted.
        after: TimeDelta,
        /// How long it was to last.
        planned: TimeDelta,
    },
    /// The far end does not know the call.
    #[error("the far end no longer knows this call: it was restarted, or has ended the call")]
    Unknown,
    /// The far end did not confirm the end of the call.
    #[error("the far end did not confirm the end of the call within {0}, so its figures are missing")]
    Unconfirmed(TimeDelta),
    /// The far end uses another version.
    #[error("the far end uses {0}")]
    Wire(WireError),
}
