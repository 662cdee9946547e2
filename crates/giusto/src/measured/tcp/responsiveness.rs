//! Responsiveness under working conditions: draft-ietf-ippm-responsiveness-08.

use giusto_units::TimeDelta;
use serde::Serialize;

/// The share of the samples that count, the smallest: TMP in §5.3.
const TRIMMED: f64 = 0.95;

/// Round trips a minute, and the times behind them, in ms.
///
/// Without TLS, as in the case of TCP only in §5.3.1.1: `Foreign = 60000 / ((TM(tcp_f) + TM(http_f)) / 2)`, `Loaded = 60000 /
/// TM(http_l)`, and their mean. A request here is 8 bytes and their answer. The number of load connections is fixed; it does not
/// grow until the goodput is stable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Responsiveness {
    /// Round trips a minute under load.
    pub rpm: Option<f64>,
    /// Those of new connections.
    pub foreign_rpm: Option<f64>,
    /// Those of the connections that carry the load.
    pub loaded_rpm: Option<f64>,
    /// Those of new connections before the load.
    pub idle_rpm: Option<f64>,
    /// The trimmed mean of the TCP handshakes of new connections.
    pub handshake_ms: Option<f64>,
    /// That of requests on new connections.
    pub request_ms: Option<f64>,
    /// That of requests on the connections that carry the load.
    pub loaded_request_ms: Option<f64>,
    /// New connections that were measured under load.
    pub foreign_probes: usize,
    /// Requests on the connections that carry the load.
    pub loaded_probes: usize,
    /// New connections under load that failed: with any of them the path is worse than the figures.
    pub failed_probes: usize,
}

/// The times of requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    /// Handshake and request on new connections.
    pub(super) foreign: Vec<(TimeDelta, TimeDelta)>,
    pub(super) loaded: Vec<TimeDelta>,
    pub(super) failed: usize,
}

impl Responsiveness {
    pub(super) fn new(idle: &Samples, load: &Samples) -> Self {
        let (handshake_ms, request_ms, foreign_rpm) = foreign(load);
        let loaded_request_ms = trimmed_mean(load.loaded.iter().copied());
        let loaded_rpm = loaded_request_ms.and_then(per_minute);
        Self {
            rpm: foreign_rpm.zip(loaded_rpm).map(|(foreign, loaded)| f64::midpoint(foreign, loaded)),
            foreign_rpm,
            loaded_rpm,
            idle_rpm: foreign(idle).2,
            handshake_ms,
            request_ms,
            loaded_request_ms,
            foreign_probes: load.foreign.len(),
            loaded_probes: load.loaded.len(),
            failed_probes: load.failed,
        }
    }
}

fn foreign(samples: &Samples) -> (Option<f64>, Option<f64>, Option<f64>) {
    let handshake = trimmed_mean(samples.foreign.iter().map(|(handshake, _)| *handshake));
    let request = trimmed_mean(samples.foreign.iter().map(|(_, request)| *request));
    let rpm = handshake.zip(request).and_then(|(a, b)| per_minute(f64::midpoint(a, b)));
    (handshake, request, rpm)
}

fn per_minute(millis: f64) -> Option<f64> {
    (millis > 0.0).then(|| 60_000.0 / millis)
}

/// The mean of the smallest 95 % in ms; `None` without samples.
fn trimmed_mean(times: impl Iterator<Item = TimeDelta>) -> Option<f64> {
    let mut millis: Vec<f64> = times.map(TimeDelta::as_millis).collect();
    millis.sort_unstable_by(f64::total_cmp);
    millis.truncate(((millis.len() as f64 * TRIMMED).floor() as usize).max(1));
    (!millis.is_empty()).then(|| millis.iter().sum::<f64>() / millis.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: i64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }

    #[test]
    fn round_trips_a_minute_are_the_mean_of_both_kinds() {
        // By hand: 60000 / ((30 + 50) / 2) = 1500, 60000 / 120 = 500, and 6000 before the load.
        let idle = Samples { foreign: vec![(millis(10), millis(10)); 3], ..Samples::default() };
        let (foreign, loaded) = (vec![(millis(30), millis(50)); 4], vec![millis(120); 4]);
        let found = Responsiveness::new(&idle, &Samples { foreign, loaded, failed: 1 });
        let both = [found.foreign_rpm, found.loaded_rpm, found.rpm];
        assert_eq!(both, [1500.0, 500.0, 1000.0].map(Some));
        assert_eq!((found.idle_rpm, found.failed_probes), (Some(6000.0), 1));
        let silent = Responsiveness::new(&idle, &Samples::default());
        assert_eq!((silent.rpm, silent.foreign_rpm), (None, None), "unknown, not 0");
    }

    #[test]
    fn the_slowest_twentieth_does_not_count() {
        let times = |slow: usize| {
            let all = std::iter::repeat_n(10, 40 - slow).chain(std::iter::repeat_n(1000, slow));
            trimmed_mean(all.map(millis))
        };
        assert_eq!(times(2), Some(10.0));
        assert_eq!(times(3), Some((37.0 * 10.0 + 1000.0) / 38.0));
        assert_eq!(trimmed_mean([millis(7)].into_iter()), Some(7.0));
    }
}
