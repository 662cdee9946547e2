//! Tests of senders and receivers over a simple path.

mod bbr;
mod behaviour;
mod ecn;
mod engine;
mod prague;
mod properties;
mod recovery;
mod start;
mod theory;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{Algorithm, Application, Flags, Receiver, Segment, Sender, Settings};
use crate::{
    engine::EventQueue,
    packet::{FlowId, Packet},
    traffic::{Agent, Body, Transmit},
};

const fn ms(milliseconds: i64) -> TimeDelta {
    TimeDelta::from_millis(milliseconds)
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds)
}

/// The outcome of sending a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Delivered,
    Lost,
    Marked,
    Delayed(TimeDelta),
    Duplicated,
}

/// Returns the fate of the nth segment of a direction, from 0. In the forward direction only data segments count.
type FateRule = Box<dyn FnMut(u64, &Segment) -> Fate>;

/// A shared bottleneck in the forward direction; the reverse direction is unlimited.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// `None`: no queue and no serialisation.
    rate: Option<DataRate>,
    buffer: DataSize,
    one_way: TimeDelta,
}

impl Path {
    /// A path with only propagation delay.
    fn free(rtt: TimeDelta) -> Self {
        Self { rate: None, buffer: DataSize::ZERO, one_way: rtt / 2 }
    }

    /// 1 ms per full packet, an RTT of 100 ms and a buffer that never overflows.
    fn milliseconds() -> Self {
        Self::bottleneck(12, ms(100), 1 << 30)
    }

    fn bottleneck(mbps: u64, rtt: TimeDelta, buffer: u64) -> Self {
        let rate = Some(DataRate::from_bps(mbps * 1_000_000));
        Self { rate, buffer: DataSize::from_bytes(buffer), one_way: rtt / 2 }
    }
}

/// An event of the pair with this number.
#[derive(Debug, Clone, Copy)]
struct Event {
    pair: usize,
    to_sender: bool,
    /// `None`: a timer.
    arrival: Option<(Segment, Ecn)>,
}

struct Pair {
    sender: Sender,
    receiver: Receiver,
    /// Earliest scheduled timer of the receiver and the sender.
    armed: [Option<Timestamp>; 2],
}

impl Pair {
    fn agent(&mut self, is_sender: bool) -> &mut dyn Agent {
        if is_sender { &mut self.sender } else { &mut self.receiver }
    }
}

/// A sent segment.
#[derive(Debug, Clone, Copy)]
struct Sent {
    time: Timestamp,
    segment: Segment,
    ecn: Ecn,
    fate: Fate,
}

struct Network {
    now: Timestamp,
    events: EventQueue<Event>,
    pairs: Vec<Pair>,
    path: Path,
    busy_until: Timestamp,
    /// Interval in which the bottleneck transmits nothing, while its queue keeps its packets.
    paused: Option<(Timestamp, Timestamp)>,
    forward: FateRule,
    backward: FateRule,
    counts: [u64; 2],
    lost_at: Vec<Timestamp>,
    overflows: u64,
    /// Optional log of all sent segments, forward and backward.
    log: Option<[Vec<Sent>; 2]>,
    /// Optional record of the bytes that reached the receiver, to verify what it delivers.
    arrived: Option<Vec<bool>>,
}

impl Network {
    fn new(path: Path) -> Self {
        Self {
            now: Timestamp::ZERO,
            events: EventQueue::default(),
            pairs: Vec::new(),
            path,
            busy_until: Timestamp::ZERO,
            paused: None,
            forward: Box::new(|_, _| Fate::Delivered),
            backward: Box::new(|_, _| Fate::Delivered),
            counts: [0; 2],
            lost_at: Vec::new(),
            overflows: 0,
            log: None,
            arrived: None,
        }
    }

    fn forward(mut self, rule: impl FnMut(u64, &Segment) -> Fate + 'static) -> Self {
        self.forward = Box::new(rule);
        self
    }

    fn backward(mut self, rule: impl FnMut(u64, &Segment) -> Fate + 'static) -> Self {
        self.backward = Box::new(rule);
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

    /// All data segments sent.
    fn data(&self) -> Vec<Sent> {
        self.log.as_ref().unwrap()[0].iter().filter(|sent| sent.segment.length > 0).copied().collect()
    }

    /// All acknowledgements sent, without those of a SYN.
    fn acks(&self) -> Vec<Sent> {
        let sent = self.log.as_ref().unwrap()[1].iter();
        sent.filter(|sent| !sent.segment.flags.contains(Flags::SYN)).copied().collect()
    }

    /// Runs until `end` or until no event is left.
    fn run(&mut self, end: Timestamp) {
        while let Some((now, event)) = self.events.pop_until(end) {
            self.now = now;
            let pair = &mut self.pairs[event.pair];
            match event.arrival {
                None => {
                    let armed = &mut pair.armed[usize::from(event.to_sender)];
                    *armed = armed.filter(|&armed| armed != now);
                    pair.agent(event.to_sender).handle_timeout(now);
                }
                Some((segment, ecn)) => {
                    let body = Body::Tcp(segment);
                    pair.agent(event.to_sender).handle_packet(now, &packet(&segment, ecn), &body);
                }
            }
            self.drain(event.pair, event.to_sender);
            if let (Some(arrived), Some((segment, _)), false) =
                (&mut self.arrived, event.arrival, event.to_sender)
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
        while let Some(transmit) = self.pairs[at].agent(is_sender).poll_transmit(now) {
            self.transmit(at, is_sender, &transmit);
        }
        let pair = &mut self.pairs[at];
        if let Some(due) = pair.agent(is_sender).poll_timeout() {
            assert!(due > now || now == Timestamp::ZERO, "deadline in the past");
            let armed = &mut pair.armed[usize::from(is_sender)];
            if armed.is_none_or(|armed| due < armed) {
                *armed = Some(due);
                self.events.schedule(due, Event { pair: at, to_sender: is_sender, arrival: None });
            }
        }
    }

    fn transmit(&mut self, pair: usize, is_forward: bool, transmit: &Transmit) {
        let Body::Tcp(segment) = transmit.body else { panic!("no segment") };
        assert_eq!(transmit.bytes, segment.wire_bytes());
        let counted = !is_forward || segment.length > 0;
        let count = &mut self.counts[usize::from(!is_forward)];
        let rule = if is_forward { &mut self.forward } else { &mut self.backward };
        let fate = rule(*count, &segment);
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
            let pause = self.paused.map_or(TimeDelta::ZERO, |(from, to)| {
                self.busy_until.min(to).saturating_since(from.max(self.now))
            });
            let backlog = rate.size_in(self.busy_until.saturating_since(self.now) - pause);
            if backlog + size > self.path.buffer {
                self.overflows += 1;
                return;
            }
            let start = self.busy_until.max(self.now);
            let pause = self.paused.filter(|&(from, to)| (from..to).contains(&start));
            self.busy_until = pause.map_or(start, |(_, to)| to) + rate.time_for(size).unwrap();
            arrival = self.busy_until + self.path.one_way;
        }
        if let Fate::Delayed(by) = fate {
            arrival += by;
        }
        for _ in 0..=u8::from(fate == Fate::Duplicated) {
            let event = Event { pair, to_sender: !is_forward, arrival: Some((segment, ecn)) };
            self.events.schedule(arrival, event);
        }
    }
}

/// Loses the data segments for which this holds.
fn losing(mut is_lost: impl FnMut(u64, &Segment) -> bool) -> impl FnMut(u64, &Segment) -> Fate {
    move |n, segment| if segment.length > 0 && is_lost(n, segment) { Fate::Lost } else { Fate::Delivered }
}

/// Whether a segment was sent from one time to another, in seconds.
fn sent_between(segment: &Segment, from: f64, to: f64) -> bool {
    (at(from)..at(to)).contains(&segment.stamp)
}

/// Bytes as a share of what a link carries in `seconds`, of whose packets 1448 of 1500 bytes are data.
fn utilisation(bytes: u64, mbps: f64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds / (mbps * 1e6 * 1448.0 / 1500.0)
}

/// Jain's fairness index: 1 for equal shares, 1/n if one flow has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

fn packet(segment: &Segment, ecn: Ecn) -> Packet {
    Packet { bytes: segment.wire_bytes(), ecn, ..Packet::default() }
}
