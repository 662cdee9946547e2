//! Function of the fuzz target of calls. The ordinary tests run the seeds in `fuzz/seeds/call` through the same code.

#![allow(clippy::indexing_slicing, reason = "indices are below the length of the arrays")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use giusto_session::{
    call::{
        Answer, CallEvent, CallMedia, Calls, CallsConfig, EndFigures, MediaOffer, Offer, RepairOffer,
        VideoOffer,
    },
    keys::KeyRing,
    media::{Datagram, Payload},
    probe::wire,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

const CALLER: u32 = 0xAABB_0000;
const LISTENER: u32 = 0xCCDD_0000;
const MAX_CALLS: usize = 2;

/// An RTP packet each 10 ms until it is stopped, with its number as payload.
#[derive(Debug, Default)]
struct Numbers {
    sources: u32,
    next: Timestamp,
    sent: u32,
    received: Vec<u32>,
    stopped: bool,
}

impl CallMedia for Numbers {
    fn handle_datagram(&mut self, _now: Timestamp, bytes: &[u8], _ecn: Ecn) {
        let number = bytes.last_chunk().map_or(u32::MAX, |number| u32::from_be_bytes(*number));
        self.received.push(number);
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        if self.stopped || self.next > now {
            return None;
        }
        self.next = now + TimeDelta::from_millis(10);
        let mut head = vec![0x80, 96, 0, self.sent as u8, 0, 0, 0, 0];
        head.extend(self.sources.to_be_bytes());
        let payload = Payload::from(self.sent.to_be_bytes().to_vec());
        self.sent += 1;
        Some(Datagram { head: head.into(), payload, ecn: Ecn::Ect0 })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (!self.stopped).then_some(self.next)
    }

    fn on_route_change(&mut self, _now: Timestamp) {}

    fn stop(&mut self, _now: Timestamp) {
        self.stopped = true;
    }

    fn figures(&self, _now: Timestamp) -> EndFigures {
        EndFigures::default()
    }
}

fn offer() -> Offer {
    let media = MediaOffer {
        controller: "fixed".to_owned(),
        feedback: "transport-wide".to_owned(),
        encoder: String::new(),
        codec: None,
        rates: [DataRate::from_bps(100_000); 3],
        videos: vec![VideoOffer { id: "video".to_owned(), priority: 1.0 }],
        audio: None,
        max_payload: DataSize::from_bytes(1200),
        receiver_limit: None,
        ecn: 0,
        repair: RepairOffer::default(),
    };
    Offer { sources: CALLER, sends: Some(media.clone()), wants: Some(media), ..Offer::default() }
}

/// A caller, a listener, and somebody who owns the network between them: copies, changes, cuts, holds back and adds datagrams, from
/// any of four addresses. With keys, media arrive unchanged, in at most one copy. Without, whoever has not proved an address gets
/// no more bytes than came from it. Deadlines advance, a call is accepted once and ends once, each step does bounded work.
pub(crate) fn call(bytes: &[u8]) {
    let [first, rest @ ..] = bytes else { return };
    let has_keys = first % 2 == 1;
    let keys = has_keys.then(|| KeyRing::parse("1 00112233445566778899aabbccddeeff").expect("this is a key"));
    let address = |number: u8| SocketAddr::from(([192, 0, 2, number % 4], 5004));
    let [caller, listener] = [address(0), address(1)];
    let config = |secret| CallsConfig { keys: keys.clone(), ..CallsConfig::new([secret; 32]) };
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let mut ends: [Calls<Numbers>; 2] =
        [Calls::new(config(1)), Calls::new(CallsConfig { max_calls: MAX_CALLS, ..config(2) })];
    let called = ends[0].call(now, listener, 9, offer()).expect("the offer is valid");
    // What was sent, by whom, and how many bytes each address owes.
    let mut seen: Vec<(usize, Vec<u8>)> = Vec::new();
    let (mut budget, mut proven) = (BTreeMap::<SocketAddr, i64>::new(), BTreeSet::from([caller]));
    let (mut accepted, mut ended) = (false, BTreeSet::new());
    let (mut rest, mut next) = (rest, 0);
    loop {
        for (number, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now);
            let mut buffer = Vec::new();
            for count in 0.. {
                while let Some(event) = end.poll_event() {
                    match event {
                        CallEvent::Offered { id, from, .. } => {
                            proven.insert(from);
                            let media = Numbers { sources: LISTENER, ..Numbers::default() };
                            end.accept(now, id, Answer { sources: LISTENER }, media);
                        }
                        CallEvent::Accepted { id, .. } => {
                            assert!(number == 0 && id == called && !accepted);
                            accepted = true;
                            end.begin(now, id, Numbers { sources: CALLER, ..Numbers::default() });
                        }
                        CallEvent::Moved { to, .. } => drop(proven.insert(to)),
                        CallEvent::Ended { id, .. } => assert!(ended.insert((number, id)), "ended twice"),
                        _ => {}
                    }
                }
                buffer.clear();
                let Some(outgoing) = end.poll_transmit(now, &mut buffer) else { break };
                assert!(count < 100, "an end sends without end");
                if number == 1 && !proven.contains(&outgoing.to) {
                    let left = budget.entry(outgoing.to).or_default();
                    *left -= buffer.len() as i64;
                    assert!(*left >= 0, "{} gets more than it sent", outgoing.to);
                }
                seen.push((number, buffer.clone()));
            }
            assert!(end.poll_timeout().is_none_or(|at| at > now));
            assert!(end.live().count() <= MAX_CALLS);
            if has_keys {
                let ids: Vec<_> = end.live().collect();
                for media in ids.iter().filter_map(|id| end.media(*id)) {
                    let once: BTreeSet<_> = media.received.iter().collect();
                    assert_eq!(once.len(), media.received.len(), "a packet came twice");
                    assert!(media.received.iter().all(|number| *number < 10_000), "a packet was changed");
                }
            }
        }
        let [action, back, change, tail @ ..] = rest else { break };
        rest = tail;
        now += TimeDelta::from_micros(1 << (action / 12));
        let mut bytes = match (action % 12, seen.len().checked_sub(1 + usize::from(*back))) {
            (0, _) => {
                let (bytes, following) = rest.split_at(usize::from(*back).min(rest.len()));
                rest = following;
                Some((usize::from(*change % 2), bytes.to_vec()))
            }
            (1, _) => {
                for end in &mut ends {
                    let live: Vec<_> = end.live().collect();
                    live.into_iter().filter(|_| *change == 0).for_each(|id| end.finish(now, id));
                }
                None
            }
            // In order, one after another.
            (6..9, _) => {
                let following = seen.get(next).cloned();
                next = (next + 1).min(seen.len());
                following
            }
            (_, place) => place.and_then(|place| seen.get(place)).cloned(),
        };
        if let Some((by, bytes)) = &mut bytes {
            let place = usize::from(*change) * 31 % (bytes.len() * 8).max(1);
            match action % 12 {
                2 | 3 if !bytes.is_empty() => bytes[place / 8] ^= 1 << (place % 8),
                4 => bytes.truncate(place / 8),
                _ => {}
            }
            if action % 12 == 3 || action % 12 == 0 {
                wire::seal(bytes);
            }
            // Usually from its sender, sometimes from elsewhere.
            let from =
                if action % 12 == 5 || action % 12 == 0 { address(*change) } else { [caller, listener][*by] };
            let to = 1 - *by;
            if to == 1 {
                *budget.entry(from).or_default() += bytes.len() as i64;
            }
            ends[to].handle_datagram(now, from, bytes, Ecn::from_bits(*change));
        }
    }
}
