//! The simulator's links between real packets: what goes in at a time comes out at another.

use std::collections::VecDeque;

use giusto_sim::{
    link::Link,
    packet::{BodyId, DropReason, FlowId, LinkId, Packet},
    trace::{Backlog, Event, Observer},
};
use giusto_units::{DataSize, Ecn, Timestamp};

/// The maximum number of routes: observers know a packet by its route, which is part of its [`FlowId`].
pub const MAX_ROUTES: usize = 256;

/// The bits of a flow's number below its route.
const FLOW_BITS: u32 = 24;

/// A packet at the start of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<T> {
    /// Its route, by its index.
    pub route: usize,
    /// Size on the wire in bytes, IP header included.
    pub bytes: u32,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// A number of its five-tuple, by which queue disciplines tell flows apart. 24 bits of it are used.
    pub flow: u32,
    /// What the driver has to remember of it.
    pub tag: T,
}

/// A packet at the end of its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The time at which it left the last link.
    pub due: Timestamp,
    /// Its route, by its index.
    pub route: usize,
    /// ECN codepoint: CE if a queue marked it.
    pub ecn: Ecn,
    /// Not 0 if a link corrupts it: a random number that selects the bit to change. The content is intact still, because the
    /// caller knows where its headers end.
    pub corruption: u32,
    /// The tag of its [`Arrival`].
    pub tag: T,
    /// Its content. [`Emulator::recycle`] takes the buffer back.
    pub bytes: Vec<u8>,
}

/// Counts of an emulator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmulatorCounters {
    /// Packets offered to the first link of their route, or delivered at once on a route without links.
    pub accepted_packets: u64,
    /// Packets that came out, copies included.
    pub delivered_packets: u64,
    /// Packets refused, because as much as the configured memory was inside.
    pub refused_packets: u64,
    /// Packets whose time of arrival was before that of an earlier event. They arrive at the time of that event.
    pub clamped_packets: u64,
    /// Events of the links.
    pub events: u64,
}

/// A route over a link that does not exist, or too many routes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// A route over a link that is not there.
    #[error("route {route}: link {link} does not exist: there are {links} links")]
    UnknownLink {
        /// The route, by its index.
        route: usize,
        /// The link, by its index.
        link: u32,
        /// The number of links.
        links: usize,
    },
    /// Too many routes.
    #[error("at most {MAX_ROUTES} routes are possible, found {found}")]
    TooManyRoutes {
        /// The number of routes.
        found: usize,
    },
}

/// Drives [`Link`]s with the times of real packets. It has no clock: the caller gives the times, and may be late.
///
/// Each event of a link happens at its own time, however late [`advance`](Self::advance) is called. So the links do the same as in
/// a simulation in which the packets arrive at the same times, and only the caller's sending is late.
///
/// Packets on routes without links are delivered at once.
///
/// # Example
///
/// ```
/// use giusto_net::emulate::{Arrival, Emulator};
/// use giusto_sim::{
///     link::{Link, LinkConfig, queue::{DropTail, Limit}, rate::RateProfile},
///     packet::LinkId,
/// };
/// use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
///
/// let config = LinkConfig {
///     rate: RateProfile::Fixed(DataRate::from_bps(8_000_000)),
///     delay: TimeDelta::from_millis(20).into(),
///     ..LinkConfig::default()
/// };
/// let queue = Box::new(DropTail::new(Limit::Packets(10)));
/// let link = Link::new(LinkId(0), &config, queue, 1, "link")?;
/// let mut emulator = Emulator::new(vec![link], vec![vec![LinkId(0)]], DataSize::from_bytes(1_000_000))?;
///
/// let packet = Arrival { route: 0, bytes: 1000, ecn: Ecn::NotEct, flow: 7, tag: () };
/// assert!(emulator.offer(Timestamp::ZERO, packet, b"content", &mut ()));
/// // 1 ms of transmission and 20 ms of propagation.
/// let due = Timestamp::ZERO + TimeDelta::from_millis(21);
/// assert_eq!(emulator.next_event(), Some(due));
/// // The caller is late.
/// emulator.advance(due + TimeDelta::from_millis(1), &mut ());
/// let delivery = emulator.poll_delivery().expect("it has arrived");
/// assert_eq!((delivery.due, &delivery.bytes[..]), (due, &b"content"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Emulator<T> {
    links: Vec<Armed>,
    routes: Vec<Route>,
    bodies: Bodies<T>,
    arrived: VecDeque<Delivery<T>>,
    now: Timestamp,
    memory: DataSize,
    counters: EmulatorCounters,
}

/// A link and the time of its next event.
#[derive(Debug)]
struct Armed {
    link: Link,
    at: Option<Timestamp>,
}

/// The links of a route, and the number of packets that have entered it.
#[derive(Debug)]
struct Route {
    links: Vec<LinkId>,
    entered: u64,
}

impl<T: Copy> Emulator<T> {
    /// An emulator of `links`, each with its index as its id. `routes` name links by their indices; `memory` limits the content of
    /// all packets inside.
    ///
    /// # Errors
    ///
    /// [`EmulatorError`] names the route.
    pub fn new(links: Vec<Link>, routes: Vec<Vec<LinkId>>, memory: DataSize) -> Result<Self, EmulatorError> {
        if routes.len() > MAX_ROUTES {
            return Err(EmulatorError::TooManyRoutes { found: routes.len() });
        }
        for (route, path) in routes.iter().enumerate() {
            if let Some(unknown) = path.iter().find(|link| link.0 as usize >= links.len()) {
                return Err(EmulatorError::UnknownLink { route, link: unknown.0, links: links.len() });
            }
        }
        let armed = |link: Link| Armed { at: link.next_event(Timestamp::ZERO), link };
        Ok(Self {
            links: links.into_iter().map(armed).collect(),
            routes: routes.into_iter().map(|links| Route { links, entered: 0 }).collect(),
            bodies: Bodies::default(),
            arrived: VecDeque::new(),
            now: Timestamp::ZERO,
            memory,
            counters: EmulatorCounters::default(),
        })
    }

    /// Puts a packet onto its route at `at`, with its content. Returns whether it was accepted; what the links do with it later is
    /// another matter.
    ///
    /// Times that run backwards are counted, and the packet arrives at the time of the latest event.
    pub fn offer(
        &mut self,
        at: Timestamp,
        arrival: Arrival<T>,
        content: &[u8],
        observer: &mut impl Observer,
    ) -> bool {
        self.advance(at, observer);
        self.counters.clamped_packets += u64::from(at < self.now);
        let now = self.now;
        let fits = self.bodies.held + content.len() as u64 <= self.memory.as_bytes();
        let Some(route) = self.routes.get_mut(arrival.route).filter(|_| fits) else {
            self.counters.refused_packets += 1;
            return false;
        };
        let body = self.bodies.keep(content, arrival);
        let packet = Packet {
            flow: flow_id(arrival.route, arrival.flow),
            bytes: arrival.bytes,
            sequence: route.entered,
            sent: now,
            queued: now,
            queue_delay_ns: 0,
            body,
            hop: 0,
            ecn: arrival.ecn,
            corruption: 0,
        };
        route.entered += 1;
        self.counters.accepted_packets += 1;
        let observer = &mut ByRoute(observer);
        observer.on_event(now, &Event::Sent { packet });
        self.forward(packet, observer);
        true
    }

    /// Delivers a packet at `at`, without the links and unseen by observers.
    pub fn pass(&mut self, at: Timestamp, arrival: Arrival<T>, content: &[u8]) {
        let mut bytes = self.bodies.buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(content);
        let Arrival { route, ecn, tag, .. } = arrival;
        self.arrived.push_back(Delivery { due: at, route, ecn, tag, bytes, corruption: 0 });
    }

    /// Processes all events up to and including `now`.
    pub fn advance(&mut self, now: Timestamp, observer: &mut impl Observer) {
        let observer = &mut ByRoute(observer);
        while let Some((at, place)) = self.earliest().filter(|&(at, _)| at <= now) {
            self.now = self.now.max(at);
            self.counters.events += 1;
            self.wake(place, observer);
        }
        self.now = self.now.max(now);
    }

    /// The time of the next event; `None` if there is none before a further packet. Times in the past are due now.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.earliest().map(|(at, _)| at)
    }

    /// Returns the next packet that has reached the end of its route, in the order of their times.
    pub fn poll_delivery(&mut self) -> Option<Delivery<T>> {
        self.arrived.pop_front()
    }

    /// Takes back the buffer of a delivery, to be used again.
    pub fn recycle(&mut self, delivery: Delivery<T>) {
        self.bodies.recycle(delivery.bytes);
    }

    /// The time of the latest event.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// A link, by its index.
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.0 as usize).map(|armed| &armed.link)
    }

    /// The links, in order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = &Link> {
        self.links.iter().map(|armed| &armed.link)
    }

    /// Counts since the start.
    pub const fn counters(&self) -> EmulatorCounters {
        self.counters
    }

    /// Packets inside: in a queue, in transmission, in propagation, or delivered and not yet polled. Copies count.
    pub fn inside(&self) -> u64 {
        let links = self.links.iter().map(|armed| armed.link.in_flight() + armed.link.backlog().packets);
        links.sum::<u64>() + self.arrived.len() as u64
    }

    fn earliest(&self) -> Option<(Timestamp, usize)> {
        let armed = self.links.iter().enumerate();
        armed.filter_map(|(place, armed)| Some((armed.at?, place))).min()
    }

    fn wake(&mut self, place: usize, observer: &mut ByRoute<'_, impl Observer>) {
        loop {
            let Some(armed) = self.links.get_mut(place) else { return };
            let arrived = armed.link.poll(self.now, observer);
            self.bodies.copy(&mut armed.link);
            let Some(packet) = arrived else { break };
            self.forward(packet, observer);
        }
        self.settle(place);
    }

    /// Passes `packet` to the next link of its route, or delivers it.
    fn forward(&mut self, packet: Packet, observer: &mut ByRoute<'_, impl Observer>) {
        let route = route_of(packet.flow);
        let next = self.routes.get(route).and_then(|route| route.links.get(usize::from(packet.hop)));
        if let Some(&LinkId(place)) = next {
            if let Some(armed) = self.links.get_mut(place as usize) {
                armed.link.offer(self.now, packet, observer);
                self.settle(place as usize);
            }
            return;
        }
        if packet.corruption == 0 {
            observer.on_event(self.now, &Event::Delivered { packet });
        } else {
            // As in a simulation, where its receiver discards it. Here the receiver sees to it itself.
            let links = self.routes.get(route).map(|route| route.links.as_slice()).unwrap_or_default();
            let (link, reason) = (links.last().copied().unwrap_or_default(), DropReason::Corruption);
            observer
                .on_event(self.now, &Event::Dropped { link, packet, reason, backlog: Backlog::default() });
        }
        if let Some((bytes, tag)) = self.bodies.release(packet.body) {
            self.counters.delivered_packets += 1;
            let Packet { ecn, corruption, .. } = packet;
            self.arrived.push_back(Delivery { due: self.now, route, ecn, corruption, tag, bytes });
        }
    }

    /// Releases what a link dropped, and notes the time of its next event.
    fn settle(&mut self, place: usize) {
        let Some(armed) = self.links.get_mut(place) else { return };
        self.bodies.copy(&mut armed.link);
        while let Some(dropped) = armed.link.poll_dropped() {
            if let Some((bytes, _)) = self.bodies.release(dropped.packet.body) {
                self.bodies.recycle(bytes);
            }
        }
        armed.at = armed.link.next_event(self.now);
    }
}

/// The route in the high bits, so that observers find it, and the five-tuple's number in the low ones.
fn flow_id(route: usize, flow: u32) -> FlowId {
    FlowId((route as u32) << FLOW_BITS | flow & ((1 << FLOW_BITS) - 1))
}

fn route_of(flow: FlowId) -> usize {
    (flow.0 >> FLOW_BITS) as usize
}

/// Shows each packet as one of the flow with the number of its route.
struct ByRoute<'a, O>(&'a mut O);

impl<O: Observer> Observer for ByRoute<'_, O> {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        if self.0.watches() {
            let mut event = *event;
            let packet = event.packet_mut();
            packet.flow = FlowId(route_of(packet.flow) as u32);
            self.0.on_event(now, &event);
        }
    }

    fn watches(&self) -> bool {
        self.0.watches()
    }
}

/// The contents of the packets inside.
#[derive(Debug)]
struct Bodies<T> {
    kept: Vec<Option<Kept<T>>>,
    free: Vec<u32>,
    /// Buffers to be used again.
    buffers: Vec<Vec<u8>>,
    /// Bytes of all contents.
    held: u64,
}

#[derive(Debug)]
struct Kept<T> {
    bytes: Vec<u8>,
    tag: T,
    /// Number of packets that refer to it.
    copies: u32,
}

impl<T> Default for Bodies<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), free: Vec::new(), buffers: Vec::new(), held: 0 }
    }
}

impl<T: Copy> Bodies<T> {
    /// Buffers kept for later use; more are freed.
    const MAX_BUFFERS: usize = 4096;

    fn keep(&mut self, content: &[u8], arrival: Arrival<T>) -> BodyId {
        let mut bytes = self.buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(content);
        self.held += bytes.len() as u64;
        let kept = Some(Kept { bytes, tag: arrival.tag, copies: 1 });
        if let Some(place) = self.free.pop() {
            if let Some(free) = self.kept.get_mut(place as usize) {
                *free = kept;
            }
            return BodyId(place);
        }
        self.kept.push(kept);
        BodyId(self.kept.len() as u32 - 1)
    }

    /// Counts the packets that `link` has duplicated.
    fn copy(&mut self, link: &mut Link) {
        while let Some(id) = link.poll_duplicated() {
            if let Some(Some(kept)) = self.kept.get_mut(id.0 as usize) {
                kept.copies += 1;
            }
        }
    }

    /// The content of a packet that has left.
    fn release(&mut self, id: BodyId) -> Option<(Vec<u8>, T)> {
        let slot = self.kept.get_mut(id.0 as usize)?;
        let kept = slot.as_mut()?;
        kept.copies -= 1;
        if kept.copies > 0 {
            return Some((kept.bytes.clone(), kept.tag));
        }
        let kept = slot.take()?;
        self.free.push(id.0);
        self.held -= kept.bytes.len() as u64;
        Some((kept.bytes, kept.tag))
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.buffers.len() < Self::MAX_BUFFERS {
            self.buffers.push(bytes);
        }
    }
}

#[cfg(test)]
#[path = "emulator_tests.rs"]
mod tests;
