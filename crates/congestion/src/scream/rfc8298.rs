//! `scream:rfc8298`: Self-Clocked Rate Adaptation for Multimedia, RFC 8298.
//!
//! | part | section | file |
//! |---|---|---|
//! | constants | §4.1.1.1 | `config.rs` |
//! | the trend of the queueing delay | §4.1.2 | `trend.rs` |
//! | the congestion window | §4.1.2.2 | `window.rs` |
//! | competing flows | §4.1.2.3 | `../competing.rs` |
//! | the window of the variant | none: our rule | `../follow.rs` |
//! | lost and late packets | §4.1.2.4 | `../losses.rs` |
//! | the send window, pacing, resuming fast increase | §4.1.2.5 to §4.1.2.7 | this file |
//! | the media rate | §4.1.3 | `media_rate.rs` |
//!
//! # Where the text is ambiguous
//!
//! | the text | here |
//! |---|---|
//! | `target_bitrate` starts at 0, which makes its own ramp zero | it starts at [`Limits::start`](crate::Limits) |
//! | `delta_rate_t` adds the whole current rate minus the queued *bits* | as published: the ramp limits each step, and a queue counts as if it had to be sent within a second |
//! | `in_fast_increase = true` as a test | a comparison |
//! | `current_rate_t` is set in one branch and used after both | it is always set |
//! | `rtp_queue_size / current_rate_t` with a rate of zero | the queueing delay counts as too long |
//! | the limit by `rate_media` before anything was sent is zero | the limit does not apply; an interval without data changes nothing |
//! | `qdelay_norm_hist` of 100 samples, of which 200 are used | 200 |
//! | the autocorrelation of a constant delay is 0/0 | no trend |
//! | `QDELAY_TARGET_LOW` and `_LO`, `RATE_ADJUST_INTERVAL` and `RATE_ADJUSTMENT_INTERVAL`, `queue_delay_trend` and `qdelay_trend`, `rtp_rate_median` and `rate_media_median` | synonyms |
//! | when `target_bitrate_last_max` is updated: "when congestion is detected" | with a loss, a mark, the end of fast increase or a queue at the sender, if the rate has risen since the last |
//! | fast increase resumes when the trend has been low for 5 s, which may be the case when a packet is lost | at the earliest 5 s after the end of fast increase |
//! | how the loss event rate is estimated | a mean over round trips (`../losses.rs`) |
//! | the first reordering window | a quarter of an RTT (RFC 8985 §6.2) |
//! | the minimum send rate without feedback, §1 and §8, no rule | 50 kbit/s (`../flight.rs`) |
//!
//! # Variant
//!
//! `scream:rfc8298+giusto` ([`Config::giusto`]) has three changes:
//!
//! - **The media rate falls to what the path carries.** The text adds the rate sent or received to the target and limits the sum only by
//!   the ramp (§4.1.3). A target above what the path carries therefore stays there, and frames wait at the sender. The authors'
//!   implementation of January 2018 subtracts the target from the increment (`ScreamTx.cpp`, `updateTargetBitrate`; their issue 20). In
//!   the variant the rate falls to the rate sent or received plus 5 %, less the sender's queue, if it is above that, unless the media
//!   uses less than 80 % of it, as there, or no feedback comes. Below, it ramps as in the text: with the authors' increment of at most 5 % of the rate, a loss
//!   of 1 % at random leaves 8 % of a link of 3 Mbit/s, otherwise 43 %.
//! - **The window follows the received rate.** Above the delay target the text reduces the window by a few
//!   packets per RTT (§4.1.2.2), as LEDBAT does. When the capacity falls from 3 to 1 Mbit/s, the queueing
//!   delay therefore stays above 100 ms for three to six seconds, although the text requires a reaction
//!   within an RTT (§1). In the variant the window is limited, once per RTT while the queueing delay is above
//!   its target, to the data received in an RTT at the target's queueing delay. The media rate is limited to
//!   the received rate. What arrives during a stall, in which the one-way delay grows by more than 50 ms from one packet to the next, is
//!   not judged: after a fade of 200 ms the rate is measured afresh, and the increment of that interval is left out.
//! - **The delay target rises only with evidence.** While the delay is constant, the text sets the target to
//!   the mean delay plus a standard deviation (§4.1.2.3). A flow without competition keeps its delay at the
//!   target, so the target rises step by step until the queue is full: the false positive of which the
//!   section warns. In the variant the target rises only while the mean delay is above 1.1 times the target,
//!   where 10 % is the window's headroom in the text (`MAX_BYTES_IN_FLIGHT_HEAD_ROOM`). Otherwise it falls by
//!   0.1 % with each sample, as in the authors' implementation of December 2017 (`ScreamTx.cpp`).
//!
//! The variant meets 267 of 279 expectations of RFC 8867, the plain text 244. The price of the first rule: after a drop from 3 to
//! 0.6 Mbit/s the rate is too low for about 4 s, because the queue in bits is subtracted from it.
//!
//! # Deviations
//!
//! - `rtp_queue_size` is the minimum queue size in an interval: a frame that has just been queued does not
//!   count as a queue. At 30 frames per second each interval of 0.2 s would end with one.
//! - `MSS` is the size of the largest packet sent, headers included.
//! - Until the RTT is known, packets are paced at the media rate.
//! - The feedback is that of RFC 8888, not the XR blocks of §4.2.1 (loss RLE and packet receipt times), with the interval of
//!   `scream:v2`: after a marker or 16 packets, otherwise 40 ms. §4.2.2 asks for `min(50, max(2.5, rate / 10000))` messages per second:
//!   fewer at low rates (400 ms at 25 kbit/s), and 20 ms above 500 kbit/s.
//! - Marks are counted per packet as RFC 8888 reports them, not by `n_ECN`.
//! - Priorities of streams (§4.1.2.8) and the discarding of old packets (§4.1.3) are done by the sender, for
//!   example a media session; see [`ScreamRfc8298::REQUIREMENTS`].

mod config;
mod media_rate;
mod trend;
mod window;

pub use config::Config;

use giusto_units::{TimeDelta, Timestamp};

use self::{
    media_rate::{Congestion, MediaRate, Moved},
    trend::Trend,
    window::{Acknowledged, Window},
};
use super::{
    follow::Enough,
    observed::{self, Observed},
};
use crate::{
    controller::Controller,
    decided::Decided,
    feedback::{Feedback, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Target},
};

/// Interval at which the queueing delay is sampled for its trend (§4.1.2), and of the controller's deadlines.
const SAMPLE: TimeDelta = TimeDelta::from_millis(50);

/// SCReAM as specified in RFC 8298.
///
/// In [`Cause::Delay`] the trend is the queueing delay, and the threshold its target.
#[derive(Debug, Clone)]
pub struct ScreamRfc8298 {
    config: Config,
    decided: Decided,
    path: Observed,
    trend: Trend,
    window: Window,
    media: MediaRate,
    queue: QueueState,
    sampled: Timestamp,
    /// Time at which the trend was last high, or fast increase ended.
    unquiet: Timestamp,
    marked: Option<Timestamp>,
    processed: Timestamp,
}

impl ScreamRfc8298 {
    /// Its requirements. The window may delay packets, so "excessively delayed" packets are discarded (RFC
    /// 8298 §4.1.3, without a number): after 400 ms, the limit of the one-way delay that ITU-T G.114 gives for
    /// planning. A frame that has waited longer cannot be of use in a conversation. The authors discard after
    /// 100 ms in their library and 200 ms in its test tool, which costs up to twice as many packets.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        pacer: PacerSettings::SINGLE,
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_millis(400)) },
        delay_target: true,
        sender_queue: true,
        marks: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let decided = Decided::new(config.limits);
        let start = decided.target().as_bps() as f64;
        let media = MediaRate::new(config, decided.limits(), start);
        let targets = [config.delay_target, config.max_delay_target];
        Self {
            config,
            decided,
            path: Observed::new(targets, config.compensate, config.evidence),
            trend: Trend::new(config.delay_weight),
            window: Window::new(config),
            media,
            queue: QueueState::default(),
            sampled: Timestamp::ZERO,
            unquiet: Timestamp::ZERO,
            marked: None,
            processed: Timestamp::ZERO,
        }
    }

    /// The estimated queueing delay on the path.
    pub fn queue_delay(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.path.delay)
    }

    /// `qdelay_trend`, 0 to 1.
    pub fn trend(&self) -> f64 {
        self.trend.trend()
    }

    /// Reacts to losses or marks if a reaction is due. Returns whether it did.
    fn on_congestion(&mut self, now: Timestamp, marks: Option<f64>) -> bool {
        let rtt = self.path.rtt();
        let lost = self.path.losses.event(now, rtt);
        let recent = self.marked.is_some_and(|last| now.saturating_since(last).as_seconds() < rtt);
        let cause = if let Some(ratio) = lost {
            self.window.on_loss();
            self.media.on_loss();
            Cause::Loss { ratio }
        } else if let Some(ratio) = marks.filter(|_| !recent) {
            self.window.on_mark();
            self.media.on_mark();
            Cause::Marks { ratio }
        } else {
            return false;
        };
        if marks.is_some() && !recent {
            self.marked = Some(now);
        }
        self.unquiet = now;
        self.decided.settle(self.media.bps(), cause);
        true
    }

    /// Reduces the window, and the media rate with it, to the received rate.
    fn follow(&mut self, now: Timestamp, enough: Enough) {
        if self.window.follow(enough.window) {
            self.media.follow(enough.rate);
            self.unquiet = now;
            self.decided.settle(self.media.bps(), Cause::AcknowledgedRate { rate_bps: enough.rate });
        }
    }

    fn sample(&mut self, now: Timestamp) {
        if now.saturating_since(self.sampled) < SAMPLE {
            return;
        }
        self.sampled = now;
        self.trend.on_sample(self.path.delay / self.path.delay_target());
        if self.trend.trend() >= self.config.trend_low {
            self.unquiet = now;
        } else if now.saturating_since(self.unquiet) >= self.config.resume {
            self.window.resume();
        }
    }

    fn adjust_rate(&mut self, now: Timestamp) {
        let seen =
            Congestion { fast: self.window.is_fast(), trend: self.trend.trend(), peak: self.trend.peak() };
        let Some(moved) = self.media.update(now, &self.queue, seen) else { return };
        let cause = match moved {
            Moved::Limited => Cause::ApplicationLimited,
            Moved::Down => Cause::SenderQueue { waited_ms: self.queue.oldest.as_millis() },
            Moved::Up => self.path.cause(),
        };
        self.decided.settle(self.media.bps(), cause);
    }
}

impl Controller for ScreamRfc8298 {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.decided.advance(now);
        self.path.flight.on_sent(now, packet);
        self.window.on_sent(now, packet.size, self.path.flight.bytes());
        self.media.on_sent(packet.size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.decided.advance(now);
        if feedback.packets.is_empty() {
            return;
        }
        // What is acknowledged after a silence says nothing about the interval in which it comes.
        if self.config.follow && self.path.flight.is_silent() {
            self.media.on_stall();
        }
        for (packet, arrival) in observed::arrived(feedback) {
            self.media.on_arrival(packet.sent.size);
            if self.path.follow.on_packet(packet.sent.at, arrival) && self.config.follow {
                self.media.on_stall();
            }
        }
        let report = self.path.on_feedback(now, feedback);
        if let Some(enough) = report.enough.filter(|_| self.config.follow) {
            self.follow(now, enough);
        }
        self.sample(now);
        if !self.on_congestion(now, report.marks) {
            let ended = self.window.on_acknowledged(&Acknowledged {
                bytes: report.bytes,
                in_flight: self.path.flight.bytes(),
                delay: self.path.delay,
                delay_target: self.path.delay_target(),
                trend: self.trend.trend(),
            });
            if ended {
                self.unquiet = now;
                self.media.on_congestion();
            }
        }
        self.path.adapt();
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.decided.advance(now);
        self.processed = now;
        self.queue = *queue;
        self.media.on_queue(queue);
        self.sample(now);
        self.on_congestion(now, None);
        if self.path.flight.gives_up(now) {
            self.window.on_silence();
            self.media.on_silence();
            self.unquiet = now;
            self.decided.settle(self.media.bps(), Cause::Silence);
        }
        self.adjust_rate(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.decided.next_timeout(Some(self.processed + SAMPLE))
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits;
        if !self.decided.on_limits(now, limits) {
            *self = Self::new(self.config);
            return;
        }
        self.media.set_limits(self.decided.limits());
    }

    /// The base delay (RFC 6817 §4.3), the RTT, the window and the delay target belong to the old route.
    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((unquiet, decided)) = self.decided.on_route_change(now, self.config.limits) {
            let (queue, processed) = (self.queue, self.processed);
            *self = Self { decided, queue, unquiet, processed, ..Self::new(self.config) };
        }
    }

    /// The send window is that of §4.1.2.5, the pacing rate that of §4.1.2.6.
    fn target(&self) -> Target {
        let allowed = self.window.allowed(self.path.delay, self.path.delay_target());
        self.path.target(self.decided.target(), self.config.min_pacing, self.window.bytes(), allowed)
    }

    crate::controller::answers!(decided);
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
