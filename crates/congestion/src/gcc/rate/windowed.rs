//! Received rate, as the draft measures it.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta};

/// Data received in the last `T`, divided by `T` (draft-ietf-rmcat-gcc-02 §5.5 recommends 0.5 to 1 s).
///
/// The window ends with the latest arrival and excludes its start. There is no rate until one window has
/// passed since the first arrival, or the first after a pause of a window, because the sum over `T` would be too low. The draft counts payload; this
/// counts the sizes that it is given.
///
/// An arrival earlier than the latest one counts as if it came at the same time. If it is earlier by more
/// than the window, it indicates a clock jump, and the measurement restarts. Memory is bounded by the times of
/// arrival in one window.
#[derive(Debug, Clone)]
pub(crate) struct WindowedRate {
    window: TimeDelta,
    first: Option<PeerTimestamp>,
    packets: VecDeque<(PeerTimestamp, DataSize)>,
    sum: u64,
}

impl WindowedRate {
    /// A meter with this window; below 1 ms it is 1 ms.
    pub(crate) fn new(window: TimeDelta) -> Self {
        let window = window.max(TimeDelta::from_millis(1));
        Self { window, first: None, packets: VecDeque::new(), sum: 0 }
    }

    /// Handles the arrival of a packet of `size`.
    pub(crate) fn on_packet(&mut self, arrival: PeerTimestamp, size: DataSize) {
        let latest = self.packets.back().map_or(arrival, |&(latest, _)| latest);
        if latest - arrival > self.window || arrival - latest >= self.window {
            self.packets.clear();
            (self.sum, self.first) = (0, None);
        }
        let arrival = self.packets.back().map_or(arrival, |_| arrival.max(latest));
        self.first.get_or_insert(arrival);
        match self.packets.back_mut().filter(|(latest, _)| *latest == arrival) {
            Some((_, sum)) => *sum += size,
            None => self.packets.push_back((arrival, size)),
        }
        self.sum = self.sum.saturating_add(size.as_bytes());
        while let Some(&(at, size)) = self.packets.front().filter(|(at, _)| arrival - *at >= self.window) {
            debug_assert!(at <= arrival);
            self.packets.pop_front();
            self.sum = self.sum.saturating_sub(size.as_bytes());
        }
    }

    /// Handles data that have arrived according to no report, at the latest arrival.
    pub(crate) fn on_unreported(&mut self, size: DataSize) {
        if let Some((_, sum)) = self.packets.back_mut() {
            *sum += size;
            self.sum = self.sum.saturating_add(size.as_bytes());
        }
    }

    /// The rate; `None` until one window has passed.
    pub(crate) fn rate(&self) -> Option<DataRate> {
        let (latest, _) = self.packets.back()?;
        let full = *latest - self.first? >= self.window;
        full.then(|| DataRate::of(DataSize::from_bytes(self.sum), self.window)).flatten()
    }
}

impl Default for WindowedRate {
    /// A window of 1 s.
    fn default() -> Self {
        Self::new(TimeDelta::from_seconds(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> PeerTimestamp {
        PeerTimestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_steady_stream_has_its_rate_after_one_window() {
        // 1000 bytes every 10 ms is 800 kbit/s.
        let mut rate = WindowedRate::new(TimeDelta::from_millis(500));
        for i in 0..200 {
            rate.on_packet(at(i * 10), DataSize::from_bytes(1000));
            let expected = (i >= 50).then(|| DataRate::from_bps(800_000));
            assert_eq!(rate.rate(), expected, "packet {i}");
        }
    }

    #[test]
    fn packets_of_one_time_are_kept_as_one() {
        let mut rate = WindowedRate::default();
        rate.on_packet(at(0), DataSize::from_bytes(1000));
        (0..100_000).for_each(|_| rate.on_packet(at(500), DataSize::from_bytes(1000)));
        assert_eq!(rate.packets.len(), 2);
        rate.on_packet(at(1000), DataSize::from_bytes(1000));
        assert_eq!(rate.rate(), Some(DataRate::from_bps(800_008_000)));
        rate.on_packet(at(1500), DataSize::from_bytes(1000));
        assert_eq!(rate.rate(), Some(DataRate::from_bps(16_000)));
    }

    #[test]
    fn after_a_pause_there_is_no_rate_until_one_window_has_passed() {
        let mut rate = WindowedRate::default();
        (0..=100).for_each(|i| rate.on_packet(at(i * 10), DataSize::from_bytes(1000)));
        assert_eq!(rate.rate(), Some(DataRate::from_bps(800_000)));
        for i in 0..=100 {
            rate.on_packet(at(60_000 + i * 10), DataSize::from_bytes(1000));
            assert_eq!(rate.rate(), (i == 100).then_some(DataRate::from_bps(800_000)), "{i}");
        }
    }

    #[test]
    fn a_large_backward_jump_of_the_clock_restarts() {
        let mut rate = WindowedRate::default();
        (0..=100).for_each(|i| rate.on_packet(at(5000 + i * 10), DataSize::from_bytes(1000)));
        let before = rate.rate();
        rate.on_packet(at(5900), DataSize::from_bytes(1000));
        assert_eq!(before, Some(DataRate::from_bps(800_000)));
        assert_eq!(rate.rate(), Some(DataRate::from_bps(808_000)));
        rate.on_packet(at(100), DataSize::from_bytes(1000));
        assert_eq!(rate.rate(), None);
    }
}
