//! The packets of a Session-Sender (RFC 8762 §4.2), and what is remembered of them.

use std::sync::{
    Arc,
    atomic::{AtomicU16, AtomicU64, Ordering},
};

use giusto_units::Timestamp;

use super::{
    packet::{self, Mode, SenderPacket},
    time::{ErrorEstimate, WallTime},
    tlv,
};
use crate::keys::KeyRing;

/// The number of packets that an answer may be late by. A power of two, below 2³¹.
const REMEMBERED: u64 = 65_536;

/// The times of the latest 65 536 packets, shared between the thread that sends and the one that receives.
///
/// An answer counts only if it repeats the 64-bit time of its packet. So an off-path attacker, who does not see the packet, cannot
/// forge answers, even without authentication.
#[derive(Debug, Clone)]
pub struct Departures(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    times: Box<[AtomicU64]>,
    next: AtomicU64,
    error: AtomicU16,
}

impl Departures {
    /// No packets so far; `error` is the error estimate of the first ones, and the format of all times.
    pub fn new(error: ErrorEstimate) -> Self {
        let times = (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Shared { times, next: AtomicU64::new(0), error: AtomicU16::new(error.to_bits()) }))
    }

    /// The error estimate of the packets from now on.
    pub fn error(&self) -> ErrorEstimate {
        ErrorEstimate::from_bits(self.0.error.load(Ordering::Relaxed))
    }

    /// Sets the error estimate of the packets from now on. It must keep the format.
    pub fn set_error(&self, error: ErrorEstimate) {
        self.0.error.store(error.to_bits(), Ordering::Relaxed);
    }

    fn record(&self, sequence: u64, time: u64) {
        if let Some(place) = self.0.times.get((sequence % REMEMBERED) as usize) {
            place.store(time, Ordering::Relaxed);
        }
        self.0.next.store(sequence + 1, Ordering::Release);
    }

    /// The full number of the packet that carried this number and this time; `None` if there is none among the latest.
    pub(super) fn find(&self, sequence: u32, time: u64) -> Option<u64> {
        let next = self.0.next.load(Ordering::Acquire);
        let back = (next as u32).wrapping_sub(sequence);
        let full = next.checked_sub(back.into()).filter(|_| (1..=REMEMBERED).contains(&back.into()))?;
        let place = self.0.times.get((full % REMEMBERED) as usize)?;
        (place.load(Ordering::Relaxed) == time).then_some(full)
    }
}

/// Writes the packets of a session.
#[derive(Debug, Clone)]
pub struct ProbeSource {
    /// The identifier of the session; 0 for none.
    pub ssid: u16,
    /// Authenticated mode with the signing key of these keys; `None`: unauthenticated mode.
    pub keys: Option<KeyRing>,
    /// The time of day at time 0 of the local clock.
    pub origin: WallTime,
    /// TAI less UTC, in seconds.
    pub tai_offset_s: i32,
    /// Where the times of the packets are kept.
    pub departures: Departures,
}

impl ProbeSource {
    /// The mode of the packets.
    pub fn mode(&self) -> Mode {
        if self.keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated }
    }

    /// Writes packet number `sequence`, sent now, to `datagram`; the bytes behind the base packet become the value of an Extra
    /// Padding TLV.
    pub fn write(&self, now: Timestamp, sequence: u64, datagram: &mut [u8]) {
        let mode = self.mode();
        let error = self.departures.error();
        let wall = WallTime::from_unix_nanos(self.origin.as_unix_nanos().saturating_add(now.as_nanos()));
        let time = error.format.write(wall, self.tai_offset_s);
        let packet = SenderPacket { sequence: sequence as u32, time, error, ssid: self.ssid };
        let (base, padding) = datagram.split_at_mut_checked(mode.base_bytes()).unwrap_or_default();
        packet.write(mode, base);
        tlv::write_padding(padding);
        if let Some(keys) = &self.keys {
            packet::sign(base, keys, keys.signing());
        }
        self.departures.record(sequence, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_packet_that_was_sent_is_found() {
        let departures = Departures::new(ErrorEstimate::default());
        assert_eq!(departures.find(0, 0), None);
        for sequence in 0..70_000 {
            departures.record(sequence, 1_000_000 + sequence);
        }
        assert_eq!(departures.find(69_999, 1_069_999), Some(69_999));
        assert_eq!(departures.find(69_999, 1_069_998), None, "another time");
        assert_eq!(departures.find(70_000, 0), None, "not sent yet");
        assert_eq!(departures.find(4_464, 1_004_464), Some(4_464));
        assert_eq!(departures.find(4_463, 1_004_463), None, "too long ago");
        let wrapped = (1 << 32) + 5;
        departures.record(wrapped, 7);
        assert_eq!(departures.find(5, 7), Some(wrapped));
    }

    #[test]
    fn a_packet_is_filled_and_signed() {
        let keys = KeyRing::parse("1 00112233445566778899aabbccddeeff").unwrap();
        let departures = Departures::new(ErrorEstimate::from_bits(0x0001));
        let mut source = ProbeSource {
            ssid: 3,
            keys: None,
            origin: WallTime::from_unix_nanos(1_000_000_000),
            tai_offset_s: 0,
            departures,
        };
        let mut bytes = [9; 60];
        source.write(Timestamp::from_nanos(500_000_000), 2, &mut bytes);
        let packet = SenderPacket::read(Mode::Unauthenticated, &bytes).unwrap();
        assert_eq!((packet.sequence, packet.ssid), (2, 3));
        assert_eq!(packet.time, 2_208_988_801 << 32 | 1 << 31);
        assert_eq!(bytes[44..49], [0x80, 1, 0, 12, 9]);
        assert_eq!(source.departures.find(2, packet.time), Some(2));
        source.keys = Some(keys.clone());
        let mut bytes = [9; 112];
        source.write(Timestamp::ZERO, 3, &mut bytes);
        assert!(packet::verify(&bytes, &keys).is_ok());
    }
}
