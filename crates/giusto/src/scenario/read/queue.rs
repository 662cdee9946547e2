//! Keys of queues.

use giusto_sim::link::queue::{
    CoDelConfig, DelayThresholdConfig, DualPi2Config, FqCodelConfig, LatencyEstimate, Limit, MarkThreshold,
    PieConfig, PolicerConfig, RedConfig, Scheduler, StepMarkConfig, Thresholds,
};

use super::value::{Found, Kind, Node, Read, Table, one_of, wrong};
use crate::scenario::model::QueueSpec;

impl Read for QueueSpec {
    fn read(node: &Node<'_>) -> Found<Self> {
        let kinds: [Kind<'_, '_, Self>; 9] = [
            ("drop-tail", &drop_tail),
            ("codel", &codel),
            ("fq-codel", &fq_codel),
            ("pie", &pie),
            ("red", &red),
            ("dualpi2", &dual_pi2),
            ("step-mark", &step_mark),
            ("delay-threshold", &delay_threshold),
            ("policer", &policer),
        ];
        one_of(node, None, &kinds)
    }
}

fn drop_tail(keys: &mut Table<'_>) -> QueueSpec {
    keys.optional("limit").map_or_else(QueueSpec::default, QueueSpec::DropTail)
}

fn codel(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = CoDelConfig::default();
    keys.set("target", &mut config.target);
    keys.set("interval", &mut config.interval);
    keys.set("max-packet", &mut config.max_packet);
    keys.set("ecn", &mut config.ecn);
    keys.set("limit", &mut config.limit);
    QueueSpec::CoDel(config)
}

fn fq_codel(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = FqCodelConfig::default();
    keys.set("target", &mut config.target);
    keys.set("interval", &mut config.interval);
    keys.set("max-packet", &mut config.max_packet);
    keys.set("ecn", &mut config.ecn);
    keys.set("ce-threshold", &mut config.ce_threshold);
    keys.set("queues", &mut config.queues);
    keys.set("quantum", &mut config.quantum);
    keys.set_with("limit", &mut config.limit, packets);
    keys.set("memory", &mut config.memory);
    QueueSpec::FqCodel(config)
}

/// A limit that counts packets.
fn packets(node: &Node<'_>) -> Found<u32> {
    let Limit::Packets(packets) = Limit::read(node)? else {
        return wrong(node, "expected a number of packets, such as \"10240 packets\"");
    };
    let too_many = |_| wrong(node, format_args!("must be at most {} packets, found {packets}", u32::MAX));
    u32::try_from(packets).or_else(too_many)
}

fn pie(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = PieConfig::default();
    keys.set("target", &mut config.target);
    keys.set("max-burst", &mut config.max_burst);
    keys.set("update", &mut config.update);
    keys.set("alpha", &mut config.alpha);
    keys.set("beta", &mut config.beta);
    if let Some(threshold) = keys.optional("departure-threshold") {
        config.latency = LatencyEstimate::DepartureRate { threshold };
    }
    keys.set("mean-packet", &mut config.mean_packet);
    keys.set("ecn", &mut config.ecn);
    keys.set("mark-threshold", &mut config.mark_threshold);
    keys.set("derandomise", &mut config.derandomise);
    keys.set("cap-rise", &mut config.cap_rise);
    keys.set("active-above", &mut config.active_above);
    keys.set("limit", &mut config.limit);
    QueueSpec::Pie(config)
}

fn red(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = RedConfig::default();
    match (keys.optional("min"), keys.optional("max")) {
        (None, None) => {}
        (Some(Limit::Packets(min)), Some(Limit::Packets(max))) => {
            config.thresholds = Thresholds::Packets { min, max };
        }
        (Some(Limit::Bytes(min)), Some(Limit::Bytes(max))) => {
            config.thresholds = Thresholds::Bytes { min, max };
        }
        _ => keys.wrong("", "set min and max, both in packets or both in bytes"),
    }
    keys.set("max-probability", &mut config.max_probability);
    keys.set("weight", &mut config.weight);
    keys.set("gentle", &mut config.gentle);
    keys.set("mean-packet", &mut config.mean_packet);
    keys.set("scale-by", &mut config.scale_by);
    keys.set("ecn", &mut config.ecn);
    keys.set("limit", &mut config.limit);
    QueueSpec::Red(config)
}

fn dual_pi2(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = DualPi2Config::default();
    match (keys.optional("classic-share"), keys.optional("time-shift")) {
        (Some(_), Some(_)) => keys.wrong("", "set classic-share or time-shift, not both"),
        (Some(classic_share), None) => config.scheduler = Scheduler::WeightedRoundRobin { classic_share },
        (None, Some(shift)) => config.scheduler = Scheduler::TimeShiftedFifo { shift },
        (None, None) => {}
    }
    keys.set("target", &mut config.target);
    keys.set("update", &mut config.update);
    keys.set("alpha", &mut config.alpha);
    keys.set("beta", &mut config.beta);
    keys.set("coupling", &mut config.coupling);
    keys.set("ramp-from", &mut config.ramp_from);
    keys.set("ramp-width", &mut config.ramp_width);
    keys.set("ramp-packets", &mut config.ramp_packets);
    keys.set("ramp-above-two-mtu", &mut config.ramp_above_two_mtu);
    keys.set("min-backlog", &mut config.min_backlog);
    keys.set("mtu", &mut config.mtu);
    keys.set("limit", &mut config.limit);
    QueueSpec::DualPi2(config)
}

fn delay_threshold(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = DelayThresholdConfig::default();
    keys.set("threshold", &mut config.threshold);
    keys.set("hold-off", &mut config.hold_off);
    keys.set("ecn", &mut config.ecn);
    keys.set("limit", &mut config.limit);
    QueueSpec::DelayThreshold(config)
}

fn policer(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = PolicerConfig::new(keys.required("rate"), keys.required("burst"));
    keys.set("limit", &mut config.limit);
    QueueSpec::Policer(config)
}

fn step_mark(keys: &mut Table<'_>) -> QueueSpec {
    let mut config = StepMarkConfig::default();
    keys.set_with("threshold", &mut config.threshold, |node| match Limit::read(node)? {
        Limit::Time(time) => Ok(MarkThreshold::Sojourn(time)),
        Limit::Packets(packets) => Ok(MarkThreshold::Packets(packets)),
        Limit::Bytes(size) => Ok(MarkThreshold::Bytes(size)),
        Limit::Unlimited => {
            wrong(node, "expected a threshold, such as \"1 ms\", \"30 kB\" or \"20 packets\", found \"unlimited\": to mark nothing, use kind = \"drop-tail\"")
        }
    });
    keys.set("limit", &mut config.limit);
    QueueSpec::StepMark(config)
}
