//! The two ends of a measurement session over a simulated network, on a virtual clock.

use crate::prelude::*;

#[test]
fn a_stream_is_opened_measured_and_finished() {
    let (mut net, from, mut sender, token) = opened(receiver_config(), plain(1));
    net.send(from, token, 0..1000);
    sender.finish(net.now, figures(1002));
    let events = net.converse(from, &mut sender, TimeDelta::from_millis(100));
    let is_over = events.iter().any(|event| matches!(event, SenderEvent::Ended(_)));
    assert!(!is_over, "what is missing may still come: {events:?}");
    let events = net.converse(from, &mut sender, TimeDelta::from_millis(400));
    let [SenderEvent::Report(report), SenderEvent::Ended(Ok(()))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(report.summary.received_packets, 1000);
    assert_eq!(report.summary.loss.lost, 2, "what was sent last and never came is lost");
    assert_eq!(net.closed.len(), 1);
    assert_eq!(net.closed[0].ended(), Some(Ended::Finished));
    let rate = report.summary.rate_bps.unwrap();
    assert!((rate - RATE_BPS as f64).abs() < 1.0, "{rate}");
    let error = report.summary.schedule_error.unwrap();
    let tens = [error.p50, error.max].map(|error| error.as_nanos() / 10);
    assert_eq!(tens, [50, 50], "the sender's own error travels");
}

#[test]
fn a_receiver_that_refuses_may_not_know_where_the_sender_is_now() {
    for has_moved in [false, true] {
        let (mut net, _, mut sender, _) = opened(receiver_config(), plain(1));
        let mut refused = |sender: &mut Sender| {
            net.now += TimeDelta::from_millis(500);
            sender.handle_unreachable(net.now, 1);
            std::iter::from_fn(|| sender.poll_event())
                .any(|event| matches!(event, SenderEvent::Ended(Err(SenderError::ReceiverLost(_)))))
        };
        if has_moved {
            sender.on_moved();
        }
        assert_eq!([refused(&mut sender), refused(&mut sender)], [false; 2], "half a second");
        assert_eq!(refused(&mut sender), !has_moved, "a second");
    }
}

#[test]
fn the_sender_receives_reports_while_sending() {
    let (mut net, from, mut sender, token) = opened(receiver_config(), plain(1));
    let mut reports = 0;
    for block in 0..20 {
        net.send(from, token, block * 100..(block + 1) * 100);
        let events = net.converse(from, &mut sender, TimeDelta::from_millis(1));
        reports += events.iter().filter(|event| matches!(event, SenderEvent::Report(_))).count();
    }
    assert!((3..=5).contains(&reports), "{reports} reports in 2 s at one each 0.5 s");
    let clock = sender.clock_estimate().unwrap();
    assert_eq!(clock.offset, TimeDelta::ZERO, "one clock drives both ends: {clock:?}");
}

#[test]
fn any_single_lost_control_message_is_repeated() {
    for lost in 1..=12 {
        let mut net = Net::new(receiver_config());
        net.lost = vec![lost];
        let from = address(5000);
        let mut sender = Sender::new(net.now, plain(9));
        let mut events = net.converse(from, &mut sender, TimeDelta::from_millis(700));
        sender.finish(net.now, figures(0));
        events.extend(net.converse(from, &mut sender, TimeDelta::from_millis(700)));
        assert!(matches!(events.first(), Some(SenderEvent::Accepted(_))), "loss {lost}: {events:?}");
        assert!(matches!(events.last(), Some(SenderEvent::Ended(Ok(())))), "loss {lost}: {events:?}");
        assert_eq!(net.closed.len(), 1, "loss {lost}: one stream, however often it was asked for");
    }
}

#[test]
fn without_the_cookie_there_is_one_answer_and_no_state() {
    let mut net = Net::new(receiver_config());
    for nonce in 0..1000 {
        net.deliver(address(6000), &Message::Hello { nonce }.encode(OPENING_BYTES));
    }
    let answers = net.answers();
    assert_eq!(answers.len(), 1000);
    net.deliver(address(6000), &Message::Hello { nonce: 1 }.encode(0));
    assert_eq!(net.answers().len(), 0, "without padding there is no answer");
    assert!(net.budget[&address(6000)] > 0, "fewer bytes out than in");
    assert_eq!(net.receiver.streams().count(), 0);
    assert_eq!(net.receiver.next_timeout(), None, "an idle receiver has no deadline");
    // A cookie issued to another address is invalid.
    let Message::Challenge { nonce, cookie } = Message::decode(&answers[0].1).unwrap() else { panic!() };
    let open = Message::Open { nonce, cookie, request: request() }.encode(OPENING_BYTES);
    net.deliver(address(6001), &open);
    assert_eq!(net.receiver.counters().forged, 1);
    assert_eq!(net.receiver.streams().count(), 0);
}

#[test]
fn hostile_datagrams_are_counted_and_affect_no_stream() {
    let mut net = Net::new(receiver_config());
    let (from, other) = (address(5000), address(5001));
    let (_sender, token) = net.open(from);
    let (_other_sender, other_token) = net.open(other);
    net.send(from, token, 0..10);
    net.deliver(from, b"hello");
    net.deliver(from, &datagram(token, 10, 0)[..DATA_HEADER_BYTES - 1]);
    net.deliver(from, b"giu\x77whatever");
    net.deliver(from, &datagram(other_token, 10, 0));
    net.deliver(other, &datagram(token, 10, 0));
    net.deliver(address(7000), &datagram(token, 10, 0));
    net.deliver(from, &Message::Finish { token: other_token, figures: figures(1) }.encode(0));
    net.deliver(from, b"");
    for replayed in [3, 3, 9] {
        net.send(from, token, [replayed]);
    }
    // The datagram from an address without a stream waits for a proof.
    assert_eq!(net.receiver.counters().forged, 3, "{:?}", net.receiver.counters());
    net.wait(TimeDelta::from_seconds(4));
    let counters = net.receiver.counters();
    assert_eq!((counters.foreign, counters.malformed, counters.other_version), (2, 1, 1), "{counters:?}");
    assert_eq!(counters.forged, 4, "{counters:?}");
    let summaries: Vec<_> = net.receiver.streams().map(|(_, stream)| stream.meter().summary()).collect();
    assert_eq!((summaries[0].received_packets, summaries[0].duplicate_packets), (10, 3));
    assert_eq!((summaries[1].received_packets, summaries[1].duplicate_packets), (0, 0));
}

#[test]
fn a_copy_of_an_old_open_begins_no_stream() {
    let mut net = Net::new(receiver_config());
    let from = address(5000);
    let hello = Message::Hello { nonce: 7 }.encode(OPENING_BYTES);
    net.deliver(from, &hello);
    let answers = net.answers();
    let Ok(Message::Challenge { nonce, cookie }) = Message::decode(&answers[0].1) else {
        panic!("{answers:?}")
    };
    let open = Message::Open { nonce, cookie, request: request() }.encode(OPENING_BYTES);
    net.deliver(from, &open);
    let accepted = Message::decode(&net.answers()[0].1);
    let Ok(Message::Accepted { token, .. }) = accepted else { panic!("{accepted:?}") };
    // While the stream lasts a copy is answered, for the first answer may have been lost.
    net.deliver(from, &open);
    assert_eq!(Message::decode(&net.answers()[0].1), accepted);
    net.send(from, token, 0..10);
    net.deliver(from, &Message::Finish { token, figures: figures(10) }.encode(FINISH_BYTES));
    net.answers();
    assert_eq!((net.closed.len(), net.receiver.streams().count()), (1, 0));
    for wait_s in [1, 10, 15] {
        net.now += TimeDelta::from_seconds(wait_s);
        net.receiver.handle_timeout(net.now);
        net.deliver(from, &open);
        assert_eq!((net.answers().len(), net.receiver.streams().count()), (0, 0), "{wait_s} s later");
    }
}

#[test]
fn only_the_answer_to_a_ping_moves_the_clock_estimate() {
    let (mut net, from, mut sender, token) = opened(receiver_config(), plain(1));
    net.converse(from, &mut sender, TimeDelta::from_seconds(2));
    let measured = sender.rtts().count();
    assert!((5..=10).contains(&measured), "{measured}");
    let pong = |ping_sent_ns| {
        let received_ns = 77_000_000_000;
        Message::Pong { token, ping_sent_ns, received_ns, sent_ns: received_ns }.encode(0)
    };
    // Times at which no ping left, and a second answer to one that did.
    for sent_ns in [0, 1, net.now.as_nanos(), net.now.as_nanos() - 123_456] {
        sender.handle_datagram(net.now, &pong(sent_ns), net.now);
    }
    assert_eq!(sender.rtts().count(), measured);
    net.now += TimeDelta::from_millis(250);
    sender.handle_timeout(net.now);
    assert!(sender.poll_transmit(net.now).is_some(), "a ping is due");
    for _ in 0..3 {
        sender.handle_datagram(net.now, &pong(net.now.as_nanos()), net.now);
    }
    assert_eq!(sender.rtts().count(), measured + 1);
}

#[test]
fn an_ipv6_prefix_of_64_bits_is_one_host() {
    let mut net = Net::new(ReceiverConfig { max_streams_per_host: 2, ..receiver_config() });
    for (host, is_accepted) in [
        ("2001:db8:1:2::1", true),
        ("2001:db8:1:2:ffff::9", true),
        // A third address of the same prefix.
        ("2001:db8:1:2:3:4:5:6", false),
        ("2001:db8:1:3::1", true),
        ("::ffff:192.0.2.1", true),
        ("::ffff:192.0.2.2", true),
        ("::ffff:192.0.2.3", true),
    ] {
        let from = SocketAddr::new(host.parse().unwrap(), 5000);
        assert_eq!(net.try_open(from, plain(1), 20).is_ok(), is_accepted, "{host}");
    }
}

#[test]
fn a_flipped_bit_in_a_sequence_number_costs_one_datagram() {
    let (mut net, from, _sender, token) = opened(receiver_config(), plain(1));
    net.send(from, token, 0..100);
    // Damage that the checksum finds: every bit of the sequence number.
    for bit in 0..64 {
        let mut damaged = datagram(token, 100, 0);
        damaged[12 + bit / 8] ^= 1 << (bit % 8);
        net.deliver(from, &damaged);
    }
    assert_eq!(net.receiver.counters().corrupt, 64);
    // Numbers that no sender of this rate can have come to, under a valid checksum. At 1000 datagrams a second, after less than
    // a second, with the margin of 2 s: below 9000.
    for wild in [524_288, 9000, 999_999, 1_000_000, u64::MAX - 1] {
        net.send(from, token, [wild]);
    }
    // Possible, but confirmed by no other.
    net.send(from, token, [6000]);
    net.send(from, token, 100..1000);
    let summary = net.receiver.streams().next().unwrap().1.meter().summary();
    assert_eq!((summary.received_packets, summary.lost_packets), (1000, 0), "{summary:?}");
    assert_eq!((summary.implausible_packets, summary.too_old_packets, summary.duplicate_packets), (6, 0, 0));
}

#[test]
fn caps_hold_and_silent_streams_are_forgotten() {
    let config = ReceiverConfig { max_streams: 3, max_streams_per_host: 2, ..receiver_config() };
    let mut net = Net::new(config);
    net.open(address(5000));
    net.open(address(5001));
    let refused = |why| Err(SenderError::Refused(why));
    assert_eq!(net.try_open(address(5002), plain(1), 20), refused(Refusal::HostFull));
    let [second, third] = [2, 3].map(|last| SocketAddr::from(([127, 0, 0, last], 5000)));
    net.open(second);
    assert_eq!(net.try_open(third, plain(1), 20), refused(Refusal::Full));
    net.now += TimeDelta::from_seconds(5);
    net.receiver.handle_timeout(net.now);
    net.collect();
    assert_eq!(net.receiver.streams().count(), 0);
    assert_eq!(net.closed.iter().filter(|stream| stream.ended() == Some(Ended::Idle)).count(), 3);
    assert_eq!(net.receiver.next_timeout(), None);
    net.open(address(5002));
}

#[test]
fn a_rate_above_the_limit_is_rejected() {
    let limits = StreamLimits { rate: Some(DataRate::from_bps(RATE_BPS - 1)), ..StreamLimits::default() };
    let mut net = Net::new(ReceiverConfig { limits, ..receiver_config() });
    let opened = net.try_open(address(5000), plain(1), 20);
    assert_eq!(opened, Err(SenderError::Refused(Refusal::Rate)));
}

#[test]
fn a_missing_receiver_is_reported() {
    let mut net = Net::new(receiver_config());
    net.lost = (1..10_000).collect();
    let opened = net.try_open(address(5000), plain(1), 4000);
    assert_eq!(opened, Err(SenderError::NoAnswer(TimeDelta::from_seconds(3))));

    let mut net = Net::new(receiver_config());
    let (mut sender, _token) = net.open(address(5000));
    net.lost = (1..10_000).collect();
    let events = net.converse(address(5000), &mut sender, TimeDelta::from_seconds(4));
    assert_eq!(events, [SenderEvent::Ended(Err(SenderError::ReceiverLost(TimeDelta::from_seconds(3))))]);
}

#[test]
fn a_stopped_receiver_notifies_its_senders() {
    let (mut net, from, mut sender, token) = opened(receiver_config(), plain(1));
    net.send(from, token, 0..100);
    net.receiver.stop(net.now);
    net.collect();
    let events = net.converse(from, &mut sender, TimeDelta::from_millis(20));
    let [SenderEvent::Report(report), SenderEvent::Ended(Err(SenderError::ReceiverStopped))] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(report.summary.received_packets, 100);
    assert_eq!(net.closed[0].ended(), Some(Ended::Stopped));
}

#[test]
fn datagrams_received_together_are_measured_separately() {
    let (mut net, from, _sender, token) = opened(receiver_config(), plain(1));
    // 3 are missing before the first run, 20 before the second.
    for (first, dropped_messages) in [(3, 2), (29, 4)] {
        let mut run = Vec::new();
        for sequence in first..first + 5 {
            run.extend(datagram(token, sequence, net.now.as_nanos()));
        }
        run.extend(&datagram(token, first + 5, net.now.as_nanos())[..100]);
        let one = inbound(from, &run, net.now);
        let kernel_dropped = Some(dropped_messages);
        net.receiver
            .handle(net.now, &Inbound { segment: SIZE, tos: Some(0b1011_1011), kernel_dropped, ..one });
    }
    let (_, stream) = net.receiver.streams().next().unwrap();
    let summary = stream.meter().summary();
    assert_eq!((summary.received_packets, summary.received_bytes.as_bytes()), (12, 10 * 200 + 200));
    assert_eq!((summary.ecn.ce, summary.dscp), (12, Some(46)));
    // A dropped message may have held as many as the largest so far: 1, then 6.
    assert_eq!((summary.lost_packets, summary.kernel_dropped_packets), (23, 2 + 12));
}

#[test]
fn drops_of_the_socket_count_where_a_stream_misses_datagrams() {
    let mut net = Net::new(ReceiverConfig { passive: Some(Passive::Raw), ..receiver_config() });
    let (one, other, raw) = (address(5000), address(5001), address(9));
    let tokens = [one, other].map(|from| net.open(from).1);
    let mut deliver = |from, bytes: &[u8], dropped| {
        let one = inbound(from, bytes, net.now);
        net.receiver.handle(net.now, &Inbound { kernel_dropped: Some(dropped), ..one });
    };
    let data = |token, sequence| datagram(token, sequence, 0);
    deliver(one, &data(tokens[0], 0), 0);
    deliver(other, &data(tokens[1], 0), 0);
    deliver(raw, b"anything", 0);
    // Of the other stream 10 are lost on the path, of the first one all 30 in the socket.
    deliver(other, &data(tokens[1], 11), 0);
    deliver(one, &data(tokens[0], 31), 30);
    // It misses none of those that the socket dropped meanwhile.
    deliver(other, &data(tokens[1], 12), 30);
    deliver(other, &data(tokens[1], 20), 30);
    // Nothing arrives any more.
    net.receiver.note_kernel_dropped(33);
    let mut dropped: Vec<_> =
        net.receiver.streams().map(|(_, stream)| (stream.from(), stream.kernel_dropped_packets())).collect();
    dropped.sort();
    assert_eq!(dropped, [(raw, 33), (one, 30), (other, 0)]);
    assert_eq!(net.receiver.kernel_dropped(), 33);
}

#[test]
fn unannounced_streams_are_measured_if_enabled() {
    let mut net = Net::new(ReceiverConfig { passive: Some(Passive::Raw), ..receiver_config() });
    for sequence in 0..50 {
        net.deliver(address(9), b"anything");
        // Our own format, from a sender that asks nobody; a token that was not issued is none.
        net.deliver(address(11), &datagram(StreamToken(0), sequence, 0));
        net.deliver(address(12), &datagram(StreamToken(7), sequence, 0));
        net.now += TimeDelta::from_millis(20);
    }
    assert_eq!(net.receiver.counters(), Counters { forged: 50, ..Counters::default() });
    net.try_open(address(10), plain(1), 6000).unwrap();
    let of =
        |port| net.closed.iter().find(|stream| stream.from() == address(port)).map(|it| it.meter().summary());
    assert_eq!(of(11).map(|summary| summary.received_packets), Some(50));
    let summary = of(9).unwrap();
    assert_eq!((summary.received_packets, summary.received_bytes.as_bytes()), (50, 400));
    let rate = summary.rate_bps.unwrap();
    assert!((rate - 8.0 * 8.0 * 50.0).abs() < 1e-6, "8 bytes each 20 ms are 3200 bit/s, not {rate}");
}

#[derive(Debug, Clone)]
enum Operation {
    Bytes(Vec<u8>),
    Hello(u64, usize, bool),
    Replay(usize),
    Data(u64),
    /// A Ping, or a Finish with this number of packets.
    Message(Option<u64>),
    Wait(i64),
    Stop,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80).prop_map(|mut bytes| {
            // Most datagrams begin with the giusto prefix; otherwise only the first check would be tested.
            bytes.iter_mut().zip(b"giu\x31").for_each(|(place, byte)| *place = *byte);
            Operation::Bytes(bytes)
        }),
        (any::<u64>(), 0_usize..400, any::<bool>())
            .prop_map(|(nonce, pad, sealed)| Operation::Hello(nonce, pad, sealed)),
        (0_usize..64).prop_map(Operation::Replay),
        any::<u64>().prop_map(Operation::Data),
        Just(Operation::Message(None)),
        (0_u64..100).prop_map(|packets| Operation::Message(Some(packets))),
        (0_i64..2_000_000_000).prop_map(Operation::Wait),
        Just(Operation::Stop),
    ]
}

proptest! {
    /// With any messages in any order: no panic, no more bytes sent than received, no endless deadlines.
    #[test]
    fn a_receiver_never_amplifies(
        operations in proptest::collection::vec((1_u16..4, operation()), 0..120),
        (has_keys, accept_unauthenticated) in any::<(bool, bool)>(),
    ) {
        let derived = |parts: &[&[u8]]| ring().derive(KeyId(1), parts).unwrap();
        let mut net = Net::new(ReceiverConfig { keys: has_keys.then(ring), accept_unauthenticated, ..receiver_config() });
        let mut client_keys: [Option<MacKey>; 4] = [const { None }; 4];
        let mut tokens = [StreamToken(1); 4];
        let mut number = 0;
        let mut written = |message: &Message, length, key: Option<&MacKey>| {
            number += 1;
            key.map_or_else(|| message.encode(length), |key| message.seal(length, key, number))
        };
        for (port, operation) in operations {
            let (from, token, key) = (address(port), tokens[usize::from(port)], client_keys[usize::from(port)].as_ref());
            match operation {
                Operation::Bytes(bytes) => net.deliver(from, &bytes),
                Operation::Hello(nonce, pad, sealed) => {
                    let key = sealed.then(|| derived(&[b"giusto 3 opening"]));
                    net.deliver(from, &written(&Message::Hello { nonce }, pad, key.as_ref()));
                }
                Operation::Replay(index) => {
                    if let Some((from, bytes)) = net.inward.get(index).cloned() {
                        net.deliver(from, &bytes);
                    }
                }
                Operation::Data(sequence) => net.deliver(from, &datagram(token, sequence, sequence)),
                Operation::Message(None) => {
                    net.deliver(from, &written(&Message::Ping { token, sent_ns: 0, path: None }, 48, key));
                }
                Operation::Message(Some(packets)) => {
                    let finish = Message::Finish { token, figures: figures(packets) };
                    net.deliver(from, &written(&finish, FINISH_BYTES, key));
                }
                Operation::Wait(nanos) => {
                    net.now += TimeDelta::from_nanos(nanos);
                    net.receiver.handle_timeout(net.now);
                    prop_assert!(net.receiver.next_timeout().is_none_or(|at| at > net.now));
                }
                Operation::Stop => net.receiver.stop(net.now),
            }
            // A correct client at each port follows the protocol.
            let mut answers = net.answers();
            while let Some((to, bytes)) = answers.pop_front() {
                let sealed = Sealed::parse(&bytes);
                match sealed.map_or_else(|_| Message::decode(&bytes), |sealed| sealed.message()) {
                    Ok(Message::Challenge { nonce, cookie }) => {
                        let parts = [&nonce.to_be_bytes()[..], &cookie.issued_ns.to_be_bytes(), &cookie.proof].concat();
                        let key = sealed.is_ok().then(|| derived(&[b"giusto 3 to receiver", &parts]));
                        let open = Message::Open { nonce, cookie, request: request() };
                        net.deliver(to, &written(&open, OPENING_BYTES, key.as_ref()));
                        answers.extend(net.answers());
                        client_keys[usize::from(to.port())] = key;
                    }
                    Ok(Message::Accepted { token, .. }) => tokens[usize::from(to.port())] = token,
                    _ => {}
                }
            }
            prop_assert!(net.budget.values().all(|left| *left >= 0), "more out than in: {:?}", net.budget);
        }
    }
}
