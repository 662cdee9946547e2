use giusto_congestion::{Cause, Signal};
use giusto_sim::{
    packet::{BodyId, Packet},
    trace::Waiting,
};
use giusto_units::{DataRate, DataSize, Ecn};

use crate::scenario::{FlowKind, FlowSpec, LinkSpec, MediaSpec, Scenario};
use crate::view::why::*;

const FLOW: FlowId = FlowId(3);

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn observer(at_ms: u64) -> WhyObserver {
    let flows = vec![Watched::new((FLOW, "call".to_owned()), "gcc:libwebrtc+giusto".to_owned())];
    let links = vec!["access".to_owned(), "bottleneck".to_owned()];
    WhyObserver::watching(ms(at_ms), ms(60_000), (flows, links))
}

fn packet(flow: FlowId, bytes: u32) -> Packet {
    Packet {
        flow,
        bytes,
        sequence: 0,
        sent: Timestamp::ZERO,
        queued: Timestamp::ZERO,
        waited_ns: 0,
        body: BodyId::NONE,
        hop: 0,
        ecn: Ecn::NotEct,
    }
}

/// Six decisions, three of them until 12.3 s, and some packets around.
fn feed(observer: &mut WhyObserver) {
    let delay = |signal, trend_ms| Cause::Delay { signal, trend_ms, threshold_ms: 12.5 };
    for (at, from, to, cause) in [
        (0, 0, 300, Cause::Start),
        (9_000, 300, 2500, Cause::Probe { rate_bps: 2.6e6 }),
        (11_500, 2500, 2580, delay(Signal::Normal, 1.25)),
        (11_900, 2580, 2610, delay(Signal::Normal, 3.5)),
        (12_300, 2610, 2050, delay(Signal::OverUse, 14.2)),
        (12_301, 2050, 2050, Cause::ProbeSuppressed),
        (12_500, 2050, 1800, Cause::Loss { ratio: 0.125 }),
        (13_000, 1800, 1850, delay(Signal::Normal, 0.0)),
        (13_500, 1850, 1900, delay(Signal::Normal, 0.0)),
    ] {
        let [from, to] = [from, to].map(|kilobits| DataRate::from_bps(kilobits * 1000));
        let decision = Decision { at: ms(at), from, to, cause };
        observer.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
        observer.on_note(ms(at), &Note::Decided { flow: FlowId(4), decision });
    }
    let waiting = Waiting { packets: 1, size: DataSize::from_bytes(1) };
    for (at, bytes) in [(11_799, 9999), (11_800, 100_000), (12_799, 150_000), (12_800, 9999)] {
        let packet = packet(FLOW, bytes);
        observer.on_event(ms(at), &Event::Sent { packet });
        for (link, sojourn) in [(0, 1), (1, at - 11_780)] {
            let (link, sojourn) = (LinkId(link), TimeDelta::from_millis(sojourn as i64));
            observer.on_event(ms(at), &Event::Dequeued { link, packet, sojourn, waiting });
        }
    }
    observer.on_event(ms(12_000), &Event::Delivered { packet: packet(FLOW, 125_000) });
    observer.on_event(ms(12_000), &Event::Delivered { packet: packet(FlowId(4), 125_000) });
}

#[test]
fn the_decisions_around_a_moment_are_told_with_their_causes() {
    let mut observer = observer(12_300);
    feed(&mut observer);
    insta::assert_snapshot!(observer.answer(("first", 1)).in_words(), @"
    first, seed 1: at 12.3 s

    call, gcc:libwebrtc+giusto: target 2.050 Mbit/s
          9.000 s  300.000 kbit/s → 2.500 Mbit/s  probe: it measured 2.600 Mbit/s
         11.500 s  2.500 → 2.580 Mbit/s           delay: normal, trend 1.2 ms below threshold 12.5 ms
         11.900 s  2.580 → 2.610 Mbit/s           delay: normal, trend 3.5 ms below threshold 12.5 ms
    >    12.300 s  2.610 → 2.050 Mbit/s           delay: over-use, trend 14.2 ms above threshold 12.5 ms
         12.301 s  stays at 2.050 Mbit/s          probe suppressed by delay, RTT or losses
         12.500 s  2.050 → 1.800 Mbit/s           loss: 12.5 % of the packets
         13.000 s  1.800 → 1.850 Mbit/s           delay: normal, trend 0 ms below threshold 12.5 ms
      within the second around it: sent 2.000 Mbit/s, received 1.000 Mbit/s
      in the queue of bottleneck: 520 ms on average, at most 1,019 ms
    ");
}

#[test]
fn the_json_has_the_same_with_its_numbers() {
    let mut observer = observer(12_300);
    feed(&mut observer);
    let json = serde_json::to_value(observer.answer(("first", 1))).unwrap();
    let flow = &json["flows"][0];
    assert_eq!((&json["at_s"], &json["seed"]), (&12.3.into(), &"1".into()));
    assert_eq!((&flow["target_bps"], &flow["in_force"]["cause"]), (&2_050_000.into(), &"delay".into()));
    assert_eq!(flow["in_force"]["trend_ms"], 14.2);
    assert_eq!((&flow["before"].as_array().unwrap().len(), &flow["before"][0]["at_s"]), (&3, &9.0.into()));
    assert_eq!(
        (&flow["after"][0]["cause"], &flow["after"][1]["ratio"]),
        (&"probe-suppressed".into(), &0.125.into())
    );
    assert_eq!(flow["after"].as_array().unwrap().len(), 3);
    // 250 kB and 125 kB within a second.
    assert_eq!((&flow["sent_rate_bps"], &flow["received_rate_bps"]), (&2e6.into(), &1e6.into()));
    assert_eq!(flow["bottleneck"]["link"], "bottleneck");
    assert_eq!(flow["bottleneck"]["queue_delay_max_ms"], 1019.0);
}

#[test]
fn before_the_first_decision_nothing_is_in_force() {
    let mut early = observer(0);
    let decision = Decision { at: ms(1), ..Decision::default() };
    early.on_note(ms(1), &Note::Decided { flow: FLOW, decision });
    early.on_event(ms(499), &Event::Sent { packet: packet(FLOW, 625) });
    let why = early.answer(("first", 1));
    assert_eq!((why.flows[0].target_bps, why.flows[0].after.len()), (None, 1));
    // Half a second is all there is before.
    assert_eq!(why.flows[0].sent_rate_bps.round() as u64, 10_000);
    let why = observer(0).answer(("first", 1)).in_words();
    assert!(why.contains("target –") && why.contains("nothing was decided"), "{why}");
}

#[test]
fn a_question_that_cannot_be_answered_is_refused_with_the_mend() {
    // The parts of a scenario, as they are before it is built.
    let scenario = |kinds: Vec<(&str, FlowKind)>| {
        let builder = Scenario::builder("s").duration(TimeDelta::from_seconds(10));
        let builder = builder.duplex(LinkSpec::new("wire", "here", "there"));
        let flows = kinds.into_iter().map(|(id, kind)| FlowSpec::new(id, kind, ("here", "there")));
        flows.fold(builder, crate::scenario::Builder::flow).unchecked()
    };
    let tcp = || FlowKind::Tcp {
        settings: giusto_sim::traffic::tcp::Settings::default(),
        transfers: crate::scenario::Transfers::Unlimited,
    };
    let media = || FlowKind::Media(MediaSpec::new(Some(crate::scenario::VideoSpec::default()), None));
    let mixed = scenario(vec![("bulk", tcp()), ("call", media()), ("other", media())]);
    let ids = |flow| {
        let observer = WhyObserver::new(&mixed, ms(5_000), flow).unwrap();
        observer.flows.iter().map(|flow| (flow.id.0, flow.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(None), [(2, "call".to_owned()), (4, "other".to_owned())]);
    assert_eq!(ids(Some("other")), [(4, "other".to_owned())]);
    let told = |at, flow| WhyObserver::new(&mixed, ms(at), flow).unwrap_err();
    assert_eq!(told(10_001, None), "--why 10.001 s: the run ends at 10 s: ask for an earlier moment");
    assert_eq!(
        told(5_000, Some("bulk")),
        "--flow bulk: no such flow is of kind media: known are call, other"
    );
    let bulk = scenario(vec![("bulk", tcp())]);
    let none = WhyObserver::new(&bulk, ms(5_000), None).unwrap_err();
    assert!(none.starts_with("--why: no flow of this scenario has a controller"), "{none}");
}
