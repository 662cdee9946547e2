//! Validation of media flows.

use giusto_congestion::{Algorithm, Limits, Requirements};
use giusto_session::media::ParityRatio;
use giusto_sim::random;
use giusto_sim::traffic::encoder::Audio;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::scenario::{
    error::{KeyError, check},
    media::{AUDIO_ID, FEEDBACKS, GiveUp, MOST_VIDEOS, MediaSpec, Unsupported, VideoStream, feedback_name},
};

/// Minimum and maximum priority of a video, or of a flow: beyond them a share is all or nothing.
const PRIORITIES: (f64, f64) = (0.001, 1000.0);

/// Minimum and maximum delay target: feedback measures in steps of 1/1024 s (RFC 8888 §3.1).
const DELAY_TARGETS: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(1), TimeDelta::from_seconds(10));

/// Minimum and maximum playout deadline: an incomplete frame is kept for 2 s.
const PLAYOUT_DEADLINES: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(1), TimeDelta::from_seconds(2));

/// Maximum number of parity packets per media packet: that of the session.
const MAX_FEC_RATIO: f64 = 0.5;

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
        video(stream, &ids).map_err(|(_, text)| ("video", Some(index), format!("{of}: {text}")))?;
        ids.push(&stream.id);
    }
    session(media).map_err(|(key, text)| (key, None, text))
}

fn video(stream: &VideoStream, ids: &[&str]) -> Result<(), KeyError> {
    let VideoStream { id, video, priority, skip_after, discard_after, pauses } = stream;
    let source = video.source(Timestamp::ZERO, random::stream(0, "check"));
    source.map_err(|error| ("model", error.to_string()))?;
    self::priority(*priority)?;
    for (key, wait) in [("skip-after", skip_after), ("discard-after", discard_after)] {
        if let GiveUp::After(wait) = wait {
            let text = format_args!("{key} must be above 0 s, found {wait}: \"never\" switches it off");
            check(*wait > TimeDelta::ZERO, key, text)?;
        }
    }
    self::pauses(pauses)?;
    super::id(id).map_err(|text| ("id", format!("id: {text}")))?;
    let text = format_args!("id: this is the id of the audio stream: choose another");
    check(id != AUDIO_ID, "id", text)?;
    let text = format_args!("id: another video has this id: give each its own");
    check(!ids.contains(&id.as_str()), "id", text)
}

fn priority(priority: f64) -> Result<(), KeyError> {
    let (min, max) = PRIORITIES;
    let text = format_args!("priority must be between {min} and {max}, found {priority}: the default is 1");
    check((min..=max).contains(&priority), "priority", text)
}

/// Pauses must be sorted and must not touch.
fn pauses(pauses: &[(Timestamp, Timestamp)]) -> Result<(), KeyError> {
    let mut before: Option<Timestamp> = None;
    for &(from, to) in pauses {
        let (from_s, to_s) = (from.as_seconds(), to.as_seconds());
        let text = format_args!("pauses: a pause must end after it starts, found {from_s} s to {to_s} s");
        check(from < to, "pauses", text)?;
        if let Some(end) = before {
            let found =
                format_args!("one starts at {from_s} s, the one before ends at {} s", end.as_seconds());
            check(end < from, "pauses", format_args!("pauses: sort and join them: {found}"))?;
        }
        before = Some(to);
    }
    Ok(())
}

fn session(media: &MediaSpec) -> Result<(), KeyError> {
    let has_streams = !media.videos.is_empty() || media.audio.is_some();
    check(has_streams, "kind", format_args!("neither video nor audio: add one of them"))?;
    if let Some(audio) = media.audio {
        Audio::new(audio, Timestamp::ZERO).map_err(|error| ("audio", format!("audio: {error}")))?;
    }
    let payload = media.max_payload;
    let text = format_args!("max-payload must be between 1 B and {MAX_PAYLOAD}, found {payload}");
    check(payload > DataSize::ZERO && payload <= MAX_PAYLOAD, "max-payload", text)?;
    if let Some(&setting) = media.unsupported().first() {
        return Err(unsupported(media.controller, setting));
    }
    let Limits { min, start, max, .. } = media.limits;
    let text = format_args!("min-rate must be above 0 bit/s and at most max-rate, {max}, found {min}");
    check(min <= max, "max-rate", text)?;
    check(min > DataRate::ZERO, "min-rate", text)?;
    let text = format_args!("start-rate must be between min-rate, {min}, and max-rate, {max}, found {start}");
    check((min..=max).contains(&start), "start-rate", text)?;
    if let Some(weight) = media.options.priority {
        priority(weight)?;
    }
    if let Some(target) = media.options.delay_target {
        let (shortest, longest) = DELAY_TARGETS;
        let text = format_args!("delay-target must be between {shortest} and {longest}, found {target}");
        check((shortest..=longest).contains(&target), "delay-target", text)?;
    }
    if let Some(ParityRatio::Fixed(ratio)) = media.repair.parity {
        let text = format_args!("fec-ratio must be above 0 and at most {MAX_FEC_RATIO}, found {ratio}");
        check(ratio > 0.0 && ratio <= MAX_FEC_RATIO, "fec-ratio", text)?;
    }
    let deadline = media.repair.playout_deadline;
    let (shortest, longest) = PLAYOUT_DEADLINES;
    let text = format_args!("playout-deadline must be between {shortest} and {longest}, found {deadline}");
    check((shortest..=longest).contains(&deadline), "playout-deadline", text)?;
    let text = format_args!("receiver-limit must be above 0 bit/s, found 0 bit/s");
    check(media.receiver_limit != Some(DataRate::ZERO), "receiver-limit", text)?;
    pauses(&media.pauses)
}

fn unsupported(controller: Algorithm, setting: Unsupported) -> KeyError {
    let needs = controller.requirements();
    let (key, problem, fixes): (_, _, Vec<&str>) = match setting {
        Unsupported::Feedback(given) => {
            let accepted = FEEDBACKS.iter().filter(|(_, kind)| needs.accepts(*kind));
            let problem = format!("does not support {}", feedback_name(given));
            ("feedback", problem, accepted.map(|(name, _)| *name).collect())
        }
        Unsupported::DelayTarget => {
            ("delay-target", "has none".to_owned(), algorithms(|needs| needs.delay_target))
        }
        Unsupported::Priority => {
            ("priority", "has no weights".to_owned(), algorithms(|needs| needs.priority))
        }
        Unsupported::AuthorsLaws => {
            ("authors-laws", "has none".to_owned(), algorithms(|needs| needs.authors_laws))
        }
        Unsupported::LimitedProbes => {
            let fixes = algorithms(|needs| needs.limited_probes);
            ("probe-while-limited", "does not probe".to_owned(), fixes)
        }
        Unsupported::ReceiverLimit if needs.receiver_limit => {
            let text = "receiver-limit: it needs feedback = \"scream-draft\": add that, or remove this";
            return ("receiver-limit", text.to_owned());
        }
        Unsupported::ReceiverLimit => {
            let fixes = algorithms(|needs| needs.receiver_limit);
            ("receiver-limit", "does not support it".to_owned(), fixes)
        }
    };
    (key, format!("{key}: {controller} {problem}: remove it, or use {}", fixes.join(" or ")))
}

/// The controllers whose requirements fulfil a condition.
fn algorithms(fits: fn(Requirements) -> bool) -> Vec<&'static str> {
    Algorithm::all().filter(|&kind| fits(kind.requirements())).map(Algorithm::name).collect()
}

#[cfg(test)]
mod tests;
