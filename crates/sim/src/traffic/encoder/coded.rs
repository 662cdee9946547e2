//! Frames of a model with the structure of a codec.

use giusto_session::{
    media::{Frame, RateRange},
    video::VideoCodec,
};
use giusto_units::{DataRate, Timestamp};

use super::model::MediaSource;

/// A source whose frames have the structure of a codec, so that its payload format has real headers: which frames are key frames can be
/// seen in the packets. Their sizes are those of the model.
#[derive(Debug)]
pub struct Coded {
    model: Box<dyn MediaSource>,
    codec: VideoCodec,
    /// The next frame is a key frame, also if the model has none.
    wants_key: bool,
}

impl Coded {
    /// The frames of `model`, as those of `codec`. The first one is a key frame, and the next after each request, also of models that
    /// have none.
    pub fn new(model: Box<dyn MediaSource>, codec: VideoCodec) -> Self {
        Self { model, codec, wants_key: true }
    }
}

impl MediaSource for Coded {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.model.next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let frame = self.model.poll_frame(now)?;
        let key = std::mem::take(&mut self.wants_key) || frame.key;
        let payload = self.codec.synthetic_frame(frame.payload.size(), key);
        Some(Frame { payload, key, ..frame })
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        self.model.set_target(now, target);
    }

    fn target(&self) -> DataRate {
        self.model.target()
    }

    fn limits(&self) -> RateRange {
        self.model.limits()
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.wants_key = true;
        self.model.request_key_frame(now);
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        self.model.set_paused(now, paused);
    }

    fn on_skipped(&mut self, now: Timestamp, frame: &Frame) {
        self.wants_key |= frame.key;
        self.model.on_skipped(now, frame);
    }
}
