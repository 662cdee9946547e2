//! The streams of a sender: frames are divided into packets, which are queued per stream.
//!
//! In Figure 2 of draft-johansson-rmcat-scream-cc-00 these are the rate control and the queue of each source.

use giusto_congestion::{FeedbackKind, QueueState, RtpId, StreamState};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    datagram::DatagramHead,
    event::{Events, MediaEvent},
    extensions::ExtensionIds,
    format::Framing,
    frame::{Frame, FrameError, MAX_FRAME_SIZE},
    payload::Payload,
    queue::{QueuedPacket, SendQueue, Totals},
    repair::{Repairs, Wanted},
    scheduler::Scheduler,
    share::Shares,
    stream::{MediaStream, PacketFields, RtpStream},
};

/// Minimum interval between two discards of a stream's queue, so that its key frame can be sent. The
/// reference implementation of SCReAM (`kMinRtpQueueDiscardInterval_ntp`): 0.25 s.
const DISCARD_INTERVAL: TimeDelta = TimeDelta::from_millis(250);

/// Minimum interval between two key frames that the receiver requests (libwebrtc, `encoder_rtcp_feedback.cc`,
/// `kMinKeyFrameSendIntervalMs`).
const KEY_FRAME_INTERVAL: TimeDelta = TimeDelta::from_millis(300);

/// Consecutive reports of a receiver without a sender report, after which a packet contains the capture time of its frame. Chosen by
/// us: the first can be older than the first sender report.
const UNHEARD_REPORTS: u32 = 2;

/// Maximum number of packets per frame: a quarter of the sequence numbers, so that numbers of adjacent frames
/// stay distinct. Chosen by us.
const MAX_FRAME_PACKETS: u64 = 1 << 14;

/// Statistics of one of a sender's streams, for display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// Packets sent.
    pub packets: u64,
    /// The UDP payload of these packets, RTP headers included.
    pub size: DataSize,
    /// Its queue, headers included.
    pub queue: QueueState,
    /// Frames that were skipped.
    pub skipped_frames: u64,
    /// Packets discarded before they were sent.
    pub discarded_packets: u64,
    /// The target of its encoder, headers not included.
    pub rate: DataRate,
    /// Packets that NACKs requested, each time counted.
    pub requested_packets: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Parity packets sent.
    pub parity_packets: u64,
    /// Requested packets that were not sent because they would have come too late.
    pub late_repairs: u64,
}

/// The streams, in their original order.
#[derive(Debug)]
pub(super) struct Streams {
    lines: Vec<Line>,
    shares: Shares,
    scheduler: Scheduler,
    repairs: Repairs,
    feedback: FeedbackKind,
    /// The header bytes of each packet.
    headers: DataSize,
    /// The states for the controller; a buffer.
    states: Vec<StreamState>,
}

giusto_units::defaults! {
    /// A stream and its queue.
    #[derive(Debug)]
    struct Line {
        rtp: RtpStream = RtpStream::new(stream.ssrc, stream.payload_type, stream.timestamp_offset),
        queue: SendQueue = SendQueue::default(),
        /// The latest target of its encoder.
        rate: DataRate = stream.limits.clamp(stream.start_rate),
        stream: MediaStream = stream,
        wants_key_frame: bool = false,
        packets: u64 = 0,
        size: DataSize = DataSize::ZERO,
        /// Frames that were due while the controller dropped frames (libwebrtc, `video_stream_encoder.cc`, `cwnd_frame_counter_`).
        droppable_frames: u64 = 0,
        /// Whether the frame that is due is one of them.
        may_drop: bool = false,
        skipped_frames: u64 = 0,
        discarded_packets: u64 = 0,
        /// Time at which its queue was last discarded.
        discarded_at: Option<Timestamp> = None,
        /// Time at which the receiver's latest request for a key frame was passed on.
        key_requested_at: Option<Timestamp> = None,
        /// The number of the latest FIR.
        last_command: Option<u8> = None,
        /// Consecutive reports of the receiver about this stream according to which no sender report has arrived.
        unheard_reports: u32 = 0,
    }
    fn new(stream: MediaStream);
}

impl Line {
    /// Whether a frame that is due now must be skipped.
    fn skips(&self, now: Timestamp) -> bool {
        self.stream.skip_after.is_some_and(|limit| self.queue.age(now) > limit.max(TimeDelta::ZERO))
    }

    fn count_droppable(&mut self) {
        self.droppable_frames += u64::from(std::mem::take(&mut self.may_drop));
    }

    /// Time at which the whole queue becomes too old, if no packet is sent.
    fn discards_at(&self) -> Option<Timestamp> {
        let limit = self.stream.discard_after?.max(TimeDelta::ZERO);
        let too_old = self.queue.front()?.since + limit + TimeDelta::from_nanos(1);
        Some(self.discarded_at.map_or(too_old, |last| too_old.max(last + DISCARD_INTERVAL)))
    }

    fn on_discarded(&mut self, now: Timestamp, stream: usize, packets: u64, events: &mut Events) {
        self.discarded_packets += packets;
        self.wants_key_frame = true;
        let ssrc = self.stream.ssrc;
        events.push(MediaEvent::Discarded { ssrc, packets, at: now });
        events.push(MediaEvent::KeyFrameWanted { stream, at: now });
    }
}

impl Streams {
    /// Packets have `headers` below RTP.
    pub(super) fn new(streams: Vec<MediaStream>, feedback: FeedbackKind, headers: DataSize) -> Self {
        let shares = Shares::new(&streams);
        let headers = DataSize::from_bytes(RtpStream::head_bytes(feedback)) + headers;
        Self {
            repairs: Repairs::new(&streams, headers),
            scheduler: Scheduler::new(shares.priorities()),
            shares,
            lines: streams.into_iter().map(Line::new).collect(),
            feedback,
            headers,
            states: Vec::new(),
        }
    }

    pub(super) fn with_extension_ids(mut self, ids: ExtensionIds) -> Self {
        for line in &mut self.lines {
            line.rtp = line.rtp.clone().with_extension_ids(ids);
        }
        self.repairs.set_extension_ids(ids);
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MediaStream, &RtpStream)> {
        self.lines.iter().map(|line| (&line.stream, &line.rtp))
    }

    pub(super) fn figures(&self, now: Timestamp) -> impl Iterator<Item = StreamFigures> {
        self.lines.iter().enumerate().map(move |(stream, line)| {
            let repair = self.repairs.counts(stream);
            StreamFigures {
                ssrc: line.stream.ssrc,
                packets: line.packets,
                size: line.size,
                queue: line.queue.state(now),
                skipped_frames: line.skipped_frames,
                discarded_packets: line.discarded_packets,
                rate: line.rate,
                requested_packets: repair.requested,
                retransmitted_packets: repair.retransmitted,
                parity_packets: repair.parity,
                late_repairs: repair.late,
            }
        })
    }

    /// The header bytes of each packet.
    pub(super) fn headers(&self) -> DataSize {
        self.headers
    }

    pub(super) fn set_paused(&mut self, stream: usize, paused: bool) {
        self.shares.set_paused(stream, paused);
    }

    pub(super) fn set_priority(&mut self, stream: usize, priority: f64) {
        if let Some(line) = self.lines.get_mut(stream) {
            line.stream.priority = priority;
            self.shares.set_priority(stream, priority);
            self.scheduler.set_priorities(self.shares.priorities());
        }
    }

    // ---- rates ----------------------------------------------------------------------------------------------------------

    /// The state of each stream, for the controller.
    pub(super) fn states(&mut self, now: Timestamp) -> &[StreamState] {
        self.states.clear();
        // Unpaced streams have no queue to report: they are sent first.
        let queue =
            |line: &Line| if line.stream.paced { line.queue.state(now) } else { QueueState::default() };
        let queues = self.lines.iter().map(queue);
        self.states.extend(self.shares.states(queues));
        &self.states
    }

    /// Sets the rate of each stream from `each`, or from its share of `media` if `each` does not cover all
    /// streams. Repair packets are part of the target: their rate is subtracted, but at most half of the target, as in
    /// libwebrtc (`fec_controller_default.cc`, `kProtectionOverheadRateThreshold`).
    pub(super) fn share(&mut self, now: Timestamp, media: DataRate, each: &[DataRate], events: &mut Events) {
        let without = |rate: DataRate, repair: DataRate| {
            DataRate::from_bps(rate.as_bps().saturating_sub(repair.as_bps()).max(rate.as_bps() / 2))
        };
        let repairs = &mut self.repairs;
        if !each.is_empty() && each.len() == self.lines.len() {
            let rest = (0..).zip(each).map(|(stream, &rate)| without(rate, repairs.rate(now, stream)));
            self.shares.take(&rest.collect::<Vec<_>>());
        } else {
            let rates = (0..self.lines.len()).map(|stream| repairs.rate(now, stream).as_bps());
            let repair = DataRate::from_bps(rates.sum());
            self.shares.divide(without(media, repair));
        }
        for ((stream, line), rate) in self.lines.iter_mut().enumerate().zip(self.shares.rates()) {
            if line.rate != rate {
                line.rate = rate;
                events.push(MediaEvent::Target { stream, rate, at: now });
            }
        }
    }

    // ---- in -------------------------------------------------------------------------------------------------------------

    /// The latest target of a stream's encoder.
    pub(super) fn target(&self, stream: usize) -> Option<DataRate> {
        self.lines.get(stream).map(|line| line.rate)
    }

    /// Whether the next frame of a stream is to be encoded. The controller drops one adaptive frame in
    /// `drop_interval`; 1: each of them.
    pub(super) fn wants_frame(&mut self, now: Timestamp, stream: usize, drop_interval: Option<u32>) -> bool {
        let Some(line) = self.lines.get_mut(stream) else { return false };
        let adapts = line.stream.limits.min() < line.stream.limits.max();
        let interval = drop_interval.filter(|_| adapts).map(|interval| u64::from(interval.max(1)));
        line.may_drop = interval.is_some();
        let drops = interval.is_some_and(|interval| line.droppable_frames.is_multiple_of(interval));
        !drops && !line.skips(now)
    }

    /// Whether the next frame of a stream is to be a key frame.
    pub(super) fn wants_key_frame(&self, stream: usize) -> bool {
        self.lines.get(stream).is_some_and(|line| line.wants_key_frame)
    }

    /// Counts a skipped frame.
    pub(super) fn skip_frame(&mut self, now: Timestamp, stream: usize, events: &mut Events) {
        if let Some(line) = self.lines.get_mut(stream) {
            line.count_droppable();
            line.skipped_frames += 1;
            events.push(MediaEvent::Skipped { ssrc: line.stream.ssrc, at: now });
        }
    }

    /// Divides a frame into packets and queues them. Returns the source of its stream.
    pub(super) fn push_frame(
        &mut self,
        now: Timestamp,
        stream: usize,
        frame: Frame,
    ) -> Result<u32, FrameError> {
        let line = self.lines.get_mut(stream).ok_or(FrameError::NoStream(stream))?;
        let Frame { captured, media_timestamp, payload, key } = frame;
        let (size, packetizer, framing) = (payload.size(), line.stream.packetizer, line.stream.framing);
        let packets = if framing == Framing::Packet { 1 } else { MAX_FRAME_PACKETS };
        let max = (packetizer.max_payload() * packets).min(MAX_FRAME_SIZE);
        if size == DataSize::ZERO {
            return Err(FrameError::Empty);
        }
        if size > max {
            return Err(FrameError::TooLarge { size, max });
        }
        let payloads = packetizer.payloads(&payload);
        let count = payloads.len();
        if count == 0 {
            return Err(FrameError::NoUnits);
        }
        line.count_droppable();
        line.wants_key_frame &= !key;
        line.rtp.on_frame(captured, media_timestamp);
        let mut time = None;
        if line.unheard_reports >= UNHEARD_REPORTS {
            line.unheard_reports = 0;
            time = line.rtp.capture_time_bytes(self.feedback).map(DataSize::from_bytes);
        }
        for (number, payload) in payloads.into_iter().enumerate() {
            let last = number + 1 == count;
            let time = time.take();
            let whole = payload.size() + self.headers + time.unwrap_or_default();
            self.shares.on_packet(stream, payload.size(), whole);
            line.queue.push(QueuedPacket {
                stream,
                media_timestamp,
                payload,
                marker: last && framing == Framing::Marker,
                captured: time.map(|_| captured),
                since: now,
                size: whole,
            });
        }
        if line.stream.paced {
            self.scheduler.on_queued(stream);
        }
        Ok(line.stream.ssrc)
    }

    // ---- what waits -----------------------------------------------------------------------------------------------------

    /// Totals over the paced queues.
    pub(super) fn totals(&self) -> Totals {
        Totals::of(self.lines.iter().filter(|line| line.stream.paced).map(|line| &line.queue))
    }

    /// Time at which [`discard_old`](Self::discard_old) must be called.
    pub(super) fn discards_at(&self) -> Option<Timestamp> {
        self.lines.iter().filter_map(Line::discards_at).min()
    }

    /// Discards the whole queue of each stream whose oldest packet is too old: an incomplete frame is
    /// useless, and so are the frames that refer to it.
    pub(super) fn discard_old(&mut self, now: Timestamp, events: &mut Events) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.discards_at().is_some_and(|due| due <= now) {
                let packets = line.queue.clear();
                line.discarded_at = Some(now);
                line.on_discarded(now, index, packets, events);
                self.scheduler.on_empty(index);
            }
        }
    }

    /// Discards each packet that has been queued for longer than `latest`.
    pub(super) fn discard_after(&mut self, now: Timestamp, latest: TimeDelta, events: &mut Events) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            let mut packets = 0;
            while line.queue.age(now) > latest && line.queue.pop().is_some() {
                packets += 1;
            }
            if packets > 0 {
                line.on_discarded(now, index, packets, events);
                if line.queue.is_empty() {
                    self.scheduler.on_empty(index);
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.repairs.clear();
        for (index, line) in self.lines.iter_mut().enumerate() {
            line.queue.clear();
            self.scheduler.on_empty(index);
        }
    }

    // ---- out ------------------------------------------------------------------------------------------------------------

    /// Size of the next paced packet.
    pub(super) fn next_size(&self) -> Option<DataSize> {
        let line = self.lines.get(self.scheduler.next()?)?;
        line.queue.front().map(|packet| packet.size)
    }

    /// Takes the next paced packet.
    pub(super) fn pop(&mut self) -> Option<QueuedPacket> {
        let stream = self.scheduler.next()?;
        let queue = &mut self.lines.get_mut(stream)?.queue;
        let packet = queue.pop()?;
        let is_empty = queue.is_empty();
        self.scheduler.on_sent(stream, packet.size);
        if is_empty {
            self.scheduler.on_empty(stream);
        }
        Some(packet)
    }

    /// Takes the next unpaced packet: the oldest one.
    pub(super) fn pop_unpaced(&mut self) -> Option<QueuedPacket> {
        let unpaced = self.lines.iter_mut().filter(|line| !line.stream.paced && !line.queue.is_empty());
        let oldest = unpaced.min_by_key(|line| line.queue.front().map(|packet| packet.since))?;
        oldest.queue.pop()
    }

    /// Identifies the next packet of a stream.
    pub(super) fn id(&self, packet: &QueuedPacket) -> Option<RtpId> {
        self.lines.get(packet.stream).map(|line| line.rtp.id(packet.media_timestamp))
    }

    /// Writes the header of a packet with this transport-wide number. Returns whether it is the first of its
    /// stream.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        packet: &QueuedPacket,
        sequence: u16,
    ) -> (DatagramHead, bool) {
        let Some(line) = self.lines.get_mut(packet.stream) else { return Default::default() };
        let payload = packet.payload.size();
        let fields = PacketFields {
            marker: packet.marker,
            media_timestamp: packet.media_timestamp,
            transport_sequence: sequence,
            captured: packet.captured,
            payload,
        };
        let first = !line.rtp.has_sent();
        let head = line.rtp.write(now, self.feedback, fields);
        line.packets += 1;
        line.size += payload + DataSize::from_bytes(head.len() as u64);
        // The number was that of the packet written last.
        let number = line.rtp.next_number().saturating_sub(1);
        let ends = packet.marker || line.stream.framing == Framing::Packet;
        self.repairs.on_sent(now, number, &head, ends, packet);
        (head, first)
    }

    // ---- repair ---------------------------------------------------------------------------------------------------------

    pub(super) fn repairs(&mut self) -> &mut Repairs {
        &mut self.repairs
    }

    /// The retransmission stream with this source.
    pub(super) fn retransmissions(&mut self, ssrc: u32) -> Option<&mut RtpStream> {
        self.repairs.retransmissions(ssrc)
    }

    /// Whether any stream is repaired.
    pub(super) fn has_repair(&self) -> bool {
        self.repairs.is_on()
    }

    /// Size of the next repair packet.
    pub(super) fn next_repair(&self) -> Option<DataSize> {
        self.repairs.next().map(|wanted| wanted.size)
    }

    /// The sources of the repair packets that were sent.
    pub(super) fn repair_sources(&self) -> impl Iterator<Item = u32> {
        self.repairs.sources()
    }

    /// Index of the stream with this source.
    pub(super) fn find(&self, ssrc: u32) -> Option<usize> {
        self.lines.iter().position(|line| line.stream.ssrc == ssrc)
    }

    /// Handles a report of the receiver about the stream with this source.
    ///
    /// The frames of a receiver that no sender report reaches have no delay. An ECN queue that marks all packets with ECT drops all
    /// others, and RTCP must not be sent with ECT (RFC 6679 §7.3.1): no repetition arrives. So the media gets the time (RFC 6051 §3.3).
    pub(super) fn on_report(&mut self, ssrc: u32, has_sender_report: bool) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.stream.ssrc == ssrc) {
            line.unheard_reports = if has_sender_report { 0 } else { line.unheard_reports.saturating_add(1) };
        }
    }

    /// Writes a repair packet: header and payload.
    pub(super) fn write_repair(
        &mut self,
        now: Timestamp,
        wanted: Wanted,
        sequence: u16,
    ) -> Option<(DatagramHead, Payload)> {
        self.repairs.write(now, wanted, self.feedback, sequence)
    }

    /// Handles the receiver's request for a key frame; the number of a command is that of the FIR. At most one in
    /// [`KEY_FRAME_INTERVAL`] is passed on, and a repeated command is ignored (RFC 5104 §4.3.1.2).
    pub(super) fn request_key_frame(
        &mut self,
        now: Timestamp,
        stream: usize,
        command: Option<u8>,
        events: &mut Events,
    ) {
        let Some(line) = self.lines.get_mut(stream) else { return };
        if command.is_some() && line.last_command == command {
            return;
        }
        if line.key_requested_at.is_some_and(|last| now.saturating_since(last) < KEY_FRAME_INTERVAL) {
            return;
        }
        // The repetition of a command that came too soon is obeyed.
        line.last_command = command.or(line.last_command);
        line.key_requested_at = Some(now);
        line.wants_key_frame = true;
        events.push(MediaEvent::KeyFrameWanted { stream, at: now });
    }
}
