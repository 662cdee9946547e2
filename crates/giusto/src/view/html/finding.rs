//! Findings of runs, in one sentence each.

use super::format::{brief_rate, percent, plural, rate_range, time_range_us, time_us};
use crate::{
    record::{Check, Distribution, FlowEnd, FlowRecord, RunRecord},
    view::{comparison::bottleneck, tables::found},
};

/// A time in the unit that fits its size.
pub(super) fn ms(value: f64) -> String {
    time_us(value * 1e3)
}

/// Whether a flow has the figures of media.
pub(super) fn is_media(flow: &FlowRecord) -> bool {
    flow.decisions.is_some() || flow.feedback_rate_bps.is_some()
}

/// The finding of a run: rate and delay of its media, else of its traffic without congestion control, else of all flows.
pub(super) fn finding(record: &RunRecord) -> String {
    let media: Vec<&FlowRecord> = record.flows.iter().filter(|flow| is_media(flow)).collect();
    let all: Vec<&FlowRecord> = record.flows.iter().collect();
    let others = (record.flows.len() - media.len()) as u64;
    match (media.as_slice(), all.as_slice()) {
        (_, []) => "The scenario has no flows.".to_owned(),
        ([call], _) => media_finding(record, call, others),
        ([], [flow]) => rate_finding(record, flow),
        ([], _) => waiting_finding(record).unwrap_or_else(|| range_finding(record, &all)),
        (calls, _) => range_finding(record, calls),
    }
}

/// `gcc:libwebrtc used 94 % of bottleneck at 40 ms queueing delay (p95) and 120 ms frame delay (p95).`
fn media_finding(record: &RunRecord, call: &FlowRecord, others: u64) -> String {
    let name = call.controller.as_ref().unwrap_or(&call.id);
    let used = bottleneck(record, call).and_then(|link| Some((link.utilisation_ratio?, &link.id)));
    let rate = match used.filter(|_| others == 0) {
        Some((ratio, link)) => format!("{name} used {} of {link}", percent(ratio)),
        None if others == 0 => format!("{name} {}", received(call)),
        None => {
            let beside = plural(others, "other flow", "other flows");
            format!("{name} {} beside {beside}", received(call))
        }
    };
    let p95 = |delay: Option<Distribution>, quantity| {
        delay.map(|delay| format!("{} {quantity} (p95)", ms(delay.p95)))
    };
    let delays = [p95(call.queue_delay_ms, "queueing delay"), p95(call.frame_delay_ms, "frame delay")]
        .into_iter()
        .flatten();
    let delays: Vec<String> = delays.collect();
    if delays.is_empty() { format!("{rate}.") } else { format!("{rate} at {}.", delays.join(" and ")) }
}

/// `received 4.87 Mbit/s`.
fn received(flow: &FlowRecord) -> String {
    match flow.known(FlowEnd::Receiver, flow.received_rate_bps) {
        Some(rate) => format!("received {}", brief_rate(rate)),
        None => format!("sent {}, and its receiver has not reported", brief_rate(flow.sent_rate_bps)),
    }
}

/// `one received 4.87 Mbit/s, 97.4 % of wire, with a queueing delay of 60.0 ms at p95.`
fn rate_finding(record: &RunRecord, flow: &FlowRecord) -> String {
    let used = bottleneck(record, flow).and_then(|link| Some((link.utilisation_ratio?, &link.id)));
    let used = used.map(|(ratio, link)| format!(" at {} utilisation of {link}", percent(ratio)));
    let delay = flow.queue_delay_ms.map(|delay| format!("; its queueing delay was {} at p95", ms(delay.p95)));
    let (used, delay) = (used.unwrap_or_default(), delay.unwrap_or_default());
    format!("{} {}{used}{delay}.", flow.id, received(flow))
}

/// `voice waited 6.0 ms at p99 beside 3 TCP flows.`
fn waiting_finding(record: &RunRecord) -> Option<String> {
    let (tcp, rest): (Vec<_>, Vec<_>) = record.flows.iter().partition(|flow| flow.kind == "tcp");
    let waits = rest.iter().filter_map(|flow| Some((flow, flow.queue_delay_ms?.p99)));
    let (flow, p99) = waits.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| !tcp.is_empty())?;
    let beside = plural(tcp.len() as u64, "TCP flow", "TCP flows");
    Some(format!("{} waited {} at p99 beside {beside}.", flow.id, ms(p99)))
}

/// `Received rates range from 0.78 (a) to 1.78 Mbit/s (b); queueing delay p95 from 12.0 (a) to 40.0 ms (b).`
fn range_finding(record: &RunRecord, flows: &[&FlowRecord]) -> String {
    let named = |of: fn(&FlowRecord) -> Option<f64>| {
        flows.iter().filter_map(|flow| Some((flow.id.clone(), of(flow)?))).collect::<Vec<_>>()
    };
    let rates = named(|flow| flow.known(FlowEnd::Receiver, flow.received_rate_bps));
    let waits = named(|flow| Some(flow.queue_delay_ms?.p95));
    let busiest = record.links.iter().filter_map(|link| Some((&link.id, link.utilisation_ratio?)));
    let busiest = busiest.max_by(|a, b| a.1.total_cmp(&b.1));
    let used = busiest.map(|(id, ratio)| format!(" Utilisation of {id} was {}.", percent(ratio)));
    format!("{}{}", ranges(&rates, &waits), used.unwrap_or_default())
}

/// The ranges of received rates and of queueing delays, with the names of their ends; one value where both ends are alike.
pub(super) fn ranges(rates: &[(String, f64)], waits: &[(String, f64)]) -> String {
    let range = |values: &[(String, f64)], write: fn(f64, f64) -> [String; 2], [is, ranges]: [&str; 2]| {
        let low = values.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let high = values.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let ([from, to], [_, alike]) = (write(low.1, high.1), write(low.1, low.1));
        Some(if alike == to {
            format!("{is} {to} for all")
        } else {
            format!("{ranges} from {from} ({}) to {to} ({})", low.0, high.0)
        })
    };
    let rates = range(rates, rate_range, ["Received rates are", "Received rates range"]);
    let waits = range(
        waits,
        |low, high| time_range_us(low * 1e3, high * 1e3),
        ["queueing delay p95 is", "queueing delay p95"],
    );
    match (rates, waits) {
        (Some(rates), Some(waits)) => format!("{rates}; {waits}."),
        (Some(rates), None) => format!("{rates}."),
        _ => String::new(),
    }
}

/// `delay of camera is 123 ms, expected at most 100 ms`.
pub(super) fn unmet(check: &Check) -> String {
    format!("{} is {}, expected {}", check.name, found(check), bound(check))
}

/// The bound. A bound that ends with a number is given its unit, but for a ratio, which has none.
pub(super) fn bound(check: &Check) -> String {
    let Check { bound, unit, .. } = check;
    let counts = bound.ends_with(|last: char| last.is_ascii_digit());
    if counts && unit != "ratio" { format!("{bound} {unit}").trim_end().to_owned() } else { bound.clone() }
}
