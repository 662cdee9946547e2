//! The types of a record. Each is plain data that is serialised as it is.

use serde::{Deserialize, Deserializer, Serialize};

use giusto_congestion::Cause;

/// One run of one scenario with one seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The scenario's name.
    pub scenario: String,
    /// Description of the scenario; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Random seed; a string, since JSON numbers lose digits.
    pub seed: String,
    /// Simulated time.
    pub duration_s: f64,
    /// Real time that the run took; 0 if it was not measured.
    pub wall_s: f64,
    /// Number of events of the engine.
    pub events: u64,
    /// Whether the run was ended early; then no expectation was checked.
    #[serde(default)]
    pub interrupted: bool,
    /// Each flow, in the order of the scenario.
    pub flows: Vec<FlowRecord>,
    /// Each link, in the order of the scenario.
    pub links: Vec<LinkRecord>,
    /// Each expectation, in the order of the scenario.
    pub checks: Vec<Check>,
    /// What the figures do not explain by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Timeline of the run, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// How punctual the links were, if they ran in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTimeRecord>,
}

impl RunRecord {
    /// Whether all expectations passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

/// Links in real time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RealTimeRecord {
    /// Time from the moment at which a packet left the last link until it was passed to the system, in microseconds; `None` if no
    /// packet was.
    pub lateness_us: Option<Lateness>,
    /// The bound on the 99th percentile of the lateness, in microseconds.
    pub max_lateness_us: f64,
    /// Packets passed to the system.
    pub sent_packets: u64,
    /// Packets that left the last link and that the system did not accept.
    pub unsent_packets: u64,
    /// Packets that did not enter a link, because too much was inside.
    pub refused_packets: u64,
    /// Packets that the kernel dropped before they entered a link, because the process was too slow.
    pub kernel_dropped_packets: u64,
    /// Why the figures cannot be trusted; empty if they can.
    pub doubts: Vec<String>,
}

/// The distribution of a lateness, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

/// One flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its name; numbered if the scenario has several copies of it.
    pub id: String,
    /// The common name of the flow and its copies in the scenario.
    pub group: String,
    /// Its kind: `cbr`, `tcp`, `media`, ….
    pub kind: String,
    /// Its congestion controller; `None` for flows without one.
    pub controller: Option<String>,
    /// Media: feedback of its receiver: `transport-wide`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
    /// The links of its path, in order.
    pub path: Vec<String>,
    /// Start of its window, in seconds from the start of the run.
    pub from_s: f64,
    /// End of its window.
    pub to_s: f64,
    /// All headers included. Rates over a window of no time are NaN, null in JSON.
    #[serde(deserialize_with = "null_is_nan")]
    pub sent_rate_bps: f64,
    /// All headers included; unique packets.
    #[serde(deserialize_with = "null_is_nan")]
    pub received_rate_bps: f64,
    /// Payload delivered to the application: in-order bytes of TCP, complete frames of media; `None` for
    /// other kinds.
    pub goodput_bps: Option<f64>,
    /// Packets sent within the window.
    pub sent_packets: u64,
    /// Of these: delivered by the end of the run.
    pub received_packets: u64,
    /// Of these: every copy was dropped or lost by the end of the run.
    pub lost_packets: u64,
    /// Further copies of these that were delivered.
    pub duplicate_packets: u64,
    /// Share of packets lost, 0 to 1; `None` if the fate of no packet is known.
    pub loss_ratio: Option<f64>,
    /// Share of the received packets that carried a CE mark, 0 to 1.
    pub marked_ratio: Option<f64>,
    /// One-way delay; `None` if nothing was received.
    pub delay_ms: Option<Distribution>,
    /// Queueing delay along the path; `None` if nothing was received.
    pub queue_delay_ms: Option<Distribution>,
    /// Media: mean of the controller's target rate over time, headers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_rate_bps: Option<f64>,
    /// Media: number of changes of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<u64>,
    /// Media: frames that arrived complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Media: frame delay, from the capture of a frame until it arrived complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_delay_ms: Option<Distribution>,
    /// Media: rate of the feedback, headers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_rate_bps: Option<f64>,
    /// Media: each stream, audio first, then the videos in the order of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// The end whose figures are not known, if there is one: they are 0 here, and not shown.
    #[serde(skip)]
    pub unknown: Option<FlowEnd>,
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEnd {
    /// The sender: it counts what is sent.
    Sender,
    /// The receiver: it counts what arrives.
    Receiver,
}

impl FlowRecord {
    /// `value`, if this end has counted it.
    pub fn known<T>(&self, end: FlowEnd, value: T) -> Option<T> {
        (self.unknown != Some(end)).then_some(value)
    }

    /// Whether it carries several videos.
    pub fn has_several_videos(&self) -> bool {
        self.streams.iter().filter(|stream| stream.kind == StreamKind::Video).count() > 1
    }
}

/// Reads a rate; null is that of no time.
fn null_is_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

giusto_units::defaults! {
    /// One stream of a media flow, over the window of its flow.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct StreamRecord {
        /// Its name in the scenario: that of a video, or `audio`.
        pub id: String = id.to_owned(),
        /// Its RTP synchronisation source.
        pub ssrc: u32 = ssrc,
        /// Video or audio.
        pub kind: StreamKind = kind,
        /// Video: its weight relative to the others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub priority: Option<f64> = None,
        /// Payload of the frames that arrived complete; NaN, null in JSON, over a window of no time.
        #[serde(deserialize_with = "null_is_nan")]
        pub goodput_bps: f64 = 0.0,
        /// Frames that arrived complete.
        pub frames: u64 = 0,
        /// From the capture of a frame until it arrived complete; `None` if none did.
        pub frame_delay_ms: Option<Distribution> = None,
        /// Frames that were not encoded because the sender's queue was too old; `None` if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub skipped_frames: Option<u64> = None,
        /// Packets that were discarded because they were queued for too long; `None` if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub discarded_packets: Option<u64> = None,
        /// Frames that arrived complete after their playout deadline; `None` if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub late_frames: Option<u64> = None,
        /// Repair of lost packets; `None` if they are not repaired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub repair: Option<RepairRecord> = None,
        /// Whether what arrived is not known: it is 0 here, and not shown.
        #[serde(skip)]
        pub is_unreported: bool = false,
    }
    /// A stream of which nothing has arrived.
    pub fn new(id: &str, ssrc: u32, kind: StreamKind);
}

/// Repair of the lost packets of a stream. One end of a call knows only its own figures; those of the far end are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RepairRecord {
    /// Complete frames with at least one repaired packet.
    pub repaired_frames: Option<u64>,
    /// Packets that the receiver requested, each time counted.
    pub requested_packets: Option<u64>,
    /// Packets sent again.
    pub retransmitted_packets: Option<u64>,
    /// Packets of parity sent.
    pub parity_packets: Option<u64>,
    /// Packets recovered from parity.
    pub recovered_packets: Option<u64>,
    /// Rate of the repair packets, all headers included.
    pub repair_rate_bps: Option<f64>,
    /// Key frames that the receiver requested.
    pub key_frame_requests: Option<u64>,
}

/// The kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// Video.
    Video,
    /// Audio.
    Audio,
}

/// One link. All its figures are of one window: from the warm-up until the end of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its name in the scenario.
    pub id: String,
    /// Node at its near end.
    pub from: String,
    /// Node at its far end.
    pub to: String,
    /// Its rate, as text: `3 Mbit/s`, `1 to 3 Mbit/s`; empty if unlimited.
    pub rate: String,
    /// Its delay, jitter, loss, corruption and duplication, as text; may be empty.
    pub wire: String,
    /// Its queue, as text: `drop-tail, 60 packets`.
    pub queue: String,
    /// Bytes transmitted divided by the capacity; `None` if unlimited.
    pub utilisation_ratio: Option<f64>,
    /// Mean of its rate; `None` if unlimited.
    pub capacity_bps: Option<f64>,
    /// Packets offered to it, and those inside it at the start of its window: offered and duplicated are delivered, dropped or in
    /// flight.
    pub offered_packets: u64,
    /// Packets delivered at its far end.
    pub delivered_packets: u64,
    /// Packets dropped or lost.
    pub dropped_packets: u64,
    /// Of these: dropped by a full queue or a policer.
    pub overflow_packets: u64,
    /// Of these: dropped by active queue management.
    pub aqm_packets: u64,
    /// Of these: lost on the wire.
    pub lost_packets: u64,
    /// Packets marked by its queue.
    pub marked_packets: u64,
    /// Packets inside it at the end: queued, in transmission, propagating.
    pub in_flight_packets: u64,
    /// Copies that it made.
    pub duplicated_packets: u64,
    /// Packets whose content was changed on it. It delivered them; their receivers discarded them.
    #[serde(default)]
    pub corrupted_packets: u64,
    /// Queueing delay; `None` if nothing was transmitted.
    pub queue_delay_ms: Option<Distribution>,
}

/// Mean, quantiles and maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// An expectation and its outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is expected, as text: `flow tcp: received-rate`.
    pub name: String,
    /// Whether the value is within the bounds.
    pub passed: bool,
    /// The measured value; `None` if it could not be measured, in which case the check fails.
    pub value: Option<f64>,
    /// The bounds, as text: `4.5 Mbit/s to 5 Mbit/s`.
    pub bound: String,
    /// The unit of value and bounds.
    pub unit: String,
}

/// A run in windows of equal width; the last may be shorter. Every column has one entry per window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Width of a window.
    pub width_s: f64,
    /// The middle of each window, in seconds from the start of the run.
    pub t_s: Vec<f64>,
    /// Flows in the order of the record; if there are many, one entry per group.
    pub flows: Vec<FlowTimeline>,
    /// Links in the order of the record.
    pub links: Vec<LinkTimeline>,
}

/// One flow, or a group of them, over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTimeline {
    /// The flow, or the group if several flows are combined.
    pub id: String,
    /// The number of combined flows.
    pub members: u32,
    /// Packets sent.
    pub sent_packets: Vec<u64>,
    /// Bytes sent, all headers included.
    pub sent_bytes: Vec<u64>,
    /// Unique packets received.
    pub received_packets: Vec<u64>,
    /// Their bytes, all headers included.
    pub received_bytes: Vec<u64>,
    /// Of TCP the bytes delivered to the application in order, of media the payload of the frames that became complete. Empty if the
    /// flow had neither.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goodput_bytes: Vec<u64>,
    /// Packets dropped on the path.
    pub dropped_packets: Vec<u64>,
    /// Sent rate, all headers included: a moving mean over as many windows as hold 25 packets, at least three.
    #[serde(default)]
    pub sent_rate_bps: Vec<u64>,
    /// Received rate, over the same time.
    #[serde(default)]
    pub received_rate_bps: Vec<u64>,
    /// Goodput, over the same time, for media at least half a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goodput_bps: Vec<u64>,
    /// Packets dropped over packets dropped or received, over the same time.
    #[serde(default)]
    pub loss_ratio: Vec<Option<f64>>,
    /// Mean one-way delay of the packets received.
    pub delay_mean_ms: Vec<Option<f64>>,
    /// Maximum one-way delay.
    pub delay_max_ms: Vec<Option<f64>>,
    /// Maximum queueing delay along the path.
    pub queue_delay_max_ms: Vec<Option<f64>>,
    /// Distribution of the one-way delay within the flow's window.
    pub delay_cdf: Cdf,
    /// State reported by the sender, such as `cwnd_bytes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<Gauge>,
    /// For media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaTimeline>,
}

/// A cumulative distribution, at most about 200 points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cdf {
    /// Values, ascending.
    pub ms: Vec<f64>,
    /// Share of the packets at or below each, 0 to 1.
    pub ratio: Vec<f64>,
}

/// A quantity that a sender reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Its name with its unit: `cwnd_bytes`.
    pub name: String,
    /// Mean within each window.
    pub mean: Vec<Option<f64>>,
}

/// A media flow over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaTimeline {
    /// Mean of the target rate over the part of the window with a known target.
    pub target_rate_bps: Vec<Option<f64>>,
    /// Frames that became complete.
    pub frames: Vec<u64>,
    /// Maximum frame delay.
    pub frame_delay_max_ms: Vec<Option<f64>>,
    /// Each stream with at least one complete frame.
    pub streams: Vec<StreamTimeline>,
    /// The controller's decisions in order: all, or if there are very many, those with the largest changes.
    pub decisions: Vec<DecisionRecord>,
    /// Number of omitted decisions.
    pub omitted_decisions: u64,
}

/// One stream over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTimeline {
    /// Its RTP synchronisation source.
    pub ssrc: u32,
    /// Bytes of the frames that became complete, without headers.
    pub frame_bytes: Vec<u64>,
    /// Their rate: a moving mean over at least half a second.
    #[serde(default)]
    pub goodput_bps: Vec<u64>,
}

/// A decision of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Time, in seconds from the start of the run.
    pub at_s: f64,
    /// The target rate before.
    pub from_bps: u64,
    /// The target rate after.
    pub to_bps: u64,
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
}

/// One link over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTimeline {
    /// The link.
    pub id: String,
    /// Mean of its rate; `None` if unlimited.
    pub capacity_bps: Vec<Option<f64>>,
    /// Packets taken from the queue and transmitted.
    pub transmitted_packets: Vec<u64>,
    /// Their bytes.
    pub transmitted_bytes: Vec<u64>,
    /// Mean of the bytes in the queue over time.
    pub queued_mean_bytes: Vec<f64>,
    /// Maximum of the bytes in the queue.
    pub queued_max_bytes: Vec<u64>,
    /// Maximum queueing delay of the packets transmitted.
    pub queue_delay_max_ms: Vec<Option<f64>>,
    /// Mean queueing delay of the packets transmitted.
    pub queue_delay_mean_ms: Vec<Option<f64>>,
    /// Packets dropped: full queue and active queue management.
    pub dropped_packets: Vec<u64>,
    /// Packets lost on the wire.
    pub lost_packets: Vec<u64>,
    /// Packets marked.
    pub marked_packets: Vec<u64>,
}
