//! SCReAM's three generations over every encoder there is, and over encoders that do what encoders do: lag, key frames, frames of
//! uneven size, a least rate that the link cannot carry, hours of little and moments of nothing.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::Scenario,
};

const SCREAMS: [&str; 3] = ["scream:d00+giusto", "scream:rfc8298+giusto", "scream:v2"];

/// A minute and a half of `video` over 2 Mbit/s and 50 ms, with sound; the first half minute does not count.
fn call(controller: &str, video: &str, more: &str) -> RunRecord {
    let text = format!(
        r#"
        duration = "90 s"
        warmup = "30 s"
        link = [{{ id = "bottleneck", from = "here", to = "there", rate = "2 Mbit/s", delay = "50 ms", queue = {{ kind = "drop-tail", limit = "300 ms" }}, reverse = {{ rate = "unlimited", delay = "50 ms" }} }}]
        [[flow]]
        id = "call"
        kind = "media"
        from = "here"
        to = "there"
        controller = "{controller}"
        audio = "20 kbit/s"
        video = {video}
        {more}
        "#
    );
    run::simulate(&Scenario::parse(&text, "call.toml").unwrap(), 1, RecordOptions::default(), &mut ())
}

fn used(result: &RunRecord) -> f64 {
    result.links[0].utilisation_ratio.unwrap()
}

fn queue_p95(result: &RunRecord) -> f64 {
    result.flows[0].queue_delay_ms.unwrap().p95
}

/// Pictures of up to 4 Mbit/s, twice what the link carries.
const MORE_THAN_THE_LINK: &str = r#"min = "150 kbit/s", max = "4 Mbit/s""#;

/// What 95 % of the packets may queue for at most, in ms: the target, and two pictures of reports and packets for d00, whose window is
/// what it swings with; the target and a fifth for RFC 8298; the target and the round trip in which nothing is known for v2.
fn most_queue_ms(controller: &str) -> f64 {
    match controller {
        "scream:d00+giusto" => 80.0 + 2.0 * 33.3,
        "scream:rfc8298+giusto" => 100.0 * 1.2,
        _ => 60.0 + 50.0,
    }
}

#[test]
fn whatever_the_encoder_does_the_link_is_used_and_the_queue_is_bounded() {
    for controller in SCREAMS {
        for model in [
            r#"model = "perfect", lag = "0 ms""#,
            r#"model = "perfect", lag = "500 ms""#,
            r#"model = "perfect", noise = 0.3"#,
            r#"model = "perfect", key-frames = { interval = 60, size = 5 }"#,
            r#"model = "statistical""#,
            r#"model = "trace""#,
            r#"model = "hybrid""#,
        ] {
            let result = call(controller, &format!("{{ {model}, {MORE_THAN_THE_LINK} }}"), "");
            let (flow, case) = (&result.flows[0], format!("{controller}, {model}"));
            assert!((0.8..=1.0).contains(&used(&result)), "{case}: {} used", used(&result));
            let queue = queue_p95(&result);
            assert!((5.0..=most_queue_ms(controller)).contains(&queue), "{case}: {queue} ms");
            assert_eq!(flow.loss_ratio, Some(0.0), "{case}");
            // 30 a second for a minute; what d00 skips is not there, but neither is it half.
            let (sound, pictures) = (&flow.streams[0], &flow.streams[1]);
            let skipped = pictures.skipped_frames.unwrap();
            assert!((1750..=1815).contains(&(pictures.frames + skipped)), "{case}: {pictures:?}");
            assert_eq!(skipped > 0, controller == "scream:d00+giusto", "{case}: {skipped}");
            assert!(skipped < 300, "{case}: {skipped}");
            // Sound waits for nothing but the path: 50 ms, and the queue.
            assert!(sound.frame_delay_ms.unwrap().p95 < 50.0 + queue + 10.0, "{case}: {sound:?}");
            assert!((2990..=3010).contains(&sound.frames), "{case}: {sound:?}");
        }
    }
}

#[test]
fn a_least_rate_that_the_link_cannot_carry_leaves_whole_frames_and_young_ones() {
    for controller in SCREAMS {
        let video = r#"{ model = "perfect", min = "3 Mbit/s", max = "4 Mbit/s" }"#;
        let result = call(controller, video, "");
        let (sound, pictures) = (&result.flows[0].streams[0], &result.flows[0].streams[1]);
        assert!(used(&result) > 0.8, "{controller}: {}", used(&result));
        // Two thirds of the pictures would fit; a queue that is thrown away takes a piece of the next with it.
        assert!((600..=1200).contains(&pictures.frames), "{controller}: {pictures:?}");
        assert!(pictures.frame_delay_ms.unwrap().p99 < 2600.0, "{controller}: {pictures:?}");
        let given_up = pictures.skipped_frames.unwrap() + pictures.discarded_packets.unwrap();
        assert!(given_up > 300, "{controller}: {pictures:?}");
        assert!(sound.frames >= 2990 && sound.frame_delay_ms.unwrap().p95 < 360.0, "{controller}: {sound:?}");
    }
}

#[test]
fn who_has_little_to_send_gets_all_of_it_through_at_once_and_the_target_does_not_run_away() {
    for controller in SCREAMS {
        let video = r#"{ model = "perfect", min = "150 kbit/s", max = "400 kbit/s" }"#;
        let result = call(controller, video, r#"max-rate = "8 Mbit/s""#);
        let flow = &result.flows[0];
        assert!((1795..=1805).contains(&flow.streams[1].frames), "{controller}: {:?}", flow.streams);
        assert!(queue_p95(&result) < 10.0, "{controller}: {}", queue_p95(&result));
        let target = flow.target_rate_bps.unwrap();
        assert!((400e3..=8e6).contains(&target), "{controller}: {target}");
    }
}

#[test]
fn pictures_that_come_back_after_a_pause_find_the_rate_again_without_a_flood() {
    for controller in SCREAMS {
        let video = format!(r#"{{ model = "perfect", {MORE_THAN_THE_LINK} }}"#);
        let result = call(controller, &video, r#"pauses = [["20 s", "60 s"]]"#);
        // From 60 to 90 s of the minute that counts.
        assert!((0.37..=0.52).contains(&used(&result)), "{controller}: {}", used(&result));
        assert_eq!(result.flows[0].loss_ratio, Some(0.0), "{controller}");
        let most = result.flows[0].queue_delay_ms.unwrap().max;
        assert!(most < 250.0, "{controller}: {most}");
    }
}

#[test]
fn the_maximum_payload_divides_video_and_not_audio() {
    let sent = |media: &str| {
        let text = format!(
            r#"
            duration = "10 s"
            link = [{{ id = "path", from = "here", to = "there", delay = "10 ms", reverse = {{}} }}]
            flow = [{{ id = "call", kind = "media", from = "here", to = "there", controller = "gcc:libwebrtc", max-payload = "100 B", {media} }}]
            "#
        );
        let scenario = Scenario::parse(&text, "call.toml").unwrap();
        let record = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
        let flow = &record.flows[0];
        flow.sent_packets as f64 / flow.frames.unwrap() as f64
    };
    // 160 B of G.711 each 20 ms, and reports.
    let audio = sent("audio = \"64 kbit/s\"");
    assert!((1.0..1.1).contains(&audio), "{audio}");
    // 300 kbit/s of 30 frames a second: 1250 B each.
    let video = sent("video = { model = \"perfect\", min = \"300 kbit/s\", max = \"300 kbit/s\" }");
    assert!((12.0..15.0).contains(&video), "{video}");
}
