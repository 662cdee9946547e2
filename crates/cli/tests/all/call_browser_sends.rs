//! `giusto call --browser` with media of the browser: `--reverse`, `--bidir`, `--save`, and with speech to it: `--voice`.

use std::{fs, path::Path, process::Command, thread, time::Duration};

use serde_json::Value;

use crate::{
    call_browser::with_webrtc::{self, data},
    common::{
        Folder,
        chromium::Visitor,
        count,
        firefox::Firefox,
        giusto,
        namespace::{in_namespace, in_network},
        number, skip, text,
    },
};

/// Frames that a browser encodes at least, however busy the machine.
const ENCODED: u64 = 5;

/// The record of a call, of four seconds if nothing else is said, with a browser at `/?auto` and this query; `None` without a browser.
fn called(test: &str, folder: &Folder, query: &str, flags: &[&str]) -> Option<Value> {
    let time: &[&str] = if flags.contains(&"-t") { &[] } else { &["-t", "4"] };
    let flags = [&["--json"], time, flags].concat();
    let visit =
        |profile: &str, page: &str| Visitor::with_camera(test, profile, &format!("{page}?auto{query}"));
    let (record, said) = with_webrtc::called(folder, &flags, visit)?;
    assert!(said.iter().any(|line| line.contains(" s: ") && line.contains("received ")), "{said:?}");
    Some(record)
}

/// What ffprobe prints of a file, one value a line; `None` where it is missing.
fn probed(file: &Path, stream: &str, entries: &str) -> Option<Vec<String>> {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-count_packets", "-select_streams", stream, "-show_entries", entries]);
    let Ok(output) = command.args(["-of", "csv=p=0"]).arg(file).output() else {
        skip(&file.display().to_string(), "ffprobe is missing (ffmpeg)");
        return None;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(printed.lines().map(|line| line.trim_end_matches(',').to_owned()).collect())
}

/// A stream of the browser.
fn stream<'a>(record: &'a Value, kind: &str) -> &'a Value {
    let streams = record["incoming"]["streams"].as_array().unwrap();
    streams.iter().find(|stream| stream["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {record}"))
}

#[test]
fn chromium_sends_video_and_audio_that_are_saved_in_sync() {
    let folder = Folder::with("");
    let test = "chromium_sends_video_and_audio_that_are_saved_in_sync";
    let flags = ["--reverse", "--save", "camera.webm", "--out", "r.html"];
    let Some(record) = called(test, &folder, "", &flags) else { return };
    let (video, audio) = (stream(&record, "video"), stream(&record, "audio"));
    assert_eq!((&video["codec"], &audio["codec"]), (&"vp8".into(), &"opus".into()));
    // The camera of Chromium has 20 frames a second, and its microphone a packet in 20 ms. The page counts until after the end; a
    // busy machine may cut that short.
    let (frames, sent) = (count(&video["frames"]), count(&record["browser"]["frames_sent"]));
    assert!(frames >= ENCODED && frames <= sent + 20 && frames + 40 >= sent, "{frames} of {sent}");
    assert!((70..=210).contains(&count(&audio["frames"])), "{audio}");
    let flow = &record["flows"][0];
    assert_eq!((&flow["id"], &flow["from"]), (&"call:reverse".into(), &"browser".into()));
    assert_eq!(record["flows"].as_array().unwrap().len(), 1);
    assert_eq!(record["call"]["error"], Value::Null);
    assert_eq!(record["call"]["heard"]["codec"], "opus");
    // Feedback allows Chromium more than the 300 kbit/s with which it begins.
    assert!(number(&record["browser"]["available_rate_bps"]) > 300e3, "{}", record["browser"]);
    let above = &record["incoming"]["frame_delay_above_min_ms"];
    assert!(number(&above["p50"]) >= 0.0 && number(&above["p50"]) <= number(&above["max"]), "{above}");

    let saved = &record["call"]["saved"];
    assert_eq!(count(&saved["frames"]), frames);
    assert_eq!(saved["audio_frames"], audio["frames"]);
    let file = folder.path("camera.webm");
    let Some(read) = probed(&file, "v", "stream=codec_name,width,height,nb_read_packets") else { return };
    assert_eq!(read, [format!("vp8,640,480,{frames}")]);
    let read = probed(&file, "a", "stream=codec_name,nb_read_packets").unwrap();
    assert_eq!(read, [format!("opus,{}", count(&audio["frames"]))]);
    let size: u64 = fs::metadata(&file).unwrap().len();
    let rate = (number(&video["rate_bps"]) + number(&audio["rate_bps"])) * 4.0 / 8.0;
    assert!((0.7..1.1).contains(&(size as f64 / rate)), "{size} B of {rate} B with RTP headers");
    // Camera and microphone begin with the call.
    let first = |stream| probed(&file, stream, "packet=pts_time").unwrap()[0].parse::<f64>().unwrap();
    assert!((first("v") - first("a")).abs() < 1.0, "{} {}", first("v"), first("a"));
    let page = fs::read_to_string(folder.path("r.html")).unwrap();
    assert!(page.contains("call:reverse"));
}

/// Firefox has no candidates on loopback.
#[test]
fn firefox_sends_av1_that_is_saved() {
    const TEST: &str = "firefox_sends_av1_that_is_saved";
    in_network(TEST, || {
        let folder = Folder::with("");
        let Some(record) = firefox_sends(TEST, &folder, "av1", "") else { return };
        let (video, audio) = (stream(&record, "video"), stream(&record, "audio"));
        assert_eq!((&video["codec"], &audio["codec"]), (&"av1".into(), &"opus".into()));
        assert_saved(&record, &folder.path("camera.webm"), "av1", video);
    });
}

#[test]
fn firefox_sends_several_encodings_and_audio() {
    const TEST: &str = "firefox_sends_several_encodings_and_audio";
    in_network(TEST, || {
        let folder = Folder::with("");
        let Some(record) = firefox_sends(TEST, &folder, "vp8", "&simulcast=2") else { return };
        let streams = record["incoming"]["streams"].as_array().unwrap();
        for rid in ["mid", "high"] {
            let named = streams.iter().find(|stream| stream["rid"] == rid);
            assert!(named.is_some_and(|stream| count(&stream["frames"]) >= ENCODED), "{rid}: {record}");
        }
        let saved = &record["call"]["saved"];
        assert!(count(&saved["frames"]) >= ENCODED && saved["damaged_frames"] == 0, "{saved}");
        assert!((50..=270).contains(&count(&stream(&record, "audio")["frames"])), "{record}");
        decodes(&folder.path("camera.webm"));
    });
}

/// All frames of a stream are in the file, and can be decoded.
fn assert_saved(record: &Value, file: &Path, codec: &str, video: &Value) {
    assert_eq!(video["codec"], codec, "{video}");
    let frames = count(&record["call"]["saved"]["frames"]);
    assert!((ENCODED..=400).contains(&frames) && frames == count(&video["frames"]), "{record}");
    let Some(read) = probed(file, "v", "stream=codec_name,nb_read_packets") else { return };
    assert_eq!(read, [format!("{codec},{frames}")]);
    decodes(file);
}

/// The record of a call to which Firefox sends with this codec, at `/?auto&test` and this query.
fn firefox_sends(test: &str, folder: &Folder, codec: &str, query: &str) -> Option<Value> {
    let listen = ["--listen", "192.0.2.1:0", "--json", "-t", "5"];
    let flags = [&listen[..], &["--reverse", "--save", "camera.webm", "--codec", codec]].concat();
    let visit = |_: &str, page: &str| {
        let mut browser = Firefox::start(test)?;
        browser.visit(&format!("{page}?auto&test{query}"));
        // Refused: giusto waits for another browser.
        let said = loop {
            let said = browser.text("#state");
            if !(said.starts_with("Connecting") || said.starts_with("Not connected")) {
                break said;
            }
            thread::sleep(Duration::from_millis(100));
        };
        if said.contains("offers no AV1") {
            skip(test, "this Firefox has no encoder of AV1");
            return None;
        }
        Some(browser)
    };
    let (record, said) = with_webrtc::called(folder, &flags, visit)?;
    assert!(said.iter().any(|line| line.contains("connected to ")), "{said:?}");
    assert!(record["browser"]["user_agent"].as_str().unwrap().contains("Firefox"), "{record}");
    Some(record)
}

#[test]
fn chromium_sends_h264_for_a_file_of_h264() {
    let (folder, test) = (Folder::with(""), "chromium_sends_h264_for_a_file_of_h264");
    let flags = ["--reverse", "--save", "camera.h264"];
    let Some(record) = called(test, &folder, "&test", &flags) else { return };
    assert_saved(&record, &folder.path("camera.h264"), "h264", stream(&record, "video"));
}

#[test]
fn chromium_sends_vp9_at_the_rate_that_is_allowed() {
    let folder = Folder::with("");
    let flags = ["--reverse", "--codec", "vp9", "--save", "camera.webm", "--max-rate", "400k"];
    let test = "chromium_sends_vp9_at_the_rate_that_is_allowed";
    let Some(record) = called(test, &folder, "&test", &flags) else { return };
    let video = stream(&record, "video");
    assert_eq!(video["codec"], "vp9");
    // Without a limit Chromium sends above 1 Mbit/s of this picture.
    let rate = count(&video["rate_bps"]);
    assert!((50_000..550_000).contains(&rate), "{video}");
    let frames = count(&record["call"]["saved"]["frames"]);
    assert!(frames >= ENCODED, "{record}");
    let entries = "stream=codec_name,width,height,nb_read_packets";
    let Some(read) = probed(&folder.path("camera.webm"), "v", entries) else { return };
    // Chromium makes the picture of 640 x 360 smaller where the rate does not suffice.
    let sizes = [(640, 360), (480, 270), (320, 180)];
    let fits = |(width, height)| read == [format!("vp9,{width},{height},{frames}")];
    assert!(sizes.into_iter().any(fits), "{read:?} of {frames}");
    decodes(&folder.path("camera.webm"));
}

#[test]
fn chromium_sends_layers_of_av1_that_are_saved() {
    let (folder, test) = (Folder::with(""), "chromium_sends_layers_of_av1_that_are_saved");
    let flags = ["--reverse", "--codec", "av1", "--save", "camera.ivf", "--max-rate", "400k"];
    let Some(record) = called(test, &folder, "&test&layers=L1T3", &flags) else { return };
    let video = stream(&record, "video");
    assert_eq!(video["layers"], serde_json::json!([1, 3]), "{video}");
    assert!((20_000..550_000).contains(&count(&video["rate_bps"])), "{video}");
    // A decode target for each temporal layer, which all frames of the lower ones and its own have.
    let targets = video["decode_targets"].as_array().unwrap();
    let frames: Vec<u64> = targets.iter().map(|target| count(&target["frames"])).collect();
    assert!(frames.len() == 3 && frames.is_sorted_by(|one, next| one < next), "{video}");
    if video["lost_packets"] == 0 {
        assert!(targets.iter().all(|target| target["broken_frames"] == 0), "{video}");
    }
    assert_eq!(record["call"]["saved"]["damaged_frames"], 0, "{record}");
    assert_saved(&record, &folder.path("camera.ivf"), "av1", video);
}

#[test]
fn chromium_sends_several_encodings_of_which_the_best_is_saved() {
    let folder = Folder::with("");
    let flags = ["--reverse", "--save", "camera.webm", "-t", "12", "--out", "r.html"];
    let test = "chromium_sends_several_encodings_of_which_the_best_is_saved";
    let Some(record) = called(test, &folder, "&test&simulcast=2", &flags) else { return };
    let streams = record["incoming"]["streams"].as_array().unwrap();
    if streams.iter().filter(|stream| stream["kind"] == "video").count() == 1 {
        return skip(test, "this machine encodes one picture at most");
    }
    let video = |rid: &str| {
        streams.iter().find(|stream| stream["rid"] == rid).unwrap_or_else(|| panic!("{rid}: {record}"))
    };
    let (mid, high) = (video("mid"), video("high"));
    assert_ne!(mid["ssrc"], high["ssrc"]);
    // 640 x 360 and a quarter of it, or less where this machine does not suffice.
    let width = |stream: &Value| count(&stream["dimensions"][0]);
    assert!(width(mid) < width(high) && width(high) <= 640, "{mid} {high}");
    for stream in [mid, high] {
        assert!(count(&stream["frames"]) >= ENCODED && count(&stream["rate_bps"]) > 5_000, "{stream}");
    }
    for (place, name) in ["video mid", "video high"].iter().enumerate() {
        assert_eq!(record["flows"][0]["streams"][place]["id"], *name);
    }
    let saved = &record["call"]["saved"];
    let frames = count(&saved["frames"]);
    assert!(frames >= ENCODED && frames <= count(&mid["frames"]) + count(&high["frames"]), "{saved}");
    assert_eq!(saved["damaged_frames"], 0, "{saved}");
    let Some(read) = probed(&folder.path("camera.webm"), "v", "frame=width") else { return };
    // The larger pictures are taken wherever there are any.
    let widths: Vec<u64> = read.iter().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    assert_eq!(widths.len() as u64, frames);
    let large = widths.iter().filter(|one| **one > width(mid)).count() as u64;
    assert!(large + 60 >= count(&high["frames"]) && large >= 5, "{widths:?} {high}");
    decodes(&folder.path("camera.webm"));
    let page = fs::read_to_string(folder.path("r.html")).unwrap();
    assert!(page.contains("Video high from the browser"));
}

/// ffmpeg decodes the file, and finds nothing damaged.
fn decodes(file: &Path) {
    assert_eq!(complaints(file), "");
}

/// What ffmpeg says of damage in the file, whose times rise.
fn complaints(file: &Path) -> String {
    if let Some(times) = probed(file, "v", "packet=pts_time") {
        // Annex B has no times.
        let times: Vec<f64> = times.iter().filter_map(|time| time.parse().ok()).collect();
        assert!(times.windows(2).all(|two| two[0] < two[1]), "{times:?}");
    }
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-i"]).arg(file).args(["-map", "0:v"]);
    // FFmpeg complains of two frames within a step of the frame rate that it guesses.
    command.args(["-enc_time_base", "1:90000", "-vsync", "passthrough", "-f", "null", "-"]);
    if let Ok(output) = command.output() {
        return text(&output.stderr);
    }
    skip(&file.display().to_string(), "ffmpeg is missing");
    String::new()
}

#[test]
fn both_ends_send_video_and_speech() {
    let folder = Folder::with("");
    let media = [data("low.ivf"), data("high.ivf")].join(",");
    let media = ["--bidir", "--save", "both.webm", "--media", &media];
    let voice: &[&str] = if cfg!(feature = "voice") { &["--voice"] } else { &[] };
    let flags = [&media[..], &["--feedback", "remb", "--controller", "gcc:remb"], voice].concat();
    let Some(record) = called("both_ends_send_video_and_speech", &folder, "&test", &flags) else { return };
    let flows = record["flows"].as_array().unwrap();
    let ids: Vec<&Value> = flows.iter().map(|flow| &flow["id"]).collect();
    assert_eq!(ids, ["call", "call:reverse"]);
    assert!(flows.iter().all(|flow| flow["feedback"] == "remb"), "{flows:?}");
    let (sent, decoded) =
        (count(&record["connection"]["frames"]), count(&record["browser"]["frames_decoded"]));
    assert!(decoded >= 10 && decoded <= sent, "{decoded} of {sent}");
    assert!(count(&stream(&record, "video")["frames"]) >= ENCODED);
    assert!(count(&stream(&record, "audio")["frames"]) >= 70);
    // Chromium sends its first key frame before it has nominated its address.
    assert_eq!(record["call"]["saved"]["damaged_frames"], 0);
    decodes(&folder.path("both.webm"));
    if cfg!(feature = "voice") {
        // In silence one packet in 400 ms is sent. What is under way at the end is not counted by the browser.
        let (voice, heard) = (&record["call"]["voice"], &record["heard_by_browser"]);
        let (sent, heard_packets) = (count(&voice["packets"]), count(&heard["played_packets"]));
        assert!(heard_packets <= sent && heard_packets + 60 >= sent && heard_packets > 33, "{voice} {heard}");
        assert!((1.0..=4.5).contains(&number(&heard["mos"])), "{heard}");
    }
}

/// The received rate in Mbit/s, the lost packets and the frames of each second, from the lines of a running call.
fn seconds(said: &str) -> Vec<(f64, u64, u64)> {
    let read = |line: &str| {
        let (_, figures) = line.split_once(" s: received ")?;
        let (rate, rest) = figures.split_once("bit/s, ")?;
        let (number, unit) = rate.split_once(' ')?;
        let rate = number.parse::<f64>().ok()? * if unit == "M" { 1.0 } else { 1e-3 };
        let (lost, rest) = rest.split_once(" lost, ")?;
        let (frames, _) = rest.split_once(" frames")?;
        Some((rate, lost.replace(',', "").parse().ok()?, frames.parse().ok()?))
    };
    said.lines().filter_map(read).collect()
}

/// The longest RTT in the lines of a running call, in ms; those below 1 ms do not count.
fn longest_rtt_ms(said: &str) -> f64 {
    let read = |line: &str| line.split_once("; RTT ")?.1.strip_suffix(" ms")?.replace(',', "").parse().ok();
    said.lines().filter_map(read).fold(0.0, f64::max)
}

/// The lines and the record of a call that a browser of another namespace makes across a link of this scenario, at `/?auto&test` with this
/// query. `None` without a browser.
fn across(test: &str, folder: &Folder, query: &str, flags: &str) -> Option<(String, Value)> {
    if Command::new("chromium").arg("--version").output().is_err() {
        skip(test, "no chromium is installed");
        return None;
    }
    let at = |name: &str| folder.path(name).display().to_string();
    let far = format!(
        "cd {}; exec {} call --browser --reverse --listen $GIUSTO_FAR:8080 --json {flags} >record 2>said",
        at(""),
        env!("CARGO_BIN_EXE_giusto"),
    );
    // The page is there once giusto has said so; the browser ends with the call.
    let near = format!(
        "until grep -q open {said}; do sleep .1; done
        chromium --headless=new --no-sandbox --disable-gpu --no-first-run --user-data-dir={profile} \
            \"http://$GIUSTO_FAR:8080/?auto&test{query}\" >{profile}.log 2>&1 &
        until [ -s {record} ]; do sleep .1; done
        kill $!; wait",
        said = at("said"),
        record = at("record"),
        profile = at("profile"),
    );
    let scenario = at("s.toml");
    let link = ["link", &scenario, "--start-with-media", "--max-lateness", "10s", "--duration", "60s"];
    let output = giusto(&[&link[..], &["--far", &far, "--", "sh", "-c", &near]].concat()).output().unwrap();
    let said = fs::read_to_string(folder.path("said")).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{printed} {said}");
    let record = fs::read(folder.path("record")).unwrap();
    Some((said, serde_json::from_slice(&record).unwrap()))
}

#[test]
fn lost_packets_of_each_encoding_are_repaired() {
    const TEST: &str = "lost_packets_of_each_encoding_are_repaired";
    in_namespace(TEST, 1500, || {
        let folder = Folder::with(
            r#"
            duration = "20 s"
            [[link]]
            id = "path"
            from = "near"
            to = "far"
            rate = "20 Mbit/s"
            delay = "10 ms"
            loss = 0.05
            reverse = { rate = "unlimited", delay = "10 ms" }
            "#,
        );
        let query = "&simulcast=2&layers=L1T3";
        let Some((said, record)) = across(TEST, &folder, query, "--codec av1 -t 10 --save camera.mkv") else {
            return;
        };
        let streams = record["incoming"]["streams"].as_array().unwrap();
        let named: Vec<&Value> = streams.iter().filter(|stream| stream["rid"].is_string()).collect();
        if named.len() == 1 {
            return skip(TEST, "this machine encodes one picture at most");
        }
        // What cannot be repaired within the playout deadline, 400 ms from the capture, is not requested. A repair takes the delay of the
        // encoder, that until the loss is noticed, and two RTTs.
        let rtt = longest_rtt_ms(&said);
        if rtt > 125.0 {
            return skip(TEST, &format!("this machine is too busy to repair in time, its RTT is {rtt} ms"));
        }
        for stream in named {
            let (lost, repaired) = (count(&stream["lost_packets"]), count(&stream["repaired_packets"]));
            // One packet of twenty is lost, and one of twenty retransmissions.
            assert!(lost >= 2 && repaired * 10 >= lost * 6, "{stream} {said}");
            let targets = stream["decode_targets"].as_array().unwrap();
            assert_eq!(targets.len(), 3, "{stream}");
            let [frames, broken] = ["frames", "broken_frames"].map(|name| count(&targets[2][name]));
            // Frames from before the structure has arrived do not count.
            assert!(frames * 4 >= count(&stream["frames"]) * 3 && broken * 3 <= frames, "{stream}");
        }
        // What a lost retransmission leaves incomplete is not in the file, and is missing where the next frames refer to it.
        let saved = &record["call"]["saved"];
        let complaints = complaints(&folder.path("camera.mkv"));
        assert!(complaints.lines().count() as u64 <= count(&saved["damaged_frames"]), "{complaints}{saved}");
    });
}

#[test]
fn chromium_follows_a_bottleneck_down_and_up() {
    const TEST: &str = "chromium_follows_a_bottleneck_down_and_up";
    in_namespace(TEST, 1500, || {
        let folder = Folder::with(
            r#"
            duration = "20 s"
            [[link]]
            id = "bottleneck"
            from = "near"
            to = "far"
            rate = { steps = [["0 s", "3 Mbit/s"], ["4 s", "500 kbit/s"], ["10 s", "3 Mbit/s"]] }
            delay = "10 ms"
            queue = { kind = "drop-tail", limit = "300 ms" }
            reverse = { rate = "unlimited", delay = "10 ms" }
            "#,
        );
        let Some((said, _)) = across(TEST, &folder, "", "-t 15") else { return };
        let all = seconds(&said);
        assert!(all.len() >= 14, "{said}");
        let highest =
            |from: usize, to: usize| all[from..to].iter().map(|(rate, ..)| *rate).fold(0.0, f64::max);
        let before = highest(1, 4);
        if before < 0.7 {
            return skip(TEST, &format!("this machine encodes {before} Mbit/s of the picture at most"));
        }
        // It sends less than passes once the queue has been full; without a controller two of three packets would be lost. The link's
        // time may begin two seconds before the call's, with the first media, or one second later.
        let lost: u64 = all[6..8].iter().map(|(_, lost, _)| lost).sum();
        assert!(lost <= 20 && highest(6, 8) <= 0.55 && highest(6, 8) > 0.05, "{said}");
        // The camera has 30 pictures a second. An encoder that is too slow for them stays at a low rate, whatever is allowed.
        let pictures = all[1].2;
        if pictures < 24 {
            return skip(
                TEST,
                &format!("the way up: this machine encodes {pictures} of 30 pictures a second"),
            );
        }
        assert!(highest(11, all.len()) > highest(6, 8) * 1.2, "{said}");
    });
}
