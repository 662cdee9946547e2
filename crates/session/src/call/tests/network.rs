//! A caller and a listener on a virtual network.

use std::{collections::BTreeMap, net::SocketAddr};

use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    call::*,
    keys::KeyRing,
    media::{Datagram, Payload},
};

pub(super) const MILLI: TimeDelta = TimeDelta::from_millis(1);

/// An RTP packet each 10 ms until it is stopped; counts what arrives.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    pub(super) sources: u32,
    pub(super) next: Option<Timestamp>,
    pub(super) sent: u64,
    pub(super) unsent: u64,
    pub(super) received: Vec<Timestamp>,
    pub(super) copies: usize,
    pub(super) stopped: bool,
    /// What is queued at the end: packets.
    pub(super) queued: Option<u64>,
    pub(super) closed: bool,
    pub(super) routes: u32,
    pub(super) correction: Option<TimeDelta>,
}

impl Ticks {
    pub(super) fn new(sources: u32, sends: bool) -> Self {
        Self { sources, next: sends.then_some(Timestamp::ZERO), ..Self::default() }
    }
}

impl CallMedia for Ticks {
    fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], _ecn: Ecn) {
        assert!((128..=191).contains(&bytes[0]) && bytes.len() == 112, "{}", bytes.len());
        self.received.push(now);
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn on_copy(&mut self, kind: u8) {
        assert_eq!(kind, 96);
        self.copies += 1;
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let due = self.next.filter(|due| *due <= now && !self.stopped)?;
        self.next = Some(due.max(now - MILLI * 10) + MILLI * 10);
        if self.closed {
            self.queued = self.queued?.checked_sub(1);
            self.queued?;
        }
        self.sent += 1;
        let mut head = vec![0x80, 96, 0, self.sent as u8, 0, 0, 0, 0];
        head.extend((self.sources | 2).to_be_bytes());
        Some(Datagram { head: head.into(), payload: Payload::from(vec![7; 100]), ecn: Ecn::NotEct })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.stopped)
    }

    fn on_route_change(&mut self, _now: Timestamp) {
        self.routes += 1;
    }

    fn on_clock(&mut self, correction: TimeDelta) {
        self.correction = Some(correction);
    }

    fn on_unsent(&mut self, _now: Timestamp, kind: u8, size: DataSize) {
        // The size does not contain what protects it.
        assert_eq!((kind, size), (96, DataSize::from_bytes(112)));
        self.sent -= 1;
        self.unsent += 1;
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn is_sent(&self, _now: Timestamp) -> bool {
        self.queued.is_none_or(|queued| queued == 0)
    }

    fn stop(&mut self, _now: Timestamp) {
        self.stopped = true;
    }

    fn figures(&self, _now: Timestamp) -> EndFigures {
        let sent = self.next.map(|_| SentFigures { packets: self.sent, rate_bps: 0.0 });
        let packets = self.received.len() as u64;
        EndFigures { sent, received: Some(ReceivedFigures { packets, ..ReceivedFigures::default() }) }
    }
}

pub(super) const CALLER: u32 = 0xAABB_0000;
pub(super) const LISTENER: u32 = 0xCCDD_0000;

pub(super) fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 5004))
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::ZERO + MILLI * millis
}

pub(super) fn ring(byte: &str) -> KeyRing {
    KeyRing::parse(&format!("1 {}", byte.repeat(32))).unwrap()
}

pub(super) fn offer(duration: Option<i64>) -> Offer {
    let media = MediaOffer {
        controller: "gcc".to_owned(),
        feedback: "transport-wide".to_owned(),
        encoder: String::new(),
        rates: [giusto_units::DataRate::from_bps(100_000); 3],
        codec: None,
        videos: vec![VideoOffer { id: "video".to_owned(), priority: 1.0 }],
        audio: None,
        max_payload: giusto_units::DataSize::from_bytes(1200),
        receiver_limit: None,
        ecn: 0,
        repair: RepairOffer::default(),
    };
    let duration = duration.map(|millis| MILLI * millis);
    Offer { sources: CALLER, sends: Some(media), duration, ..Offer::default() }
}

/// Numbers without a pattern: Knuth's linear congruential generator (MMIX).
pub(super) fn chances() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// What the network does with a datagram: the times at which it arrives.
pub(super) type Fate = Box<dyn FnMut(Timestamp, SocketAddr, SocketAddr, &mut Vec<u8>) -> Vec<TimeDelta>>;

/// A caller and a listener, with 20 ms between them. The listener's clock is 5 s ahead.
pub(super) struct Network {
    pub(super) now: Timestamp,
    pub(super) caller: Calls<Ticks>,
    pub(super) listener: Calls<Ticks>,
    /// The address that the caller sends from.
    pub(super) from: SocketAddr,
    pub(super) home: SocketAddr,
    pub(super) flying: BTreeMap<(Timestamp, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    pub(super) number: u64,
    pub(super) fate: Fate,
    /// Bytes from and to each address at the listener, until a call begins.
    pub(super) bytes: BTreeMap<SocketAddr, (usize, usize)>,
    pub(super) call: CallId,
    pub(super) served: Vec<CallId>,
    pub(super) events: Vec<(bool, CallEvent)>,
    pub(super) answers: bool,
    /// The system of the caller takes nothing.
    pub(super) refuses: bool,
}

pub(super) const AHEAD: TimeDelta = TimeDelta::from_seconds(5);

impl Network {
    pub(super) fn new([ours, theirs]: [Option<KeyRing>; 2], offer: Offer) -> Self {
        let mut keys = [ours, theirs].into_iter();
        Self::with(offer, |config| config.keys = keys.next().flatten())
    }

    /// `set` is called for the caller, then for the listener.
    pub(super) fn with(offer: Offer, mut set: impl FnMut(&mut CallsConfig)) -> Self {
        let [mut ours, mut theirs] =
            [CallsConfig::new([1; 32]), CallsConfig { max_calls: 3, ..CallsConfig::new([2; 32]) }];
        set(&mut ours);
        set(&mut theirs);
        let (mut caller, listener) = (Calls::new(ours), Calls::new(theirs));
        let call = caller.call(Timestamp::ZERO, address(2), 77, offer).unwrap();
        Self {
            now: Timestamp::ZERO,
            caller,
            listener,
            from: address(1),
            home: address(2),
            flying: BTreeMap::new(),
            number: 0,
            fate: Box::new(|_, _, _, _| vec![MILLI * 20]),
            bytes: BTreeMap::new(),
            call,
            served: Vec::new(),
            events: Vec::new(),
            answers: true,
            refuses: false,
        }
    }

    pub(super) fn send(&mut self, from: SocketAddr, to: SocketAddr, mut bytes: Vec<u8>) {
        for delay in (self.fate)(self.now, from, to, &mut bytes) {
            self.number += 1;
            self.flying.insert((self.now + delay, self.number), (from, to, bytes.clone()));
        }
    }

    pub(super) fn drain(&mut self) {
        loop {
            let (mut sent, mut buffer, mut refused) = (Vec::new(), Vec::new(), Vec::new());
            while let Some(outgoing) = self.caller.poll_transmit(self.now, &mut buffer) {
                if self.refuses {
                    buffer.clear();
                    refused.extend(outgoing.media);
                    continue;
                }
                sent.push((self.from, outgoing.to, std::mem::take(&mut buffer)));
            }
            while let Some(outgoing) = self.listener.poll_transmit(self.now + AHEAD, &mut buffer) {
                if self.served.is_empty() {
                    self.bytes.entry(outgoing.to).or_default().1 += buffer.len();
                }
                sent.push((self.home, outgoing.to, std::mem::take(&mut buffer)));
            }
            for (from, to, bytes) in sent {
                self.send(from, to, bytes);
            }
            let mut quiet = refused.is_empty();
            refused.drain(..).for_each(|media| self.caller.handle_unsent(self.now, media));
            while let Some(event) = self.caller.poll_event() {
                if let CallEvent::Accepted { id, answer } = &event {
                    assert_eq!(answer.sources, LISTENER);
                    self.caller.begin(self.now, *id, Ticks::new(CALLER, true));
                }
                self.events.push((true, event));
                quiet = false;
            }
            while let Some(event) = self.listener.poll_event() {
                if let CallEvent::Offered { id, offer, .. } = &event
                    && self.answers
                {
                    let media = Ticks::new(LISTENER, offer.wants.is_some());
                    self.listener.accept(self.now + AHEAD, *id, Answer { sources: LISTENER }, media);
                    self.served.push(*id);
                }
                self.events.push((false, event));
                quiet = false;
            }
            if quiet {
                return;
            }
        }
    }

    /// Lets the time pass until `end`.
    pub(super) fn run(&mut self, end: Timestamp) {
        loop {
            self.drain();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let caller = self.caller.poll_timeout();
            let listener =
                self.listener.poll_timeout().map(|at| Timestamp::ZERO + (at - (Timestamp::ZERO + AHEAD)));
            assert!(caller.is_none_or(|at| at > self.now) && listener.is_none_or(|at| at > self.now));
            let next = [arrival, caller, listener].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next;
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= next) {
                let (from, to, bytes) = entry.remove();
                if to == self.home {
                    if self.served.is_empty() {
                        self.bytes.entry(from).or_default().0 += bytes.len();
                    }
                    self.listener.handle_datagram(next + AHEAD, from, &bytes, Ecn::NotEct);
                } else if to == self.from {
                    self.caller.handle_datagram(next, from, &bytes, Ecn::NotEct);
                }
            }
            self.caller.handle_timeout(next);
            self.listener.handle_timeout(next + AHEAD);
        }
        self.now = end;
    }

    pub(super) fn ended(&self, is_caller: bool) -> Option<&Result<(), CallError>> {
        self.events.iter().find_map(|(at_caller, event)| match event {
            CallEvent::Ended { outcome, .. } if *at_caller == is_caller => Some(outcome),
            _ => None,
        })
    }

    /// How both ends ended.
    pub(super) fn both_ended(&self) -> [Option<&Result<(), CallError>>; 2] {
        [self.ended(true), self.ended(false)]
    }

    /// Lets only those datagrams through that are sent when `passes` says so.
    pub(super) fn pass(&mut self, passes: impl Fn(Timestamp) -> bool + 'static) {
        self.fate = Box::new(move |now, _, _, _| if passes(now) { vec![MILLI * 20] } else { vec![] });
    }

    pub(super) fn received(&self) -> usize {
        self.listener.media(self.served[0]).unwrap().received.len()
    }
}
