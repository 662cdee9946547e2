//! Shares of the rate.

use giusto_congestion::{Limits, Target};
use giusto_session::media::{MediaSender, MediaSenderConfig};
use giusto_units::{DataSize, Timestamp};

use super::link::{
    Run, ScriptedController, algorithm, at, audio, kbps, limited, millis, near, receiver, video,
};

/// With the first one, each source has its own rate control and its own feedback messages.
const KINDS: [&str; 4] = ["scream:d00+giusto", "scream:v2", "scream:rfc8298+giusto", "gcc:libwebrtc+giusto"];

fn limits() -> Limits {
    Limits::DEFAULT.with_min(kbps(150)).with_start(kbps(300)).with_max(kbps(6000))
}

#[test]
fn three_streams_share_a_bottleneck_by_priority() {
    for kind in KINDS.map(algorithm) {
        let streams = [(1, 2.0), (2, 1.0), (3, 1.0)].map(|(ssrc, priority)| video(ssrc, priority, 50, 2000));
        let mut run = Run::of(kind, limits(), streams.into());
        run.rate = kbps(2000);
        run.until(at(20_000));
        let bytes = run.bytes(&[1, 2, 3], at(60_000));
        let whole: f64 = bytes.iter().sum();
        for (part, due) in bytes.iter().map(|bytes| bytes / whole).zip([0.5, 0.25, 0.25]) {
            assert!((0.85..=1.15).contains(&(part / due)), "{kind}: {bytes:?}");
        }
        let kbps = whole * 8.0 / 40_000.0;
        assert!((1000.0..2000.0).contains(&kbps), "{kind}: the bottleneck is used: {kbps}");
    }
}

#[test]
fn priorities_and_limits_change_while_a_call_runs() {
    // The sender divides the target of these; scream:d00 needs longer, since each of its streams has a rate control.
    for kind in KINDS.map(algorithm).into_iter().skip(1) {
        let streams = [(1, 2.0), (2, 1.0)].map(|(ssrc, priority)| video(ssrc, priority, 50, 3000));
        let mut run = Run::of(kind, limits(), streams.into());
        run.rate = kbps(2000);
        let mut share = |change: &dyn Fn(&mut MediaSender, Timestamp), until: u64| {
            let now = run.now;
            change(run.ends[0].endpoint_mut().sender_mut().unwrap(), now);
            run.until(at(until - 20_000));
            let bytes = run.bytes(&[1, 2], at(until));
            (bytes[0] / (bytes[0] + bytes[1]), (bytes[0] + bytes[1]) * 8.0 / 20_000.0)
        };
        // As above, each share is within 15 % of what is due.
        let (before, _) = share(&|_, _| (), 40_000);
        assert!((0.567..=0.767).contains(&before), "{kind}: {before}");
        let (swapped, _) = share(&|sender, now| sender.set_priority(now, 1, 4.0), 80_000);
        assert!((0.283..=0.383).contains(&swapped), "{kind}: {swapped}");
        let most = limits().with_max(kbps(600));
        let (_, kbps_of_all) = share(&|sender, now| sender.set_limits(now, most), 120_000);
        assert!((400.0..=600.0).contains(&kbps_of_all), "{kind}: {kbps_of_all}");
    }
}

#[test]
fn without_adaptation_the_scheduler_shares_by_priority() {
    // Each produces 1 Mbit/s, whatever its target; 1 Mbit/s is sent.
    let streams = [(1, 2.0), (2, 1.0), (3, 1.0)].map(|(ssrc, priority)| video(ssrc, priority, 1000, 1000));
    let streams = streams.map(|stream| limited(stream, Some(millis(400)), None));
    let target = Target::new(kbps(1000), kbps(1000));
    let (mut run, _) = Run::scripted(target, streams.into());
    run.until(at(5000));
    let bytes = run.bytes(&[1, 2, 3], at(25_000));
    let whole: f64 = bytes.iter().sum();
    for (part, due) in bytes.iter().map(|bytes| bytes / whole).zip([0.5, 0.25, 0.25]) {
        assert!((0.98..=1.02).contains(&(part / due)), "{bytes:?}");
    }
}

#[test]
fn rates_per_stream_from_the_controller_are_applied() {
    let target = Target::new(kbps(5000), kbps(20_000));
    let (controller, script) = ScriptedController::new(target);
    script.lock().unwrap().each = vec![kbps(100), kbps(1000), kbps(300)];
    let streams = vec![audio(1), video(2, 2.0, 100, 3000), video(3, 0.5, 500, 3000)];
    let sender = near(MediaSenderConfig::default(), Box::new(controller), streams);
    let mut run = Run::new(sender, receiver(algorithm("fixed")));
    run.until(at(5000));
    let said = script.lock().unwrap().clone();
    assert!(said.streams_reported, "the total queue is the sum of the queues");
    let streams: Vec<_> = said.streams.iter().map(|stream| (stream.priority, stream.paused)).collect();
    assert_eq!(streams, [(1.0, false), (2.0, false), (0.5, false)]);
    let usable = said.streams[1].usable;
    assert!(usable.0 > kbps(101) && usable.0 < kbps(120), "with headers: {usable:?}");
    assert!(said.streams[0].usable.0 == said.streams[0].usable.1, "audio does not adapt");
    assert!(said.sent.len() > 500);
    // With headers of 20 + 28 bytes on packets of about 1050 bytes: the sent rate is the rate that the
    // controller sets, except for the third stream, whose minimum is higher.
    let bytes = run.bytes(&[2, 3], at(25_000));
    let packets: f64 = bytes[0] / 1080.0;
    let wire = (bytes[0] + 28.0 * packets) * 8.0 / 20_000.0;
    assert!((970.0..=1010.0).contains(&wire), "{wire}");
    assert_eq!(run.figures(2).rate, kbps(500));
    // It no longer sets a rate for each stream: the rate is divided by priority.
    script.lock().unwrap().each.clear();
    run.until(at(30_000));
    assert!(run.figures(1).rate > kbps(2900) && run.figures(2).rate > kbps(900));
    // Rates that do not match the number of streams are ignored.
    script.lock().unwrap().each = vec![kbps(100)];
    run.until(at(31_000));
    assert!(run.figures(1).rate > kbps(2900));
}

#[test]
fn the_rate_of_a_paused_stream_goes_to_the_others() {
    let target = Target::new(kbps(2000), kbps(1000));
    let (mut run, script) = Run::scripted(target, vec![video(1, 1.0, 50, 3000), video(2, 1.0, 50, 3000)]);
    run.until(at(2000));
    let waits = run.figures(0).queue.size;
    assert!(waits > DataSize::from_bytes(20_000), "{waits:?}");
    run.ends[0].set_paused(at(2000), 0, true);
    let sent = run.figures(0).packets;
    run.until(at(4000));
    assert_eq!(run.figures(0).queue.size, DataSize::ZERO);
    assert!(run.figures(0).packets > sent, "the queue was sent and not discarded");
    assert!(run.figures(1).rate > kbps(1800), "{:?}", run.figures(1));
    assert!(script.lock().unwrap().streams[0].paused);
    // After resuming both have the same rate; the stream has gained no credit during the pause.
    run.ends[0].set_paused(run.now, 0, false);
    run.until(at(4500));
    let bytes = run.bytes(&[1, 2], at(6500));
    assert!((0.82..1.22).contains(&(bytes[0] / bytes[1])), "{bytes:?}");
    assert_eq!(run.figures(0).discarded_packets + run.figures(1).discarded_packets, 0);
}
