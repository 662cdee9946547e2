//! Keys of flows: kind, route and times.

use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy};
use giusto_sim::{
    machine::{Machine, SleepModel},
    traffic::{Departures, PacketSize, Periods},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    link::{LIMITED, rate},
    media::{MEDIA, media},
    prelude::*,
    tcp::{TCP, settings},
};
use crate::scenario::{
    media::MediaSpec,
    model::{FlowKind, FlowSpec, LinkSpec, REVERSE, Start, Transfers},
};

pub(in crate::scenario) const FLOW: Group = Group::new("flow", &[ANY_FLOW]).with_kinds(
    "kind",
    None,
    &[
        variant("cbr", "Constant bit rate, without control", &[CBR, SOURCE]),
        variant("on-off", "Constant bit rate with pauses", &[ON_OFF, SOURCE]),
        variant("poisson", "Packets at exponentially distributed distances", &[POISSON, SOURCE]),
        variant(
            "pareto",
            "Constant bit rate with pauses, both of Pareto-distributed length",
            &[PARETO, SOURCE],
        ),
        variant("tcp", "TCP", &[TRANSFER, TCP]),
        variant("short-flows", "Short TCP transfers with pauses, RFC 8868 §5.1", &[SHORT_FLOWS, TCP]),
        variant("paced", "A pacing strategy on a modelled machine", &[PACED]),
        variant("media", "Adaptive audio and video over RTP", &[MEDIA]),
    ],
);

keys! { ANY_FLOW, any_flow(to: FlowSpec) {
    "id", Name, Required("call"), "Name" => to.id;
    "via", Any(&[Name, List(&Name)]), Said("fewest links"), "Links that its packets take";
    "back", Any(&[Name, List(&Name)]), Said("fewest links"), "Links that answers take";
    "from", Text, Said("start of `via` or of the only link"), "Sending node";
    "to", Text, Said("end of `via` or of the only link"), "Receiving node";
    "count", COUNT, Shown("1"), "Number of such flows, called `ID-1`, `ID-2`, …; at most 100,000 in all" => to.count;
    "start", Any(&[Time(ANY), Table(&START)]), Is("0 s"), "Start" => to.start;
    "stop", Time(ABOVE_0), Said("end of the run"), "Time from which it sends nothing new" => to.stop;
} }

const START: Group = Group::new("start", &[DRAWN]);
keys! { DRAWN {
    "uniform", Time(ANY), Required("5 ms"), "Each flow starts at a random moment before this time";
} }

keys! { CBR {
    "rate", LIMITED, Required("64 kbit/s"), "Rate";
} }
keys! { POISSON {
    "rate", Rate(ABOVE_0), Required("64 kbit/s"), "Mean rate";
} }
keys! { ON_OFF {
    "rate", Rate(ABOVE_0), Required("64 kbit/s"), "Rate while it is on";
    "on", Any(&[Time(ABOVE_0), Table(&PERIODS)]), Required("1 s"), "Length of each period with packets";
    "off", Any(&[Time(ABOVE_0), Table(&PERIODS)]), Required("1 s"), "Length of each pause";
} }
const PERIODS: Group = Group::new("periods", &[DRAWN_PERIODS]);
keys! { DRAWN_PERIODS {
    "exponential", Time(ABOVE_0), Unset, "Mean of exponentially distributed lengths";
    "pareto", Time(ABOVE_0), Unset, "Mean of Pareto-distributed lengths, instead";
    "shape", SHAPE, Said("`1.5` with `pareto`"), "Pareto shape";
} }
const SHAPE: Kind = Number(above(1.0));
keys! { PARETO {
    "rate", Rate(ABOVE_0), Required("64 kbit/s"), "Rate while it is on";
    "on", Time(ABOVE_0), Required("1 s"), "Mean length of a period with packets";
    "off", Time(ABOVE_0), Required("1 s"), "Mean length of a pause";
    "shape", SHAPE, Is("1.5"), "Pareto shape";
} }
keys! { SOURCE {
    "size", Any(&[Size(ABOVE_0), Table(&SIZES)]), Required("1200 B"), "Size of a packet";
    "ecn", choice::<Ecn>(), Is("off"), "ECN codepoint";
} }
const SIZES: Group = Group::new("packet-size", &[DRAWN_SIZES]);
keys! { DRAWN_SIZES {
    "exponential", Size(ABOVE_0), Required("1200 B"), "Mean of exponentially distributed sizes, before the limits";
    "min", Size(ABOVE_0), Is("1 B"), "Smallest size";
    "max", Size(ABOVE_0), Is("65535 B"), "Largest size";
} }
keys! { PACED {
    "rate", Rate(ABOVE_0), Required("5 Mbit/s"), "Rate of the schedule";
    "size", Size(ABOVE_0), Required("1200 B"), "Size of a packet";
    "strategy", choice::<Strategy>(), Is("grid"), "Pacing strategy";
    "packets-per-cycle", COUNT, Is("1"), "Packets sent together";
    "machine", Any(&[Word("ideal"), Word("sun-labs"), Table(&MACHINE)]), Is("ideal"), "Model of the machine that sends";
    "ecn", choice::<Ecn>(), Is("off"), "ECN codepoint";
} }
const MACHINE: Group = Group::new("machine", &[MACHINE_KEYS]);
keys! { MACHINE_KEYS, machine(to: Machine) {
    "clock", Time(ANY), Is("0 s"), "Resolution of the clock" => to.clock_step;
    "sleep", Time(ANY), Is("0 s"), "Resolution of a sleep" => to.sleep_step;
    "send-cost", Time(ANY), Is("0 s"), "Time to send a packet" => to.send_cost;
    "look-cost", Time(ANY), Is("0 s"), "Time to look at the clock" => to.look_cost;
    "ticks", Switch, Is("false"), "A sleep ends with a tick of the system";
} }
keys! { TRANSFER {
    "bytes", Size(ABOVE_0), Said("endless"), "Data to send";
} }
keys! { SHORT_FLOWS {
    "size", Any(&[Size(ABOVE_0), Pair(&Size(ABOVE_0), &Size(ABOVE_0))]), Is("[\"30 kB\", \"50 kB\"]"),
        "Size of a transfer, or limits of uniformly distributed sizes";
    "idle", Time(ANY), Is("10 s"), "Mean of the exponentially distributed pauses";
    "starting-on", Whole(ANY), Is("0"), "Flows that start with a transfer, at most `count`; the others start with a pause";
    "persistent", Switch, Is("false"), "Use one connection for all transfers";
} }

/// The flow; `links` are those of the file, which may give its ends, if all could be read.
pub(super) fn flow(
    keys: &mut read::Table<'_>,
    context: Context<'_>,
    links: Option<&[LinkSpec]>,
) -> Option<FlowSpec> {
    // Its kind and ends follow.
    let none = FlowKind::Media(MediaSpec::new(None, None));
    let mut flow = any_flow(keys, FlowSpec::new("", none, "", ""));
    for (key, ids) in [("via", &mut flow.via), ("back", &mut flow.back)] {
        keys.set_with(key, ids, |node| one_or_many(node, String::read));
    }
    let given = (keys.optional("from"), keys.optional("to"));
    let kind = match keys.kind(&FLOW)? {
        "cbr" => source(keys, |keys| {
            keys.with("rate", |node| rate(node, context.traces)).map(Departures::Constant)
        }),
        "on-off" => source(keys, |keys| {
            let [on, off] = ["on", "off"].map(|key| keys.optional(key));
            Some(Departures::OnOff { rate: keys.value("rate"), on: on?, off: off? })
        }),
        "poisson" => source(keys, |keys| Some(Departures::Poisson(keys.value("rate")))),
        "pareto" => source(keys, |keys| {
            let shape = keys.value("shape");
            let [on, off] = ["on", "off"].map(|key| Periods::Pareto { mean: keys.value(key), shape });
            Some(Departures::OnOff { rate: keys.value("rate"), on, off })
        }),
        "short-flows" => Some(short_flows(keys)),
        "paced" => paced(keys),
        "media" => Some(FlowKind::Media(media(keys, context))),
        "tcp" => {
            let transfers = keys.optional("bytes").map_or(Transfers::Unlimited, Transfers::Once);
            Some(FlowKind::Tcp { settings: settings(keys), transfers })
        }
        kind => keys.without_reader(Some(kind)),
    }?;
    let (from, to) = ends(given.0, given.1, &flow.via, links).unwrap_or_else(|| {
        keys.wrong("", "no route: set from and to, the sending and the receiving node");
        Default::default()
    });
    Some(FlowSpec { kind, from, to, ..flow })
}

/// The ends of a flow: as given, or those of its route, or those of the only link. Routes are validated later.
fn ends(
    from: Option<String>,
    to: Option<String>,
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
        table(node, &START, |keys| Self::Uniform(keys.value("uniform")))
    }
}

fn source<'t>(
    keys: &mut read::Table<'t>,
    departures: impl FnOnce(&mut read::Table<'t>) -> Option<Departures>,
) -> Option<FlowKind> {
    let (size, ecn) = (keys.optional("size"), keys.optional("ecn").unwrap_or_default());
    Some(FlowKind::Source { departures: departures(keys)?, size: size?, ecn })
}

impl Read for PacketSize {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return DataSize::read(node).map(Self::Fixed);
        }
        table(node, &SIZES, |keys| {
            let mean = keys.value("exponential");
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
        table(node, &PERIODS, |keys| {
            let [pareto, exponential] = ["pareto", "exponential"].map(|key| keys.optional(key));
            match (pareto, exponential, keys.optional("shape")) {
                (Some(mean), None, shape) => Self::Pareto { mean, shape: shape.unwrap_or(1.5) },
                (None, Some(mean), None) => Self::Exponential { mean },
                _ => {
                    keys.wrong("", "set exponential, or pareto and perhaps shape");
                    Self::Fixed(TimeDelta::ZERO)
                }
            }
        })
    }
}

/// Limits of uniformly distributed sizes.
#[derive(Default)]
struct SizeLimits(DataSize, DataSize);

impl Read for SizeLimits {
    fn read(node: &Node<'_>) -> Found<Self> {
        if node.get_ref().is_array() {
            return <(DataSize, DataSize)>::read(node).map(|(min, max)| Self(min, max));
        }
        DataSize::read(node).map(|size| Self(size, size))
    }
}

fn short_flows(keys: &mut read::Table<'_>) -> FlowKind {
    let SizeLimits(min, max) = keys.value("size");
    let transfers = Transfers::Short {
        sizes: (min.as_bytes(), max.as_bytes()),
        idle: keys.value("idle"),
        starting_on: keys.value("starting-on"),
        persistent: keys.value("persistent"),
    };
    FlowKind::Tcp { settings: settings(keys), transfers }
}

fn paced(keys: &mut read::Table<'_>) -> Option<FlowKind> {
    let (rate, size): (DataRate, DataSize) = (keys.value("rate"), keys.value("size"));
    let rule = CycleRule::Given(keys.value("packets-per-cycle"));
    // Rates and sizes of a scenario include all headers.
    let plan = CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, rule);
    let (strategy, ecn) = (keys.value("strategy"), keys.value("ecn"));
    let machine = keys.value("machine");
    let plan = plan.map_err(|error| keys.wrong("", error)).ok()?;
    Some(FlowKind::Paced { strategy, plan, machine, ecn })
}

impl Read for Machine {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return read::choice(node, [("ideal", Self::default()), ("sun-labs", Self::SUN_LABS)]);
        }
        table(node, &MACHINE, |keys| {
            let mut machine = machine(keys, Self::default());
            if keys.optional("ticks") == Some(true) {
                machine.sleep_model = SleepModel::Ticks;
            }
            machine
        })
    }
}

names!(Strategy: Self::ALL.map(|strategy| (strategy.name(), strategy)).to_vec());

names!(Ecn: vec![("off", Self::NotEct), ("ect0", Self::Ect0), ("ect1", Self::Ect1)]);
