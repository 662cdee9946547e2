//! The media that a call sends once its browser has come.

use giusto_session::{
    media::{Frame, RateRange},
    video::{VideoCodec, VideoSource},
};
use giusto_sim::traffic::encoder::MediaSource;
use giusto_units::{DataRate, Timestamp};
use giusto_webrtc::peer::VoiceSource;

use crate::call::{
    video::{RealVideo, VideoInput},
    voice::{VOICE_RATE, VoiceInput},
};

/// The video of a call that waits for its browser: it begins when the first frame is asked for.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) input: VideoInput,
    /// The first rate.
    pub(super) first: DataRate,
    pub(super) source: Option<RealVideo>,
}

impl VideoSource for Late {
    fn codec(&self) -> VideoCodec {
        self.input.codec()
    }

    fn limits(&self) -> RateRange {
        self.input.limits()
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        match &self.source {
            Some(source) => source.next_frame_at(),
            None => Some(Timestamp::ZERO),
        }
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        if self.source.is_none() {
            self.source = self.input.source(now, self.first).ok();
        }
        self.source.as_mut()?.poll_frame(now)
    }

    fn set_target(&mut self, now: Timestamp, rate: DataRate) {
        self.first = rate;
        if let Some(source) = &mut self.source {
            source.set_target(now, rate);
        }
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        if let Some(source) = &mut self.source {
            source.request_key_frame(now);
        }
    }

    fn on_skipped(&mut self, now: Timestamp) {
        if let Some(source) = &mut self.source {
            source.skip(now);
        }
    }
}

/// The speech of a call that waits for its browser: it begins when the first packet is asked for.
#[derive(Debug)]
pub(super) struct LateVoice {
    pub(super) input: VoiceInput,
    pub(super) source: Option<Box<dyn MediaSource>>,
}

impl VoiceSource for LateVoice {
    fn rate(&self) -> DataRate {
        VOICE_RATE
    }

    fn next_packet_at(&self) -> Option<Timestamp> {
        self.source.as_ref().map_or(Some(Timestamp::ZERO), MediaSource::next_frame_at)
    }

    fn poll_packet(&mut self, now: Timestamp) -> Option<Frame> {
        if self.source.is_none() {
            self.source = self.input.source(now).ok();
        }
        self.source.as_mut()?.poll_frame(now)
    }
}
