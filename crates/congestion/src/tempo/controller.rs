//! The controller `tempo`: composes the estimators and the laws.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    arrivals::Arrivals,
    base_delay::BaseDelay,
    bps,
    compete::{self, Compete, Competed, segment},
    config::Config,
    delivery_rate::delivery_rate,
    distance::Distance,
    drain::{self, Drain, Drained, Others},
    frames::{Arrived, Frames},
    grow::{Bounds, Grow},
    loss::{LossLaw, MAX_USUAL},
    loss_ratio::Losses,
    marks::{Marked, Marks},
    path::Path,
    sharing::Sharing,
    silence::Silence,
};
use crate::{
    controller::Controller,
    decided::Decided,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    target::{Cause, Signal, Target},
};

/// Periods of the base delay, of one second: while we grow the queue is empty now and then, so that a longer route is learned soon; while
/// others fill it, it may not be empty for long.
const PERIODS: usize = 15;
const BUSY_PERIODS: usize = 60;
/// Windows of the delivery rate.
const SHORT: TimeDelta = TimeDelta::from_millis(120);
const LONG: TimeDelta = TimeDelta::from_millis(600);
/// A packet takes at most this at the bottleneck: about one frame interval. More would say that others use the link.
const MAX_PACKET_TIME: f64 = 0.035;
/// No law brings the rate below what still measures the path: a packet each 0.2 s. The configured minimum comes first.
const MIN_RATE: f64 = 20_000.0;
/// For this time after others filled the queue, they are expected again.
const RIVAL_MEMORY: TimeDelta = TimeDelta::from_seconds(15);
/// Beside others, we test so often whether the queue is ours, and ten round trips later. The first tests come soon: calls of one kind that
/// took each other for rivals test at the same time, and find out.
const FIRST_TEST: TimeDelta = TimeDelta::from_seconds(2);
const LAST_TEST: TimeDelta = TimeDelta::from_seconds(8);
/// With graded marks, media over pacing: frames are spread, and a larger frame is sent within a few intervals.
const L4S_SHARE: f64 = 0.96;
/// Where packets are paced near the media rate, it leaves room for what waits at the sender to leave within this, in seconds.
const EMPTIED: f64 = 0.3;

#[derive(Debug, Clone)]
enum Phase {
    Grow,
    Drain(Drain),
    Compete(Compete),
}

/// Keeps the queue of the path short and the path used: see the [module](super).
#[derive(Debug, Clone)]
pub struct Tempo {
    config: Config,
    decided: Decided,
    /// The rate that is controlled, in bit/s.
    rate: f64,
    cause: Cause,
    phase: Phase,
    // Estimators.
    arrivals: Arrivals,
    delay: BaseDelay,
    lowest_rtt: BaseDelay,
    frames: Frames,
    losses: Losses,
    sharing: Sharing,
    rtt: Option<TimeDelta>,
    /// Mean size of packets, in bits.
    packet: f64,
    path: Path,
    /// Bits that arrived with the latest feedback.
    arrived: f64,
    /// One-way delay, up to a constant, of the newest packet that arrived, and of the one before the latest loss.
    newest_delay: Option<TimeDelta>,
    delay_before_loss: Option<TimeDelta>,
    /// The highest number of a packet that arrived.
    newest: u64,
    in_flight: DataSize,
    queue: QueueState,
    // Laws.
    grow: Grow,
    distance: Distance,
    loss: LossLaw,
    marks: Marks,
    silence: Silence,
    /// Factor on the media while feedback is overdue.
    patience: f64,
    /// Time of the latest end of a time beside others; how we competed, if this is a test whether the queue is ours.
    rival: Option<Timestamp>,
    tested: Option<Compete>,
    /// What earlier queues said of others.
    others: Others,
    /// Time of the latest feedback and of the latest [`on_timeout`](Controller::on_timeout).
    stepped: Timestamp,
    looked: Timestamp,
}

impl Tempo {
    /// What it requires of the sender and the receiver.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        accepted: &[FeedbackKind::CongestionControl, FeedbackKind::TransportWide],
        pacer: PacerSettings::SINGLE,
        sender_queue: true,
        marks: true,
        // Later it is of no use, and sending it makes the next frames late.
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_millis(400)) },
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let config = Config { limits: config.limits.ordered(), ..config };
        let decided = Decided::new(config.limits);
        Self {
            rate: bps(decided.target()),
            decided,
            cause: Cause::Start,
            phase: Phase::Grow,
            arrivals: Arrivals::default(),
            delay: BaseDelay::default(),
            lowest_rtt: BaseDelay::default(),
            frames: Frames::default(),
            losses: Losses::default(),
            sharing: Sharing::default(),
            rtt: None,
            packet: bps(DataRate::from_bps(segment().as_bits())),
            path: Path { base_rtt: config.presumed_rtt, rtt: config.presumed_rtt, ..Path::default() },
            arrived: 0.0,
            newest_delay: None,
            delay_before_loss: None,
            newest: 0,
            in_flight: DataSize::ZERO,
            queue: QueueState::default(),
            grow: Grow::new(),
            distance: Distance::default(),
            loss: LossLaw::new(),
            marks: Marks::default(),
            silence: Silence::default(),
            patience: 1.0,
            rival: None,
            tested: None,
            others: Others::default(),
            stepped: Timestamp::ZERO,
            looked: Timestamp::ZERO,
            config,
        }
    }

    /// Time that runs backwards counts as no time. The session begins with the first call.
    fn begin(&mut self, now: Timestamp) -> Timestamp {
        let has_begun = self.decided.has_begun();
        let now = self.decided.advance(now);
        if !has_begun {
            (self.stepped, self.looked) = (now, now);
            self.silence.on_feedback(now);
        }
        now
    }

    // ---- estimators -----------------------------------------------------------------------------------------------------

    /// Handles the reports of a message. Returns whether a loss is new.
    fn take(&mut self, now: Timestamp, packets: &[PacketReport]) -> bool {
        let pacing = self.pacing();
        let is_calm = matches!(self.phase, Phase::Grow) && !self.path.is_congested();
        let busy = self.delay.base().unwrap_or_default() + self.path.high;
        self.arrived = 0.0;
        let (mut is_lost, mut newest, mut least) = (false, None, TimeDelta::MAX);
        let arrived = packets.iter().filter(|report| report.arrival.is_some());
        if let Some(first) = self.silence.on_arrivals(arrived.map(|report| report.sent.at)) {
            self.loss.judge_from(first);
        }
        for report in packets {
            let SentPacket { sequence, at: sent, size, .. } = report.sent;
            if self.losses.on_report(sequence, sent, report.arrival.is_some()) {
                is_lost = true;
                self.delay_before_loss = self.newest_delay;
            }
            let Some(arrival) = report.arrival else { continue };
            let delay = -arrival.apparent_delay(sent);
            self.newest_delay = Some(delay);
            self.arrived += size.as_bits() as f64;
            self.arrivals.push(arrival, size);
            least = least.min(delay);
            self.marks.on_packet(report.ecn);
            self.packet += 0.02 * (size.as_bits() as f64 - self.packet);
            if sequence >= self.newest {
                self.newest = sequence;
                newest = Some(sent);
                let packet = Arrived { sequence, sent, arrival, delay, size };
                if let Some(frame) = self.frames.push(now, packet, pacing, is_calm)
                    && frame.least_delay > busy
                {
                    match &mut self.phase {
                        // What left while we yielded says nothing: it was hardly faster than the media.
                        Phase::Drain(drain) if frame.left >= drain.began() => {}
                        Phase::Grow | Phase::Drain(_) => self.sharing.on_frame(&frame),
                        Phase::Compete(compete) => compete.on_frame(&frame),
                    }
                }
            }
        }
        if least < TimeDelta::MAX {
            self.delay.on_delay(now, least);
        }
        if let Some(sent) = newest {
            let rtt = now.saturating_since(sent);
            self.lowest_rtt.on_delay(now, rtt);
            self.rtt = Some(self.rtt.map_or(rtt, |smoothed| smoothed + (rtt - smoothed) / 10));
        }
        let periods = if matches!(self.phase, Phase::Grow) { PERIODS } else { BUSY_PERIODS };
        self.delay.keep(periods);
        self.lowest_rtt.keep(periods);
        is_lost
    }

    /// The state of the path after a message.
    fn measure(&mut self, now: Timestamp, is_lost_now: bool) -> Path {
        let config = &self.config;
        let base_rtt = self.lowest_rtt.base().unwrap_or(config.presumed_rtt);
        let long = delivery_rate(&self.arrivals, LONG);
        let link = bps(long).max(0.5 * self.rate).max(10_000.0);
        let train = self.frames.train_rate(now);
        let link = train.map_or(link, |train| link.max(bps(train.arrived)));
        let packet_time = TimeDelta::from_seconds_f64((self.packet / link).min(MAX_PACKET_TIME));
        let short = SHORT.max(packet_time * 4).min(LONG);
        let base = self.delay.base();
        let standing = base.and_then(|base| self.frames.queue(base));
        let queue = standing.filter(|queue| queue.packets >= 3).map(|queue| queue.delay);
        let frames = standing.map_or(1, |standing| standing.frames);
        let (seldom, usual) = self.frames.jitter().by_chance(
            base.unwrap_or_default() + packet_time,
            frames,
            config.false_alarm,
        );
        let limit = |fixed: TimeDelta, jitter| fixed + TimeDelta::from_seconds_f64(jitter);
        let high = limit(config.congested_above, seldom) + packet_time;
        let low = limit(config.empty_below, usual) + packet_time / 2;
        let loss = self.losses.ratio(TimeDelta::from_millis(80) + base_rtt / 4, self.loss.from());
        let random = self.loss.usual().min(loss.ratio);
        // What random loss takes has passed the bottleneck as well.
        let passed = |rate: DataRate| (bps(rate) / (1.0 - random)).max(1.0);
        let delivered = passed(delivery_rate(&self.arrivals, short));
        let has_waited = self.delay_before_loss.zip(base).is_some_and(|(delay, base)| delay - base > high);
        let flying = (self.in_flight.as_bits() as f64 / delivered - base_rtt.as_seconds()).clamp(0.0, 60.0);
        Path {
            now,
            step: now.saturating_since(self.stepped).min(TimeDelta::from_millis(200)),
            queue,
            queue_ahead: queue.unwrap_or_default().min(TimeDelta::from_seconds_f64(flying)),
            high,
            low,
            delivered,
            delivered_long: passed(long),
            train,
            packet_time,
            packet_size: self.packet,
            rtt: self.rtt.unwrap_or(config.presumed_rtt),
            base_rtt,
            loss,
            is_lost_now,
            has_waited,
            arrived: self.arrived / (1.0 - random),
            waiting: self.queue.size.as_bits() as f64,
        }
    }

    // ---- laws -----------------------------------------------------------------------------------------------------------

    fn control(&mut self, path: &Path) {
        let grew = matches!(self.phase, Phase::Grow);
        let phase = core::mem::replace(&mut self.phase, Phase::Grow);
        self.phase = match phase {
            Phase::Grow if path.is_congested() && !Sharing::has_little(path, self.rate) => {
                self.cause = delay_cause(path, Signal::OverUse);
                let others = self.others.after(path.now);
                let drain = Drain::new(path, self.rate, others);
                self.sharing.on_congestion(path, self.rate);
                self.grow.restart();
                self.loss.on_queue(self.rate);
                self.drain(path, drain)
            }
            Phase::Grow => {
                self.grow(path);
                Phase::Grow
            }
            Phase::Drain(drain) => self.drain(path, drain),
            Phase::Compete(compete) => self.compete(path, compete),
        };
        let competes = matches!(self.phase, Phase::Compete(_));
        if !competes {
            if !self.expects_rival(path) {
                let drains = matches!(self.phase, Phase::Drain(_));
                self.distance.step(path, self.rate, drains, self.loss.usual());
            }
            // Where a queue has just emptied, the losses of this feedback are of that queue.
            let grows = grew && matches!(self.phase, Phase::Grow);
            if let Some(rate) = self.loss.step(path, self.rate, grows) {
                self.rate = rate;
                self.cause = Cause::Loss { ratio: path.loss.ratio };
                self.grow.restart();
            }
        }
        self.mark(path);
        if path.loss.ratio > MAX_USUAL && path.loss.packets > 20.0 && !competes {
            self.rate = self.rate.min((1.15 * path.delivered_long).max(60_000.0));
        }
    }

    fn mark(&mut self, path: &Path) {
        let (min, _) = self.decided.limits();
        match self.marks.step(path, self.rate, self.rate < 1.1 * min.max(MIN_RATE)) {
            Some(Marked::Reduce(ratio, factor)) => {
                // While packets are marked, what arrives is the capacity.
                let least = (0.9 * path.delivered).min(self.rate);
                self.rate = (factor * self.rate).max(least);
                self.cause = Cause::Marks { ratio };
            }
            Some(Marked::NotOurs(before)) => {
                self.rate = self.rate.max(before);
                self.cause = delay_cause(path, Signal::Normal);
            }
            None => return,
        }
        self.grow.restart();
    }

    fn grow(&mut self, path: &Path) {
        let is_alone = self.sharing.is_alone();
        let marked = self.marks.limit(path.now, is_alone);
        let bounds = Bounds {
            is_alone: !self.expects_rival(path) && is_alone && marked.is_none(),
            distance: self.distance,
            marked,
        };
        match self.grow.step(&self.sharing.ours(path), self.rate, bounds) {
            Some(next) => {
                let next = next + self.sharing.growth() * self.rate * path.step.as_seconds();
                let next = self.loss.limit(path, self.rate, next);
                if next > self.rate {
                    self.cause = delay_cause(path, Signal::Normal);
                }
                self.rate = next;
            }
            None => self.cause = Cause::ApplicationLimited,
        }
    }

    /// Whether others filled the queue lately.
    fn expects_rival(&self, path: &Path) -> bool {
        self.rival.is_some_and(|rival| path.now.saturating_since(rival) < RIVAL_MEMORY)
    }

    fn drain(&mut self, path: &Path, mut drain: Drain) -> Phase {
        let rival = self.expects_rival(path);
        let (rate, outcome) = drain.step(path, rival || self.tested.is_some());
        self.rate = rate;
        if outcome == Drained::NotYet {
            self.sharing.on_queue(path);
        }
        match outcome {
            Drained::Empty => {
                self.others = drain.others();
                self.cause = delay_cause(path, Signal::UnderUse);
                if self.tested.is_none() && !rival {
                    let has_all = self.sharing.has_all();
                    self.rate = if has_all { self.rate.min(drain.capacity()) } else { drain.beside() };
                    self.rate *= 1.0 - self.distance.share();
                    self.grow.on_capacity(drain.capacity());
                }
                self.loss.judge_from(path.now + TimeDelta::from_millis(20));
                self.grow.restart();
                self.tested = None;
                Phase::Grow
            }
            Drained::LongerRoute => {
                self.delay.restart(path.now, self.delay.base().unwrap_or_default() + path.queue());
                self.lowest_rtt.restart(path.now, path.rtt);
                self.rate = drain.before().min(path.delivered_long.max(self.rate));
                self.cause = Cause::Rtt;
                self.tested = None;
                Phase::Grow
            }
            Drained::Rival => {
                let first = Compete::first_window(drain.before(), drain.capacity(), path);
                let compete = match self.tested.take() {
                    Some(before) => before.resume(path, (before.interval() * 2).min(LAST_TEST)),
                    None => Compete::new(path, first, FIRST_TEST),
                };
                self.rate = compete.window() / path.rtt.as_seconds().max(0.005);
                self.cause = delay_cause(path, Signal::OverUse);
                self.rival = Some(path.now);
                Phase::Compete(compete)
            }
            Drained::NotYet => {
                self.cause = delay_cause(path, Signal::OverUse);
                Phase::Drain(drain)
            }
        }
    }

    fn compete(&mut self, path: &Path, mut compete: Compete) -> Phase {
        let max = bps(self.config.limits.max);
        let (rate, outcome) = compete.step(path, self.rate, self.loss.usual(), max);
        self.cause = if rate < self.rate && path.is_lost_now {
            // The ratio may not contain this loss yet: it is at least one of as many packets.
            Cause::Loss { ratio: path.loss.ratio.max(1.0 / path.loss.packets.max(1.0)) }
        } else if rate < self.rate {
            // The window over a longer round-trip time.
            Cause::Rtt
        } else {
            delay_cause(path, Signal::Normal)
        };
        self.rate = rate;
        self.rival = Some(path.now);
        match outcome {
            Competed::NotYet => Phase::Compete(compete),
            Competed::Gone => {
                self.grow.restart();
                Phase::Grow
            }
            Competed::Test => {
                self.tested = Some(compete);
                Phase::Drain(Drain::new(path, self.rate, Others::default()))
            }
        }
    }

    // ---- target ---------------------------------------------------------------------------------------------------------

    fn settle(&mut self, now: Timestamp) {
        let (min, max) = self.decided.limits();
        self.rate = self.rate.max(MIN_RATE).clamp(min, max.max(min));
        let is_l4s = self.marks.is_l4s(now);
        let room = if is_l4s || self.policed().is_some() { self.path.waiting / EMPTIED } else { 0.0 };
        let media = if is_l4s { L4S_SHARE } else { 1.0 } * self.rate - room;
        self.decided.settle((self.patience * media.max(0.5 * self.rate)).min(1e18), self.cause);
    }

    /// The pacing below a policer that is known, in bit/s.
    fn policed(&self) -> Option<f64> {
        self.loss.policed().filter(|&most| matches!(self.phase, Phase::Grow) && self.rate < most)
    }

    fn pacing(&self) -> f64 {
        let rate = self.rate.max(MIN_RATE);
        match &self.phase {
            _ if self.marks.is_l4s(self.path.now) => rate,
            Phase::Grow => {
                let most = self.loss.pacing() * rate;
                let most = self.policed().map_or(most, |policed| most.min(policed));
                match self.path.train {
                    // Faster than this only moves what waits from here into the network.
                    Some(train) => most.min((1.25 * bps(train.arrived)).max(1.15 * rate)),
                    None => most,
                }
            }
            Phase::Drain(_) => drain::pacing(&self.path).max(1.05 * rate),
            Phase::Compete(_) => compete::PACING * rate,
        }
    }
}

fn delay_cause(path: &Path, signal: Signal) -> Cause {
    Cause::Delay { signal, trend_ms: path.queue().as_millis(), threshold_ms: path.high.as_millis() }
}

impl Controller for Tempo {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.begin(now);
        self.in_flight = packet.in_flight;
        self.silence.on_sent(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.begin(now);
        self.in_flight = feedback.in_flight;
        if feedback.packets.is_empty() {
            return;
        }
        let is_lost = self.take(now, feedback.packets);
        self.silence.on_feedback(now);
        self.patience = 1.0;
        let path = self.measure(now, is_lost);
        self.path = path;
        self.stepped = now;
        self.control(&path);
        self.settle(now);
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.begin(now);
        self.looked = now;
        self.queue = *queue;
        let rtt = self.rtt.unwrap_or(self.config.presumed_rtt);
        let reduced = self.silence.step(now, rtt, self.in_flight);
        if let Some(factor) = reduced {
            if matches!(self.phase, Phase::Grow) {
                self.phase =
                    Phase::Drain(Drain::new(&self.path, self.rate, self.others.after(self.path.now)));
                self.grow.restart();
            }
            self.rate *= factor;
        }
        // Beside others the queue is theirs.
        if !matches!(self.phase, Phase::Compete(_)) {
            self.patience = self.silence.factor(now, drain::horizon(&self.path), self.in_flight);
        }
        if self.patience < 1.0 || reduced.is_some() {
            self.cause = Cause::Silence;
            self.settle(now);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let has_begun = self.decided.has_begun();
        Some(if has_begun { self.looked + self.config.look } else { Timestamp::ZERO })
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits.ordered();
        if !self.decided.has_begun() {
            *self = Self::new(self.config);
            return;
        }
        self.begin(now);
        self.decided.set_limits(limits);
        let (min, max) = self.decided.limits();
        self.rate = self.rate.clamp(min, max);
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if !self.decided.has_begun() {
            return;
        }
        let now = self.begin(now);
        let decided = self.decided.restarted(self.config.limits);
        let fresh = Self::new(self.config);
        let mut silence = Silence::default();
        silence.on_feedback(now);
        *self = Self { decided, silence, stepped: now, looked: self.looked, queue: self.queue, ..fresh };
    }

    fn target(&self) -> Target {
        let media = self.decided.target();
        let pacing = DataRate::from_bps(self.pacing().min(1e18) as u64).max(media);
        Target { media, pacing, ..Target::default() }
    }

    crate::controller::answers!(decided);
}
