//! Loss-based rate by thresholds on the loss ratio of receiver reports.
//!
//! Below the low threshold the rate grows. Between the thresholds it is held. Above the high threshold it is
//! reduced by half of the loss ratio.
//!
//! | preset | source | raises | lowers |
//! |---|---|---|---|
//! | [`ReportConfig::draft`] | the draft §6 | ×1.05 per report | once per report |
//! | [`ReportConfig::libwebrtc`] | `send_side_bandwidth_estimation.cc`, used until the loss model is ready | to 1.08 times the minimum of the last second, + 1 kbit/s | once per report and per 300 ms + RTT |

use alloc::collections::VecDeque;

use giusto_units::{DataRate, TimeDelta, Timestamp, math};

use crate::gcc::arithmetic::{UNLIMITED, scaled, sum};
use crate::{feedback::LossReport, target::Cause};

/// How the rate grows while loss is low.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Increase {
    /// Multiplied by `factor` with each report, plus `plus` (draft §6: 1.05 and 0).
    PerReport {
        /// Above 1.
        factor: f64,
        /// Constant increase, so that a very low rate can grow.
        plus: DataRate,
    },
    /// `factor` times the minimum rate of the last `window`, plus `plus`, whenever called (libwebrtc: 1.08, 1
    /// s, 1 kbit/s). Several calls with the same history give the same result.
    OfRecentMin {
        /// Above 1.
        factor: f64,
        /// Window over which the minimum is taken.
        window: TimeDelta,
        /// Constant increase, so that a very low rate can grow.
        plus: DataRate,
    },
}

giusto_units::defaults! {
    /// Configuration of the threshold rule on the losses of receiver reports.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ReportConfig {
        /// Loss ratio up to which the rate grows: 0 to 1. Both sources: 0.02.
        pub low_loss: f64 = 0.02,
        /// Whether the rate grows at a loss ratio of exactly `low_loss`. The draft says "less than 2%": `false`.
        /// libwebrtc: `true`.
        pub low_loss_inclusive: bool = false,
        /// Loss ratio above which the rate falls: 0 to 1. Both sources: 0.1.
        pub high_loss: f64 = 0.1,
        /// How the rate grows.
        pub increase: Increase = Increase::PerReport { factor: 1.05, plus: DataRate::ZERO },
        /// Strength of a decrease, 0 to 1: the rate becomes `rate * (1 - decrease * loss)`. Both sources: 0.5.
        pub decrease: f64 = 0.5,
        /// Minimum time between two decreases, without the RTT. The draft has none; libwebrtc: 300 ms.
        pub decrease_interval: TimeDelta = TimeDelta::ZERO,
        /// Whether the RTT is added to `decrease_interval`. The draft: `false`; libwebrtc: `true`.
        pub decrease_waits_rtt: bool = false,
        /// Minimum number of packets: reports are accumulated until they cover this many. The draft has no
        /// minimum (1); libwebrtc: 20.
        pub min_packets: u64 = 1,
        /// Number of steps of the loss ratio: it is rounded down to a multiple of one over this, and is less than
        /// 1. `None`: it is exact. libwebrtc: 256, as in receiver reports (RFC 3550 §6.4.1).
        pub loss_steps: Option<u32> = None,
        /// Time without a report after which the rate is no longer changed. libwebrtc: 6 s, 1.2 times the longest
        /// report interval that it expects. The draft acts on reports only and needs none.
        pub report_valid: TimeDelta = TimeDelta::MAX,
        /// Time after the first report during which, without loss, the rate follows the delay-based rate upwards.
        /// The draft: none; libwebrtc: 2 s.
        pub start_phase: TimeDelta = TimeDelta::ZERO,
        /// Whether the delay-based rate also limits the stored rate, rather than only the resulting target. The
        /// draft (§6) takes the minimum of two independent estimates: `false`, so that this one rises to its
        /// limit during a long time without loss. libwebrtc: `true`.
        pub capped_by_delay: bool = false,
        /// Minimum rate. libwebrtc (`bwe_defines.h`): 5 kbit/s; the draft specifies none.
        pub min: DataRate = DataRate::from_bps(5_000),
        /// Maximum rate. libwebrtc: 1 Gbit/s; the draft specifies none.
        pub max: DataRate = DataRate::from_bps(1_000_000_000),
    }
    /// The draft §6.
    pub fn draft();
}

impl ReportConfig {
    /// libwebrtc's `send_side_bandwidth_estimation.cc`.
    pub fn libwebrtc() -> Self {
        Self {
            low_loss_inclusive: true,
            increase: Increase::OfRecentMin {
                factor: 1.08,
                window: TimeDelta::from_seconds(1),
                plus: DataRate::from_bps(1_000),
            },
            decrease_interval: TimeDelta::from_millis(300),
            decrease_waits_rtt: true,
            min_packets: 20,
            loss_steps: Some(256),
            report_valid: TimeDelta::from_seconds(6),
            start_phase: TimeDelta::from_seconds(2),
            capped_by_delay: true,
            ..Self::draft()
        }
    }
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}

/// A rate leaves the window of recent rates this much early, so that a timer that fires slightly early does
/// not miss it. libwebrtc: 1 ms.
const RESOLUTION: TimeDelta = TimeDelta::from_millis(1);

/// Loss-based rate control by thresholds.
///
/// Calls in any order are safe; time that runs backwards counts as no time.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByReport {
    config: ReportConfig,
    rate: DataRate,
    delay_based: Option<DataRate>,
    rtt: TimeDelta,
    /// The latest time passed in.
    now: Timestamp,
    loss: f64,
    gathered_expected: u64,
    gathered_lost: f64,
    first_report: Option<Timestamp>,
    last_loss: Option<Timestamp>,
    last_decrease: Option<Timestamp>,
    /// Whether a report has arrived since the last decrease.
    may_decrease: bool,
    /// Whether a report has arrived since the last increase.
    may_increase: bool,
    /// Rates and their times, both increasing from front to back: the front is the minimum of the window.
    recent: VecDeque<(Timestamp, DataRate)>,
    cause: Option<Cause>,
    /// Whether a decrease ends at the rate of TCP.
    tcp_friendly: bool,
}

impl ByReport {
    /// Starts at `rate`, within the limits of `config`.
    pub(crate) fn new(config: ReportConfig, rate: DataRate) -> Self {
        let mut this = Self { config, rate, ..Self::default() };
        this.move_to(rate);
        this
    }

    /// A decrease ends at the rate of TCP at least (libwebrtc of April 2014, `send_side_bandwidth_estimation.cc`).
    pub(crate) fn tcp_friendly(self) -> Self {
        Self { tcp_friendly: true, ..self }
    }

    /// Sets new limits, and moves the rate within them.
    pub(crate) fn set_limits(&mut self, min: DataRate, max: DataRate) {
        (self.config.min, self.config.max) = (min, max.max(min));
        self.move_to(self.rate);
    }

    /// The loss-based rate.
    pub(crate) fn rate(&self) -> DataRate {
        self.rate
    }

    /// The loss ratio of the latest report, as the rule uses it: 0 to 1.
    #[cfg(test)]
    pub(crate) fn loss_ratio(&self) -> f64 {
        self.loss
    }

    /// The cause of the current rate, once a report has changed it.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Handles a loss report of the receiver.
    pub(crate) fn on_report(&mut self, now: Timestamp, report: &LossReport, rtt: Option<TimeDelta>) {
        let now = self.advance(now);
        self.first_report.get_or_insert(now);
        if let Some(rtt) = rtt.filter(|&span| span > TimeDelta::ZERO) {
            self.rtt = rtt;
        }
        if report.expected_packets == 0 {
            return;
        }
        // A whole number of packets again: the ratio of two whole numbers is seldom exact. NaN counts as no
        // loss.
        let lost = math::round(report.ratio.clamp(-1.0, 1.0) * report.expected_packets as f64);
        self.gathered_lost += if lost.is_nan() { 0.0 } else { lost };
        self.gathered_expected = self.gathered_expected.saturating_add(report.expected_packets);
        if self.gathered_expected < self.config.min_packets {
            return;
        }
        self.loss = self.share(self.gathered_lost.max(0.0), self.gathered_expected);
        self.gathered_lost = 0.0;
        self.gathered_expected = 0;
        self.last_loss = Some(now);
        self.may_decrease = true;
        self.may_increase = true;
        self.on_time(now);
    }

    /// Handles a new delay-based rate; `None`: no limit.
    pub(crate) fn on_delay_based(&mut self, now: Timestamp, rate: Option<DataRate>) {
        self.advance(now);
        self.delay_based = rate;
        self.move_to(self.rate);
    }

    /// Sets the rate externally and discards the history.
    pub(crate) fn set_rate(&mut self, now: Timestamp, rate: DataRate) {
        self.advance(now);
        self.delay_based = None;
        self.move_to(rate);
        self.recent.clear();
    }

    /// Handles the passing of time. libwebrtc calls it every 25 ms; the draft's rule changes the rate only
    /// with a report.
    pub(crate) fn on_time(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.follows_delay(now) {
            return;
        }
        self.remember(now);
        let Some(reported) = self.last_loss else { return };
        if now.saturating_since(reported) >= self.config.report_valid {
            return;
        }
        let config = self.config;
        let low = if config.low_loss_inclusive {
            self.loss <= config.low_loss
        } else {
            self.loss < config.low_loss
        };
        if low {
            self.raise();
        } else if self.loss > config.high_loss {
            self.lower(now);
        }
    }

    /// The later of `now` and the latest time passed in before.
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    fn share(&self, lost: f64, expected: u64) -> f64 {
        let share = (lost / expected as f64).min(1.0);
        match self.config.loss_steps.filter(|&steps| steps > 0).map(f64::from) {
            Some(steps) => math::floor(lost * steps / expected as f64).min(steps - 1.0) / steps,
            None => share,
        }
    }

    /// At the start, while there is no loss, the rate follows the delay-based rate. Returns whether that
    /// changed the rate.
    fn follows_delay(&mut self, now: Timestamp) -> bool {
        let starting =
            self.first_report.is_none_or(|first| now.saturating_since(first) < self.config.start_phase);
        let Some(delay_based) = self.delay_based.filter(|&rate| rate > self.rate) else { return false };
        if !starting || self.config.start_phase == TimeDelta::ZERO || self.loss > 0.0 {
            return false;
        }
        self.recent.clear();
        self.recent.push_back((now, self.rate));
        self.move_to(delay_based);
        true
    }

    /// Stores what is needed for the minimum rate of the window.
    fn remember(&mut self, now: Timestamp) {
        let Increase::OfRecentMin { window, .. } = self.config.increase else { return };
        let expired = |&(held, _): &(Timestamp, DataRate)| now.saturating_since(held) + RESOLUTION > window;
        while self.recent.front().is_some_and(expired) {
            self.recent.pop_front();
        }
        while self.recent.back().is_some_and(|&(_, rate)| self.rate <= rate) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, self.rate));
    }

    fn raise(&mut self) {
        let to = match self.config.increase {
            Increase::PerReport { factor, plus } => {
                if !core::mem::take(&mut self.may_increase) {
                    return;
                }
                sum(scaled(self.rate, factor), plus)
            }
            Increase::OfRecentMin { factor, plus, .. } => {
                let min = self.recent.front().map_or(self.rate, |&(_, rate)| rate);
                // A rate that followed the delay-based rate may be above that. libwebrtc then reduces it and
                // raises it again with the next call.
                sum(scaled(min, factor), plus).max(self.rate)
            }
        };
        self.move_to(to);
        self.cause = Some(Cause::Loss { ratio: self.loss });
    }

    fn lower(&mut self, now: Timestamp) {
        let config = self.config;
        let rtt = if config.decrease_waits_rtt { self.rtt } else { TimeDelta::ZERO };
        let pause = config.decrease_interval + rtt;
        let rested = self.last_decrease.is_none_or(|last| now.saturating_since(last) >= pause);
        if !rested || !core::mem::take(&mut self.may_decrease) {
            return;
        }
        self.last_decrease = Some(now);
        let factor = 1.0 - config.decrease * self.loss;
        let lowered = DataRate::from_bps((self.rate.as_bps() as f64 * factor) as u64);
        let tcp = if self.tcp_friendly { tcp_rate(self.loss, self.rtt) } else { DataRate::ZERO };
        self.move_to(lowered.max(tcp));
        self.cause = Some(Cause::Loss { ratio: self.loss });
    }

    fn move_to(&mut self, rate: DataRate) {
        let delay_based = self.delay_based.filter(|_| self.config.capped_by_delay).unwrap_or(UNLIMITED);
        self.rate = rate.min(delay_based).min(self.config.max).max(self.config.min);
    }
}

/// The rate of TCP with packets of 1000 bytes (RFC 3448 §3.1, `b` = 1, `t_RTO` = 4 RTT); zero without a loss or an RTT.
fn tcp_rate(loss: f64, rtt: TimeDelta) -> DataRate {
    if loss <= 0.0 || rtt <= TimeDelta::ZERO {
        return DataRate::ZERO;
    }
    let timeouts = 4.0 * 3.0 * math::sqrt(3.0 * loss / 8.0) * loss * (1.0 + 32.0 * loss * loss);
    let time = rtt.as_seconds() * (math::sqrt(2.0 * loss / 3.0) + timeouts);
    DataRate::from_bps((8000.0 / time) as u64)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "shares of powers of two are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{at, kbps};

    fn report(lost: f64, expected_packets: u64) -> LossReport {
        LossReport { ratio: lost / expected_packets as f64, expected_packets }
    }

    #[test]
    fn the_draft_moves_once_a_report_as_its_section_6_says() {
        // Lost packets of 1000, and the resulting rate, calculated by hand from 1 Mbit/s.
        let steps = [
            (19.0, 1_050_000),  // below 2 %
            (20.0, 1_050_000),  // 2 %: no longer less than 2 %
            (100.0, 1_050_000), // 10 %: not more than 10 %
            (200.0, 945_000),   // × (1 - 0.5 × 0.2)
            (1000.0, 472_500),  // × 0.5
            (0.0, 496_125),
        ];
        let mut rule = ByReport::new(ReportConfig::draft(), kbps(1000));
        for (i, (lost, rate)) in steps.into_iter().enumerate() {
            let now = at(i as u64 * 50);
            rule.on_report(now, &report(lost, 1000), None);
            for later in 0..3 {
                rule.on_time(now + TimeDelta::from_millis(later));
            }
            assert_eq!(rule.rate().as_bps(), rate, "after {lost} of 1000");
        }
    }

    /// RFC 3448 §3.1 by hand: 1000 bytes in 0.1 s · (√(2 · 0.25 / 3) + 12 · √(3 · 0.25 / 8) · 0.25 · 3) = 0.3164 s.
    #[test]
    fn a_decrease_ends_at_the_rate_of_tcp_if_that_is_wanted() {
        let rate = |mut rule: ByReport| {
            rule.on_report(at(0), &report(250.0, 1000), Some(TimeDelta::from_millis(100)));
            rule.rate().as_bps()
        };
        let rule = |from| ByReport::new(ReportConfig::draft(), from);
        assert_eq!((rate(rule(kbps(20))), rate(rule(kbps(100)))), (17_500, 87_500));
        let friendly = [20, 100].map(|from| rate(rule(kbps(from)).tcp_friendly()));
        assert_eq!(friendly, [25_285, 87_500]);
    }

    /// `send_side_bandwidth_estimation_unittest.cc`, `DoesntReapplyBitrateDecreaseWithoutFollowingRemb`.
    #[test]
    fn a_fall_is_not_repeated_without_a_report() {
        let config = ReportConfig { min: kbps(100), max: kbps(1500), ..ReportConfig::libwebrtc() };
        let mut rule = ByReport::new(config, kbps(1000));
        rule.on_report(at(11_000), &report(50.0, 100), Some(TimeDelta::from_millis(50)));
        rule.on_time(at(12_000));
        // 128 of 256 lost: the rate times (512 - 128) / 512.
        assert_eq!(rule.loss_ratio(), 0.5);
        assert_eq!(rule.rate(), kbps(750));
        rule.on_time(at(13_000));
        assert_eq!(rule.rate(), kbps(750));
        assert_eq!(rule.loss_ratio(), 0.5);
        assert_eq!(rule.cause(), Some(Cause::Loss { ratio: 0.5 }));
    }

    /// The same file, `InitialDelayBasedBweWithProbing` and `FractionLossIsNotOverflowed`.
    #[test]
    fn the_delay_based_rate_is_followed_for_two_seconds() {
        let config = ReportConfig { min: kbps(100), max: kbps(1500), ..ReportConfig::libwebrtc() };
        let mut rule = ByReport::new(config, kbps(200));
        rule.on_report(at(0), &report(0.0, 1), Some(TimeDelta::from_millis(50)));
        rule.on_delay_based(at(0), Some(kbps(1000)));
        rule.on_time(at(0));
        assert_eq!(rule.rate(), kbps(1000));
        rule.on_delay_based(at(2001), Some(kbps(1500)));
        rule.on_time(at(2001));
        assert_eq!(rule.rate(), kbps(1000));
        // Within its limits.
        for (rate, expected) in [(9000, 1500), (1, 100)] {
            rule.set_rate(at(2002), kbps(rate));
            assert_eq!(rule.rate(), kbps(expected));
        }

        for odd in [report(-1.0, 100), report(9.0, 0), report(f64::NAN, 100)] {
            rule.on_report(at(3000), &odd, None);
            assert_eq!(rule.loss_ratio(), 0.0, "{odd:?}");
        }
    }

    #[test]
    fn libwebrtc_growth_does_not_depend_on_the_update_interval() {
        let config = ReportConfig { start_phase: TimeDelta::ZERO, ..ReportConfig::libwebrtc() };
        let mut rule = ByReport::new(config, kbps(100));
        for millis in (0..1000).step_by(25) {
            rule.on_report(at(millis), &report(0.0, 20), None);
            assert_eq!(rule.rate(), kbps(109), "at {millis} ms"); // 108 + 1
        }
        rule.on_time(at(1000));
        assert_eq!(rule.rate().as_bps(), 118_720); // 109 × 1.08 + 1
        // Six seconds without a report: no change any more.
        rule.on_time(at(6975));
        assert_eq!(rule.rate().as_bps(), 118_720);
    }

    #[test]
    fn few_packets_are_accumulated_and_decreases_have_an_interval() {
        let mut rule = ByReport::new(ReportConfig::libwebrtc(), kbps(1000));
        let rtt = Some(TimeDelta::from_millis(100));
        rule.on_report(at(0), &report(19.0, 19), rtt);
        assert_eq!(rule.rate(), kbps(1000));
        rule.on_report(at(10), &report(0.0, 19), rtt); // 19 of 38: a half
        assert_eq!(rule.rate(), kbps(750));
        rule.on_report(at(409), &report(20.0, 40), rtt); // 399 ms later
        assert_eq!(rule.rate(), kbps(750));
        rule.on_time(at(410));
        assert_eq!(rule.rate().as_bps(), 562_500);
    }

    proptest! {
        #[test]
        fn the_rate_stays_within_its_limits_in_any_order(
            calls in prop::collection::vec((0_u8..5, 0_u64..20_000, -2.0..2.0_f64, 0_u64..200), 1..200),
            libwebrtc: bool,
        ) {
            let base = if libwebrtc { ReportConfig::libwebrtc() } else { ReportConfig::draft() };
            let config = ReportConfig { min: kbps(50), max: kbps(5000), ..base };
            let mut rule = ByReport::new(config, kbps(300));
            for (call, millis, ratio, packets) in calls {
                let before = rule.rate();
                match call {
                    0 => rule.on_report(at(millis), &LossReport { ratio, expected_packets: packets }, None),
                    1 => rule.on_report(at(millis), &LossReport { ratio: f64::NAN, expected_packets: 50 }, None),
                    2 => rule.on_delay_based(at(millis), (packets > 20).then(|| kbps(packets * 50))),
                    3 => rule.set_rate(at(millis), kbps(packets * 100)),
                    _ => rule.on_time(at(millis)),
                }
                prop_assert!((kbps(50)..=kbps(5000)).contains(&rule.rate()));
                prop_assert!((0.0..=1.0).contains(&rule.loss_ratio()));
                if call < 2 && !libwebrtc {
                    // One report at worst halves the rate. (libwebrtc's growth starts from the window's
                    // minimum, which may be lower.)
                    prop_assert!(rule.rate().as_bps() >= before.as_bps() / 2);
                }
            }
        }
    }
}
