//! Step marking: marks packets above a fixed threshold.

use super::prelude::*;

/// The marking threshold of a [`StepMark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkThreshold {
    /// Marks a departing packet whose sojourn time exceeds this.
    Sojourn(TimeDelta),
    /// Marks an arriving packet if more packets than this are queued: *K* of Alizadeh et al., "Data Center TCP (DCTCP)",
    /// SIGCOMM 2010, §3.1.
    Packets(u64),
    /// Marks an arriving packet if more bytes than this are queued.
    Bytes(DataSize),
}

giusto_units::defaults! {
    /// Configuration of a [`StepMark`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StepMarkConfig {
        /// Marking threshold, at least 0; with a zero time every packet that was queued is marked. Default: a sojourn time of 1 ms, the
        /// middle of the ramp of RFC 9332 Appendix A.1 (Figure 2: it begins at 800 µs and is 400 µs wide). A step is a special
        /// case of that ramp (Note c there).
        pub threshold: MarkThreshold = MarkThreshold::Sojourn(TimeDelta::from_millis(1)),
        /// Capacity. Default: 1000 packets, our choice.
        pub limit: Limit = Limit::Packets(1000),
    }
}

/// A FIFO that marks every ECN-capable packet above a threshold and drops an arriving packet when it is full.
pub type StepMark = FifoQueue<StepMarkConfig>;

impl Discipline for StepMarkConfig {
    discipline!("step mark", |config, _random| StepMark::new(config));

    fn validate(&self) -> Result<(), QueueError> {
        match self.threshold {
            MarkThreshold::Sojourn(threshold) => Check(self.name()).time("threshold", threshold),
            MarkThreshold::Packets(_) | MarkThreshold::Bytes(_) => Ok(()),
        }
    }
}

impl StepMark {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been
    /// called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if a sojourn threshold is negative.
    pub fn new(config: StepMarkConfig) -> Result<Self, QueueError> {
        config.validate()?;
        Ok(Self::of(config, config.limit))
    }
}

impl Law for StepMarkConfig {
    fn arrive(&mut self, now: Timestamp, mut packet: Packet, fifo: &mut Fifo, drops: &mut Vec<Dropped>) {
        if !fifo.admits(&packet) {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
            return;
        }
        let above = match self.threshold {
            MarkThreshold::Sojourn(_) => false,
            MarkThreshold::Packets(threshold) => fifo.len() as u64 > threshold,
            MarkThreshold::Bytes(threshold) => fifo.size() > threshold,
        };
        if above {
            fifo.mark(&mut packet);
        }
        fifo.push(now, packet);
    }

    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let mut packet = fifo.pop()?;
        if matches!(self.threshold, MarkThreshold::Sojourn(threshold) if sojourn(now, &packet) > threshold) {
            fifo.mark(&mut packet);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::link::queue::tests::{at_micros, packet};

    /// Which of five packets are marked. They arrive at the same time and leave 500 µs apart.
    fn marks(threshold: MarkThreshold, ecn: Ecn) -> Vec<bool> {
        let mut queue = StepMark::new(StepMarkConfig { threshold, ..Default::default() }).unwrap();
        let mut drops = Vec::new();
        for sequence in 0..5 {
            queue.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut drops);
        }
        let marks: Vec<_> = (0..5)
            .map(|place| queue.dequeue(at_micros(500 * place), &mut drops).unwrap().ecn == Ecn::Ce)
            .collect();
        let count = marks.iter().filter(|&&mark| mark && ecn != Ecn::Ce).count() as u64;
        assert_eq!(queue.marked(), count);
        marks
    }

    #[test]
    fn marks_above_the_threshold_of_time_or_length() {
        let time = MarkThreshold::Sojourn(TimeDelta::from_millis(1));
        let bytes = MarkThreshold::Bytes(DataSize::from_bytes(1999));
        for (threshold, ecn, unmarked) in [
            (time, Ecn::Ect1, 3),
            (time, Ecn::NotEct, 5),
            (time, Ecn::Ce, 0),
            (MarkThreshold::Packets(2), Ecn::Ect0, 3),
            (bytes, Ecn::Ect0, 2),
        ] {
            let expected: Vec<_> = (0..5).map(|place| place >= unmarked).collect();
            assert_eq!(marks(threshold, ecn), expected, "{threshold:?}, {ecn:?}");
        }
    }
}
