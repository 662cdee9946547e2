//! `giusto call --save` as WebM and Matroska, and `--voice`: read by ffprobe and ffmpeg.

#[cfg(feature = "voice")]
use std::path::Path;
use std::{process::Command, time::Duration};

#[cfg(feature = "voice")]
use crate::common::number;
use crate::{
    call_media::tiny,
    common::{
        Folder, count, finished,
        process::Listener,
        relay::{Relay, Way},
        run, skip, text,
    },
};
use serde_json::Value;

/// What a program of FFmpeg prints, which must find nothing wrong; `None` where it is missing.
fn ffmpeg(program: &str, args: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(["-v", "error"]).args(args).output() else {
        skip("call_voice", &format!("{program} is missing (ffmpeg)"));
        return None;
    };
    assert_eq!(text(&output.stderr), "");
    Some(text(&output.stdout))
}

/// The times of a file's packets in a stream (`v:0`, `a:0`), in seconds, as ffprobe reads them.
fn times(file: &str, stream: &str) -> Option<Vec<f64>> {
    let args = ["-select_streams", stream, "-show_entries", "packet=pts_time", "-of", "csv=p=0", file];
    let lines = ffmpeg("ffprobe", &args)?;
    Some(lines.lines().map(|line| line.trim_end_matches(',').parse().unwrap()).collect())
}

/// The records of a caller and of a listener that saves to `saved`, with media between them as `delay` delays them by their payload type.
fn saved(saved: &str, args: &[&str], delay: fn(u8) -> u64) -> (Value, Value) {
    let listener = Listener::call(&["--save", saved]);
    let relay = Relay::to(listener.address);
    relay.set(Box::new(move |way, bytes| {
        let kind = (way == Way::Forth && bytes[0] >= 128).then(|| bytes[1] & 0x7f);
        vec![(Duration::from_millis(kind.map_or(0, delay)), bytes.to_vec())]
    }));
    let sent = finished(&run(&[&["call", &relay.address.to_string(), "--json"], args].concat()));
    (sent, listener.result().0)
}

#[test]
fn video_is_saved_as_webm_and_matroska_with_its_times() {
    let folder = Folder::with("");
    for (extension, name) in [("ivf", "saved.webm"), ("h264", "saved.mkv")] {
        let (file, path) = (tiny(extension), folder.path(name));
        let path = path.to_str().unwrap();
        let args = ["--media", file.to_str().unwrap(), "--frame-rate", "15", "-t", "3"];
        let (_, listened) = saved(path, &args, |_| 0);
        let frames = count(&listened["call"]["saved"]["frames"]);
        assert!((30..=46).contains(&frames), "{listened}");
        let Some(times) = times(path, "v:0") else { return };
        assert_eq!(times.len() as u64, frames);
        // 15 frames a second, to a millisecond of the container.
        assert!(times.iter().all(|time| (time * 15.0 - (time * 15.0).round()).abs() < 0.02), "{times:?}");
        let entries = ["-count_frames", "-show_entries", "stream=nb_read_frames,width,height"];
        let decoded = ffmpeg("ffprobe", &[&entries[..], &["-of", "csv=p=0", path]].concat()).unwrap();
        assert_eq!(decoded.trim().rsplit(',').next(), Some(frames.to_string().as_str()), "{decoded}");
        // ffprobe reads the size of the video itself: the header has the same.
        let bytes = std::fs::read(path).unwrap();
        for (id, size) in [0xb0, 0xba].into_iter().zip(decoded.trim().split(',')) {
            let size = size.parse::<u16>().unwrap().to_be_bytes();
            let element = [&[id, 1, 0, 0, 0, 0, 0, 0, 2], &size[..]].concat();
            let found = bytes.windows(element.len()).filter(|part| *part == element).count();
            assert_eq!(found, 1, "{name} {id:x}");
        }
    }
    // WebM has no H.264.
    let listener = Listener::call(&["--save", folder.path("no.webm").to_str().unwrap()]);
    run(&["call", &listener.to(), "--media", tiny("h264").to_str().unwrap(), "-t", "1"]);
    let mut said = std::iter::repeat_with(|| listener.next_line()).take(5);
    assert!(said.any(|line| line.contains("not saved: the call sends H.264")));
}

/// A WAV file of 48 kHz, one channel: a tone of 440 Hz in the second half of each second, from `from` on.
#[cfg(feature = "voice")]
fn beeps(path: &Path) {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).unwrap();
    for n in 0..4 * 48_000_u32 {
        let phase = f64::from(n) * 440.0 * std::f64::consts::TAU / 48_000.0;
        let sample = if n % 48_000 < 24_000 { 0.0 } else { phase.sin() * 12_000.0 };
        writer.write_sample(sample as i16).unwrap();
    }
    writer.finalize().unwrap();
}

#[cfg(feature = "voice")]
#[test]
fn voice_and_video_are_in_sync_although_video_is_late() {
    let folder = Folder::with("");
    beeps(&folder.path("beeps.wav"));
    let (wav, path, film) = (folder.path("beeps.wav"), folder.path("saved.webm"), tiny("ivf"));
    let [wav, path, film] = [&wav, &path, &film].map(|path| path.to_str().unwrap());
    // Video (96) comes 250 ms after audio (111).
    let args = ["--media", film, "--voice", wav, "-t", "4"];
    let (sent, listened) = saved(path, &args, |kind| if kind == 96 { 250 } else { 0 });
    let (voice, kept) = (&sent["call"]["voice"], &listened["call"]["saved"]);
    // Half of the time is silent: 10 packets of each 25 are sent before that is noticed.
    let (packets, silent) = (count(&voice["packets"]), count(&voice["silent_packets"]));
    assert!((195..=201).contains(&(packets + silent)) && (45..=60).contains(&silent), "{sent}");
    assert_eq!(kept["audio_frames"], packets, "{listened}");
    let rate = number(&voice["rate_bps"]);
    assert!((8e3..24e3).contains(&rate), "{sent}");
    let (Some(video), Some(audio)) = (times(path, "v:0"), times(path, "a:0")) else { return };
    // Both began with the call. ffprobe subtracts the delay of the codec, 6.5 ms.
    let offset = video[0] - (audio[0] + 0.0065);
    assert!(offset.abs() <= 0.02, "{offset} s: {:?} {:?}", &video[..3], &audio[..3]);
    // Where the tone begins, as it is decoded: at half of each second of the video.
    let decoded = folder.path("decoded.wav");
    let decoded = decoded.to_str().unwrap();
    let args =
        ["-i", path, "-vn", "-af", "aresample=async=1:first_pts=0", "-ar", "48000", "-ac", "1", decoded];
    let Some(_) = ffmpeg("ffmpeg", &args) else { return };
    let mut samples = hound::WavReader::open(decoded).unwrap();
    let samples: Vec<i16> = samples.samples::<i16>().map(Result::unwrap).collect();
    for second in 0..3 {
        let from = second * 48_000 + 9_600;
        let begins = samples[from..].iter().position(|sample| sample.unsigned_abs() > 3_000).unwrap() + from;
        let offset = begins as f64 / 48_000.0 - (second as f64 + 0.5) - video[0];
        assert!(offset.abs() <= 0.02, "the tone of second {second} is {offset} s late");
    }
}

/// The record of a listener to a voice that was made here, with media between them as `path` passes them.
#[cfg(feature = "voice")]
fn heard(path: fn(u16) -> Option<u64>) -> Value {
    let listener = Listener::call(&[]);
    let relay = Relay::to(listener.address);
    relay.set(Box::new(move |way, bytes| {
        let is_audio = way == Way::Forth && bytes[0] >= 128 && bytes[1] & 0x7f == 111;
        let sequence = u16::from_be_bytes([bytes[2], bytes[3]]);
        let delay = if is_audio { path(sequence) } else { Some(0) };
        delay.map(|delay| (Duration::from_millis(delay), bytes.to_vec())).into_iter().collect()
    }));
    let to = relay.address.to_string();
    finished(&run(&["call", &to, "--json", "--video", "0", "-t", "6", "--repair", "none", "--voice"]));
    let mut record = listener.result().0;
    record["call"]["heard"].take()
}

#[cfg(feature = "voice")]
#[test]
fn loss_and_delay_of_voice_are_heard() {
    let number = |heard: &Value, name: &str| number(&heard[name]);
    // Every tenth is lost, of which the next packet's FEC rebuilds some; the others are 300 ms late: each costs.
    let poor = std::thread::spawn(|| heard(|sequence| (sequence % 10 != 0).then_some(300)));
    let (whole, poor) = (heard(|_| Some(0)), poor.join().unwrap());
    assert_eq!(whole["codec"], "opus");
    assert_eq!(whole["lost_packets"], 0, "{whole}");
    assert!((100.0..240.0).contains(&number(&whole, "played_packets")), "{whole}");
    // The best of the wideband scale for Opus is 4.38 (crates/measure).
    assert!((3.5..4.5).contains(&number(&whole, "mos")), "{whole}");
    let [lost, late, repaired] =
        ["lost", "late", "repaired"].map(|kind| number(&poor, &format!("{kind}_packets")));
    let unheard = lost + late - repaired;
    let due = number(&poor, "played_packets") + unheard;
    assert!((0.08..0.12).contains(&(lost / due)) && repaired < lost, "{poor}");
    assert!((number(&poor, "loss_ratio") - unheard / due).abs() < 1e-9, "{poor}");
    assert!(number(&poor, "network_delay_ms") >= 300.0, "{poor}");
    assert!(number(&poor, "mos") < number(&whole, "mos") - 0.5, "{poor} {whole}");
}

/// A WAV file of 16 bits, with a header that may say something else.
fn wav(format: u16, channels: u16, rate: u32, samples: u32, said: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for (name, value) in [(b"RIFF", said.wrapping_add(36)), (b"WAVE", 0), (b"fmt ", 16)] {
        file.extend(name);
        if name != b"WAVE" {
            file.extend(value.to_le_bytes());
        }
    }
    let bytes = if format == 3 { 4 } else { 2 };
    file.extend([format.to_le_bytes(), channels.to_le_bytes()].concat());
    file.extend([rate.to_le_bytes(), rate.wrapping_mul((bytes * channels).into()).to_le_bytes()].concat());
    file.extend([(bytes * channels).to_le_bytes(), (8 * bytes).to_le_bytes()].concat());
    file.extend(b"data");
    file.extend(said.to_le_bytes());
    file.resize(file.len() + 2 * samples as usize, 1);
    file
}

#[test]
fn voice_that_cannot_be_sent_is_refused_by_name() {
    let folder = Folder::with("");
    let is_on = cfg!(feature = "voice");
    let with_voice = |problem| if is_on { problem } else { "--features voice" };
    let files = [
        ("truncated.wav", wav(1, 1, 48_000, 4_000, 96_000), "truncated.wav"),
        ("head.wav", wav(1, 1, 48_000, 4_000, 8_000)[..20].to_vec(), "head.wav"),
        ("mp3.wav", wav(0x55, 1, 48_000, 4_000, 8_000), "mp3.wav"),
        ("float.wav", wav(3, 1, 48_000, 8_000, 16_000), "samples are floats"),
        ("mute.wav", wav(1, 0, 48_000, 4_000, 8_000), "mute.wav"),
        ("still.wav", wav(1, 1, 0, 4_000, 8_000), with_voice("0 Hz")),
        ("fast.wav", wav(1, 1, 96_000, 4_000, 8_000), with_voice("96000 Hz")),
        ("huge.wav", wav(1, 1, 48_000, 4_000, 0xffff_fff0), "more than 100000000"),
        ("short.wav", wav(1, 1, 48_000, 100, 200), with_voice("shorter than a packet")),
        ("surround.wav", wav(1, 6, 48_000, 6_000, 12_000), with_voice("6 channels")),
        (
            "fine.wav",
            wav(1, 2, 44_100, 8_000, 16_000),
            if is_on { "127.0.0.1:1" } else { "--features voice" },
        ),
    ];
    for (name, bytes, problem) in files {
        let path = folder.path(name);
        std::fs::write(&path, bytes).unwrap();
        let output = run(&["call", "127.0.0.1:1", "--voice", path.to_str().unwrap()]);
        let status = if is_on && name == "fine.wav" { 1 } else { 2 };
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{name}: {error}");
        assert!(error.contains(problem) && !error.contains("panicked"), "{name}: {error}");
    }
}
