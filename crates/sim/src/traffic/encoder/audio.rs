//! Audio at a constant rate: one frame per packet time.

use giusto_rtp::voice::DEFAULT_PACKET_TIME;
use giusto_session::media::RateRange;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    cadence::{Cadence, Period},
    error::SourceError,
    on_cadence::{Made, Model, OnCadence},
};

giusto_units::defaults! {
    /// Configuration of an [`Audio`] source.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AudioConfig {
        /// The rate of the frames, headers not included. Default: 20 kbit/s (RFC 8867 §4.3).
        pub rate: DataRate = DataRate::from_bps(20_000),
        /// The time that one frame covers, 1 ms to 1 s. Default: 20 ms (RFC 3551 §4.2).
        pub packet_time: TimeDelta = DEFAULT_PACKET_TIME,
        /// Units of the RTP clock per second. Default: 48 000, as for Opus (RFC 7587 §4.1).
        pub clock: u32 = 48_000,
    }
}

/// A source of audio at a constant rate, as it accompanies each video flow in RFC 8867 §4.3: by default 50
/// bytes every 20 ms.
///
/// Every frame has the same size, rounded down to a whole number of bytes per packet time.
/// [`target`](super::MediaSource::target) is the resulting rate.
pub type Audio = OnCadence<Spoken>;

/// Frames of one size, one per packet time.
#[derive(Debug, Clone, Copy)]
pub struct Spoken(DataSize);

impl Audio {
    /// A source whose first frame is due at `start`.
    ///
    /// # Errors
    ///
    /// [`SourceError::Parameter`] for a packet time outside 1 ms to 1 s; [`SourceError::Packets`] unless the
    /// rate gives 1 to 65535 bytes per packet time.
    pub fn new(config: AudioConfig, start: Timestamp) -> Result<Self, SourceError> {
        let AudioConfig { rate, packet_time, clock } = config;
        let period = Period::of_time(packet_time)?;
        let size = rate.size_in(packet_time);
        let rate = DataRate::of(size, packet_time)
            .filter(|_| (1..=65_535).contains(&size.as_bytes()))
            .ok_or(SourceError::Packets { size, rate })?;
        let cadence = Cadence::new(start, period, clock);
        Ok(Self::of(Spoken(size), cadence, RateRange::fixed(rate), rate))
    }
}

impl Model for Spoken {
    fn frame(&mut self, _now: Timestamp, _target: DataRate) -> Made {
        Made::new(self.0.as_bytes(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::MediaSource, *};

    #[test]
    fn twenty_kbps_are_50_bytes_every_20_ms() {
        let mut audio = Audio::new(AudioConfig::default(), Timestamp::ZERO).unwrap();
        let mut at = Timestamp::ZERO;
        for n in 0..100 {
            assert_eq!(audio.next_frame_at(), Some(at));
            let frame = audio.poll_frame(at).unwrap();
            assert_eq!((frame.payload.len(), frame.media_timestamp), (50, 960 * n));
            at += TimeDelta::from_millis(20);
        }
    }

    #[test]
    fn a_rate_without_whole_bytes_is_rounded_down() {
        let config = AudioConfig { rate: DataRate::from_bps(6_599), ..AudioConfig::default() };
        let audio = Audio::new(config, Timestamp::ZERO).unwrap();
        assert_eq!(audio.target(), DataRate::from_bps(6_400)); // 16 bytes in 20 ms
        let slow = AudioConfig { rate: DataRate::from_bps(399), ..config };
        assert!(Audio::new(slow, Timestamp::ZERO).is_err());
        let long = AudioConfig { packet_time: TimeDelta::from_millis(1001), ..config };
        let message = Audio::new(long, Timestamp::ZERO).unwrap_err().to_string();
        assert!(message.contains("packet time in ms must be 1 to 1000, found 1001"), "{message}");
    }
}
