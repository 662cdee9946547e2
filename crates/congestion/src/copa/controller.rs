//! The controller `copa`.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    competition::Competition, config::Config, delay::PathDelay, losses::Losses, usage::Usage,
    velocity::Velocity, window,
};
use crate::{
    acknowledgement::{MIN_PACING, PACKET_BOUNDS, ReportIntervals},
    controller::Controller,
    decided::Decided,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    limits::Limits,
    reordering::Reordering,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    scream::flight::Flight,
    target::{Cause, Signal, Target},
};

/// Copa: a window that moves towards the rate of 1/(δ dq) packets per second.
///
/// The media rate is window / standing RTT.
#[derive(Debug, Clone)]
pub struct Copa {
    config: Config,
    delay: PathDelay,
    competition: Competition,
    velocity: Velocity,
    usage: Usage,
    /// In bytes; `None` before the first acknowledgement.
    window: Option<f64>,
    is_slow_start: bool,
    /// Size of the largest packet so far.
    packet: f64,
    flight: Flight,
    reordering: Reordering,
    losses: Losses,
    intervals: ReportIntervals,
    decided: Decided,
    /// Whether the media rate is still to be derived from the window and the sender's queue.
    is_pending: bool,
    /// Time of the latest [`on_timeout`](Controller::on_timeout).
    processed: Timestamp,
}

impl Copa {
    /// What it requires of the sender and the receiver.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        pacer: PacerSettings::SINGLE,
        // The window may delay packets, as in SCReAM.
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_millis(400)) },
        sender_queue: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let config = Config { limits: config.limits.ordered(), ..config };
        Self {
            config,
            delay: PathDelay::default(),
            competition: Competition::new(config.delta),
            velocity: Velocity::new(),
            usage: Usage::default(),
            window: None,
            is_slow_start: true,
            packet: PACKET_BOUNDS.0,
            flight: Flight::default(),
            reordering: Reordering::default(),
            losses: Losses::default(),
            intervals: ReportIntervals::new(config.max_feedback_interval, config.used_period),
            decided: Decided::new(config.limits),
            is_pending: false,
            processed: Timestamp::ZERO,
        }
    }

    /// `dq`, the standing RTT above the minimum.
    #[cfg(test)]
    pub(crate) fn queueing_delay(&self) -> TimeDelta {
        self.delay.queueing()
    }

    /// Whether it competes with flows that fill the queue.
    #[cfg(test)]
    pub(crate) fn is_competitive(&self) -> bool {
        self.competition.is_competitive()
    }

    /// δ in its present mode.
    pub fn delta(&self) -> f64 {
        self.competition.delta()
    }

    /// Time until the effect of a change is known: the smoothed RTT and the interval of feedback.
    fn loop_time(&self) -> TimeDelta {
        self.delay.smoothed_rtt() + self.intervals.longest()
    }

    fn min_window(&self) -> f64 {
        self.config.min_window * self.packet
    }

    /// Handles a packet that has arrived, as if its acknowledgement came alone.
    fn on_acked(&mut self, acked: Timestamp, sent: &SentPacket) {
        let Some(rtt) = self.delay.standing_rtt() else { return };
        let seconds = rtt.as_seconds();
        let start = self.decided.target().as_bps() as f64 / 8.0 * seconds;
        let before = *self.window.get_or_insert(start.max(self.config.min_window * self.packet));
        let bytes = (sent.size.as_bytes() as f64).min(PACKET_BOUNDS.1);
        self.usage.on_acked(acked, bytes, rtt, self.config.used_period);
        if self.config.competes {
            let was_nearly_empty = self.delay.was_nearly_empty(&self.config);
            self.competition.update(acked, was_nearly_empty, self.loop_time());
        }
        let delta = self.competition.delta();
        let grows = before / seconds <= window::target_rate(self.packet, delta, self.delay.queueing());
        self.is_slow_start &= grows;
        // The part of a loop that is the RTT.
        let share = seconds / (seconds + self.intervals.longest().as_seconds());
        let change = if self.is_slow_start {
            bytes * share
        } else {
            self.velocity.on_acked(sent.sequence, before, self.config.steady_windows);
            let velocity = self.velocity.at_most(window::max_velocity(before, self.packet, delta));
            window::change(before, bytes * share, self.packet, velocity, delta)
        };
        let after = if grows { self.grown(before, change, seconds) } else { before - change };
        self.window = Some(after.max(self.min_window()));
        if self.is_slow_start {
            self.velocity.restart(after);
        }
    }

    /// The window increased by `change`, as far as the media use it and the maximum rate needs it. It does not fall.
    fn grown(&self, window: f64, change: f64, rtt: f64) -> f64 {
        if self.usage.bytes() < self.config.used_share * window {
            return window;
        }
        let needed = self.config.limits.max.as_bps() as f64 / 8.0 * rtt;
        (window + change).min(needed.max(window))
    }

    /// Sets the media rate: that of the window, less what drains the sender's queue of `queued` bytes.
    fn settle(&mut self, queued: f64) {
        let (Some(window), Some(rtt)) = (self.window, self.delay.standing_rtt()) else { return };
        let rate = window / rtt.as_seconds();
        let queueing = self.delay.queueing();
        let threshold = TimeDelta::from_seconds_f64(self.packet / (self.competition.delta() * rate));
        let signal = if queueing > threshold { Signal::OverUse } else { Signal::UnderUse };
        let cause =
            Cause::Delay { signal, trend_ms: queueing.as_millis(), threshold_ms: threshold.as_millis() };
        self.decided.settle(self.config.drain.media_rate(rate, queued) * 8.0, cause);
    }

    fn on_losses(&mut self, packets: &[PacketReport], now: Timestamp) {
        for packet in packets {
            self.reordering.on_packet(now, packet);
        }
        let lost = self.reordering.lost(now, self.delay.standing_rtt().unwrap_or(FIRST_RTT)).count();
        if self.config.competes && lost > 0 {
            self.competition.on_loss(now, self.loop_time());
        }
        self.losses.on_report(now, packets, lost, self.loop_time());
        let (Some(carried), Some(rtt)) = (self.losses.carried, self.delay.standing_rtt()) else { return };
        let (most, min) = (carried * rtt.as_seconds(), self.min_window());
        if let Some(window) = self.window.as_mut().filter(|window| **window > most) {
            *window = most.max(min);
        }
    }
}

/// RTT before the first sample, for the reordering window.
const FIRST_RTT: TimeDelta = TimeDelta::from_millis(100);

impl Controller for Copa {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.decided.advance(now);
        let (min, max) = PACKET_BOUNDS;
        self.packet = self.packet.max(packet.size.as_bytes() as f64).clamp(min, max);
        self.flight.on_sent(now, packet);
        self.velocity.on_sent(packet.sequence);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.decided.advance(now);
        if feedback.packets.is_empty() {
            return;
        }
        self.flight.on_feedback(now, feedback);
        self.intervals.on_report(now);
        self.on_losses(feedback.packets, now);
        if !self.delay.on_report(now, &self.config, self.intervals.longest(), feedback.packets) {
            return;
        }
        for packet in feedback.packets {
            if let Some(arrival) = packet.arrival {
                self.flight.on_arrival(now, &packet.sent);
                let acked = self.delay.on_packet(now, &self.config, packet.sent.at, arrival);
                self.on_acked(acked, &packet.sent);
            }
        }
        self.is_pending = true;
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.decided.advance(now);
        self.processed = now;
        if core::mem::take(&mut self.is_pending) {
            self.settle(queue.size.as_bytes() as f64);
        }
        if self.flight.gives_up(now) {
            let min = self.min_window();
            if let Some(window) = &mut self.window {
                *window = (*window / 2.0).max(min);
                self.velocity.restart(*window);
            }
            self.decided.settle(self.decided.target().as_bps() as f64 / 2.0, Cause::Silence);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let due = if self.is_pending { Some(self.processed) } else { self.flight.deadline() };
        self.decided.next_timeout(due)
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits.ordered();
        if self.decided.on_limits(now, limits) {
            let min = self.min_window();
            if let (Some(window), Some(rtt)) = (&mut self.window, self.delay.standing_rtt()) {
                let needed = self.config.limits.max.as_bps() as f64 / 8.0 * rtt.as_seconds();
                *window = window.min(needed).max(min);
            }
        } else {
            *self = Self::new(self.config);
        }
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((_, decided)) = self.decided.on_route_change(now, self.config.limits) {
            let (packet, processed) = (self.packet, self.processed);
            *self = Self { packet, decided, processed, ..Self::new(self.config) };
        }
    }

    fn target(&self) -> Target {
        let media = self.decided.target();
        let rate = media.as_bps() as f64 / 8.0;
        let (pacing, window) = match (self.window, self.delay.standing_rtt()) {
            _ if self.flight.is_silent() => (rate, self.min_window()),
            (Some(window), Some(rtt)) => {
                let paced = self.config.pacing_gain * window / rtt.as_seconds();
                (paced, window + window / rtt.as_seconds() * self.intervals.longest().as_seconds())
            }
            // Nothing is known: an RTT of a second (RFC 6298 §2.1).
            _ => (self.config.pacing_gain * rate, rate),
        };
        Target {
            media,
            pacing: DataRate::from_bps((pacing * 8.0) as u64).max(media).max(MIN_PACING),
            padding: DataRate::ZERO,
            window: Some(self.flight.window(window.max(self.min_window()))),
        }
    }

    crate::controller::answers!(decided);
}
