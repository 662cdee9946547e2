//! The figures of one measured run, each with its name and unit.

use giusto_units::TimeDelta;

use crate::{
    measured::result::{MtuFigures, PathFigures, RunResult},
    statistics::RUN,
    view::format::{asked_rate, count, or_unknown, plural},
};

/// Every known figure of a run: its name, and its value with its unit.
pub fn figures(run: &RunResult) -> Vec<(&'static str, String)> {
    let known = RUN.iter().filter(|row| row.is_known(run)).map(|row| (row.title, row.with_unit(run)));
    let about = stream(run).into_iter().filter_map(|(name, value)| Some((name, value?)));
    let circumstances = circumstances(run).into_iter().filter_map(|(name, value)| Some((name, value?)));
    about.chain(known).chain(circumstances).collect()
}

fn stream(run: &RunResult) -> [(&'static str, Option<String>); 11] {
    // Nobody has said at which rate an unannounced stream is sent.
    let is_asked = run.rate_bps.is_some() || run.strategy != "unknown";
    let period = |nanos| TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)).to_string();
    [
        ("from", run.from.clone()),
        ("to", run.to.clone()),
        ("format", run.format.clone()),
        ("sender", Some(run.sender().to_owned())),
        ("requested rate", is_asked.then(|| asked_rate(run.rate_bps))),
        ("payload", run.size_bytes.map(|bytes| format!("{bytes} B"))),
        ("per cycle", run.packets_per_cycle.map(|n| plural(n.into(), "datagram", "datagrams"))),
        ("period", run.period_ns.map(period)),
        ("mode", run.mode.clone()),
        ("burst bound", run.burst_bound.clone()),
        ("duration", run.duration_s.map(|s| format!("{s:.3} s"))),
    ]
}

fn circumstances(run: &RunResult) -> [(&'static str, Option<String>); 12] {
    let ecn = run.ecn.map(|ecn| {
        let [not_ect, ect0, ect1, ce] =
            [ecn.not_ect_packets, ecn.ect0_packets, ecn.ect1_packets, ecn.ce_packets].map(count);
        format!("{not_ect} Not-ECT, {ect0} ECT(0), {ect1} ECT(1), {ce} CE")
    });
    let slips = run.slips.map(|slips| {
        let [caught_up, burst, skipped] =
            [slips.caught_up_packets, slips.largest_burst_packets, slips.skipped_packets].map(count);
        let bursts =
            if slips.caught_up_packets > 0 { format!(" in bursts of up to {burst}") } else { String::new() };
        format!(
            "{caught_up} caught up{bursts}, {skipped} skipped, {}",
            plural(slips.reanchors, "restart", "restarts")
        )
    });
    [
        ("unanswered handshakes", run.handshake_flood.map(|flood| count(flood.unanswered_handshakes))),
        ("layer", run.layer.clone()),
        ("basis of the one-way delay", run.one_way_delay_ms.basis.clone()),
        ("voice scale", run.voice.as_ref().and_then(|voice| voice.scale.clone())),
        ("path MTU", path_mtu(run)),
        ("paths", paths(run).map(|paths| paths.join("; "))),
        ("fragments", fragments(run)),
        ("ECN", ecn),
        ("DSCP", run.dscp.map(|dscp| dscp.to_string())),
        ("late datagrams", slips),
        ("ended", run.ended.clone()),
        ("median of", run.repeats.map(|runs| plural(runs.into(), "run", "runs"))),
    ]
}

/// The addresses from which the stream came, if there was more than one: the first ones.
pub(super) fn paths(run: &RunResult) -> Option<Vec<String>> {
    const SHOWN: usize = 8;
    let path = |path: &PathFigures| {
        let until = path.until_s.map_or_else(String::new, |until| format!(" until {until:.1} s"));
        let end = path.to.as_ref().map_or_else(|| format!("from {}", path.from), |to| format!("to {to}"));
        let away = path.away_packets.filter(|away| *away > 0);
        let away =
            away.map_or_else(String::new, |away| format!(", then {away} lost while this end was away"));
        format!("{end}: {}{until}{away}", plural(path.received_packets, "datagram", "datagrams"))
    };
    let mut paths: Vec<_> = run.paths.iter().take(SHOWN).map(path).collect();
    let more = run.paths.len().saturating_sub(SHOWN);
    paths.extend((more > 0).then(|| format!("{more} more")));
    (!paths.is_empty()).then_some(paths)
}

/// The MTU of the path that was found by probes, if it was looked for.
pub(super) fn path_mtu(run: &RunResult) -> Option<String> {
    run.mtu_discovery.map(|found| found_mtu(run.mtu_bytes, found))
}

/// An MTU, and what it took to find it.
pub(super) fn found_mtu(mtu_bytes: Option<u64>, found: MtuFigures) -> String {
    let size = |size: Option<u64>| or_unknown(size, |size| size.to_string());
    let (mtu, payload) = (size(mtu_bytes), size(found.payload_bytes));
    let complete = if found.complete { "" } else { ", or more" };
    let changes = match found.changes {
        0 => String::new(),
        changes => format!(", became smaller {}", plural(changes, "time", "times")),
    };
    let probes = plural(found.probes, "probe", "probes");
    format!("{mtu} B{complete}: UDP payload of {payload} B; found by {probes}{changes}")
}

/// That datagrams were fragmented, if they were.
pub(super) fn fragments(run: &RunResult) -> Option<String> {
    let fragments = run.fragments_per_packet.filter(|&fragments| fragments > 1)?;
    let mtu = or_unknown(run.mtu_bytes, |mtu| mtu.to_string());
    Some(format!("each datagram was sent as {fragments} fragments: MTU {mtu} B"))
}
