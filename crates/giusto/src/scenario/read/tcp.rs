//! TCP: the settings of its two ends, and what there is to send.

use giusto_sim::traffic::tcp::{Algorithm, RtoFloor, Settings};
use giusto_units::TimeDelta;

use super::{choose, fields::Fields};
use crate::scenario::{FlowKind, Transfers};

/// Names of the congestion controls.
pub(super) const CONTROLS: &[(&str, Algorithm)] =
    &[("cubic", Algorithm::Cubic), ("new-reno", Algorithm::NewReno)];

/// A bulk transfer: without end, or of so many bytes.
pub(super) fn bulk(fields: &Fields<'_>) -> FlowKind {
    let bytes = fields.size("bytes");
    let transfers = bytes.map_or(Transfers::Unlimited, Transfers::Once);
    FlowKind::Tcp { settings: settings(fields), transfers }
}

/// Short flows of RFC 8868 §5.1.
pub(super) fn short_flows(fields: &Fields<'_>) -> Option<FlowKind> {
    let sizes = match fields.node("size") {
        None => Some((30_000, 50_000)),
        Some(node) => match node.elements() {
            [from, to] => {
                let (from, to) = (fields.size_of(from, "size"), fields.size_of(to, "size"));
                from.zip(to).map(|(from, to)| (from.as_bytes(), to.as_bytes()))
            }
            _ => fields.size("size").map(|size| (size.as_bytes(), size.as_bytes())),
        },
    };
    let transfers = Transfers::Short {
        sizes: sizes?,
        idle: fields.time("idle").unwrap_or(TimeDelta::from_seconds(10)),
        starting_on: fields.count("starting-on", 0).unwrap_or(0),
        persistent: fields.flag("persistent").unwrap_or(false),
    };
    Some(FlowKind::Tcp { settings: settings(fields), transfers })
}

fn settings(fields: &Fields<'_>) -> Settings {
    let mut settings = Settings::default();
    if let Some(algorithm) = choose(fields, "control", CONTROLS) {
        settings.algorithm = algorithm;
    }
    if let Some(mss) = fields.size("mss") {
        settings.mss = u32::try_from(mss.as_bytes()).unwrap_or(u32::MAX);
    }
    let flag = |key, field: &mut bool| *field = fields.flag(key).unwrap_or(*field);
    flag("sack", &mut settings.sack);
    flag("timestamps", &mut settings.timestamps);
    flag("ecn", &mut settings.ecn);
    flag("prr", &mut settings.prr);
    settings.hystart = fields.flag("hystart");
    if let Some(segments) = fields.count("initial-window", 1) {
        settings.initial_window = segments;
    }
    if let Some(segments) = fields.count("segments-per-ack", 1) {
        settings.segments_per_ack = segments;
    }
    if let Some(segments) = fields.count("slow-start-limit", 1) {
        settings.slow_start_limit = Some(segments);
    }
    settings.initial_threshold = fields.size("initial-threshold");
    if let Some(window) = fields.size("receive-window") {
        settings.receive_window = window;
    }
    if let Some(delay) = fields.time("delayed-ack") {
        settings.delayed_ack = delay;
    }
    if let Some(floor) = fields.time("min-rto") {
        settings.rto_floor = RtoFloor::Whole(floor);
    }
    settings
}
