//! PIE, a proportional-integral controller of the queueing delay (RFC 8033).

use rand::RngExt;

use self::departure::DepartureRate;
use super::prelude::*;

mod departure;

/// RFC 8033 §5.4: no signal while the probability accumulated since the last signal is below this.
const ACCUMULATED_LOW: f64 = 0.85;
/// RFC 8033 §5.4: a certain signal from this accumulated probability on.
const ACCUMULATED_HIGH: f64 = 8.5;
/// RFC 8033 §4.1: a short delay suppresses signals while the probability is below this.
const LOW_PROBABILITY: f64 = 0.2;
/// RFC 8033 §4.2: factor on the probability at each update without queueing delay.
const DECAY: f64 = 0.98;
/// RFC 8033 §5.5: from this probability on, one update adds at most [`CAP`].
const CAP_FROM: f64 = 0.1;
/// RFC 8033 §5.5.
const CAP: f64 = 0.02;

/// How [`Pie`] estimates the queueing delay (RFC 8033 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyEstimate {
    /// Sojourn time of the last departed packet: the second method of §4.3, used in Appendix A.
    #[default]
    Timestamps,
    /// Queue size divided by the measured departure rate: §5.2 and Appendix B.
    DepartureRate {
        /// Number of bytes in one measurement, 1 to 65 536 B; §5.2 recommends 2^14.
        threshold: DataSize,
    },
}

giusto_units::defaults! {
    /// Configuration of a [`Pie`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct PieConfig {
        /// Target queueing delay, above 0. Default: 15 ms (RFC 8033 §4.2, `QDELAY_REF`).
        pub target: TimeDelta = TimeDelta::from_millis(15),
        /// Duration of a burst that is exempt from signals, at least 0. Default: 150 ms (RFC 8033 §4.4, `MAX_BURST`).
        pub max_burst: TimeDelta = TimeDelta::from_millis(150),
        /// Interval between updates of the probability, above 0. Default: 15 ms (RFC 8033 §4.2, `T_UPDATE`).
        pub update: TimeDelta = TimeDelta::from_millis(15),
        /// Gain on the difference from the target, in Hz, 0 to 1e9. Default: 1/8 (RFC 8033 Appendix A).
        pub alpha: f64 = 0.125,
        /// Gain on the change of delay, in Hz, 0 to 1e9. Default: 1 1/4 (RFC 8033 Appendix A).
        pub beta: f64 = 1.25,
        /// Estimator of the queueing delay. Default: timestamps.
        pub latency: LatencyEstimate = LatencyEstimate::default(),
        /// Mean packet size. No signal while at most twice this size is queued. Default: 1024 B, the value of RFC 8034; RFC 8033
        /// gives none for its `MEAN_PKTSIZE`.
        pub mean_packet: DataSize = DataSize::from_bytes(1024),
        /// Whether to mark ECN-capable packets instead of dropping them. Default: yes (RFC 8033 §5.1).
        pub ecn: bool = true,
        /// From this probability on, ECN-capable packets are dropped too; 0 to 1. Default: 0.1 (RFC 8033 §5.1, `mark_ecnth`).
        pub mark_threshold: f64 = 0.1,
        /// Whether signals are spaced apart (de-randomisation). Default: yes (RFC 8033 §5.4).
        pub derandomise: bool = true,
        /// Whether one update raises a probability of 0.1 or more by at most 0.02. Default: yes (RFC 8033 §5.5).
        pub cap_rise: bool = true,
        /// If set, PIE becomes active when this much is queued, and inactive when congestion ends. Default: not set, always
        /// active; RFC 8033 §5.3 suggests a third of the limit.
        pub active_above: Option<DataSize> = None,
        /// Capacity. Default: 1000 packets, as in Linux; RFC 8033 gives none.
        pub limit: Limit = Limit::Packets(1000),
    }
}

/// A FIFO with the controller of RFC 8033: §4 and Appendix A, with the options of §5 as configured.
///
/// Where the RFC contradicts itself, this follows its numbered sections:
///
/// - During the burst allowance no random number is drawn (§4.4; Appendix B draws one and ignores it).
/// - The probability decays while the delay is zero (§4.2; Appendix B: below half of the target).
/// - A marked packet is queued (Appendix B omits this).
///
/// Deviation: with [`LatencyEstimate::Timestamps`], the delay of an empty queue is zero. The RFC would keep the last sojourn
/// time, and with it the probability, until the next departure.
pub type Pie = FifoQueue<DelayControl>;

/// The law of a [`Pie`].
#[derive(Debug)]
pub struct DelayControl {
    config: PieConfig,
    random: Random,
    probability: f64,
    accumulated: f64,
    /// Sojourn time of the last departed packet, in seconds.
    delay: f64,
    /// Queueing delay at the last update, in seconds.
    last_delay: f64,
    burst_allowance: TimeDelta,
    departures: Option<DepartureRate>,
    is_active: bool,
    next_update: Option<Timestamp>,
}

impl Discipline for PieConfig {
    discipline!("PIE", |config, random| Pie::new(config, random()));

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        check.positive_time("target", self.target)?;
        check.time("max_burst", self.max_burst)?;
        check.positive_time("update", self.update)?;
        check.gain("alpha", self.alpha)?;
        check.gain("beta", self.beta)?;
        check.probability("mark_threshold", self.mark_threshold)?;
        if let LatencyEstimate::DepartureRate { threshold } = self.latency {
            let bytes = threshold.as_bytes();
            let fits = (1..=departure::LARGEST_THRESHOLD).contains(&bytes);
            check.number("latency threshold", fits, "from 1 to 65536 B", bytes as f64)?;
        }
        Ok(())
    }
}

impl Pie {
    /// Creates an empty queue; `random` selects the packets to signal. With [`Limit::Time`] it admits no
    /// packet until [`Queue::on_rate`] has been called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] for a field that is out of range.
    pub fn new(config: PieConfig, random: Random) -> Result<Self, QueueError> {
        config.validate()?;
        let departures = match config.latency {
            LatencyEstimate::Timestamps => None,
            LatencyEstimate::DepartureRate { threshold } => Some(DepartureRate::new(threshold)),
        };
        let law = DelayControl {
            random,
            probability: 0.0,
            accumulated: 0.0,
            delay: 0.0,
            last_delay: 0.0,
            burst_allowance: config.max_burst,
            departures,
            is_active: config.active_above.is_none(),
            next_update: None,
            config,
        };
        Ok(Self::of(law, config.limit))
    }

    /// Signal probability, 0 to 1.
    pub fn probability(&self) -> f64 {
        self.law.probability
    }
}

impl DelayControl {
    fn half_target(&self) -> f64 {
        self.config.target.as_seconds() / 2.0
    }

    /// Current queueing delay in seconds.
    fn current_delay(&self, fifo: &Fifo) -> f64 {
        match &self.departures {
            Some(departures) => departures.delay_of(fifo.size()),
            None if fifo.is_empty() => 0.0,
            None => self.delay,
        }
    }

    /// Whether to signal on the arriving packet: `drop_early` of Appendix A, or of Appendix B if de-randomised.
    fn draws_signal(&mut self, fifo: &Fifo) -> bool {
        let exempt = (self.last_delay < self.half_target() && self.probability < LOW_PROBABILITY)
            || fifo.size() <= self.config.mean_packet * 2;
        if exempt {
            return false;
        }
        if self.config.derandomise {
            if self.probability == 0.0 {
                self.accumulated = 0.0;
            }
            self.accumulated += self.probability;
            if self.accumulated < ACCUMULATED_LOW {
                return false;
            }
            if self.accumulated >= ACCUMULATED_HIGH {
                return true;
            }
        }
        self.random.random::<f64>() < self.probability
    }

    /// Called before a packet is enqueued: resets the burst allowance while there is no congestion (§4.4, §5.3).
    fn renew_burst_allowance(&mut self, fifo: &Fifo) {
        let half = self.half_target();
        if self.probability == 0.0 && self.current_delay(fifo) < half && self.last_delay < half {
            self.burst_allowance = self.config.max_burst;
            if self.config.active_above.is_some() {
                self.is_active = false;
            }
        }
    }

    /// Called after a packet was enqueued or dropped: activates PIE on a long queue (§5.3) and starts the update timer.
    fn activate(&mut self, now: Timestamp, fifo: &Fifo) {
        if !self.is_active && self.config.active_above.is_some_and(|size| fifo.size() >= size) {
            self.is_active = true;
            self.burst_allowance = self.config.max_burst;
            (self.probability, self.accumulated, self.last_delay) = (0.0, 0.0, 0.0);
            if let Some(departures) = &mut self.departures {
                departures.restart(now);
            }
        }
        if self.is_active && self.next_update.is_none() && !fifo.is_empty() {
            self.next_update = Some(now + self.config.update);
        }
    }

    /// `calculate_drop_prob` of Appendix A, with the cap of §5.5.
    fn update(&mut self, fifo: &Fifo) {
        let delay = self.current_delay(fifo);
        let mut change = self.config.alpha * (delay - self.config.target.as_seconds())
            + self.config.beta * (delay - self.last_delay);
        change /= auto_tuning(self.probability);
        if self.config.cap_rise && self.probability >= CAP_FROM {
            change = change.min(CAP);
        }
        self.probability += change;
        if delay == 0.0 && self.last_delay == 0.0 {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.last_delay = delay;
        self.burst_allowance = (self.burst_allowance - self.config.update).max(TimeDelta::ZERO);
    }
}

/// Divisor of a change of the probability (RFC 8033 §4.2).
fn auto_tuning(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

impl Law for DelayControl {
    fn arrive(&mut self, now: Timestamp, mut packet: Packet, fifo: &mut Fifo, drops: &mut Vec<Dropped>) {
        self.renew_burst_allowance(fifo);
        if !fifo.admits(&packet) {
            self.accumulated = 0.0;
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        } else if self.is_active && self.burst_allowance == TimeDelta::ZERO && self.draws_signal(fifo) {
            self.accumulated = 0.0;
            let may_mark = self.config.ecn && self.probability < self.config.mark_threshold;
            if may_mark && fifo.mark(&mut packet) {
                fifo.push(now, packet);
            } else {
                drops.push(Dropped { packet, reason: DropReason::Aqm });
            }
        } else {
            fifo.push(now, packet);
        }
        self.activate(now, fifo);
    }

    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let packet = fifo.pop()?;
        self.delay = sojourn(now, &packet).as_seconds();
        if let Some(departures) = &mut self.departures {
            departures.on_departure(now, packet.size(), fifo.size());
        }
        Some(packet)
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.next_update
    }

    fn on_timer(&mut self, now: Timestamp, fifo: &Fifo) {
        let Some(due) = self.next_update.filter(|&due| now >= due) else { return };
        if self.is_active {
            self.update(fifo);
        }
        let has_work = self.is_active && (!fifo.is_empty() || self.probability > 0.0);
        // After a delay of a period or more, missed updates are not repeated.
        let next = Some(due + self.config.update).filter(|&next| next > now);
        self.next_update = has_work.then(|| next.unwrap_or(now + self.config.update));
    }
}

#[cfg(test)]
mod tests;
