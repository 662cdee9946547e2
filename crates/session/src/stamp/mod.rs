//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762), with sessions and TLVs of RFC 8972.
//!
//! | module | contents |
//! |---|---|
//! | [`time`] | timestamps and error estimates as they are on the wire |
//! | [`packet`] | the test packets, in unauthenticated and authenticated mode |
//! | [`tlv`] | what a reflector does with the extensions behind the packet |
//! | [`Reflector`] | the Session-Reflector |
//! | [`ProbeSource`], [`Answers`] | the Session-Sender: it writes the packets, and measures what comes back |
//! | [`CountCheck`] | whether the reflector counts |
//!
//! Unauthenticated packets are those of TWAMP Light (RFC 5357, appendix I) too.

mod answers;
mod check;
mod departures;
pub mod packet;
mod reflector;
mod sources;
pub mod time;
pub mod tlv;

pub use answers::{AnswerCounters, Answers, Losses, OneWay};
pub use check::CountCheck;
pub use departures::{Departures, ProbeSource};
pub use reflector::{Arrived, Reflected, Reflector, ReflectorConfig, ReflectorCounters};

/// The UDP port of a reflector (RFC 8762 §4.1).
pub const STAMP_PORT: u16 = 862;
