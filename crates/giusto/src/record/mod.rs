//! What came of a simulated run.

use serde::{Deserialize, Serialize};

/// One run of one scenario with one seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SimResult {
    /// The scenario's name.
    pub scenario: String,
    /// What all chance derived from; a string, since JSON numbers lose digits.
    pub seed: String,
    /// Simulated time.
    pub duration_s: f64,
    /// Real time that it took.
    pub wall_s: f64,
    /// Events of the engine.
    pub events: u64,
    /// Whether it was ended before its time: then nothing was checked.
    #[serde(default)]
    pub interrupted: bool,
    /// What each flow got, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// What each link carried, in the order of the scenario.
    pub links: Vec<LinkResult>,
    /// What was expected, and what came.
    pub checks: Vec<CheckResult>,
}

impl SimResult {
    /// Whether everything came as expected.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

/// What a flow got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name in the scenario; a numbered one if there are several of it.
    pub id: String,
    /// Its kind: `cbr`, `tcp`, ….
    pub kind: String,
    /// Its congestion control; none for what heeds nothing.
    pub controller: Option<String>,
    /// What it sent, all headers included, over the time from its start to its end, the warm-up left out, as for all that is
    /// no count of packets.
    pub sent_rate_bps: f64,
    /// What arrived of it, all headers included, over the same time.
    pub received_rate_bps: f64,
    /// Packets that it sent.
    pub sent_packets: u64,
    /// Packets that arrived.
    pub received_packets: u64,
    /// Of the packets whose fate is known, the share that was dropped.
    pub loss_ratio: Option<f64>,
    /// Of the packets that arrived, the share that carried a congestion mark.
    pub marked_ratio: Option<f64>,
    /// One-way delay; none if nothing arrived.
    pub delay_ms: Option<Quantiles>,
    /// Time in queues; none if nothing arrived.
    pub queue_delay_ms: Option<Quantiles>,
    /// Of media: the mean over time of the controller's target, headers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_rate_bps: Option<f64>,
    /// Of media: how often the target changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<u64>,
    /// Of media: frames that arrived whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Of media: from the capture of a frame until it arrived whole; none if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_delay_ms: Option<Quantiles>,
    /// Of media: what its receiver sent back, headers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_rate_bps: Option<f64>,
    /// Of media: what each of its streams got, the sound first, then the videos in the order of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamResult>,
}

impl FlowResult {
    /// Whether something is to be told of each stream: there are several videos, or the sender gave something up.
    pub(crate) fn has_streams_to_tell(&self) -> bool {
        let given_up = |stream: &StreamResult| stream.skipped_frames.max(stream.discarded_packets) > Some(0);
        self.has_several_videos() || self.streams.iter().any(given_up)
    }

    /// Whether it has several videos, so that there is something to compare.
    pub(crate) fn has_several_videos(&self) -> bool {
        self.streams.iter().filter(|stream| stream.kind == StreamKind::Video).count() > 1
    }
}

/// What a stream of a media flow got, over the same time as the rates of the flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Its name in the scenario: that of a video, or `audio`.
    pub id: String,
    /// Its RTP source, as traces tell it.
    pub ssrc: u32,
    /// What it is.
    pub kind: StreamKind,
    /// Of a video: its share against those of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// The payload of the frames that arrived whole.
    pub received_rate_bps: f64,
    /// Frames that arrived whole.
    pub frames: u64,
    /// From the capture of a frame until it arrived whole; none if none did.
    pub frame_delay_ms: Option<Quantiles>,
    /// Frames that were not encoded, since packets waited for too long; none if nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_frames: Option<u64>,
    /// Packets that were thrown away, since they had waited for too long; none if nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_packets: Option<u64>,
}

/// What a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
}

/// What a link carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Its name in the scenario.
    pub id: String,
    /// Transmitted bytes over those that it could have, the warm-up left out; none without a limit.
    pub utilisation_ratio: Option<f64>,
    /// Packets that were offered to it.
    pub offered_packets: u64,
    /// Packets that came out.
    pub delivered_packets: u64,
    /// Packets that it dropped or lost.
    pub dropped_packets: u64,
    /// Packets that its queue marked.
    pub marked_packets: u64,
    /// Packets in it at the end: waiting, being transmitted, on their way.
    pub in_flight_packets: u64,
    /// Packets that it made by duplication.
    pub duplicated_packets: u64,
    /// How long packets waited in its queue, the warm-up left out; none if none came.
    pub queue_delay_ms: Option<Quantiles>,
}

/// Some quantiles, and the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half lie at or below it.
    pub p50: f64,
    /// 95 % lie at or below it.
    pub p95: f64,
    /// 99 % lie at or below it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// An expectation, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What is expected, in words.
    pub name: String,
    /// Whether it came.
    pub passed: bool,
    /// What came; none if it could not be measured, which fails.
    pub value: Option<f64>,
    /// Within which bounds it was expected, in words.
    pub bound: String,
    /// The unit of value and bound.
    pub unit: String,
}
