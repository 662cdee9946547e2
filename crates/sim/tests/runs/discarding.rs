//! Skipped frames and discarded packets.

use std::sync::{Arc, Mutex};

use giusto_congestion::Target;
use giusto_session::media::{MediaEvent, MediaStream, RateRange};
use giusto_sim::traffic::encoder::{BurstSize, Cbr, KeyFrames, PerfectConfig, PerfectEncoder};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use proptest::prelude::*;

use super::link::{Encoded, Run, Script, Seen, Spy, at, encoder, kbps, limited, millis, stream};

/// A sender with a scripted controller that paces at `pacing`.
fn run(pacing: u64, streams: Vec<Encoded>) -> (Run, Arc<Mutex<Script>>) {
    Run::scripted(Target::new(kbps(1000), kbps(pacing)), streams)
}

fn spied(ssrc: u32, source: PerfectEncoder) -> (Encoded, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    (stream(ssrc, Spy(source, seen.clone())), seen)
}

fn no_gap(run: &Run, ssrc: u32) {
    let numbers = run.numbers(ssrc);
    assert!(numbers.len() > 10);
    assert!(numbers.windows(2).all(|pair| pair[1].0 == pair[0].0.wrapping_add(1)), "a number is missing");
}

/// When packets of the first stream were discarded.
fn discards(run: &Run) -> Vec<Timestamp> {
    let events = run.events[0].iter();
    let discards = events.filter_map(|event| match event {
        MediaEvent::Discarded { ssrc: 1, at, .. } => Some(*at),
        _ => None,
    });
    discards.collect()
}

#[test]
fn frames_are_skipped_while_the_queue_is_too_old() {
    // It produces at least 1 Mbit/s, and half of that is sent.
    let (stream, seen) = spied(2, encoder(1000, 1000));
    let (mut run, script) = run(500, vec![limited(stream, Some(millis(100)), None)]);
    run.until(at(20_000));
    let figures = run.figures(0);
    let frames = seen.lock().unwrap().frames;
    assert_eq!(frames, 601, "each is made");
    assert!((270..=330).contains(&figures.skipped_frames), "about half: {figures:?}");
    assert_eq!(figures.skipped_frames, run.skipped_and_discarded(2).0);
    // The input is twice the output, so the oldest packet is 100 ms old when 200 ms are queued; and a frame
    // takes 67 ms to send.
    assert!(run.oldest > millis(190) && run.oldest < millis(200 + 68), "{:?}", run.oldest);
    let received = run.received(2);
    assert_eq!((received.lost, received.dropped_frames), (0, 0));
    assert!(received.frames + figures.skipped_frames + 6 > frames, "{received:?}");
    no_gap(&run, 2);
    // There is capacity again: no frame is skipped.
    script.lock().unwrap().target.pacing = kbps(2000);
    run.until(at(21_000));
    let before = run.figures(0).skipped_frames;
    run.until(at(25_000));
    assert_eq!(run.figures(0).skipped_frames, before);
    assert_eq!(run.figures(0).discarded_packets, 0);
}

#[test]
fn a_skipped_key_frame_is_made_again() {
    let config = PerfectConfig {
        limits: RateRange::new(kbps(1000), kbps(1000)).unwrap(),
        start_rate: kbps(1000),
        key_frames: Some(KeyFrames { size: BurstSize::Frames(3.0), repaid_in: 10, interval: Some(300) }),
        ..PerfectConfig::default()
    };
    let (stream, seen) = spied(2, PerfectEncoder::new(config, Timestamp::ZERO).unwrap());
    let (mut run, script) = run(2000, vec![limited(stream, Some(millis(50)), None)]);
    run.until(at(9_900));
    assert_eq!((seen.lock().unwrap().keys, run.figures(0).skipped_frames), (1, 0));
    // Nothing is sent when the second key frame is due, at 10 s.
    script.lock().unwrap().target.pacing = DataRate::ZERO;
    run.until(at(10_100));
    let (keys, skipped) = (seen.lock().unwrap().keys, run.figures(0).skipped_frames);
    assert!(keys >= 2 && skipped >= keys - 1, "{keys} {skipped}");
    script.lock().unwrap().target.pacing = kbps(2000);
    run.until(at(11_000));
    assert_eq!(seen.lock().unwrap().keys - keys, 1, "the first that is let in is one, and the last");
}

#[test]
fn a_queue_that_is_too_old_is_discarded_entirely() {
    let (one, seen) = spied(1, encoder(1000, 1000));
    let (other, seen_other) = spied(2, encoder(1000, 1000));
    let discarding = limited(one, None, Some(millis(500)));
    let (mut run, script) = run(4000, vec![discarding, other]);
    run.until(at(1990));
    // So slow that frames are sent packet by packet; then nothing for a second, in the middle of a frame.
    script.lock().unwrap().target.pacing = kbps(100);
    run.until(at(2150));
    script.lock().unwrap().target.pacing = DataRate::ZERO;
    run.until(at(3150));
    let figures = run.figures(0);
    assert!(run.oldest > millis(900), "the other's: {:?}", run.oldest);
    assert!(figures.queue.oldest <= millis(501), "{figures:?}");
    // About 15 frames of 4 packets each time, 0.5 s after the first packet was queued, and again 0.5 s later.
    let discards = discards(&run);
    assert_eq!(discards.len(), 2, "{discards:?}");
    assert!(discards[1] - discards[0] >= millis(500));
    assert_eq!(figures.discarded_packets, run.skipped_and_discarded(1).1);
    assert!((90..=150).contains(&figures.discarded_packets), "{figures:?}");
    assert_eq!(seen.lock().unwrap().requests, 2);
    assert_eq!((seen_other.lock().unwrap().requests, run.figures(1).discarded_packets), (0, 0));
    assert_eq!(seen.lock().unwrap().keys, 3, "the first, and one after each");
    // It continues. The receiver misses only the sent part of the truncated frame: no packet is lost.
    script.lock().unwrap().target.pacing = kbps(10_000);
    run.until(at(8000));
    let received = run.received(1);
    assert_eq!((received.lost, received.dropped_frames), (0, 1), "one frame is cut short");
    assert!((200..=212).contains(&received.frames), "of 241 some 30 were thrown away: {received:?}");
    assert_eq!(run.received(2).dropped_frames, 0);
    no_gap(&run, 1);
    no_gap(&run, 2);
}

#[test]
fn discarding_leaves_time_to_send_the_key_frame() {
    // All packets are too old at once; still they are discarded at most every 250 ms.
    let (one, _) = spied(1, encoder(1000, 1000));
    let stream = limited(one, None, Some(TimeDelta::from_nanos(-5)));
    let (mut run, _) = run(0, vec![stream]);
    run.until(at(10_100));
    let discards = discards(&run);
    assert!((38..=41).contains(&discards.len()), "{}", discards.len());
    assert!(discards.windows(2).all(|pair| pair[1] - pair[0] >= millis(250)));
    assert!(run.oldest <= millis(250), "{:?}", run.oldest);
}

#[test]
fn the_senders_limit_discards_for_all_streams() {
    let (one, seen) = spied(1, encoder(1000, 1000));
    let (mut run, _) = run(0, vec![one]);
    run.until(at(30_000));
    assert!((10.0..10.04).contains(&run.oldest.as_seconds()), "{:?}", run.oldest);
    assert!(run.figures(0).discarded_packets > 2000 && seen.lock().unwrap().requests > 500);
    assert_eq!(run.skipped_and_discarded(1).1, run.figures(0).discarded_packets);
}

/// An operation on a sender.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Pace(u64),
    Window(Option<u64>),
    Pause(usize, bool),
    Timeout,
    Transmit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..400).prop_map(Step::Wait),
        1 => (0_u64..3000).prop_map(Step::Pace),
        1 => prop::option::of(0_u64..30_000).prop_map(Step::Window),
        1 => (0_usize..4, any::<bool>()).prop_map(|(stream, paused)| Step::Pause(stream, paused)),
        3 => Just(Step::Timeout),
        3 => (0_usize..20).prop_map(Step::Transmit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Sources whose packets have the same size, so that the queued packets can be counted by size.
    #[test]
    fn each_packet_is_sent_queued_or_dropped_in_order(
        steps in prop::collection::vec(step(), 1..300),
        limits in prop::collection::vec((prop::option::of(-10_i64..500), prop::option::of(-10_i64..900)), 3),
        priorities in prop::collection::vec(any::<f64>(), 3),
    ) {
        let packet = DataSize::from_bytes(1000);
        let mut seen = Vec::new();
        let streams = (0..3).zip(&limits).zip(priorities).map(|((index, &(skip, discard)), priority)| {
            let source = Cbr::new(kbps(400), packet, Timestamp::ZERO).unwrap();
            let (skip_after, discard_after) = (skip.map(millis), discard.map(millis));
            seen.push(Arc::new(Mutex::new(Seen::default())));
            let spy = Spy(source, seen[index].clone());
            let (stream, source) = limited(stream(index as u32, spy), skip_after, discard_after);
            (MediaStream { priority, ..stream }, source)
        });
        let streams = streams.collect();
        let (mut run, script) = run(1000, streams);
        for step in steps {
            match step {
                Step::Wait(wait) => run.now += millis(wait as i64),
                Step::Pace(rate) => script.lock().unwrap().target.pacing = kbps(rate),
                Step::Window(window) => {
                    script.lock().unwrap().target.window = window.map(DataSize::from_bytes);
                }
                Step::Pause(stream, paused) => run.ends[0].set_paused(run.now, stream, paused),
                Step::Timeout => run.ends[0].handle_timeout(run.now),
                Step::Transmit(count) => {
                    for _ in 0..count {
                        run.sent.extend(run.ends[0].poll_transmit(run.now).map(|datagram| (run.now, datagram)));
                    }
                }
            }
            for (index, seen) in seen.iter().enumerate() {
                let figures = run.figures(index);
                // 12 bytes of RTP, 8 of an extension, 28 of UDP and IPv4.
                let queued = figures.queue.size.as_bytes() / 1048;
                prop_assert_eq!(figures.queue.size.as_bytes() % 1048, 0);
                let accounted = figures.packets + queued + figures.skipped_frames + figures.discarded_packets;
                prop_assert_eq!(accounted, seen.lock().unwrap().frames);
            }
        }
        for index in 0..3 {
            let numbers = run.numbers(index);
            prop_assert!(numbers.windows(2).all(|pair| pair[1].0 == pair[0].0.wrapping_add(1)));
            prop_assert!(numbers.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) as i32 > 0));
        }
        // With capacity again, all packets are sent or become too old.
        script.lock().unwrap().target = Target::new(kbps(1000), kbps(9000));
        for stream in 0..3 {
            run.ends[0].set_paused(run.now, stream, true);
        }
        run.feedback = false;
        run.until(run.now + TimeDelta::from_seconds(11));
        prop_assert_eq!(run.sender().queue(run.now).size, DataSize::ZERO);
    }
}
