//! Keys of media flows: rates, audio, controller, repair.

use giusto_congestion::{Algorithm, FeedbackKind};
use giusto_session::{
    media::{KeyFrameRequest, ParityRatio},
    video::VideoCodec,
};
use giusto_sim::traffic::encoder::AudioConfig;
use giusto_units::{DataRate, Ecn};

use super::{
    prelude::*,
    video::{PAUSES, PRIORITY, VIDEO, videos},
};
use crate::scenario::{
    media::{MediaSpec, RepairSpec, VideoSpec},
    read::Context,
    trace::Traces,
};

keys! { MEDIA, media_keys(to: MediaSpec) {
    "controller", Controller, Shown("gcc:libwebrtc+giusto"),
        "Congestion [controller](controllers.md)";
    "min-rate", Rate(ABOVE_0), Shown("30 kbit/s"), "Minimum of the target rate";
    "start-rate", Rate(ABOVE_0), Shown("300 kbit/s"), "First target rate, from `min-rate` to `max-rate`; the default moves into these limits";
    "max-rate", Rate(ABOVE_0), Said("what the media can use"), "Maximum of the target rate";
    "feedback", choice::<FeedbackKind>(), Said("by controller"), "Kind of feedback" => to.feedback;
    "receiver-limit", Rate(ABOVE_0), Unset,
        "Rate above which the receiver requests less; `scream:d00` variants with `scream-draft` only" => to.receiver_limit;
    "delay-target", Time(within(0.001, 10.0)), Said("by controller"), "Queueing delay to aim at; SCReAM only"
        => to.options.delay_target;
    "priority", PRIORITY, Said("`1`"), "Weight among calls at a bottleneck, `PRIO` of RFC 8698; NADA only" => to.options.priority;
    "authors-laws", Switch, Is("false"),
        "[Laws of the authors' library](../explanation/scream.md#the-authors-library); `scream:v2` only"
        => to.options.authors_laws;
    "probe-while-limited", Switch, Is("false"),
        "Probe every 5 s while the media uses less than the target; `gcc:libwebrtc` variants only"
        => to.options.probe_while_limited;
    "audio", Any(&[Rate(ABOVE_0), Table(&AUDIO)]), Unset, "Audio and its payload rate; without `video` it is alone";
    "video", Any(&[Table(&VIDEO), List(&Table(&VIDEO))]), Shown("statistical"), "Encoders of at most 16 videos; by default one if there is no audio";
    "max-payload", Size(within(1.0, 65_000.0)), Is("1200 B"), "Largest payload of a video packet";
    "pauses", PAUSES, Unset, "Intervals in which all videos pause" => to.pauses;
    "route-changes", List(&Time(ANY)), Unset,
        "Times at which the controller is notified of a route change; the links change by `[[change]]` or steps" => to.route_changes;
    "ecn", choice::<Ecn>(), Is("off"), "ECN codepoint" => to.ecn;
    "repair", choice::<Repair>(), Shown("none"),
        "Repair of lost packets: requests (RFC 4585) with retransmission (RFC 4588), parity (RFC 8627)";
    "playout-deadline", Time(within(0.001, 2.0)), Is("400 ms"),
        "A frame is late if it completes later than this after the fastest frame would have; no repair that would come later is requested or sent"
        => to.repair.playout_deadline;
    "fec-ratio", Any(&[Number(up_to(0.5)), Word("loss")]), Said("`\"loss\"`"),
        "Parity packets per media packet; `\"loss\"` is twice the reported loss ratio";
    "key-frame-request", choice::<KeyFrameRequest>(), Said("`\"pli\"` with `repair` or `codec`, else `\"none\"`"),
        "Sent when a packet of a video is given up; with `codec` again until a key frame is complete" => to.repair.key_frames;
    "codec", choice::<VideoCodec>(), Unset,
        "Packets have the payload format of RFC 7741, RFC 6184, RFC 9628 or AV1 (AOMedia), and frames of encoder models its structure; without it frames are zeros, without a payload header"
        => to.codec;
} }

const AUDIO: Group = Group::new("audio", &[AUDIO_KEYS]);
keys! { AUDIO_KEYS, audio(to: AudioConfig) {
    "rate", Rate(ABOVE_0), Is("20 kbit/s"), "Payload rate" => to.rate;
    "packet-time", Time(within(0.001, 1.0)), Is("20 ms"), "Audio in a packet" => to.packet_time;
} }

/// The media of a flow: by default a video.
pub(super) fn media(keys: &mut read::Table<'_>, context: Context<'_>) -> MediaSpec {
    session(keys, None, |node| read::controller(node, context.traces, context.algorithms))
}

/// The media of a call: by default a video and audio.
pub(super) fn call(keys: &mut read::Table<'_>) -> MediaSpec {
    session(keys, Some(AudioConfig::default()), |node| read::controller(node, &Traces::default(), &[]))
}

fn session(
    keys: &mut read::Table<'_>,
    default_audio: Option<AudioConfig>,
    controller: impl FnOnce(&Node<'_>) -> Found<Algorithm>,
) -> MediaSpec {
    let max_payload = keys.value("max-payload");
    let audio = keys.optional("audio");
    let is_audio_only = audio.is_some() && default_audio.is_none();
    let audio = audio.or(default_audio);
    let media = match keys.with("video", |node| videos(node, max_payload)) {
        Some(videos) => MediaSpec::with_videos(videos, audio),
        // The default is the video of RFC 8867 §4.3.
        None => MediaSpec::new((!is_audio_only).then(VideoSpec::default), audio),
    };
    let mut media = media_keys(keys, MediaSpec { max_payload, ..media });
    keys.set_with("controller", &mut media.controller, controller);
    let rates = ["min-rate", "start-rate", "max-rate"].map(|key| keys.optional(key));
    media.limits = media.limits_where_given(rates);
    repair(keys, &mut media.repair);
    media
}

/// Which packets repair lost ones.
#[derive(Debug, Clone, Copy, Default)]
struct Repair {
    nack: bool,
    parity: bool,
}

names!(Repair: vec![
    ("none", Self { nack: false, parity: false }), ("nack", Self { nack: true, parity: false }),
    ("flexfec", Self { nack: false, parity: true }), ("nack+flexfec", Self { nack: true, parity: true }),
]);

fn repair(keys: &mut read::Table<'_>, spec: &mut RepairSpec) {
    let Repair { nack, parity } = keys.value("repair");
    let ratio = keys.optional("fec-ratio");
    if ratio.is_some() && !parity {
        keys.wrong(
            "fec-ratio",
            "fec-ratio needs repair = \"flexfec\" or \"nack+flexfec\": add it, or remove this",
        );
    }
    (spec.nack, spec.parity) = (nack, parity.then(|| ratio.unwrap_or(ParityRatio::Loss)));
}

impl Read for ParityRatio {
    fn read(node: &Node<'_>) -> Found<Self> {
        if node.get_ref().is_str() {
            return read::choice(node, [("loss", Self::Loss)]);
        }
        f64::read(node).map(Self::Fixed)
    }
}

impl Read for AudioConfig {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return DataRate::read(node).map(|rate| Self { rate, ..Self::default() });
        }
        table(node, &AUDIO, |keys| audio(keys, Self::default()))
    }
}

names!(FeedbackKind: Self::ALL.map(|kind| (kind.name(), kind)).to_vec());

names!(KeyFrameRequest: vec![("pli", Self::PictureLoss), ("fir", Self::FullIntra), ("none", Self::None)]);

names!(VideoCodec: Self::ALL.map(|codec| (codec.name(), codec)).to_vec());

#[cfg(test)]
mod tests;
