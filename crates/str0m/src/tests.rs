//! The call with `tempo`, and the same call with str0m's own estimate.

use std::{ops::Range, thread};

use giusto_units::TimeDelta;

use super::{Outcome, run};

/// What arrived in these seconds, in Mbit/s.
fn received(outcome: &Outcome, seconds: Range<usize>) -> f64 {
    let time = seconds.len() as f64;
    outcome.seconds[seconds].iter().map(|second| second.received_bytes as f64 * 8e-6).sum::<f64>() / time
}

fn highest_delay(outcome: &Outcome, seconds: Range<usize>) -> TimeDelta {
    outcome.seconds[seconds].iter().map(|second| second.queue_delay).max().unwrap()
}

fn frames(outcome: &Outcome, seconds: Range<usize>) -> u64 {
    outcome.seconds[seconds].iter().map(|second| second.frames).sum()
}

#[test]
fn video_of_str0m_follows_tempo_down_and_up() {
    let other = thread::spawn(|| run("str0m").unwrap());
    let tempo = run("tempo").unwrap();
    let own = other.join().unwrap();
    let ms = TimeDelta::from_millis;

    // 3, 1 and 3 Mbit/s from 0, 20 and 40 s. The link cannot deliver more, the controller uses nearly all.
    for (seconds, capacity) in [(5..20, 3.0), (25..40, 1.0), (45..60, 3.0)] {
        let used = received(&tempo, seconds.clone()) / capacity;
        assert!((0.9..=1.001).contains(&used), "{seconds:?}: {used}");
        // An encoder that sends 30 frames a second cannot do so without any queue.
        let delay = highest_delay(&tempo, seconds.clone());
        assert!((ms(2)..=ms(60)).contains(&delay), "{seconds:?}: {delay}");
        let frames = frames(&tempo, seconds.clone());
        assert!((448..=452).contains(&frames), "{seconds:?}: {frames}");
    }
    // The queue of 300 ms fills when two thirds of the capacity go, and is empty again within 2 s.
    assert!(highest_delay(&tempo, 20..21) > ms(150));
    assert!(highest_delay(&tempo, 22..25) < ms(60));
    // Back at 80 % within 4 s.
    assert!(received(&tempo, 44..45) > 0.8 * 3.0);

    // What str0m's receiver reported is what the link counted; some packets are STUN, DTLS and RTCP, about two a second.
    let other = tempo.delivered_packets - tempo.reported.packets;
    assert!((30..=250).contains(&other), "{other}");
    let difference = tempo.dropped_packets.abs_diff(tempo.reported.lost_packets);
    assert!(tempo.dropped_packets > 0 && difference <= 3, "{}", tempo.dropped_packets);

    // str0m's own estimate works on this path too, with a longer queue.
    let used = received(&own, 5..20) / 3.0;
    assert!((0.7..=1.001).contains(&used), "{used}");
    assert!(highest_delay(&own, 5..20) > highest_delay(&tempo, 5..20) * 2);
    assert!(received(&own, 25..40) < received(&tempo, 25..40));
}

#[test]
fn an_unknown_controller_is_an_error() {
    assert!(run("temqo").err().unwrap().to_string().contains("temqo"));
}
