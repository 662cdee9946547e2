//! The resources that the system granted, and how to get more.

use super::{
    Cell, Column, Table, Tone,
    format::{buffer, or_unknown, time_us},
};
use crate::measured::result::{Quantiles, SystemGranted};

/// With more slack than this the kernel may put off a wake-up noticeably: Linux grants 50 µs unless asked for less
/// (prctl(2), `PR_SET_TIMERSLACK`).
const TIGHT_SLACK_NS: u64 = 1_000;

/// One value: what it is, what was granted, how good that is and how to get more.
struct Grant {
    what: &'static str,
    granted: String,
    tone: Tone,
    hint: String,
}

impl Grant {
    fn good(what: &'static str, granted: impl Into<String>) -> Self {
        Self { what, granted: granted.into(), tone: Tone::Good, hint: String::new() }
    }

    fn fair(what: &'static str, granted: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what, granted: granted.into(), tone: Tone::Fair, hint: hint.into() }
    }

    fn plain(what: &'static str, granted: impl Into<String>) -> Self {
        Self { what, granted: granted.into(), tone: Tone::Plain, hint: String::new() }
    }
}

/// The table of what was granted; `None` where nothing is known.
pub(super) fn table(system: &SystemGranted) -> Option<Table> {
    let grants = grants(system);
    if grants.is_empty() {
        return None;
    }
    let rows: Vec<Vec<Cell>> = grants
        .into_iter()
        .map(|grant| vec![grant.what.into(), Cell::toned(grant.granted, grant.tone), grant.hint.into()])
        .collect();
    Some(Table {
        title: "Resources granted by the system".to_owned(),
        caption:
            "The precision depends on these. Where one could be better, the last column says how to get it."
                .to_owned(),
        columns: vec![Column::words("what"), Column::words("granted"), Column::words("how to get more")],
        rows,
        folded: false,
    })
}

fn grants(system: &SystemGranted) -> Vec<Grant> {
    [
        system.platform.as_ref().map(|platform| Grant::plain("platform", platform)),
        system.processors.map(processors),
        system.timer_slack_ns.map(timer_slack),
        system.time_slice_ns.map(|nanos| Grant::good("time slice", time_us(nanos as f64 / 1e3))),
        system.realtime_priority.map(priority),
        system.wake_latency_us.as_ref().and_then(|late| wake_ups(late, system.wake_lead_us)),
        socket_buffer(
            "send buffer",
            "net.core.wmem_max",
            system.send_buffer_bytes,
            system.send_buffer_asked_bytes,
        ),
        socket_buffer(
            "receive buffer",
            "net.core.rmem_max",
            system.receive_buffer_bytes,
            system.receive_buffer_asked_bytes,
        ),
        system.receive_timestamps.as_deref().map(|place| stamps("arrivals stamped by", place)),
        system.segmentation_offload.map(|on| offload("batched sending (GSO)", on, "4.18")),
        system.receive_offload.map(|on| offload("batched receiving (GRO)", on, "5.0")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn processors(number: u32) -> Grant {
    match number {
        0 | 1 => Grant::fair(
            "processors",
            number.to_string(),
            "Sender and receiver take turns on one processor, and each delays the other. Two or more let both keep time.",
        ),
        _ => Grant::good("processors", number.to_string()),
    }
}

fn timer_slack(nanos: u64) -> Grant {
    let granted = time_us(nanos as f64 / 1e3);
    if nanos <= TIGHT_SLACK_NS {
        return Grant::good("timer slack", granted);
    }
    let hint = format!(
        "The kernel may end each sleep up to {granted} late. The sender asks for the least; a container's seccomp \
         profile may refuse prctl(PR_SET_TIMERSLACK). A real-time priority needs no slack at all."
    );
    Grant::fair("timer slack", granted, hint)
}

/// Not granted but suffered: how late sleeps end, and what the sender makes of it.
fn wake_ups(late: &Quantiles, lead_us: Option<f64>) -> Option<Grant> {
    let (p50, p99) = (time_us(late.p50?), time_us(late.p99?));
    let lead =
        lead_us.filter(|&lead| lead > 0.0).map(|lead| format!(", met by waking {} early", time_us(lead)));
    Some(Grant::plain("wake-ups late by", format!("{p50} median, {p99} p99{}", lead.unwrap_or_default())))
}

fn priority(priority: u32) -> Grant {
    if priority > 0 {
        return Grant::good("priority", format!("real-time, {priority}"));
    }
    Grant::fair(
        "priority",
        "ordinary",
        "Any other program may delay the sender. For a real-time priority run \
         `sudo setcap cap_sys_nice+ep \"$(command -v giusto)\"` once, or raise `ulimit -r`, or run as root.",
    )
}

fn socket_buffer(
    what: &'static str,
    setting: &str,
    granted: Option<u64>,
    asked: Option<u64>,
) -> Option<Grant> {
    let granted = granted?;
    let Some(asked) = asked.filter(|&asked| asked > granted) else {
        return Some(Grant::good(what, buffer(granted)));
    };
    let hint = format!(
        "{} was asked for. A burst that does not fit is dropped. To allow it: `sudo sysctl -w {setting}={asked}`.",
        or_unknown(Some(asked), buffer)
    );
    Some(Grant::fair(what, buffer(granted), hint))
}

fn stamps(what: &'static str, place: &str) -> Grant {
    if place != "program" {
        return Grant::good(what, format!("the {place}"));
    }
    Grant::fair(
        what,
        "the program",
        "These times include the way through the system and waits for the processor. Kernel stamps need \
         SO_TIMESTAMPING (Linux); `ethtool -T INTERFACE` shows what a network card can do.",
    )
}

fn offload(what: &'static str, on: bool, since: &str) -> Grant {
    if on {
        return Grant::good(what, "yes");
    }
    Grant::fair(what, "no", format!("Each datagram costs a system call. Linux {since} or later does better."))
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
