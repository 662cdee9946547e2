//! Converts RTCP messages to feedback for a controller.

use alloc::vec::Vec;

use giusto_rtp::{
    NtpShort, NtpShortUnwrapper, NtpTimestamp,
    rtcp::{
        ArrivalOffset, CongestionFeedback, Packet, Packets as RtcpPackets, Remb, ReportBlock, ReportCount,
        RtcpError, ScreamFeedback, TransportFeedback, TransportFeedbackUnwrapper,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    numbers::Numbers,
    outgoing::{OutgoingPacket, RtpId},
    packets::{Packets, Reported},
    scream_draft::ScreamDraft,
    source::Source,
};
use crate::feedback::{Extension, Feedback, LossReport, PacketReport, SentPacket};
use crate::nada;

/// The longest time before a report that RFC 8888 §3.1 can express, rounded down.
const LONGEST_OFFSET: TimeDelta = TimeDelta::from_millis(7997);
/// Maximum number of RTP sources that are stored.
const MAX_SOURCES: usize = 256;

/// The packets that were sent, and the RTCP reports about them.
///
/// The history handles the difficult parts of feedback: 16-bit sequence numbers and report clocks that wrap,
/// messages that are late, repeated or damaged, packets that were first reported as lost but have arrived,
/// and messages about packets that were never sent. A message without new information has no effect.
///
/// Packets are stored until they have arrived, for 60 s at most, and at most 32 768 of them; of those that a report has passed over or
/// called lost, the last 256. Bytes are in flight until they or a later packet
/// are reported, or until they are discarded.
///
/// Calls in any order are safe. Time that runs backwards is taken as the latest time of an earlier call.
#[derive(Debug, Clone, Default)]
pub struct History {
    packets: Packets,
    transport: Numbers,
    sources: Vec<Source>,
    transport_clock: TransportFeedbackUnwrapper,
    report_clock: NtpShortUnwrapper,
    scream: ScreamDraft,
    report_count: ReportCount,
    /// Whether packets leave as Not-ECT, so that no router may mark them.
    is_not_ect: bool,
    ntp_at_zero: Option<NtpTimestamp>,
    /// Reports of the current message. Kept to reuse the allocation.
    reports: Vec<PacketReport>,
    first_sent: Option<Timestamp>,
    now: Timestamp,
}

/// Contents of a message besides its packet reports.
#[derive(Debug, Clone, Copy, Default)]
struct News {
    rtt: Option<TimeDelta>,
    receiver_estimate: Option<DataRate>,
    extension: Option<Extension>,
    lost: i64,
    expected: u64,
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the NTP time at [`Timestamp::ZERO`] in the sender reports of this sender, to which receiver reports refer when they
    /// give a round-trip time; zero for [`NtpTimestamp::from_timestamp`]. Default: unknown, so that they give none.
    #[must_use]
    pub fn with_ntp_at_zero(self, ntp: NtpTimestamp) -> Self {
        Self { ntp_at_zero: Some(ntp), ..self }
    }

    /// Sets how `num_reports` of RFC 8888 is read. Default: as the count of erratum 8166.
    #[must_use]
    pub fn with_report_count(self, count: ReportCount) -> Self {
        Self { report_count: count, ..self }
    }

    /// Sets the codepoint of the packets. Default: one that can be marked. Marks on packets that are sent as Not-ECT are ignored: a router
    /// drops such packets instead (RFC 3168 §5), so the mark is an error or forged.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { is_not_ect: !ecn.is_capable(), ..self }
    }

    /// Records a packet that is sent at `now`. Pass the result to
    /// [`Controller::on_sent`](crate::Controller::on_sent).
    pub fn on_sent(&mut self, now: Timestamp, packet: OutgoingPacket) -> SentPacket {
        let now = self.advance(now);
        self.first_sent.get_or_insert(now);
        let before = self.packets.oldest();
        let sent = self.packets.on_sent(now, &packet);
        if self.packets.oldest() != before {
            self.forget_numbers();
        }
        if let Some(sequence) = packet.transport_sequence {
            self.transport.push(sequence, sent.sequence);
        }
        if let Some(id) = packet.rtp {
            self.number(id, sent.sequence);
        }
        sent
    }

    /// Handles an RTCP datagram, which must be decrypted. Returns its new information, if any.
    ///
    /// Packets of unknown types are skipped. The messages of a compound packet are combined: one call gives one feedback.
    ///
    /// # Errors
    ///
    /// The datagram, or a packet in it, is not valid RTCP. None of it is used.
    pub fn on_rtcp(&mut self, now: Timestamp, datagram: &[u8]) -> Result<Option<Feedback<'_>>, RtcpError> {
        let packets = RtcpPackets::new(datagram)?.with_report_count(self.report_count);
        let packets = packets.collect::<Result<Vec<_>, _>>()?;
        Ok(self.on_packets(now, &packets))
    }

    /// Handles parsed RTCP packets. Returns their new information, if any.
    pub fn on_packets(&mut self, now: Timestamp, packets: &[Packet]) -> Option<Feedback<'_>> {
        let now = self.advance(now);
        self.reports.clear();
        let (mut news, first) = (News::default(), self.packets.first());
        for packet in packets {
            match packet {
                Packet::TransportFeedback(feedback) => self.on_transport_feedback(feedback),
                Packet::CongestionFeedback(feedback) => self.on_congestion_feedback(feedback),
                Packet::ScreamFeedback(feedback) => {
                    news.extension = self.on_scream_feedback(feedback).or(news.extension);
                }
                Packet::Remb(remb) if self.is_for_us(remb) => news.receiver_estimate = Some(remb.bitrate),
                Packet::NadaFeedback(feedback) => {
                    news.extension = Some(Extension::Nada(nada::Report::from_message(feedback)));
                }
                Packet::ReceiverReport(report) => self.on_blocks(now, &report.blocks, &mut news),
                Packet::SenderReport(report) => self.on_blocks(now, &report.blocks, &mut news),
                _ => {}
            }
        }
        if self.packets.first() != first {
            self.forget_numbers();
        }
        if self.is_not_ect {
            self.reports.iter_mut().for_each(|report| report.ecn = Ecn::NotEct);
        }
        self.feedback(&news)
    }

    /// Handles reports in a format of the caller's own: the [sequence](SentPacket::sequence) of each packet, when it arrived on the
    /// receiver's clock or `None` if it did not, and its ECN codepoint. Returns what is new in them, if anything is.
    pub fn on_reports(
        &mut self,
        now: Timestamp,
        reports: &[(u64, Option<PeerTimestamp>, Ecn)],
    ) -> Option<Feedback<'_>> {
        self.advance(now);
        self.reports.clear();
        let first = self.packets.first();
        for &(sequence, arrival, ecn) in reports {
            let ecn = if self.is_not_ect { Ecn::NotEct } else { ecn };
            self.reports.extend(self.packets.on_report(sequence, arrival, ecn));
        }
        if self.packets.first() != first {
            self.forget_numbers();
        }
        self.feedback(&News::default())
    }

    /// Handles a change of the route: packets sent before are discarded, and reports of them are ignored.
    ///
    /// Call [`Controller::on_route_change`](crate::Controller::on_route_change) too.
    pub fn on_route_change(&mut self) {
        self.packets.clear();
        self.transport.clear();
        self.sources.iter_mut().for_each(Source::clear);
    }

    /// Discards old packets. Returns whether there were any, so that [`in_flight`](Self::in_flight) may have
    /// changed.
    ///
    /// [`on_sent`](Self::on_sent) also does so: a sender that sends continuously need not call this.
    pub fn on_timeout(&mut self, now: Timestamp) -> bool {
        let now = self.advance(now);
        let forgot = self.packets.forget(now);
        if forgot {
            self.forget_numbers();
        }
        forgot
    }

    /// When [`on_timeout`](Self::on_timeout) has packets to discard.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        self.packets.forgets_at()
    }

    /// Bytes of packets that are not reported, and after which no packet is reported.
    pub fn in_flight(&self) -> DataSize {
        self.packets.in_flight()
    }

    /// What feedback has reported so far.
    pub fn reported(&self) -> Reported {
        self.packets.reported()
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    fn forget_numbers(&mut self) {
        self.transport.forget(&self.packets);
        self.sources.iter_mut().for_each(|source| source.numbers.forget(&self.packets));
    }

    /// Records the RTP sequence number of packet `number`.
    fn number(&mut self, id: RtpId, number: u64) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.ssrc == id.ssrc) {
            source.numbers.push(id.sequence, number);
            return;
        }
        if self.sources.len() >= MAX_SOURCES {
            self.sources.remove(0);
        }
        self.sources.push(Source::new(id.ssrc, id.sequence, number));
    }

    fn source(&self, ssrc: u32) -> Option<&Source> {
        self.sources.iter().find(|source| source.ssrc == ssrc)
    }

    fn is_for_us(&self, remb: &Remb) -> bool {
        self.sources.is_empty() || remb.sources.iter().any(|&ssrc| self.source(ssrc).is_some())
    }

    fn on_transport_feedback(&mut self, feedback: &TransportFeedback) {
        // Some receivers do not set the media source.
        let ssrc = feedback.media_ssrc;
        if ssrc != 0 && !self.sources.is_empty() && self.source(ssrc).is_none() {
            return;
        }
        // Work on a copy, so that a message without new reports changes nothing. If its time is before zero,
        // the clock restarts with it.
        let mut clock = self.transport_clock;
        if clock.times(feedback).is_none() {
            clock = TransportFeedbackUnwrapper::new();
        }
        let Some(arrivals) = clock.times(feedback) else { return };
        let before = self.reports.len();
        let base = self.transport.unwrap(feedback.base_sequence);
        for (unwrapped, arrival) in (base..).zip(arrivals) {
            if let Some(number) = self.transport.packet(unwrapped) {
                self.reports.extend(self.packets.on_report(number, arrival, Ecn::NotEct));
            }
        }
        if self.reports.len() > before {
            self.transport_clock = clock;
        }
    }

    fn on_congestion_feedback(&mut self, feedback: &CongestionFeedback) {
        let mut clock = self.report_clock;
        let time = clock.unwrap(feedback.time).or_else(|| {
            clock = NtpShortUnwrapper::new();
            clock.unwrap(feedback.time)
        });
        let Some(time) = time else { return };
        let before = self.reports.len();
        for stream in &feedback.streams {
            let Some(source) = self.sources.iter().find(|source| source.ssrc == stream.ssrc) else {
                continue;
            };
            for (sequence, reception) in stream.iter() {
                let Some(number) = source.numbers.packet(source.numbers.unwrap(sequence)) else { continue };
                let Some(reception) = reception else {
                    self.reports.extend(self.packets.on_report(number, None, Ecn::NotEct));
                    continue;
                };
                // If the arrival was longer ago than the field can express, the maximum of the field is used. If its time is not
                // available, or after that of the report, it is that of the report.
                let longest = ArrivalOffset::from_delta(LONGEST_OFFSET);
                let arrival = match reception.offset {
                    ArrivalOffset::OVER_RANGE => longest.arrival(time),
                    offset => offset.arrival(time).or(Some(time)),
                };
                self.reports.extend(self.packets.on_report(number, arrival, reception.ecn));
            }
        }
        if self.reports.len() > before {
            self.report_clock = clock;
        }
    }

    /// Returns whether the receiver requests a lower rate.
    fn on_scream_feedback(&mut self, message: &ScreamFeedback) -> Option<Extension> {
        let source = self.sources.iter().find(|source| source.ssrc == message.media_ssrc)?;
        let (packets, reports) = (&mut self.packets, &mut self.reports);
        let asks = self.scream.on_message(message, &source.numbers, packets, reports)?;
        asks.then_some(Extension::SourceQuench)
    }

    /// Adds the losses of all sources, and takes the maximum RTT.
    fn on_blocks(&mut self, now: Timestamp, blocks: &[ReportBlock], news: &mut News) {
        let ntp: Option<NtpShort> = self.ntp_at_zero.map(|zero| {
            let bits = NtpTimestamp::from_timestamp(now).to_bits().wrapping_add(zero.to_bits());
            NtpTimestamp::from_bits(bits).short()
        });
        // An RTT cannot be longer than the time since the first packet.
        let longest = self.first_sent.map_or(TimeDelta::ZERO, |first| now.saturating_since(first));
        for block in blocks {
            let Some(source) = self.sources.iter_mut().find(|source| source.ssrc == block.ssrc) else {
                continue;
            };
            if let Some(block) = source.on_block(ntp, block) {
                news.lost += block.lost;
                news.expected += block.expected;
                news.rtt = news.rtt.max(block.rtt.filter(|&time| time <= longest));
            }
        }
    }

    fn feedback(&mut self, news: &News) -> Option<Feedback<'_>> {
        self.reports.sort_by_key(|report| report.sent.sequence);
        // A packet that is reported as lost first and then, in the same datagram, as received.
        self.reports.dedup_by(|later, earlier| {
            let same = later.sent.sequence == earlier.sent.sequence;
            if same {
                *earlier = *later;
            }
            same
        });
        let loss = (news.expected > 0).then(|| LossReport {
            ratio: (news.lost as f64 / news.expected as f64).clamp(0.0, 1.0),
            expected_packets: news.expected,
        });
        let is_new = !self.reports.is_empty()
            || loss.is_some()
            || news.rtt.is_some()
            || news.receiver_estimate.is_some()
            || news.extension.is_some();
        is_new.then_some(Feedback {
            packets: &self.reports,
            rtt: news.rtt,
            receiver_estimate: news.receiver_estimate,
            loss,
            extension: news.extension,
            in_flight: self.packets.in_flight(),
        })
    }
}
