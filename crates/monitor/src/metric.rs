//! The figures of a result.

use std::fmt;

/// Defines [`Metric`] by a row a figure: its name in the database and in addresses of pages, its title, and how many steps the
/// database distinguishes in one unit. A small whole number takes few bytes.
macro_rules! metrics {
    ($($(#[$doc:meta])+ $metric:ident = $name:literal, $title:literal, $steps:literal;)+) => {
        /// A figure of a result.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[$doc])+ $metric,)+
        }

        giusto_units::names!(Metric { $($metric = $name),+ });

        impl Metric {
            const fn steps(self) -> f64 {
                match self {
                    $(Self::$metric => $steps,)+
                }
            }
        }

        impl fmt::Display for Metric {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$metric => $title,)+
                })
            }
        }
    };
}

// The step of a time is 0.1 µs.
metrics! {
    /// Whether there was a result: 1, or 0 where it is unknown. Its mean is the availability.
    Known = "known", "availability", 1e4;
    /// Lost over sent datagrams, 0 to 1.
    Loss = "loss", "loss", 1e6;
    /// The shortest round-trip time, in ms.
    RttMin = "rtt_min", "shortest RTT", 1e4;
    /// The median round-trip time, in ms.
    Rtt = "rtt", "RTT", 1e4;
    /// The 99th percentile of the round-trip time, in ms.
    RttP99 = "rtt_p99", "RTT p99", 1e4;
    /// The median one-way delay, in ms; only where it is absolute.
    Delay = "delay", "one-way delay", 1e4;
    /// The 99th percentile of the one-way delay, in ms; only where it is absolute.
    DelayP99 = "delay_p99", "one-way delay p99", 1e4;
    /// The largest possible error of the one-way delay, in ms.
    DelayError = "delay_error", "error of the one-way delay", 1e4;
    /// Inter-arrival jitter, in ms (RFC 3550 §6.4.1).
    Jitter = "jitter", "jitter", 1e4;
    /// The mean opinion score of voice, 1 to 5.
    Mos = "mos", "MOS", 1e3;
    /// The received rate, in bit/s.
    Rate = "rate", "received rate", 1.0;
    /// The far clock less ours, in ms.
    ClockOffset = "clock_offset", "clock offset", 1e4;
    /// The largest possible error of that offset, in ms.
    ClockError = "clock_error", "error of the clock offset", 1e4;
    /// The median time from the capture of a frame until it was complete at the far end, in ms; only of calls.
    FrameDelay = "frame_delay", "frame delay", 1e4;
    /// Its 99th percentile, in ms.
    FrameDelayP99 = "frame_delay_p99", "frame delay p99", 1e4;
    /// The received rate over the highest rate of the call; a short call can exceed 1.
    Use = "use", "use", 1e6;
}

impl Metric {
    /// The figures that each result stores by themselves: all but the first two, which follow from its counts.
    pub const STORED: &'static [Self] = Self::ALL.split_at(2).1;

    /// Its number in the database.
    pub(crate) const fn number(self) -> usize {
        self as usize
    }

    /// A value as the database holds it.
    pub(crate) fn pack(self, value: f64) -> i64 {
        (value * self.steps()).round() as i64
    }

    /// A value of the database.
    pub(crate) fn unpack(self, value: i64) -> f64 {
        value as f64 / self.steps()
    }
}

/// A value of each metric; `None` where it was not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures([Option<f64>; Metric::ALL.len()]);

impl Figures {
    /// The value of a metric.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        self.0.get(metric.number()).copied().flatten()
    }

    /// The same figures with this value, if it is a number.
    #[must_use]
    pub fn with(mut self, metric: Metric, value: Option<f64>) -> Self {
        if let Some(place) = self.0.get_mut(metric.number()) {
            *place = value.filter(|value| value.is_finite());
        }
        self
    }
}

/// What many values of a metric come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many there are.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// Their mean.
    pub mean: f64,
    /// Half of them are at most this.
    pub p50: f64,
    /// 99 % of them are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// That of these values; `None` without any.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = values.first().zip(values.last())?;
        let count = values.len();
        // Nearest rank.
        let at = |share: f64| {
            let rank = (share * count as f64).ceil() as usize;
            values.get(rank.clamp(1, count) - 1).copied().unwrap_or(max)
        };
        let mean = values.iter().sum::<f64>() / count as f64;
        Some(Self { count: count as u64, min, mean, p50: at(0.5), p99: at(0.99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_metrics_are_their_places() {
        for (place, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric.number(), place);
            assert_eq!(Metric::STORED.contains(&metric), !matches!(metric, Metric::Known | Metric::Loss));
            assert_eq!(Metric::named(metric.name()), Some(metric));
            // 1.0002 is kept to the tenth of a microsecond, a thousandth of a score, a bit per second.
            assert!((metric.unpack(metric.pack(1.0)) - 1.0).abs() < 1e-9, "{metric}");
        }
        assert!((Metric::Rtt.unpack(Metric::Rtt.pack(12.345_67)) - 12.345_7).abs() < 1e-9);
    }

    #[test]
    fn a_summary_is_that_of_a_hand_calculation() {
        assert_eq!(Summary::of(Vec::new()), None);
        let one = Summary::of(vec![3.0]).unwrap();
        assert_eq!((one.min, one.mean, one.p50, one.p99, one.max), (3.0, 3.0, 3.0, 3.0, 3.0));
        // 1 to 200: rank ceil(0.5 · 200) = 100, ceil(0.99 · 200) = 198.
        let many = Summary::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!((many.count, many.min, many.mean), (200, 1.0, 100.5));
        assert_eq!((many.p50, many.p99, many.max), (100.0, 198.0, 200.0));
    }
}
