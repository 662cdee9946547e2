//! What an attacker can do to ends that share a key, over a simulated network on a virtual clock.

use crate::prelude::*;

fn with_keys(keys: &[(u32, u8)]) -> ReceiverConfig {
    ReceiverConfig { keys: Some(ring_of(keys)), ..receiver_config() }
}

/// Tries to open a stream for 4 s with these keys.
fn open_with_keys(net: &mut Net, keys: &[(u32, u8)]) -> Result<(), SenderError> {
    net.try_open(address(5000), SenderConfig { keys: Some(ring_of(keys)), ..plain(1) }, 4000).map(drop)
}

fn send(net: &mut Net, sender: &Sender, token: StreamToken, sequences: std::ops::Range<u64>) {
    for sequence in sequences {
        net.deliver(address(5000), &sealed(net, sender, token, sequence));
        net.now += TimeDelta::from_millis(1);
    }
}

#[test]
fn ends_with_the_same_key_measure_an_authenticated_stream() {
    let (mut net, from, mut sender, token) = opened(with_keys(&[(1, 7)]), with_key(1));
    send(&mut net, &sender, token, 0..1000);
    assert!(net.stream().is_authenticated());
    sender.finish(net.now, figures(1001));
    let events = net.converse(from, &mut sender, TimeDelta::from_millis(500));
    let [.., SenderEvent::Report(report), SenderEvent::Ended(Ok(()))] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((report.summary.received_packets, report.summary.lost_packets), (1000, 1));
    assert_eq!(net.receiver.counters().unauthenticated, 0);
    let all = net.inward.iter().chain(&net.outward);
    let plain = all.filter(|(_, bytes)| !matches!(kind(bytes), Ok(Kind::SealedData | Kind::SealedControl)));
    assert_eq!(plain.count(), 0, "every datagram is authenticated");
}

#[test]
fn a_changed_datagram_does_not_count() {
    let (mut net, from, sender, token) = opened(with_keys(&[(1, 7)]), with_key(1));
    send(&mut net, &sender, token, 0..10);
    let good = sealed(&net, &sender, token, 10);
    // Every bit from the token to the end of the MAC, and the length.
    for bit in 32..56 * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        net.deliver(from, &bad);
    }
    net.deliver(from, &good[..SIZE - 1]);
    net.deliver(from, &[&good[..], &[0]].concat());
    // The same without authentication, under a valid checksum.
    net.deliver(from, &datagram(token, 10, 0));
    let summary = net.stream().meter().summary();
    assert_eq!((summary.received_packets, summary.duplicate_packets), (10, 0));
    assert_eq!(net.receiver.counters().unauthenticated, 52 * 8 + 3);
    net.deliver(from, &good);
    assert_eq!(net.stream().meter().summary().received_packets, 11);
}

#[test]
fn without_a_common_key_both_ends_say_what_is_missing() {
    let key: &[_] = &[(1, 7)];
    let cases = [
        (None, Some(key), SenderError::Unauthenticated(Refusal::NoKeys)),
        (Some(key), None, SenderError::Refused(Refusal::KeyRequired)),
        (Some(key), Some(&[(1, 8)][..]), SenderError::Unauthenticated(Refusal::Key)),
        (Some(key), Some(&[(2, 7)][..]), SenderError::Unauthenticated(Refusal::Key)),
    ];
    for (receivers, senders, expected) in cases {
        let mut net = Net::new(ReceiverConfig { keys: receivers.map(ring_of), ..receiver_config() });
        let config = SenderConfig { keys: senders.map(ring_of), ..plain(1) };
        assert_eq!(net.try_open(address(5000), config, 4000), Err(expected.clone()));
        assert!(net.receiver.counters().unauthenticated > 0);
        assert_eq!(net.receiver.streams().count(), 0);
        assert!(net.budget.values().all(|left| *left > 0), "{expected}: {:?}", net.budget);
    }
    let mut net = Net::new(ReceiverConfig { accept_unauthenticated: true, ..with_keys(key) });
    assert!(net.try_open(address(5000), plain(1), 4000).is_ok());
    assert!(!net.stream().is_authenticated());
}

#[test]
fn old_and_new_keys_work_while_they_are_exchanged() {
    let (old, new) = ((1, 7), (2, 8));
    for receivers in [&[old, new][..], &[new, old], &[old], &[new]] {
        for senders in [&[old][..], &[new], &[old, new], &[new, old]] {
            // A sender with both tries one after the other.
            let expected = senders.iter().any(|key| receivers.contains(key));
            let opened = open_with_keys(&mut Net::new(with_keys(receivers)), senders);
            assert_eq!(opened.is_ok(), expected, "{receivers:?} {senders:?}");
        }
    }
}

#[test]
fn a_sender_with_a_key_ignores_unauthenticated_messages() {
    let mut net = Net::new(with_keys(&[(1, 7)]));
    let from = address(5000);
    let mut sender = Sender::new(net.now, with_key(77));
    let token = StreamToken(5);
    let clock = giusto_session::probe::LocalClock::default().identity();
    let cookie = giusto_session::probe::wire::Cookie { issued_ns: 1, proof: [1; 16] };
    let forged = |sender: &mut Sender, net: &Net, token| {
        for message in [
            Message::Refused { nonce: 77, why: Refusal::Full },
            Message::Challenge { nonce: 77, cookie },
            Message::Accepted { nonce: 77, token, clock },
            Message::Pong { token, ping_sent_ns: net.now.as_nanos(), received_ns: 0, sent_ns: 0 },
        ] {
            sender.handle_datagram(net.now, &message.encode(0), net.now);
            // A key of the attacker's own, under the same id.
            for purpose in [&b"giusto 3 opening"[..], b"giusto 3 to sender"] {
                let key = ring_of(&[(1, 9)]).derive(KeyId(1), &[purpose]).unwrap();
                sender.handle_datagram(net.now, &message.seal(0, &key, 1), net.now);
            }
        }
        sender.handle_datagram(net.now, b"giu\x20 of another version", net.now);
    };
    forged(&mut sender, &net, token);
    assert!(sender.poll_event().is_none());
    let events = net.converse(from, &mut sender, TimeDelta::from_millis(20));
    let [SenderEvent::Accepted(token)] = events[..] else { panic!("{events:?}") };
    // A pong is awaited.
    net.now += TimeDelta::from_millis(250);
    sender.handle_timeout(net.now);
    assert!(sender.poll_transmit(net.now).is_some());
    let measured = sender.rtts().count();
    forged(&mut sender, &net, token);
    // The receiver's own report, without its authentication.
    let (mut other_net, other) = (Net::new(receiver_config()), address(5000));
    let (_other_sender, other_token) = other_net.open(other);
    other_net.send(other, other_token, 0..10);
    other_net.receiver.stop(other_net.now);
    let stopped = other_net.answers().pop_back().unwrap().1;
    let Ok(Message::Report { report, .. }) = Message::decode(&stopped) else { panic!() };
    assert_ne!(token, other_token);
    sender.handle_datagram(net.now, &Message::Report { token, report }.encode(0), net.now);
    assert!(sender.poll_event().is_none());
    assert_eq!(sender.rtts().count(), measured);
}

#[test]
fn replayed_datagrams_change_nothing() {
    let (mut net, from, mut sender, token) = opened(with_keys(&[(1, 7)]), with_key(1));
    send(&mut net, &sender, token, 0..100);
    net.converse(from, &mut sender, TimeDelta::from_seconds(1));
    let path = net.stream().path();
    // All of it again, and the receiver's messages sent back to it, into the same stream. Then for as long as it takes to be idle.
    let tape: Vec<_> = net.inward.iter().chain(&net.outward).map(|(_, bytes)| bytes.clone()).collect();
    for _ in 0..60 {
        net.deliver_all(from, &tape);
        net.answers();
        if let Some((_, stream)) = net.receiver.streams().next() {
            let summary = stream.meter().summary();
            assert_eq!((summary.received_packets, summary.lost_packets), (100, 0));
            assert_eq!(stream.path(), path);
        }
        net.wait(TimeDelta::from_millis(100));
    }
    assert_eq!(net.closed.len(), 1, "copies keep no stream alive");
    assert_eq!(net.closed[0].ended(), Some(Ended::Idle));
    // Into the next stream of the same address, and after it.
    let (mut second, second_token) = net.open_with(from, with_key(2));
    let before = net.receiver.counters().unauthenticated;
    net.deliver_all(from, &tape);
    let summary = net.stream().meter().summary();
    assert_eq!((summary.received_packets, summary.duplicate_packets, summary.too_old_packets), (0, 0, 0));
    assert!(net.receiver.counters().unauthenticated > before + 100);
    // What was sent to the sender, to the sender of the next stream.
    for (_, bytes) in net.outward.clone() {
        second.handle_datagram(net.now, &bytes, net.now);
    }
    assert_eq!(second.poll_event(), None);
    second.finish(net.now, figures(0));
    net.converse(from, &mut second, TimeDelta::from_millis(500));
    assert_eq!(net.closed.len(), 2);
    assert_ne!(token, second_token);
    net.wait(TimeDelta::from_seconds(40));
    net.deliver_all(from, &tape);
    assert_eq!((net.receiver.streams().count(), net.closed.len()), (0, 2));
}

#[test]
fn who_knows_the_token_but_no_key_cannot_end_a_stream() {
    for accept_unauthenticated in [false, true] {
        let (mut net, from, sender, token) =
            opened(ReceiverConfig { accept_unauthenticated, ..with_keys(&[(1, 7)]) }, with_key(1));
        send(&mut net, &sender, token, 0..1500);
        net.answers();
        net.deliver(from, &Message::Finish { token, figures: figures(1500) }.encode(FINISH_BYTES));
        net.deliver(from, &Message::Ping { token, sent_ns: 1, path: None }.encode(60));
        assert_eq!(net.receiver.counters().unauthenticated, 2);
        // From the stream's own address, with a cookie that is valid.
        net.deliver(from, &Message::Hello { nonce: 3 }.encode(OPENING_BYTES));
        for (_, bytes) in net.answers() {
            if let Ok(Message::Challenge { nonce, cookie }) = Message::decode(&bytes) {
                let request = request();
                net.deliver(from, &Message::Open { nonce, cookie, request }.encode(OPENING_BYTES));
            }
        }
        assert!(net.stream().is_authenticated());
        send(&mut net, &sender, token, 1500..1501);
        assert_eq!(net.stream().meter().summary().received_packets, 1501);
        assert_eq!(net.closed.len(), 0);
    }
}

#[test]
fn a_copied_open_without_its_authentication_is_replaced() {
    let mut net = Net::new(ReceiverConfig { accept_unauthenticated: true, ..with_keys(&[(1, 7)]) });
    let from = address(5000);
    let mut sender = Sender::new(net.now, with_key(1));
    net.deliver(from, &sender.poll_transmit(net.now).unwrap());
    let challenge = net.answers().pop_front().unwrap().1;
    sender.handle_datagram(net.now, &challenge, net.now);
    let open = sender.poll_transmit(net.now).unwrap();
    let copied: Message = giusto_session::probe::wire::Sealed::parse(&open).unwrap().message().unwrap();
    net.deliver(from, &copied.encode(OPENING_BYTES));
    assert!(!net.stream().is_authenticated());
    net.answers();
    net.deliver(from, &open);
    assert!(net.stream().is_authenticated());
}

#[test]
fn unannounced_datagrams_need_permission() {
    for accept_unauthenticated in [false, true] {
        let passive = Some(Passive::Raw);
        let config = ReceiverConfig { passive, accept_unauthenticated, ..with_keys(&[(1, 7)]) };
        let mut net = Net::new(config);
        net.deliver(address(1), b"anything");
        let streams = net.receiver.streams().count();
        assert_eq!(streams, usize::from(accept_unauthenticated));
        assert_eq!(net.receiver.counters().unauthenticated, u64::from(!accept_unauthenticated));
    }
}

#[test]
fn formats_without_authentication_need_permission() {
    let format = StreamFormat::Rtp { clock_rate_hz: 8000, voice: None };
    let config = SenderConfig { request: StreamRequest { format, ..request() }, ..with_key(1) };
    let refused = Net::new(with_keys(&[(1, 7)])).try_open(address(5000), config.clone(), 4000);
    assert_eq!(refused, Err(SenderError::Refused(Refusal::Format)));
    let mut net = Net::new(ReceiverConfig { accept_unauthenticated: true, ..with_keys(&[(1, 7)]) });
    assert!(net.try_open(address(5000), config, 4000).is_ok());
    assert!(!net.stream().is_authenticated(), "its datagrams are not");
}
