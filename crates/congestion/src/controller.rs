//! The interface of a congestion controller.

use alloc::boxed::Box;

use giusto_units::{DataRate, Timestamp};

use crate::{
    feedback::{Feedback, QueueState, SentPacket, StreamState},
    limits::Limits,
    requirements::Requirements,
    target::{Decision, Probe, Target},
};

/// Congestion control as a state machine.
///
/// A controller reads no clock, draws no random numbers and sends nothing. Calls in any order are safe; time that runs backwards is
/// taken as the latest time of an earlier call; the work of a call is bounded by its arguments.
///
/// The session begins with the first call, usually [`on_timeout`](Self::on_timeout). After each call, read
/// [`target`](Self::target), [`next_probe`](Self::next_probe) and [`next_timeout`](Self::next_timeout) again.
///
/// `Box<dyn Controller>` is `Clone`.
pub trait Controller: Send + Sync + core::fmt::Debug {
    /// Handles a packet that has left.
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket);

    /// Handles feedback from the receiver. While packets arrive, it should come at least every 0.5 s: `tempo` and `scream:v2` take a
    /// longer interval for an outage, and reduce their rate.
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>);

    /// Handles the deadline of [`next_timeout`](Self::next_timeout). `queue` is the sender's queue.
    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState);

    /// The latest time at which [`on_timeout`](Self::on_timeout) must be called.
    fn next_timeout(&self) -> Option<Timestamp>;

    /// Sets new limits. A target outside them moves to the nearest limit at once. [`Limits::start`] takes effect before the session
    /// begins, and after a route change.
    fn set_limits(&mut self, now: Timestamp, limits: Limits);

    /// Handles a change of the route, for example from Wi-Fi to cellular: estimates of the path are reset, and the target returns
    /// to [`Limits::start`]. Packets sent before must not be reported afterwards, which
    /// [`History::on_route_change`](crate::history::History::on_route_change) ensures.
    fn on_route_change(&mut self, now: Timestamp);

    /// What the controller may send now.
    fn target(&self) -> Target;

    /// The requirements of the controller. They are constant during a session. Default:
    /// [`Requirements::DEFAULT`].
    fn requirements(&self) -> Requirements {
        Requirements::DEFAULT
    }

    /// Takes the next probe to send. Returns `None` when there are no more. Default: no probes.
    fn next_probe(&mut self) -> Option<Probe> {
        None
    }

    /// The controller asks to drop one frame in this number, because too much data is in flight or queued. The target is unchanged.
    /// 1: drop every frame. `None` (default): drop none.
    fn frame_drop_interval(&self) -> Option<u32> {
        None
    }

    /// Handles the state of the sender's streams, before each [`on_timeout`](Self::on_timeout) and always in the same order. Ignored by
    /// default.
    fn on_streams(&mut self, _now: Timestamp, _streams: &[StreamState]) {}

    /// Share of [`Target::media`] of each stream, headers included, in the order of
    /// [`on_streams`](Self::on_streams). Empty (the default) if the controller does not control the rate of
    /// each stream: then the sender divides the target by priority.
    fn stream_targets(&self) -> &[DataRate] {
        &[]
    }

    /// The latest decision and its cause. A change of the target makes a new one; so does a suppressed probe.
    fn decision(&self) -> &Decision;

    /// A copy in the same state. Later calls to one do not change the other. For a type that is `Clone`:
    /// `Box::new(self.clone())`.
    fn clone_box(&self) -> Box<dyn Controller>;
}

/// What most controllers answer alike, where `$state` is what holds the decision, or is it.
macro_rules! answers {
    ($state:ident) => {
        fn requirements(&self) -> $crate::Requirements {
            Self::REQUIREMENTS
        }

        $crate::controller::answers!($state, with its own requirements);
    };
    (decision, with its own requirements) => {
        fn decision(&self) -> &$crate::Decision {
            &self.decision
        }

        $crate::controller::answers!();
    };
    ($state:ident, with its own requirements) => {
        fn decision(&self) -> &$crate::Decision {
            self.$state.decision()
        }

        $crate::controller::answers!();
    };
    () => {
        fn clone_box(&self) -> alloc::boxed::Box<dyn $crate::Controller> {
            alloc::boxed::Box::new(self.clone())
        }
    };
}
pub(crate) use answers;

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.as_ref().clone_box()
    }
}
