//! The sending half: sends media and adapts its rate to feedback.

use std::collections::VecDeque;

use giusto_congestion::{
    Controller, Decision, History, Limits, OutgoingPacket, Probe, QueueState, Reported, RtpId, Target,
};
use giusto_pace::media::{self, Pacer, Permit};
use giusto_rtp::{
    NtpDelay, NtpShort, NtpTimestamp,
    rtcp::{Bye, DelaySinceLast, Description, ExtendedReport, SourceDescription},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    config::MediaSenderConfig,
    datagram::Datagram,
    event::{Events, MediaEvent},
    frame::{Frame, FrameError},
    payload::Payload,
    queue::QueuedPacket,
    repair::Wanted,
    stream::{MediaStream, PacketFields, RtpStream},
    streams::{StreamFigures, Streams},
};

/// Minimum padding payload, so that a small gap is not filled with headers.
const MIN_PADDING: DataSize = DataSize::from_bytes(50);
/// Maximum delay of padding because of sent packets: the padding budget of libwebrtc (`interval_budget.cc`,
/// 500 ms).
const PADDING_DEBT: TimeDelta = TimeDelta::from_millis(500);
/// The minimum report interval. Chosen by us.
const MIN_REPORT_INTERVAL: TimeDelta = TimeDelta::from_millis(10);
/// Maximum number of sources in a report, a description or a goodbye (RFC 3550 §6.4.1, §6.5, §6.6: five
/// bits).
const MAX_SOURCES: usize = 31;
/// Maximum length of the CNAME (RFC 3550 §6.5).
const MAX_NAME_BYTES: usize = 255;
/// Maximum delay of a call for which the pacer makes up. Chosen by us: a thread of a busy machine rarely waits longer, and what
/// this time allows is still a small burst. libwebrtc (`pacing_controller.cc`, `kMaxElapsedTime`): 2 s.
const CATCH_UP: TimeDelta = TimeDelta::from_millis(200);
/// Maximum number of probes that are taken from the controller at once. Chosen by us: one that never says that there are no more does not
/// stall the session.
const MAX_PROBES: usize = 128;
/// Maximum number of queued reports; beyond that the oldest is dropped. Chosen by us.
const MAX_REPORTS: usize = 4;

/// Sends media: frames are divided into packets, the pacer schedules the packets, the controller sets the
/// pacer's rate, and feedback on the packets goes to the controller.
///
/// For each frame, call [`wants_frame`](Self::wants_frame), then [`push_frame`](Self::push_frame) or
/// [`skip_frame`](Self::skip_frame), then [`handle_timeout`](Self::handle_timeout). The session begins with
/// the first of these calls. See [`MediaEndpoint`](super::MediaEndpoint) for the other calls.
#[derive(Debug)]
pub struct MediaSender {
    config: MediaSenderConfig,
    pub(super) controller: Box<dyn Controller>,
    pub(super) streams: Streams,
    pub(super) padding: RtpStream,
    pub(super) pacer: Pacer,
    target: Target,
    /// The rate of each stream, if the controller sets one for each.
    stream_targets: Vec<DataRate>,
    pacing: DataRate,
    /// The time from which on the pacer permits the next queued packet. A call after that time is late.
    due: Option<Timestamp>,
    decision: Decision,
    pub(super) history: History,
    /// What receiver reports say, of packets of unknown size.
    pub(super) by_reports: Reported,
    next_transport_sequence: u16,
    /// Time at which the next padding may be sent, with [`Target::padding`].
    padding_at: Timestamp,
    report_at: Option<Timestamp>,
    rtcp: VecDeque<Datagram>,
    pub(super) events: Events,
    /// The latest reference time of a receiver (RFC 3611 §4.4): its source, and the time of its arrival.
    pub(super) reference: Option<(u32, NtpShort, Timestamp)>,
    now: Timestamp,
    begun: bool,
    /// Whether the controller's target was applied since the last frame was pushed.
    is_settled: bool,
    phase: Phase,
}

/// What a sender still does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It accepts frames.
    Open,
    /// It sends what is queued.
    Closed,
    /// It sends nothing but the BYE.
    Stopped,
}

impl MediaSender {
    /// A sender of these streams.
    pub fn new(
        mut config: MediaSenderConfig,
        controller: Box<dyn Controller>,
        streams: Vec<MediaStream>,
    ) -> Self {
        config.report_interval = config.report_interval.max(MIN_REPORT_INTERVAL);
        let end = (0..=MAX_NAME_BYTES).rev().find(|&end| config.cname.is_char_boundary(end));
        config.cname.truncate(end.unwrap_or(0));
        let target = controller.target();
        let mut pacer = Pacer::new(config.pacer, target.pacing);
        pacer.on_target(Timestamp::ZERO, target.pacing, target.window);
        let decision = *controller.decision();
        Self {
            padding: RtpStream::new(config.padding.0, config.padding.1, 0)
                .with_extension_ids(config.extension_ids),
            controller,
            streams: Streams::new(streams, config.feedback, config.overhead)
                .with_extension_ids(config.extension_ids),
            pacer,
            target,
            stream_targets: Vec::new(),
            pacing: target.pacing,
            due: None,
            decision,
            history: History::new().with_ecn(config.ecn).with_ntp_at_zero(NtpTimestamp::default()),
            by_reports: Reported::default(),
            next_transport_sequence: 0,
            padding_at: Timestamp::ZERO,
            report_at: None,
            rtcp: VecDeque::new(),
            events: Events::default(),
            reference: None,
            now: Timestamp::ZERO,
            begun: false,
            is_settled: true,
            phase: Phase::Open,
            config,
        }
    }

    /// The target of its controller.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The queues of all paced streams together.
    pub fn queue(&self, now: Timestamp) -> QueueState {
        self.streams.totals().state(now.max(self.now))
    }

    /// What feedback has reported so far of the packets that were sent. Without reports of single packets it is what receiver reports
    /// count; the size is then zero.
    pub fn reported(&self) -> Reported {
        let reported = self.history.reported();
        if reported == Reported::default() { self.by_reports } else { reported }
    }

    /// Bytes in flight: sent, not reported, and not followed by a reported packet.
    pub fn in_flight(&self) -> DataSize {
        self.history.in_flight()
    }

    /// The streams, in their original order.
    pub fn streams(&self) -> impl Iterator<Item = &MediaStream> {
        self.streams.iter().map(|(stream, _)| stream)
    }

    /// Statistics of each stream, in the same order.
    pub fn figures(&self, now: Timestamp) -> impl Iterator<Item = StreamFigures> {
        self.streams.figures(now.max(self.now))
    }

    /// Pauses or resumes the encoder of a stream (RFC 8867 §5.8). While it is paused, its rate goes to the
    /// other streams.
    pub fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        let now = self.advance(now);
        self.streams.set_paused(stream, paused);
        self.share(now);
    }

    /// Sets the priority of a stream: its weight among the adaptive streams. One that is not finite counts as 1.
    pub fn set_priority(&mut self, now: Timestamp, stream: usize, priority: f64) {
        let now = self.advance(now);
        self.streams.set_priority(stream, priority);
        self.share(now);
    }

    /// Sets new limits of the target rate.
    pub fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        let now = self.advance(now);
        self.controller.set_limits(now, limits);
        self.settle(now);
    }

    /// Handles a change of the route: see [`Controller::on_route_change`].
    pub fn on_route_change(&mut self, now: Timestamp) {
        let now = self.advance(now);
        self.history.on_route_change();
        self.pacer.on_in_flight(self.history.in_flight());
        self.controller.on_route_change(now);
        self.settle(now);
    }

    /// The target of a stream's encoder, headers not included; `None` if there is no such stream.
    pub fn stream_target(&self, stream: usize) -> Option<DataRate> {
        self.streams.target(stream)
    }

    /// Whether the next frame of a stream should be a key frame: packets of the stream were discarded, and no
    /// key frame has been pushed since.
    pub fn wants_key_frame(&self, stream: usize) -> bool {
        self.streams.wants_key_frame(stream)
    }

    /// Whether the next frame of a stream should be encoded. If not, call [`skip_frame`](Self::skip_frame) instead of
    /// [`push_frame`](Self::push_frame).
    ///
    /// Call this just before encoding: packets that are too old are discarded first, which may require a key
    /// frame.
    pub fn wants_frame(&mut self, now: Timestamp, stream: usize) -> bool {
        let now = self.advance(now);
        if self.is_stopped() {
            return false;
        }
        self.prepare(now);
        self.streams.wants_frame(now, stream, self.controller.frame_drop_interval())
    }

    /// Pushes an encoded frame of the stream with this index.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the frame is not accepted.
    pub fn push_frame(&mut self, now: Timestamp, stream: usize, frame: Frame) -> Result<(), FrameError> {
        let now = self.advance(now);
        if self.phase != Phase::Open {
            return Err(FrameError::Stopped);
        }
        self.prepare(now);
        let captured = frame.captured;
        let ssrc = self.streams.push_frame(now, stream, frame)?;
        self.events.push(MediaEvent::Queued { ssrc, captured });
        self.is_settled = false;
        Ok(())
    }

    /// Counts a frame that was due but not encoded because it was not [wanted](Self::wants_frame).
    pub fn skip_frame(&mut self, now: Timestamp, stream: usize) {
        let now = self.advance(now);
        if !self.is_stopped() {
            self.streams.skip_frame(now, stream, &mut self.events);
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.is_stopped() {
            return;
        }
        self.prepare(now);
        self.streams.discard_after(now, self.config.discard_after, &mut self.events);
        if self.history.on_timeout(now) {
            self.pacer.on_in_flight(self.history.in_flight());
        }
        if self.report_at.is_some_and(|due| due <= now) {
            self.report_at = Some(now + self.config.report_interval);
            self.report(now);
            // The share of headers changes with the packet size.
            self.share(now);
        }
        self.settle(now);
    }

    /// Accepts no more frames. What is queued is still sent, without padding.
    pub fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closed;
        }
    }

    /// Ends the session: only a BYE is sent (RFC 3550 §6.6).
    pub fn stop(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.is_stopped() {
            return;
        }
        self.report(now);
        self.phase = Phase::Stopped;
        self.streams.clear();
        let padding = self.padding.has_sent().then_some(self.padding.ssrc);
        let sent = self.streams.iter().filter(|(_, rtp)| rtp.has_sent()).map(|(_, rtp)| rtp.ssrc);
        let sources: Vec<u32> = sent.chain(self.streams.repair_sources()).chain(padding).collect();
        for sources in sources.chunks(MAX_SOURCES) {
            // A compound begins with a report (RFC 3550 §6.1).
            let mut head = self.rtcp.pop_back().map_or_else(Vec::new, |last| last.head.into_vec());
            let bye = Bye { sources: sources.to_vec(), reason: None };
            if bye.write(&mut head).is_ok() {
                self.rtcp.push_back(Datagram::rtcp(head));
            }
        }
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let now = self.advance(now);
        if let Some(report) = self.rtcp.pop_front() {
            return Some(report);
        }
        if self.is_stopped() || !self.begun {
            return None;
        }
        self.streams.repairs().drop_late(now);
        let (datagram, first) = self.next_media(now)?;
        // A report follows the first packet of a stream, so that the receiver can map its timestamps from the
        // start.
        if first {
            self.report_at = Some(now + self.config.report_interval);
            self.report(now);
        }
        self.settle(now);
        Some(datagram)
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.is_stopped() {
            return None;
        }
        if !self.begun || !self.is_settled {
            return Some(self.now);
        }
        let discard = self.streams.discards_at();
        let packet = self.wanted().and_then(|(earliest, size)| match self.pacer.next_send(self.now, size) {
            Permit::Now => Some(earliest),
            Permit::At(at) => Some(at.max(earliest)),
            Permit::Blocked => None,
        });
        // Without feedback, the window opens when the history discards the sent packets.
        let forgotten = self.target.window.and(self.history.next_timeout());
        Timestamp::earliest([discard, packet, forgotten, self.controller.next_timeout(), self.report_at])
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.take()
    }

    /// Starts the session if necessary, and discards old packets.
    fn prepare(&mut self, now: Timestamp) {
        if !self.begun {
            self.begun = true;
            self.update_controller(now);
            self.decision = *self.controller.decision();
            self.events.push(MediaEvent::Decided(Decision::new(now, self.decision.to, self.decision.cause)));
            self.settle(now);
            self.share(now);
        }
        self.streams.discard_old(now, &mut self.events);
        self.streams.repairs().drop_late(now);
        if self.streams.has_repair() {
            // The rate of repair packets changes without a decision of the controller.
            self.share(now);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    /// The next packet of media or padding, if permitted, and whether it is the first of its stream.
    fn next_media(&mut self, now: Timestamp) -> Option<(Datagram, bool)> {
        if let Some(packet) = self.streams.pop_unpaced() {
            self.pacer.on_sent_unpaced(self.pacing_time(now), packet.size);
            return Some(self.send_media(now, packet, None));
        }
        let wanted = self.wanted();
        let (is_queued, is_probe) = (self.next_queued().is_some(), self.pacer.probe(now).is_some());
        let mut at = if is_queued && !is_probe { self.pacing_time(now) } else { now };
        self.due = None;
        let (_, size) = wanted.filter(|(earliest, _)| *earliest <= now)?;
        match self.pacer.next_send(at, size) {
            Permit::Now => {}
            Permit::At(then) if then <= now => at = then,
            Permit::At(then) => {
                self.due = is_queued.then_some(then);
                return None;
            }
            Permit::Blocked => return None,
        }
        let probe = self.pacer.on_sent(at, size);
        self.due = Some(at);
        if let Some((wanted, id)) = self.streams.repairs().pop() {
            return Some((self.send_repair(now, wanted, id, probe)?, false));
        }
        Some(match self.streams.pop() {
            Some(packet) => self.send_media(now, packet, probe),
            None => (self.send_padding(now, size, probe), false),
        })
    }

    /// Size and earliest time of the next packet that needs the pacer's permission: a repair packet, otherwise a queued packet,
    /// otherwise padding for a probe, otherwise padding for the target.
    fn wanted(&self) -> Option<(Timestamp, DataSize)> {
        if let Some(size) = self.next_queued() {
            return Some((self.now, size));
        }
        if self.phase == Phase::Closed {
            return None;
        }
        match self.pacer.probe(self.now) {
            Some(need) => Some((self.now, self.padding_size(need.left))),
            None if self.target.padding > DataRate::ZERO => {
                Some((self.padding_at.max(self.now), self.padding_size(self.config.max_padding)))
            }
            None => None,
        }
    }

    /// The size of the next repair packet or queued packet.
    fn next_queued(&self) -> Option<DataSize> {
        self.streams.next_repair().or_else(|| self.streams.next_size())
    }

    /// The time of the pacer in a call at `now`: when the packet that waits was due, if this call is late. So the packets that were
    /// due in the meantime leave at once, and the rate holds.
    fn pacing_time(&self, now: Timestamp) -> Timestamp {
        self.due.map_or(now, |due| due.max(now - CATCH_UP).min(now))
    }

    /// The size of a padding packet with all headers, if `wanted` bytes are needed.
    fn padding_size(&self, wanted: DataSize) -> DataSize {
        let headers = self.streams.headers();
        wanted.saturating_sub(headers).max(MIN_PADDING).min(self.config.max_padding) + headers
    }

    fn send_media(&mut self, now: Timestamp, packet: QueuedPacket, probe: Option<u32>) -> (Datagram, bool) {
        let sequence = self.on_sent(now, self.streams.id(&packet), packet.size, probe);
        let (head, first) = self.streams.write(now, &packet, sequence);
        (Datagram { head, payload: packet.payload, ecn: self.config.ecn }, first)
    }

    /// Sends a repair packet: it counts as sent and as in flight, like media.
    fn send_repair(
        &mut self,
        now: Timestamp,
        wanted: Wanted,
        id: RtpId,
        probe: Option<u32>,
    ) -> Option<Datagram> {
        let (stream, kind) = (wanted.stream, wanted.kind());
        let sequence = self.on_sent(now, Some(id), wanted.size, probe);
        let (head, payload) = self.streams.write_repair(now, wanted, sequence)?;
        let size = DataSize::from_bytes(head.len() as u64) + payload.size();
        if let Some((stream, _)) = self.streams.iter().nth(stream) {
            self.events.push(MediaEvent::RepairSent { ssrc: stream.ssrc, kind, size, at: now });
        }
        Some(Datagram { head, payload, ecn: self.config.ecn })
    }

    fn send_padding(&mut self, now: Timestamp, size: DataSize, probe: Option<u32>) -> Datagram {
        let id = self.padding_stream().id(0);
        let transport_sequence = self.on_sent(now, Some(id), size, probe);
        let payload = size.saturating_sub(self.streams.headers());
        let sent = size.saturating_sub(self.config.overhead);
        self.events.push(MediaEvent::PaddingSent { size: sent, at: now });
        let fields =
            PacketFields { marker: false, media_timestamp: 0, transport_sequence, captured: None, payload };
        let feedback = self.config.feedback;
        let head = self.padding_stream().write(now, feedback, fields);
        Datagram { head, payload: Payload::zeros(payload), ecn: self.config.ecn }
    }

    /// The stream of the padding: that of retransmissions if they share the source, so that no number is used twice.
    fn padding_stream(&mut self) -> &mut RtpStream {
        self.streams.retransmissions(self.config.padding.0).unwrap_or(&mut self.padding)
    }

    /// Records a sent packet. Returns its transport-wide sequence number.
    fn on_sent(&mut self, now: Timestamp, rtp: Option<RtpId>, size: DataSize, probe: Option<u32>) -> u16 {
        let transport_sequence = self.next_transport_sequence;
        self.next_transport_sequence = transport_sequence.wrapping_add(1);
        let packet = OutgoingPacket::new(size)
            .with_transport_sequence(Some(transport_sequence))
            .with_rtp(rtp)
            .with_probe(probe);
        let before = self.history.in_flight() + size;
        let sent = self.history.on_sent(now, packet);
        if sent.in_flight != before {
            self.pacer.on_in_flight(sent.in_flight);
        }
        if let Some(time) = self.target.padding.time_for(size) {
            self.padding_at = (self.padding_at.max(now) + time).min(now + PADDING_DEBT);
        }
        self.controller.on_sent(now, &sent);
        transport_sequence
    }

    /// Applies the target of the controller.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.is_settled = true;
        // Feedback may have made a deadline of the controller due.
        if self.controller.next_timeout().is_some_and(|due| due <= now) {
            self.update_controller(now);
        }
        for _ in 0..MAX_PROBES {
            let Some(probe) = self.controller.next_probe() else { break };
            let Probe { cluster, rate, duration, packets, batch, .. } = probe;
            self.pacer.on_probe(now, media::Probe::new(cluster, rate, duration, packets, batch));
        }
        let target = self.controller.target();
        let drain = self
            .config
            .queue_limit
            .map_or(DataRate::ZERO, |limit| self.streams.totals().rate_within(now, limit));
        let pacing = target.pacing.max(drain);
        if pacing != self.pacing || target.window != self.target.window {
            self.pacing = pacing;
            self.pacer.on_target(self.pacing_time(now), pacing, target.window);
        }
        if target.padding != self.target.padding {
            self.padding_at = now;
        }
        let each = self.controller.stream_targets();
        let changed = target.media != self.target.media || each != self.stream_targets;
        if changed {
            self.stream_targets.clear();
            self.stream_targets.extend_from_slice(each);
        }
        self.target = target;
        if changed {
            self.share(now);
        }
        let decision = *self.controller.decision();
        if decision != self.decision {
            self.decision = decision;
            self.events.push(MediaEvent::Decided(decision));
        }
    }

    /// Handles a deadline of the controller: passes it the state of the queues.
    fn update_controller(&mut self, now: Timestamp) {
        self.controller.on_streams(now, self.streams.states(now));
        self.controller.on_timeout(now, &self.streams.totals().state(now));
    }

    /// Divides the target among the streams.
    fn share(&mut self, now: Timestamp) {
        self.streams.share(now, self.target.media, &self.stream_targets, &mut self.events);
    }

    /// Appends the answer to a reference time (RFC 3611 §4.5), if there is one.
    fn answer(&mut self, now: Timestamp, head: &mut Vec<u8>) {
        let Some((ssrc, last_reference, at)) = self.reference else { return };
        let own = self.streams.iter().next().map_or(0, |(stream, _)| stream.ssrc);
        let delay = NtpDelay::from_delta(now.saturating_since(at));
        let delays = vec![DelaySinceLast { ssrc, last_reference, delay }];
        // It fails for no answer of this size.
        let _ = ExtendedReport { ssrc: own, delays, ..ExtendedReport::default() }.write(head);
    }

    /// Writes sender reports and descriptions of the streams that have sent.
    fn report(&mut self, now: Timestamp) {
        let reports = self.streams.iter().filter_map(|(stream, rtp)| rtp.report(now, stream.clock_rate));
        let reports: Vec<_> = reports.collect();
        for reports in reports.chunks(MAX_SOURCES) {
            let mut head = Vec::new();
            let mut chunks = Vec::new();
            for report in reports {
                if report.write(&mut head).is_ok() {
                    chunks.push(Description { ssrc: report.ssrc, cname: Some(self.config.cname.clone()) });
                }
            }
            if !chunks.is_empty() && (SourceDescription { chunks }).write(&mut head).is_ok() {
                self.answer(now, &mut head);
                if self.rtcp.len() >= MAX_REPORTS {
                    self.rtcp.pop_front();
                }
                self.rtcp.push_back(Datagram::rtcp(head));
            }
        }
    }
}
