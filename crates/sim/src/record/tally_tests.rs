use giusto_congestion::Cause;

use super::*;
use crate::{packet::FlowId, testing::at as ms};

const FLOW: FlowId = FlowId(0);
const ALL: Wanted = Wanted { delays: true, steps: false, max_columns: None };

fn tally(from: u64, to: u64) -> FlowTally {
    FlowTally::new(ms(from)..ms(to), ALL)
}

fn decide(tally: &mut FlowTally, at: u64, from: u64, to: u64) {
    let [from, to] = [from, to].map(DataRate::from_bps);
    let decision = Decision::new(ms(at), to, Cause::Start).with_from(from);
    tally.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
}

#[test]
fn a_target_is_weighted_by_its_time_within_the_window() {
    let figures = |(from, to), decisions: &[(u64, u64, u64)]| {
        let mut tally = tally(from, to);
        for &(at, from, to) in decisions {
            decide(&mut tally, at, from, to);
        }
        tally.settle(ms(1000));
        let figures = tally.figures(ms(1000));
        (figures.target_rate_bps.map(f64::round), figures.decisions)
    };
    let decisions = [(0, 0, 1000), (400, 1000, 3000), (500, 3000, 3000), (800, 3000, 500)];
    // 400 ms of 1000, 400 ms of 3000, 200 ms of 500. A decision without a change is not counted.
    assert_eq!(figures((0, 1000), &decisions), (Some(1700.0), Some(3)));
    assert_eq!(figures((200, 600), &decisions), (Some(2000.0), Some(1)));
    // The run ends before the window, and the last target was decided before the window's start.
    assert_eq!(figures((900, 2000), &decisions), (Some(500.0), Some(0)));
    // The target before the first decision held from the start.
    assert_eq!(figures((100, 500), &[(200, 1000, 2000)]).0, Some(1750.0));
    // A flow without reports has no target.
    let other = FlowTally::new(ms(0)..ms(1), ALL).figures(ms(1));
    assert_eq!((other.target_rate_bps, other.decisions, other.frames), (None, None, None));
}

#[test]
fn frames_are_counted_when_complete() {
    let mut tally = tally(100, 500);
    for (at, delay) in [(99, Some(1)), (100, Some(40)), (200, None), (499, Some(60)), (500, Some(900))] {
        let (delay, size) = (delay.map(TimeDelta::from_millis), DataSize::from_bytes(at));
        let ssrc = if at == 499 { 3 } else { 2 };
        tally.on_note(
            ms(at),
            &Note::Frame { flow: FLOW, ssrc, at: ms(at), delay, size, repaired: false, late: false },
        );
    }
    let figures = tally.figures(ms(500));
    assert_eq!((figures.frames, tally.frame_delay().unwrap().count()), (Some(3), 2));
    assert_eq!(tally.frame_delay().unwrap().max(), Some(TimeDelta::from_millis(60)));
    assert_eq!((figures.target_rate_bps, figures.decisions), (None, Some(0)));
    assert_eq!(figures.goodput_bytes, 799);
    let of = |ssrc| {
        let stream = figures.streams.get(&ssrc)?;
        Some((stream.frames, stream.bytes, stream.frame_delay.count()))
    };
    assert_eq!([1, 2, 3].map(of), [None, Some((2, 300, 1)), Some((1, 499, 1))]);
}

#[test]
fn in_order_data_counts_when_delivered() {
    let mut tally = tally(100, 500);
    for at in [99, 100, 499, 500] {
        tally.on_note(ms(at), &Note::Received { flow: FLOW, size: DataSize::from_bytes(at) });
    }
    let figures = tally.figures(ms(500));
    assert_eq!((figures.goodput_bytes, figures.frames), (599, None));
    assert_eq!(figures.rate_bps(figures.goodput_bytes).round() as u64, 11_980);
}
