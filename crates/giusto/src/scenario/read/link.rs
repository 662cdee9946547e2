//! Keys of links: rate, delay, queue, loss, jitter.

use giusto_sim::link::{
    delay::{DelayProfile, Jitter},
    loss::Loss,
    rate::{RateProfile, TokenBucket},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    medium::membership,
    quantity::RateOrZero,
    value::{Found, Kind, Node, Read, Table, list, one_of, table},
};
use crate::scenario::{
    model::LinkSpec,
    trace::{self, Traces},
};

/// The link, and its reverse direction if it has one. Trace files are read from `traces`.
pub(super) fn links(keys: &mut Table<'_>, traces: &Traces) -> Vec<LinkSpec> {
    let [id, from, to] = ["id", "from", "to"].map(|key| keys.required::<String>(key));
    let mut link = LinkSpec::new(id, from, to);
    let duplex = keys.optional("duplex");
    direction(keys, &mut link, traces);
    let reverse = keys.with("reverse", |node| {
        table(node, |keys| {
            let mut reverse = link.reversed();
            direction(keys, &mut reverse, traces);
            reverse
        })
    });
    if duplex == Some(false) && reverse.is_some() {
        keys.wrong("duplex", "duplex is false, but there is a reverse: remove one of them");
    }
    let reverse = reverse.or_else(|| (duplex == Some(true)).then(|| link.reversed()));
    [Some(link), reverse].into_iter().flatten().collect()
}

/// Sets what is given of a direction, and leaves the rest as it is.
fn direction(keys: &mut Table<'_>, link: &mut LinkSpec, traces: &Traces) {
    keys.set_with("rate", &mut link.config.rate, |node| rate(node, traces));
    membership(keys, link);
    keys.set("delay", &mut link.config.delay);
    keys.set("queue", &mut link.queue);
    keys.set("loss", &mut link.config.loss);
    keys.set_with("jitter", &mut link.config.jitter, jitter);
    keys.set("reorder", &mut link.config.reorder);
    keys.set("duplication", &mut link.config.duplication);
    keys.set("corruption", &mut link.config.corruption);
}

/// A rate, steps of rates, or a trace file of `traces`.
pub(super) fn rate(node: &Node<'_>, traces: &Traces) -> Found<RateProfile> {
    if node.get_ref().as_str() == Some("unlimited") {
        return Ok(RateProfile::Unlimited);
    }
    if !node.get_ref().is_table() {
        return DataRate::read(node).map(RateProfile::Fixed);
    }
    table(node, |keys| {
        if let Some(bucket) = token_bucket(keys) {
            return RateProfile::TokenBucket(bucket);
        }
        let steps = keys.with("steps", |node| list(node, step));
        let [trace, mahimahi] = ["trace", "mahimahi"].map(|key| keys.optional::<String>(key));
        let period: Option<TimeDelta> = keys.optional("period");
        let profile = match (steps, trace, mahimahi) {
            (Some(steps), None, None) => Ok(RateProfile::Steps { steps, period }),
            (None, Some(name), None) => trace::rates(traces, &name, period),
            (None, None, Some(_)) if period.is_some() => {
                Err("a trace of Mahimahi has its own period: remove period".to_owned())
            }
            (None, None, Some(name)) => trace::mahimahi(traces, &name),
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

/// The shaper of a table with the key `token-bucket`.
fn token_bucket(keys: &mut Table<'_>) -> Option<TokenBucket> {
    let rate = keys.with("token-bucket", DataRate::read);
    if !keys.has("token-bucket") {
        return None;
    }
    let (burst, peak) = (keys.required("burst"), keys.optional("peak"));
    Some(TokenBucket { rate: rate.unwrap_or_default(), burst, peak })
}

impl Read for DelayProfile {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return TimeDelta::read(node).map(Self::from);
        }
        table(node, |keys| {
            Self::steps(keys.required("steps")).unwrap_or_else(|error| {
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
        let packets =
            |keys: &mut Table<'_>| Self::List(keys.required::<Vec<u64>>("packets").into_iter().collect());
        let channel = |keys: &mut Table<'_>| {
            let [to_bad, to_good] = ["to-bad", "to-good"].map(|key| keys.required(key));
            let (good, bad) = (keys.optional("good").unwrap_or(0.0), keys.optional("bad").unwrap_or(1.0));
            Self::GilbertElliott { to_bad, to_good, good, bad }
        };
        let steps = |keys: &mut Table<'_>| Self::Steps(keys.required("steps"));
        let default = if node.get_ref().get("steps").is_some() { "steps" } else { "packets" };
        let kinds: [Kind<'_, '_, _>; 3] =
            [("packets", &packets), ("steps", &steps), ("gilbert-elliott", &channel)];
        one_of(node, Some(default), &kinds)
    }
}

fn jitter(node: &Node<'_>) -> Found<Option<Jitter>> {
    let gaussian = |keys: &mut Table<'_>| {
        let (std, bound) = (keys.required("std"), keys.optional("bound").unwrap_or(3.0));
        Some(Jitter::TruncatedGaussian { std, bound })
    };
    let uniform = |keys: &mut Table<'_>| Some(Jitter::Uniform { max: keys.required("max") });
    let kinds: [Kind<'_, '_, _>; 4] = [
        ("rfc8868", &|_| Some(Jitter::RFC8868)),
        ("none", &|_| None),
        ("truncated-gaussian", &gaussian),
        ("uniform", &uniform),
    ];
    one_of(node, None, &kinds)
}
