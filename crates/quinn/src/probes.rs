//! Probes: packets sent faster than the target for a few milliseconds.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use giusto_congestion::Probe;
use giusto_units::DataRate;

/// Probes that wait: a controller asks for up to two at a time, and later ones replace what nobody took.
const MAX_WAITING: usize = 2;
/// A probe whose packets have not left this long after its end is given up.
const GRACE: Duration = Duration::from_millis(200);

/// The probes that the controller wants, and the one that is being sent.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    waiting: VecDeque<Probe>,
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    probe: Probe,
    start: Instant,
    /// Bytes that the application was asked for.
    requested: u64,
    sent: u64,
    packets: u32,
}

impl Active {
    /// Bytes that its rate permits in `time`.
    fn bytes_in(&self, time: Duration) -> u64 {
        (self.probe.rate.as_bps() as f64 / 8.0 * time.as_secs_f64()) as u64
    }

    fn duration(&self) -> Duration {
        Duration::from_nanos(self.probe.duration.as_nanos().unsigned_abs())
    }
}

impl Probes {
    pub(crate) fn push(&mut self, probe: Probe) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(probe);
    }

    /// Whether a packet of padding of `size` bytes is to be sent now. The first question starts a waiting probe.
    pub(crate) fn wants_padding(&mut self, now: Instant, size: u64) -> bool {
        self.expire(now);
        if self.active.is_none() {
            let start = |probe| Active { probe, start: now, requested: 0, sent: 0, packets: 0 };
            self.active = self.waiting.pop_front().map(start);
        }
        let Some(active) = &mut self.active else { return false };
        let batch = Duration::from_nanos(active.probe.batch.as_nanos().unsigned_abs());
        let due = active.bytes_in(now.saturating_duration_since(active.start) + batch);
        let enough = active.bytes_in(active.duration()).max(u64::from(active.probe.packets) * size);
        let wants = active.requested.max(active.sent) < due.min(enough);
        if wants {
            active.requested = active.requested.max(active.sent) + size;
        }
        wants
    }

    /// The cluster of a packet of `bytes` bytes that leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) -> Option<u32> {
        self.expire(now);
        let active = self.active.as_mut()?;
        let cluster = active.probe.cluster;
        (active.sent, active.packets) = (active.sent + bytes, active.packets + 1);
        if active.packets >= active.probe.packets && active.sent >= active.bytes_in(active.duration()) {
            self.active = None;
        }
        Some(cluster)
    }

    /// The rate of the active probe and the bytes that it takes.
    pub(crate) fn active(&self) -> Option<(DataRate, u64)> {
        self.active.as_ref().map(|active| (active.probe.rate, active.bytes_in(active.duration())))
    }

    fn expire(&mut self, now: Instant) {
        let is_over =
            |active: &Active| now.saturating_duration_since(active.start) > active.duration() + GRACE;
        if self.active.as_ref().is_some_and(is_over) {
            self.active = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{after, origin};

    #[test]
    fn a_probe_takes_its_duration_at_its_rate() {
        let start = origin();
        let mut probes = Probes::default();
        assert!(!probes.wants_padding(start, 1200));
        // 15 ms at 4.8 Mbit/s: 9000 bytes, 8 packets; 2 ms ahead.
        probes.push(Probe::new(7, DataRate::from_bps(4_800_000)));
        let mut sent = Vec::new();
        for ms in 0..40 {
            while probes.wants_padding(after(start, ms), 1200) {
                assert_eq!(probes.on_sent(after(start, ms), 1200), Some(7));
                sent.push(ms);
            }
        }
        assert_eq!(sent, [0, 1, 3, 5, 7, 9, 11, 13]);
        assert_eq!(probes.on_sent(after(start, 50), 1200), None);
    }

    #[test]
    fn a_slow_probe_still_has_enough_packets() {
        let start = origin();
        let mut probes = Probes::default();
        probes.push(Probe::new(1, DataRate::from_bps(600_000)));
        let sent = (0..100)
            .map(|ms| after(start, ms))
            .filter(|&now| probes.wants_padding(now, 1200) && probes.on_sent(now, 1200) == Some(1));
        assert_eq!(sent.count(), 5);
    }

    #[test]
    fn a_probe_that_cannot_leave_is_given_up() {
        let start = origin();
        let mut probes = Probes::default();
        probes.push(Probe::new(1, DataRate::from_bps(4_800_000)));
        assert!(probes.wants_padding(start, 1200));
        assert!(probes.active().is_some());
        assert_eq!(probes.on_sent(after(start, 300), 1200), None);
        assert!(probes.active().is_none());
    }
}
