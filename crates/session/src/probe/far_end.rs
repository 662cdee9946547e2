//! What a receiver of RTP reports to the sender of a stream: reception reports and VoIP metrics.

use giusto_measure::ErrorHistogram;
use giusto_rtp::{
    NtpTimestamp,
    rtcp::{Packet, Packets, ReportBlock, VoipMetrics},
};
use giusto_units::{TimeDelta, Timestamp};

use crate::Session;

/// What the far end has reported of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FarEndReport {
    /// The source of the latest report.
    pub source: u32,
    /// Reports of this stream so far.
    pub reports: u64,
    /// Packets lost since the report before, divided by those expected, 0 to 1 (RFC 3550 §6.4.1).
    pub fraction_lost: f64,
    /// Packets expected minus packets received, duplicates included: negative if there are more duplicates than losses (RFC 3550
    /// §6.4.1).
    pub lost_packets: i32,
    /// The highest sequence number received, with its cycles (RFC 3550 §6.4.1).
    pub highest_sequence: u32,
    /// Inter-arrival jitter (RFC 3550 §6.4.1).
    pub jitter: TimeDelta,
    /// The latest VoIP metrics (RFC 3611 §4.7), if any came.
    pub voice: Option<VoipMetrics>,
}

/// Reads the RTCP that comes back to the sender of one stream, without socket or clock.
#[derive(Debug, Clone)]
pub struct FarEndReports {
    ssrc: u32,
    clock_rate_hz: u32,
    origin_unix_ns: u64,
    latest: Option<FarEndReport>,
    rtts: ErrorHistogram,
}

impl Session for FarEndReports {
    /// What is not RTCP about this stream is ignored.
    fn handle_datagram(&mut self, _: Timestamp, datagram: &[u8], at: Timestamp) {
        let Ok(packets) = Packets::new(datagram) else { return };
        for packet in packets.flatten() {
            match packet {
                Packet::ReceiverReport(report) => self.on_blocks(at, report.ssrc, &report.blocks),
                // A far end that sends media, too.
                Packet::SenderReport(report) => self.on_blocks(at, report.ssrc, &report.blocks),
                Packet::ExtendedReport(report) => {
                    for metrics in report.voip_metrics.into_iter().filter(|block| block.ssrc == self.ssrc) {
                        if let Some(latest) = &mut self.latest {
                            latest.voice = Some(metrics);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

impl FarEndReports {
    /// For the stream of source `ssrc`, whose timestamp counts `clock_rate_hz` units a second. The sender's clock reads zero at
    /// `origin_unix_ns`, in nanoseconds since 1 January 1970, as in its sender reports.
    pub fn new(ssrc: u32, clock_rate_hz: u32, origin_unix_ns: u64) -> Self {
        Self { ssrc, clock_rate_hz, origin_unix_ns, latest: None, rtts: ErrorHistogram::new() }
    }

    /// What has been reported; `None` before the first report.
    pub fn latest(&self) -> Option<&FarEndReport> {
        self.latest.as_ref()
    }

    /// The round-trip times from sender report to reception report, without the time in between at the far end (RFC 3550 §6.4.1).
    pub fn rtts(&self) -> &ErrorHistogram {
        &self.rtts
    }

    fn on_blocks(&mut self, at: Timestamp, source: u32, blocks: &[ReportBlock]) {
        /// A round trip of nearly zero may come out negative: times have 15 µs (RFC 3550 §4).
        const RESOLUTION: TimeDelta = TimeDelta::from_micros(31);
        let Some(block) = blocks.iter().find(|block| block.ssrc == self.ssrc) else { return };
        let before = self.latest;
        let units = i64::from(block.jitter) * 1_000_000_000;
        self.latest = Some(FarEndReport {
            source,
            reports: before.map_or(0, |report| report.reports) + 1,
            fraction_lost: f64::from(block.fraction_lost) / 256.0,
            lost_packets: block.cumulative_lost,
            highest_sequence: block.highest_sequence,
            jitter: TimeDelta::from_nanos(units / i64::from(self.clock_rate_hz.max(1))),
            voice: before.and_then(|report| report.voice),
        });
        let now = NtpTimestamp::from_unix_nanos(self.origin_unix_ns.saturating_add(at.as_nanos()));
        let rtt = block.rtt(now.short());
        // Nothing can have been on the way for longer than this end has existed.
        let possible = rtt.filter(|time| *time >= -RESOLUTION && *time <= at - Timestamp::ZERO);
        if let Some(rtt) = possible {
            self.rtts.record(rtt.max(TimeDelta::ZERO));
        }
    }
}
