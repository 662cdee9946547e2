//! All figures of one run, in words.

use giusto_units::TimeDelta;

use super::format::{count, load, or_unknown, percent, plural, ppm, rate, time_us};
use crate::{measured::result::RunResult, view::table::asked_rate};

/// The name of a figure, and its value with its unit if it is known.
type Figure = (&'static str, Option<String>);

/// The known figures of a run: name, and value with its unit.
pub fn figures(run: &RunResult) -> Vec<(&'static str, String)> {
    let all = asked(run).into_iter().chain(counts(run)).chain(times(run)).chain(surroundings(run));
    all.filter_map(|(what, value)| Some((what, value?))).collect()
}

fn asked(run: &RunResult) -> Vec<Figure> {
    let period = |nanos| TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)).to_string();
    vec![
        ("from", run.from.clone()),
        ("format", run.format.clone()),
        ("sender", Some(run.sender().to_owned())),
        ("requested rate", Some(asked_rate(run.rate_bps))),
        ("datagram", run.size_bytes.map(|bytes| format!("{bytes} B of payload"))),
        ("per cycle", run.packets_per_cycle.map(|n| datagrams(n.into()))),
        ("period", run.period_ns.map(period)),
        ("waits", run.mode.clone()),
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
        ("sent for", run.duration_s.map(|s| format!("{s:.3} s"))),
        ("sent", run.sent_packets.map(datagrams)),
        ("received", run.received_packets.map(datagrams)),
        ("lost", run.lost_packets.map(lost)),
        ("longest loss", bursts.map(|bursts| datagrams(bursts.longest))),
        ("duplicates", run.duplicate_packets.map(datagrams)),
        ("reordered", run.reordered_packets.map(datagrams)),
        ("dropped by the receiving kernel", run.kernel_dropped_packets.map(datagrams)),
        ("sent rate", run.tx_rate_bps.map(rate)),
        ("received rate", run.rx_rate_bps.map(rate)),
        ("error of the rate", run.rate_error_ppm.map(|error| format!("{} ppm", ppm(error)))),
        ("with N intervals for N−1", run.fencepost_rate_bps.map(rate)),
        ("layer counted", run.layer.clone()),
    ]
}

fn times(run: &RunResult) -> Vec<Figure> {
    let ms = |value: Option<f64>| value.map(|ms| ms * 1e3);
    let schedule = &run.schedule_error_us;
    let gap = &run.gap_error_us;
    let trip = &run.round_trip_ms;
    let delay = &run.one_way_delay_ms;
    let basis = |text: String| match &delay.basis {
        Some(basis) => format!("{text} ({basis})"),
        None => text,
    };
    let offset = run.clock.and_then(|clock| {
        let uncertainty = or_unknown(ms(clock.uncertainty_ms), time_us);
        clock.offset_ms.map(|ms| format!("{} ± {uncertainty}", time_us(ms * 1e3)))
    });
    let drift = run.clock.and_then(|clock| clock.drift_ppm).map(|drift| format!("{} ppm", ppm(drift)));
    vec![
        ("schedule error", quantiles([schedule.p50, schedule.p99, schedule.p999, schedule.max])),
        ("gap error", quantiles([gap.p50, gap.p99, gap.p999, gap.max])),
        ("jitter (RFC 3550)", ms(run.jitter_ms).map(time_us)),
        ("round trip", quantiles([trip.p50, trip.p99, trip.p999, trip.max].map(ms))),
        ("one-way delay", quantiles([delay.p50, delay.p99, delay.p999, delay.max].map(ms)).map(basis)),
        ("clock offset", offset),
        ("clock drift", drift),
    ]
}

fn surroundings(run: &RunResult) -> Vec<Figure> {
    let voice = run.voice.as_ref();
    let voice = voice.and_then(|voice| {
        let scale = voice.scale.as_deref().unwrap_or("unknown scale");
        Some(format!("MOS {:.2}, R {:.0} ({scale})", voice.mos?, voice.r_factor?))
    });
    let ecn = run.ecn.map(|ecn| {
        let [not_ect, ect0, ect1, ce] =
            [ecn.not_ect_packets, ecn.ect0_packets, ecn.ect1_packets, ecn.ce_packets].map(count);
        format!("{not_ect} not capable, {ect0} ECT(0), {ect1} ECT(1), {ce} CE")
    });
    let slips = run.slips.map(|slips| {
        let [caught_up, skipped] = [slips.caught_up_packets, slips.skipped_packets].map(count);
        let anchors = plural(slips.reanchors, "new anchor", "new anchors");
        format!("{caught_up} caught up, {skipped} skipped, {anchors}")
    });
    let cpu = run.sender_cpu_ratio.or(run.receiver_cpu_ratio).map(|_| {
        let [sender, receiver] = [run.sender_cpu_ratio, run.receiver_cpu_ratio]
            .map(|ratio| or_unknown(ratio, |ratio| format!("{} %", load(ratio))));
        format!("{sender} sender, {receiver} receiver")
    });
    vec![
        ("voice quality", voice),
        ("ECN", ecn),
        ("DSCP", run.dscp.map(|dscp| dscp.to_string())),
        ("slips", slips),
        ("CPU", cpu),
        ("ended by", run.ended.clone()),
        ("median of", (run.repeats > 1).then(|| plural(run.repeats.into(), "run", "runs"))),
    ]
}

fn datagrams(n: u64) -> String {
    plural(n, "datagram", "datagrams")
}

/// Median, p99, p99.9 and maximum, in µs: as many as are known.
fn quantiles(values: [Option<f64>; 4]) -> Option<String> {
    let names = ["median", "p99", "p99.9", "at most"];
    let known: Vec<String> = values
        .into_iter()
        .zip(names)
        .filter_map(|(value, name)| Some(format!("{} {name}", time_us(value?))))
        .collect();
    (!known.is_empty()).then(|| known.join(", "))
}
