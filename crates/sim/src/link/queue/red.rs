//! RED, random early detection (Floyd & Jacobson 1993).

use giusto_units::math;
use rand::RngExt;

use super::prelude::*;

/// The range of the average queue length in which [`Red`] signals with a probability (`min_th` and `max_th` of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thresholds {
    /// Queue length in packets.
    Packets {
        /// No signal below this average.
        min: u64,
        /// Every packet is signalled from this average on, or from twice this average with `gentle`. Above `min`; the paper
        /// recommends at least twice `min` (§6).
        max: u64,
    },
    /// Queue length in bytes.
    Bytes {
        /// No signal below this average.
        min: DataSize,
        /// Every packet is signalled from this average on, or from twice this average with `gentle`. Above `min`.
        max: DataSize,
    },
}

giusto_units::defaults! {
    /// Configuration of a [`Red`].
    ///
    /// "The paper" is S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
    /// Transactions on Networking 1(4), 1993.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct RedConfig {
        /// Thresholds of the average queue length. Default: 5 and 15 packets, as in the paper's simulations.
        pub thresholds: Thresholds = Thresholds::Packets { min: 5, max: 15 },
        /// Probability at the upper threshold (`max_p`), above 0 and at most 1. Default: 1/50, as in the paper; Floyd later
        /// recommended 1/10 ("RED: Discussions of Setting Parameters", 1997).
        pub max_probability: f64 = 0.02,
        /// Weight of the current queue length in the average (`w_q`), above 0 and at most 1. Default: 0.002, as in the paper.
        pub weight: f64 = 0.002,
        /// Whether the probability rises linearly from `max_probability` to 1 between the upper threshold and twice that,
        /// instead of in one step. Default: no, as in the paper; Floyd later recommended it ("Recommendation on using the
        /// 'gentle_' variant of RED", 2000).
        pub gentle: bool = false,
        /// Typical packet size, above 0 B. It determines how many packets an idle link could have sent; the average decays by
        /// one step for each. Default: 500 B, as in the simulator ns-2; the paper says "a small packet".
        pub mean_packet: DataSize = DataSize::from_bytes(500),
        /// If set, the probability is multiplied by the packet size divided by this size, above 0 B (the paper, for queues in
        /// bytes; RFC 7141 §2.2 advises against it). Default: not set.
        pub scale_by: Option<DataSize> = None,
        /// Whether to mark ECN-capable packets instead of dropping them. Default: yes.
        pub ecn: bool = true,
        /// Capacity. Default: 1000 packets, our choice.
        pub limit: Limit = Limit::Packets(1000),
    }
}

/// A FIFO that signals on arrival, with a probability that depends on the average queue length. Signals are evenly spaced.
///
/// ns-3 by default waits (`RedQueueDisc::Wait`): after a signal the next `1/p_b` packets pass, and the distance is uniform from `1/p_b` to
/// `2/p_b`. The paper has no such wait, nor has this queue. In ns-3.37 it raises the goodput of one TCP flow by 1.6 to 3.7 %. Here it would
/// raise that of four NewReno flows on a link of 13 Mbit/s with an RTT of 40 ms from 11.9 to 12.5 Mbit/s, and of one from 10.9 to 11.6;
/// `gentle` changes neither.
///
/// | quantity | formula of the paper |
/// |---|---|
/// | average | `avg ← (1 − w_q)·avg + w_q·q`; after an idle time in which `m` packets could have been sent, `avg ← (1 − w_q)^m·avg` |
/// | probability | `p_b ← max_p·(avg − min_th)/(max_th − min_th)` |
/// | probability after `count` packets without a signal | `p_a ← p_b/(1 − count·p_b)` |
pub type Red = FifoQueue<RandomEarly>;

/// The law of a [`Red`].
#[derive(Debug)]
pub struct RandomEarly {
    config: RedConfig,
    min: f64,
    max: f64,
    random: Random,
    average: f64,
    /// Number of packets since the last signal; `None` below the lower threshold (−1 in the paper).
    count: Option<u64>,
    idle_since: Option<Timestamp>,
}

impl Discipline for RedConfig {
    discipline!("RED", |config, random| Red::new(config, random()));

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        check.share("max_probability", self.max_probability)?;
        check.share("weight", self.weight)?;
        check.positive_size("mean_packet", self.mean_packet)?;
        if let Some(size) = self.scale_by {
            check.positive_size("scale_by", size)?;
        }
        let (min, max, unit) = self.bounds();
        if max <= min {
            return Err(QueueError::Order {
                queue: self.name(),
                lower: "thresholds.min",
                lower_found: format!("{min} {unit}"),
                upper: "thresholds.max",
                upper_found: format!("{max} {unit}"),
            });
        }
        Ok(())
    }
}

impl RedConfig {
    /// Both thresholds and their unit.
    fn bounds(&self) -> (u64, u64, &'static str) {
        match self.thresholds {
            Thresholds::Packets { min, max } => (min, max, "packets"),
            Thresholds::Bytes { min, max } => (min.as_bytes(), max.as_bytes(), "B"),
        }
    }
}

impl Red {
    /// Creates an empty queue; `random` selects the packets to signal. The average decays while idle only
    /// after [`Queue::on_rate`] has been called, and a [`Limit::Time`] admits no packet before.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] for a field that is out of range, [`QueueError::Order`] if the upper threshold
    /// is not above the lower.
    pub fn new(config: RedConfig, random: Random) -> Result<Self, QueueError> {
        config.validate()?;
        let (min, max, _) = config.bounds();
        let law = RandomEarly {
            min: min as f64,
            max: max as f64,
            random,
            average: 0.0,
            count: None,
            idle_since: Some(Timestamp::ZERO),
            config,
        };
        Ok(Self::of(law, config.limit))
    }

    /// Average queue length, in the unit of the thresholds.
    pub fn average(&self) -> f64 {
        self.law.average
    }
}

impl RandomEarly {
    fn update_average(&mut self, now: Timestamp, fifo: &Fifo) {
        let weight = self.config.weight;
        if let Some(since) = self.idle_since.filter(|_| fifo.is_empty()) {
            let slot = fifo.drain().time_for(self.config.mean_packet).filter(|&slot| slot > TimeDelta::ZERO);
            if let Some(slot) = slot {
                let packets = now.saturating_since(since).as_seconds() / slot.as_seconds();
                self.average *= math::pow(1.0 - weight, packets);
            }
            // If this packet is dropped, the same idle time must not count again.
            self.idle_since = Some(now);
            return;
        }
        let length = match self.config.thresholds {
            Thresholds::Packets { .. } => fifo.len() as f64,
            Thresholds::Bytes { .. } => fifo.size().as_bytes() as f64,
        };
        self.average += weight * (length - self.average);
    }

    /// `p_b` as a function of the average: `None` below the lower threshold, 1 if every packet is signalled.
    fn base_probability(&self) -> Option<f64> {
        let max_probability = self.config.max_probability;
        if self.average < self.min {
            None
        } else if self.average < self.max {
            Some(max_probability * (self.average - self.min) / (self.max - self.min))
        } else if self.config.gentle && self.average < 2.0 * self.max {
            Some(max_probability + (1.0 - max_probability) * (self.average - self.max) / self.max)
        } else {
            Some(1.0)
        }
    }

    fn draws_signal(&mut self, packet: &Packet) -> bool {
        let Some(mut base) = self.base_probability() else {
            self.count = None;
            return false;
        };
        let count = self.count.map_or(0, |count| count + 1);
        let signal = base >= 1.0 || {
            if let Some(size) = self.config.scale_by {
                base = (base * f64::from(packet.bytes) / size.as_bytes() as f64).min(1.0);
            }
            self.random.random::<f64>() < uniform_probability(base, count)
        };
        self.count = Some(if signal { 0 } else { count });
        signal
    }
}

/// `p_a`, which makes the distance between signals uniform from 1 to `1/base` packets.
fn uniform_probability(base: f64, count: u64) -> f64 {
    let left = 1.0 - count as f64 * base;
    if left <= base { 1.0 } else { base / left }
}

impl Law for RandomEarly {
    fn arrive(&mut self, now: Timestamp, mut packet: Packet, fifo: &mut Fifo, drops: &mut Vec<Dropped>) {
        self.update_average(now, fifo);
        if !fifo.admits(&packet) {
            self.count = self.count.map(|_| 0);
            drops.push(Dropped { packet, reason: DropReason::Overflow });
            return;
        }
        if self.draws_signal(&packet) && !(self.config.ecn && fifo.mark(&mut packet)) {
            drops.push(Dropped { packet, reason: DropReason::Aqm });
            return;
        }
        self.idle_since = None;
        fifo.push(now, packet);
    }

    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let packet = fifo.pop()?;
        if fifo.is_empty() {
            self.idle_since = Some(now);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataRate, Ecn};

    use super::*;
    use crate::{
        link::queue::tests::{at_micros, packet},
        random,
        testing::close,
    };

    fn red(config: RedConfig) -> Red {
        Red::new(config, random::stream(1, "link: queue")).unwrap()
    }

    #[test]
    fn the_average_decays_while_the_queue_is_idle() {
        let mut red = red(RedConfig { weight: 0.25, ..Default::default() });
        red.on_rate(at_micros(0), DataRate::from_bps(4_000_000));
        let mut averages = Vec::new();
        for sequence in 0..4 {
            red.enqueue(at_micros(0), packet(0, sequence, 1000, Ecn::NotEct), &mut Vec::new());
            averages.push(red.average());
        }
        // The queue lengths at arrival are 0, 1, 2, 3: the averages are 0, 0.25, 0.75·0.25 + 0.25·2, and so on.
        assert_eq!(averages, [0.0, 0.25, 0.6875, 1.265_625]);
        while red.dequeue(at_micros(5000), &mut Vec::new()).is_some() {}
        // 500 B take 1 ms, so 2 ms of idle time are 2 packets: the factor is 0.75².
        red.enqueue(at_micros(7000), packet(0, 4, 1000, Ecn::NotEct), &mut Vec::new());
        close(red.average(), 1.265_625 * 0.5625);
    }

    #[test]
    fn idle_time_counts_once_if_the_next_packet_is_dropped() {
        let limit = Limit::Bytes(DataSize::from_bytes(500));
        let mut red = red(RedConfig { weight: 0.25, limit, ..Default::default() });
        red.on_rate(at_micros(0), DataRate::from_bps(4_000_000));
        red.law.average = 8.0;
        for milli in 1..=3 {
            red.enqueue(at_micros(1000 * milli), packet(0, milli, 1000, Ecn::NotEct), &mut Vec::new());
        }
        close(red.average(), 8.0 * 0.421_875);
    }

    #[test]
    fn averages_bytes_with_byte_thresholds() {
        let (min, max) = (DataSize::from_bytes(5_000), DataSize::from_bytes(15_000));
        let mut red =
            red(RedConfig { weight: 0.5, thresholds: Thresholds::Bytes { min, max }, ..Default::default() });
        for sequence in 0..3 {
            red.enqueue(at_micros(0), packet(0, sequence, 800, Ecn::NotEct), &mut Vec::new());
        }
        close(red.average(), 0.5 * (0.5 * 800.0) + 0.5 * 1600.0);
    }

    #[test]
    fn the_probability_is_a_ramp_and_a_step_or_two_ramps() {
        let probability = |gentle, average| {
            let mut red = red(RedConfig { gentle, ..Default::default() });
            red.law.average = average;
            red.law.base_probability()
        };
        assert_eq!(probability(false, 4.99), None);
        close(probability(false, 5.0).unwrap(), 0.0);
        // 0.02 · (10 − 5)/(15 − 5).
        close(probability(false, 10.0).unwrap(), 0.01);
        close(probability(true, 10.0).unwrap(), 0.01);
        close(probability(false, 15.0).unwrap(), 1.0);
        close(probability(true, 15.0).unwrap(), 0.02);
        // 22.5 is midway between 15 and 30, 0.51 midway between 0.02 and 1.
        close(probability(true, 22.5).unwrap(), 0.51);
        close(probability(true, 30.0).unwrap(), 1.0);
    }

    #[test]
    fn the_probability_reaches_one_as_the_count_grows() {
        // p_b = 1/4: 1/4, 1/3, 1/2, 1.
        close(uniform_probability(0.25, 0), 0.25);
        close(uniform_probability(0.25, 1), 1.0 / 3.0);
        close(uniform_probability(0.25, 2), 0.5);
        close(uniform_probability(0.25, 3), 1.0);
        close(uniform_probability(0.25, 1000), 1.0);
        close(uniform_probability(0.0, 1000), 0.0);
    }

    #[test]
    fn distances_between_signals_are_uniform() {
        let mut red = red(RedConfig { ecn: false, ..Default::default() });
        // p_b = 0.01: distances from 1 to 100 with a mean of 50.5 and a standard deviation of 29.
        red.law.average = 10.0;
        let probe = packet(0, 0, 1000, Ecn::NotEct);
        let (mut gaps, mut gap) = ([0_u32; 101], 0);
        red.law.count = Some(0);
        for _ in 0..500_000 {
            gap += 1;
            // The packet after a signal has count 1 here, so the maximum distance is one less than the paper's "1/p_b".
            if red.law.draws_signal(&probe) {
                gaps[gap] += 1;
                gap = 0;
            }
        }
        let signals: u32 = gaps.iter().sum();
        let mean = 500_000.0 / f64::from(signals);
        assert!((mean - 50.0).abs() < 1.0, "{mean}");
        assert_eq!((gaps[0], gaps[100]), (0, 0));
        assert!(gaps[1..100].iter().all(|&count| (50..=160).contains(&count)), "{gaps:?}");
    }

    #[test]
    fn marks_ecn_capable_packets_and_drops_others() {
        for (ecn, marks) in [(Ecn::Ect0, 1), (Ecn::NotEct, 0)] {
            let mut red = red(RedConfig { weight: 1.0, ..Default::default() });
            let mut drops = Vec::new();
            red.law.average = 15.0;
            for sequence in 0..16 {
                red.fifo.push(at_micros(0), packet(0, sequence, 1000, ecn));
            }
            red.law.idle_since = None;
            red.enqueue(at_micros(0), packet(0, 16, 1000, ecn), &mut drops);
            assert_eq!((red.marked(), drops.len()), (marks, 1 - marks as usize));
        }
    }
}
