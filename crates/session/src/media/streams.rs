//! The streams of a sender: where frames become packets and wait, each stream in a queue of its own, until one may leave.
//!
//! What Figure 2 of draft-johansson-rmcat-scream-cc-00 calls rate control and queue, once for each source.

use giusto_congestion::{FeedbackKind, QueueState, RtpId, StreamState};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    MediaEvent, MediaStream,
    event::Events,
    queue::{SendQueue, Waiting, Whole},
    scheduler::Scheduler,
    share::Shares,
    stream::{RtpStream, Says},
};

/// All of a stream that waits is not thrown away more often than this, so that its key frame can leave. The reference
/// implementation of SCReAM (`kMinRtpQueueDiscardInterval_ntp`): 0.25 s.
const DISCARD_INTERVAL: TimeDelta = TimeDelta::from_millis(250);

/// A source whose frame is due and does not come is asked again after this, so that a broken one does not stop the others. Ours.
const ASK_AGAIN: TimeDelta = TimeDelta::from_millis(10);

/// What is known of one of a sender's streams, for display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// Which.
    pub ssrc: u32,
    /// Packets sent.
    pub packets: u64,
    /// What they held as UDP payload, headers of RTP included.
    pub size: DataSize,
    /// What waits, headers included.
    pub queue: QueueState,
    /// Frames that were due and left out.
    pub skipped_frames: u64,
    /// Packets that were thrown away before they left.
    pub discarded_packets: u64,
    /// The rate that its source is asked for, headers not included.
    pub rate: DataRate,
}

/// The streams, in the order in which they were given.
#[derive(Debug)]
pub(super) struct Streams {
    lines: Vec<Line>,
    shares: Shares,
    scheduler: Scheduler,
    feedback: FeedbackKind,
    /// What each packet has besides its payload.
    headers: DataSize,
    /// What the controller is told, kept for its memory.
    states: Vec<StreamState>,
}

/// A stream and what waits of it.
#[derive(Debug)]
struct Line {
    stream: MediaStream,
    rtp: RtpStream,
    queue: SendQueue,
    /// When the source is asked again that owes a frame.
    asks_at: Option<Timestamp>,
    packets: u64,
    size: DataSize,
    skipped_frames: u64,
    discarded_packets: u64,
    /// When all of it that waited was thrown away last.
    discarded_at: Option<Timestamp>,
}

impl Line {
    fn new(stream: MediaStream) -> Self {
        Self {
            rtp: RtpStream::new(stream.ssrc, stream.payload_type, stream.first),
            stream,
            queue: SendQueue::default(),
            asks_at: None,
            packets: 0,
            size: DataSize::ZERO,
            skipped_frames: 0,
            discarded_packets: 0,
            discarded_at: None,
        }
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        let due = self.stream.source.next_frame_at()?;
        Some(self.asks_at.map_or(due, |again| due.max(again)))
    }

    /// Whether a frame that is due now is left out.
    fn skips(&self, now: Timestamp) -> bool {
        self.stream.skip_after.is_some_and(|limit| self.queue.age(now) > limit.max(TimeDelta::ZERO))
    }

    /// When all that waits will be too old, if nothing of it leaves.
    fn discards_at(&self) -> Option<Timestamp> {
        let limit = self.stream.discard_after?.max(TimeDelta::ZERO);
        let too_old = self.queue.front()?.since + limit + TimeDelta::from_nanos(1);
        Some(self.discarded_at.map_or(too_old, |last| too_old.max(last + DISCARD_INTERVAL)))
    }

    fn on_discarded(&mut self, now: Timestamp, packets: u64, events: &mut Events) {
        self.discarded_packets += packets;
        self.stream.source.on_discarded(now);
        events.tell(MediaEvent::Discarded { ssrc: self.stream.ssrc, packets, at: now });
    }
}

impl Streams {
    /// Packets have `headers` below RTP.
    pub(super) fn new(streams: Vec<MediaStream>, feedback: FeedbackKind, headers: DataSize) -> Self {
        let shares = Shares::new(&streams);
        Self {
            scheduler: Scheduler::new(shares.priorities()),
            shares,
            lines: streams.into_iter().map(Line::new).collect(),
            feedback,
            headers: DataSize::from_bytes(RtpStream::head_bytes(feedback)) + headers,
            states: Vec::new(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MediaStream, &RtpStream)> {
        self.lines.iter().map(|line| (&line.stream, &line.rtp))
    }

    pub(super) fn figures(&self, now: Timestamp) -> impl Iterator<Item = StreamFigures> {
        self.lines.iter().map(move |line| StreamFigures {
            ssrc: line.stream.ssrc,
            packets: line.packets,
            size: line.size,
            queue: line.queue.state(now),
            skipped_frames: line.skipped_frames,
            discarded_packets: line.discarded_packets,
            rate: line.stream.source.target(),
        })
    }

    /// What each packet has besides its payload.
    pub(super) fn headers(&self) -> DataSize {
        self.headers
    }

    pub(super) fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        if let Some(line) = self.lines.get_mut(stream) {
            line.stream.source.set_paused(now, paused);
            line.asks_at = None;
        }
        self.shares.set_paused(stream, paused);
    }

    // ---- rates ----------------------------------------------------------------------------------------------------------

    /// What the controller is told of each stream.
    pub(super) fn states(&mut self, now: Timestamp) -> &[StreamState] {
        self.states.clear();
        // What waits for nothing is not told of: it leaves before anything else.
        let queue =
            |line: &Line| if line.stream.paced { line.queue.state(now) } else { QueueState::default() };
        let queues = self.lines.iter().map(queue);
        self.states.extend(self.shares.states(queues));
        &self.states
    }

    /// Asks each source for its own rate of `each`, or, where there is none for each, for its share of `media`.
    pub(super) fn share(&mut self, now: Timestamp, media: DataRate, each: &[DataRate]) {
        if !each.is_empty() && each.len() == self.lines.len() {
            self.shares.take(each);
        } else {
            self.shares.divide(media);
        }
        for (line, rate) in self.lines.iter_mut().zip(self.shares.rates()) {
            if line.stream.source.target() != rate {
                line.stream.source.set_target(now, rate);
            }
        }
    }

    // ---- in -------------------------------------------------------------------------------------------------------------

    /// When the next frame is due.
    pub(super) fn next_frame_at(&self) -> Option<Timestamp> {
        self.lines.iter().filter_map(Line::next_frame_at).min()
    }

    /// Frames that are due become packets that wait, or are left out.
    pub(super) fn take_frames(&mut self, now: Timestamp, events: &mut Events) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            while let Some(frame) = line.stream.source.poll_frame(now) {
                if line.skips(now) {
                    line.skipped_frames += 1;
                    events.tell(MediaEvent::Skipped { ssrc: line.stream.ssrc, at: now });
                    // Whoever asked for a key frame still waits for it.
                    if frame.key {
                        line.stream.source.request_key_frame(now);
                    }
                    continue;
                }
                line.rtp.on_frame(&frame);
                for packet in line.stream.packetizer.packets(&frame) {
                    let size = packet.size + self.headers;
                    self.shares.on_packet(index, packet.size, size);
                    line.queue.push(Waiting { stream: index, packet, since: now, size });
                    if line.stream.paced {
                        self.scheduler.on_waiting(index);
                    }
                }
            }
            let owes = line.stream.source.next_frame_at().is_some_and(|due| due <= now);
            line.asks_at = owes.then(|| now + ASK_AGAIN);
        }
    }

    // ---- what waits -----------------------------------------------------------------------------------------------------

    /// All that waits for the pacer.
    pub(super) fn whole(&self) -> Whole {
        Whole::of(self.lines.iter().filter(|line| line.stream.paced).map(|line| &line.queue))
    }

    /// When streams whose packets are of no use after some time want [`discard_old`](Self::discard_old).
    pub(super) fn discards_at(&self) -> Option<Timestamp> {
        self.lines.iter().filter_map(Line::discards_at).min()
    }

    /// Throws away all that waits of a stream whose oldest packet has waited for longer than the stream says: a part of a frame is
    /// of no use, nor is what refers to it.
    pub(super) fn discard_old(&mut self, now: Timestamp, events: &mut Events) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.discards_at().is_some_and(|due| due <= now) {
                let packets = line.queue.clear();
                line.discarded_at = Some(now);
                line.on_discarded(now, packets, events);
                self.scheduler.on_empty(index);
            }
        }
    }

    /// Throws away each packet that has waited for longer than `latest`.
    pub(super) fn discard_after(&mut self, now: Timestamp, latest: TimeDelta, events: &mut Events) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            let mut packets = 0;
            while line.queue.age(now) > latest && line.queue.pop().is_some() {
                packets += 1;
            }
            if packets > 0 {
                line.on_discarded(now, packets, events);
                if line.queue.is_empty() {
                    self.scheduler.on_empty(index);
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            line.queue.clear();
            self.scheduler.on_empty(index);
        }
    }

    // ---- out ------------------------------------------------------------------------------------------------------------

    /// The size of the packet that leaves next, once the pacer lets it.
    pub(super) fn next_size(&self) -> Option<DataSize> {
        let line = self.lines.get(self.scheduler.next()?)?;
        line.queue.front().map(|waiting| waiting.size)
    }

    /// Takes the packet that leaves next.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let stream = self.scheduler.next()?;
        let queue = &mut self.lines.get_mut(stream)?.queue;
        let waiting = queue.pop()?;
        let is_empty = queue.is_empty();
        self.scheduler.on_sent(stream, waiting.size);
        if is_empty {
            self.scheduler.on_empty(stream);
        }
        Some(waiting)
    }

    /// Takes the next packet that does not ask the pacer: the one that has waited for longest.
    pub(super) fn pop_unpaced(&mut self) -> Option<Waiting> {
        let unpaced = self.lines.iter_mut().filter(|line| !line.stream.paced && !line.queue.is_empty());
        let oldest = unpaced.min_by_key(|line| line.queue.front().map(|waiting| waiting.since))?;
        oldest.queue.pop()
    }

    /// What identifies the next packet of a stream.
    pub(super) fn id(&self, stream: usize) -> Option<RtpId> {
        self.lines.get(stream).map(|line| line.rtp.id())
    }

    /// The header of a packet that leaves with this number on the transport, and whether it is the first of its stream.
    pub(super) fn write(&mut self, now: Timestamp, waiting: &Waiting, sequence: u16) -> (Vec<u8>, bool) {
        let Some(line) = self.lines.get_mut(waiting.stream) else { return Default::default() };
        let packet = &waiting.packet;
        let says = Says {
            marker: packet.last && line.stream.paced,
            media_timestamp: packet.frame.media_timestamp,
            transport_sequence: sequence,
            payload: packet.size,
        };
        let first = !line.rtp.has_sent();
        let head = line.rtp.write(now, self.feedback, says);
        line.packets += 1;
        line.size += packet.size + DataSize::from_bytes(head.len() as u64);
        (head, first)
    }
}
