//! The cases of libwebrtc's `loss_based_bwe_v2_test.cc` as data, with their original names.

use giusto_units::TimeDelta;

use super::{tests::packet, *};

/// The fate of an observation's packets of 15 kB each. Times are in observations of 250 ms.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Two packets, one observation apart: both arrive.
    Received,
    /// Two packets, one observation apart: the second is lost.
    Half,
    /// This number of packets, all lost. They are sent 10 ms apart, the last one an observation after the
    /// first.
    AllLost(u64),
    /// Ten packets, one observation apart each: the last, of this size in bytes, is lost.
    Tenth(u64),
}

#[derive(Debug, Clone, Copy)]
enum Do {
    /// Start at this rate in kbit/s.
    Begin(u64),
    /// Acknowledged rate in kbit/s.
    Acknowledged(u64),
    /// The acknowledged rate, as a factor on the estimate at [`Mark`](Do::Mark).
    AcknowledgedOfMark(f64),
    /// Minimum and maximum, kbit/s.
    Limits(u64, u64),
    /// Packets, starting at this time in milliseconds.
    Feed(Fate, u64),
    /// Packets, starting with the next observation, until the model is in this state.
    FeedUntil(Fate, LossState),
    /// The delay-based rate from here on, kbit/s.
    Delay(Option<u64>),
    /// The delay-based rate: the estimate at the mark times the factor, plus bit/s.
    DelayOfMark(f64, u64),
    /// The sender is application-limited from here on.
    Limited,
    /// Store the estimate.
    Mark,
}

use Do::*;
use Fate::*;
use LossState::{Decreasing, DelayBased, IncreasingWithPadding};

#[derive(Debug, Clone, Copy)]
enum Then {
    Is(u64),
    Not(u64),
    Above(u64),
    Below(u64),
    AtMost(u64),
    /// The mark times this factor, plus bit/s.
    OfMark(f64, u64),
    AtMostOfMark(f64),
    AtLeastOfMark(f64),
    /// The mark, within this many kbit/s.
    NearMark(u64),
    /// No estimate.
    Nothing,
    In(LossState),
    NotIn(LossState),
}

use Then::*;

const PACKET: u64 = 15_000;
const STEP: u64 = 250;

fn reports(fate: Fate, sequence: &mut u64, from: u64) -> Vec<PacketReport> {
    let mut packet = |millis: u64, bytes: u64, arrived: bool| {
        *sequence += 1;
        packet(*sequence, Timestamp::from_nanos(millis * 1_000_000), bytes, arrived)
    };
    match fate {
        Received => vec![packet(from, PACKET, true), packet(from + STEP, PACKET, true)],
        Half => vec![packet(from, PACKET, true), packet(from + STEP, PACKET, false)],
        AllLost(packets) => (0..packets)
            .map(|i| packet(from + if i + 1 == packets { STEP } else { i * 10 }, PACKET, false))
            .collect(),
        Tenth(bytes) => {
            (0..10).map(|i| packet(from + i * STEP, if i == 9 { bytes } else { PACKET }, i != 9)).collect()
        }
    }
}

/// Runs `steps`; each check holds after the steps before it.
fn run(name: &str, config: ModelConfig, steps: &[(&[Do], &[Then])]) {
    let mut model = LossModel::new(config).unwrap();
    let (mut sequence, mut next, mut delay, mut limited, mut mark) = (0, 0, None, false, DataRate::ZERO);
    let kbps = |kbps: u64| DataRate::from_bps(kbps * 1000);
    for (number, (actions, checks)) in steps.iter().enumerate() {
        for &action in *actions {
            match action {
                Begin(rate) => model.set_rate(kbps(rate)),
                Acknowledged(rate) => model.set_acknowledged(kbps(rate)),
                AcknowledgedOfMark(factor) => model.set_acknowledged(scaled(mark, factor)),
                Limits(min, max) => model.set_limits(kbps(min), kbps(max)),
                Delay(rate) => delay = rate.map(kbps),
                DelayOfMark(factor, plus) => delay = Some(sum(scaled(mark, factor), plus)),
                Limited => limited = true,
                Mark => mark = model.estimate().rate.unwrap(),
                Feed(fate, from) => {
                    model.update(&reports(fate, &mut sequence, from), delay, limited);
                    next = from + STEP;
                }
                FeedUntil(fate, state) => {
                    let mut rounds = 0;
                    while model.estimate().state != state {
                        model.update(&reports(fate, &mut sequence, next), delay, limited);
                        next += STEP;
                        rounds += 1;
                        assert!(rounds < 1000, "{name}, step {number}: {:?}", model.estimate());
                    }
                }
            }
        }
        for check in *checks {
            let found = model.estimate();
            let rate = found.rate.unwrap_or(UNLIMITED);
            let holds = match *check {
                Is(expected) => found.rate == Some(kbps(expected)),
                Not(other) => found.rate != Some(kbps(other)),
                Above(other) => rate > kbps(other),
                Below(other) => rate < kbps(other),
                AtMost(other) => rate <= kbps(other),
                OfMark(factor, plus) => rate == sum(scaled(mark, factor), plus),
                AtMostOfMark(factor) => rate <= scaled(mark, factor),
                AtLeastOfMark(factor) => rate >= scaled(mark, factor),
                NearMark(near) => rate.as_bps().abs_diff(mark.as_bps()) <= near * 1000,
                Nothing => found.rate.is_none(),
                In(state) => found.state == state,
                NotIn(state) => found.state != state,
            };
            assert!(holds, "{name}, step {number}: {check:?}, found {found:?}, mark {mark}");
        }
    }
}

fn sum(rate: DataRate, bps: u64) -> DataRate {
    DataRate::from_bps(rate.as_bps() + bps)
}

/// The defaults of the class there: from 1 kbit/s, without a maximum.
fn base() -> ModelConfig {
    ModelConfig { min: DataRate::from_bps(1000), max: UNLIMITED, ..ModelConfig::default() }
}

/// There: `Config(true, true)`.
fn full() -> ModelConfig {
    ModelConfig {
        ramp_up: 1.2,
        candidate_factors: vec![1.1, 1.0, 0.95],
        bias: 0.01,
        inherent_loss_balance: DataRate::from_bps(14_000),
        inherent_loss_offset: 0.9,
        newton_steps: 2,
        newton_step_size: 0.4,
        send_rate_smoothing: 0.01,
        average_weight: 0.97,
        upper_bound_balance: DataRate::from_bps(90_000),
        upper_bound_offset: 0.1,
        temporal_weight: 0.98,
        observations_needed: 1,
        max_increase: 1.5,
        ..base()
    }
}

/// There: `ShortObservationConfig`.
fn short(change: impl FnOnce(&mut ModelConfig)) -> ModelConfig {
    let mut config = ModelConfig { observations_needed: 1, observations_kept: 2, ..base() };
    change(&mut config);
    config
}

fn without_upper_bound(config: &mut ModelConfig) {
    config.upper_bound_balance = DataRate::from_bps(10_000_000);
}

#[test]
fn it_starts_as_published() {
    run(
        "ReturnsDelayBasedEstimateWhenDisabled",
        full(),
        &[(&[Delay(Some(100)), Feed(AllLost(1), 0)], &[Is(100)])],
    );
    run(
        "NoBandwidthEstimateGivenNoInitialization",
        full(),
        &[(&[Feed(Received, 0)], &[Nothing, In(DelayBased)])],
    );
    run("NoBandwidthEstimateGivenNotEnoughFeedback", full(), &[(&[Begin(600)], &[Nothing])]);
    run(
        "SetValueIsTheEstimateUntilAdditionalFeedbackHasBeenReceived",
        full(),
        &[
            (&[Begin(600), Feed(Received, 0)], &[Not(600), Below(1_000_000)]),
            (&[Begin(600)], &[Is(600)]),
            (&[Feed(Received, 500)], &[Not(600)]),
        ],
    );
    run("ReadyToUseInStartPhase", short(|_| ()), &[(&[Delay(Some(600)), Feed(Received, 0)], &[Is(600)])]);
    run(
        "EstimateIsNotHigherThanMaxBitrate",
        full(),
        &[(&[Limits(10, 1000), Begin(1000), Feed(Received, 0)], &[AtMost(1000)])],
    );
}

#[test]
fn it_grows_as_published_without_loss() {
    run(
        "SetAcknowledgedBitrateOnlyAffectsTheBweWhenAdditionalFeedbackIsGiven",
        full(),
        &[
            (&[Begin(600), Feed(Received, 0)], &[Is(660)]),
            (&[Acknowledged(900)], &[Is(660)]),
            // Without the acknowledged rate it would be 660 × 1.1.
            (&[Feed(Received, 500)], &[Not(726)]),
        ],
    );
    run(
        "the same without the acknowledged rate",
        full(),
        &[(&[Begin(600), Feed(Received, 0), Feed(Received, 500)], &[Is(726)])],
    );
    run(
        "BandwidthEstimateCappedByDelayBasedEstimateWhenNetworkNormal",
        full(),
        &[
            (&[Begin(600), Feed(Received, 0)], &[Above(600)]),
            (&[Delay(Some(500)), Feed(Received, 500)], &[Is(500)]),
        ],
    );
    run(
        "NoBweChangeIfObservationDurationUnchanged",
        full(),
        &[
            (&[Begin(600), Acknowledged(300), Feed(Received, 0), Mark], &[]),
            (&[Feed(Received, 0)], &[OfMark(1.0, 0)]),
        ],
    );
    run(
        "NoBweChangeIfObservationDurationIsSmallAndNetworkNormal",
        full(),
        &[(&[Begin(600), Feed(Received, 0), Mark], &[]), (&[Feed(Received, 249)], &[OfMark(1.0, 0)])],
    );
    run(
        "IncreaseToDelayBasedEstimateIfNoLossOrDelayIncrease",
        full(),
        &[
            (&[Begin(600), Delay(Some(5000)), Feed(Received, 0)], &[Is(5000)]),
            (&[Feed(Received, 500)], &[Is(5000)]),
        ],
    );
    run(
        "SelectHigherCandidateIfHavingSameObjective",
        short(|_| ()),
        &[
            (&[Begin(1000), Delay(Some(1000)), Feed(Received, 0), Mark], &[]),
            (&[DelayOfMark(1.02, 8), Feed(Received, 250)], &[OfMark(1.02, 8)]),
        ],
    );
}

#[test]
fn it_falls_as_published() {
    run(
        "BandwidthEstimateIsCappedToBeTcpFairGivenTooHighLossRate",
        full(),
        &[(&[Begin(600), Feed(AllLost(2), 0)], &[Is(100)])],
    );
    run(
        "UseAckedBitrateForEmegencyBackOff",
        full(),
        &[(&[Begin(600), Acknowledged(300), Feed(Half, 0), Feed(AllLost(2), 500)], &[AtMost(300)])],
    );
    let limits = Limits(10, 1_000_000);
    run(
        "NotBackOffToAckedRateInAlr",
        short(|_| ()),
        &[(
            &[limits, Delay(Some(5000)), Begin(600), Acknowledged(100), Limited, Feed(AllLost(2), 0)],
            &[Above(100), Below(600)],
        )],
    );
    run(
        "BackOffToAckedRateIfNotInAlr",
        short(|_| ()),
        &[(&[limits, Delay(Some(5000)), Begin(600), Acknowledged(100), Feed(AllLost(2), 0)], &[Is(100)])],
    );
    run(
        "BoundEstimateByAckedRate",
        short(|_| ()),
        &[(&[limits, Begin(600), Acknowledged(500), Feed(AllLost(2), 0)], &[Is(500)])],
    );
    run(
        "NotBoundEstimateByAckedRate",
        short(|c| c.lower_bound_factor = 0.0),
        &[(&[limits, Begin(600), Acknowledged(500), Feed(AllLost(2), 0)], &[Below(500)])],
    );
    let ten = short(|c| {
        c.candidate_factors = vec![1.0];
        c.upper_bound_balance = DataRate::from_bps(10_000);
    });
    run(
        "HasDecreaseStateBecauseOfUpperBound",
        ten,
        &[(&[limits, Begin(500), Acknowledged(100), Feed(Tenth(PACKET), 0)], &[Is(200), In(Decreasing)])],
    );
    run(
        "UseByteLossRate",
        short(|_| ()),
        &[(&[Begin(500), Feed(Tenth(PACKET * 20), 0)], &[Below(160), In(Decreasing)])],
    );
}

#[test]
fn ten_percent_loss_is_handled_as_published() {
    let twice = |delay| [Begin(600), Delay(delay), Feed(Tenth(PACKET), 0), Feed(Tenth(PACKET), 250)];
    run(
        "NotIncreaseIfInherentLossLessThanAverageLoss",
        short(|c| c.candidate_factors = vec![1.2]),
        &[(&twice(None), &[Is(600)])],
    );
    run(
        "SelectHighBandwidthCandidateIfLossRateIsLessThanThreshold",
        short(|c| c.no_increase_above_inherent_loss = false),
        &[(&twice(Some(5000)), &[Above(600)])],
    );
    run(
        "SelectLowBandwidthCandidateIfLossRateIsIsHigherThanThreshold",
        short(|c| c.preference_threshold = 0.05),
        &[(&twice(Some(5000)), &[Below(600)])],
    );
}

#[test]
fn it_recovers_as_published() {
    run(
        "IncreaseByHoldFactorAfterLossBasedBweBacksOff",
        short(|_| ()),
        &[
            (&[Begin(600), Acknowledged(100), Delay(Some(5000)), Feed(AllLost(2), 0), Mark], &[]),
            (&[Feed(Received, 500), FeedUntil(Received, IncreasingWithPadding)], &[OfMark(1.2, 0)]),
        ],
    );
    let jumps = |no_increase| {
        short(move |c| {
            c.candidate_factors = vec![100.0, 1.0, 0.5];
            without_upper_bound(c);
            c.max_increase = 100.0;
            c.no_increase_above_inherent_loss = no_increase;
        })
    };
    run(
        "LossBasedStateIsDelayBasedEstimateAfterNetworkRecovering",
        jumps(false),
        &[
            (&[Begin(600), Acknowledged(300), Delay(Some(600)), Feed(AllLost(2), 0)], &[In(Decreasing)]),
            (&[Acknowledged(600), Feed(Received, 250)], &[In(DelayBased)]),
            (&[Feed(Received, 500)], &[In(DelayBased)]),
        ],
    );
    run(
        "LossBasedStateIsNotDelayBasedEstimateIfDelayBasedEstimateInfinite",
        jumps(true),
        &[
            (&[Begin(600), Feed(AllLost(2), 0)], &[In(Decreasing)]),
            (&[Acknowledged(600), Feed(Received, 250)], &[NotIn(DelayBased)]),
        ],
    );
    let ramp = || {
        short(|c| {
            c.preference_threshold = 0.99;
            c.ramp_up = 1.2;
            without_upper_bound(c);
        })
    };
    let fallen: &[Do] = &[Begin(600), Acknowledged(300), Delay(Some(5000)), Feed(AllLost(2), 0), Mark];
    run(
        "IncreaseByFactorOfAckedBitrateAfterLossBasedBweBacksOff",
        ramp(),
        &[
            (fallen, &[In(Decreasing), Below(600)]),
            (&[AcknowledgedOfMark(0.9), FeedUntil(Received, IncreasingWithPadding)], &[OfMark(0.9 * 1.2, 0)]),
            (&[AcknowledgedOfMark(0.9), FeedUntil(Received, IncreasingWithPadding)], &[OfMark(0.9 * 1.2, 0)]),
        ],
    );
    run(
        "EnsureIncreaseEvenIfAckedBitrateBound",
        ramp(),
        &[
            (fallen, &[In(Decreasing), Below(600)]),
            (&[AcknowledgedOfMark(0.5), FeedUntil(Received, IncreasingWithPadding)], &[OfMark(1.0, 1)]),
        ],
    );
    run(
        "HasDelayBasedStateIfLossBasedBweIsMax",
        short(|_| ()),
        &[
            (&[Limits(10, 1000), Delay(Some(2000)), Feed(Received, 0)], &[In(DelayBased), Is(1000)]),
            (&[Feed(Half, 250)], &[In(Decreasing), Below(1000)]),
            (&[FeedUntil(Received, DelayBased)], &[Is(1000)]),
        ],
    );
    run(
        "EndHoldDurationIfDelayBasedEstimateWorks",
        short(|_| ()),
        &[
            (&[Begin(2500), Feed(Half, 0), Mark], &[In(Decreasing)]),
            (
                &[DelayOfMark(1.0, 10_000), Feed(Received, 250), Feed(Received, 500)],
                &[In(DelayBased), OfMark(1.0, 10_000)],
            ),
        ],
    );
}

#[test]
fn windows_and_bounds_work_as_published() {
    let begun: &[Do] =
        &[Begin(600), Acknowledged(300), Delay(Some(5000)), Feed(Received, 0), Acknowledged(5000)];
    run(
        "EstimateBitrateIsBoundedDuringDelayedWindowAfterLossBasedBweBacksOff",
        full(),
        &[(begun, &[]), (&[Feed(Half, 298), Mark], &[]), (&[Feed(Received, 299)], &[OfMark(1.0, 0)])],
    );
    run(
        "KeepIncreasingEstimateAfterDelayedIncreaseWindow",
        full(),
        &[(begun, &[]), (&[Feed(Received, 299), Mark], &[]), (&[Feed(Received, 301)], &[AtLeastOfMark(1.0)])],
    );
    let lifted = short(|c| {
        c.candidate_factors = vec![1.0];
        c.lower_bound_factor = 10.0;
    });
    run(
        "HasIncreaseStateBecauseOfLowerBound",
        lifted,
        &[
            (&[Limits(10, 1_000_000), Begin(500), Acknowledged(1), Feed(Half, 0)], &[In(Decreasing)]),
            (&[Acknowledged(200), Feed(Half, 500)], &[Is(2000), In(IncreasingWithPadding)]),
        ],
    );
    run(
        "EstimateIncreaseSlowlyFromInstantUpperBoundInAlrIfFieldTrial",
        short(|c| c.try_upper_bound_when_limited = true),
        &[
            (&[Begin(1000), Acknowledged(150), Limited, Feed(Half, 0), Mark], &[In(Decreasing)]),
            (&[Feed(Received, 250), Feed(Received, 500), Feed(Received, 750)], &[AtMostOfMark(1.999)]),
        ],
    );
    run(
        "BestCandidateResetsToUpperBoundInFieldTrial",
        short(|c| c.padding_duration = TimeDelta::from_seconds(1)),
        &[
            (&[Begin(2500), Limited, Feed(Half, 0), Mark], &[In(Decreasing)]),
            (&[Feed(Received, 250), Feed(Received, 500)], &[In(IncreasingWithPadding), NearMark(100)]),
        ],
    );
    run(
        "HoldRateNotLowerThanAckedRate",
        short(|c| c.hold_factor = 10.0),
        &[
            (&[Begin(2500), Feed(Half, 0)], &[In(Decreasing)]),
            (&[Acknowledged(1000), Feed(Half, 250)], &[In(Decreasing), Is(1000)]),
        ],
    );
    run(
        "EstimateNotLowerThanAckedRate",
        short(|_| ()),
        &[
            (&[Begin(2500), Feed(AllLost(2), 0)], &[Below(1000)]),
            (&[Acknowledged(1000), Feed(AllLost(2), 250)], &[Is(1000)]),
            (&[Feed(Received, 500), Feed(Received, 750)], &[Above(1000)]),
        ],
    );
}

#[test]
fn padding_begins_and_ends_as_published() {
    let second = |c: &mut ModelConfig| c.padding_duration = TimeDelta::from_seconds(1);
    run(
        "DecreaseToAckedCandidateIfPaddingInAlr",
        short(|c| {
            second(c);
            without_upper_bound(c);
        }),
        &[
            (&[Begin(1000), Limited, FeedUntil(AllLost(2), Decreasing)], &[]),
            (&[FeedUntil(Received, IncreasingWithPadding)], &[Above(900)]),
            (&[Acknowledged(100), FeedUntil(AllLost(2), Decreasing)], &[Is(100)]),
        ],
    );
    let doubles = short(|c| {
        second(c);
        c.ramp_up = 2.0;
    });
    run(
        "DecreaseAfterPadding",
        doubles,
        &[
            (&[Begin(2500), Acknowledged(51), Feed(Half, 0)], &[In(Decreasing), Is(51)]),
            (&[Acknowledged(26), FeedUntil(Received, IncreasingWithPadding), Feed(Received, 500)], &[]),
        ],
    );
}

/// `DecreaseAfterPadding`, whose point is the time between.
#[test]
fn padding_lasts_a_second_and_an_observation() {
    let mut model = LossModel::new(short(|c| {
        c.padding_duration = TimeDelta::from_seconds(1);
        c.ramp_up = 2.0;
    }))
    .unwrap();
    let mut sequence = 0;
    model.set_rate(DataRate::from_bps(2_500_000));
    model.set_acknowledged(DataRate::from_bps(51_000));
    model.update(&reports(Half, &mut sequence, 0), None, false);
    model.set_acknowledged(DataRate::from_bps(26_000));
    let mut from = 0;
    let mut until = |model: &mut LossModel, state| {
        while model.estimate().state != state {
            from += STEP;
            assert!(from < 60_000);
            model.update(&reports(Received, &mut sequence, from), None, false);
        }
        from
    };
    let padded = until(&mut model, IncreasingWithPadding);
    let ended = until(&mut model, Decreasing);
    // There the start is read one observation later, so that it gives 1000 ms.
    assert_eq!(ended - padded, 1000 + STEP);
}

#[test]
fn spikes_are_ignored_as_published() {
    let five = || ModelConfig { observations_kept: 5, ..base() };
    let fill: &[Do] = &[
        Begin(500),
        Delay(Some(500)),
        Feed(Received, 0),
        Feed(Received, 250),
        Feed(Received, 500),
        Feed(Received, 750),
        Feed(Received, 1000),
    ];
    run(
        "UseByteLossRateIgnoreLossSpike",
        five(),
        &[
            (fill, &[Is(500)]),
            (&[Feed(AllLost(2), 1250), Feed(Received, 1500)], &[In(DelayBased), Is(500)]),
            (&[Feed(AllLost(2), 1750)], &[In(Decreasing), Below(500)]),
        ],
    );
    run(
        "UseByteLossRateDoesNotIgnoreLossSpikeOnSendBurst",
        five(),
        &[(fill, &[Is(500)]), (&[Feed(AllLost(5), 1250)], &[In(Decreasing), AtMost(500)])],
    );
}

/// `EstimateDoesNotBackOffDueToPacketReorderingBetweenFeedback`.
#[test]
fn a_reordered_packet_does_not_reduce_the_rate() {
    let mut model = LossModel::new(short(|_| ())).unwrap();
    let rate = DataRate::from_bps(2_500_000);
    model.set_rate(rate);
    let end = Timestamp::from_nanos(STEP * 1_000_000);
    let at = |sequence, at, arrived| packet(sequence, at, PACKET, arrived);
    let zero = Timestamp::ZERO;
    model.update(&[at(1, zero, true), at(2, zero, false), at(3, zero, true)], Some(rate), false);
    model.update(&[at(2, zero, true), at(4, end, true), at(5, zero, true)], Some(rate), false);
    assert_eq!(model.estimate().rate, Some(rate));
}
