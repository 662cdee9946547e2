//! The Session-Reflector (RFC 8762 §4.3).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
};

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    packet::{self, MAC_BYTES, Mode, PacketError, ReflectedPacket, SenderPacket, field},
    sources::Sources,
    time::{ClockState, ErrorEstimate, WallTime},
    tlv,
};
use crate::{
    keys::{KeyId, KeyRing},
    probe::Prefixes,
};

/// The number of authenticated packets that are remembered, so that a copy of one is not answered.
const REMEMBERED: usize = 65_536;

/// The time without a packet after which a session yields its place where there is no other.
const YIELDS_AFTER: TimeDelta = TimeDelta::from_seconds(10);

/// The time between two searches for sessions that have ended.
const SWEEP: TimeDelta = TimeDelta::from_seconds(1);

/// A packet whose Receive Timestamp is at most this long before its Timestamp is one of a reflector.
const LONGEST_PROCESSING: TimeDelta = TimeDelta::from_seconds(10);

/// The configuration of a [`Reflector`].
#[derive(Debug, Clone)]
pub struct ReflectorConfig {
    /// The reflector counts the packets of each session, so that the sender can tell the two directions of loss apart; otherwise
    /// it copies the sender's number (RFC 8762 §4). Default: true.
    pub stateful: bool,
    /// Authenticated mode with these keys; `None`: unauthenticated mode. Default: `None`.
    pub keys: Option<KeyRing>,
    /// The addresses that are answered. Default: all.
    pub prefixes: Prefixes,
    /// The maximum number of sessions. Default: 16 384, about 3 MB.
    pub max_sessions: usize,
    /// The maximum number of sessions of one IPv4 address or one IPv6 prefix of 64 bits. Default: 1024.
    pub max_sessions_per_source: usize,
    /// The maximum rate of answers to one such source, of their UDP payload, over more than 250 ms. Default: 100 Mbit/s.
    pub max_rate: DataRate,
    /// A session ends after this time without a packet. Default: 900 s, TWAMP's REFWAIT (RFC 5357 §4.2).
    pub session_timeout: TimeDelta,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            stateful: true,
            keys: None,
            prefixes: Prefixes::default(),
            max_sessions: 16_384,
            max_sessions_per_source: 1_024,
            max_rate: DataRate::from_bps(100_000_000),
            session_timeout: TimeDelta::from_seconds(900),
        }
    }
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// Its source.
    pub from: SocketAddr,
    /// Its UDP payload.
    pub bytes: &'a [u8],
    /// The time of its arrival.
    pub at: WallTime,
    /// TTL or Hop Limit on arrival; `None` if the system does not tell it.
    pub ttl: Option<u8>,
}

/// What has become of the packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReflectorCounters {
    /// Packets that were answered.
    pub reflected: u64,
    /// Sessions that began.
    pub sessions: u64,
    /// From addresses that are not answered.
    pub denied: u64,
    /// Too short for the mode, or for an answer that is no longer than they are.
    pub malformed: u64,
    /// No key verifies them.
    pub forged: u64,
    /// Copies of authenticated packets that were answered before.
    pub replayed: u64,
    /// Packets of another reflector: answers to them would go back and forth without end.
    pub looped: u64,
    /// Above the maximum rate of their source.
    pub over_rate: u64,
    /// There was no place for a further session.
    pub refused: u64,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflected<'a> {
    /// The UDP payload, which goes to the source of the packet; as long as the packet was.
    pub bytes: &'a [u8],
    /// With this packet a session began.
    pub new_session: bool,
}

/// A session: the sender's address, and its identifier (RFC 8972 §3).
type SessionKey = (SocketAddr, u16);

#[derive(Debug)]
struct Session {
    next: u32,
    /// The latest time of the sender, as it wrote it.
    newest: u64,
    last: Timestamp,
}

/// The Session-Reflector: answers each packet of a Session-Sender with one of the same length.
///
/// An answer is never longer than its packet, so the reflector is of no use to amplify traffic. For the same reason, and unlike
/// RFC 8762 §4.6, packets of TWAMP Light with fewer than 41 bytes, the length of its answers, are not answered.
///
/// The timestamps of an answer have the format of the packet.
#[derive(Debug)]
pub struct Reflector {
    config: ReflectorConfig,
    clock: ClockState,
    sessions: BTreeMap<SessionKey, Session>,
    sources: Sources,
    replays: Replays,
    counters: ReflectorCounters,
    next_sweep: Timestamp,
    answer: Vec<u8>,
}

/// Why a packet is not answered.
enum Refusal {
    Denied,
    Malformed,
    Forged,
    Replayed,
    Looped,
    OverRate,
    NoRoom,
}

impl Reflector {
    /// A reflector without sessions.
    pub fn new(config: ReflectorConfig, clock: ClockState) -> Self {
        Self {
            config,
            clock,
            sessions: BTreeMap::new(),
            sources: Sources::default(),
            replays: Replays::default(),
            counters: ReflectorCounters::default(),
            next_sweep: Timestamp::ZERO,
            answer: Vec::new(),
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> ReflectorCounters {
        self.counters
    }

    /// The number of sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sets what the answers tell of the clock. It changes with time: call it about once a second.
    pub fn set_clock(&mut self, clock: ClockState) {
        self.clock = clock;
    }

    /// The answer to `arrived`, to be sent at once; `None` where there is none, which is counted.
    ///
    /// `now` is the time on the local clock, and `wall` the time of day as the answer carries it.
    pub fn reflect(
        &mut self,
        now: Timestamp,
        wall: WallTime,
        arrived: &Arrived<'_>,
    ) -> Option<Reflected<'_>> {
        match self.answer(now, wall, arrived) {
            Ok(new_session) => {
                self.counters.reflected += 1;
                self.counters.sessions += u64::from(new_session);
                Some(Reflected { bytes: &self.answer, new_session })
            }
            Err(refusal) => {
                let count = match refusal {
                    Refusal::Denied => &mut self.counters.denied,
                    Refusal::Malformed => &mut self.counters.malformed,
                    Refusal::Forged => &mut self.counters.forged,
                    Refusal::Replayed => &mut self.counters.replayed,
                    Refusal::Looped => &mut self.counters.looped,
                    Refusal::OverRate => &mut self.counters.over_rate,
                    Refusal::NoRoom => &mut self.counters.refused,
                };
                *count += 1;
                None
            }
        }
    }

    /// Writes the answer; returns whether a session began.
    fn answer(&mut self, now: Timestamp, wall: WallTime, arrived: &Arrived<'_>) -> Result<bool, Refusal> {
        if !self.config.prefixes.admit(arrived.from.ip()) {
            return Err(Refusal::Denied);
        }
        let bytes = arrived.bytes;
        let (mode, key) = self.verify(bytes)?;
        let mut packet = SenderPacket::read(mode, bytes).map_err(|_| Refusal::Malformed)?;
        let was_reflected = ReflectedPacket::read(mode, bytes).map_err(|_| Refusal::Malformed)?;
        if is_reflected(&was_reflected) {
            return Err(Refusal::Looped);
        }
        if arrived.from.port() == 0 {
            return Err(Refusal::Malformed);
        }
        let base = mode.base_bytes().min(bytes.len());
        let padded = mode == Mode::Unauthenticated && has_twamp_padding(bytes);
        if padded {
            packet.ssid = 0;
        }

        let session_key = (arrived.from, packet.ssid);
        self.sweep(now);
        let new_session = !self.sessions.contains_key(&session_key);
        if new_session {
            self.open(now, session_key)?;
        }
        let size = DataSize::from_bytes(bytes.len() as u64);
        if !self.sources.take(now, arrived.from.ip(), size, self.config.max_rate) {
            return Err(Refusal::OverRate);
        }
        if key.is_some() && !packet::mac_of(bytes).is_some_and(|mac| self.replays.is_new(mac)) {
            return Err(Refusal::Replayed);
        }
        let Some(session) = self.sessions.get_mut(&session_key) else { return Err(Refusal::NoRoom) };
        let sequence = session.count(now, &packet);

        let (format, tai) = (packet.error.format, self.clock.tai_offset_s);
        let reflected = ReflectedPacket {
            sequence: if self.config.stateful { sequence } else { packet.sequence },
            time: format.write(wall, tai),
            error: ErrorEstimate::of(&self.clock, format),
            ssid: packet.ssid,
            // The clock may have been set back in between.
            received: format.write(arrived.at.min(wall), tai),
            sender: packet,
            ttl: arrived.ttl.unwrap_or(0),
        };
        self.answer.clear();
        self.answer.extend_from_slice(bytes);
        let (front, extensions) = self.answer.split_at_mut_checked(base).unwrap_or_default();
        reflected.write(mode, front);
        match (&self.config.keys, key) {
            (Some(keys), Some(key)) => {
                packet::sign(front, keys, key);
                let (received_sequence, reflected_sequence) = (packet.sequence, reflected.sequence);
                let integrity = tlv::Integrity { keys, key, received_sequence, reflected_sequence };
                tlv::reflect(extensions, Some(&integrity));
            }
            _ if padded => {}
            _ => tlv::reflect(extensions, None),
        }
        Ok(new_session)
    }

    /// The mode, and the key that verifies the packet.
    fn verify(&self, bytes: &[u8]) -> Result<(Mode, Option<KeyId>), Refusal> {
        let Some(keys) = &self.config.keys else { return Ok((Mode::Unauthenticated, None)) };
        match packet::verify(bytes, keys) {
            Ok(key) => Ok((Mode::Authenticated, Some(key))),
            Err(PacketError::NotAuthentic) => Err(Refusal::Forged),
            Err(PacketError::TooShort { .. }) => Err(Refusal::Malformed),
        }
    }

    fn open(&mut self, now: Timestamp, key: SessionKey) -> Result<(), Refusal> {
        let room = self.sessions.len() < self.config.max_sessions;
        if !room || !self.sources.add_session(key.0.ip(), self.config.max_sessions_per_source) {
            return Err(Refusal::NoRoom);
        }
        self.sessions.insert(key, Session { next: 0, newest: 0, last: now });
        Ok(())
    }

    /// Ends the sessions that have been silent for long; where there is no room, also those that have been for a shorter time.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        let full = self.sessions.len() >= self.config.max_sessions;
        let timeout = if full { YIELDS_AFTER } else { self.config.session_timeout };
        let sources = &mut self.sources;
        self.sessions.retain(|(from, _), session| {
            let lives = now.saturating_since(session.last) < timeout.min(self.config.session_timeout);
            if !lives {
                sources.remove_session(from.ip());
            }
            lives
        });
    }
}

impl Session {
    /// The number of the answer to `packet`.
    ///
    /// A number 0 with a later time than all before begins a new count: another session from the same port.
    fn count(&mut self, now: Timestamp, packet: &SenderPacket) -> u32 {
        let later = packet.time.wrapping_sub(self.newest).cast_signed() > 0;
        if packet.sequence == 0 && later {
            self.next = 0;
        }
        if later || self.next == 0 {
            self.newest = packet.time;
        }
        self.last = now;
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        sequence
    }
}

/// Whether the packet is one of a reflector: what is zero or padding in a sender's packet is then a time shortly before its own.
fn is_reflected(packet: &ReflectedPacket) -> bool {
    let format = packet.error.format;
    let times = format.read(packet.time, 0).zip(format.read(packet.received, 0));
    times.is_some_and(|(sent, received)| {
        packet.received != 0 && (TimeDelta::ZERO..=LONGEST_PROCESSING).contains(&(sent - received))
    })
}

/// Whether the packet has the padding of TWAMP Light where those of STAMP are zero; then it has no SSID and no extensions.
fn has_twamp_padding(bytes: &[u8]) -> bool {
    const ZEROS: usize = 16;
    let base = Mode::Unauthenticated.base_bytes().min(bytes.len());
    bytes.get(ZEROS..base).is_some_and(|zeros| zeros.iter().any(|&byte| byte != 0))
}

/// The authenticated packets that were answered last, by the beginning of their HMAC.
#[derive(Debug, Default)]
struct Replays {
    known: BTreeSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl Replays {
    /// Remembers a packet; `false` if it is known.
    fn is_new(&mut self, mac: [u8; MAC_BYTES]) -> bool {
        let name = field(&mac, 0).map_or(0, u64::from_be_bytes);
        if !self.known.insert(name) {
            return false;
        }
        self.oldest_first.push_back(name);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    /// Lets `bytes` arrive `ms` after the start from this port; the answer leaves 0.5 ms later.
    fn ask(reflector: &mut Reflector, ms: u64, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let arrived = Arrived {
            from: SocketAddr::from(([192, 0, 2, 1], port)),
            bytes,
            at: wall(ms * 1_000),
            ttl: Some(61),
        };
        let now = Timestamp::from_nanos(ms * 1_000_000);
        let answer = reflector.reflect(now, wall(ms * 1_000 + 500), &arrived)?;
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
        assert_eq!(
            (read(reflected.received), read(reflected.time)),
            (Some(wall(20_000)), Some(wall(20_500)))
        );
        assert_eq!(answer[44..48], [0, 1, 0, 52], "padding is understood");
    }

    #[test]
    fn the_format_of_times_is_that_of_the_packet() {
        let mut bytes = vec![0; 44];
        let error = ErrorEstimate::from_bits(0x4001);
        SenderPacket { error, ..packet(0) }.write(Mode::Unauthenticated, &mut bytes);
        let reflected = read(&ask(&mut reflector(ReflectorConfig::default()), 0, 7, &bytes).unwrap());
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
        assert_eq!(reflector.counters().malformed, 41);
        for length in [41, 44, 45, 1472, 65_507] {
            assert!(ask(&mut reflector, 0, 7, &plain(0, length)).is_some(), "{length}");
        }
    }

    #[test]
    fn an_answer_is_not_answered() {
        for config in [
            ReflectorConfig::default(),
            ReflectorConfig { keys: Some(keys("a")), ..ReflectorConfig::default() },
        ] {
            let bytes = config.keys.as_ref().map_or_else(|| plain(0, 44), |keys| signed(0, keys));
            let mut reflector = reflector(config);
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
            bytes[14..]
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = (at * 17) as u8 ^ sequence as u8);
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
        for (allow, deny, served) in
            [("192.0.2.0/24", "", true), ("", "192.0.2.1/32", false), ("192.0.2.2/32", "", false)]
        {
            let nets = |text: &str| text.split_whitespace().map(|net| net.parse().unwrap()).collect();
            let prefixes = Prefixes { allow: nets(allow), deny: nets(deny) };
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
        let mut per_source =
            reflector(ReflectorConfig { max_sessions: 9, max_sessions_per_source: 2, ..limits });
        assert_eq!(answered(&mut per_source, 0), 2);
        assert_eq!(answered(&mut per_source, 899_000), 2, "they live 900 s");
        assert!(ask(&mut per_source, 1_900_000, 5, &plain(0, 44)).is_some());
        assert_eq!(per_source.sessions(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer_of_their_length_or_none(
            packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), 0_u16..3), 0..20),
            authenticated: bool,
        ) {
            let ring = authenticated.then(|| keys("a"));
            let mut reflector = reflector(ReflectorConfig { keys: ring.clone(), ..ReflectorConfig::default() });
            for (at, (bytes, port)) in packets.iter().enumerate() {
                let mut bytes = bytes.clone();
                if let Some(ring) = &ring {
                    packet::sign(&mut bytes, ring, ring.signing());
                }
                // The helper asserts the length.
                ask(&mut reflector, at as u64, *port, &bytes);
            }
            let c = reflector.counters();
            let counted = c.reflected + c.malformed + c.forged + c.replayed + c.looped + c.over_rate + c.refused;
            prop_assert_eq!(counted, packets.len() as u64);
        }
    }
}
