//! Pacing rate and send window.

use giusto_units::{DataRate, DataSize};

giusto_units::defaults! {
    /// Configuration of sending. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct SendingConfig {
        /// Minimum target for the pacing rate. Default 50 kbit/s (§"Packet Pacing", `RATE_PACE_MIN`).
        pub min: DataRate = DataRate::from_bps(50_000),
        /// Pacing rate as a multiple of the target. Default 1.5 (`PACKET_PACING_HEADROOM`).
        pub head_room: f64 = 1.5,
        /// Maximum additional factor on the pacing rate when the target is at its maximum. Default 4
        /// (`MAX_RELAXED_PACING_FACTOR`). One: pacing is never relaxed.
        pub relaxed: f64 = 4.0,
        /// Share of the maximum target from which pacing is relaxed. Default 0.8 (`RELAXED_PACING_LIMIT_LOW`).
        pub relaxed_from: f64 = 0.8,
        /// Maximum factor on the pacing rate while a frame larger than the mean is sent. Default 1: none. 1.5 in the authors' library
        /// (`ScreamTx.h`, `kMaxAdaptivePacingRateScale`).
        pub large_frames: f64 = 1.0,
        /// Ratio of send window to reference window while the delay varies. Default 1.5 (§"Send Window
        /// Calculation", `REF_WND_OVERHEAD_MIN`).
        pub overhead_min: f64 = 1.5,
        /// Ratio of send window to reference window while the delay is constant. Default 3
        /// (`REF_WND_OVERHEAD_MAX`).
        pub overhead_max: f64 = 3.0,
    }
}

impl SendingConfig {
    /// The pacing rate at `target`, with a maximum target of `max`, for a frame of `frame` times the mean size.
    pub fn pacing(&self, target: DataRate, max: DataRate, frame: f64) -> DataRate {
        let large = frame.min(self.large_frames).max(1.0);
        let paced = self.min.max(target).as_bps() as f64 * self.head_room * large;
        let share = target.as_bps() as f64 / (max.as_bps() as f64).max(1.0);
        let above = (share - self.relaxed_from) / (1.0 - self.relaxed_from).max(f64::MIN_POSITIVE);
        let scale = (1.0 - above).max(1.0 / self.relaxed.max(1.0)).min(1.0);
        DataRate::from_bps((paced / scale) as u64).max(target)
    }

    /// The send window for a reference window in bytes and a constant (1) or varying (0) delay.
    pub fn window(&self, reference: f64, steadiness: f64) -> DataSize {
        let overhead = self.overhead_min + (self.overhead_max - self.overhead_min) * steadiness;
        DataSize::from_bytes((reference * overhead) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::kbps;

    #[test]
    fn pacing_is_1_5_times_the_target_and_relaxed_near_the_maximum() {
        // 1.5 × target; above 0.8 of the maximum divided by 1 − (share − 0.8) / 0.2, which is at least a
        // quarter.
        for (target, pacing) in [
            (1, 75_000),
            (100, 150_000),
            (800, 1_200_000),
            (900, 2_700_000),
            (960, 5_760_000),
            (1000, 6_000_000),
        ] {
            let rate = SendingConfig::default().pacing(kbps(target), kbps(1000), 3.0);
            assert!(rate.as_bps().abs_diff(pacing) <= 1, "{target}: {rate:?}");
        }
    }

    #[test]
    fn large_frames_are_paced_faster_up_to_a_factor() {
        let sending = SendingConfig { large_frames: 1.5, ..SendingConfig::default() };
        let rates = [100_000, 10_000_000].map(DataRate::from_bps);
        let pacing = |frame| sending.pacing(rates[0], rates[1], frame).as_bps();
        assert_eq!([0.2, 1.0, 1.2, 1.5, 4.0].map(pacing), [150_000, 150_000, 180_000, 225_000, 225_000]);
        assert_eq!(SendingConfig::default().pacing(rates[0], rates[1], 4.0).as_bps(), 150_000);
    }

    #[test]
    fn the_send_window_is_1_5_to_3_reference_windows() {
        let sending = SendingConfig::default();
        let bytes = |steadiness| sending.window(10_000.0, steadiness).as_bytes();
        assert_eq!([bytes(0.0), bytes(0.5), bytes(1.0)], [15_000, 22_500, 30_000]);
    }
}
