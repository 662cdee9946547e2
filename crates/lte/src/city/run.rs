//! The run of a city: from event to event, and from millisecond to millisecond.

mod arrivals;

use std::collections::VecDeque;

use giusto_sim::{
    engine::EventQueue,
    packet::{BodyId, FlowId, Packet},
    random::{self, Random},
    traffic::{Agent, Body},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    config::{CityConfig, CityError, Opposite, RADIO_ROUND_TRIP},
    measures::{CallMeasures, CityFigures, RadioFigures},
    people::{Person, Workload},
};
use crate::{
    bearer::BearerCounters,
    carrier::Carrier,
    mac::{Delivered, Downlink, MacCounters, Population, Uplink},
    radio::{
        fading::{Fading, Profile, step_ms},
        layout::Layout,
        link::{Direction, LinkModel},
        propagation::Deployment,
    },
    terminal::{Environment, MOVE_MS},
};

/// Number of samples of a precomputed fading trace, and number of traces: 6 MB. Users begin at random places in them. A trace
/// repeats after 16 s at 3 km/h and after 4 s at 30 km/h, some 90 and 230 periods of the largest Doppler shift.
const FADING_SAMPLES: usize = 4096;
const FADING_TRACES: usize = 8;

/// A person stays for this long after the end of its call, so that what is on its way arrives.
const LINGERS: TimeDelta = TimeDelta::from_seconds(3);

/// A file transfer leaves this long after its last byte has arrived, so that the acknowledgement arrives.
const FILE_LINGERS: TimeDelta = TimeDelta::from_millis(500);

/// Interval at which queues learn their rate and dropped packets are collected, in ms.
const MAINTAIN_MS: u64 = 100;

/// A user whose wideband SINR at full load is below this has no coverage: the lowest CQI needs about -7 dB.
const COVERAGE_DB: f64 = -7.0;

const MILLISECOND: TimeDelta = TimeDelta::from_millis(1);

/// Counters of a city.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CityCounters {
    /// Calls that have begun.
    pub calls: u64,
    /// Users that were outside coverage when they arrived. They call nevertheless.
    pub uncovered_users: u64,
    /// File transfers that have begun.
    pub files: u64,
    /// File transfers that were completed.
    pub completed_files: u64,
    /// File transfers that were given up.
    pub abandoned_files: u64,
    /// Sum of the durations of completed file transfers.
    pub file_time: TimeDelta,
    /// Handovers.
    pub handovers: u64,
    /// Packets sent by agents.
    pub packets: u64,
    /// Bearers of users who have left, by direction: downlink, uplink.
    pub bearers: [BearerCounters; 2],
}

#[derive(Debug, Clone, Copy)]
enum Wake {
    Agent(u32, u32),
    /// A packet reaches an agent.
    Arrival(u32),
    Call,
    File,
    Leave(u32, u32),
}

/// An agent with its deadline.
#[derive(Debug)]
struct Slot {
    agent: Option<Box<dyn Agent>>,
    at: Timestamp,
    /// Distinguishes it from earlier agents in the same place.
    life: u32,
    person: u32,
    side: Side,
    sent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Network,
    User,
}

/// A packet on its way.
#[derive(Debug)]
struct OnWay {
    packet: Packet,
    agent: u32,
    life: u32,
}

/// Cells, users and their traffic, and the current time.
pub struct City<'a> {
    config: CityConfig,
    environment: Environment,
    population: Population,
    downlink: Option<Downlink>,
    uplink: Option<Uplink>,
    workload: &'a mut dyn Workload,
    events: EventQueue<Wake>,
    agents: Vec<Slot>,
    free_agents: Vec<u32>,
    persons: Vec<(u32, Option<Person>)>,
    free_persons: Vec<u32>,
    /// The person of each place in the population.
    owners: Vec<u32>,
    on_way: Vec<Option<OnWay>>,
    free_on_way: Vec<u32>,
    bodies: Vec<Body>,
    free_bodies: Vec<u32>,
    /// Packets on their way from the network to the cells.
    core: VecDeque<(Timestamp, u32, u32, Packet)>,
    delivered: Vec<Delivered>,
    ms: u64,
    arrivals: [Random; 2],
    places: Random,
    finished: Vec<CallMeasures>,
    counters: CityCounters,
    error: Option<CityError>,
}

impl std::fmt::Debug for City<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("City").field("config", &self.config).field("ms", &self.ms).finish_non_exhaustive()
    }
}

impl<'a> City<'a> {
    /// An empty city at time zero.
    ///
    /// # Errors
    ///
    /// [`CityError`] names a setting out of range.
    pub fn new(config: CityConfig, workload: &'a mut dyn Workload) -> Result<Self, CityError> {
        config.validate()?;
        let seed = config.seed;
        let stream = |part: &str| random::stream(seed, &format!("lte: {part}"));
        let carrier = Carrier::downlink(config.downlink.blocks.max(config.uplink.blocks));
        let deployment = config.deployment.clone();
        let environment = environment(config.profile, deployment, carrier, &mut stream("fading"));
        let has = |direction| config.direction == direction || config.opposite == Opposite::Radio;
        let downlink = has(Direction::Downlink)
            .then(|| Downlink::new(config.downlink, &environment, stream("downlink blocks")));
        let uplink =
            has(Direction::Uplink).then(|| Uplink::new(config.uplink, &environment, stream("uplink blocks")));
        let mut city = Self {
            environment,
            population: Population::default(),
            downlink,
            uplink,
            workload,
            events: EventQueue::default(),
            agents: Vec::new(),
            free_agents: Vec::new(),
            persons: Vec::new(),
            free_persons: Vec::new(),
            owners: Vec::new(),
            on_way: Vec::new(),
            free_on_way: Vec::new(),
            bodies: Vec::new(),
            free_bodies: Vec::new(),
            core: VecDeque::new(),
            delivered: Vec::new(),
            ms: 0,
            arrivals: [stream("calls"), stream("files")],
            places: stream("places"),
            finished: Vec::new(),
            counters: CityCounters::default(),
            error: None,
            config,
        };
        city.schedule_call();
        city.schedule_file();
        Ok(city)
    }

    /// Configuration.
    pub fn config(&self) -> &CityConfig {
        &self.config
    }

    /// Current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + MILLISECOND * self.ms as i64
    }

    /// What all users share.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Users as the radio sees them.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// People who are there.
    pub fn people(&self) -> impl Iterator<Item = &Person> {
        self.persons.iter().filter_map(|(_, person)| person.as_ref())
    }

    /// Counters since the start.
    pub fn counters(&self) -> CityCounters {
        self.counters
    }

    /// Number of events so far: those of agents, and milliseconds.
    pub fn events(&self) -> u64 {
        self.events.popped() + self.ms
    }

    /// Counters of the scheduler in `direction`, if it is modelled.
    pub fn mac(&self, direction: Direction) -> Option<MacCounters> {
        match direction {
            Direction::Downlink => self.downlink.as_ref().map(Downlink::counters),
            Direction::Uplink => self.uplink.as_ref().map(Uplink::counters),
        }
    }

    /// The uplink, if it is modelled.
    pub fn uplink(&self) -> Option<&Uplink> {
        self.uplink.as_ref()
    }

    /// Measures of all calls so far that overlap the evaluation.
    pub fn calls(&self) -> impl Iterator<Item = &CallMeasures> {
        self.finished.iter().chain(self.people().filter_map(Person::measures))
    }

    /// The figures so far.
    pub fn figures(&self) -> CityFigures {
        let counters = &self.counters;
        CityFigures {
            uncovered_users: counters.uncovered_users,
            all_calls: counters.calls,
            files: counters.files,
            completed_files: counters.completed_files,
            abandoned_files: counters.abandoned_files,
            file_time_s: counters.file_time.as_seconds() / (counters.completed_files as f64).max(1.0),
            handovers: counters.handovers,
            downlink: self.radio(Direction::Downlink),
            uplink: self.radio(Direction::Uplink),
            ..CityFigures::of(self.calls())
        }
    }

    /// The figures of the radio in `direction`, if it is modelled.
    fn radio(&self, direction: Direction) -> Option<RadioFigures> {
        let mac = self.mac(direction)?;
        let uplink = self.uplink.as_ref().filter(|_| direction == Direction::Uplink);
        let cells = self.environment.layout.cells() as f64;
        Some(RadioFigures {
            cell_throughput_bps: mac.decoded_bits as f64 / self.now().as_seconds() / cells,
            used_ratio: mac.used_ratio(),
            first_error_ratio: mac.first_error_ratio(),
            lost_blocks: mac.lost_blocks,
            interference_over_noise_db: uplink.map(Uplink::interference_over_noise_db),
        })
    }

    /// Processes everything before `end`, to the millisecond. Can be called again with a later end.
    ///
    /// # Errors
    ///
    /// [`CityError::Call`] if a call could not be built.
    pub fn run_until(&mut self, end: Timestamp) -> Result<(), CityError> {
        while self.now() < end {
            let now = self.now();
            while let Some((at, wake)) = self.events.pop_until(now) {
                self.handle(at, wake);
            }
            self.enter_cells(now);
            self.tick(now);
            self.ms += 1;
            if let Some(error) = self.error.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The packets that have reached the cells by `now` enter their bearers.
    fn enter_cells(&mut self, now: Timestamp) {
        while let Some(&(at, person, life, packet)) = self.core.front().filter(|(at, ..)| *at <= now) {
            self.core.pop_front();
            let place = self.person(person, life).map(|person| person.place);
            self.offer(at, place, Direction::Downlink, packet);
        }
    }

    /// Puts a packet into the bearer of the user at `place`; releases it if there is none.
    fn offer(&mut self, now: Timestamp, place: Option<u32>, direction: Direction, packet: Packet) {
        let offered = place.map_or(Err(packet), |place| self.population.offer(now, place, direction, packet));
        if let Err(packet) = offered {
            self.release(packet.body);
        }
    }

    /// One millisecond of the radio.
    fn tick(&mut self, now: Timestamp) {
        let mut delivered = std::mem::take(&mut self.delivered);
        self.move_users(now, &mut delivered);
        if let Some(downlink) = &mut self.downlink {
            downlink.tick(now, self.ms, &self.environment, &mut self.population, &mut delivered);
        }
        for Delivered { user, packet } in delivered.drain(..) {
            self.arrive(now, user, Side::User, packet);
        }
        if let Some(uplink) = &mut self.uplink {
            uplink.tick(now, self.ms, &self.environment, &mut self.population, &mut delivered);
        }
        let at = now + self.config.core_delay();
        for Delivered { user, packet } in delivered.drain(..) {
            self.send_on(at, user, packet);
        }
        self.delivered = delivered;
        self.maintain(now);
    }

    /// Moves the users whose turn it is.
    fn move_users(&mut self, now: Timestamp, delivered: &mut Vec<Delivered>) {
        let mut place = (self.ms % MOVE_MS) as u32;
        while place < self.population.places() {
            if let Some(user) = self.population.get_mut(place) {
                let from = user.terminal.serving();
                if user.terminal.advance(&self.environment, &mut self.places) {
                    self.counters.handovers += 1;
                    let mut packets = Vec::new();
                    self.population.hand_over(now, place, from, &mut packets);
                    self.pass_on(now, packets, delivered);
                }
            }
            place += MOVE_MS as u32;
        }
    }

    /// Sorts what a handover has delivered by its direction.
    fn pass_on(&mut self, now: Timestamp, packets: Vec<Delivered>, delivered: &mut Vec<Delivered>) {
        let at = now + self.config.core_delay();
        for Delivered { user, packet } in packets {
            if self.direction_of(packet.flow) == Direction::Downlink {
                delivered.push(Delivered { user, packet });
            } else {
                self.send_on(at, user, packet);
            }
        }
    }

    /// The even flows carry the media or the file, the odd ones what answers it.
    fn direction_of(&self, flow: FlowId) -> Direction {
        if flow.0.is_multiple_of(2) == (self.config.direction == Direction::Downlink) {
            Direction::Downlink
        } else {
            Direction::Uplink
        }
    }

    /// Tells the queues their rates and collects dropped packets, for the users whose turn it is.
    fn maintain(&mut self, now: Timestamp) {
        let mut place = (self.ms % MAINTAIN_MS) as u32;
        while place < self.population.places() {
            if let Some(user) = self.population.get_mut(place) {
                for channel in [&mut user.downlink, &mut user.uplink].into_iter().flatten() {
                    let rate = channel.average_rate(self.ms);
                    channel.bearer.set_rate(now, rate);
                    while let Some(dropped) = channel.bearer.poll_dropped() {
                        release(&mut self.bodies, &mut self.free_bodies, dropped.packet.body);
                    }
                }
            }
            place += MAINTAIN_MS as u32;
        }
    }

    fn handle(&mut self, now: Timestamp, wake: Wake) {
        match wake {
            Wake::Agent(place, life) => {
                let Some(slot) = self.agents.get_mut(place as usize) else { return };
                if slot.life != life || slot.at != now {
                    return;
                }
                slot.at = Timestamp::MAX;
                if let Some(agent) = &mut slot.agent {
                    agent.handle_timeout(now);
                }
                self.drain(now, place);
            }
            Wake::Arrival(place) => {
                let Some(OnWay { packet, agent, life }) =
                    self.on_way.get_mut(place as usize).and_then(Option::take)
                else {
                    return;
                };
                self.free_on_way.push(place);
                self.hand(now, agent, life, packet);
            }
            Wake::Call => {
                self.begin_call(now);
                self.schedule_call();
            }
            Wake::File => {
                self.begin_file(now);
                self.schedule_file();
            }
            Wake::Leave(person, life) => self.leave(now, person, life),
        }
    }

    /// A packet reaches the agent on `side` of the person at `user`.
    fn arrive(&mut self, now: Timestamp, user: u32, side: Side, packet: Packet) {
        if let Some((agent, life)) = self.agent_of(user, side) {
            self.hand(now, agent, life, packet);
        } else {
            self.release(packet.body);
        }
    }

    /// A packet of the person at `user` reaches its agent at the network's side at `at`.
    fn send_on(&mut self, at: Timestamp, user: u32, packet: Packet) {
        if let Some((agent, life)) = self.agent_of(user, Side::Network) {
            self.delay(at, OnWay { packet, agent, life });
        } else {
            self.release(packet.body);
        }
    }

    fn delay(&mut self, at: Timestamp, on_way: OnWay) {
        let place = self.free_on_way.pop().unwrap_or_else(|| {
            self.on_way.push(None);
            self.on_way.len() as u32 - 1
        });
        if let Some(slot) = self.on_way.get_mut(place as usize) {
            *slot = Some(on_way);
        }
        self.events.schedule(at, Wake::Arrival(place));
    }

    fn agent_of(&self, user: u32, side: Side) -> Option<(u32, u32)> {
        let &person = self.owners.get(user as usize)?;
        let person = self.persons.get(person as usize)?.1.as_ref()?;
        let agent = if side == Side::Network { person.agents.0 } else { person.agents.1 };
        Some((agent, self.agents.get(agent as usize)?.life))
    }

    fn person(&self, place: u32, life: u32) -> Option<&Person> {
        let (of, person) = self.persons.get(place as usize)?;
        person.as_ref().filter(|_| *of == life)
    }

    /// Hands a packet to an agent.
    fn hand(&mut self, now: Timestamp, place: u32, life: u32, packet: Packet) {
        let body = self.release(packet.body);
        let Some(slot) = self.agents.get_mut(place as usize).filter(|slot| slot.life == life) else { return };
        let Some(agent) = &mut slot.agent else { return };
        if let Some((_, Some(person))) = self.persons.get_mut(slot.person as usize) {
            person.on_received(now, self.config.evaluation, &packet, &body);
        }
        agent.handle_packet(now, &packet, &body);
        self.drain(now, place);
    }

    /// Sends the packets of an agent, and schedules its next deadline.
    fn drain(&mut self, now: Timestamp, place: u32) {
        while let Some(slot) = self.agents.get_mut(place as usize) {
            let Some(agent) = &mut slot.agent else { return };
            let (mut is_complete, number) = (false, slot.person);
            if let Some((_, Some(person))) = self.persons.get_mut(number as usize) {
                while let Some(note) = agent.poll_note() {
                    is_complete |= person.on_note(now, self.config.evaluation, &note);
                }
            }
            let Some(transmit) = agent.poll_transmit(now) else {
                let next = agent.poll_timeout().map(|next| next.max(now + TimeDelta::from_nanos(1)));
                if let Some(next) = next.filter(|&next| next < slot.at) {
                    slot.at = next;
                    self.events.schedule(next, Wake::Agent(place, slot.life));
                }
                if is_complete {
                    self.complete(now, number);
                }
                return;
            };
            let (side, sequence) = (slot.side, slot.sent);
            slot.sent += 1;
            self.counters.packets += 1;
            if let Some((_, Some(person))) = self.persons.get_mut(number as usize) {
                person.on_sent(now, self.config.evaluation, transmit.flow, &transmit.body);
            }
            let packet = Packet {
                flow: transmit.flow,
                bytes: transmit.bytes,
                sequence,
                sent: now,
                queued: now,
                queue_delay_ns: 0,
                body: self.keep(transmit.body),
                hop: 0,
                ecn: transmit.ecn,
                corruption: 0,
            };
            self.send(now, number, side, packet);
            if is_complete {
                self.complete(now, number);
            }
        }
    }

    /// Carries a packet from one side of a person towards the other.
    fn send(&mut self, now: Timestamp, number: u32, side: Side, packet: Packet) {
        let Some((life, Some(person))) = self.persons.get(number as usize) else {
            self.release(packet.body);
            return;
        };
        let (life, place, agents) = (*life, person.place, person.agents);
        let core = self.config.core_delay();
        let fixed = core + RADIO_ROUND_TRIP / 2;
        match side {
            Side::Network if self.downlink.is_some() => {
                self.core.push_back((now + core, number, life, packet));
            }
            Side::User if self.uplink.is_some() => {
                self.offer(now, Some(place), Direction::Uplink, packet);
            }
            Side::Network | Side::User => {
                let agent = if side == Side::Network { agents.1 } else { agents.0 };
                let life = self.agents.get(agent as usize).map_or(0, |slot| slot.life);
                self.delay(now + fixed, OnWay { packet, agent, life });
            }
        }
    }

    fn keep(&mut self, body: Body) -> BodyId {
        if body == Body::None {
            return BodyId::NONE;
        }
        let place = self.free_bodies.pop().unwrap_or_else(|| {
            self.bodies.push(Body::None);
            self.bodies.len() as u32 - 1
        });
        if let Some(slot) = self.bodies.get_mut(place as usize) {
            *slot = body;
        }
        BodyId(place)
    }

    fn release(&mut self, body: BodyId) -> Body {
        release(&mut self.bodies, &mut self.free_bodies, body)
    }
}

/// What all users of `carrier` share.
pub(crate) fn environment(
    profile: Profile,
    deployment: Deployment,
    carrier: Carrier,
    random: &mut Random,
) -> Environment {
    let fading = Fading::new(
        profile,
        deployment.speed_mps,
        deployment.carrier_hz,
        carrier.groups(),
        Deployment::RESOURCE_BLOCK_HZ * f64::from(carrier.group),
        FADING_SAMPLES * step_ms(deployment.doppler_hz()),
        FADING_TRACES,
        random,
    );
    let layout = Layout::hexagonal(deployment.inter_site_distance_m);
    Environment { layout, deployment, fading, model: LinkModel::new() }
}

fn release(bodies: &mut [Body], free: &mut Vec<u32>, body: BodyId) -> Body {
    let Some(slot) = bodies.get_mut(body.0 as usize) else { return Body::None };
    free.push(body.0);
    std::mem::take(slot)
}
