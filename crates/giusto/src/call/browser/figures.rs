//! What the record of a call to a browser has from the counts of both ends.

use giusto_measure::{
    ErrorHistogram,
    mos::{VoicePath, VoiceQuality},
};
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::{
    call::{ReceivedFigures, ReceivedStream},
    media::{MediaEvent, StreamId},
};
use giusto_sim::{
    packet::{FlowId, Packet},
    record::StreamKind,
    trace::Note,
    traffic::note_of,
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use giusto_webrtc::{
    call::Connected,
    peer::{Incoming, IncomingStream},
    result::{BrowserFigures, CallResult, IncomingFigures},
};

use crate::{
    call::{
        flows::REVERSE,
        heard::HeardVoice,
        known::{complete_sent, ratio},
        record::distribution_of,
    },
    record::{Distribution, FlowEnd, FlowRecord},
};

/// The synchronisation sources of the browser's streams in the record, before they are known.
pub(super) const STAND_INS: [u32; 2] = [1, 2];

/// That of an encoding of the video.
pub(super) fn stand_in(encodings: &[StreamId], rid: Option<StreamId>) -> u32 {
    let place = rid.and_then(|rid| encodings.iter().position(|known| *known == rid));
    place.map_or(STAND_INS[0], |place| STAND_INS[1] + 1 + place as u32)
}

/// What the record notes of an event of the browser's media; times are those of the call.
pub(super) fn incoming_note(stream: IncomingStream, event: &MediaEvent, call: &Connected) -> Option<Note> {
    let own =
        if stream.kind == Incoming::Video { stand_in(&call.encodings, stream.rid) } else { STAND_INS[1] };
    let mut note = note_of(REVERSE[0], event)?;
    match &mut note {
        Note::Frame { ssrc, at, delay, .. } => {
            *ssrc = own;
            *at = Timestamp::ZERO + at.saturating_since(call.at);
            *delay = None;
        }
        Note::Repair { ssrc, .. } => *ssrc = own,
        _ => {}
    }
    Some(note)
}

/// The speech as a browser heard it.
pub(super) fn heard_by(browser: &BrowserFigures) -> Option<HeardVoice> {
    let voice = browser.voice?;
    let network = rtts(browser).map(|rtt| TimeDelta::from_seconds_f64(rtt.p50 / 2e3));
    let buffer = TimeDelta::from_seconds_f64(voice.buffer_delay_ms.unwrap_or(0.0) / 1e3);
    let quality = network.map(|network| {
        let path = VoicePath::new(network, buffer, voice.loss_ratio.clamp(0.0, 1.0), 1.0);
        VoiceQuality::of(&VoiceFormat::new(VoiceProfile::Opus), &path)
    });
    Some(HeardVoice {
        codec: "opus".to_owned(),
        played_packets: voice.packets,
        lost_packets: voice.lost_packets,
        repaired_packets: 0,
        late_packets: 0,
        loss_ratio: voice.loss_ratio,
        buffer_delay_ms: voice.buffer_delay_ms.unwrap_or(0.0),
        network_delay_ms: network.map(TimeDelta::as_millis),
        r_factor: quality.map(|quality| quality.r_factor),
        mos: quality.map(|quality| quality.mos),
    })
}

/// The delays above the shortest.
pub(super) fn above_min(delays: &[TimeDelta]) -> Option<Distribution> {
    let min = *delays.iter().min()?;
    let mut all = ErrorHistogram::default();
    for &delay in delays {
        all.record(delay - min);
    }
    distribution_of(&all, 1.0)
}

/// Adds the counts of what came from the browser.
pub(super) fn complete_incoming(flow: &mut FlowRecord, result: &CallResult) {
    flow.decisions = None;
    flow.frame_delay_ms = None;
    let count = |of: fn(&IncomingFigures) -> u64| result.received.iter().map(of).sum::<u64>();
    flow.lost_packets = count(|stream| stream.lost_packets);
    flow.duplicate_packets = count(|stream| stream.duplicate_packets);
    flow.loss_ratio = ratio(flow.lost_packets, count(|stream| stream.packets));
    set_sent(flow, &result.browser, result.overhead, result.duration_s);
    for stream in &mut flow.streams {
        let kind = if stream.ssrc == STAND_INS[1] { Incoming::Audio } else { Incoming::Video };
        let rid = stream.id.strip_prefix("video ");
        let is_it =
            |known: &&IncomingFigures| known.kind == kind && known.rid.as_ref().map(StreamId::as_str) == rid;
        let Some(known) = result.received.iter().find(is_it) else { continue };
        stream.ssrc = known.ssrc;
        stream.frame_delay_ms = None;
    }
}

/// What a browser that sends counts of it. Of one that says nothing it is unknown.
fn set_sent(flow: &mut FlowRecord, browser: &BrowserFigures, overhead: DataSize, duration_s: f64) {
    let Some(sent) = browser.sent_packets else {
        flow.unknown = Some(FlowEnd::Sender);
        return;
    };
    // Its page may have counted last before the end of the call.
    flow.sent_packets = sent.max(flow.received_packets);
    let headers = overhead.as_bytes() as f64 * sent as f64;
    let bytes = browser.samples.back().and_then(|last| last.sent_bytes).unwrap_or(0.0) + headers;
    flow.sent_rate_bps = bytes * 8.0 / duration_s.max(1e-3);
}

/// Whether a call that ended so has failed.
pub(super) fn is_error(end: &str) -> bool {
    use giusto_webrtc::peer::EndReason;
    ![EndReason::Local, EndReason::Browser].iter().any(|reason| reason.to_string() == end)
}

pub(super) fn packet(at: Timestamp, flow: FlowId, size: DataSize, sequence: u64) -> Packet {
    Packet {
        flow,
        bytes: u32::try_from(size.as_bytes()).unwrap_or(u32::MAX),
        sequence,
        sent: at,
        queued: at,
        ..Packet::default()
    }
}

/// Adds what the browser has reported.
pub(super) fn complete(flow: &mut FlowRecord, result: &CallResult) {
    let browser = &result.browser;
    let (Some(last), Some(packets)) = (browser.samples.back(), browser.received_packets) else {
        return complete_sent(flow, None);
    };
    let seconds = last.time_s.max(1e-3);
    let rate = |bytes: Option<f64>| bytes.map_or(0.0, |bytes| bytes * 8.0 / seconds);
    let (frames, goodput_bps) = (browser.frames_received.unwrap_or(0), rate(last.received_bytes));
    let voice = browser.voice.unwrap_or_default();
    let streams = flow.streams.iter().map(|stream| {
        let is_video = stream.kind == StreamKind::Video;
        ReceivedStream {
            source: stream.ssrc as u8,
            frames: if is_video { frames } else { voice.packets },
            goodput_bps: if is_video { goodput_bps as f32 } else { voice.rate_bps as f32 },
            frame_delay_ms: None,
        }
    });
    let received = ReceivedFigures {
        packets: packets + voice.packets,
        rate_bps: rate(last.wire_bytes(result.overhead)),
        goodput_bps,
        frames,
        streams: streams.collect(),
        ..ReceivedFigures::default()
    };
    complete_sent(flow, Some(&received));
    // Its counts are of a time before the end of the call, while packets were under way.
    let voice_lost = i64::try_from(voice.lost_packets).unwrap_or(i64::MAX);
    set_lost(flow, browser.lost_packets.map(|lost| lost.max(0).saturating_add(voice_lost)));
    for repair in flow.streams.iter_mut().filter_map(|stream| stream.repair.as_mut()) {
        repair.requested_packets = Some(result.counters.requested_packets);
        repair.key_frame_requests = Some(result.counters.key_frame_requests);
    }
}

/// The round-trip times of the browser's checks (RFC 8445).
pub(super) fn rtts(browser: &BrowserFigures) -> Option<Distribution> {
    let mut all = ErrorHistogram::default();
    for rtt in browser.samples.iter().filter_map(|sample| sample.rtt_s) {
        all.record(TimeDelta::from_seconds_f64(rtt));
    }
    distribution_of(&all, 1.0)
}

/// The packets of a flow that were lost, of which `of_receiver` says what the receiver's sequence numbers show, if anything does. What
/// was sent and is neither received nor lost was under way when the receiver counted.
fn set_lost(flow: &mut FlowRecord, of_receiver: Option<i64>) {
    let missing = flow.sent_packets.saturating_sub(flow.received_packets);
    // Duplicates make it negative (RFC 3550 §6.4.1).
    flow.lost_packets = of_receiver.map_or(missing, |lost| lost.max(0).unsigned_abs().min(missing));
    flow.loss_ratio = ratio(flow.lost_packets, flow.received_packets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_silent_browser_has_sent_is_unknown_not_0() {
        let mut flow = FlowRecord { received_packets: 10, ..FlowRecord::default() };
        let overhead = DataSize::from_bytes(40);
        let mut browser = BrowserFigures::default();
        set_sent(&mut flow, &browser, overhead, 2.0);
        assert_eq!(flow.known(FlowEnd::Sender, flow.sent_packets), None);

        let mut flow = FlowRecord { received_packets: 10, ..FlowRecord::default() };
        browser.sent_packets = Some(9);
        set_sent(&mut flow, &browser, overhead, 2.0);
        // More arrived than it had counted; its rate is that of its own counts: 9 headers of 40 B in 2 s.
        assert_eq!(flow.known(FlowEnd::Sender, flow.sent_packets), Some(10));
        assert!((flow.sent_rate_bps - 1440.0).abs() < 1e-9, "{}", flow.sent_rate_bps);
    }

    #[test]
    fn packets_under_way_at_the_end_are_not_lost() {
        // Sent, received, lost by the browser's sequence numbers; and the record's.
        let cases = [
            (1000, 990, Some(0), 0),
            (1000, 950, Some(40), 40),
            (1000, 990, Some(-3), 0),
            (1000, 990, Some(400), 10),
            (1000, 990, None, 10),
            (1000, 1003, Some(2), 0),
        ];
        for (sent, received, of_browser, lost) in cases {
            let (sent_packets, received_packets) = (sent, received);
            let mut flow = FlowRecord { sent_packets, received_packets, ..FlowRecord::default() };
            set_lost(&mut flow, of_browser);
            let share = lost as f64 / (lost + received) as f64;
            let found = (flow.lost_packets, flow.loss_ratio);
            assert_eq!(found, (lost, Some(share)), "{sent} {received} {of_browser:?}");
        }
    }
}
