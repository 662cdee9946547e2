use giusto_congestion::{Cause, Decision};
use giusto_units::{DataRate, DataSize};

use super::*;
use crate::{
    record::{FlowRecord, PlannedFlow, PlannedLink, Recorder, RunRecord},
    simulation::Simulation,
    testing::at as ms,
    trace::{Event, Observer},
};

const LINK: LinkId = LinkId(0);
const FLOW: FlowId = FlowId(1);

fn packet(flow: FlowId, sent: Timestamp) -> Packet {
    Packet { flow, bytes: 100, sent, queued: sent, queue_delay_ns: 3_000_000, ..Packet::default() }
}

fn backlog(packets: u64) -> Backlog {
    Backlog { packets, size: DataSize::from_bytes(packets * 100) }
}

fn plan(end: Timestamp, rate: RateProfile) -> RecordPlan {
    let about = FlowRecord { id: "call".to_owned(), ..FlowRecord::default() };
    RecordPlan {
        end,
        flows: vec![PlannedFlow { flow: FLOW, window: ms(0)..end, about, ..PlannedFlow::default() }],
        links: vec![PlannedLink {
            link: LINK,
            rate,
            window: ms(0)..end,
            about: types::LinkRecord { id: "link".to_owned(), ..types::LinkRecord::default() },
        }],
        timeline: Some(TimelineOptions::every(TimeDelta::from_millis(10))),
        ..RecordPlan::default()
    }
}

/// The timeline of a run until `end` in windows of 10 ms, with the events of `feed`.
fn timeline(end: Timestamp, feed: impl Fn(&mut TimelineRecorder)) -> types::Timeline {
    let plan = plan(end, RateProfile::Unlimited);
    let mut recorder = TimelineRecorder::new(&plan, plan.timeline.unwrap());
    feed(&mut recorder);
    recorder.finish(&plan, end)
}

#[test]
fn queue_lengths_are_weighted_by_time_across_windows() {
    let timeline = timeline(ms(35), |timeline| {
        for (at, packets) in [(2, 4), (5, 6)] {
            timeline.advance(ms(at));
            timeline.on_queued(ms(at), LINK, backlog(packets));
        }
        timeline.advance(ms(25));
        let packet = (LINK, &packet(FLOW, ms(0)));
        timeline.on_dequeued(ms(25), packet.0, packet.1, TimeDelta::from_millis(23), backlog(2));
    });
    assert!((timeline.width_s - 0.01).abs() < 1e-12);
    assert!(timeline.t_s.iter().zip([0.005, 0.015, 0.025, 0.0325]).all(|(a, b)| (a - b).abs() < 1e-12));
    let link = &timeline.links[0];
    // 3 ms with 4 and 5 ms with 6; 10 ms with 6; 5 ms with 6 and 5 ms with 2; 5 of 5 ms with 2.
    assert_eq!(link.queued_mean_bytes, [420.0, 600.0, 400.0, 200.0]);
    assert_eq!(link.queued_max_bytes, [600, 600, 600, 200]);
    assert_eq!(link.queue_delay_max_ms, [None, None, Some(23.0), None]);
    assert_eq!(link.queue_delay_mean_ms, link.queue_delay_max_ms);
    assert_eq!((link.transmitted_packets[2], link.transmitted_bytes[2]), (1, 100));
}

#[test]
fn events_belong_to_their_windows() {
    let timeline = timeline(ms(30), |timeline| {
        // The end, 30 ms, is outside.
        for at in [0, 9, 10, 29, 30] {
            timeline.advance(ms(at));
            timeline.on_sent(&packet(FLOW, ms(at)));
            if at < 29 {
                continue;
            }
            timeline.on_delivered(ms(at), &packet(FLOW, ms(at - 20)));
            timeline.on_delivered(ms(at), &packet(FLOW, ms(at - 29)));
            for (reason, is_lost) in [(DropReason::Aqm, true), (DropReason::Loss, false)] {
                timeline.on_dropped(ms(at), LINK, &packet(FLOW, ms(0)), reason, backlog(0), is_lost);
            }
        }
        // A flow that is not recorded.
        timeline.on_sent(&packet(FlowId(0), ms(30)));
    });
    let flow = &timeline.flows[0];
    assert_eq!(flow.sent_packets, [2, 1, 1]);
    assert_eq!(flow.received_bytes, [0, 0, 200]);
    assert_eq!(flow.delay_mean_ms, [None, None, Some(24.5)]);
    assert_eq!((flow.delay_max_ms[2], flow.queue_delay_max_ms[2]), (Some(29.0), Some(3.0)));
    assert_eq!(flow.dropped_packets, [0, 0, 1]);
    let link = &timeline.links[0];
    assert_eq!((link.dropped_packets[2], link.lost_packets[2]), (1, 1));
}

#[test]
fn gauges_are_averaged_within_their_windows() {
    let timeline = timeline(ms(30), |timeline| {
        for (at, value) in [(0, 10.0), (5, 20.0), (6, f64::NAN), (25, 7.0)] {
            timeline.on_gauge(ms(at), FLOW, "cwnd_bytes", value);
        }
    });
    let [gauge] = &timeline.flows[0].gauges[..] else { panic!("one gauge") };
    assert_eq!((gauge.name.as_str(), &gauge.mean[..]), ("cwnd_bytes", &[Some(15.0), None, Some(7.0)][..]));
}

#[test]
fn a_target_is_weighted_by_time_and_frames_by_their_maximum() {
    let timeline = timeline(ms(40), |timeline| {
        let decide = |timeline: &mut TimelineRecorder, at, from, to| {
            let [from, to] = [from, to].map(DataRate::from_bps);
            let decision = Decision::new(ms(at), to, Cause::Start).with_from(from);
            timeline.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
        };
        let frame = |timeline: &mut TimelineRecorder, at, ssrc, delay: Option<i64>| {
            let (delay, size) = (delay.map(TimeDelta::from_millis), DataSize::from_bytes(at));
            timeline.on_note(
                ms(at),
                &Note::Frame { flow: FLOW, ssrc, at: ms(at), delay, size, repaired: false, late: false },
            );
        };
        decide(timeline, 12, 0, 1000);
        decide(timeline, 15, 1000, 2000);
        frame(timeline, 21, 2, Some(30));
        frame(timeline, 22, 1, None);
        decide(timeline, 35, 2000, 500);
        frame(timeline, 39, 2, Some(50));
        frame(timeline, 39, 2, Some(40));
        // The end is outside.
        frame(timeline, 40, 2, Some(60));
        decide(timeline, 40, 500, 700);
    });
    let media = timeline.flows[0].media.as_ref().unwrap();
    // No target in the first 12 ms; 3 ms of 1000 and 5 ms of 2000; 10 ms of 2000; 5 ms of each.
    let means: Vec<_> = media.target_rate_bps.iter().map(|mean| mean.map(f64::round)).collect();
    assert_eq!(means, [None, Some(1625.0), Some(2000.0), Some(1250.0)]);
    assert_eq!(media.frames, [0, 0, 2, 2]);
    assert_eq!(media.frame_delay_max_ms, [None, None, Some(30.0), Some(50.0)]);
    let streams: Vec<_> = media.streams.iter().map(|own| (own.ssrc, own.frame_bytes.clone())).collect();
    assert_eq!(streams, [(1, vec![0, 0, 22, 0]), (2, vec![0, 0, 21, 78])]);
    assert_eq!((media.decisions.len(), media.omitted_decisions), (3, 0));
    assert_eq!(timeline.flows[0].goodput_bytes, [0, 0, 43, 78]);
}

#[test]
fn a_flow_that_has_stopped_has_no_target() {
    let end = ms(40);
    let mut plan = plan(end, RateProfile::Unlimited);
    plan.flows[0].window.end = ms(15);
    let mut recorder = TimelineRecorder::new(&plan, plan.timeline.unwrap());
    // Feedback of what was sent before comes later.
    for (at, bps) in [(0, 1000), (25, 2000)] {
        let decision = Decision::new(ms(at), DataRate::from_bps(bps), Cause::Start);
        recorder.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
    }
    let timeline = recorder.finish(&plan, end);
    let media = timeline.flows[0].media.as_ref().unwrap();
    assert_eq!(media.target_rate_bps, [Some(1000.0), Some(1000.0), None, None]);
    assert_eq!(media.decisions.len(), 2);
}

#[test]
fn a_long_run_takes_no_more_memory_than_a_short_one() {
    let windows = |seconds: u64, width: Option<TimeDelta>| {
        let plan = plan(Timestamp::from_nanos(seconds * 1_000_000_000), RateProfile::Unlimited);
        TimelineRecorder::new(&plan, TimelineOptions { width, ..TimelineOptions::default() }).windows
    };
    assert_eq!([1, 5, 1000].map(|seconds| windows(seconds, None)), [100, 500, 500]);
    assert_eq!((windows(1000, Some(TimeDelta::ZERO)), windows(0, None)), (20_000, 1));
}

#[test]
fn a_capacity_is_the_mean_within_each_window() {
    let [one, two] = [8_000_000, 16_000_000].map(DataRate::from_bps);
    let capacity = |rate: RateProfile| {
        let plan = plan(ms(40), rate);
        let recorder = TimelineRecorder::new(&plan, plan.timeline.unwrap());
        recorder.finish(&plan, ms(35)).links[0].capacity_bps.clone()
    };
    assert_eq!(capacity(RateProfile::Unlimited), [None; 4]);
    assert_eq!(capacity(RateProfile::Fixed(one)), [Some(8e6); 4]);
    let steps = vec![(ms(0), one), (ms(15), two)];
    let steps = capacity(RateProfile::Steps { steps, period: None });
    // The run was ended early, in the middle of the last window.
    assert_eq!(steps, [Some(8e6), Some(12e6), Some(16e6), Some(16e6)]);
    // 10,000 bit at the start, and twice every 10 ms: at the end of each round and at the start of the next.
    let opportunities = capacity(RateProfile::Opportunities { at: vec![ms(0), ms(10)], bytes: 1250 });
    assert_eq!(opportunities, [Some(1e6), Some(2e6), Some(2e6), Some(4e6)]);
}

#[test]
fn many_flows_of_a_group_are_combined() {
    let record = |max_flows| -> RunRecord {
        let flow = |number: u32, group: &str| PlannedFlow {
            flow: FlowId(number),
            window: ms(0)..ms(10),
            about: FlowRecord {
                id: format!("{group}-{number}"),
                group: group.to_owned(),
                ..FlowRecord::default()
            },
            ..PlannedFlow::default()
        };
        let mut recorder = Recorder::new(RecordPlan {
            end: ms(10),
            flows: vec![flow(0, "web"), flow(1, "call"), flow(2, "web")],
            timeline: Some(TimelineOptions { max_flows, ..TimelineOptions::default() }),
            ..RecordPlan::default()
        });
        for number in 0..3 {
            let packet = packet(FlowId(number), ms(1));
            recorder.on_event(ms(1), &Event::Sent { packet });
            recorder.on_event(ms(2 + u64::from(number)), &Event::Delivered { packet });
            recorder.on_gauge(ms(2), FlowId(number), "cwnd_bytes", 1.0);
        }
        recorder.finish(&Simulation::new(1), ms(10)).0
    };
    let shape = |record: &RunRecord| -> Vec<(String, u32, u64, usize)> {
        let flows = record.timeline.as_ref().unwrap().flows.iter();
        flows.map(|flow| (flow.id.clone(), flow.members, flow.sent_packets[0], flow.gauges.len())).collect()
    };
    let (each, grouped) = (record(3), record(2));
    assert_eq!(shape(&each).len(), 3);
    assert_eq!(shape(&grouped), [("web".to_owned(), 2, 2, 0), ("call".to_owned(), 1, 1, 1)]);
    assert_eq!(grouped.flows.len(), 3);
    let cdf = &grouped.timeline.as_ref().unwrap().flows[0].delay_cdf;
    assert_eq!((cdf.ms.last(), cdf.ratio.last()), (Some(&3.0), Some(&1.0)));
}

#[test]
fn an_open_end_widens_the_windows_and_keeps_the_counts() {
    let feed = |recorder: &mut TimelineRecorder| {
        for step in 0..300_u64 {
            let (now, sent) = (ms(step), packet(FLOW, ms(step)));
            recorder.advance(now);
            recorder.on_sent(&sent);
            recorder.on_queued(now, LINK, backlog(step % 3));
            let sojourn = TimeDelta::from_millis((step % 7) as i64);
            recorder.on_dequeued(now, LINK, &sent, sojourn, backlog(step % 2));
            recorder.on_delivered(now, &sent);
        }
    };
    let of = |end: Timestamp, options: TimelineOptions| {
        let plan = plan(end, RateProfile::Unlimited);
        let mut recorder = TimelineRecorder::new(&plan, options);
        feed(&mut recorder);
        recorder.finish(&plan, ms(310))
    };
    // 8 windows of 10 ms end at 80 ms, of 20 ms at 160 ms, of 40 ms at 320 ms.
    let open = TimelineOptions { open_end: true, ..TimelineOptions::every(TimeDelta::from_millis(10)) };
    let planned = of(ms(320), TimelineOptions::every(TimeDelta::from_millis(40)));
    assert_eq!(of(ms(80), open), planned);
    assert!((planned.width_s - 0.04).abs() < 1e-12);
    assert_eq!(planned.flows[0].sent_packets, [40, 40, 40, 40, 40, 40, 40, 20]);
}
