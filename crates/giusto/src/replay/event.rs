//! The contents of a session log.

use giusto_congestion::{
    Decision, Extension, FeedbackKind, Limits, LossReport, Options, PacketReport, Probe, QueueState,
    SentPacket, StreamState, Target, log::Call,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

giusto_units::defaults! {
    /// What a session log says about its session.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SessionInfo {
        /// The program that recorded it, with its version.
        pub recorder: String = String::new(),
        /// The flow or the call.
        pub name: String = String::new(),
        /// The recorded controller; not always one that giusto can build.
        pub controller: String = String::new(),
        /// The limits of the target rate at the start.
        pub limits: Limits = Limits::default(),
        /// The other options of the recorded controller.
        pub options: Options = Options::default(),
        /// The feedback of the remote end.
        pub feedback: FeedbackKind = FeedbackKind::TransportWide,
        /// What the recording lacks.
        pub lacks: Lacks = Lacks::default(),
    }
    /// Of a session of which nothing is known yet.
    pub(crate) fn unknown();
}

/// What a recording lacks, so that controllers that need it cannot be judged by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct Lacks {
    /// The state of the sender's queue.
    pub queue: bool,
    /// ECN: no packet was sent as ECN-capable, or the feedback has no codepoints.
    pub ecn: bool,
    /// The calls of the recorded controller: the recording is of another program, and its own controller cannot be repeated.
    pub calls: bool,
    /// Sub-millisecond times.
    pub precise_times: bool,
}

/// One event of a session, with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the beginning of the session.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A packet left.
    Sent(SentPacket),
    /// Feedback arrived.
    Feedback(Message),
    /// A deadline of the recorded controller, with the sender's queue.
    Timeout(QueueState),
    /// The state of the sender's streams.
    Streams(Vec<StreamState>),
    /// New limits of the target rate.
    Limits(Limits),
    /// The route changed.
    RouteChange,
    /// The recorded controller's target changed.
    Target(Target),
    /// The recorded controller's decision changed.
    Decision(Decision),
    /// The recorded controller requested a probe.
    Probe(Probe),
    /// The recorded controller's share of each stream changed.
    Shares(Vec<DataRate>),
    /// An estimate of a recorded controller whose decisions are not of our types, in words.
    Estimate(String),
}

impl Event {
    /// Makes the call of a controller that the event describes, and passes it to `make`. Other events are ignored.
    pub(crate) fn with_call<R>(&self, make: impl FnOnce(&Call<'_>) -> R) -> Option<R> {
        let call = match self {
            Self::Sent(packet) => Call::Sent(*packet),
            Self::Feedback(message) => Call::Feedback(message.feedback()),
            Self::Timeout(queue) => Call::Timeout(*queue),
            Self::Streams(streams) => Call::Streams(streams),
            Self::Limits(limits) => Call::Limits(*limits),
            Self::RouteChange => Call::RouteChange,
            Self::Target(_) | Self::Decision(_) | Self::Probe(_) | Self::Shares(_) | Self::Estimate(_) => {
                return None;
            }
        };
        Some(make(&call))
    }
}

/// A [`Feedback`](giusto_congestion::Feedback) message that owns its packet reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Its packet reports.
    pub packets: Vec<PacketReport>,
    /// Round-trip time.
    pub rtt: Option<TimeDelta>,
    /// The receiver's estimate.
    pub receiver_estimate: Option<DataRate>,
    /// Losses from receiver reports.
    pub loss: Option<LossReport>,
    /// What the format carries that the others do not.
    pub extension: Option<Extension>,
    /// Bytes in flight after this message.
    pub in_flight: DataSize,
}

impl Message {
    /// As a controller takes it.
    pub fn feedback(&self) -> giusto_congestion::Feedback<'_> {
        giusto_congestion::Feedback::new(&self.packets, self.in_flight)
            .with_rtt(self.rtt)
            .with_receiver_estimate(self.receiver_estimate)
            .with_loss(self.loss)
            .with_extension(self.extension)
    }
}

impl From<&giusto_congestion::Feedback<'_>> for Message {
    fn from(feedback: &giusto_congestion::Feedback<'_>) -> Self {
        Self {
            packets: feedback.packets.to_vec(),
            rtt: feedback.rtt,
            receiver_estimate: feedback.receiver_estimate,
            loss: feedback.loss,
            extension: feedback.extension,
            in_flight: feedback.in_flight,
        }
    }
}
