//! What there is to send over TCP, and when.

use std::ops::RangeInclusive;

use giusto_units::TimeDelta;
use rand::RngExt;
use rand_distr::{Distribution, Exp1};

use crate::random::Random;

/// The application above a sender.
#[derive(Debug, Clone)]
pub enum Application {
    /// Always has more to send.
    Unlimited,
    /// Sends so many bytes, once.
    Bytes(u64),
    /// Sends again and again, with pauses.
    ShortFlows(ShortFlows),
}

/// One slot of the short TCP flows of RFC 8868 §5.1: transfers, each followed by an idle time.
///
/// By default a transfer takes 30 to 50 kB, evenly distributed, over a new connection, and the idle time is exponentially
/// distributed with a mean of 10 s. The RFC lets 30 of them start together. It leaves open where the idle time begins: here when
/// the last byte of the transfer is acknowledged. A slot that starts OFF idles first.
#[derive(Debug, Clone)]
pub struct ShortFlows {
    random: Random,
    sizes: RangeInclusive<u64>,
    mean_idle: TimeDelta,
    starts_on: bool,
    persistent: bool,
}

impl ShortFlows {
    /// A slot that starts with a transfer.
    pub fn starting_on(random: Random) -> Self {
        Self {
            random,
            sizes: 30_000..=50_000,
            mean_idle: TimeDelta::from_seconds(10),
            starts_on: true,
            persistent: false,
        }
    }

    /// A slot that starts with an idle time.
    pub fn starting_off(random: Random) -> Self {
        Self { starts_on: false, ..Self::starting_on(random) }
    }

    /// With transfers of `sizes` bytes. An empty range is taken as its lower end, a transfer of nothing as one of a byte.
    #[must_use]
    pub fn with_sizes(self, sizes: RangeInclusive<u64>) -> Self {
        let from = (*sizes.start()).max(1);
        Self { sizes: from..=(*sizes.end()).max(from), ..self }
    }

    /// With idle times of `mean`.
    #[must_use]
    pub fn with_mean_idle(self, mean: TimeDelta) -> Self {
        Self { mean_idle: mean.max(TimeDelta::ZERO), ..self }
    }

    /// Over one connection that stays open. Its window restarts after idleness (RFC 5681 §4.1).
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
    /// How long it waits before its first transfer.
    pub(super) fn first_wait(&mut self) -> TimeDelta {
        match self {
            Self::ShortFlows(flows) if !flows.starts_on => flows.idle(),
            _ => TimeDelta::ZERO,
        }
    }

    /// How many bytes the transfer that begins now has; `None`: no end.
    pub(super) fn next_size(&mut self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Bytes(bytes) => Some((*bytes).max(1)),
            Self::ShortFlows(flows) => Some(flows.random.random_range(flows.sizes.clone())),
        }
    }

    /// How long it waits between the transfer that has ended and the next; `None`: there is none.
    pub(super) fn next_wait(&mut self) -> Option<TimeDelta> {
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
    use crate::random;

    #[test]
    fn sizes_are_even_between_30_and_50_kb_and_idle_times_exponential_with_a_mean_of_10_s() {
        let mut slot = Application::ShortFlows(ShortFlows::starting_on(random::stream(1, "slot")));
        let count = 20_000;
        let sizes: Vec<f64> = (0..count).map(|_| slot.next_size().unwrap() as f64).collect();
        assert!(sizes.iter().all(|size| (30_000.0..=50_000.0).contains(size)));
        let below = |limit: f64| sizes.iter().filter(|&&size| size < limit).count() as f64 / f64::from(count);
        assert!((below(35_000.0) - 0.25).abs() < 0.02 && (below(45_000.0) - 0.75).abs() < 0.02);
        let idle: Vec<f64> = (0..count).map(|_| slot.next_wait().unwrap().as_seconds()).collect();
        let mean = idle.iter().sum::<f64>() / f64::from(count);
        // Four standard errors of 10 / sqrt(20,000) s.
        assert!((mean - 10.0).abs() < 0.3, "{mean}");
        let above_mean = idle.iter().filter(|&&time| time > 10.0).count() as f64 / f64::from(count);
        assert!((above_mean - (-1_f64).exp()).abs() < 0.014, "{above_mean}");
    }

    #[test]
    fn a_slot_that_starts_off_idles_first() {
        let draw = || random::stream(7, "slot");
        assert_eq!(Application::ShortFlows(ShortFlows::starting_on(draw())).first_wait(), TimeDelta::ZERO);
        assert!(Application::ShortFlows(ShortFlows::starting_off(draw())).first_wait() > TimeDelta::ZERO);
    }
}
