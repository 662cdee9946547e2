//! `DualPI2`: coupled queues for low-latency (L4S) and classic traffic (RFC 9332).

pub use self::schedule::Scheduler;
use self::schedule::Turns;
use super::prelude::*;

mod schedule;

giusto_units::defaults! {
    /// Configuration of a [`DualPi2`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct DualPi2Config {
        /// Target queueing delay of the classic queue, above 0. Default: 15 ms (RFC 9332 Figure 2, `target`).
        pub target: TimeDelta = TimeDelta::from_millis(15),
        /// Interval between updates of the probability, above 0. Default: 16 ms (RFC 9332 Appendix A.1; Figure 2 would give 15
        /// ms).
        pub update: TimeDelta = TimeDelta::from_millis(16),
        /// Gain on the difference from the target, in Hz, 0 to 1e9. Default: 0.16 (RFC 9332 Appendix A.1).
        pub alpha: f64 = 0.16,
        /// Gain on the change of delay, in Hz, 0 to 1e9. Default: 3.2 (RFC 9332 Appendix A.1; Figure 2 would give 3.0).
        pub beta: f64 = 3.2,
        /// Coupling factor (`k`): the ratio of the coupled to the base probability, above 0, at most 1000. Default: 2 (RFC 9332
        /// Figure 2).
        pub coupling: f64 = 2.0,
        /// Sojourn time at which the marking ramp of the low-latency queue begins, at least 0. Default: 800 µs (RFC 9332 Figure
        /// 2, `minTh`).
        pub ramp_from: TimeDelta = TimeDelta::from_micros(800),
        /// Width of the ramp, over which the marking probability rises from 0 to 1, at least 0; zero makes the ramp a step.
        /// Default: 400 µs (RFC 9332 Figure 2, `range`).
        pub ramp_width: TimeDelta = TimeDelta::from_micros(400),
        /// The ramp applies only while the low-latency queue, including the departing packet, has more packets than this.
        /// Default: 1 (RFC 9332 Figure 2, `Th_len`).
        pub ramp_packets: u64 = 1,
        /// Whether the ramp begins no lower than the serialisation time of two MTU (RFC 9332 Appendix A.2, for known link rates;
        /// [`Queue::on_rate`] sets the rate). Default: no.
        pub ramp_above_two_mtu: bool = false,
        /// No classic or coupled signal while both queues together, including the departing packet, hold less than this.
        /// Default: 0 B, as in the RFC's code; Appendix A.1 describes 3000 B, two MTU, as an addition of Linux.
        pub min_backlog: DataSize = DataSize::ZERO,
        /// Scheduler between the queues. Default: weighted round robin with 1/16 for the classic queue (RFC 9332 Appendix A.2).
        pub scheduler: Scheduler = Scheduler::WeightedRoundRobin { classic_share: 1.0 / 16.0 },
        /// Maximum packet size of the link, above 0 B. An arriving packet is dropped unless a packet of this size fits (RFC 9332
        /// Figure 3). Default: 1500 B.
        pub mtu: DataSize = DataSize::from_bytes(1500),
        /// Capacity of both queues together. Default: 10 000 packets, as in Linux; RFC 9332 Figure 2 has 250 ms at the *maximum*
        /// link rate, which a queue does not know.
        pub limit: Limit = Limit::Packets(10_000),
    }
}

/// `DualPI2` of RFC 9332 Appendix A, second pass, with overload protection and slow links.
///
/// | here | in the RFC | meaning |
/// |---|---|---|
/// | base probability | `p'` | output of the controller, from the larger of the two delays |
/// | classic probability | `p_C = (p')²` | probability of a mark or drop in the classic queue |
/// | coupled probability | `p_CL = k·p'` | minimum probability of a mark in the low-latency queue |
///
/// ECT(1) and CE packets go to the low-latency queue ([`Ecn::is_l4s`](giusto_units::Ecn::is_l4s)). Signals are evenly spaced
/// (`recur` of Figure 4), so no random numbers are needed.
///
/// Where the code of the RFC is ambiguous: `lq.len()` and `lq.time()` include the departing packet, as required by the RFC's
/// remark that the last packet of a burst is exempt. `p_CL` is limited to 1: otherwise `recur` would accumulate the excess
/// and continue to mark and drop long after an overload.
#[derive(Debug)]
pub struct DualPi2 {
    config: DualPi2Config,
    low_latency: Fifo,
    classic: Fifo,
    turns: Turns,
    /// `p'`, 0 to 1.
    base: f64,
    /// The larger of the two queueing delays at the last update, in seconds.
    last_delay: f64,
    low_latency_signals: Recurrence,
    classic_signals: Recurrence,
    ramp_from: TimeDelta,
    next_update: Option<Timestamp>,
}

impl Discipline for DualPi2Config {
    discipline!("DualPI2", |config, _random| DualPi2::new(config));

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        check.positive_time("target", self.target)?;
        check.positive_time("update", self.update)?;
        check.gain("alpha", self.alpha)?;
        check.gain("beta", self.beta)?;
        let coupling_fits = self.coupling > 0.0 && self.coupling <= 1000.0;
        check.number("coupling", coupling_fits, "above 0 and at most 1000", self.coupling)?;
        check.time("ramp_from", self.ramp_from)?;
        check.time("ramp_width", self.ramp_width)?;
        check.positive_size("mtu", self.mtu)?;
        match self.scheduler {
            Scheduler::WeightedRoundRobin { classic_share: share } => {
                check.number("classic_share", share > 0.0 && share < 1.0, "above 0 and below 1", share)?;
            }
            Scheduler::TimeShiftedFifo { shift } => check.time("shift", shift)?,
        }
        Ok(())
    }
}

impl DualPi2 {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been
    /// called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] for a field that is out of range.
    pub fn new(config: DualPi2Config) -> Result<Self, QueueError> {
        config.validate()?;
        Ok(Self {
            low_latency: Fifo::new(config.limit),
            classic: Fifo::new(config.limit),
            turns: Turns::new(config.scheduler, config.mtu),
            base: 0.0,
            last_delay: 0.0,
            low_latency_signals: Recurrence::default(),
            classic_signals: Recurrence::default(),
            ramp_from: config.ramp_from,
            next_update: None,
            config,
        })
    }

    /// Probability of a signal on a classic packet (`p_C`), 0 to 1.
    pub fn classic_probability(&self) -> f64 {
        self.base * self.base
    }

    /// Minimum probability of a mark on a low-latency packet (`p_CL`), 0 to 1.
    pub fn coupled_probability(&self) -> f64 {
        (self.config.coupling * self.base).min(1.0)
    }

    /// `p_Cmax = min(1/k², 1)`: from this probability on, classic signals are drops (RFC 9332 Figure 2).
    fn overload_probability(&self) -> f64 {
        (1.0 / (self.config.coupling * self.config.coupling)).min(1.0)
    }

    /// `laqm` of Figure 5.
    fn ramp(&self, delay: TimeDelta) -> f64 {
        if delay >= self.ramp_from + self.config.ramp_width {
            1.0
        } else if delay > self.ramp_from {
            (delay - self.ramp_from).as_seconds() / self.config.ramp_width.as_seconds()
        } else {
            0.0
        }
    }

    /// Lines 4b to 8j of Figure 7: marks or drops a low-latency packet; `None` if dropped.
    fn signal_low_latency(&mut self, now: Timestamp, mut packet: Packet, coupled: bool) -> Option<Packet> {
        let coupled_probability = if coupled { self.coupled_probability() } else { 0.0 };
        // p_Lmax = 1.
        if coupled_probability < 1.0 {
            let packets = self.low_latency.len() as u64 + 1;
            let own = if packets > self.config.ramp_packets { self.ramp(sojourn(now, &packet)) } else { 0.0 };
            if self.low_latency_signals.next(own.max(coupled_probability)) {
                self.low_latency.mark(&mut packet);
            }
        } else {
            if self.low_latency_signals.next(self.classic_probability()) {
                return None;
            }
            if self.low_latency_signals.next(coupled_probability) {
                self.low_latency.mark(&mut packet);
            }
        }
        Some(packet)
    }

    /// Lines 11 to 17 of Figure 7: marks or drops a classic packet; `None` if dropped.
    fn signal_classic(&mut self, mut packet: Packet, coupled: bool) -> Option<Packet> {
        let probability = self.classic_probability();
        if coupled && self.classic_signals.next(probability) {
            let overload = probability >= self.overload_probability();
            if overload || !self.classic.mark(&mut packet) {
                return None;
            }
        }
        Some(packet)
    }

    /// `dualpi2_update` of Figure 8.
    fn update(&mut self, now: Timestamp) {
        let delay = self.classic.head_sojourn(now).max(self.low_latency.head_sojourn(now)).as_seconds();
        self.base += self.config.alpha * (delay - self.config.target.as_seconds())
            + self.config.beta * (delay - self.last_delay);
        self.base = self.base.clamp(0.0, 1.0);
        self.last_delay = delay;
    }
}

/// `recur` of Figure 4: returns true as often as the sum of the probabilities.
#[derive(Debug, Default)]
struct Recurrence(f64);

impl Recurrence {
    fn next(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let is_due = self.0 > 1.0;
        if is_due {
            self.0 -= 1.0;
        }
        is_due
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        // Requires space for an MTU whatever the packet size, so that large packets are at no disadvantage. A
        // packet above the MTU requires space for itself.
        let bytes = u64::from(packet.bytes).max(self.config.mtu.as_bytes());
        let room = Packet { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), ..packet };
        if !self.config.limit.admits(&room, self.packets(), self.size(), self.classic.drain()) {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
            return;
        }
        if packet.ecn.is_l4s() {
            self.low_latency.push(now, packet);
        } else {
            self.classic.push(now, packet);
        }
        if self.next_update.is_none() {
            self.next_update = Some(now + self.config.update);
        }
    }

    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet> {
        loop {
            let coupled = self.size() >= self.config.min_backlog;
            let contended = !self.low_latency.is_empty() && !self.classic.is_empty();
            let is_classic = self.turns.is_classic_next(now, &self.low_latency, &self.classic)?;
            let packet = if is_classic { self.classic.pop()? } else { self.low_latency.pop()? };
            let kept = if is_classic {
                self.signal_classic(packet, coupled)
            } else {
                self.signal_low_latency(now, packet, coupled)
            };
            if let Some(packet) = kept {
                if contended {
                    self.turns.on_departure(is_classic, packet.size());
                }
                if self.is_empty() {
                    self.turns.reset();
                }
                return Some(packet);
            }
            drops.push(Dropped { packet, reason: DropReason::Aqm });
        }
    }

    fn packets(&self) -> usize {
        self.low_latency.len() + self.classic.len()
    }

    fn size(&self) -> DataSize {
        self.low_latency.size() + self.classic.size()
    }

    fn marked(&self) -> u64 {
        self.low_latency.marked() + self.classic.marked()
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.next_update
    }

    fn on_timer(&mut self, now: Timestamp) {
        let Some(due) = self.next_update.filter(|&due| now >= due) else { return };
        self.update(now);
        let has_work = !self.is_empty() || self.base > 0.0;
        // After a delay of a period or more, missed updates are not repeated.
        let next = Some(due + self.config.update).filter(|&next| next > now);
        self.next_update = has_work.then(|| next.unwrap_or(now + self.config.update));
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.classic.set_drain(drain);
        let two_mtu = drain.time_for(self.config.mtu * 2).filter(|_| self.config.ramp_above_two_mtu);
        self.ramp_from = two_mtu.unwrap_or(TimeDelta::ZERO).max(self.config.ramp_from);
    }
}

#[cfg(test)]
mod tests;
