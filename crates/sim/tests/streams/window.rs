//! Sound passes window and pacer, and is accounted for.

use giusto_congestion::Target;
use giusto_session::media::MediaSenderConfig;
use giusto_units::DataSize;

use super::link::{Puppet, Run, algorithm, at, audio, kbps, near, receiver, rtp, video};

fn bytes_sent(run: &Run, ssrc: u32) -> u64 {
    let ours = run.sent.iter().filter(|(_, datagram)| rtp(datagram).is_some_and(|rtp| rtp.ssrc == ssrc));
    ours.map(|(_, datagram)| datagram.size().as_bytes() + 28).sum()
}

#[test]
fn sound_passes_a_full_window_and_pictures_wait_for_that_much_more() {
    let window = 40_000;
    let target = Target {
        media: kbps(2000),
        pacing: kbps(4000),
        window: Some(DataSize::from_bytes(window)),
        ..Target::default()
    };
    let (puppet, strings) = Puppet::new(target);
    let streams = vec![audio(1), video(2, 1.0, (500, 1500))];
    let sender = near(MediaSenderConfig::default(), Box::new(puppet), streams);
    let mut run = Run::new(sender, receiver(algorithm("fixed")));
    run.feedback = false;
    // Two seconds of sound alone are in flight.
    run.ends[0].set_paused(at(0), 1, true);
    run.until(at(2000));
    let sound = bytes_sent(&run, 1);
    assert_eq!(run.sender().in_flight().as_bytes(), sound);
    assert!((5_000..20_000).contains(&sound), "{sound}");
    // Pictures fill what sound has left of the window, and no more.
    run.ends[0].set_paused(run.now, 1, false);
    run.until(at(4000));
    let (sound_then, pictures) = (bytes_sent(&run, 1), bytes_sent(&run, 2));
    assert!(pictures <= window - sound && pictures > window - sound_then - 1300, "{pictures} {sound}");
    // The window is full, and sound goes on as before.
    run.until(at(6000));
    assert_eq!(bytes_sent(&run, 2), pictures);
    let sound_now = bytes_sent(&run, 1);
    assert!(sound_now > sound_then + sound * 9 / 10, "{sound_now} {sound_then}");
    assert_eq!(run.sender().in_flight().as_bytes(), sound_now + pictures);
    assert!(run.sender().in_flight().as_bytes() > window);
    assert_eq!(run.figures(0).queue.size, DataSize::ZERO);
    // The controller hears of each packet, whatever it is.
    let strings = strings.lock().unwrap();
    let heard: u64 = strings.sent.iter().map(|sent| sent.size.as_bytes()).sum();
    assert_eq!(heard, sound_now + pictures);
    assert_eq!(strings.sent.last().unwrap().in_flight.as_bytes(), heard);
}

#[test]
fn the_pacer_has_sound_on_its_account() {
    let target = Target { media: kbps(2000), pacing: kbps(200), ..Target::default() };
    let streams = vec![audio(1), video(2, 1.0, (500, 1500))];
    let config = MediaSenderConfig { queue_limit: None, ..MediaSenderConfig::default() };
    let sender = near(config, Box::new(Puppet::new(target).0), streams);
    let mut run = Run::new(sender, receiver(algorithm("fixed")));
    run.until(at(10_000));
    let (sound, pictures) = (bytes_sent(&run, 1), bytes_sent(&run, 2));
    assert!(sound > 25_000, "it waits for nothing: {sound}");
    let whole = (sound + pictures) as f64 * 8.0 / 10_000.0;
    assert!((195.0..=202.0).contains(&whole), "{whole} kbit/s together, {sound} and {pictures} bytes");
}
