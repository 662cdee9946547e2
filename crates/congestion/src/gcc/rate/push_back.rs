//! Reduces the frame rate while more data are in flight than a congestion window permits.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};

giusto_units::defaults! {
    /// When frames are dropped because too much is in flight. The defaults are libwebrtc's (`rtc_base/experiments/rate_control_settings.cc`,
    /// `QueueSize:350,MinBitrate:30000,DropFrame:true`, unless stated).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct PushBackConfig {
        /// Queueing delay for which the window has room. Default 350 ms.
        pub queue: TimeDelta = TimeDelta::from_millis(350),
        /// The rate is not pushed below this. Default 30 kbit/s.
        pub min: DataRate = DataRate::from_bps(30_000),
        /// Minimum window. Default 3000 bytes (`goog_cc_network_control.cc`).
        pub min_window: DataSize = DataSize::from_bytes(3000),
        /// The window uses the shortest of the longest RTTs of this many feedback messages. Default 32 (`goog_cc_network_control.cc`).
        pub feedbacks: usize = 32,
        /// Interval of periodic processing. Default 25 ms (`goog_cc_factory.cc`).
        pub interval: TimeDelta = TimeDelta::from_millis(25),
    }
}

/// Pushes back against the encoder while too much is in flight: at a stall of the path, feedback comes too late
/// for any estimate (libwebrtc, `congestion_window_pushback_controller.cc`).
///
/// The window is the target rate over the RTT plus [`queue`](PushBackConfig::queue), averaged with the window
/// before. With each event the permitted share of the target changes: × 0.9 if more than 1.5 windows are in
/// flight, × 0.95 above one window, × 1.05 below, and 1 below a tenth. The target itself does not change; frames are
/// dropped instead, at most every second one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PushBack {
    config: PushBackConfig,
    clock: Forward,
    /// Longest RTT in each of the latest feedback messages.
    rtts: VecDeque<TimeDelta>,
    shortest_rtt: Option<TimeDelta>,
    window: Option<DataSize>,
    in_flight: DataSize,
    /// Permitted share of the target, 0 to 1.
    share: f64,
    processed: Option<Timestamp>,
}

/// Maximum number of processing intervals that one event makes up for: 2.5 s by default. The rest is left out.
const MAX_INTERVALS: u32 = 100;

impl PushBack {
    /// Without feedback there is no window.
    pub(crate) fn new(config: PushBackConfig) -> Self {
        Self { config, share: 1.0, ..Self::default() }
    }

    /// Handles a sent packet; `in_flight` includes it.
    pub(crate) fn on_sent(&mut self, now: Timestamp, target: DataRate, in_flight: DataSize) {
        self.on_timeout(now, target);
        self.in_flight = in_flight;
        self.update();
    }

    /// Handles packet feedback. `rtt` is the longest time from the departure of a reported packet;
    /// `None` if none has arrived.
    pub(crate) fn on_feedback(
        &mut self,
        now: Timestamp,
        target: DataRate,
        rtt: Option<TimeDelta>,
        in_flight: DataSize,
    ) {
        self.on_timeout(now, target);
        self.in_flight = in_flight;
        self.update();
        let Some(rtt) = rtt else { return };
        if self.rtts.len() >= self.config.feedbacks.max(1) {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt.max(TimeDelta::ZERO));
        self.shortest_rtt = self.rtts.iter().min().copied();
        self.resize(target);
    }

    /// The window, if there is one.
    #[cfg(test)]
    pub(crate) fn window(&self) -> Option<DataSize> {
        self.window
    }

    /// The share of `target` that is permitted, but not below the configured minimum.
    pub(crate) fn pushed(&self, target: DataRate) -> DataRate {
        // Rounding must not raise it.
        scaled(target, self.share).max(self.config.min).min(target)
    }

    /// One frame in this number is to be dropped, at least 2; `None`: no frame. The rate that remains is at
    /// least `min`, the encoder's minimum (libwebrtc, `video_stream_encoder.cc`, `UpdateTargetBitrate`).
    pub(crate) fn frame_drop_interval(&self, target: DataRate, min: DataRate) -> Option<u32> {
        let reduction = target.as_bps().saturating_sub(self.pushed(target).max(min).as_bps());
        if reduction <= target.as_bps() / 100 {
            return None;
        }
        let interval = target.as_bps().checked_div(reduction)?;
        Some(u32::try_from(interval).unwrap_or(u32::MAX).max(2))
    }

    /// Makes up for the periodic processing since the last call.
    pub(crate) fn on_timeout(&mut self, now: Timestamp, target: DataRate) {
        let now = self.clock.clamp(now);
        let mut processed = self.processed.unwrap_or(now);
        let interval = self.config.interval.max(TimeDelta::from_millis(1));
        for _ in 0..MAX_INTERVALS {
            if now - processed < interval {
                break;
            }
            processed += interval;
            self.resize(target);
            self.update();
        }
        self.processed = Some(if now - processed < interval { processed } else { now });
    }

    fn resize(&mut self, target: DataRate) {
        let Some(rtt) = self.shortest_rtt else { return };
        let window = target.size_in(rtt + self.config.queue);
        let window = self
            .window
            .map_or(window, |before| DataSize::from_bytes(before.as_bytes().midpoint(window.as_bytes())));
        self.window = Some(window.max(self.config.min_window));
    }

    fn update(&mut self) {
        let Some(window) = self.window else { return };
        let fill = self.in_flight.as_bytes() as f64 / window.as_bytes() as f64;
        self.share = if fill > 1.5 {
            self.share * 0.9
        } else if fill > 1.0 {
            self.share * 0.95
        } else if fill < 0.1 {
            1.0
        } else {
            (self.share * 1.05).min(1.0)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, kbps, ms};

    const TARGET: DataRate = DataRate::from_bps(800_000);
    const MIN: DataRate = DataRate::from_bps(30_000);

    fn bytes(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    /// 800 kbit/s over 150 + 350 ms are 50 000 bytes.
    fn begun(in_flight: u64) -> PushBack {
        let mut push_back = PushBack::new(PushBackConfig::default());
        push_back.on_feedback(at(0), TARGET, Some(ms(150)), bytes(in_flight));
        push_back
    }

    #[test]
    fn the_window_is_the_target_over_rtt_and_queue() {
        let mut push_back = PushBack::new(PushBackConfig::default());
        push_back.on_sent(at(0), TARGET, bytes(1_000_000));
        assert_eq!((push_back.window(), push_back.pushed(TARGET)), (None, TARGET));
        assert_eq!(begun(0).window(), Some(bytes(50_000)));
        // Half of the way to 100 000 bytes with twice the target; a longer RTT does not count.
        let mut push_back = begun(0);
        push_back.on_feedback(at(1), TARGET, Some(TimeDelta::from_seconds(2)), bytes(0));
        assert_eq!(push_back.window(), Some(bytes(50_000)));
        push_back.on_feedback(at(2), kbps(1600), Some(ms(150)), bytes(0));
        assert_eq!(push_back.window(), Some(bytes(75_000)));
        let mut push_back = PushBack::new(PushBackConfig::default());
        push_back.on_feedback(at(0), MIN, Some(TimeDelta::ZERO), bytes(0));
        assert_eq!(push_back.window(), Some(bytes(3000)), "30 kbit/s over 350 ms are 1312 bytes");
    }

    /// The cases of libwebrtc's `congestion_window_pushback_controller_unittest.cc`: a window of 50 000 bytes.
    #[test]
    fn the_rate_is_pushed_as_published() {
        let pushed = |push_back: &PushBack, bps| push_back.pushed(DataRate::from_bps(bps)).as_bps();
        let mut push_back = begun(100_000);
        push_back.on_sent(at(1), TARGET, bytes(100_000));
        assert_eq!((pushed(&push_back, 80_000), pushed(&push_back, 35_000)), (72_000, 31_500));
        push_back.on_sent(at(2), TARGET, bytes(100_000));
        assert_eq!((pushed(&push_back, 72_000), pushed(&push_back, 31_500)), (58_320, 30_000));
        assert_eq!(pushed(&push_back, 20_000), 20_000);
        let mut push_back = begun(49_999);
        push_back.on_sent(at(1), TARGET, bytes(49_999));
        assert_eq!(pushed(&push_back, 80_000), 80_000);
        let mut push_back = PushBack::new(PushBackConfig::default());
        push_back.on_sent(at(1), TARGET, bytes(100_000_000));
        assert_eq!(pushed(&push_back, 80_000), 80_000, "without feedback there is no window");
    }

    #[test]
    fn frames_are_dropped_while_too_much_is_in_flight() {
        let mut push_back = begun(10_000);
        assert_eq!(push_back.frame_drop_interval(TARGET, MIN), None);
        push_back.on_sent(at(1), TARGET, bytes(50_001));
        // By hand: × 0.95, a reduction of 5 %, so one frame in 20.
        assert_eq!(push_back.pushed(TARGET), DataRate::from_bps(760_000));
        assert_eq!(push_back.frame_drop_interval(TARGET, MIN), Some(20));
        push_back.on_sent(at(2), TARGET, bytes(75_001));
        // × 0.9: 14.5 %, one frame in 6.
        assert_eq!(push_back.frame_drop_interval(TARGET, MIN), Some(6));
        for time in 3..100 {
            push_back.on_sent(at(time), TARGET, bytes(75_001));
        }
        assert_eq!((push_back.pushed(TARGET), push_back.frame_drop_interval(TARGET, MIN)), (MIN, Some(2)));
        // Never below the encoder's minimum.
        assert_eq!(push_back.frame_drop_interval(TARGET, TARGET), None);
        assert_eq!(push_back.frame_drop_interval(MIN, MIN), None);
        // No rate is too high.
        assert_eq!(push_back.frame_drop_interval(DataRate::from_bps(u64::MAX), MIN), Some(2));
        push_back.on_feedback(at(101), TARGET, None, bytes(4_999));
        assert_eq!(push_back.frame_drop_interval(TARGET, MIN), None);
    }

    #[test]
    fn the_share_recovers_while_nothing_is_sent() {
        let mut push_back = begun(10_000);
        for time in 1..9 {
            push_back.on_sent(at(time), TARGET, bytes(75_001));
        }
        push_back.on_feedback(at(10), TARGET, None, bytes(40_000));
        // By hand: 0.9⁸ · 1.05 = 0.452; 1.05¹⁷ times that is above 1.
        assert_eq!(push_back.pushed(TARGET), DataRate::from_bps(361_592));
        push_back.on_sent(at(10 + 25 * 17), TARGET, bytes(40_000));
        assert_eq!(push_back.pushed(TARGET), TARGET);
    }
}
