//! The end that sends media and adapts it to what is reported.

use std::collections::VecDeque;

use super::{
    Datagram, MediaEvent, MediaStream,
    acknowledged::Acknowledged,
    history::History,
    queue::{SendQueue, Waiting},
    share::Shares,
    stream::{RtpStream, Says},
};
use crate::{
    control::{Controller, Decision, Feedback, FeedbackKind, LossReport, PacketReport, QueueState, Target},
    ecn::Ecn,
    rtp::{
        NtpShort, NtpShortUnwrapper,
        rtcp::{
            ArrivalOffset, Bye, CongestionFeedback, Description, Packet, Remb, ReportBlock, ScreamFeedback,
            SourceDescription, TransportFeedback, TransportFeedbackUnwrapper,
        },
    },
    session::{Pacer, PacerConfig, Permit},
    units::{DataRate, DataSize, TimeDelta, Timestamp},
};

/// How a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSenderConfig {
    /// Its name (RFC 3550 §6.5.1).
    pub cname: String,
    /// What the far end reports to it, which says which header extension its packets carry.
    pub feedback: FeedbackKind,
    /// How its packets are paced.
    pub pacer: PacerConfig,
    /// Header bytes below RTP that count towards the rates. Default 28, UDP over IPv4.
    pub overhead: DataSize,
    /// The ECN codepoint of its packets. Default Not-ECT.
    pub ecn: Ecn,
    /// The source and the payload type of padding, which fills probes. Default: [`PADDING_SSRC`], [`PADDING_TYPE`].
    pub padding: (u32, u8),
    /// What waits leaves faster than the target if it would wait longer than this on average. Default 2 s, as in libwebrtc
    /// (`pacing_controller.cc`, `kMaxExpectedQueueLength`); `None`: it waits.
    pub queue_limit: Option<TimeDelta>,
    /// What has waited for longer than this is thrown away, and its source told so. Default 10 s, ours: only a window that does not
    /// open, or nobody who sends, can make anything wait for so long.
    pub discard_after: TimeDelta,
    /// How often it sends sender reports; at least 10 ms. Default 1 s, as libwebrtc does for video.
    pub report_interval: TimeDelta,
}

impl Default for MediaSenderConfig {
    fn default() -> Self {
        Self {
            cname: "giusto".to_owned(),
            feedback: FeedbackKind::TransportWide,
            pacer: PacerConfig::libwebrtc(),
            overhead: DataSize::from_bytes(28),
            ecn: Ecn::NotEct,
            padding: (PADDING_SSRC, PADDING_TYPE),
            queue_limit: Some(TimeDelta::from_seconds(2)),
            discard_after: TimeDelta::from_seconds(10),
            report_interval: TimeDelta::from_seconds(1),
        }
    }
}

/// The source of padding, where none is given.
pub const PADDING_SSRC: u32 = 0x7061_6464;
/// The payload type of padding, where none is given: dynamic (RFC 3551 §6).
pub const PADDING_TYPE: u8 = 97;
/// The largest payload of padding: that of a full packet, as libwebrtc has it where padding repeats media.
const PADDING_MOST: DataSize = DataSize::from_bytes(1200);
/// The smallest, so that little room is not filled with headers.
const PADDING_LEAST: DataSize = DataSize::from_bytes(50);
/// What was sent delays padding for no longer than this: libwebrtc's budget for it holds as much (`interval_budget.cc`, 500 ms).
const PADDING_DEBT: TimeDelta = TimeDelta::from_millis(500);
/// Reports do not follow each other faster, whatever is configured.
const LEAST_REPORT_INTERVAL: TimeDelta = TimeDelta::from_millis(10);
/// The most sources of a report, a description or a goodbye (RFC 3550 §6.4.1, §6.5, §6.6: five bits).
const MOST_SOURCES: usize = 31;
/// The longest name (RFC 3550 §6.5).
const MOST_NAME_BYTES: usize = 255;
/// Reports that nobody takes: the oldest gives way.
const MOST_REPORTS: usize = 4;
/// Events that nobody takes are forgotten beyond so many, the oldest first.
const EVENTS: usize = 4096;
/// The longest time before a report that RFC 8888 §3.1 can tell, rounded down.
const LONGEST_OFFSET: TimeDelta = TimeDelta::from_millis(7997);

/// Sends media: frames become packets, packets wait for the pacer, the pacer obeys the controller, and what is reported of them
/// goes to the controller.
///
/// It begins with its first [`handle_timeout`](Self::handle_timeout). See [`MediaEndpoint`](super::MediaEndpoint) for the order of
/// calls.
#[derive(Debug)]
pub struct MediaSender {
    config: MediaSenderConfig,
    controller: Box<dyn Controller>,
    streams: Vec<(MediaStream, RtpStream)>,
    padding: RtpStream,
    shares: Shares,
    queue: SendQueue,
    /// What need not wait.
    unpaced: VecDeque<Waiting>,
    pacer: Pacer,
    target: Target,
    pacing: DataRate,
    decision: Decision,
    history: History,
    unwrapper: TransportFeedbackUnwrapper,
    report_clock: NtpShortUnwrapper,
    acknowledged: Acknowledged,
    /// Of a feedback message, kept for its memory.
    reports: Vec<PacketReport>,
    /// When padding may follow what was sent, with [`Target::padding`].
    padding_at: Timestamp,
    report_at: Option<Timestamp>,
    rtcp: VecDeque<Datagram>,
    events: VecDeque<MediaEvent>,
    now: Timestamp,
    begun: bool,
    begun_at: Timestamp,
    stopped: bool,
}

impl MediaSender {
    /// Begins with its first call.
    pub fn new(
        mut config: MediaSenderConfig,
        controller: Box<dyn Controller>,
        streams: Vec<MediaStream>,
    ) -> Self {
        config.report_interval = config.report_interval.max(LEAST_REPORT_INTERVAL);
        let end = (0..=MOST_NAME_BYTES).rev().find(|&end| config.cname.is_char_boundary(end));
        config.cname.truncate(end.unwrap_or(0));
        let target = controller.target();
        let mut pacer = Pacer::new(config.pacer, target.pacing);
        pacer.on_target(Timestamp::ZERO, &target);
        let decision = *controller.decision();
        let shares = Shares::new(&streams);
        let with_rtp = |stream: MediaStream| {
            let rtp = RtpStream::new(stream.ssrc, stream.payload_type, stream.first);
            (stream, rtp)
        };
        Self {
            padding: RtpStream::new(config.padding.0, config.padding.1, (0, 0)),
            controller,
            streams: streams.into_iter().map(with_rtp).collect(),
            shares,
            queue: SendQueue::default(),
            unpaced: VecDeque::new(),
            pacer,
            target,
            pacing: target.pacing,
            decision,
            history: History::default(),
            unwrapper: TransportFeedbackUnwrapper::new(),
            report_clock: NtpShortUnwrapper::new(),
            acknowledged: Acknowledged::default(),
            reports: Vec::new(),
            padding_at: Timestamp::ZERO,
            report_at: None,
            rtcp: VecDeque::new(),
            events: VecDeque::new(),
            now: Timestamp::ZERO,
            begun: false,
            begun_at: Timestamp::ZERO,
            stopped: false,
            config,
        }
    }

    /// How much it may send.
    pub fn target(&self) -> Target {
        self.target
    }

    /// What waits to be sent.
    pub fn queue(&self, now: Timestamp) -> QueueState {
        self.queue.state(now.max(self.now))
    }

    /// What was sent and neither reported on nor followed by anything that was.
    pub fn in_flight(&self) -> DataSize {
        self.history.in_flight()
    }

    /// The streams, in the order in which they were given.
    pub fn streams(&self) -> impl Iterator<Item = &MediaStream> {
        self.streams.iter().map(|(stream, _)| stream)
    }

    /// Stops or continues the frames of a stream (RFC 8867 §5.8).
    pub fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        let now = self.advance(now);
        if let Some((stream, _)) = self.streams.get_mut(stream) {
            stream.source.set_paused(now, paused);
        }
        self.shares.set_paused(stream, paused);
        self.share(now);
    }

    /// An RTCP packet came.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.advance(now);
        if self.stopped {
            return;
        }
        match packet {
            Packet::TransportFeedback(feedback) => self.on_transport_feedback(now, feedback),
            Packet::CongestionFeedback(feedback) => self.on_congestion_feedback(now, feedback),
            Packet::ScreamFeedback(feedback) => self.on_scream_feedback(now, feedback),
            Packet::Remb(remb) => self.on_remb(now, remb),
            Packet::ReceiverReport(report) => self.on_blocks(now, &report.blocks),
            Packet::SenderReport(report) => self.on_blocks(now, &report.blocks),
            _ => {}
        }
    }

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.stopped {
            return;
        }
        if !self.begun {
            self.begun = true;
            self.begun_at = now;
            self.controller.on_timeout(now, &self.queue.state(now));
            self.decision = *self.controller.decision();
            self.tell(MediaEvent::Decided(Decision { at: now, ..self.decision }));
            self.settle(now);
            self.share(now);
        }
        self.take_frames(now);
        self.discard(now);
        if self.history.forget(now) {
            self.forget_numbers();
            self.pacer.on_in_flight(self.history.in_flight());
        }
        if self.report_at.is_some_and(|due| due <= now) {
            self.report_at = Some(now + self.config.report_interval);
            self.report(now);
            // What share of the packets is headers changes with their size.
            self.share(now);
        }
        self.settle(now);
    }

    /// Ends the session: nothing more is sent but a BYE (RFC 3550 §6.6).
    pub fn stop(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.stopped {
            return;
        }
        self.report(now);
        self.stopped = true;
        self.queue.clear();
        self.unpaced.clear();
        let padding = self.padding.has_sent().then_some(self.padding.ssrc);
        let sent = self.streams.iter().filter(|(_, rtp)| rtp.has_sent()).map(|(_, rtp)| rtp.ssrc);
        let sources: Vec<u32> = sent.chain(padding).collect();
        for sources in sources.chunks(MOST_SOURCES) {
            // A compound begins with a report (RFC 3550 §6.1).
            let mut head = self.rtcp.pop_back().map_or_else(Vec::new, |last| last.head);
            let bye = Bye { sources: sources.to_vec(), reason: None };
            if bye.write(&mut head).is_ok() {
                self.rtcp.push_back(Datagram { head, rest: DataSize::ZERO, ecn: Ecn::NotEct });
            }
        }
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let now = self.advance(now);
        if let Some(report) = self.rtcp.pop_front() {
            return Some(report);
        }
        if self.stopped || !self.begun {
            return None;
        }
        let (datagram, first) = self.next_media(now)?;
        // The first packet of a stream is followed by a report, so that its times mean something from the beginning.
        if first {
            self.report_at = Some(now + self.config.report_interval);
            self.report(now);
        }
        self.settle(now);
        Some(datagram)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.stopped {
            return None;
        }
        if !self.begun {
            return Some(self.now);
        }
        let frames = self.streams.iter().filter_map(|(stream, _)| stream.source.next_frame_at()).min();
        let packet = self.wanted().and_then(|(earliest, size)| match self.pacer.next_send(self.now, size) {
            Permit::Now => Some(earliest),
            Permit::At(at) => Some(at.max(earliest)),
            Permit::Blocked => None,
        });
        // A window that nothing comes back for opens when what was sent is forgotten.
        let forgotten = self.target.window.and(self.history.forgets_at());
        [frames, packet, forgotten, self.controller.next_timeout(), self.report_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// What there is to tell.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    fn take_frames(&mut self, now: Timestamp) {
        let headers =
            DataSize::from_bytes(RtpStream::head_bytes(self.config.feedback)) + self.config.overhead;
        for (index, (stream, rtp)) in self.streams.iter_mut().enumerate() {
            while let Some(frame) = stream.source.poll_frame(now) {
                rtp.on_frame(&frame);
                for packet in stream.packetizer.packets(&frame) {
                    let size = packet.size + headers;
                    self.shares.on_packet(index, packet.size, size);
                    let waiting = Waiting { stream: index, packet, since: now, size };
                    if stream.paced {
                        self.queue.push(waiting);
                    } else {
                        self.unpaced.push_back(waiting);
                    }
                }
            }
        }
    }

    /// The next packet of media or padding, if one may leave, and whether it is the first of its stream.
    fn next_media(&mut self, now: Timestamp) -> Option<(Datagram, bool)> {
        if let Some(waiting) = self.unpaced.pop_front() {
            self.pacer.on_sent_unpaced(now, waiting.size);
            return Some(self.send_media(now, &waiting, None));
        }
        let (earliest, size) = self.wanted()?;
        if earliest > now || self.pacer.next_send(now, size) != Permit::Now {
            return None;
        }
        let probe = self.pacer.on_sent(now, size);
        Some(match self.queue.pop() {
            Some(waiting) => self.send_media(now, &waiting, probe),
            None => (self.send_padding(now, size, probe), false),
        })
    }

    /// The size of the next packet that has to ask the pacer, and when it may do so: what waits, or else padding for a probe, or
    /// padding for its own sake.
    fn wanted(&self) -> Option<(Timestamp, DataSize)> {
        if let Some(waiting) = self.queue.front() {
            return Some((self.now, waiting.size));
        }
        match self.pacer.probe(self.now) {
            Some(need) => Some((self.now, self.padding_size(need.left))),
            None if self.target.padding > DataRate::ZERO => {
                Some((self.padding_at.max(self.now), self.padding_size(PADDING_MOST)))
            }
            None => None,
        }
    }

    /// How large padding is, with all headers, where so much is wanted.
    fn padding_size(&self, wanted: DataSize) -> DataSize {
        let headers =
            DataSize::from_bytes(RtpStream::head_bytes(self.config.feedback)) + self.config.overhead;
        wanted.saturating_sub(headers).clamp(PADDING_LEAST, PADDING_MOST) + headers
    }

    fn send_media(&mut self, now: Timestamp, waiting: &Waiting, probe: Option<u32>) -> (Datagram, bool) {
        let sequence = self.on_sent(now, waiting.size, probe);
        let says = Says {
            marker: waiting.packet.last,
            media_timestamp: waiting.packet.frame.media_timestamp,
            transport_sequence: sequence,
            payload: waiting.packet.size,
        };
        let feedback = self.config.feedback;
        let written = self.streams.get_mut(waiting.stream).map(|(stream, rtp)| {
            let (first, marker) = (!rtp.has_sent(), says.marker && stream.paced);
            (rtp.write(now, feedback, Says { marker, ..says }), first)
        });
        let (head, first) = written.unwrap_or_default();
        (Datagram { head, rest: waiting.packet.size, ecn: self.config.ecn }, first)
    }

    fn send_padding(&mut self, now: Timestamp, size: DataSize, probe: Option<u32>) -> Datagram {
        let transport_sequence = self.on_sent(now, size, probe);
        let headers =
            DataSize::from_bytes(RtpStream::head_bytes(self.config.feedback)) + self.config.overhead;
        let payload = size.saturating_sub(headers);
        let says = Says { marker: false, media_timestamp: 0, transport_sequence, payload };
        let head = self.padding.write(now, self.config.feedback, says);
        Datagram { head, rest: payload, ecn: self.config.ecn }
    }

    /// A packet of `size` leaves: gives its number on the transport.
    fn on_sent(&mut self, now: Timestamp, size: DataSize, probe: Option<u32>) -> u64 {
        let before = self.history.first();
        let sent = self.history.on_sent(now, size, probe);
        if self.history.first() != before {
            self.forget_numbers();
        }
        if let Some(time) = self.target.padding.time_for(size) {
            self.padding_at = (self.padding_at.max(now) + time).min(now + PADDING_DEBT);
        }
        self.controller.on_sent(now, &sent);
        sent.sequence
    }

    fn forget_numbers(&mut self) {
        for (_, rtp) in &mut self.streams {
            rtp.forget_before(self.history.first());
        }
        self.padding.forget_before(self.history.first());
    }

    /// Throws away what has waited for too long.
    fn discard(&mut self, now: Timestamp) {
        let latest = self.config.discard_after;
        let too_long = |waiting: &&Waiting| now.saturating_since(waiting.since) > latest;
        while self.unpaced.front().as_ref().is_some_and(too_long) {
            self.unpaced.pop_front();
        }
        while let Some(stream) = self.queue.front().filter(too_long).map(|waiting| waiting.stream) {
            self.queue.pop();
            if let Some((stream, _)) = self.streams.get_mut(stream) {
                stream.source.on_discarded(now);
            }
        }
    }

    fn is_ours(&self, ssrc: u32) -> bool {
        ssrc == self.padding.ssrc || self.streams.iter().any(|(stream, _)| stream.ssrc == ssrc)
    }

    fn on_transport_feedback(&mut self, now: Timestamp, feedback: &TransportFeedback) {
        if !self.is_ours(feedback.media_ssrc) {
            return;
        }
        // Its sequence number is not used; where that is what cannot be placed, the times are.
        if self.unwrapper.unwrap(feedback).is_none() {
            self.unwrapper = TransportFeedbackUnwrapper::new();
        }
        let Some(packets) = self.unwrapper.unwrap(feedback) else { return };
        // Counted back from what was sent last, so that nothing that is fed back can lead astray.
        let Some(latest) = self.history.next().checked_sub(1) else { return };
        let behind = u64::from((latest as u16).wrapping_sub(feedback.base_sequence));
        let Some(base) = latest.checked_sub(behind) else { return };
        self.reports.clear();
        for (sequence, (_, arrival)) in (base..).zip(packets) {
            self.reports.extend(self.history.on_report(sequence, arrival, Ecn::NotEct));
        }
        self.on_reports(now);
    }

    fn on_congestion_feedback(&mut self, now: Timestamp, feedback: &CongestionFeedback) {
        if !feedback.streams.iter().any(|told| self.is_ours(told.ssrc)) {
            return;
        }
        // Tried on a copy: what says nothing new leaves no trace.
        let mut clock = self.report_clock;
        let Some(time) = clock.unwrap(feedback.time) else { return };
        self.reports.clear();
        for told in &feedback.streams {
            let ours = self.streams.iter().map(|(_, rtp)| rtp).chain([&self.padding]);
            let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == told.ssrc) else { continue };
            for (sequence, reception) in told.iter() {
                let Some(number) = rtp.transport_sequence(sequence) else { continue };
                let Some(reception) = reception else {
                    self.reports.extend(self.history.on_report(number, None, Ecn::NotEct));
                    continue;
                };
                // It arrived too long ago to be told: as long ago as can be told. When is not known: nothing is learned.
                let longest = ArrivalOffset::from_delta(LONGEST_OFFSET);
                let arrival = match reception.offset {
                    ArrivalOffset::OVER_RANGE => longest.arrival(time),
                    offset => offset.arrival(time),
                };
                if arrival.is_some() {
                    self.reports.extend(self.history.on_report(number, arrival, reception.ecn));
                }
            }
        }
        if !self.reports.is_empty() {
            self.report_clock = clock;
        }
        self.on_reports(now);
    }

    fn on_scream_feedback(&mut self, now: Timestamp, message: &ScreamFeedback) {
        let ours = self.streams.iter().map(|(_, rtp)| rtp).chain([&self.padding]);
        let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == message.media_ssrc) else { return };
        self.reports.clear();
        let quench = self.acknowledged.on_message(message, rtp, &mut self.history, &mut self.reports);
        if self.reports.is_empty() && quench != Some(true) {
            return;
        }
        self.reports.sort_unstable_by_key(|report| report.sent.sequence);
        let in_flight = self.history.in_flight();
        self.pacer.on_in_flight(in_flight);
        let quench = quench.unwrap_or(false);
        let feedback = Feedback { packets: &self.reports, quench, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    /// The controller hears what is new in the reports that were gathered.
    fn on_reports(&mut self, now: Timestamp) {
        if self.reports.is_empty() {
            return;
        }
        self.reports.sort_unstable_by_key(|report| report.sent.sequence);
        let in_flight = self.history.in_flight();
        self.pacer.on_in_flight(in_flight);
        let feedback = Feedback { packets: &self.reports, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    fn on_remb(&mut self, now: Timestamp, remb: &Remb) {
        if !remb.sources.iter().any(|&ssrc| self.is_ours(ssrc)) {
            return;
        }
        let in_flight = self.history.in_flight();
        let feedback = Feedback { receiver_estimate: Some(remb.bitrate), in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    /// What a report says of all our streams together.
    fn on_blocks(&mut self, now: Timestamp, blocks: &[ReportBlock]) {
        let (mut lost, mut expected, mut round_trip) = (0_i64, 0_u64, None);
        for block in blocks {
            let ours = self.streams.iter_mut().map(|(_, rtp)| rtp).chain([&mut self.padding]);
            let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == block.ssrc && rtp.has_sent()) else {
                continue;
            };
            if let Some(told) = rtp.on_block(NtpShort::from_timestamp(now), block) {
                lost += told.lost;
                expected += told.expected;
                // Nothing can have been on its way for longer than anything was.
                round_trip = round_trip.max(told.round_trip.filter(|&time| time <= now - self.begun_at));
            }
        }
        let loss = (expected > 0).then(|| LossReport {
            ratio: (lost as f64 / expected as f64).clamp(0.0, 1.0),
            expected_packets: expected,
        });
        if loss.is_none() && round_trip.is_none() {
            return;
        }
        let in_flight = self.history.in_flight();
        let feedback = Feedback { round_trip, loss, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    /// Does what the controller says.
    fn settle(&mut self, now: Timestamp) {
        // What it has just heard may have made something due.
        if self.controller.next_timeout().is_some_and(|due| due <= now) {
            self.controller.on_timeout(now, &self.queue.state(now));
        }
        while let Some(probe) = self.controller.next_probe() {
            self.pacer.on_probe(now, probe);
        }
        let target = self.controller.target();
        let drain =
            self.config.queue_limit.map_or(DataRate::ZERO, |limit| self.queue.rate_within(now, limit));
        let pacing = target.pacing.max(drain);
        if pacing != self.pacing || target.window != self.target.window {
            self.pacing = pacing;
            self.pacer.on_target(now, &Target { pacing, ..target });
        }
        if target.padding != self.target.padding {
            self.padding_at = now;
        }
        let changed = target.media != self.target.media;
        self.target = target;
        if changed {
            self.share(now);
        }
        let decision = *self.controller.decision();
        if decision != self.decision {
            self.decision = decision;
            self.tell(MediaEvent::Decided(decision));
        }
    }

    fn tell(&mut self, event: MediaEvent) {
        if self.events.len() >= EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Each stream gets its share of the target.
    fn share(&mut self, now: Timestamp) {
        self.shares.divide(self.target.media);
        for ((stream, _), rate) in self.streams.iter_mut().zip(self.shares.rates()) {
            if stream.source.target() != rate {
                stream.source.set_target(now, rate);
            }
        }
    }

    /// Sender reports and descriptions of the streams that have sent something.
    fn report(&mut self, now: Timestamp) {
        for streams in self.streams.chunks(MOST_SOURCES) {
            let mut head = Vec::new();
            let mut chunks = Vec::new();
            for (stream, rtp) in streams {
                let Some(report) = rtp.report(now, stream.clock_rate) else { continue };
                if report.write(&mut head).is_ok() {
                    chunks.push(Description { ssrc: stream.ssrc, cname: Some(self.config.cname.clone()) });
                }
            }
            if !chunks.is_empty() && (SourceDescription { chunks }).write(&mut head).is_ok() {
                if self.rtcp.len() >= MOST_REPORTS {
                    self.rtcp.pop_front();
                }
                self.rtcp.push_back(Datagram { head, rest: DataSize::ZERO, ecn: Ecn::NotEct });
            }
        }
    }
}
