//! The resources that the system granted, and how to get more.

use super::{
    Cell, Column, Table, Tone,
    format::{buffer, time_us},
};
use crate::measured::result::{Quantiles, SystemGranted};

/// With more slack than this the kernel may put off a wake-up noticeably: Linux grants 50 µs unless asked for less
/// (prctl(2), `PR_SET_TIMERSLACK`).
const TIGHT_SLACK_NS: u64 = 1_000;

/// One value: what was granted, and how to get more if it could be better.
type Grant = (String, Option<String>);

/// The table of what was granted; `None` where nothing is known.
pub(super) fn table(system: &SystemGranted) -> Option<Table> {
    let good = |granted: String| (granted, None);
    let fair = |is_fair: bool, granted: String, hint: String| (granted, is_fair.then_some(hint));
    let grants: [(&str, Option<Grant>); 10] = [
        (
            "processors",
            system.processors.map(|number| {
                let hint = "Sender and receiver take turns on one processor, and each delays the other. With two or more, both keep time.";
                fair(number < 2, number.to_string(), hint.to_owned())
            }),
        ),
        (
            "timer slack",
            system.timer_slack_ns.map(|nanos| {
                let granted = time_us(nanos as f64 / 1e3);
                let hint = format!(
                    "The kernel may end each sleep up to {granted} late. The sender asks for the minimum; a container's \
                     seccomp profile may refuse prctl(PR_SET_TIMERSLACK). A real-time priority needs no slack at all."
                );
                fair(nanos > TIGHT_SLACK_NS, granted, hint)
            }),
        ),
        ("time slice", system.time_slice_ns.map(|nanos| good(time_us(nanos as f64 / 1e3)))),
        (
            "priority",
            system.realtime_priority.map(|priority| {
                let hint = "Any other program may delay the sender. For a real-time priority run \
                     `sudo setcap cap_sys_nice+ep \"$(command -v giusto)\"` once, or raise `ulimit -r`, or run as root.";
                let granted = if priority > 0 { format!("real-time, {priority}") } else { "ordinary".to_owned() };
                fair(priority == 0, granted, hint.to_owned())
            }),
        ),
        ("wake-ups late by", system.wake_latency_us.as_ref().and_then(|late| wake_ups(late, system.wake_lead_us))),
        (
            "send buffer",
            socket_buffer("net.core.wmem_max", system.send_buffer_bytes, system.send_buffer_asked_bytes),
        ),
        (
            "receive buffer",
            socket_buffer("net.core.rmem_max", system.receive_buffer_bytes, system.receive_buffer_asked_bytes),
        ),
        (
            "arrivals stamped by",
            system.receive_timestamps.as_deref().map(|place| {
                let hint = "These times include the way through the system and waits for the processor. Kernel stamps need \
                     SO_TIMESTAMPING (Linux); `ethtool -T INTERFACE` shows what a network card can do.";
                fair(place == "program", format!("the {place}"), hint.to_owned())
            }),
        ),
        ("batched sending (GSO)", system.segmentation_offload.map(|on| offload(on, "4.18"))),
        ("batched receiving (GRO)", system.receive_offload.map(|on| offload(on, "5.0"))),
    ];
    let row = |what: &str, granted: Cell, hint: String| vec![what.into(), granted, hint.into()];
    let platform =
        system.platform.iter().map(|platform| row("platform", platform.as_str().into(), String::new()));
    let known = grants.into_iter().filter_map(|(what, grant)| {
        let (granted, hint) = grant?;
        let tone = match (&hint, what) {
            (_, "wake-ups late by") => Tone::Plain,
            (Some(_), _) => Tone::Fair,
            (None, _) => Tone::Good,
        };
        Some(row(what, Cell::toned(granted, tone), hint.unwrap_or_default()))
    });
    let rows: Vec<Vec<Cell>> = platform.chain(known).collect();
    let caption = "The precision depends on these. The last column says how to improve one.";
    let columns = ["resource", "granted", "how to get more"].map(Column::words);
    (!rows.is_empty()).then(|| Table::new("Resources granted by the system", caption, columns, rows))
}

/// Not granted but measured: how late sleeps end, and how early the sender wakes for it.
fn wake_ups(late: &Quantiles, lead_us: Option<f64>) -> Option<Grant> {
    let (p50, p99) = (time_us(late.p50?), time_us(late.p99?));
    let lead = lead_us.filter(|&lead| lead > 0.0);
    let lead = lead.map_or_else(String::new, |lead| format!(", met by waking {} early", time_us(lead)));
    Some((format!("{p50} median, {p99} p99{lead}"), None))
}

fn socket_buffer(setting: &str, granted: Option<u64>, asked: Option<u64>) -> Option<Grant> {
    let (granted, asked) = (granted?, asked.unwrap_or(0));
    let hint = format!(
        "{} was requested. A burst that does not fit is dropped. To allow it: `sudo sysctl -w {setting}={asked}`.",
        buffer(asked)
    );
    Some((buffer(granted), (asked > granted).then_some(hint)))
}

fn offload(on: bool, since: &str) -> Grant {
    let hint = format!("Each datagram costs a system call. Linux {since} or later does better.");
    if on { ("yes".to_owned(), None) } else { ("no".to_owned(), Some(hint)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &SystemGranted, what: &str) -> (String, Tone, String) {
        let table = table(system).unwrap();
        let row = table.rows.iter().find(|row| row[0].text == what).unwrap();
        (row[1].text.clone(), row[1].tone, row[2].text.clone())
    }

    #[test]
    fn a_value_that_could_be_better_says_how() {
        let system = SystemGranted {
            receive_buffer_asked_bytes: Some(4_194_304),
            receive_buffer_bytes: Some(425_984),
            send_buffer_asked_bytes: Some(425_984),
            send_buffer_bytes: Some(425_984),
            timer_slack_ns: Some(50_000),
            realtime_priority: Some(0),
            ..SystemGranted::default()
        };
        let (granted, tone, hint) = row(&system, "receive buffer");
        assert_eq!((granted.as_str(), tone), ("426 kB", Tone::Fair));
        assert!(hint.contains("sudo sysctl -w net.core.rmem_max=4194304"), "{hint}");
        assert_eq!(row(&system, "send buffer"), ("426 kB".to_owned(), Tone::Good, String::new()));
        assert!(row(&system, "timer slack").2.contains("up to 50.0 µs late"));
        assert!(row(&system, "priority").2.contains("cap_sys_nice"));
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        assert_eq!(table(&SystemGranted::default()), None);
        let system = SystemGranted { timer_slack_ns: Some(1), ..SystemGranted::default() };
        assert_eq!(table(&system).unwrap().rows.len(), 1);
        assert_eq!(row(&system, "timer slack"), ("1 ns".to_owned(), Tone::Good, String::new()));
    }
}
