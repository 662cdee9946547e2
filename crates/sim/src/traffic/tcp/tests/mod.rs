//! Two ends and a path between them, for tests of the whole.

mod behaviour;
mod ecn;
mod engine;
mod properties;
mod sharing;
mod start;
mod theory;

use std::{cmp::Ordering, collections::BinaryHeap};

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{Application, Flags, Receiver, Segment, Sender, Settings};
use crate::{
    packet::{BodyId, FlowId, Packet},
    traffic::{Agent, Body, Transmit},
};

const fn ms(milliseconds: i64) -> TimeDelta {
    TimeDelta::from_millis(milliseconds)
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds)
}

/// What becomes of a segment on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    Marked,
    Late(TimeDelta),
    Twice,
}

/// Decides over the segment that is the nth of its direction, from 0; only those with data count forward.
type Law = Box<dyn FnMut(u64, &Segment) -> Fate>;

/// A bottleneck that all senders share; the way back is free.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// `None`: no queue, no serialisation.
    rate: Option<DataRate>,
    buffer: DataSize,
    one_way: TimeDelta,
}

impl Path {
    /// Nothing but a round trip.
    fn free(round_trip: TimeDelta) -> Self {
        Self { rate: None, buffer: DataSize::ZERO, one_way: round_trip / 2 }
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    Arrival(Segment, Ecn),
    Timer,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    time: Timestamp,
    order: u64,
    pair: usize,
    to_sender: bool,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

struct Pair {
    sender: Sender,
    receiver: Receiver,
    armed: [Option<Timestamp>; 2],
}

/// Something that was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    time: Timestamp,
    segment: Segment,
    ecn: Ecn,
    fate: Fate,
}

struct Network {
    now: Timestamp,
    events: BinaryHeap<Event>,
    order: u64,
    pairs: Vec<Pair>,
    path: Path,
    busy_until: Timestamp,
    forward: Law,
    backward: Law,
    counts: [u64; 2],
    lost_at: Vec<Timestamp>,
    overflows: u64,
    /// All that was sent, forward and backward, if wanted.
    log: Option<[Vec<Sent>; 2]>,
    /// Which bytes reached the receiver, if wanted: what it delivers is compared with it.
    arrived: Option<Vec<bool>>,
}

impl Network {
    fn new(path: Path) -> Self {
        Self {
            now: Timestamp::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            pairs: Vec::new(),
            path,
            busy_until: Timestamp::ZERO,
            forward: Box::new(|_, _| Fate::Arrives),
            backward: Box::new(|_, _| Fate::Arrives),
            counts: [0; 2],
            lost_at: Vec::new(),
            overflows: 0,
            log: None,
            arrived: None,
        }
    }

    fn forward(mut self, law: impl FnMut(u64, &Segment) -> Fate + 'static) -> Self {
        self.forward = Box::new(law);
        self
    }

    fn backward(mut self, law: impl FnMut(u64, &Segment) -> Fate + 'static) -> Self {
        self.backward = Box::new(law);
        self
    }

    fn logged(mut self) -> Self {
        self.log = Some(Default::default());
        self
    }

    fn with(self, settings: &Settings, application: Application) -> Self {
        let sender = Sender::new(FlowId(0), settings.clone(), application).unwrap();
        self.with_sender(settings, sender)
    }

    fn with_sender(mut self, settings: &Settings, sender: Sender) -> Self {
        let receiver = Receiver::new(FlowId(1), settings.clone()).unwrap();
        self.pairs.push(Pair { sender, receiver, armed: [None; 2] });
        let pair = self.pairs.len() - 1;
        self.drain(pair, true);
        self
    }

    fn sender(&self) -> &Sender {
        &self.pairs[0].sender
    }

    fn receiver(&self) -> &Receiver {
        &self.pairs[0].receiver
    }

    /// What was sent forward with data.
    fn data(&self) -> Vec<Sent> {
        self.log.as_ref().unwrap()[0].iter().filter(|sent| sent.segment.length > 0).copied().collect()
    }

    /// The acknowledgements that were sent back.
    fn acks(&self) -> Vec<Sent> {
        let sent = self.log.as_ref().unwrap()[1].iter();
        sent.filter(|sent| !sent.segment.flags.contains(Flags::SYN)).copied().collect()
    }

    /// Runs until `end`, or until nothing more will happen.
    fn run(&mut self, end: Timestamp) {
        while self.events.peek().is_some_and(|event| event.time <= end) {
            let event = self.events.pop().unwrap();
            self.now = event.time;
            let pair = &mut self.pairs[event.pair];
            let armed = &mut pair.armed[usize::from(event.to_sender)];
            let agent: &mut dyn Agent = if event.to_sender { &mut pair.sender } else { &mut pair.receiver };
            match event.what {
                What::Timer => {
                    *armed = armed.filter(|&armed| armed != event.time);
                    agent.handle_timeout(event.time);
                }
                What::Arrival(segment, ecn) => {
                    agent.handle_packet(event.time, &packet(&segment, ecn), &Body::Tcp(segment));
                }
            }
            self.drain(event.pair, event.to_sender);
            if let (Some(arrived), What::Arrival(segment, _), false) =
                (&mut self.arrived, event.what, event.to_sender)
            {
                arrived[segment.sequence as usize..segment.end() as usize].fill(true);
                let in_order = arrived.iter().position(|arrived| !arrived).unwrap_or(arrived.len());
                assert_eq!(self.receiver().stats().delivered, in_order as u64);
            }
        }
        self.now = self.now.max(end);
    }

    fn drain(&mut self, at: usize, is_sender: bool) {
        let now = self.now;
        loop {
            let pair = &mut self.pairs[at];
            let agent: &mut dyn Agent = if is_sender { &mut pair.sender } else { &mut pair.receiver };
            let Some(transmit) = agent.poll_transmit(now) else { break };
            self.carry(at, is_sender, &transmit);
        }
        let pair = &mut self.pairs[at];
        let agent: &dyn Agent = if is_sender { &pair.sender } else { &pair.receiver };
        let armed = &mut pair.armed[usize::from(is_sender)];
        if let Some(due) = agent.poll_timeout() {
            assert!(due > now || now == Timestamp::ZERO, "a deadline in the past");
            if armed.is_none_or(|armed| due < armed) {
                *armed = Some(due);
                self.push(due, at, is_sender, What::Timer);
            }
        }
    }

    fn push(&mut self, time: Timestamp, pair: usize, to_sender: bool, what: What) {
        self.order += 1;
        self.events.push(Event { time, order: self.order, pair, to_sender, what });
    }

    fn carry(&mut self, pair: usize, is_forward: bool, transmit: &Transmit) {
        let Body::Tcp(segment) = transmit.body else { panic!("no segment") };
        assert_eq!(transmit.bytes, segment.wire_bytes());
        let counted = !is_forward || segment.length > 0;
        let count = &mut self.counts[usize::from(!is_forward)];
        let law = if is_forward { &mut self.forward } else { &mut self.backward };
        let fate = law(*count, &segment);
        *count += u64::from(counted);
        if let Some(log) = &mut self.log {
            log[usize::from(!is_forward)].push(Sent { time: self.now, segment, ecn: transmit.ecn, fate });
        }
        let mut ecn = transmit.ecn;
        if fate == Fate::Lost {
            self.lost_at.push(self.now);
            return;
        }
        if fate == Fate::Marked && ecn.is_capable() {
            ecn = Ecn::Ce;
        }
        let mut arrival = self.now + self.path.one_way;
        if let Some(rate) = self.path.rate.filter(|_| is_forward) {
            let size = DataSize::from_bytes(u64::from(transmit.bytes));
            let backlog = rate.size_in(self.busy_until.saturating_since(self.now));
            if backlog + size > self.path.buffer {
                self.overflows += 1;
                return;
            }
            self.busy_until = self.busy_until.max(self.now) + rate.time_for(size).unwrap();
            arrival = self.busy_until + self.path.one_way;
        }
        if let Fate::Late(by) = fate {
            arrival += by;
        }
        self.push(arrival, pair, !is_forward, What::Arrival(segment, ecn));
        if fate == Fate::Twice {
            self.push(arrival, pair, !is_forward, What::Arrival(segment, ecn));
        }
    }
}

fn packet(segment: &Segment, ecn: Ecn) -> Packet {
    Packet {
        flow: FlowId(0),
        bytes: segment.wire_bytes(),
        sequence: 0,
        sent: Timestamp::ZERO,
        queued: Timestamp::ZERO,
        waited_ns: 0,
        body: BodyId::NONE,
        hop: 0,
        ecn,
    }
}
