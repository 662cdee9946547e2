//! `giusto call` with real video: from files and from encoders, saved at the far end.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::{json, process::Listener, relay::Relay, run, text};
use giusto_session::video::{VideoCodec, VideoReader, VideoWriter};
use serde_json::Value;
use tempfile::TempDir;

/// Files of 30 frames at 15 frames per second, made by `ffmpeg`.
fn tiny(extension: &str) -> PathBuf {
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

/// A listener that saves what arrives.
fn listener(saved: &Path) -> Listener {
    let saved = saved.to_str().unwrap();
    Listener::of(&["call", "--listen", "127.0.0.1:0", "--once", "--json", "--save", saved])
}

fn call(to: &str, args: &[&str]) -> Output {
    run(&[&["call", to, "--json"], args].concat())
}

/// The records of both ends of a call in good order.
fn both(saved: &Path, args: &[&str]) -> (Value, Value) {
    let listener = listener(saved);
    let output = call(&listener.address.to_string(), args);
    let (listened, code) = listener.result();
    assert!(matches!((output.status.code(), code), (Some(0 | 3), 0 | 3)), "{}", text(&output.stderr));
    (json(&output), listened)
}

#[test]
fn files_arrive_frame_by_frame_with_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    for (extension, container) in [("ivf", "ivf"), ("h264", "h264"), ("h264", "ivf")] {
        let (saved, file) = (folder.path().join(format!("saved.{container}")), tiny(extension));
        let args = ["--media", file.to_str().unwrap(), "--frame-rate", "15", "--duration", "3s"];
        let (sent, received) = both(&saved, &args);
        let (expected, found) = (frames(&file), frames(&saved));
        // 45 frames in 3 s, of which a busy machine may make fewer; after 30 the file begins again.
        assert!((30..=46).contains(&found.len()), "{extension}: {} frames", found.len());
        for (number, frame) in found.iter().enumerate() {
            assert!(*frame == expected[number % 30], "{extension}: frame {number} differs");
        }
        let report = &received["call"]["saved"];
        assert_eq!(report["frames"], found.len(), "{received}");
        assert_eq!((&report["missing_frames"], &report["error"]), (&0.into(), &Value::Null), "{received}");
        assert_eq!((&report["damaged_frames"], &report["begins_s"]), (&0.into(), &0.0.into()), "{received}");
        let video = &sent["call"]["video"];
        let codec = if extension == "ivf" { "vp8" } else { "h264" };
        assert_eq!((&video["source"], &video["codec"]), (&"file".into(), &codec.into()), "{sent}");
        assert!(video["key_frames"].as_u64().unwrap() >= 2, "{sent}");
        playable(&saved, found.len());
    }
}

/// Three seconds of a test picture of this size by libvpx; `false` if there is no such encoder.
fn vp8(path: &Path, size: &str, more: &[&str]) -> bool {
    let picture = format!("testsrc2=size={size}:rate=30");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-f", "lavfi", "-i", &picture, "-t", "3", "-c:v", "libvpx", "-g", "30"]);
    command.args(["-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0"]).args(more).arg(path);
    let made = command.status().is_ok_and(|status| status.success());
    if !made {
        eprintln!("SKIPPED {}: ffmpeg has no libvpx with layers", path.display());
    }
    made
}

#[test]
fn files_of_several_sizes_are_layers_of_one_video() {
    let folder = TempDir::new().unwrap();
    let [small, large, saved] = ["small.ivf", "large.ivf", "saved.ivf"].map(|name| folder.path().join(name));
    if !vp8(&small, "160x90", &["-b:v", "60k"]) || !vp8(&large, "320x180", &["-b:v", "400k"]) {
        return;
    }
    let media = format!("{},{}", small.display(), large.display());
    // The larger one does not fit into the second rate.
    for (max_rate, fits) in [("2M", true), ("250k", false)] {
        let args = ["--media", &media, "--max-rate", max_rate, "--duration", "6s"];
        let (sent, received) = both(&saved, &args);
        let args = ["-v", "error", "-show_entries", "frame=width", "-of", "csv=p=0"];
        let Ok(read) = Command::new("ffprobe").args(args).arg(&saved).output() else { return };
        assert_eq!(text(&read.stderr), "");
        let printed = text(&read.stdout);
        let widths: Vec<&str> = printed.lines().map(|line| line.trim_end_matches(',')).collect();
        assert!(widths.len() > 60 && widths[0] == "160", "{widths:?} {sent}");
        assert_eq!(widths.iter().filter(|width| **width == "320").count() > 20, fits, "{widths:?} {sent}");
        // Once the larger one fits, it stays.
        assert!(!fits || widths.last() == Some(&"320"), "{widths:?}");
        let report = &received["call"]["saved"];
        assert_eq!(
            (&report["damaged_frames"], &report["missing_frames"]),
            (&0.into(), &0.into()),
            "{report}"
        );
    }
}

#[test]
fn layers_are_left_out_before_frames_are_skipped() {
    let folder = TempDir::new().unwrap();
    let [file, saved] = ["layers.ivf", "saved.ivf"].map(|name| folder.path().join(name));
    let layers = "ts_number_layers=2:ts_target_bitrate=200,400:ts_rate_decimator=2,1:ts_periodicity=2:\
                  ts_layer_id=0,1:ts_layering_mode=2";
    if !vp8(&file, "320x180", &["-b:v", "400k", "-error-resilient", "1", "-ts-parameters", layers]) {
        return;
    }
    let args = ["--media", file.to_str().unwrap(), "--max-rate", "330k", "--duration", "6s"];
    let (sent, received) = both(&saved, &args);
    let video = &sent["call"]["video"];
    let frames = video["frames"].as_u64().unwrap();
    // Of 180 frames the half of the lower layer fits, and some of the others.
    assert!((80..=165).contains(&frames), "{video}");
    assert_eq!(video["skipped_frames"], 0, "{video}");
    let report = &received["call"]["saved"];
    // No frame needs those that were left out.
    assert_eq!(report["damaged_frames"], 0, "{report}");
    assert_eq!(report["frames"], frames, "{report}");
    playable(&saved, frames as usize);
}

/// `ffprobe` decodes each of the frames, and finds nothing wrong.
fn playable(saved: &Path, frames: usize) {
    let args = ["-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"];
    match Command::new("ffprobe").args(args).arg(saved).output() {
        Err(_) => {
            eprintln!("SKIPPED playable: ffprobe is missing (ffmpeg)");
        }
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
    let listener = listener(&saved);
    let relay = Relay::to(listener.address);
    // Every 40th datagram of media is lost, and nothing is repaired.
    let mut number = 0_u32;
    relay.set(Box::new(move |_, bytes| {
        let is_media = matches!(bytes, [128..=191, second, ..] if !(192..=223).contains(second));
        number += u32::from(is_media);
        let lost = is_media && number % 40 == 39;
        if lost { Vec::new() } else { vec![(std::time::Duration::ZERO, bytes.to_vec())] }
    }));
    let file = tiny("ivf");
    let args = ["--media", file.to_str().unwrap(), "--repair", "none", "--duration", "6s"];
    let output = call(&relay.address.to_string(), &args);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let (received, _) = listener.result();
    let (expected, found) = (frames(&tiny("ivf")), frames(&saved));
    assert!(found.iter().all(|frame| expected.contains(frame)));
    let report = &received["call"]["saved"];
    let missing = report["missing_frames"].as_u64().unwrap();
    assert!((1..=20).contains(&missing), "{received}");
    assert_eq!(report["frames"], found.len());
    let gaps = report["gaps"].as_array().unwrap();
    assert_eq!(gaps.iter().map(|gap| gap["frames"].as_u64().unwrap()).sum::<u64>(), missing);
    for gap in gaps {
        let step = gap["to_s"].as_f64().unwrap() - gap["from_s"].as_f64().unwrap();
        assert!((0.13..1.0).contains(&step), "{gap}");
        assert!(gap["key_s"].as_f64().is_none_or(|key| key >= gap["to_s"].as_f64().unwrap()), "{gap}");
    }
    assert!(gaps[0]["key_s"].is_f64(), "{received}");
    let damaged = report["damaged_frames"].as_u64().unwrap() as usize;
    assert!(damaged < found.len(), "{received}");
}

/// Runs a call with this encoder; the address has no listener if none is needed.
fn encoded(command: &str, duration: &str, saved: Option<&Path>) -> (Output, Option<Value>) {
    let listener = saved.map(listener);
    let to = listener.as_ref().map_or("127.0.0.1:9".to_owned(), |listener| listener.address.to_string());
    let output = call(&to, &["--encoder-command", command, "--duration", duration]);
    (output, listener.map(|listener| listener.result().0))
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
    let (output, received) = encoded(&script, "4s", Some(&path("saved.ivf")));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
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
    assert_eq!(received.unwrap()["call"]["saved"]["frames"], 30);
}

#[test]
fn an_encoder_that_fails_ends_the_call_with_its_last_message() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.ivf");
    let script = format!("cat {}; echo the camera is gone >&2; exit 3", tiny("ivf").display());
    let (output, received) = encoded(&script, "30s", Some(&saved));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("the encoder has ended (exit status: 3); its last message: the camera is gone"),
        "{message}"
    );
    // The figures so far are there, and the far end has ended in good order.
    assert!(json(&output)["flows"][0]["frames"].as_u64().unwrap() > 0);
    assert_eq!(received.unwrap()["call"]["error"], Value::Null);
}

#[test]
fn an_encoder_that_ends_by_itself_ends_the_call() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.h264");
    let script = format!("cat {}", tiny("h264").display());
    let (output, _) = encoded(&script, "30s", Some(&saved));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let (found, expected) = (frames(&saved), frames(&tiny("h264")));
    assert!(found == expected, "{} frames, expected {}", found.len(), expected.len());
    let seconds = json(&output)["wall_s"].as_f64().unwrap();
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
        let (output, _) = encoded(command, "1s", None);
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(1) && message.contains(expected), "{command}: {message}");
        assert!(message.contains("--encoder-command"), "{message}");
    }
}

#[test]
fn an_encoder_that_is_too_fast_is_held_back() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("long.ivf");
    // 200 s of video, which `cat` writes at once.
    let one = frames(&tiny("ivf"));
    let mut writer = VideoWriter::ivf(VideoCodec::Vp8);
    let mut bytes = writer.header();
    for number in 0..3000_usize {
        writer.write(number as u64 * 6000, &one[number % 30][0], &mut bytes);
    }
    fs::write(&file, bytes).unwrap();
    let (output, received) =
        encoded(&format!("cat {}", file.display()), "3s", Some(&folder.path().join("s.ivf")));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    // 45 frames in 3 s, and a few that it may be ahead.
    let frames = received.unwrap()["call"]["saved"]["frames"].as_u64().unwrap();
    assert!((20..=50).contains(&frames), "{frames}");
}

#[test]
fn the_encoder_of_the_tools_follows_the_call() {
    let name = "the_encoder_of_the_tools_follows_the_call";
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/encoder/encode.py");
    let can = "import gi; gi.require_version('GstVideo', '1.0'); from gi.repository import Gst; Gst.init(None); \
               assert Gst.ElementFactory.find('vp8enc')";
    let found = Command::new("/usr/bin/python3").args(["-c", can]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {name}: python3-gst-1.0 or vp8enc (gstreamer1.0-plugins-good) is missing");
        return;
    }
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("saved.ivf");
    // Another Python that comes first does not have what the tool needs.
    let other = folder.path().join("python3");
    fs::write(&other, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&other, PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().display();
    let command = format!("PATH={path}:$PATH exec {} --size 160x90 --fps 15", tool.display());
    let (output, _) = encoded(&command, "6s", Some(&saved));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let record = json(&output);
    let video = &record["call"]["video"];
    let found = frames(&saved).len();
    // 15 frames per second; a busy machine makes fewer.
    assert!((15..=95).contains(&found) && video["source"] == "encoder", "{found} {video}");
    let rate = video["rate_bps"].as_f64().unwrap();
    assert!((10e3..3e6).contains(&rate), "{video}");
    playable(&saved, found);
}

#[test]
fn a_listener_without_real_video_refuses_to_send_any() {
    let folder = TempDir::new().unwrap();
    let (file, other) = (tiny("ivf"), tiny("h264"));
    let [file, other] = [&file, &other].map(|path| path.to_str().unwrap());
    for media in [&[][..], &["--media", other, "--frame-rate", "15"]] {
        let listener = Listener::of(&[&["call", "--listen", "127.0.0.1:0"], media].concat());
        let saved = folder.path().join("back.ivf");
        let args = ["--media", file, "--bidir", "--save", saved.to_str().unwrap()];
        let output = call(&listener.address.to_string(), &args);
        let message = text(&output.stderr);
        assert!(
            output.status.code() == Some(1) && message.contains("has no video of VP8 to send"),
            "{message}"
        );
    }
}

#[test]
fn a_caller_receives_the_real_video_of_the_listener() {
    let folder = TempDir::new().unwrap();
    let (file, saved) = (tiny("ivf"), folder.path().join("back.ivf"));
    let media = ["--media", file.to_str().unwrap()];
    let listener = Listener::of(&[&["call", "--listen", "127.0.0.1:0", "--json"], &media[..]].concat());
    let to = listener.address.to_string();
    let args = ["--reverse", "--codec", "vp8", "--save", saved.to_str().unwrap(), "--duration", "3s"];
    let output = call(&to, &args);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let (received, expected, found) = (json(&output), frames(&file), frames(&saved));
    assert!((30..=46).contains(&found.len()), "{} frames", found.len());
    for (number, frame) in found.iter().enumerate() {
        assert!(*frame == expected[number % 30], "frame {number} differs");
    }
    assert_eq!(received["call"]["saved"]["frames"], found.len(), "{received}");
    // It has no other codec.
    let output = call(&to, &["--reverse", "--codec", "h264", "--duration", "3s"]);
    let message = text(&output.stderr);
    assert!(
        output.status.code() == Some(1) && message.contains("has no video of H.264 to send"),
        "{message}"
    );
}

#[test]
fn flags_that_make_no_sense_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let ivf = tiny("ivf");
    let ivf = ivf.to_str().unwrap();
    let mp4 = folder.path().join("a.mp4");
    for (args, expected) in [
        (&["127.0.0.1:9", "--media", ivf, "--reverse"][..], "--reverse"),
        (&["127.0.0.1:9", "--media", ivf, "--encoder", "trace"], "--encoder"),
        (&["127.0.0.1:9", "--media", ivf, "--encoder-command", "cat"], "--encoder-command"),
        (&["127.0.0.1:9", "--media", ivf, "--video", "2"], "--video 2"),
        (&["127.0.0.1:9", "--frame-rate", "15"], "--frame-rate"),
        (&["127.0.0.1:9", "--media", "/nonexistent.ivf"], "/nonexistent.ivf"),
        (&["127.0.0.1:9", "--media", "Cargo.toml"], "neither IVF nor H.264"),
        (&["127.0.0.1:9", "--save", "a.ivf"], "--save"),
        (&["127.0.0.1:9", "--reverse", "--save", "a.ivf"], "--codec"),
        (
            &[
                "127.0.0.1:9",
                "--reverse",
                "--codec",
                "vp8",
                "--save",
                mp4.with_extension("h264").to_str().unwrap(),
            ],
            ".ivf",
        ),
        (&["127.0.0.1:9", "--codec", "vp8"], "--reverse"),
        (&["127.0.0.1:9", "--reverse", "--voice", "a.wav"], "name the file there"),
        (&["--listen", "127.0.0.1:0", "--save", mp4.to_str().unwrap()], ".ivf"),
    ] {
        let mut command = crate::common::giusto(&[&["call"], args].concat());
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(expected), "{args:?}: {message}");
    }
}
