//! The result of a run in a few lines: rate, loss, jitter and delay.

use crate::{
    measured::result::{DelayReference, FarEndFigures, RtcpFigures, RunResult, VoiceFigures, VoipFigures},
    view::{
        figures::{fragments, path_mtu, paths},
        format::{UNKNOWN, asked_rate, count, or_unknown, percent, rate, time_us},
    },
};

/// The result of one stream, or of several together: a line each for rate, loss, jitter and delay; voice quality and an early end
/// where there are any. Lines have at most 80 characters.
///
/// # Example
///
/// ```
/// use giusto::{measured::result::RunResult, view::summary};
///
/// let run = RunResult { rx_rate_bps: Some(1e6), lost_packets: Some(1), sent_packets: Some(50), ..RunResult::default() };
/// assert!(summary::text(&[run]).contains("loss     1 of 50 datagrams (2.00 %)"));
/// ```
pub fn text(runs: &[RunResult]) -> String {
    let lines = [
        ("rate", Some(rates(runs))),
        ("loss", Some(loss(runs))),
        ("", own_loss(runs)),
        ("jitter", Some(jitter(runs))),
        ("delay", Some(delay(runs))),
        ("voice", voice(runs)),
        ("packets", runs.iter().find_map(fragments)),
        ("MTU", runs.iter().find_map(path_mtu)),
        // The names have eight characters, and a space.
        ("path", runs.iter().find_map(paths).map(|paths| paths.join("\n         "))),
        ("far end", far_end(runs)),
        ("", far_end_voice(runs)),
        ("pacing", runs.iter().find_map(departures)),
        ("clocks", runs.iter().find_map(clocks)),
        ("ended", early_end(runs)),
    ];
    let known = lines.into_iter().filter_map(|(name, text)| Some(format!("{name:<8} {}\n", text?)));
    known.collect()
}

/// What timed the departures, where it was asked that the kernel does.
fn departures(run: &RunResult) -> Option<String> {
    run.system.as_ref()?.departures.clone()
}

/// Whose clocks the times are from, where it is not the kernel's for all.
fn clocks(run: &RunResult) -> Option<String> {
    let system = run.system.as_ref()?;
    let arrivals = system.receive_timestamps.as_deref();
    let there = system.far_receive_timestamps.as_deref();
    let departures = system.departure_timestamps.as_deref();
    if [arrivals, there, departures].into_iter().flatten().all(|by| by == "kernel") {
        return None;
    }
    let lag = run.departure_lag_us.unwrap_or_default();
    let left = departures.map(|by| {
        let us = |value| or_unknown(value, time_us);
        format!("departures {} median, {} p99 after their time by {by}", us(lag.p50), us(lag.p99))
    });
    let there = there.map(|by| format!("arrivals there by {by}"));
    let came = arrivals.map(|by| format!("arrivals here by {by}"));
    Some([there, came, left].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

const UNMEASURED: &str = "unknown: not measured";

/// The sum over all runs, if each has the value.
fn sum(runs: &[RunResult], of: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    runs.iter().map(of).sum()
}

/// The same of a count. A far end may report any number.
fn total(runs: &[RunResult], of: impl Fn(&RunResult) -> Option<u64>) -> Option<u64> {
    runs.iter().map(of).try_fold(0, |all: u64, count| Some(all.saturating_add(count?)))
}

fn largest(runs: &[RunResult], of: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    runs.iter().filter_map(of).max_by(f64::total_cmp)
}

fn median(runs: &[RunResult], of: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn rates(runs: &[RunResult]) -> String {
    let mut parts = Vec::new();
    match (sum(runs, |run| run.rx_rate_bps), sum(runs, |run| run.tx_rate_bps)) {
        (Some(received), _) => parts.push(format!("{} received", rate(received))),
        (None, Some(sent)) => parts.push(format!("{} sent", rate(sent))),
        (None, None) => parts.push("unknown: fewer than two datagrams".to_owned()),
    }
    if let Some(asked) = total(runs, |run| run.rate_bps) {
        parts.push(format!("{} requested", asked_rate(Some(asked))));
    }
    if let Some(layer) = runs.first().and_then(|run| run.layer.as_deref()).filter(|layer| *layer != "payload")
    {
        parts.push(format!("at layer {layer}"));
    }
    parts.join(", ")
}

fn loss(runs: &[RunResult]) -> String {
    if runs.iter().any(|run| run.format.as_deref() == Some("raw")) {
        let received = or_unknown(total(runs, |run| run.received_packets), count);
        return format!("unknown: the datagrams have no sequence numbers; {received} received");
    }
    let sent = |run: &RunResult| {
        let expected =
            run.received_packets.zip(run.lost_packets).map(|(received, lost)| received.saturating_add(lost));
        run.sent_packets.or(expected)
    };
    let (Some(lost), Some(sent)) = (total(runs, |run| run.lost_packets), total(runs, sent)) else {
        return match total(runs, |run| run.received_packets) {
            Some(received) => {
                format!("unknown: no final report of the other end; {} received", count(received))
            }
            None if runs.iter().any(|run| run.far_end.is_some()) => "known to the far end alone".to_owned(),
            None => "unknown: the receiver did not report".to_owned(),
        };
    };
    let share = if sent > 0 { percent(lost as f64 / sent as f64) } else { UNKNOWN.to_owned() };
    format!("{} of {} datagrams ({share})", count(lost), count(sent))
}

/// How many of the lost datagrams the path did not lose, if there are any.
fn own_loss(runs: &[RunResult]) -> Option<String> {
    let sum = |of: fn(&RunResult) -> Option<u64>| runs.iter().filter_map(of).fold(0, u64::saturating_add);
    let (dropped, lost) = (sum(|run| run.kernel_dropped_packets), sum(|run| run.lost_packets));
    let share = if dropped == lost { "all of them".to_owned() } else { count(dropped) };
    (dropped > 0).then(|| format!("{share} in the receiver's buffer, not on the path"))
}

fn jitter(runs: &[RunResult]) -> String {
    match largest(runs, |run| run.jitter_ms) {
        Some(jitter) if runs.len() > 1 => format!("{} (largest of the streams)", time_us(jitter * 1e3)),
        Some(jitter) => time_us(jitter * 1e3),
        None => UNMEASURED.to_owned(),
    }
}

fn delay(runs: &[RunResult]) -> String {
    let us = |ms: Option<f64>| or_unknown(ms, |ms| time_us(ms * 1e3));
    let all_count_from = |reference| runs.iter().all(|run| run.one_way_delay_ms.reference == Some(reference));
    let rtt = median(runs, |run| run.round_trip_ms.p50).map(|ms| format!("RTT {}", us(Some(ms))));
    let middle = median(runs, |run| run.one_way_delay_ms.quantiles.p50);
    let high = largest(runs, |run| run.one_way_delay_ms.quantiles.p99);
    let one_way = if middle.is_none() {
        None
    } else if all_count_from(DelayReference::Absolute) {
        let error = largest(runs, |run| run.one_way_delay_ms.error_ms);
        let within = error.map(|ms| format!(" ± {}", time_us(ms * 1e3))).unwrap_or_default();
        Some(format!("{} median, {} p99 one way{within}", us(middle), us(high)))
    } else if all_count_from(DelayReference::Stated) {
        Some(format!("{} median, {} p99 one way by the sender's clock", us(middle), us(high)))
    } else {
        Some(format!("{} median, {} p99 above the shortest", us(middle), us(high)))
    };
    let known: Vec<String> = [one_way, rtt].into_iter().flatten().collect();
    if known.is_empty() { UNMEASURED.to_owned() } else { known.join("; ") }
}

fn voice(runs: &[RunResult]) -> Option<String> {
    let score =
        |pick: fn(&VoiceFigures) -> Option<f64>| move |run: &RunResult| run.voice.as_ref().and_then(pick);
    let mos = median(runs, score(|voice| voice.mos))?;
    let lowest = runs.iter().filter_map(score(|voice| voice.mos)).min_by(f64::total_cmp)?;
    Some(match runs {
        [_] => format!(
            "MOS {mos:.2}, R {}",
            or_unknown(median(runs, score(|voice| voice.r_factor)), |r| format!("{r:.0}"))
        ),
        _ => format!("MOS {mos:.2} median, {lowest:.2} lowest"),
    })
}

/// What the far ends themselves report with RTCP.
fn far_end(runs: &[RunResult]) -> Option<String> {
    let of = |run: &RunResult| Some((run.far_end.clone()?, run.far_end.as_ref()?.rtcp?));
    let all: Vec<_> = runs.iter().filter_map(of).collect();
    if all.is_empty() {
        let sent: Vec<u64> = runs.iter().filter_map(|run| run.far_end.as_ref()?.sent_packets).collect();
        let latest = format!("reports (RTCP) {} sent, up to its latest report", count(sent.iter().sum()));
        let of_rtp =
            runs.iter().all(|run| run.format.as_deref().is_some_and(|format| format.starts_with("rtp")));
        return (of_rtp && !sent.is_empty()).then_some(latest);
    }
    let lost: u64 = all.iter().filter_map(|(figures, _)| figures.lost_packets).sum();
    let largest = |of: fn(&(FarEndFigures, RtcpFigures)) -> Option<f64>| {
        or_unknown(all.iter().filter_map(of).max_by(f64::total_cmp), |ms| time_us(ms * 1e3))
    };
    let who = match (&all[..], runs.len()) {
        ([], _) => return None,
        ([_], 1) => "reports (RTCP)".to_owned(),
        (some, all) => format!("reports (RTCP, {} of {all} streams)", some.len()),
    };
    let (jitter, rtt) = (largest(|(figures, _)| figures.jitter_ms), largest(|(_, rtcp)| rtcp.round_trip_ms));
    Some(format!("{who} {} lost, jitter {jitter}, RTT {rtt}", count(lost)))
}

/// The voice quality that the far ends themselves report with RTCP: the lowest of the streams.
fn far_end_voice(runs: &[RunResult]) -> Option<String> {
    let voip = |run: &RunResult| run.far_end.as_ref()?.rtcp?.voip;
    let all: Vec<_> = runs.iter().filter_map(voip).collect();
    let lowest = |of: fn(&VoipFigures) -> Option<f64>| all.iter().filter_map(of).min_by(f64::total_cmp);
    let discarded = all.iter().map(|voip| voip.discard_ratio).max_by(f64::total_cmp)?;
    let mos = |mos: Option<f64>| or_unknown(mos, |mos| format!("{mos:.1}"));
    Some(format!(
        "reports R {}, MOS-LQ {}, MOS-CQ {}, {} discarded",
        or_unknown(lowest(|voip| voip.r_factor.map(f64::from)), |r| format!("{r:.0}")),
        mos(lowest(|voip| voip.mos_lq)),
        mos(lowest(|voip| voip.mos_cq)),
        percent(discarded)
    ))
}

/// Why the run ended, unless everything was sent.
fn early_end(runs: &[RunResult]) -> Option<String> {
    let ended = runs.iter().filter_map(|run| run.ended.as_deref());
    ended
        .filter(|why| !matches!(*why, "all sent" | "finished by the sender" | "left by the sender"))
        .map(str::to_owned)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::{MtuFigures, OneWayDelay, PathFigures, Quantiles, SystemGranted};

    fn run() -> RunResult {
        RunResult {
            rate_bps: Some(5_000_000),
            sent_packets: Some(5_208),
            received_packets: Some(5_207),
            lost_packets: Some(1),
            tx_rate_bps: Some(5e6),
            rx_rate_bps: Some(4_999_998.0),
            jitter_ms: Some(0.0123),
            one_way_delay_ms: OneWayDelay {
                reference: Some(DelayReference::Absolute),
                quantiles: Quantiles { p50: Some(0.045), p99: Some(0.0801), ..Quantiles::default() },
                ..OneWayDelay::default()
            },
            round_trip_ms: Quantiles { p50: Some(0.0902), ..Quantiles::default() },
            ended: Some("all sent".to_owned()),
            ..RunResult::default()
        }
    }

    #[test]
    fn clocks_other_than_those_of_the_kernel_have_a_line() {
        let by = |arrivals: &str, departures: Option<&str>, there: Option<&str>| {
            let [receive_timestamps, departure_timestamps, far_receive_timestamps] =
                [Some(arrivals), departures, there].map(|by| by.map(str::to_owned));
            let system = Some(SystemGranted {
                receive_timestamps,
                far_receive_timestamps,
                departure_timestamps,
                ..SystemGranted::default()
            });
            let departure_lag_us = Some(Quantiles { p50: Some(2.0), p99: Some(9.5), ..Quantiles::default() });
            let text = text(&[RunResult { departure_lag_us, system, ..run() }]);
            text.split_once("clocks   ").map_or(String::new(), |(_, line)| line.trim_end().to_owned())
        };
        let there = "card, 3 of 10 by the kernel";
        for (line, expected) in [
            (by("kernel", Some("kernel"), None), ""),
            (by("kernel", None, None), ""),
            (by("program", None, None), "arrivals here by program"),
            (
                by("card eth0 (ptp0)", Some("kernel"), None),
                "arrivals here by card eth0 (ptp0); departures 2.0 µs median, 9.5 µs p99 after their time by kernel",
            ),
            (
                by("kernel", None, Some(there)),
                "arrivals there by card, 3 of 10 by the kernel; arrivals here by kernel",
            ),
        ] {
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn the_mtu_and_each_path_have_a_line() {
        let path = |from: &str, until_s, received_packets| PathFigures {
            from: from.to_owned(),
            until_s: Some(until_s),
            received_packets,
            ..PathFigures::default()
        };
        let payload_bytes = Some(1272);
        let mtu =
            MtuFigures { payload_bytes, complete: true, probes: 14, changes: 1, ..MtuFigures::default() };
        let run = RunResult {
            mtu_bytes: Some(1300),
            mtu_discovery: Some(mtu),
            paths: vec![path("10.9.0.1:40000", 3.24, 1_300), path("[fd00:9::77]:5000", 9.0, 1)],
            ..run()
        };
        let text = text(&[run]);
        insta::assert_snapshot!(text.split_once("RTT 90.2 µs\n").unwrap().1, @r"
        MTU      1300 B: UDP payload of 1272 B; found by 14 probes, became smaller 1 time
        path     from 10.9.0.1:40000: 1,300 datagrams until 3.2 s
                 from [fd00:9::77]:5000: 1 datagram until 9.0 s
        ");
    }

    #[test]
    fn a_result_leads_with_four_lines() {
        insta::assert_snapshot!(text(&[run()]), @r"
        rate     5.000 Mbit/s received, 5 Mbit/s requested
        loss     1 of 5,208 datagrams (0.02 %)
        jitter   12.3 µs
        delay    45.0 µs median, 80.1 µs p99 one way; RTT 90.2 µs
        ");
        let many = [run(), RunResult { rx_rate_bps: Some(4e6), lost_packets: Some(9), ..run() }];
        insta::assert_snapshot!(text(&many), @r"
        rate     9.000 Mbit/s received, 10 Mbit/s requested
        loss     10 of 10,416 datagrams (0.10 %)
        jitter   12.3 µs (largest of the streams)
        delay    45.0 µs median, 80.1 µs p99 one way; RTT 90.2 µs
        ");
    }

    #[test]
    fn loss_says_what_the_receiver_lost_itself() {
        let lost = |kernel_dropped_packets| {
            let (lost_packets, kernel_dropped_packets) = (Some(742), Some(kernel_dropped_packets));
            let all = text(&[RunResult { lost_packets, kernel_dropped_packets, ..run() }, run()]);
            all.lines().skip(1).take(2).map(|line| line.trim_start().to_owned()).collect::<Vec<_>>()
        };
        let loss = "loss     743 of 10,416 datagrams (7.13 %)";
        assert_eq!(lost(742), [loss, "742 in the receiver's buffer, not on the path"]);
        assert_eq!(lost(743), [loss, "all of them in the receiver's buffer, not on the path"]);
        assert!(lost(0)[1].starts_with("jitter"));
    }

    #[test]
    fn a_delay_says_what_it_relies_on() {
        let based = |reference, error_ms| {
            let one_way_delay_ms =
                OneWayDelay { reference: Some(reference), error_ms, ..run().one_way_delay_ms };
            delay(&[RunResult { one_way_delay_ms, ..run() }])
        };
        for (reference, error_ms, expected) in [
            (DelayReference::Absolute, None, "one way;"),
            (DelayReference::Absolute, Some(0.0123), "one way ± 12.3 µs;"),
            (DelayReference::Stated, None, "one way by the sender's clock;"),
            (DelayReference::Relative, None, "above the shortest;"),
        ] {
            let line = based(reference, error_ms);
            assert!(line.contains(&format!("p99 {expected}")), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let one_way = RunResult {
            received_packets: None,
            lost_packets: None,
            rx_rate_bps: None,
            jitter_ms: None,
            one_way_delay_ms: OneWayDelay::default(),
            round_trip_ms: Quantiles::default(),
            ended: Some("interrupted".to_owned()),
            ..run()
        };
        let (r_factor, mos_cq) = (Some(91), Some(4.4));
        let voip = VoipFigures { r_factor, mos_cq, discard_ratio: 0.004, ..VoipFigures::default() };
        let rtcp = RtcpFigures { round_trip_ms: Some(40.2), voip: Some(voip), ..RtcpFigures::default() };
        let (lost_packets, jitter_ms, rtcp) = (Some(3), Some(0.125), Some(rtcp));
        let figures = FarEndFigures { lost_packets, jitter_ms, rtcp, ..FarEndFigures::default() };
        let reported = RunResult { far_end: Some(figures), ended: None, ..one_way.clone() };
        insta::assert_snapshot!(text(std::slice::from_ref(&reported)), @r"
        rate     5.000 Mbit/s sent, 5 Mbit/s requested
        loss     known to the far end alone
        jitter   unknown: not measured
        delay    unknown: not measured
        far end  reports (RTCP) 3 lost, jitter 125 µs, RTT 40.2 ms
                 reports R 91, MOS-LQ –, MOS-CQ 4.4, 0.40 % discarded
        ");
        // iperf3 reports without RTCP.
        let of_iperf3 = FarEndFigures { lost_packets: Some(3), ..FarEndFigures::default() };
        let of_iperf3 = RunResult { far_end: Some(of_iperf3), ..one_way.clone() };
        assert!(text(&[of_iperf3]).contains("loss     known to the far end alone"));
        let silent = RunResult { ended: None, ..one_way.clone() };
        assert!(text(&[reported, silent]).contains("far end  reports (RTCP, 1 of 2 streams) 3 lost"));
        insta::assert_snapshot!(text(&[one_way]), @r"
        rate     5.000 Mbit/s sent, 5 Mbit/s requested
        loss     unknown: the receiver did not report
        jitter   unknown: not measured
        delay    unknown: not measured
        ended    interrupted
        ");
        let raw = text(&[RunResult { format: Some("raw".to_owned()), ..run() }]);
        assert!(raw.contains("loss     unknown: the datagrams have no sequence numbers; 5,207 received"));
        assert_eq!(text(&[RunResult::default()]).lines().count(), 4);
    }

    #[test]
    fn every_line_fits_into_80_columns() {
        let of = |reference, error_ms| {
            let quantiles = Quantiles { p50: Some(123.4), p99: Some(98_765.4), ..Quantiles::default() };
            let one_way_delay_ms =
                OneWayDelay { reference: Some(reference), error_ms, quantiles, ..OneWayDelay::default() };
            text(&[RunResult {
                rate_bps: Some(123_456_789_000),
                rx_rate_bps: Some(987_654_321_098.0),
                layer: Some("ethernet".to_owned()),
                sent_packets: Some(123_456_789_012),
                lost_packets: Some(12_345_678_901),
                duplicate_packets: Some(1_234_567),
                reordered_packets: Some(1_234_567),
                one_way_delay_ms,
                ..run()
            }])
        };
        let error = Some(123.4);
        let texts = [of(DelayReference::Absolute, error), of(DelayReference::Relative, error)].concat();
        for line in texts.lines() {
            assert!(line.chars().count() <= 80, "{} characters: {line}", line.chars().count());
        }
    }
}
