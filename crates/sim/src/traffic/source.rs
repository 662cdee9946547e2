//! Open-loop sources: constant bit rate, Poisson, on-off.

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp, math};
use rand_distr::{Distribution, Exp1, OpenClosed01};

use super::agent::{Agent, Body, Transmit};
use crate::{
    link::rate::{RateError, RateProfile, Transmitter},
    packet::{FlowId, Packet},
    random::Random,
};

/// The departures and packets of a [`Source`].
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// Departure process.
    pub departures: Departures,
    /// Sizes of the packets on the wire, all headers included: 1 B to 4 294 967 295 B.
    pub size: PacketSize,
    /// ECN codepoint of each packet. Default: Not-ECT.
    pub ecn: Ecn,
    /// Start time. An on-off source starts with an on period. Default: 0.
    pub start: Timestamp,
    /// Stop time: no packet leaves at or after it. Default: none.
    pub stop: Option<Timestamp>,
}

/// A departure process.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Departures {
    /// Back to back at a rate, constant or changing. Rounding errors do not accumulate.
    Constant(RateProfile),
    /// A Poisson process with this mean rate: the gaps are exponentially distributed.
    Poisson(DataRate),
    /// Constant rate in on periods, silence in off periods.
    OnOff {
        /// Rate in on periods.
        rate: DataRate,
        /// Duration of the on periods.
        on: Periods,
        /// Duration of the off periods.
        off: Periods,
    },
}

/// The largest packet: the total length of an IP packet has 16 bits (RFC 791 §3.1).
const MAX_PACKET: DataSize = DataSize::from_bytes(65_535);

/// The distribution of packet sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketSize {
    /// All packets have this size.
    Fixed(DataSize),
    /// Exponential distribution, rounded to whole bytes. A size below `min` becomes `min`, one above `max` becomes `max`.
    Exponential {
        /// Mean of the distribution before it is limited, from `min` to `max`.
        mean: DataSize,
        /// Smallest packet, at least 1 B. Default of a scenario: 1 B.
        min: DataSize,
        /// Largest packet. Default of a scenario: 65 535 B, the largest of IPv4.
        max: DataSize,
    },
}

impl From<DataSize> for PacketSize {
    fn from(size: DataSize) -> Self {
        Self::Fixed(size)
    }
}

impl PacketSize {
    /// Exponential sizes of this mean, from 1 B to 65 535 B, the largest packet of IPv4 (RFC 791 §3.1).
    pub const fn exponential(mean: DataSize) -> Self {
        Self::Exponential { mean, min: DataSize::from_bytes(1), max: MAX_PACKET }
    }

    /// Smallest and largest size.
    pub const fn range(self) -> (DataSize, DataSize) {
        match self {
            Self::Fixed(size) => (size, size),
            Self::Exponential { min, max, .. } => (min, max),
        }
    }

    /// Mean size in bytes, limits included: `min + mean · (e^(−min/mean) − e^(−max/mean))`, the integral of the tail of the
    /// distribution between the limits.
    pub fn mean_bytes(self) -> f64 {
        match self {
            Self::Fixed(size) => size.as_bytes() as f64,
            Self::Exponential { mean, min, max } => {
                let [mean, min, max] = [mean, min, max].map(|size| size.as_bytes() as f64);
                min + mean * (math::exp(-min / mean) - math::exp(-max / mean))
            }
        }
    }

    fn check(self) -> Result<(), PatternError> {
        let (min, max) = self.range();
        if min == DataSize::ZERO {
            return Err(PatternError::Size { size: min });
        }
        if max > MAX_PACKET {
            return Err(PatternError::Size { size: max });
        }
        match self {
            Self::Exponential { mean, .. } if mean < min || mean > max => {
                Err(PatternError::Mean { mean, min, max })
            }
            _ => Ok(()),
        }
    }

    /// A fixed size draws nothing.
    fn draw(self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(size) => size.as_bytes() as u32,
            Self::Exponential { mean, min, max } => {
                let factor: f64 = Exp1.sample(random);
                let bytes = (mean.as_bytes() as f64 * factor).round() as u64;
                bytes.clamp(min.as_bytes(), max.as_bytes()) as u32
            }
        }
    }
}

/// The distribution of period durations.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Periods {
    /// Constant duration.
    Fixed(TimeDelta),
    /// Exponential distribution.
    Exponential {
        /// Mean, above 0.
        mean: TimeDelta,
    },
    /// Pareto distribution. The superposition of many sources with shapes between 1 and 2 is self-similar (Willinger et al.,
    /// "Self-Similarity Through High-Variability", 1997).
    Pareto {
        /// Mean, above 0.
        mean: TimeDelta,
        /// Tail index, finite and above 1; otherwise the mean does not exist.
        shape: f64,
    },
}

impl Periods {
    /// Mean duration.
    pub const fn mean(self) -> TimeDelta {
        match self {
            Self::Fixed(mean) | Self::Exponential { mean } | Self::Pareto { mean, .. } => mean,
        }
    }

    fn draw(self, random: &mut Random) -> TimeDelta {
        let of_mean = |factor: f64| TimeDelta::from_seconds_f64(self.mean().as_seconds() * factor);
        match self {
            Self::Fixed(length) => length,
            Self::Exponential { .. } => of_mean(Exp1.sample(random)),
            // The mean of a Pareto distribution is scale·shape/(shape − 1).
            Self::Pareto { shape, .. } => {
                let u: f64 = OpenClosed01.sample(random);
                of_mean((shape - 1.0) / shape * math::pow(u, -1.0 / shape))
            }
        }
    }
}

/// An invalid [`Pattern`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Invalid rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The packet size is out of range.
    #[error("packets must have 1 to 65535 bytes, found \"{size}\"")]
    Size {
        /// The packet size.
        size: DataSize,
    },
    /// The mean of exponential sizes is outside their limits.
    #[error("the mean packet size must lie between min, {min}, and max, {max}, found \"{mean}\"")]
    Mean {
        /// The mean.
        mean: DataSize,
        /// The smallest packet.
        min: DataSize,
        /// The largest packet.
        max: DataSize,
    },
    /// A packet would take less than a nanosecond, so time might not advance.
    #[error("a source needs at least 1 ns for each packet of {size}, found a rate of {rate}")]
    Fast {
        /// The packet size.
        size: DataSize,
        /// The rate.
        rate: DataRate,
    },
    /// A constant rate is unlimited, so time would not advance.
    #[error("rate: a source needs one, found \"unlimited\": give one such as \"5 Mbit/s\"")]
    Unlimited,
    /// The mean of a period is zero or does not exist.
    #[error("the mean of on and off periods must be above 0 s, and a Pareto shape finite and above 1")]
    Period,
}

impl Pattern {
    /// Packets of `size` at a constant `rate` from time 0 on.
    pub fn constant(rate: DataRate, size: impl Into<PacketSize>) -> Self {
        Self::new(Departures::Constant(RateProfile::Fixed(rate)), size)
    }

    /// Packets of `size` from time 0 on, without ECN.
    pub fn new(departures: Departures, size: impl Into<PacketSize>) -> Self {
        Self { departures, size: size.into(), ecn: Ecn::NotEct, start: Timestamp::ZERO, stop: None }
    }

    /// Checks that the pattern can be sent.
    ///
    /// # Errors
    ///
    /// [`PatternError`] names the first problem.
    pub fn validate(&self) -> Result<(), PatternError> {
        self.size.check()?;
        if let Departures::OnOff { on, off, .. } = self.departures {
            let lasts = |periods: Periods| {
                periods.mean() > TimeDelta::ZERO
                    && !matches!(periods, Periods::Pareto { shape, .. } if !shape.is_finite() || shape <= 1.0)
            };
            if !lasts(on) || !lasts(off) {
                return Err(PatternError::Period);
            }
        }
        let profile = self.profile();
        profile.check()?;
        let fastest = match &profile {
            RateProfile::Fixed(rate) => *rate,
            RateProfile::Steps { steps, .. } => steps.iter().map(|step| step.1).max().unwrap_or_default(),
            RateProfile::Unlimited => return Err(PatternError::Unlimited),
            RateProfile::Opportunities { .. } => DataRate::ZERO,
            // A burst leaves at once, then the tokens advance time.
            RateProfile::TokenBucket(bucket) => bucket.peak.unwrap_or(bucket.rate),
        };
        let size = match self.size {
            PacketSize::Fixed(size) | PacketSize::Exponential { mean: size, .. } => size,
        };
        if fastest.size_in(TimeDelta::from_nanos(1)) > size {
            return Err(PatternError::Fast { size, rate: fastest });
        }
        Ok(())
    }

    /// The rate at which it sends, while it sends.
    fn profile(&self) -> RateProfile {
        match &self.departures {
            Departures::Constant(profile) => profile.clone(),
            Departures::Poisson(rate) | Departures::OnOff { rate, .. } => RateProfile::Fixed(*rate),
        }
    }
}

/// Sends packets by a [`Pattern`], independent of the network.
#[derive(Debug)]
pub struct Source {
    flow: FlowId,
    pattern: Pattern,
    /// Size of the next packet.
    bytes: u32,
    clock: Transmitter,
    random: Random,
    next: Timestamp,
    on_until: Timestamp,
    due: bool,
}

impl Source {
    /// Creates a source on `flow`. A constant rate draws nothing from `random`.
    ///
    /// # Errors
    ///
    /// [`PatternError`] names the invalid part of `pattern`.
    pub fn new(flow: FlowId, pattern: Pattern, random: Random) -> Result<Self, PatternError> {
        pattern.validate()?;
        let clock = Transmitter::new(&pattern.profile())?;
        let start = pattern.start;
        let mut source = Self {
            flow,
            pattern,
            bytes: 0,
            clock,
            random,
            next: start,
            on_until: Timestamp::MAX,
            due: false,
        };
        source.begin();
        source.bytes = source.pattern.size.draw(&mut source.random);
        Ok(source)
    }

    fn begin(&mut self) {
        match self.pattern.departures {
            Departures::Constant(_) => self.next = self.clock.ready_at(self.next),
            Departures::Poisson(_) => self.next = self.after_gap(self.next),
            Departures::OnOff { on, .. } => self.on_until = self.next + on.draw(&mut self.random),
        }
    }

    /// Departure time of the packet after the one at `now`.
    fn after(&mut self, now: Timestamp) -> Timestamp {
        match self.pattern.departures {
            Departures::Constant(_) => {
                let end = self.clock.transmit(now, self.bytes);
                self.clock.ready_at(end)
            }
            Departures::Poisson(_) => self.after_gap(now),
            Departures::OnOff { on, off, .. } => {
                // The first packet of a period leaves at its start, unless the previous packet is still in transmission.
                let free = self.clock.transmit(now, self.bytes);
                let mut next = free;
                while next >= self.on_until {
                    let start = self.on_until + off.draw(&mut self.random);
                    self.on_until = start + on.draw(&mut self.random);
                    next = start.max(free);
                }
                next
            }
        }
    }

    fn after_gap(&mut self, now: Timestamp) -> Timestamp {
        let Departures::Poisson(rate) = self.pattern.departures else { return now };
        let factor: f64 = Exp1.sample(&mut self.random);
        let mean_bits = self.pattern.size.mean_bytes() * 8.0;
        now + TimeDelta::from_seconds_f64(mean_bits / rate.as_bps() as f64 * factor)
    }
}

impl Agent for Source {
    fn handle_packet(&mut self, _now: Timestamp, _packet: &Packet, _body: &Body) {}

    fn handle_timeout(&mut self, now: Timestamp) {
        if now >= self.next && self.poll_timeout().is_some() {
            self.due = true;
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        if !self.due && self.poll_timeout().is_none_or(|next| next > now) {
            return None;
        }
        self.due = false;
        self.next = self.after(self.next);
        let next = self.pattern.size.draw(&mut self.random);
        let bytes = std::mem::replace(&mut self.bytes, next);
        Some(Transmit { flow: self.flow, bytes, ecn: self.pattern.ecn, body: Body::None })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (self.pattern.stop.is_none_or(|stop| self.next < stop)).then_some(self.next)
    }
}

/// Discards every packet and sends nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sink;

impl Agent for Sink {
    fn handle_packet(&mut self, _now: Timestamp, _packet: &Packet, _body: &Body) {}

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        random,
        testing::{mean, variance},
    };

    const RATE: DataRate = DataRate::from_bps(8_000_000);

    /// Times in nanoseconds and bytes of the packets in the first `seconds`.
    fn packets(pattern: Pattern, seconds: u64) -> Vec<(u64, u32)> {
        let mut source = Source::new(FlowId(0), pattern, random::stream(3, "source")).unwrap();
        let mut packets = Vec::new();
        while let Some(now) = source.poll_timeout().filter(|now| now.as_nanos() < seconds * 1_000_000_000) {
            source.handle_timeout(now);
            while let Some(packet) = source.poll_transmit(now) {
                packets.push((now.as_nanos(), packet.bytes));
            }
            assert!(source.poll_timeout().is_none_or(|next| next > now));
        }
        packets
    }

    fn departures(pattern: Pattern, seconds: u64) -> Vec<u64> {
        packets(pattern, seconds).into_iter().map(|(at, _)| at).collect()
    }

    fn sizes(pattern: Pattern, seconds: u64) -> Vec<f64> {
        packets(pattern, seconds).into_iter().map(|(_, bytes)| f64::from(bytes)).collect()
    }

    fn is_rejected(pattern: Pattern) -> bool {
        Source::new(FlowId(0), pattern, random::stream(1, "")).is_err()
    }

    fn pattern(departures: Departures) -> Pattern {
        Pattern::new(departures, DataSize::from_bytes(1000))
    }

    #[test]
    fn constant_rate_is_exact_from_start_to_stop() {
        let constant = Pattern {
            start: Timestamp::from_nanos(500_000_000),
            stop: Some(Timestamp::from_nanos(502_000_000)),
            ..Pattern::constant(DataRate::from_bps(12_000_000), DataSize::from_bytes(1000))
        };
        // 1000 B at 12 Mbit/s: 666 666.6… ns.
        assert_eq!(departures(constant, 1), [500_000_000, 500_666_667, 501_333_334]);
    }

    #[test]
    fn constant_rate_follows_steps_and_pauses_during_an_outage() {
        let at = Timestamp::from_nanos;
        let half = DataRate::from_bps(4_000_000);
        for (steps, expected) in [
            (vec![(at(0), RATE), (at(2_000_000), half)], [0, 1_000_000, 2_000_000, 4_000_000, 6_000_000]),
            (
                vec![(at(0), RATE), (at(2_000_000), DataRate::ZERO), (at(7_000_000), RATE)],
                [0, 1_000_000, 7_000_000, 8_000_000, 9_000_000],
            ),
        ] {
            let profile = RateProfile::Steps { steps, period: None };
            assert_eq!(departures(pattern(Departures::Constant(profile)), 1)[..5], expected);
        }
    }

    #[test]
    fn poisson_gaps_have_an_exponential_mean_and_deviation() {
        let at = departures(pattern(Departures::Poisson(RATE)), 100);
        let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        // 100 000 gaps of 1 ms: standard errors of 0.3 % for the mean and 0.5 % for the standard deviation.
        assert!((0.98..1.02).contains(&mean(&gaps)), "{}", mean(&gaps));
        assert!((0.97..1.03).contains(&variance(&gaps).sqrt()), "{}", variance(&gaps));
    }

    #[test]
    fn on_off_rates_match_the_means_of_the_periods() {
        let ms = TimeDelta::from_millis;
        for (on, off, tolerance) in [
            (Periods::Fixed(ms(20)), Periods::Fixed(ms(30)), 0.001),
            (Periods::Exponential { mean: ms(20) }, Periods::Exponential { mean: ms(30) }, 0.05),
            (
                Periods::Pareto { mean: ms(20), shape: 1.9 },
                Periods::Pareto { mean: ms(30), shape: 1.9 },
                0.25,
            ),
        ] {
            let packets = departures(pattern(Departures::OnOff { rate: RATE, on, off }), 200).len() as f64;
            let expected = 200_000.0 * 0.4;
            // The first packet of a period leaves at its start, so each period has half a packet more on average.
            let excess = packets / expected - 1.0;
            assert!(excess.abs() < tolerance + 0.04, "{on:?}: {excess}");
        }
    }

    #[test]
    fn exponential_sizes_have_their_mean_deviation_and_rate() {
        let size = PacketSize::exponential(DataSize::from_bytes(1000));
        for departures in [Departures::Poisson(RATE), Departures::Constant(RateProfile::Fixed(RATE))] {
            let sizes = sizes(Pattern::new(departures, size), 100);
            let (mean, deviation) = (mean(&sizes), variance(&sizes).sqrt());
            // About 100 000 packets: standard errors of 0.32 % for the mean and 0.7 % for the deviation.
            assert!((985.0..1015.0).contains(&mean), "{mean}");
            assert!((970.0..1030.0).contains(&deviation), "{deviation}");
            let bps = sizes.iter().sum::<f64>() * 8.0 / 100.0;
            assert!((0.98..1.02).contains(&(bps / RATE.as_bps() as f64)), "{bps}");
        }
    }

    #[test]
    fn limits_of_exponential_sizes_hold_and_keep_the_rate() {
        let [mean_size, min, max] = [1000, 400, 1500].map(DataSize::from_bytes);
        let size = PacketSize::Exponential { mean: mean_size, min, max };
        let sizes = sizes(Pattern::new(Departures::Poisson(RATE), size), 100);
        assert!(sizes.iter().all(|bytes| (400.0..=1500.0).contains(bytes)));
        // P(X < 400) = 1 − e^−0.4 = 0.330 and P(X > 1500) = e^−1.5 = 0.223.
        let share = |bytes: f64| {
            sizes.iter().filter(|&&size| (size - bytes).abs() < 0.5).count() as f64 / sizes.len() as f64
        };
        assert!((0.32..0.34).contains(&share(400.0)) && (0.215..0.232).contains(&share(1500.0)));
        assert!((size.mean_bytes() - 847.19).abs() < 0.01, "{}", size.mean_bytes());
        let measured = mean(&sizes);
        assert!((840.0..854.0).contains(&measured), "{measured}");
        let bps = sizes.iter().sum::<f64>() * 8.0 / 100.0;
        assert!((0.98..1.02).contains(&(bps / RATE.as_bps() as f64)), "{bps}");
    }

    #[test]
    fn rejects_invalid_patterns_and_those_that_would_stop_time() {
        let of = |departures, bytes| Pattern::new(departures, DataSize::from_bytes(bytes));
        let on_off = |periods| Departures::OnOff { rate: RATE, on: periods, off: periods };
        let ms = TimeDelta::from_millis(1);
        for rejected in [
            of(Departures::Constant(RateProfile::Fixed(RATE)), 0),
            of(Departures::Constant(RateProfile::Unlimited), 1000),
            of(Departures::Poisson(DataRate::ZERO), 1000),
            of(on_off(Periods::Fixed(TimeDelta::ZERO)), 1000),
            of(on_off(Periods::Pareto { mean: ms, shape: f64::INFINITY }), 1000),
            // 1 B takes far less than a nanosecond, so time would not advance.
            of(Departures::Poisson(DataRate::from_bps(u64::MAX)), 1),
        ] {
            assert!(is_rejected(rejected.clone()), "{rejected:?}");
        }
        assert!(!is_rejected(of(Departures::Poisson(RATE), 1000)));
        let [mean, min, max] = [1000, 1200, 1500].map(DataSize::from_bytes);
        let size = PacketSize::Exponential { mean, min, max };
        let error = Pattern::new(Departures::Poisson(RATE), size).validate().unwrap_err().to_string();
        assert!(error.contains("between min, 1200 B, and max, 1500 B, found \"1000 B\""), "{error}");
    }

    #[test]
    fn short_on_periods_do_not_exceed_the_rate() {
        // 1000 B at 100 kbit/s take 80 ms, which is always the start of an on period. Those of 43 ms: the second packet leaves at the
        // start of the third, at 86 ms.
        for (on, off, gap) in [(1, 1, 80_000_000), (23, 20, 86_000_000)] {
            let [on, off] = [on, off].map(|millis| Periods::Fixed(TimeDelta::from_millis(millis)));
            let on_off = pattern(Departures::OnOff { rate: DataRate::from_bps(100_000), on, off });
            let expected: Vec<_> = (0..10_000_000_000).step_by(gap).collect();
            assert_eq!(departures(on_off, 10), expected);
        }
    }
}
