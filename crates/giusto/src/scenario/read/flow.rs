//! Keys of flows: kind, route and times.

use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy};
use giusto_sim::{
    machine::{Machine, SleepModel},
    traffic::{
        Departures, PacketSize, Periods,
        tcp::{RtoFloor, Settings},
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    Context,
    link::rate,
    media::media,
    quantity::at_least,
    value::{Found, Kind, Node, Read, Table, choice, one_or_many, table},
};
use crate::scenario::model::{FlowKind, FlowSpec, LinkSpec, REVERSE, Start, TCP_CONTROLS, Transfers};

/// The default Pareto shape: between 1 and 2, heavy-tailed with a finite mean.
const PARETO_SHAPE: f64 = 1.5;

/// The flow; `links` are those of the file, which may give its ends, if all could be read.
pub(super) fn flow(
    keys: &mut Table<'_>,
    context: Context<'_>,
    links: Option<&[LinkSpec]>,
) -> Option<FlowSpec> {
    let id: String = keys.required("id");
    let [via, back] = ["via", "back"].map(|key| {
        let ids = keys.with(key, |node| one_or_many(node, String::read));
        ids.unwrap_or_default()
    });
    let given = (keys.optional("from"), keys.optional("to"));
    let count = keys.optional("count").unwrap_or(1);
    let start = keys.optional("start").unwrap_or(Start::At(Timestamp::ZERO));
    let stop = keys.optional("stop");
    let cbr = |keys: &mut Table<'_>| {
        let rate = keys.required_with("rate", |node| rate(node, context.traces));
        rate.map(Departures::Constant)
    };
    let poisson = |keys: &mut Table<'_>| Some(Departures::Poisson(keys.required("rate")));
    let kinds: [Kind<'_, '_, Option<FlowKind>>; 8] = [
        ("cbr", &|keys| source(keys, cbr)),
        ("on-off", &|keys| source(keys, on_off)),
        ("poisson", &|keys| source(keys, poisson)),
        ("pareto", &|keys| source(keys, |keys| Some(pareto(keys)))),
        ("tcp", &|keys| Some(tcp(keys))),
        ("short-flows", &|keys| Some(short_flows(keys))),
        ("paced", &paced),
        ("media", &|keys| Some(FlowKind::Media(media(keys, context.algorithms)))),
    ];
    let kind = keys.kind("kind", None, &kinds)??;
    let ends = ends(given, &via, links).unwrap_or_else(|| {
        keys.wrong("", "no route: set from and to, the sending and the receiving node");
        Default::default()
    });
    Some(FlowSpec { via, back, count, start, stop, ..FlowSpec::new(id, kind, ends) })
}

/// The ends of a flow: as given, or those of its route, or those of the only link. Routes are validated later.
fn ends(
    (from, to): (Option<String>, Option<String>),
    via: &[String],
    links: Option<&[LinkSpec]>,
) -> Option<(String, String)> {
    let find = |id: &String| links?.iter().find(|link| link.id == *id);
    let Some(links) = links.filter(|_| via.iter().all(|id| find(id).is_some())) else {
        return Some((from.unwrap_or_default(), to.unwrap_or_default()));
    };
    let mut forward = links.iter().filter(|link| !link.id.ends_with(REVERSE));
    let only = forward.next().filter(|_| via.is_empty() && forward.next().is_none());
    let (first, last) = (via.first().and_then(find).or(only), via.last().and_then(find).or(only));
    let from = from.or_else(|| first.map(|link| link.from.clone()));
    let to = to.or_else(|| last.map(|link| link.to.clone()));
    from.zip(to)
}

impl Read for Start {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return Timestamp::read(node).map(Self::At);
        }
        table(node, |keys| Self::Uniform(keys.required("uniform")))
    }
}

fn source<'t>(
    keys: &mut Table<'t>,
    departures: impl FnOnce(&mut Table<'t>) -> Option<Departures>,
) -> Option<FlowKind> {
    let (size, ecn) =
        (keys.required_with("size", PacketSize::read), keys.optional("ecn").unwrap_or_default());
    Some(FlowKind::Source { departures: departures(keys)?, size: size?, ecn })
}

fn on_off(keys: &mut Table<'_>) -> Option<Departures> {
    let rate = keys.required("rate");
    let [on, off] = ["on", "off"].map(|key| keys.required_with(key, Periods::read));
    Some(Departures::OnOff { rate, on: on?, off: off? })
}

impl Read for PacketSize {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return DataSize::read(node).map(Self::Fixed);
        }
        table(node, |keys| {
            let mean = keys.required("exponential");
            let (min, max) = Self::exponential(mean).range();
            let (min, max) = (keys.optional("min").unwrap_or(min), keys.optional("max").unwrap_or(max));
            Self::Exponential { mean, min, max }
        })
    }
}

impl Read for Periods {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return TimeDelta::read(node).map(Self::Fixed);
        }
        table(node, |keys| {
            let [pareto, exponential] = ["pareto", "exponential"].map(|key| keys.optional(key));
            match (pareto, exponential, keys.optional("shape")) {
                (Some(mean), None, shape) => Self::Pareto { mean, shape: shape.unwrap_or(PARETO_SHAPE) },
                (None, Some(mean), None) => Self::Exponential { mean },
                _ => {
                    keys.wrong("", "set exponential, or pareto and perhaps shape");
                    Self::Fixed(TimeDelta::ZERO)
                }
            }
        })
    }
}

fn pareto(keys: &mut Table<'_>) -> Departures {
    let rate = keys.required("rate");
    let means = ["on", "off"].map(|key| keys.required(key));
    let shape = keys.optional("shape").unwrap_or(PARETO_SHAPE);
    let [on, off] = means.map(|mean| Periods::Pareto { mean, shape });
    Departures::OnOff { rate, on, off }
}

fn tcp(keys: &mut Table<'_>) -> FlowKind {
    let transfers = keys.optional("bytes").map_or(Transfers::Unlimited, Transfers::Once);
    FlowKind::Tcp { settings: settings(keys), transfers }
}

fn short_flows(keys: &mut Table<'_>) -> FlowKind {
    let sizes = keys.with("size", |node| {
        if node.get_ref().is_array() {
            <(DataSize, DataSize)>::read(node)
        } else {
            DataSize::read(node).map(|size| (size, size))
        }
    });
    let transfers = Transfers::Short {
        sizes: sizes.map_or((30_000, 50_000), |(min, max)| (min.as_bytes(), max.as_bytes())),
        idle: keys.optional("idle").unwrap_or(TimeDelta::from_seconds(10)),
        starting_on: keys.with("starting-on", at_least(0)).unwrap_or(0),
        persistent: keys.optional("persistent").unwrap_or(false),
    };
    FlowKind::Tcp { settings: settings(keys), transfers }
}

pub(super) fn settings(keys: &mut Table<'_>) -> Settings {
    let mut settings = Settings::default();
    keys.set_with("control", &mut settings.algorithm, |node| choice(node, TCP_CONTROLS));
    if let Some(mss) = keys.optional("mss").map(DataSize::as_bytes) {
        settings.mss = u32::try_from(mss).unwrap_or(u32::MAX);
    }
    keys.set("sack", &mut settings.sack);
    keys.set("timestamps", &mut settings.timestamps);
    keys.set("ecn", &mut settings.ecn);
    keys.set("prr", &mut settings.prr);
    keys.set("rack", &mut settings.rack);
    keys.set("frto", &mut settings.frto);
    keys.set("hystart", &mut settings.hystart);
    keys.set("initial-window", &mut settings.initial_window);
    keys.set("segments-per-ack", &mut settings.segments_per_ack);
    keys.set("slow-start-limit", &mut settings.slow_start_limit);
    keys.set("initial-threshold", &mut settings.initial_threshold);
    keys.set("receive-window", &mut settings.receive_window);
    keys.set("delayed-ack", &mut settings.delayed_ack);
    settings.rto_floor = keys.optional("min-rto").map_or(settings.rto_floor, RtoFloor::Whole);
    settings
}

fn paced(keys: &mut Table<'_>) -> Option<FlowKind> {
    let strategies = Strategy::ALL.map(|strategy| (strategy.name(), strategy));
    let strategy = keys.with("strategy", |node| choice(node, strategies)).unwrap_or_default();
    let (rate, size): (DataRate, DataSize) = (keys.required("rate"), keys.required("size"));
    let rule = CycleRule::Given(keys.optional("packets-per-cycle").unwrap_or(1));
    let ecn = keys.optional("ecn").unwrap_or_default();
    let machine = keys.optional("machine").unwrap_or_default();
    // Rates and sizes of a scenario include all headers.
    let plan = CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, rule);
    let plan = plan.map_err(|error| keys.wrong("", error)).ok()?;
    Some(FlowKind::Paced { strategy, plan, machine, ecn })
}

impl Read for Machine {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return choice(node, [("ideal", Self::default()), ("sun-labs", Self::SUN_LABS)]);
        }
        table(node, |keys| {
            let mut machine = Self::default();
            keys.set("clock", &mut machine.clock_step);
            keys.set("sleep", &mut machine.sleep_step);
            keys.set("send-cost", &mut machine.send_cost);
            keys.set("look-cost", &mut machine.look_cost);
            if keys.optional("ticks") == Some(true) {
                machine.sleep_model = SleepModel::Ticks;
            }
            machine
        })
    }
}
