//! Loss ratio: what was lost of what was sent in the latest second, without packets that may still arrive.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp, math};

/// Packets are counted in bins of their departure, so that the work of a feedback does not grow with the rate.
const BIN: TimeDelta = TimeDelta::from_millis(20);
/// Number of bins kept: three seconds.
const BINS: u64 = 150;
/// The window, and the packets that it should have. With fewer it goes back up to all bins: 60 packets tell 5 % from none.
const WINDOW: TimeDelta = TimeDelta::from_seconds(1);
const PACKETS: u32 = 60;
/// Lost packets whose late arrival is recognised.
const MAX_LOST: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    index: u64,
    packets: u32,
    lost: u32,
    /// Runs of lost packets that begin here.
    runs: u32,
}

/// The loss of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LossRatio {
    /// Lost over reported, 0 to 1.
    pub(super) ratio: f64,
    /// Reported packets.
    pub(super) packets: f64,
    /// Mean length of a run of losses, at least 1.
    pub(super) burst: f64,
    /// Reported packets that left after the latest loss.
    pub(super) clean: f64,
}

impl LossRatio {
    /// Standard deviation of the ratio, if runs of losses are independent.
    pub(super) fn deviation(&self) -> f64 {
        math::sqrt(self.ratio * (1.0 - self.ratio) * self.burst / self.packets.max(1.0))
    }
}

/// Counts of reported and lost packets by departure.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    bins: VecDeque<Bin>,
    /// Numbers of lost packets, ascending but for reordered reports.
    lost: VecDeque<u64>,
    previous_lost: Option<u64>,
    newest: Timestamp,
}

impl Losses {
    /// Handles the report of packet `sequence`, which left at `sent`. Returns whether it is new information that it was lost.
    pub(super) fn on_report(&mut self, sequence: u64, sent: Timestamp, has_arrived: bool) -> bool {
        let index = sent.as_nanos() / BIN.as_nanos().unsigned_abs();
        self.newest = self.newest.max(sent);
        // Nearly all packets arrive, are newer than the latest loss and belong to the newest bin.
        let is_new = self.lost.back().is_none_or(|&last| last < sequence);
        match self.bins.back_mut() {
            Some(bin) if has_arrived && is_new && bin.index == index => {
                bin.packets = bin.packets.saturating_add(1);
                false
            }
            _ => self.count(sequence, index, has_arrived, is_new),
        }
    }

    /// Counts a report in bin `index`. `is_new`: no later packet was lost.
    #[inline(never)]
    fn count(&mut self, sequence: u64, index: u64, has_arrived: bool, is_new: bool) -> bool {
        let was_lost = has_arrived && !is_new && self.forgive(sequence);
        let Some(bin) = self.bin(index) else { return false };
        if was_lost {
            bin.lost = bin.lost.saturating_sub(1);
            bin.runs = bin.runs.min(bin.lost);
            return false;
        }
        bin.packets = bin.packets.saturating_add(1);
        if has_arrived {
            return false;
        }
        bin.lost = bin.lost.saturating_add(1);
        let continues = sequence > 0 && self.previous_lost == Some(sequence - 1);
        self.previous_lost = Some(sequence);
        if !continues && let Some(bin) = self.bin(index) {
            bin.runs = bin.runs.saturating_add(1);
        }
        self.lost.push_back(sequence);
        if self.lost.len() > MAX_LOST {
            self.lost.pop_front();
        }
        true
    }

    /// Whether this packet was reported as lost; then it is not any more.
    fn forgive(&mut self, sequence: u64) -> bool {
        let place = self.lost.iter().rposition(|&lost| lost == sequence);
        place.and_then(|place| self.lost.remove(place)).is_some()
    }

    fn bin(&mut self, index: u64) -> Option<&mut Bin> {
        let newest = self.bins.back().map_or(index, |bin| bin.index.max(index));
        let oldest = newest.saturating_sub(BINS);
        if index < oldest {
            return None;
        }
        while self.bins.front().is_some_and(|bin| bin.index < oldest) {
            self.bins.pop_front();
        }
        let place = self.bins.iter().rposition(|bin| bin.index <= index);
        let found = place.filter(|&place| self.bins.get(place).is_some_and(|bin| bin.index == index));
        let place = found.unwrap_or_else(|| {
            let place = place.map_or(0, |place| place + 1);
            self.bins.insert(place, Bin { index, ..Bin::default() });
            place
        });
        self.bins.get_mut(place)
    }

    /// The loss of packets that left at least `settle` before the newest reported one, and not before `from`.
    pub(super) fn ratio(&self, settle: TimeDelta, from: Timestamp) -> LossRatio {
        let until = self.newest - settle;
        let index = |at: Timestamp| at.as_nanos() / BIN.as_nanos().unsigned_abs();
        let (last, first) = (index(until), index(from));
        let window = index(until - WINDOW);
        let (mut packets, mut lost, mut runs, mut clean) = (0, 0, 0, 0);
        for bin in self.bins.iter().rev().filter(|bin| bin.index < last) {
            if bin.index < first || bin.index < window && packets >= PACKETS {
                break;
            }
            packets += bin.packets;
            lost += bin.lost;
            if lost == 0 {
                clean = packets;
            }
            runs += bin.runs;
        }
        let part = |a: u32, b: u32| if b == 0 { 0.0 } else { f64::from(a) / f64::from(b) };
        LossRatio {
            ratio: part(lost, packets),
            packets: packets.into(),
            burst: part(lost, runs).max(1.0),
            clean: clean.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const SETTLE: TimeDelta = TimeDelta::from_millis(100);

    #[test]
    fn the_ratio_is_that_of_a_second_that_has_settled() {
        let mut losses = Losses::default();
        for packet in 0..400_u64 {
            // From 1 s to 2 s one in ten, in runs of two.
            let is_lost = (100..200).contains(&packet) && packet % 20 < 2;
            assert_eq!(losses.on_report(packet, at(packet * 10), !is_lost), is_lost);
            if packet == 209 {
                let loss = losses.ratio(SETTLE, Timestamp::ZERO);
                // Up to 1.98 s: 99 packets, since the newest bin is not complete.
                assert!((loss.ratio - 0.1).abs() < 0.002 && (loss.burst - 2.0).abs() < 1e-12, "{loss:?}");
                // Lost until 1.81 s, in the bin up to 1.82 s.
                assert!((loss.clean - 16.0).abs() < 1.0, "{loss:?}");
                let deviation = (0.1_f64 * 0.9 * 2.0 / 99.0).sqrt();
                assert!((loss.deviation() - deviation).abs() < 0.002);
                let later = losses.ratio(SETTLE, at(1900));
                assert!((later.packets - 8.0).abs() < 1.0 && later.ratio < 0.3, "{later:?}");
            }
        }
        let loss = losses.ratio(SETTLE, Timestamp::ZERO);
        assert!(loss.ratio < 1e-12 && (loss.clean - loss.packets).abs() < 1e-12, "{loss:?}");
    }

    #[test]
    fn a_late_arrival_is_no_loss_and_counts_once() {
        let mut losses = Losses::default();
        // The report of packet 41 comes last.
        for packet in (0..100_u64).filter(|&packet| packet != 41) {
            losses.on_report(packet, at(packet * 10), packet % 10 != 5);
        }
        let before = losses.ratio(SETTLE, Timestamp::ZERO);
        losses.on_report(25, at(250), true);
        losses.on_report(35, at(350), true);
        let after = losses.ratio(SETTLE, Timestamp::ZERO);
        assert!((before.packets - after.packets).abs() < 1e-12);
        assert!((before.ratio - after.ratio - 2.0 / before.packets).abs() < 1e-12, "{before:?} {after:?}");
        // It was never lost: one packet more, and as many losses.
        losses.on_report(41, at(410), true);
        let last = losses.ratio(SETTLE, Timestamp::ZERO);
        assert!((last.packets - after.packets - 1.0).abs() < 1e-12, "{last:?}");
        assert!((last.ratio * last.packets - after.ratio * after.packets).abs() < 1e-9, "{last:?} {after:?}");
    }

    #[test]
    fn at_low_rates_the_window_is_longer() {
        let mut losses = Losses::default();
        for packet in 0..100_u64 {
            losses.on_report(packet, at(packet * 100), true);
        }
        // Ten packets a second: all that is kept, 3 s.
        let packets = losses.ratio(SETTLE, Timestamp::ZERO).packets;
        assert!((26.0..=30.0).contains(&packets), "{packets}");
    }
}
