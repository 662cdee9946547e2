//! A link: what goes in comes out later, is dropped with a reason, or is still inside.
//!
//! ```text
//!   offer --> queue --> transmitter --> loss, duplication --> propagation --> arrival
//!             waits     serialisation                         delay, jitter
//! ```
//!
//! The three places are apart: what is being transmitted or on its way does not occupy the queue. Each part is a file:
//! [`queue`], [`rate`], [`loss`], [`delay`].
//!
//! A link owns no clock: the event queue of a simulation drives it, or a real-time emulator.

mod buffer;
pub mod delay;
pub mod loss;
mod on_the_way;
pub mod queue;
pub mod rate;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use rand::RngExt;

use self::{
    buffer::{Buffer, Taken},
    delay::{DelayError, DelayProfile, Jitter, Propagation},
    loss::{Loss, LossProcess, ProbabilityError},
    on_the_way::OnTheWay,
    queue::Queue,
    rate::{RateError, RateProfile, Transmitter},
};
use crate::{
    packet::{BodyId, DropReason, Dropped, LinkId, Packet},
    random,
    trace::{Event, Observer, Waiting},
};

/// What a link is made of, its queue apart.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// How fast it transmits.
    pub rate: RateProfile,
    /// One-way propagation delay.
    pub delay: DelayProfile,
    /// What is added to the delay of each packet.
    pub jitter: Option<Jitter>,
    /// Whether jitter may reorder. By default not: RFC 8868 §4.5, NR-BPDV.
    pub reorder: bool,
    /// What is lost on the wire.
    pub loss: Loss,
    /// The probability that a packet arrives twice, the second time right behind the first.
    pub duplication: f64,
}

impl Default for LinkConfig {
    /// A link that delivers all at once: no limit, no delay, no loss.
    fn default() -> Self {
        Self {
            rate: RateProfile::Unlimited,
            delay: TimeDelta::ZERO.into(),
            jitter: None,
            reorder: false,
            loss: Loss::None,
            duplication: 0.0,
        }
    }
}

/// Why a link cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Its rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// Its delay or jitter.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// A probability.
    #[error(transparent)]
    Probability(#[from] ProbabilityError),
}

/// What went through a link, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Offered to it.
    pub offered_packets: u64,
    /// Came out at the far end.
    pub delivered_packets: u64,
    /// Their size in bytes.
    pub delivered_bytes: u64,
    /// Transmitted, whether or not they were then lost, in bytes.
    pub transmitted_bytes: u64,
    /// Dropped because the queue was full.
    pub overflow_packets: u64,
    /// Dropped by active queue management.
    pub aqm_packets: u64,
    /// Lost on the wire.
    pub lost_packets: u64,
    /// Made by duplication.
    pub duplicated_packets: u64,
    /// Marked by the queue.
    pub marked_packets: u64,
}

impl LinkCounters {
    /// Dropped for whatever reason.
    pub const fn dropped_packets(&self) -> u64 {
        self.overflow_packets + self.aqm_packets + self.lost_packets
    }
}

/// One direction between two nodes.
///
/// Its driver calls [`offer`](Self::offer) with what enters, and [`poll`](Self::poll) when [`next_event`](Self::next_event) has
/// come, until nothing more comes out; then it collects what was dropped ([`poll_dropped`](Self::poll_dropped)).
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    queue: Buffer,
    transmitter: Transmitter,
    /// The rate that the queue was told last; told again only where it may change.
    drain: DataRate,
    rate_changes: bool,
    loss: LossProcess,
    duplication: Option<(f64, random::Random)>,
    propagation: Propagation,
    on_the_way: OnTheWay,
    drops: Vec<Dropped>,
    duplicates: Vec<BodyId>,
    counters: LinkCounters,
}

impl Link {
    /// An empty link. Its chance depends on `seed` and `name`.
    ///
    /// # Errors
    ///
    /// [`LinkError`] says what in `config` cannot be.
    pub fn new(
        id: LinkId,
        config: &LinkConfig,
        queue: Box<dyn Queue>,
        (seed, name): (u64, &str),
    ) -> Result<Self, LinkError> {
        config.loss.check()?;
        loss::probability("duplication", config.duplication)?;
        config.jitter.map_or(Ok(()), Jitter::check)?;
        let stream = |part| random::stream(seed, &format!("link {name}: {part}"));
        let propagation =
            Propagation::new(config.delay.clone(), config.jitter, config.reorder, stream("jitter"));
        let mut link = Self {
            id,
            queue: Buffer::new(queue),
            transmitter: Transmitter::new(&config.rate)?,
            drain: DataRate::ZERO,
            rate_changes: true,
            loss: LossProcess::new(config.loss.clone(), stream("loss")),
            duplication: (config.duplication > 0.0).then(|| (config.duplication, stream("duplication"))),
            on_the_way: OnTheWay::new(propagation.may_reorder()),
            propagation,
            drops: Vec::new(),
            duplicates: Vec::new(),
            counters: LinkCounters::default(),
        };
        link.tell_rate(Timestamp::ZERO);
        link.rate_changes = matches!(config.rate, RateProfile::Steps { .. });
        Ok(link)
    }

    /// What went through so far.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// What waits in the queue.
    pub fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    /// How many packets are being transmitted or on their way.
    pub fn in_flight(&self) -> u64 {
        self.on_the_way.len() as u64
    }

    /// Whether every packet is accounted for: `offered + duplicated = delivered + dropped + waiting + in flight`.
    pub fn is_conserved(&self) -> bool {
        let LinkCounters { offered_packets, duplicated_packets, delivered_packets, .. } = self.counters;
        let inside = self.queue.counted().packets + self.in_flight();
        offered_packets + duplicated_packets == delivered_packets + self.counters.dropped_packets() + inside
    }

    /// `packet` enters now.
    pub fn offer(&mut self, now: Timestamp, packet: Packet, observer: &mut impl Observer) {
        self.counters.offered_packets += 1;
        self.tell_rate(now);
        let dropped = self.drops.len();
        if self.queue.is_empty() && self.is_free(now) {
            let taken = self.queue.pass(now, packet, &mut self.drops);
            self.report_drops(now, dropped, observer);
            if observer.watches() && taken.packet.is_some() {
                let waiting = Waiting { packets: 1, size: packet.size() };
                observer.on_event(now, &Event::Queued { link: self.id, packet, waiting });
            }
            return self.begin(now, taken, TimeDelta::ZERO, observer);
        }
        let mut packet = packet;
        if self.queue.enqueue(now, packet, &mut self.drops) {
            self.counters.marked_packets += 1;
            packet.ecn = Ecn::Ce;
            observer.on_event(now, &Event::Marked { link: self.id, packet });
        }
        self.report_drops(now, dropped, observer);
        if observer.watches() {
            let own =
                |gone: &Dropped| (gone.packet.flow, gone.packet.sequence) == (packet.flow, packet.sequence);
            if !self.drops.get(dropped..).unwrap_or_default().iter().any(own) {
                let event = Event::Queued { link: self.id, packet, waiting: self.waiting() };
                observer.on_event(now, &event);
            }
        }
        self.transmit_what_can(now, observer);
    }

    /// When [`poll`](Self::poll) is wanted next.
    pub fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let mut next = self.on_the_way.next().unwrap_or(Timestamp::MAX);
        if !self.queue.is_empty() {
            next = next.min(self.transmitter.ready_at(now));
        }
        if let Some(timer) = self.queue.next_timer() {
            next = next.min(timer);
        }
        (next < Timestamp::MAX).then_some(next)
    }

    /// The next packet that has reached the far end by `now`.
    pub fn poll(&mut self, now: Timestamp, observer: &mut impl Observer) -> Option<Packet> {
        if self.queue.next_timer().is_some_and(|at| at <= now) {
            self.tell_rate(now);
            self.queue.on_timer(now);
        }
        self.transmit_what_can(now, observer);
        let packet = self.on_the_way.pop_until(now)?;
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += u64::from(packet.bytes);
        debug_assert_eq!(self.queue.waiting(), self.queue.counted());
        debug_assert!(self.is_conserved(), "link {:?} lost count: {self:?}", self.id);
        Some(packet)
    }

    /// One of the packets that were dropped since, in any order.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.drops.pop()
    }

    /// The body of one of the packets that were duplicated since: one more packet carries it.
    pub fn poll_duplicated(&mut self) -> Option<BodyId> {
        self.duplicates.pop()
    }

    /// Tells the queue the rate, if it has changed.
    fn tell_rate(&mut self, now: Timestamp) {
        if !self.rate_changes {
            return;
        }
        let drain = self.transmitter.rate(now).unwrap_or(DataRate::from_bps(u64::MAX));
        if drain != self.drain {
            self.drain = drain;
            self.queue.on_rate(now, drain);
        }
    }

    /// Whether the transmitter may begin now.
    fn is_free(&mut self, now: Timestamp) -> bool {
        self.transmitter.refresh(now);
        self.transmitter.ready_at(now) <= now
    }

    /// Takes packets from the queue while the transmitter is free.
    fn transmit_what_can(&mut self, now: Timestamp, observer: &mut impl Observer) {
        while !self.queue.is_empty() && self.is_free(now) {
            let dropped = self.drops.len();
            let taken = self.queue.dequeue(now, &mut self.drops);
            self.report_drops(now, dropped, observer);
            let sojourn = taken.packet.map(|packet| now.saturating_since(packet.queued));
            self.begin(now, taken, sojourn.unwrap_or_default(), observer);
        }
    }

    /// Begins to transmit what was taken from the queue after `sojourn`, if anything was.
    fn begin(&mut self, now: Timestamp, taken: Taken, sojourn: TimeDelta, observer: &mut impl Observer) {
        let Some(packet) = taken.packet else { return };
        let waited = |packet: &Packet| packet.waited_ns + sojourn.as_nanos().unsigned_abs();
        if taken.marked {
            self.counters.marked_packets += 1;
            observer.on_event(now, &Event::Marked { link: self.id, packet });
        }
        if observer.watches() {
            let packet = Packet { waited_ns: waited(&packet), ..packet };
            let event = Event::Dequeued { link: self.id, packet, sojourn, waiting: self.waiting() };
            observer.on_event(now, &event);
        }
        let transmitted = self.transmitter.transmit(now, packet.bytes);
        self.counters.transmitted_bytes += u64::from(packet.bytes);
        if self.loss.takes_next() {
            self.counters.lost_packets += 1;
            let packet = Packet { waited_ns: waited(&packet), ..packet };
            self.drops.push(Dropped { packet, reason: DropReason::Loss });
            let (reason, waiting) = (DropReason::Loss, self.waiting());
            observer.on_event(now, &Event::Dropped { link: self.id, packet, reason, waiting });
            return;
        }
        let arrival = self.propagation.arrival(transmitted, transmitted - now);
        self.on_the_way.push(arrival, packet, sojourn);
        if let Some((ratio, random)) = &mut self.duplication
            && random.random::<f64>() < *ratio
        {
            self.counters.duplicated_packets += 1;
            self.duplicates.push(packet.body);
            self.on_the_way.push(arrival, packet, sojourn);
            observer.on_event(now, &Event::Duplicated { link: self.id, packet });
        }
    }

    /// Counts and reports what the queue dropped since there were `from` drops.
    fn report_drops(&mut self, now: Timestamp, from: usize, observer: &mut impl Observer) {
        let waiting = self.waiting();
        for &Dropped { packet, reason } in self.drops.get(from..).unwrap_or_default() {
            match reason {
                DropReason::Overflow => self.counters.overflow_packets += 1,
                DropReason::Aqm => self.counters.aqm_packets += 1,
                DropReason::Loss => self.counters.lost_packets += 1,
            }
            observer.on_event(now, &Event::Dropped { link: self.id, packet, reason, waiting });
        }
    }
}

/// What a link of `profile` has carried of what it could have, from the beginning until `end`; `None` where it has no limit.
pub fn utilisation(profile: &RateProfile, counters: &LinkCounters, end: Timestamp) -> Option<f64> {
    let capacity: DataSize = profile.capacity(end)?;
    (capacity > DataSize::ZERO).then(|| counters.transmitted_bytes as f64 / capacity.as_bytes() as f64)
}

#[cfg(test)]
mod tests;
