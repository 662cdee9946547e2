//! SCReAM of draft-ietf-ccwg-rfc8298bis-screamv2-01.
//!
//! The reference window says how much should be in flight; it falls with losses, marks, and a delay that stands for marks, and
//! grows for what arrives. The media rate is that window over the round trip. More than the window may be in flight, so that
//! large frames leave at once.
//!
//! | question | in the text | module |
//! |---|---|---|
//! | how long do packets wait in the network? | §"Detecting Increased Queue Delay", §"Clock drift issues" | [`queue_delay`] |
//! | what share is marked? | §"Receiving ECN-CE for L4S" | [`marks`] |
//! | is a packet lost? | §"Detecting Lost Data Units", §"Link layer losses and rate policers" | [`losses`] |
//! | how much should be in flight? | §"Reference Window Update" | [`window`] |
//! | what rate may the media have? | §"Media Rate Control" | [`media_rate`] |
//! | how fast may packets leave? | §"Sender Transmission Control" | [`sending`] |
//! | what is in flight? | §"Sender Side State" | [`flight`] |
//! | what if no feedback comes? | none: ours | [`silence`] |
//!
//! Where the text leaves room:
//!
//! - It begins at the start rate of its limits, where the text begins with the least window: until the round trip is known, it is
//!   presumed ([`ScreamV2Config::presumed_round_trip`]), and the window is that of the start rate.
//! - A loss that is the link's own hides neither marks nor delay, as the text's `else if` would; it is judged once, at the next
//!   occasion to react.
//! - Losses and classic marks, which take a fixed part of the window, are reacted to once in a round trip, as §"Network Congestion
//!   Control" of the overview has it. The code has them reacted to as often as graded marks, each virtual round trip, of which
//!   only the latter take account.
//! - The delay does not set the time at which congestion was detected, as in the text's code: only losses and marks hold growth
//!   by a factor back.
//! - Losses that end a silence have been reacted to, and are not counted: the rule against policers, which looks for many losses and a
//!   short queue, would hold the window of an outage for minutes.
//! - Packets that no feedback tells of are neither lost nor acknowledged.
//! - `TARGET_BITRATE_MAX` bounds the window as the authors' implementation does: to what was in flight, and no less than what the most
//!   needs with the pacing headroom.
//! - Left out: competing flows compensation, which the text itself doubts (§"Discussion"), and slower averages of the round trip
//!   while little is in flight, for which it names no figures.

pub mod flight;
pub mod losses;
pub mod marks;
pub mod media_rate;
pub mod queue_delay;
pub mod sending;
pub mod silence;
pub mod window;

pub use flight::Flight;
pub use losses::{Losses, LossesConfig};
pub use marks::{Marks, MarksConfig};
pub use media_rate::{MediaRate, MediaRateConfig};
pub use queue_delay::{QueueDelay, QueueDelayConfig};
pub use sending::SendingConfig;
pub use silence::{Silence, SilenceConfig};
pub use window::{Congestion, Path, ReferenceWindow, WindowConfig};

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Decision, Signal, Target},
};

/// What marks mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MarkMode {
    /// Graded as soon as a packet is reported that arrived as ECT(1); classic until then.
    #[default]
    Detect,
    /// Each is congestion (`IS_L4S` false).
    Classic,
    /// Their share is (`IS_L4S` true).
    Graded,
}

/// What is settable of [`ScreamV2`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScreamV2Config {
    /// Within what the target may move (`TARGET_BITRATE_MIN`, `TARGET_BITRATE_MAX`), and where it begins.
    pub limits: Limits,
    /// The queue delay.
    pub delay: QueueDelayConfig,
    /// The share of marked packets.
    pub marks: MarksConfig,
    /// What marks mean. Default: what the packets say.
    pub mark_mode: MarkMode,
    /// Losses.
    pub losses: LossesConfig,
    /// The reference window.
    pub window: WindowConfig,
    /// The media rate.
    pub media: MediaRateConfig,
    /// Pacing and the send window.
    pub sending: SendingConfig,
    /// What if no feedback comes.
    pub silence: SilenceConfig,
    /// The round trip before there is one. Default 333 ms (RFC 9002 §6.2.2, `kInitialRtt`).
    pub presumed_round_trip: TimeDelta,
    /// How often it looks at what waits at the sender. Default 10 ms, so that frames are told apart at up to 100 a second.
    pub look: TimeDelta,
    /// What is left of the target while the base delay is measured anew. Default 0.5 (§"Clock drift issues and remedies").
    pub drift_scale: f64,
    /// That lasts for five round trips, and at least this. Default 0.2 s (same section).
    pub drift_time: TimeDelta,
}

impl ScreamV2Config {
    /// The text's constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

impl Default for ScreamV2Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            delay: QueueDelayConfig::default(),
            marks: MarksConfig::default(),
            mark_mode: MarkMode::default(),
            losses: LossesConfig::default(),
            window: WindowConfig::default(),
            media: MediaRateConfig::default(),
            sending: SendingConfig::default(),
            silence: SilenceConfig::default(),
            presumed_round_trip: TimeDelta::from_millis(333),
            look: TimeDelta::from_millis(10),
            drift_scale: 0.5,
            drift_time: TimeDelta::from_millis(200),
        }
    }
}

/// `scream:v2`.
#[derive(Debug, Clone)]
pub struct ScreamV2 {
    config: ScreamV2Config,
    delay: QueueDelay,
    marks: Marks,
    losses: Losses,
    window: ReferenceWindow,
    media: MediaRate,
    flight: Flight,
    silence: Silence,
    pending: Pending,
    is_graded: bool,
    /// The newest packet that is reported as received.
    newest: Option<u64>,
    /// What was sent until then and is missing has been reacted to, as silence.
    atoned: Option<Timestamp>,
    /// Until then the base delay is measured anew.
    drains: Option<Timestamp>,
    /// What moved the window last.
    cause: Cause,
    /// By how much the rate is held below the window for what waits at the sender, as of the target; and how long the oldest waits.
    guard: f64,
    waited: TimeDelta,
    target: DataRate,
    decision: Decision,
    now: Timestamp,
    begun: bool,
    looked: Timestamp,
}

/// Losses and marks that were not yet reacted to.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    lost: bool,
    marked: bool,
}

/// What a feedback message adds up to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Of all that is newly told of; of what arrived; of what arrived marked.
    told: DataSize,
    arrived: DataSize,
    marked: DataSize,
    /// When the newest packet that arrived was sent, if it is newer than all before.
    newest: Option<Timestamp>,
}

impl ScreamV2 {
    /// Its requirements. A window may hold packets back: what has waited for 2 s is discarded, as in
    /// [`scream:rfc8298`](super::rfc8298::ScreamRfc8298::REQUIREMENTS).
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        pacer: PacerSettings::SINGLE,
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_seconds(2)) },
        delay_target: true,
        ..Requirements::DEFAULT
    };

    /// Nothing has been sent. The most counts as no less than the least, and the start as between them.
    pub fn new(config: ScreamV2Config) -> Self {
        let config = ScreamV2Config { limits: config.limits.ordered(), ..config };
        let start = config.limits.start;
        let mut this = Self {
            delay: QueueDelay::new(config.delay),
            marks: Marks::new(config.marks),
            losses: Losses::new(config.losses),
            window: ReferenceWindow::new(config.window, 0.0),
            media: MediaRate::new(config.media),
            flight: Flight::new(config.presumed_round_trip),
            silence: Silence::new(config.silence),
            pending: Pending::default(),
            is_graded: config.mark_mode == MarkMode::Graded,
            newest: None,
            atoned: None,
            drains: None,
            guard: 0.0,
            waited: TimeDelta::ZERO,
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

    /// The reference window.
    pub fn reference_window(&self) -> DataSize {
        DataSize::from_bytes(self.window.size() as u64)
    }

    /// The queue delay, and what follows from it.
    pub fn delay(&self) -> &QueueDelay {
        &self.delay
    }

    /// The average share of marked packets, 0 to 1.
    pub fn marks(&self) -> f64 {
        self.marks.average()
    }

    /// The smoothed round trip.
    pub fn round_trip(&self) -> TimeDelta {
        self.flight.round_trip()
    }

    /// The window with which the media may have `rate`. What the rate loses in a small window depends on the window: two steps
    /// are within a percent.
    fn open_for(&mut self, rate: DataRate) {
        let bytes = rate.as_bps() as f64 * self.flight.round_trip().as_seconds() / 8.0;
        self.window.set(bytes * self.config.media.divisor);
        for _ in 0..2 {
            let factor = self.media.factor(self.config.window.segment, self.window.segment_share());
            self.window.set(bytes / factor.max(f64::MIN_POSITIVE));
        }
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        if !std::mem::replace(&mut self.begun, true) {
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
                tally.told += sent.size;
                if self.atoned.is_none_or(|atoned| sent.at > atoned) {
                    self.losses.on_missing(now, sent.sequence);
                }
                continue;
            };
            let is_new = self.newest.is_none_or(|newest| sent.sequence > newest);
            self.losses.on_arrival(now, sent.sequence, share);
            self.marks.on_packet(*ecn == Ecn::Ce);
            self.is_graded |= *ecn == Ecn::Ect1 && self.config.mark_mode == MarkMode::Detect;
            tally.told += sent.size;
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
            round_trip: self.flight.round_trip(),
            in_flight: self.flight.most(),
            is_short: self.delay.latest() < self.delay.target() / 4.0,
            steadiness: self.delay.steadiness(),
            is_low: (self.target.as_bps() as f64) < self.flight.rate() * margin,
            is_at_most: self.target >= self.config.limits.max,
        }
    }

    /// What is to be reacted to now.
    fn congestion(&mut self, now: Timestamp) -> Option<Congestion> {
        if self.pending.lost || self.pending.marked {
            self.window.on_detected(now);
        }
        if !self.window.is_due(now, self.flight.round_trip()) {
            return None;
        }
        let Pending { lost, marked } = std::mem::take(&mut self.pending);
        let waits = self.delay.average() > self.delay.target() / 4.0;
        if lost && self.losses.is_policer() && !waits {
            self.window.police(self.config.losses.policer_beta);
        }
        let share = self.delay.virtual_marks();
        let cut = self.window.is_cut_due(now, self.flight.round_trip());
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
        if path.is_at_most {
            let most = self.config.limits.max.as_bps() as f64 / 8.0 * path.round_trip.as_seconds();
            let used = path.in_flight.0.as_bytes() as f64;
            self.window.cap(used.max(most * self.config.sending.head_room));
        }
    }

    /// The rate that the window allows, and the decision if it differs.
    fn settle(&mut self, now: Timestamp) {
        let share = self.window.segment_share();
        let factor = self.media.factor(self.config.window.segment, share);
        let silent = self.silence.lasts(now);
        let round_trip = self.flight.round_trip().max(silent.unwrap_or(TimeDelta::ZERO));
        let rate = factor * 8.0 * self.window.size() / round_trip.as_seconds();
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
            // The window has not moved, or up: what is lower is lower for what waits.
            (true, None) if to < self.target && guard > self.guard && self.window_rests() => {
                Cause::SenderQueue { waited_ms: self.waited.as_millis() }
            }
            (true, None) => self.cause,
        };
        self.decision = Decision { at: now, from: self.target, to, cause };
        (self.target, self.guard) = (to, guard);
    }

    /// Whether what moved the window last did not make it smaller.
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
            self.atoned = Some(now);
        }
        self.silence.on_heard(now, feedback.in_flight);
        let tally = self.on_packets(now, feedback.packets);
        let sample = tally.newest.map(|sent| now.saturating_since(sent)).or(feedback.round_trip);
        if sample.is_some_and(|sample| self.flight.on_round_trip(sample)) {
            self.open_for(self.target);
        }
        self.on_in_flight(now, feedback.in_flight);
        let round_trip = self.flight.round_trip();
        self.flight.on_arrived(now, tally.arrived, self.media.frame_period() * 2);
        self.marks.update(now, round_trip);
        let interval = self.config.window.virtual_round_trip.min(round_trip);
        if self.delay.update(now, interval, round_trip) {
            self.drains = Some(now + (round_trip * 5).max(self.config.drift_time));
        }
        self.move_window(now, tally.told.saturating_sub(tally.marked));
        self.settle(now);
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.advance(now);
        self.looked = now;
        self.media.on_queue(now, queue, self.target);
        self.waited = queue.oldest;
        let waits = queue.size > DataSize::ZERO;
        if self.silence.update(now, self.flight.round_trip(), waits) {
            self.window.set(self.window.size() * self.silence.beta());
        }
        self.settle(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        Some(if self.begun { self.looked + self.config.look.max(LEAST_LOOK) } else { Timestamp::ZERO })
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

    fn requirements(&self) -> Requirements {
        Self::REQUIREMENTS
    }

    fn target(&self) -> Target {
        let window = self.config.sending.window(self.window.size(), self.delay.steadiness());
        Target {
            media: self.target,
            pacing: self.config.sending.pacing(self.target, self.config.limits.max),
            padding: DataRate::ZERO,
            window: self.silence.window(window),
        }
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }
}

/// No deadline comes sooner after another.
const LEAST_LOOK: TimeDelta = TimeDelta::from_millis(1);

#[cfg(test)]
mod any_order;
#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod tests;
