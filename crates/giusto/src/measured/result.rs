//! The result of one measured run: `giusto cbr`, `send` and `recv` print it; tables and pages show it.
//!
//! A quantity that was not measured is `None`, in JSON `null`, never 0. The unit is in the name of each field.

mod figures;
mod histogram;
mod plots;
mod stamp;

use giusto_measure::{RatePoint, StreamMeter, StreamSummary};
use giusto_session::probe::wire::StreamRequest;
use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

pub use figures::{
    ClockFigures, DelayReference, EcnFigures, FarEndFigures, FloodFigures, LossBursts, MtuFigures,
    OneWayDelay, PathFigures, Quantiles, RtcpFigures, SlipFigures, SystemGranted, VoiceFigures, VoipFigures,
};
pub(in crate::measured) use histogram::classes;
pub use histogram::{HistogramClass, Histograms};
pub use plots::{HistogramBin, RunPlots};
pub use stamp::{ReflectorResult, StampExtensions, StampPath, StampResult, StampTtl};

/// One run: one sender, one receiver, one rate and size. In JSON it is one entry of `runs`.
///
/// # Example
///
/// ```
/// use giusto::measured::result::RunResult;
///
/// let run: RunResult = serde_json::from_str(r#"{"strategy": "grid", "rate_bps": 1000000, "lost_packets": 0}"#)?;
/// assert_eq!(run.rate_bps, Some(1_000_000));
/// assert_eq!(run.rx_rate_bps, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// The pacing strategy, such as `grid`; `max`, `recorded`, `peer` or `unknown` where no strategy paced the stream.
    pub strategy: String,
    /// The requested rate, in bit/s; `None` for "max".
    pub rate_bps: Option<u64>,
    /// The UDP payload of one datagram, in bytes.
    pub size_bytes: Option<u64>,
    /// Datagrams that leave together in one cycle.
    pub packets_per_cycle: Option<u32>,
    /// The time from one cycle to the next, in nanoseconds.
    pub period_ns: Option<u64>,
    /// Datagrams handed to the network.
    pub sent_packets: Option<u64>,
    /// Unique datagrams that arrived.
    pub received_packets: Option<u64>,
    /// Datagrams sent that never arrived.
    pub lost_packets: Option<u64>,
    /// Datagrams that the sender's system did not take: the send buffer was full, the interface or the route was away, or sending
    /// failed. They are not among the lost ones.
    pub unsent_packets: Option<u64>,
    /// The latest reason, at the sender.
    pub unsent_reason: Option<String>,
    /// Datagrams that arrived too late to be distinguished from duplicates. They are among the lost ones.
    pub too_old_packets: Option<u64>,
    /// Datagrams that were ignored because the sender cannot have come to their sequence number.
    pub implausible_packets: Option<u64>,
    /// Further copies of datagrams that had already arrived.
    pub duplicate_packets: Option<u64>,
    /// Datagrams that arrived after a later one (RFC 4737 §3.3).
    pub reordered_packets: Option<u64>,
    /// The rate at the sender: (N−1)·size / (last − first), in bit/s.
    pub tx_rate_bps: Option<f64>,
    /// The rate at the receiver: (N−1)·size / (last − first), in bit/s.
    pub rx_rate_bps: Option<f64>,
    /// The received rate less the requested rate, in parts per million of the requested rate.
    pub rate_error_ppm: Option<f64>,
    /// Deviation of departures from their scheduled times, in µs, without sign.
    pub schedule_error_us: Quantiles,
    /// From the time that a datagram carries until it left this machine, in µs, of at most 20 datagrams a second: by so much the one-way
    /// delay includes the sender's system. `None` where nothing stamped them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departure_lag_us: Option<Quantiles>,
    /// Deviation of inter-arrival gaps from the ideal gap, in µs, without sign.
    pub gap_error_us: Quantiles,
    /// CPU time of the sending thread over elapsed time, 0 to 1.
    pub sender_cpu_ratio: Option<f64>,
    /// CPU time of the receiving thread over elapsed time, 0 to 1.
    pub receiver_cpu_ratio: Option<f64>,
    /// The other program that sent, such as `iperf3 3.12`; `None` for giusto's own sender.
    pub peer: Option<String>,

    /// How long the sender sent, in seconds.
    pub duration_s: Option<f64>,
    /// Lost over sent datagrams, 0 to 1.
    pub loss_ratio: Option<f64>,
    /// Consecutive losses.
    pub loss_bursts: Option<LossBursts>,
    /// Inter-arrival jitter at the end of the run, in ms (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Round-trip time, in ms.
    pub round_trip_ms: Quantiles,
    /// One-way delay, in ms.
    pub one_way_delay_ms: OneWayDelay,
    /// The far clock against ours.
    pub clock: Option<ClockFigures>,
    /// Of the lost datagrams, those that the receiver's full socket buffer dropped: the path did not lose them. At most so many where
    /// the socket received other datagrams too. Of datagrams without sequence numbers, all that it dropped.
    pub kernel_dropped_packets: Option<u64>,
    /// Requests of others to open streams that the receiver left unanswered while this stream lasted; `None` where there were none.
    pub handshake_flood: Option<FloodFigures>,
    /// ECN marks on arrival.
    pub ecn: Option<EcnFigures>,
    /// The DSCP on arrival, 0 to 63.
    pub dscp: Option<u8>,
    /// The layer whose bytes the rate counts: `payload`, `udp`, `ip` or `ethernet`.
    pub layer: Option<String>,
    /// How the sender waits: `precise`, `balanced` or `eco`.
    pub mode: Option<String>,
    /// The largest burst allowed to catch up, such as `4 packets`.
    pub burst_bound: Option<String>,
    /// What the strategy did about late datagrams.
    pub slips: Option<SlipFigures>,
    /// All received bits over (last − first), in bit/s: the fencepost error of receivers that count N intervals.
    pub fencepost_rate_bps: Option<f64>,
    /// Voice quality by the E-model.
    pub voice: Option<VoiceFigures>,
    /// What the operating system granted.
    pub system: Option<SystemGranted>,
    /// The MTU of the path at the end of the run, as far as the sender's system knows it, in bytes.
    pub mtu_bytes: Option<u64>,
    /// How the MTU of the path was found by probes (RFC 8899); `None` where it was not looked for.
    pub mtu_discovery: Option<MtuFigures>,
    /// The number of IP packets in which each datagram was sent; `None` where sizes vary.
    pub fragments_per_packet: Option<u64>,
    /// Why the run ended, such as `all sent` or `interrupted`.
    pub ended: Option<String>,
    /// The sender's address and port, as the receiver saw them.
    pub from: Option<String>,
    /// The addresses from which the stream came, in their order, where there was more than one.
    pub paths: Vec<PathFigures>,
    /// Whether every datagram that counts was authenticated with a shared key.
    pub authenticated: Option<bool>,
    /// The receiver's address and port, where this end is a server that sends.
    pub to: Option<String>,
    /// What a far end that is not giusto reported of the stream: its own figures, by its own rules.
    pub far_end: Option<FarEndFigures>,
    /// The format of the datagrams: `giusto`, `iperf3`, `rtp`, with the codec if it is known, or `raw`.
    pub format: Option<String>,
    /// Histograms; `None` where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histograms: Option<Box<Histograms>>,
    /// How many runs this result is the median of; `None` for one run.
    pub repeats: Option<u32>,
    /// Why the figures do not show what was asked for: the receiver itself lost datagrams, the machine was too busy to send on time,
    /// or the counts contradict each other. Empty where they can be trusted.
    pub doubts: Vec<String>,
}

impl RunResult {
    /// The sender's name: the peer, or our strategy.
    pub fn sender(&self) -> &str {
        self.peer.as_deref().unwrap_or(&self.strategy)
    }

    /// The even spacing of datagrams at the requested rate, in µs; `None` for "max".
    pub fn ideal_gap_us(&self) -> Option<f64> {
        let (size, rate) = (self.size_bytes?, self.rate_bps.filter(|&rate| rate > 0)?);
        Some(size as f64 * 8e6 / rate as f64)
    }

    /// Datagrams in a second at the requested rate; `None` for "max".
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

    /// What the announcement of a stream determines.
    pub(super) fn requested(request: &StreamRequest) -> Self {
        let pacing = &request.pacing;
        Self {
            strategy: pacing.keeping.to_string(),
            rate_bps: request.rate_bps,
            size_bytes: request.size.map(DataSize::as_bytes),
            packets_per_cycle: Some(pacing.packets_per_cycle),
            period_ns: pacing.period.and_then(|period| u64::try_from(period.as_nanos()).ok()),
            layer: Some(request.layer.to_string()),
            ..Self::default()
        }
    }

    /// Adds what the receiver measured; `rate_bps` must be set before.
    pub(super) fn add_received(&mut self, summary: &StreamSummary) {
        self.received_packets = Some(summary.received_packets);
        self.lost_packets = Some(summary.lost_packets);
        self.too_old_packets = Some(summary.too_old_packets);
        self.implausible_packets = Some(summary.implausible_packets);
        self.duplicate_packets = Some(summary.duplicate_packets);
        self.reordered_packets = Some(summary.reordered_packets);
        self.rx_rate_bps = summary.rate_bps;
        self.fencepost_rate_bps = summary.fencepost_rate_bps;
        self.rate_error_ppm = summary
            .rate_bps
            .zip(self.rate_bps)
            .and_then(|(rate, target)| rate_error_ppm(rate, target as f64));
        self.schedule_error_us = Quantiles::micros(summary.schedule_error.as_ref());
        self.gap_error_us = Quantiles::micros(summary.gap_error.as_ref());
        self.loss_ratio = (summary.loss.expected > 0).then(|| summary.loss.ratio());
        self.loss_bursts = Some(LossBursts {
            count: summary.loss.periods,
            longest: summary.loss.longest_period,
            mean: summary.loss.mean_period(),
        });
        self.jitter_ms = summary.jitter.map(TimeDelta::as_millis);
        self.one_way_delay_ms = summary.delay.as_ref().map(OneWayDelay::from).unwrap_or_default();
        self.kernel_dropped_packets = Some(summary.kernel_dropped_packets);
        self.ecn = Some(EcnFigures {
            not_ect_packets: summary.ecn.not_ect,
            ect0_packets: summary.ecn.ect0,
            ect1_packets: summary.ecn.ect1,
            ce_packets: summary.ecn.ce,
        });
        self.dscp = summary.dscp;
    }

    /// Leaves out what only sequence numbers show: without them one datagram is as good as another.
    pub(super) fn forget_sequence(&mut self) {
        (self.duplicate_packets, self.reordered_packets) = (None, None);
        (self.too_old_packets, self.implausible_packets, self.loss_bursts) = (None, None, None);
    }
}

/// Figures of the streams that are open, while a run goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveFigures {
    /// The number of streams.
    pub streams: usize,
    /// Unique datagrams received.
    pub received_packets: u64,
    /// Datagrams lost; `None` if nothing is known of them, as without sequence numbers.
    pub lost_packets: Option<u64>,
    /// Of these, those that the receiver's socket buffer dropped.
    pub kernel_dropped_packets: u64,
    /// The received rate, in bit/s.
    pub rate_bps: f64,
    /// The largest p99 of the streams' gap errors.
    pub gap_error_p99: Option<TimeDelta>,
}

impl LiveFigures {
    /// Adds a stream, of which the receiver's socket has dropped so many datagrams; without a meter nothing has arrived. The rate is
    /// that of the last second. What a stream without sequence numbers lost is unknown.
    pub(super) fn add(&mut self, meter: Option<&StreamMeter>, dropped: u64, has_sequence: bool) {
        let losses = meter.map(|meter| meter.sequence().losses()).unwrap_or_default();
        self.streams += 1;
        self.received_packets += losses.received;
        if has_sequence {
            *self.lost_packets.get_or_insert(0) += losses.lost;
        }
        self.kernel_dropped_packets += dropped;
        self.rate_bps += meter.map_or(0.0, rate_of_last_second);
    }
}

/// The mean rate of the last ten complete intervals of 0.1 s.
fn rate_of_last_second(meter: &StreamMeter) -> f64 {
    let points: Vec<_> = meter.series().points().collect();
    let complete = points.len().saturating_sub(1);
    let last = points.get(complete.saturating_sub(10)..complete).unwrap_or_default();
    last.iter().map(RatePoint::rate_bps).sum::<f64>() / last.len().max(1) as f64
}

/// The error of `rate_bps` against `target_bps`, in parts per million; `None` unless the target is above 0.
///
/// # Example
///
/// ```
/// use giusto::measured::result::rate_error_ppm;
///
/// assert_eq!(rate_error_ppm(1_000_250.0, 1_000_000.0), Some(250.0));
/// assert_eq!(rate_error_ppm(1.0, 0.0), None);
/// ```
pub fn rate_error_ppm(rate_bps: f64, target_bps: f64) -> Option<f64> {
    (target_bps > 0.0 && rate_bps.is_finite()).then(|| (rate_bps - target_bps) / target_bps * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_error_needs_a_rate_and_a_target() {
        assert_eq!(rate_error_ppm(1e6, 0.0), None);
        assert_eq!(rate_error_ppm(f64::INFINITY, 1.0), None);
        assert_eq!(rate_error_ppm(999_000.0, 1e6), Some(-1000.0));
    }

    #[test]
    fn what_raw_datagrams_lost_is_unknown() {
        let mut live = LiveFigures::default();
        live.add(None, 3, false);
        assert_eq!((live.lost_packets, live.kernel_dropped_packets), (None, 3));
        live.add(None, 0, true);
        assert_eq!(live.lost_packets, Some(0), "of the streams whose losses are known");
    }

    #[test]
    fn json_names_carry_their_units() {
        let schedule_error_us = Quantiles { p50: Some(0.4), max: Some(31.0), ..Quantiles::default() };
        let run = RunResult {
            strategy: "grid".to_owned(),
            rate_bps: Some(1_000_000),
            lost_packets: Some(0),
            rx_rate_bps: Some(1_000_000.2),
            schedule_error_us,
            slips: Some(SlipFigures::default()),
            ..RunResult::default()
        };
        let json = serde_json::to_string(&run).unwrap();
        insta::assert_snapshot!(json, @r#"{"strategy":"grid","rate_bps":1000000,"size_bytes":null,"packets_per_cycle":null,"period_ns":null,"sent_packets":null,"received_packets":null,"lost_packets":0,"unsent_packets":null,"unsent_reason":null,"too_old_packets":null,"implausible_packets":null,"duplicate_packets":null,"reordered_packets":null,"tx_rate_bps":null,"rx_rate_bps":1000000.2,"rate_error_ppm":null,"schedule_error_us":{"p50":0.4,"p99":null,"p999":null,"max":31.0},"gap_error_us":{"p50":null,"p99":null,"p999":null,"max":null},"sender_cpu_ratio":null,"receiver_cpu_ratio":null,"peer":null,"duration_s":null,"loss_ratio":null,"loss_bursts":null,"jitter_ms":null,"round_trip_ms":{"p50":null,"p99":null,"p999":null,"max":null},"one_way_delay_ms":{"basis":null,"reference":null,"error_ms":null,"p50":null,"p99":null,"p999":null,"max":null},"clock":null,"kernel_dropped_packets":null,"handshake_flood":null,"ecn":null,"dscp":null,"layer":null,"mode":null,"burst_bound":null,"slips":{"caught_up_packets":0,"largest_burst_packets":0,"skipped_packets":0,"reanchors":0},"fencepost_rate_bps":null,"voice":null,"system":null,"mtu_bytes":null,"mtu_discovery":null,"fragments_per_packet":null,"ended":null,"from":null,"paths":[],"authenticated":null,"to":null,"far_end":null,"format":null,"repeats":null,"doubts":[]}"#);
        assert_eq!(serde_json::from_str::<RunResult>(&json).unwrap(), run);
    }
}
