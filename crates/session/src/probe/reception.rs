//! RTCP of a receiver: reception reports and VoIP metrics of a stream whose sender has sent RTCP to the port of the media (RFC 5761).

use giusto_measure::{
    mos::{MosScale, VoicePath, VoiceQuality},
    playout::PlayoutPolicy,
};
use giusto_rtp::{
    NtpDelay, NtpShort,
    rtcp::{
        Description, ExtendedReport, JitterBufferKind, LossConcealment, ReceiverReport, ReportBlock,
        SourceDescription, VoipMetrics,
    },
    voice::VoiceFormat,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{bursts::BurstMetrics, reports::report_interval, wire::VoiceReport};

/// The receiver as a source of reports: drawn from its secret, and the same for all streams.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    ssrc: u32,
    /// Random text that names no host (RFC 7022 §4).
    cname: String,
}

impl Reporter {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let mut keyed: Hmac<Sha256> =
            Hmac::new_from_slice(secret).expect("an HMAC takes keys of every length (RFC 2104 §2)");
        keyed.update(b"giusto rtcp source");
        let random = keyed.finalize().into_bytes();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        let (ssrc, name) = random.split_at(4);
        let name = number(name.get(..8).unwrap_or(name));
        Self { ssrc: number(ssrc) as u32, cname: format!("{name:016x}") }
    }
}

/// What a stream has received, as a report states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reception {
    /// The reported source.
    pub(super) ssrc: u32,
    /// Packets expected since the first one (RFC 3550 §A.3).
    pub(super) expected: u64,
    /// Packets received, with late ones and duplicates (RFC 3550 §A.3).
    pub(super) received: u64,
    /// The highest sequence number, with its cycles.
    pub(super) highest: u64,
    /// Jitter.
    pub(super) jitter: TimeDelta,
    /// Units of the RTP timestamp per second.
    pub(super) clock_rate_hz: u32,
}

/// Writes the reports about one stream (RFC 3550 §6.4.2).
///
/// The first comes half an interval after the sender's first RTCP (RFC 3550 §6.2), then there is one in the interval of sender
/// reports, and one at once after a goodbye.
#[derive(Debug, Default)]
pub(super) struct ReceptionReports {
    next: Option<Timestamp>,
    /// The latest sender report, and its arrival.
    heard: Option<(NtpShort, Timestamp)>,
    /// Expected and received packets at the latest report.
    before: (u64, u64),
}

impl ReceptionReports {
    /// The stream's sender has sent RTCP, so it receives RTCP at its port, too.
    pub(super) fn on_rtcp(&mut self, now: Timestamp, rate: Option<DataRate>) {
        let first = now + report_interval(rate.or(Some(DataRate::ZERO))) / 2;
        self.next.get_or_insert(first);
    }

    /// A sender report with this time arrived.
    pub(super) fn on_sender_report(&mut self, now: Timestamp, time: NtpShort) {
        self.heard = Some((time, now));
    }

    /// The sender is about to leave: it gets a report at once.
    pub(super) fn on_goodbye(&mut self, now: Timestamp) {
        if let Some(next) = &mut self.next {
            *next = (*next).min(now);
        }
    }

    /// When the next report is due; `None` before the sender's first RTCP.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// The next report, a compound packet. The one after it is due after an interval at `rate`.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        reporter: &Reporter,
        reception: &Reception,
        rate: Option<DataRate>,
        voice: Option<VoipMetrics>,
    ) -> Vec<u8> {
        self.next = Some(now + report_interval(rate.or(Some(DataRate::ZERO))));
        // A source that happens to have our number keeps it (RFC 3550 §8.2).
        let ssrc = reporter.ssrc.wrapping_add(u32::from(reporter.ssrc == reception.ssrc));
        let block = self.block(now, reception);
        let name = Description { ssrc, cname: Some(reporter.cname.clone()) };
        let mut bytes = Vec::new();
        // None of them is too long: one block, one chunk with a short name, at most one block.
        let written = ReceiverReport { ssrc, blocks: vec![block] }
            .write(&mut bytes)
            .and_then(|()| SourceDescription { chunks: vec![name] }.write(&mut bytes))
            .and_then(|()| match voice {
                Some(metrics) => {
                    let metrics = VoipMetrics { ssrc: reception.ssrc, ..metrics };
                    ExtendedReport { ssrc, voip_metrics: vec![metrics], ..ExtendedReport::default() }
                        .write(&mut bytes)
                }
                None => Ok(()),
            });
        debug_assert!(written.is_ok(), "{written:?}");
        bytes
    }

    /// The block of RFC 3550 §6.4.1, computed as in §A.3.
    fn block(&mut self, now: Timestamp, reception: &Reception) -> ReportBlock {
        let Reception { ssrc, expected, received, highest, jitter, clock_rate_hz } = *reception;
        let (expected_before, received_before) = std::mem::replace(&mut self.before, (expected, received));
        let expected_since = i128::from(expected) - i128::from(expected_before);
        let lost_since = expected_since - (i128::from(received) - i128::from(received_before));
        let fraction = if lost_since > 0 { (lost_since * 256).checked_div(expected_since) } else { None };
        let units = i128::from(jitter.as_nanos()) * i128::from(clock_rate_hz) / 1_000_000_000;
        let lost = i128::from(expected) - i128::from(received);
        ReportBlock {
            ssrc,
            fraction_lost: u8::try_from(fraction.unwrap_or(0)).unwrap_or(u8::MAX),
            cumulative_lost: i32::try_from(lost).unwrap_or(if lost < 0 { i32::MIN } else { i32::MAX }),
            highest_sequence: highest as u32,
            jitter: u32::try_from(units).unwrap_or(u32::MAX),
            last_sender_report: self.heard.map(|(time, _)| time),
            delay_since_last: NtpDelay::from_delta(
                self.heard.map_or(TimeDelta::ZERO, |(_, arrival)| now - arrival),
            ),
        }
    }
}

/// The VoIP metrics of a stream (RFC 3611 §4.7). `rtt` is 0 where it is unknown.
///
/// The end system delay is that of codec and playout buffer. Signal, noise and echo are not measured. A rating on the wideband scale
/// is not one of RFC 3611, which ends at 100: it is unavailable.
pub(super) fn voip_metrics(
    format: &VoiceFormat,
    VoiceReport { playout, quality }: &VoiceReport,
    bursts: &BurstMetrics,
    rtt: TimeDelta,
) -> VoipMetrics {
    let millis = |time: TimeDelta| u16::try_from(time.as_nanos().max(0) / 1_000_000).unwrap_or(u16::MAX);
    let tenths = |mos: f64| Some((mos * 10.0).round() as u8);
    // The rating of a listener, whom delay does not disturb.
    let listening =
        VoicePath::new(TimeDelta::ZERO, TimeDelta::ZERO, quality.effective_loss_ratio, quality.burst_ratio);
    let rated = (quality.scale == MosScale::Narrowband).then(|| quality.r_factor.round() as u8);
    let nominal = match PlayoutPolicy::default() {
        PlayoutPolicy::Fixed { delay } => millis(delay),
        _ => 0,
    };
    VoipMetrics {
        loss_rate: VoipMetrics::share(playout.lost, playout.expected),
        discard_rate: VoipMetrics::share(playout.late, playout.expected),
        burst_density: VoipMetrics::share(bursts.burst_missing, bursts.burst_packets),
        gap_density: VoipMetrics::share(bursts.gap_missing, bursts.gap_packets),
        burst_duration_ms: millis(mean_duration(bursts.burst_packets, bursts.bursts, format)),
        gap_duration_ms: millis(mean_duration(bursts.gap_packets, bursts.gaps, format)),
        round_trip_delay_ms: millis(rtt),
        end_system_delay_ms: millis(quality.codec_delay + quality.buffer_delay),
        gmin: BurstMetrics::GMIN,
        r_factor: rated,
        mos_lq_tenths: tenths(VoiceQuality::of(format, &listening).mos),
        mos_cq_tenths: tenths(quality.mos),
        // What the factors of the rating assume.
        loss_concealment: LossConcealment::Standard,
        jitter_buffer: JitterBufferKind::Fixed,
        nominal_delay_ms: nominal,
        // "In simple queue implementations this may correspond to the nominal size" (RFC 3611 §4.7.7).
        max_delay_ms: nominal,
        absolute_max_delay_ms: nominal,
        ..VoipMetrics::default()
    }
}

fn mean_duration(packets: u64, periods: u64, format: &VoiceFormat) -> TimeDelta {
    let nanos = u128::from(packets) * u128::from(format.packet_time().as_nanos().unsigned_abs());
    let mean = nanos.checked_div(periods.into()).unwrap_or(0);
    TimeDelta::from_nanos(i64::try_from(mean).unwrap_or(i64::MAX))
}
