//! Calls with real video, judged by their pictures: `ffmpeg` makes a clip and compares what arrives with it.

use std::{path::Path, process::Command};

use giusto_session::video::{Clip, FileSource, Ladder, VideoCodec, VideoWriter};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::video::{Outcome, VideoCall};

const FPS: usize = 30;
const FRAMES: usize = 120;

fn ffmpeg(args: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new("ffmpeg");
    let output =
        command.args(["-v", "error", "-nostdin", "-y"]).args(args).current_dir(folder).output().ok()?;
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(why)
}

/// Mean squared error of each frame against the source. A missing frame is the one that was shown last.
fn errors(outcome: &Outcome, codec: VideoCodec, folder: &Path) -> Vec<f64> {
    let mut writer = VideoWriter::ivf(codec);
    let mut bytes = writer.header();
    for frame in &outcome.frames {
        writer.write(frame.ticks, &frame.arrival.payload.to_vec(), &mut bytes);
    }
    std::fs::write(folder.join("received.ivf"), bytes).unwrap();
    let filter = "[0:v]fps=30:start_time=0[a];[a][1:v]psnr=stats_file=psnr";
    ffmpeg(
        &["-copyts", "-i", "received.ivf", "-i", "source.y4m", "-lavfi", filter, "-f", "null", "-"],
        folder,
    )
    .unwrap();
    let value = |line: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix("mse_avg:")).unwrap();
        word.parse::<f64>().unwrap()
    };
    std::fs::read_to_string(folder.join("psnr")).unwrap().lines().map(value).collect()
}

/// The squared error of 30 dB, and the ratio of the errors of 1 dB.
const BAD: f64 = 255.0 * 255.0 / 1000.0;
const ONE_DB: f64 = 1.2589;

#[test]
fn with_nack_a_loss_of_5_percent_costs_less_than_1_db() {
    let name = "with_nack_a_loss_of_5_percent_costs_less_than_1_db";
    let folder = std::env::temp_dir().join(format!("giusto-pictures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = "-f lavfi -i testsrc2=size=320x180:rate=30 -t 4 -pix_fmt yuv420p source.y4m";
    let vp8 = "-i source.y4m -c:v libvpx -threads 1 -deadline realtime -cpu-used -8 -lag-in-frames 0 -auto-alt-ref 0";
    let h264 = "-i source.y4m -c:v libx264 -preset veryfast -tune zerolatency -threads 1";
    // One or two packets a frame.
    let rate = "-b:v 250k -maxrate 250k -bufsize 60k -g 60";
    let clips = [(vp8, "clip.ivf"), (h264, "clip.h264")];
    let commands =
        [source.to_owned()].into_iter().chain(clips.map(|(coder, file)| format!("{coder} {rate} {file}")));
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        if ffmpeg(&args, &folder).is_none() {
            std::fs::remove_dir_all(&folder).unwrap();
            eprintln!("SKIPPED {name}: ffmpeg is missing, or has no libvpx or libx264");
            return;
        }
    }
    for (_, file) in clips {
        let interval = TimeDelta::from_nanos(1_000_000_000 / FPS as i64);
        let clip = Clip::parse(&std::fs::read(folder.join(file)).unwrap(), interval).unwrap();
        let codec = clip.codec();
        assert_eq!(clip.frames().len(), FRAMES, "{codec}");
        let call = |loss: f64| {
            let source = FileSource::new(Ladder::new(vec![clip.clone()]).unwrap(), Timestamp::ZERO);
            let (rate, duration) = (DataRate::from_bps(800_000), interval * FRAMES as i64 - interval / 2);
            VideoCall { rate, loss, nack: true, parity: false, seed: 1, duration }.run(source)
        };
        let without = errors(&call(0.0), codec, &folder);
        let lossy = call(0.05);
        let with = errors(&lossy, codec, &folder);
        assert_eq!((without.len(), with.len()), (FRAMES, FRAMES), "{codec}");
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let (without, mean) = (mean(&without), mean(&with));
        assert!(without < BAD && mean < without * ONE_DB, "{codec}: error {mean}, {without} without loss");
        let is_bad = |frames: &[f64]| frames.iter().all(|&value| value > BAD);
        assert!(!with.windows(FPS / 2).any(is_bad), "{codec}: {with:?}");
        // All packets of some frames were lost.
        let whole = lossy.frames.iter().filter(|frame| frame.arrival.repaired == frame.arrival.packets);
        assert!(whole.count() >= 1, "{codec}");
        let received = lossy.received;
        assert_eq!((received.dropped_frames, received.key_frame_requests), (0, 0), "{codec}: {received:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
