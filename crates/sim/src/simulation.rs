//! A simulation run: agents send packets, links transport them, and time advances from event to event.

mod bodies;

use std::{collections::BTreeMap, ops::ControlFlow};

use giusto_units::{TimeDelta, Timestamp};

use self::bodies::Bodies;
use crate::{
    engine::EventQueue,
    link::{Link, LinkConfig, LinkCounters, LinkError, queue::Queue},
    medium::{Medium, MediumError, MediumId, Members, Station, WifiConfig},
    network::{Network, RouteError},
    packet::{DropReason, FlowId, LinkId, NodeId, Packet},
    trace::{Backlog, Event, Observer},
    traffic::Agent,
};

/// Events after which [`Simulation::run_watched`] asks whether to go on: a few milliseconds, with controllers in Python too.
pub const EVENTS_PER_LOOK: u32 = 1024;

/// The shortest time between two wake-ups of an agent.
const TICK: TimeDelta = TimeDelta::from_nanos(1);

/// Number of such wake-ups in a row after which an agent is stuck: ten microseconds, in which no sender needs so many.
const MAX_TICKS: u32 = 10_000;

/// An agent, by its index in the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(u32);

giusto_units::defaults! {
    /// A network, its traffic, and the current time.
    ///
    /// # Example
    ///
    /// A source, a link of 10 Mbit/s and 25 ms, a sink:
    ///
    /// ```
    /// use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
    /// use giusto_sim::{
    ///     link::{LinkConfig, queue::{DropTail, Limit}, rate::RateProfile},
    ///     random,
    ///     simulation::Simulation,
    ///     traffic::{Pattern, Sink, Source},
    /// };
    ///
    /// let mut simulation = Simulation::new(1);
    /// let (here, there) = (simulation.node("here"), simulation.node("there"));
    /// let config = LinkConfig {
    ///     rate: RateProfile::Fixed(DataRate::from_bps(10_000_000)),
    ///     delay: TimeDelta::from_millis(25).into(),
    ///     ..LinkConfig::default()
    /// };
    /// let queue = Box::new(DropTail::new(Limit::Packets(100)));
    /// let link = simulation.add_link("link", (here, there), &config, queue)?;
    /// let flow = simulation.add_flow(here, there)?;
    /// let pattern = Pattern::constant(DataRate::from_bps(9_000_000), DataSize::from_bytes(1200));
    /// simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(1, "source"))?));
    /// let sink = simulation.add_agent(Box::new(Sink));
    /// simulation.deliver(flow, sink);
    ///
    /// simulation.run_until(Timestamp::from_nanos(10_000_000_000), &mut ());
    /// assert_eq!(simulation.link(link).counters().dropped_packets(), 0);
    /// // 9375 left; those of the last 25.96 ms are on their way.
    /// assert_eq!(simulation.flow(flow).delivered_packets, 9351);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    pub struct Simulation {
        seed: u64 = seed,
        events: EventQueue<Wake> = EventQueue::default(),
        network: Network = Network::default(),
        links: Vec<Armed<Link>> = Vec::new(),
        /// The medium of each link that has one.
        member_of: Vec<Option<MediumId>> = Vec::new(),
        mediums: Vec<Armed<Medium>> = Vec::new(),
        agents: Vec<Armed<Box<dyn Agent>>> = Vec::new(),
        flows: Vec<Flow> = Vec::new(),
        bodies: Bodies = Bodies::default(),
        /// Number of agents that have started, and the current end of the run, at which agents that are added
        /// later start.
        begun: usize = 0,
        reached: Timestamp = Timestamp::ZERO,
        /// Agents that asked to be woken after a [`TICK`]: how often in a row, and when last.
        hasty: BTreeMap<u32, (u32, Timestamp)> = BTreeMap::new(),
    }
    /// An empty network at time zero, with this random seed.
    pub fn new(seed: u64);
}

/// A component with a deadline. The earliest of its scheduled events wakes it.
#[derive(Debug)]
struct Armed<T> {
    inner: T,
    at: Timestamp,
}

impl<T> Armed<T> {
    fn new(inner: T) -> Self {
        Self { inner, at: Timestamp::MAX }
    }
}

#[derive(Debug, Clone, Copy)]
enum Wake {
    Link(u32),
    Agent(u32),
    Medium(u32),
}

impl Members for Vec<Armed<Link>> {
    fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.get_mut(id.0 as usize).map(|armed| &mut armed.inner)
    }
}

/// One direction of a connection: its path and its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow {
    /// The links of its path, in order.
    pub path: Vec<LinkId>,
    /// Packets that its source sent.
    pub sent_packets: u64,
    /// Their bytes, all headers included.
    pub sent_bytes: u64,
    /// Packets delivered at the destination, duplicates included.
    pub delivered_packets: u64,
    /// Their bytes, all headers included.
    pub delivered_bytes: u64,
    /// Packets discarded at the destination because their content was changed on the way, duplicates included.
    pub corrupted_packets: u64,
    sink: Option<AgentId>,
}

impl Simulation {
    /// Random seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The node called `name`, created if necessary.
    pub fn node(&mut self, name: &str) -> NodeId {
        self.network.node(name)
    }

    /// Adds a link from one node to another. Its random numbers depend on the seed and its name.
    ///
    /// # Errors
    ///
    /// [`LinkError`] names the invalid part of `config`.
    pub fn add_link(
        &mut self,
        name: &str,
        ends: (NodeId, NodeId),
        config: &LinkConfig,
        queue: Box<dyn Queue>,
    ) -> Result<LinkId, LinkError> {
        let id = LinkId(self.links.len() as u32);
        self.links.push(Armed::new(Link::new(id, config, queue, self.seed, name)?));
        self.member_of.push(None);
        self.network.add_link(name, ends.0, ends.1);
        Ok(id)
    }

    /// Adds a Wi-Fi medium. Its random numbers depend on the seed and its name.
    ///
    /// # Errors
    ///
    /// [`MediumError`] names the invalid part of `config`.
    pub fn add_medium(&mut self, name: &str, config: WifiConfig) -> Result<MediumId, MediumError> {
        let id = MediumId(self.mediums.len() as u32);
        self.mediums.push(Armed::new(Medium::new(config, self.seed, name)?));
        Ok(id)
    }

    /// Has `link` transmit by `medium`, before the run starts. Links that begin at the same node and have the same access category
    /// take turns; all others contend. The link's rate remains the one by which its queue measures time.
    ///
    /// # Errors
    ///
    /// [`MediumError`]: a field of `station` is invalid, or the medium or the link does not exist.
    pub fn join(&mut self, link: LinkId, medium: MediumId, station: Station) -> Result<(), MediumError> {
        let node = self.network.links().get(link.0 as usize).map(|ends| ends.from);
        let shared = self.mediums.get_mut(medium.0 as usize);
        let armed = self.links.get_mut(link.0 as usize);
        let (Some(node), Some(shared), Some(armed)) = (node, shared, armed) else {
            return Err(MediumError::Unknown);
        };
        shared.inner.join(link, node, station)?;
        armed.inner.join_medium();
        if let Some(place) = self.member_of.get_mut(link.0 as usize) {
            *place = Some(medium);
        }
        Ok(())
    }

    /// Adds a flow along the shortest path.
    ///
    /// # Errors
    ///
    /// [`RouteError`]: there is none.
    pub fn add_flow(&mut self, from: NodeId, to: NodeId) -> Result<FlowId, RouteError> {
        let path = self.network.route(from, to)?;
        Ok(self.push_flow(path))
    }

    /// Adds a flow along the path of `links`.
    ///
    /// # Errors
    ///
    /// [`RouteError`]: they make none.
    pub fn add_flow_via(&mut self, from: NodeId, links: &[LinkId]) -> Result<FlowId, RouteError> {
        let path = self.network.route_via(from, links)?;
        Ok(self.push_flow(path))
    }

    fn push_flow(&mut self, path: Vec<LinkId>) -> FlowId {
        self.flows.push(Flow { path, ..Flow::default() });
        FlowId(self.flows.len() as u32 - 1)
    }

    /// Adds an agent, which may send when the run starts or continues.
    pub fn add_agent(&mut self, agent: Box<dyn Agent>) -> AgentId {
        self.agents.push(Armed::new(agent));
        AgentId(self.agents.len() as u32 - 1)
    }

    /// Delivers the packets of `flow` to `agent`. Packets of a flow without an agent are discarded.
    pub fn deliver(&mut self, flow: FlowId, agent: AgentId) {
        if let Some(flow) = self.flows.get_mut(flow.0 as usize) {
            flow.sink = Some(agent);
        }
    }

    /// The nodes and links.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A link.
    ///
    /// # Panics
    ///
    /// If it belongs to another simulation.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links.get(link.0 as usize).expect("a link of this simulation").inner
    }

    /// A medium; `None` if it belongs to another simulation.
    pub fn medium(&self, medium: MediumId) -> Option<&Medium> {
        self.mediums.get(medium.0 as usize).map(|armed| &armed.inner)
    }

    /// A flow.
    ///
    /// # Panics
    ///
    /// If it belongs to another simulation.
    pub fn flow(&self, flow: FlowId) -> &Flow {
        self.flows.get(flow.0 as usize).expect("a flow of this simulation")
    }

    /// An agent.
    ///
    /// # Panics
    ///
    /// If it belongs to another simulation.
    pub fn agent(&self, agent: AgentId) -> &dyn Agent {
        &*self.agents.get(agent.0 as usize).expect("an agent of this simulation").inner
    }

    /// Reports the gauges of every agent to `observer`.
    pub fn report_gauges(&self, now: Timestamp, observer: &mut impl Observer) {
        for agent in &self.agents {
            agent.inner.gauges(&mut |flow, name, value| observer.on_gauge(now, flow, name, value));
        }
    }

    /// The time of the last event.
    pub fn now(&self) -> Timestamp {
        self.events.now()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.events.popped()
    }

    /// Processes all events up to and including `end`. Can be called again with a later end.
    ///
    /// # Panics
    ///
    /// If a link does not conserve packets, which is a bug; or if an agent, or a controller in it, has a deadline that never moves.
    pub fn run_until(&mut self, end: Timestamp, observer: &mut impl Observer) {
        while !self.run_some(end, observer) {}
    }

    /// Processes events as [`run_until`](Self::run_until) does, and asks `watch` after each [`EVENTS_PER_LOOK`] of them whether to
    /// go on: however long a simulated second takes, the caller can end the run soon. The argument of `watch` is the time of the
    /// last event. A run that was ended can be continued.
    ///
    /// # Panics
    ///
    /// As [`run_until`](Self::run_until).
    pub fn run_watched(
        &mut self,
        end: Timestamp,
        observer: &mut impl Observer,
        watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while !self.run_some(end, observer) {
            watch(self.now())?;
        }
        ControlFlow::Continue(())
    }

    /// Processes at most [`EVENTS_PER_LOOK`] events; returns whether it has reached `end`.
    fn run_some(&mut self, end: Timestamp, observer: &mut impl Observer) -> bool {
        let mut left = EVENTS_PER_LOOK;
        while self.begun < self.agents.len() {
            if left == 0 {
                return false;
            }
            left -= 1;
            let place = self.begun as u32;
            self.begun += 1;
            self.drain_agent(self.reached, place, observer);
        }
        while let Some((now, wake)) = self.events.pop_until(end) {
            match wake {
                Wake::Link(place) => self.wake_link(now, place, observer),
                Wake::Agent(place) => self.wake_agent(now, place, observer),
                Wake::Medium(place) => self.wake_medium(now, place, observer),
            }
            left = left.saturating_sub(1);
            if left == 0 {
                self.reached = self.reached.max(now);
                return false;
            }
        }
        // A run without an end has reached the time of its last event.
        let end = if end < Timestamp::MAX { end } else { self.now() };
        self.reached = self.reached.max(end);
        for (link, ends) in self.links.iter().zip(self.network.links()) {
            let counters: LinkCounters = link.inner.counters();
            assert!(
                link.inner.is_conserved(),
                "link \"{}\" lost count of its packets: {counters:?}",
                ends.name
            );
        }
        true
    }

    #[inline]
    fn wake_link(&mut self, now: Timestamp, place: u32, observer: &mut impl Observer) {
        let Some(link) = self.links.get_mut(place as usize).filter(|link| link.at == now) else { return };
        link.at = Timestamp::MAX;
        link.inner.advance(now, observer);
        if link.inner.has_news() {
            self.bodies.copy(&mut link.inner);
        }
        let mut packet = Packet::default();
        while let Some(link) = self.links.get_mut(place as usize)
            && link.inner.poll_arrival(now, &mut packet)
        {
            self.forward(now, &mut packet, observer);
        }
        self.settle_link(now, place);
    }

    /// Releases the packets that a link dropped, and schedules its next event.
    #[inline]
    fn settle_link(&mut self, now: Timestamp, place: u32) {
        let Some(link) = self.links.get_mut(place as usize) else { return };
        if link.inner.has_news() {
            self.bodies.settle(&mut link.inner);
        }
        let next = link.inner.next_deadline(now);
        if next < link.at {
            link.at = next;
            self.events.schedule(next, Wake::Link(place));
        }
    }

    fn wake_medium(&mut self, now: Timestamp, place: u32, observer: &mut impl Observer) {
        let Some(medium) = self.mediums.get_mut(place as usize).filter(|medium| medium.at == now) else {
            return;
        };
        medium.at = Timestamp::MAX;
        medium.inner.poll(now, &mut self.links, observer);
        while let Some(link) =
            self.mediums.get_mut(place as usize).and_then(|medium| medium.inner.poll_touched())
        {
            self.settle_link(now, link.0);
        }
        self.arm_medium(place);
    }

    /// Schedules the next event of a medium.
    fn arm_medium(&mut self, place: u32) {
        let Some(medium) = self.mediums.get_mut(place as usize) else { return };
        if let Some(next) = medium.inner.next_event().filter(|&next| next < medium.at) {
            medium.at = next;
            self.events.schedule(next, Wake::Medium(place));
        }
    }

    fn wake_agent(&mut self, now: Timestamp, place: u32, observer: &mut impl Observer) {
        let Some(agent) = self.agents.get_mut(place as usize).filter(|agent| agent.at == now) else { return };
        agent.at = Timestamp::MAX;
        agent.inner.handle_timeout(now);
        self.drain_agent(now, place, observer);
    }

    /// Sends the packets of an agent, and schedules its next deadline.
    fn drain_agent(&mut self, now: Timestamp, place: u32, observer: &mut impl Observer) {
        while let Some(agent) = self.agents.get_mut(place as usize) {
            while let Some(note) = agent.inner.poll_note() {
                observer.on_note(now, &note);
            }
            // It is used where it is, because to move what has just been written takes long.
            let mut polled = agent.inner.poll_transmit(now);
            let Some(transmit) = &mut polled else {
                // An agent whose deadline is not in the future would never be woken again.
                let next = agent.inner.poll_timeout().map(|next| next.max(now + TICK));
                if let Some(next) = next.filter(|&next| next < agent.at) {
                    agent.at = next;
                    self.events.schedule(next, Wake::Agent(place));
                    if next == now + TICK {
                        self.on_haste(now, place);
                    }
                }
                return;
            };
            let Some(flow) = self.flows.get_mut(transmit.flow.0 as usize) else { continue };
            let mut packet = Packet {
                flow: transmit.flow,
                bytes: transmit.bytes,
                sequence: flow.sent_packets,
                sent: now,
                queued: now,
                queue_delay_ns: 0,
                body: self.bodies.keep(&mut transmit.body),
                hop: 0,
                ecn: transmit.ecn,
                corruption: 0,
            };
            flow.sent_packets += 1;
            flow.sent_bytes += u64::from(packet.bytes);
            observer.on_event(now, &Event::Sent { packet });
            if let Some(&link) = flow.path.first() {
                self.offer(now, link, &mut packet, observer);
            }
        }
    }

    /// An agent asks to be woken after the shortest time: a run in which one does so for ever would not end.
    #[cold]
    #[inline(never)]
    fn on_haste(&mut self, now: Timestamp, place: u32) {
        let (count, latest) = self.hasty.entry(place).or_insert((0, now));
        *count = if now - *latest <= TICK { *count + 1 } else { 1 };
        *latest = now;
        assert!(
            *count < MAX_TICKS,
            "agent {place}, which receives by {:?}: at {} s it asked for the {MAX_TICKS}th time in a row to be woken at once. After \
             handle_timeout, the next deadline of an agent and of its controller must be later",
            self.links_to(place),
            now.as_seconds(),
        );
    }

    /// The names of the links by which an agent receives.
    fn links_to(&self, place: u32) -> Vec<&str> {
        let flow = self.flows.iter().find(|flow| flow.sink == Some(AgentId(place)));
        let links = flow.map_or(&[][..], |flow| &flow.path[..]);
        let links = links.iter().filter_map(|link| self.network.links().get(link.0 as usize));
        links.map(|link| link.name.as_str()).collect()
    }

    /// Passes a packet that left a link to the next link or to its agent.
    #[inline]
    fn forward(&mut self, now: Timestamp, packet: &mut Packet, observer: &mut impl Observer) {
        let Some(flow) = self.flows.get_mut(packet.flow.0 as usize) else { return };
        if let Some(&link) = flow.path.get(usize::from(packet.hop)) {
            return self.offer(now, link, packet, observer);
        }
        if packet.corruption != 0 {
            return self.discard(now, packet, observer);
        }
        flow.delivered_packets += 1;
        flow.delivered_bytes += u64::from(packet.bytes);
        observer.on_event(now, &Event::Delivered { packet: *packet });
        let sink = flow.sink;
        let agent = sink.and_then(|AgentId(place)| Some((place, self.agents.get_mut(place as usize)?)));
        let Some((place, agent)) = agent else { return self.bodies.release(packet.body) };
        self.bodies.read(packet.body, |body| agent.inner.handle_packet(now, packet, body));
        self.bodies.release(packet.body);
        self.drain_agent(now, place, observer);
    }

    /// Discards a packet that was changed on its way.
    #[cold]
    #[inline(never)]
    fn discard(&mut self, now: Timestamp, packet: &Packet, observer: &mut impl Observer) {
        let Some(flow) = self.flows.get_mut(packet.flow.0 as usize) else { return };
        flow.corrupted_packets += 1;
        let link = flow.path.last().copied().unwrap_or_default();
        self.bodies.release(packet.body);
        let (reason, backlog) = (DropReason::Corruption, Backlog::default());
        observer.on_event(now, &Event::Dropped { link, packet: *packet, reason, backlog });
    }

    /// Passes `packet` to the next link of its path.
    fn offer(
        &mut self,
        now: Timestamp,
        LinkId(place): LinkId,
        packet: &mut Packet,
        observer: &mut impl Observer,
    ) {
        let Some(link) = self.links.get_mut(place as usize) else { return };
        link.inner.accept(now, packet, observer);
        let waits_for_medium = link.inner.is_on_medium() && !link.inner.queue_is_empty();
        self.settle_link(now, place);
        if waits_for_medium {
            self.wake_medium_of(now, LinkId(place));
        }
    }

    /// Reports the queued packets of a link to its medium.
    #[cold]
    #[inline(never)]
    fn wake_medium_of(&mut self, now: Timestamp, link: LinkId) {
        if let Some(MediumId(medium)) = self.member_of.get(link.0 as usize).copied().flatten() {
            if let Some(medium) = self.mediums.get_mut(medium as usize) {
                medium.inner.on_queued(now, link);
            }
            self.arm_medium(medium);
        }
    }
}

#[cfg(test)]
mod tests;
