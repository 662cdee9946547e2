//! `CoDel`, controlled delay (RFC 8289).

use super::{fifo, prelude::*};

giusto_units::defaults! {
    /// Configuration of a [`CoDel`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CoDelConfig {
        /// Acceptable standing queueing delay, above 0. Default: 5 ms (RFC 8289 §5.3).
        pub target: TimeDelta = TimeDelta::from_millis(5),
        /// Time for which the delay may exceed the target before `CoDel` signals congestion, above 0. It should be of the order
        /// of the maximum RTT. Default: 100 ms (RFC 8289 §5.3).
        pub interval: TimeDelta = TimeDelta::from_millis(100),
        /// No signal while at most this much remains queued. Default: 1500 B, the link's MTU (RFC 8289 §5.3 asks for the MTU of
        /// the interface instead of its 512 B).
        pub max_packet: DataSize = DataSize::from_bytes(1500),
        /// Whether to mark ECN-capable packets instead of dropping them. Default: yes.
        pub ecn: bool = true,
        /// Capacity. Default: 1000 packets, as in Linux; RFC 8289 gives none.
        pub limit: Limit = Limit::Packets(1000),
    }
}

/// A FIFO with the control law of RFC 8289 §5.
///
/// The pseudo-code of the RFC only drops. Where it would drop an ECN-capable packet, this marks the packet and transmits it;
/// the state of the control law changes as after a drop.
pub type CoDel = FifoQueue<OneControl>;

/// The law of a [`CoDel`].
#[derive(Debug)]
pub struct OneControl {
    law: Law,
    control: Control,
}

impl Discipline for CoDelConfig {
    discipline!("CoDel", |config, _random| CoDel::new(config));

    fn validate(&self) -> Result<(), QueueError> {
        let Self { target, interval, max_packet, ecn, .. } = *self;
        Law::new(self.name(), Law { target, interval, max_packet, ecn }).map(drop)
    }
}

impl CoDel {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if `target` or `interval` is not above zero.
    pub fn new(config: CoDelConfig) -> Result<Self, QueueError> {
        let CoDelConfig { target, interval, max_packet, ecn, limit } = config;
        let law = Law::new(config.name(), Law { target, interval, max_packet, ecn })?;
        Ok(Self::of(OneControl { law, control: Control::default() }, limit))
    }
}

impl fifo::Law for OneControl {
    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.control.dequeue(now, &self.law, &mut ControlledFifo { fifo, drops })
    }
}

struct ControlledFifo<'a> {
    fifo: &'a mut Fifo,
    drops: &'a mut Vec<Dropped>,
}

impl Backlog for ControlledFifo<'_> {
    type Popped = Packet;

    fn pop(&mut self) -> Option<Packet> {
        self.fifo.pop()
    }

    fn queued(&self, popped: &Packet) -> Timestamp {
        popped.queued
    }

    fn size(&self) -> DataSize {
        self.fifo.size()
    }

    fn mark(&mut self, packet: &mut Packet) -> bool {
        self.fifo.mark(packet)
    }

    fn discard(&mut self, packet: Packet) {
        self.drops.push(Dropped { packet, reason: DropReason::Aqm });
    }
}

// ---- control law, shared with FQ-CoDel --------------------------------------------------------------------------

/// A controlled queue, and the actions on packets removed from it.
pub(super) trait Backlog {
    /// A packet that was removed from the queue: the packet, or its place.
    type Popped;
    fn pop(&mut self) -> Option<Self::Popped>;
    /// Time at which it entered the queue.
    fn queued(&self, popped: &Self::Popped) -> Timestamp;
    /// Total size of all queues that share the transmitter (RFC 8289 §4.4).
    fn size(&self) -> DataSize;
    /// Marks `packet` if it is ECN-capable. Returns whether it carries a mark.
    fn mark(&mut self, popped: &mut Self::Popped) -> bool;
    fn discard(&mut self, popped: Self::Popped);
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

    /// RFC 8289 §5.6: `t + INTERVAL / sqrt(count)`, rounded down to a nanosecond.
    fn next_drop(&self, from: Timestamp, count: u32) -> Timestamp {
        from + TimeDelta::from_nanos((self.interval.as_nanos() as f64 / f64::from(count).sqrt()) as i64)
    }
}

/// The control state of one queue (RFC 8289 §5.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// When the sojourn time will have exceeded the target for an interval; [`Timestamp::MAX`] while it does not exceed it.
    first_above: Timestamp,
    drop_next: Timestamp,
    /// Number of signals in the current dropping state.
    count: u32,
    /// Value of `count` when the current dropping state began.
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
    pub(super) fn dequeue<B: Backlog>(
        &mut self,
        now: Timestamp,
        law: &Law,
        backlog: &mut B,
    ) -> Option<B::Popped> {
        let Some((mut packet, mut may_drop)) = self.take(now, law, backlog) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.ecn && backlog.mark(&mut packet) {
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                    break;
                }
                backlog.discard(packet);
                self.dropping = false;
                (packet, may_drop) = self.take(now, law, backlog)?;
                if may_drop {
                    self.dropping = true;
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                }
            }
        } else if may_drop {
            self.begin_dropping(now, law);
            if !(law.ecn && backlog.mark(&mut packet)) {
                backlog.discard(packet);
                (packet, _) = self.take(now, law, backlog)?;
            }
        }
        Some(packet)
    }

    /// Enters the dropping state. If the previous one ended recently, resumes from its drop rate.
    fn begin_dropping(&mut self, now: Timestamp, law: &Law) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if delta > 1 && now - self.drop_next < law.interval * 16 { delta } else { 1 };
        self.drop_next = law.next_drop(now, self.count);
        self.last_count = self.count;
    }

    /// `dodequeue` of RFC 8289 §5.6: the next packet, and whether the delay has exceeded the target for an interval.
    fn take<B: Backlog>(&mut self, now: Timestamp, law: &Law, backlog: &mut B) -> Option<(B::Popped, bool)> {
        let Some(packet) = backlog.pop() else {
            self.first_above = Timestamp::MAX;
            return None;
        };
        if now.saturating_since(backlog.queued(&packet)) < law.target || backlog.size() <= law.max_packet {
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

    /// A queue of packets that all arrived at time 0; one packet departs per millisecond.
    struct Overdue {
        queue: CoDel,
        drops: Vec<Dropped>,
    }

    impl Overdue {
        fn new(packets: u64, ecn: Ecn) -> Self {
            let limit = Limit::Unlimited;
            let mut queue = CoDel::new(CoDelConfig { limit, ..Default::default() }).unwrap();
            let mut drops = Vec::new();
            for sequence in 0..packets {
                queue.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut drops);
            }
            Self { queue, drops }
        }

        /// The milliseconds at which a drop or mark occurs, out of `millis`.
        fn signals(&mut self, millis: std::ops::Range<u64>) -> Vec<u64> {
            let mut at = Vec::new();
            for milli in millis {
                let before = self.drops.len() as u64 + self.queue.marked();
                self.queue.dequeue(at_micros(1000 * milli), &mut self.drops);
                let signals = self.drops.len() as u64 + self.queue.marked() - before;
                at.extend((0..signals).map(|_| milli));
            }
            at
        }

        /// Ends the dropping state with one packet below the target.
        fn relieve(&mut self, milli: u64) {
            while self.queue.fifo.pop().is_some() {}
            let now = at_micros(1000 * milli);
            for sequence in 0..2001 {
                self.queue.enqueue(now, packet(0, sequence, 1000, Ecn::NotEct), &mut self.drops);
                if sequence == 0 {
                    assert!(self.queue.dequeue(now, &mut self.drops).is_some());
                    assert!(!self.queue.law.control.dropping);
                }
            }
        }
    }

    // The delay exceeds the target from 10 ms on. By RFC 8289 §5.5, signals are due at 10 + 100 = 110 ms, 110 + 100/√1 =
    // 210, + 100/√2 = 280.71, + 100/√3 = 338.45, + 100/√4 = 388.45, + 100/√5 = 433.17, + 100/√6 = 473.99, + 100/√7 = 511.79,
    // rounded up here to the next departure.
    const EXPECTED: [u64; 8] = [110, 210, 281, 339, 389, 434, 474, 512];

    #[test]
    fn drops_or_marks_follow_interval_over_root_count() {
        for (ecn, drops) in [(Ecn::NotEct, 8), (Ecn::Ect0, 0)] {
            let mut overdue = Overdue::new(2000, ecn);
            assert_eq!(overdue.signals(10..520), EXPECTED);
            assert!(overdue.drops.iter().all(|drop| drop.reason == DropReason::Aqm));
            assert_eq!((overdue.drops.len() as u64, overdue.queue.marked()), (drops, 8 - drops));
        }
    }

    #[test]
    fn overdue_drops_occur_at_the_next_departure() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..111), [110]);
        // Four drops are due by 400 ms: at 210, 280.7, 338.4 and 388.4 ms.
        assert_eq!(overdue.signals(400..401), [400; 4]);
    }

    #[test]
    fn a_new_dropping_state_resumes_the_last_drop_rate() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..390).len(), 5);
        assert_eq!((overdue.queue.law.control.count, overdue.queue.law.control.last_count), (5, 1));
        overdue.relieve(390);
        // The delay exceeds the target 5 ms later, and the dropping state begins 100 ms after that with count 5 − 1 = 4: the
        // next drops follow after 100/√4 = 50 ms and 100/√5 = 44.7 ms.
        assert_eq!(overdue.signals(395..600), [495, 545, 590]);
        // Now the count is 6 − 4 = 2: 100/√2 = 70.7 ms.
        assert_eq!((overdue.queue.law.control.count, overdue.queue.law.control.last_count), (6, 4));
        overdue.relieve(600);
        assert_eq!(overdue.signals(605..780), [705, 776]);
        // Now 3 − 2 = 1 is not above 1, so the count restarts at 1.
        overdue.relieve(780);
        assert_eq!(overdue.signals(785..990), [885, 985]);
    }

    #[test]
    fn the_drop_rate_is_reset_after_16_intervals() {
        let mut overdue = Overdue::new(2000, Ecn::NotEct);
        assert_eq!(overdue.signals(10..390).len(), 5);
        // The next drop was due at 433.17 ms, so 16 intervals end at 2033.17 ms.
        let (mut soon, mut late) = (Overdue::new(2000, Ecn::NotEct), overdue);
        assert_eq!(soon.signals(10..390).len(), 5);
        soon.relieve(1928);
        assert_eq!(soon.signals(1933..2090), [2033, 2083]);
        late.relieve(1929);
        assert_eq!(late.signals(1934..2140), [2034, 2134]);
    }

    #[test]
    fn does_not_drop_while_one_packet_remains() {
        let mut overdue = Overdue::new(3, Ecn::NotEct);
        // 2000 B remain after the first packet and 1000 B after the second: the delay counts as below the target.
        assert_eq!(overdue.signals(10..11).len() + overdue.signals(2000..2003).len(), 0);
    }
}
