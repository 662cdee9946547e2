//! The paper's experiments on the machine that it describes.

use giusto_pace::{
    BurstBound, CyclePlan, CycleRule, DifferentialRule, DifferentialTime, HeaderLayer, IpVersion, Schedule,
    Strategy, StrategyOptions,
};
use giusto_sim::machine::{Data, Machine, Record, SleepModel};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// How long a send takes in the paper, in seconds: the `T` of its formulas.
pub(super) const SEND_TIME: f64 = 0.002;
/// `R` where the packet size varies, in bytes per second.
pub(super) const RATE: u64 = 100_000;
/// `S` where the rate varies, in bytes.
pub(super) const SIZE: u64 = 1400;
/// Packets in each run of Figure 7.
pub(super) const FIGURE_7_PACKETS: u64 = 100;
/// Packets in each run of the other figures: enough that the first and the last cycle hardly count.
pub(super) const PACKETS: u64 = 1000;
/// Packets in the window over which a peak rate is taken.
const WINDOW: usize = 5;

/// Figure 14: ten packets of 1000 B at the beginning of every 10 s, at 2000 B/s.
pub(super) const LIVE_SIZE: u64 = 1000;
pub(super) const LIVE_RATE: u64 = 2000;
pub(super) const LIVE_FRAGMENT: u64 = 10;
pub(super) const LIVE: Data =
    Data::Live { packets: LIVE_FRAGMENT, interval: TimeDelta::from_seconds(10), fragments: 3 };

/// §8: 20 packets at the beginning of every second, which take 200 ms at the rate; `R_max` is twice the rate.
pub(super) const BURST_SIZE: u64 = 1000;
pub(super) const BURST_R_MAX: u64 = 2 * RATE;
pub(super) const BURSTS: Data =
    Data::Live { packets: 20, interval: TimeDelta::from_seconds(1), fragments: 3 };

/// A shaper of the paper, or `grid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Of(Strategy),
    Dt0AsPrinted,
    /// `grid` with a burst bound of two sleeps of 10 ms.
    WideGrid,
}

impl Algorithm {
    pub(super) const DT0: Self = Self::Of(Strategy::Dt0);

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Of(strategy) => strategy.name(),
            Self::Dt0AsPrinted => "dt0 as printed",
            Self::WideGrid => "grid, 20 ms bound",
        }
    }
}

/// One run: algorithm, machine, packet size and rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    pub(super) algorithm: Algorithm,
    pub(super) machine: Machine,
    /// `S`, in bytes.
    pub(super) size: u64,
    /// `R`, in bytes per second.
    pub(super) rate: u64,
    /// `R_max`, in bytes per second, if any.
    pub(super) r_max: Option<u64>,
}

/// The machine of the paper, with one of the two readings of its sleep.
pub(super) const fn machine(sleep_model: SleepModel) -> Machine {
    Machine { sleep_model, ..Machine::SUN_LABS }
}

/// A run with the data of §8.
pub(super) const fn burst_trial(algorithm: Algorithm, model: SleepModel) -> Trial {
    Trial::new(algorithm, model, BURST_SIZE, RATE)
}

impl Trial {
    pub(super) const fn new(algorithm: Algorithm, model: SleepModel, size: u64, rate: u64) -> Self {
        Self { algorithm, machine: machine(model), size, rate, r_max: None }
    }

    /// The run with this many packets, all present at the start.
    pub(super) fn file(&self, packets: u64) -> Record {
        self.with(&Data::File { packets })
    }

    pub(super) fn with(&self, data: &Data) -> Record {
        let size = DataSize::from_bytes(self.size);
        self.schedule().map_or_else(Record::default, |mut schedule| {
            self.machine.run(&mut *schedule, data, size, Timestamp::MAX)
        })
    }

    /// Bytes per second over a long run.
    pub(super) fn throughput(&self) -> f64 {
        throughput(&self.file(PACKETS), self.size)
    }

    /// The throughput that the paper expects: `min(S / T, R)`.
    pub(super) fn ideal(&self) -> f64 {
        (self.size as f64 / SEND_TIME).min(self.rate as f64)
    }

    /// The throughput against the ideal one.
    pub(super) fn ratio(&self) -> f64 {
        self.throughput() / self.ideal()
    }

    /// With [`BURSTS`], the largest rate over any [`WINDOW`] packets in a row, in bytes per second: the gaps between them over their
    /// time.
    pub(super) fn peak(&self) -> f64 {
        let record = self.with(&BURSTS);
        let windows = record.departures.windows(WINDOW);
        let spans = windows.filter_map(|window| Some(window.last()?.at - window.first()?.at));
        let bytes = (WINDOW - 1) as f64 * self.size as f64;
        spans.map(|span| bytes / span.as_seconds().max(1e-9)).fold(0.0, f64::max)
    }

    fn schedule(&self) -> Option<Box<dyn Schedule>> {
        let bits_per_second = |bytes: u64| DataRate::from_bps(bytes.saturating_mul(8));
        let (rate, size) = (bits_per_second(self.rate), DataSize::from_bytes(self.size));
        let plan =
            CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1)).ok()?;
        let options = StrategyOptions::default().with_r_max(self.r_max.map(bits_per_second));
        match self.algorithm {
            Algorithm::Of(strategy) => strategy.build(&plan, options).ok(),
            Algorithm::WideGrid => {
                let burst_bound = BurstBound::Time(TimeDelta::from_millis(20));
                Strategy::Grid.build(&plan, options.with_burst_bound(burst_bound)).ok()
            }
            // No statement asks for R_max here.
            Algorithm::Dt0AsPrinted => {
                Some(Box::new(DifferentialTime::new(&plan, DifferentialRule::Dt0AsPrinted, None)))
            }
        }
    }
}

/// Bytes per second of the whole loop, its last sleep included.
pub(super) fn throughput(record: &Record, size: u64) -> f64 {
    let seconds = record.ended.as_seconds();
    if seconds > 0.0 { record.departures.len() as f64 * size as f64 / seconds } else { 0.0 }
}

/// Packet sizes in bytes, from `from` to `to`.
pub(super) fn sizes(from: u64, to: u64, step: usize) -> impl Iterator<Item = u64> {
    (from..=to).step_by(step)
}
