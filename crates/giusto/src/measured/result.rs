//! The result of one measured run: what `giusto cbr`, `send` and `recv` print, and what tables and reports show.
//!
//! A number that was not measured is `None`, in JSON `null`; it is never a zero that looks like a measurement. Every name
//! carries its unit.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// One run: one sender, one receiver, one rate and size.
///
/// In JSON it is one entry of `runs`.
///
/// # Example
///
/// ```
/// use giusto::result::RunResult;
///
/// let run: RunResult = serde_json::from_str(r#"{"strategy": "grid", "rate_bps": 1000000, "lost_packets": 0}"#)?;
/// assert_eq!(run.rate_bps, Some(1_000_000));
/// assert_eq!(run.rx_rate_bps, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// The pacing strategy, such as `grid`; of a peer, the peer's name; `unknown` where no one said.
    pub strategy: String,
    /// The rate asked for, in bit/s; `None` for "max".
    pub rate_bps: Option<u64>,
    /// The payload of one datagram, in bytes.
    pub size_bytes: Option<u64>,
    /// Datagrams that the strategy sends back to back in one cycle.
    pub packets_per_cycle: Option<u32>,
    /// The time from one cycle to the next, in nanoseconds.
    pub period_ns: Option<u64>,
    /// Datagrams handed to the network.
    pub sent_packets: Option<u64>,
    /// Different datagrams that arrived.
    pub received_packets: Option<u64>,
    /// Datagrams that were sent and never arrived.
    pub lost_packets: Option<u64>,
    /// Datagrams that arrived again.
    pub duplicate_packets: Option<u64>,
    /// Datagrams that arrived after a later one.
    pub reordered_packets: Option<u64>,
    /// The rate at the sender: (N−1)·size / (last − first), in bit/s.
    pub tx_rate_bps: Option<f64>,
    /// The rate at the receiver: (N−1)·size / (last − first), in bit/s.
    pub rx_rate_bps: Option<f64>,
    /// The received rate against the rate asked for, in parts per million; below zero is too slow.
    pub rate_error_ppm: Option<f64>,
    /// How late datagrams left against their own schedule, in µs.
    pub schedule_error_us: Quantiles,
    /// How far the gaps between arrivals were from the ideal gap, without sign, in µs.
    pub gap_error_us: Quantiles,
    /// CPU time of the sending thread over elapsed time, 0 to 1.
    pub sender_cpu_ratio: Option<f64>,
    /// CPU time of the receiving thread over elapsed time, 0 to 1.
    pub receiver_cpu_ratio: Option<f64>,
    /// `None` for our own sender, else what was measured, such as `iperf3 3.12`.
    pub peer: Option<String>,

    /// How long the sender sent, in seconds.
    pub duration_s: Option<f64>,
    /// Lost over sent datagrams, 0 to 1.
    pub loss_ratio: Option<f64>,
    /// Losses in a row.
    pub loss_bursts: Option<LossBursts>,
    /// Inter-arrival jitter at the end of the run, in ms (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Round-trip time, in ms.
    pub round_trip_ms: Spread,
    /// One-way delay, in ms.
    pub one_way_delay_ms: OneWayDelay,
    /// What was learnt about the far clock.
    pub clock: Option<ClockFigures>,
    /// Datagrams that the receiving kernel dropped for want of buffer space.
    pub kernel_dropped_packets: Option<u64>,
    /// ECN marks as they arrived.
    pub ecn: Option<EcnFigures>,
    /// The DSCP as it arrived, 0 to 63.
    pub dscp: Option<u8>,
    /// The layer whose bytes the rate counts: `payload`, `udp`, `ip` or `ethernet`.
    pub layer: Option<String>,
    /// How the sender waits, such as `precise` or `spin`.
    pub mode: Option<String>,
    /// The largest burst that the strategy allows itself, in words.
    pub burst_bound: Option<String>,
    /// What the strategy did about lateness.
    pub slips: Option<SlipFigures>,
    /// What a receiver would have printed that divides all bits by (last − first), in bit/s: N intervals for N−1.
    pub fencepost_rate_bps: Option<f64>,
    /// Voice quality by the E-model.
    pub voice: Option<VoiceFigures>,
    /// What the operating system granted.
    pub system: Option<SystemGranted>,
    /// Why the run ended: `duration`, `count`, `bytes`, `interrupted`, `timeout`.
    pub ended: Option<String>,
    /// Where the datagrams came from, for a receiver: address and port.
    pub from: Option<String>,
    /// How the datagrams look: `giusto`, `rtp`, with the codec if it is known, or `raw`.
    pub format: Option<String>,
    /// How many runs this result is the median of; 1 for a run as measured.
    pub repeats: u32,
}

impl Default for RunResult {
    fn default() -> Self {
        Self {
            strategy: "unknown".to_owned(),
            rate_bps: None,
            size_bytes: None,
            packets_per_cycle: None,
            period_ns: None,
            sent_packets: None,
            received_packets: None,
            lost_packets: None,
            duplicate_packets: None,
            reordered_packets: None,
            tx_rate_bps: None,
            rx_rate_bps: None,
            rate_error_ppm: None,
            schedule_error_us: Quantiles::default(),
            gap_error_us: Quantiles::default(),
            sender_cpu_ratio: None,
            receiver_cpu_ratio: None,
            peer: None,
            duration_s: None,
            loss_ratio: None,
            loss_bursts: None,
            jitter_ms: None,
            round_trip_ms: Spread::default(),
            one_way_delay_ms: OneWayDelay::default(),
            clock: None,
            kernel_dropped_packets: None,
            ecn: None,
            dscp: None,
            layer: None,
            mode: None,
            burst_bound: None,
            slips: None,
            fencepost_rate_bps: None,
            voice: None,
            system: None,
            ended: None,
            from: None,
            format: None,
            repeats: 1,
        }
    }
}

impl RunResult {
    /// Who sent: the peer, or our strategy.
    pub fn sender(&self) -> &str {
        self.peer.as_deref().unwrap_or(&self.strategy)
    }

    /// The even spacing of datagrams at the rate asked for, in µs; `None` for "max".
    pub fn ideal_gap_us(&self) -> Option<f64> {
        let (size, rate) = (self.size_bytes?, self.rate_bps.filter(|&rate| rate > 0)?);
        Some(size as f64 * 8e6 / rate as f64)
    }

    /// Datagrams in a second at the rate asked for; `None` for "max".
    pub fn packets_per_second(&self) -> Option<f64> {
        self.ideal_gap_us().filter(|&gap| gap > 0.0).map(|gap| 1e6 / gap)
    }

    /// The share of datagrams lost, from the ratio if it is known, else from the counts.
    pub fn loss(&self) -> Option<f64> {
        self.loss_ratio.or_else(|| {
            let sent = self.sent_packets.filter(|&sent| sent > 0)?;
            Some(self.lost_packets? as f64 / sent as f64)
        })
    }
}

/// Quantiles of one quantity; the unit is in the name of the field that holds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Half of all values are at most this.
    pub p50: Option<f64>,
    /// 99 % of all values are at most this.
    pub p99: Option<f64>,
    /// 99.9 % of all values are at most this.
    pub p999: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// The least value, and quantiles, of one quantity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// The least value.
    pub min: Option<f64>,
    /// Half of all values are at most this.
    pub p50: Option<f64>,
    /// 99 % of all values are at most this.
    pub p99: Option<f64>,
    /// 99.9 % of all values are at most this.
    pub p999: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// One-way delay, in ms, and what it rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OneWayDelay {
    /// What makes the two clocks comparable: one clock, an estimated offset, or nothing (then the delay is relative).
    pub basis: Option<String>,
    /// The least delay.
    pub min: Option<f64>,
    /// Half of all delays are at most this.
    pub p50: Option<f64>,
    /// 99 % of all delays are at most this.
    pub p99: Option<f64>,
    /// 99.9 % of all delays are at most this.
    pub p999: Option<f64>,
    /// The largest delay.
    pub max: Option<f64>,
}

/// Losses in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossBursts {
    /// How many runs of lost datagrams there were.
    pub count: u64,
    /// The longest of them, in datagrams.
    pub longest: u64,
    /// Their mean length, in datagrams.
    pub mean: Option<f64>,
}

/// The far clock against ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockFigures {
    /// Theirs less ours, in ms.
    pub offset_ms: Option<f64>,
    /// The offset is true to within this, in ms.
    pub uncertainty_ms: Option<f64>,
    /// How much faster theirs runs, in parts per million.
    pub drift_ppm: Option<f64>,
}

/// ECN marks as they arrived, in datagrams (RFC 3168 §5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EcnFigures {
    /// Not ECN-capable.
    pub not_ect_packets: u64,
    /// ECT(0).
    pub ect0_packets: u64,
    /// ECT(1).
    pub ect1_packets: u64,
    /// Congestion experienced.
    pub ce_packets: u64,
}

/// What a strategy did about lateness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlipFigures {
    /// Datagrams that left in a catch-up burst.
    pub caught_up_packets: u64,
    /// Datagrams that were never sent because their time had passed.
    pub skipped_packets: u64,
    /// How often the schedule began anew.
    pub reanchors: u64,
}

/// Voice quality (ITU-T G.107).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VoiceFigures {
    /// The codec that the figures are for.
    pub codec: Option<String>,
    /// The scale of the two: `narrowband (G.107)`, or `wideband, estimated` where no impairment factors are published.
    pub scale: Option<String>,
    /// The transmission rating R: 0 to 100, on the wideband scale to 129.
    pub r_factor: Option<f64>,
    /// The mean opinion score, 1 to 4.5.
    pub mos: Option<f64>,
}

/// What the operating system granted, as far as it could be asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemGranted {
    /// Kernel and architecture, such as `Linux 6.12 x86_64`.
    pub platform: Option<String>,
    /// Processors that this process may run on.
    pub processors: Option<u32>,
    /// The timer slack of the sending thread, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// The real-time priority of the sending thread, 1 to 99; 0 for an ordinary thread.
    pub realtime_priority: Option<u32>,
    /// The processor that the sending thread is pinned to.
    pub pinned_processor: Option<u32>,
    /// Whether memory is locked against paging.
    pub memory_locked: Option<bool>,
    /// The send buffer asked for, in bytes.
    pub send_buffer_asked_bytes: Option<u64>,
    /// The send buffer granted, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The receive buffer asked for, in bytes.
    pub receive_buffer_asked_bytes: Option<u64>,
    /// The receive buffer granted, in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Where departures are stamped: `hardware`, `kernel` or `program`.
    pub send_timestamps: Option<String>,
    /// Where arrivals are stamped: `hardware`, `kernel` or `program`.
    pub receive_timestamps: Option<String>,
    /// Whether the kernel cuts large sends into datagrams (GSO).
    pub segmentation_offload: Option<bool>,
    /// Whether the kernel joins datagrams into large reads (GRO).
    pub receive_offload: Option<bool>,
    /// The time slice of the sending thread, in nanoseconds, where the scheduler granted a short one.
    pub time_slice_ns: Option<u64>,
    /// Whether a time service keeps the system's clock.
    pub clock_synchronised: Option<bool>,
    /// How late this machine woke the sending thread from its sleeps, in µs.
    pub wake_latency_us: Option<Quantiles>,
    /// How much earlier than needed the sending thread learned to have itself woken, in µs.
    pub wake_lead_us: Option<f64>,
    /// Time spent spinning over elapsed time, 0 to 1.
    pub spun_ratio: Option<f64>,
    /// What else is worth knowing, one sentence each.
    pub notes: Vec<String>,
}

/// One class of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBin {
    /// The class begins here, in µs.
    pub lo_us: f64,
    /// The class ends before this, in µs.
    pub hi_us: f64,
    /// How many values it holds.
    pub count: u64,
}

impl From<(f64, f64, u64)> for HistogramBin {
    fn from((lo_us, hi_us, count): (f64, f64, u64)) -> Self {
        Self { lo_us, hi_us, count }
    }
}

/// What plots of a run need beyond its figures. An empty vector draws no plot. Not part of the JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPlots {
    /// The received rate over time: seconds since the start, bit/s.
    pub rate_series: Vec<(f64, f64)>,
    /// Gaps between neighbouring arrivals.
    pub gap_histogram: Vec<HistogramBin>,
    /// How late datagrams left against their schedule.
    pub schedule_error_histogram: Vec<HistogramBin>,
    /// One-way delay over time: seconds since the start, ms.
    pub one_way_delay_series: Vec<(f64, f64)>,
}

/// The error of `rate_bps` against `target_bps`, in parts per million; `None` unless the target is above zero.
///
/// # Example
///
/// ```
/// use giusto::result::rate_error_ppm;
///
/// assert_eq!(rate_error_ppm(1_000_250.0, 1_000_000.0), Some(250.0));
/// assert_eq!(rate_error_ppm(1.0, 0.0), None);
/// ```
pub fn rate_error_ppm(rate_bps: f64, target_bps: f64) -> Option<f64> {
    (target_bps > 0.0 && rate_bps.is_finite()).then(|| (rate_bps - target_bps) / target_bps * 1e6)
}

/// The median of the finite ones of `values`: the middle one, or the mean of the middle two.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(values.len() / 2 - 1)?;
    Some(lower + (upper - lower) / 2.0)
}

/// One result for repeated runs of one configuration: for every number the median of those that are known.
///
/// Counts are rounded to whole ones; words are those of the first run. `repeats` is the number of runs; without any, all is
/// unknown and `repeats` is 0.
pub fn median_of(runs: &[RunResult]) -> RunResult {
    let repeats = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let Some(first) = runs.first() else { return RunResult { repeats, ..RunResult::default() } };
    // The fields are many and of one kind: their JSON form lets one rule stand for all of them.
    let values: Vec<Value> = runs.iter().filter_map(|run| serde_json::to_value(run).ok()).collect();
    let result = serde_json::from_value(median_value(&values)).unwrap_or_else(|_| first.clone());
    RunResult { repeats, ..result }
}

fn median_value(values: &[Value]) -> Value {
    let known: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
    match known.first() {
        None => Value::Null,
        Some(Value::Number(_)) => median_number(&known),
        Some(Value::Object(first)) => {
            let field = |name: &String| {
                let of_each: Vec<Value> = known.iter().filter_map(|value| value.get(name)).cloned().collect();
                (name.clone(), median_value(&of_each))
            };
            Value::Object(first.keys().map(field).collect::<Map<_, _>>())
        }
        Some(first) => (*first).clone(),
    }
}

fn median_number(values: &[&Value]) -> Value {
    let Some(middle) = median(values.iter().filter_map(|value| value.as_f64())) else { return Value::Null };
    if values.iter().all(|value| value.is_u64()) {
        return Value::Number(Number::from(middle.round() as u64));
    }
    Number::from_f64(middle).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rx_rate_bps: f64, lost_packets: u64, p99: Option<f64>) -> RunResult {
        RunResult {
            strategy: "grid".to_owned(),
            rate_bps: Some(1_000_000),
            rx_rate_bps: Some(rx_rate_bps),
            lost_packets: Some(lost_packets),
            gap_error_us: Quantiles { p99, ..Quantiles::default() },
            ..RunResult::default()
        }
    }

    #[test]
    fn the_median_is_taken_field_by_field() {
        let runs = [run(3.5, 7, Some(1.0)), run(1.5, 9, None), run(2.5, 0, Some(2.0))];
        let middle = median_of(&runs);
        assert_eq!(middle.strategy, "grid");
        assert_eq!(middle.rate_bps, Some(1_000_000));
        assert_eq!(middle.rx_rate_bps, Some(2.5));
        assert_eq!(middle.lost_packets, Some(7));
        assert_eq!(middle.gap_error_us.p99, Some(1.5));
        assert_eq!(middle.jitter_ms, None);
        assert_eq!(middle.repeats, 3);
    }

    #[test]
    fn the_median_of_none_or_one_run_holds_no_surprise() {
        assert_eq!(median_of(&[]), RunResult { repeats: 0, ..RunResult::default() });
        let one = run(1e6 + 0.125, 3, Some(0.1));
        assert_eq!(median_of(std::slice::from_ref(&one)), one);
        assert_eq!(median([]), None);
        assert_eq!(median([f64::NAN, 4.0]), Some(4.0));
    }

    #[test]
    fn an_error_needs_a_rate_and_a_target() {
        assert_eq!(rate_error_ppm(1e6, 0.0), None);
        assert_eq!(rate_error_ppm(f64::INFINITY, 1.0), None);
        assert_eq!(rate_error_ppm(999_000.0, 1e6), Some(-1000.0));
    }

    #[test]
    fn a_run_becomes_json_with_units_in_every_name() {
        let run = RunResult {
            strategy: "grid".to_owned(),
            rate_bps: Some(1_000_000),
            size_bytes: Some(200),
            packets_per_cycle: Some(1),
            period_ns: Some(1_600_000),
            sent_packets: Some(6250),
            received_packets: Some(6250),
            lost_packets: Some(0),
            duplicate_packets: Some(0),
            reordered_packets: Some(0),
            tx_rate_bps: Some(1_000_000.1),
            rx_rate_bps: Some(1_000_000.2),
            rate_error_ppm: Some(0.2),
            schedule_error_us: Quantiles { p50: Some(0.4), p99: Some(2.0), p999: Some(9.0), max: Some(31.0) },
            sender_cpu_ratio: Some(0.08),
            slips: Some(SlipFigures::default()),
            ..RunResult::default()
        };
        insta::assert_snapshot!(serde_json::to_string_pretty(&run).unwrap(), @r#"
        {
          "strategy": "grid",
          "rate_bps": 1000000,
          "size_bytes": 200,
          "packets_per_cycle": 1,
          "period_ns": 1600000,
          "sent_packets": 6250,
          "received_packets": 6250,
          "lost_packets": 0,
          "duplicate_packets": 0,
          "reordered_packets": 0,
          "tx_rate_bps": 1000000.1,
          "rx_rate_bps": 1000000.2,
          "rate_error_ppm": 0.2,
          "schedule_error_us": {
            "p50": 0.4,
            "p99": 2.0,
            "p999": 9.0,
            "max": 31.0
          },
          "gap_error_us": {
            "p50": null,
            "p99": null,
            "p999": null,
            "max": null
          },
          "sender_cpu_ratio": 0.08,
          "receiver_cpu_ratio": null,
          "peer": null,
          "duration_s": null,
          "loss_ratio": null,
          "loss_bursts": null,
          "jitter_ms": null,
          "round_trip_ms": {
            "min": null,
            "p50": null,
            "p99": null,
            "p999": null,
            "max": null
          },
          "one_way_delay_ms": {
            "basis": null,
            "min": null,
            "p50": null,
            "p99": null,
            "p999": null,
            "max": null
          },
          "clock": null,
          "kernel_dropped_packets": null,
          "ecn": null,
          "dscp": null,
          "layer": null,
          "mode": null,
          "burst_bound": null,
          "slips": {
            "caught_up_packets": 0,
            "skipped_packets": 0,
            "reanchors": 0
          },
          "fencepost_rate_bps": null,
          "voice": null,
          "system": null,
          "ended": null,
          "from": null,
          "format": null,
          "repeats": 1
        }
        "#);
        let read_back: RunResult = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read_back, run);
    }
}
