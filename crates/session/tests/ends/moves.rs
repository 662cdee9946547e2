//! Streams whose sender's address changes, over a simulated network on a virtual clock.

use crate::prelude::*;

/// The numbers of datagrams received and lost, and those of no stream.
fn counts(net: &Net) -> (u64, u64, u64) {
    let sequence = net.stream().meter().sequence();
    (sequence.received(), sequence.losses().lost, net.receiver.counters().forged)
}

#[test]
fn what_comes_before_the_proof_counts_once_the_address_has_proved_itself() {
    let mut net = Net::new(receiver_config());
    let (old, new) = (address(5000), address(6000));
    let (mut sender, token) = net.open(old);
    net.send(old, token, 0..100);
    net.send(new, token, 100..150);
    assert_eq!(counts(&net), (100, 0, 0));
    // The answers to what came: at most one in 50 ms, and each shorter than a datagram.
    let probes: Vec<_> = net.answers().into_iter().filter(|(to, _)| *to == new).collect();
    assert!(probes.len() == 1 && probes[0].1.len() < SIZE, "{probes:?}");
    sender.handle_datagram(net.now, &probes[0].1, net.now);
    let events = net.converse(new, &mut sender, TimeDelta::from_millis(600));
    assert_eq!(counts(&net), (150, 0, 0));
    let stream = net.stream();
    let former: Vec<_> =
        stream.former_paths().iter().map(|path| (path.from, path.received_packets)).collect();
    assert_eq!((stream.from(), former), (new, vec![(old, 100)]));
    // Reports go to the new address, and what was overtaken still counts.
    assert!(events.iter().any(|event| matches!(event, SenderEvent::Report(_))), "{events:?}");
    net.send(new, token, 151..200);
    net.send(old, token, [150]);
    assert_eq!(counts(&net), (200, 0, 0));
    assert_eq!(net.stream().from(), new);
    sender.finish(net.now, figures(200));
    let events = net.converse(new, &mut sender, TimeDelta::from_millis(500));
    assert!(matches!(events.last(), Some(SenderEvent::Ended(Ok(())))), "{events:?}");
}

#[test]
fn without_a_proof_nothing_moves_and_nothing_counts() {
    let mut net = Net::new(receiver_config());
    let (home, stranger) = (address(5000), address(6000));
    let (_sender, token) = net.open(home);
    net.send(home, token, 0..100);
    net.send(stranger, token, 100..2_000);
    let forged_now = counts(&net).2;
    assert_eq!(counts(&net).0, 100);
    assert_eq!(forged_now, 1_900 - 1_024, "only so many are kept");
    let to_stranger: usize =
        net.answers().iter().filter(|(to, _)| *to == stranger).map(|(_, bytes)| bytes.len()).sum();
    assert!(to_stranger > 0 && to_stranger < 1_900 * SIZE / 50, "{to_stranger}");
    // A cookie of another address proves nothing.
    let (_, elsewhere) = net.open(address(7000));
    net.deliver(address(8000), &datagram(token, 100, 0));
    let probe = net.answers().into_iter().find(|(to, _)| *to == address(8000)).unwrap();
    let Ok(Message::PathProbe { cookie, .. }) = Message::decode(&probe.1) else { panic!("{probe:?}") };
    for (from, token) in [(stranger, token), (address(7000), token), (address(8000), elsewhere)] {
        net.deliver(from, &Message::PathProof { token, cookie }.encode(0));
    }
    // Its own sender goes on.
    net.send(home, token, [100]);
    net.wait(TimeDelta::from_seconds(4));
    let streams: Vec<_> = net.receiver.streams().map(|(_, stream)| stream.from()).collect();
    assert_eq!(streams, [home, address(7000)]);
    // All that was kept, and the three proofs.
    assert_eq!(net.receiver.counters().forged, 1_900 + 1 + 3);
}

#[test]
fn who_copies_authenticated_datagrams_moves_nothing() {
    let config = ReceiverConfig { keys: Some(ring()), ..receiver_config() };
    let mut net = Net::new(config);
    let (old, new, stranger) = (address(5000), address(6000), address(7000));
    let (mut sender, token) = net.open_with(old, with_key(1));
    for sequence in 0..10 {
        net.deliver(old, &sealed(&net, &sender, token, sequence));
    }
    // A copy is as good as the original, but who sends it cannot answer.
    let copy = sealed(&net, &sender, token, 10);
    net.deliver(stranger, &copy);
    let probe = net.answers().into_iter().find(|(to, _)| *to == stranger).unwrap().1;
    assert!(Message::decode(&probe).is_err(), "it is authenticated");
    let cookie = Cookie { issued_ns: net.now.as_nanos(), proof: [1; 16] };
    net.deliver(stranger, &Message::PathProof { token, cookie }.encode(0));
    assert_eq!(net.stream().from(), old);
    assert_eq!(net.receiver.counters().unauthenticated, 1);
    // A changed datagram is of no stream at once.
    let mut changed = copy;
    changed[SIZE - 1] ^= 1;
    changed[20] ^= 1;
    net.deliver(stranger, &changed);
    assert_eq!(net.receiver.counters().unauthenticated, 2);
    // The sender itself moves.
    net.deliver(new, &sealed(&net, &sender, token, 11));
    let probe = net.answers().into_iter().find(|(to, _)| *to == new).unwrap().1;
    sender.handle_datagram(net.now, &probe, net.now);
    net.converse(new, &mut sender, TimeDelta::from_millis(20));
    assert_eq!(net.stream().from(), new);
    assert_eq!(net.stream().meter().sequence().received(), 11);
}

/// Has `asker` ask again from `from`, and carries its messages.
fn ask_again(net: &mut Net, asker: &mut Receiver, from: std::net::SocketAddr, config: &SenderConfig) {
    let there = address(9000);
    asker.ask_again(net.now, there, config.clone());
    for _ in 0..1_000 {
        while let Some(transmit) = asker.poll_transmit() {
            assert_eq!(transmit.to, there);
            net.deliver(from, &transmit.bytes);
        }
        for (to, bytes) in net.answers() {
            if to == from {
                asker.handle(net.now, &inbound(there, &bytes, net.now));
            }
        }
        net.now += TimeDelta::from_millis(1);
        if asker.next_timeout().is_some_and(|at| at <= net.now) {
            asker.handle_timeout(net.now);
        }
    }
    assert_eq!(asker.next_timeout(), None, "it is done");
}

#[test]
fn a_stream_in_the_reverse_direction_moves_to_who_asked_for_it() {
    for keys in [None, Some(ring())] {
        let mut net = Net::new(ReceiverConfig { keys: keys.clone(), ..receiver_config() });
        let [old, new, stranger] = [5000, 6000, 7000].map(address);
        let request = StreamRequest { reverse: Some(ReverseLimits::default()), ..request() };
        let config = SenderConfig { keys: keys.clone(), ..SenderConfig::new(request, 77) };
        net.open_with(old, config.clone());
        assert_eq!((net.asked.clone(), net.moved.len()), (vec![old], 0));
        // One lost message of each kind is repeated.
        let carried = net.carried;
        net.lost = vec![carried + 1, carried + 3, carried + 5, carried + 7];
        let mut asker = Receiver::new(receiver_config());
        ask_again(&mut net, &mut asker, new, &config);
        assert_eq!((net.asked.len(), net.moved.clone()), (1, vec![(old, new)]));
        assert_eq!(asker.counters(), Counters::default(), "its answers are no strangers");
        // From the same address again, for the NAT may be as before.
        ask_again(&mut net, &mut asker, new, &config);
        assert_eq!(net.moved.len(), 1);
        // Back, and a copy of the messages from the address before moves nothing.
        let inward = net.inward.clone();
        ask_again(&mut net, &mut asker, old, &config);
        assert_eq!(net.moved, [(old, new), (new, old)]);
        for (_, bytes) in inward.iter().filter(|(from, _)| *from == new) {
            net.deliver(new, bytes);
        }
        // Nor does who does not know the number of the request, or has no key.
        ask_again(&mut net, &mut asker, stranger, &SenderConfig { nonce: 78, ..config.clone() });
        if keys.is_some() {
            ask_again(&mut net, &mut asker, stranger, &SenderConfig { keys: None, ..config.clone() });
        }
        assert_eq!(net.moved.len(), 2);
        // A stream that has ended does not begin again.
        net.receiver.reverse_ended(old);
        ask_again(&mut net, &mut asker, new, &config);
        assert_eq!((net.asked.len(), net.moved.len()), (1, 2));
    }
}
