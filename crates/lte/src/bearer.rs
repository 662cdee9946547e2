//! A bearer: the queue of one user in one direction, and the radio link control (RLC) below it.
//!
//! Packets wait in a [`Queue`] of any discipline. The scheduler grants a transport block; [`Bearer::fill`] cuts packets into
//! it (3GPP TS 36.322 §4.2.1.3, acknowledged mode). What a transport block loses for good is sent again
//! (TS 36.322 §5.2), and packets are delivered in order (§5.1.3.2).

use std::collections::VecDeque;

use giusto_sim::{
    link::queue::Queue,
    packet::{DropReason, Dropped, Packet},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

/// Header bytes of a transport block: MAC subheader 3 (TS 36.321 §6.1.2), RLC 2 (TS 36.322 §6.2.1.4).
pub(crate) const BLOCK_HEADER: u32 = 5;

/// Header bytes of a packet: PDCP 2 (TS 36.323 §6.2.3, 12-bit sequence numbers), RLC length indicator 2 (TS 36.322 §6.2.1.4).
const PACKET_HEADER: u32 = 4;

giusto_units::defaults! {
    /// What a bearer does with packets that wait or are lost.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct BearerConfig {
        /// A packet that has waited this long before its transmission begins is discarded: `discardTimer` of PDCP (TS 36.323 §5.4).
        /// `None`: never.
        pub discard: Option<TimeDelta> = None,
        /// Time from the loss of a transport block until its content is sent again: the status report of the receiver
        /// (TS 36.322 §5.2.3). Chosen by us: reordering timer 35 ms and a report 10 ms later.
        pub status_delay: TimeDelta = TimeDelta::from_millis(45),
        /// How often a packet may be sent again before it is given up (`maxRetxThreshold`, TS 36.331 §6.3.2: 1 to 32; 0 stands for
        /// unacknowledged mode).
        pub max_retransmissions: u8 = 8,
    }
}

/// Counters of a bearer since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BearerCounters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Packets delivered.
    pub delivered_packets: u64,
    /// Packets dropped by the queue.
    pub queue_packets: u64,
    /// Packets discarded because they had waited too long.
    pub discarded_packets: u64,
    /// Packets given up after the last retransmission.
    pub lost_packets: u64,
}

impl BearerCounters {
    /// Adds those of another bearer.
    pub fn add(&mut self, other: Self) {
        self.offered_packets += other.offered_packets;
        self.delivered_packets += other.delivered_packets;
        self.queue_packets += other.queue_packets;
        self.discarded_packets += other.discarded_packets;
        self.lost_packets += other.lost_packets;
    }
}

/// A part of a packet within a transport block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    number: u64,
    bytes: u32,
}

/// The content of a transport block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    segments: Vec<Segment>,
}

impl Content {
    /// Whether it holds no part of any packet.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

/// A packet whose transmission has begun.
#[derive(Debug, Clone, Copy)]
struct Sent {
    packet: Packet,
    /// Bytes that have not been received, the header included.
    missing: u32,
    retransmissions: u8,
    given_up: bool,
}

giusto_units::defaults! {
    /// The queue of a user in one direction, and the packets that are being transmitted.
    #[derive(Debug)]
    pub struct Bearer {
        config: BearerConfig = config,
        queue: Box<dyn Queue> = queue,
        /// Bytes in the queue and the number of packets, which the scheduler reads in every millisecond.
        queued: (u32, u32) = (0, 0),
        /// Time of the queue's next periodic update.
        timer: Timestamp = Timestamp::ZERO,
        /// Bytes of the last packet in `sent` that no transport block has carried.
        uncut: u32 = 0,
        sent: VecDeque<Sent> = VecDeque::new(),
        /// The number of the first packet in `sent`.
        first: u64 = 0,
        /// Segments to send again, and when the report of their loss arrives.
        again: VecDeque<(Timestamp, Segment)> = VecDeque::new(),
        drops: Vec<Dropped> = Vec::new(),
        counters: BearerCounters = BearerCounters::default(),
    }
    /// An empty bearer.
    pub fn new(config: BearerConfig, queue: Box<dyn Queue>);
}

impl Bearer {
    /// Counters since the start.
    pub fn counters(&self) -> BearerCounters {
        self.counters
    }

    /// Bytes that wait for a transport block at `now`, their headers included.
    pub fn backlog(&self, now: Timestamp) -> u32 {
        let (bytes, packets) = self.queued;
        let again = self.again.iter().take_while(|(due, _)| *due <= now).map(|(_, segment)| segment.bytes);
        bytes + packets * PACKET_HEADER + self.uncut + again.sum::<u32>()
    }

    /// Whether nothing waits, now or later.
    pub fn is_idle(&self) -> bool {
        self.queued == (0, 0) && self.uncut == 0 && self.again.is_empty()
    }

    /// Runs the timer of the queue if it is due.
    pub fn run_timer(&mut self, now: Timestamp) {
        if self.timer <= now {
            self.queue.on_timer(now);
            self.count();
        }
    }

    /// Adds a packet at `now`.
    pub fn offer(&mut self, now: Timestamp, packet: Packet) {
        self.counters.offered_packets += 1;
        self.queue.enqueue(now, packet, &mut self.drops);
        self.count();
    }

    /// Tells the queue the rate at which it drains.
    pub fn set_rate(&mut self, now: Timestamp, drain: DataRate) {
        self.queue.on_rate(now, drain);
        self.count();
    }

    /// One of the packets dropped since the last call.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.drops.pop()
    }

    /// Removes one of the packets that it holds. No further call may follow but this one.
    pub fn clear(&mut self, now: Timestamp) -> Option<Packet> {
        let dropped = self.drops.pop().map(|dropped| dropped.packet);
        dropped.or_else(|| self.sent.pop_front().map(|sent| sent.packet)).or_else(|| {
            // The queue drops some while it returns others.
            self.queue
                .dequeue(now, &mut self.drops)
                .or_else(|| self.drops.pop().map(|dropped| dropped.packet))
        })
    }

    fn count(&mut self) {
        self.queued = (self.queue.size().as_bytes() as u32, self.queue.packets() as u32);
        self.timer = self.queue.next_timer().unwrap_or(Timestamp::MAX);
        self.counters.queue_packets = self.counters.offered_packets
            - self.counters.discarded_packets
            - (self.first + self.sent.len() as u64)
            - u64::from(self.queued.1);
    }

    /// Fills a transport block of `bytes`. The content is empty if the block holds nothing but headers.
    pub fn fill(&mut self, now: Timestamp, bytes: u32) -> Content {
        let mut room = bytes.saturating_sub(BLOCK_HEADER);
        let mut content = Content::default();
        while room > 0
            && let Some((due, segment)) = self.again.front_mut()
            && *due <= now
        {
            let cut = segment.bytes.min(room);
            content.segments.push(Segment { number: segment.number, bytes: cut });
            (room, segment.bytes) = (room - cut, segment.bytes - cut);
            if segment.bytes == 0 {
                self.again.pop_front();
            }
        }
        while room > 0 {
            if self.uncut == 0 && !self.begin_next(now) {
                break;
            }
            let cut = self.uncut.min(room);
            let number = self.first + self.sent.len() as u64 - 1;
            content.segments.push(Segment { number, bytes: cut });
            (room, self.uncut) = (room - cut, self.uncut - cut);
        }
        content
    }

    /// Takes the next packet from the queue. Returns whether there is one.
    fn begin_next(&mut self, now: Timestamp) -> bool {
        let mut next = None;
        while let Some(packet) = self.queue.dequeue(now, &mut self.drops) {
            if self.config.discard.is_some_and(|limit| now.saturating_since(packet.queued) >= limit) {
                self.counters.discarded_packets += 1;
                self.drops.push(Dropped { packet, reason: DropReason::Aqm });
                continue;
            }
            next = Some(packet);
            break;
        }
        if let Some(mut packet) = next {
            packet.queue_delay_ns += now.saturating_since(packet.queued).as_nanos().unsigned_abs();
            self.uncut = packet.bytes + PACKET_HEADER;
            self.sent.push_back(Sent { packet, missing: self.uncut, retransmissions: 0, given_up: false });
        }
        self.count();
        next.is_some()
    }

    /// The receiver has decoded a transport block: appends the packets that are complete and in order to `delivered`.
    pub fn receive(&mut self, content: &Content, delivered: &mut Vec<Packet>) {
        for segment in &content.segments {
            if let Some(sent) = self.sent_mut(segment.number) {
                sent.missing = sent.missing.saturating_sub(segment.bytes);
            }
        }
        self.deliver(delivered);
    }

    /// A transport block is lost for good: its content is sent again, or given up.
    pub fn lose(&mut self, now: Timestamp, content: &Content, delivered: &mut Vec<Packet>) {
        let (limit, due) = (self.config.max_retransmissions, now + self.config.status_delay);
        for &segment in &content.segments {
            let Some(sent) = self.sent_mut(segment.number) else { continue };
            if sent.retransmissions < limit {
                sent.retransmissions += 1;
                self.again.push_back((due, segment));
            } else {
                sent.given_up = true;
                sent.missing = sent.missing.saturating_sub(segment.bytes);
            }
        }
        self.deliver(delivered);
    }

    /// The content of a transport block whose transmission was cut off by a handover is sent again at once.
    pub fn forward(&mut self, now: Timestamp, content: &Content) {
        for &segment in content.segments.iter().rev() {
            self.again.push_front((now, segment));
        }
    }

    fn sent_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.sent.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn deliver(&mut self, delivered: &mut Vec<Packet>) {
        while self.sent.front().is_some_and(|sent| sent.missing == 0)
            && !(self.sent.len() == 1 && self.uncut > 0)
        {
            let Some(sent) = self.sent.pop_front() else { return };
            self.first += 1;
            if sent.given_up {
                self.counters.lost_packets += 1;
                self.drops.push(Dropped { packet: sent.packet, reason: DropReason::Loss });
            } else {
                self.counters.delivered_packets += 1;
                delivered.push(sent.packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_sim::link::queue::{DropTail, Limit};

    use super::*;

    /// A bearer with packets of 100 bytes that come at these times.
    fn bearer(config: BearerConfig, packets: &[u64]) -> Bearer {
        let mut bearer = Bearer::new(config, Box::new(DropTail::new(Limit::Unlimited)));
        for (sequence, &millis) in (0..).zip(packets) {
            bearer.offer(at(millis), Packet { bytes: 100, sequence, ..Packet::default() });
        }
        bearer
    }

    fn received(bearer: &mut Bearer, content: &Content) -> Vec<u64> {
        let mut delivered = Vec::new();
        bearer.receive(content, &mut delivered);
        delivered.iter().map(|packet| packet.sequence).collect()
    }

    fn lose(bearer: &mut Bearer, millis: u64, content: &Content) {
        let mut delivered = Vec::new();
        bearer.lose(at(millis), content, &mut delivered);
        assert!(delivered.is_empty());
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn packets_are_cut_and_delivered_when_complete() {
        let mut bearer = bearer(BearerConfig::default(), &[0, 0]);
        assert_eq!(bearer.backlog(at(0)), 208);
        // 104 B of the first packet and 26 B of the second.
        let first = bearer.fill(at(1), 135);
        assert_eq!(bearer.backlog(at(1)), 78);
        let second = bearer.fill(at(2), 135);
        assert_eq!(bearer.backlog(at(2)), 0);
        assert!(received(&mut bearer, &second).is_empty(), "the first part of the second packet is missing");
        assert_eq!(received(&mut bearer, &first), [0, 1]);
    }

    #[test]
    fn a_lost_block_is_sent_again_and_holds_back_what_follows() {
        let mut bearer = bearer(BearerConfig::default(), &[0, 0]);
        let (first, second) = (bearer.fill(at(1), 109), bearer.fill(at(2), 109));
        assert!(received(&mut bearer, &second).is_empty());
        lose(&mut bearer, 30, &first);
        assert_eq!(bearer.backlog(at(75)), 104);
        assert_eq!(bearer.fill(at(74), 109), Content::default(), "the report arrives after 45 ms");
        let again = bearer.fill(at(75), 109);
        assert_eq!(received(&mut bearer, &again), [0, 1]);
    }

    #[test]
    fn without_retransmissions_a_lost_block_loses_its_packets() {
        let config = BearerConfig { max_retransmissions: 0, ..BearerConfig::default() };
        let mut bearer = bearer(config, &[0, 0, 0]);
        let (first, second) = (bearer.fill(at(1), 159), bearer.fill(at(2), 163));
        lose(&mut bearer, 5, &first);
        assert_eq!(received(&mut bearer, &second), [2]);
        assert_eq!(bearer.counters().lost_packets, 2);
        assert_eq!(bearer.poll_dropped().map(|dropped| dropped.reason), Some(DropReason::Loss));
    }

    #[test]
    fn packets_that_waited_too_long_are_discarded() {
        let config = BearerConfig { discard: Some(TimeDelta::from_millis(100)), ..BearerConfig::default() };
        let mut bearer = bearer(config, &[0, 50]);
        let content = bearer.fill(at(100), 109);
        assert_eq!(received(&mut bearer, &content), [1]);
        assert_eq!((bearer.counters().discarded_packets, bearer.counters().queue_packets), (1, 0));
    }

    #[test]
    fn a_handover_sends_what_was_in_the_air_again_at_once() {
        let mut bearer = bearer(BearerConfig::default(), &[0]);
        let content = bearer.fill(at(1), 60);
        bearer.forward(at(2), &content);
        assert_eq!(bearer.backlog(at(2)), 104);
        let content = bearer.fill(at(2), 200);
        assert_eq!(received(&mut bearer, &content), [0]);
    }
}
