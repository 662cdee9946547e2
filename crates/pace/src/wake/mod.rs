//! When to wake: early by the machine's usual wake latency, unless the machine is busy.

mod lead;
mod load;

use giusto_units::{TimeDelta, Timestamp};

use crate::catch_up::BurstBound;
use lead::Lead;
use load::LoadDetector;

/// How much CPU time a sender spends on precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum SleepMode {
    /// Wakes early enough for all but the slowest wake-ups, and spins until the deadline.
    Precise,
    /// Wakes early enough for most wake-ups: needs little more CPU time than a plain sleep, without its usual
    /// latency.
    #[default]
    Balanced,
    /// Never spins: late by the wake latency.
    Eco,
}

impl SleepMode {
    /// The quantile of the wake latency that the lead covers.
    const fn quantile(self) -> f64 {
        match self {
            Self::Precise => 0.97,
            Self::Balanced => 0.88,
            Self::Eco => 0.0,
        }
    }

    /// Maximum lead for each class of sleeps, in nanoseconds. It limits the spinning on a machine with late
    /// wake-ups.
    const fn longest_leads(self) -> [u32; 3] {
        match self {
            Self::Precise => [60_000, 300_000, 400_000],
            Self::Balanced => [30_000, 120_000, 150_000],
            Self::Eco => [0; 3],
        }
    }
}

giusto_units::names!(SleepMode as "mode" { Precise = "precise", Balanced = "balanced", Eco = "eco" });

impl SleepMode {
    /// The time that the datagrams of one cycle may span: the burst that the mode permits while on time.
    pub const fn group(self) -> TimeDelta {
        match self {
            Self::Precise => TimeDelta::ZERO,
            Self::Balanced => TimeDelta::from_micros(100),
            Self::Eco => TimeDelta::from_millis(2),
        }
    }

    /// The maximum that may leave back to back to catch up after a delay.
    pub const fn burst_bound(self) -> BurstBound {
        match self {
            Self::Precise => BurstBound::Packets(1),
            Self::Balanced => BurstBound::Time(TimeDelta::from_micros(500)),
            Self::Eco => BurstBound::Time(TimeDelta::from_millis(10)),
        }
    }
}

giusto_units::defaults! {
    /// The configuration of a [`WakePlanner`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct WakeConfig {
        /// How much CPU time is spent on precision. Default: balanced.
        pub mode: SleepMode = SleepMode::default(),
        /// Whether to stop waking early on a busy machine. Default: true. Off only to measure what it is worth: see
        /// [`WakePlanner`].
        pub busy_fallback: bool = true,
    }
}

giusto_units::setters!(WakeConfig {
    /// The same, with this mode.
    with_mode(mode: SleepMode);
    /// The same, with or without the fallback on a busy machine.
    with_busy_fallback(busy_fallback: bool);
});

/// Decides when a thread that has a deadline wakes, from how late its latest wake-ups were.
///
/// A sleep ends late by the wake latency of the processor: tens of microseconds, nearly constant on a quiet
/// machine, with rare outliers of milliseconds. Therefore the sleep ends earlier by a *lead*, a quantile of
/// the latest wake latencies, and the thread spins for the rest.
///
/// The choice of the quantile, at a period of 1 ms in a small shared virtual machine (medians of eight runs each):
///
/// | quantile | error p50 | error p90 | CPU time |
/// |---|---|---|---|
/// | plain sleep | 14 µs | 25 µs | 1.5 % |
/// | 0.5 | 0.5 µs | 7.6 µs | 2.0 % |
/// | 0.85 | 0.15 µs | 3.8 µs | 2.8 % |
/// | 0.9 | 0.15 µs | 1.8 µs | 2.8 % |
/// | 0.97 | 0.15 µs | 0.3 µs | 3.4 % |
/// | 0.99 | 0.15 µs | 0.3 µs | 6.7 % |
///
/// Hence 0.88 for `Balanced`, which keeps a thousand sends per second below 3 % of a core, and 0.97 for
/// `Precise`.
///
/// # Busy machines
///
/// The machine is busy when more than one in sixteen of the latest 256 wake-ups is late by a millisecond or more, or a spin ends so
/// late. Then there is no lead and no spinning, because a fair scheduler takes the processor from a thread that spins, and a sleep
/// lasts at least [`BUSY_SLEEP`](Self::BUSY_SLEEP). It ends when fewer are late, or none for half a second. In the next 256
/// wake-ups, three late ones make the machine busy again: a sender that takes little time wakes punctually on a busy machine too.
///
/// # Example
///
/// ```
/// use giusto_pace::{WakeConfig, WakePlanner};
/// use giusto_units::{TimeDelta, Timestamp};
///
/// let mut planner = WakePlanner::new(WakeConfig::default());
/// let (now, deadline) = (Timestamp::ZERO, Timestamp::ZERO + TimeDelta::from_millis(1));
/// let wake = planner.plan(now, deadline).expect("the deadline has not passed");
/// assert!(wake.at < deadline && wake.spin_until == Some(deadline));
/// // Sleep until `wake.at`, report when the sleep has ended, spin, and report when that has ended.
/// planner.on_woke(wake, wake.at + TimeDelta::from_micros(20));
/// planner.on_spun(wake, deadline);
/// assert!(planner.plan(deadline, deadline).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct WakePlanner {
    config: WakeConfig,
    /// One for each class of sleeps.
    leads: [Lead; 3],
    load: LoadDetector,
}

/// A decision of a [`WakePlanner`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Wake {
    /// Sleep until this time. It has come already if the time left is too short for a sleep.
    pub at: Timestamp,
    /// Then spin until this time, unless it has passed.
    pub spin_until: Option<Timestamp>,
    /// The class of the sleep's length.
    class: usize,
}

impl WakePlanner {
    /// Sleeps up to the first length, up to the second, and longer ones have separate leads: a processor that
    /// was idle for longer takes longer to wake. On one machine the medians were 4 µs, 15 µs and 60 µs.
    pub const CLASSES: [TimeDelta; 2] = [TimeDelta::from_micros(200), TimeDelta::from_millis(5)];
    /// The shortest sleep on a busy machine: as the pacing timer of iperf3.
    pub const BUSY_SLEEP: TimeDelta = TimeDelta::from_millis(1);

    /// A planner that knows no wake-up yet: it starts with leads of 10 µs, 30 µs and 80 µs.
    pub fn new(config: WakeConfig) -> Self {
        let [short, middle, long] = config.mode.longest_leads();
        let lead = |first, longest| Lead::new(config.mode.quantile(), first, longest);
        Self {
            config,
            leads: [lead(10_000, short), lead(30_000, middle), lead(80_000, long)],
            load: LoadDetector::new(),
        }
    }

    /// When to wake for `deadline`; `None` if it has passed.
    ///
    /// Without a fallback to waking late, the time to wake is never after the deadline.
    pub fn plan(&mut self, now: Timestamp, deadline: Timestamp) -> Option<Wake> {
        if now >= deadline {
            return None;
        }
        let left = deadline - now;
        let class = Self::CLASSES.iter().filter(|&&longest| left > longest).count();
        let spin_until = (self.config.mode != SleepMode::Eco).then_some(deadline);
        let falls_back = self.falls_back();
        let at = match self.leads.get_mut(class) {
            Some(_) if falls_back => deadline.max(now + Self::BUSY_SLEEP),
            Some(lead) => {
                let lead = lead.before(left.as_nanos().unsigned_abs());
                deadline - TimeDelta::from_nanos(i64::try_from(lead).unwrap_or(i64::MAX))
            }
            None => deadline,
        };
        Some(Wake { at, spin_until, class })
    }

    /// Handles the end of the sleep until `wake.at`.
    pub fn on_woke(&mut self, wake: Wake, now: Timestamp) {
        let late = now.saturating_since(wake.at);
        if self.config.mode != SleepMode::Eco
            && let Some(lead) = self.leads.get_mut(wake.class)
        {
            lead.learn(u32::try_from(late.as_nanos()).unwrap_or(u32::MAX));
            self.load.on_woke(now, late);
        }
    }

    /// Handles the end of the spin until `wake.spin_until`. A spin after a late wake-up need not be reported.
    pub fn on_spun(&mut self, wake: Wake, now: Timestamp) {
        if let Some(end) = wake.spin_until {
            self.load.on_spun(now, now.saturating_since(end));
        }
    }

    /// The lead of each [class](Self::CLASSES) of sleeps, zero while the machine is busy.
    pub fn leads(&self) -> [TimeDelta; 3] {
        let [short, middle, long] = &self.leads;
        let falls_back = self.falls_back();
        [short, middle, long]
            .map(|lead| TimeDelta::from_nanos(if falls_back { 0 } else { lead.nanos().into() }))
    }

    /// Whether the machine is busy.
    pub const fn is_busy(&self) -> bool {
        self.load.is_busy()
    }

    const fn falls_back(&self) -> bool {
        self.config.busy_fallback && self.load.is_busy()
    }

    /// The mode.
    pub const fn mode(&self) -> SleepMode {
        self.config.mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_micros(micros)
    }

    /// Plans a sleep of `length` again and again, each of which ends `late`.
    fn practised(config: WakeConfig, length: i64, late: i64) -> WakePlanner {
        let mut planner = WakePlanner::new(config);
        let mut now = at(0);
        for _ in 0..512 {
            let wake = planner.plan(now, now + TimeDelta::from_micros(length)).unwrap();
            if wake.at > now {
                now = wake.at + TimeDelta::from_micros(late);
                planner.on_woke(wake, now);
            }
        }
        planner
    }

    #[test]
    fn each_class_of_sleeps_has_its_own_lead() {
        let mut planner = practised(WakeConfig::default(), 1000, 17);
        assert_eq!(planner.leads(), [10, 17, 80].map(TimeDelta::from_micros));
        for (length, lead) in [(200, 10), (201, 17), (5000, 17), (5001, 80)] {
            let wake = planner.plan(at(0), at(length)).unwrap();
            assert_eq!((wake.at, wake.spin_until), (at(length - lead), Some(at(length))));
        }
    }

    #[test]
    fn a_mode_wakes_early_enough_for_its_share_of_wake_ups() {
        for (mode, lead) in [(SleepMode::Precise, 97.0), (SleepMode::Balanced, 88.0), (SleepMode::Eco, 0.0)] {
            let mut planner = WakePlanner::new(WakeConfig { mode, ..WakeConfig::default() });
            // Each latency from 0 to 99 µs as often as any other.
            for late in (0..1000).map(|number| number * 37 % 100) {
                let wake = planner.plan(at(0), at(1000)).unwrap();
                planner.on_woke(wake, wake.at + TimeDelta::from_micros(late));
            }
            let [_, found, _] = planner.leads();
            assert!((found.as_micros() - lead).abs() <= 2.0, "{mode}: {found}");
        }
    }

    #[test]
    fn eco_neither_wakes_early_nor_spins() {
        let config = WakeConfig { mode: SleepMode::Eco, ..WakeConfig::default() };
        let mut planner = practised(config, 1000, 50_000);
        let wake = planner.plan(at(0), at(1000)).unwrap();
        assert_eq!((wake.at, wake.spin_until, planner.is_busy()), (at(1000), None, false));
    }

    #[test]
    fn a_busy_machine_gets_longer_sleeps_and_no_spinning() {
        for (busy_fallback, expected) in [(true, 1000), (false, 130)] {
            let mut planner = practised(WakeConfig { busy_fallback, ..WakeConfig::default() }, 160, 3000);
            assert!(planner.is_busy());
            assert_eq!(planner.plan(at(0), at(160)).unwrap().at, at(expected));
        }
    }

    #[test]
    fn a_passed_deadline_needs_no_plan() {
        let mut planner = WakePlanner::new(WakeConfig::default());
        assert!(planner.plan(at(5), at(5)).is_none() && planner.plan(at(6), at(5)).is_none());
        assert!(planner.plan(at(4), at(5)).is_some());
    }
}
