//! How fast may packets leave, and how many be in flight?

use giusto_units::{DataRate, DataSize};

/// What is settable of sending. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendingConfig {
    /// The pacing rate is that of no target below this. Default 50 kbit/s (§"Packet Pacing", `RATE_PACE_MIN`).
    pub least: DataRate,
    /// Packets leave at this multiple of the target. Default 1.5 (`PACKET_PACING_HEADROOM`).
    pub head_room: f64,
    /// And at up to this multiple of that, where the target is the most that the media take. Default 4
    /// (`MAX_RELAXED_PACING_FACTOR`). One: pacing is never relaxed.
    pub relaxed: f64,
    /// From this share of the most on. Default 0.8 (`RELAXED_PACING_LIMIT_LOW`).
    pub relaxed_from: f64,
    /// So many windows may be in flight where delay varies. Default 1.5 (§"Send Window Calculation", `REF_WND_OVERHEAD_MIN`).
    pub overhead_min: f64,
    /// And so many where it is steady. Default 3 (`REF_WND_OVERHEAD_MAX`).
    pub overhead_max: f64,
}

impl Default for SendingConfig {
    fn default() -> Self {
        Self {
            least: DataRate::from_bps(50_000),
            head_room: 1.5,
            relaxed: 4.0,
            relaxed_from: 0.8,
            overhead_min: 1.5,
            overhead_max: 3.0,
        }
    }
}

impl SendingConfig {
    /// The pacing rate at `target`, of `most` at most.
    pub fn pacing(&self, target: DataRate, most: DataRate) -> DataRate {
        let paced = self.least.max(target).as_bps() as f64 * self.head_room;
        let share = target.as_bps() as f64 / (most.as_bps() as f64).max(1.0);
        let above = (share - self.relaxed_from) / (1.0 - self.relaxed_from).max(f64::MIN_POSITIVE);
        let scale = (1.0 - above).max(1.0 / self.relaxed.max(1.0)).min(1.0);
        DataRate::from_bps((paced / scale) as u64).max(target)
    }

    /// What may be in flight, for a reference window of so many bytes and a delay so steady (1) or not (0).
    pub fn window(&self, reference: f64, steadiness: f64) -> DataSize {
        let overhead = self.overhead_min + (self.overhead_max - self.overhead_min) * steadiness;
        DataSize::from_bytes((reference * overhead) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_is_half_again_the_target_and_relaxes_towards_the_most() {
        // 1.5 × target; above 0.8 of the most divided by 1 − (share − 0.8) / 0.2, which is a quarter at least.
        for (target, pacing) in
            [(1_000, 75_000), (100_000, 150_000), (800_000, 1_200_000), (900_000, 2_700_000)]
        {
            let rate =
                SendingConfig::default().pacing(DataRate::from_bps(target), DataRate::from_bps(1_000_000));
            assert!(rate.as_bps().abs_diff(pacing) <= 1, "{target}: {rate:?}");
        }
        for target in [960_000, 1_000_000] {
            let rate =
                SendingConfig::default().pacing(DataRate::from_bps(target), DataRate::from_bps(1_000_000));
            assert_eq!(rate.as_bps(), target * 6);
        }
    }

    #[test]
    fn one_and_a_half_windows_to_three_may_be_in_flight() {
        let sending = SendingConfig::default();
        let bytes = |steadiness| sending.window(10_000.0, steadiness).as_bytes();
        assert_eq!([bytes(0.0), bytes(0.5), bytes(1.0)], [15_000, 22_500, 30_000]);
    }
}
