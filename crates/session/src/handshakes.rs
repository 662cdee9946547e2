//! How many handshakes are answered while something is measured.
//!
//! Anybody can send them, also from forged addresses, and each costs up to five HMACs and two system calls: about 10 µs.

use std::net::IpAddr;

use giusto_units::{TimeDelta, Timestamp};

use crate::host::host;

/// Handshakes of each kind that are answered in a second, those of all cells: about 2 % of a processor.
const RATE: f64 = 2_000.0;

/// Hosts share their allowance with a sixteenth of all others, so that one host does not take that of all.
const CELLS: usize = 16;

/// A datagram that is dropped within this time after an unanswered handshake is dropped because of many.
const FLOOD: TimeDelta = TimeDelta::from_seconds(1);

/// A kind of handshake. Each has an allowance of its own: a flood of the first leaves the second to those whose first was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first message: it costs nothing, and its address may be forged.
    First,
    /// The message that returns a cookie.
    Second,
}

/// Handshakes that were not answered because there were too many, and what was dropped meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandshakeFlood {
    /// Handshakes that were not answered.
    pub unanswered: u64,
    /// Datagrams of any sender that the socket dropped meanwhile.
    pub dropped: u64,
}

impl HandshakeFlood {
    /// What came after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            unanswered: self.unanswered.saturating_sub(before.unanswered),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

/// Limits the handshakes that are answered, by token buckets.
#[derive(Debug)]
pub(crate) struct Handshakes {
    buckets: [[Bucket; CELLS]; 2],
    /// Handshakes that one cell answers at once.
    burst: f64,
    flood: HandshakeFlood,
    /// The time of the latest unanswered one.
    latest: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Tokens that are missing.
    taken: f64,
    at: Timestamp,
}

impl Handshakes {
    /// `burst`: handshakes of one host that are answered at once.
    pub(crate) fn new(burst: usize) -> Self {
        Self {
            buckets: [[Bucket::default(); CELLS]; 2],
            burst: burst as f64,
            flood: HandshakeFlood::default(),
            latest: None,
        }
    }

    /// Whether a handshake from this address is to be answered now.
    pub(crate) fn admit(&mut self, now: Timestamp, from: IpAddr, step: Step) -> bool {
        let hash = match host(from) {
            IpAddr::V4(ip) => crc32c::crc32c(&ip.octets()),
            IpAddr::V6(ip) => crc32c::crc32c(&ip.octets()),
        };
        let kind = usize::from(step == Step::Second);
        let cell = hash as usize % CELLS;
        let Some(bucket) = self.buckets.get_mut(kind).and_then(|kind| kind.get_mut(cell)) else {
            return false;
        };
        let passed = now.saturating_since(bucket.at).as_seconds();
        bucket.at = bucket.at.max(now);
        bucket.taken = (bucket.taken - passed * RATE / CELLS as f64).max(0.0);
        let is_admitted = bucket.taken + 1.0 <= self.burst;
        if is_admitted {
            bucket.taken += 1.0;
        } else {
            self.flood.unanswered += 1;
            self.latest = Some(now);
        }
        is_admitted
    }

    /// The socket has dropped this many datagrams since the last call.
    pub(crate) fn on_dropped(&mut self, now: Timestamp, datagrams: u64) {
        if self.latest.is_some_and(|latest| now.saturating_since(latest) <= FLOOD) {
            self.flood.dropped += datagrams;
        }
    }

    /// What was not answered so far, and what was dropped meanwhile.
    pub(crate) fn flood(&self) -> HandshakeFlood {
        self.flood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_flood_gets_its_burst_and_its_share_of_the_rate() {
        let mut handshakes = Handshakes::new(100);
        let host = |last: u8| IpAddr::from([192, 0, 2, last]);
        // One host, 60,000 a second for two seconds: a burst, and a sixteenth of 2000 a second.
        let answered = (0..120_000).filter(|n| handshakes.admit(at(n * 17), host(1), Step::First)).count();
        assert!((350..=356).contains(&answered), "{answered}");
        assert_eq!(handshakes.flood().unanswered, 120_000 - answered as u64);
        // Neither its second messages nor most other hosts suffer.
        let now = at(120_000 * 17);
        assert!(handshakes.admit(now, host(1), Step::Second));
        let others = (2..=255).filter(|&last| handshakes.admit(now, host(last), Step::First)).count();
        assert!((220..254).contains(&others), "{others}");
    }

    #[test]
    fn all_hosts_together_get_the_rate() {
        let mut handshakes = Handshakes::new(10);
        let from = |n: u64| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        let answered = (0..120_000).filter(|n| handshakes.admit(at(n * 17), from(*n), Step::First)).count();
        assert!((4_000..=4_250).contains(&answered), "{answered}");
    }

    #[test]
    fn only_what_is_dropped_in_a_flood_counts() {
        let mut handshakes = Handshakes::new(1);
        let from = IpAddr::from([192, 0, 2, 1]);
        handshakes.on_dropped(at(0), 5);
        assert!(handshakes.admit(at(1), from, Step::First));
        handshakes.on_dropped(at(2), 5);
        assert!(!handshakes.admit(at(3), from, Step::First));
        handshakes.on_dropped(at(4), 7);
        handshakes.on_dropped(at(2_000_000), 5);
        assert_eq!(handshakes.flood(), HandshakeFlood { unanswered: 1, dropped: 7 });
    }
}
