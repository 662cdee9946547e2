//! Recorded frame sizes.

use std::sync::Arc;

use giusto_session::{media::RateRange, video::VIDEO_CLOCK};
use giusto_units::{DataRate, DataSize, Timestamp};

use super::{
    cadence::{Cadence, FrameRate},
    error::SourceError,
    frame::{FRAME_MAX, FRAME_MIN},
    on_cadence::{Made, Model, OnCadence},
};

/// The sizes of the frames of a recording, which repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSizes {
    sizes: Arc<[DataSize]>,
    total: DataSize,
}

impl FrameSizes {
    /// Maximum number of frames: more than 9 h at 30 Hz.
    pub const MOST: usize = 1_000_000;

    /// These sizes, in order.
    ///
    /// # Errors
    ///
    /// [`SourceError::Parameter`] unless there are 1 to 1,000,000 frames of 10 to 1,000,000 bytes each.
    pub fn new(sizes: impl IntoIterator<Item = DataSize>) -> Result<Self, SourceError> {
        let sizes: Arc<[DataSize]> = sizes.into_iter().collect();
        if !(1..=Self::MOST).contains(&sizes.len()) {
            let (what, found) = ("number of frame sizes", sizes.len() as f64);
            return Err(SourceError::Parameter { what, found, range: "1 to 1000000" });
        }
        let range = FRAME_MIN..=FRAME_MAX;
        if let Some(size) = sizes.iter().find(|size| !range.contains(size)) {
            let (what, found) = ("frame size in bytes", size.as_bytes() as f64);
            return Err(SourceError::Parameter { what, found, range: "10 to 1000000" });
        }
        let total = DataSize::from_bytes(sizes.iter().map(|size| size.as_bytes()).sum());
        Ok(Self { sizes, total })
    }

    /// The mean rate at this number of frames per second.
    pub fn rate(&self, frame_rate: FrameRate) -> DataRate {
        let mean = self.total.as_bits() as f64 / self.sizes.len() as f64;
        DataRate::from_bps((mean * frame_rate.as_hertz()).round() as u64)
    }
}

/// Configuration of a [`RecordedEncoder`].
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedConfig {
    /// The sizes.
    pub sizes: FrameSizes,
    /// Frames per second. Default: 30 Hz.
    pub frame_rate: FrameRate,
    /// The rates that it can produce, and the initial target. `None`: the frames have the recorded sizes whatever the target is.
    pub adapts: Option<(RateRange, DataRate)>,
}

/// An encoder that makes frames of recorded sizes, from the first to the last and again.
///
/// If it adapts, each frame is the recorded size times the target over the mean rate of the recording, at once and with remainders
/// carried: large and small frames keep their relation, and the mean over the recording is the target, as long as no frame reaches the
/// bounds of 10 and 1,000,000 bytes. The first frame is a key frame; requests have no effect, because the
/// recording has key frames of its own.
///
/// # Example
///
/// ```
/// use giusto_sim::traffic::encoder::{FrameRate, FrameSizes, MediaSource, RecordedConfig, RecordedEncoder};
/// use giusto_units::{DataSize, Timestamp};
///
/// let sizes = FrameSizes::new([9_000, 1_000, 2_000].map(DataSize::from_bytes))?;
/// let config = RecordedConfig { sizes, frame_rate: FrameRate::HZ_25, adapts: None };
/// let mut camera = RecordedEncoder::new(config, Timestamp::ZERO)?;
/// assert_eq!(camera.target().as_bps(), 800_000); // a mean of 4000 B, 25 times a second
/// assert_eq!(camera.poll_frame(Timestamp::ZERO).map(|frame| frame.payload.size()), Some(DataSize::from_bytes(9_000)));
/// # Ok::<(), giusto_sim::traffic::encoder::SourceError>(())
/// ```
pub type RecordedEncoder = OnCadence<Recording>;

/// A recording, and how far it is played.
#[derive(Debug, Clone)]
pub struct Recording {
    sizes: FrameSizes,
    next: usize,
    /// The mean rate of the recording, if sizes follow the target.
    mean: Option<DataRate>,
    /// What rounding has left of earlier frames, in bytes.
    remainder: f64,
    is_first: bool,
}

impl RecordedEncoder {
    /// An encoder whose first frame is due at `start`.
    ///
    /// # Errors
    ///
    /// [`SourceError::FrameTooSmall`] if the lowest rate gives a mean frame below the minimum size.
    pub fn new(config: RecordedConfig, start: Timestamp) -> Result<Self, SourceError> {
        let RecordedConfig { sizes, frame_rate, adapts } = config;
        let mean = sizes.rate(frame_rate);
        let (limits, target) = match adapts {
            Some((limits, start_rate)) => (limits, limits.clamp(start_rate)),
            None => (RateRange::fixed(mean), mean),
        };
        frame_rate.check(limits)?;
        let mean = adapts.map(|_| mean);
        let recording = Recording { sizes, next: 0, mean, remainder: 0.0, is_first: true };
        let cadence = Cadence::new(start, frame_rate.period(), VIDEO_CLOCK);
        Ok(Self::of(recording, cadence, limits, target))
    }
}

impl Recording {
    /// The size of the next frame.
    fn size(&mut self, target: DataRate) -> u64 {
        let recorded = self.sizes.sizes.get(self.next).copied().unwrap_or(FRAME_MIN);
        self.next = (self.next + 1) % self.sizes.sizes.len();
        let Some(mean) = self.mean else { return recorded.as_bytes() };
        let exact = recorded.as_bytes() as f64 * target.as_bps() as f64 / mean.as_bps().max(1) as f64
            + self.remainder;
        let size = (exact.floor() as u64).clamp(FRAME_MIN.as_bytes(), FRAME_MAX.as_bytes());
        // What the bounds add or take is not made up for by other frames.
        self.remainder = (exact - size as f64).clamp(0.0, 1.0);
        size
    }
}

impl Model for Recording {
    fn frame(&mut self, _now: Timestamp, target: DataRate) -> Made {
        Made::new(self.size(target), std::mem::take(&mut self.is_first))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            MediaSource,
            tests::{bytes, frames},
        },
        *,
    };
    use crate::testing::kbps;

    const BYTES: [u64; 4] = [30_000, 2_001, 1_000, 6_999];

    fn encoder(adapts: Option<(RateRange, DataRate)>) -> RecordedEncoder {
        let sizes = FrameSizes::new(BYTES.map(DataSize::from_bytes)).unwrap();
        let config = RecordedConfig { sizes, frame_rate: FrameRate::HZ_25, adapts };
        RecordedEncoder::new(config, Timestamp::ZERO).unwrap()
    }

    #[test]
    fn recorded_sizes_are_played_again_and_again() {
        let mut encoder = encoder(None);
        // A mean of 10000 B at 25 Hz.
        assert_eq!(encoder.limits(), RateRange::fixed(DataRate::from_bps(2_000_000)));
        encoder.set_target(Timestamp::ZERO, DataRate::from_bps(100_000));
        encoder.request_key_frame(Timestamp::ZERO);
        let played = frames(&mut encoder, 9);
        assert_eq!(bytes(&played), [&BYTES[..], &BYTES, &BYTES[..1]].concat());
        assert!(played[0].key && !played[1..].iter().any(|frame| frame.key));
        assert_eq!(encoder.next_frame_at(), Some(Timestamp::from_nanos(360_000_000)));
    }

    #[test]
    fn sizes_follow_the_target_and_keep_their_relation() {
        let adapts = |max, start| Some((RateRange::new(kbps(200), kbps(max)).unwrap(), kbps(start)));
        let mut three = encoder(adapts(3000, 100));
        assert_eq!(three.target(), kbps(200));
        three.set_target(Timestamp::ZERO, kbps(700));
        let sizes = bytes(&frames(&mut three, 400));
        // 0.35 of the recorded ones; the sum to the byte.
        assert_eq!(sizes[..3], [10_500, 700, 350]);
        let sum: u64 = sizes.iter().sum();
        assert!((1_399_999..=1_400_000).contains(&sum), "{sum}");
        // A new target holds from the next frame on, within the limits.
        three.set_target(Timestamp::ZERO, kbps(9000));
        assert_eq!(bytes(&frames(&mut three, 1)), [45_000]);
        // 200 times the recorded ones, of which the first and the last would have 6 and 1.4 MB.
        let sizes = bytes(&frames(&mut encoder(adapts(1_000_000, 400_000)), 5));
        assert_eq!(sizes, [1_000_000, 400_201, 200_000, 1_000_000, 1_000_000]);
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        let error = |bytes: &[u64]| {
            FrameSizes::new(bytes.iter().copied().map(DataSize::from_bytes)).unwrap_err().to_string()
        };
        assert_eq!(error(&[]), "number of frame sizes must be 1 to 1000000, found 0");
        assert_eq!(error(&[100, 9]), "frame size in bytes must be 10 to 1000000, found 9");
        assert_eq!(error(&[1_000_001]), "frame size in bytes must be 10 to 1000000, found 1000001");
    }
}
