//! The cases of libwebrtc's `loss_based_bwe_v2_test.cc` as data, with their original names.
//!
//! A line without indentation is a case: name, base configuration, changed constants. The others are its steps: actions, and what holds
//! after them. Rates are in kbit/s, times in ms. `mark` stores the estimate; `x` and `+` are a factor of it and bit/s on it.
//!
//! Packets are of 15 kB each; observations take 250 ms. `received 0`: two packets from 0 ms on, one observation apart: both arrive. `half`:
//! the second is lost. `lost 5 0`: five packets, all lost, sent 10 ms apart, the last one an observation after the first. `tenth 15000 0`:
//! ten packets, one observation apart each: the last, of this size in bytes, is lost. `until received padding`: packets, starting with the
//! next observation, until the model is in this state.

use giusto_units::TimeDelta;

use super::{tests::packet, *};
use crate::testing::{at, kbps};

const CASES: &str = "\
ReturnsDelayBasedEstimateWhenDisabled full
  delay 100, lost 1 0 => is 100
NoBandwidthEstimateGivenNoInitialization full
  received 0 => nothing, in delay
NoBandwidthEstimateGivenNotEnoughFeedback full
  begin 600 => nothing
SetValueIsTheEstimateUntilAdditionalFeedbackHasBeenReceived full
  begin 600, received 0 => not 600, below 1000000
  begin 600 => is 600
  received 500 => not 600
ReadyToUseInStartPhase short
  delay 600, received 0 => is 600
EstimateIsNotHigherThanMaxBitrate full
  limits 10 1000, begin 1000, received 0 => at-most 1000
SetAcknowledgedBitrateOnlyAffectsTheBweWhenAdditionalFeedbackIsGiven full
  begin 600, received 0 => is 660
  acked 900 => is 660
  received 500 => not 726
the-same-without-the-acknowledged-rate full
  begin 600, received 0, received 500 => is 726
BandwidthEstimateCappedByDelayBasedEstimateWhenNetworkNormal full
  begin 600, received 0 => above 600
  delay 500, received 500 => is 500
NoBweChangeIfObservationDurationUnchanged full
  begin 600, acked 300, received 0, mark, received 0 => is-mark x1+0
NoBweChangeIfObservationDurationIsSmallAndNetworkNormal full
  begin 600, received 0, mark, received 249 => is-mark x1+0
IncreaseToDelayBasedEstimateIfNoLossOrDelayIncrease full
  begin 600, delay 5000, received 0 => is 5000
  received 500 => is 5000
SelectHigherCandidateIfHavingSameObjective short
  begin 1000, delay 1000, received 0, mark, delay x1.02+8, received 250 => is-mark x1.02+8
BandwidthEstimateIsCappedToBeTcpFairGivenTooHighLossRate full
  begin 600, lost 2 0 => is 100
UseAckedBitrateForEmegencyBackOff full
  begin 600, acked 300, half 0, lost 2 500 => at-most 300
NotBackOffToAckedRateInAlr short
  limits 10 1000000, delay 5000, begin 600, acked 100, limited, lost 2 0 => above 100, below 600
BackOffToAckedRateIfNotInAlr short
  limits 10 1000000, delay 5000, begin 600, acked 100, lost 2 0 => is 100
BoundEstimateByAckedRate short
  limits 10 1000000, begin 600, acked 500, lost 2 0 => is 500
NotBoundEstimateByAckedRate short lower=0
  limits 10 1000000, begin 600, acked 500, lost 2 0 => below 500
HasDecreaseStateBecauseOfUpperBound short candidates=1 upper=10
  limits 10 1000000, begin 500, acked 100, tenth 15000 0 => is 200, in decreasing
UseByteLossRate short
  begin 500, tenth 300000 0 => below 160, in decreasing
NotIncreaseIfInherentLossLessThanAverageLoss short candidates=1.2
  begin 600, tenth 15000 0, tenth 15000 250 => is 600
SelectHighBandwidthCandidateIfLossRateIsLessThanThreshold short no-increase=0
  begin 600, delay 5000, tenth 15000 0, tenth 15000 250 => above 600
SelectLowBandwidthCandidateIfLossRateIsIsHigherThanThreshold short preference=0.05
  begin 600, delay 5000, tenth 15000 0, tenth 15000 250 => below 600
IncreaseByHoldFactorAfterLossBasedBweBacksOff short
  begin 600, acked 100, delay 5000, lost 2 0, mark, received 500, until received padding => is-mark x1.2+0
LossBasedStateIsDelayBasedEstimateAfterNetworkRecovering short candidates=100/1/0.5 upper=10000 increase=100 no-increase=0
  begin 600, acked 300, delay 600, lost 2 0 => in decreasing
  acked 600, received 250 => in delay
  received 500 => in delay
LossBasedStateIsNotDelayBasedEstimateIfDelayBasedEstimateInfinite short candidates=100/1/0.5 upper=10000 increase=100
  begin 600, lost 2 0 => in decreasing
  acked 600, received 250 => not-in delay
IncreaseByFactorOfAckedBitrateAfterLossBasedBweBacksOff short preference=0.99 ramp=1.2 upper=10000
  begin 600, acked 300, delay 5000, lost 2 0, mark => in decreasing, below 600
  acked x0.9+0, until received padding => is-mark x1.08+0
  acked x0.9+0, until received padding => is-mark x1.08+0
EnsureIncreaseEvenIfAckedBitrateBound short preference=0.99 ramp=1.2 upper=10000
  begin 600, acked 300, delay 5000, lost 2 0, mark => in decreasing, below 600
  acked x0.5+0, until received padding => is-mark x1+1
HasDelayBasedStateIfLossBasedBweIsMax short
  limits 10 1000, delay 2000, received 0 => in delay, is 1000
  half 250 => in decreasing, below 1000
  until received delay => is 1000
EndHoldDurationIfDelayBasedEstimateWorks short
  begin 2500, half 0, mark => in decreasing
  delay x1+10000, received 250, received 500 => in delay, is-mark x1+10000
EstimateBitrateIsBoundedDuringDelayedWindowAfterLossBasedBweBacksOff full
  begin 600, acked 300, delay 5000, received 0, acked 5000, half 298, mark, received 299 => is-mark x1+0
KeepIncreasingEstimateAfterDelayedIncreaseWindow full
  begin 600, acked 300, delay 5000, received 0, acked 5000, received 299, mark, received 301 => at-least-mark x1+0
HasIncreaseStateBecauseOfLowerBound short candidates=1 lower=10
  limits 10 1000000, begin 500, acked 1, half 0 => in decreasing
  acked 200, half 500 => is 2000, in padding
EstimateIncreaseSlowlyFromInstantUpperBoundInAlrIfFieldTrial short try-upper=1
  begin 1000, acked 150, limited, half 0, mark => in decreasing
  received 250, received 500, received 750 => at-most-mark x1.999+0
BestCandidateResetsToUpperBoundInFieldTrial short padding=1
  begin 2500, limited, half 0, mark => in decreasing
  received 250, received 500 => in padding, at-most-mark x1+100000, at-least-mark x1-100000
HoldRateNotLowerThanAckedRate short hold=10
  begin 2500, half 0 => in decreasing
  acked 1000, half 250 => in decreasing, is 1000
EstimateNotLowerThanAckedRate short
  begin 2500, lost 2 0 => below 1000
  acked 1000, lost 2 250 => is 1000
  received 500, received 750 => above 1000
DecreaseToAckedCandidateIfPaddingInAlr short padding=1 upper=10000
  begin 1000, limited, until lost 2 decreasing, until received padding => above 900
  acked 100, until lost 2 decreasing => is 100
DecreaseAfterPadding short padding=1 ramp=2
  begin 2500, acked 51, half 0 => in decreasing, is 51
  acked 26, until received padding, mark, until received decreasing => later 1250
UseByteLossRateIgnoreLossSpike five
  begin 500, delay 500, received 0, received 250, received 500, received 750, received 1000 => is 500
  lost 2 1250, received 1500 => in delay, is 500
  lost 2 1750 => in decreasing, below 500
UseByteLossRateDoesNotIgnoreLossSpikeOnSendBurst five
  begin 500, delay 500, received 0, received 250, received 500, received 750, received 1000 => is 500
  lost 5 1250 => in decreasing, at-most 500
";

const PACKET: u64 = 15_000;
const STEP: u64 = 250;

fn reports(fate: &[&str], sequence: &mut u64, from: u64) -> Vec<PacketReport> {
    let mut packet = |millis: u64, bytes: u64, arrived: bool| {
        *sequence += 1;
        packet(*sequence, at(millis), bytes, arrived)
    };
    let last = |i: u64, count: u64, before: u64| from + if i + 1 == count { STEP } else { before };
    match *fate {
        ["received" | "half"] => {
            vec![packet(from, PACKET, true), packet(from + STEP, PACKET, fate == ["received"])]
        }
        ["lost", count] => {
            let count = count.parse().unwrap();
            (0..count).map(|i| packet(last(i, count, i * 10), PACKET, false)).collect()
        }
        ["tenth", bytes] => {
            let bytes = |i| if i == 9 { bytes.parse().unwrap() } else { PACKET };
            (0..10).map(|i| packet(from + i * STEP, bytes(i), i != 9)).collect()
        }
        _ => panic!("{fate:?}"),
    }
}

fn state(name: &str) -> LossState {
    match name {
        "delay" => LossState::DelayBased,
        "padding" => LossState::IncreasingWithPadding,
        "decreasing" => LossState::Decreasing,
        _ => panic!("{name}"),
    }
}

/// The defaults of the class there: from 1 kbit/s, without a maximum.
fn base() -> ModelConfig {
    ModelConfig { min: kbps(1), max: UNLIMITED, ..ModelConfig::default() }
}

/// There: `ShortObservationConfig`.
fn short() -> ModelConfig {
    ModelConfig { observations_needed: 1, observations_kept: 2, ..base() }
}

/// There: `Config(true, true)`.
fn full() -> ModelConfig {
    ModelConfig {
        ramp_up: 1.2,
        candidate_factors: vec![1.1, 1.0, 0.95],
        bias: 0.01,
        inherent_loss_balance: kbps(14),
        inherent_loss_offset: 0.9,
        newton_steps: 2,
        newton_step_size: 0.4,
        send_rate_smoothing: 0.01,
        average_weight: 0.97,
        upper_bound_balance: kbps(90),
        upper_bound_offset: 0.1,
        temporal_weight: 0.98,
        observations_needed: 1,
        max_increase: 1.5,
        ..base()
    }
}

fn set(config: &mut ModelConfig, constant: &str) {
    let (key, text) = constant.split_once('=').unwrap();
    let values: Vec<f64> = text.split('/').map(|value| value.parse().unwrap()).collect();
    let value = values[0];
    match key {
        "candidates" => config.candidate_factors = values,
        "hold" => config.hold_factor = value,
        "increase" => config.max_increase = value,
        "lower" => config.lower_bound_factor = value,
        "no-increase" => config.no_increase_above_inherent_loss = value > 0.0,
        "padding" => config.padding_duration = TimeDelta::from_seconds_f64(value),
        "preference" => config.preference_threshold = value,
        "ramp" => config.ramp_up = value,
        "try-upper" => config.try_upper_bound_when_limited = value > 0.0,
        "upper" => config.upper_bound_balance = scaled(kbps(1), value),
        _ => panic!("{constant}"),
    }
}

struct Case {
    name: &'static str,
    model: LossModel,
    sequence: u64,
    next: u64,
    delay: Option<DataRate>,
    limited: bool,
    /// The stored estimate, and the next observation at that time.
    mark: (DataRate, u64),
}

impl Case {
    fn new(line: &'static str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let mut config = match words[1] {
            "full" => full(),
            "short" => short(),
            "five" => ModelConfig { observations_kept: 5, ..base() },
            other => panic!("{other}"),
        };
        words[2..].iter().for_each(|constant| set(&mut config, constant));
        let (model, mark) = (LossModel::new(config).unwrap(), (DataRate::ZERO, 0));
        Self { name: words[0], model, sequence: 0, next: 0, delay: None, limited: false, mark }
    }

    /// A number of kbit/s, or a factor of the mark and bit/s: `x1.02+8`.
    fn rate(&self, text: &str) -> DataRate {
        let Some(text) = text.strip_prefix('x') else { return kbps(text.parse().unwrap()) };
        let (factor, plus) = text.split_at(text.find(['+', '-']).unwrap());
        let scaled = scaled(self.mark.0, factor.parse().unwrap());
        DataRate::from_bps(scaled.as_bps().strict_add_signed(plus.parse().unwrap()))
    }

    fn update(&mut self, fate: &[&str], from: u64) {
        let reports = reports(fate, &mut self.sequence, from);
        self.model.update(&reports, self.delay, self.limited);
        self.next = from + STEP;
    }

    fn act(&mut self, action: &str) {
        let words: Vec<_> = action.split_whitespace().collect();
        match words[..] {
            ["begin", rate] => self.model.set_rate(self.rate(rate)),
            ["acked", rate] => self.model.set_acknowledged(self.rate(rate)),
            ["limits", min, max] => self.model.set_limits(self.rate(min), self.rate(max)),
            ["delay", rate] => self.delay = Some(self.rate(rate)),
            ["limited"] => self.limited = true,
            ["mark"] => self.mark = (self.model.estimate().rate.unwrap(), self.next),
            ["until", ref fate @ .., until] => {
                while self.model.estimate().state != state(until) {
                    self.update(fate, self.next);
                    assert!(self.next < 1000 * STEP, "{} {action}: {:?}", self.name, self.model.estimate());
                }
            }
            [ref fate @ .., from] => self.update(fate, from.parse().unwrap()),
            [] => panic!("no action"),
        }
    }

    fn check(&self, check: &str) {
        let found = self.model.estimate();
        let rate = found.rate.unwrap_or(UNLIMITED);
        let holds = match check.split_whitespace().collect::<Vec<_>>()[..] {
            ["is", expected] => found.rate == Some(self.rate(expected)),
            ["is-mark", expected] => rate == self.rate(expected),
            ["not", other] => found.rate != Some(self.rate(other)),
            ["above", other] => rate > self.rate(other),
            ["below", other] => rate < self.rate(other),
            ["at-most" | "at-most-mark", most] => rate <= self.rate(most),
            ["at-least-mark", least] => rate >= self.rate(least),
            ["nothing"] => found.rate.is_none(),
            ["in", expected] => found.state == state(expected),
            ["not-in", other] => found.state != state(other),
            ["later", ms] => self.next == self.mark.1 + ms.parse::<u64>().unwrap(),
            _ => panic!("{check}"),
        };
        assert!(holds, "{}: {check}: found {found:?}, mark {:?}, next {}", self.name, self.mark, self.next);
    }
}

#[test]
fn rates_and_states_are_as_published() {
    let mut case = None;
    for line in CASES.lines() {
        let Some(step) = line.strip_prefix("  ") else {
            case = Some(Case::new(line));
            continue;
        };
        let (case, (actions, checks)) = (case.as_mut().unwrap(), step.split_once(" => ").unwrap());
        actions.split(',').for_each(|action| case.act(action));
        checks.split(',').for_each(|check| case.check(check));
    }
}

/// `EstimateDoesNotBackOffDueToPacketReorderingBetweenFeedback`.
#[test]
fn a_reordered_packet_does_not_reduce_the_rate() {
    let mut model = LossModel::new(short()).unwrap();
    let rate = kbps(2500);
    model.set_rate(rate);
    let packet = |sequence, ms, arrived| packet(sequence, at(ms), PACKET, arrived);
    model.update(&[packet(1, 0, true), packet(2, 0, false), packet(3, 0, true)], Some(rate), false);
    model.update(&[packet(2, 0, true), packet(4, STEP, true), packet(5, 0, true)], Some(rate), false);
    assert_eq!(model.estimate().rate, Some(rate));
}
