//! One direction of the radio, with the packets that are on their way to it and in it.

use std::collections::VecDeque;

use giusto_sim::{
    packet::{BodyId, Packet},
    traffic::Body,
};
use giusto_units::{TimeDelta, Timestamp};

use super::ends::{Arrival, Key, SHARDS, Sent};
use crate::{
    bearer::BearerCounters,
    mac::{Channel, Delivered, Population, Radio, RadioUser},
    radio::link::Direction,
    terminal::{Environment, Moved},
};

/// Interval at which queues learn their rate and dropped packets are collected, in ms.
const MAINTAIN_MS: u64 = 100;

/// What happens to the users of the radio.
#[derive(Debug)]
pub(super) enum Motion {
    /// A user joins at this place.
    Join {
        id: u32,
        place: u32,
        user: Box<RadioUser>,
    },
    Leave {
        at: Timestamp,
        place: u32,
    },
    Move {
        place: u32,
        moved: Moved,
        from: usize,
        is_handed_over: bool,
    },
}

/// A packet that reaches the radio.
#[derive(Debug, Clone, Copy)]
struct Offer {
    at: Timestamp,
    by_radio: bool,
    id: u32,
    place: u32,
    packet: Packet,
}

/// One direction of the radio.
#[derive(Debug)]
pub(super) struct Air<R> {
    pub(super) radio: R,
    pub(super) population: Population,
    /// The person at each place, by its number.
    owners: Vec<u32>,
    bodies: Vec<Body>,
    free_bodies: Vec<u32>,
    /// What the groups of ends have sent.
    inbox: [Vec<Sent>; SHARDS],
    /// What reaches the radio in each of the milliseconds from `day` on.
    days: VecDeque<Vec<Offer>>,
    day: u64,
    /// What happens to users, by the millisecond.
    pub(super) motions: VecDeque<(u64, Motion)>,
    /// Packets delivered to each group of ends.
    outbox: [Vec<Arrival>; SHARDS],
    delivered: Vec<Delivered>,
    count: u64,
    /// Time from the radio to the ends behind it.
    delay: TimeDelta,
    pub(super) counters: BearerCounters,
}

impl<R: Radio> Air<R> {
    /// A radio without users; what it delivers reaches its ends after `delay`.
    pub(super) fn new(radio: R, delay: TimeDelta) -> Self {
        Self {
            radio,
            population: Population::default(),
            owners: Vec::new(),
            bodies: Vec::new(),
            free_bodies: Vec::new(),
            inbox: std::array::from_fn(|_| Vec::new()),
            days: VecDeque::new(),
            day: 0,
            motions: VecDeque::new(),
            outbox: std::array::from_fn(|_| Vec::new()),
            delivered: Vec::new(),
            count: 0,
            delay,
            counters: BearerCounters::default(),
        }
    }

    /// The channel of the user at `place`.
    pub(super) fn channel(&self, place: u32) -> Option<&Channel> {
        self.population.get(place)?.channel(R::DIRECTION)
    }

    /// What comes from and what goes to a group of ends.
    pub(super) fn boxes(&mut self, group: usize) -> Option<(&mut Vec<Sent>, &mut Vec<Arrival>)> {
        Some((self.inbox.get_mut(group)?, self.outbox.get_mut(group)?))
    }

    /// Processes the milliseconds `from` to `until`, without the last one.
    pub(super) fn run(&mut self, (from, until): (u64, u64), environment: &Environment) {
        self.sort();
        for ms in from..until {
            self.tick(ms, environment);
        }
    }

    /// Sorts what has been received by the millisecond.
    fn sort(&mut self) {
        for group in &mut self.inbox {
            for Sent { at, by_radio, id, place, mut packet, body } in group.drain(..) {
                packet.body = keep(&mut self.bodies, &mut self.free_bodies, body);
                let ms = at.as_nanos().div_ceil(1_000_000);
                let day = ms.saturating_sub(self.day) as usize;
                if self.days.len() <= day {
                    self.days.resize_with(day + 1, Vec::new);
                }
                if let Some(day) = self.days.get_mut(day) {
                    day.push(Offer { at, by_radio, id, place, packet });
                }
            }
        }
    }

    fn tick(&mut self, ms: u64, environment: &Environment) {
        let now = Timestamp::from_nanos(ms * 1_000_000);
        let day = self.days.pop_front().unwrap_or_default();
        self.day = ms + 1;
        let is_uplink = R::DIRECTION == Direction::Uplink;
        // Users put packets into their bearers before they leave. Packets from the network find who is there at the end of the millisecond.
        let mut later = Vec::new();
        for sent in day {
            if is_uplink && !sent.by_radio && self.is_there(&sent) {
                self.offer(sent);
            } else {
                later.push(sent);
            }
        }
        let mut delivered = std::mem::take(&mut self.delivered);
        while let Some(motion) = self.next_motion(ms, |motion| !matches!(motion, Motion::Move { .. })) {
            self.apply(motion, now, &mut delivered);
        }
        let mut last = Vec::new();
        for sent in later {
            if is_uplink && sent.by_radio {
                last.push(sent);
            } else {
                self.offer(sent);
            }
        }
        while let Some(motion) = self.next_motion(ms, |_| true) {
            self.apply(motion, now, &mut delivered);
        }
        for sent in last {
            self.offer(sent);
        }
        self.radio.tick(now, ms, environment, &mut self.population, &mut delivered);
        let key = if is_uplink {
            Key { at: now + self.delay, scheduled: now, by_radio: true }
        } else {
            Key::tick(now)
        };
        for Delivered { user, packet } in delivered.drain(..) {
            let body = release(&mut self.bodies, &mut self.free_bodies, packet.body);
            let Some(&id) = self.owners.get(user as usize) else { continue };
            self.count += 1;
            if let Some(group) = self.outbox.get_mut(id as usize % SHARDS) {
                group.push(Arrival { key, order: self.count, id, packet, body });
            }
        }
        self.delivered = delivered;
        self.maintain(now, ms);
    }

    /// The next motion in the millisecond `ms`, if it is of this kind.
    fn next_motion(&mut self, ms: u64, is_wanted: impl Fn(&Motion) -> bool) -> Option<Motion> {
        self.motions.front().filter(|(at, motion)| *at == ms && is_wanted(motion))?;
        self.motions.pop_front().map(|(_, motion)| motion)
    }

    fn is_there(&self, offer: &Offer) -> bool {
        self.owners.get(offer.place as usize) == Some(&offer.id)
    }

    /// Puts a packet into its bearer, if its user is there.
    fn offer(&mut self, offer: Offer) {
        let Offer { at, place, packet, .. } = offer;
        let is_there = self.is_there(&offer);
        if !is_there || self.population.offer(at, place, R::DIRECTION, packet).is_err() {
            release(&mut self.bodies, &mut self.free_bodies, packet.body);
        }
    }

    fn apply(&mut self, motion: Motion, now: Timestamp, delivered: &mut Vec<Delivered>) {
        match motion {
            Motion::Join { id, place, user } => {
                let own = self.population.add(*user);
                debug_assert_eq!(own, place, "all directions number their users alike");
                let owners = self.population.places() as usize;
                self.owners.resize(owners, u32::MAX);
                if let Some(owner) = self.owners.get_mut(own as usize) {
                    *owner = id;
                }
            }
            Motion::Leave { at, place } => {
                if let Some(owner) = self.owners.get_mut(place as usize) {
                    *owner = u32::MAX;
                }
                let Some(mut user) = self.population.remove(place) else { return };
                if let Some(channel) = user.channel_mut(R::DIRECTION) {
                    self.counters.add(channel.bearer.counters());
                    while let Some(packet) = channel.bearer.clear(at) {
                        release(&mut self.bodies, &mut self.free_bodies, packet.body);
                    }
                }
            }
            Motion::Move { place, moved, from, is_handed_over } => {
                if let Some(user) = self.population.get_mut(place) {
                    user.terminal.follow(&moved);
                }
                if is_handed_over {
                    self.population.hand_over(now, place, from, delivered);
                }
            }
        }
    }

    /// Tells the queues their rates and collects dropped packets, for the users whose turn it is.
    fn maintain(&mut self, now: Timestamp, ms: u64) {
        let mut place = (ms % MAINTAIN_MS) as u32;
        while place < self.population.places() {
            let channel = self.population.get_mut(place).and_then(|user| user.channel_mut(R::DIRECTION));
            if let Some(channel) = channel {
                let rate = channel.average_rate(ms);
                channel.bearer.set_rate(now, rate);
                while let Some(dropped) = channel.bearer.poll_dropped() {
                    release(&mut self.bodies, &mut self.free_bodies, dropped.packet.body);
                }
            }
            place += MAINTAIN_MS as u32;
        }
    }
}

fn keep(bodies: &mut Vec<Body>, free: &mut Vec<u32>, body: Body) -> BodyId {
    if body == Body::None {
        return BodyId::NONE;
    }
    let place = free.pop().unwrap_or_else(|| {
        bodies.push(Body::None);
        bodies.len() as u32 - 1
    });
    if let Some(slot) = bodies.get_mut(place as usize) {
        *slot = body;
    }
    BodyId(place)
}

fn release(bodies: &mut [Body], free: &mut Vec<u32>, body: BodyId) -> Body {
    let Some(slot) = bodies.get_mut(body.0 as usize) else { return Body::None };
    free.push(body.0);
    std::mem::take(slot)
}
