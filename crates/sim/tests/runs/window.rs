//! Audio is exempt from window and pacer, but counts for both.

use giusto_congestion::Target;
use giusto_session::media::MediaSenderConfig;
use giusto_sim::traffic::encoder::{PerfectConfig, PerfectEncoder};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::link::{Run, ScriptedController, algorithm, at, audio, kbps, near, receiver, rtp, stream, video};

fn bytes_sent(run: &Run, ssrc: u32) -> u64 {
    let ours = run.sent.iter().filter(|(_, datagram)| rtp(datagram).is_some_and(|rtp| rtp.ssrc == ssrc));
    ours.map(|(_, datagram)| datagram.size().as_bytes() + 28).sum()
}

#[test]
fn audio_is_exempt_from_a_full_window() {
    let window = 40_000;
    let target = Target::new(kbps(2000), kbps(4000)).with_window(Some(DataSize::from_bytes(window)));
    let (controller, script) = ScriptedController::new(target);
    let streams = vec![audio(1), video(2, 1.0, 500, 1500)];
    let sender = near(MediaSenderConfig::default(), Box::new(controller), streams);
    let mut run = Run::new(sender, receiver(algorithm("fixed")));
    run.feedback = false;
    // Two seconds of audio alone are in flight.
    run.ends[0].set_paused(at(0), 1, true);
    run.until(at(2000));
    let audio = bytes_sent(&run, 1);
    assert_eq!(run.sender().in_flight().as_bytes(), audio);
    assert!((5_000..20_000).contains(&audio), "{audio}");
    // Video fills the rest of the window, and no more.
    run.ends[0].set_paused(run.now, 1, false);
    run.until(at(4000));
    let (audio_then, video) = (bytes_sent(&run, 1), bytes_sent(&run, 2));
    assert!(video <= window - audio && video > window - audio_then - 1300, "{video} {audio}");
    // The window is full, and audio continues as before.
    run.until(at(6000));
    assert_eq!(bytes_sent(&run, 2), video);
    let audio_now = bytes_sent(&run, 1);
    assert!(audio_now > audio_then + audio * 9 / 10, "{audio_now} {audio_then}");
    assert_eq!(run.sender().in_flight().as_bytes(), audio_now + video);
    assert!(run.sender().in_flight().as_bytes() > window);
    assert_eq!(run.figures(0).queue.size, DataSize::ZERO);
    // Every packet is reported to the controller.
    let script = script.lock().unwrap();
    let counted: u64 = script.sent.iter().map(|sent| sent.size.as_bytes()).sum();
    assert_eq!(counted, audio_now + video);
    assert_eq!(script.sent.last().unwrap().in_flight.as_bytes(), counted);
}

#[test]
fn a_window_without_feedback_opens_again() {
    let window = 20_000;
    let target = Target::new(kbps(1000), kbps(1000)).with_window(Some(DataSize::from_bytes(window)));
    let (controller, _) = ScriptedController::new(target);
    let video = PerfectEncoder::new(PerfectConfig::default(), Timestamp::ZERO).unwrap();
    let sender = near(MediaSenderConfig::default(), Box::new(controller), vec![stream(1, video)]);
    let mut run = Run::new(sender, receiver(algorithm("fixed")));
    run.feedback = false;
    run.until(at(30_000));
    let (in_flight, oldest) = (run.sender().in_flight().as_bytes(), run.sender().queue(run.now).oldest);
    assert!((18_000..=window).contains(&in_flight), "{in_flight}");
    assert!(oldest <= TimeDelta::from_seconds(11), "old packets are discarded: {oldest:?}");
    let before = run.sent.len();
    run.until(at(70_000));
    // One window of packets, and the reports of forty seconds.
    let sent = run.sent.len() - before;
    assert!((10..200).contains(&sent), "{sent}");
    assert!(run.sender().in_flight().as_bytes() <= window);
}

#[test]
fn audio_counts_for_the_pacer() {
    let target = Target::new(kbps(2000), kbps(200));
    let streams = vec![audio(1), video(2, 1.0, 500, 1500)];
    let (mut run, _) = Run::scripted(target, streams);
    run.until(at(10_000));
    let (audio, video) = (bytes_sent(&run, 1), bytes_sent(&run, 2));
    assert!(audio > 25_000, "audio is not delayed: {audio}");
    let whole = (audio + video) as f64 * 8.0 / 10_000.0;
    assert!((195.0..=202.0).contains(&whole), "{whole} kbit/s together, {audio} and {video} bytes");
}
