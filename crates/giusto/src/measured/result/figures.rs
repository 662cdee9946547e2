//! Groups of figures within a result.

use giusto_measure::{ClockEstimate, DelayBasis, DelaySummary};
use giusto_pace::LateCycles;
use giusto_rtp::rtcp::VoipMetrics;
use giusto_session::{
    path_mtu::PathMtuFigures,
    probe::{
        FarEndReports,
        wire::{VoiceReport, WakeLatency},
    },
};
use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize};

pub use crate::quantiles::Quantiles;

impl From<&WakeLatency> for Quantiles {
    fn from(WakeLatency { p50, p99, max }: &WakeLatency) -> Self {
        let [p50, p99, max] = [p50, p99, max].map(|latency| Some(latency.as_micros()));
        Self { p50, p99, max, ..Self::default() }
    }
}

/// What a one-way delay counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayReference {
    /// The departure.
    Absolute,
    /// The departure by the sender's statement of its clock, whose error is unknown.
    Stated,
    /// The shortest delay of the stream: the clocks cannot be compared.
    Relative,
}

/// One-way delay, in ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWayDelay {
    /// How the two clocks compare: one clock, synchronised clocks, an estimated offset, or unknown (a relative delay).
    pub basis: Option<String>,
    /// What the delay counts from.
    #[serde(default)]
    pub reference: Option<DelayReference>,
    /// The largest possible error, in ms; `None` if it is not known, and for one clock at both ends.
    #[serde(default)]
    pub error_ms: Option<f64>,
    /// The smallest delay and the quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

impl From<&DelaySummary> for OneWayDelay {
    fn from(delay: &DelaySummary) -> Self {
        use DelayReference::{Absolute, Relative, Stated};
        let (reference, error, basis) = match delay.basis {
            DelayBasis::SameClock => (Absolute, None, "absolute: one clock at both ends".to_owned()),
            DelayBasis::Synchronised { uncertainty } => (
                Absolute,
                Some(uncertainty),
                format!("absolute within {uncertainty:.1}: synchronised clocks"),
            ),
            DelayBasis::Estimated { uncertainty } => (
                Absolute,
                Some(uncertainty),
                format!("absolute within {uncertainty:.1}: clock offset estimated"),
            ),
            DelayBasis::Stated => {
                (Stated, None, "as its sender states its clock, whose error is unknown".to_owned())
            }
            DelayBasis::Relative => (Relative, None, "relative to the shortest delay".to_owned()),
        };
        let [min, p50, p99, p999, max] =
            [delay.min, delay.p50, delay.p99, delay.p999, delay.max].map(|delay| Some(delay.as_millis()));
        Self {
            basis: Some(basis),
            reference: Some(reference),
            error_ms: error.map(TimeDelta::as_millis),
            quantiles: Quantiles { min, p50, p99, p999, max },
        }
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

/// Requests to open streams beyond what a receiver answers while it measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloodFigures {
    /// Requests that were not answered.
    pub unanswered_handshakes: u64,
    /// Datagrams of any sender that the receiver's full socket buffer dropped meanwhile.
    pub dropped_packets: u64,
}

/// One of the addresses between which a stream went, while it did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// The address and port.
    pub from: String,
    /// The last arrival from there, in seconds since the first one of the stream.
    pub until_s: Option<f64>,
    /// Datagrams that arrived meanwhile.
    pub received_packets: u64,
    /// The address and port of this end, if it was this end that moved or was away.
    pub to: Option<String>,
    /// Datagrams that the sender sent to it after that, while this end had no such address or no route: they are lost, but not by the
    /// network. `None` where this end did not move.
    pub away_packets: Option<u64>,
}

/// How the MTU of a path was found by probes (RFC 8899).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuFigures {
    /// The largest UDP payload that arrives whole, in bytes.
    pub payload_bytes: Option<u64>,
    /// Whether the search came to its end: then nothing larger arrives.
    pub complete: bool,
    /// Probes sent.
    pub probes: u64,
    /// Of these, those without an answer.
    pub lost_probes: u64,
    /// Reports of routers that were used.
    pub packets_too_big: u64,
    /// How often a size that had arrived no longer did.
    pub changes: u64,
}

impl From<&PathMtuFigures> for MtuFigures {
    fn from(found: &PathMtuFigures) -> Self {
        Self {
            payload_bytes: found.payload_bytes,
            complete: found.is_complete,
            probes: found.probes,
            lost_probes: found.lost_probes,
            packets_too_big: found.packets_too_big,
            changes: found.changes,
        }
    }
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

impl From<&LateCycles> for SlipFigures {
    fn from(late: &LateCycles) -> Self {
        Self {
            caught_up_packets: late.caught_up_packets,
            largest_burst_packets: late.largest_burst_packets,
            skipped_packets: late.skipped_packets,
            reanchors: late.reanchors,
        }
    }
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
    /// What a sender's latest report states.
    pub(in crate::measured) fn sender(source: u32, packets: u32) -> Self {
        Self {
            program: format!("RTCP of {source:08x}"),
            sent_packets: Some(packets.into()),
            ..Self::default()
        }
    }

    /// What a receiver reported of an RTP stream; `None` if it did not.
    pub(in crate::measured) fn reported(reports: &FarEndReports) -> Option<Self> {
        let report = reports.latest()?;
        Some(Self {
            program: format!("RTCP of {:08x}", report.source),
            // More duplicates than losses.
            lost_packets: Some(u64::try_from(report.lost_packets).unwrap_or(0)),
            jitter_ms: Some(report.jitter.as_millis()),
            rtcp: Some(RtcpFigures {
                reports: report.reports,
                fraction_lost: report.fraction_lost,
                round_trip_ms: reports.rtts().quantiles().map(|times| times.p50.as_millis()),
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
    /// What times the departures: `kernel (fq)`, `kernel (etf)`, or `program`, with the reason where the kernel was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departures: Option<String>,
    /// The requested send buffer, in bytes.
    pub send_buffer_asked_bytes: Option<u64>,
    /// The granted send buffer, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The requested receive buffer, in bytes.
    pub receive_buffer_asked_bytes: Option<u64>,
    /// The granted receive buffer, in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// What timestamps arrivals: `card` with the interface and its clock, `kernel` or `program`. Where the other end measured, this is
    /// of the messages that came back.
    pub receive_timestamps: Option<String>,
    /// The same of the other end that measured: `card`, `kernel` or `program`; `None` where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_receive_timestamps: Option<String>,
    /// What timestamped the departures of `departure_lag_us`: `card` with the interface and its clock, or `kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departure_timestamps: Option<String>,
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
