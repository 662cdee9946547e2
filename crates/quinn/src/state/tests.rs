use std::collections::VecDeque;

use giusto_congestion::{Algorithm, Cause};

use super::*;
use crate::testing::{after, origin};

const MTU: u16 = 1200;

fn state(name: &str, start: Instant) -> State {
    let limits =
        Limits::DEFAULT.with_start(DataRate::from_bps(1_000_000)).with_max(DataRate::from_bps(8_000_000));
    State::new(name.parse::<Algorithm>().unwrap().build(limits), start, MTU)
}

fn begun(name: &str) -> (Instant, State) {
    let start = origin();
    (start, state(name, start))
}

/// A path with this capacity and 20 ms each way, whose sender fills the target. Returns the state after `seconds`, and the mean target of
/// their second half in bit/s.
fn drive(name: &str, capacity: f64, loss_every: Option<u64>, seconds: u64) -> (State, f64) {
    let (start, mut state) = begun(name);
    let (mut owed, mut free_at, mut sent) = (0.0, start, 0_u64);
    let mut returning = VecDeque::<(Instant, Instant, bool)>::new();
    let (mut in_flight, mut sum) = (0, 0);
    for ms in 0..seconds * 1000 {
        let now = after(start, ms);
        let mut lost = None;
        let mut acknowledged = false;
        while let Some(&(_, left, is_lost)) = returning.front().filter(|(at, ..)| *at <= now) {
            returning.pop_front();
            in_flight -= u64::from(MTU);
            if is_lost {
                lost = Some(left);
            } else {
                state.on_ack(now, left, u64::from(MTU), Duration::from_millis(45));
                acknowledged = true;
            }
        }
        if acknowledged {
            state.on_end_acks(now, in_flight, owed < f64::from(MTU));
        }
        if let Some(left) = lost {
            state.on_lost(now, left, u64::from(MTU));
        }
        state.tick(now);
        if ms >= seconds * 500 {
            sum += state.target().media.as_bps();
        }
        while state.padding(now).is_some() {
            owed += f64::from(MTU);
        }
        if ms % 33 == 0 {
            let frame = state.frame_rate().as_bps() as f64 / 8000.0 * 33.0;
            state.on_frame(now, frame as usize as u64);
            owed += frame;
        }
        while owed >= f64::from(MTU) && in_flight + u64::from(MTU) < state.window() {
            owed -= f64::from(MTU);
            sent += 1;
            state.on_sent(now, u64::from(MTU));
            in_flight += u64::from(MTU);
            let is_lost = loss_every.is_some_and(|every| sent.is_multiple_of(every));
            free_at = free_at.max(now) + Duration::from_secs_f64(f64::from(MTU) * 8.0 / capacity);
            returning.push_back((free_at + Duration::from_millis(40), now, is_lost));
        }
    }
    (state, sum as f64 / (seconds * 500) as f64)
}

#[test]
fn every_controller_finds_the_capacity_from_acknowledgements() {
    for algorithm in Algorithm::all() {
        let (_, rate) = drive(algorithm.name(), 3e6, None, 30);
        match algorithm.name() {
            "fixed" => assert!((rate - 1e6).abs() < 1.0),
            // It decides every 3 s, and does not grow within 30 s.
            "gcc:thesis" => assert!((1e6..3.3e6).contains(&rate), "{rate}"),
            // Without arrival times it sees no queue, and there is no loss: it goes beyond the capacity.
            "gcc:remb" => assert!(rate > 4.5e6, "{rate}"),
            // The same, at 5 % a second.
            "gcc:rmcat-02" => assert!(rate > 2.5e6, "{rate}"),
            name => assert!((1.5e6..3.3e6).contains(&rate), "{name}: {rate}"),
        }
    }
}

#[test]
fn reports_of_losses_alone_reduce_what_uses_no_arrival_times() {
    let (mut state, _) = drive("gcc:remb", 50e6, Some(5), 20);
    assert!(state.target().media.as_bps() < 600_000);
    assert!(matches!(state.decision().cause, Cause::Loss { .. } | Cause::Limit), "{:?}", state.decision());
}

#[test]
fn the_frames_leave_room_for_headers_and_retransmissions() {
    let (mut state, _) = drive("fixed", 50e6, Some(10), 10);
    // (1200 - 37) / (1200 + 28) of 1 Mbit/s, and a tenth again.
    let expected = 1e6 * 1163.0 / 1228.0 * 0.9;
    let found = state.frame_rate().as_bps() as f64;
    assert!((found - expected).abs() < 0.02 * expected, "{found} instead of {expected}");
}

#[test]
fn frames_that_wait_lower_the_rate_of_the_next_ones() {
    let (start, mut state) = begun("gcc:libwebrtc");
    let free = state.frame_rate().as_bps() as f64;
    // 50 ms are allowed; 100 ms more leave within 500 ms at 0.8 of the rate.
    for (bits, left) in [(free * 0.05, 1.0), (free * 0.1, 0.8), (8e6, 0.25)] {
        state.on_frame(start, (bits / 8.0) as u64);
        let found = state.frame_rate().as_bps() as f64;
        assert!((found - left * free).abs() < 0.01 * free, "{bits} bit: {found} of {free}");
    }
    state.on_discarded();
    assert!((state.frame_rate().as_bps() as f64 - free).abs() < 0.01 * free);
}

#[test]
fn the_window_lets_quinn_send_at_the_pacing_rate() {
    for name in ["tempo", "gcc:libwebrtc", "nada"] {
        let (mut state, _) = drive(name, 3e6, None, 20);
        let target = state.target();
        let rate = PACING_GAIN * state.window() as f64 * 8.0 / 0.045;
        let pacing = target.pacing.as_bps() as f64;
        let least = PACING_GAIN * target.media.as_bps() as f64 * 0.095 / 0.045;
        assert!((rate - pacing.max(least)).abs() < 0.05 * rate, "{name}: {rate}, {pacing}, {least}");
    }
}

#[test]
fn one_acknowledgement_is_one_feedback_in_order() {
    let (start, mut state) = begun("tempo");
    for ms in 0..6 {
        state.on_sent(after(start, ms), 1200);
    }
    let now = after(start, 50);
    let srtt = Duration::from_millis(50);
    for ms in [0, 4, 5] {
        state.on_ack(now, after(start, ms), 1200, srtt);
    }
    state.on_end_acks(now, 3600, false);
    state.on_lost(now, after(start, 2), 2400);
    state.on_marked(after(start, 5));
    let found = state.reports.iter().map(|it| (it.sent.sequence, it.arrival.is_some(), it.ecn == Ecn::Ce));
    let expected =
        [(0, true, false), (4, true, false), (5, true, true), (1, false, false), (2, false, false)];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(state.in_flight, 1200);
    state.window();
    assert!(state.reports.is_empty(), "passed on when quinn asks for the window");
}

#[test]
fn arrivals_are_by_the_peers_clock_once_it_tells_them() {
    let (start, mut state) = begun("tempo");
    let ms = Duration::from_millis;
    for sent in 0..4 {
        state.on_sent(after(start, sent), 1200);
    }
    state.on_ack(after(start, 40), start, 1200, ms(40));
    // The peer's clock began 5 s before. The second acknowledgement was 8 ms late.
    state.on_arrival(after(start, 1), 1200, ms(5021));
    state.on_arrival(after(start, 2), 1200, ms(5022));
    state.on_ack(after(start, 41), after(start, 1), 1200, ms(40));
    state.on_arrival(after(start, 9), 1200, ms(5000));
    state.on_ack(after(start, 50), after(start, 2), 1200, ms(40));
    let arrivals = |state: &State| -> Vec<u64> {
        state.reports.iter().map(|report| report.arrival.unwrap().as_nanos() / 1_000_000).collect()
    };
    assert_eq!(arrivals(&state), [42], "1 ms after the one before, which was acknowledged at 41 ms");
    state.on_ack(after(start, 50), after(start, 3), 1200, ms(40));
    assert_eq!(arrivals(&state), [42, 50], "no time was told of the last one");
}

#[test]
fn a_batch_of_datagrams_is_as_many_packets() {
    let (start, mut state) = begun("tempo");
    state.on_sent(start, 3 * 1200 + 500);
    assert_eq!((state.ledger.len(), state.in_flight), (4, 4100));
    assert!(state.ledger.take_acknowledged(start, 500).is_some());
}

#[test]
fn frames_are_skipped_while_others_wait() {
    let (start, mut state) = begun("tempo");
    state.on_frame(start, 50_000);
    assert!(!state.should_skip(after(start, 150)) && state.should_skip(after(start, 151)));
    assert_eq!(state.waiting(after(start, 20)), (50_000, Duration::from_millis(20)));
    state.on_sent(after(start, 160), 1200);
    state.on_end_acks(after(start, 200), 0, true);
    assert!(!state.should_skip(after(start, 400)), "quinn ran out of data");
}

#[test]
fn nothing_of_a_frame_that_has_left_waits() {
    let (start, mut state) = begun("tempo");
    state.on_frame(start, 3000);
    // Short headers of 11 bytes, tags of 16, STREAM frames with offsets of 2 bytes and a length.
    for bytes in [1200, 1200, 3000 - 2 * (1200 - 31) + 33] {
        state.on_sent(start, bytes);
    }
    assert_eq!(state.waiting(after(start, 30)), (0, Duration::ZERO));
}

#[test]
fn a_file_gets_what_the_frames_leave() {
    let (start, mut state) = begun("fixed");
    let mut file = 0;
    for ms in 0..10_000 {
        let now = after(start, ms);
        if ms % 40 == 0 {
            // 0.4 Mbit/s of frames, headers included.
            state.on_sent(now, 1972);
        }
        let spare = state.spare(now);
        if spare >= 1200 {
            state.on_sent(now, 1200);
            file += 1228;
        }
    }
    let rate = f64::from(file) * 8.0 / 10.0;
    assert!((0.55e6..=0.61e6).contains(&rate), "{rate}");
    state.on_frame(after(start, 10_000), 100_000);
    assert_eq!(state.spare(after(start, 10_010)), 0);
}

#[test]
fn padding_is_asked_for_by_those_who_probe() {
    for (name, expected) in [("gcc:libwebrtc", true), ("tempo", false), ("nada", false)] {
        let (start, mut state) = begun(name);
        // As often as it asks, without any that leaves: it stops asking.
        let asked =
            (1..20).map(|ms| (0..100).take_while(|_| state.padding(after(start, ms)).is_some()).count());
        let asked: usize = asked.sum();
        assert_eq!((1..50).contains(&asked), expected, "{name}: {asked}");
    }
}
