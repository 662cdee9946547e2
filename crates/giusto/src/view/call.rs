//! The result of a call in a few lines: rate, loss, delay and frames.

use crate::{
    call::{CallFigures, CallPath, CallRecord},
    record::{Distribution, FlowEnd, FlowRecord},
    view::{
        figures::found_mtu,
        format::{brief_rate, count, or_unknown, percent, plural, rate_range, time_range_us},
    },
};

/// Four lines for each direction with media, those that this end sent first. Lines have at most 80 characters.
pub fn text(record: &CallRecord) -> String {
    let (mut sent, received): (Vec<&FlowRecord>, Vec<&FlowRecord>) =
        record.run.flows.iter().partition(|flow| is_sent(record, flow));
    let is_both = !sent.is_empty() && !received.is_empty();
    let first = sent.first().or(received.first()).map(|flow| flow.id.clone());
    sent.extend(received);
    let of_flow = |flow: &&FlowRecord| {
        let title = match (is_both, is_sent(record, flow)) {
            (false, _) => "",
            (true, true) => "sent:\n",
            (true, false) => "received:\n",
        };
        let rtt = record.call.round_trip_ms.filter(|_| first.as_ref() == Some(&flow.id));
        let lines = [
            ("rate", rates(flow, is_sent(record, flow))),
            ("loss", loss(flow)),
            ("delay", delay(flow, rtt)),
            ("frames", frames(flow)),
        ];
        lines.into_iter().fold(title.to_owned(), |text, (name, line)| text + &format!("{name:<8} {line}\n"))
    };
    let mtu = record.call.mtu_discovery.map(|found| found_mtu(record.call.mtu_bytes, found));
    let mtu = mtu.map(|mtu| format!("{:<8} {mtu}\n", "MTU"));
    let more = [unsent(record), paths(record)].into_iter().flatten();
    sent.iter().map(of_flow).chain(mtu).chain(more).collect()
}

fn unsent(record: &CallRecord) -> Option<String> {
    let CallFigures { unsent_packets: packets @ 1.., unsent_reason, .. } = &record.call else { return None };
    let why = unsent_reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    Some(format!("{:<8} {}{why}\n", "not sent", plural(*packets, "datagram", "datagrams")))
}

/// The addresses of the far end, if there was more than one.
fn paths(record: &CallRecord) -> Option<String> {
    const SHOWN: usize = 4;
    let path = |path: &CallPath| {
        let CallPath { far_end, until_s, sent_packets, received_packets } = path;
        let of = [(*sent_packets, "sent"), (*received_packets, "received")];
        let of = of.into_iter().filter(|(packets, _)| *packets > 0);
        let of: Vec<_> = of.map(|(packets, what)| format!("{} {what}", count(packets))).collect();
        format!("{:<8} {far_end} until {until_s:.1} s: {}\n", "path", of.join(", "))
    };
    let all = &record.call.paths;
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{:<8} {more} more\n", "path"));
    let lines: String = all.iter().take(SHOWN).map(path).chain(more).collect();
    (!lines.is_empty()).then_some(lines)
}

/// Whether this end sent the media of `flow`.
fn is_sent(record: &CallRecord, flow: &FlowRecord) -> bool {
    (record.call.role == "listener") == flow.id.ends_with(":reverse")
}

/// Whether the far end has not said what it received.
fn is_unreported(flow: &FlowRecord) -> bool {
    flow.unknown == Some(FlowEnd::Receiver)
}

/// The received rate times this has a unit of its own.
const OTHER_UNIT: f64 = 100.0;

/// In the unit of the received rate, where that has the size of the others.
fn rates(flow: &FlowRecord, is_sent: bool) -> String {
    let received = flow.received_rate_bps;
    let beside = |bps: f64| {
        if bps > received * OTHER_UNIT {
            return brief_rate(bps);
        }
        let [bps, _] = rate_range(bps, received);
        bps
    };
    let sent = if is_sent { format!(", {} sent", beside(flow.sent_rate_bps)) } else { String::new() };
    let target =
        flow.target_rate_bps.map_or_else(String::new, |target| format!(", target {}", beside(target)));
    if is_unreported(flow) {
        return format!("unknown: no final report{sent}{target}");
    }
    format!("{} received{sent}{target}", brief_rate(received))
}

fn loss(flow: &FlowRecord) -> String {
    match flow.loss_ratio {
        Some(ratio) => {
            let known = flow.received_packets + flow.lost_packets;
            format!(
                "{} of {} ({})",
                count(flow.lost_packets),
                plural(known, "packet", "packets"),
                percent(ratio)
            )
        }
        None => "unknown: the fate of no packet is known".to_owned(),
    }
}

fn delay(flow: &FlowRecord, round_trip_ms: Option<Distribution>) -> String {
    let median_and_p95 = |delay: Distribution| {
        let [p50, p95] = time_range_us(delay.p50 * 1e3, delay.p95 * 1e3);
        format!("{p50}, {p95}")
    };
    let frame = flow.frame_delay_ms.map(|delay| format!("frame {}", median_and_p95(delay)));
    let rtt = round_trip_ms.map(|delay| format!("RTT {}", median_and_p95(delay)));
    let known: Vec<String> = [frame, rtt].into_iter().flatten().collect();
    if known.is_empty() {
        "unknown: no frame arrived".to_owned()
    } else {
        format!("{} (median, p95)", known.join("; "))
    }
}

fn frames(flow: &FlowRecord) -> String {
    let sum = |of: fn(&crate::record::StreamRecord) -> Option<u64>| {
        flow.streams.iter().filter_map(of).fold(0, u64::saturating_add)
    };
    let others = [
        ("late", sum(|stream| stream.late_frames)),
        ("repaired", sum(|stream| stream.repair?.repaired_frames)),
        ("skipped by the sender", sum(|stream| stream.skipped_frames)),
    ];
    let others = others.into_iter().filter(|(_, frames)| *frames > 0);
    let complete = flow.frames.filter(|_| !is_unreported(flow));
    others.fold(format!("{} complete", or_unknown(complete, count)), |text, (what, frames)| {
        format!("{text}, {} {what}", count(frames))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    fn distribution(p50: f64, p95: f64) -> Distribution {
        Distribution { p50, p95, ..Distribution::default() }
    }

    fn flow(id: &str) -> FlowRecord {
        FlowRecord {
            id: id.to_owned(),
            sent_rate_bps: 1_776_000.0,
            received_rate_bps: 779_452.0,
            target_rate_bps: Some(1_800_000.0),
            received_packets: 1_233,
            lost_packets: 1,
            loss_ratio: Some(1.0 / 1_234.0),
            frames: Some(300),
            frame_delay_ms: Some(distribution(123.4, 1_234.0)),
            ..FlowRecord::default()
        }
    }

    fn record(role: &str, flows: Vec<FlowRecord>) -> CallRecord {
        let (role, round_trip_ms) = (role.to_owned(), Some(distribution(123.4, 999.4)));
        let call = CallFigures { role, round_trip_ms, ..CallFigures::default() };
        CallRecord { run: RunRecord { flows, ..RunRecord::default() }, call }
    }

    #[test]
    fn a_call_has_four_lines_the_rate_first() {
        let text = text(&record("caller", vec![flow("call")]));
        insta::assert_snapshot!(text, @r"
        rate     779 kbit/s received, 1776 sent, target 1800
        loss     1 of 1,234 packets (0.08 %)
        delay    frame 0.12, 1.23 s; RTT 123, 999 ms (median, p95)
        frames   300 complete
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_call_that_moved_shows_its_paths_and_what_was_not_sent() {
        let mut record = record("listener", vec![flow("call")]);
        let path = |far_end: &str, until_s, received_packets| CallPath {
            far_end: far_end.to_owned(),
            until_s,
            sent_packets: 0,
            received_packets,
        };
        record.call.paths = vec![path("192.0.2.7:5004", 2.04, 1_100), path("192.0.2.8:5004", 5.0, 133)];
        record.call.unsent_packets = 1;
        record.call.unsent_reason = Some("Network is unreachable".to_owned());
        let text = text(&record);
        insta::assert_snapshot!(text.lines().skip(4).collect::<Vec<_>>().join("\n"), @r"
        not sent 1 datagram: Network is unreachable
        path     192.0.2.7:5004 until 2.0 s: 1,100 received
        path     192.0.2.8:5004 until 5.0 s: 133 received
        ");
    }

    #[test]
    fn the_listener_of_a_call_in_both_directions_received_that_of_the_caller() {
        let back = FlowRecord { received_rate_bps: 2e6, target_rate_bps: None, ..flow("call:reverse") };
        let text = text(&record("listener", vec![flow("call"), back]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[5]), ("sent:", "received:"), "{text}");
        assert_eq!(lines[1], "rate     2.00 Mbit/s received, 1.78 sent");
        assert_eq!(lines[6], "rate     779 kbit/s received, target 1800");
        assert_eq!((lines.len(), text.matches("RTT").count()), (10, 1));
    }

    #[test]
    fn what_the_far_end_did_not_report_is_unknown_not_0() {
        let lost = FlowRecord {
            received_rate_bps: 0.0,
            received_packets: 0,
            loss_ratio: None,
            frames: Some(0),
            frame_delay_ms: None,
            unknown: Some(FlowEnd::Receiver),
            ..flow("call")
        };
        insta::assert_snapshot!(text(&record("caller", vec![lost.clone()])), @r"
        rate     unknown: no final report, 1.78 Mbit/s sent, target 1.80 Mbit/s
        loss     unknown: the fate of no packet is known
        delay    RTT 123, 999 ms (median, p95)
        frames   – complete
        ");
        // Everything was lost.
        let none = FlowRecord { loss_ratio: Some(1.0), lost_packets: 1_234, unknown: None, ..lost.clone() };
        insta::assert_snapshot!(text(&record("caller", vec![none])), @r"
        rate     0 bit/s received, 1.78 Mbit/s sent, target 1.80 Mbit/s
        loss     1,234 of 1,234 packets (100.0 %)
        delay    RTT 123, 999 ms (median, p95)
        frames   0 complete
        ");
        // What this end did not receive, it knows.
        let own = text(&record("listener", vec![FlowRecord { unknown: None, ..lost }]));
        assert_eq!(own.lines().next(), Some("rate     0 bit/s received, target 1.80 Mbit/s"), "{own}");
    }
}
