//! Matroska and its subset WebM (RFC 9559, RFC 8794): one video and one Opus track in sync.
//!
//! Written by hand: the crates that write it bring a second parser, and more code than this. ffprobe reads it in the tests.

use std::collections::VecDeque;

use giusto_rtp::h264::nal_units;
use giusto_session::{
    media::FrameArrival,
    video::{OrderedFrame, VIDEO_CLOCK, VideoCodec, av1_configuration, dimensions, h264_sample_format},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{anchor::Anchor, voice::CLOCK};

/// The delay of the encoder that decoders leave out: that of libopus, in samples (RFC 7845 §5.1).
const PRE_SKIP: u16 = 312;
/// The time that a cluster covers, in milliseconds: players seek by clusters. Chosen by us; at most 32,767 (RFC 9559 §10.2).
const CLUSTER_MS: i64 = 1_000;
/// Frames that wait for the first report of each stream, which gives their times. Chosen by us: more than 2 s of both.
const MAX_WAITING: usize = 256;
/// The room for the parameter sets of H.264 or the sequence header of AV1, which come with the first key frame. Chosen by us: they have
/// some 50 bytes.
const PARAMETERS_ROOM: usize = 1_024;

/// A track of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Track {
    Video,
    Audio,
}

#[derive(Debug)]
struct Block {
    at_ms: i64,
    track: Track,
    is_key: bool,
    payload: Vec<u8>,
}

giusto_units::defaults! {
    /// A file whose frames have the capture times that the sender's reports give (RFC 3550 §6.4.1).
    #[derive(Debug)]
    pub(super) struct Matroska {
        codec: Option<VideoCodec> = codec,
        has_audio: bool = has_audio,
        is_webm: bool = is_webm,
        dimensions: (u16, u16) = (0, 0),
        /// `AVCDecoderConfigurationRecord` (ISO/IEC 14496-15 §5.3.3.1), or `AV1CodecConfigurationRecord` (AV1 Codec ISO Media File Format
        /// Binding §2.3).
        parameters: Vec<u8> = Vec::new(),
        anchors: [Option<Anchor>; 2] = [None; 2],
        waiting: VecDeque<(Track, OrderedFrame)> = VecDeque::new(),
        /// The time of the file's beginning.
        zero: Option<TimeDelta> = None,
        cluster: Vec<Block> = Vec::new(),
        end_ms: i64 = 0,
        pub(super) audio_frames: u64 = 0,
    }
    pub(super) fn new(codec: Option<VideoCodec>, has_audio: bool, is_webm: bool);
}

impl Matroska {
    /// Whether a file of this kind has room for the codec.
    pub(super) const fn takes(codec: VideoCodec, is_webm: bool) -> bool {
        match codec {
            VideoCodec::Vp8 | VideoCodec::Vp9 | VideoCodec::Av1 => true,
            VideoCodec::H264 => !is_webm,
        }
    }

    /// A frame has arrived: the first whose capture time is known gives the times of its track.
    pub(super) fn on_arrival(&mut self, track: Track, frame: &FrameArrival) {
        if let (Some(anchor), Some(delay)) = (self.anchors.get_mut(track as usize), frame.delay) {
            let captured = (frame.at - Timestamp::ZERO) - delay;
            anchor.get_or_insert(Anchor { rtp_timestamp: frame.rtp_timestamp, captured });
        }
    }

    /// Takes the next frame of a track; what is complete is appended to `out`.
    pub(super) fn push(&mut self, track: Track, frame: OrderedFrame, out: &mut Vec<u8>) {
        self.audio_frames += u64::from(track == Track::Audio);
        self.waiting.push_back((track, frame));
        let wanted = [self.codec.is_some(), self.has_audio];
        let is_known = self.anchors.iter().zip(wanted).all(|(anchor, wanted)| anchor.is_some() || !wanted);
        if is_known || self.waiting.len() > MAX_WAITING {
            self.write_waiting(out);
        }
    }

    /// Appends all that is left.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.write_waiting(out);
        self.end_cluster(out);
    }

    fn write_waiting(&mut self, out: &mut Vec<u8>) {
        let Self { waiting, anchors, .. } = self;
        let timed = waiting.drain(..).map(|(track, frame)| {
            let clock = if track == Track::Video { VIDEO_CLOCK } else { CLOCK };
            let at = match anchors.get_mut(track as usize) {
                Some(Some(anchor)) => anchor.captured(frame.rtp_timestamp, clock),
                // Without a report a track begins with the call.
                _ => TimeDelta::from_nanos((frame.ticks * 1_000_000_000 / u64::from(clock)) as i64),
            };
            (at, track, frame)
        });
        let mut timed: Vec<_> = timed.collect();
        crate::order::sort_by_key(&mut timed, |(at, ..)| *at);
        for (at, track, frame) in timed {
            let since = (at - *self.zero.get_or_insert(at)).max(TimeDelta::ZERO);
            let at_ms = (since.as_micros().round() as i64 + 500) / 1_000;
            self.write(at_ms, track, &frame, out);
        }
    }

    fn write(&mut self, at_ms: i64, track: Track, frame: &OrderedFrame, out: &mut Vec<u8>) {
        let mut payload = frame.payload.to_vec();
        if let Some(codec) = self.codec.filter(|_| track == Track::Video && self.dimensions == (0, 0)) {
            self.dimensions = dimensions(codec, &payload).unwrap_or_default();
        }
        if track == Track::Video && self.codec == Some(VideoCodec::H264) {
            if self.parameters.is_empty() {
                self.parameters = avc_parameters(&payload);
            }
            payload = with_lengths(nal_units(&payload));
        }
        if track == Track::Video && self.codec == Some(VideoCodec::Av1) && self.parameters.is_empty() {
            self.parameters = av1_configuration(&payload)
                .filter(|record| record.len() <= PARAMETERS_ROOM)
                .unwrap_or_default();
        }
        if self.cluster.first().is_some_and(|first| (at_ms - first.at_ms).abs() >= CLUSTER_MS) {
            self.end_cluster(out);
        }
        let is_key = track == Track::Audio || frame.key != Some(false);
        self.end_ms = self.end_ms.max(at_ms);
        self.cluster.push(Block { at_ms, track, is_key, payload });
    }

    fn end_cluster(&mut self, out: &mut Vec<u8>) {
        let mut blocks = std::mem::take(&mut self.cluster);
        crate::order::sort_by_key(&mut blocks, |block| block.at_ms);
        let Some(start) = blocks.first().map(|block| block.at_ms) else { return };
        let mut cluster = element(&[0xe7], &start.to_be_bytes());
        for Block { at_ms, track, is_key, payload } in blocks {
            let [t0, t1] = ((at_ms - start) as i16).to_be_bytes();
            let head = [0x81 + track as u8, t0, t1, if is_key { 0x80 } else { 0 }];
            cluster.extend(element(&[0xa3], &[&head[..], &payload].concat()));
        }
        out.extend(element(&[0x1f, 0x43, 0xb6, 0x75], &cluster));
    }

    /// What the file begins with: its length does not change, and at the end it is written again.
    pub(super) fn header(&self) -> Vec<u8> {
        let kind: &[u8] = if self.is_webm { b"webm" } else { b"matroska" };
        let mut header = element(
            &[0x1a, 0x45, 0xdf, 0xa3],
            &[
                element(&[0x42, 0x86], &[1]),
                element(&[0x42, 0xf7], &[1]),
                element(&[0x42, 0xf2], &[4]),
                element(&[0x42, 0xf3], &[8]),
                element(&[0x42, 0x82], kind),
                element(&[0x42, 0x87], &[4]),
                element(&[0x42, 0x85], &[2]),
            ]
            .concat(),
        );
        // A segment of unknown size: it ends with the file.
        header.extend([0x18, 0x53, 0x80, 0x67, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        header.extend(element(
            &[0x15, 0x49, 0xa9, 0x66],
            &[
                element(&[0x2a, 0xd7, 0xb1], &1_000_000_u32.to_be_bytes()),
                element(&[0x4d, 0x80], b"giusto"),
                element(&[0x57, 0x41], b"giusto"),
                element(&[0x44, 0x89], &(self.end_ms as f64).to_be_bytes()),
            ]
            .concat(),
        ));
        let video = self.codec.map(|codec| self.video_track(codec));
        let audio = self.has_audio.then(audio_track);
        let tracks: Vec<u8> = video.into_iter().chain(audio).flatten().collect();
        header.extend(element(&[0x16, 0x54, 0xae, 0x6b], &tracks));
        header
    }

    fn video_track(&self, codec: VideoCodec) -> Vec<u8> {
        let (width, height) = self.dimensions;
        let id: &[u8] = match codec {
            VideoCodec::Vp8 => b"V_VP8",
            VideoCodec::Vp9 => b"V_VP9",
            VideoCodec::H264 => b"V_MPEG4/ISO/AVC",
            VideoCodec::Av1 => b"V_AV1",
        };
        let mut track = track(Track::Video, 1, id);
        if matches!(codec, VideoCodec::H264 | VideoCodec::Av1) {
            track.extend(element(&[0x63, 0xa2], &self.parameters));
            track.extend(element(&[0xec], &vec![0; PARAMETERS_ROOM - self.parameters.len()]));
        }
        let size = [element(&[0xb0], &width.to_be_bytes()), element(&[0xba], &height.to_be_bytes())].concat();
        track.extend(element(&[0xe0], &size));
        element(&[0xae], &track)
    }
}

/// Units of H.264, each after its length in four bytes (ISO/IEC 14496-15 §5.3.2).
fn with_lengths<'a>(units: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    units.flat_map(|unit| [&(unit.len() as u32).to_be_bytes(), unit].concat()).collect()
}

/// The first parameter sets of each kind in a frame as an `AVCDecoderConfigurationRecord`; empty without both, or without room for them.
fn avc_parameters(frame: &[u8]) -> Vec<u8> {
    let first = |kind| nal_units(frame).find(|unit| unit.first().is_some_and(|byte| byte & 0x1f == kind));
    let (Some(sequence), Some(picture)) = (first(7), first(8)) else { return Vec::new() };
    let Some(profile) = sequence.get(1..4) else { return Vec::new() };
    let set = |unit: &[u8]| [&(unit.len() as u16).to_be_bytes(), unit].concat();
    // Version, profile and level, lengths of four bytes, one set of each kind.
    let mut record = [&[1], profile, &[0xff, 0xe1], &set(sequence), &[1], &set(picture)].concat();
    if let Some([chroma, luma_depth, chroma_depth]) = h264_sample_format(sequence) {
        // The reserved bits are one, and there are no extensions of the set.
        record.extend([0xfc | chroma, 0xf8 | luma_depth, 0xf8 | chroma_depth, 0]);
    }
    if record.len() <= PARAMETERS_ROOM { record } else { Vec::new() }
}

fn audio_track() -> Vec<u8> {
    let mut track = track(Track::Audio, 2, b"A_OPUS");
    // RFC 7845 §5.1: version, channels, pre-skip, rate of the input, gain, mapping family. Decoders make two channels of one.
    let mut about = b"OpusHead\x01\x02".to_vec();
    about.extend(PRE_SKIP.to_le_bytes());
    about.extend(CLOCK.to_le_bytes());
    about.extend([0; 3]);
    track.extend(element(&[0x63, 0xa2], &about));
    let delay = u64::from(PRE_SKIP) * 1_000_000_000 / u64::from(CLOCK);
    track.extend(element(&[0x56, 0xaa], &delay.to_be_bytes()));
    track.extend(element(&[0x56, 0xbb], &80_000_000_u64.to_be_bytes()));
    let sampling = element(&[0xb5], &f64::from(CLOCK).to_be_bytes());
    track.extend(element(&[0xe1], &[sampling, element(&[0x9f], &[2])].concat()));
    element(&[0xae], &track)
}

/// What both kinds of tracks begin with: number, unique id, kind, no lacing, codec.
fn track(track: Track, kind: u8, codec: &[u8]) -> Vec<u8> {
    let number = track as u8 + 1;
    [
        element(&[0xd7], &[number]),
        element(&[0x73, 0xc5], &[number]),
        element(&[0x83], &[kind]),
        element(&[0x9c], &[0]),
        element(&[0x86], codec),
    ]
    .concat()
}

/// An element of EBML (RFC 8794): its id, its size in eight bytes, its content.
fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let size = content.len() as u64 | 1 << 56;
    [id, &size.to_be_bytes(), content].concat()
}
