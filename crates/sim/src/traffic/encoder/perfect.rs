//! An encoder that always meets its target.

use giusto_session::{media::RateRange, video::VIDEO_CLOCK};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    account::{BurstSize, FrameAccount},
    cadence::{Cadence, FrameRate},
    error::SourceError,
    lag::Lag,
    on_cadence::{Made, Model, OnCadence},
};

giusto_units::defaults! {
    /// Configuration of a [`PerfectEncoder`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct PerfectConfig {
        /// The rates that it can produce. Default: 150 kbit/s to 1.5 Mbit/s (RFC 8867 §4.3).
        pub limits: RateRange = RateRange::default(),
        /// The initial target, clamped to the limits. Default: 150 kbit/s (RFC 8867 §4.3).
        pub start_rate: DataRate = DataRate::from_bps(150_000),
        /// Frames per second. Default: 30 Hz.
        pub frame_rate: FrameRate = FrameRate::HZ_30,
        /// Delay until a request takes effect. Default: 100 ms (RFC 8867 §4.3).
        pub lag: TimeDelta = TimeDelta::from_millis(100),
        /// Size and interval of key frames. Default: they have the size of other frames, and are made only first
        /// and on request.
        pub key_frames: Option<KeyFrames> = None,
    }
}

/// Key frames that are larger than other frames, which are smaller in return.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyFrames {
    /// The size of a key frame.
    pub size: BurstSize,
    /// Number of frames, including the key frame, after which the average is the target again. At least 2, so
    /// that a frame can repay.
    pub repaid_in: u32,
    /// Interval of key frames, in frames; `None`: only first and on request.
    pub interval: Option<u32>,
}

/// An encoder that meets its target to the byte. Every frame is the target over the frame rate, with
/// remainders carried. The excess of a key frame is subtracted from the next frames.
///
/// No real encoder works like this. It is for tests in which all effects should come from the controller.
pub type PerfectEncoder = OnCadence<Exact>;

/// The model of a [`PerfectEncoder`].
#[derive(Debug, Clone)]
pub struct Exact {
    lag: Lag,
    account: FrameAccount,
    key_frames: Option<KeyFrames>,
    key_wanted: bool,
    /// Number of frames since the last key frame.
    since_key: u32,
}

impl PerfectEncoder {
    /// An encoder whose first frame is due at `start`.
    ///
    /// # Errors
    ///
    /// [`SourceError::FrameTooSmall`] if the lowest rate gives less than the minimum frame size;
    /// [`SourceError::Parameter`] for key frames that cannot be repaid.
    pub fn new(config: PerfectConfig, start: Timestamp) -> Result<Self, SourceError> {
        let PerfectConfig { limits, start_rate, frame_rate, lag, key_frames } = config;
        frame_rate.check(limits)?;
        if let Some(KeyFrames { size, repaid_in, interval }) = key_frames {
            size.check()?;
            for (what, frames) in
                [("frames to repay a key frame", repaid_in), ("key-frame interval", interval.unwrap_or(2))]
            {
                if !(2..=1_000_000).contains(&frames) {
                    return Err(SourceError::Parameter { what, found: frames.into(), range: "2 to 1000000" });
                }
            }
        }
        let target = limits.clamp(start_rate);
        let model = Exact {
            lag: Lag::new(lag, target),
            account: FrameAccount::new(frame_rate),
            key_frames,
            key_wanted: true,
            since_key: 0,
        };
        let cadence = Cadence::new(start, frame_rate.period(), VIDEO_CLOCK);
        Ok(Self::of(model, cadence, limits, target))
    }
}

impl Model for Exact {
    fn frame(&mut self, now: Timestamp, _target: DataRate) -> Made {
        let rate = self.lag.rate(now);
        let interval = self.key_frames.and_then(|keys| keys.interval);
        let key = self.key_wanted || interval.is_some_and(|interval| self.since_key >= interval);
        let bytes = match self.key_frames.filter(|_| key) {
            Some(keys) => self.account.open(rate, keys.repaid_in, keys.size),
            None => self.account.next(rate),
        };
        self.key_wanted = false;
        self.since_key = if key { 1 } else { self.since_key.saturating_add(1) };
        Made::new(bytes, key)
    }

    fn on_target(&mut self, now: Timestamp, target: DataRate) {
        self.lag.request(now, target);
    }

    fn restart(&mut self) {
        self.key_wanted = true;
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::{
        super::{
            MediaSource,
            tests::{bytes, frames},
        },
        *,
    };

    const KEYS: KeyFrames = KeyFrames { size: BurstSize::Frames(4.0), repaid_in: 10, interval: None };

    /// With or without key frames, which are without lag.
    fn encoder(key_frames: Option<KeyFrames>) -> PerfectEncoder {
        let lag = if key_frames.is_some() { TimeDelta::ZERO } else { PerfectConfig::default().lag };
        let config =
            PerfectConfig { frame_rate: FrameRate::HZ_25, lag, key_frames, ..PerfectConfig::default() };
        let mut encoder = PerfectEncoder::new(config, Timestamp::ZERO).unwrap();
        encoder.set_target(Timestamp::ZERO, DataRate::from_bps(1_200_000)); // 6000 bytes at 25 Hz
        encoder
    }

    #[test]
    fn a_new_target_applies_to_the_first_frame_after_the_lag() {
        // frames at 0, 40, 80, 120, 160 ms; the change at 0 takes effect at 100 ms
        assert_eq!(bytes(&frames(&mut encoder(None), 5)), [750, 750, 750, 6000, 6000]);
    }

    #[test]
    fn key_frames_are_periodic_and_repaid() {
        let mut encoder = encoder(Some(KeyFrames { interval: Some(10), ..KEYS }));
        for group in frames(&mut encoder, 50).chunks(10) {
            assert!(group[0].key && !group[1..].iter().any(|frame| frame.key));
            // (60 000 − 24 000) / 9
            assert_eq!((bytes(group)[0], &bytes(group)[1..]), (24_000, &[4000; 9][..]));
        }
    }

    #[test]
    fn a_requested_key_frame_is_the_next_frame() {
        let size = BurstSize::Fixed(DataSize::from_bytes(15_000));
        let mut encoder = encoder(Some(KeyFrames { size, repaid_in: 4, ..KEYS }));
        frames(&mut encoder, 20);
        encoder.request_key_frame(Timestamp::ZERO);
        encoder.request_key_frame(Timestamp::ZERO);
        let found = frames(&mut encoder, 6);
        assert_eq!(bytes(&found), [15_000, 3000, 3000, 3000, 6000, 6000]);
        assert!(found[0].key && !found[1..].iter().any(|frame| frame.key));
    }

    #[test]
    fn requests_at_every_frame_do_not_raise_the_rate() {
        let mut encoder = encoder(Some(KeyFrames { size: BurstSize::Frames(5.0), repaid_in: 30, ..KEYS }));
        let mut total = 0;
        for _ in 0..2500 {
            encoder.request_key_frame(Timestamp::ZERO);
            let frame = &frames(&mut encoder, 1)[0];
            assert!(frame.key && frame.payload.size().as_bytes() >= 10);
            total += frame.payload.size().as_bytes();
        }
        // 100 s at 1.2 Mbit/s, plus at most what thirty frames repay
        assert!((15_000_000..=15_000_000 + 30 * 6000).contains(&total), "{total}");
    }

    #[test]
    fn invalid_encoders_are_rejected() {
        let rejected = |config| PerfectEncoder::new(config, Timestamp::ZERO).unwrap_err().to_string();
        let limits = RateRange::new(DataRate::from_bps(2_399), DataRate::from_bps(5_000)).unwrap();
        let message = rejected(PerfectConfig { limits, ..PerfectConfig::default() });
        assert!(message.starts_with("2.399 kbit/s at 30 Hz gives frames below 10 B"), "{message}");
        let keys = KeyFrames { size: BurstSize::Frames(2.0), repaid_in: 1, interval: None };
        let message = rejected(PerfectConfig { key_frames: Some(keys), ..PerfectConfig::default() });
        assert_eq!(message, "frames to repay a key frame must be 2 to 1000000, found 1");
    }
}
