//! The result of a replay.

use serde::Serialize;

use crate::record::DecisionRecord;

/// A recording, and what controllers made of it.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// The flow or the call.
    pub session: String,
    /// The program that recorded it.
    pub recorder: String,
    /// The kind of feedback.
    pub feedback: String,
    /// Always true: the history does not react to the replayed controllers.
    pub open_loop: bool,
    /// Duration of the recording.
    pub duration_s: f64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Mean rate of the packets sent.
    pub sent_rate_bps: f64,
    /// Feedback messages.
    pub feedback_messages: u64,
    /// Packets whose latest report says that they arrived, over the packets reported; `None` without reports.
    pub loss_ratio: Option<f64>,
    /// Why the recording may not hold the whole session, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<String>,
    /// Two targets are apart when they differ by more than this share of the recorded one.
    pub apart_above_ratio: f64,
    /// The recorded controller.
    pub recorded: Side,
    /// Each replayed controller.
    pub controllers: Vec<Replayed>,
    /// The recording over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<ReplayTimeline>,
}

/// The targets of one controller.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Mean of the target over time.
    pub mean_target_bps: Option<f64>,
    /// Target at the end.
    pub last_target_bps: Option<u64>,
    /// Number of changes of the target.
    pub changes: u64,
}

/// A controller that was shown the recording.
#[derive(Debug, Clone, Serialize)]
pub struct Replayed {
    /// Its name and its targets.
    #[serde(flatten)]
    pub side: Side,
    /// Why the recording cannot show what it would have done; then there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// What limits the meaning of the figures.
    pub notes: Vec<String>,
    /// Of the recorded controller: whether every target, decision, probe and share was the same again, to the last bit; `None` also
    /// if the recording has no target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identical: Option<bool>,
    /// Of the recorded controller: the first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// Share of the time in which its target was apart from the recorded one.
    pub apart_ratio: Option<f64>,
    /// The first time at which the targets were apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parting: Option<Parting>,
}

/// The first time at which two targets were apart.
#[derive(Debug, Clone, Serialize)]
pub struct Parting {
    /// When.
    pub at_s: f64,
    /// The recorded target.
    pub recorded_bps: u64,
    /// The replayed target.
    pub replayed_bps: u64,
    /// The recorded decision in force.
    pub recorded_decision: Option<DecisionRecord>,
    /// The recorded decision in force, in words.
    pub recorded_words: String,
    /// The replayed decision in force.
    pub replayed_decision: Option<DecisionRecord>,
    /// The replayed decision in force, in words.
    pub replayed_words: String,
}

/// The recording over time, in equal windows.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayTimeline {
    /// The middle of each window, in seconds.
    pub t_s: Vec<f64>,
    /// The recorded target at the end of each window.
    pub recorded_bps: Vec<Option<f64>>,
    /// The target of each replayed controller at the end of each window; empty for one that cannot be replayed.
    pub replayed_bps: Vec<Vec<Option<f64>>>,
    /// Maximum of the delay above its minimum: arrival (receiver's clock) less departure (sender's clock), less the minimum of that
    /// until then.
    pub delay_ms: Vec<Option<f64>>,
}
