//! A line that marks all that has waited too long.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    drop_tail::Limit,
    error::{Check, QueueError},
    fifo::Fifo,
    law::{Queue, mark, sojourn},
};
use crate::packet::{DropReason, Dropped, Packet};

/// Above what a [`StepMark`] marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkThreshold {
    /// A packet that has waited longer is marked as it leaves.
    Sojourn(TimeDelta),
    /// A packet that finds more packets waiting is marked as it arrives: *K* of Alizadeh et al., "Data Center TCP (DCTCP)",
    /// SIGCOMM 2010, §3.1.
    Packets(u64),
    /// A packet that finds more bytes waiting is marked as it arrives.
    Bytes(DataSize),
}

/// The settings of a [`StepMark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMarkConfig {
    /// Above what to mark; zero marks all that had to wait. Default: a sojourn of 1 ms, the middle of the ramp of RFC 9332
    /// Appendix A.1 (Figure 2: 800 µs and 400 µs wide), of which a step is the special case (Note c there).
    pub threshold: MarkThreshold,
    /// How much may wait. Default: 1000 packets, our choice.
    pub limit: Limit,
}

impl Default for StepMarkConfig {
    fn default() -> Self {
        Self { threshold: MarkThreshold::Sojourn(TimeDelta::from_millis(1)), limit: Limit::Packets(1000) }
    }
}

/// First in, first out; every capable packet above a threshold is marked, and what does not fit is dropped on arrival.
#[derive(Debug)]
pub struct StepMark {
    threshold: MarkThreshold,
    fifo: Fifo,
    marked: u64,
}

impl StepMark {
    /// An empty queue. A [`Limit::Time`] admits nothing before the link has told its rate ([`Queue::on_rate`]).
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if a sojourn threshold is negative.
    pub fn new(config: StepMarkConfig) -> Result<Self, QueueError> {
        if let MarkThreshold::Sojourn(threshold) = config.threshold {
            Check("step mark").time("threshold", threshold)?;
        }
        Ok(Self { threshold: config.threshold, fifo: Fifo::new(config.limit), marked: 0 })
    }
}

impl Queue for StepMark {
    fn enqueue(&mut self, now: Timestamp, mut packet: Packet, drops: &mut Vec<Dropped>) {
        if !self.fifo.admits(&packet) {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
            return;
        }
        let above = match self.threshold {
            MarkThreshold::Sojourn(_) => false,
            MarkThreshold::Packets(threshold) => self.fifo.len() as u64 > threshold,
            MarkThreshold::Bytes(threshold) => self.fifo.size() > threshold,
        };
        if above {
            mark(&mut packet, &mut self.marked);
        }
        self.fifo.push(now, packet);
    }

    fn dequeue(&mut self, now: Timestamp, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let mut packet = self.fifo.pop()?;
        if matches!(self.threshold, MarkThreshold::Sojourn(threshold) if sojourn(now, &packet) > threshold) {
            mark(&mut packet, &mut self.marked);
        }
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn size(&self) -> DataSize {
        self.fifo.size()
    }

    fn marked(&self) -> u64 {
        self.marked
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.fifo.set_drain(drain);
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::link::queue::tests::{at_micros, packet};

    /// The marks on packets that arrive together and leave 500 µs apart, first at once.
    fn marks(threshold: MarkThreshold, ecn: Ecn) -> Vec<bool> {
        let mut queue = StepMark::new(StepMarkConfig { threshold, ..Default::default() }).unwrap();
        let mut drops = Vec::new();
        for sequence in 0..5 {
            queue.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut drops);
        }
        let marks: Vec<_> = (0..5)
            .map(|place| queue.dequeue(at_micros(500 * place), &mut drops).unwrap().ecn == Ecn::Ce)
            .collect();
        assert_eq!(
            queue.marked(),
            if ecn == Ecn::Ce { 0 } else { marks.iter().filter(|&&mark| mark).count() as u64 }
        );
        marks
    }

    #[test]
    fn what_waited_longer_than_the_threshold_is_marked_and_no_other() {
        let threshold = MarkThreshold::Sojourn(TimeDelta::from_millis(1));
        assert_eq!(marks(threshold, Ecn::Ect1), [false, false, false, true, true]);
        assert_eq!(marks(threshold, Ecn::NotEct), [false; 5]);
        assert_eq!(marks(threshold, Ecn::Ce), [true; 5]);
    }

    #[test]
    fn what_finds_more_than_k_packets_or_bytes_is_marked() {
        assert_eq!(marks(MarkThreshold::Packets(2), Ecn::Ect0), [false, false, false, true, true]);
        assert_eq!(
            marks(MarkThreshold::Bytes(DataSize::from_bytes(1999)), Ecn::Ect0),
            [false, false, true, true, true]
        );
    }
}
