//! The input and the output of a controller, for a recording.
//!
//! [`Logged`] wraps any controller: it passes every call on and reports it to a [`Log`]. A recording of these calls replays exactly,
//! because a controller depends on nothing else.
//!
//! # Example
//!
//! ```
//! use giusto_congestion::{Algorithm, Controller, Limits, Probe, QueueState, log::{Answer, Call, Log, Logged}};
//! use giusto_units::Timestamp;
//!
//! #[derive(Debug, Default)]
//! struct Print;
//!
//! impl Log for Print {
//!     fn on_call(&mut self, now: Timestamp, call: &Call<'_>) {
//!         println!("{now:?} {call:?}");
//!     }
//!     fn on_answer(&mut self, now: Timestamp, answer: &Answer<'_>) {
//!         println!("{now:?} {answer:?}");
//!     }
//!     fn on_probe(&mut self, now: Timestamp, probe: &Probe) {
//!         println!("{now:?} {probe:?}");
//!     }
//! }
//!
//! let controller = "gcc:libwebrtc".parse::<Algorithm>()?.build(Limits::default());
//! let mut controller = Logged::new(controller, Box::new(Print));
//! controller.on_timeout(Timestamp::ZERO, &QueueState::default());
//! # Ok::<(), giusto_congestion::UnknownAlgorithm>(())
//! ```

use alloc::boxed::Box;

use giusto_units::{DataRate, Timestamp};

use crate::{
    controller::Controller,
    feedback::{Feedback, QueueState, SentPacket, StreamState},
    limits::Limits,
    requirements::Requirements,
    target::{Decision, Probe, Target},
};

/// A call of a controller that gives it information.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Call<'a> {
    /// [`Controller::on_sent`].
    Sent(SentPacket),
    /// [`Controller::on_feedback`].
    Feedback(Feedback<'a>),
    /// [`Controller::on_timeout`], with the sender's queue.
    Timeout(QueueState),
    /// [`Controller::on_streams`].
    Streams(&'a [StreamState]),
    /// [`Controller::set_limits`].
    Limits(Limits),
    /// [`Controller::on_route_change`].
    RouteChange,
}

impl Call<'_> {
    /// Makes this call.
    pub fn make(&self, now: Timestamp, controller: &mut dyn Controller) {
        match self {
            Self::Sent(packet) => controller.on_sent(now, packet),
            Self::Feedback(feedback) => controller.on_feedback(now, feedback),
            Self::Timeout(queue) => controller.on_timeout(now, queue),
            Self::Streams(streams) => controller.on_streams(now, streams),
            Self::Limits(limits) => controller.set_limits(now, *limits),
            Self::RouteChange => controller.on_route_change(now),
        }
    }
}

/// The state of a controller that the sender reads after a call.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Answer<'a> {
    /// [`Controller::target`].
    pub target: Target,
    /// [`Controller::decision`].
    pub decision: Decision,
    /// [`Controller::stream_targets`].
    pub stream_targets: &'a [DataRate],
}

impl<'a> Answer<'a> {
    /// The answer of `controller` now.
    pub fn of(controller: &'a dyn Controller) -> Self {
        let (target, decision) = (controller.target(), *controller.decision());
        Self { target, decision, stream_targets: controller.stream_targets() }
    }
}

/// Receives the calls of a controller and its answers, in order.
pub trait Log: Send + Sync + core::fmt::Debug {
    /// Handles a call, before the controller handles it.
    fn on_call(&mut self, now: Timestamp, call: &Call<'_>);

    /// Handles the answer to the call before, whether or not it has changed.
    fn on_answer(&mut self, now: Timestamp, answer: &Answer<'_>);

    /// Handles a probe that the sender took. `now` is the time of the latest call.
    fn on_probe(&mut self, now: Timestamp, probe: &Probe);
}

/// A controller whose calls and answers are reported to a [`Log`]. Its behaviour is that of the controller inside.
#[derive(Debug)]
pub struct Logged {
    controller: Box<dyn Controller>,
    log: Box<dyn Log>,
    now: Timestamp,
}

impl Logged {
    /// Reports the calls of `controller` to `log`.
    pub fn new(controller: Box<dyn Controller>, log: Box<dyn Log>) -> Self {
        Self { controller, log, now: Timestamp::ZERO }
    }

    fn call(&mut self, now: Timestamp, call: &Call<'_>) {
        self.now = now;
        self.log.on_call(now, call);
        call.make(now, self.controller.as_mut());
        self.log.on_answer(now, &Answer::of(self.controller.as_ref()));
    }
}

impl Controller for Logged {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        self.call(now, &Call::Sent(*packet));
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        self.call(now, &Call::Feedback(*feedback));
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        self.call(now, &Call::Timeout(*queue));
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.controller.next_timeout()
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.call(now, &Call::Limits(limits));
    }

    fn on_route_change(&mut self, now: Timestamp) {
        self.call(now, &Call::RouteChange);
    }

    fn target(&self) -> Target {
        self.controller.target()
    }

    fn requirements(&self) -> Requirements {
        self.controller.requirements()
    }

    fn next_probe(&mut self) -> Option<Probe> {
        let probe = self.controller.next_probe()?;
        self.log.on_probe(self.now, &probe);
        Some(probe)
    }

    fn frame_drop_interval(&self) -> Option<u32> {
        self.controller.frame_drop_interval()
    }

    fn on_streams(&mut self, now: Timestamp, streams: &[StreamState]) {
        self.call(now, &Call::Streams(streams));
    }

    fn stream_targets(&self) -> &[DataRate] {
        self.controller.stream_targets()
    }

    fn decision(&self) -> &Decision {
        self.controller.decision()
    }

    /// The controller inside, without the log: a log is of one controller.
    fn clone_box(&self) -> Box<dyn Controller> {
        self.controller.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::prelude::*;

    #[derive(Debug, Clone, Default)]
    struct Count(Arc<Mutex<(u64, u64, u64)>>);

    impl Log for Count {
        fn on_call(&mut self, _now: Timestamp, _call: &Call<'_>) {
            self.0.lock().unwrap().0 += 1;
        }

        fn on_answer(&mut self, _now: Timestamp, _answer: &Answer<'_>) {
            self.0.lock().unwrap().1 += 1;
        }

        fn on_probe(&mut self, _now: Timestamp, _probe: &Probe) {
            self.0.lock().unwrap().2 += 1;
        }
    }

    /// Lets a copy go on, and tells the original of another route.
    #[derive(Debug)]
    struct Copied(Box<dyn Controller>);

    impl Log for Copied {
        fn on_call(&mut self, now: Timestamp, call: &Call<'_>) {
            let copy = self.0.clone();
            let mut original = std::mem::replace(&mut self.0, copy);
            original.on_route_change(now);
            call.make(now, self.0.as_mut());
        }

        fn on_answer(&mut self, _now: Timestamp, answer: &Answer<'_>) {
            assert_eq!(Answer::of(self.0.as_ref()), *answer);
        }

        fn on_probe(&mut self, _now: Timestamp, probe: &Probe) {
            assert_eq!(self.0.next_probe().as_ref(), Some(probe));
        }
    }

    #[test]
    fn a_copy_has_the_whole_state_and_shares_nothing() {
        for algorithm in Algorithm::all() {
            let reports_only = ["gcc:remb", "gcc:rmcat-02"].contains(&algorithm.name());
            let scenario = Scenario { seconds: 10, reports_only, ..Scenario::default() };
            let build = || algorithm.build(scenario.limits);
            let logged = Logged::new(build(), Box::new(Copied(build())));
            let outcome = run_with(Box::new(logged), algorithm, scenario);
            assert!(algorithm.name() == "fixed" || outcome.decisions.len() > 1, "{algorithm}");
        }
    }

    #[test]
    fn a_logged_controller_behaves_as_the_one_inside() {
        let scenario = Scenario { seconds: 10, ..Scenario::default() };
        for algorithm in Algorithm::all() {
            let run = |controller| run_with(controller, algorithm, scenario);
            let plain = run(algorithm.build(scenario.limits));
            let count = Count::default();
            let logged = Logged::new(algorithm.build(scenario.limits), Box::new(count.clone()));
            assert_eq!(logged.requirements(), algorithm.requirements());
            let logged = run(Box::new(logged));
            assert_eq!(format!("{plain:?}"), format!("{logged:?}"), "{algorithm}");
            let (calls, answers, probes) = *count.0.lock().unwrap();
            assert!(calls > 500 && calls == answers, "{algorithm}: {calls} calls, {answers} answers");
            assert_eq!(probes > 0, algorithm.name().starts_with("gcc:libwebrtc"), "{algorithm}: {probes}");
        }
    }
}
