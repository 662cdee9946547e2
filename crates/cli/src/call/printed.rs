//! What a call prints.

use giusto::{
    call::{
        CallRecord, HeardVoice, Live, SentVideo, SentVoice,
        save::{SavedGap, SavedVideo},
    },
    view::{
        call::text as call_text,
        format::{brief_rate, count, plural, rate, rate_range, time_us},
        tables,
    },
};

use crate::console::TableArgs;

/// The record in words, the doubts first.
pub(super) fn record_text(record: &CallRecord, tables: TableArgs) -> String {
    let call = &record.call;
    let doubts = call.doubts.iter().map(|doubt| format!("warning: {doubt}"));
    let late = call
        .schedule_error_us
        .map_or_else(String::new, |late| format!("schedule error p99 {}; ", time_us(late.p99)));
    let (role, far_end, cpu) = (&call.role, &call.far_end, call.cpu_ratio * 100.0);
    let parts = doubts
        .chain([call_text(record) + "\n" + &tables::flows(&record.run, tables.width())])
        .chain(call.video.as_ref().map(sent_line))
        .chain(call.voice.as_ref().map(voice_line))
        .chain(call.heard.as_ref().map(heard_line))
        .chain(call.saved.as_ref().map(saved_line))
        .chain([format!(
            "\n{role} of {far_end}, {:.1} s: {late}{cpu:.1} % of a core",
            record.run.duration_s
        )]);
    parts.map(|part| part.trim_end().to_owned() + "\n").collect()
}

/// What was sent of a file or an encoder.
fn sent_line(video: &SentVideo) -> String {
    let target = video.mean_target_bps.map_or_else(String::new, |target| format!(" of {}", rate(target)));
    format!(
        "\n{} from {}: {}{target}, {}, {}; {} skipped, {} requested",
        video.codec,
        if video.source == "file" { "a file" } else { "an encoder" },
        rate(video.rate_bps),
        plural(video.frames, "frame", "frames"),
        plural(video.key_frames, "key frame", "key frames"),
        count(video.skipped_frames),
        plural(video.key_frame_requests, "key frame", "key frames"),
    )
}

/// What was sent of speech.
fn voice_line(voice: &SentVoice) -> String {
    let SentVoice { codec, rate_bps, packets, silent_packets } = voice;
    let packets = plural(*packets, "packet", "packets");
    format!("\n{codec}: {}, {packets}; {} of silence not sent", rate(*rate_bps), count(*silent_packets))
}

/// What was heard of speech.
pub(super) fn heard_line(voice: &HeardVoice) -> String {
    let quality = match (voice.mos, voice.r_factor) {
        (Some(mos), Some(r_factor)) => format!("MOS {mos:.2} (R {r_factor:.0}, wideband, estimated)"),
        _ => "MOS unknown: the clocks of the two ends were not compared".to_owned(),
    };
    let repaired = match voice.repaired_packets {
        0 => String::new(),
        packets => format!(" ({} repaired by FEC)", count(packets)),
    };
    format!(
        "\n{}: heard {}, {} lost{repaired}, {} late; playout buffer {:.1} ms; {quality}",
        voice.codec,
        plural(voice.played_packets, "packet", "packets"),
        count(voice.lost_packets),
        count(voice.late_packets),
        voice.buffer_delay_ms,
    )
}

/// What was saved, with the first gaps.
fn saved_line(saved: &SavedVideo) -> String {
    const SHOWN: usize = 5;
    let gap = |gap: &SavedGap| format!("{} from {:.2} s to {:.2} s", gap.frames, gap.from_s, gap.to_s);
    let gaps: Vec<String> = saved.gaps.iter().take(SHOWN).map(gap).collect();
    let more = if saved.gaps.len() > SHOWN { ", …" } else { "" };
    let missing = if gaps.is_empty() { String::new() } else { format!(": {}{more}", gaps.join(", ")) };
    let error = saved.error.as_ref().map_or_else(String::new, |error| format!("\nwarning: {error}"));
    let damaged = match saved.damaged_frames {
        0 => String::new(),
        damaged => format!(", {damaged} damaged"),
    };
    let before = match saved.frames_before_key {
        0 => String::new(),
        before => format!(", {before} left out before the first key frame"),
    };
    let audio = match saved.audio_frames {
        0 => String::new(),
        packets => format!(" and {} of audio", plural(packets, "packet", "packets")),
    };
    format!(
        "\nsaved {}{audio} to {}; {} missing{damaged}{before}{missing}{error}",
        plural(saved.frames, "frame", "frames"),
        saved.path,
        plural(saved.missing_frames, "frame", "frames"),
    )
}

/// The line of a running call.
pub(super) fn live_line(live: &Live) -> String {
    let mut parts = Vec::new();
    if live.calls > 1 {
        parts.push(plural(live.calls as u64, "call", "calls"));
    }
    if let Some(sent) = live.sent {
        let rate = sent.rate.as_bps() as f64;
        parts.push(match sent.target.map(|target| rate_range(rate, target.as_bps() as f64)) {
            Some([rate, target]) => format!("sent {rate} of {target}"),
            None => format!("sent {}", brief_rate(rate)),
        });
    }
    if let Some(received) = live.received {
        let delay = received
            .frame_delay
            .map_or_else(String::new, |delay| format!(", frame delay {}", time_us(delay.as_micros())));
        let [lost, frames] = [received.lost_packets, received.frames].map(count);
        parts.push(format!(
            "received {}, {lost} lost, {frames} frames{delay}",
            brief_rate(received.rate.as_bps() as f64)
        ));
    }
    if let Some(rtt) = live.rtt {
        parts.push(format!("RTT {}", time_us(rtt.as_micros())));
    }
    if let Some(silence) = live.silence {
        parts.push(format!("nothing from the far end for {:.0} s", silence.as_seconds()));
    }
    format!("{:.0} s: {}", live.at.as_seconds(), parts.join("; "))
}
