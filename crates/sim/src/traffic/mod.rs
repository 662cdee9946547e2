//! Traffic sources, sinks and endpoints.

mod agent;
mod encoded;
pub mod encoder;
mod media;
mod paced;
mod segment;
mod source;
pub mod tcp;

pub use agent::{Agent, Body, Transmit};
pub use encoded::EncodedEndpoint;
pub use media::{Media, UDP_HEADERS, note_of};
pub use paced::{Datagrams, Paced};
pub use source::{Departures, PacketSize, Pattern, PatternError, Periods, Sink, Source};
