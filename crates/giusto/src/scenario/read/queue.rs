//! Keys of queues.

use giusto_sim::link::queue::{
    CoDelConfig, DualPi2Config, FqCodelConfig, LatencyEstimate, Limit, MarkThreshold, PieConfig, RedConfig,
    Scheduler, StepMarkConfig, Thresholds,
};
use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Deserializer, de::Error};

use super::{
    quantity::{Q, count, optional, quantity},
    value::Both,
};
use crate::scenario::model::{DEFAULT_QUEUE, QueueSpec};

/// A kind of queue and its parameters.
#[derive(Deserialize)]
#[serde(remote = "QueueSpec", rename = "kind", rename_all = "kebab-case")]
enum QueueKeys {
    #[serde(deserialize_with = "drop_tail")]
    DropTail(Limit),
    #[serde(rename = "codel", with = "CoDelKeys")]
    CoDel(CoDelConfig),
    #[serde(with = "FqCodelKeys")]
    FqCodel(FqCodelConfig),
    #[serde(with = "PieKeys")]
    Pie(PieConfig),
    #[serde(deserialize_with = "red")]
    Red(RedConfig),
    #[serde(rename = "dualpi2", deserialize_with = "dual_pi2")]
    DualPi2(DualPi2Config),
    #[serde(with = "StepMarkKeys")]
    StepMark(StepMarkConfig),
}

pub(super) fn queue<'de, D: Deserializer<'de>>(value: D) -> Result<Option<QueueSpec>, D::Error> {
    QueueKeys::deserialize(value).map(Some)
}

#[derive(Deserialize)]
struct DropTailKeys {
    limit: Option<Q<Limit>>,
}

fn drop_tail<'de, D: Deserializer<'de>>(value: D) -> Result<Limit, D::Error> {
    let keys = DropTailKeys::deserialize(value)?;
    Ok(keys.limit.map_or(Limit::Time(DEFAULT_QUEUE), |limit| limit.0))
}

#[derive(Deserialize)]
#[serde(remote = "CoDelConfig", default = "CoDelConfig::default", rename_all = "kebab-case")]
struct CoDelKeys {
    #[serde(deserialize_with = "quantity")]
    target: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    interval: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    max_packet: DataSize,
    ecn: bool,
    #[serde(deserialize_with = "quantity")]
    limit: Limit,
}

#[derive(Deserialize)]
#[serde(remote = "FqCodelConfig", default = "FqCodelConfig::default", rename_all = "kebab-case")]
struct FqCodelKeys {
    #[serde(deserialize_with = "quantity")]
    target: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    interval: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    max_packet: DataSize,
    ecn: bool,
    #[serde(deserialize_with = "optional")]
    ce_threshold: Option<TimeDelta>,
    #[serde(deserialize_with = "count")]
    queues: u32,
    #[serde(deserialize_with = "quantity")]
    quantum: DataSize,
    #[serde(deserialize_with = "packets")]
    limit: u32,
    #[serde(deserialize_with = "optional")]
    memory: Option<DataSize>,
}

/// A limit that counts packets.
fn packets<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let Limit::Packets(packets) = quantity(value)? else {
        return Err(D::Error::custom("expected a number of packets, such as \"10240 packets\""));
    };
    let too_many =
        |_| D::Error::custom(format_args!("must be at most {} packets, found {packets}", u32::MAX));
    u32::try_from(packets).map_err(too_many)
}

#[derive(Deserialize)]
#[serde(remote = "PieConfig", default = "PieConfig::default", rename_all = "kebab-case")]
struct PieKeys {
    #[serde(deserialize_with = "quantity")]
    target: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    max_burst: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    update: TimeDelta,
    alpha: f64,
    beta: f64,
    #[serde(rename = "departure-threshold", deserialize_with = "departure_rate")]
    latency: LatencyEstimate,
    #[serde(deserialize_with = "quantity")]
    mean_packet: DataSize,
    ecn: bool,
    mark_threshold: f64,
    derandomise: bool,
    cap_rise: bool,
    #[serde(deserialize_with = "optional")]
    active_above: Option<DataSize>,
    #[serde(deserialize_with = "quantity")]
    limit: Limit,
}

fn departure_rate<'de, D: Deserializer<'de>>(value: D) -> Result<LatencyEstimate, D::Error> {
    quantity(value).map(|threshold| LatencyEstimate::DepartureRate { threshold })
}

#[derive(Deserialize)]
#[serde(remote = "RedConfig", default = "RedConfig::default", rename_all = "kebab-case")]
struct RedKeys {
    #[serde(skip)]
    thresholds: Thresholds,
    max_probability: f64,
    weight: f64,
    gentle: bool,
    #[serde(deserialize_with = "quantity")]
    mean_packet: DataSize,
    #[serde(deserialize_with = "optional")]
    scale_by: Option<DataSize>,
    ecn: bool,
    #[serde(deserialize_with = "quantity")]
    limit: Limit,
}

#[derive(Deserialize)]
struct ThresholdKeys {
    min: Option<Q<Limit>>,
    max: Option<Q<Limit>>,
}

#[derive(Deserialize)]
struct Red(#[serde(with = "RedKeys")] RedConfig);

fn red<'de, D: Deserializer<'de>>(value: D) -> Result<RedConfig, D::Error> {
    let Both(ThresholdKeys { min, max }, Red(config)) = Deserialize::deserialize(value)?;
    let thresholds = match (min, max) {
        (None, None) => config.thresholds,
        (Some(Q(Limit::Packets(min))), Some(Q(Limit::Packets(max)))) => Thresholds::Packets { min, max },
        (Some(Q(Limit::Bytes(min))), Some(Q(Limit::Bytes(max)))) => Thresholds::Bytes { min, max },
        _ => return Err(D::Error::custom("set min and max, both in packets or both in bytes")),
    };
    Ok(RedConfig { thresholds, ..config })
}

#[derive(Deserialize)]
#[serde(remote = "DualPi2Config", default = "DualPi2Config::default", rename_all = "kebab-case")]
struct DualPi2Keys {
    #[serde(deserialize_with = "quantity")]
    target: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    update: TimeDelta,
    alpha: f64,
    beta: f64,
    coupling: f64,
    #[serde(deserialize_with = "quantity")]
    ramp_from: TimeDelta,
    #[serde(deserialize_with = "quantity")]
    ramp_width: TimeDelta,
    ramp_packets: u64,
    ramp_above_two_mtu: bool,
    #[serde(deserialize_with = "quantity")]
    min_backlog: DataSize,
    #[serde(skip)]
    scheduler: Scheduler,
    #[serde(deserialize_with = "quantity")]
    mtu: DataSize,
    #[serde(deserialize_with = "quantity")]
    limit: Limit,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SchedulerKeys {
    classic_share: Option<f64>,
    time_shift: Option<Q<TimeDelta>>,
}

#[derive(Deserialize)]
struct DualPi2(#[serde(with = "DualPi2Keys")] DualPi2Config);

fn dual_pi2<'de, D: Deserializer<'de>>(value: D) -> Result<DualPi2Config, D::Error> {
    let Both(SchedulerKeys { classic_share, time_shift }, DualPi2(config)) = Deserialize::deserialize(value)?;
    let scheduler = match (classic_share, time_shift) {
        (Some(_), Some(_)) => return Err(D::Error::custom("set classic-share or time-shift, not both")),
        (Some(classic_share), None) => Scheduler::WeightedRoundRobin { classic_share },
        (None, Some(Q(shift))) => Scheduler::TimeShiftedFifo { shift },
        (None, None) => config.scheduler,
    };
    Ok(DualPi2Config { scheduler, ..config })
}

#[derive(Deserialize)]
#[serde(remote = "StepMarkConfig", default = "StepMarkConfig::default")]
struct StepMarkKeys {
    #[serde(deserialize_with = "threshold")]
    threshold: MarkThreshold,
    #[serde(deserialize_with = "quantity")]
    limit: Limit,
}

fn threshold<'de, D: Deserializer<'de>>(value: D) -> Result<MarkThreshold, D::Error> {
    Ok(match quantity(value)? {
        Limit::Time(time) => MarkThreshold::Sojourn(time),
        Limit::Packets(packets) => MarkThreshold::Packets(packets),
        Limit::Bytes(size) => MarkThreshold::Bytes(size),
        Limit::Unlimited => return Err(D::Error::custom("expected a time, a size or a number of packets")),
    })
}
