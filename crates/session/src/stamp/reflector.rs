//! The Session-Reflector (RFC 8762 §4.3).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
};

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    packet::{self, MAC_BYTES, Mode, PacketError, ReflectedPacket, SenderPacket, field},
    sources::{Sources, source},
    time::{ClockState, ErrorEstimate, WallTime},
    tlv::{self, ClassOfService},
};
use crate::{
    keys::{KeyId, KeyRing},
    prefixes::Prefixes,
};

/// The number of authenticated packets that are remembered, so that a copy of one is not answered.
const REMEMBERED: usize = 65_536;

/// The time without a packet after which a session yields its place where there is no other.
const YIELDS_AFTER: TimeDelta = TimeDelta::from_seconds(10);

/// The time between two searches for sessions that have ended.
const SWEEP: TimeDelta = TimeDelta::from_seconds(1);

/// A packet whose Receive Timestamp is at most this long before its Timestamp is one of a reflector.
const LONGEST_PROCESSING: TimeDelta = TimeDelta::from_seconds(10);

giusto_units::defaults! {
    /// The configuration of a [`Reflector`].
    #[derive(Debug, Clone)]
    pub struct ReflectorConfig {
        /// The reflector counts the packets of each session, so that the sender can tell the two directions of loss apart; otherwise
        /// it copies the sender's number (RFC 8762 §4). Default: true.
        pub stateful: bool = true,
        /// Authenticated mode with these keys; `None`: unauthenticated mode. Default: `None`.
        pub keys: Option<KeyRing> = None,
        /// The addresses that are answered. Default: all.
        pub prefixes: Prefixes = Prefixes::default(),
        /// The maximum number of sessions. Default: 16 384, about 3 MB.
        pub max_sessions: usize = 16_384,
        /// The maximum number of sessions of one IPv4 address or one IPv6 prefix of 64 bits. Default: 1024.
        pub max_sessions_per_source: usize = 1_024,
        /// The maximum rate of answers to one such source, of their UDP payload, over more than 250 ms. Default: 100 Mbit/s.
        pub max_rate: DataRate = DataRate::from_bps(100_000_000),
        /// The differentiated services code point of answers, except to packets that ask for another one (RFC 8972 §4.4). Default: 0.
        pub dscp: u8 = 0,
        /// A session ends after this time without a packet. Default: 900 s, TWAMP's REFWAIT (RFC 5357 §4.2).
        pub session_timeout: TimeDelta = TimeDelta::from_seconds(900),
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
    /// TTL or Hop Limit on arrival; `None` if the system does not report it.
    pub ttl: Option<u8>,
    /// DSCP and ECN on arrival, as the byte of the IP header; `None` if the system does not report it.
    pub traffic_class: Option<u8>,
}

/// The packets so far, by outcome.
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
    /// Dropped by the full buffer of the socket before they were read. To their senders they are lost on the way there.
    pub kernel_dropped: u64,
    /// Answers, among the reflected ones, that have the DSCP of their packet instead of the one asked for, which is network control
    /// and needs authentication.
    pub refused_dscp: u64,
}

impl ReflectorCounters {
    /// The packets that were not answered, for any reason.
    pub fn unanswered(&self) -> u64 {
        self.reasons().iter().map(|(_, _, packets)| packets).sum()
    }

    /// Why packets were not answered: the name of the reason, the packets in words, and how many there were.
    pub const fn reasons(&self) -> [(&'static str, &'static str, u64); 8] {
        [
            ("denied", "from addresses not allowed", self.denied),
            ("malformed", "malformed", self.malformed),
            ("forged", "not authentic", self.forged),
            ("replayed", "replayed", self.replayed),
            ("looped", "from another reflector", self.looped),
            ("over_rate", "above the rate of a host", self.over_rate),
            ("refused", "without room for their session", self.refused),
            ("kernel_dropped", "dropped by the full socket buffer", self.kernel_dropped),
        ]
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflected<'a> {
    /// The UDP payload, which goes to the source of the packet; as long as the packet was.
    pub bytes: &'a [u8],
    /// With this packet a session began.
    pub new_session: bool,
    /// The differentiated services code point with which it is to be sent.
    pub dscp: u8,
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

giusto_units::defaults! {
    /// The Session-Reflector: answers each packet of a Session-Sender with one of the same length.
    ///
    /// An answer is never longer than its packet, so the reflector is of no use to amplify traffic. For the same reason, and unlike
    /// RFC 8762 §4.6, packets of TWAMP Light with fewer than 41 bytes, the length of its answers, are not answered.
    ///
    /// The timestamps of an answer have the format of the packet.
    #[derive(Debug)]
    pub struct Reflector {
        config: ReflectorConfig = config,
        clock: ClockState = clock,
        sessions: BTreeMap<SessionKey, Session> = BTreeMap::new(),
        sources: Sources = Sources::default(),
        replays: Replays = Replays::default(),
        counters: ReflectorCounters = ReflectorCounters::default(),
        next_sweep: Timestamp = Timestamp::ZERO,
        answer: Vec<u8> = Vec::new(),
    }
    /// A reflector without sessions.
    pub fn new(config: ReflectorConfig, clock: ClockState);
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
    /// The counts so far.
    pub fn counters(&self) -> ReflectorCounters {
        self.counters
    }

    /// The socket has dropped so many packets so far.
    pub fn note_kernel_dropped(&mut self, total: u64) {
        self.counters.kernel_dropped = self.counters.kernel_dropped.max(total);
    }

    /// The number of sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sets the clock that the answers describe. It changes with time: call it about once a second.
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
            Ok((new_session, class)) => {
                self.counters.reflected += 1;
                self.counters.sessions += u64::from(new_session);
                self.counters.refused_dscp += u64::from(class.is_some_and(|class| !class.permitted));
                let dscp = class.map_or(self.config.dscp, |class| class.dscp);
                Some(Reflected { bytes: &self.answer, new_session, dscp })
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

    /// Writes the answer; returns whether a session began, and the class of service that the packet asks for.
    fn answer(
        &mut self,
        now: Timestamp,
        wall: WallTime,
        arrived: &Arrived<'_>,
    ) -> Result<(bool, Option<ClassOfService>), Refusal> {
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

        let mac = packet::mac_of(bytes).filter(|_| key.is_some());
        if mac.is_some_and(|mac| self.replays.knows(mac)) {
            return Err(Refusal::Replayed);
        }
        let session_key = (arrived.from, packet.ssid);
        self.sweep(now);
        let new_session = !self.sessions.contains_key(&session_key);
        if new_session {
            self.open(now, session_key)?;
        }
        let size = DataSize::from_bytes(bytes.len() as u64);
        if !self.sources.take(now, arrived.from.ip(), size, self.config.max_rate) {
            // It has not been seen: a session begins with an answer.
            if new_session {
                self.sessions.remove(&session_key);
                self.sources.remove_session(arrived.from.ip());
            }
            return Err(Refusal::OverRate);
        }
        if let Some(mac) = mac {
            self.replays.remember(mac);
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
        let class = arrived.traffic_class.unwrap_or(0);
        let asked = match (&self.config.keys, key) {
            (Some(keys), Some(key)) => {
                packet::sign(front, keys, key);
                let (received_sequence, reflected_sequence) = (packet.sequence, reflected.sequence);
                let integrity = tlv::Integrity { keys, key, received_sequence, reflected_sequence };
                tlv::reflect(extensions, class, Some(&integrity))
            }
            _ if padded => None,
            _ => tlv::reflect(extensions, class, None),
        };
        Ok((new_session, asked))
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

    /// Ends the sessions that have been silent for long; where there is no room, in all or of their source, also those that have been for a
    /// shorter time.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        let full = self.sessions.len() >= self.config.max_sessions;
        let sources = &mut self.sources;
        let crowded = sources.full(self.config.max_sessions_per_source);
        self.sessions.retain(|(from, _), session| {
            let yields = full || crowded.contains(&source(from.ip()));
            let timeout = if yields { YIELDS_AFTER } else { self.config.session_timeout };
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
    fn name(mac: [u8; MAC_BYTES]) -> u64 {
        field(&mac, 0).map_or(0, u64::from_be_bytes)
    }

    fn knows(&self, mac: [u8; MAC_BYTES]) -> bool {
        self.known.contains(&Self::name(mac))
    }

    fn remember(&mut self, mac: [u8; MAC_BYTES]) {
        let name = Self::name(mac);
        if !self.known.insert(name) {
            return;
        }
        self.oldest_first.push_back(name);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
#[path = "reflector_tests.rs"]
mod tests;
