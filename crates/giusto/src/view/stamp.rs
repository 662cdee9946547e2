//! The result of a STAMP session in a few lines.

use crate::{
    measured::result::{DelayReference, Quantiles, ReflectorResult, StampPath, StampResult},
    view::format::{count, or_unknown, percent, plural, time_us},
};

/// The result, a line for each subject: packets, RTT, the way there, the way back, and what else there is to say.
pub fn lines(result: &StampResult) -> Vec<String> {
    let mut lines = vec![packets(result)];
    if result.answered_packets > 0 {
        let trip = &result.round_trip_ms;
        let far = or_unknown(result.reflector_processing_ms.p50, millis);
        lines.push(format!("RTT         {}; {far} in the reflector left out", quantiles(trip, true)));
        lines.push(format!("forward     {}", path(&result.forward)));
        lines.push(format!("backward    {}", path(&result.backward)));
    }
    lines.extend(notes(result).map(|note| format!("note        {note}")));
    lines
}

/// The counts of a reflector in a line.
pub fn reflected(result: &ReflectorResult) -> String {
    let mut text = format!(
        "reflected {} of {}",
        plural(result.reflected_packets, "packet", "packets"),
        plural(result.sessions, "session", "sessions")
    );
    let unsent = ("", "not taken by the system", result.unsent_packets);
    let others = result.counters.reasons().into_iter().chain([unsent]).filter(|(_, _, packets)| *packets > 0);
    let others: Vec<_> = others.map(|(_, what, packets)| format!("{} {what}", count(packets))).collect();
    if !others.is_empty() {
        text.extend(["; not answered: ", &others.join(", ")]);
    }
    if result.refused_dscp_packets > 0 {
        let answers = plural(result.refused_dscp_packets, "answer", "answers");
        text.extend(["; ", &answers, " without the DSCP asked for, which is for network control"]);
    }
    text
}

fn packets(result: &StampResult) -> String {
    let mut text = format!(
        "packets     {} sent, {} answered, {} lost{}",
        count(result.sent_packets),
        count(result.answered_packets),
        count(result.lost_packets),
        result.loss_ratio.map_or_else(String::new, |ratio| format!(" ({})", percent(ratio)))
    );
    if result.lost_packets > 0 {
        let way = |lost: Option<u64>, name| lost.map(|lost| format!("{} {name}", count(lost)));
        let unattributed = Some(result.unattributed_lost_packets).filter(|lost| *lost > 0);
        let ways = [
            way(result.forward.lost_packets, "forward"),
            way(result.backward.lost_packets, "backward"),
            way(unattributed, "in an unknown direction"),
        ];
        text.push_str(": ");
        text.push_str(&ways.into_iter().flatten().collect::<Vec<_>>().join(", "));
        if result.kernel_dropped_packets > 0 {
            let own = count(result.kernel_dropped_packets);
            text.extend(["; ", &own, " in the sender's buffer, not on the path"]);
        }
    }
    let others = [
        (result.duplicate_packets, "duplicate"),
        (result.reordered_packets, "reordered"),
        (result.skipped_packets, "skipped"),
        (result.unsent_packets, "not taken by the system"),
    ];
    let others = others.iter().filter(|(number, _)| *number > 0);
    text.extend(others.map(|(number, name)| format!(", {} {name}", count(*number))));
    text
}

fn path(path: &StampPath) -> String {
    let delay = &path.one_way_delay_ms;
    let basis = delay.basis.as_deref().unwrap_or("unknown");
    let jitter = or_unknown(path.jitter_ms, millis);
    let reordered = path.reordered_packets.filter(|n| *n > 0);
    let reordered = reordered.map_or_else(String::new, |n| format!("; {} reordered", count(n)));
    if delay.quantiles.p50.is_none() {
        return format!("jitter {jitter}{reordered}; one-way delay {basis}");
    }
    let relative = delay.reference == Some(DelayReference::Relative);
    let name = if relative { "above its shortest" } else { "delay" };
    let figures = quantiles(&delay.quantiles, !relative);
    format!(
        "{name} {figures}; jitter {jitter}{reordered} ({})",
        if relative { "clocks not comparable" } else { basis }
    )
}

fn notes(result: &StampResult) -> impl Iterator<Item = String> {
    let ignored = [
        (result.forged_packets, "that no key verifies"),
        (result.unmatched_packets, "that answer no packet of this session"),
        (result.malformed_packets, "that are too short"),
    ];
    let ignored = ignored.into_iter().filter(|(n, _)| *n > 0);
    let ignored = ignored.map(|(n, what)| format!("ignored {} datagrams {what}", count(n)));
    let stateless = result.lost_packets > 0 && result.reflector_stateful == Some(false);
    let timeless = result.answers_without_times;
    let malformed = result.extensions.filter(|flags| flags.malformed || flags.not_authentic);
    let others = [
        stateless
            .then(|| "the reflector does not count packets, so the direction of loss is unknown".to_owned()),
        (timeless > 0).then(|| format!("the times of {} answers cannot be used", count(timeless))),
        malformed.map(|_| "the reflector rejects our Extra Padding TLV".to_owned()),
        (result.ended != "all sent").then(|| format!("ended: {}", result.ended)),
    ];
    ignored.chain(others.into_iter().flatten())
}

fn quantiles(values: &Quantiles, with_min: bool) -> String {
    let named = [
        ("min", values.min.filter(|_| with_min)),
        ("median", values.p50),
        ("p99", values.p99),
        ("max", values.max),
    ];
    let shown = named.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", millis(value?))));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { "unknown".to_owned() } else { shown.join(", ") }
}

fn millis(ms: f64) -> String {
    time_us(ms * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::OneWayDelay;

    fn result() -> StampResult {
        let quantiles = |[min, p50, p99, max]: [f64; 4]| Quantiles {
            min: Some(min),
            p50: Some(p50),
            p99: Some(p99),
            max: Some(max),
            ..Quantiles::default()
        };
        let one_way_delay_ms = OneWayDelay {
            reference: Some(DelayReference::Relative),
            quantiles: quantiles([0.0, 0.1, 0.4, 0.5]),
            ..OneWayDelay::default()
        };
        let (lost_packets, jitter_ms) = (Some(2), Some(0.05));
        let path = StampPath { lost_packets, one_way_delay_ms, jitter_ms, ..StampPath::default() };
        StampResult {
            sent_packets: 1000,
            answered_packets: 995,
            lost_packets: 5,
            loss_ratio: Some(0.005),
            unattributed_lost_packets: 1,
            round_trip_ms: quantiles([1.0, 2.0, 3.0, 4.0]),
            reflector_processing_ms: Quantiles { p50: Some(0.02), ..Quantiles::default() },
            forward: path.clone(),
            backward: path,
            ended: "all sent".to_owned(),
            ..StampResult::default()
        }
    }

    #[test]
    fn a_result_is_four_lines() {
        insta::assert_snapshot!(lines(&result()).join("\n"), @r"
        packets     1,000 sent, 995 answered, 5 lost (0.50 %): 2 forward, 2 backward, 1 in an unknown direction
        RTT         min 1.0 ms, median 2.0 ms, p99 3.0 ms, max 4.0 ms; 20.0 µs in the reflector left out
        forward     above its shortest median 100 µs, p99 400 µs, max 500 µs; jitter 50.0 µs (clocks not comparable)
        backward    above its shortest median 100 µs, p99 400 µs, max 500 µs; jitter 50.0 µs (clocks not comparable)
        ");
    }

    #[test]
    fn unusual_things_are_noted() {
        let unusual = StampResult {
            reflector_stateful: Some(false),
            kernel_dropped_packets: 2,
            forged_packets: 3,
            ended: "interrupted".to_owned(),
            ..result()
        };
        let lines = lines(&unusual);
        assert!(lines[0].ends_with(" direction; 2 in the sender's buffer, not on the path"), "{lines:?}");
        insta::assert_snapshot!(lines[4..].join("\n"), @r"
        note        ignored 3 datagrams that no key verifies
        note        the reflector does not count packets, so the direction of loss is unknown
        note        ended: interrupted
        ");
    }
}
