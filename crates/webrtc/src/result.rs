//! What a call was like, at both ends.

use std::collections::VecDeque;

use giusto_congestion::FeedbackKind;
use giusto_measure::ErrorHistogram;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

use giusto_session::media::{DecodeTarget, SourceFigures, StreamId};

use crate::peer::{BrowserPeer, Incoming, IncomingStream, PeerCounters};

/// The most samples kept of each end, the newest: an hour at 10 Hz.
const MAX_SAMPLES: usize = 36_000;
/// The most samples of one message of the page: 20 s.
const MAX_POSTED: usize = 200;
/// The longest name of a browser that is kept.
const MAX_NAME_CHARS: usize = 300;

/// The state of our end at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Time since the first packet could be sent.
    pub time_s: f64,
    /// Target rate of the controller, headers included.
    pub target_rate_bps: u64,
    /// Rate of the datagrams since the sample before, headers of UDP and IP not included.
    pub sent_rate_bps: u64,
    /// Age of the oldest packet in the queue.
    pub queue_delay_ms: f64,
}

/// The state of the browser at one time, by its `getStats` (W3C "Identifiers for WebRTC's Statistics API"). What a browser does
/// not report is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrowserSample {
    /// Time on the clock of [`Sample::time_s`], as precisely as the arrival of a message shows it.
    pub time_s: f64,
    /// Time on the page's clock.
    pub page_ms: f64,
    /// `bytesReceived`: payload.
    pub received_bytes: Option<f64>,
    /// `headerBytesReceived`.
    pub received_header_bytes: Option<f64>,
    /// `packetsReceived`.
    pub received_packets: Option<f64>,
    /// `packetsLost`.
    pub lost_packets: Option<f64>,
    /// `framesReceived`: whole.
    pub frames_received: Option<f64>,
    /// `framesDecoded`.
    pub frames_decoded: Option<f64>,
    /// `framesDropped`.
    pub frames_dropped: Option<f64>,
    /// `keyFramesDecoded`.
    pub key_frames_decoded: Option<f64>,
    /// `freezeCount`.
    pub freezes: Option<f64>,
    /// `totalFreezesDuration`.
    pub freezes_s: Option<f64>,
    /// `jitterBufferDelay`: a sum over frames.
    pub jitter_buffer_sum_s: Option<f64>,
    /// `jitterBufferEmittedCount`.
    pub jitter_buffer_frames: Option<f64>,
    /// `pliCount`.
    pub plis: Option<f64>,
    /// `nackCount`.
    pub nacks: Option<f64>,
    /// `firCount`.
    pub firs: Option<f64>,
    /// `retransmittedPacketsReceived`: those of the stream of retransmissions, padding included.
    pub retransmitted_packets: Option<f64>,
    /// `frameWidth`.
    pub width: Option<f64>,
    /// `frameHeight`.
    pub height: Option<f64>,
    /// `currentRoundTripTime` of the candidate pair.
    pub rtt_s: Option<f64>,
    /// `packetsReceived` of the speech.
    pub voice_packets: Option<f64>,
    /// `bytesReceived` and `headerBytesReceived` of the speech.
    pub voice_bytes: Option<f64>,
    /// `packetsLost` of the speech.
    pub voice_lost: Option<f64>,
    /// `jitter` of the speech.
    pub voice_jitter_s: Option<f64>,
    /// `jitterBufferDelay` of the speech: a sum over samples.
    pub voice_buffer_sum_s: Option<f64>,
    /// `jitterBufferEmittedCount` of the speech.
    pub voice_buffer_samples: Option<f64>,
    /// `packetsSent` of its own media, retransmissions included.
    pub sent_packets: Option<f64>,
    /// `bytesSent` and `headerBytesSent` of these.
    pub sent_bytes: Option<f64>,
    /// `framesSent` of its video.
    pub frames_sent: Option<f64>,
    /// `targetBitrate` of its video encoder.
    pub target_bps: Option<f64>,
    /// `availableOutgoingBitrate`: what its controller allows.
    pub available_bps: Option<f64>,
}

/// A message of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Posted {
    pub(crate) token: Option<String>,
    user_agent: String,
    /// Time on the page's clock.
    page_ms: f64,
    pub(crate) samples: Vec<BrowserSample>,
    pub(crate) error: String,
    pub(crate) end: bool,
}

/// What the browser reports of the last interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveBrowser {
    /// Rate of what it received, all headers included.
    pub received: DataRate,
    /// Packets lost, of which some may be repaired.
    pub lost_packets: u64,
    /// Frames decoded.
    pub frames: u64,
    /// Freezes since the beginning.
    pub freezes: u64,
    /// Round-trip time of ICE.
    pub rtt: Option<TimeDelta>,
}

impl LiveBrowser {
    /// `overhead`: the bytes of all headers below RTP. `None` without time between the samples.
    pub(crate) fn between(before: &BrowserSample, now: &BrowserSample, overhead: DataSize) -> Option<Self> {
        let seconds = now.time_s - before.time_s;
        let rise =
            |now: Option<f64>, before: Option<f64>| (now.unwrap_or(0.0) - before.unwrap_or(0.0)).max(0.0);
        (seconds > 0.0).then(|| {
            let bytes = rise(now.wire_bytes(overhead), before.wire_bytes(overhead));
            Self {
                received: DataRate::from_bps((bytes * 8.0 / seconds) as u64),
                lost_packets: rise(now.lost_packets, before.lost_packets) as u64,
                frames: rise(now.frames_decoded, before.frames_decoded) as u64,
                freezes: now.freezes.unwrap_or(0.0).max(0.0) as u64,
                rtt: now.rtt_s.map(TimeDelta::from_seconds_f64),
            }
        })
    }
}

impl BrowserSample {
    /// Bytes received so far with all headers, those of speech included; `overhead`: those below RTP.
    pub fn wire_bytes(&self, overhead: DataSize) -> Option<f64> {
        let packets = self.received_packets.unwrap_or(0.0) + self.voice_packets.unwrap_or(0.0);
        let headers = self.received_header_bytes.unwrap_or(0.0) + packets * overhead.as_bytes() as f64;
        Some(self.received_bytes? + self.voice_bytes.unwrap_or(0.0) + headers)
    }
}

/// Text of a page, made fit for a terminal.
pub(crate) fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()
}

/// What the browser reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BrowserFigures {
    /// Its name, as it says.
    pub user_agent: String,
    /// Rate of payload and RTP headers from its first to its last sample with packets.
    pub received_rate_bps: Option<u64>,
    /// Packets received.
    pub received_packets: Option<u64>,
    /// Packets lost.
    pub lost_packets: Option<i64>,
    /// Whole frames.
    pub frames_received: Option<u64>,
    /// Frames decoded.
    pub frames_decoded: Option<u64>,
    /// Frames dropped before or after decoding.
    pub frames_dropped: Option<u64>,
    /// Key frames decoded.
    pub key_frames_decoded: Option<u64>,
    /// Freezes, by the browser's definition.
    pub freezes: Option<u64>,
    /// Their total duration.
    pub freezes_s: Option<f64>,
    /// Mean time of a frame in its jitter buffer.
    pub jitter_buffer_delay_ms: Option<f64>,
    /// Key frames that it requested by PLI.
    pub plis: Option<u64>,
    /// Requests of lost packets that it sent.
    pub nacks: Option<u64>,
    /// Packets received on the stream of retransmissions, padding included.
    pub retransmitted_packets: Option<u64>,
    /// Its latest round-trip time of ICE.
    pub rtt_ms: Option<f64>,
    /// Width and height of its last frame, in pixels.
    pub dimensions: Option<(u64, u64)>,
    /// What it reported of the speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceAtBrowser>,
    /// Packets of its own media that it sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    /// Frames of its own video that it sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_sent: Option<u64>,
    /// Mean of what its controller allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_rate_bps: Option<u64>,
    /// The error that its page has reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its samples.
    pub samples: VecDeque<BrowserSample>,
}

/// What a browser reported of the speech that was sent to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct VoiceAtBrowser {
    /// Packets received.
    pub packets: u64,
    /// Rate of these with RTP headers.
    pub rate_bps: u64,
    /// Packets lost.
    pub lost_packets: u64,
    /// Lost packets divided by all.
    pub loss_ratio: f64,
    /// Its latest interarrival jitter.
    pub jitter_ms: Option<f64>,
    /// Mean time of a sample in its jitter buffer.
    pub buffer_delay_ms: Option<f64>,
}

impl VoiceAtBrowser {
    fn of(last: &BrowserSample) -> Option<Self> {
        let packets = last.voice_packets.filter(|packets| *packets > 0.0)?;
        let lost = last.voice_lost.unwrap_or(0.0).max(0.0);
        let samples = last.voice_buffer_samples.filter(|samples| *samples > 0.0);
        Some(Self {
            packets: packets as u64,
            rate_bps: (last.voice_bytes.unwrap_or(0.0).max(0.0) * 8.0 / last.time_s.max(1e-3)) as u64,
            lost_packets: lost as u64,
            loss_ratio: lost / (lost + packets),
            jitter_ms: last.voice_jitter_s.map(|jitter| jitter * 1e3),
            buffer_delay_ms: last.voice_buffer_sum_s.zip(samples).map(|(sum, samples)| sum / samples * 1e3),
        })
    }
}

impl BrowserFigures {
    /// Takes a message of the page that arrived at `time_s`.
    pub(crate) fn take(&mut self, time_s: f64, posted: Posted) {
        if !posted.user_agent.is_empty() {
            self.user_agent = short(&posted.user_agent);
        }
        if !posted.error.is_empty() {
            self.error = Some(short(&posted.error));
        }
        for mut sample in posted.samples.into_iter().take(MAX_POSTED) {
            sample.time_s = time_s - (posted.page_ms - sample.page_ms) / 1e3;
            if !sample.time_s.is_finite() {
                continue;
            }
            if self.samples.len() >= MAX_SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
        }
        self.summarise();
    }

    fn summarise(&mut self) {
        let Some(last) = self.samples.back() else { return };
        let count = |value: Option<f64>| value.map(|value| value.max(0.0) as u64);
        let size = |sample: &BrowserSample| {
            Some(sample.received_bytes? + sample.received_header_bytes.unwrap_or(0.0))
                .filter(|size| *size > 0.0)
        };
        let first = self.samples.iter().find(|sample| size(sample).is_some());
        self.received_rate_bps = first.and_then(|first| {
            let seconds = (last.page_ms - first.page_ms) / 1e3;
            (seconds > 0.0).then_some(((size(last)? - size(first)?) * 8.0 / seconds).max(0.0) as u64)
        });
        self.received_packets = count(last.received_packets);
        // Duplicates make it negative (RFC 3550 §6.4.1).
        self.lost_packets = last.lost_packets.map(|lost| lost as i64);
        self.frames_received = count(last.frames_received);
        self.frames_decoded = count(last.frames_decoded);
        self.frames_dropped = count(last.frames_dropped);
        self.key_frames_decoded = count(last.key_frames_decoded);
        self.freezes = count(last.freezes);
        self.freezes_s = last.freezes_s;
        let frames = last.jitter_buffer_frames.filter(|&frames| frames > 0.0);
        self.jitter_buffer_delay_ms =
            last.jitter_buffer_sum_s.zip(frames).map(|(sum, frames)| sum / frames * 1e3);
        self.plis = count(last.plis);
        self.nacks = count(last.nacks);
        self.retransmitted_packets = count(last.retransmitted_packets);
        self.rtt_ms = last.rtt_s.map(|rtt| rtt * 1e3);
        self.dimensions = count(last.width).zip(count(last.height));
        self.voice = VoiceAtBrowser::of(last);
        self.sent_packets = count(last.sent_packets);
        self.frames_sent = count(last.frames_sent);
        let allowed = self.samples.iter().filter_map(|sample| sample.available_bps);
        let (sum, samples) =
            allowed.fold((0.0, 0_u32), |(sum, samples), bps| (sum + bps.max(0.0), samples + 1));
        self.available_rate_bps = (samples > 0).then(|| (sum / f64::from(samples)) as u64);
    }
}

/// What arrived of a stream of the browser.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IncomingFigures {
    /// Which one.
    pub kind: Incoming,
    /// Its codec: that of the video, or `opus`.
    pub codec: &'static str,
    /// Its name among several encodings of the video (simulcast, RFC 8853).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rid: Option<StreamId>,
    /// Width and height of its latest key frame, in pixels.
    pub dimensions: Option<(u16, u16)>,
    /// Its synchronisation source.
    pub ssrc: u32,
    /// Packets received, each counted once, retransmissions not included.
    pub packets: u64,
    /// Rate of these with RTP headers.
    pub rate_bps: u64,
    /// Packets that did not arrive; some may have been repaired.
    pub lost_packets: u64,
    /// Packets that were repaired.
    pub repaired_packets: u64,
    /// Packets that were requested, each time counted.
    pub requested_packets: u64,
    /// Copies of received packets.
    pub duplicate_packets: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Complete frames; of audio, packets.
    pub frames: u64,
    /// Incomplete frames that were dropped.
    pub dropped_frames: u64,
    /// Frames that became complete after their playout deadline.
    pub late_frames: u64,
    /// Key frames that were requested by PLI.
    pub key_frame_requests: u64,
    /// The numbers of its spatial and of its temporal layers, if AV1 comes with dependency descriptors.
    pub layers: Option<(u8, u8)>,
    /// The sets of these layers that can be decoded alone, and what arrived for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decode_targets: Vec<DecodeTarget>,
}

impl IncomingFigures {
    fn of(peer: &BrowserPeer, stream: IncomingStream, figures: &SourceFigures, lasted: TimeDelta) -> Self {
        let IncomingStream { kind, rid } = stream;
        Self {
            kind,
            codec: if kind == Incoming::Video { peer.codec().name() } else { "opus" },
            rid,
            dimensions: peer.dimensions(figures.ssrc),
            ssrc: figures.ssrc,
            packets: figures.packets,
            rate_bps: DataRate::of(figures.size, lasted).map_or(0, DataRate::as_bps),
            lost_packets: figures.lost,
            repaired_packets: figures.repaired_packets,
            requested_packets: figures.requested_packets,
            duplicate_packets: figures.duplicates,
            jitter_ms: figures.jitter.map(TimeDelta::as_millis),
            frames: figures.frames,
            dropped_frames: figures.dropped_frames,
            late_frames: figures.late_frames,
            key_frame_requests: figures.key_frame_requests,
            layers: figures.layers,
            decode_targets: peer.decode_targets(figures.ssrc),
        }
    }
}

/// A call and both its ends.
#[derive(Debug, Clone, Serialize)]
pub struct CallResult {
    /// Name of the controller.
    pub controller: String,
    /// Format of the feedback: `transport-cc`, `ccfb`, `goog-remb` or `reports`.
    pub feedback: &'static str,
    /// Whether lost packets are sent again.
    pub repair: bool,
    /// Version of DTLS.
    pub dtls: Option<&'static str>,
    /// Profile of SRTP.
    pub srtp: Option<String>,
    /// Time from the first packet to the end.
    pub duration_s: f64,
    /// Why it ended.
    pub end: String,
    /// Whether media could be sent.
    pub connected: bool,
    /// Time from the offer to the first packet.
    pub setup_ms: Option<f64>,
    /// Rate of the datagrams sent, headers of UDP and IP not included.
    pub sent_rate_bps: u64,
    /// Mean target rate of the controller, headers included.
    pub target_rate_bps: u64,
    /// CPU time of the thread that sends and receives, per time: 1 is a core.
    pub sender_cpu_ratio: f64,
    /// Counts of our end.
    #[serde(flatten)]
    pub counters: PeerCounters,
    /// Datagrams that the system did not take.
    pub unsent_datagrams: u64,
    /// Datagrams of the browser that the full socket buffer of our end dropped.
    pub dropped_datagrams: u64,
    /// The time from each deadline until its datagrams were sent.
    #[serde(skip)]
    pub schedule_error: ErrorHistogram,
    /// The address of the browser.
    pub browser_address: Option<std::net::SocketAddr>,
    /// Bytes of all headers below RTP: IP, UDP and SRTP.
    #[serde(skip)]
    pub overhead: DataSize,
    /// What the browser reported.
    pub browser: BrowserFigures,
    /// What came from the browser.
    pub received: Vec<IncomingFigures>,
    /// Samples of our end, ten each second.
    pub samples: VecDeque<Sample>,
}

impl CallResult {
    /// What a call knows of itself, from its offer to its end.
    pub(crate) fn of(
        peer: &BrowserPeer,
        offered_at: Timestamp,
        ended_at: Timestamp,
        sampler: Option<Sampler>,
    ) -> Self {
        let begin = peer.connected_at();
        let lasted = ended_at.saturating_since(begin.unwrap_or(ended_at));
        let counters = peer.counters();
        let (dtls, srtp) = peer.security();
        let sent = DataSize::from_bytes(counters.sent_bytes);
        Self {
            controller: String::new(),
            feedback: feedback_name(peer.feedback()),
            repair: peer.repairs(),
            dtls,
            srtp: srtp.map(ToOwned::to_owned),
            duration_s: lasted.as_seconds(),
            end: String::new(),
            connected: begin.is_some(),
            setup_ms: begin.map(|at| at.saturating_since(offered_at).as_millis()),
            sent_rate_bps: DataRate::of(sent, lasted).map_or(0, DataRate::as_bps),
            target_rate_bps: sampler.as_ref().map_or(0, Sampler::mean_target),
            sender_cpu_ratio: 0.0,
            counters,
            unsent_datagrams: 0,
            dropped_datagrams: 0,
            schedule_error: ErrorHistogram::default(),
            browser_address: peer.browser_address(),
            overhead: peer.overhead(),
            browser: BrowserFigures::default(),
            received: peer
                .received()
                .map(|(stream, figures)| IncomingFigures::of(peer, stream, &figures, lasted))
                .collect(),
            samples: sampler.map(|sampler| sampler.samples).unwrap_or_default(),
        }
    }
}

fn feedback_name(kind: FeedbackKind) -> &'static str {
    match kind {
        FeedbackKind::TransportWide => "transport-cc",
        FeedbackKind::CongestionControl => "ccfb",
        FeedbackKind::ReceiverEstimate => "goog-remb",
        FeedbackKind::ScreamDraft => "scream-draft",
        FeedbackKind::Nada => "nada",
        FeedbackKind::ReceiverReports => "reports",
        _ => "its own",
    }
}

/// The end of the next interval: not sooner than half of one after a stall, since the figures of a few packets say little.
pub(crate) fn next_due(mut due: Timestamp, interval: TimeDelta, now: Timestamp) -> Timestamp {
    while due <= now + interval / 2 {
        due += interval;
    }
    due
}

/// Collects samples of our end.
#[derive(Debug)]
pub(crate) struct Sampler {
    begin: Timestamp,
    last: (Timestamp, u64),
    pub(crate) due: Timestamp,
    pub(crate) samples: VecDeque<Sample>,
    targets: (u128, u64),
}

impl Sampler {
    pub(crate) const INTERVAL: TimeDelta = TimeDelta::from_millis(100);

    pub(crate) fn new(begin: Timestamp) -> Self {
        let due = begin + Self::INTERVAL;
        Self { begin, last: (begin, 0), due, samples: VecDeque::new(), targets: (0, 0) }
    }

    pub(crate) fn take(&mut self, now: Timestamp, sent_bytes: u64, target: DataRate, queue: TimeDelta) {
        let size = DataSize::from_bytes(sent_bytes.saturating_sub(self.last.1));
        let rate = DataRate::of(size, now.saturating_since(self.last.0)).unwrap_or(DataRate::ZERO);
        self.last = (now, sent_bytes);
        self.targets = (self.targets.0 + u128::from(target.as_bps()), self.targets.1 + 1);
        if self.samples.len() >= MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            time_s: now.saturating_since(self.begin).as_seconds(),
            target_rate_bps: target.as_bps(),
            sent_rate_bps: rate.as_bps(),
            queue_delay_ms: queue.as_millis(),
        });
        self.due = next_due(self.due, Self::INTERVAL, now);
    }

    pub(crate) fn mean_target(&self) -> u64 {
        self.targets.0.checked_div(u128::from(self.targets.1)).map_or(0, |mean| mean as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_short_interval_follows_a_stall() {
        let at = |millis| Timestamp::ZERO + TimeDelta::from_millis(millis);
        let mut sampler = Sampler::new(at(0));
        for (now, due) in [(100, 200), (204, 300), (580, 700), (700, 800), (1249, 1300), (1351, 1500)] {
            sampler.take(at(now), 0, DataRate::ZERO, TimeDelta::ZERO);
            assert_eq!(sampler.due, at(due), "{now} ms");
        }
    }
}
