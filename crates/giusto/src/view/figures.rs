//! The figures of one measured run, each with its name and unit.

use giusto_units::TimeDelta;

use crate::{
    measured::result::{Quantiles, RunResult},
    view::format::{asked_rate, count, load, or_unknown, percent, plural, ppm, rate, time_us},
};

/// The name of a figure, and its value with its unit if it is known.
type Figure = (&'static str, Option<String>);

/// Every known figure of a run: its name, and its value with its unit.
pub fn figures(run: &RunResult) -> Vec<(&'static str, String)> {
    let all = [stream(run), counts(run), times(run), circumstances(run)].into_iter().flatten();
    all.filter_map(|(name, value)| Some((name, value?))).collect()
}

fn stream(run: &RunResult) -> Vec<Figure> {
    let period = |nanos| TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)).to_string();
    vec![
        ("from", run.from.clone()),
        ("to", run.to.clone()),
        ("format", run.format.clone()),
        ("sender", Some(run.sender().to_owned())),
        ("requested rate", Some(asked_rate(run.rate_bps))),
        ("payload", run.size_bytes.map(|bytes| format!("{bytes} B"))),
        ("per cycle", run.packets_per_cycle.map(|n| datagrams(n.into()))),
        ("period", run.period_ns.map(period)),
        ("mode", run.mode.clone()),
        ("burst bound", run.burst_bound.clone()),
    ]
}

fn counts(run: &RunResult) -> Vec<Figure> {
    let lost = |n| match run.loss() {
        Some(ratio) => format!("{} ({})", datagrams(n), percent(ratio)),
        None => datagrams(n),
    };
    let bursts = run.loss_bursts.filter(|bursts| bursts.count > 0);
    vec![
        ("duration", run.duration_s.map(|s| format!("{s:.3} s"))),
        ("sent", run.sent_packets.map(datagrams)),
        ("received", run.received_packets.map(datagrams)),
        ("loss", run.lost_packets.map(lost)),
        ("longest loss burst", bursts.map(|bursts| datagrams(bursts.longest))),
        ("not taken by the system", run.unsent_packets.filter(|n| *n > 0).map(datagrams)),
        ("too late to be counted", run.too_old_packets.filter(|n| *n > 0).map(datagrams)),
        ("implausible", run.implausible_packets.filter(|n| *n > 0).map(datagrams)),
        ("duplicates", run.duplicate_packets.map(datagrams)),
        ("reordered", run.reordered_packets.map(datagrams)),
        ("lost in the receiver's buffer", run.kernel_dropped_packets.map(datagrams)),
        ("unanswered handshakes", run.handshake_flood.map(|flood| count(flood.unanswered_handshakes))),
        ("sent rate", run.tx_rate_bps.map(rate)),
        ("received rate", run.rx_rate_bps.map(rate)),
        ("rate error", run.rate_error_ppm.map(|error| format!("{} ppm", ppm(error)))),
        ("rate over N intervals", run.fencepost_rate_bps.map(rate)),
        ("layer", run.layer.clone()),
    ]
}

fn times(run: &RunResult) -> Vec<Figure> {
    let us = |ms: f64| time_us(ms * 1e3);
    let delay = &run.one_way_delay_ms;
    let basis = |text: String| match &delay.basis {
        Some(basis) => format!("{text} ({basis})"),
        None => text,
    };
    let offset = run.clock.and_then(|clock| {
        Some(format!("{} ± {}", us(clock.offset_ms?), or_unknown(clock.uncertainty_ms, us)))
    });
    let drift = run.clock.and_then(|clock| clock.drift_ppm).map(|drift| format!("{} ppm", ppm(drift)));
    vec![
        ("schedule error", quantiles(&run.schedule_error_us, time_us)),
        ("gap error", quantiles(&run.gap_error_us, time_us)),
        ("jitter (RFC 3550)", run.jitter_ms.map(us)),
        ("round-trip time", quantiles(&run.round_trip_ms, us)),
        ("one-way delay", quantiles(&delay.quantiles, us).map(basis)),
        ("clock offset", offset),
        ("clock drift", drift),
    ]
}

fn circumstances(run: &RunResult) -> Vec<Figure> {
    let voice = run.voice.as_ref().and_then(|voice| {
        let scale = voice.scale.as_deref().unwrap_or("unknown scale");
        Some(format!("MOS {:.2}, R {:.0} ({scale})", voice.mos?, voice.r_factor?))
    });
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
    let cpu = |ratio: Option<f64>| ratio.map(|ratio| format!("{} %", load(ratio)));
    vec![
        ("voice quality", voice),
        ("fragments", fragments(run)),
        ("ECN", ecn),
        ("DSCP", run.dscp.map(|dscp| dscp.to_string())),
        ("late datagrams", slips),
        ("sender CPU", cpu(run.sender_cpu_ratio)),
        ("receiver CPU", cpu(run.receiver_cpu_ratio)),
        ("ended", run.ended.clone()),
        ("median of", run.repeats.map(|runs| plural(runs.into(), "run", "runs"))),
    ]
}

fn datagrams(n: u64) -> String {
    plural(n, "datagram", "datagrams")
}

/// The known quantiles and the maximum.
fn quantiles(values: &Quantiles, write: impl Fn(f64) -> String) -> Option<String> {
    let named =
        [(values.p50, "median"), (values.p99, "p99"), (values.p999, "p99.9"), (values.max, "maximum")];
    let known = named.into_iter().filter_map(|(value, name)| Some(format!("{} {name}", write(value?))));
    Some(known.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}
/// That datagrams were fragmented, if they were.
pub(super) fn fragments(run: &RunResult) -> Option<String> {
    let fragments = run.fragments_per_packet.filter(|&fragments| fragments > 1)?;
    let mtu = or_unknown(run.mtu_bytes, |mtu| mtu.to_string());
    Some(format!("each datagram was sent as {fragments} fragments: MTU {mtu} B"))
}
