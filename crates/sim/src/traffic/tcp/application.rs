//! Applications that send over TCP.

use std::ops::RangeInclusive;

use giusto_units::TimeDelta;
use rand::RngExt;
use rand_distr::{Distribution, Exp1};

use crate::random::Random;

/// The application that writes to a sender.
#[derive(Debug, Clone)]
pub enum Application {
    /// Always has data to send.
    Unlimited,
    /// Sends this many bytes once; 0 counts as 1.
    Bytes(u64),
    /// Repeats transfers with idle times.
    ShortFlows(ShortFlows),
}

/// One source of the short TCP flows of RFC 8868 §5.1: transfers separated by idle times.
///
/// By default a transfer has a uniformly distributed size of 30 to 50 kB and uses a new connection, and the idle time is
/// exponentially distributed with a mean of 10 s. The RFC starts 30 sources together. It does not define the start of the
/// idle time: here it is the acknowledgement of the last byte.
#[derive(Debug, Clone)]
pub struct ShortFlows {
    random: Random,
    sizes: RangeInclusive<u64>,
    mean_idle: TimeDelta,
    starts_on: bool,
    persistent: bool,
}

impl ShortFlows {
    /// A source that starts with a transfer (ON).
    pub fn starting_on(random: Random) -> Self {
        Self {
            random,
            sizes: 30_000..=50_000,
            mean_idle: TimeDelta::from_seconds(10),
            starts_on: true,
            persistent: false,
        }
    }

    /// A source that starts with an idle time (OFF).
    pub fn starting_off(random: Random) -> Self {
        Self { starts_on: false, ..Self::starting_on(random) }
    }

    /// Sets the range of transfer sizes in bytes. An empty range counts as its lower end, a size of 0 as 1.
    #[must_use]
    pub fn with_sizes(self, sizes: RangeInclusive<u64>) -> Self {
        let from = (*sizes.start()).max(1);
        Self { sizes: from..=(*sizes.end()).max(from), ..self }
    }

    /// Sets the mean idle time, at least 0.
    #[must_use]
    pub fn with_mean_idle(self, mean: TimeDelta) -> Self {
        Self { mean_idle: mean.max(TimeDelta::ZERO), ..self }
    }

    /// Uses one connection that stays open. Its window restarts after idle periods (RFC 5681 §4.1).
    #[must_use]
    pub fn over_one_connection(self) -> Self {
        Self { persistent: true, ..self }
    }

    fn idle(&mut self) -> TimeDelta {
        let drawn: f64 = Exp1.sample(&mut self.random);
        TimeDelta::from_seconds_f64(drawn * self.mean_idle.as_seconds())
    }
}

impl Application {
    /// Idle time before the first transfer.
    pub(super) fn initial_idle(&mut self) -> TimeDelta {
        match self {
            Self::ShortFlows(flows) if !flows.starts_on => flows.idle(),
            _ => TimeDelta::ZERO,
        }
    }

    /// Size of the next transfer in bytes; `None` if unlimited.
    pub(super) fn next_size(&mut self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Bytes(bytes) => Some((*bytes).max(1)),
            Self::ShortFlows(flows) => Some(flows.random.random_range(flows.sizes.clone())),
        }
    }

    /// Idle time before the next transfer; `None` if there is none.
    pub(super) fn next_idle(&mut self) -> Option<TimeDelta> {
        match self {
            Self::ShortFlows(flows) => Some(flows.idle()),
            Self::Unlimited | Self::Bytes(_) => None,
        }
    }

    /// Whether the connection stays open between transfers.
    pub(super) fn is_persistent(&self) -> bool {
        matches!(self, Self::ShortFlows(flows) if flows.persistent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random, testing::mean};

    #[test]
    fn sizes_are_uniform_and_idle_times_exponential() {
        let mut slot = Application::ShortFlows(ShortFlows::starting_on(random::stream(1, "slot")));
        let count = 20_000;
        let sizes: Vec<f64> = (0..count).map(|_| slot.next_size().unwrap() as f64).collect();
        assert!(sizes.iter().all(|size| (30_000.0..=50_000.0).contains(size)));
        let below = |limit: f64| sizes.iter().filter(|&&size| size < limit).count() as f64 / f64::from(count);
        assert!((below(35_000.0) - 0.25).abs() < 0.02 && (below(45_000.0) - 0.75).abs() < 0.02);
        let idle: Vec<f64> = (0..count).map(|_| slot.next_idle().unwrap().as_seconds()).collect();
        // Four standard errors, each 10 / sqrt(20,000) s.
        assert!((mean(&idle) - 10.0).abs() < 0.3, "{}", mean(&idle));
        let above_mean = idle.iter().filter(|&&time| time > 10.0).count() as f64 / f64::from(count);
        assert!((above_mean - (-1_f64).exp()).abs() < 0.014, "{above_mean}");
        let draw = || random::stream(7, "slot");
        assert_eq!(Application::ShortFlows(ShortFlows::starting_on(draw())).initial_idle(), TimeDelta::ZERO);
        assert!(Application::ShortFlows(ShortFlows::starting_off(draw())).initial_idle() > TimeDelta::ZERO);
    }
}
