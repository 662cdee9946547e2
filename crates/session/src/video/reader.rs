//! Reads frames from a byte stream of any length, in constant memory.

use giusto_rtp::{
    h264,
    vp8::{FrameTag, Vp8Error},
    vp9,
};
use giusto_units::{NANOS_PER_SECOND, TimeDelta};

use super::{
    VideoCodec, VideoFrame,
    av1::{Sequence, begins_sequence},
    references::is_droppable,
};
use crate::media::MAX_FRAME_SIZE;

/// The header of an IVF file: signature, version, its length, codec, width, height, time base, number of frames.
pub(super) const IVF_HEADER_BYTES: usize = 32;
/// The header of an IVF frame: its size and its time.
pub(super) const IVF_FRAME_HEADER_BYTES: usize = 12;
/// The bytes that an IVF file begins with.
pub(super) const IVF_SIGNATURE: [u8; 4] = *b"DKIF";
/// An OBU of a temporal delimiter, which has a size of 0.
pub(super) const AV1_DELIMITER: [u8; 2] = [0x12, 0];
/// The longest header of an IVF file that is skipped. Chosen by us.
const MAX_IVF_HEADER_BYTES: usize = 4096;

/// A stream that is not a video which can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VideoError {
    /// It is in no known container.
    #[error(
        "neither IVF nor H.264 (Annex B) nor OBUs of AV1: it begins with {0:02x?}; make one such as by `ffmpeg -i INPUT -c:v libvpx -g 60 FILE.ivf`"
    )]
    Container([u8; 4]),
    /// An IVF stream has another codec.
    #[error(
        "the codec is \"{0}\": expected VP80, VP90, H264 or AV01, such as of `ffmpeg -i INPUT -c:v libvpx -g 60 FILE.ivf`"
    )]
    Codec(String),
    /// The header of an IVF stream has an impossible length or time base.
    #[error("the IVF header is damaged: its length is {length} B, its time base {scale}/{rate} s")]
    Header {
        /// Its length.
        length: u16,
        /// Numerator of the time base.
        scale: u32,
        /// Denominator of the time base.
        rate: u32,
    },
    /// It ends within a frame or a header.
    #[error("frame {0} is cut off: the stream is incomplete")]
    Truncated(u64),
    /// A frame is empty or too large.
    #[error("frame {0} has {1} B: expected 1 to 8,000,000")]
    FrameSize(u64, u64),
    /// A frame is not VP8.
    #[error("frame {0}: {1}")]
    Frame(u64, Vp8Error),
    /// A frame of H.264 has no NAL unit.
    #[error("frame {0} has no NAL unit: expected a byte stream of H.264 (Annex B)")]
    NoUnit(u64),
    /// An OBU of AV1 does not say its size.
    #[error(
        "frame {0} has an OBU without a size: write the file in the low-overhead format (.obu), or as IVF"
    )]
    Obu(u64),
    /// The time of a frame cannot be represented.
    #[error("the time of frame {0} is too large: {1} units")]
    Time(u64, u64),
}

/// The container of a stream.
#[derive(Debug, Clone, Copy)]
enum Container {
    Unknown,
    /// IVF, with its codec and its time base: a unit is `scale / rate` seconds.
    Ivf {
        codec: VideoCodec,
        scale: u32,
        rate: u32,
    },
    /// The byte stream of Annex B.
    AnnexB,
    /// OBUs of AV1 in the low-overhead byte stream (AV1 Bitstream Specification §5.2), each unit after a delimiter.
    Obus,
}

giusto_units::defaults! {
    /// Reads the frames of a byte stream: IVF, H.264 of Annex B, or OBUs of AV1, recognised by the first bytes.
    ///
    /// After each [`push`](Self::push) call [`poll_frame`](Self::poll_frame) until it returns `None`. An access unit of H.264 is complete
    /// when the next one begins, for which a delimiter (AUD) is enough. After an error nothing more is read.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_session::video::VideoReader;
    ///
    /// let mut reader = VideoReader::default();
    /// reader.push(&[0, 0, 0, 1, 0x65, 0x88, 7, 0, 0, 0, 1, 9, 0xf0]);
    /// let frame = reader.poll_frame()?.expect("a delimiter ends it");
    /// assert!(frame.key);
    /// assert_eq!(frame.payload.to_vec(), [0, 0, 0, 1, 0x65, 0x88, 7]);
    /// # Ok::<(), giusto_session::video::VideoError>(())
    /// ```
    #[derive(Debug)]
    pub struct VideoReader {
        container: Container = Container::Unknown,
        buffer: Vec<u8> = Vec::new(),
        /// Bytes of the buffer that were searched for start codes.
        searched: usize = 0,
        /// The access unit at the start of the buffer has a slice.
        has_slice: bool = false,
        frames: u64 = 0,
        /// Of AV1, the latest.
        sequence: Option<Sequence> = None,
        failed: Option<VideoError> = None,
    }
}

impl VideoReader {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The codec, once it is known.
    pub fn codec(&self) -> Option<VideoCodec> {
        match self.container {
            Container::Unknown => None,
            Container::Ivf { codec, .. } => Some(codec),
            Container::AnnexB => Some(VideoCodec::H264),
            Container::Obus => Some(VideoCodec::Av1),
        }
    }

    /// The number of frames so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The next frame, if it is complete.
    ///
    /// # Errors
    ///
    /// [`VideoError`] names the frame, counted from 0; it is returned again by each further call.
    pub fn poll_frame(&mut self) -> Result<Option<VideoFrame>, VideoError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let frame = self.read();
        self.count(frame)
    }

    /// The stream has ended: its last frame, if there is one that only its end completes.
    ///
    /// # Errors
    ///
    /// [`VideoError::Truncated`] if it ends within a frame, and the errors of [`poll_frame`](Self::poll_frame).
    pub fn finish(&mut self) -> Result<Option<VideoFrame>, VideoError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let rest = std::mem::take(&mut self.buffer);
        let frame = match self.container {
            _ if rest.is_empty() => Ok(None),
            Container::AnnexB if self.has_slice || ends_with_slice(&rest) => self.access_unit(rest).map(Some),
            Container::AnnexB => Ok(None),
            Container::Obus => self.temporal_unit(rest).map(Some),
            Container::Unknown | Container::Ivf { .. } => Err(VideoError::Truncated(self.frames)),
        };
        (self.searched, self.has_slice) = (0, false);
        self.count(frame)
    }

    fn count(
        &mut self,
        frame: Result<Option<VideoFrame>, VideoError>,
    ) -> Result<Option<VideoFrame>, VideoError> {
        match &frame {
            Ok(found) => self.frames += u64::from(found.is_some()),
            Err(error) => {
                self.failed = Some(error.clone());
                self.buffer = Vec::new();
            }
        }
        frame
    }

    fn read(&mut self) -> Result<Option<VideoFrame>, VideoError> {
        if let Container::Unknown = self.container {
            let Some(first) = self.buffer.first_chunk::<4>() else { return Ok(None) };
            self.container = match *first {
                IVF_SIGNATURE => match self.ivf_header()? {
                    Some(container) => container,
                    None => return Ok(None),
                },
                [0, 0, 1, _] | [0, 0, 0, 0 | 1] => Container::AnnexB,
                [one, two, ..] if [one, two] == AV1_DELIMITER => Container::Obus,
                other => return Err(VideoError::Container(other)),
            };
        }
        match self.container {
            Container::Unknown => Ok(None),
            Container::Ivf { codec, scale, rate } => self.ivf_frame(codec, scale, rate),
            Container::AnnexB => self.annex_b_frame(),
            Container::Obus => self.obu_frame(),
        }
    }

    fn ivf_header(&mut self) -> Result<Option<Container>, VideoError> {
        let Some(header) = self.buffer.get(..IVF_HEADER_BYTES) else { return Ok(None) };
        let half = |at: usize| {
            header.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u16::from_le_bytes(*it))
        };
        let word = |at: usize| {
            header.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u32::from_le_bytes(*it))
        };
        let codec = match header.get(8..12).unwrap_or_default() {
            b"VP80" => VideoCodec::Vp8,
            b"H264" => VideoCodec::H264,
            b"VP90" => VideoCodec::Vp9,
            b"AV01" => VideoCodec::Av1,
            other => {
                return Err(VideoError::Codec(String::from_utf8_lossy(other).escape_default().to_string()));
            }
        };
        let (length, rate, scale) = (half(6), word(16), word(20));
        let bytes = usize::from(length);
        if !(IVF_HEADER_BYTES..=MAX_IVF_HEADER_BYTES).contains(&bytes) || rate == 0 || scale == 0 {
            return Err(VideoError::Header { length, scale, rate });
        }
        if self.buffer.len() < bytes {
            return Ok(None);
        }
        self.buffer.drain(..bytes);
        Ok(Some(Container::Ivf { codec, scale, rate }))
    }

    fn ivf_frame(
        &mut self,
        codec: VideoCodec,
        scale: u32,
        rate: u32,
    ) -> Result<Option<VideoFrame>, VideoError> {
        let Some((head, rest)) = self.buffer.split_at_checked(IVF_FRAME_HEADER_BYTES) else {
            return Ok(None);
        };
        let size = u64::from(head.first_chunk().map_or(0, |size| u32::from_le_bytes(*size)));
        let time = head.last_chunk().map_or(0, |time| u64::from_le_bytes(*time));
        if size == 0 || size > MAX_FRAME_SIZE.as_bytes() {
            return Err(VideoError::FrameSize(self.frames, size));
        }
        let Some(frame) = rest.get(..size as usize) else { return Ok(None) };
        let key = match codec {
            VideoCodec::H264 if h264::nal_units(frame).next().is_none() => {
                return Err(VideoError::NoUnit(self.frames));
            }
            VideoCodec::H264 => h264::is_key(frame),
            VideoCodec::Vp9 => vp9::is_key(frame),
            VideoCodec::Av1 => begins_sequence(frame),
            VideoCodec::Vp8 => {
                FrameTag::parse(frame).map_err(|error| VideoError::Frame(self.frames, error))?.key
            }
        };
        let nanos = u128::from(time) * u128::from(scale) * u128::from(NANOS_PER_SECOND) / u128::from(rate);
        let at = i64::try_from(nanos).map_err(|_| VideoError::Time(self.frames, time))?;
        if codec == VideoCodec::Av1 && key {
            self.sequence = Sequence::of(frame);
        }
        let droppable = !key && is_droppable(codec, frame, self.sequence.as_ref());
        let time = Some(TimeDelta::from_nanos(at));
        let frame = VideoFrame { payload: frame.into(), key, droppable, time };
        self.buffer.drain(..IVF_FRAME_HEADER_BYTES + size as usize);
        Ok(Some(frame))
    }

    /// A temporal unit is complete when the next delimiter comes.
    fn obu_frame(&mut self) -> Result<Option<VideoFrame>, VideoError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if self.searched > 0 && rest.starts_with(&AV1_DELIMITER) {
                let next = self.buffer.split_off(self.searched);
                let unit = std::mem::replace(&mut self.buffer, next);
                self.searched = 0;
                return self.temporal_unit(unit).map(Some);
            }
            let Some(length) = obu_bytes(rest).map_err(|()| VideoError::Obu(self.frames))? else { break };
            let end = self.searched.saturating_add(length);
            if end > self.buffer.len() {
                break;
            }
            self.searched = end;
        }
        let size = self.buffer.len() as u64;
        if size > MAX_FRAME_SIZE.as_bytes() {
            return Err(VideoError::FrameSize(self.frames, size));
        }
        Ok(None)
    }

    fn temporal_unit(&mut self, bytes: Vec<u8>) -> Result<VideoFrame, VideoError> {
        let size = bytes.len() as u64;
        if size <= AV1_DELIMITER.len() as u64 || size > MAX_FRAME_SIZE.as_bytes() {
            return Err(VideoError::FrameSize(self.frames, size));
        }
        let key = begins_sequence(&bytes);
        if key {
            self.sequence = Sequence::of(&bytes);
        }
        let droppable = !key && is_droppable(VideoCodec::Av1, &bytes, self.sequence.as_ref());
        Ok(VideoFrame { payload: bytes.into(), key, droppable, time: None })
    }

    /// Looks for the start of the next access unit (ITU-T H.264 §7.4.1.2.3).
    fn annex_b_frame(&mut self) -> Result<Option<VideoFrame>, VideoError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            // The type of a unit and the start of its slice header must be there.
            let found = h264::start_code(rest).map(|(at, after)| (self.searched + at, self.searched + after));
            let Some((at, after)) = found else {
                // A start code may be cut.
                self.searched = self.searched.max(self.buffer.len().saturating_sub(2));
                break;
            };
            let unit = self.buffer.get(after..).unwrap_or_default();
            let Some(kind) = unit.first().map(|&first| h264::NalType::of(first)) else { break };
            if kind.is_slice() && unit.len() < 2 {
                break;
            }
            let begins = kind.begins_access_unit() || h264::begins_picture(unit);
            if self.has_slice && begins {
                // A start code of four bytes belongs to the unit that it begins.
                let end = if self.buffer.get(at.wrapping_sub(1)) == Some(&0) { at - 1 } else { at };
                let next = self.buffer.split_off(end);
                let frame = std::mem::replace(&mut self.buffer, next);
                (self.searched, self.has_slice) = (0, false);
                return self.access_unit(frame).map(Some);
            }
            self.has_slice |= kind.is_slice();
            self.searched = after;
        }
        let size = self.buffer.len() as u64;
        if size > MAX_FRAME_SIZE.as_bytes() {
            return Err(VideoError::FrameSize(self.frames, size));
        }
        Ok(None)
    }

    fn access_unit(&self, mut bytes: Vec<u8>) -> Result<VideoFrame, VideoError> {
        // Zeros may follow a unit; they belong to none.
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        let size = bytes.len() as u64;
        if size == 0 || size > MAX_FRAME_SIZE.as_bytes() {
            return Err(VideoError::FrameSize(self.frames, size));
        }
        let key = h264::is_key(&bytes);
        let droppable = !key && is_droppable(VideoCodec::H264, &bytes, None);
        Ok(VideoFrame { payload: bytes.into(), key, droppable, time: None })
    }
}

/// The length of the OBU at the start, with its header and its size (AV1 Bitstream Specification §5.3.1). `None`: that is not there yet.
fn obu_bytes(rest: &[u8]) -> Result<Option<usize>, ()> {
    const HAS_EXTENSION: u8 = 4;
    const HAS_SIZE: u8 = 2;
    let Some(&first) = rest.first() else { return Ok(None) };
    if first & HAS_SIZE == 0 {
        return Err(());
    }
    let head = 1 + usize::from(first & HAS_EXTENSION != 0);
    let mut size = 0;
    for place in 0..8 {
        let Some(&byte) = rest.get(head + place) else { return Ok(None) };
        size |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let size = usize::try_from(size).map_err(|_| ())?;
            return head.checked_add(place + 1).and_then(|head| head.checked_add(size)).map(Some).ok_or(());
        }
    }
    Err(())
}

/// Whether the last unit is a slice.
fn ends_with_slice(stream: &[u8]) -> bool {
    let last = h264::nal_units(stream).last();
    last.and_then(|unit| unit.first()).is_some_and(|&first| h264::NalType::of(first).is_slice())
}
