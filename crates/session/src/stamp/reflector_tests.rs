//! Tests of the reflector.

use super::super::time::TimestampFormat;
use super::*;

const CLOCK: ClockState =
    ClockState { synchronised: true, error: Some(TimeDelta::from_millis(1)), tai_offset_s: 37 };
const NOON: u64 = 1_800_000_000_000_000_000;

fn reflector(config: ReflectorConfig) -> Reflector {
    Reflector::new(config, CLOCK)
}

fn wall(micros: u64) -> WallTime {
    WallTime::from_unix_nanos(NOON + micros * 1_000)
}

fn packet(sequence: u32) -> SenderPacket {
    let time = TimestampFormat::Ntp.write(wall(u64::from(sequence) * 1_000), 0);
    SenderPacket { sequence, time, error: ErrorEstimate::from_bits(0x0001), ssid: 9 }
}

fn plain(sequence: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    packet(sequence).write(Mode::Unauthenticated, &mut bytes);
    if length > 48 {
        tlv::write_padding(&mut bytes[44..]);
    }
    bytes
}

fn signed(sequence: u32, keys: &KeyRing) -> Vec<u8> {
    let mut bytes = vec![0; 112];
    packet(sequence).write(Mode::Authenticated, &mut bytes);
    packet::sign(&mut bytes, keys, keys.signing());
    bytes
}

fn keys(digit: &str) -> KeyRing {
    KeyRing::parse(&format!("1 {}", digit.repeat(32))).unwrap()
}

fn arrived(ms: u64, port: u16, bytes: &[u8]) -> Arrived<'_> {
    let from = SocketAddr::from(([192, 0, 2, 1], port));
    Arrived { from, bytes, at: wall(ms * 1_000), ttl: Some(61), traffic_class: Some(46 << 2) }
}

/// Lets `bytes` arrive `ms` after the start from this port; the answer leaves 0.5 ms later.
fn ask(reflector: &mut Reflector, ms: u64, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let now = Timestamp::from_nanos(ms * 1_000_000);
    let answer = reflector.reflect(now, wall(ms * 1_000 + 500), &arrived(ms, port, bytes))?;
    assert_eq!(answer.bytes.len(), bytes.len());
    Some(answer.bytes.to_vec())
}

fn read(bytes: &[u8]) -> ReflectedPacket {
    ReflectedPacket::read(Mode::Unauthenticated, bytes).unwrap()
}

#[test]
fn an_answer_tells_both_times_and_copies_the_packet() {
    let mut reflector = reflector(ReflectorConfig::default());
    let answer = ask(&mut reflector, 20, 7, &plain(5, 100)).unwrap();
    let reflected = read(&answer);
    assert_eq!((reflected.sequence, reflected.sender, reflected.ttl), (0, packet(5), 61));
    assert_eq!(reflected.error.to_bits(), 0x8f84, "synchronised within 1 ms");
    let read = |bits| TimestampFormat::Ntp.read(bits, 0);
    assert_eq!((read(reflected.received), read(reflected.time)), (Some(wall(20_000)), Some(wall(20_500))));
    assert_eq!(answer[44..48], [0, 1, 0, 52], "padding is understood");
    // Times have the format of the packet.
    let mut bytes = vec![0; 44];
    let error = ErrorEstimate::from_bits(0x4001);
    SenderPacket { error, ..packet(0) }.write(Mode::Unauthenticated, &mut bytes);
    let reflected = self::read(&ask(&mut reflector, 0, 8, &bytes).unwrap());
    assert_eq!(reflected.error.format, TimestampFormat::Ptp);
    assert_eq!(reflected.received, (NOON / 1_000_000_000 + 37) << 32);
}

#[test]
fn a_stateful_reflector_counts_each_session() {
    let mut stateful = reflector(ReflectorConfig::default());
    let mut stateless = reflector(ReflectorConfig { stateful: false, ..ReflectorConfig::default() });
    let mut numbers = Vec::new();
    for (port, sequence) in [(7, 0), (7, 2), (8, 4), (7, 3), (7, 1)] {
        let bytes = plain(sequence, 44);
        numbers.push(read(&ask(&mut stateful, 0, port, &bytes).unwrap()).sequence);
        assert_eq!(read(&ask(&mut stateless, 0, port, &bytes).unwrap()).sequence, sequence);
    }
    assert_eq!(numbers, [0, 1, 0, 2, 3]);
    assert_eq!((stateful.sessions(), stateful.counters().sessions), (2, 2));
}

#[test]
fn a_new_session_from_the_same_port_counts_from_zero() {
    let mut reflector = reflector(ReflectorConfig::default());
    let mut bytes = plain(0, 44);
    let mut number = |bytes: &[u8]| read(&ask(&mut reflector, 0, 7, bytes).unwrap()).sequence;
    assert_eq!([number(&bytes), number(&plain(1, 44))], [0, 1]);
    assert_eq!(number(&bytes), 2, "a copy of the first packet begins nothing");
    SenderPacket { time: packet(99).time, ..packet(0) }.write(Mode::Unauthenticated, &mut bytes);
    assert_eq!([number(&bytes), number(&plain(1, 44))], [0, 1]);
}

#[test]
fn an_answer_is_never_longer_than_its_packet() {
    let mut reflector = reflector(ReflectorConfig::default());
    for length in 0..41 {
        assert_eq!(ask(&mut reflector, 0, 7, &plain(0, 60)[..length]), None, "{length}");
    }
    assert_eq!(ask(&mut reflector, 0, 0, &plain(0, 60)), None, "nobody has port 0");
    assert_eq!(reflector.counters().malformed, 42);
    for length in [41, 44, 45, 1472, 65_507] {
        assert!(ask(&mut reflector, 0, 7, &plain(0, length)).is_some(), "{length}");
    }
}

#[test]
fn an_answer_is_not_answered() {
    for keys in [None, Some(keys("a"))] {
        let bytes = keys.as_ref().map_or_else(|| plain(0, 44), |keys| signed(0, keys));
        let mut reflector = reflector(ReflectorConfig { keys, ..ReflectorConfig::default() });
        let answer = ask(&mut reflector, 0, 7, &bytes).unwrap();
        assert_eq!(ask(&mut reflector, 1, 862, &answer), None);
        assert_eq!(reflector.counters().looped, 1);
    }
}

#[test]
fn random_padding_of_twamp_light_is_no_session_identifier() {
    let mut reflector = reflector(ReflectorConfig::default());
    for sequence in 0..4 {
        let mut bytes = plain(sequence, 100);
        bytes[14..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 17) as u8 ^ sequence as u8);
        let answer = ask(&mut reflector, 0, 7, &bytes).unwrap();
        assert_eq!((read(&answer).sequence, read(&answer).ssid), (sequence, 0));
        assert_eq!(answer[44..], bytes[44..]);
    }
    assert_eq!(reflector.sessions(), 1);
}

#[test]
fn authenticated_mode_answers_what_verifies_once() {
    let ring = KeyRing::parse(&format!("1 {}\n2 {}", "a".repeat(32), "b".repeat(32))).unwrap();
    let config = ReflectorConfig { keys: Some(ring.clone()), ..ReflectorConfig::default() };
    let mut reflector = reflector(config);
    let bytes = signed(0, &keys("b"));
    let answer = ask(&mut reflector, 0, 7, &bytes).unwrap();
    assert_eq!(packet::verify(&answer, &ring), Ok(KeyId(2)), "signed with the key of the packet");
    assert_eq!(ask(&mut reflector, 0, 7, &bytes), None, "replayed");
    assert_eq!(ask(&mut reflector, 0, 8, &bytes), None, "replayed from another port");
    assert_eq!(ask(&mut reflector, 0, 7, &signed(1, &keys("c"))), None, "another key");
    assert_eq!(ask(&mut reflector, 0, 7, &bytes[..111]), None, "cut");
    assert_eq!(ask(&mut reflector, 0, 7, &plain(1, 112)), None, "without HMAC");
    let ReflectorCounters { reflected, replayed, forged, malformed, .. } = reflector.counters();
    assert_eq!((reflected, replayed, forged, malformed), (1, 2, 2, 1));
}

#[test]
fn addresses_outside_the_prefixes_are_not_answered() {
    for (deny, served) in [("192.0.2.2/32", true), ("192.0.2.1/32", false)] {
        let prefixes = Prefixes { deny: vec![deny.parse().unwrap()], ..Prefixes::default() };
        let mut reflector = reflector(ReflectorConfig { prefixes, ..ReflectorConfig::default() });
        assert_eq!(ask(&mut reflector, 0, 7, &plain(0, 44)).is_some(), served);
        assert_eq!(reflector.counters().denied, u64::from(!served));
    }
}

#[test]
fn a_source_is_answered_at_its_rate() {
    // 8 kbit/s are 1000 B/s: 20 packets of 50 B in a second, 5 of them in the first 250 ms.
    let config = ReflectorConfig { max_rate: DataRate::from_bps(8_000), ..ReflectorConfig::default() };
    let mut reflector = reflector(config);
    let answered = (0..10_000).filter(|&ms| ask(&mut reflector, ms, 7, &plain(ms as u32, 50)).is_some());
    let answered = answered.count();
    assert!((200..=206).contains(&answered), "{answered}");
    assert_eq!(reflector.counters().over_rate, 10_000 - answered as u64);
}

#[test]
fn the_number_of_sessions_is_bounded() {
    let limits = ReflectorConfig { max_sessions: 3, ..ReflectorConfig::default() };
    let mut all = reflector(limits.clone());
    let answered = |reflector: &mut Reflector, ms| {
        (1..6).filter(|&port| ask(reflector, ms, port, &plain(0, 44)).is_some()).count()
    };
    assert_eq!(answered(&mut all, 0), 3);
    assert_eq!(all.counters().refused, 2);
    assert!(ask(&mut all, 9_000, 3, &plain(1, 44)).is_some());
    assert!(ask(&mut all, 11_000, 4, &plain(0, 44)).is_some(), "silent sessions yield");
    assert_eq!(all.sessions(), 2);
    let mut per_source = reflector(ReflectorConfig { max_sessions: 9, max_sessions_per_source: 2, ..limits });
    assert_eq!(answered(&mut per_source, 0), 2);
    assert_eq!(answered(&mut per_source, 9_000), 2, "those that are not silent stay");
    assert!(
        ask(&mut per_source, 20_000, 5, &plain(0, 44)).is_some(),
        "silent sessions of a full source yield"
    );
    assert_eq!(per_source.sessions(), 1);
    assert!(ask(&mut per_source, 919_000, 5, &plain(1, 44)).is_some());
    assert!(ask(&mut per_source, 1_818_000, 6, &plain(0, 44)).is_some());
    assert_eq!(per_source.sessions(), 2, "they live 900 s");
    assert!(ask(&mut per_source, 2_800_000, 6, &plain(1, 44)).is_some());
    assert_eq!(per_source.sessions(), 1);
}

#[test]
fn a_packet_refused_for_its_rate_is_answered_when_sent_again() {
    let ring = keys("a");
    // 112 bytes every 100 ms are 8,960 bit/s, and 250 ms may be ahead.
    let config = ReflectorConfig {
        keys: Some(ring.clone()),
        max_rate: DataRate::from_bps(8_960),
        ..ReflectorConfig::default()
    };
    let mut reflector = reflector(config);
    let answered =
        (0..5).filter(|&sequence| ask(&mut reflector, 0, 7, &signed(sequence, &ring)).is_some()).count();
    assert_eq!(answered, 3);
    let ReflectorCounters { over_rate, replayed, sessions, .. } = reflector.counters();
    assert_eq!((over_rate, replayed, sessions), (2, 0, 1));
    // Also the first packet of another session is refused: no session began with it.
    assert_eq!(ask(&mut reflector, 0, 8, &signed(9, &ring)), None);
    assert_eq!((reflector.sessions(), reflector.counters().sessions), (1, 1));
    // A second later the same packets are answered, and the numbers go on where they were.
    for (sequence, number) in [(3, 3), (4, 4)] {
        let answer = ask(&mut reflector, 1_000, 7, &signed(sequence, &ring)).expect("it was not seen before");
        assert_eq!(ReflectedPacket::read(Mode::Authenticated, &answer).unwrap().sequence, number);
    }
    assert_eq!(ask(&mut reflector, 2_000, 7, &signed(4, &ring)), None);
    assert_eq!(ask(&mut reflector, 2_000, 8, &signed(9, &ring)).map(|answer| answer.len()), Some(112));
    let counters = reflector.counters();
    assert_eq!((counters.over_rate, counters.replayed, counters.sessions), (3, 1, 2));
    assert_eq!((counters.reflected, counters.unanswered()), (6, 4));
}

#[test]
fn an_answer_has_the_dscp_asked_for_or_the_configured_one() {
    let mut reflector = reflector(ReflectorConfig { dscp: 10, ..ReflectorConfig::default() });
    let mut dscp = |class: &[u8]| {
        let bytes = [&plain(0, 44)[..], class].concat();
        reflector.reflect(Timestamp::ZERO, wall(1), &arrived(0, 7, &bytes)).unwrap().dscp
    };
    assert_eq!(dscp(&[]), 10);
    assert_eq!(dscp(&[0x80, 4, 0, 4, 20 << 2, 0, 0, 0]), 20);
    assert_eq!(dscp(&[0x80, 4, 0, 4, 56 << 2, 0, 0, 0]), 46, "network control needs a key");
    assert_eq!(reflector.counters().refused_dscp, 1);
}
