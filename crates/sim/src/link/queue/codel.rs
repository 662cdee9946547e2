//! Controlled delay: what counts is the smallest sojourn of an interval (RFC 8289).

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    drop_tail::Limit,
    error::{Check, QueueError},
    fifo::Fifo,
    law::{Queue, mark, sojourn},
};
use crate::packet::{DropReason, Dropped, Packet};

/// The settings of a [`CoDel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// The standing delay that is acceptable, above 0. Default: 5 ms (RFC 8289 §5.3).
    pub target: TimeDelta,
    /// How long the delay may stay above the target before the law acts, above 0; of the order of the longest round trip.
    /// Default: 100 ms (RFC 8289 §5.3).
    pub interval: TimeDelta,
    /// No signal while no more than this stays behind. Default: 1500 B, the link's MTU (RFC 8289 §5.3 asks for the MTU of the
    /// interface in place of its 512 B).
    pub max_packet: DataSize,
    /// Whether to mark packets that can bear it instead of dropping them. Default: yes.
    pub ecn: bool,
    /// How much may wait. Default: 1000 packets, as in Linux; RFC 8289 gives none.
    pub limit: Limit,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self {
            target: TimeDelta::from_millis(5),
            interval: TimeDelta::from_millis(100),
            max_packet: DataSize::from_bytes(1500),
            ecn: true,
            limit: Limit::Packets(1000),
        }
    }
}

/// First in, first out, under the control law of RFC 8289 §5.
///
/// The RFC has no marks in its pseudo-code. Here, where it would drop a packet that can bear a mark, the packet is marked
/// and leaves; the control law goes on as if it had been dropped.
#[derive(Debug)]
pub struct CoDel {
    law: Law,
    control: Control,
    fifo: Fifo,
    marked: u64,
}

impl CoDel {
    /// An empty queue. A [`Limit::Time`] admits nothing before the link has told its rate ([`Queue::on_rate`]).
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if `target` or `interval` is not above zero.
    pub fn new(config: CoDelConfig) -> Result<Self, QueueError> {
        let CoDelConfig { target, interval, max_packet, ecn, limit } = config;
        let law = Law::new("CoDel", Law { target, interval, max_packet, ecn })?;
        Ok(Self { law, control: Control::default(), fifo: Fifo::new(limit), marked: 0 })
    }
}

impl Queue for CoDel {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        if self.fifo.admits(&packet) {
            self.fifo.push(now, packet);
        } else {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        }
    }

    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let mut line = Line { fifo: &mut self.fifo, marked: &mut self.marked, drops };
        self.control.dequeue(now, &self.law, &mut line)
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn size(&self) -> DataSize {
        self.fifo.size()
    }

    fn marked(&self) -> u64 {
        self.marked
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.fifo.set_drain(drain);
    }
}

struct Line<'a> {
    fifo: &'a mut Fifo,
    marked: &'a mut u64,
    drops: &'a mut Vec<Dropped>,
}

impl Backlog for Line<'_> {
    fn pop(&mut self) -> Option<Packet> {
        self.fifo.pop()
    }

    fn size(&self) -> DataSize {
        self.fifo.size()
    }

    fn mark(&mut self, packet: &mut Packet) -> bool {
        mark(packet, self.marked)
    }

    fn discard(&mut self, packet: Packet) {
        self.drops.push(Dropped { packet, reason: DropReason::Aqm });
    }
}

// ---- the control law, shared with FQ-CoDel --------------------------------------------------------------------------

/// A line of packets under control, and what becomes of those that are taken from it.
pub(super) trait Backlog {
    fn pop(&mut self) -> Option<Packet>;
    /// What shares the transmitter and still waits (RFC 8289 §4.4: of all queues together).
    fn size(&self) -> DataSize;
    /// Marks if the packet can bear it.
    fn mark(&mut self, packet: &mut Packet) -> bool;
    fn discard(&mut self, packet: Packet);
}

/// The parameters of RFC 8289 §5.3.
#[derive(Debug, Clone, Copy)]
pub(super) struct Law {
    pub(super) target: TimeDelta,
    pub(super) interval: TimeDelta,
    pub(super) max_packet: DataSize,
    pub(super) ecn: bool,
}

impl Law {
    pub(super) fn new(name: &'static str, law: Self) -> Result<Self, QueueError> {
        Check(name).positive_time("target", law.target)?;
        Check(name).positive_time("interval", law.interval)?;
        Ok(law)
    }

    /// RFC 8289 §5.6: `t + INTERVAL / sqrt(count)`, to the nanosecond below.
    fn next_drop(&self, from: Timestamp, count: u32) -> Timestamp {
        from + TimeDelta::from_nanos((self.interval.as_nanos() as f64 / f64::from(count).sqrt()) as i64)
    }
}

/// The state of one line (RFC 8289 §5.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// When the sojourn has been above the target for an interval; [`Timestamp::MAX`] while it is not above.
    first_above: Timestamp,
    drop_next: Timestamp,
    /// Signals in this dropping state.
    count: u32,
    /// What `count` was when this dropping state began.
    last_count: u32,
    dropping: bool,
}

impl Default for Control {
    fn default() -> Self {
        let first_above = Timestamp::MAX;
        Self { first_above, drop_next: Timestamp::ZERO, count: 0, last_count: 0, dropping: false }
    }
}

impl Control {
    /// RFC 8289 §5.5.
    pub(super) fn dequeue(&mut self, now: Timestamp, law: &Law, line: &mut impl Backlog) -> Option<Packet> {
        let Some((mut packet, mut may_drop)) = self.take(now, law, line) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.ecn && line.mark(&mut packet) {
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                    break;
                }
                line.discard(packet);
                self.dropping = false;
                (packet, may_drop) = self.take(now, law, line)?;
                if may_drop {
                    self.dropping = true;
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                }
            }
        } else if may_drop {
            self.begin_dropping(now, law);
            if !(law.ecn && line.mark(&mut packet)) {
                line.discard(packet);
                (packet, _) = self.take(now, law, line)?;
            }
        }
        Some(packet)
    }

    /// Enters the dropping state; soon after the last one, where that one left off.
    fn begin_dropping(&mut self, now: Timestamp, law: &Law) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if delta > 1 && now - self.drop_next < law.interval * 16 { delta } else { 1 };
        self.drop_next = law.next_drop(now, self.count);
        self.last_count = self.count;
    }

    /// `dodequeue` of RFC 8289 §5.6: the next packet, and whether the delay has been above the target for an interval.
    fn take(&mut self, now: Timestamp, law: &Law, line: &mut impl Backlog) -> Option<(Packet, bool)> {
        let Some(packet) = line.pop() else {
            self.first_above = Timestamp::MAX;
            return None;
        };
        if sojourn(now, &packet) < law.target || line.size() <= law.max_packet {
            self.first_above = Timestamp::MAX;
            return Some((packet, false));
        }
        if self.first_above == Timestamp::MAX {
            self.first_above = now + law.interval;
            return Some((packet, false));
        }
        Some((packet, now >= self.first_above))
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::link::queue::tests::{at_micros, packet};

    /// A queue of `packets` that all came at the beginning, and the milliseconds, one departure in each from `from` on, at
    /// which the law signals.
    struct Overdue {
        queue: CoDel,
        drops: Vec<Dropped>,
    }

    impl Overdue {
        fn new(packets: u64, ecn: Ecn) -> Self {
            let limit = Limit::Unlimited;
            let mut queue = CoDel::new(CoDelConfig { limit, ..Default::default() }).unwrap();
            let mut drops = Vec::new();
            (0..packets)
                .for_each(|sequence| queue.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut drops));
            Self { queue, drops }
        }

        fn signals(&mut self, millis: std::ops::Range<u64>) -> Vec<u64> {
            let mut at = Vec::new();
            for milli in millis {
                let before = self.drops.len() as u64 + self.queue.marked;
                self.queue.dequeue(at_micros(1000 * milli), &mut self.drops);
                at.resize(at.len() + (self.drops.len() as u64 + self.queue.marked - before) as usize, milli);
            }
            at
        }

        /// Ends the dropping state: one packet passes below the target.
        fn relieve(&mut self, milli: u64) {
            while self.queue.fifo.pop().is_some() {}
            self.queue.enqueue(at_micros(1000 * milli), packet(0, 0, 1000, Ecn::NotEct), &mut self.drops);
            assert!(self.queue.dequeue(at_micros(1000 * milli), &mut self.drops).is_some());
            assert!(!self.queue.control.dropping);
            for sequence in 0..2000 {
                self.queue.enqueue(
                    at_micros(1000 * milli),
                    packet(0, sequence, 1000, Ecn::NotEct),
                    &mut self.drops,
                );
            }
        }
    }

    // Above the target from 10 ms on. RFC 8289 §5.5 then signals at 10 + 100 = 110 ms, 110 + 100/√1 = 210, + 100/√2 = 280.71,
    // + 100/√3 = 338.45, + 100/√4 = 388.45, + 100/√5 = 433.17, + 100/√6 = 473.99, + 100/√7 = 511.79: rounded up here to the
    // next departure.
    const BY_HAND: [u64; 8] = [110, 210, 281, 339, 389, 434, 474, 512];

    #[test]
    fn drops_follow_interval_over_root_count() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..520), BY_HAND);
        assert!(overdue.drops.iter().all(|drop| drop.reason == DropReason::Aqm));
    }

    #[test]
    fn marks_come_when_drops_would_have_come() {
        let mut overdue = Overdue::new(2000, Ecn::Ect0);
        assert_eq!(overdue.signals(10..520), BY_HAND);
        assert!(overdue.drops.is_empty());
        assert_eq!(overdue.queue.marked(), 8);
    }

    #[test]
    fn a_long_pause_is_made_up_for_in_one_departure() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..111), [110]);
        // All that is due by 400 ms: at 210, 280.7, 338.4 and 388.4 ms.
        assert_eq!(overdue.signals(400..401), [400; 4]);
    }

    #[test]
    fn a_new_dropping_state_begins_where_the_last_one_left_off() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..390).len(), 5);
        assert_eq!((overdue.queue.control.count, overdue.queue.control.last_count), (5, 1));
        overdue.relieve(390);
        // 5 ms later above the target, 100 ms later in the dropping state: with count 5 − 1 = 4, so 100/√4 = 50 ms to the next
        // drop, + 100/√5 = 44.7 after that one.
        assert_eq!(overdue.signals(395..600), [495, 545, 590]);
        // Now 6 − 4 = 2: 100/√2 = 70.7.
        assert_eq!((overdue.queue.control.count, overdue.queue.control.last_count), (6, 4));
        overdue.relieve(600);
        assert_eq!(overdue.signals(605..780), [705, 776]);
        // Now 3 − 2 = 1, which is not above 1: from the beginning.
        overdue.relieve(780);
        assert_eq!(overdue.signals(785..990), [885, 985]);
    }

    #[test]
    fn after_sixteen_intervals_the_last_dropping_state_is_forgotten() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..390).len(), 5);
        // The next drop would have been at 433.17 ms: 16 intervals end at 2033.17 ms.
        let (mut soon, mut late) = (Overdue::new(2000, Ecn::NotEct), overdue);
        assert_eq!(soon.signals(10..390).len(), 5);
        soon.relieve(1928);
        assert_eq!(soon.signals(1933..2090), [2033, 2083]);
        late.relieve(1929);
        assert_eq!(late.signals(1934..2140), [2034, 2134]);
    }

    #[test]
    fn no_more_than_a_packet_behind_is_never_dropped() {
        let mut overdue = Overdue::new(3, Ecn::NotEct);
        // 2000 B behind the first, 1000 B behind the second: the delay counts as below the target.
        assert_eq!(overdue.signals(10..11).len() + overdue.signals(2000..2003).len(), 0);
    }

    #[test]
    fn times_of_nothing_are_refused() {
        let refused = |config| CoDel::new(config).unwrap_err().to_string();
        let config = CoDelConfig { target: TimeDelta::ZERO, ..Default::default() };
        assert_eq!(refused(config), "CoDel: target must be above 0 ns, found 0 ns");
        let config = CoDelConfig { interval: TimeDelta::from_nanos(-1), ..Default::default() };
        assert_eq!(refused(config), "CoDel: interval must be above 0 ns, found -1 ns");
    }
}
