//! The packets that arrived lately, in bins: what the estimators of queue and rate look at.

use alloc::collections::VecDeque;

use giusto_units::{DataSize, PeerTimestamp, TimeDelta};

/// Arrivals are collected in bins of this length, so that the work of a feedback does not grow with the rate.
const BIN: TimeDelta = TimeDelta::from_millis(10);
/// Number of bins kept: longer than any window of an estimator (0.6 s).
const BINS: u64 = 100;

/// Packets that arrived within 10 ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bin {
    index: u64,
    /// Arrival of the first and the last packet.
    pub(super) first: PeerTimestamp,
    pub(super) last: PeerTimestamp,
    first_size: DataSize,
    size: DataSize,
    pub(super) packets: u32,
    /// Lowest and highest one-way delay.
    pub(super) min_delay: TimeDelta,
    pub(super) max_delay: TimeDelta,
}

/// The bins of the latest second, the newest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    bins: VecDeque<Bin>,
}

impl Arrivals {
    /// Handles a packet of `size` that arrived at `at` after `delay`.
    pub(super) fn push(&mut self, at: PeerTimestamp, delay: TimeDelta, size: DataSize) {
        let index = at.as_nanos() / BIN.as_nanos().unsigned_abs();
        // Nearly all packets belong to the newest bin.
        if let Some(bin) = self.bins.back_mut().filter(|bin| bin.index == index) {
            bin.add(at, delay, size);
            return;
        }
        let newest = self.bins.back().map_or(index, |bin| bin.index.max(index));
        let oldest = newest.saturating_sub(BINS);
        if index < oldest {
            return;
        }
        while self.bins.front().is_some_and(|bin| bin.index < oldest) {
            self.bins.pop_front();
        }
        let new = Bin {
            index,
            first: at,
            last: at,
            first_size: size,
            size,
            packets: 1,
            min_delay: delay,
            max_delay: delay,
        };
        let place = self.bins.iter().rposition(|bin| bin.index <= index);
        match place.and_then(|place| self.bins.get_mut(place)).filter(|bin| bin.index == index) {
            Some(bin) => bin.add(at, delay, size),
            None => self.bins.insert(place.map_or(0, |place| place + 1), new),
        }
    }

    /// The bins from the newest on, each with the age of its last packet.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (TimeDelta, &Bin)> {
        let newest = self.bins.back().map(|bin| bin.last);
        self.bins
            .iter()
            .rev()
            .map(move |bin| (newest.map_or(TimeDelta::ZERO, |newest| newest - bin.last), bin))
    }

    /// Arrival of the newest packet.
    pub(super) fn newest(&self) -> Option<PeerTimestamp> {
        self.bins.back().map(|bin| bin.last)
    }
}

impl Bin {
    fn add(&mut self, at: PeerTimestamp, delay: TimeDelta, size: DataSize) {
        if at < self.first {
            (self.first, self.first_size) = (at, size);
        }
        self.last = self.last.max(at);
        self.size += size;
        self.packets = self.packets.saturating_add(1);
        self.min_delay = self.min_delay.min(delay);
        self.max_delay = self.max_delay.max(delay);
    }

    /// Size of the packets, and of those after the first.
    pub(super) fn sizes(&self) -> (DataSize, DataSize) {
        (self.size, self.size.saturating_sub(self.first_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> PeerTimestamp {
        PeerTimestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn late_packets_find_their_bin_and_very_late_ones_do_not() {
        let size = DataSize::from_bytes(1000);
        let ms = TimeDelta::from_millis;
        let mut arrivals = Arrivals::default();
        for (time, delay) in [(5000, 20), (5004, 21), (5030, 25), (5002, 40), (5015, 18), (3900, 1)] {
            arrivals.push(at(time), ms(delay), size);
        }
        let bins: Vec<_> = arrivals.newest_first().collect();
        assert_eq!(bins.iter().map(|(age, _)| age.as_millis()).collect::<Vec<_>>(), [0.0, 15.0, 26.0]);
        let (_, oldest) = bins[2];
        assert_eq!((oldest.packets, oldest.min_delay, oldest.max_delay), (3, ms(20), ms(40)));
        assert_eq!(oldest.sizes(), (size * 3, size * 2));
        assert_eq!(arrivals.newest(), Some(at(5030)));
    }
}
