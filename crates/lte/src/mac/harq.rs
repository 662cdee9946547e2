//! Hybrid automatic repeat request (HARQ): transport blocks, their retransmissions and results.

use super::status::StatusReport;
use crate::{
    bearer::Content,
    radio::{link::LinkModel, tables::Modulation},
};

/// Number of processes of a user in one direction (TS 36.213 §7 and §8: FDD, 8).
pub(super) const PROCESSES: usize = 8;

/// Time from a transmission until its receiver has decoded it and acknowledges, in ms (TS 36.213 §7.3, §8.3: subframe n + 4).
pub(super) const DECODE_MS: u64 = 4;

/// Time from a transmission until its retransmission at the earliest, in ms (n + 8).
pub(super) const ROUND_TRIP_MS: u64 = 8;

/// Transmissions of a block at most (`maxHARQ-Tx`, TS 36.331 §6.3.2: 1 to 28; 4 is usual).
pub const MAX_TRANSMISSIONS: u8 = 4;

/// A transport block on its way.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// What it carries.
    pub(super) content: Content,
    /// Its size in bits.
    pub(super) bits: u32,
    /// Modulation.
    pub(super) modulation: Modulation,
    /// Transmissions so far.
    pub(super) transmissions: u8,
    /// Information received in all transmissions, in coded bits (incremental redundancy).
    pub(super) information: f32,
    /// Coded bits of all transmissions.
    pub(super) coded_bits: u32,
    /// Whether the last transmission was decoded.
    pub(super) decoded: bool,
    /// Whether its content has been passed on.
    pub(super) delivered: bool,
    /// Uplink: the buffer status report in it.
    pub(super) report: Option<StatusReport>,
}

impl Block {
    /// A block that has not been sent.
    pub(super) fn new(
        content: Content,
        bits: u32,
        modulation: Modulation,
        report: Option<StatusReport>,
    ) -> Self {
        Self {
            content,
            bits,
            modulation,
            transmissions: 0,
            information: 0.0,
            coded_bits: 0,
            decoded: false,
            delivered: false,
            report,
        }
    }

    /// Counts a transmission over this number of resource elements, with `information` per coded bit; `draw` between 0 and 1
    /// decides whether the block is decoded.
    pub(super) fn receive(&mut self, model: &LinkModel, information: f32, elements: u32, draw: f32) {
        let coded_bits = elements * self.modulation.bits();
        self.transmissions += 1;
        self.information += information * coded_bits as f32;
        self.coded_bits += coded_bits;
        self.decoded = model.is_decoded(self.information, self.bits, self.coded_bits, draw);
    }
}

/// A process: up to two blocks sent in the same millisecond.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    /// The blocks, one per stream.
    pub(super) blocks: [Option<Block>; 2],
    /// The resource block groups of the last transmission: the first and their number.
    pub(super) groups: (u8, u8),
}

impl Process {
    /// Whether it holds no block.
    pub(super) fn is_free(&self) -> bool {
        self.blocks.iter().all(Option::is_none)
    }
}

/// A transmission whose result is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// The user's place in the population.
    pub(super) user: u32,
    /// That of the user when it was sent: a handover makes the result void.
    pub(super) epoch: u32,
    /// The process.
    pub(super) process: usize,
}

/// Lists of what happens in each of the next milliseconds.
#[derive(Debug)]
pub(super) struct Calendar<T> {
    days: Vec<Vec<T>>,
}

impl<T> Calendar<T> {
    /// An empty calendar for up to `length` ms.
    pub(super) fn new(length: usize) -> Self {
        Self { days: (0..=length).map(|_| Vec::new()).collect() }
    }

    /// Adds `entry` for the time `ms`, which is less than the length ahead.
    pub(super) fn add(&mut self, ms: u64, entry: T) {
        let length = self.days.len() as u64;
        if let Some(day) = self.days.get_mut((ms % length) as usize) {
            day.push(entry);
        }
    }

    /// Takes the entries of the time `ms` into `entries`, which is cleared first.
    pub(super) fn take(&mut self, ms: u64, entries: &mut Vec<T>) {
        entries.clear();
        let length = self.days.len() as u64;
        if let Some(day) = self.days.get_mut((ms % length) as usize) {
            std::mem::swap(day, entries);
        }
    }
}
