//! Two ends on a virtual network.

mod network;

use std::net::SocketAddr;

use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::*;
use crate::keys::KeyRing;
use network::{AHEAD, CALLER, MILLI, Network, Ticks, address, at, chances, offer, ring};

#[test]
fn what_the_system_refuses_is_not_sent_and_a_new_address_is_proven_soon() {
    let ring = || Some(KeyRing::with_key(crate::keys::KeyId(1), b"key"));
    for keys in [[None, None], [ring(), ring()]] {
        let mut most_lost = 0;
        for phase in 0..12_i64 {
            let mut network = Network::new(keys.clone(), offer(Some(4000)));
            network.run(at(1000));
            network.refuses = true;
            network.run(at(2000 + phase * 50));
            (network.refuses, network.from) = (false, address(3));
            network.run(at(6000));
            assert_eq!(network.ended(true), Some(&Ok(())));
            let Ticks { sent, unsent, .. } = *network.caller.media(network.call).unwrap();
            assert!((99 + phase * 5..=102 + phase * 5).contains(&unsent.cast_signed()), "{unsent} {phase}");
            // Media from an address that is not proven are not taken.
            let lost = sent - network.received() as u64;
            most_lost = most_lost.max(lost);
            assert_eq!(network.caller.moves(network.call), Some(1));
        }
        // A Ping each 100 ms, and two ways of 20 ms until the proof leaves.
        assert!((5..=15).contains(&most_lost), "{most_lost}");
    }
}

#[test]
fn a_flood_of_requests_is_not_answered_beside_a_call() {
    let mut network = Network::new([None, None], offer(Some(3000)));
    let hello = messages::Message::Hello { nonce: 5 }.encode();
    let flood = |network: &mut Network| {
        let (now, mut buffer, mut answers) = (network.now + AHEAD, Vec::new(), 0_u64);
        for _ in 0..1000 {
            network.listener.handle_datagram(now, address(9), &hello, Ecn::NotEct);
            while let Some(outgoing) = network.listener.poll_transmit(now, &mut buffer) {
                answers += u64::from(outgoing.to == address(9));
            }
        }
        answers
    };
    assert_eq!(flood(&mut network), 1000, "there is no call to disturb");
    network.run(at(500));
    assert!(network.received() > 10);
    let answers = flood(&mut network);
    assert!((1..100).contains(&answers), "{answers}");
    assert_eq!(network.listener.counters().unanswered_handshakes, 1000 - answers);
}

#[test]
fn media_right_behind_the_acceptance_are_not_lost() {
    let both = Offer { wants: offer(None).sends, ..offer(Some(1000)) };
    let mut network = Network::new([None, None], both);
    // What the listener sends in its first 50 ms arrives in one go: the caller takes all of it before it takes the event.
    let mut first = None;
    network.fate = Box::new(move |now, from, _, bytes| {
        let is_answer = from == address(2) && !matches!(messages::Kind::of(bytes), messages::Kind::Control);
        let since = now - *first.get_or_insert(now);
        vec![if is_answer || since > MILLI * 40 { (MILLI * 140 - since).max(MILLI * 20) } else { MILLI * 20 }]
    });
    network.run(at(3000));
    let sent = network.listener.media(network.served[0]).unwrap().sent;
    let received = &network.caller.media(network.call).unwrap().received;
    assert_eq!(received.len() as u64, sent);
    assert!(received[3] < at(1), "several came with the acceptance: {received:?}");
}

#[test]
fn a_call_begins_flows_and_ends_with_figures() {
    for keys in [None, Some(ring("11"))] {
        let both = Offer { wants: offer(None).sends, ..offer(Some(1000)) };
        let mut network = Network::new([keys.clone(), keys], both);
        network.run(at(3000));
        assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
        let far = network.caller.far_end(network.call).unwrap();
        // It began when the answer arrived, after two round trips, and lasted for 1 s: a packet each 10 ms.
        assert_eq!(far.received.as_ref().unwrap().packets, 100);
        assert_eq!(network.received(), 100);
        let at_caller = network.caller.media(network.call).unwrap();
        let told = network.listener.far_end(network.served[0]).unwrap();
        assert_eq!(told.sent.unwrap().packets, at_caller.sent);
        // The listener sends from its acceptance until the Finish arrives; all of that arrived before the end.
        let sent = network.listener.media(network.served[0]).unwrap().sent;
        assert!((104..=112).contains(&sent), "{sent}");
        let at_end = told.received.as_ref().unwrap().packets;
        // Those before the answer was there are not believed.
        assert!(at_end == at_caller.received.len() as u64 && at_end + 1 >= sent, "{at_end} of {sent}");
        // The caller's beginning is 20 ms later than that of the listener, on whose clock it is 5 s later.
        assert_eq!(at_caller.correction, Some(MILLI * 20));
        let at_listener = network.listener.media(network.served[0]).unwrap();
        assert_eq!(at_listener.correction, Some(MILLI * -20));
        let rtt = network.caller.rtts(network.call).unwrap().quantile(0.5).unwrap();
        assert!((rtt - MILLI * 40).as_nanos().abs() < 1_000_000, "{rtt}");
        assert!(network.caller.live().next().is_none() && network.listener.live().next().is_none());
    }
}

#[test]
fn what_is_queued_at_the_end_is_sent_within_bounds() {
    // Of 100 packets, one each 10 ms, there is room for those of 200 ms.
    for (queued, least, most) in [(0, 0, 0), (7, 7, 7), (100, 19, 21)] {
        let mut network = Network::new([None, None], offer(Some(1000)));
        network.run(at(500));
        network.caller.media_mut(network.call).unwrap().queued = Some(queued);
        network.run(at(3000));
        assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
        let Ticks { closed, sent, .. } = *network.caller.media(network.call).unwrap();
        let after = sent - 100;
        assert!(closed && (least..=most).contains(&after), "{queued} {after}");
        assert_eq!(network.received() as u64, sent);
    }
}

#[test]
fn ended_calls_are_forgotten() {
    let mut network = Network::new([None, None], offer(Some(100)));
    network.run(at(1000));
    assert!(network.listener.status(network.served[0]).is_some());
    assert!(network.listener.take_media(network.served[0]).is_some());
    assert!(network.caller.take_media(network.call).is_some());
    network.run(at(5000));
    assert_eq!(network.listener.status(network.served[0]), None);
    assert_eq!(network.caller.status(network.call), None);
    assert_eq!((network.caller.poll_timeout(), network.listener.poll_timeout()), (None, None));
}

#[test]
fn an_unproven_address_gets_no_more_than_it_sent() {
    let mut network = Network::new([None, None], offer(None));
    // Nothing reaches the caller: its address is never proven.
    network.fate = Box::new(|_, _, to, _| if to == address(1) { vec![] } else { vec![MILLI * 20] });
    network.run(at(5000));
    assert_eq!(network.ended(true), Some(&Err(CallError::NoAnswer(TimeDelta::from_seconds(3)))));
    let (received, sent) = network.bytes[&address(1)];
    assert!(sent > 0 && sent < received, "{sent} sent, {received} received");
    assert!(network.served.is_empty());
}

#[test]
fn lost_and_repeated_messages_do_no_harm() {
    let mut network = Network::new([Some(ring("11")), Some(ring("11"))], offer(Some(2000)));
    let mut chance = chances();
    network.fate = Box::new(move |_, _, _, bytes| {
        // Of the messages one in three is lost, and the others arrive twice.
        match (bytes[0], chance() % 3) {
            (b'g', 0) => vec![],
            (b'g', _) => vec![MILLI * 20, MILLI * 35],
            _ => vec![MILLI * 20, MILLI * 21],
        }
    });
    network.run(at(9000));
    assert_eq!(network.ended(true), Some(&Ok(())), "{:?}", network.events);
    // The numbers tell which are copies: those of media count there, those of messages here.
    assert_eq!(network.received() as u64, network.caller.media(network.call).unwrap().sent);
    assert_eq!(network.listener.media(network.served[0]).unwrap().copies, network.received());
    assert!((1..20).contains(&network.listener.counters().unauthenticated));
}

#[test]
fn silence_ends_a_call_with_a_word() {
    let mut network = Network::new([None, None], offer(None));
    network.pass(|now| now < at(5000));
    network.run(at(19_000));
    assert_eq!(network.both_ended(), [None; 2]);
    network.run(at(22_000));
    for end in network.both_ended() {
        let Some(Err(CallError::Silent(silence))) = end else { panic!("{:?}", network.events) };
        assert!((15..16).contains(&(silence.as_seconds() as i64)), "{silence}");
    }
    // What was measured is there.
    assert!(network.received() > 400);
}

/// What the call has ended with after the port was said to be closed at each of these times, in ms.
fn refused_at(network: &mut Network, times: &[i64]) -> Vec<Option<Result<(), CallError>>> {
    let refused = |ms: &i64| {
        network.run(at(*ms));
        network.caller.handle_unreachable(at(*ms), address(2));
        network.caller.handle_unreachable(at(*ms), address(3));
        network.run(at(ms + 1));
        network.ended(true).cloned()
    };
    times.iter().map(refused).collect()
}

#[test]
fn a_port_that_nobody_has_ends_a_call_and_its_opening_after_a_second() {
    let mut network = Network::new([None, None], offer(None));
    network.pass(|now| now < at(5000));
    network.run(at(5000));
    // Not by one message, which anybody could send, nor by another address.
    let ended = refused_at(&mut network, &[5200, 5700, 6199, 6201]);
    assert_eq!(ended, [None, None, None, Some(Err(CallError::Gone))]);
    // Who is heard is there, whatever anybody says.
    let mut network = Network::new([None, None], offer(None));
    let times: Vec<i64> = (100..8000).step_by(100).collect();
    assert!(refused_at(&mut network, &times).iter().all(Option::is_none));

    let mut network = Network::new([None, None], offer(None));
    network.pass(|_| false);
    let ended = refused_at(&mut network, &[10, 250, 1009, 1011]);
    assert_eq!(ended, [None, None, None, Some(Err(CallError::PortUnreachable))]);
}

#[test]
fn a_call_survives_ten_seconds_without_a_datagram() {
    let mut network = Network::new([None, None], offer(Some(20_000)));
    network.pass(|now| now < at(5000) || now > at(15_000));
    network.run(at(25_000));
    assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
    // A packet each 10 ms of 20 s, less those of 10 s.
    assert!((998..=1001).contains(&network.received()), "{}", network.received());
}

#[test]
fn media_that_overtake_the_acceptance_are_received() {
    for keys in [None, Some(ring("11"))] {
        let wants = offer(None).sends;
        let mut network =
            Network::new([keys.clone(), keys], Offer { sends: None, wants, ..offer(Some(1000)) });
        network.fate = Box::new(|now, from, _, bytes| {
            // All messages of the listener take 100 ms more, and the first acceptance is lost.
            let late = from == address(2) && bytes[0] != 0x80;
            let lost = late && (at(100)..at(200)).contains(&now);
            if lost { vec![] } else { vec![MILLI * if late { 120 } else { 20 }] }
        });
        network.run(at(5000));
        assert_eq!(network.ended(true), Some(&Ok(())));
        let sent = network.listener.media(network.served[0]).unwrap().sent;
        let received = network.caller.media(network.call).unwrap().received.len() as u64;
        assert_eq!((received, network.caller.counters().unknown_source), (sent, 0));
    }
}

#[test]
fn a_listener_that_was_restarted_does_not_know_the_call() {
    for keys in [None, Some(ring("11"))] {
        let mut network = Network::new([keys.clone(), keys.clone()], offer(None));
        network.run(at(2000));
        network.listener = Calls::new(CallsConfig { keys, max_calls: 3, ..CallsConfig::new([9; 32]) });
        network.run(at(3000));
        assert_eq!(network.ended(true), None, "not by one message");
        network.run(at(4500));
        assert_eq!(network.ended(true), Some(&Err(CallError::Unknown)));
        assert!(network.listener.counters().unknown_source > 0);
    }
}

/// Keeps what is sent to this address.
fn record(network: &mut Network, to: SocketAddr) -> std::rc::Rc<std::cell::RefCell<Vec<Vec<u8>>>> {
    let all = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let kept = all.clone();
    network.fate = Box::new(move |_, _, of, bytes| {
        if of == to {
            kept.borrow_mut().push(bytes.clone());
        }
        vec![MILLI * 20]
    });
    all
}

#[test]
fn a_copy_of_a_whole_call_begins_nothing() {
    for keys in [None, Some(ring("11"))] {
        let mut network = Network::with(offer(Some(1000)), |config| {
            config.keys.clone_from(&keys);
            config.max_calls = config.max_calls.min(1);
        });
        let all = record(&mut network, address(2));
        network.run(at(500));
        // One that is refused while there is no room.
        network.caller.call(network.now, address(2), 78, Offer { sources: 256, ..offer(None) }).unwrap();
        network.run(at(3000));
        assert!(network.listener.take_media(network.served[0]).is_some());
        network.run(at(8000));
        assert_eq!((network.served.len(), network.listener.counters().refused), (1, 1));
        assert_eq!(network.listener.status(network.served[0]), None, "it is forgotten");
        for bytes in all.take() {
            network.listener.handle_datagram(network.now + AHEAD, address(1), &bytes, Ecn::NotEct);
            network.drain();
        }
        assert_eq!(network.served.len(), 1);
        assert!(network.listener.live().next().is_none());
        assert!(network.listener.counters().forged > 0);
    }
}

#[test]
fn a_far_end_that_is_heard_is_known_whatever_others_say() {
    for keys in [None, Some(ring("11"))] {
        let mut network = Network::new([keys.clone(), keys.clone()], offer(None));
        let all = record(&mut network, address(2));
        network.run(at(1000));
        let token = all.take().iter().find_map(|bytes| {
            let sealed = || messages::Sealed::parse(bytes).ok()?.message::<messages::Message>().ok();
            messages::Message::decode(bytes).ok().or_else(sealed)?.token()
        });
        let unknown = messages::Message::Unknown { token: token.unwrap() };
        let key = keys.and_then(|ring| keys::opening_key(&ring, crate::keys::KeyId(1)));
        let bytes = key.map_or_else(|| unknown.encode(), |key| unknown.seal(&key, 0));
        for step in 0..30 {
            network.run(at(1000 + step * 100));
            network.caller.handle_datagram(network.now, address(2), &bytes, Ecn::NotEct);
        }
        assert_eq!(network.ended(true), None);
    }
}

#[test]
fn requests_that_are_shorter_than_their_answers_get_none() {
    let key = || keys::opening_key(&ring("11"), crate::keys::KeyId(1)).unwrap();
    for keys in [None, Some(ring("11"))] {
        let mut listener: Calls<Ticks> =
            Calls::new(CallsConfig { keys, max_calls: 3, ..CallsConfig::new([2; 32]) });
        let hello = messages::Message::Hello { nonce: 5 };
        let mut buffer = Vec::new();
        for (padded, answers) in [(0, 0), (messages::OPENING_BYTES - 25, 0), (messages::OPENING_BYTES, 2)] {
            for bytes in [
                crate::envelope::encode(messages::CONTROL, &hello, padded),
                crate::envelope::seal(messages::SEALED_CONTROL, &hello, padded, &key(), 0),
            ] {
                listener.handle_datagram(at(0), address(9), &bytes, Ecn::NotEct);
            }
            let answered = std::iter::from_fn(|| listener.poll_transmit(at(0), &mut buffer)).count();
            assert_eq!(answered, answers, "{padded}");
        }
        assert_eq!(listener.counters().damaged, 4);
    }
}

#[test]
fn only_ends_with_the_same_key_talk() {
    let refused = |ours: Option<KeyRing>, theirs: Option<KeyRing>| {
        let mut network = Network::new([ours, theirs], offer(None));
        network.run(at(5000));
        assert!(network.served.is_empty());
        network.ended(true).cloned().unwrap().unwrap_err()
    };
    assert_eq!(refused(None, Some(ring("11"))), CallError::Refused(CallRefusal::KeyRequired));
    assert_eq!(refused(Some(ring("11")), None), CallError::Unauthenticated(CallRefusal::NoKeys));
    assert_eq!(refused(Some(ring("11")), Some(ring("22"))), CallError::Unauthenticated(CallRefusal::Key));
    // The caller signs with a key that the listener does not have yet, and has its former one too.
    let both = KeyRing::parse(&format!("2 {}\n1 {}", "22".repeat(32), "11".repeat(32))).unwrap();
    let mut network = Network::new([Some(both), Some(ring("11"))], offer(None));
    network.run(at(1000));
    assert!(network.received() > 50, "{:?}", network.events);
}

#[test]
fn changed_media_are_not_believed() {
    // Each once, or twice.
    for (keys, delays) in [(None, vec![MILLI * 20, MILLI * 25]), (Some(ring("11")), vec![MILLI * 20])] {
        let copies = delays.len() as u64;
        let mut network = Network::new([keys.clone(), keys], offer(Some(1000)));
        let mut count = 0_usize;
        network.fate = Box::new(move |_, _, _, bytes| {
            if bytes[0] == 0x80 {
                assert_eq!(bytes.len(), 112 + SEAL_TRAILER_BYTES);
                count += 1;
                let bit = 16 + count * 7 % (bytes.len() * 8 - 16);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            delays.clone()
        });
        network.run(at(3000));
        assert_eq!((network.ended(true), network.received()), (Some(&Ok(())), 0));
        let counters = network.listener.counters();
        assert_eq!(counters.unauthenticated + counters.unknown_source, 100 * copies);
    }
}

/// Feeds a listener forged media of its caller, and returns how many it believes of: RTP of 112 bytes from another address, from the
/// right one with another source, and with all bits right, of which a stranger must guess 24.
fn forged(protection: Protection) -> [usize; 3] {
    let mut network =
        Network::with(Offer { protection, ..offer(None) }, |config| config.protection = protection);
    network.run(at(1000));
    let now = at(1000) + AHEAD;
    let rtp = |sources: u32| {
        let mut bytes = vec![0x80, 96, 0, 1, 0, 0, 0, 0];
        bytes.extend((sources | 2).to_be_bytes());
        bytes.resize(112, 0);
        bytes
    };
    [(3, CALLER), (1, CALLER ^ 0x100), (1, CALLER)].map(|(host, sources)| {
        let before = network.received();
        // Once as it is, and once as long as an authenticated one.
        for more in [0, SEAL_TRAILER_BYTES] {
            let mut bytes = rtp(sources);
            bytes.resize(112 + more, 0);
            if protection == Protection::Authenticated || more == 0 {
                network.listener.handle_datagram(now, address(host), &bytes, Ecn::NotEct);
            }
        }
        network.received() - before
    })
}

#[test]
fn media_of_others_are_not_believed() {
    assert_eq!(forged(Protection::Authenticated), [0, 0, 0]);
    // What a guess of 24 bits could do without.
    assert_eq!(forged(Protection::Insecure), [0, 0, 1]);
}

#[test]
fn the_listener_says_which_protection_it_requires() {
    let outcome = |asked, required, keys: Option<KeyRing>| {
        let offer = Offer { protection: asked, ..offer(Some(500)) };
        let mut network = Network::with(offer, |config| {
            config.keys.clone_from(&keys);
            config.cipher = Some(Flip::make);
            config.protection = required;
        });
        network.run(at(3000));
        (network.ended(true).cloned().unwrap(), network.served.first().map(|_| network.received()))
    };
    let all = [Protection::Authenticated, Protection::Insecure, Protection::Encrypted];
    for (asked, required) in all.into_iter().flat_map(|asked| all.map(|required| (asked, required))) {
        let expected = if asked == required {
            (Ok(()), Some(50))
        } else {
            (Err(CallError::Refused(CallRefusal::Protection(required))), None)
        };
        assert_eq!(outcome(asked, required, Some(ring("11"))), expected, "{asked}, {required}");
    }
    // Nothing is encrypted without a key or a cipher.
    let mut calls: Calls<Ticks> =
        Calls::new(CallsConfig { keys: Some(ring("11")), ..CallsConfig::new([0; 32]) });
    let offer = Offer { protection: Protection::Encrypted, ..offer(None) };
    assert_eq!(calls.call(Timestamp::ZERO, address(2), 1, offer), Err(CallRefusal::NoKeysToEncrypt));
}

/// A cipher that only its far end opens: each byte after the source is changed by the secret.
#[derive(Debug)]
struct Flip([u8; 2]);

impl Flip {
    #[expect(clippy::unnecessary_wraps, reason = "as ciphers are made")]
    fn make(outgoing: &[u8; 32], incoming: &[u8; 32]) -> Option<Box<dyn MediaCipher>> {
        assert_ne!(outgoing, incoming);
        Some(Box::new(Self([outgoing[0], incoming[0]])))
    }
}

impl MediaCipher for Flip {
    fn protect(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let flip = |(place, byte): (usize, &u8)| if place < 12 { *byte } else { byte ^ self.0[0] };
        Some(datagram.iter().enumerate().map(flip).collect())
    }

    fn open(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let flip = |(place, byte): (usize, &u8)| if place < 12 { *byte } else { byte ^ self.0[1] };
        let clear: Vec<u8> = datagram.iter().enumerate().map(flip).collect();
        (clear.last() == Some(&7)).then_some(clear)
    }
}

#[test]
fn a_new_address_is_proven_before_anything_is_sent_to_it() {
    for keys in [None, Some(ring("11"))] {
        let both = Offer { wants: offer(None).sends, ..offer(Some(6000)) };
        let mut network = Network::new([keys.clone(), keys], both);
        network.run(at(2000));
        network.from = address(7);
        let received = network.received();
        network.run(at(4000));
        let moved = network.events.iter().filter(|(_, event)| matches!(event, CallEvent::Moved { .. }));
        let mut at_caller: Vec<bool> = moved.map(|(is_caller, _)| *is_caller).collect();
        at_caller.sort_unstable();
        assert_eq!(at_caller, [false, true], "{:?}", network.events);
        assert_eq!(network.listener.peer(network.served[0]), Some(address(7)));
        let [caller, listener] =
            [network.caller.media(network.call), network.listener.media(network.served[0])]
                .map(Option::unwrap);
        assert_eq!((caller.routes, listener.routes), (1, 1));
        // Media of the new address count from the proof on: a Ping each 500 ms, and two round trips.
        assert!(network.received() > received + 60, "{} after {received}", network.received());
        network.run(at(9000));
        assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
    }
}

#[test]
fn a_change_of_the_address_counts_once_where_several_pings_are_under_way() {
    let mut network = Network::new([None, None], offer(Some(12_000)));
    // A Ping each 500 ms, and each takes 400 ms.
    network.fate = Box::new(|_, _, _, _| vec![MILLI * 400]);
    for (moves, host, end) in [(0, 1, 3000), (1, 7, 6000), (2, 8, 9000)] {
        network.from = address(host);
        network.run(at(end));
        assert_eq!(network.caller.moves(network.call), Some(moves));
        assert_eq!(network.caller.media(network.call).unwrap().routes, moves);
        assert_eq!(network.listener.moves(network.served[0]), Some(moves));
    }
    network.run(at(15_000));
    assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
}

#[test]
fn a_listener_that_moves_is_found_by_a_caller_behind_a_nat() {
    // The NAT gives what goes to the new address the same address as before, or another one.
    for (mapped, keys) in [(1, None), (7, None), (7, Some(ring("11")))] {
        let mut network = Network::new([keys.clone(), keys], offer(Some(8000)));
        let open = std::rc::Rc::new(std::cell::RefCell::new(vec![]));
        network.fate = Box::new(move |_, from, to, _| {
            let mut open = open.borrow_mut();
            if from == address(1) || from == address(7) {
                open.push(to);
            }
            if open.contains(&from) || open.contains(&to) { vec![MILLI * 20] } else { vec![] }
        });
        network.run(at(2000));
        network.home = address(4);
        network.from = address(mapped);
        network.run(at(3000));
        let silence = network.caller.silence(network.call, network.now);
        assert!(silence.is_some_and(|silence| silence > MILLI * 700), "{silence:?}");
        let received = network.received();
        for step in 0..5 {
            network.caller.try_at(network.now, network.call, address(4));
            network.run(at(3200 + step * 200));
        }
        assert_eq!(network.caller.peer(network.call), Some(address(4)), "{mapped}");
        assert_eq!(network.listener.peer(network.served[0]), Some(address(mapped)));
        assert_eq!(network.caller.moves(network.call), Some(1));
        assert_eq!(network.caller.counters().forged, 0);
        network.run(at(5000));
        assert!(network.received() > received + 60, "{} after {received}", network.received());
        network.run(at(9000));
        assert_eq!(network.both_ended(), [Some(&Ok(())); 2]);
    }
}

#[test]
fn a_stranger_with_a_copied_ping_moves_nothing() {
    let mut network = Network::new([None, None], offer(None));
    let token = std::rc::Rc::new(std::cell::Cell::new(None));
    let seen = token.clone();
    network.fate = Box::new(move |_, _, _, bytes| {
        if let Ok(messages::Message::Ping { token, .. }) = messages::Message::decode(bytes) {
            seen.set(Some(token));
        }
        vec![MILLI * 20]
    });
    network.run(at(2000));
    let ping = messages::Message::Ping { token: token.get().unwrap(), sent_ns: 1, zero_ns: 1 };
    let bytes = ping.encode();
    let mut buffer = Vec::new();
    network.listener.handle_datagram(network.now + AHEAD, address(9), &bytes, Ecn::NotEct);
    let mut answered = 0;
    while let Some(outgoing) = network.listener.poll_transmit(network.now + AHEAD, &mut buffer) {
        answered += if outgoing.to == address(9) { buffer.len() } else { 0 };
        buffer.clear();
    }
    assert!(answered > 0 && answered <= bytes.len(), "{answered} answered to {}", bytes.len());
    assert_eq!(network.listener.peer(network.served[0]), Some(address(1)));
}

#[test]
fn the_listener_serves_no_more_than_its_calls() {
    for (max_calls, once, why) in [(3, false, CallRefusal::Full), (1, true, CallRefusal::Once)] {
        let mut network = Network::new([None, None], offer(None));
        network.listener = Calls::new(CallsConfig { max_calls, once, ..CallsConfig::new([2; 32]) });
        network.run(at(500));
        for sources in 1..6 {
            let offer = Offer { sources: sources << 8, ..offer(None) };
            network.caller.call(network.now, address(2), sources.into(), offer).unwrap();
        }
        network.run(at(1000));
        assert_eq!(
            (network.served.len(), network.listener.counters().refused),
            (max_calls, 6 - max_calls as u64)
        );
        let refused = Err(CallError::Refused(why));
        let is_told = |event: &&(bool, CallEvent)| matches!(&event.1, CallEvent::Ended { outcome, .. } if *outcome == refused);
        assert_eq!(network.events.iter().filter(is_told).count(), 6 - max_calls, "{refused:?}");
    }
}

#[test]
fn invalid_offers_are_not_sent() {
    let mut calls: Calls<Ticks> = Calls::new(CallsConfig::new([0; 32]));
    let mut call = |offer| calls.call(Timestamp::ZERO, address(2), 1, offer).is_ok();
    assert!(call(offer(None)));
    assert!(!call(Offer { sources: 1, ..offer(None) }));
    assert!(!call(Offer { sends: None, ..offer(None) }));
    assert!(!call(offer(Some(0))));
    assert!(!call(Offer { name: "\u{1b}[31mred".to_owned(), ..offer(None) }));
    let mut red = offer(None);
    red.sends.as_mut().unwrap().feedback = "\u{1b}[31mred".to_owned();
    assert!(!call(red));
    for [from, to] in [[2000, 1000], [0, 0], [-1, 1000], [5000, 6000]] {
        assert!(!call(Offer { measured: Some([MILLI * from, MILLI * to]), ..offer(Some(5000)) }));
    }
    assert!(call(Offer { measured: Some([MILLI * 4999, MILLI * 6000]), ..offer(Some(5000)) }));
    let mut long = offer(None);
    let video = VideoOffer { id: "x".repeat(MAX_NAME_BYTES), priority: 1.0 };
    long.sends.as_mut().unwrap().videos = vec![video; MAX_OFFERED_VIDEOS];
    assert!(call(long.clone()));
    long.wants.clone_from(&long.sends);
    assert!(!call(long), "it fits into no message");
}

#[test]
fn refusals_of_a_far_end_do_not_control_a_terminal() {
    let refusal = CallRefusal::Offer(format!("\u{1b}[31mred{}\n", "x".repeat(500)));
    let shown = CallError::Refused(refusal).to_string();
    assert!(!shown.contains(char::is_control), "{shown:?}");
    assert!(shown.len() < 240, "{}", shown.len());
}

#[test]
fn messages_with_a_changed_bit_do_no_harm() {
    // A call once failed at the first bit after the kind.
    for (byte, bit) in [(4, 0)].into_iter().chain((4_usize..256).step_by(3).map(|byte| (byte, byte % 8))) {
        let mut network = Network::new([None, None], offer(Some(1000)));
        let mut chance = chances();
        network.fate = Box::new(move |_, _, _, bytes| {
            if bytes[0] == b'g'
                && chance().is_multiple_of(4)
                && let Some(byte) = bytes.get_mut(byte)
            {
                *byte ^= 1 << bit;
            }
            vec![MILLI * 20]
        });
        network.run(at(6000));
        assert_eq!(network.ended(true), Some(&Ok(())), "{byte} {bit}");
    }
}

#[test]
fn datagrams_of_other_versions_and_programs_end_no_call() {
    let mut network = Network::new([None, None], offer(None));
    network.run(at(1000));
    for bytes in [&b"giu\x20of another version"[..], b"hello", b""] {
        network.listener.handle_datagram(network.now + AHEAD, address(9), bytes, Ecn::NotEct);
        network.caller.handle_datagram(network.now, address(2), bytes, Ecn::NotEct);
    }
    network.run(at(1500));
    assert_eq!(network.both_ended(), [None; 2]);
    assert!(network.listener.counters().foreign > 0, "{:?}", network.listener.counters());
}
