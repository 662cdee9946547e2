//! Queues: a kind, and its parameters.

use giusto_sim::link::queue::{
    CoDelConfig, DualPi2Config, FqCodelConfig, LatencyEstimate, Limit, MarkThreshold, PieConfig, RedConfig,
    Scheduler, StepMarkConfig, Thresholds,
};
use giusto_units::{DataSize, TimeDelta};

use super::{choose, fields::Fields};
use crate::scenario::{
    DEFAULT_QUEUE, QueueSpec,
    tree::{Entry, Node, Value},
};

#[derive(Debug, Clone, Copy)]
enum Kind {
    DropTail,
    CoDel,
    FqCodel,
    Pie,
    Red,
    DualPi2,
    StepMark,
}

const KINDS: &[(&str, Kind)] = &[
    ("drop-tail", Kind::DropTail),
    ("codel", Kind::CoDel),
    ("fq-codel", Kind::FqCodel),
    ("pie", Kind::Pie),
    ("red", Kind::Red),
    ("dualpi2", Kind::DualPi2),
    ("step-mark", Kind::StepMark),
];

/// A kind of queue by its name alone, or with its parameters.
pub(super) fn queue(fields: &Fields<'_>) -> Option<QueueSpec> {
    let node = fields.node("queue")?;
    if node.as_text().is_some() {
        let place = node.place.clone();
        let entry = Entry { key: "kind".to_owned(), place: place.clone(), node: node.clone() };
        let named = Node { place, value: Value::Table(vec![entry]) };
        return parameters(&Fields::new(&named, format!("{}: queue", fields.owner()), fields.findings()));
    }
    let Some(inner) = fields.table("queue") else {
        fields.complain(
            node,
            "queue",
            format_args!(
                "a kind is wanted, or a table such as {{ kind = \"drop-tail\", limit = \"100 packets\" }}"
            ),
        );
        return None;
    };
    let queue = parameters(&inner);
    if queue.is_some()
        || inner.node("kind").is_some_and(|kind| KINDS.iter().any(|(name, _)| kind.as_text() == Some(*name)))
    {
        inner.finish();
    }
    queue
}

/// Takes what `read` finds under `key` into `field`.
fn take<T>(field: &mut T, found: Option<T>) {
    if let Some(value) = found {
        *field = value;
    }
}

fn parameters(fields: &Fields<'_>) -> Option<QueueSpec> {
    let kind = fields.required("kind", |fields, key| choose(fields, key, KINDS))?;
    let queue = match kind {
        Kind::DropTail => QueueSpec::DropTail(limit(fields, "limit").unwrap_or(Limit::Time(DEFAULT_QUEUE))),
        Kind::CoDel => {
            let mut config = CoDelConfig::default();
            take(&mut config.target, fields.time("target"));
            take(&mut config.interval, fields.time("interval"));
            take(&mut config.max_packet, fields.size("max-packet"));
            take(&mut config.ecn, fields.flag("ecn"));
            take(&mut config.limit, limit(fields, "limit"));
            QueueSpec::CoDel(config)
        }
        Kind::FqCodel => {
            let mut config = FqCodelConfig::default();
            take(&mut config.target, fields.time("target"));
            take(&mut config.interval, fields.time("interval"));
            take(&mut config.max_packet, fields.size("max-packet"));
            take(&mut config.ecn, fields.flag("ecn"));
            config.ce_threshold = fields.time("ce-threshold");
            take(&mut config.queues, fields.count("queues", 1));
            take(&mut config.quantum, fields.size("quantum"));
            take(&mut config.limit, packets(fields, "limit"));
            config.memory = fields.size("memory");
            QueueSpec::FqCodel(config)
        }
        Kind::Pie => {
            let mut config = PieConfig::default();
            take(&mut config.target, fields.time("target"));
            take(&mut config.max_burst, fields.time("max-burst"));
            take(&mut config.update, fields.time("update"));
            take(&mut config.alpha, fields.number("alpha"));
            take(&mut config.beta, fields.number("beta"));
            let by_rate = fields.size("departure-threshold");
            take(&mut config.latency, by_rate.map(|threshold| LatencyEstimate::DepartureRate { threshold }));
            take(&mut config.mean_packet, fields.size("mean-packet"));
            take(&mut config.ecn, fields.flag("ecn"));
            take(&mut config.mark_threshold, fields.number("mark-threshold"));
            take(&mut config.derandomise, fields.flag("derandomise"));
            take(&mut config.cap_rise, fields.flag("cap-rise"));
            config.active_above = fields.size("active-above");
            take(&mut config.limit, limit(fields, "limit"));
            QueueSpec::Pie(config)
        }
        Kind::Red => QueueSpec::Red(red(fields)),
        Kind::DualPi2 => QueueSpec::DualPi2(dual_pi2(fields)),
        Kind::StepMark => {
            let mut config = StepMarkConfig::default();
            let threshold = limit(fields, "threshold").and_then(|threshold| match threshold {
                Limit::Time(time) => Some(MarkThreshold::Sojourn(time)),
                Limit::Packets(packets) => Some(MarkThreshold::Packets(packets)),
                Limit::Bytes(size) => Some(MarkThreshold::Bytes(size)),
                Limit::Unlimited => None,
            });
            take(&mut config.threshold, threshold);
            take(&mut config.limit, limit(fields, "limit"));
            QueueSpec::StepMark(config)
        }
    };
    Some(queue)
}

fn red(fields: &Fields<'_>) -> RedConfig {
    let mut config = RedConfig::default();
    let (min, max) = (limit(fields, "min"), limit(fields, "max"));
    match (min, max) {
        (None, None) => {}
        (Some(Limit::Packets(min)), Some(Limit::Packets(max))) => {
            config.thresholds = Thresholds::Packets { min, max }
        }
        (Some(Limit::Bytes(min)), Some(Limit::Bytes(max))) => {
            config.thresholds = Thresholds::Bytes { min, max }
        }
        _ => {
            if let Some(node) = fields.node("min").or(fields.node("max")) {
                fields.complain(
                    node,
                    "min",
                    format_args!("give min and max, both in packets or both in bytes"),
                );
            }
        }
    }
    take(&mut config.max_probability, fields.number("max-probability"));
    take(&mut config.weight, fields.number("weight"));
    take(&mut config.gentle, fields.flag("gentle"));
    take(&mut config.mean_packet, fields.size("mean-packet"));
    config.scale_by = fields.size("scale-by");
    take(&mut config.ecn, fields.flag("ecn"));
    take(&mut config.limit, limit(fields, "limit"));
    config
}

fn dual_pi2(fields: &Fields<'_>) -> DualPi2Config {
    let mut config = DualPi2Config::default();
    take(&mut config.target, fields.time("target"));
    take(&mut config.update, fields.time("update"));
    take(&mut config.alpha, fields.number("alpha"));
    take(&mut config.beta, fields.number("beta"));
    take(&mut config.coupling, fields.number("coupling"));
    take(&mut config.ramp_from, fields.time("ramp-from"));
    take(&mut config.ramp_width, fields.time("ramp-width"));
    take(&mut config.ramp_packets, fields.count("ramp-packets", 0).map(u64::from));
    take(&mut config.ramp_above_two_mtu, fields.flag("ramp-above-two-mtu"));
    take(&mut config.min_backlog, fields.size("min-backlog"));
    let (share, shift) = (fields.number("classic-share"), fields.time("time-shift"));
    take(&mut config.scheduler, share.map(|classic_share| Scheduler::WeightedRoundRobin { classic_share }));
    take(&mut config.scheduler, shift.map(|shift| Scheduler::TimeShiftedFifo { shift }));
    take(&mut config.mtu, fields.size("mtu"));
    take(&mut config.limit, limit(fields, "limit"));
    config
}

/// A limit that counts packets.
fn packets(fields: &Fields<'_>, key: &'static str) -> Option<u32> {
    let node = fields.node(key)?;
    if let Limit::Packets(packets) = limit(fields, key)? {
        return u32::try_from(packets).ok();
    }
    let found = node.written();
    fields.complain(
        node,
        key,
        format_args!("{found} counts no packets: write, for example, \"10240 packets\""),
    );
    None
}

/// `"100 packets"`, `"64 kB"`, `"300 ms"` or `"unlimited"`.
fn limit(fields: &Fields<'_>, key: &'static str) -> Option<Limit> {
    let node = fields.node(key)?;
    let text = node.as_text().unwrap_or_default().trim();
    let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
    let limit = match packets {
        Some(number) => number.trim().parse().ok().map(Limit::Packets),
        None if text == "unlimited" => Some(Limit::Unlimited),
        None if !text.contains(char::is_alphabetic) => None,
        None => {
            let size = text.parse::<DataSize>().ok().map(Limit::Bytes);
            size.or_else(|| text.parse::<TimeDelta>().ok().map(Limit::Time))
        }
    };
    let is_zero = matches!(
        limit,
        Some(Limit::Packets(0) | Limit::Bytes(DataSize::ZERO) | Limit::Time(TimeDelta::ZERO))
    );
    if limit.is_none() || is_zero {
        let what = if is_zero { "holds nothing" } else { "says not how much" };
        fields.complain(
            node,
            key,
            format_args!(
                "{} {what}: write, for example, \"100 packets\", \"64 kB\" or \"300 ms\"",
                node.written()
            ),
        );
        return None;
    }
    limit
}
