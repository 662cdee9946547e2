//! Two ends of a media session over a path that delays, loses, duplicates and reorders.

use giusto_congestion::{Algorithm, Limits};
use giusto_rtp::rtcp::{ReceiverReport, ReportBlock};
use giusto_session::media::{MediaEndpoint, MediaEvent, MediaSender, Payload};
use giusto_sim::traffic::EncodedEndpoint;
use giusto_units::{DataRate, Ecn, TimeDelta};
use proptest::prelude::*;

use super::link::{Faults, Run, algorithm, at, audio, config, kbps, millis, receiver, video};

const LIMITS: Limits = Limits::DEFAULT
    .with_min(DataRate::from_bps(100_000))
    .with_start(DataRate::from_bps(300_000))
    .with_max(DataRate::from_bps(2_000_000));

fn over_a_long_queue(mut run: Run) -> Run {
    (run.rate, run.back_rate) = (kbps(10_000), kbps(10_000));
    (run.delay, run.buffer) = (millis(30), TimeDelta::MAX);
    run
}

/// A call with audio and video in one direction.
fn call(kind: Algorithm) -> Run {
    over_a_long_queue(Run::of(kind, LIMITS, vec![audio(1), video(2, 1.0, 100, 1900)]))
}

fn target(run: &Run) -> u64 {
    run.sender().target().media.as_bps()
}

#[test]
fn without_loss_every_frame_arrives_complete() {
    for kind in Algorithm::all() {
        let mut call = call(kind);
        call.until(at(10_000));
        // 30 video frames per second, and an audio packet every 20 ms; the last ones may be in flight.
        let (video, audio) = (call.received(2).frames, call.received(1).frames);
        assert!((297..=301).contains(&video), "{kind}: {video} video frames");
        assert!((496..=501).contains(&audio), "{kind}: {audio} audio packets");
        let delays = call.events[1].iter().filter_map(|event| match event {
            MediaEvent::Frame(frame) if frame.ssrc == 2 => frame.delay,
            _ => None,
        });
        let delays: Vec<f64> = delays.map(TimeDelta::as_millis).collect();
        assert!(delays.len() >= 290, "{kind}: the first report maps times: {}", delays.len());
        assert!(delays.iter().all(|&delay| (29.9..500.0).contains(&delay)), "{kind}: {delays:?}");
    }
}

#[test]
fn both_directions_of_a_call_adapt_independently() {
    let kind = algorithm("gcc:libwebrtc+giusto");
    let ends = [10, 20].map(|ssrc| {
        let (streams, sources) = [audio(ssrc), video(ssrc + 1, 1.0, 100, 1900)].into_iter().unzip();
        let sender = MediaSender::new(config(kind), kind.build(LIMITS), streams);
        EncodedEndpoint::new(MediaEndpoint::new(Some(sender), Some(receiver(kind))), sources)
    });
    let mut call = over_a_long_queue(Run::between(ends));
    call.until(at(15_000));
    for end in &call.ends {
        let target = end.endpoint().sender().unwrap().target().media.as_bps();
        assert!((1_500_000..=2_000_000).contains(&target), "{target}");
    }
    assert!(call.received(11).frames > 430);
}

#[test]
fn a_bye_ends_the_reports_after_a_last_one() {
    for kind in Algorithm::all() {
        let mut call = call(kind);
        call.until(at(3_000));
        call.ends[0].stop(at(3_000));
        call.drain(0);
        call.until(at(60_000));
        assert_eq!(call.ends[1].poll_timeout(), None, "{kind}");
        assert!(call.events[1].contains(&MediaEvent::Ended { ssrc: 2 }), "{kind}");
        assert!(call.received(2).packets >= 85, "{kind}: {:?}", call.received(2));
    }
}

#[test]
fn missing_feedback_reduces_the_rate_and_it_recovers() {
    for kind in Algorithm::all().filter(|kind| *kind != algorithm("fixed")) {
        let mut call = call(kind);
        call.until(at(10_000));
        let before = target(&call);
        call.faults.loss = 1.0;
        call.until(at(25_000));
        let quiet = target(&call);
        assert!(quiet < before / 2 && quiet >= LIMITS.min.as_bps(), "{kind}: {before} {quiet}");
        call.faults.loss = 0.0;
        call.until(at(70_000));
        assert!(target(&call) > 2 * quiet.max(150_000), "{kind}: {} after {quiet}", target(&call));
    }
}

#[test]
fn a_forged_report_does_not_hide_later_losses() {
    let mut call = call(algorithm("gcc:remb"));
    call.until(at(20_000));
    let before = target(&call);
    let block = ReportBlock { ssrc: 2, highest_sequence: 0x7fff_fffe, ..ReportBlock::default() };
    let mut forged = Vec::new();
    ReceiverReport { ssrc: 9999, blocks: vec![block] }.write(&mut forged).unwrap();
    call.ends[0].handle_parts(call.now, &forged, &Payload::default(), Ecn::NotEct);
    // From now on half of all datagrams are lost, and correct reports say so.
    call.faults.loss = 0.5;
    call.until(at(40_000));
    assert!(target(&call) < before / 2, "{before} {}", target(&call));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_rate_stays_within_its_limits_on_any_path(
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        rate in 50_u64..20_000,
        delay in 0_i64..400,
        (loss, repeats, reorders, damage) in (0.0..0.5, 0.0..0.3, 0.0..0.3, 0.0..0.1),
        (quiet_from, quiet_for) in (1_u64..9, 0_u64..6),
    ) {
        let mut call = call(kind);
        (call.rate, call.back_rate, call.delay) = (kbps(rate), kbps(rate), millis(delay));
        for second in 1..=12 {
            let is_quiet = (quiet_from..quiet_from + quiet_for).contains(&second);
            call.faults = Faults { loss: if is_quiet { 1.0 } else { loss }, repeats, reorders, damage };
            call.until(at(second * 1000));
            let target = target(&call);
            prop_assert!((LIMITS.min.as_bps()..=LIMITS.max.as_bps()).contains(&target), "{}", target);
            let sent = [call.sent.len() as u64, call.answers];
            prop_assert!(sent.iter().all(|&count| count < second * 2000), "{:?}", sent);
        }
        call.ends[0].stop(at(12_000));
        call.drain(0);
        prop_assert_eq!(call.ends[0].poll_timeout(), None);
    }
}
