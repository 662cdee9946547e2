//! Errors of voice sources.

use giusto_rtp::RtpError;

/// The sampling rate of G.711.
pub(super) const TELEPHONE_RATE: u32 = 8_000;

/// An error of a voice source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoiceSourceError {
    /// Audio that cannot be resampled to 8000 Hz.
    #[error("audio of {channels} channels at {rate} Hz: write 1 to 64 channels at 1000 to 384000 Hz")]
    Audio {
        /// Samples per second and channel.
        rate: u32,
        /// Channels.
        channels: u16,
    },
    /// There are no samples.
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
