//! Validation of media flows.

use giusto_congestion::{Algorithm, Limits, Requirements};
use giusto_sim::random;
use giusto_sim::traffic::encoder::Audio;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::scenario::{
    error::KeyError,
    media::{AUDIO_ID, FEEDBACKS, GiveUp, MOST_VIDEOS, MediaSpec, Unfit, VideoStream, feedback_name},
};

/// Minimum and maximum priority of a video: beyond them a share is all or nothing.
const PRIORITIES: (f64, f64) = (0.001, 1000.0);

/// Minimum and maximum delay target: feedback measures in steps of 1/1024 s (RFC 8888 §3.1).
const DELAY_TARGETS: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(1), TimeDelta::from_seconds(10));

/// The maximum payload: with its headers a packet still fits into a datagram.
const MAX_PAYLOAD: DataSize = DataSize::from_bytes(65_000);

/// Checks that the session can be built. An error comes with its key, and the index of the video where it is one of several.
pub(super) fn validate(media: &MediaSpec) -> Result<(), (&'static str, Option<usize>, String)> {
    let all = media.videos.len();
    if all > MOST_VIDEOS {
        return Err(("video", None, format!("video: at most {MOST_VIDEOS} fit into a flow, found {all}")));
    }
    let mut ids = vec![AUDIO_ID];
    for (index, stream) in media.videos.iter().enumerate() {
        let is_default = all == 1 && stream.id == VideoStream::default_id(1, 1);
        let of = if is_default { "video".to_owned() } else { format!("video \"{}\"", stream.id) };
        video(stream, &ids).map_err(|text| ("video", Some(index), format!("{of}: {text}")))?;
        ids.push(&stream.id);
    }
    session(media).map_err(|(key, text)| (key, None, text))
}

fn video(stream: &VideoStream, ids: &[&str]) -> Result<(), String> {
    let source = stream.video.source(Timestamp::ZERO, random::stream(0, "check"));
    source.map_err(|error| error.to_string())?;
    let (min, max) = PRIORITIES;
    if !(min..=max).contains(&stream.priority) {
        let found = stream.priority;
        return Err(format!("priority must be between {min} and {max}, found {found}: the default is 1"));
    }
    for (key, wait) in [("skip-after", stream.skip_after), ("discard-after", stream.discard_after)] {
        if let GiveUp::After(wait) = wait
            && wait <= TimeDelta::ZERO
        {
            return Err(format!("{key} must be above 0 s, found {wait}: \"never\" switches it off"));
        }
    }
    pauses(&stream.pauses)?;
    super::id(&stream.id).map_err(|text| format!("id: {text}"))?;
    if stream.id == AUDIO_ID {
        return Err("id: this is the id of the audio stream: choose another".to_owned());
    }
    if ids.contains(&stream.id.as_str()) {
        return Err("id: another video has this id: give each its own".to_owned());
    }
    Ok(())
}

/// Pauses must be sorted and must not touch.
fn pauses(pauses: &[(Timestamp, Timestamp)]) -> Result<(), String> {
    let mut before: Option<Timestamp> = None;
    for &(from, to) in pauses {
        let (from_s, to_s) = (from.as_seconds(), to.as_seconds());
        if to <= from {
            return Err(format!("pauses: a pause must end after it starts, found {from_s} s to {to_s} s"));
        }
        if let Some(end) = before.filter(|&end| from <= end) {
            let end = end.as_seconds();
            return Err(format!(
                "pauses: sort and join them: one starts at {from_s} s, the one before ends at {end} s"
            ));
        }
        before = Some(to);
    }
    Ok(())
}

fn session(media: &MediaSpec) -> Result<(), KeyError> {
    if media.videos.is_empty() && media.audio.is_none() {
        return Err(("kind", "neither video nor audio: add one of them".to_owned()));
    }
    if let Some(audio) = media.audio {
        Audio::new(audio, Timestamp::ZERO).map_err(|error| ("audio", format!("audio: {error}")))?;
    }
    let payload = media.max_payload;
    if payload == DataSize::ZERO || payload > MAX_PAYLOAD {
        let text = format!("max-payload must be between 1 B and {MAX_PAYLOAD}, found {payload}");
        return Err(("max-payload", text));
    }
    if let Some(&unfit) = media.unfit().first() {
        return Err(unsupported(media.controller, unfit));
    }
    let Limits { min, start, max } = media.limits;
    if min == DataRate::ZERO || min > max {
        let text = format!("min-rate must be above 0 bit/s and at most max-rate, {max}, found {min}");
        return Err((if min > max { "max-rate" } else { "min-rate" }, text));
    }
    if start < min || start > max {
        let text = format!("start-rate must be between min-rate, {min}, and max-rate, {max}, found {start}");
        return Err(("start-rate", text));
    }
    let (shortest, longest) = DELAY_TARGETS;
    if let Some(target) = media.delay_target.filter(|target| !(shortest..=longest).contains(target)) {
        let text = format!("delay-target must be between {shortest} and {longest}, found {target}");
        return Err(("delay-target", text));
    }
    if media.receiver_limit == Some(DataRate::ZERO) {
        return Err(("receiver-limit", "receiver-limit must be above 0 bit/s, found 0 bit/s".to_owned()));
    }
    pauses(&media.pauses).map_err(|text| ("pauses", text))
}

fn unsupported(controller: Algorithm, unfit: Unfit) -> KeyError {
    let those = |fits: fn(Requirements) -> bool| {
        let kinds = Algorithm::all().filter(|&kind| fits(kind.requirements()));
        kinds.map(Algorithm::name).collect::<Vec<_>>().join(" or ")
    };
    match unfit {
        Unfit::Feedback(given) => {
            let fits = FEEDBACKS
                .iter()
                .filter(|(_, kind)| controller.requirements().accepts(*kind))
                .map(|(name, _)| *name);
            let fits = fits.collect::<Vec<_>>().join(" or ");
            let given = feedback_name(given);
            ("feedback", format!("feedback: {controller} does not support {given}: remove it, or use {fits}"))
        }
        Unfit::DelayTarget => {
            let those = those(|needs| needs.delay_target);
            ("delay-target", format!("delay-target: {controller} has none: remove it, or use {those}"))
        }
        Unfit::ReceiverLimit if controller.requirements().receiver_limit => {
            let text = "receiver-limit: it needs feedback = \"scream-draft\": add that, or remove this";
            ("receiver-limit", text.to_owned())
        }
        Unfit::ReceiverLimit => {
            let those = those(|needs| needs.receiver_limit);
            let text = format!("receiver-limit: {controller} does not support it: remove it, or use {those}");
            ("receiver-limit", text)
        }
    }
}

#[cfg(test)]
mod tests;
