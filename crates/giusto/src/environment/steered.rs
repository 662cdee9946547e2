//! The sender's side of an environment: the controller, and what it sees.

use std::sync::{Arc, Mutex, PoisonError};

use giusto_congestion::{
    Cause, Controller, Decision, Feedback, Limits, Probe, QueueState, Requirements, SentPacket, Target,
    log::{Answer, Call, Log, Logged},
};
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    episodes::REQUIREMENTS,
    observation::{self, Observation, scale},
};
use crate::run::{MediaFlow, Taps};

/// Pacing over target rate, in halves: `kDefaultPaceMultiplier` of libwebrtc, 2.5
/// (`modules/congestion_controller/goog_cc/goog_cc_network_control.h`).
const PACING: u64 = 5;

/// Arrivals that span less than this do not tell a rate.
const SPAN: TimeDelta = TimeDelta::from_millis(20);

/// What controller and environment share: what the sender saw, and the target.
pub(super) type Shared = Arc<Mutex<Seen>>;

/// What the sender saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The target of the actions.
    pub(super) action: DataRate,
    /// When it takes effect, and the end of the step.
    pub(super) from: Option<Timestamp>,
    pub(super) until: Timestamp,
    /// Limits of the call.
    limits: Limits,
    /// The target of the controller.
    pub(super) target: DataRate,
    sent: DataSize,
    received: DataSize,
    packets: u64,
    lost: u64,
    marked: u64,
    delays: TimeDelta,
    longest: TimeDelta,
    /// The mean of the queueing delay of the step before.
    before: f64,
    /// The shortest delay since the route last changed; clocks differ, so only differences count.
    shortest: Option<TimeDelta>,
    rtt: Option<TimeDelta>,
    /// The latest arrival, now and at the end of the last step that had a rate.
    latest: Option<PeerTimestamp>,
    latest_before: Option<PeerTimestamp>,
    received_rate: f64,
    queue: TimeDelta,
    heard: Option<Timestamp>,
}

impl Seen {
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        self.heard = Some(now);
        for report in feedback.packets {
            self.packets += 1;
            let Some(arrival) = report.arrival else {
                self.lost += 1;
                continue;
            };
            self.received += report.sent.size;
            self.marked += u64::from(report.ecn == giusto_units::Ecn::Ce);
            let delay = TimeDelta::ZERO - arrival.apparent_delay(report.sent.at);
            let shortest = self.shortest.map_or(delay, |shortest| shortest.min(delay));
            self.shortest = Some(shortest);
            self.delays += delay - shortest;
            self.longest = self.longest.max(delay - shortest);
            let rtt = now - report.sent.at;
            self.rtt = Some(self.rtt.map_or(rtt, |own| own.min(rtt)));
            if self.latest_before.is_none() {
                self.latest_before = Some(arrival);
            }
            self.latest = self.latest.max(Some(arrival));
        }
    }

    fn on_route_change(&mut self) {
        (self.shortest, self.rtt) = (None, None);
    }

    /// What the sender knows at `now`, the end of a step that began at `began`; begins the next step.
    pub(super) fn observe(&mut self, began: Timestamp, now: Timestamp) -> Observation {
        let arrived = self.packets - self.lost;
        let share = |part: u64, all: u64| if all > 0 { part as f64 / all as f64 } else { 0.0 };
        let delay = if arrived > 0 { self.delays.as_seconds() / arrived as f64 } else { self.before };
        if arrived == 0 {
            self.received_rate = 0.0;
        } else if let (Some(from), Some(to)) = (self.latest_before, self.latest)
            && to - from >= SPAN
        {
            self.received_rate = self.received.as_bits() as f64 / (to - from).as_seconds();
            (self.latest_before, self.received) = (Some(to), DataSize::ZERO);
        }
        let seconds = (now - began).as_seconds();
        let sent = if seconds > 0.0 { self.sent.as_bits() as f64 / seconds } else { 0.0 };
        let silent = self.heard.map_or(TimeDelta::ZERO, |heard| now - heard);
        let observation = observation::observation([
            scale(self.target.as_bps() as f64),
            scale(sent),
            scale(self.received_rate),
            scale(self.limits.max.as_bps() as f64),
            delay,
            self.longest.as_seconds(),
            delay - self.before,
            self.rtt.map_or(0.0, TimeDelta::as_seconds),
            share(self.lost, self.packets),
            share(self.marked, arrived),
            self.queue.as_seconds(),
            silent.as_seconds(),
        ]);
        self.before = delay;
        (self.sent, self.packets, self.lost, self.marked) = (DataSize::ZERO, 0, 0, 0);
        (self.delays, self.longest) = (TimeDelta::ZERO, TimeDelta::ZERO);
        observation
    }
}

/// What the sender of a call sees, as the observations of an [`Environment`](super::Environment): for a trained policy elsewhere.
///
/// Its calls are those of a [`Controller`].
#[derive(Debug, Clone)]
pub struct Observer(Seen);

impl Observer {
    /// An observer of a call with these limits.
    pub fn new(limits: Limits) -> Self {
        Self(Seen { limits: limits.ordered(), ..Seen::default() })
    }

    /// Notes a packet that was sent.
    pub fn on_sent(&mut self, packet: &SentPacket) {
        self.0.sent += packet.size;
    }

    /// Notes feedback.
    pub fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        self.0.on_feedback(now, feedback);
    }

    /// Notes new limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.0.limits = limits.ordered();
    }

    /// Forgets the delays of the old route.
    pub fn on_route_change(&mut self) {
        self.0.on_route_change();
    }

    /// What the sender knows at `now`, the end of a step that began at `began`, with this target and this age of its oldest queued packet;
    /// begins the next step.
    pub fn observe(
        &mut self,
        began: Timestamp,
        now: Timestamp,
        target: DataRate,
        oldest: TimeDelta,
    ) -> Observation {
        (self.0.target, self.0.queue) = (target, oldest);
        self.0.observe(began, now)
    }
}

/// Access to what is shared.
pub(super) fn with<R>(shared: &Shared, call: impl FnOnce(&mut Seen) -> R) -> R {
    call(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Gives one flow its controller.
pub(super) struct Steer<'a> {
    pub(super) flow: &'a str,
    pub(super) shared: &'a Shared,
    /// Whether the actions set the target.
    pub(super) acts: bool,
}

impl Taps for Steer<'_> {
    fn controller(&mut self, flow: MediaFlow<'_>, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        if flow.name != self.flow {
            return controller;
        }
        let limits = flow.spec.limits.ordered();
        with(self.shared, |seen| {
            seen.limits = limits;
            seen.target = controller.target().media;
        });
        let shared = self.shared.clone();
        if self.acts {
            Box::new(Steered::new(limits, shared))
        } else {
            Box::new(Logged::new(controller, Box::new(Seeing(shared))))
        }
    }
}

/// A controller whose target the actions set.
#[derive(Debug)]
struct Steered {
    limits: Limits,
    decision: Decision,
    shared: Shared,
}

impl Steered {
    fn new(limits: Limits, shared: Shared) -> Self {
        let decision = Decision::new(Timestamp::ZERO, limits.start, Cause::Start);
        Self { limits, decision, shared }
    }

    fn set(&mut self, now: Timestamp, rate: DataRate, cause: Cause) {
        let to = rate.clamp(self.limits.min, self.limits.max);
        if to != self.decision.to {
            self.decision = Decision::new(now, to, cause).with_from(self.decision.to);
        }
    }
}

impl Controller for Steered {
    fn on_sent(&mut self, _now: Timestamp, packet: &SentPacket) {
        with(&self.shared, |seen| seen.sent += packet.size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        with(&self.shared, |seen| seen.on_feedback(now, feedback));
    }

    /// At the end of a step, where the simulation stops, the state of the queue is taken; right afterwards the next action is.
    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let shared = self.shared.clone();
        with(&shared, |seen| {
            seen.queue = queue.oldest;
            if seen.from.is_some_and(|from| from <= now) {
                seen.from = None;
                self.set(now, seen.action, Cause::Unstated);
                seen.target = self.decision.to;
            }
            if seen.until <= now && seen.from.is_none() {
                seen.from = Some(seen.until.max(now) + AFTER);
            }
        });
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        with(&self.shared, |seen| Some(seen.from.unwrap_or(seen.until)))
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.limits = limits.ordered();
        self.set(now, self.decision.to, Cause::Limit);
        with(&self.shared, |seen| (seen.limits, seen.target) = (self.limits, self.decision.to));
    }

    fn on_route_change(&mut self, _now: Timestamp) {
        with(&self.shared, Seen::on_route_change);
    }

    fn target(&self) -> Target {
        let media = self.decision.to;
        Target::new(media, DataRate::from_bps(media.as_bps() * PACING / 2))
    }

    fn requirements(&self) -> Requirements {
        REQUIREMENTS
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    /// A copy that the actions no longer reach.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { shared: Arc::new(Mutex::new(with(&self.shared, |seen| seen.clone()))), ..*self })
    }
}

/// The next instant: an action takes effect right after the end of a step.
pub(super) const AFTER: TimeDelta = TimeDelta::from_nanos(1);

/// Keeps what an observation needs of a controller's inputs.
#[derive(Debug)]
struct Seeing(Shared);

impl Log for Seeing {
    fn on_call(&mut self, now: Timestamp, call: &Call<'_>) {
        with(&self.0, |seen| match call {
            Call::Sent(packet) => seen.sent += packet.size,
            Call::Feedback(feedback) => seen.on_feedback(now, feedback),
            Call::Timeout(queue) => seen.queue = queue.oldest,
            Call::Limits(limits) => seen.limits = limits.ordered(),
            Call::RouteChange => seen.on_route_change(),
            _ => {}
        });
    }

    fn on_answer(&mut self, _now: Timestamp, answer: &Answer<'_>) {
        with(&self.0, |seen| seen.target = answer.target.media);
    }

    fn on_probe(&mut self, _now: Timestamp, _probe: &Probe) {}
}
