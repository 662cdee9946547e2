//! Keys of links: rate, delay, queue, loss, jitter.

use std::{collections::BTreeSet, fs, path::Path};

use giusto_sim::link::{
    delay::{DelayProfile, Jitter},
    loss::Loss,
    rate::RateProfile,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::Deserialize;

use super::{
    quantity::{Q, Quantity, pairs},
    queue::queue,
    value::{Both, Shape},
};
use crate::scenario::{
    error::{KeyError, unreadable},
    model::{LinkSpec, QueueSpec},
    trace,
};

pub(super) type LinkKeys = Both<Ends, Direction>;

#[derive(Deserialize)]
pub(super) struct Ends {
    id: String,
    from: String,
    to: String,
    duplex: Option<bool>,
    reverse: Option<Direction>,
}

/// What each direction has of its own.
#[derive(Deserialize)]
pub(super) struct Direction {
    rate: Option<RateKeys>,
    delay: Option<Shape<Q<TimeDelta>, DelaySteps>>,
    #[serde(default, deserialize_with = "queue")]
    queue: Option<QueueSpec>,
    loss: Option<Shape<f64, LossKeys>>,
    jitter: Option<JitterKeys>,
    reorder: Option<bool>,
    duplication: Option<f64>,
}

/// A rate, steps of rates, or a trace file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "Shape", rename_all = "lowercase")]
pub(super) enum RateKeys {
    Value(Q<RateOrUnlimited>),
    Table(RateTable),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RateOrUnlimited(Option<DataRate>);

impl Quantity for RateOrUnlimited {
    const EXPECTED: &'static str = DataRate::EXPECTED;

    fn read(text: &str) -> Result<Self, String> {
        if text == "unlimited" { Ok(Self(None)) } else { DataRate::read(text).map(|rate| Self(Some(rate))) }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RateTable {
    steps: Option<Vec<(Q<Timestamp>, Q<DataRate>)>>,
    trace: Option<String>,
    mahimahi: Option<String>,
    period: Option<Q<TimeDelta>>,
}

impl RateKeys {
    /// The rate; trace files are read from `folder`.
    pub(super) fn profile(self, folder: &Path) -> Result<RateProfile, String> {
        let table = match self {
            Self::Value(Q(RateOrUnlimited(None))) => return Ok(RateProfile::Unlimited),
            Self::Value(Q(RateOrUnlimited(Some(rate)))) => return Ok(RateProfile::Fixed(rate)),
            Self::Table(table) => table,
        };
        let period = table.period.map(|period| period.0);
        let readable = |name: String| {
            let path = folder.join(name);
            fs::metadata(&path).map_err(|error| unreadable(&path, &error)).map(|_| path)
        };
        match (table.steps, table.trace, table.mahimahi) {
            (Some(steps), None, None) => Ok(RateProfile::Steps { steps: pairs(steps), period }),
            (None, Some(name), None) => trace::rates(&readable(name)?, period),
            (None, None, Some(_)) if period.is_some() => {
                Err("a trace of Mahimahi has its own period: remove period".to_owned())
            }
            (None, None, Some(name)) => trace::mahimahi(&readable(name)?),
            _ => {
                let steps = "steps = [[\"0 s\", \"5 Mbit/s\"]]";
                Err(format!("set one of {steps}, trace = \"FILE\" and mahimahi = \"FILE\""))
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct DelaySteps {
    steps: Vec<(Q<Timestamp>, Q<TimeDelta>)>,
}

/// A list of packets, or a channel of two states.
#[derive(Deserialize)]
#[serde(rename = "kind=packets", rename_all = "kebab-case")]
pub(super) enum LossKeys {
    Packets(LossList),
    GilbertElliott(GilbertElliott),
}

#[derive(Deserialize)]
pub(super) struct LossList {
    packets: BTreeSet<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct GilbertElliott {
    to_bad: f64,
    to_good: f64,
    good: Option<f64>,
    bad: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename = "kind", rename_all = "kebab-case")]
pub(super) enum JitterKeys {
    Rfc8868(Empty),
    None(Empty),
    TruncatedGaussian(Gaussian),
    Uniform(Uniform),
}

#[derive(Deserialize)]
pub(super) struct Empty {}

#[derive(Deserialize)]
pub(super) struct Gaussian {
    std: Q<TimeDelta>,
    bound: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Uniform {
    max: Q<TimeDelta>,
}

/// The link, and its reverse direction if it has one.
pub(super) fn links(keys: LinkKeys, folder: &Path) -> Result<Vec<LinkSpec>, KeyError> {
    let Both(Ends { id, from, to, duplex, reverse }, forward) = keys;
    let mut link = LinkSpec::new(id, from, to);
    forward.apply(&mut link, folder)?;
    let reverse = match (duplex, reverse) {
        (Some(false), Some(_)) => {
            return Err(("duplex", "duplex is false, but there is a reverse: remove one of them".to_owned()));
        }
        (_, Some(keys)) => {
            let mut reverse = link.reversed();
            keys.apply(&mut reverse, folder).map_err(|(key, text)| ("reverse", format!("{key}: {text}")))?;
            Some(reverse)
        }
        (duplex, None) => (duplex == Some(true)).then(|| link.reversed()),
    };
    Ok(std::iter::once(link).chain(reverse).collect())
}

impl Direction {
    /// Sets what is given, and leaves the rest as it is.
    fn apply(self, link: &mut LinkSpec, folder: &Path) -> Result<(), KeyError> {
        let config = &mut link.config;
        if let Some(rate) = self.rate {
            config.rate = rate.profile(folder).map_err(|text| ("rate", format!("rate: {text}")))?;
        }
        match self.delay {
            Some(Shape::Value(Q(delay))) => config.delay = delay.into(),
            Some(Shape::Table(DelaySteps { steps })) => {
                let profile = DelayProfile::steps(pairs(steps));
                config.delay = profile.map_err(|error| ("delay", error.to_string()))?;
            }
            None => {}
        }
        match self.loss {
            Some(Shape::Value(probability)) => config.loss = Loss::Random(probability),
            Some(Shape::Table(LossKeys::Packets(list))) => config.loss = Loss::List(list.packets),
            Some(Shape::Table(LossKeys::GilbertElliott(keys))) => {
                let GilbertElliott { to_bad, to_good, good, bad } = keys;
                let (good, bad) = (good.unwrap_or(0.0), bad.unwrap_or(1.0));
                config.loss = Loss::GilbertElliott { to_bad, to_good, good, bad };
            }
            None => {}
        }
        match self.jitter {
            Some(JitterKeys::Rfc8868(_)) => config.jitter = Some(Jitter::RFC8868),
            Some(JitterKeys::None(_)) => config.jitter = None,
            Some(JitterKeys::TruncatedGaussian(Gaussian { std, bound })) => {
                config.jitter = Some(Jitter::TruncatedGaussian { std: std.0, bound: bound.unwrap_or(3.0) });
            }
            Some(JitterKeys::Uniform(Uniform { max })) => {
                config.jitter = Some(Jitter::Uniform { max: max.0 });
            }
            None => {}
        }
        link.queue = self.queue.unwrap_or_else(|| link.queue.clone());
        config.reorder = self.reorder.unwrap_or(config.reorder);
        config.duplication = self.duplication.unwrap_or(config.duplication);
        Ok(())
    }
}
