//! The packets that arrived lately, in bins: what the delivery rate looks at.

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
    last: PeerTimestamp,
    first_size: DataSize,
    size: DataSize,
}

/// The bins of the latest second, the newest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    bins: VecDeque<Bin>,
}

impl Arrivals {
    /// Handles a packet of `size` that arrived at `at`.
    pub(super) fn push(&mut self, at: PeerTimestamp, size: DataSize) {
        let index = at.as_nanos() / BIN.as_nanos().unsigned_abs();
        // Nearly all packets belong to the newest bin.
        if let Some(bin) = self.bins.back_mut().filter(|bin| bin.index == index) {
            bin.add(at, size);
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
        let new = Bin { index, first: at, last: at, first_size: size, size };
        let place = self.bins.iter().rposition(|bin| bin.index <= index);
        match place.and_then(|place| self.bins.get_mut(place)).filter(|bin| bin.index == index) {
            Some(bin) => bin.add(at, size),
            None => self.bins.insert(place.map_or(0, |place| place + 1), new),
        }
    }

    /// The bins from the newest on.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Bin> {
        self.bins.iter().rev()
    }

    /// Arrival of the newest packet.
    pub(super) fn newest(&self) -> Option<PeerTimestamp> {
        self.bins.back().map(|bin| bin.last)
    }
}

impl Bin {
    fn add(&mut self, at: PeerTimestamp, size: DataSize) {
        if at < self.first {
            (self.first, self.first_size) = (at, size);
        }
        self.last = self.last.max(at);
        self.size += size;
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
        let mut arrivals = Arrivals::default();
        for time in [5000, 5004, 5030, 5002, 5015, 3900] {
            arrivals.push(at(time), size);
        }
        let bins: Vec<_> = arrivals.newest_first().map(|bin| (bin.first, bin.sizes())).collect();
        let none = DataSize::ZERO;
        assert_eq!(
            bins,
            [(at(5030), (size, none)), (at(5015), (size, none)), (at(5000), (size * 3, size * 2))]
        );
        assert_eq!(arrivals.newest(), Some(at(5030)));
    }
}
