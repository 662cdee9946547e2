//! Events of a scenario file happen to the flows and links that it names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use giusto::{
    record::{RunRecord, TimelineOptions},
    run::{self, RecordOptions},
    scenario::Scenario,
};
use giusto_units::TimeDelta;

/// A call of 20 s over 3 Mbit/s, with these keys of the link and of the flow. Windows of 100 ms.
fn call(link: &str, flow: &str) -> RunRecord {
    let text = format!(
        r#"
        duration = "20 s"
        link = [{{ id = "path", from = "here", to = "there", rate = "3 Mbit/s", delay = "20 ms", {link} reverse = {{ rate = "unlimited", delay = "20 ms" }} }}]
        [[flow]]
        id = "call"
        kind = "media"
        controller = "gcc:libwebrtc"
        {flow}
        "#
    );
    let options = RecordOptions::with_timeline(TimelineOptions::every(TimeDelta::from_millis(100)));
    run::simulate(&Scenario::parse(&text, "call.toml").unwrap(), 1, options, &mut ())
}

#[test]
fn a_route_change_reaches_the_controller() {
    let lowest_after_14_s = |keys: &str| {
        let timeline = call("", &format!("start-rate = \"300 kbit/s\"\n{keys}")).timeline.unwrap();
        let media = timeline.flows[0].media.as_ref().unwrap();
        let late = media.decisions.iter().filter(|decision| decision.at_s >= 14.0);
        late.map(|decision| (decision.to_bps, decision.at_s)).min_by_key(|&(bps, _)| bps)
    };
    // The controller starts again, and probes then.
    let (bps, at) = lowest_after_14_s("route-changes = [\"15 s\"]").unwrap();
    assert!(bps == 300_000 && (15.0..15.05).contains(&at), "{bps} {at}");
    assert!(lowest_after_14_s("").is_none_or(|(bps, _)| bps > 1_200_000));
}

#[test]
fn loss_steps_lose_packets_from_their_time_on() {
    let record = call("loss = { steps = [[\"0 s\", 0.0], [\"10 s\", 0.1], [\"15 s\", 0.0]] },", "");
    let timeline = record.timeline.unwrap();
    let lost = |from: usize, to: usize| timeline.links[0].lost_packets[from..to].iter().sum::<u64>();
    assert_eq!((lost(0, 100), lost(152, 200)), (0, 0));
    let sent: u64 = timeline.links[0].transmitted_packets[100..150].iter().sum();
    let ratio = lost(100, 150) as f64 / sent as f64;
    assert!((0.06..0.14).contains(&ratio), "{ratio}");
}

#[test]
fn a_policer_drops_what_exceeds_its_rate() {
    let policer = "queue = { kind = \"policer\", rate = \"1 Mbit/s\", burst = \"20 kB\" },";
    let record = call(policer, "min-rate = \"2 Mbit/s\"");
    let bytes: u64 = record.timeline.as_ref().unwrap().links[0].transmitted_bytes.iter().sum();
    let rate = bytes as f64 * 8.0 / 20.0;
    assert!((0.9e6..=1.01e6).contains(&rate), "{rate}");
    let dropped = record.links[0].dropped_packets as f64 / record.links[0].offered_packets as f64;
    assert!((0.3..0.7).contains(&dropped), "{dropped}");
}
