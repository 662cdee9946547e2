//! Sends real video of a live encoder across a lossy path in virtual time, and saves the frames that arrive. `lab/pictures.py` compares
//! them with the source.
//!
//! ```sh
//! cargo run --release -p giusto-sim --example pictures -- \
//!   'lab/encoder/encode.py --on-demand --input source.y4m' received.ivf vp8 0.05 nack 1 20 1000000
//! ```
//!
//! The arguments: the command of the encoder, the file, the codec, the loss ratio, the repair, the seed, the duration in seconds, and the rate in bit/s. The output has a line for each
//! frame that arrived whole: its number, its delay from capture above the least of all in milliseconds, whether it is a key frame, and
//! its repaired packets. The last line has counts, as JSON.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a run that cannot go on should end"
)]

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
};

use giusto_session::{
    media::{Frame, PLAYOUT_DEADLINE, RateRange},
    video::{RATE_STEP, VideoCodec, VideoReader, VideoSource, VideoWriter, media_timestamp},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use video::VideoCall;

#[path = "../tests/runs/video.rs"]
mod video;

/// Frames per second.
const FPS: u64 = 30;

/// An encoder that produces a frame on request: its time is that of the call.
#[derive(Debug)]
struct OnDemand {
    process: Child,
    codec: VideoCodec,
    reader: VideoReader,
    frames: u64,
    sent_rate: DataRate,
    wants_key: bool,
}

impl OnDemand {
    fn tell(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl VideoSource for OnDemand {
    fn codec(&self) -> VideoCodec {
        self.codec
    }

    fn limits(&self) -> RateRange {
        RateRange::new(DataRate::from_bps(50_000), DataRate::from_bps(10_000_000)).unwrap()
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        Some(Timestamp::from_nanos(self.frames * 1_000_000_000 / FPS))
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let captured = self.next_frame_at().filter(|&due| due <= now)?;
        self.frames += 1;
        if std::mem::take(&mut self.wants_key) {
            self.tell("key-frame");
        }
        self.tell("frame");
        loop {
            if let Some(frame) = self.reader.poll_frame().unwrap() {
                let media_timestamp = media_timestamp(Timestamp::ZERO, captured);
                return Some(Frame { captured, media_timestamp, payload: frame.payload, key: frame.key });
            }
            let mut bytes = [0; 8192];
            let read = self.process.stdout.as_mut().unwrap().read(&mut bytes).unwrap();
            assert!(read > 0, "the encoder has ended");
            self.reader.push(&bytes[..read]);
        }
    }

    fn set_target(&mut self, _: Timestamp, rate: DataRate) {
        if rate.as_bps().abs_diff(self.sent_rate.as_bps()) as f64
            >= self.sent_rate.as_bps() as f64 * RATE_STEP
        {
            self.sent_rate = rate;
            self.tell(&format!("bitrate {}", rate.as_bps()));
        }
    }

    fn request_key_frame(&mut self, _: Timestamp) {
        self.wants_key = true;
    }

    fn on_skipped(&mut self, _: Timestamp) {
        self.wants_key = true;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [encoder, saved, codec, loss, repair, seed, duration, rate] = &arguments[..] else {
        panic!("expected ENCODER FILE CODEC LOSS REPAIR SEED SECONDS RATE");
    };
    let codec = VideoCodec::named(codec).unwrap();
    let seconds: u64 = duration.parse().unwrap();
    let rate = DataRate::from_bps(rate.parse().unwrap());
    let call = VideoCall {
        rate,
        loss: loss.parse().unwrap(),
        nack: repair.contains("nack"),
        parity: repair.contains("flexfec"),
        seed: seed.parse().unwrap(),
        duration: TimeDelta::from_seconds(seconds as i64),
    };
    let process = Command::new("sh")
        .args(["-c", &format!("exec {encoder} --codec {codec}", codec = codec.name())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut source = OnDemand {
        process,
        codec,
        reader: VideoReader::default(),
        frames: 0,
        sent_rate: rate,
        wants_key: false,
    };
    source.tell(&format!("bitrate {}", rate.as_bps()));
    source.tell("start");
    let outcome = call.run(source);
    let mut writer = VideoWriter::ivf(codec);
    let mut bytes = writer.header();
    for frame in &outcome.frames {
        let payload = frame.arrival.payload.to_vec();
        let excess = frame.excess.as_seconds() * 1e3;
        println!(
            "{} {excess:.1} {} {}",
            frame.ticks * FPS / 90_000,
            u8::from(frame.arrival.key == Some(true)),
            frame.arrival.repaired
        );
        if frame.excess <= PLAYOUT_DEADLINE {
            writer.write(frame.ticks, &payload, &mut bytes);
        }
    }
    let header = writer.header();
    bytes[..header.len()].copy_from_slice(&header);
    std::fs::write(saved, bytes).unwrap();
    let (sent, received) = (outcome.sent, outcome.received);
    println!(
        "{{\"rate_bps\": {}, \"skipped\": {}, \"lost_packets\": {}, \"repaired_packets\": {}, \"unrepaired_packets\": {}, \
         \"dropped_frames\": {}, \"repaired_frames\": {}, \"key_frame_requests\": {}}}",
        outcome.encoded * 8 / seconds,
        sent.skipped_frames,
        received.lost,
        received.repaired_packets,
        received.unrepaired_packets,
        received.dropped_frames,
        received.repaired_frames,
        received.key_frame_requests,
    );
}
