use giusto_congestion::{Cause, Signal};

use super::*;
use crate::{
    record::MediaTimeline,
    scenario::{FlowSpec, LinkSpec, MediaSpec, Transfers, VideoSpec},
    testing::at as ms,
};

/// A record of 60 s with nine decisions, five of them until 12.3 s. In the second around it 250 kB are sent and 125 kB received.
fn record() -> RunRecord {
    let delay = |signal, trend_ms| Cause::Delay { signal, trend_ms, threshold_ms: 12.5 };
    let decisions = [
        (0.0, 0, 300, Cause::Start),
        (9.0, 300, 2500, Cause::Probe { rate_bps: 2.6e6 }),
        (11.5, 2500, 2580, delay(Signal::Normal, 1.25)),
        (11.9, 2580, 2610, delay(Signal::Normal, 3.5)),
        (12.3, 2610, 2050, delay(Signal::OverUse, 14.2)),
        (12.301, 2050, 2050, Cause::ProbeSuppressed),
        (12.5, 2050, 1800, Cause::Loss { ratio: 0.125 }),
        (13.0, 1800, 1850, delay(Signal::Normal, 0.0)),
        (13.5, 1850, 1900, delay(Signal::Normal, 0.0)),
    ];
    let decisions = decisions.map(|(at_s, from, to, cause)| DecisionRecord {
        at_s,
        from_bps: from * 1000,
        to_bps: to * 1000,
        cause,
    });
    // At 11.775 s and 12.825 s, just outside the second, and at 11.825 s and 12.775 s, just inside.
    let column = |values: [u64; 4]| {
        let mut column = vec![0; 1200];
        for (place, value) in [235, 236, 255, 256].into_iter().zip(values) {
            column[place] = value;
        }
        column
    };
    let delays = |values: [u64; 4]| -> Vec<Option<f64>> {
        column(values).into_iter().map(|value| (value > 0).then_some(value as f64)).collect()
    };
    let link = |id: &str, mean: [u64; 4], max: [u64; 4]| LinkTimeline {
        id: id.to_owned(),
        transmitted_packets: column([1, 1, 3, 1]),
        queue_delay_mean_ms: delays(mean),
        queue_delay_max_ms: delays(max),
        ..LinkTimeline::default()
    };
    let flow = FlowTimeline {
        id: "call".to_owned(),
        members: 1,
        sent_bytes: column([9999, 100_000, 150_000, 9999]),
        received_bytes: column([9999, 125_000, 0, 9999]),
        media: Some(MediaTimeline { decisions: decisions.to_vec(), ..MediaTimeline::default() }),
        ..FlowTimeline::default()
    };
    let own = FlowRecord {
        id: "call".to_owned(),
        group: "call".to_owned(),
        controller: Some("gcc:libwebrtc".to_owned()),
        feedback: Some("transport-wide".to_owned()),
        path: ["access", "bottleneck"].map(str::to_owned).to_vec(),
        ..FlowRecord::default()
    };
    RunRecord {
        scenario: "first".to_owned(),
        seed: "1".to_owned(),
        flows: vec![own, FlowRecord { id: "bulk".to_owned(), ..FlowRecord::default() }],
        timeline: Some(Timeline {
            width_s: 0.05,
            t_s: (0..1200).map(|place| (f64::from(place) + 0.5) * 0.05).collect(),
            flows: vec![flow],
            links: vec![
                link("elsewhere", [9000; 4], [9000; 4]),
                link("access", [1, 1, 1, 1], [1, 1, 1, 1]),
                link("bottleneck", [9000, 20, 680, 9000], [9000, 20, 1019, 9000]),
            ],
        }),
        ..RunRecord::default()
    }
}

#[test]
fn the_decisions_around_a_moment_are_shown_with_their_causes() {
    insta::assert_snapshot!(why(&record(), ms(12_300), None).in_words(), @"
    first, seed 1: at 12.3 s

    call, gcc:libwebrtc: target rate 2.050 Mbit/s
          9.000 s  300.000 kbit/s → 2.500 Mbit/s  probe: it measured 2.600 Mbit/s
         11.500 s  2.500 → 2.580 Mbit/s           delay: normal, trend 1.2 ms below threshold 12.5 ms
         11.900 s  2.580 → 2.610 Mbit/s           delay: normal, trend 3.5 ms below threshold 12.5 ms
    >    12.300 s  2.610 → 2.050 Mbit/s           delay: over-use, trend 14.2 ms above threshold 12.5 ms
         12.301 s  stays at 2.050 Mbit/s          probe suppressed by delay, RTT or losses
         12.500 s  2.050 → 1.800 Mbit/s           loss: 12.5 % of the packets
         13.000 s  1.800 → 1.850 Mbit/s           delay: normal, trend 0 ms below threshold 12.5 ms
      within the second around it: sent rate 2.000 Mbit/s, received rate 1.000 Mbit/s
      queueing delay at bottleneck: mean 515 ms, maximum 1,019 ms
    ");
    // The JSON has the same numbers.
    let json = serde_json::to_value(why(&record(), ms(12_300), None)).unwrap();
    let flow = &json["flows"][0];
    let places = |name: &str| {
        flow[name].as_array().unwrap().iter().map(|own| own["at_s"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((&json["at_s"], &flow["target_rate_bps"]), (&12.3.into(), &2_050_000.into()));
    assert_eq!(json["seed"], "1");
    let after = &flow["after"];
    assert_eq!((&after[0]["cause"], &after[1]["ratio"]), (&"probe-suppressed".into(), &0.125.into()));
    assert_eq!((places("before"), places("after")), (vec![9.0, 11.5, 11.9], vec![12.301, 12.5, 13.0]));
    let own = &flow["in_force"];
    assert_eq!((&own["cause"], &own["trend_ms"]), (&"delay".into(), &14.2.into()));
    assert!(own["words"].as_str().unwrap().ends_with("2.610 → 2.050 Mbit/s"));
    let bottleneck = &flow["bottleneck"];
    assert_eq!(bottleneck["link"], "bottleneck");
    assert_eq!(bottleneck["queue_delay_max_ms"], 1019.0);
}

#[test]
fn before_the_first_decision_there_is_no_target() {
    let mut record = record();
    let media = record.timeline.as_mut().unwrap().flows[0].media.as_mut().unwrap();
    media.decisions = vec![DecisionRecord { at_s: 0.001, from_bps: 0, to_bps: 1, cause: Cause::Start }];
    let early = why(&record, ms(0), None);
    assert_eq!((early.flows[0].target_rate_bps, early.flows[0].after.len()), (None, 1));
    // A decision a nanosecond after the moment belongs to it.
    assert_eq!(why(&record, Timestamp::from_nanos(999_999), None).flows[0].target_rate_bps, Some(1));
    record.timeline = None;
    let words = why(&record, ms(0), None).in_words();
    assert!(words.contains("target rate –") && words.contains("no decisions"), "{words}");
}

#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    // The parts of a scenario, as they are before it is built.
    let scenario = |kinds: Vec<(&str, FlowKind)>| {
        let builder = Scenario::builder("s").duration(TimeDelta::from_seconds(10));
        let mut wire = LinkSpec::new("wire", "here", "there");
        wire.config.delay = TimeDelta::from_millis(1).into();
        let builder = builder.duplex(wire);
        let flows = kinds.into_iter().map(|(id, kind)| FlowSpec::new(id, kind, "here", "there"));
        flows.fold(builder, crate::scenario::Builder::flow).build().unwrap()
    };
    let settings = giusto_sim::traffic::tcp::Settings::default();
    let tcp = FlowKind::Tcp { settings, transfers: Transfers::Unlimited };
    let media = FlowKind::Media(MediaSpec::new(Some(VideoSpec::default()), None));
    let mixed = scenario(vec![("bulk", tcp.clone()), ("call", media.clone()), ("other", media)]);
    assert_eq!(check(&mixed, ms(5_000), None), Ok(()));
    assert_eq!(check(&mixed, ms(10_000), Some("other")), Ok(()));
    let refused = |at, flow| check(&mixed, ms(at), flow).unwrap_err();
    assert_eq!(refused(10_001, None), "--why 10.001 s: the run ends at 10 s: ask for an earlier moment");
    let bulk = "--flow bulk: no such flow is of kind media: known are call, other";
    assert_eq!(refused(5_000, Some("bulk")), bulk);
    let none = check(&scenario(vec![("bulk", tcp)]), ms(5_000), None).unwrap_err();
    assert!(none.starts_with("--why: no flow of this scenario has a controller"), "{none}");
}

#[test]
fn only_the_flows_asked_for_are_answered() {
    let ids = |flow| why(&record(), ms(1), flow).flows.iter().map(|flow| flow.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(None), ["call"]);
    assert_eq!((ids(Some("call")).len(), ids(Some("bulk")).len()), (1, 0));
}
