//! Number of datagrams per cycle, and the period.

use core::{fmt, num::NonZeroU64};

use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta};

use crate::layer::{HeaderLayer, IpVersion};

/// Rule for the number of datagrams per cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum CycleRule {
    /// As many as fit a socket buffer, unless the period becomes too long: the rule of the Firebind program,
    /// and the default, with 16 384 B and 250 ms.
    ///
    /// With `p` the payload, `R` the rate and `s` the datagram's size at the counted layer:
    ///
    /// ```text
    /// n = ⌊buffer / (p + UDP + IP)⌋
    /// if n · 8 · s / R > max_period:  n = ⌊R · max_period / (8 · s)⌋
    /// n = max(n, 1)
    /// ```
    ///
    /// The first line is from "Constant Bit Rate Transmission - An Adaptive Send and Sleep Approach", Packets
    /// Per Cycle; the 250 ms from "Constant Bit Rate Streaming - Practical Implementations", Send and Sleep;
    /// their combination from the program that they describe. With one datagram per cycle the period may
    /// still be longer than `max_period`.
    SocketBuffer {
        /// Maximum size of a cycle's datagrams, IP and UDP headers included.
        buffer: DataSize,
        /// Maximum period; above it fewer datagrams are sent per cycle.
        max_period: TimeDelta,
    },
    /// As many as keep the period at or below a maximum, at least one. Zero always gives one.
    MaxPeriod(TimeDelta),
    /// This many.
    Given(u32),
}

impl CycleRule {
    /// "A popular default on Linux" of the socket send buffer (both Firebind documents).
    pub const DEFAULT_BUFFER: DataSize = DataSize::from_bytes(16_384);
    /// "I have used a calculation that has a maximum period value of 250ms" ("Constant Bit Rate Streaming - Practical
    /// Implementations", Send and Sleep).
    pub const DEFAULT_MAX_PERIOD: TimeDelta = TimeDelta::from_millis(250);

    /// Number of datagrams of `payload` per cycle without a rate: as many as fit the buffer, one, or the
    /// given number; at least one.
    pub fn unpaced_packets(self, payload: DataSize, ip: IpVersion) -> u32 {
        match self {
            Self::SocketBuffer { buffer, .. } => {
                let datagram = HeaderLayer::Ip.on_wire(payload, ip).as_bytes();
                clamp_packets(u128::from(buffer.as_bytes().checked_div(datagram).unwrap_or(1)))
            }
            Self::MaxPeriod(_) => 1,
            Self::Given(packets) => packets.max(1),
        }
    }
}

impl Default for CycleRule {
    fn default() -> Self {
        Self::SocketBuffer { buffer: Self::DEFAULT_BUFFER, max_period: Self::DEFAULT_MAX_PERIOD }
    }
}

/// Error of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The rate is zero.
    RateZero {
        /// The rate.
        rate: DataRate,
    },
    /// The payload is empty.
    PayloadZero {
        /// The payload.
        payload: DataSize,
    },
    /// The payload exceeds the maximum of a datagram.
    PayloadTooLarge {
        /// The payload.
        payload: DataSize,
        /// The maximum.
        max: DataSize,
    },
    /// There are zero datagrams per cycle.
    PacketsZero,
    /// The period exceeds a day.
    PeriodTooLong {
        /// The rate.
        rate: DataRate,
        /// Datagrams per cycle.
        packets: u32,
        /// The size of each at the counted layer.
        size: DataSize,
        /// The period in hours, rounded up.
        hours: u64,
    },
    /// The period is below a nanosecond.
    PeriodTooShort {
        /// The rate.
        rate: DataRate,
        /// Datagrams per cycle.
        packets: u32,
        /// The size of each at the counted layer.
        size: DataSize,
    },
    /// The maximum burst rate is below the rate.
    BurstRateTooLow {
        /// The maximum burst rate.
        burst_rate: DataRate,
        /// The rate of the plan.
        rate: DataRate,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateZero { rate } => {
                write!(f, "rate must be above 0 bit/s, found \"{rate}\": give one such as \"3 Mbit/s\"")
            }
            Self::PayloadZero { payload } => {
                write!(f, "payload must be above 0 B, found \"{payload}\": give one such as \"1200 B\"")
            }
            Self::PayloadTooLarge { payload, max } => write!(
                f,
                "payload must be at most {max} for one UDP datagram, found \"{payload}\": send smaller datagrams"
            ),
            Self::PacketsZero => {
                f.write_str("packets per cycle must be above 0, found \"0\": give at least 1")
            }
            Self::PeriodTooLong { rate, packets, size, hours } => write!(
                f,
                "{rate} with {packets} x {size} per cycle means a period of {hours} h, above the longest of {longest} h: \
                 raise the rate, or send fewer or smaller datagrams per cycle",
                longest = CyclePlan::LONGEST_PERIOD.as_nanos() / 3_600_000_000_000
            ),
            Self::PeriodTooShort { rate, packets, size } => write!(
                f,
                "{rate} with {packets} x {size} per cycle means a period below 1 ns, which no clock shows: lower the rate, \
                 or send more or larger datagrams per cycle"
            ),
            Self::BurstRateTooLow { rate, burst_rate } => write!(
                f,
                "the maximum burst rate must not be below the rate of {rate}, found \"{burst_rate}\": raise it or leave it \
                 out"
            ),
        }
    }
}

impl core::error::Error for PlanError {}

/// A rate and a datagram size, converted to cycles: a number of datagrams that are sent together, once per
/// period.
///
/// ```text
/// bits per cycle = 8 · datagrams per cycle · size on the layer counted
/// period         = bits per cycle / rate
/// ```
///
/// (both Firebind documents; there the size is that of the payload.)
///
/// # Example
///
/// ```
/// use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion};
///
/// let (rate, payload) = ("10 kbit/s".parse()?, "200 B".parse()?);
/// let plan = CyclePlan::new(rate, payload, HeaderLayer::Ip, IpVersion::V4, CycleRule::default())?;
/// assert_eq!(plan.packets_per_cycle(), 1);
/// assert_eq!(plan.period().to_string(), "182.4 ms");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CyclePlan {
    bps: NonZeroU64,
    payload: DataSize,
    size: DataSize,
    layer: HeaderLayer,
    packets: u32,
    period: TimeDelta,
}

impl CyclePlan {
    /// The maximum period: a day.
    pub const LONGEST_PERIOD: TimeDelta = TimeDelta::from_seconds(24 * 3600);

    /// Plans the cycles for `rate`, counted at `layer`, in datagrams of `payload` (1 B to [`IpVersion::max_payload`]).
    ///
    /// # Errors
    ///
    /// [`PlanError`] names the invalid value and the fix: a rate or payload of zero, a payload larger than a
    /// datagram, zero datagrams per cycle, a period below 1 ns or above [`Self::LONGEST_PERIOD`].
    pub fn new(
        rate: DataRate,
        payload: DataSize,
        layer: HeaderLayer,
        ip: IpVersion,
        rule: CycleRule,
    ) -> Result<Self, PlanError> {
        let bps = NonZeroU64::new(rate.as_bps()).ok_or(PlanError::RateZero { rate })?;
        if payload == DataSize::ZERO {
            return Err(PlanError::PayloadZero { payload });
        }
        if payload > ip.max_payload() {
            return Err(PlanError::PayloadTooLarge { payload, max: ip.max_payload() });
        }
        let size = layer.on_wire(payload, ip);
        let at_most = |period: TimeDelta| {
            let nanos = u128::try_from(period.as_nanos()).unwrap_or(0);
            clamp_packets(u128::from(bps.get()) * nanos / bits_nanos(1, size).max(1))
        };
        let packets = match rule {
            CycleRule::Given(0) => return Err(PlanError::PacketsZero),
            CycleRule::Given(packets) => packets,
            CycleRule::MaxPeriod(max_period) => at_most(max_period),
            CycleRule::SocketBuffer { max_period, .. } => {
                let packets = rule.unpaced_packets(payload, ip);
                let max_nanos = u128::try_from(max_period.as_nanos()).unwrap_or(0);
                let too_long = bits_nanos(packets, size) > u128::from(bps.get()) * max_nanos;
                if too_long { at_most(max_period) } else { packets }
            }
        };
        let work = bits_nanos(packets, size);
        let longest = u128::try_from(Self::LONGEST_PERIOD.as_nanos()).unwrap_or(0);
        if work < u128::from(bps.get()) {
            return Err(PlanError::PeriodTooShort { rate, packets, size });
        }
        if work > longest * u128::from(bps.get()) {
            let hour = u128::from(bps.get()) * u128::from(3600 * NANOS_PER_SECOND);
            let hours = u64::try_from(work.div_ceil(hour)).unwrap_or(u64::MAX);
            return Err(PlanError::PeriodTooLong { rate, packets, size, hours });
        }
        let period = rate.time_for(size * u64::from(packets)).unwrap_or(Self::LONGEST_PERIOD);
        Ok(Self { bps, payload, size, layer, packets, period })
    }

    /// Datagrams per cycle, at least one.
    #[inline]
    pub const fn packets_per_cycle(&self) -> u32 {
        self.packets
    }

    /// The time from one cycle to the next, rounded up to the nanosecond.
    #[inline]
    pub const fn period(&self) -> TimeDelta {
        self.period
    }

    /// Bytes per cycle, at the counted layer.
    #[inline]
    pub fn cycle_size(&self) -> DataSize {
        self.size * u64::from(self.packets)
    }

    /// The rate, at the counted layer.
    #[inline]
    pub const fn rate(&self) -> DataRate {
        DataRate::from_bps(self.bps.get())
    }

    /// The payload of each datagram.
    #[inline]
    pub const fn payload(&self) -> DataSize {
        self.payload
    }

    /// The size of each datagram at the counted layer: what one datagram adds to the total passed to
    /// [`Schedule::on_sent`](super::Schedule::on_sent).
    #[inline]
    pub const fn size_on_layer(&self) -> DataSize {
        self.size
    }

    /// The counted layer.
    #[inline]
    pub const fn layer(&self) -> HeaderLayer {
        self.layer
    }

    pub(super) const fn bps(&self) -> NonZeroU64 {
        self.bps
    }

    /// Nanoseconds of `cycles` whole cycles, rounded down.
    pub(super) fn nanos_of(&self, cycles: u64) -> u64 {
        let nanos = bits_nanos(self.packets, self.size).saturating_mul(u128::from(cycles))
            / u128::from(self.bps.get());
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// The bits of `packets` datagrams of `size`, times 10⁹.
fn bits_nanos(packets: u32, size: DataSize) -> u128 {
    u128::from(packets) * u128::from(size.as_bytes()) * 8 * u128::from(NANOS_PER_SECOND)
}

fn clamp_packets(packets: u128) -> u32 {
    u32::try_from(packets).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan(rate: &str, payload: u64, layer: HeaderLayer, rule: CycleRule) -> Result<CyclePlan, PlanError> {
        CyclePlan::new(rate.parse().unwrap(), DataSize::from_bytes(payload), layer, IpVersion::V4, rule)
    }

    #[test]
    fn packets_and_periods_match_the_firebind_program() {
        // Payload, rate, packets per cycle, period in nanoseconds.
        for (payload, rate, packets, period) in [
            (200, "10k", 1, 160_000_000),
            (200, "1M", 71, 113_600_000),
            (200, "100M", 71, 1_136_000),
            (200, "1G", 71, 113_600),
            (1200, "1G", 13, 124_800),
            (1200, "10G", 13, 12_480),
            (1200, "10k", 1, 960_000_000),
        ] {
            let plan = plan(rate, payload, HeaderLayer::Payload, CycleRule::default()).unwrap();
            assert_eq!(plan.packets_per_cycle(), packets, "{rate} {payload}");
            assert_eq!(plan.period(), TimeDelta::from_nanos(period), "{rate} {payload}");
            assert_eq!(plan.cycle_size().as_bytes(), payload * u64::from(packets));
        }
    }

    #[test]
    fn a_long_period_is_shortened_down_to_one_packet() {
        // 71 x 200 B at 400 kbit/s would be 284 ms.
        let at = |rate| plan(rate, 200, HeaderLayer::Payload, CycleRule::default()).unwrap();
        assert_eq!(at("400k").period(), TimeDelta::from_micros(248_000));
        // Exactly 250 ms is not above it.
        assert_eq!(at("454400").period(), TimeDelta::from_millis(250));
        let packets = ["400k", "454400", "454399", "6400", "6399"].map(|rate| at(rate).packets_per_cycle());
        assert_eq!(packets, [62, 71, 70, 1, 1]);
    }

    #[test]
    fn headers_count_in_the_period_if_configured() {
        for (layer, period) in [
            (HeaderLayer::Payload, "160 ms"),
            (HeaderLayer::Udp, "166.4 ms"),
            (HeaderLayer::Ip, "182.4 ms"),
            (HeaderLayer::Ethernet, "196.8 ms"),
        ] {
            assert_eq!(plan("10k", 200, layer, CycleRule::default()).unwrap().period().to_string(), period);
        }
        let six = CyclePlan::new(
            DataRate::from_bps(10_000),
            DataSize::from_bytes(200),
            HeaderLayer::Ip,
            IpVersion::V6,
            CycleRule::default(),
        );
        assert_eq!(six.unwrap().period().to_string(), "198.4 ms");
    }

    #[test]
    fn the_other_cycle_rules_work() {
        let with = |rule| plan("1M", 200, HeaderLayer::Payload, rule).unwrap();
        assert_eq!(with(CycleRule::Given(5)).period().to_string(), "8 ms");
        assert_eq!(with(CycleRule::MaxPeriod(TimeDelta::from_millis(20))).packets_per_cycle(), 12);
        assert_eq!(with(CycleRule::MaxPeriod(TimeDelta::ZERO)).packets_per_cycle(), 1);
        let unpaced = |rule: CycleRule| rule.unpaced_packets(DataSize::from_bytes(1200), IpVersion::V4);
        assert_eq!(unpaced(CycleRule::default()), 13);
        assert_eq!(unpaced(CycleRule::MaxPeriod(TimeDelta::MAX)), 1);
        assert_eq!(unpaced(CycleRule::Given(0)), 1);
    }

    #[test]
    fn invalid_plans_are_rejected_with_a_fix() {
        let message =
            |rate, payload, rule| plan(rate, payload, HeaderLayer::Payload, rule).unwrap_err().to_string();
        let rule = CycleRule::default();
        let lines = [
            message("0", 200, rule),
            message("1M", 0, rule),
            message("1M", 65_508, rule),
            message("1M", 200, CycleRule::Given(0)),
            message("1", 60_000, rule),
            message("1k", 1200, CycleRule::Given(u32::MAX)),
            message("1000000T", 1, CycleRule::Given(1)),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        rate must be above 0 bit/s, found "0 bit/s": give one such as "3 Mbit/s"
        payload must be above 0 B, found "0 B": give one such as "1200 B"
        payload must be at most 65507 B for one UDP datagram, found "65508 B": send smaller datagrams
        packets per cycle must be above 0, found "0": give at least 1
        1 bit/s with 1 x 60000 B per cycle means a period of 134 h, above the longest of 24 h: raise the rate, or send fewer or smaller datagrams per cycle
        1 kbit/s with 4294967295 x 1200 B per cycle means a period of 11453247 h, above the longest of 24 h: raise the rate, or send fewer or smaller datagrams per cycle
        1000000 Tbit/s with 1 x 1 B per cycle means a period below 1 ns, which no clock shows: lower the rate, or send more or larger datagrams per cycle
        "#);
    }

    proptest! {
        #[test]
        fn every_plan_keeps_its_limits(
            bps: u64, payload in 0_u64..70_000, buffer: u64, period: i64, packets: u32, which in 0..3, layer in 0_usize..4,
        ) {
            let max_period = TimeDelta::from_nanos(period);
            let rule = match which {
                0 => CycleRule::SocketBuffer { buffer: DataSize::from_bytes(buffer), max_period },
                1 => CycleRule::MaxPeriod(max_period),
                _ => CycleRule::Given(packets),
            };
            let (rate, payload) = (DataRate::from_bps(bps), DataSize::from_bytes(payload));
            match CyclePlan::new(rate, payload, HeaderLayer::ALL[layer], IpVersion::V6, rule) {
                Ok(plan) => {
                    prop_assert!(plan.packets_per_cycle() >= 1);
                    prop_assert!((1..=CyclePlan::LONGEST_PERIOD.as_nanos()).contains(&plan.period().as_nanos()));
                    prop_assert_eq!(rate.time_for(plan.cycle_size()), Some(plan.period()));
                    if which < 2 && plan.packets_per_cycle() > 1 {
                        prop_assert!(plan.period() <= max_period + TimeDelta::from_nanos(1));
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
