//! What the first two generations measure of the path, in the same way: the queueing delay with its target, the RTT, losses and marks.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    competing::DelayTarget,
    flight::Flight,
    follow::{Enough, Follow, Path},
    losses::Losses,
    queue_delay::QueueDelay,
};
use crate::{
    feedback::{Feedback, PacketReport},
    target::{Cause, Signal, Target},
};

/// RTT before the first measurement, for events that are counted once per RTT.
const FIRST_RTT: f64 = 0.1;

/// The state of the path.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub(super) flight: Flight,
    pub(super) losses: Losses,
    pub(super) follow: Follow,
    queue_delay: QueueDelay,
    /// The queueing delay (`owd` of the draft, `qdelay` of RFC 8298), in seconds.
    pub(super) delay: f64,
    delay_target: DelayTarget,
}

/// Content of a feedback message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    /// Bytes that are no longer in flight.
    pub(super) bytes: DataSize,
    /// Share of marked packets, if there are any.
    pub(super) marks: Option<f64>,
    /// The received rate and the window for it, if the queueing delay is above its target; at most once per RTT.
    pub(super) enough: Option<Enough>,
}

impl Observed {
    /// Before the first packet, with the minimum and the maximum of the delay target.
    pub(super) fn new(targets: [TimeDelta; 2], compensate: bool, evidence: Option<f64>) -> Self {
        let [min, max] = targets.map(TimeDelta::as_seconds);
        Self { delay_target: DelayTarget::new(min, max, compensate, evidence), ..Self::default() }
    }

    /// Handles a message after its packets were given to [`Follow::on_packet`]. It gives one sample of the queueing delay: of the
    /// highest packet (RFC 8298 §4.1.2), unless that is late.
    pub(super) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) -> Report {
        let bytes = self.flight.on_feedback(now, feedback);
        self.losses.on_packets(now, feedback.packets);
        let size = arrived(feedback).fold(DataSize::ZERO, |size, (packet, _)| size + packet.sent.size);
        self.follow.on_arrived(now, size);
        let mut enough = None;
        if let Some((packet, arrival)) = highest(feedback)
            && self.flight.on_arrival(now, &packet.sent)
        {
            self.delay = self.queue_delay.on_packet(now, packet.sent.at, arrival).as_seconds();
            let rtt = now.saturating_since(packet.sent.at).as_seconds();
            let path = Path { rtt, delay: self.delay, delay_target: self.delay_target() };
            enough = self.follow.on_delay(now, &path);
        }
        let marks = arrived(feedback).filter(|(packet, _)| packet.ecn == Ecn::Ce).count();
        let marks = (marks > 0).then(|| marks as f64 / feedback.packets.len() as f64);
        Report { bytes, marks, enough }
    }

    /// Adapts the delay target after a message.
    pub(super) fn adapt(&mut self) {
        self.delay_target.on_sample(self.delay, self.losses.event_rate());
    }

    /// The smoothed RTT, in seconds.
    pub(super) fn rtt(&self) -> f64 {
        self.flight.rtt().unwrap_or(FIRST_RTT)
    }

    /// The target of the queueing delay, in seconds.
    pub(super) fn delay_target(&self) -> f64 {
        self.delay_target.seconds()
    }

    /// The cause of an increase.
    pub(super) fn cause(&self) -> Cause {
        let (trend_ms, threshold_ms) = (self.delay * 1e3, self.delay_target() * 1e3);
        Cause::Delay { signal: Signal::Normal, trend_ms, threshold_ms }
    }

    /// The target at a media rate, with at most `allowed` bytes in flight: paced at one window per RTT (§9.1.2 of the draft, §4.1.2.6 of
    /// RFC 8298), or at the media rate until the RTT is known.
    pub(super) fn target(&self, media: DataRate, min_pacing: DataRate, window: f64, allowed: f64) -> Target {
        let pacing = self.flight.rtt().map_or(media, |rtt| DataRate::from_bps((window * 8.0 / rtt) as u64));
        Target {
            media,
            pacing: pacing.max(min_pacing),
            padding: DataRate::ZERO,
            window: Some(self.flight.window(allowed)),
        }
    }
}

/// The packets of a message that arrived, and when.
pub(super) fn arrived<'a>(
    feedback: &Feedback<'a>,
) -> impl Iterator<Item = (&'a PacketReport, PeerTimestamp)> {
    feedback.packets.iter().filter_map(|packet| Some((packet, packet.arrival?)))
}

/// The highest of them.
pub(super) fn highest<'a>(feedback: &Feedback<'a>) -> Option<(&'a PacketReport, PeerTimestamp)> {
    arrived(feedback).max_by_key(|(packet, _)| packet.sent.sequence)
}
