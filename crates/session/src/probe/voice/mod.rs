//! A source of voice packets.
//!
//! [`VoiceSource`] makes the packets of a [`VoiceFormat`](giusto_rtp::voice::VoiceFormat). G.711 packets
//! contain real audio, a tone unless samples are given. Packets of the other codecs have the right size,
//! payload type, timestamps and (Opus) first byte, but a counting pattern instead of coded speech: a network
//! cannot tell the difference; a decoder would play noise.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::voice::VoiceFormat;
//! use giusto_session::probe::voice::{StreamStart, VoiceSource};
//!
//! let format = VoiceFormat::new("g711".parse()?);
//! let mut source = VoiceSource::new(format, StreamStart { sequence: 1, timestamp: 2, ssrc: 3 });
//! let mut packet = [0; 1500];
//! assert_eq!(source.next_packet(&mut packet)?, 172);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod resample;
mod source;

pub use self::{
    error::VoiceSourceError,
    resample::resample_to_8k,
    source::{StreamStart, VoiceSource, tone},
};
