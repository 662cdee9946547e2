//! The published tables and the arithmetic that explains them.

use giusto::measured::plan::StreamPlan;
use giusto_pace::{Limits, Strategy};
use giusto_units::{DataRate, DataSize, TimeDelta};

/// Duration of the published runs.
pub const PUBLISHED_DURATION: TimeDelta = TimeDelta::from_seconds(10);

/// Runs of which each published figure is the median.
pub const PUBLISHED_REPEATS: u32 = 3;

/// Bytes that go with each datagram over Ethernet: IPv4 20 and UDP 8, then header 14, check sequence 4, preamble and start
/// 8, gap 12 (RFC 791 §3.1, RFC 768, IEEE 802.3 §3.1.1 and §4.4.2).
const OVERHEAD: DataSize = DataSize::from_bytes(20 + 8 + 14 + 4 + 8 + 12);

/// The link between the published machines.
const LINK: DataRate = DataRate::from_bps(1_000_000_000);

/// One row of a published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The table: [`Strategy::SendSleep`] or [`Strategy::SendCompare`].
    pub strategy: Strategy,
    /// "Rate (bps)".
    pub rate: DataRate,
    /// "Datagram Size (bytes)": the payload.
    pub size: DataSize,
    /// "Datagrams/cycle".
    pub packets_per_cycle: u32,
    /// "Result (bps)": as their receiver read it.
    pub published: DataRate,
}

/// Both tables. Their last column, "accuracy", is their result against their rate and says nothing more.
pub const PUBLISHED: [Row; 12] = {
    use Strategy::{SendCompare, SendSleep};
    [
        row(SendSleep, (10_000, 200, 1), 10_161),
        row(SendSleep, (1_000_000, 200, 71), 1_011_399),
        row(SendSleep, (100_000_000, 200, 71), 99_934_183),
        row(SendSleep, (1_000_000_000, 200, 71), 726_826_893),
        row(SendSleep, (1_000_000_000, 1200, 13), 939_121_731),
        row(SendSleep, (10_000_000_000, 1200, 13), 939_231_796),
        row(SendCompare, (10_000, 200, 1), 10_161),
        row(SendCompare, (1_000_000, 200, 71), 1_011_406),
        row(SendCompare, (100_000_000, 200, 71), 100_015_791),
        row(SendCompare, (1_000_000_000, 200, 71), 726_879_468),
        row(SendCompare, (1_000_000_000, 1200, 13), 938_451_573),
        row(SendCompare, (10_000_000_000, 1200, 13), 938_829_083),
    ]
};

const fn row(strategy: Strategy, (rate, size, packets_per_cycle): (u64, u64, u32), published: u64) -> Row {
    Row {
        strategy,
        rate: DataRate::from_bps(rate),
        size: DataSize::from_bytes(size),
        packets_per_cycle,
        published: DataRate::from_bps(published),
    }
}

impl Row {
    /// A run of the published loop with its datagrams per cycle. It watches the clock instead of sleeping, which was the default of
    /// the published program.
    pub fn stream_plan(&self, duration: TimeDelta) -> StreamPlan {
        let limits = Limits::default().with_duration(duration);
        let mut plan = StreamPlan::constant(Some(self.rate), self.size, limits);
        plan.pacing.strategy = self.strategy;
        plan.pacing.packets_per_cycle = Some(self.packets_per_cycle);
        plan.pacing.spin = true;
        plan
    }

    /// The name of the strategy in the publication.
    pub const fn published_name(&self) -> &'static str {
        match self.strategy {
            Strategy::SendSleep => "Send and Sleep",
            _ => "Send and Compare",
        }
    }

    /// The published rate, in bit/s.
    pub fn published_bps(&self) -> f64 {
        self.published.as_bps() as f64
    }

    /// A stable name: `send-sleep-1M-200`.
    pub fn id(&self) -> String {
        let bps = self.rate.as_bps();
        let rate = match bps {
            1_000_000_000.. => format!("{}G", bps / 1_000_000_000),
            1_000_000.. => format!("{}M", bps / 1_000_000),
            _ => format!("{}k", bps / 1_000),
        };
        format!("{}-{rate}-{}", self.strategy.name(), self.size.as_bytes())
    }

    /// The time from one cycle to the next at the target rate, counting payload bytes, as in the published program.
    pub fn period(&self) -> TimeDelta {
        self.rate.time_for(self.size * u64::from(self.packets_per_cycle)).unwrap_or(TimeDelta::MAX)
    }

    /// The number of cycles that a sender on time begins within `duration`: the published loop reads the clock once a cycle.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_experiments::firebind::{PUBLISHED, PUBLISHED_DURATION};
    ///
    /// assert_eq!(PUBLISHED[0].cycles_in(PUBLISHED_DURATION), 63);
    /// ```
    pub fn cycles_in(&self, duration: TimeDelta) -> u64 {
        let (duration, period) =
            (duration.as_nanos().unsigned_abs(), self.period().as_nanos().unsigned_abs());
        duration.div_ceil(period.max(1)).max(1)
    }

    /// The reading of their receiver for a sender on time: N cycles over N−1 periods. `None` with fewer than two cycles.
    pub fn predicted_bps(&self, duration: TimeDelta) -> Option<f64> {
        let cycles = self.cycles_in(duration);
        let periods = cycles.checked_sub(1).filter(|&periods| periods > 0)?;
        Some(self.rate.as_bps() as f64 * cycles as f64 / periods as f64)
    }

    /// The maximum payload rate that their link carries in datagrams of this size, in bit/s.
    pub fn link_ceiling_bps(&self) -> f64 {
        LINK.as_bps() as f64 * link_efficiency(self.size)
    }

    /// Whether their link could carry the target rate. If not, the row measured the link, which we do not have.
    pub fn fits_link(&self) -> bool {
        (self.rate.as_bps() as f64) <= self.link_ceiling_bps()
    }
}

/// The share of a Gigabit link that is payload, with datagrams of `size`.
pub fn link_efficiency(size: DataSize) -> f64 {
    size.as_bytes() as f64 / (size + OVERHEAD).as_bytes() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counting_rule_predicts_the_published_readings() {
        let expected = [
            ("send-sleep-10k-200", 160_000_000, 63, 10_161.0),
            ("send-sleep-1M-200", 113_600_000, 89, 1_011_364.0),
            ("send-sleep-100M-200", 1_136_000, 8803, 100_011_361.0),
        ];
        for (row, (id, period, cycles, predicted)) in PUBLISHED.iter().zip(expected) {
            assert_eq!(row.id(), id);
            assert_eq!(row.period(), TimeDelta::from_nanos(period), "{id}");
            assert_eq!(row.cycles_in(PUBLISHED_DURATION), cycles, "{id}");
            let difference = row.predicted_bps(PUBLISHED_DURATION).unwrap() - predicted;
            assert!(difference.abs() < 0.5, "{id}: off by {difference}");
        }
        // No cycle begins at the very end.
        let cycles =
            [0, 320_000_000, 320_000_001].map(|nanos| PUBLISHED[0].cycles_in(TimeDelta::from_nanos(nanos)));
        assert_eq!(cycles, [1, 2, 3]);
        assert_eq!(PUBLISHED[0].predicted_bps(TimeDelta::from_millis(160)), None);
    }

    #[test]
    fn packets_per_cycle_follow_from_their_formula() {
        for row in PUBLISHED {
            let (size, rate) = (row.size.as_bytes(), row.rate.as_bps());
            let fit = 16_384 / (size + 28);
            let quarter_second = rate / 4 / (8 * size);
            let period_above_limit = fit * size * 8 * 4 > rate;
            let n = if period_above_limit { quarter_second } else { fit };
            assert_eq!(u64::from(row.packets_per_cycle), n.max(1), "{}", row.id());
        }
    }

    #[test]
    fn small_datagrams_carry_less_payload() {
        let percent = |bytes| (link_efficiency(DataSize::from_bytes(bytes)) * 1000.0).round() / 10.0;
        assert_eq!((percent(200), percent(1200)), (75.2, 94.8));
        let fitting = PUBLISHED.iter().filter(|row| row.fits_link()).count();
        assert_eq!(fitting, 6);
        for row in PUBLISHED.iter().filter(|row| !row.fits_link()) {
            assert!(row.published_bps() < row.link_ceiling_bps(), "{}", row.id());
        }
    }
}
