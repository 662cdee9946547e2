//! A unidirectional link: queue, transmitter, loss, and propagation.
//!
//! ```text
//!   offer --> queue --> transmitter --> loss, corruption, duplication --> propagation --> arrival
//!             queueing  serialisation                         delay, jitter
//! ```
//!
//! Queueing, serialisation and propagation are separate: a packet in transmission or propagation does not
//! occupy the queue. The modules are [`queue`], [`rate`], [`loss`] and [`delay`]. Every packet that enters is
//! delivered, dropped with a reason, or still on the link.
//!
//! A link has no clock. A simulation's event queue or a real-time emulator drives it.

mod buffer;
pub mod delay;
mod in_flight;
pub mod loss;
pub mod queue;
pub mod rate;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use rand::RngExt;

use self::{
    buffer::Buffer,
    delay::{DelayError, DelayProfile, Jitter, Propagation},
    in_flight::InFlight,
    loss::{Loss, LossError, LossProcess, ProbabilityError},
    queue::Queue,
    rate::{RateError, RateProfile, Transmitter},
};
use crate::{
    packet::{BodyId, DropReason, Dropped, LinkId, Packet},
    random,
    trace::{Backlog, Event, Observer},
};

giusto_units::defaults! {
    /// Configuration of a link, without its queue.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LinkConfig {
        /// Transmission rate over time. Default: unlimited.
        pub rate: RateProfile = RateProfile::Unlimited,
        /// One-way propagation delay. Default: 0.
        pub delay: DelayProfile = TimeDelta::ZERO.into(),
        /// Random addition to the delay of each packet. Default: none.
        pub jitter: Option<Jitter> = None,
        /// Whether jitter may reorder packets. Default: no (NR-BPDV of RFC 8868 §4.5).
        pub reorder: bool = false,
        /// Loss after transmission. Default: none.
        pub loss: Loss = Loss::None,
        /// Probability that a packet is delivered twice, 0 to 1; the copy follows immediately. Default: 0.
        pub duplication: f64 = 0.0,
        /// Probability that a bit of a packet is changed, 0 to 1. The packet goes on to the end of its route, where the checksum
        /// fails. Default: 0.
        pub corruption: f64 = 0.0,
    }
}

impl LinkConfig {
    /// Checks that every field is within its range.
    ///
    /// # Errors
    ///
    /// [`LinkError`] names the first field that is out of range.
    pub fn validate(&self) -> Result<(), LinkError> {
        self.loss.check()?;
        loss::probability("duplication", self.duplication)?;
        loss::probability("corruption", self.corruption)?;
        self.delay.check()?;
        self.jitter.map_or(Ok(()), Jitter::check)?;
        Ok(self.rate.check()?)
    }
}

/// An invalid link configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Invalid rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// Invalid delay or jitter.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// Invalid loss.
    #[error(transparent)]
    Loss(#[from] LossError),
    /// Invalid probability of corruption or duplication.
    #[error(transparent)]
    Probability(#[from] ProbabilityError),
}

/// Counters of a link since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets offered to the link.
    pub offered_packets: u64,
    /// Packets delivered at the far end, duplicates included.
    pub delivered_packets: u64,
    /// Bytes delivered at the far end, duplicates included.
    pub delivered_bytes: u64,
    /// Bytes transmitted, including those of packets that were then lost.
    pub transmitted_bytes: u64,
    /// Packets dropped by a full queue or a policer.
    pub overflow_packets: u64,
    /// Packets dropped by active queue management.
    pub aqm_packets: u64,
    /// Packets lost after transmission.
    pub lost_packets: u64,
    /// Copies created by duplication.
    pub duplicated_packets: u64,
    /// Packets whose content was changed here. They are delivered at the far end.
    pub corrupted_packets: u64,
    /// Packets marked by the queue.
    pub marked_packets: u64,
}

impl LinkCounters {
    /// What was counted since the counters were `before`.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            offered_packets: self.offered_packets - before.offered_packets,
            delivered_packets: self.delivered_packets - before.delivered_packets,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
            transmitted_bytes: self.transmitted_bytes - before.transmitted_bytes,
            overflow_packets: self.overflow_packets - before.overflow_packets,
            aqm_packets: self.aqm_packets - before.aqm_packets,
            lost_packets: self.lost_packets - before.lost_packets,
            duplicated_packets: self.duplicated_packets - before.duplicated_packets,
            corrupted_packets: self.corrupted_packets - before.corrupted_packets,
            marked_packets: self.marked_packets - before.marked_packets,
        }
    }

    /// Packets dropped for any reason, losses included.
    pub const fn dropped_packets(&self) -> u64 {
        self.overflow_packets + self.aqm_packets + self.lost_packets
    }
}

/// A unidirectional link between two nodes.
///
/// The driver calls [`offer`](Self::offer) for each packet that enters the link, and [`poll`](Self::poll) at the time of
/// [`next_event`](Self::next_event) until it returns `None`. Then it collects the dropped packets with
/// [`poll_dropped`](Self::poll_dropped).
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    queue: Buffer,
    transmitter: Transmitter,
    /// The rate last passed to the queue.
    drain: DataRate,
    rate_changes: bool,
    loss: LossProcess,
    duplication: Option<(f64, random::Random)>,
    corruption: Option<(f64, random::Random)>,
    propagation: Propagation,
    in_flight: InFlight,
    /// Whether a medium transmits the packets, and the number of those that it has taken and not released.
    on_medium: bool,
    held: u64,
    drops: Vec<Dropped>,
    duplicates: Vec<BodyId>,
    counters: LinkCounters,
}

impl Link {
    /// Creates an empty link. `seed` and `name` select its random streams.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if a field of `config` is invalid.
    pub fn new(
        id: LinkId,
        config: &LinkConfig,
        queue: Box<dyn Queue>,
        seed: u64,
        name: &str,
    ) -> Result<Self, LinkError> {
        config.validate()?;
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
            corruption: (config.corruption > 0.0).then(|| (config.corruption, stream("corruption"))),
            in_flight: InFlight::new(propagation.may_reorder()),
            propagation,
            on_medium: false,
            held: 0,
            drops: Vec::new(),
            duplicates: Vec::new(),
            counters: LinkCounters::default(),
        };
        link.update_drain_rate(Timestamp::ZERO);
        link.rate_changes = matches!(config.rate, RateProfile::Steps { .. });
        Ok(link)
    }

    /// Counters since the start.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Packets and bytes in the queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Number of packets in transmission or propagation.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.len() as u64 + self.held
    }

    /// Whether every packet is accounted for: `offered + duplicated = delivered + dropped + queued + in flight`.
    pub fn is_conserved(&self) -> bool {
        let LinkCounters { offered_packets, duplicated_packets, delivered_packets, .. } = self.counters;
        let inside = self.queue.counted().packets + self.in_flight();
        offered_packets + duplicated_packets == delivered_packets + self.counters.dropped_packets() + inside
    }

    /// Accepts `packet` at the near end.
    pub fn offer(&mut self, now: Timestamp, mut packet: Packet, observer: &mut impl Observer) {
        self.accept(now, &mut packet, observer);
    }

    /// As [`offer`](Self::offer), without moving the packet, which afterwards has no meaning.
    #[expect(clippy::inline_always, reason = "one call less for each packet and link")]
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Timestamp, packet: &mut Packet, observer: &mut impl Observer) {
        self.counters.offered_packets += 1;
        self.update_drain_rate(now);
        if !self.queue.is_empty() || self.on_medium || !self.is_free(now) {
            return self.enqueue(now, *packet, observer);
        }
        let (offered, dropped) = (observer.watches_queues().then_some(*packet), self.drops.len());
        let passed = self.queue.pass(now, packet, &mut self.drops);
        self.report_drops(now, dropped, observer);
        let Some(marked) = passed else { return };
        if let Some(packet) = offered {
            let backlog = Backlog { packets: 1, size: packet.size() };
            observer.on_event(now, &Event::Queued { link: self.id, packet, backlog });
        }
        self.start_transmission(now, packet, marked, TimeDelta::ZERO, observer);
    }

    /// Accepts `packet` while it cannot be transmitted at once.
    #[inline(never)]
    fn enqueue(&mut self, now: Timestamp, mut packet: Packet, observer: &mut impl Observer) {
        let dropped = self.drops.len();
        if self.queue.enqueue(now, packet, &mut self.drops) {
            self.counters.marked_packets += 1;
            packet.ecn = Ecn::Ce;
            observer.on_event(now, &Event::Marked { link: self.id, packet });
        }
        self.report_drops(now, dropped, observer);
        if observer.watches_queues() {
            let is_same =
                |drop: &Dropped| (drop.packet.flow, drop.packet.sequence) == (packet.flow, packet.sequence);
            if !self.drops.get(dropped..).unwrap_or_default().iter().any(is_same) {
                let event = Event::Queued { link: self.id, packet, backlog: self.backlog() };
                observer.on_event(now, &event);
            }
        }
        if self.can_transmit(now) {
            self.transmit_ready(now, observer);
        }
    }

    /// Time of the next [`poll`](Self::poll) call; `None` if the link is empty and has no timer.
    #[inline]
    pub fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let next = self.next_deadline(now);
        (next < Timestamp::MAX).then_some(next)
    }

    /// As [`next_event`](Self::next_event); [`Timestamp::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_deadline(&self, now: Timestamp) -> Timestamp {
        let mut next = self.in_flight.next();
        if !self.queue.is_empty() && !self.on_medium {
            next = next.min(self.transmitter.ready_at(now));
        }
        if let Some(timer) = self.queue.next_timer() {
            next = next.min(timer);
        }
        next
    }

    /// Returns the next packet that has reached the far end by `now`.
    pub fn poll(&mut self, now: Timestamp, observer: &mut impl Observer) -> Option<Packet> {
        self.advance(now, observer);
        let mut packet = Packet::default();
        self.poll_arrival(now, &mut packet).then_some(packet)
    }

    /// Runs the timer of the queue if it is due, and transmits if the transmitter is free.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp, observer: &mut impl Observer) {
        if self.queue.next_timer().is_some_and(|at| at <= now) {
            self.run_queue_timer(now);
        }
        if self.can_transmit(now) {
            self.transmit_ready(now, observer);
        }
    }

    #[inline(never)]
    fn run_queue_timer(&mut self, now: Timestamp) {
        self.update_drain_rate(now);
        self.queue.on_timer(now);
    }

    /// As [`poll`](Self::poll), once the link has [advanced](Self::advance) to `now`. Copies the packet to `packet`, and returns
    /// whether there was one.
    #[inline]
    pub(crate) fn poll_arrival(&mut self, now: Timestamp, packet: &mut Packet) -> bool {
        if !self.in_flight.pop_until(now, packet) {
            return false;
        }
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += u64::from(packet.bytes);
        debug_assert_eq!(self.queue.backlog(), self.queue.counted());
        debug_assert!(self.is_conserved(), "link {:?} does not conserve packets: {self:?}", self.id);
        true
    }

    /// Leaves the transmission of packets to a medium, which takes and releases them. The rate is from now on only the one by which
    /// queues measure time.
    pub(crate) fn join_medium(&mut self) {
        self.on_medium = true;
    }

    /// Whether no packet is queued.
    pub(crate) fn queue_is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a medium transmits its packets.
    pub(crate) fn is_on_medium(&self) -> bool {
        self.on_medium
    }

    /// Takes the next packet for transmission by the medium, with its queueing delay.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        observer: &mut impl Observer,
    ) -> Option<(Packet, TimeDelta)> {
        while !self.queue.is_empty() {
            let dropped = self.drops.len();
            let dequeued = self.queue.dequeue(now, &mut self.drops);
            self.report_drops(now, dropped, observer);
            let Some(packet) = dequeued else { continue };
            let marked = self.queue.marks(&packet);
            let sojourn = now.saturating_since(packet.queued);
            self.report_dequeued(now, &packet, marked, sojourn, observer);
            self.held += 1;
            return Some((packet, sojourn));
        }
        None
    }

    /// Ends the transmission of a packet that the medium has taken: it goes on to loss and propagation if it was `received`, and
    /// is lost otherwise.
    pub(crate) fn release(
        &mut self,
        now: Timestamp,
        packet: Packet,
        sojourn: TimeDelta,
        received: bool,
        observer: &mut impl Observer,
    ) {
        self.held = self.held.saturating_sub(1);
        self.counters.transmitted_bytes += u64::from(packet.bytes);
        if received {
            self.propagate(now, now, &mut { packet }, sojourn, observer);
        } else {
            self.lose(now, packet, sojourn, observer);
        }
    }

    /// Returns one of the packets dropped since the last call, in any order.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.drops.pop()
    }

    /// Returns the body of one of the packets duplicated since the last call. One more packet now refers to it.
    pub fn poll_duplicated(&mut self) -> Option<BodyId> {
        self.duplicates.pop()
    }

    /// Passes the rate to the queue if it has changed.
    #[inline]
    fn update_drain_rate(&mut self, now: Timestamp) {
        if self.rate_changes {
            self.pass_drain_rate(now);
        }
    }

    #[inline(never)]
    fn pass_drain_rate(&mut self, now: Timestamp) {
        let drain = self.transmitter.rate(now).unwrap_or(DataRate::from_bps(u64::MAX));
        if drain != self.drain {
            self.drain = drain;
            self.queue.on_rate(now, drain);
        }
    }

    /// Whether packets were dropped or duplicated since the last [`poll_dropped`](Self::poll_dropped) and
    /// [`poll_duplicated`](Self::poll_duplicated).
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.drops.is_empty() || !self.duplicates.is_empty()
    }

    /// Whether the transmitter can start a packet now.
    #[inline]
    fn is_free(&mut self, now: Timestamp) -> bool {
        self.transmitter.skip_unused_opportunities(now);
        self.transmitter.ready_at(now) <= now
    }

    /// Whether it can start a queued packet now.
    #[inline]
    fn can_transmit(&mut self, now: Timestamp) -> bool {
        !self.queue.is_empty() && !self.on_medium && self.is_free(now)
    }

    /// Dequeues and transmits packets while it [can](Self::can_transmit).
    #[inline(never)]
    fn transmit_ready(&mut self, now: Timestamp, observer: &mut impl Observer) {
        while self.can_transmit(now) {
            let dropped = self.drops.len();
            let mut dequeued = self.queue.dequeue(now, &mut self.drops);
            self.report_drops(now, dropped, observer);
            if let Some(packet) = &mut dequeued {
                let marked = self.queue.marks(packet);
                let sojourn = now.saturating_since(packet.queued);
                self.start_transmission(now, packet, marked, sojourn, observer);
            }
        }
    }

    /// Transmits a dequeued packet, which the queue may just have marked, after a queueing delay of `sojourn`.
    #[expect(clippy::inline_always, reason = "one call less for each packet and link")]
    #[inline(always)]
    fn start_transmission(
        &mut self,
        now: Timestamp,
        packet: &mut Packet,
        marked: bool,
        sojourn: TimeDelta,
        observer: &mut impl Observer,
    ) {
        self.report_dequeued(now, packet, marked, sojourn, observer);
        let transmitted = self.transmitter.transmit(now, packet.bytes);
        self.counters.transmitted_bytes += u64::from(packet.bytes);
        self.propagate(now, transmitted, packet, sojourn, observer);
    }

    /// Counts and reports a packet that left the queue.
    #[expect(clippy::inline_always, reason = "one call less for each packet and link")]
    #[inline(always)]
    fn report_dequeued(
        &mut self,
        now: Timestamp,
        packet: &Packet,
        marked: bool,
        sojourn: TimeDelta,
        observer: &mut impl Observer,
    ) {
        if marked {
            self.counters.marked_packets += 1;
            observer.on_event(now, &Event::Marked { link: self.id, packet: *packet });
        }
        if observer.watches() {
            let packet = delayed(*packet, sojourn);
            let event = Event::Dequeued { link: self.id, packet, sojourn, backlog: self.backlog() };
            observer.on_event(now, &event);
        }
    }

    /// Counts and reports a packet that was lost after it left the queue.
    #[inline(never)]
    fn lose(&mut self, now: Timestamp, packet: Packet, sojourn: TimeDelta, observer: &mut impl Observer) {
        self.counters.lost_packets += 1;
        let packet = delayed(packet, sojourn);
        self.drops.push(Dropped { packet, reason: DropReason::Loss });
        let (reason, backlog) = (DropReason::Loss, self.backlog());
        observer.on_event(now, &Event::Dropped { link: self.id, packet, reason, backlog });
    }

    /// Loses the packet, or puts it on its way to the far end. Its transmission begins at `now` and ends at `transmitted`.
    #[expect(clippy::inline_always, reason = "one call less for each packet and link")]
    #[inline(always)]
    fn propagate(
        &mut self,
        now: Timestamp,
        transmitted: Timestamp,
        packet: &mut Packet,
        sojourn: TimeDelta,
        observer: &mut impl Observer,
    ) {
        if self.loss.is_next_lost(transmitted) {
            return self.lose(now, *packet, sojourn, observer);
        }
        if self.corruption.is_some() {
            self.corrupt(packet);
        }
        let arrival = self.propagation.arrival(transmitted, transmitted - now);
        self.in_flight.push(arrival, packet, sojourn);
        if self.duplication.is_some() {
            self.duplicate(now, arrival, packet, sojourn, observer);
        }
    }

    /// Changes a bit of the packet, perhaps.
    #[inline(never)]
    fn corrupt(&mut self, packet: &mut Packet) {
        let Some((ratio, random)) = &mut self.corruption else { return };
        if random.random::<f64>() < *ratio {
            self.counters.corrupted_packets += 1;
            let bit = random.random::<u32>().max(1);
            if packet.corruption == 0 {
                packet.corruption = bit;
            }
        }
    }

    /// Delivers the packet twice, perhaps.
    #[inline(never)]
    fn duplicate(
        &mut self,
        now: Timestamp,
        arrival: Timestamp,
        packet: &Packet,
        sojourn: TimeDelta,
        observer: &mut impl Observer,
    ) {
        let Some((ratio, random)) = &mut self.duplication else { return };
        if random.random::<f64>() < *ratio {
            self.counters.duplicated_packets += 1;
            self.duplicates.push(packet.body);
            self.in_flight.push(arrival, packet, sojourn);
            observer.on_event(now, &Event::Duplicated { link: self.id, packet: *packet });
        }
    }

    /// Counts and reports the drops from index `from` on.
    #[inline]
    fn report_drops(&mut self, now: Timestamp, from: usize, observer: &mut impl Observer) {
        if self.drops.len() > from {
            self.report_drops_from(now, from, observer);
        }
    }

    #[inline(never)]
    fn report_drops_from(&mut self, now: Timestamp, from: usize, observer: &mut impl Observer) {
        let backlog = self.backlog();
        for &Dropped { packet, reason } in self.drops.get(from..).unwrap_or_default() {
            match reason {
                DropReason::Overflow => self.counters.overflow_packets += 1,
                DropReason::Aqm => self.counters.aqm_packets += 1,
                DropReason::Loss => self.counters.lost_packets += 1,
                // Queues see intact packets and corrupted ones alike.
                DropReason::Corruption => {}
            }
            observer.on_event(now, &Event::Dropped { link: self.id, packet, reason, backlog });
        }
    }
}

/// The packet with a queueing delay of `sojourn` more.
fn delayed(packet: Packet, sojourn: TimeDelta) -> Packet {
    Packet { queue_delay_ns: packet.queue_delay_ns + sojourn.as_nanos().unsigned_abs(), ..packet }
}

/// Utilisation of a link with rate `profile` from the start until `end`: bytes transmitted divided by capacity. `None` if
/// the capacity is zero or unlimited.
pub fn utilisation(profile: &RateProfile, counters: &LinkCounters, end: Timestamp) -> Option<f64> {
    let capacity: DataSize = profile.capacity(end)?;
    (capacity > DataSize::ZERO).then(|| counters.transmitted_bytes as f64 / capacity.as_bytes() as f64)
}

#[cfg(test)]
mod tests;
