//! Frames that are left out, and packets that are thrown away.

use std::sync::{Arc, Mutex};

use giusto_congestion::Target;
use giusto_session::media::{MediaEvent, MediaSenderConfig, MediaStream, RateRange};
use giusto_sim::traffic::encoder::{BurstSize, Cbr, KeyFrames, PerfectConfig, PerfectEncoder};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use proptest::prelude::*;

use super::link::{
    Encoded, Puppet, Run, Seen, Spy, Strings, algorithm, at, encoder, kbps, limited, millis, near, receiver,
    stream,
};

/// A sender under a puppet's control that paces at `pacing`.
fn run(pacing: u64, streams: Vec<Encoded>) -> (Run, Arc<Mutex<Strings>>) {
    let target = Target { media: kbps(1000), pacing: kbps(pacing), ..Target::default() };
    let (puppet, strings) = Puppet::new(target);
    let config = MediaSenderConfig { queue_limit: None, ..MediaSenderConfig::default() };
    let sender = near(config, Box::new(puppet), streams);
    (Run::new(sender, receiver(algorithm("fixed"))), strings)
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

#[test]
fn frames_are_left_out_while_what_waits_is_too_old_and_come_back() {
    // It makes 1 Mbit/s at the least, and half of that leaves.
    let (stream, seen) = spied(2, encoder(1000, 1000));
    let (mut run, strings) = run(500, vec![limited(stream, Some(millis(100)), None)]);
    run.until(at(20_000));
    let figures = run.figures(0);
    let frames = seen.lock().unwrap().frames;
    assert_eq!(frames, 601, "each is made");
    assert!((270..=330).contains(&figures.skipped_frames), "about half: {figures:?}");
    assert_eq!(figures.skipped_frames, run.told(2).0);
    // Twice as much comes as leaves, so the oldest is 100 ms old when 200 ms are queued; and a frame takes 67 ms to leave.
    assert!(run.oldest > millis(190) && run.oldest < millis(200 + 68), "{:?}", run.oldest);
    let received = run.received(2);
    assert_eq!((received.lost, received.dropped_frames), (0, 0));
    assert!(received.frames + figures.skipped_frames + 6 > frames, "{received:?}");
    no_gap(&run, 2);
    // There is room again: none is left out.
    strings.lock().unwrap().target.pacing = kbps(2000);
    run.until(at(21_000));
    let before = run.figures(0).skipped_frames;
    run.until(at(25_000));
    assert_eq!(run.figures(0).skipped_frames, before);
    assert_eq!(run.figures(0).discarded_packets, 0);
}

#[test]
fn a_key_frame_that_was_left_out_is_made_again() {
    let config = PerfectConfig {
        limits: RateRange::new(kbps(1000), kbps(1000)).unwrap(),
        start_rate: kbps(1000),
        key_frames: Some(KeyFrames { size: BurstSize::Frames(3.0), repaid_in: 10, interval: Some(300) }),
        ..PerfectConfig::default()
    };
    let (stream, seen) = spied(2, PerfectEncoder::new(config, Timestamp::ZERO).unwrap());
    let (mut run, strings) = run(2000, vec![limited(stream, Some(millis(50)), None)]);
    run.until(at(9_900));
    assert_eq!((seen.lock().unwrap().keys, run.figures(0).skipped_frames), (1, 0));
    // Nothing leaves when the second key frame is due, at 10 s.
    strings.lock().unwrap().target.pacing = DataRate::ZERO;
    run.until(at(10_100));
    let (keys, skipped) = (seen.lock().unwrap().keys, run.figures(0).skipped_frames);
    assert!(keys >= 2 && skipped >= keys - 1, "{keys} {skipped}");
    strings.lock().unwrap().target.pacing = kbps(2000);
    run.until(at(11_000));
    assert_eq!(seen.lock().unwrap().keys - keys, 1, "the first that is let in is one, and the last");
}

#[test]
fn what_is_too_old_is_thrown_away_with_all_that_waits_and_a_key_frame_follows() {
    let (one, seen) = spied(1, encoder(1000, 1000));
    let (other, seen_other) = spied(2, encoder(1000, 1000));
    let discarding = limited(one, None, Some(millis(500)));
    let (mut run, strings) = run(4000, vec![discarding, other]);
    run.until(at(1990));
    // So slow that frames leave packet by packet: then nothing for a second, in the middle of one.
    strings.lock().unwrap().target.pacing = kbps(100);
    run.until(at(2150));
    strings.lock().unwrap().target.pacing = DataRate::ZERO;
    run.until(at(3150));
    let figures = run.figures(0);
    assert!(run.oldest > millis(900), "the other's: {:?}", run.oldest);
    assert!(figures.queue.oldest <= millis(501), "{figures:?}");
    // About 15 frames of 4 packets each time, at 0.5 s after what came first, and again 0.5 s later.
    let discards: Vec<Timestamp> = run.events[0]
        .iter()
        .filter_map(
            |event| if let MediaEvent::Discarded { ssrc: 1, at, .. } = event { Some(*at) } else { None },
        )
        .collect();
    assert_eq!(discards.len(), 2, "{discards:?}");
    assert!(discards[1] - discards[0] >= millis(500));
    assert_eq!(figures.discarded_packets, run.told(1).1);
    assert!((90..=150).contains(&figures.discarded_packets), "{figures:?}");
    assert_eq!(seen.lock().unwrap().requests, 2);
    assert_eq!((seen_other.lock().unwrap().requests, run.figures(1).discarded_packets), (0, 0));
    assert_eq!(seen.lock().unwrap().keys, 3, "the first, and one after each");
    // It goes on. What left of the frame that was cut short is all that the far end misses: no packet is lost.
    strings.lock().unwrap().target.pacing = kbps(10_000);
    run.until(at(8000));
    let received = run.received(1);
    assert_eq!((received.lost, received.dropped_frames), (0, 1), "one frame is cut short");
    assert!((200..=212).contains(&received.frames), "of 241 some 30 were thrown away: {received:?}");
    assert_eq!(run.received(2).dropped_frames, 0);
    no_gap(&run, 1);
    no_gap(&run, 2);
}

#[test]
fn discarding_leaves_time_for_what_follows() {
    // Everything is too old at once: still it happens no more often than every quarter of a second.
    let (one, _) = spied(1, encoder(1000, 1000));
    let stream = limited(one, None, Some(TimeDelta::from_nanos(-5)));
    let (mut run, _) = run(0, vec![stream]);
    run.until(at(10_100));
    let discards: Vec<Timestamp> = run.events[0]
        .iter()
        .filter_map(|event| if let MediaEvent::Discarded { at, .. } = event { Some(*at) } else { None })
        .collect();
    assert!((38..=41).contains(&discards.len()), "{}", discards.len());
    assert!(discards.windows(2).all(|pair| pair[1] - pair[0] >= millis(250)));
    assert!(run.oldest <= millis(250), "{:?}", run.oldest);
}

#[test]
fn the_last_resort_is_there_for_streams_that_keep_everything() {
    let (one, seen) = spied(1, encoder(1000, 1000));
    let (mut run, _) = run(0, vec![one]);
    run.until(at(30_000));
    assert!((10.0..10.04).contains(&run.oldest.as_seconds()), "{:?}", run.oldest);
    assert!(run.figures(0).discarded_packets > 2000 && seen.lock().unwrap().requests > 500);
    assert_eq!(run.told(1).1, run.figures(0).discarded_packets);
}

/// What happens to a sender.
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

    /// Sources whose packets are all alike, so that what waits can be counted by its size.
    #[test]
    fn each_packet_leaves_or_waits_or_was_left_out_and_none_overtakes(
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
        let (mut run, strings) = run(1000, streams);
        for step in steps {
            match step {
                Step::Wait(wait) => run.now += millis(wait as i64),
                Step::Pace(rate) => strings.lock().unwrap().target.pacing = kbps(rate),
                Step::Window(window) => {
                    strings.lock().unwrap().target.window = window.map(DataSize::from_bytes);
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
                let waits = figures.queue.size.as_bytes() / 1048;
                prop_assert_eq!(figures.queue.size.as_bytes() % 1048, 0);
                let accounted = figures.packets + waits + figures.skipped_frames + figures.discarded_packets;
                prop_assert_eq!(accounted, seen.lock().unwrap().frames);
            }
        }
        for index in 0..3 {
            let numbers = run.numbers(index);
            prop_assert!(numbers.windows(2).all(|pair| pair[1].0 == pair[0].0.wrapping_add(1)));
            prop_assert!(numbers.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) as i32 > 0));
        }
        // With room again all of it gets out, or is too old.
        strings.lock().unwrap().target = Target { media: kbps(1000), pacing: kbps(9000), ..Target::default() };
        for stream in 0..3 {
            run.ends[0].set_paused(run.now, stream, true);
        }
        run.feedback = false;
        run.until(run.now + TimeDelta::from_seconds(11));
        prop_assert_eq!(run.sender().queue(run.now).size, DataSize::ZERO);
    }
}
