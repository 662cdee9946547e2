//! Losses of videos with the payload formats of real codecs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use giusto::{
    record::FlowRecord,
    run::{RecordOptions, simulate},
    scenario::Scenario,
};

/// A call of 500 kbit/s for 20 s with 60 ms of RTT, and so many frames that it has queued.
fn call(keys: &str, loss: f64, seed: u64) -> FlowRecord {
    let text = format!(
        "duration = \"20 s\"\n\
         [[link]]\nid = \"path\"\nfrom = \"a\"\nto = \"b\"\nrate = \"4 Mbit/s\"\ndelay = \"30 ms\"\nduplex = true\nloss = {loss}\n\
         [[flow]]\nid = \"call\"\nkind = \"media\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"fixed\"\nstart-rate = \"1 Mbit/s\"\nmax-rate = \"1 Mbit/s\"\n\
         video = {{ model = \"perfect\", min = \"500 kbit/s\", max = \"500 kbit/s\", start = \"500 kbit/s\" }}\n{keys}\n"
    );
    let scenario = Scenario::parse(&text, "codecs.toml").unwrap();
    simulate(&scenario, seed, RecordOptions::default(), &mut ()).flows.swap_remove(0)
}

const CODECS: [&str; 4] = ["vp8", "h264", "vp9", "av1"];

#[test]
fn all_frames_of_each_codec_arrive_without_loss() {
    let frames = call("", 0.0, 1).frames.unwrap();
    assert!(frames >= 595, "{frames}");
    for codec in CODECS {
        let flow = call(&format!("codec = \"{codec}\""), 0.0, 1);
        assert!(flow.frames.unwrap().abs_diff(frames) <= 1, "{codec}: {:?} of {frames}", flow.frames);
        let repair = flow.streams[0].repair.unwrap();
        assert_eq!((repair.key_frame_requests, repair.requested_packets), (Some(0), Some(0)), "{codec}");
    }
}

#[test]
fn lost_frames_of_each_codec_are_repaired() {
    for codec in CODECS {
        for seed in 1..=3 {
            // One or two packets a frame: every twentieth frame loses all of them.
            let flow = call(&format!("codec = \"{codec}\"\nrepair = \"nack\""), 0.05, seed);
            let (frames, repair) = (flow.frames.unwrap(), flow.streams[0].repair.unwrap());
            assert!(frames >= 590, "{codec}, seed {seed}: {frames} of 600 frames");
            assert!(repair.repaired_frames > Some(30), "{codec}, seed {seed}: {repair:?}");
            let requests = repair.key_frame_requests.unwrap();
            assert!(requests <= 3, "{codec}, seed {seed}: {repair:?}");
        }
    }
}

#[test]
fn lost_frames_of_each_codec_need_key_frames_without_repair() {
    for codec in CODECS {
        let asked = |keys: &str| {
            let flow = call(&format!("codec = \"{codec}\"\n{keys}"), 0.02, 7);
            (flow.frames.unwrap(), flow.streams[0].repair.and_then(|repair| repair.key_frame_requests))
        };
        let (frames, requests) = asked("");
        // Some 20 losses, and no two requests within 300 ms.
        let requests = requests.unwrap();
        assert!((8..60).contains(&requests), "{codec}: {requests}");
        assert!((540..600).contains(&frames), "{codec}: {frames}");
        assert_eq!(asked("key-frame-request = \"none\"").1, None, "{codec}");
    }
}
