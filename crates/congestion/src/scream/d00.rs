//! `scream:d00`: Self-Clocked Rate Adaptation for Multimedia as it was first described, draft-johansson-rmcat-scream-cc-00 (June
//! 2014), as it is meant: to the letter it does not run.
//!
//! | part | section | file |
//! |---|---|---|
//! | constants | §9.1.2 to §9.1.6 | `config.rs` |
//! | the congestion window and its validation | §9.1.4, §3.1 | `window.rs` |
//! | the delay target among flows that compete | §3.1 | `../competing.rs`, as in RFC 8298 |
//! | the media rate | §9.1.6 | `media_rate.rs` |
//! | one for each source | §3, Figure 2 | `streams.rs` |
//! | lost packets | §9.1.3, `isLossEvent` | `../losses.rs`, as in RFC 8298 |
//! | the message | §3, Figure 1 | [`ScreamFeedback`](giusto_rtp::rtcp::ScreamFeedback) |
//! | when it leaves | §9.2.1, §10 | the receiver |
//! | packets that wait, and frames that are too old | §9.1.1, §3.3 | the sender; see [`ScreamD00::REQUIREMENTS`] |
//!
//! # What is repaired
//!
//! `docs/scream-d00.md` has the list: 29 defects of the pseudo-code, and what the draft names and does not describe, each with the
//! repair. What it names: fast start (the window grows by what is acknowledged until the delay exceeds a fifth of its target),
//! adjustment to competing flows ([`D00Config::compensate`]), congestion window validation (`window.rs`), frame skipping and discarding
//! (the sender's), ECN echo (a mark counts as a loss event), source quench (the same), and priorities.
//!
//! # Variant
//!
//! `scream:d00+giusto` ([`D00Config::giusto`]) has the two changes of
//! [`scream:rfc8298+giusto`](crate::scream::rfc8298#variant): the window follows the received rate while the queueing delay is above
//! its target, since §1.1 wants a reaction within a round-trip time and the draft's window falls by a packet or two in one; and the
//! delay target rises on evidence.
//!
//! # Deviations
//!
//! - `bytesInFlight + size < cwnd` is ≤ here.
//! - The media rate is not changed while there is nothing to send.

mod config;
mod media_rate;
mod streams;
mod window;

pub use config::D00Config;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use self::{
    streams::MediaRates,
    window::{Acknowledged, Window},
};
use super::{
    competing::DelayTarget,
    decided::Decided,
    flight::Flight,
    follow::{Follow, Path},
    losses::Losses,
    queue_delay::QueueDelay,
};
use crate::{
    controller::Controller,
    feedback::{Feedback, QueueState, SentPacket, StreamState},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Decision, Signal, Target},
};

/// It wants to be woken no more often than this, however short a frame is.
const SHORTEST: TimeDelta = TimeDelta::from_millis(25);
/// A change of what the streams can use is a decision from this share of the target on.
pub(super) const NOTICED: f64 = 0.01;
/// Taken as the round trip before one is known, for what is counted once in a round trip.
const FIRST_ROUND_TRIP: f64 = 0.1;

/// SCReAM as draft-johansson-rmcat-scream-cc-00 means it.
///
/// In [`Cause::Delay`] the trend is the queue delay, and the threshold its target.
#[derive(Debug, Clone)]
pub struct ScreamD00 {
    config: D00Config,
    decided: Decided,
    flight: Flight,
    losses: Losses,
    queue_delay: QueueDelay,
    /// `owd`, in seconds.
    delay: f64,
    delay_target: DelayTarget,
    follow: Follow,
    window: Window,
    media: MediaRates,
    /// When the window was last lowered by an event, whichever.
    lowered: Option<Timestamp>,
    processed: Timestamp,
}

impl ScreamD00 {
    /// Its requirements. Frames are skipped while the oldest packet has waited 100 ms (§10). What is "too old to be rendered in a
    /// meaningful way", for which the draft has no number, is discarded after 400 ms, the limit of the one-way delay that ITU-T G.114
    /// gives for planning.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::ScreamDraft,
        accepted: &[FeedbackKind::TransportWide, FeedbackKind::CongestionControl, FeedbackKind::ScreamDraft],
        pacer: PacerSettings::SINGLE,
        staleness: Staleness {
            skip_after: Some(TimeDelta::from_millis(100)),
            discard_after: Some(TimeDelta::from_millis(400)),
        },
        delay_target: true,
        receiver_limit: true,
    };

    /// With nothing sent.
    pub fn new(config: D00Config) -> Self {
        let decided = Decided::new(config.limits);
        let start = decided.target().as_bps() as f64;
        let media = MediaRates::new(config, decided.limits(), start);
        let (least, most) = (config.delay_target.as_seconds(), config.delay_target_most.as_seconds());
        Self {
            config,
            decided,
            flight: Flight::default(),
            losses: Losses::default(),
            queue_delay: QueueDelay::default(),
            delay: 0.0,
            follow: Follow::default(),
            delay_target: DelayTarget::new((least, most), config.compensate, config.evidence),
            window: Window::new(config),
            media,
            lowered: None,
            processed: Timestamp::ZERO,
        }
    }

    /// How long packets queue on the path.
    pub fn queue_delay(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.delay)
    }

    /// How long they should at most.
    pub fn queue_delay_target(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.delay_target.seconds())
    }

    /// The congestion window.
    pub fn congestion_window(&self) -> DataSize {
        DataSize::from_bytes(self.window.bytes() as u64)
    }

    /// Whether it is in fast start.
    pub fn is_in_fast_start(&self) -> bool {
        self.window.is_fast()
    }

    /// Lowers the window to the received rate while the queueing delay is above its target. What it holds back waits at the sender, to
    /// which the media rates react.
    fn follow(&mut self, now: Timestamp, round_trip: TimeDelta) {
        let (round_trip, delay_target) = (round_trip.as_seconds(), self.delay_target.seconds());
        let path = Path { round_trip, delay: self.delay, delay_target };
        if let Some(enough) = self.follow.on_delay(now, &path).filter(|_| self.config.follow) {
            self.window.follow(enough.window);
        }
    }

    fn round_trip(&self) -> f64 {
        self.flight.round_trip().unwrap_or(FIRST_ROUND_TRIP)
    }

    /// Reacts to losses, marks or source quench if a reaction is due. Returns whether it did.
    fn on_congestion(&mut self, now: Timestamp, marks: Option<f64>, quench: bool) -> bool {
        let round_trip = self.round_trip();
        // Once in a round trip, whatever it is (§9.1.3, RFC 3168 §6.1.2).
        let recent = self.lowered.is_some_and(|last| now.saturating_since(last).as_seconds() < round_trip);
        let cause = match (self.losses.event(now, round_trip), marks) {
            _ if recent => return false,
            (Some(ratio), _) => Cause::Loss { ratio },
            (None, Some(ratio)) => Cause::Marks { ratio },
            _ if quench => Cause::SourceQuench,
            _ => return false,
        };
        self.lowered = Some(now);
        self.window.on_loss();
        self.media.on_loss();
        self.decided.settle(self.media.bps(), cause);
        true
    }
}

impl Controller for ScreamD00 {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.decided.advance(now);
        self.flight.on_sent(now, packet);
        self.window.on_sent(packet.size);
        self.media.on_sent();
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.decided.advance(now);
        if feedback.packets.is_empty() {
            if feedback.quench {
                self.on_congestion(now, None, true);
            }
            return;
        }
        let in_flight = self.flight.bytes();
        self.window.on_in_flight(now, in_flight, self.round_trip());
        let bytes = self.flight.on_feedback(now, feedback);
        self.losses.on_packets(now, feedback.packets);
        let arrived = || feedback.packets.iter().filter_map(|packet| Some((packet, packet.arrival?)));
        let size = arrived().fold(DataSize::ZERO, |size, (packet, _)| size + packet.sent.size);
        self.follow.on_arrived(now, size);
        if let Some((packet, arrival)) = arrived().max_by_key(|(packet, _)| packet.sent.sequence)
            && self.flight.on_arrival(now, &packet.sent)
        {
            self.delay = self.queue_delay.on_packet(now, packet.sent.at, arrival).as_seconds();
            self.follow(now, now.saturating_since(packet.sent.at));
        }
        let marks = arrived().filter(|(packet, _)| packet.ecn == Ecn::Ce).count();
        let marks = (marks > 0).then(|| marks as f64 / feedback.packets.len() as f64);
        if !self.on_congestion(now, marks, feedback.quench) {
            self.window.on_acknowledged(&Acknowledged {
                bytes,
                in_flight,
                delay: self.delay,
                round_trip: self.round_trip(),
                delay_target: self.delay_target.seconds(),
            });
        }
        self.delay_target.on_sample(self.delay, self.losses.event_rate());
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.decided.advance(now);
        self.processed = now;
        self.window.validate(now);
        self.on_congestion(now, None, false);
        if self.flight.gives_up(now) {
            self.window.on_silence();
            self.media.on_silence();
            self.decided.settle(self.media.bps(), Cause::Silence);
        }
        let target = self.delay_target.seconds();
        if let Some(lowered) = self.media.update(now, self.round_trip(), queue, self.delay / target) {
            let cause = if lowered {
                Cause::SenderQueue { waited_ms: self.media.age() * 1e3 }
            } else {
                let (trend_ms, threshold_ms) = (self.delay * 1e3, target * 1e3);
                Cause::Delay { signal: Signal::Normal, trend_ms, threshold_ms }
            };
            self.decided.settle(self.media.bps(), cause);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let wake = self.config.frame_period.max(SHORTEST);
        Some(if self.decided.has_begun() { self.processed + wake } else { Timestamp::ZERO })
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits;
        if !self.decided.has_begun() {
            *self = Self::new(self.config);
            return;
        }
        self.decided.advance(now);
        self.decided.set_limits(limits);
        self.media.set_limits(self.decided.limits());
        self.decided.settle(self.media.bps(), Cause::Limit);
    }

    /// The base delay (RFC 6817 §4.3), the round-trip time, the window and the target of the queueing delay are of the old route.
    fn on_route_change(&mut self, now: Timestamp) {
        if !self.decided.has_begun() {
            return;
        }
        self.decided.advance(now);
        let fresh = Self::new(self.config);
        let decided = self.decided.restarted(self.config.limits);
        *self = Self { decided, processed: self.processed, ..fresh };
    }

    fn requirements(&self) -> Requirements {
        Self::REQUIREMENTS
    }

    fn on_streams(&mut self, now: Timestamp, streams: &[StreamState]) {
        self.decided.advance(now);
        self.media.on_streams(streams);
        let (now_bps, before) = (self.media.bps(), self.decided.target().as_bps() as f64);
        // What they can use may have changed; by how much headers are of a packet does not count.
        if !self.media.targets().is_empty() && (now_bps - before).abs() > NOTICED * before {
            self.decided.settle(now_bps, Cause::ApplicationLimited);
        }
    }

    fn stream_targets(&self) -> &[DataRate] {
        self.media.targets()
    }

    /// Packets are paced at the window in a round trip (§9.1.2).
    fn target(&self) -> Target {
        let media = self.decided.target();
        let pacing = match self.flight.round_trip() {
            Some(round_trip) => DataRate::from_bps((self.window.bytes() * 8.0 / round_trip) as u64),
            None => media,
        };
        Target {
            media,
            pacing: pacing.max(self.config.min_pacing),
            padding: DataRate::ZERO,
            window: Some(self.flight.window(self.window.bytes())),
        }
    }

    fn decision(&self) -> &Decision {
        self.decided.decision()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
