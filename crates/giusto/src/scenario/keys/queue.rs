//! Keys of queues.

use giusto_sim::link::queue::{
    CoDelConfig, DelayThresholdConfig, DualPi2Config, FqCodelConfig, LatencyEstimate, Limit, MarkThreshold,
    PieConfig, PolicerConfig, RedConfig, Scheduler, StepMarkConfig, Thresholds,
};

use super::prelude::*;
use crate::scenario::model::QueueSpec;

/// Defines the kinds of queues and their reader by rows: variant and configuration, kind in a file, text, keys, reader of the keys.
macro_rules! disciplines {
    ($($variant:ident($config:ty), $name:literal, $text:literal, $keys:ident, $read:expr;)*) => {
        pub(in crate::scenario) const QUEUE: Group = Group::new("queue", &[]).with_kinds(
            "kind",
            None,
            &[$(variant($name, $text, &[$keys])),*],
        );

        impl Read for QueueSpec {
            fn read(node: &Node<'_>) -> Found<Self> {
                named(node, &QUEUE, |keys| match keys.kind(&QUEUE) {
                    $(Some($name) => {
                        let read: fn(&mut read::Table<'_>) -> $config = $read;
                        QueueSpec::$variant(read(keys))
                    })*
                    // That its kind is missing or unknown is noted.
                    _ => Self::default(),
                })
            }
        }
    };
}

disciplines! {
    DropTail(Limit), "drop-tail", "First in, first out: drops what exceeds its limit", DROP_TAIL,
        |keys| keys.value("limit");
    CoDel(CoDelConfig), "codel", "CoDel, RFC 8289", CODEL, |keys| codel(keys, CoDelConfig::default());
    FqCodel(FqCodelConfig), "fq-codel", "FQ-CoDel, RFC 8290", FQ_CODEL, fq_codel_in_packets;
    Pie(PieConfig), "pie", "PIE, RFC 8033", PIE, |keys| pie(keys, PieConfig::default());
    Red(RedConfig), "red", "Random early detection, Floyd and Jacobson 1993", RED, |keys| {
        let thresholds = thresholds(keys);
        red(keys, RedConfig { thresholds, ..RedConfig::default() })
    };
    DualPi2(DualPi2Config), "dualpi2", "DualPI2, RFC 9332", DUAL_PI2, |keys| {
        let scheduler = scheduler(keys);
        dual_pi2(keys, DualPi2Config { scheduler, ..DualPi2Config::default() })
    };
    StepMark(StepMarkConfig), "step-mark", "Marks all packets above a threshold, RFC 9332 Appendix A", STEP_MARK,
        |keys| step_mark(keys, StepMarkConfig::default());
    DelayThreshold(DelayThresholdConfig), "delay-threshold", "Drops or marks at the head above a delay",
        DELAY_THRESHOLD, |keys| delay_threshold(keys, DelayThresholdConfig::default());
    Policer(PolicerConfig), "policer", "Drops packets that exceed a token bucket; none waits for tokens",
        POLICER, |keys| {
            let config = PolicerConfig::new(keys.value("rate"), keys.value("burst"));
            policer(keys, config)
        };
}

keys! { DROP_TAIL {
    "limit", Capacity, Shown("300 ms"), "Capacity";
} }

keys! { CODEL, codel(to: CoDelConfig) {
    "target", Time(ABOVE_0), Shown("5 ms"), "Acceptable standing delay" => to.target;
    "interval", Time(ABOVE_0), Shown("100 ms"), "Time above the target before signals start" => to.interval;
    "max-packet", Size(ABOVE_0), Is("1500 B"), "No signal at this backlog or less" => to.max_packet;
    "ecn", Switch, Is("true"), "Mark ECN-capable packets instead of dropping them" => to.ecn;
    "limit", Capacity, Shown("1000 packets"), "Capacity" => to.limit;
} }

keys! { FQ_CODEL, fq_codel(to: FqCodelConfig) {
    "target", Time(ABOVE_0), Shown("5 ms"), "Acceptable standing delay" => to.target;
    "interval", Time(ABOVE_0), Shown("100 ms"), "Time above the target before signals start" => to.interval;
    "max-packet", Size(ABOVE_0), Is("1500 B"), "No signal at this backlog or less" => to.max_packet;
    "ecn", Switch, Is("true"), "Mark ECN-capable packets instead of dropping them" => to.ecn;
    "ce-threshold", Time(ANY), Unset, "Mark above this delay" => to.ce_threshold;
    "queues", Whole(within(1.0, 65536.0)), Is("1024"), "Hash buckets" => to.queues;
    "quantum", Size(ABOVE_0), Is("1514 B"), "Bytes of a turn" => to.quantum;
    "limit", Capacity, Is("10240 packets"), "Capacity, in packets";
    "memory", Size(ABOVE_0), Unset, "Capacity in bytes, besides the limit" => to.memory;
} }

fn fq_codel_in_packets(keys: &mut read::Table<'_>) -> FqCodelConfig {
    let mut config = fq_codel(keys, FqCodelConfig::default());
    keys.set_with("limit", &mut config.limit, packets);
    config
}

/// A limit that counts packets.
fn packets(node: &Node<'_>) -> Found<u32> {
    let Limit::Packets(packets) = Limit::read(node)? else {
        return wrong(node, "expected a number of packets, such as \"10240 packets\"");
    };
    let too_many = |_| wrong(node, format_args!("must be at most {} packets, found {packets}", u32::MAX));
    u32::try_from(packets).or_else(too_many)
}

keys! { PIE, pie(to: PieConfig) {
    "target", Time(ABOVE_0), Shown("15 ms"), "Reference delay" => to.target;
    "max-burst", Time(ANY), Is("150 ms"), "Burst allowance" => to.max_burst;
    "update", Time(ABOVE_0), Is("15 ms"), "Update interval" => to.update;
    "alpha", GAIN, Is("0.125"), "Gain of the deviation from the target, in Hz" => to.alpha;
    "beta", GAIN, Is("1.25"), "Gain of the change of the delay, in Hz" => to.beta;
    "departure-threshold", Size(within(1.0, 65536.0)), Unset,
        "Estimate the delay from the departure rate above this backlog, instead of from timestamps" => to.latency;
    "mean-packet", Size(ABOVE_0), Is("1024 B"), "No signal at twice this backlog or less" => to.mean_packet;
    "ecn", Switch, Is("true"), "Mark ECN-capable packets instead of dropping them" => to.ecn;
    "mark-threshold", RATIO, Is("0.1"), "Drop instead of marking above this probability" => to.mark_threshold;
    "derandomise", Switch, Is("true"), "Drop at more regular distances (§5.4)" => to.derandomise;
    "cap-rise", Switch, Is("true"), "Bound the growth of the probability (§5.5)" => to.cap_rise;
    "active-above", Size(ABOVE_0), Unset, "Inactive below this backlog" => to.active_above;
    "limit", Capacity, Shown("1000 packets"), "Capacity" => to.limit;
} }
const GAIN: Kind = Number(within(0.0, 1e9));

keys! { RED, red(to: RedConfig) {
    "min", Capacity, Shown("5 packets"), "Queue length at which drops begin, in packets or bytes";
    "max", Capacity, Shown("15 packets"), "Queue length of `max-probability`, in the unit of `min`";
    "max-probability", Number(up_to(1.0)), Is("0.02"), "Probability at `max`" => to.max_probability;
    "weight", Number(up_to(1.0)), Is("0.002"), "Weight of the current length in the average" => to.weight;
    "gentle", Switch, Is("false"), "Raise the probability linearly above `max`" => to.gentle;
    "mean-packet", Size(ABOVE_0), Is("500 B"), "Typical packet" => to.mean_packet;
    "scale-by", Size(ABOVE_0), Unset, "Scale the probability by the packet's size over this" => to.scale_by;
    "ecn", Switch, Is("true"), "Mark ECN-capable packets instead of dropping them" => to.ecn;
    "limit", Capacity, Is("1000 packets"), "Capacity" => to.limit;
} }

fn thresholds(keys: &mut read::Table<'_>) -> Thresholds {
    match (keys.optional("min"), keys.optional("max")) {
        (Some(Limit::Packets(min)), Some(Limit::Packets(max))) => Thresholds::Packets { min, max },
        (Some(Limit::Bytes(min)), Some(Limit::Bytes(max))) => Thresholds::Bytes { min, max },
        (min, max) => {
            if min.is_some() || max.is_some() {
                keys.wrong("", "set min and max, both in packets or both in bytes");
            }
            RedConfig::default().thresholds
        }
    }
}

keys! { DUAL_PI2, dual_pi2(to: DualPi2Config) {
    "target", Time(ABOVE_0), Shown("15 ms"), "Target delay of the classic queue" => to.target;
    "update", Time(ABOVE_0), Is("16 ms"), "Update interval" => to.update;
    "alpha", GAIN, Is("0.16"), "Gain of the deviation from the target, in Hz" => to.alpha;
    "beta", GAIN, Is("3.2"), "Gain of the change of the delay, in Hz" => to.beta;
    "coupling", Number(up_to(1000.0)), Is("2"), "Coupling factor *k*" => to.coupling;
    "ramp-from", Time(ANY), Is("800 us"), "Start of the L4S marking ramp" => to.ramp_from;
    "ramp-width", Time(ANY), Is("400 us"), "Width of the L4S marking ramp" => to.ramp_width;
    "ramp-packets", Whole(ANY), Is("1"), "The ramp marks only above this length" => to.ramp_packets;
    "ramp-above-two-mtu", Switch, Is("false"), "On slow links, start the ramp at two MTU" => to.ramp_above_two_mtu;
    "min-backlog", Size(ABOVE_0), Unset, "No classic or coupled signal below this backlog" => to.min_backlog;
    "classic-share", Number(ABOVE_0), Said("0.0625"), "Share of the classic queue, below 1";
    "time-shift", Time(ANY), Unset, "Time-shifted FIFO with this shift, instead of `classic-share`";
    "mtu", Size(ABOVE_0), Is("1500 B"), "Largest packet" => to.mtu;
    "limit", Capacity, Is("10000 packets"), "Capacity" => to.limit;
} }

fn scheduler(keys: &mut read::Table<'_>) -> Scheduler {
    match (keys.optional("classic-share"), keys.optional("time-shift")) {
        (Some(classic_share), None) => Scheduler::WeightedRoundRobin { classic_share },
        (None, Some(shift)) => Scheduler::TimeShiftedFifo { shift },
        (share, _) => {
            if share.is_some() {
                keys.wrong("", "set classic-share or time-shift, not both");
            }
            DualPi2Config::default().scheduler
        }
    }
}

keys! { STEP_MARK, step_mark(to: StepMarkConfig) {
    "threshold", Capacity, Shown("1 ms"), "Mark above this delay or length" => to.threshold;
    "limit", Capacity, Is("1000 packets"), "Capacity" => to.limit;
} }

keys! { DELAY_THRESHOLD, delay_threshold(to: DelayThresholdConfig) {
    "threshold", Time(ANY), Shown("200 ms"), "Drop the head above this delay" => to.threshold;
    "hold-off", Time(ANY), Is("100 ms"), "No other drop for this long" => to.hold_off;
    "ecn", Switch, Is("false"), "Mark ECN-capable packets instead of dropping them" => to.ecn;
    "limit", Capacity, Is("1000 packets"), "Capacity" => to.limit;
} }

keys! { POLICER, policer(to: PolicerConfig) {
    "rate", Rate(ABOVE_0), Required("5 Mbit/s"), "Rate of the tokens";
    "burst", Size(ABOVE_0), Required("30 kB"), "Size of the bucket";
    "limit", Capacity, Is("1000 packets"), "Capacity" => to.limit;
} }

impl Read for LatencyEstimate {
    fn read(node: &Node<'_>) -> Found<Self> {
        Read::read(node).map(|threshold| Self::DepartureRate { threshold })
    }
}

impl Read for MarkThreshold {
    fn read(node: &Node<'_>) -> Found<Self> {
        match Limit::read(node)? {
            Limit::Time(time) => Ok(Self::Sojourn(time)),
            Limit::Packets(packets) => Ok(Self::Packets(packets)),
            Limit::Bytes(size) => Ok(Self::Bytes(size)),
            Limit::Unlimited => wrong(
                node,
                "expected a threshold, such as \"1 ms\", \"30 kB\" or \"20 packets\", found \"unlimited\": to mark nothing, use kind = \"drop-tail\"",
            ),
        }
    }
}
