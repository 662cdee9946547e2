//! Keys of links: rate, delay, queue, loss, jitter.

use giusto_sim::link::{
    delay::{DelayProfile, Jitter},
    loss::Loss,
    rate::{RateProfile, TokenBucket},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    medium::{ON_MEDIUM, membership},
    prelude::*,
    queue::QUEUE,
};
use crate::scenario::{
    model::LinkSpec,
    trace::{self, Direction, Reading, Traces},
};

pub(in crate::scenario) const LINK: Group = Group::new("link", &[ENDS, DIRECTION, ON_MEDIUM]);
const REVERSE: Group = Group::new("reverse", &[DIRECTION, ON_MEDIUM]);

keys! { ENDS, ends(to: LinkSpec) {
    "id", Name, Required("bottleneck"), "Name" => to.id;
    "from", Text, Required("server"), "Node at its start; naming a node creates it" => to.from;
    "to", Text, Required("client"), "Node at its end" => to.to;
    "duplex", Switch, Is("false"), "Add an equal link in the other direction, `ID:reverse`";
    "reverse", Table(&REVERSE), Unset, "Link in the other direction, with the keys that differ";
} }

keys! { DIRECTION, direction(to: LinkSpec) {
    "rate", RATE, Shown("unlimited"), "Transmission rate; on a medium that of its frames on the air, by default 52 Mbit/s";
    "medium", Name, Unset, "Medium that it shares with other links";
    "delay", Any(&[Time(ANY), Table(&DELAY)]), Shown("0 ms"), "One-way propagation delay" => to.config.delay;
    "queue", Table(&QUEUE), Shown("drop-tail"), "Queue in front of the link" => to.queue;
    "loss", Any(&[RATIO, Table(&LOSS)]), Shown("0"), "Loss after transmission" => to.config.loss;
    "jitter", Table(&JITTER), Shown("none"), "Extra random delay";
    "reorder", Switch, Is("false"), "Let jitter reorder packets (RFC 8868 §4.5)" => to.config.reorder;
    "duplication", RATIO, Shown("0"), "Probability that a packet arrives twice" => to.config.duplication;
    "corruption", RATIO, Shown("0"),
        "Probability that a bit of a packet is changed; its receiver discards it for its checksum" => to.config.corruption;
} }

/// A rate that may change.
const RATE: Kind = Any(&[Rate(ABOVE_0), Word("unlimited"), Table(&BUCKET), Table(&PROFILE)]);
/// A rate that is not unlimited.
pub(super) const LIMITED: Kind = Any(&[Rate(ABOVE_0), Table(&BUCKET), Table(&PROFILE)]);
const PROFILE: Group = Group::new("rate", &[STEPS, TRACES]);
const BUCKET: Group = Group::new("token-bucket", &[TOKENS]);

keys! { STEPS {
    "steps", List(&Pair(&Time(ANY), &Rate(ANY))), Unset,
        "Each rate from its time on; `\"0\"` is an outage, which must end";
    "trace", Text, Unset, "File of recorded rates, instead of steps; its times count from its first row on";
    "period", Time(ABOVE_0), Unset, "Time after which steps or trace repeat";
} }

names!(Direction: Direction::ALL.into_iter().map(|direction| (direction.name(), direction)).collect());

keys! { TRACES {
    "scale", Number(ABOVE_0), Is("1"), "Factor of the rates of steps or trace";
    "direction", choice::<Direction>(), Shown("down"), "Direction of a trace with both";
    "mahimahi", Text, Unset, "Mahimahi trace of 1504 B per opportunity, whose last millisecond is the period";
} }

keys! { TOKENS {
    "token-bucket", Rate(ABOVE_0), Required("5 Mbit/s"), "Rate of the tokens; packets without tokens wait in the queue";
    "burst", Size(ABOVE_0), Required("30 kB"), "Size of the bucket";
    "peak", Rate(ABOVE_0), Unset, "Rate at which a burst is sent; without it at once";
} }

const DELAY: Group = Group::new("delay", &[DELAY_STEPS]);
keys! { DELAY_STEPS {
    "steps", List(&Pair(&Time(ANY), &Time(ANY))), Required("[[\"0 s\", \"5 ms\"]]"), "Each delay from its time on";
} }

const LOSS: Group = Group::new("loss", &[]).with_kinds(
    "kind",
    Some("packets"),
    &[
        variant("packets", "Loses the packets of a list", &[LOST]),
        variant("steps", "Loses with a probability that changes", &[LOSS_STEPS]),
        variant("gilbert-elliott", "A channel of two states", &[CHANNEL]),
    ],
);
keys! { LOST {
    "packets", List(&Whole(ANY)), Required("[3, 17]"), "Exactly these, counted from 0 in the order of transmission";
} }
keys! { LOSS_STEPS {
    "steps", List(&Pair(&Time(ANY), &RATIO)), Required("[[\"0 s\", 0.01]]"), "Each probability from its time on";
} }
keys! { CHANNEL {
    "to-bad", RATIO, Required("0.01"), "Probability after each packet that the good state ends";
    "to-good", RATIO, Required("0.25"), "Probability after each packet that the bad state ends";
    "good", RATIO, Is("0"), "Probability of loss in the good state";
    "bad", RATIO, Is("1"), "Probability of loss in the bad state";
} }

const JITTER: Group = Group::new("jitter", &[]).with_kinds(
    "kind",
    None,
    &[
        variant("none", "No jitter", &[]),
        variant("rfc8868", "Gaussian of 5 ms, truncated at 3 standard deviations, folded", &[]),
        variant("truncated-gaussian", "The same with other values", &[GAUSSIAN]),
        variant("uniform", "Uniformly distributed from 0", &[UNIFORM]),
    ],
);
keys! { GAUSSIAN {
    "std", Time(ANY), Required("3 ms"), "Standard deviation";
    "bound", Number(ABOVE_0), Is("3"), "Standard deviations at which it is truncated";
} }
keys! { UNIFORM {
    "max", Time(ANY), Required("5 ms"), "Maximum";
} }

/// The link, and its reverse direction if it has one. Trace files are read from `traces`.
pub(super) fn links(keys: &mut read::Table<'_>, traces: &Traces) -> Vec<LinkSpec> {
    let link = ends(keys, LinkSpec::new("", "", ""));
    let link = one_direction(keys, link, traces);
    let duplex = keys.optional("duplex");
    let reverse = keys
        .with("reverse", |node| table(node, &REVERSE, |keys| one_direction(keys, link.reversed(), traces)));
    if duplex == Some(false) && reverse.is_some() {
        keys.wrong("duplex", "duplex is false, but there is a reverse: remove one of them");
    }
    let reverse = reverse.or_else(|| (duplex == Some(true)).then(|| link.reversed()));
    [Some(link), reverse].into_iter().flatten().collect()
}

/// Sets what is given of a direction, and leaves the rest as it is.
fn one_direction(keys: &mut read::Table<'_>, link: LinkSpec, traces: &Traces) -> LinkSpec {
    let mut link = direction(keys, link);
    keys.set_with("rate", &mut link.config.rate, |node| rate(node, traces));
    membership(keys, &mut link);
    keys.set_with("jitter", &mut link.config.jitter, jitter);
    link
}

/// A rate, steps of rates, or a trace file of `traces`.
pub(super) fn rate(node: &Node<'_>, traces: &Traces) -> Found<RateProfile> {
    if node.get_ref().as_str() == Some("unlimited") {
        return Ok(RateProfile::Unlimited);
    }
    if !node.get_ref().is_table() {
        return DataRate::read(node).map(RateProfile::Fixed);
    }
    if node.get_ref().get("token-bucket").is_some() {
        return table(node, &BUCKET, |keys| {
            let (rate, burst) = (keys.value("token-bucket"), keys.value("burst"));
            RateProfile::TokenBucket(TokenBucket { rate, burst, peak: keys.optional("peak") })
        });
    }
    table(node, &PROFILE, |keys| {
        let steps = keys.with("steps", |node| list(node, step));
        let [trace, mahimahi] = ["trace", "mahimahi"].map(|key| keys.optional::<String>(key));
        let period: Option<TimeDelta> = keys.optional("period");
        let scale: f64 = keys.value("scale");
        let direction = keys.optional("direction").unwrap_or_default();
        let profile = match (steps, trace, mahimahi) {
            (Some(steps), None, None) => Ok(trace::scaled(RateProfile::Steps { steps, period }, scale)),
            (None, Some(name), None) => trace::rates(traces, &name, period, Reading { direction, scale }),
            (None, None, Some(_)) if period.is_some() => Err(trace::OWN_PERIOD.to_owned()),
            (None, None, Some(name)) => trace::mahimahi(traces, &name, scale),
            _ => {
                let steps = "steps = [[\"0 s\", \"5 Mbit/s\"]]";
                Err(format!(
                    "set one of {steps}, trace = \"FILE\", mahimahi = \"FILE\" and token-bucket = \"5 Mbit/s\""
                ))
            }
        };
        profile.unwrap_or_else(|error| {
            keys.wrong("", error);
            RateProfile::Unlimited
        })
    })
}

/// A time and its rate, which may be zero: an outage.
fn step(node: &Node<'_>) -> Found<(Timestamp, DataRate)> {
    let (at, RateOrZero(rate)) = <(Timestamp, RateOrZero)>::read(node)?;
    Ok((at, rate))
}

impl Read for DelayProfile {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return TimeDelta::read(node).map(Self::from);
        }
        table(node, &DELAY, |keys| {
            Self::steps(keys.value("steps")).unwrap_or_else(|error| {
                keys.wrong("", error);
                TimeDelta::ZERO.into()
            })
        })
    }
}

impl Read for Loss {
    /// A probability, a list of packets, or a channel of two states.
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            // 0 is what a file means that has no loss.
            return f64::read(node).map(|share| if share == 0.0 { Self::None } else { Self::Random(share) });
        }
        named(node, &LOSS, |keys| match keys.kind(&LOSS) {
            Some("steps") => Self::Steps(keys.value("steps")),
            Some("gilbert-elliott") => {
                let [to_bad, to_good, good, bad] =
                    ["to-bad", "to-good", "good", "bad"].map(|key| keys.value(key));
                Self::GilbertElliott { to_bad, to_good, good, bad }
            }
            Some("packets") => Self::List(keys.value::<Vec<u64>>("packets").into_iter().collect()),
            kind => keys.without_reader(kind).unwrap_or(Self::None),
        })
    }
}

fn jitter(node: &Node<'_>) -> Found<Option<Jitter>> {
    named(node, &JITTER, |keys| match keys.kind(&JITTER)? {
        "none" => None,
        "rfc8868" => Some(Jitter::RFC8868),
        "truncated-gaussian" => {
            Some(Jitter::TruncatedGaussian { std: keys.value("std"), bound: keys.value("bound") })
        }
        "uniform" => Some(Jitter::Uniform { max: keys.value("max") }),
        kind => keys.without_reader(Some(kind)),
    })
}
