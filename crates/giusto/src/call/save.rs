//! Saves the received video of a call.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_session::{
    media::FrameArrival,
    video::{Arrivals, VideoCodec, VideoWriter},
};
use giusto_units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::whole_file::{Content, WriteError};

/// What was saved of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedVideo {
    /// The file.
    pub path: String,
    /// Its codec: `vp8` or `h264`.
    pub codec: String,
    /// Frames in the file: all that arrived whole.
    pub frames: u64,
    /// Frames that are missing between them, by their times.
    pub missing_frames: u64,
    /// Where frames are missing: the first 1000 gaps.
    pub gaps: Vec<SavedGap>,
    /// Why the file is not complete; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Frames that are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedGap {
    /// Time of the last frame before, from the first frame of the file, in seconds.
    pub from_s: f64,
    /// Time of the first frame after.
    pub to_s: f64,
    /// The number of frames between them.
    pub frames: u64,
}

/// A file for the video of the first call that has any: IVF for VP8, Annex B for H.264.
#[derive(Debug, Clone)]
pub struct SaveTarget {
    path: PathBuf,
    codec: VideoCodec,
    /// Taken by the first call.
    file: Arc<Mutex<Option<File>>>,
}

impl SaveTarget {
    /// Creates the file; its name says the codec: `.ivf` or `.h264`.
    ///
    /// # Errors
    ///
    /// The text names the path and the fix.
    pub fn create(path: &Path) -> Result<Self, String> {
        let codec = match path.extension().and_then(|extension| extension.to_str()) {
            Some("ivf") => VideoCodec::Vp8,
            Some("h264" | "264") => VideoCodec::H264,
            _ => {
                return Err(format!(
                    "{}: unknown kind of file: use a name that ends in .ivf for VP8 or .h264 for H.264",
                    path.display()
                ));
            }
        };
        // An earlier file is overwritten when a call begins.
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| WriteError::io(path, VIDEO, error).to_string())?;
        Ok(Self { path: path.to_owned(), codec, file: Arc::new(Mutex::new(Some(file))) })
    }

    /// The codec that its name says.
    pub const fn codec(&self) -> VideoCodec {
        self.codec
    }

    /// The saver of a call whose video has this codec; `None` if it is not the first.
    pub(crate) fn open(&self, codec: VideoCodec) -> Option<VideoSaver> {
        if codec != self.codec {
            return None;
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut saver = VideoSaver {
            path: self.path.clone(),
            out: BufWriter::new(file),
            writer: VideoWriter::new(codec),
            arrivals: Arrivals::default(),
            buffer: Vec::new(),
            error: None,
        };
        saver.error = saver.out.get_ref().set_len(0).err();
        let header = saver.writer.header();
        saver.write(&header);
        Some(saver)
    }
}

const VIDEO: Content = Content { name: "video", example: "received.ivf" };

/// Saves one video.
#[derive(Debug)]
pub(crate) struct VideoSaver {
    path: PathBuf,
    out: BufWriter<File>,
    writer: VideoWriter,
    arrivals: Arrivals,
    buffer: Vec<u8>,
    error: Option<io::Error>,
}

impl VideoSaver {
    pub(crate) fn on_frame(&mut self, now: Timestamp, frame: FrameArrival) {
        self.arrivals.push(frame);
        self.take(Some(now));
    }

    fn take(&mut self, now: Option<Timestamp>) {
        while let Some(frame) = self.arrivals.poll(now) {
            let mut bytes = std::mem::take(&mut self.buffer);
            bytes.clear();
            self.writer.write(frame.ticks, &frame.payload.to_vec(), &mut bytes);
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
        let end = |saver: &mut Self| {
            saver.out.flush()?;
            saver.out.seek(SeekFrom::Start(0))?;
            saver.out.write_all(&saver.writer.header())?;
            saver.out.flush()
        };
        if self.error.is_none() {
            self.error = end(&mut self).err();
        }
        let gap = |gap: &giusto_session::video::Gap| SavedGap {
            from_s: gap.from.as_seconds(),
            to_s: gap.to.as_seconds(),
            frames: gap.frames,
        };
        SavedVideo {
            codec: self.writer.codec().name().to_owned(),
            frames: self.writer.frames(),
            missing_frames: self.arrivals.skipped(),
            gaps: self.arrivals.gaps().iter().map(gap).collect(),
            error: self.error.map(|error| WriteError::io(&self.path, VIDEO, error).to_string()),
            path: self.path.display().to_string(),
        }
    }
}
