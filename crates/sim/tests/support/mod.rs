//! What tests of controllers with a feedback format of their own share.

use giusto_congestion::{Controller, Limits, Requirements};
use giusto_session::media::{
    MediaEndpoint, MediaSender, MediaSenderConfig, MediaStream, RateRange, pacer_config,
};
use giusto_sim::traffic::{
    EncodedEndpoint,
    encoder::{MediaSource, PerfectConfig, PerfectEncoder},
};
use giusto_units::{Ecn, Timestamp};

/// The sender of one video, within `limits`, from a perfect encoder.
pub(crate) fn video_sender(
    limits: Limits,
    requirements: Requirements,
    controller: Box<dyn Controller>,
) -> EncodedEndpoint {
    let range = RateRange::new(limits.min, limits.max).unwrap();
    let encoder = PerfectConfig { limits: range, ..PerfectConfig::default() };
    let source = PerfectEncoder::new(encoder, Timestamp::ZERO).unwrap();
    let video = MediaStream {
        timestamp_offset: 65_000,
        start_rate: source.target(),
        ..MediaStream::video(7, 96, range)
    };
    let config = MediaSenderConfig {
        feedback: requirements.feedback,
        pacer: pacer_config(requirements.pacer),
        ecn: Ecn::Ect0,
        queue_limit: None,
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, controller, vec![video]);
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(source)])
}
