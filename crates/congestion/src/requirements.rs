//! Requirements of a controller on sender and receiver.

use giusto_units::TimeDelta;

/// RTCP feedback that a receiver can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FeedbackKind {
    /// Transport-wide feedback (TWCC): arrival times in steps of 250 µs.
    TransportWide,
    /// RFC 8888: arrival times in steps of 1/1024 s, and ECN codepoints.
    CongestionControl,
    /// draft-johansson-rmcat-scream-cc-00 §3: which of the latest 33 packets arrived, and the arrival time of the highest.
    ScreamDraft,
    /// RFC 8698 §5.3: the receiver's mode, congestion signal and received rate.
    Nada,
    /// REMB: the receiver's estimate of the available rate.
    ReceiverEstimate,
    /// Receiver reports only: the loss ratio.
    ReceiverReports,
}

giusto_units::names!(FeedbackKind {
    TransportWide = "transport-wide",
    CongestionControl = "rfc8888",
    ScreamDraft = "scream-draft",
    Nada = "nada",
    ReceiverEstimate = "remb",
    ReceiverReports = "reports",
});

/// Requirements of a controller on sender and receiver.
///
/// The default is a controller that uses arrival times of packets, with libwebrtc's pacer. With the feature `serde` they can be written,
/// but not read, because they borrow their list.
///
/// # Example
///
/// ```
/// use giusto_congestion::{FeedbackKind, PacerSettings, Requirements};
///
/// const OWN: Requirements = Requirements::DEFAULT
///     .with_feedback(FeedbackKind::CongestionControl, Requirements::ARRIVAL_TIMES)
///     .with_pacer(PacerSettings::SINGLE);
/// assert!(OWN.accepts(FeedbackKind::TransportWide) && !OWN.accepts(FeedbackKind::Nada));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct Requirements {
    /// The feedback for which the controller was designed. Default [`FeedbackKind::TransportWide`].
    pub feedback: FeedbackKind,
    /// All feedback to which the controller reacts; it ignores other feedback. Default [`Self::ARRIVAL_TIMES`].
    pub accepted: &'static [FeedbackKind],
    /// How packets are paced. Default [`PacerSettings::LIBWEBRTC`].
    pub pacer: PacerSettings,
    /// Maximum age of queued frames. Default: unlimited.
    pub staleness: Staleness,
    /// Whether the controller has a target of the queueing delay, which
    /// [`Options::delay_target`](crate::Options::delay_target) sets. Default `false`.
    pub delay_target: bool,
    /// Whether the controller shares a bottleneck by weights, of which [`Options::priority`](crate::Options::priority) is one. Default
    /// `false`.
    pub priority: bool,
    /// Whether the controller can probe while the sender is application-limited, which
    /// [`Options::probe_while_limited`](crate::Options::probe_while_limited) requests. Default `false`.
    pub limited_probes: bool,
    /// Whether the controller has further laws of its authors, which [`Options::authors_laws`](crate::Options::authors_laws) switches on.
    /// Default `false`.
    pub authors_laws: bool,
    /// Whether the controller reduces its rate when the receiver requests it
    /// ([`Extension::SourceQuench`](crate::Extension::SourceQuench)). Default `false`.
    pub receiver_limit: bool,
    /// Whether the controller uses the state of the sender's queue. Default `false`.
    pub sender_queue: bool,
    /// Whether the controller reacts to congestion marks (ECN-CE). Default `false`.
    pub marks: bool,
}

impl Requirements {
    /// The formats that report the arrival time of each packet.
    pub const ARRIVAL_TIMES: &'static [FeedbackKind] =
        &[FeedbackKind::TransportWide, FeedbackKind::CongestionControl];

    /// The default, as a constant.
    pub const DEFAULT: Self = Self {
        feedback: FeedbackKind::TransportWide,
        accepted: Self::ARRIVAL_TIMES,
        pacer: PacerSettings::LIBWEBRTC,
        staleness: Staleness { skip_after: None, discard_after: None },
        delay_target: false,
        priority: false,
        limited_probes: false,
        authors_laws: false,
        receiver_limit: false,
        sender_queue: false,
        marks: false,
    };

    /// Sets the feedback for which the controller was designed, and all feedback to which it reacts.
    #[must_use]
    pub const fn with_feedback(self, feedback: FeedbackKind, accepted: &'static [FeedbackKind]) -> Self {
        Self { feedback, accepted, ..self }
    }

    /// Whether the controller reacts to this feedback.
    pub fn accepts(&self, feedback: FeedbackKind) -> bool {
        self.accepted.contains(&feedback)
    }
}

giusto_units::setters!(Requirements {
    /// Sets how packets are paced.
    with_pacer(pacer: PacerSettings);
    /// Sets the maximum age of queued frames.
    with_staleness(staleness: Staleness);
    /// Sets whether it has a target of the queueing delay that an option sets.
    with_delay_target(delay_target: bool);
    /// Sets whether it shares a bottleneck by weights.
    with_priority(priority: bool);
    /// Sets whether it can probe while the sender is application-limited.
    with_limited_probes(limited_probes: bool);
    /// Sets whether it has further laws of its authors.
    with_authors_laws(authors_laws: bool);
    /// Sets whether it reduces its rate when the receiver requests it.
    with_receiver_limit(receiver_limit: bool);
    /// Sets whether it uses the state of the sender's queue.
    with_sender_queue(sender_queue: bool);
    /// Sets whether it reacts to congestion marks (ECN-CE).
    with_marks(marks: bool);
});

impl Default for Requirements {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How a controller's packets should be paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PacerSettings {
    /// Maximum burst, in time at the pacing rate: packets are sent at once while the debt is smaller. Zero:
    /// one packet at a time. A sender whose timers are late makes up for that, or takes a burst of that time at least with
    /// `Resume::Room` of `giusto-pace`; otherwise it stays below the rate.
    pub burst: TimeDelta,
}

impl PacerSettings {
    /// libwebrtc (`modules/pacing/pacing_controller.cc`): bursts of 40 ms.
    pub const LIBWEBRTC: Self = Self { burst: TimeDelta::from_millis(40) };
    /// draft-ietf-rmcat-gcc-02 §4: a group of packets every 5 ms.
    pub const GCC_DRAFT: Self = Self { burst: TimeDelta::from_millis(5) };
    /// One packet at a time.
    pub const SINGLE: Self = Self { burst: TimeDelta::ZERO };

    /// Bursts of at most this time at the pacing rate.
    pub const fn new(burst: TimeDelta) -> Self {
        Self { burst }
    }
}

/// Maximum age of a stream's frames (draft-johansson-rmcat-scream-cc-00 §3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Staleness {
    /// No frame is encoded while the oldest queued packet is older than this. `None`: no frame is skipped.
    pub skip_after: Option<TimeDelta>,
    /// Queued packets older than this are discarded. `None`: none are discarded.
    pub discard_after: Option<TimeDelta>,
}

giusto_units::setters!(Staleness {
    /// Sets the age of the oldest queued packet above which no frame is encoded.
    with_skip_after(skip_after: Option<TimeDelta>);
    /// Sets the age above which queued packets are discarded.
    with_discard_after(discard_after: Option<TimeDelta>);
});
