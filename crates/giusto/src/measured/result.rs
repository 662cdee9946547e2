//! The result of one measured run: `giusto cbr`, `send` and `recv` print it; tables and pages show it.
//!
//! A quantity that was not measured is `None`, in JSON `null`, never 0. The unit is in the name of each field.

use giusto_measure::{ClockEstimate, DelayBasis, DelaySummary, ErrorHistogram, StreamMeter, StreamSummary};
use giusto_net::{Asked, Granted};
use giusto_rtp::rtcp::VoipMetrics;
use giusto_session::probe::{
    FarEndReports,
    wire::{StreamRequest, VoiceReport},
};
use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

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
    /// Datagrams that the system did not take: the send buffer was full, or sending failed. They are not among the lost ones.
    pub unsent_packets: Option<u64>,
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
    /// Datagrams that the receiving kernel dropped because its socket buffer was full.
    pub kernel_dropped_packets: Option<u64>,
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
    /// The number of IP packets in which each datagram was sent; `None` where sizes vary.
    pub fragments_per_packet: Option<u64>,
    /// Why the run ended, such as `all sent` or `interrupted`.
    pub ended: Option<String>,
    /// The sender's address and port, as the receiver saw them.
    pub from: Option<String>,
    /// Whether every datagram that counts was authenticated with a shared key.
    pub authenticated: Option<bool>,
    /// The receiver's address and port, where this end is a server that sends.
    pub to: Option<String>,
    /// What a far end that is not giusto told of the stream: its own figures, by its own rules.
    pub far_end: Option<FarEndFigures>,
    /// The format of the datagrams: `giusto`, `iperf3`, `rtp`, with the codec if it is known, or `raw`.
    pub format: Option<String>,
    /// How many runs this result is the median of; `None` for one run.
    pub repeats: Option<u32>,
    /// Why the figures do not show what was asked for: the machine was too busy to send on time, or the counts contradict each
    /// other. Empty where they can be trusted.
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
}

/// Quantiles of one quantity; the unit is in the name of the field that holds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The smallest value; `None` for errors, whose smallest value says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
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

impl Quantiles {
    /// The quantiles of an error, in µs.
    pub(super) fn micros(errors: Option<&giusto_measure::Quantiles>) -> Self {
        let of =
            |pick: fn(&giusto_measure::Quantiles) -> TimeDelta| errors.map(|errors| pick(errors).as_micros());
        Self { min: None, p50: of(|e| e.p50), p99: of(|e| e.p99), p999: of(|e| e.p999), max: of(|e| e.max) }
    }

    /// The smallest value and the quantiles of `values`, in ms.
    pub(super) fn millis(values: &ErrorHistogram) -> Self {
        let micros = Self::micros(values.quantiles().as_ref());
        let [p50, p99, p999, max] =
            [micros.p50, micros.p99, micros.p999, micros.max].map(|value| value.map(|us| us / 1e3));
        Self { min: values.min().map(TimeDelta::as_millis), p50, p99, p999, max }
    }
}

/// One-way delay, in ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWayDelay {
    /// How the two clocks compare: one clock, synchronised clocks, an estimated offset, or unknown (a relative delay).
    pub basis: Option<String>,
    /// The smallest delay and the quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

impl From<&DelaySummary> for OneWayDelay {
    fn from(delay: &DelaySummary) -> Self {
        let basis = match delay.basis {
            DelayBasis::SameClock => "absolute: one clock at both ends".to_owned(),
            DelayBasis::Synchronised { uncertainty } => {
                format!("absolute within {uncertainty:.1}: synchronised clocks")
            }
            DelayBasis::Estimated { uncertainty } => {
                format!("absolute within {uncertainty:.1}: clock offset estimated")
            }
            DelayBasis::Stated => "as its sender states its clock, whose error is unknown".to_owned(),
            DelayBasis::Relative => "relative to the shortest delay".to_owned(),
        };
        let [min, p50, p99, p999, max] =
            [delay.min, delay.p50, delay.p99, delay.p999, delay.max].map(|delay| Some(delay.as_millis()));
        Self { basis: Some(basis), quantiles: Quantiles { min, p50, p99, p999, max } }
    }
}

/// Consecutive losses (RFC 3357).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossBursts {
    /// The number of loss bursts.
    pub count: u64,
    /// The longest burst, in datagrams.
    pub longest: u64,
    /// Their mean length, in datagrams.
    pub mean: Option<f64>,
}

/// The far clock against ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFigures {
    /// The far clock less ours, in ms.
    pub offset_ms: Option<f64>,
    /// The largest possible error of the offset, in ms.
    pub uncertainty_ms: Option<f64>,
    /// How much faster the far clock runs, in parts per million.
    pub drift_ppm: Option<f64>,
}

impl From<&ClockEstimate> for ClockFigures {
    fn from(clock: &ClockEstimate) -> Self {
        Self {
            offset_ms: Some(clock.offset.as_millis()),
            uncertainty_ms: Some(clock.uncertainty.as_millis()),
            drift_ppm: clock.drift.map(|drift| drift.ppm),
        }
    }
}

/// ECN marks on arrival, in datagrams (RFC 3168 §5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a strategy did about late datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlipFigures {
    /// Datagrams that left in a catch-up burst.
    pub caught_up_packets: u64,
    /// The most datagrams that left back to back in one such burst.
    pub largest_burst_packets: u64,
    /// Datagrams that were never sent because their time had passed.
    pub skipped_packets: u64,
    /// How often the schedule restarted.
    pub reanchors: u64,
}

/// Voice quality (ITU-T G.107).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceFigures {
    /// The codec.
    pub codec: Option<String>,
    /// The scale: `narrowband (G.107)`, or `wideband, estimated` where no impairment factors are published.
    pub scale: Option<String>,
    /// The transmission rating R: 0 to 100, on the wideband scale to 129.
    pub r_factor: Option<f64>,
    /// The mean opinion score, 1 to 4.5.
    pub mos: Option<f64>,
}

impl From<&VoiceReport> for VoiceFigures {
    fn from(VoiceReport { quality, .. }: &VoiceReport) -> Self {
        Self {
            codec: Some(quality.profile.to_string()),
            scale: Some(quality.scale.to_string()),
            r_factor: Some(quality.r_factor),
            mos: Some(quality.mos),
        }
    }
}

/// A stream as a program at the far end counted it. What it did not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FarEndFigures {
    /// The program, such as `iperf3 3.12`; of an RTP receiver its SSRC: `RTCP of 1a2b3c4d`.
    pub program: String,
    /// Datagrams sent, at a sending far end.
    pub sent_packets: Option<u64>,
    /// Datagrams received, with duplicates, at a receiving far end.
    pub received_packets: Option<u64>,
    /// Datagrams lost before the last one that arrived; iperf3 counts each duplicate as one less.
    pub lost_packets: Option<u64>,
    /// Inter-arrival jitter, in ms (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Payload over the time of the far end's test, in bit/s.
    pub rate_bps: Option<f64>,
    /// The time of the far end's test, in seconds.
    pub duration_s: Option<f64>,
    /// What only RTCP tells, where the far end answers an RTP stream with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtcp: Option<RtcpFigures>,
}

/// What a far end reports of an RTP stream with RTCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RtcpFigures {
    /// Reports of this stream that came.
    pub reports: u64,
    /// Loss between the last two reports, 0 to 1 (RFC 3550 §6.4.1).
    pub fraction_lost: f64,
    /// The median of the round-trip times from sender report to reception report, in ms (RFC 3550 §6.4.1).
    pub round_trip_ms: Option<f64>,
    /// VoIP metrics, if they came.
    pub voip: Option<VoipFigures>,
}

/// VoIP metrics (RFC 3611 §4.7). What the far end marks as unavailable is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct VoipFigures {
    /// Share of packets lost, 0 to 1.
    pub loss_ratio: f64,
    /// Share of packets that the jitter buffer discarded, 0 to 1.
    pub discard_ratio: f64,
    /// Share of packets lost or discarded in bursts, 0 to 1.
    pub burst_density: f64,
    /// Share of packets lost or discarded in gaps, 0 to 1.
    pub gap_density: f64,
    /// Mean duration of bursts, in ms.
    pub burst_duration_ms: u16,
    /// Mean duration of gaps, in ms.
    pub gap_duration_ms: u16,
    /// Round-trip time as the far end knows it, in ms.
    pub round_trip_ms: Option<u16>,
    /// Delay in the far end's system, in ms.
    pub end_system_delay_ms: Option<u16>,
    /// R factor, 0 to 100.
    pub r_factor: Option<u8>,
    /// Listening quality, 1 to 5.
    pub mos_lq: Option<f64>,
    /// Conversational quality, 1 to 5.
    pub mos_cq: Option<f64>,
    /// Nominal delay of the jitter buffer, in ms.
    pub jitter_buffer_nominal_ms: u16,
    /// Maximum delay of the jitter buffer, in ms.
    pub jitter_buffer_max_ms: u16,
    /// Absolute maximum delay of the jitter buffer, in ms.
    pub jitter_buffer_abs_max_ms: u16,
}

impl From<&VoipMetrics> for VoipFigures {
    fn from(metrics: &VoipMetrics) -> Self {
        let share = |share: u8| f64::from(share) / 256.0;
        let mos = |tenths: Option<u8>| tenths.map(|tenths| f64::from(tenths) / 10.0);
        let known = |millis: u16| (millis > 0).then_some(millis);
        Self {
            loss_ratio: share(metrics.loss_rate),
            discard_ratio: share(metrics.discard_rate),
            burst_density: share(metrics.burst_density),
            gap_density: share(metrics.gap_density),
            burst_duration_ms: metrics.burst_duration_ms,
            gap_duration_ms: metrics.gap_duration_ms,
            round_trip_ms: known(metrics.round_trip_delay_ms),
            end_system_delay_ms: known(metrics.end_system_delay_ms),
            r_factor: metrics.r_factor,
            mos_lq: mos(metrics.mos_lq_tenths),
            mos_cq: mos(metrics.mos_cq_tenths),
            jitter_buffer_nominal_ms: metrics.nominal_delay_ms,
            jitter_buffer_max_ms: metrics.max_delay_ms,
            jitter_buffer_abs_max_ms: metrics.absolute_max_delay_ms,
        }
    }
}

impl FarEndFigures {
    /// What a receiver reported of an RTP stream; `None` if it did not.
    pub(super) fn reported(reports: &FarEndReports) -> Option<Self> {
        let report = reports.latest()?;
        Some(Self {
            program: format!("RTCP of {:08x}", report.source),
            // More duplicates than losses.
            lost_packets: Some(u64::try_from(report.lost_packets).unwrap_or(0)),
            jitter_ms: Some(report.jitter.as_millis()),
            rtcp: Some(RtcpFigures {
                reports: report.reports,
                fraction_lost: report.fraction_lost,
                round_trip_ms: reports.round_trips().quantiles().map(|times| times.p50.as_millis()),
                voip: report.voice.as_ref().map(Into::into),
            }),
            ..Self::default()
        })
    }
}

/// What the operating system granted, as far as it could be asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemGranted {
    /// Kernel release, such as `Linux 6.12.0`.
    pub platform: Option<String>,
    /// Processors that this process may run on.
    pub processors: Option<u32>,
    /// The timer slack of the sending thread, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// The real-time priority of the sending thread, 1 to 99; 0 for an ordinary thread.
    pub realtime_priority: Option<u32>,
    /// The requested send buffer, in bytes.
    pub send_buffer_asked_bytes: Option<u64>,
    /// The granted send buffer, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The requested receive buffer, in bytes.
    pub receive_buffer_asked_bytes: Option<u64>,
    /// The granted receive buffer, in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Where arrivals are timestamped: `kernel` or `program`.
    pub receive_timestamps: Option<String>,
    /// Whether the kernel splits large sends into datagrams (GSO).
    pub segmentation_offload: Option<bool>,
    /// Whether the kernel joins datagrams into large reads (GRO).
    pub receive_offload: Option<bool>,
    /// The time slice of the sending thread, in nanoseconds, where the scheduler granted a short one.
    pub time_slice_ns: Option<u64>,
    /// Whether a time service keeps the system's clock synchronised.
    pub clock_synchronised: Option<bool>,
    /// How late the kernel woke the sending thread, in µs.
    pub wake_latency_us: Option<Quantiles>,
    /// How much earlier than its deadline the sending thread asks to be woken, in µs.
    pub wake_lead_us: Option<f64>,
    /// Time spent spinning over elapsed time, 0 to 1.
    pub spun_ratio: Option<f64>,
}

impl From<&Granted> for SystemGranted {
    fn from(granted: &Granted) -> Self {
        let asked = |buffer: &Option<Asked<u64>>| buffer.as_ref().map(|buffer| buffer.asked);
        let got = |buffer: &Option<Asked<u64>>| buffer.as_ref().map(|buffer| buffer.granted);
        Self {
            platform: Some(format!("Linux {}", granted.kernel_release)),
            processors: u32::try_from(granted.cores).ok(),
            timer_slack_ns: granted.timer_slack_ns,
            realtime_priority: Some(
                granted.realtime_priority.as_ref().map_or(0, |asked| asked.granted.into()),
            ),
            send_buffer_asked_bytes: asked(&granted.send_buffer_bytes),
            send_buffer_bytes: got(&granted.send_buffer_bytes),
            receive_buffer_asked_bytes: asked(&granted.receive_buffer_bytes),
            receive_buffer_bytes: got(&granted.receive_buffer_bytes),
            receive_timestamps: Some(if granted.kernel_timestamps { "kernel" } else { "program" }.to_owned()),
            segmentation_offload: Some(granted.segmentation_offload),
            receive_offload: Some(granted.receive_offload),
            time_slice_ns: granted.time_slice_ns,
            clock_synchronised: granted.clock_synchronised,
            ..Self::default()
        }
    }
}

/// Figures of the streams that are open, while a run goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveFigures {
    /// The number of streams.
    pub streams: usize,
    /// Unique datagrams received.
    pub received_packets: u64,
    /// Datagrams lost.
    pub lost_packets: u64,
    /// The received rate, in bit/s.
    pub rate_bps: f64,
    /// The largest p99 of the streams' gap errors.
    pub gap_error_p99: Option<TimeDelta>,
}

/// One class of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBin {
    /// The class begins here, in µs.
    pub lo_us: f64,
    /// The class ends before this, in µs.
    pub hi_us: f64,
    /// The number of values in it.
    pub count: u64,
}

impl From<(f64, f64, u64)> for HistogramBin {
    fn from((lo_us, hi_us, count): (f64, f64, u64)) -> Self {
        Self { lo_us, hi_us, count }
    }
}

/// Series and histograms for the plots of a run. An empty vector draws no plot. Not part of the JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPlots {
    /// The received rate over time: seconds since the start, bit/s.
    pub rate_series: Vec<(f64, f64)>,
    /// Gaps between neighbouring arrivals.
    pub gap_histogram: Vec<HistogramBin>,
    /// Schedule errors of departures.
    pub schedule_error_histogram: Vec<HistogramBin>,
    /// One-way delay over time: seconds since the start, ms.
    pub one_way_delay_series: Vec<(f64, f64)>,
}

impl RunPlots {
    /// The plots of a stream as `meter` received it; `schedule_error` is the sender's.
    pub(super) fn new(meter: &StreamMeter, schedule_error: &ErrorHistogram) -> Self {
        // Bounds are whole nanoseconds, both included.
        let bins = |errors: &ErrorHistogram| {
            let bins = errors.buckets();
            bins.map(|bin| (bin.lower.as_micros(), bin.upper.as_micros() + 1e-3, bin.count).into()).collect()
        };
        let mut points: Vec<_> = meter.series().points().collect();
        let began = points.first().map(|point| point.start).unwrap_or_default();
        // The last interval ended early with the stream: its mean would look like a fall.
        points.pop();
        let rates = points.iter().map(|point| ((point.start - began).as_seconds(), point.rate_bps()));
        let delays = meter.delay().points();
        Self {
            rate_series: rates.collect(),
            gap_histogram: meter.gaps().map(bins).unwrap_or_default(),
            schedule_error_histogram: bins(schedule_error),
            one_way_delay_series: delays
                .map(|(at, delay)| ((at - began).as_seconds(), delay.as_millis()))
                .collect(),
        }
    }
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
    #[expect(clippy::too_many_lines, reason = "a snapshot of every field")]
    fn json_names_carry_their_units() {
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
            schedule_error_us: Quantiles {
                min: None,
                p50: Some(0.4),
                p99: Some(2.0),
                p999: Some(9.0),
                max: Some(31.0),
            },
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
          "unsent_packets": null,
          "too_old_packets": null,
          "implausible_packets": null,
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
            "p50": null,
            "p99": null,
            "p999": null,
            "max": null
          },
          "one_way_delay_ms": {
            "basis": null,
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
            "largest_burst_packets": 0,
            "skipped_packets": 0,
            "reanchors": 0
          },
          "fencepost_rate_bps": null,
          "voice": null,
          "system": null,
          "mtu_bytes": null,
          "fragments_per_packet": null,
          "ended": null,
          "from": null,
          "authenticated": null,
          "to": null,
          "far_end": null,
          "format": null,
          "repeats": null,
          "doubts": []
        }
        "#);
        let read_back: RunResult = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read_back, run);
    }
}
