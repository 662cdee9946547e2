//! A source of voice packets.
//!
//! [`VoiceSource`] makes the packets of a [`VoiceFormat`](giusto_rtp::voice::VoiceFormat). G.711 packets carry audio that can be
//! listened to, a tone unless samples are given. Packets of the other codecs have the right size, payload type, timestamps and
//! (Opus) first byte, but a counted pattern instead of coded speech: a network cannot tell the difference, a decoder would play
//! noise.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::voice::VoiceFormat;
//! use giusto_session::voice::{StreamStart, VoiceSource};
//!
//! let format = VoiceFormat::new("g711".parse()?);
//! let mut source = VoiceSource::new(format, StreamStart { sequence: 1, timestamp: 2, ssrc: 3 });
//! let mut packet = [0; 1500];
//! assert_eq!(source.next_packet(&mut packet)?, 172);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod resample;
mod source;

use giusto_rtp::RtpError;

pub use self::{
    resample::resample_to_8k,
    source::{StreamStart, VoiceSource, tone},
};

/// The sampling rate of G.711.
const TELEPHONE_RATE: u32 = 8_000;

/// An error of a voice source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoiceSourceError {
    /// Samples that cannot be turned into 8000 Hz.
    #[error("audio of {channels} channels at {rate} Hz: write 1 to 64 channels at 1000 to 384000 Hz")]
    Audio {
        /// Samples of one channel in a second.
        rate: u32,
        /// Channels.
        channels: u16,
    },
    /// There is no sample to send.
    #[error("there is no audio: give at least one sample")]
    NoAudio,
    /// The packet does not fit the buffer.
    #[error("a voice packet of {needed} bytes does not fit a buffer of {found} bytes")]
    BufferTooSmall {
        /// Bytes of the packet.
        needed: usize,
        /// Bytes of the buffer.
        found: usize,
    },
    /// The RTP header could not be written.
    #[error(transparent)]
    Rtp(#[from] RtpError),
}
