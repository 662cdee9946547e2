//! Validation of media flows.

use giusto_congestion::{Algorithm, FeedbackKind, Limits, Requirements};
use giusto_session::media::{Packetizer, ParityRatio};
use giusto_sim::random;
use giusto_sim::traffic::encoder::Audio;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::scenario::{
    error::{KeyError, check},
    keys::MEDIA,
    media::{AUDIO_ID, GiveUp, MOST_VIDEOS, MediaSpec, Unsupported, VideoStream},
};

/// Checks that the session can be built. An error comes with its key, and the index of the video where it is one of several.
pub(super) fn validate(media: &MediaSpec) -> Result<(), (&'static str, Option<usize>, String)> {
    let all = media.videos.len();
    if all > MOST_VIDEOS {
        return Err(("video", None, format!("video: at most {MOST_VIDEOS} fit into a flow, found {all}")));
    }
    let mut ids = vec![AUDIO_ID];
    for (index, stream) in media.videos.iter().enumerate() {
        // A model costs up to a scene: one that others share is built once.
        let is_known = media.videos.iter().take(index).any(|earlier| earlier.video == stream.video);
        let is_default = all == 1 && stream.id == VideoStream::default_id(1, 1);
        let of = if is_default { "video".to_owned() } else { format!("video \"{}\"", stream.id) };
        video(stream, is_known, &ids).map_err(|(_, text)| ("video", Some(index), format!("{of}: {text}")))?;
        ids.push(&stream.id);
    }
    session(media).map_err(|(key, text)| (key, None, text))
}

fn video(stream: &VideoStream, is_known: bool, ids: &[&str]) -> Result<(), KeyError> {
    let VideoStream { id, video, priority, skip_after, discard_after, pauses } = stream;
    if !is_known {
        let source = video.source(Timestamp::ZERO, random::stream(0, "check"));
        source.map_err(|error| ("model", error.to_string()))?;
    }
    in_range("priority", *priority)?;
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

/// Checks a number, in the base unit, against the range of its key in the table.
fn in_range(key: &'static str, number: f64) -> Result<(), KeyError> {
    let row = MEDIA.iter().find(|row| row.name == key);
    let mut forms = row.into_iter().flat_map(|row| row.kind.forms());
    let checked = forms.try_for_each(|form| form.check(number, &form.write(number)));
    checked.map_err(|text| (key, format!("{key}: {text}")))
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
    in_range("max-payload", media.max_payload.as_bytes() as f64)?;
    room(media)?;
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
        in_range("priority", weight)?;
    }
    if let Some(target) = media.options.delay_target {
        in_range("delay-target", target.as_seconds())?;
    }
    if let Some(ParityRatio::Fixed(ratio)) = media.repair.parity {
        in_range("fec-ratio", ratio)?;
    }
    in_range("playout-deadline", media.repair.playout_deadline.as_seconds())?;
    if let Some(limit) = media.receiver_limit {
        in_range("receiver-limit", limit.as_bps() as f64)?;
    }
    pauses(&media.pauses)
}

/// Checks that a packet has room for media beside the payload header of the codec.
fn room(media: &MediaSpec) -> Result<(), KeyError> {
    let Some(codec) = media.codec.filter(|_| !media.videos.is_empty()) else { return Ok(()) };
    let packetizer = Packetizer::new(media.max_payload);
    let with_header = packetizer.and_then(|own| own.with_header(codec.payload_header()));
    let (codec, found) = (codec.name(), media.max_payload);
    let text =
        format_args!("max-payload: {found} has only room for the payload header of {codec}: try \"1200 B\"");
    check(with_header.is_some(), "max-payload", text)
}

fn unsupported(controller: Algorithm, setting: Unsupported) -> KeyError {
    let (needs, key) = (controller.requirements(), setting.key());
    let (problem, fixes): (_, Vec<&str>) = match setting {
        Unsupported::Feedback(given) => {
            let accepted = FeedbackKind::ALL.into_iter().filter(|kind| needs.accepts(*kind));
            (format!("does not support {}", given.name()), accepted.map(FeedbackKind::name).collect())
        }
        Unsupported::DelayTarget => ("has none".to_owned(), algorithms(|needs| needs.delay_target)),
        Unsupported::Priority => ("has no weights".to_owned(), algorithms(|needs| needs.priority)),
        Unsupported::AuthorsLaws => ("has none".to_owned(), algorithms(|needs| needs.authors_laws)),
        Unsupported::LimitedProbes => ("does not probe".to_owned(), algorithms(|needs| needs.limited_probes)),
        Unsupported::ReceiverLimit if needs.receiver_limit => {
            let text = "receiver-limit: it needs feedback = \"scream-draft\": add that, or remove this";
            return (key, text.to_owned());
        }
        Unsupported::ReceiverLimit => {
            ("does not support it".to_owned(), algorithms(|needs| needs.receiver_limit))
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
