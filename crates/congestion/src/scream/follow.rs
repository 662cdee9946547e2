//! Estimates the capacity of the path while the queueing delay is above its target.

use alloc::collections::VecDeque;

use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// Window of the received rate: half of the 200 ms of `rate_ack` (RFC 8298 §4.1.3), because packets that
/// arrived before the path became slower would distort it.
const SPAN: TimeDelta = TimeDelta::from_millis(100);
/// Increase of the one-way delay from one packet to the next that shows a stall: the path carried nothing, as in a fade or a handover.
/// A slow link does not, unless a packet alone takes longer on it: 1200 bytes at 192 kbit/s. Half of the window: a shorter
/// stall reduces the rate measured over it by less than half.
const STALL: TimeDelta = TimeDelta::from_millis(50);
/// Maximum number of reports that are stored.
const MAX: usize = 1024;

/// The received rate, and the window that follows from it.
#[derive(Debug, Clone, Default)]
pub(super) struct Follow {
    /// Times and sizes of reported arrivals.
    arrived: VecDeque<(Timestamp, DataSize)>,
    followed: Option<Timestamp>,
    /// Apparent one-way delay of the latest packet.
    delay: Option<TimeDelta>,
}

/// Measurements of the path, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Time from sending a packet to the report of its arrival.
    pub(super) rtt: f64,
    /// Queueing delay, and its target.
    pub(super) delay: f64,
    pub(super) delay_target: f64,
}

/// Limits of window and rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Enough {
    /// The window, in bytes.
    pub(super) window: f64,
    /// The received rate, in bit/s.
    pub(super) rate: f64,
}

impl Follow {
    /// Handles an arrived packet. Returns whether the path stood still before it. Then the received rate is measured from here, because
    /// what arrived during a stall says nothing about the capacity after it.
    pub(super) fn on_packet(&mut self, sent: Timestamp, arrival: PeerTimestamp) -> bool {
        let delay = -arrival.apparent_delay(sent);
        let stalled = self.delay.replace(delay).is_some_and(|before| delay - before > STALL);
        if stalled {
            self.arrived.clear();
        }
        stalled
    }

    /// Handles the report of arrived bytes.
    pub(super) fn on_arrived(&mut self, now: Timestamp, size: DataSize) {
        self.arrived.push_back((now, size));
        // The last report before the window is kept as its start. Its bytes do not count.
        while self.arrived.len() > MAX
            || self.arrived.get(1).is_some_and(|&(at, _)| now.saturating_since(at) >= SPAN)
        {
            self.arrived.pop_front();
        }
    }

    /// The window that keeps the queueing delay at its target, if the delay is above it. At most once per
    /// RTT.
    pub(super) fn on_delay(&mut self, now: Timestamp, path: &Path) -> Option<Enough> {
        let recent = self.followed.is_some_and(|at| now.saturating_since(at).as_seconds() < path.rtt);
        if path.delay <= path.delay_target || recent {
            return None;
        }
        let rate = self.rate(now)?;
        self.followed = Some(now);
        let base = (path.rtt - path.delay).max(0.0);
        Some(Enough { window: rate / 8.0 * (base + path.delay_target), rate })
    }

    /// The rate received over the window, in bit/s; `None` until the window has passed.
    fn rate(&self, now: Timestamp) -> Option<f64> {
        let &(begin, _) = self.arrived.front()?;
        let time = now.saturating_since(begin);
        let bytes: f64 = self.arrived.iter().skip(1).map(|&(_, size)| size.as_bytes() as f64).sum();
        (time >= SPAN).then(|| 8.0 * bytes / time.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, peer_at};

    const LONG: Path = Path { rtt: 0.3, delay: 0.25, delay_target: 0.1 };

    /// A report of 2500 bytes every 20 ms, which is 1 Mbit/s, until 200 ms.
    fn one_megabit() -> Follow {
        let mut follow = Follow::default();
        for report in 0..=10 {
            follow.on_arrived(at(report * 20), DataSize::from_bytes(2500));
        }
        follow
    }

    #[test]
    fn a_long_queue_limits_the_window_to_the_received_rate() {
        // 50 ms without the queue, and 100 ms in it: 150 ms at 1 Mbit/s.
        let Some(Enough { window, rate }) = one_megabit().on_delay(at(200), &LONG) else { panic!() };
        assert!((rate - 1e6).abs() < 1.0 && (window - 18_750.0).abs() < 1.0, "{rate} {window}");
        assert_eq!(one_megabit().on_delay(at(200), &Path { delay: 0.1, ..LONG }), None);
    }

    #[test]
    fn after_a_stall_the_rate_is_measured_afresh() {
        for (stall, is_stall) in [(50, false), (51, true)] {
            let mut follow = one_megabit();
            assert!(!follow.on_packet(at(100), peer_at(5000)), "the first packet");
            assert!(!follow.on_packet(at(110), peer_at(5010)) && !follow.on_packet(at(120), peer_at(5000)));
            assert_eq!(follow.on_packet(at(130), peer_at(5010 + stall)), is_stall);
            // After a stall the next 100 ms count, in which 4 Mbit/s arrive.
            follow.on_arrived(at(200), DataSize::from_bytes(1200));
            assert_eq!(follow.on_delay(at(200), &LONG).is_none(), is_stall);
            follow.on_arrived(at(300), DataSize::from_bytes(50_000));
            let rate = follow.on_delay(at(500), &LONG).map(|enough| enough.rate);
            assert!(!is_stall || rate.is_some_and(|rate| (rate - 4e6 / 3.0).abs() < 1.0), "{rate:?}");
        }
    }

    #[test]
    fn the_limit_is_returned_once_per_rtt() {
        let mut follow = one_megabit();
        let due = [200, 499, 500].map(|ms| follow.on_delay(at(ms), &LONG).is_some());
        assert_eq!(due, [true, false, true]);
    }

    #[test]
    fn the_rate_covers_the_last_100_ms() {
        let mut follow = Follow::default();
        follow.on_arrived(at(0), DataSize::from_bytes(100_000));
        follow.on_arrived(at(99), DataSize::from_bytes(1250));
        assert!(follow.on_delay(at(99), &LONG).is_none());
        follow.on_arrived(at(100), DataSize::ZERO);
        let rate = follow.on_delay(at(100), &LONG).map(|enough| enough.rate);
        assert!(rate.is_some_and(|rate| (rate - 100e3).abs() < 1.0), "{rate:?}");
        for millis in 0..10_000 {
            follow.on_arrived(at(101 + millis / 1000), DataSize::from_bytes(1));
        }
        assert!(follow.arrived.len() <= MAX);
    }
}
