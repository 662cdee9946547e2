//! `giusto call` with real video: from files and from encoders, saved at the far end.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::{assert_has, count, finished, number, process::Listener, relay::Relay, run, skip, text};
use giusto_session::video::{VideoCodec, VideoReader};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Files of 30 frames at 15 frames per second, made by `ffmpeg`.
pub(crate) fn tiny(extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../session/tests/data/tiny.{extension}"))
}

/// The frames of a file: their units, if it is H.264.
fn frames(path: &Path) -> Vec<Vec<Vec<u8>>> {
    let mut reader = VideoReader::default();
    reader.push(&fs::read(path).unwrap());
    let mut frames: Vec<_> = std::iter::from_fn(|| reader.poll_frame().unwrap()).collect();
    frames.extend(reader.finish().unwrap());
    let units = |frame: &[u8]| giusto_rtp::h264::nal_units(frame).map(<[u8]>::to_vec).collect();
    let is_vp8 = reader.codec() == Some(VideoCodec::Vp8);
    let content = |frame: Vec<u8>| if is_vp8 { vec![frame] } else { units(&frame) };
    frames.into_iter().map(|frame| content(frame.payload.to_vec())).collect()
}

/// Asserts that a file has the frames of another one for three seconds, which a busy machine may shorten; after 30 they begin again.
fn assert_same(saved: &Path, file: &Path) -> usize {
    let (expected, found) = (frames(file), frames(saved));
    assert!((30..=46).contains(&found.len()), "{} frames", found.len());
    for (number, frame) in found.iter().enumerate() {
        assert!(*frame == expected[number % 30], "frame {number} of {} differs", saved.display());
    }
    found.len()
}

fn call(to: &str, args: &[&str]) -> Output {
    run(&[&["call", to, "--json"], args].concat())
}

/// The records of both ends of a call in good order, whose listener saves what arrives.
fn both(saved: &Path, args: &[&str]) -> (Value, Value) {
    let listener = Listener::call(&["--save", saved.to_str().unwrap()]);
    let sent = finished(&call(&listener.to(), args));
    let (listened, code) = listener.result();
    assert!(matches!(code, 0 | 3), "{listened}");
    (sent, listened)
}

#[test]
fn files_arrive_frame_by_frame_with_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    for (extension, container) in [("ivf", "ivf"), ("h264", "h264"), ("h264", "ivf")] {
        let (saved, file) = (folder.path().join(format!("saved.{container}")), tiny(extension));
        let args = ["--media", file.to_str().unwrap(), "--frame-rate", "15", "--duration", "3s"];
        let (sent, received) = both(&saved, &args);
        let found = assert_same(&saved, &file);
        let report = &received["call"]["saved"];
        assert_has(
            report,
            &json!({ "frames": found, "missing_frames": 0, "error": null, "damaged_frames": 0, "begins_s": 0.0 }),
        );
        let video = &sent["call"]["video"];
        assert_has(
            video,
            &json!({ "source": "file", "codec": if extension == "ivf" { "vp8" } else { "h264" } }),
        );
        assert!(count(&video["key_frames"]) >= 2, "{sent}");
        playable(&saved, found);
    }
}

/// Three seconds of a test picture of this size and rate by libvpx; `false` if there is no such encoder.
fn vp8(path: &Path, size: &str, rate: &str) -> bool {
    let picture = format!("testsrc2=size={size}:rate=30");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-f", "lavfi", "-i", &picture, "-t", "3", "-c:v", "libvpx", "-g", "30"]);
    command.args(["-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-b:v", rate]).arg(path);
    let made = command.status().is_ok_and(|status| status.success());
    if !made {
        skip("files_of_several_sizes_are_layers_of_one_video", "ffmpeg has no libvpx");
    }
    made
}

#[test]
fn files_of_several_sizes_are_layers_of_one_video() {
    let folder = TempDir::new().unwrap();
    let [small, large, saved] = ["small.ivf", "large.ivf", "saved.ivf"].map(|name| folder.path().join(name));
    if !vp8(&small, "160x90", "60k") || !vp8(&large, "320x180", "400k") {
        return;
    }
    let media = format!("{},{}", small.display(), large.display());
    // The larger one does not fit into the second rate.
    for (max_rate, fits) in [("2M", true), ("250k", false)] {
        let args = ["--media", &media, "--max-rate", max_rate, "--duration", "5s"];
        let (sent, received) = both(&saved, &args);
        let args = ["-v", "error", "-show_entries", "frame=width", "-of", "csv=p=0"];
        let Ok(read) = Command::new("ffprobe").args(args).arg(&saved).output() else { return };
        assert_eq!(text(&read.stderr), "");
        let printed = text(&read.stdout);
        let widths: Vec<&str> = printed.lines().map(|line| line.trim_end_matches(',')).collect();
        assert!(widths.len() > 50 && widths[0] == "160", "{widths:?} {sent}");
        assert_eq!(widths.iter().filter(|width| **width == "320").count() > 20, fits, "{widths:?} {sent}");
        // Once the larger one fits, it stays.
        assert!(!fits || widths.last() == Some(&"320"), "{widths:?}");
        let report = &received["call"]["saved"];
        assert_has(report, &json!({ "damaged_frames": 0, "missing_frames": 0 }));
    }
}

/// `ffprobe` decodes each of the frames, and finds nothing wrong.
fn playable(saved: &Path, frames: usize) {
    let args = ["-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"];
    match Command::new("ffprobe").args(args).arg(saved).output() {
        Err(_) => skip("playable", "ffprobe is missing (ffmpeg)"),
        Ok(output) => {
            assert_eq!(text(&output.stdout).trim(), frames.to_string(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stderr), "");
        }
    }
}

#[test]
fn what_does_not_arrive_is_left_out_and_reported() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.ivf");
    let listener = Listener::call(&["--save", saved.to_str().unwrap()]);
    let relay = Relay::to(listener.address);
    // Every 40th datagram of media is lost, and nothing is repaired.
    let mut sent = 0_u32;
    relay.set(Box::new(move |_, bytes| {
        let is_media = matches!(bytes, [128..=191, second, ..] if !(192..=223).contains(second));
        sent += u32::from(is_media);
        let lost = is_media && sent % 40 == 39;
        if lost { Vec::new() } else { vec![(std::time::Duration::ZERO, bytes.to_vec())] }
    }));
    let file = tiny("ivf");
    let args = ["--media", file.to_str().unwrap(), "--repair", "none", "--duration", "6s"];
    finished(&call(&relay.address.to_string(), &args));
    let (received, _) = listener.result();
    let (expected, found) = (frames(&file), frames(&saved));
    assert!(found.iter().all(|frame| expected.contains(frame)));
    let report = &received["call"]["saved"];
    let missing = count(&report["missing_frames"]);
    assert!((1..=20).contains(&missing), "{received}");
    assert_eq!(report["frames"], found.len());
    let gaps = report["gaps"].as_array().unwrap();
    assert_eq!(gaps.iter().map(|gap| count(&gap["frames"])).sum::<u64>(), missing);
    for gap in gaps {
        let step = number(&gap["to_s"]) - number(&gap["from_s"]);
        assert!((0.13..1.0).contains(&step), "{gap}");
        assert!(gap["key_s"].as_f64().is_none_or(|key| key >= number(&gap["to_s"])), "{gap}");
    }
    assert!(gaps[0]["key_s"].is_f64(), "{received}");
    assert!(count(&report["damaged_frames"]) < found.len() as u64, "{received}");
}

/// Runs a call with this encoder to a listener that saves what arrives: what the caller prints, and the listener's record.
fn encoded(command: &str, duration: &str, saved: &Path) -> (Output, Value) {
    let listener = Listener::call(&["--save", saved.to_str().unwrap()]);
    let output = call(&listener.to(), &["--encoder-command", command, "--duration", duration]);
    (output, listener.result().0)
}

#[test]
fn an_encoder_is_told_what_to_do_and_ends_with_the_call() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    // It writes a video, then its lines to a file, until its standard input ends; and it has a child of its own.
    let script = format!(
        "echo $$ > {}; sleep 60 & echo $! > {}; cat {}; exec cat > {}",
        path("pid").display(),
        path("child").display(),
        tiny("ivf").display(),
        path("lines").display()
    );
    let (output, received) = encoded(&script, "4s", &path("saved.ivf"));
    finished(&output);
    let lines = fs::read_to_string(path("lines")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "bitrate 300000");
    assert!(lines.contains(&"start"));
    for line in &lines[1..] {
        let rate = line.strip_prefix("bitrate ").map(|rate| rate.parse::<u64>().unwrap());
        assert!(rate.is_none_or(|rate| (50_000..=2_500_000).contains(&rate)), "{line}");
        assert!(rate.is_some() || ["start", "key-frame"].contains(line), "{line}");
    }
    // At most one each 100 ms.
    assert!((2..=45).contains(&lines.len()), "{lines:?}");
    for name in ["pid", "child"] {
        let id = fs::read_to_string(path(name)).unwrap();
        let state = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        // What was its child may wait for another process to take its exit status.
        assert!(state.is_empty() || state.contains(") Z "), "{name} still runs: {state}");
    }
    assert!(frames(&path("saved.ivf")) == frames(&tiny("ivf")), "the saved file differs");
    assert_eq!(received["call"]["saved"]["frames"], 30);
}

#[test]
fn an_encoder_that_fails_ends_the_call_with_its_last_message() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.ivf");
    let script = format!("cat {}; echo the camera is gone >&2; exit 3", tiny("ivf").display());
    let (output, received) = encoded(&script, "30s", &saved);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let expected = "the encoder has ended (exit status: 3); its last message: the camera is gone";
    assert!(message.contains(expected), "{message}");
    // The figures so far are there, and the far end has ended in good order.
    assert!(count(&crate::common::json(&output)["flows"][0]["frames"]) > 0);
    assert_eq!(received["call"]["error"], Value::Null);
}

#[test]
fn an_encoder_that_ends_by_itself_ends_the_call() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.h264");
    let script = format!("cat {}", tiny("h264").display());
    let (output, _) = encoded(&script, "30s", &saved);
    let seconds = number(&finished(&output)["wall_s"]);
    let (found, expected) = (frames(&saved), frames(&tiny("h264")));
    assert!(found == expected, "{} frames, expected {}", found.len(), expected.len());
    assert!((0.5..20.0).contains(&seconds), "{seconds}");
}

#[test]
fn encoders_that_cannot_serve_are_refused_before_the_call() {
    for (command, expected) in [
        ("yes garbage", "neither IVF nor H.264"),
        ("exit 7", "the encoder has ended (exit status: 7)"),
        ("giusto-no-such-program", "exit status: 127"),
        ("sleep 60", "the encoder wrote no video within 10 s"),
    ] {
        let output = call("127.0.0.1:9", &["--encoder-command", command, "-t", "1"]);
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(1) && message.contains(expected), "{command}: {message}");
        assert!(message.contains("--encoder-command"), "{message}");
    }
}

#[test]
fn the_encoder_of_the_tools_follows_the_call() {
    let name = "the_encoder_of_the_tools_follows_the_call";
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/encoder/encode.py");
    let can = "import gi; gi.require_version('GstVideo', '1.0'); from gi.repository import Gst; Gst.init(None); \
               assert Gst.ElementFactory.find('vp8enc')";
    let found = Command::new("/usr/bin/python3").args(["-c", can]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return skip(name, "python3-gst-1.0 or vp8enc (gstreamer1.0-plugins-good) is missing");
    }
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.ivf");
    // Another Python that comes first does not have what the tool needs.
    let other = folder.path().join("python3");
    fs::write(&other, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&other, PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().display();
    let command = format!("PATH={path}:$PATH exec {} --size 160x90 --fps 15", tool.display());
    let (output, _) = encoded(&command, "6s", &saved);
    let record = finished(&output);
    let video = &record["call"]["video"];
    let found = frames(&saved).len();
    // 15 frames per second; a busy machine makes fewer.
    assert!((15..=95).contains(&found) && video["source"] == "encoder", "{found} {video}");
    assert!((10e3..3e6).contains(&number(&video["rate_bps"])), "{video}");
    playable(&saved, found);
}

#[test]
fn a_caller_receives_the_real_video_of_the_listener() {
    let folder = TempDir::new().unwrap();
    let (file, saved) = (tiny("ivf"), folder.path().join("back.ivf"));
    let [media, back] = [&file, &saved].map(|path| path.to_str().unwrap());
    let listen =
        |media: &[&str]| Listener::of(&[&["call", "--listen", "127.0.0.1:0", "--json"], media].concat());
    let listener = listen(&["--media", media]);
    let received =
        finished(&call(&listener.to(), &["--reverse", "--codec", "vp8", "--save", back, "--duration", "3s"]));
    assert_eq!(received["call"]["saved"]["frames"], assert_same(&saved, &file), "{received}");
    // A listener without video, or with video of another codec, has none of this codec.
    let nothing = listen(&[]);
    for (listener, args, codec) in [
        (listener, &["--reverse", "--codec", "h264"][..], "H.264"),
        (nothing, &["--media", media, "--bidir", "--save", back], "VP8"),
    ] {
        let output = call(&listener.to(), args);
        let message = text(&output.stderr);
        let expected = format!("has no video of {codec} to send");
        assert!(output.status.code() == Some(1) && message.contains(&expected), "{message}");
    }
}
