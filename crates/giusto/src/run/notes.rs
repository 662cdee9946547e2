//! What the figures of a run do not explain by themselves.

use giusto_sim::{
    link::{queue::Limit, rate::RateProfile},
    traffic::PacketSize,
};
use giusto_units::DataSize;

use crate::{
    record::RunRecord,
    scenario::{FlowKind, FlowSpec, LinkSpec, QueueSpec, Scenario},
};

/// IPv4 and TCP headers without options.
const TCP_HEADERS: u64 = 40;

/// A line for each link whose queue is measured in time and shorter than a packet that was sent there: it drops each such packet, even
/// when it is empty.
pub(super) fn short_queues(scenario: &Scenario, record: &RunRecord) -> Vec<String> {
    let of_link = |link: &LinkSpec| {
        let (QueueSpec::DropTail(Limit::Time(limit)), RateProfile::Fixed(rate)) =
            (&link.queue, &link.config.rate)
        else {
            return None;
        };
        let room = rate.size_in(*limit);
        let crosses = |flow: &FlowSpec| {
            let mut own = record.flows.iter().filter(|own| own.group == flow.id);
            own.any(|own| own.sent_packets > 0 && own.path.contains(&link.id))
        };
        let is_wide =
            |flow: &&FlowSpec| largest_packet(flow).is_some_and(|size| size > room) && crosses(flow);
        let flow = scenario.flows().iter().find(is_wide)?;
        Some(format!(
            "link \"{}\": its queue of {limit} holds {room} at {rate}: larger packets, as of flow \"{}\", are all dropped; set \
             its limit in bytes or packets",
            link.id, flow.id
        ))
    };
    scenario.links().iter().filter_map(of_link).collect()
}

/// A line for each expectation about a time beyond the end.
pub(super) fn unjudged(scenario: &Scenario) -> impl Iterator<Item = String> {
    let end = scenario.end();
    let beyond = scenario.expectations().iter().filter(move |own| !own.is_within(end));
    beyond.map(move |own| format!("not judged, as the run ends at {} s: {}", end.as_seconds(), own.title()))
}

/// The size of the packets of a flow, or of its large ones, if it is known.
fn largest_packet(flow: &FlowSpec) -> Option<DataSize> {
    match &flow.kind {
        FlowKind::Source { size: PacketSize::Fixed(size), .. } => Some(*size),
        FlowKind::Tcp { settings, .. } => Some(DataSize::from_bytes(u64::from(settings.mss) + TCP_HEADERS)),
        FlowKind::Media(media) if !media.videos.is_empty() => Some(media.max_payload),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run::{RecordOptions, simulate},
        scenario::Document,
    };

    fn notes(link: &str, flow: &str) -> Vec<String> {
        let text = format!(
            "duration = \"5 s\"\n[[link]]\nid = \"wire\"\nfrom = \"a\"\nto = \"b\"\nduplex = true\n{link}\n[[flow]]\nid = \"own\"\n{flow}\n"
        );
        let scenario = Scenario::parse(&text, "s.toml").unwrap();
        let record = simulate(&scenario, 1, RecordOptions::default(), &mut ());
        let notes = record.notes.clone();
        // What is said is so.
        let own = &record.flows[0];
        assert_eq!(notes.is_empty(), own.loss_ratio < Some(0.5), "{:?}", own.loss_ratio);
        notes
    }

    #[test]
    fn a_queue_without_room_for_a_packet_is_noted() {
        let slow = "rate = \"20 kbit/s\"";
        let cbr = |size: u32| format!("kind = \"cbr\"\nrate = \"10 kbit/s\"\nsize = \"{size} B\"");
        insta::assert_snapshot!(notes(slow, &cbr(751)).join("\n"), @r#"link "wire": its queue of 300 ms holds 750 B at 20 kbit/s: larger packets, as of flow "own", are all dropped; set its limit in bytes or packets"#);
        assert_eq!(notes(slow, &cbr(750)), [""; 0]);
        let short = slow.to_owned() + "\nqueue = { kind = \"drop-tail\", limit = \"1 packets\" }";
        assert_eq!(notes(&short, &cbr(751)), [""; 0]);
        assert_eq!(notes("rate = \"1 Mbit/s\"", &cbr(1500)), [""; 0]);
        assert_eq!(notes(slow, "kind = \"tcp\"").len(), 1);
        assert_eq!(notes(slow, "kind = \"tcp\"\nmss = \"500 B\""), [""; 0]);
    }

    #[test]
    fn expectations_beyond_an_end_that_is_set_are_noted_and_not_judged() {
        let text = "link = [{ id = \"wire\", from = \"a\", to = \"b\" }]\n\
                    flow = [{ id = \"own\", kind = \"cbr\", rate = \"64 kbit/s\", size = \"200 B\" }]\n\
                    expect = [{ flow = \"own\", metric = \"loss\", max = 0 },\n\
                    { flow = \"own\", metric = \"loss\", from = \"3 s\", max = 0 },\n\
                    { flow = \"own\", metric = \"loss\", to = \"4 s\", max = 0 }]\n";
        let file = |duration: &str| {
            Document::parse(&format!("{text}duration = \"{duration}\"\n"), "s.toml").unwrap()
        };
        let run = |duration: &str| {
            let set = format!("duration={duration}").parse().unwrap();
            let record =
                simulate(&file("5 s").scenario(&[set]).unwrap(), 1, RecordOptions::default(), &mut ());
            assert!(record.passed(), "{:?}", record.checks);
            (record.checks.len(), record.notes.join("\n"))
        };
        assert_eq!(run("4s"), (3, String::new()));
        let both = "not judged, as the run ends at 3 s: flow own: loss from 3 s\n\
                    not judged, as the run ends at 3 s: flow own: loss until 4 s";
        assert_eq!(run("3s"), (1, both.to_owned()));
        // A file must be right by itself, also one that is made.
        let refused = file("3 s").scenario(&[]).unwrap_err().to_string();
        assert!(
            refused.contains(
                "s.toml:4: expect of flow own: loss from 3 s: from must be before the end of the run, 3 s"
            ),
            "{refused}"
        );
        let made = file("5 s").text_with(&["duration=3s".parse().unwrap()]).unwrap_err().to_string();
        assert_eq!(made, refused.replace("3 s\"", "3s\""));
        assert!(file("5 s").text_with(&["duration=4s".parse().unwrap()]).is_ok());
    }
}
