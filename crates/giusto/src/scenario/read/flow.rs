//! Keys of flows: kind, route and times.

use std::path::Path;

use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy};
use giusto_sim::{
    machine::{Machine, SleepModel},
    traffic::{
        Departures, Periods,
        tcp::{Algorithm, RtoFloor, Settings},
    },
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use serde::{Deserialize, Deserializer};

use super::{
    ecn::EcnName,
    link::RateKeys,
    media::MediaKeys,
    quantity::{Count, Q, count, optional, optional_count, quantity},
    value::{Both, OneOrMany, Shape},
};
use crate::scenario::{
    error::{KeyError, unknown},
    model::{FlowKind, FlowSpec, LinkSpec, REVERSE, Start, Transfers},
};

/// The default Pareto shape: between 1 and 2, heavy-tailed with a finite mean.
const PARETO_SHAPE: f64 = 1.5;

pub(super) type FlowKeys = Both<Common, KindKeys>;

/// Keys of every flow.
#[derive(Deserialize)]
pub(super) struct Common {
    id: String,
    via: Option<OneOrMany<String>>,
    back: Option<OneOrMany<String>>,
    from: Option<String>,
    to: Option<String>,
    count: Option<Count<1>>,
    start: Option<Shape<Q<Timestamp>, UniformStart>>,
    stop: Option<Q<Timestamp>>,
}

#[derive(Deserialize)]
struct UniformStart {
    uniform: Q<TimeDelta>,
}

#[derive(Deserialize)]
#[serde(rename = "kind", rename_all = "kebab-case")]
pub(super) enum KindKeys {
    Cbr(Both<Packets, Cbr>),
    OnOff(Both<Packets, OnOff>),
    Poisson(Both<Packets, Poisson>),
    Pareto(Both<Packets, Pareto>),
    Tcp(Both<Bulk, Tcp>),
    ShortFlows(Both<ShortFlows, Tcp>),
    Paced(Paced),
    Media(Box<MediaKeys>),
}

#[derive(Deserialize)]
pub(super) struct Packets {
    size: Q<DataSize>,
    ecn: Option<EcnName>,
}

#[derive(Deserialize)]
pub(super) struct Cbr {
    rate: RateKeys,
}

#[derive(Deserialize)]
pub(super) struct Poisson {
    rate: Q<DataRate>,
}

#[derive(Deserialize)]
pub(super) struct OnOff {
    rate: Q<DataRate>,
    on: PeriodKeys,
    off: PeriodKeys,
}

type PeriodKeys = Shape<Q<TimeDelta>, PeriodTable>;

#[derive(Deserialize)]
pub(super) struct PeriodTable {
    pareto: Option<Q<TimeDelta>>,
    exponential: Option<Q<TimeDelta>>,
    shape: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Pareto {
    rate: Q<DataRate>,
    on: Q<TimeDelta>,
    off: Q<TimeDelta>,
    shape: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Bulk {
    bytes: Option<Q<DataSize>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ShortFlows {
    size: Option<Sizes>,
    idle: Option<Q<TimeDelta>>,
    starting_on: Option<Count<0>>,
    persistent: Option<bool>,
}

/// One size, or the minimum and the maximum.
#[derive(Deserialize)]
#[serde(rename = "Shape", rename_all = "lowercase")]
enum Sizes {
    Value(Q<DataSize>),
    List((Q<DataSize>, Q<DataSize>)),
}

#[derive(Deserialize)]
pub(super) struct Tcp(#[serde(with = "SettingsKeys")] Settings);

#[derive(Deserialize)]
#[serde(remote = "Settings", default = "Settings::default", rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "they mirror those of the settings")]
struct SettingsKeys {
    #[serde(rename = "control")]
    algorithm: Algorithm,
    #[serde(deserialize_with = "bytes")]
    mss: u32,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    prr: bool,
    hystart: Option<bool>,
    #[serde(deserialize_with = "count")]
    initial_window: u32,
    #[serde(deserialize_with = "count")]
    segments_per_ack: u32,
    #[serde(deserialize_with = "optional_count")]
    slow_start_limit: Option<u32>,
    #[serde(deserialize_with = "optional")]
    initial_threshold: Option<DataSize>,
    #[serde(deserialize_with = "quantity")]
    receive_window: DataSize,
    #[serde(deserialize_with = "quantity")]
    delayed_ack: TimeDelta,
    #[serde(rename = "min-rto", deserialize_with = "whole_floor")]
    rto_floor: RtoFloor,
}

fn bytes<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let size: DataSize = quantity(value)?;
    Ok(u32::try_from(size.as_bytes()).unwrap_or(u32::MAX))
}

fn whole_floor<'de, D: Deserializer<'de>>(value: D) -> Result<RtoFloor, D::Error> {
    quantity(value).map(RtoFloor::Whole)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Paced {
    strategy: Option<String>,
    rate: Q<DataRate>,
    size: Q<DataSize>,
    packets_per_cycle: Option<Count<1>>,
    ecn: Option<EcnName>,
    machine: Option<Shape<MachineName, MachineKeys>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MachineName {
    Ideal,
    SunLabs,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MachineKeys {
    clock: Option<Q<TimeDelta>>,
    sleep: Option<Q<TimeDelta>>,
    send_cost: Option<Q<TimeDelta>>,
    look_cost: Option<Q<TimeDelta>>,
    ticks: Option<bool>,
}

/// The flow; `links` are those of the file, which may give its ends, if all could be read.
pub(super) fn flow(keys: FlowKeys, folder: &Path, links: Option<&[LinkSpec]>) -> Result<FlowSpec, KeyError> {
    let Both(common, kind) = keys;
    let via = common.via.map(OneOrMany::into_vec).unwrap_or_default();
    let ends = ends((common.from, common.to), &via, links)?;
    let start = match common.start {
        None => Start::At(Timestamp::ZERO),
        Some(Shape::Value(Q(at))) => Start::At(at),
        Some(Shape::Table(UniformStart { uniform })) => Start::Uniform(uniform.0),
    };
    Ok(FlowSpec {
        via,
        back: common.back.map(OneOrMany::into_vec).unwrap_or_default(),
        count: common.count.map_or(1, |count| count.0),
        start,
        stop: common.stop.map(|stop| stop.0),
        ..FlowSpec::new(common.id, kind.read(folder)?, ends)
    })
}

/// The ends of a flow: as given, or those of its route, or those of the only link.
fn ends(
    (from, to): (Option<String>, Option<String>),
    via: &[String],
    links: Option<&[LinkSpec]>,
) -> Result<(String, String), KeyError> {
    let Some(links) = links else { return Ok((from.unwrap_or_default(), to.unwrap_or_default())) };
    let find = |id: &String| links.iter().find(|link| link.id == *id);
    if let Some(id) = via.iter().find(|id| find(id).is_none()) {
        let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
        return Err(("via", format!("via: {}", unknown("link", id, &known))));
    }
    let mut forward = links.iter().filter(|link| !link.id.ends_with(REVERSE));
    let only = forward.next().filter(|_| via.is_empty() && forward.next().is_none());
    let (first, last) = (via.first().and_then(find).or(only), via.last().and_then(find).or(only));
    let from = from.or_else(|| first.map(|link| link.from.clone()));
    let to = to.or_else(|| last.map(|link| link.to.clone()));
    from.zip(to)
        .ok_or_else(|| ("", "no route: set from and to, the sending and the receiving node".to_owned()))
}

impl KindKeys {
    fn read(self, folder: &Path) -> Result<FlowKind, KeyError> {
        let source = |packets: Packets, departures| FlowKind::Source {
            departures,
            size: packets.size.0,
            ecn: packets.ecn.map_or(Ecn::NotEct, Ecn::from),
        };
        Ok(match self {
            Self::Cbr(Both(packets, Cbr { rate })) => {
                let rate = rate.profile(folder).map_err(|text| ("rate", format!("rate: {text}")))?;
                source(packets, Departures::Constant(rate))
            }
            Self::Poisson(Both(packets, Poisson { rate })) => source(packets, Departures::Poisson(rate.0)),
            Self::OnOff(Both(packets, OnOff { rate, on, off })) => {
                let on = periods(&on).map_err(|text| ("on", format!("on: {text}")))?;
                let off = periods(&off).map_err(|text| ("off", format!("off: {text}")))?;
                source(packets, Departures::OnOff { rate: rate.0, on, off })
            }
            Self::Pareto(Both(packets, Pareto { rate, on, off, shape })) => {
                let shape = shape.unwrap_or(PARETO_SHAPE);
                let [on, off] = [on, off].map(|mean| Periods::Pareto { mean: mean.0, shape });
                source(packets, Departures::OnOff { rate: rate.0, on, off })
            }
            Self::Tcp(Both(Bulk { bytes }, Tcp(settings))) => {
                let transfers = bytes.map_or(Transfers::Unlimited, |bytes| Transfers::Once(bytes.0));
                FlowKind::Tcp { settings, transfers }
            }
            Self::ShortFlows(Both(short, Tcp(settings))) => {
                let sizes = match short.size {
                    None => (30_000, 50_000),
                    Some(Sizes::Value(size)) => (size.0.as_bytes(), size.0.as_bytes()),
                    Some(Sizes::List((min, max))) => (min.0.as_bytes(), max.0.as_bytes()),
                };
                let transfers = Transfers::Short {
                    sizes,
                    idle: short.idle.map_or(TimeDelta::from_seconds(10), |idle| idle.0),
                    starting_on: short.starting_on.map_or(0, |count| count.0),
                    persistent: short.persistent.unwrap_or(false),
                };
                FlowKind::Tcp { settings, transfers }
            }
            Self::Paced(keys) => paced(keys)?,
            Self::Media(keys) => FlowKind::Media(keys.read()?),
        })
    }
}

fn periods(keys: &PeriodKeys) -> Result<Periods, String> {
    match *keys {
        Shape::Value(Q(time)) => Ok(Periods::Fixed(time)),
        Shape::Table(PeriodTable { pareto: Some(Q(mean)), exponential: None, shape }) => {
            Ok(Periods::Pareto { mean, shape: shape.unwrap_or(PARETO_SHAPE) })
        }
        Shape::Table(PeriodTable { pareto: None, exponential: Some(Q(mean)), shape: None }) => {
            Ok(Periods::Exponential { mean })
        }
        Shape::Table(_) => Err("set exponential, or pareto and perhaps shape".to_owned()),
    }
}

fn paced(keys: Paced) -> Result<FlowKind, KeyError> {
    let strategy = match &keys.strategy {
        None => Strategy::default(),
        Some(name) => {
            Strategy::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
                (
                    "strategy",
                    format!("strategy: {}", unknown("name", name, &Strategy::ALL.map(Strategy::name))),
                )
            })?
        }
    };
    // Rates and sizes of a scenario include all headers.
    let rule = CycleRule::Given(keys.packets_per_cycle.map_or(1, |count| count.0));
    let plan = CyclePlan::new(keys.rate.0, keys.size.0, HeaderLayer::Payload, IpVersion::V4, rule);
    let machine = match keys.machine {
        None | Some(Shape::Value(MachineName::Ideal)) => Machine::default(),
        Some(Shape::Value(MachineName::SunLabs)) => Machine::SUN_LABS,
        Some(Shape::Table(keys)) => {
            let time = |time: Option<Q<TimeDelta>>| time.map_or(TimeDelta::ZERO, |time| time.0);
            Machine {
                clock_step: time(keys.clock),
                sleep_step: time(keys.sleep),
                send_cost: time(keys.send_cost),
                look_cost: time(keys.look_cost),
                sleep_model: if keys.ticks == Some(true) { SleepModel::Ticks } else { SleepModel::default() },
                ..Machine::default()
            }
        }
    };
    Ok(FlowKind::Paced {
        strategy,
        plan: plan.map_err(|error| ("", error.to_string()))?,
        machine,
        ecn: keys.ecn.map_or(Ecn::NotEct, Ecn::from),
    })
}
