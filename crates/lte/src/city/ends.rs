//! The ends of calls and file transfers: each is independent of all others, but for the packets that it sends and receives.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use giusto_sim::{
    packet::{BodyId, Packet},
    traffic::{Agent, Body},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{measures::CallMeasures, people::Activity};

/// Groups of persons whose ends are simulated together. The number does not change results.
pub(super) const SHARDS: usize = 24;

/// The place of an event in the order of a run: its time, the time at which it was scheduled, and whether that was done by the radio, which
/// comes after the other events of the same time. What reaches the user in a tick of the radio follows all events of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) at: Timestamp,
    pub(super) scheduled: Timestamp,
    pub(super) by_radio: bool,
}

impl Key {
    /// An event of the radio at `at`.
    pub(super) fn tick(at: Timestamp) -> Self {
        Self { at, scheduled: Timestamp::MAX, by_radio: true }
    }

    fn is_tick(self) -> bool {
        self.scheduled == Timestamp::MAX
    }
}

/// A packet that reaches an end.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) key: Key,
    /// Its number among those that the radio has delivered.
    pub(super) order: u64,
    /// The person.
    pub(super) id: u32,
    pub(super) packet: Packet,
    pub(super) body: Body,
}

/// A packet that reaches the radio.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) at: Timestamp,
    /// Whether it answers what the radio has delivered at this time.
    pub(super) by_radio: bool,
    pub(super) id: u32,
    pub(super) place: u32,
    pub(super) packet: Packet,
    pub(super) body: Body,
}

/// A file is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Completed {
    pub(super) at: Timestamp,
    pub(super) order: u64,
    pub(super) by_radio: bool,
    pub(super) number: u32,
    pub(super) id: u32,
}

/// What happens to the ends of a person.
#[derive(Debug)]
pub(super) enum Change {
    Join(Box<End>),
    /// The person leaves; the measures of its call go to this place.
    Leave {
        id: u32,
        key: Key,
        measures: Option<usize>,
    },
}

/// How packets leave an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They reach the radio after this time.
    Radio(TimeDelta),
    /// They reach the other end after this time.
    Fixed(TimeDelta),
}

/// An end of a call or a file transfer.
#[derive(Debug)]
pub(super) struct End {
    agent: Box<dyn Agent>,
    id: u32,
    /// Its place among persons and among the users of the radio.
    number: u32,
    place: u32,
    joined: Timestamp,
    has_begun: bool,
    leaves: Option<(Key, Option<usize>)>,
    /// Its next deadline, and the events for this and earlier ones.
    deadline: Timestamp,
    timers: BinaryHeap<Reverse<(Key, u64)>>,
    timer: u64,
    arrivals: VecDeque<Arrival>,
    sent: u64,
    activity: Activity,
}

impl End {
    pub(super) fn new(
        agent: Box<dyn Agent>,
        (id, number, place): (u32, u32, u32),
        joined: Timestamp,
        activity: Activity,
    ) -> Self {
        Self {
            agent,
            id,
            number,
            place,
            joined,
            has_begun: false,
            leaves: None,
            deadline: Timestamp::MAX,
            timers: BinaryHeap::new(),
            timer: 0,
            arrivals: VecDeque::new(),
            sent: 0,
            activity,
        }
    }
}

/// What ends have produced.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Packets to the radio, and to the other end.
    pub(super) sent: Vec<Sent>,
    pub(super) fixed: Vec<Arrival>,
    pub(super) completed: Vec<Completed>,
    /// Measures of calls that have ended, and their places.
    pub(super) measures: Vec<(usize, CallMeasures)>,
    pub(super) packets: u64,
    pub(super) events: u64,
}

giusto_units::defaults! {
    /// The ends of some persons on one side.
    #[derive(Debug)]
    pub(super) struct Ends {
        way: Way = way,
        evaluation: (Timestamp, Timestamp) = evaluation,
        ids: Vec<u32> = Vec::new(),
        members: Vec<End> = Vec::new(),
        pub(super) changes: Vec<Change> = Vec::new(),
        pub(super) inbox: Vec<Arrival> = Vec::new(),
        /// Events that are left of persons who are not there any more: they only count.
        void: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new(),
        pub(super) output: Output = Output::default(),
    }
    pub(super) fn new(way: Way, evaluation: (Timestamp, Timestamp));
}

impl Ends {
    /// What the person `id` does.
    pub(super) fn activity(&self, id: u32) -> Option<&Activity> {
        let place = self.ids.iter().position(|&other| other == id)?;
        Some(&self.members.get(place)?.activity)
    }

    /// Processes all events up to `last`, the time of a millisecond, and what the radio delivers in it.
    pub(super) fn run(&mut self, last: Timestamp) {
        self.collect();
        let mut place = 0;
        while let Some(end) = self.members.get_mut(place) {
            end.run(Key::tick(last), self.way, self.evaluation, &mut self.output);
            let Some((key, measures)) = end.leaves.filter(|(key, _)| key.at <= last) else {
                place += 1;
                continue;
            };
            self.ids.swap_remove(place);
            let end = self.members.swap_remove(place);
            debug_assert!(end.joined <= key.at, "leaves before it joins");
            self.void.extend(end.timers.into_iter().map(|Reverse((key, _))| Reverse(key.at)));
            let waiting = end.arrivals.into_iter().filter(|arrival| !arrival.key.is_tick());
            self.void.extend(waiting.map(|arrival| Reverse(arrival.key.at)));
            if let (Some(place), Activity::Call { measures, .. }) = (measures, end.activity) {
                self.output.measures.push((place, *measures));
            }
        }
        while self.void.peek().is_some_and(|Reverse(at)| *at <= last) {
            self.void.pop();
            self.output.events += 1;
        }
    }

    /// Processes the events of the person `id` before `key`.
    pub(super) fn run_one(&mut self, id: u32, key: Key) {
        self.collect();
        if let Some(end) =
            self.ids.iter().position(|&other| other == id).and_then(|place| self.members.get_mut(place))
        {
            end.run(key, self.way, self.evaluation, &mut self.output);
        }
    }

    /// Takes what has been put into the inbox.
    fn collect(&mut self) {
        for arrival in self.inbox.drain(..) {
            let place = self.ids.iter().position(|&id| id == arrival.id);
            if let Some(end) = place.and_then(|place| self.members.get_mut(place)) {
                end.arrivals.push_back(arrival);
            } else if !arrival.key.is_tick() {
                self.void.push(Reverse(arrival.key.at));
            }
        }
        for change in self.changes.drain(..) {
            match change {
                Change::Join(end) => {
                    self.ids.push(end.id);
                    self.members.push(*end);
                }
                Change::Leave { id, key, measures } => {
                    let place = self.ids.iter().position(|&other| other == id);
                    if let Some(end) = place.and_then(|place| self.members.get_mut(place)) {
                        end.leaves = Some((key, measures));
                    }
                }
            }
        }
    }
}

impl End {
    /// Processes all events up to `limit`, or before it leaves.
    fn run(&mut self, mut limit: Key, way: Way, evaluation: (Timestamp, Timestamp), output: &mut Output) {
        if let Some((leaves, _)) = self.leaves {
            limit = limit.min(leaves);
        }
        if self.joined > limit.at {
            return;
        }
        if !self.has_begun {
            self.has_begun = true;
            let key = Key { at: self.joined, scheduled: self.joined, by_radio: false };
            self.drain(key, 0, way, evaluation, output);
        }
        loop {
            let timer = self.timers.peek().map(|Reverse((key, _))| *key);
            let arrival = self.arrivals.front().map(|arrival| arrival.key);
            let is_timer = match (timer, arrival) {
                (Some(timer), Some(arrival)) => timer <= arrival,
                (timer, _) => timer.is_some(),
            };
            let Some(key) = (if is_timer { timer } else { arrival }) else { return };
            // A tick of the radio is its own limit; other events are before theirs.
            if key > limit || key == limit && !key.is_tick() {
                return;
            }
            if is_timer {
                self.timers.pop();
                output.events += 1;
                if self.deadline != key.at {
                    continue;
                }
                self.deadline = Timestamp::MAX;
                self.agent.handle_timeout(key.at);
                self.drain(key, 0, way, evaluation, output);
            } else if let Some(arrival) = self.arrivals.pop_front() {
                output.events += u64::from(!key.is_tick());
                self.activity.on_received(key.at, evaluation, &arrival.packet, &arrival.body);
                self.agent.handle_packet(key.at, &arrival.packet, &arrival.body);
                self.drain(key, arrival.order, way, evaluation, output);
            }
        }
    }

    /// Sends the packets of the agent in the event `key`, and schedules its next deadline.
    fn drain(
        &mut self,
        key: Key,
        order: u64,
        way: Way,
        evaluation: (Timestamp, Timestamp),
        output: &mut Output,
    ) {
        let (now, by_radio) = (key.at, key.is_tick());
        let completed = Completed { at: now, order, by_radio, number: self.number, id: self.id };
        loop {
            let mut is_complete = false;
            while let Some(note) = self.agent.poll_note() {
                is_complete |= self.activity.on_note(now, evaluation, &note);
            }
            if is_complete {
                output.completed.push(completed);
            }
            let Some(transmit) = self.agent.poll_transmit(now) else { break };
            self.activity.on_sent(now, evaluation, transmit.flow, &transmit.body);
            let packet = Packet {
                flow: transmit.flow,
                bytes: transmit.bytes,
                sequence: self.sent,
                sent: now,
                queued: now,
                queue_delay_ns: 0,
                body: BodyId::NONE,
                hop: 0,
                ecn: transmit.ecn,
                corruption: 0,
            };
            self.sent += 1;
            output.packets += 1;
            let (id, place, body) = (self.id, self.place, transmit.body);
            match way {
                Way::Radio(delay) => {
                    output.sent.push(Sent { at: now + delay, by_radio, id, place, packet, body });
                }
                Way::Fixed(delay) => {
                    let key = Key { at: now + delay, scheduled: now, by_radio };
                    output.fixed.push(Arrival { key, order: 0, id, packet, body });
                }
            }
        }
        let next = self.agent.poll_timeout().map(|next| next.max(now + TimeDelta::from_nanos(1)));
        if let Some(next) = next.filter(|&next| next < self.deadline) {
            self.deadline = next;
            self.timer += 1;
            self.timers.push(Reverse((Key { at: next, scheduled: now, by_radio }, self.timer)));
        }
    }
}
