//! Who gets a stream and who keeps it, over a simulated network on a virtual clock.

use crate::prelude::*;

fn host(number: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], port))
}

/// A datagram that keeps a stream alive at the least cost.
fn small(token: StreamToken, sequence: u64) -> Vec<u8> {
    let mut datagram = vec![0; 40];
    assert!(DataHeader { token, sequence, scheduled_ns: 0, sent_ns: 0 }.write(&mut datagram));
    datagram
}

/// So that no stream is idle while 256 are opened, one each 20 ms.
fn patient() -> ReceiverConfig {
    ReceiverConfig { idle_timeout: TimeDelta::from_seconds(15), ..receiver_config() }
}

/// All 256 slots, taken by two hosts.
fn fill(net: &mut Net) -> Vec<(SocketAddr, StreamToken)> {
    let places = (0..256_u16).map(|number| host((number / 128) as u8, 1000 + number));
    places.map(|from| (from, net.open_with(from, plain(u64::from(from.port()))).1)).collect()
}

#[test]
fn small_datagrams_do_not_hold_the_slots() {
    let mut net = Net::new(patient());
    let streams = fill(&mut net);
    let stranger = host(9, 5000);
    // A datagram of 40 bytes for each stream within the idle timeout: 51 a second.
    for round in 0..3 {
        for (from, token) in &streams {
            net.deliver(*from, &small(*token, round));
            net.now += TimeDelta::from_millis(18);
        }
    }
    net.answers();
    assert_eq!(net.receiver.streams().count(), 256, "nobody else has asked");
    assert!(net.try_open(stranger, plain(1), 20).is_ok());
    let ended: Vec<_> = net.closed.iter().map(|stream| (stream.from(), stream.ended())).collect();
    let [(loser, Some(Ended::Limit(StreamLimit::Slot)))] = ended[..] else { panic!("{ended:?}") };
    assert!(streams.iter().any(|(from, ..)| *from == loser));
}

#[test]
fn a_sender_that_loses_its_slot_learns_why() {
    let mut net = Net::new(ReceiverConfig { max_streams: 1, ..receiver_config() });
    let (mut idle, _token) = net.open(address(1));
    // It sends clock requests, but no data.
    net.converse(address(1), &mut idle, TimeDelta::from_seconds(3));
    assert!(net.try_open(address(2), plain(1), 20).is_ok());
    let events = net.converse(address(1), &mut idle, TimeDelta::from_seconds(1));
    let expected = SenderEvent::Ended(Err(SenderError::Limit(StreamLimit::Slot)));
    assert_eq!(events.last(), Some(&expected), "{events:?}");
}

#[test]
fn streams_at_their_rate_and_new_ones_keep_their_slots() {
    let mut net = Net::new(patient());
    let slow = StreamRequest { rate_bps: Some(20_000), ..request() };
    let mut streams = Vec::new();
    for number in 0..256_u16 {
        let from = host((number / 128) as u8, 1000 + number);
        let config = SenderConfig::new(slow.clone(), u64::from(number));
        streams.push((from, net.open_with(from, config).1));
    }
    // Half of what was announced: 4 s of 6 datagrams of 200 bytes a second.
    for sequence in 0..24 {
        for (from, token) in &streams {
            net.deliver(*from, &datagram(*token, sequence, 0));
        }
        net.now += TimeDelta::from_millis(166);
    }
    // Each of the two hosts has as many as the other.
    assert!(matches!(net.try_open(host(0, 5000), plain(1), 20), Err(SenderError::Refused(_))));
    // New streams that have sent nothing yet.
    let stranger = host(9, 5000);
    let mut net = Net::new(ReceiverConfig { max_streams: 2, ..receiver_config() });
    net.open(address(1));
    net.open(address(2));
    assert_eq!(net.try_open(stranger, plain(1), 20), Err(SenderError::Refused(Refusal::Full)));
    net.wait(TimeDelta::from_seconds(2));
    assert!(net.try_open(stranger, plain(2), 20).is_ok());
}

#[test]
fn the_host_with_the_most_slots_yields_its_slowest() {
    let mut net = Net::new(ReceiverConfig { max_streams: 8, ..patient() });
    let slow = StreamRequest { rate_bps: Some(3_200), ..request() };
    let opens = |net: &mut Net, from: SocketAddr| {
        let config = SenderConfig::new(slow.clone(), u64::from(from.port()));
        net.try_open(from, config, 20).map(|token| (from, token))
    };
    // Two hosts hold all slots at the rate that they announced, but one stream of the first that has half of it.
    let places = (0..8).map(|number| host(u8::from(number >= 5), 1000 + number));
    let mut streams: Vec<_> = places.map(|from| opens(&mut net, from).unwrap()).collect();
    let mut sequence = 0;
    let mut feed = |net: &mut Net, streams: &[(SocketAddr, StreamToken)]| {
        for turn in 0..8 {
            for (from, token) in streams.iter().filter(|(from, _)| from.port() != 1002 || turn % 2 == 0) {
                net.deliver(*from, &datagram(*token, sequence, 0));
            }
            sequence += 1;
            net.now += TimeDelta::from_millis(500);
        }
    };
    feed(&mut net, &streams);
    streams.push(opens(&mut net, host(9, 5000)).unwrap());
    let ended: Vec<_> = net.closed.iter().map(|stream| (stream.from(), stream.ended())).collect();
    assert_eq!(ended, [(host(0, 1002), Some(Ended::Limit(StreamLimit::HostShare)))]);
    // Four, three and one: a second and a third for the newcomer, and then no host has two more than it.
    for (port, accepted) in [(5001, true), (5002, false)] {
        feed(&mut net, &streams);
        let opened = opens(&mut net, host(9, port));
        assert_eq!(opened.is_ok(), accepted, "{port}");
        streams.extend(opened);
    }
    assert_eq!(opens(&mut net, host(0, 6000)), Err(SenderError::Refused(Refusal::Full)));
}

/// 60,000 a second cost a measured stream the time of 2000.
#[test]
fn a_flood_of_handshakes_is_not_answered_beside_a_stream() {
    let mut net = Net::new(receiver_config());
    let (mut sender, token) = net.open(host(1, 1));
    net.answers();
    let hello = Message::Hello { nonce: 7 }.encode(OPENING_BYTES);
    let mut answered = 0;
    for millis in 0..300 {
        net.send(host(1, 1), token, [millis]);
        for n in 0..60 {
            net.deliver(host(2, n), &hello);
        }
        answered += net.answers().iter().filter(|(to, _)| *to != host(1, 1)).count();
    }
    // A burst of 256, and a sixteenth of 2000.
    assert!((256..=256 + 39).contains(&answered), "{answered}");
    assert_eq!(net.receiver.counters().unanswered_handshakes, 18_000 - answered as u64);
    // Others are served, and the stream says what happened.
    assert!(net.try_open(host(3, 1), plain(1), 20).is_ok());
    sender.finish(net.now, figures(300));
    net.converse(host(1, 1), &mut sender, TimeDelta::from_millis(500));
    assert_eq!(net.closed[0].flood().unanswered, 18_000 - answered as u64);
    assert_eq!(net.closed[0].meter().summary().lost_packets, 0);
}

#[test]
fn a_quarter_of_the_slots_is_kept_for_those_with_keys() {
    let config = ReceiverConfig { keys: Some(ring()), max_streams: 8, ..receiver_config() };
    let mut net = Net::new(ReceiverConfig { accept_unauthenticated: true, ..config });
    for number in 0..6 {
        assert!(net.try_open(host(number, 1), plain(1), 20).is_ok());
    }
    assert_eq!(net.try_open(host(6, 1), plain(1), 20), Err(SenderError::Refused(Refusal::Full)));
    assert!(net.try_open(host(7, 1), with_key(1), 20).is_ok());
    assert!(net.try_open(host(8, 1), with_key(1), 20).is_ok());
    assert_eq!(net.try_open(host(9, 1), with_key(1), 20), Err(SenderError::Refused(Refusal::Full)));
    // With keys, an idle slot of anybody; without, none of those with keys.
    net.wait(TimeDelta::from_seconds(2));
    assert!(net.try_open(host(9, 1), with_key(2), 20).is_ok());
    assert!(net.closed.iter().all(|stream| !stream.is_authenticated()));
}

#[test]
fn forged_datagrams_fill_no_slots_of_announced_streams() {
    for passive in [Passive::Raw, Passive::Rtp] {
        let config = ReceiverConfig { passive: Some(passive), max_streams: 4, ..receiver_config() };
        let mut net = Net::new(config);
        for number in 0..300_u16 {
            for sequence in 0..3 {
                net.deliver(host((number % 250) as u8, 1000 + number), &rtp(1, sequence));
            }
        }
        assert_eq!(net.receiver.streams().count(), 64, "their own maximum");
        // From one of the forged addresses, too.
        for from in [host(1, 4000), host(9, 4000), host(9, 4001)] {
            assert!(net.try_open(from, plain(1), 20).is_ok());
        }
        assert!(net.receiver.counters().refused >= 236);
    }
}

#[test]
fn rtp_counts_from_its_second_datagram_in_sequence() {
    let mut net = Net::new(ReceiverConfig { passive: Some(Passive::Rtp), ..receiver_config() });
    let from = address(1);
    for (ssrc, sequence) in [(1, 10), (1, 12), (2, 13), (1, 14), (1, 14)] {
        net.deliver(from, &rtp(ssrc, sequence));
        assert_eq!(net.receiver.streams().count(), 0, "{ssrc} {sequence}");
    }
    assert_eq!(net.receiver.counters().probation, 5);
    for sequence in 15..25 {
        net.deliver(from, &rtp(1, sequence));
    }
    assert_eq!(net.stream().meter().summary().received_packets, 10);
    // The sequence wraps.
    net.deliver(address(2), &rtp(1, 65_535));
    net.deliver(address(2), &rtp(1, 0));
    assert_eq!(net.receiver.streams().count(), 2);
    // 5000 further addresses are forgotten again.
    for number in 0..5000 {
        net.deliver(host((number / 250) as u8, 100 + number), &rtp(1, 1));
    }
    assert_eq!(net.receiver.streams().count(), 2);
}

#[test]
fn rtp_of_another_source_is_counted_apart() {
    let mut net = Net::new(receiver_config());
    let from = address(5000);
    let format = StreamFormat::Rtp { clock_rate_hz: 8000, voice: None };
    let announced = StreamRequest { format, ssrc: Some(0xABCD), ..request() };
    net.open_with(from, SenderConfig::new(announced, 1));
    // An attacker that forges the address first.
    for sequence in 500..510 {
        net.deliver(from, &rtp(0xFFFF, sequence));
    }
    for sequence in 0..20 {
        net.deliver(from, &rtp(0xABCD, sequence));
        net.deliver(from, &rtp(0xFFFF, sequence));
    }
    let summary = net.stream().meter().summary();
    assert_eq!((summary.received_packets, summary.duplicate_packets, summary.lost_packets), (20, 0, 0));
    assert_eq!(net.receiver.counters().other_source, 30);
}

#[test]
fn limits_of_rate_size_and_time_end_a_stream_at_both_ends() {
    let max = DataRate::from_bps(RATE_BPS);
    let (size, lifetime) = (DataSize::from_bytes(100_000), TimeDelta::from_seconds(1));
    let none = StreamLimits::default();
    for (limits, expected) in [
        (StreamLimits { rate: Some(max), ..none }, StreamLimit::Rate),
        (StreamLimits { size: Some(size), ..none }, StreamLimit::Size),
        (StreamLimits { lifetime: Some(lifetime), ..none }, StreamLimit::Lifetime),
    ] {
        let (mut net, from, mut sender, token) =
            opened(ReceiverConfig { limits, ..receiver_config() }, plain(1));
        let mut sequence = 0;
        let mut events = Vec::new();
        while events.is_empty() && sequence < 100_000 {
            // Five times the announced rate.
            for _ in 0..5 {
                net.deliver(from, &datagram(token, sequence, net.now.as_nanos()));
                sequence += 1;
            }
            events = net.converse(from, &mut sender, TimeDelta::from_millis(1));
            events.retain(|event| matches!(event, SenderEvent::Ended(_)));
        }
        assert_eq!(events, [SenderEvent::Ended(Err(SenderError::Limit(expected)))], "{expected}");
        assert_eq!(net.closed[0].ended(), Some(Ended::Limit(expected)));
        let received = net.closed[0].meter().received_bytes().as_bytes();
        let passed = match expected {
            // 5 s and 262,144 bytes above the rate of 200 kB/s: within 1.6 s at five times the rate.
            StreamLimit::Rate => 1_300_000..1_800_000,
            StreamLimit::Size => 100_001..101_001 + SIZE as u64,
            _ => 900_000..1_100_000,
        };
        assert!(passed.contains(&received), "{expected}: {received}");
        // Further datagrams begin nothing.
        net.deliver(from, &datagram(token, sequence, 0));
        assert_eq!(net.receiver.streams().count(), 0);
    }
}

#[test]
fn a_lost_final_report_is_repeated() {
    let limits = StreamLimits { lifetime: Some(TimeDelta::from_seconds(1)), ..StreamLimits::default() };
    let (mut net, from, mut sender, token) = opened(ReceiverConfig { limits, ..receiver_config() }, plain(1));
    net.send(from, token, 0..900);
    net.wait(TimeDelta::from_millis(200));
    assert_eq!(net.closed.len(), 1);
    net.answers();
    let events = net.converse(from, &mut sender, TimeDelta::from_seconds(1));
    let expected = SenderEvent::Ended(Err(SenderError::Limit(StreamLimit::Lifetime)));
    assert_eq!(events.last(), Some(&expected), "{events:?}");
}

#[test]
fn denied_addresses_get_no_answer() {
    let nets = |text: &str| vec![text.parse().unwrap()];
    let prefixes = Prefixes { allow: nets("192.0.2.0/24"), deny: nets("192.0.2.7/32") };
    let mut net = Net::new(ReceiverConfig { prefixes, passive: Some(Passive::Raw), ..receiver_config() });
    for from in [host(7, 5000), address(5000)] {
        net.deliver(from, &Message::Hello { nonce: 1 }.encode(256));
        net.deliver(from, b"raw");
        assert_eq!((net.answers().len(), net.receiver.streams().count()), (0, 0));
    }
    assert_eq!(net.receiver.counters().denied, 4);
    assert!(net.try_open(host(8, 5000), plain(1), 20).is_ok());
}

#[test]
fn two_hosts_cannot_fill_the_table_of_used_cookies() {
    let config = ReceiverConfig { max_streams: 8, max_streams_per_host: 4, ..receiver_config() };
    let mut net = Net::new(config);
    // Streams that end at once, from two hosts: each takes half of the table.
    for number in [1, 2] {
        let refused = (0..200).find_map(|port| {
            let from = host(number, 1000 + port);
            let opened = net.try_open(from, plain(1), 20);
            opened
                .map(|token| net.deliver(from, &Message::Finish { token, figures: figures(0) }.encode(1100)))
                .err()
        });
        assert_eq!(refused, Some(SenderError::Refused(Refusal::HostFull)));
    }
    assert!(net.try_open(host(3, 1000), plain(1), 20).is_ok());
}
