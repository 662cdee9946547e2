//! Missing packets are lost after a reordering window (RFC 8985 §6.2).

use alloc::{collections::BTreeMap, vec::Vec};

use giusto_units::{TimeDelta, Timestamp};

use crate::feedback::PacketReport;

/// Maximum number of missing packets that are stored.
const MAX: usize = 1024;
/// Maximum time for which a missing packet is stored, to detect late arrivals.
const MEMORY: TimeDelta = TimeDelta::from_seconds(1);

/// Packets that are reported as missing.
///
/// Such a packet is lost if it is still missing after the reordering window. This window is the maximum time by which a packet was late,
/// between a quarter of an RTT and one RTT (RFC 8985 §6.2, step 4).
#[derive(Debug, Clone, Default)]
pub(crate) struct Reordering {
    missing: BTreeMap<u64, Missing>,
    /// The maximum time by which a packet was late.
    latest: TimeDelta,
}

#[derive(Debug, Clone, Copy)]
struct Missing {
    since: Timestamp,
    is_lost: bool,
}

/// What a report says of a packet that was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// It has arrived within the window.
    Within,
    /// It has arrived after it counted as lost.
    Beyond,
}

impl Reordering {
    /// Handles a report of a packet. Returns whether it was missing and has arrived.
    pub(crate) fn on_packet(&mut self, now: Timestamp, packet: &PacketReport) -> Option<Late> {
        let sequence = packet.sent.sequence;
        if packet.arrival.is_none() {
            self.missing.entry(sequence).or_insert(Missing { since: now, is_lost: false });
            return None;
        }
        let late = self.missing.remove(&sequence)?;
        self.latest = self.latest.max(now.saturating_since(late.since));
        Some(if late.is_lost { Late::Beyond } else { Late::Within })
    }

    /// The numbers of the packets that are lost from now on, with an RTT of `rtt`.
    pub(crate) fn lost(&mut self, now: Timestamp, rtt: TimeDelta) -> impl Iterator<Item = u64> {
        let window = self.latest.min(rtt).max(rtt / 4);
        let mut newly = Vec::new();
        while self.missing.len() > MAX {
            newly.extend(
                self.missing
                    .pop_first()
                    .filter(|(_, missing)| !missing.is_lost)
                    .map(|(sequence, _)| sequence),
            );
        }
        self.missing.retain(|&sequence, missing| {
            let age = now.saturating_since(missing.since);
            if !missing.is_lost && age >= window {
                missing.is_lost = true;
                newly.push(sequence);
            }
            age < MEMORY.max(window)
        });
        newly.into_iter()
    }

    /// Begins with the shortest window again.
    pub(crate) fn reset(&mut self) {
        self.latest = TimeDelta::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, at, ms};

    #[test]
    fn memory_is_bounded() {
        let mut reordering = Reordering::default();
        for number in 0..10_000 {
            assert_eq!(reordering.on_packet(at(0), &testing::report(number, 0, None)), None);
        }
        // The oldest count as lost at once, the others after a quarter of an RTT, each once.
        let oldest = 10_000 - MAX as u64;
        assert!(reordering.lost(at(0), ms(100)).eq(0..oldest));
        assert_eq!(reordering.missing.len(), MAX);
        assert_eq!(reordering.lost(at(24), ms(100)).count(), 0);
        assert!(reordering.lost(at(25), ms(100)).eq(oldest..10_000));
        assert_eq!(reordering.lost(at(2000), ms(100)).count(), 0);
        assert!(reordering.missing.is_empty());
    }

    #[test]
    fn a_packet_is_late_within_the_window_or_beyond() {
        let mut reordering = Reordering::default();
        let mut report = |now, arrival| {
            let late = reordering.on_packet(at(now), &testing::report(7, 0, arrival));
            (late, reordering.lost(at(now), ms(100)).count())
        };
        assert_eq!((report(0, None), report(20, Some(19))), ((None, 0), (Some(Late::Within), 0)));
        assert_eq!((report(30, Some(19)), report(40, None)), ((None, 0), (None, 0)));
        assert_eq!((report(65, None), report(70, Some(69))), ((None, 1), (Some(Late::Beyond), 0)));
    }
}
