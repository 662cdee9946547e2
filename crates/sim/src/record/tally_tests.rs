use giusto_sim::packet::{BodyId, Packet};

use crate::run::expect::*;

const FLOW: FlowId = FlowId(0);

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn decide(windows: &mut Windows, at: u64, (from, to): (u64, u64)) {
    let [from, to] = [from, to].map(DataRate::from_bps);
    let decision = Decision { at: ms(at), from, to, ..Decision::default() };
    windows.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
}

fn deliver(windows: &mut Windows, at: u64, bytes: u32) {
    let packet = Packet {
        flow: FLOW,
        bytes,
        sequence: 0,
        sent: ms(at),
        queued: ms(at),
        waited_ns: 0,
        body: BodyId::NONE,
        hop: 0,
        ecn: Ecn::NotEct,
    };
    windows.on_event(ms(at), &Event::Delivered { packet });
}

#[test]
fn a_target_is_weighed_by_the_time_for_which_it_held_within_the_window() {
    let mut windows = Windows::default();
    let mut ask = |from, to| windows.flow(FLOW, Window { from: ms(from), to: ms(to) });
    let (whole, part, late) = (ask(0, 1000), ask(200, 600), ask(900, 2000));
    decide(&mut windows, 0, (0, 1000));
    decide(&mut windows, 400, (1000, 3000));
    decide(&mut windows, 500, (3000, 3000));
    decide(&mut windows, 800, (3000, 500));
    windows.settle(ms(1000));
    let media = |number| windows.tally(number).media().unwrap();
    let close = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-6);
    // 400 ms of 1000, 400 ms of 3000, 200 ms of 500.
    assert!(close(media(whole).target_bps(), 1700.0), "{:?}", media(whole));
    assert!(close(media(part).target_bps(), 2000.0), "{:?}", media(part));
    // The run ends before the window does, and the last target was decided before it began.
    assert!(close(media(late).target_bps(), 500.0), "{:?}", media(late));
    // What did not change is no change.
    assert_eq!([whole, part, late].map(|number| media(number).decisions), [3, 1, 0]);
}

#[test]
fn what_the_first_decision_changes_held_from_the_beginning_of_the_window() {
    let mut windows = Windows::default();
    let number = windows.flow(FLOW, Window { from: ms(100), to: ms(500) });
    decide(&mut windows, 200, (1000, 2000));
    windows.settle(ms(500));
    assert_eq!(windows.tally(number).media().unwrap().target_bps().map(f64::round), Some(1750.0));
    // Who told nothing has no target.
    let other = windows.flow(FlowId(1), Window { from: ms(0), to: ms(1) });
    assert!(windows.tally(other).media().is_none());
}

#[test]
fn frames_count_where_they_are_whole_and_their_delay_where_it_is_known() {
    let mut windows = Windows::default();
    let number = windows.flow(FLOW, Window { from: ms(100), to: ms(500) });
    for (at, delay) in [(99, Some(1)), (100, Some(40)), (200, None), (499, Some(60)), (500, Some(900))] {
        let (delay, size) = (delay.map(TimeDelta::from_millis), DataSize::from_bytes(at));
        let ssrc = if at == 499 { 3 } else { 2 };
        windows.on_note(ms(at), &Note::Frame { flow: FLOW, ssrc, delay, size });
    }
    let media = windows.tally(number).media().unwrap();
    assert_eq!((media.frames, media.frame_delay.count()), (3, 2));
    assert_eq!(figure(&media.frame_delay, Figure::Max), Some(60.0));
    assert_eq!((media.target_bps(), media.decisions), (None, 0));
    let of =
        |ssrc| media.stream(ssrc).map(|stream| (stream.frames, stream.bytes, stream.frame_delay.count()));
    assert_eq!([1, 2, 3].map(of), [None, Some((2, 300, 1)), Some((1, 499, 1))]);
}

#[test]
fn a_rate_is_reached_at_the_end_of_the_first_step_in_which_as_much_came() {
    let mut windows = Windows::default();
    let number = windows.flow(FLOW, Window { from: ms(1000), to: ms(10_000) });
    windows.keep_steps(number);
    // 500, 750 and 1000 B in steps of half a second: 8, 12 and 16 kbit/s; the last step has 20 kbit/s, but is not over.
    for (at, bytes) in [(0, 9000), (1100, 500), (1600, 250), (1999, 500), (2000, 1000), (9600, 1250)] {
        deliver(&mut windows, at, bytes);
    }
    let when = |rate, end| time_to_rate(&[windows.tally(number)], DataRate::from_bps(rate), ms(end));
    assert_eq!(when(8_000, 10_000), Some(500.0));
    assert_eq!(when(8_001, 10_000), Some(1000.0));
    assert_eq!(when(16_000, 10_000), Some(1500.0));
    assert_eq!(when(20_000, 10_000), Some(9000.0));
    assert_eq!(when(20_000, 9_900), None);
    assert_eq!(when(20_001, 10_000), None);
    // Two of them together get there sooner.
    let both = [windows.tally(number), windows.tally(number)];
    assert_eq!(time_to_rate(&both, DataRate::from_bps(16_000), ms(10_000)), Some(500.0));
    assert_eq!(time_to_rate(&[], DataRate::from_bps(1), ms(10_000)), None);
}
