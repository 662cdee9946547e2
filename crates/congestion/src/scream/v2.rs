//! SCReAM of draft-ietf-ccwg-rfc8298bis-screamv2-01.
//!
//! The reference window is the desired number of bytes in flight. It is reduced by losses, marks, and a delay
//! that counts as marks, and grows with the acknowledged bytes. The media rate is that window divided by the
//! RTT. More bytes than the window may be in flight, so that large frames can be sent at once.
//!
//! | task | in the text | module |
//! |---|---|---|
//! | queueing delay | §"Detecting Increased Queue Delay", §"Clock drift issues" | `queue_delay` |
//! | share of marked packets | §"Receiving ECN-CE for L4S" | `marks` |
//! | loss detection | §"Detecting Lost Data Units", §"Link layer losses and rate policers" | `losses` |
//! | reference window | §"Reference Window Update" | `window` |
//! | media rate | §"Media Rate Control" | `media_rate` |
//! | pacing and send window | §"Sender Transmission Control" | `sending` |
//! | bytes in flight | §"Sender Side State" | `flight` |
//! | reaction to missing feedback | none: our rule | `silence` |
//!
//! Where the text leaves a choice:
//!
//! - It starts at the start rate of its limits, where the text starts with the minimum window. Until the RTT
//!   is known, a presumed RTT is used ([`Config::presumed_rtt`]), and the window is that of
//!   the start rate.
//! - A non-congestion loss of the link does not hide marks or delay, as the text's `else if` would. It is
//!   evaluated once, at the next possible reaction.
//! - Losses and classic marks, which reduce the window by a fixed share, cause at most one reaction per RTT,
//!   as in §"Network Congestion Control" of the overview. The code reacts to them as often as to graded
//!   marks, once per virtual RTT, but only graded marks are scaled for that.
//! - The delay does not set the time at which congestion was detected, unlike in the text's code: only losses
//!   and marks delay multiplicative growth.
//! - The rule against policers of -01 is off: the authors removed it from the text of -02 (11 August 2026, not yet submitted) after
//!   IETF 126. That is the only change of the algorithm since -01. [`LossesConfig::policer_threshold`] turns it on.
//! - Losses at the end of a period without feedback have already been reacted to and are not counted.
//!   Otherwise the rule against policers, which looks for many losses and a short queue, would limit the
//!   window of an outage for minutes.
//! - Packets that no feedback reports are neither lost nor acknowledged.
//! - `TARGET_BITRATE_MAX` limits the window as in the authors' implementation: to the bytes in flight, but
//!   not below what the maximum rate needs with the pacing headroom.
//! - Not implemented: competing flows compensation, which the text itself questions (§"Discussion"), and
//!   slower averages of the RTT while few bytes are in flight, for which it gives no numbers.

mod constants;
mod flight;
mod losses;
mod marks;
mod media_rate;
mod queue_delay;
mod sending;
mod silence;
mod window;

pub use losses::LossesConfig;
pub use marks::MarksConfig;
pub use media_rate::MediaRateConfig;
pub use queue_delay::QueueDelayConfig;
pub use sending::SendingConfig;
pub use silence::SilenceConfig;
pub use window::WindowConfig;

use flight::Flight;
use losses::Losses;
use marks::Marks;
use media_rate::MediaRate;
use queue_delay::QueueDelay;
use silence::Silence;
use window::{Congestion, Path, ReferenceWindow};

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Decision, Signal, Target},
};

/// Meaning of marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum MarkMode {
    /// Graded as soon as a packet is reported as received with ECT(1); classic until then.
    #[default]
    Detect,
    /// Each mark is congestion (`IS_L4S` false).
    Classic,
    /// The share of marks is congestion (`IS_L4S` true).
    Graded,
}

giusto_units::defaults! {
    /// Configuration of [`ScreamV2`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// Range (`TARGET_BITRATE_MIN`, `TARGET_BITRATE_MAX`) and initial value of the target.
        pub limits: Limits = Limits::default(),
        /// The queueing delay.
        pub delay: QueueDelayConfig = QueueDelayConfig::default(),
        /// The share of marked packets.
        pub marks: MarksConfig = MarksConfig::default(),
        /// Meaning of marks. Default: determined from the packets.
        pub mark_mode: MarkMode = MarkMode::default(),
        /// Losses.
        pub losses: LossesConfig = LossesConfig::default(),
        /// The reference window.
        pub window: WindowConfig = WindowConfig::default(),
        /// The media rate.
        pub media: MediaRateConfig = MediaRateConfig::default(),
        /// Pacing and the send window.
        pub sending: SendingConfig = SendingConfig::default(),
        /// Reaction to missing feedback.
        pub silence: SilenceConfig = SilenceConfig::default(),
        /// RTT before the first measurement. Default 333 ms (RFC 9002 §6.2.2, `kInitialRtt`).
        pub presumed_rtt: TimeDelta = TimeDelta::from_millis(333),
        /// Interval at which the sender's queue is examined. Default 10 ms, so that frames can be distinguished
        /// at up to 100 per second.
        pub look: TimeDelta = TimeDelta::from_millis(10),
        /// Factor on the target while the base delay is measured again. Default 0.5 (§"Clock drift issues and
        /// remedies").
        pub drift_scale: f64 = 0.5,
        /// That takes five RTTs, and at least this time. Default 0.2 s (same section).
        pub drift_time: TimeDelta = TimeDelta::from_millis(200),
    }
}

impl Config {
    /// The text's constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The same with laws of the authors' library (EricssonResearch/scream, c8f84c3 of July 2026), where they are on by default:
    ///
    /// | law | here | file of the library |
    /// |---|---|---|
    /// | the send window and the growth of the reference window follow the variation of the delay, an option in the text | [`QueueDelayConfig::reduce_jitter`] | `ScreamV2Tx.cpp`, `latencyDiffCwndScale` |
    /// | a reduction by delay is divided twice by the number of reactions in an RTT | [`WindowConfig::squared_rounds`] | `ScreamV2Tx.cpp`, `virtualL4sAlpha` |
    /// | multiplicative growth of 5 % in an RTT, not 2 % | [`WindowConfig::multiplicative`] | `ScreamTx.h` |
    /// | the media rate is the window's rate over 1.1, not 1.2, whatever the frame sizes are | [`MediaRateConfig::divisor`], [`MediaRateConfig::max_deviation`] | `ScreamV2Tx.cpp`, `updateCwnd` |
    /// | frames larger than the mean are paced faster | [`SendingConfig::large_frames`] | `ScreamV2TxStream.cpp`, `newMediaFrame` |
    ///
    /// Of the library, but not here: an RTT of at most 200 ms in the media rate, an RTT that is smoothed twice, multiplicative growth that
    /// also waits after delay and for 200 RTTs, hysteresis of the target (`hysteresis`), a packet size that follows the packets in flight
    /// (`getRecommendedMss`, off in the authors' tool), and a key frame after each loss (`getTargetBitrate` returns −1): receivers ask
    /// for one when a packet cannot be repaired in time.
    pub fn authors(limits: Limits) -> Self {
        let within = Self::within(limits);
        Self {
            delay: QueueDelayConfig { reduce_jitter: true, ..within.delay },
            window: WindowConfig { squared_rounds: true, multiplicative: 0.05, ..within.window },
            media: MediaRateConfig { divisor: 1.1, max_deviation: 0.0, ..within.media },
            sending: SendingConfig { large_frames: 1.5, ..within.sending },
            ..within
        }
    }
}

/// `scream:v2`.
#[derive(Debug, Clone)]
pub struct ScreamV2 {
    config: Config,
    delay: QueueDelay,
    marks: Marks,
    losses: Losses,
    window: ReferenceWindow,
    media: MediaRate,
    flight: Flight,
    silence: Silence,
    pending: Pending,
    is_graded: bool,
    /// The newest packet that was reported as received.
    newest: Option<u64>,
    /// Packets sent until then that are missing were already handled as missing feedback.
    handled_until: Option<Timestamp>,
    /// Until this time the base delay is measured again.
    drains: Option<Timestamp>,
    /// Cause of the last change of the window.
    cause: Cause,
    /// Reduction of the rate below the window's rate because of the sender's queue, as a share of the target;
    /// and the age of the oldest packet in the queue.
    guard: f64,
    oldest_age: TimeDelta,
    target: DataRate,
    decision: Decision,
    now: Timestamp,
    begun: bool,
    looked: Timestamp,
}

/// Losses and marks without a reaction so far.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    lost: bool,
    marked: bool,
}

/// Totals of a feedback message.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Bytes newly reported; of these received; of these received with a mark.
    reported: DataSize,
    arrived: DataSize,
    marked: DataSize,
    /// Send time of the newest received packet, if it is newer than all before.
    newest: Option<Timestamp>,
}

impl ScreamV2 {
    /// Its requirements. The window may delay packets: packets older than 400 ms are discarded, as in
    /// [`scream:rfc8298`](super::rfc8298::ScreamRfc8298::REQUIREMENTS).
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        pacer: PacerSettings::SINGLE,
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_millis(400)) },
        delay_target: true,
        authors_laws: true,
        sender_queue: true,
        marks: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet. The maximum is raised to at least the minimum, and the start
    /// rate is moved between them.
    pub fn new(config: Config) -> Self {
        let config = Config { limits: config.limits.ordered(), ..config };
        let start = config.limits.start;
        let mut this = Self {
            delay: QueueDelay::new(config.delay),
            marks: Marks::new(config.marks),
            losses: Losses::new(config.losses),
            window: ReferenceWindow::new(config.window, 0.0),
            media: MediaRate::new(config.media),
            flight: Flight::new(config.presumed_rtt),
            silence: Silence::new(config.silence),
            pending: Pending::default(),
            is_graded: config.mark_mode == MarkMode::Graded,
            newest: None,
            handled_until: None,
            drains: None,
            guard: 0.0,
            oldest_age: TimeDelta::ZERO,
            cause: Cause::Start,
            target: start,
            decision: Decision { from: start, to: start, ..Decision::default() },
            now: Timestamp::ZERO,
            begun: false,
            looked: Timestamp::ZERO,
            config,
        };
        this.open_for(start);
        this
    }

    /// The average share of marked packets, 0 to 1.
    pub fn marks(&self) -> f64 {
        self.marks.average()
    }

    /// The smoothed RTT.
    pub fn rtt(&self) -> TimeDelta {
        self.flight.rtt()
    }

    /// Sets the window that gives the media `rate`. The reduction in a small window depends on the window:
    /// two iterations are accurate to 1 %.
    fn open_for(&mut self, rate: DataRate) {
        let bytes = rate.as_bps() as f64 * self.flight.rtt().as_seconds() / 8.0;
        self.window.set(bytes * self.config.media.divisor);
        for _ in 0..2 {
            let factor = self.media.factor(self.config.window.segment, self.window.segment_share());
            self.window.set(bytes / factor.max(f64::MIN_POSITIVE));
        }
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        if !core::mem::replace(&mut self.begun, true) {
            self.decision.at = self.now;
            self.looked = self.now;
        }
        self.now
    }

    fn on_in_flight(&mut self, now: Timestamp, in_flight: DataSize) {
        if self.flight.on_in_flight(now, in_flight) {
            self.window.lift(self.config.losses.policer_lift);
        }
    }

    fn on_packets(&mut self, now: Timestamp, packets: &[PacketReport]) -> Tally {
        let mut tally = Tally::default();
        let share = self.window.segment_share();
        for PacketReport { sent, arrival, ecn } in packets {
            let Some(arrival) = *arrival else {
                tally.reported += sent.size;
                if self.handled_until.is_none_or(|handled_until| sent.at > handled_until) {
                    self.losses.on_missing(now, sent.sequence);
                }
                continue;
            };
            let is_new = self.newest.is_none_or(|newest| sent.sequence > newest);
            self.losses.on_arrival(now, sent.sequence, share);
            self.marks.on_packet(*ecn == Ecn::Ce);
            self.is_graded |= *ecn == Ecn::Ect1 && self.config.mark_mode == MarkMode::Detect;
            tally.reported += sent.size;
            tally.arrived += sent.size;
            if *ecn == Ecn::Ce {
                tally.marked += sent.size;
                self.pending.marked = true;
            }
            if is_new {
                self.newest = Some(sent.sequence);
                tally.newest = Some(sent.at);
                self.delay.on_packet(now, -arrival.apparent_delay(sent.at), now.saturating_since(sent.at));
            }
        }
        self.pending.lost |= self.losses.update(now, share);
        tally
    }

    fn path(&self) -> Path {
        let margin = self.config.window.acknowledged_margin;
        Path {
            rtt: self.flight.rtt(),
            in_flight: self.flight.max(),
            is_short: self.delay.latest() < self.delay.target() / 4.0,
            steadiness: self.delay.steadiness(),
            is_low: (self.target.as_bps() as f64) < self.flight.rate() * margin,
            is_at_max: self.target >= self.config.limits.max,
        }
    }

    /// The congestion to react to now.
    fn congestion(&mut self, now: Timestamp) -> Option<Congestion> {
        if self.pending.lost || self.pending.marked {
            self.window.on_detected(now);
        }
        if !self.window.is_due(now, self.flight.rtt()) {
            return None;
        }
        let Pending { lost, marked } = core::mem::take(&mut self.pending);
        let waits = self.delay.average() > self.delay.target() / 4.0;
        if lost && self.losses.is_policer() && !waits {
            self.window.police(self.config.losses.policer_beta);
        }
        let share = self.delay.virtual_marks();
        let cut = self.window.is_cut_due(now, self.flight.rtt());
        if lost && cut && (self.losses.is_congestion() || waits) {
            self.cause = Cause::Loss { ratio: self.losses.rate() };
            Some(Congestion::Loss)
        } else if marked && self.is_graded {
            self.cause = Cause::Marks { ratio: self.marks.average() };
            Some(Congestion::Marks(self.marks.average()))
        } else if marked && cut {
            self.cause = Cause::Marks { ratio: self.marks.latest() };
            Some(Congestion::Mark)
        } else if share > 0.0 {
            self.cause = self.by_delay(Signal::OverUse);
            Some(Congestion::Delay(share))
        } else {
            None
        }
    }

    fn by_delay(&self, signal: Signal) -> Cause {
        Cause::Delay {
            signal,
            trend_ms: self.delay.average() * 1e3,
            threshold_ms: self.delay.target() / 2.0 * 1e3,
        }
    }

    fn move_window(&mut self, now: Timestamp, unmarked: DataSize) {
        let congestion = self.congestion(now);
        let path = self.path();
        self.window.react(now, congestion, &path);
        let before = self.window.size();
        let is_limited = self.window.grow(now, unmarked.as_bytes() as f64, &path);
        if congestion.is_none() {
            self.cause = if self.window.size() > before || !is_limited {
                self.by_delay(Signal::Normal)
            } else {
                Cause::ApplicationLimited
            };
        }
        if path.is_at_max {
            let max = self.config.limits.max.as_bps() as f64 / 8.0 * path.rtt.as_seconds();
            let used = path.in_flight.0.as_bytes() as f64;
            self.window.cap(used.max(max * self.config.sending.head_room));
        }
    }

    /// Sets the rate that the window permits, and the decision if it differs.
    fn settle(&mut self, now: Timestamp) {
        let share = self.window.segment_share();
        let factor = self.media.factor(self.config.window.segment, share);
        let silent = self.silence.lasts(now);
        let rtt = self.flight.rtt().max(silent.unwrap_or(TimeDelta::ZERO));
        let rate = factor * 8.0 * self.window.size() / rtt.as_seconds();
        let drains = self.drains.is_some_and(|until| now < until);
        let rate = if drains { rate * self.config.drift_scale } else { rate };
        let wanted = DataRate::from_bps(rate as u64);
        let guards = self.media.guards();
        let guard = guards.0 + guards.1;
        let Limits { min, max, .. } = self.config.limits;
        let to = wanted.min(max).max(min);
        if to == self.target {
            self.guard = guard;
            return;
        }
        let cause = match (to == wanted, silent) {
            (false, _) => Cause::Limit,
            (true, Some(_)) => Cause::Silence,
            // The window did not shrink: a lower rate is caused by the sender's queue.
            (true, None) if to < self.target && guard > self.guard && self.window_rests() => {
                Cause::SenderQueue { waited_ms: self.oldest_age.as_millis() }
            }
            (true, None) => self.cause,
        };
        self.decision = Decision { at: now, from: self.target, to, cause };
        (self.target, self.guard) = (to, guard);
    }

    /// Whether the last change of the window did not reduce it.
    fn window_rests(&self) -> bool {
        matches!(
            self.cause,
            Cause::Start | Cause::Delay { signal: Signal::Normal, .. } | Cause::ApplicationLimited
        )
    }
}

impl Controller for ScreamV2 {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.advance(now);
        self.media.on_sent(packet.size);
        self.silence.on_sent(now, packet.size, packet.in_flight);
        self.on_in_flight(now, packet.in_flight);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.advance(now);
        if feedback.packets.is_empty() {
            return;
        }
        if self.silence.lasts(now).is_some() {
            self.handled_until = Some(now);
        }
        self.silence.on_feedback(now, feedback.in_flight);
        let tally = self.on_packets(now, feedback.packets);
        let sample = tally.newest.map(|sent| now.saturating_since(sent)).or(feedback.rtt);
        if sample.is_some_and(|sample| self.flight.on_rtt(sample)) {
            self.open_for(self.target);
        }
        self.on_in_flight(now, feedback.in_flight);
        let rtt = self.flight.rtt();
        self.flight.on_arrived(now, tally.arrived, self.media.frame_period() * 2);
        self.marks.update(now, rtt);
        let interval = self.config.window.virtual_rtt.min(rtt);
        if self.delay.update(now, interval, rtt) {
            self.drains = Some(now + (rtt * 5).max(self.config.drift_time));
        }
        self.move_window(now, tally.reported.saturating_sub(tally.marked));
        self.settle(now);
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.advance(now);
        self.looked = now;
        self.media.on_queue(now, queue, self.target);
        self.oldest_age = queue.oldest;
        let waits = queue.size > DataSize::ZERO;
        if self.silence.update(now, self.flight.rtt(), waits) {
            self.window.set(self.window.size() * self.silence.beta());
        }
        self.settle(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        Some(if self.begun { self.looked + self.config.look.max(MIN_INTERVAL) } else { Timestamp::ZERO })
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits.ordered();
        if !self.begun {
            *self = Self::new(self.config);
            return;
        }
        let now = self.advance(now);
        self.settle(now);
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if !self.begun {
            return;
        }
        let now = self.advance(now);
        let fresh = Self::new(self.config);
        let decision = Decision { at: now, from: self.target, to: fresh.target, cause: Cause::RouteChange };
        *self = Self { decision, now, begun: true, looked: self.looked, ..fresh };
    }

    fn target(&self) -> Target {
        let window = self.config.sending.window(self.window.size(), self.delay.steadiness());
        Target {
            media: self.target,
            pacing: self.config.sending.pacing(
                self.target,
                self.config.limits.max,
                self.media.relative_frame(),
            ),
            padding: DataRate::ZERO,
            window: self.silence.window(window),
        }
    }

    crate::controller::answers!(decision);
}

/// Minimum interval between deadlines.
const MIN_INTERVAL: TimeDelta = TimeDelta::from_millis(1);

#[cfg(test)]
mod any_order;
#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod tests;
