//! Events of a scenario file happen to the flows and links that it names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use giusto::{
    record::{RunRecord, TimelineOptions},
    run::{self, RecordOptions},
    scenario::Scenario,
    view::tables::tables,
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

/// A run of 10 s with these keys, and packets at 1 Mbit/s with these times on a link with these keys; `more` follows.
fn packets(keys: &str, link: &str, times: &str, more: &str) -> RunRecord {
    let text = format!(
        r#"
        duration = "10 s"
        {keys}
        link = [{{ id = "path", from = "here", to = "there", {link} }}]
        [[flow]]
        id = "packets"
        kind = "cbr"
        rate = "1 Mbit/s"
        size = "1250 B"
        {times}
        {more}
        "#
    );
    run::simulate(&Scenario::parse(&text, "packets.toml").unwrap(), 1, RecordOptions::default(), &mut ())
}

#[test]
fn a_change_leaves_what_was_before_it() {
    // Steps that begin after it: the first rate and the first delay apply from the start.
    let rate = r#"rate = { steps = [["5 s", "100 Mbit/s"]] }"#;
    let change = |what: &str| format!("[[change]]\nat = \"2 s\"\nlink = \"path\"\n{what}");
    let early = "stop = \"1 s\"";
    let slower = change("rate = \"100 kbit/s\"");
    assert_eq!(packets("", rate, early, &slower).flows, packets("", rate, early, "").flows);
    let delay = r#"rate = "10 Mbit/s", delay = { steps = [["5 s", "100 ms"]] }"#;
    let shorter = change("delay = \"10 ms\"");
    let longest = |times| packets("", delay, times, &shorter).flows[0].delay_ms.unwrap().max;
    // 1 ms on the wire.
    let found = [early, "start = \"2.5 s\"\nstop = \"3 s\""].map(longest);
    assert!((found[0] - 101.0).abs() < 1.0 && (found[1] - 11.0).abs() < 0.1, "{found:?}");
}

#[test]
fn an_outage_that_no_change_ends_lasts_to_the_end() {
    let outage = "[[change]]\nat = \"2 s\"\nlink = \"path\"\nrate = \"0\"";
    let received =
        |link: &str, times: &str, more: &str| packets("", link, times, more).flows[0].received_packets;
    for link in [
        r#"rate = "10 Mbit/s""#,
        // Steps that begin with it: the first rate applies from the start.
        r#"rate = { steps = [["2 s", "10 Mbit/s"]] }"#,
    ] {
        assert_eq!(received(link, "", outage), received(link, "stop = \"2 s\"", ""), "{link}");
        let later = format!("{outage}\n[[change]]\nat = \"3 s\"\nlink = \"path\"\nrate = \"10 Mbit/s\"");
        assert!(received(link, "", &later) > 2 * received(link, "", outage), "{link}");
    }
}

#[test]
fn what_has_no_time_has_no_rate_and_meets_no_expectation() {
    let link = r#"rate = "10 Mbit/s""#;
    let expect = |flows: &str, metric: &str| {
        format!("[[expect]]\nflow = {flows}\nmetric = \"{metric}\"\nmax = 20000000\n")
    };
    let met = |record: &RunRecord| {
        record.checks.iter().map(|check| (check.value.is_some(), check.passed)).collect::<Vec<_>>()
    };
    // It is over before it has warmed up.
    let own = ["sent-packets", "loss"].map(|metric| expect("\"packets\"", metric)).concat();
    let record = packets("warmup = \"5 s\"", link, "start = \"1 s\"\nstop = \"2 s\"", &own);
    assert_eq!(met(&record), [(false, false); 2]);
    let flow = &record.flows[0];
    assert_eq!((flow.from_s, flow.to_s), (6.0, 6.0));
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["flows"][0]["received_rate_bps"], serde_json::Value::Null);
    let again: RunRecord = serde_json::from_value(json).unwrap();
    assert!(again.flows[0].received_rate_bps.is_nan());
    let shown = tables(&record, 200);
    assert!(shown.contains("–"), "{shown}");
    let record = packets("", link, "start = \"1 s\"\nstop = \"2 s\"", &own);
    assert_eq!(met(&record), [(true, true); 2]);
    // Two flows that never send together.
    let more = r#"
        [[flow]]
        id = "other"
        kind = "cbr"
        rate = "1 Mbit/s"
        size = "1250 B"
        start = "3 s""#;
    let both = expect("[\"packets\", \"other\"]", "sent-packets") + &expect("\"other\"", "sent-packets");
    let record = packets("", link, "stop = \"2 s\"", &format!("{more}\n{both}"));
    assert_eq!(met(&record), [(false, false), (true, true)]);
}

#[test]
fn a_target_is_one_of_the_time_in_which_its_flow_sends() {
    let target = |from: u32, to: u32| {
        let flow = format!(
            r#"start = "5 s"
            stop = "10 s"
            start-rate = "1 Mbit/s"
            max-rate = "1 Mbit/s"
            [[expect]]
            flow = "call"
            metric = "target-rate"
            from = "{from} s"
            to = "{to} s"
            min = "1 kbit/s""#
        );
        call("", &flow).checks[0].value
    };
    assert_eq!([target(0, 5), target(10, 20)], [None; 2]);
    let [whole, own] = [target(0, 20), target(5, 10)];
    assert!(whole == own && own > Some(0.9e6) && own < Some(1.1e6), "{whole:?} {own:?}");
}

#[test]
fn a_flow_without_an_end_sends_nothing_at_the_end_of_the_run() {
    for times in ["", "stop = \"20 s\""] {
        let record = packets("", r#"rate = "10 Mbit/s""#, times, "");
        let (flow, link) = (&record.flows[0], &record.links[0]);
        assert_eq!((flow.sent_packets, link.offered_packets, link.in_flight_packets), (1000, 1000, 0));
    }
}
