//! Saves the received video of a call.

use std::{
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::matroska::{Matroska, Track};
use giusto_session::{
    media::FrameArrival,
    video::{Arrivals, Gap, OrderedFrame, VideoCodec, VideoWriter},
};
use giusto_units::{TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    fresh_file::Replacing,
    growing::cut_note,
    whole_file::{Content, WriteError},
};

/// The size at which a file ends, as that of a capture. Chosen by us.
const MAX_BYTES: u64 = 4_000_000_000;

/// What the containers add to a frame, at most: a cluster of Matroska for it alone.
const FRAME_HEADERS: u64 = 48;

/// What was saved of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedVideo {
    /// The file.
    pub path: String,
    /// Its codec: `vp8`, `vp9`, `h264` or `av1`.
    pub codec: String,
    /// Frames in the file: all that arrived whole from the first key frame on.
    pub frames: u64,
    /// Whole frames before that one: no decoder can show them.
    #[serde(default)]
    pub frames_before_key: u64,
    /// Packets of audio in the file.
    #[serde(default)]
    pub audio_frames: u64,
    /// Frames that are missing between them, by their times.
    pub missing_frames: u64,
    /// Frames in the file that refer to missing ones: those from a loss to the next key frame. Decoders show them damaged. Frames that the
    /// sender has left out are not needed.
    #[serde(default)]
    pub damaged_frames: u64,
    /// Frames in the file that were complete after their playout deadline: a viewer would have seen the frame before instead.
    #[serde(default)]
    pub late_frames: u64,
    /// Time of the first frame in the file from the first that was sent, in seconds. `None` if it is unknown: then times count from the
    /// first frame in the file.
    #[serde(default)]
    pub begins_s: Option<f64>,
    /// Where frames are missing: the first 1000 gaps.
    pub gaps: Vec<SavedGap>,
    /// Why the file is not complete; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Frames that are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedGap {
    /// Time of the last frame before, from the first frame of all, in seconds; 0 at the start.
    pub from_s: f64,
    /// Time of the first frame after.
    pub to_s: f64,
    /// Time of the first key frame after: if packets were lost, frames until then are damaged. `None` if there was none.
    #[serde(default)]
    pub key_s: Option<f64>,
    /// The number of frames between them.
    pub frames: u64,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ivf,
    AnnexB,
    Matroska { is_webm: bool },
}

/// A file for the media of the first call that has any that are real: IVF, or Annex B for H.264, which have video only, or Matroska.
#[derive(Debug, Clone)]
pub struct SaveTarget {
    path: PathBuf,
    kind: Kind,
    /// Taken by the first call.
    file: Arc<Mutex<Option<Replacing>>>,
}

impl SaveTarget {
    /// Creates the file; its name says the container: `.ivf`, `.h264`, `.mkv` or `.webm`.
    ///
    /// # Errors
    ///
    /// The text names the path and the fix.
    pub fn create(path: &Path) -> Result<Self, String> {
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("ivf") => Kind::Ivf,
            Some("h264" | "264") => Kind::AnnexB,
            Some("mkv") => Kind::Matroska { is_webm: false },
            Some("webm") => Kind::Matroska { is_webm: true },
            _ => {
                return Err(format!(
                    "{}: unknown kind of file: use a name that ends in .ivf, in .h264 for H.264 without times, or in .webm or .mkv for video and audio",
                    path.display()
                ));
            }
        };
        // An earlier file is overwritten when a call begins.
        let file = Replacing::open(path).map_err(|error| WriteError::io(path, VIDEO, error).to_string())?;
        Ok(Self { path: path.to_owned(), kind, file: Arc::new(Mutex::new(Some(file))) })
    }

    /// Whether its container has room for audio.
    pub fn takes_audio(&self) -> bool {
        matches!(self.kind, Kind::Matroska { .. })
    }

    /// Whether its container has room for this codec.
    pub fn takes(&self, codec: VideoCodec) -> bool {
        match self.kind {
            Kind::Ivf => true,
            Kind::AnnexB => codec == VideoCodec::H264,
            Kind::Matroska { is_webm } => Matroska::takes(codec, is_webm),
        }
    }

    /// The saver of a call whose video has this codec, and which has audio; `None` if it is not the first, or has neither.
    pub(crate) fn open(&self, codec: Option<VideoCodec>, has_audio: bool) -> Option<VideoSaver> {
        let has_audio = has_audio && matches!(self.kind, Kind::Matroska { .. });
        let codec = codec.filter(|codec| self.takes(*codec));
        if codec.is_none() && !has_audio {
            return None;
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        file.keep();
        let mut saver = VideoSaver {
            path: self.path.clone(),
            out: BufWriter::new(file),
            writer: match self.kind {
                Kind::AnnexB => VideoWriter::annex_b(),
                _ => VideoWriter::ivf(codec.unwrap_or(VideoCodec::Vp8)),
            },
            matroska: match self.kind {
                Kind::Matroska { is_webm } => Some(Box::new(Matroska::new(codec, has_audio, is_webm))),
                _ => None,
            },
            arrivals: Arrivals::default(),
            audio: Arrivals::default(),
            buffer: Vec::new(),
            keys: Vec::new(),
            is_damaged: false,
            damaged: 0,
            late: 0,
            before_key: 0,
            begins: None,
            bytes: 0,
            max_bytes: MAX_BYTES,
            error: None,
        };
        let header = saver.header();
        saver.write(&header);
        Some(saver)
    }
}

const VIDEO: Content = Content { name: "video", example: "received.ivf" };

/// Saves one video.
#[derive(Debug)]
pub(crate) struct VideoSaver {
    path: PathBuf,
    out: BufWriter<Replacing>,
    /// Counts the frames, and writes them where there is no Matroska.
    writer: VideoWriter,
    matroska: Option<Box<Matroska>>,
    arrivals: Arrivals,
    audio: Arrivals,
    buffer: Vec<u8>,
    /// The time of the first key frame after each gap.
    keys: Vec<Option<TimeDelta>>,
    /// The next frame refers to missing ones, unless it is a key frame.
    is_damaged: bool,
    damaged: u64,
    late: u64,
    before_key: u64,
    /// The time of the first frame in the file.
    begins: Option<TimeDelta>,
    /// Those of its frames: above the maximum, the file has ended.
    bytes: u64,
    max_bytes: u64,
    error: Option<io::Error>,
}

impl VideoSaver {
    /// For media of another sender than ours.
    #[cfg(feature = "browser")]
    pub(crate) fn of_another_sender(mut self) -> Self {
        (self.arrivals, self.audio) = (Arrivals::foreign(), Arrivals::foreign());
        self
    }

    fn is_full(&self) -> bool {
        self.bytes > self.max_bytes
    }

    /// Whether there is room for this frame. Otherwise the file ends before it.
    fn admits(&mut self, frame: &OrderedFrame) -> bool {
        self.bytes += frame.payload.len() as u64 + FRAME_HEADERS;
        !self.is_full()
    }

    pub(crate) fn on_frame(&mut self, now: Timestamp, frame: FrameArrival) {
        if self.is_full() {
            return;
        }
        if let Some(matroska) = &mut self.matroska {
            matroska.on_arrival(Track::Video, &frame);
        }
        self.arrivals.push(frame);
        self.take(Some(now));
    }

    /// Takes a packet of Opus.
    pub(crate) fn on_audio(&mut self, now: Timestamp, frame: FrameArrival) {
        if self.is_full() {
            return;
        }
        if let Some(matroska) = &mut self.matroska {
            matroska.on_arrival(Track::Audio, &frame);
            self.audio.push(frame);
            self.take_audio(Some(now));
        }
    }

    fn take_audio(&mut self, now: Option<Timestamp>) {
        while let Some(frame) = self.audio.poll(now)
            && self.admits(&frame)
        {
            let mut bytes = Vec::new();
            if let Some(matroska) = &mut self.matroska {
                matroska.push(Track::Audio, frame, &mut bytes);
            }
            self.write(&bytes);
        }
    }

    fn header(&self) -> Vec<u8> {
        self.matroska.as_ref().map_or_else(|| self.writer.header(), |matroska| matroska.header())
    }

    fn take(&mut self, now: Option<Timestamp>) {
        while let Some(frame) = self.arrivals.poll(now) {
            self.keys.resize(self.arrivals.gaps().len(), None);
            if self.writer.frames() == 0 {
                if frame.key == Some(false) {
                    self.before_key += 1;
                    continue;
                }
                self.begins = self.arrivals.begins().map(|_| VideoWriter::time(frame.ticks));
            }
            if !self.admits(&frame) {
                return;
            }
            self.is_damaged |= frame.follows_loss;
            if frame.key == Some(true) {
                self.is_damaged = false;
                let open = self.keys.iter_mut().rev().take_while(|key| key.is_none());
                open.for_each(|key| *key = Some(VideoWriter::time(frame.ticks)));
            }
            self.damaged += u64::from(self.is_damaged);
            self.late += u64::from(frame.late);
            let mut bytes = std::mem::take(&mut self.buffer);
            bytes.clear();
            self.writer.write(frame.ticks, &frame.payload.to_vec(), &mut bytes);
            if let Some(matroska) = &mut self.matroska {
                bytes.clear();
                matroska.push(Track::Video, frame, &mut bytes);
            }
            self.write(&bytes);
            self.buffer = bytes;
        }
    }

    /// After an error nothing more is written; the call goes on.
    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
        }
    }

    pub(crate) fn finish(mut self) -> SavedVideo {
        self.take(None);
        self.take_audio(None);
        let mut rest = Vec::new();
        if let Some(matroska) = &mut self.matroska {
            matroska.finish(&mut rest);
        }
        self.write(&rest);
        let end = |saver: &mut Self| {
            saver.out.flush()?;
            saver.out.seek(SeekFrom::Start(0))?;
            saver.out.write_all(&saver.header())?;
            saver.out.flush()
        };
        if self.error.is_none() {
            self.error = end(&mut self).err();
        }
        let cut = self.is_full().then(|| cut_note(&self.path, self.max_bytes));
        let gap = |(gap, key): (&Gap, &Option<TimeDelta>)| SavedGap {
            from_s: gap.from.as_seconds(),
            to_s: gap.to.as_seconds(),
            key_s: key.map(TimeDelta::as_seconds),
            frames: gap.frames,
        };
        SavedVideo {
            codec: self.writer.codec().name().to_owned(),
            frames: self.writer.frames(),
            frames_before_key: self.before_key,
            audio_frames: self.matroska.as_ref().map_or(0, |matroska| matroska.audio_frames),
            missing_frames: self.arrivals.skipped(),
            damaged_frames: self.damaged,
            late_frames: self.late,
            begins_s: self.begins.map(TimeDelta::as_seconds),
            gaps: self.arrivals.gaps().iter().zip(&self.keys).map(gap).collect(),
            error: self.error.map(|error| WriteError::io(&self.path, VIDEO, error).to_string()).or(cut),
            path: self.path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_session::video::Clip;

    use super::*;

    fn arrival(sequence: u64, ms: i64, key: bool, payload: Vec<u8>) -> FrameArrival {
        FrameArrival {
            ssrc: 1,
            sequence,
            rtp_timestamp: (ms * 90) as u32,
            at: Timestamp::ZERO + TimeDelta::from_millis(ms),
            delay: None,
            packets: 1,
            repaired: 0,
            start: None,
            late: false,
            key: Some(key),
            payload: payload.into(),
        }
    }

    #[test]
    fn a_file_begins_with_a_key_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved.ivf");
        let film = include_bytes!("../../../webrtc/tests/data/low.ivf");
        let clip = Clip::parse(film, TimeDelta::ZERO).unwrap();
        let second = clip.frames().iter().skip(1).position(|frame| frame.key).unwrap() + 1;
        for is_foreign in [true, false] {
            let target = SaveTarget::create(&path).unwrap();
            let mut saver = target.open(Some(VideoCodec::Vp8), false).unwrap();
            if is_foreign {
                saver.arrivals = Arrivals::foreign();
            }
            // The first key frame did not arrive.
            for (number, frame) in (1..).zip(clip.frames().iter().skip(1)) {
                let arrival = arrival(100 + number, 40 * number as i64, frame.key, frame.payload.to_vec());
                saver.on_frame(arrival.at, arrival);
            }
            let saved = saver.finish();
            assert_eq!(saved.frames_before_key, second as u64 - 1, "{saved:?}");
            assert_eq!(saved.frames, (clip.frames().len() - second) as u64);
            assert_eq!((saved.damaged_frames, saved.error), (0, None));
            let read = Clip::parse(&std::fs::read(&path).unwrap(), TimeDelta::ZERO).unwrap();
            let payloads = read.frames().iter().map(|frame| &frame.payload);
            assert!(payloads.eq(clip.frames()[second..].iter().map(|frame| &frame.payload)));
        }
    }

    #[test]
    fn a_file_ends_at_its_maximum_size() {
        let folder = tempfile::tempdir().unwrap();
        let film = include_bytes!("../../../webrtc/tests/data/low.ivf");
        let clip = Clip::parse(film, TimeDelta::ZERO).unwrap();
        let sizes = clip.frames().iter().map(|frame| frame.payload.len() as u64 + FRAME_HEADERS);
        let max_bytes: u64 = sizes.take(10).sum();
        for (name, max_bytes, frames) in [
            ("all.ivf", MAX_BYTES, clip.frames().len()),
            ("ten.ivf", max_bytes, 10),
            ("nine.ivf", max_bytes - 1, 9),
            ("nine.webm", max_bytes - 1, 9),
        ] {
            let path = folder.path().join(name);
            let target = SaveTarget::create(&path).unwrap();
            let mut saver = target.open(Some(VideoCodec::Vp8), false).unwrap();
            saver.max_bytes = max_bytes;
            for (number, frame) in clip.frames().iter().enumerate() {
                let arrival = arrival(number as u64, 40 * number as i64, frame.key, frame.payload.to_vec());
                saver.on_frame(arrival.at, arrival);
            }
            let saved = saver.finish();
            let written = std::fs::read(&path).unwrap();
            assert_eq!(saved.frames, frames as u64, "{name}");
            assert!(written.len() as u64 <= max_bytes.saturating_add(1_000), "{name}");
            let cut = format!("{name} ends early: it has reached its maximum size, {max_bytes} B");
            let is_cut = saved.error.as_ref().is_some_and(|error| error.ends_with(&cut));
            assert_eq!((is_cut, saved.error.is_none()), (name != "all.ivf", name == "all.ivf"), "{saved:?}");
            if !target.takes_audio() {
                let read = Clip::parse(&written, TimeDelta::ZERO).unwrap();
                assert_eq!(read.frames().len(), frames, "{name}");
            }
        }
    }

    /// The codec, the size and the decoder configuration (`av1C`, `avcC`) of a file, as ffprobe reads them.
    fn probed(path: &Path) -> String {
        let entries = "stream=codec_name,profile,level,width,height,extradata_size,extradata_hash";
        let mut command = std::process::Command::new("ffprobe");
        command.args(["-v", "error", "-show_data_hash", "sha256", "-of", "flat", "-show_entries", entries]);
        String::from_utf8(command.arg(path).output().unwrap().stdout).unwrap()
    }

    #[test]
    fn decoder_configurations_are_those_that_ffmpeg_writes() {
        let folder = tempfile::tempdir().unwrap();
        let ffmpeg = |arguments: &[&str]| {
            let mut command = std::process::Command::new("ffmpeg");
            command.args(["-v", "error", "-y"]).args(arguments).current_dir(folder.path());
            command.status().is_ok_and(|status| status.success())
        };
        let picture = "testsrc2=size=176x144:rate=15";
        for (encoder, name, more) in [
            ("libaom-av1", "stream.ivf", &["-usage", "realtime", "-cpu-used", "8"][..]),
            ("libsvtav1", "stream.ivf", &["-preset", "12"]),
            ("libx264", "stream.h264", &["-profile:v", "baseline", "-bf", "0"]),
            ("libx264", "stream.h264", &["-profile:v", "high", "-bf", "0"]),
        ] {
            let source =
                ["-f", "lavfi", "-i", picture, "-frames:v", "5", "-pix_fmt", "yuv420p", "-c:v", encoder];
            // One encoding in the container of ffmpeg, and the same without; of AV1 the header in the stream counts, which the encoder
            // changes once it has begun.
            if !ffmpeg(&[&source, more, &["theirs.mkv"]].concat())
                || !ffmpeg(&["-i", "theirs.mkv", "-c", "copy", name])
                || name == "stream.ivf" && !ffmpeg(&["-i", name, "-c", "copy", "theirs.mkv"])
            {
                eprintln!("SKIPPED decoder configurations of {encoder}: ffmpeg has no such encoder");
                continue;
            }
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            let clip = Clip::parse(&bytes, TimeDelta::from_millis(66)).unwrap();
            let ours = folder.path().join("ours.mkv");
            let target = SaveTarget::create(&ours).unwrap();
            let mut saver = target.open(Some(clip.codec()), false).unwrap();
            for (number, frame) in clip.frames().iter().enumerate() {
                let arrival = arrival(number as u64, 66 * number as i64, frame.key, frame.payload.to_vec());
                saver.on_frame(arrival.at, arrival);
            }
            assert_eq!((saver.finish().error, clip.frames().len()), (None, 5), "{encoder}");
            let theirs = probed(&folder.path().join("theirs.mkv"));
            assert!(theirs.contains("extradata_hash"), "{theirs}");
            assert_eq!(probed(&ours), theirs, "{encoder} {more:?}");
        }
    }

    #[test]
    fn without_a_key_frame_nothing_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let target = SaveTarget::create(&folder.path().join("saved.webm")).unwrap();
        let mut saver = target.open(Some(VideoCodec::Vp8), false).unwrap();
        for number in 0..10 {
            let arrival = arrival(number, 40 * number as i64, false, vec![0x11, 0, 0]);
            saver.on_frame(arrival.at, arrival);
        }
        let saved = saver.finish();
        assert_eq!((saved.frames, saved.frames_before_key, saved.begins_s), (0, 10, None));
    }
}
