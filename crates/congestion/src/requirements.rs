//! Requirements of a controller on sender and receiver.

use giusto_units::TimeDelta;

/// RTCP feedback that a receiver can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Requirements of a controller on sender and receiver.
///
/// The default is a controller that uses arrival times of packets, with libwebrtc's pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// ([`Feedback::quench`](crate::Feedback::quench)). Default `false`.
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

    /// Whether the controller reacts to this feedback.
    pub fn accepts(&self, feedback: FeedbackKind) -> bool {
        self.accepted.contains(&feedback)
    }
}

impl Default for Requirements {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How a controller's packets should be paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerSettings {
    /// Maximum burst, in time at the pacing rate: packets are sent at once while the debt is smaller. Zero:
    /// one packet at a time.
    pub burst: TimeDelta,
}

impl PacerSettings {
    /// libwebrtc (`modules/pacing/pacing_controller.cc`): bursts of 40 ms.
    pub const LIBWEBRTC: Self = Self { burst: TimeDelta::from_millis(40) };
    /// draft-ietf-rmcat-gcc-02 §4: a group of packets every 5 ms.
    pub const GCC_DRAFT: Self = Self { burst: TimeDelta::from_millis(5) };
    /// One packet at a time.
    pub const SINGLE: Self = Self { burst: TimeDelta::ZERO };
}

/// Maximum age of a stream's frames (draft-johansson-rmcat-scream-cc-00 §3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Staleness {
    /// No frame is encoded while the oldest queued packet is older than this. `None`: no frame is skipped.
    pub skip_after: Option<TimeDelta>,
    /// Queued packets older than this are discarded. `None`: none are discarded.
    pub discard_after: Option<TimeDelta>,
}
