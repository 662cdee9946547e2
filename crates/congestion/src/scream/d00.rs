//! `scream:d00`: Self-Clocked Rate Adaptation for Multimedia in its first description,
//! draft-johansson-rmcat-scream-cc-00 (June 2014), with corrections: the pseudo-code as published does not
//! run.
//!
//! | part | section | file |
//! |---|---|---|
//! | constants | §9.1.2 to §9.1.6 | `config.rs` |
//! | the congestion window and its validation | §9.1.4, §3.1 | `window.rs` |
//! | the delay target with competing flows | §3.1 | `../competing.rs`, as in RFC 8298 |
//! | the media rate | §9.1.6 | `media_rate.rs` |
//! | media rates of several sources | §3, Figure 2 | `streams.rs` |
//! | lost packets | §9.1.3, `isLossEvent` | `../losses.rs`, as in RFC 8298 |
//! | the feedback message | §3, Figure 1 | [`ScreamFeedback`](giusto_rtp::rtcp::ScreamFeedback) |
//! | the time of feedback | §9.2.1, §10 | the receiver |
//! | the sender's queue, and frames that are too old | §9.1.1, §3.3 | the sender; see [`ScreamD00::REQUIREMENTS`] |
//!
//! # Deviations
//!
//! - `bytesInFlight + size < cwnd` is ≤ here.
//! - The media rate is not changed while the queue is empty.
//! - While the queueing delay falls above its target, the window falls half as fast as while it grows; in the draft (§9.1.4) `rttFactor` is
//!   left out then, which up to an RTT of 100 ms is no slower.
//! - A loss event replaces the change by the queueing delay; in the draft both follow one another.
//! - The headroom (§9.1.4) is that of the bytes in flight before the acknowledgement, which the draft has subtracted by then.
//! - The interval of packets (`tp`, §9.1.2) has no minimum; 1 ms would limit packets of 1200 bytes to 9.6 Mbit/s.
//!
//! # What the draft leaves open
//!
//! | question | the draft | here |
//! |---|---|---|
//! | rate at the start | the minimum (`scaleFactor = scaleFactorMin`, §9.1.6) | [`Limits::start`](crate::Limits) |
//! | end of fast start | "a given threshold" (§3.1) | a delay above a fifth of its target ([`Config::fast_start`]) |
//! | ramp-up time | "within 3 to 5 seconds" (§3.1) | 4 s ([`Config::ramp_up`]) |
//! | frame period | – | that of 30 frames per second |
//! | delay target among competing flows | named | that of RFC 8298 §4.1.2.3, up to 0.4 s ([`Config::compensate`]) |
//! | congestion window validation | draft-ietf-tcpm-newcwv | RFC 7661 (`window.rs`) |
//! | marks, source quench | named | each counts as a loss event |
//! | skipping and discarding of frames | named | by the sender: skipped after 100 ms in the queue (§10), queues discarded after 400 ms (ITU-T G.114) |
//! | missing feedback | – | `../flight.rs` |
//! | retransmission | first in the queue (§9.1.1) | not by the controller: a media session repairs losses |
//! | run-length coding of the ACK vector | allowed (§3) | the bit vector of Figure 1 |
//!
//! # Variant
//!
//! `scream:d00+giusto` ([`Config::giusto`]) has two changes of
//! [`scream:rfc8298+giusto`](crate::scream::rfc8298#variant) and one of RFC 8298. The window follows the received
//! rate while the queueing delay is above its target, because §1.1 requires a reaction within an RTT and the
//! draft's window falls by only one or two packets per RTT. The delay target rises only with evidence. A loss
//! event lowers the media rate by a tenth (`BETA_R`, RFC 8298 §4.1.1.1); in the draft only the age of queued
//! packets lowers it.

mod config;
mod media_rate;
mod streams;
mod window;

pub use config::Config;

use giusto_units::{DataRate, TimeDelta, Timestamp};

use self::{
    streams::MediaRates,
    window::{Acknowledged, Window},
};
use super::observed::{self, Observed};
use crate::{
    controller::Controller,
    decided::Decided,
    feedback::{Extension, Feedback, QueueState, SentPacket, StreamState},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Target},
};

/// Minimum interval of its deadlines, however short a frame is.
const SHORTEST: TimeDelta = TimeDelta::from_millis(25);
/// Share of the target from which a change of the streams' usable rates is reported as a decision.
pub(super) const NOTICED: f64 = 0.01;

/// SCReAM according to draft-johansson-rmcat-scream-cc-00 with our corrections.
///
/// In [`Cause::Delay`] the trend is the queueing delay, and the threshold its target.
#[derive(Debug, Clone)]
pub struct ScreamD00 {
    config: Config,
    decided: Decided,
    path: Observed,
    window: Window,
    media: MediaRates,
    /// When the window was last reduced by any event.
    lowered: Option<Timestamp>,
    processed: Timestamp,
}

impl ScreamD00 {
    /// Its requirements. Frames are skipped while the oldest packet has been queued for 100 ms (§10). The
    /// draft discards packets that are "too old to be rendered in a meaningful way" and gives no number: here
    /// after 400 ms, the limit of the one-way delay that ITU-T G.114 gives for planning.
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
        sender_queue: true,
        marks: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let decided = Decided::new(config.limits);
        let start = decided.target().as_bps() as f64;
        let media = MediaRates::new(config, decided.limits(), start);
        let targets = [config.delay_target, config.max_delay_target];
        Self {
            config,
            decided,
            path: Observed::new(targets, config.compensate, config.evidence),
            window: Window::new(config),
            media,
            lowered: None,
            processed: Timestamp::ZERO,
        }
    }

    /// The estimated queueing delay on the path.
    pub fn queue_delay(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.path.delay)
    }

    /// The queueing delay target.
    #[cfg(test)]
    fn queue_delay_target(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.path.delay_target())
    }

    /// The congestion window.
    #[cfg(test)]
    fn congestion_window(&self) -> giusto_units::DataSize {
        giusto_units::DataSize::from_bytes(self.window.bytes() as u64)
    }

    /// Reacts to losses, marks or source quench if a reaction is due. Returns whether it did.
    fn on_congestion(&mut self, now: Timestamp, marks: Option<f64>, quench: bool) -> bool {
        let rtt = self.path.rtt();
        // At most once per RTT (§9.1.3, RFC 3168 §6.1.2).
        let recent = self.lowered.is_some_and(|last| now.saturating_since(last).as_seconds() < rtt);
        let cause = match (self.path.losses.event(now, rtt), marks) {
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
        self.path.flight.on_sent(now, packet);
        self.window.on_sent(packet.size);
        self.media.on_sent();
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.decided.advance(now);
        let quench = feedback.extension == Some(Extension::SourceQuench);
        if feedback.packets.is_empty() {
            if quench {
                self.on_congestion(now, None, true);
            }
            return;
        }
        let in_flight = self.path.flight.bytes();
        self.window.on_in_flight(now, in_flight, self.path.rtt());
        if let Some((packet, arrival)) = observed::highest(feedback) {
            self.path.follow.on_packet(packet.sent.at, arrival);
        }
        let report = self.path.on_feedback(now, feedback);
        // The excess is queued at the sender, to which the media rates react.
        if let Some(enough) = report.enough.filter(|_| self.config.follow) {
            self.window.follow(enough.window);
        }
        if !self.on_congestion(now, report.marks, quench) {
            self.window.on_acknowledged(&Acknowledged {
                bytes: report.bytes,
                in_flight,
                delay: self.path.delay,
                rtt: self.path.rtt(),
                delay_target: self.path.delay_target(),
            });
        }
        self.path.adapt();
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.decided.advance(now);
        self.processed = now;
        self.window.validate(now);
        self.on_congestion(now, None, false);
        if self.path.flight.gives_up(now) {
            self.window.on_silence();
            self.media.on_silence();
            self.decided.settle(self.media.bps(), Cause::Silence);
        }
        let delay = self.path.delay / self.path.delay_target();
        if let Some(lowered) = self.media.update(now, self.path.rtt(), queue, delay) {
            let cause = if lowered {
                Cause::SenderQueue { waited_ms: self.media.age() * 1e3 }
            } else {
                self.path.cause()
            };
            self.decided.settle(self.media.bps(), cause);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let wake = self.config.frame_period.max(SHORTEST);
        self.decided.next_timeout(Some(self.processed + wake))
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits;
        if !self.decided.on_limits(now, limits) {
            *self = Self::new(self.config);
            return;
        }
        self.media.set_limits(self.decided.limits());
        self.decided.settle(self.media.bps(), Cause::Limit);
    }

    /// The base delay (RFC 6817 §4.3), the RTT, the window and the delay target belong to the old route.
    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((_, decided)) = self.decided.on_route_change(now, self.config.limits) {
            *self = Self { decided, processed: self.processed, ..Self::new(self.config) };
        }
    }

    fn on_streams(&mut self, now: Timestamp, streams: &[StreamState]) {
        self.decided.advance(now);
        self.media.on_streams(streams);
        let (now_bps, before) = (self.media.bps(), self.decided.target().as_bps() as f64);
        // The streams' usable rates may have changed; a changed share of headers is ignored.
        if !self.media.targets().is_empty() && (now_bps - before).abs() > NOTICED * before {
            self.decided.settle(now_bps, Cause::ApplicationLimited);
        }
    }

    fn stream_targets(&self) -> &[DataRate] {
        self.media.targets()
    }

    fn target(&self) -> Target {
        let window = self.window.bytes();
        self.path.target(self.decided.target(), self.config.min_pacing, window, window)
    }

    crate::controller::answers!(decided);
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
