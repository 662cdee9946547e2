//! The handshake of a call: an adaptive media session between two hosts.
//!
//! [`Calls`] holds all calls of one socket, without clock or socket. RTP and RTCP of each call pass through it to its
//! [`CallMedia`], once the far end has proved its address.
//!
//! ```text
//!   Caller                                  Listener
//!     | -- Hello (padded) ----------------> |   keeps nothing
//!     | <-- Challenge (cookie) ------------ |   no longer than the Hello
//!     | -- Offer (cookie, the media) -----> |   the address is proven
//!     | <-- Accepted (token) or Refused --- |
//!     | == RTP, RTCP =====================> |   and back, as offered
//!     | -- Ping --> <-- Pong -------------- |   from both ends: keep-alive, round-trip time, clock offset
//!     | -- Finish (figures) --------------> |   from either end
//!     | <-- Finished (figures) ------------ |
//!     | -- Closed (final figures) --------> |
//! ```
//!
//! # Datagrams
//!
//! The first byte tells the messages from RTP and RTCP, as RFC 7983 §7 requires: these begin with 128 to 191, messages with `g`.
//! The upper 24 bits of all synchronisation sources of one end are one random number, which the Offer or the answer names: a
//! datagram belongs to the call of its address and of this number, and is dropped if there is none.
//!
//! # Protection
//!
//! Each RTP or RTCP datagram is followed by the lower 32 bits of its number and by a MAC (80 bit) over all bytes before and the upper
//! 32 bits. The numbers of one end's datagrams count up; a replay window drops copies. Its key is derived from the shared key, and between
//! ends that share none from the numbers of the handshake, which those see who read its datagrams: nobody else can forge media then.
//! Messages are authenticated as in [`probe::wire`](crate::probe::wire) between ends that share keys. [`Protection`] has the choices.
//!
//! # A change of the address
//!
//! | | |
//! |---|---|
//! | Ping with the token of a call, from another address | is answered there by a Probe with a cookie, no longer than the Ping |
//! | Proof: the same cookie, from there | the call goes on at this address; the answer is Moved |
//!
//! Both ends then tell their media that the route changed. Until then everything is sent to the former address.

mod calls;
mod end;
mod event;
mod exchange;
mod greeting;
mod keys;
mod media;
mod messages;
mod protection;

pub use calls::{CallCounters, Calls, CallsConfig, Outgoing, OutgoingMedia};
pub use end::CallStatus;
pub use event::{CallError, CallEvent, CallId};
pub use exchange::{ExchangeResult, KeyExchange};
pub use greeting::CallGreeting;
pub use keys::{MakeCipher, MediaCipher};
pub use media::CallMedia;
pub(crate) use messages::CONTROL_KINDS;
pub use messages::{
    Answer, AudioOffer, CallRefusal, DelayFigures, EndFigures, MAX_NAME_BYTES, MAX_OFFERED_VIDEOS,
    MediaOffer, Offer, ReceivedFigures, ReceivedStream, RepairOffer, SentFigures, VideoOffer,
};

pub use protection::{Protection, SEAL_TRAILER_BYTES};

#[cfg(test)]
mod tests;
