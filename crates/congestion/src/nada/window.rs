//! Packets of the observation window (RFC 8698 §5.1.2 and §5.1.3).

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Maximum number of packets in the window, so that memory stays bounded: 500 ms at 1.5 Gbit/s.
const MAX_PACKETS: usize = 1 << 16;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) at: Timestamp,
    pub(super) size: DataSize,
    /// Queueing delay, and lost packets directly before it; `None` for a packet out of order, which counts as lost.
    pub(super) in_order: Option<(TimeDelta, u64)>,
    pub(super) is_marked: bool,
}

/// The packets of the latest [`window`](Self::new), in the order of arrival.
#[derive(Debug, Clone)]
pub(super) struct Window {
    length: TimeDelta,
    packets: VecDeque<Arrived>,
    bytes: u64,
    received: u64,
    missing: u64,
    marked: u64,
}

impl Window {
    /// A window of this `length`.
    pub(super) fn new(length: TimeDelta) -> Self {
        let length = length.max(TimeDelta::from_millis(1));
        Self { length, packets: VecDeque::new(), bytes: 0, received: 0, missing: 0, marked: 0 }
    }

    /// Adds a packet that arrived now.
    pub(super) fn push(&mut self, packet: Arrived) {
        self.forget(packet.at);
        if self.packets.len() >= MAX_PACKETS {
            self.pop();
        }
        self.bytes = self.bytes.saturating_add(packet.size.as_bytes());
        if let Some((_, missing)) = packet.in_order {
            self.received += 1;
            self.missing = self.missing.saturating_add(missing);
            self.marked += u64::from(packet.is_marked);
        }
        self.packets.push_back(packet);
    }

    /// Removes packets that are older than the window.
    pub(super) fn forget(&mut self, now: Timestamp) {
        while self.packets.front().is_some_and(|packet| now.saturating_since(packet.at) >= self.length) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(packet) = self.packets.pop_front() else { return };
        self.bytes = self.bytes.saturating_sub(packet.size.as_bytes());
        if let Some((_, missing)) = packet.in_order {
            self.received = self.received.saturating_sub(1);
            self.missing = self.missing.saturating_sub(missing);
            self.marked = self.marked.saturating_sub(u64::from(packet.is_marked));
        }
    }

    /// Share of the packets sent that is missing, 0 to 1 (`p_inst`).
    pub(super) fn loss_ratio(&self) -> f64 {
        ratio(self.missing, self.received.saturating_add(self.missing))
    }

    /// Share of the packets received that is marked, 0 to 1.
    pub(super) fn mark_ratio(&self) -> f64 {
        ratio(self.marked, self.received)
    }

    /// Whether any packet is missing.
    pub(super) fn has_losses(&self) -> bool {
        self.missing > 0
    }

    /// `r_recv`: all data of the window over its length, also while less than a window has passed.
    pub(super) fn rate(&self) -> DataRate {
        DataRate::of(DataSize::from_bytes(self.bytes), self.length).unwrap_or_default()
    }

    /// Queueing delays of the packets in order.
    pub(super) fn delays(&self) -> impl Iterator<Item = TimeDelta> + '_ {
        self.packets.iter().filter_map(|packet| packet.in_order.map(|(delay, _)| delay))
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ms: u64, missing: u64, is_marked: bool) -> Arrived {
        let at = Timestamp::from_nanos(ms * 1_000_000);
        Arrived {
            at,
            size: DataSize::from_bytes(1250),
            in_order: Some((TimeDelta::ZERO, missing)),
            is_marked,
        }
    }

    #[test]
    fn ratios_and_rate_are_those_of_the_window_alone() {
        let mut window = Window::new(TimeDelta::from_millis(500));
        window.push(packet(0, 9, true));
        for tens in 1..50 {
            window.push(packet(tens * 10, u64::from(tens == 20), tens % 10 == 0));
        }
        // 50 arrived, 10 are missing; 1250 bytes each 10 ms are 1 Mbit/s.
        assert!((window.loss_ratio() - 10.0 / 60.0).abs() < 1e-12, "{}", window.loss_ratio());
        assert!((window.mark_ratio() - 5.0 / 50.0).abs() < 1e-12, "{}", window.mark_ratio());
        assert_eq!(window.rate(), DataRate::from_bps(1_000_000));
        // The first packet leaves.
        window.push(packet(500, 0, false));
        assert!((window.loss_ratio() - 1.0 / 51.0).abs() < 1e-12, "{}", window.loss_ratio());
        assert!((window.mark_ratio() - 4.0 / 50.0).abs() < 1e-12, "{}", window.mark_ratio());
        window.forget(Timestamp::from_nanos(700_000_000));
        assert!(!window.has_losses());
        assert_eq!(window.rate(), DataRate::from_bps(600_000));
    }

    #[test]
    fn a_late_packet_counts_towards_the_rate_and_stays_lost() {
        let mut window = Window::new(TimeDelta::from_millis(500));
        window.push(packet(0, 1, false));
        window.push(Arrived { in_order: None, ..packet(1, 0, true) });
        assert_eq!(window.rate(), DataRate::from_bps(40_000));
        assert!((window.loss_ratio() - 0.5).abs() < 1e-12 && window.mark_ratio() == 0.0);
        assert_eq!(window.delays().count(), 1);
    }
}
