//! The rule of trust of every run in real time: when lateness of this machine makes its figures doubtful.
//!
//! | judged | lateness of | bound |
//! |---|---|---|
//! | paced streams, STAMP | departures | [`bound`] of the packet interval |
//! | recorded streams | departures | [`bound`] of their mean interval |
//! | other strategies, other programs | wake-ups of the machine | [`bound`] of the packet interval |
//! | calls | deadlines of the call's thread | [`bound`] of the mean packet interval |
//! | links | packets that left the last link | `--max-lateness` |
//!
//! The 99th percentile is judged, since the median hides what a scheduler of a busy machine does: most wake-ups are in time, and the
//! others wait for a whole time slice.

use giusto_units::TimeDelta;

use crate::text::format::plural;

/// The shortest bound: the default burst bound of the pacer. Less is sent in a burst that the pacer is allowed to send.
const SHORTEST: TimeDelta = TimeDelta::from_millis(1);

/// The longest bound: the packet interval of voice (RFC 3551 §4.2). So much changes the delays and gaps of slower streams too.
const LONGEST: TimeDelta = TimeDelta::from_millis(20);

/// The bound on the median: a hundred times that of a quiet machine. Chosen by us.
const MEDIAN: TimeDelta = TimeDelta::from_millis(5);

/// Quantiles of how late something was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) p50: TimeDelta,
    pub(crate) p99: TimeDelta,
}

impl Late {
    /// From quantiles in µs; `None` where one is unknown.
    pub(crate) fn from_micros(p50: Option<f64>, p99: Option<f64>) -> Option<Self> {
        let time = |us: f64| TimeDelta::from_seconds_f64(us / 1e6);
        Some(Self { p50: time(p50?), p99: time(p99?) })
    }

    /// How late `what` was, such as `datagrams`; `None` if its figures can be trusted.
    pub(crate) fn beyond(self, what: &str, bound: TimeDelta) -> Option<String> {
        let median = (self.p50 >= MEDIAN).then(|| in_words("half", what, [self.p50, MEDIAN]));
        median.or_else(|| self.tail_beyond(what, bound))
    }

    /// The same where the user sets the bound: then the median has none of its own.
    pub(crate) fn tail_beyond(self, what: &str, bound: TimeDelta) -> Option<String> {
        (self.p99 > bound).then(|| in_words("1 %", what, [self.p99, bound]))
    }

    /// The same of so few packets that the 99th percentile is that of the latest one.
    pub(crate) fn latest_beyond(self, packets: u64, bound: TimeDelta) -> Option<String> {
        let [late, most] = [self.p99, bound].map(time);
        let of = plural(packets, "packet", "packets");
        (self.p99 > bound).then(|| format!("of {of} the latest was {late} late, where {most} is allowed"))
    }
}

fn time(time: TimeDelta) -> String {
    match time.as_millis() {
        ms if ms < 1.0 => format!("{:.0} µs", time.as_micros()),
        ms => format!("{ms:.1} ms"),
    }
}

fn in_words(share: &str, what: &str, times: [TimeDelta; 2]) -> String {
    let [late, bound] = times.map(time);
    format!("{share} of the {what} were at least {late} late, where {bound} is allowed")
}

/// The largest 99th percentile of the lateness with which a stream is trusted: its packet interval, and 1 ms to 20 ms. Without an
/// interval the longest one.
pub(crate) fn bound(interval: Option<TimeDelta>) -> TimeDelta {
    interval.map_or(LONGEST, |interval| interval.clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(p50: i64, p99: i64) -> Late {
        Late { p50: TimeDelta::from_micros(p50), p99: TimeDelta::from_micros(p99) }
    }

    #[test]
    fn the_tail_is_judged_by_the_packet_interval() {
        let of = |interval: i64| bound(Some(TimeDelta::from_micros(interval)));
        assert_eq!([of(10), of(1_600), of(160_000), bound(None)], [SHORTEST, of(1_600), LONGEST, LONGEST]);
        for interval in [10, 999, 1_000, 1_600, 20_000, 160_000] {
            let bound = of(interval);
            let us = interval.clamp(1_000, 20_000);
            assert_eq!(late(4, us).beyond("packets", bound), None, "{interval}");
            assert!(late(4, us + 1).beyond("packets", bound).is_some(), "{interval}");
        }
        let doubt = late(968, 23_400).beyond("packets", of(1_000)).unwrap();
        assert_eq!(doubt, "1 % of the packets were at least 23.4 ms late, where 1.0 ms is allowed");
    }

    #[test]
    fn a_late_median_is_doubted_at_any_interval() {
        assert_eq!(late(4_999, 5_000).beyond("packets", LONGEST), None);
        assert_eq!(late(5_000, 5_000).tail_beyond("packets", LONGEST), None);
        assert_eq!(late(0, 500).latest_beyond(6, TimeDelta::from_micros(500)), None);
        let latest = late(0, 791).latest_beyond(6, TimeDelta::from_micros(500)).unwrap();
        assert_eq!(latest, "of 6 packets the latest was 791 µs late, where 500 µs is allowed");
        let doubt = late(5_000, 5_000).beyond("packets", LONGEST).unwrap();
        assert_eq!(doubt, "half of the packets were at least 5.0 ms late, where 5.0 ms is allowed");
    }
}
