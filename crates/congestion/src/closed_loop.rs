//! A sender, a link and a receiver in one closed loop, to test the effect of controllers.
//!
//! The link has a rate that may vary with time, a drop-tail queue of 300 ms and a one-way delay of 25 ms unless
//! configured otherwise, and random loss behind the queue. The sender sends video at 30 frames per second, in
//! packets of 1200 bytes, through a [`Pacer`]. Filler packets complete probes and padding. The receiver sends
//! feedback every 50 ms unless configured otherwise. Arrival times have a resolution of 250 µs, of 1/1024 s
//! with RFC 8888, and of 1/90 000 s with the messages of the SCReAM draft.

use std::collections::VecDeque;

use giusto_pace::media::{self, Pacer, PacerConfig, Permit};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    algorithm::Algorithm,
    controller::Controller,
    feedback::{Feedback, LossReport, PacketReport, QueueState, SentPacket},
    gcc::rate::rtt::propagation,
    limits::Limits,
    requirements::FeedbackKind,
    target::{Cause, Decision, Probe},
    testing::{at, limits},
};

const PACKET: u64 = 1200;
const FRAME: TimeDelta = TimeDelta::from_nanos(33_333_333);

/// The pacer that the controller requires.
pub(super) fn pacer_config(kind: Algorithm) -> PacerConfig {
    PacerConfig::libwebrtc().with_burst(kind.requirements().pacer.burst)
}

giusto_units::defaults! {
    /// The path and the sender's behaviour.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Scenario {
        /// Link rate in Mbit/s as a function of the time in seconds. Zero: nothing passes.
        pub(super) link: fn(f64) -> f64 = |_| 3.0,
        /// One-way delay in milliseconds as a function of the time in seconds.
        pub(super) delay: fn(f64) -> f64 = |_| 25.0,
        /// Length of the queue.
        pub(super) queue: TimeDelta = TimeDelta::from_millis(300),
        /// Probability of loss behind the queue, 0 to 1.
        pub(super) loss: f64 = 0.0,
        pub(super) limits: Limits = Limits { max: DataRate::from_bps(10_000_000), ..Limits::default() },
        pub(super) seconds: u64 = 60,
        pub(super) seed: u64 = 1,
        /// Maximum rate of the media.
        pub(super) media: DataRate = DataRate::from_bps(u64::MAX),
        /// Once per second, the receiver sends a receiver report and an estimate of 1.5 times the received rate,
        /// instead of packet feedback.
        pub(super) reports_only: bool = false,
        /// Packet feedback once a second includes the round-trip time, as a receiver report would.
        pub(super) rtts: bool = false,
        /// By how many milliseconds the receiver's clock is ahead, as a function of the time in seconds.
        pub(super) clock: fn(f64) -> f64 = |_| 0.0,
        /// Interval of packet feedback.
        pub(super) feedback: TimeDelta = TimeDelta::from_millis(50),
        /// Whether feedback is lost, as a function of the time in seconds.
        pub(super) is_feedback_lost: fn(f64) -> bool = |_| false,
        /// The codepoint of the packets.
        pub(super) ecn: Ecn = Ecn::NotEct,
        /// Queueing delay above which the queue marks packets with an ECN-capable codepoint, in milliseconds.
        pub(super) mark_above: f64 = f64::INFINITY,
        /// Changes that the sender's host reports to the controller, with the time in seconds.
        pub(super) changes: &'static [(f64, Change)] = &[],
    }
}

/// A change that the host reports to a controller at run time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Limits(Limits),
    Route,
}

/// The measured results.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Bits that arrived in each interval of 100 ms.
    pub(super) arrived: Vec<u64>,
    /// Media rate at the beginning of each interval of 100 ms, in bit/s.
    pub(super) targets: Vec<u64>,
    /// Send time in seconds and queueing delay on the link in milliseconds, per packet.
    pub(super) queue_delays: Vec<(f64, f64)>,
    pub(super) sent: u64,
    /// Packets dropped by the queue, and packets lost at random.
    pub(super) dropped: u64,
    pub(super) lost: u64,
    /// Send time in seconds of each packet that the queue dropped.
    pub(super) drops: Vec<f64>,
    /// Packets marked by the queue.
    pub(super) marked: u64,
    /// Send time in seconds and queueing delay at the sender in milliseconds, per packet.
    pub(super) sender_delays: Vec<(f64, f64)>,
    pub(super) decisions: Vec<Decision>,
    pub(super) probes: u64,
    pub(super) timeouts: u64,
    /// Time with padding requested, in seconds.
    pub(super) padding_seconds: f64,
}

impl Outcome {
    /// Mean received rate between two times, in Mbit/s.
    pub(super) fn mbps(&self, from: f64, to: f64) -> f64 {
        let places = (from * 10.0) as usize..(to * 10.0) as usize;
        self.arrived[places].iter().sum::<u64>() as f64 / 1e6 / (to - from)
    }

    /// First time after which the mean received rate over one second is at least `mbps`.
    pub(super) fn reaches(&self, after: f64, mbps: f64) -> Option<f64> {
        let first = (after * 10.0) as usize;
        let place = self.arrived[first..]
            .windows(10)
            .position(|tenths| tenths.iter().sum::<u64>() as f64 >= mbps * 1e6)?;
        Some((first + place) as f64 / 10.0)
    }

    /// 95th percentile of the queueing delay on the link, for packets sent between two times.
    pub(super) fn queue_delay_p95(&self, from: f64, to: f64) -> f64 {
        let within = self.queue_delays.iter().filter(|&&(at, _)| at >= from && at < to);
        let mut queue_delays: Vec<f64> = within.map(|&(_, wait)| wait).collect();
        queue_delays.sort_unstable_by(f64::total_cmp);
        queue_delays.get(queue_delays.len() * 95 / 100).copied().unwrap_or(0.0)
    }

    /// 95th percentile of the queueing delay at the sender, for packets sent between two times.
    pub(super) fn sender_delay_p95(&self, from: f64, to: f64) -> f64 {
        let within = self.sender_delays.iter().filter(|&&(at, _)| at >= from && at < to);
        let mut ages: Vec<f64> = within.map(|&(_, age)| age).collect();
        ages.sort_unstable_by(f64::total_cmp);
        ages.get(ages.len() * 95 / 100).copied().unwrap_or(0.0)
    }

    /// Share of the packets sent between two times that the queue dropped.
    pub(super) fn dropped_share_between(&self, from: f64, to: f64) -> f64 {
        let within =
            |times: &mut dyn Iterator<Item = f64>| times.filter(|at| (from..to).contains(at)).count() as f64;
        let dropped = within(&mut self.drops.iter().copied());
        dropped / (dropped + within(&mut self.queue_delays.iter().map(|&(at, _)| at))).max(1.0)
    }

    /// Share of all packets that the queue dropped.
    pub(super) fn dropped_share(&self) -> f64 {
        self.dropped as f64 / self.sent as f64
    }

    /// Media rate at a given time, in Mbit/s.
    pub(super) fn target(&self, at: f64) -> f64 {
        self.targets[(at * 10.0) as usize] as f64 / 1e6
    }

    /// Minimum and maximum media rate between two times.
    pub(super) fn targets(&self, from: f64, to: f64) -> (f64, f64) {
        let within = &self.targets[(from * 10.0) as usize..(to * 10.0) as usize];
        let (min, max) = (within.iter().min(), within.iter().max());
        (*min.unwrap() as f64 / 1e6, *max.unwrap() as f64 / 1e6)
    }

    pub(super) fn has_cause(&self, wanted: impl Fn(&Cause) -> bool) -> bool {
        self.decisions.iter().any(|decision| wanted(&decision.cause))
    }
}

/// Runs a controller of `kind` in `scenario`.
pub(super) fn run(kind: Algorithm, scenario: Scenario) -> Outcome {
    run_with(kind.build(scenario.limits), kind, scenario)
}

/// Runs `controller` in `scenario`, with the pacer of `kind`.
pub(super) fn run_with(controller: Box<dyn Controller>, kind: Algorithm, scenario: Scenario) -> Outcome {
    Loop::new(controller, kind, scenario).run()
}

/// Runs a controller of `kind` with another pacer.
pub(super) fn run_paced(kind: Algorithm, pacer: PacerConfig, scenario: Scenario) -> Outcome {
    let mut this = Loop::new(kind.build(scenario.limits), kind, scenario);
    this.pacer = Pacer::new(pacer, this.controller.target().pacing);
    this.run()
}

/// Arrival time of a feedback message, with its packet reports or its loss report and receiver estimate.
type Message = (Timestamp, Vec<PacketReport>, Option<(LossReport, DataRate)>);

#[derive(Debug)]
struct Loop {
    scenario: Scenario,
    random: StdRng,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    now: Timestamp,
    /// Packets in the sender's queue: the time at which each was queued.
    queue: VecDeque<Timestamp>,
    /// Remaining bytes of a frame that do not fill a packet yet.
    rest: f64,
    next_frame: Timestamp,
    next_padding: Timestamp,
    next_feedback: Timestamp,
    next_rtt: Timestamp,
    /// Bits in the link's queue at time `drained`.
    backlog: f64,
    drained: Timestamp,
    /// Packets that were sent and not yet reported, with their arrival times.
    flight: VecDeque<(SentPacket, Option<Timestamp>, Ecn)>,
    in_flight: DataSize,
    /// Feedback on its way to the sender, with its arrival time.
    returning: VecDeque<Message>,
    second: (u64, u64, u64),
    /// Resolution of the reported arrival times, in nanoseconds.
    step: u64,
    sequence: u64,
    /// The first packet on the current route.
    first: u64,
    limits: Limits,
    changes: &'static [(f64, Change)],
    outcome: Outcome,
}

impl Loop {
    fn new(controller: Box<dyn Controller>, kind: Algorithm, scenario: Scenario) -> Self {
        let pacer = Pacer::new(pacer_config(kind), controller.target().pacing);
        let tenths = scenario.seconds as usize * 10;
        Self {
            scenario,
            random: StdRng::seed_from_u64(scenario.seed),
            controller,
            pacer,
            now: Timestamp::ZERO,
            queue: VecDeque::new(),
            rest: 0.0,
            next_frame: Timestamp::ZERO,
            next_padding: Timestamp::ZERO,
            next_feedback: Timestamp::ZERO + scenario.feedback,
            next_rtt: Timestamp::ZERO,
            backlog: 0.0,
            drained: Timestamp::ZERO,
            flight: VecDeque::new(),
            in_flight: DataSize::ZERO,
            returning: VecDeque::new(),
            second: (0, 0, 0),
            step: match kind.requirements().feedback {
                FeedbackKind::CongestionControl => 1_000_000_000 / 1024,
                FeedbackKind::ScreamDraft => 1_000_000_000 / 90_000,
                _ => 250_000,
            },
            sequence: 0,
            first: 0,
            limits: scenario.limits,
            changes: scenario.changes,
            outcome: Outcome { arrived: vec![0; tenths], targets: vec![0; tenths], ..Outcome::default() },
        }
    }

    fn run(mut self) -> Outcome {
        let end = Timestamp::ZERO + TimeDelta::from_seconds(self.scenario.seconds as i64);
        self.controller.on_timeout(self.now, &QueueState::default());
        self.follow();
        while self.now < end {
            let before = self.now;
            self.step();
            let next = self.next();
            assert!(next > before, "time stands still at {before}");
            self.record(next.min(end));
            self.now = next;
        }
        self.outcome
    }

    /// Processes everything that is due now.
    fn step(&mut self) {
        while let Some((&(_, change), rest)) = self.changes.split_first()
            && self.next_change().is_some_and(|at| at <= self.now)
        {
            self.changes = rest;
            self.change(change);
        }
        if self.next_frame <= self.now {
            let rate = self.controller.target().media.min(self.scenario.media);
            self.rest += rate.as_bps() as f64 / 8.0 * FRAME.as_seconds();
            let packets = (self.rest / PACKET as f64).floor();
            self.rest -= packets * PACKET as f64;
            self.queue.extend(std::iter::repeat_n(self.now, packets as usize));
            self.next_frame += FRAME;
        }
        if self.next_feedback <= self.now {
            self.report();
            self.next_feedback += self.scenario.feedback;
        }
        while self.returning.front().is_some_and(|&(at, ..)| at <= self.now) {
            self.deliver_feedback();
        }
        if self.controller.next_timeout().is_some_and(|at| at <= self.now) {
            self.controller.on_timeout(self.now, &self.queue());
            self.outcome.timeouts += 1;
            self.follow();
            let next = self.controller.next_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "a deadline at {next:?} that was handled at {}",
                self.now
            );
        }
        while self.sends() && self.pacer.next_send(self.now, DataSize::from_bytes(PACKET)) == Permit::Now {
            self.send();
        }
    }

    fn next_change(&self) -> Option<Timestamp> {
        self.changes.first().map(|&(at, _)| Timestamp::ZERO + TimeDelta::from_seconds_f64(at))
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Limits(limits) => {
                self.limits = limits;
                self.controller.set_limits(self.now, limits);
            }
            Change::Route => {
                self.first = self.sequence;
                self.in_flight = DataSize::ZERO;
                self.pacer.on_in_flight(self.in_flight);
                self.controller.on_route_change(self.now);
            }
        }
        self.follow();
    }

    fn queue(&self) -> QueueState {
        let oldest = self.queue.front().map_or(TimeDelta::ZERO, |&since| self.now - since);
        QueueState { size: DataSize::from_bytes(PACKET) * self.queue.len() as u64, oldest }
    }

    /// Whether there is anything to send: media, padding, or filler packets of a probe.
    fn sends(&self) -> bool {
        !self.queue.is_empty() || self.pacer.probe(self.now).is_some() || self.wants_padding()
    }

    fn wants_padding(&self) -> bool {
        self.controller.target().padding > DataRate::ZERO && self.next_padding <= self.now
    }

    fn next(&self) -> Timestamp {
        let size = DataSize::from_bytes(PACKET);
        let departure = match self.pacer.next_send(self.now, size) {
            Permit::At(at) if self.sends() => Some(at),
            _ => None,
        };
        let padding = (self.controller.target().padding > DataRate::ZERO).then_some(self.next_padding);
        let feedback = self.returning.front().map(|&(at, ..)| at);
        let known =
            [Some(self.next_frame), Some(self.next_feedback), departure, feedback, self.next_change()];
        let timeout = self.controller.next_timeout();
        known.into_iter().chain([padding, timeout]).flatten().filter(|&at| at > self.now).min().unwrap()
    }

    fn send(&mut self) {
        let size = DataSize::from_bytes(PACKET);
        if let Some(since) = self.queue.pop_front() {
            self.outcome.sender_delays.push((self.now.as_seconds(), (self.now - since).as_millis()));
        }
        let probe = self.pacer.on_sent(self.now, size);
        self.in_flight += size;
        let packet =
            SentPacket { sequence: self.sequence, at: self.now, size, probe, in_flight: self.in_flight };
        self.sequence += 1;
        let padding = self.controller.target().padding;
        if let Some(time) = padding.time_for(size) {
            self.next_padding = self.next_padding.max(self.now) + time;
        }
        let (arrival, ecn) = self.pass(size);
        self.flight.push_back((packet, arrival, ecn));
        self.outcome.sent += 1;
        self.controller.on_sent(self.now, &packet);
        self.follow();
    }

    fn delay(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64((self.scenario.delay)(self.now.as_seconds()) / 1e3)
    }

    /// Passes a packet through the link. Returns its arrival time unless it is lost.
    fn pass(&mut self, size: DataSize) -> (Option<Timestamp>, Ecn) {
        let at = self.now.as_seconds();
        let rate = (self.scenario.link)(at) * 1e6;
        self.backlog = (self.backlog - rate * (self.now - self.drained).as_seconds()).max(0.0);
        self.drained = self.now;
        let lost = self.random.random_bool(self.scenario.loss);
        let wait = self.backlog / rate;
        if rate <= 0.0 || wait > self.scenario.queue.as_seconds() {
            self.outcome.dropped += 1;
            self.outcome.drops.push(at);
            return (None, self.scenario.ecn);
        }
        let marked = self.scenario.ecn.is_capable() && wait * 1e3 > self.scenario.mark_above;
        let ecn = if marked { Ecn::Ce } else { self.scenario.ecn };
        self.outcome.queue_delays.push((at, wait * 1e3));
        self.backlog += size.as_bits() as f64;
        if lost {
            self.outcome.lost += 1;
            return (None, ecn);
        }
        let arrival = self.now + self.delay() + TimeDelta::from_seconds_f64(self.backlog / rate);
        if let Some(tenth) = self.outcome.arrived.get_mut((arrival.as_seconds() * 10.0) as usize) {
            *tenth += size.as_bits();
        }
        self.outcome.marked += u64::from(marked);
        (Some(arrival), ecn)
    }

    /// The receiver sends feedback.
    fn report(&mut self) {
        let came = |arrival: &Option<Timestamp>| arrival.is_some_and(|arrival| arrival <= self.now);
        let Some(last) = self.flight.iter().rposition(|(_, arrival, _)| came(arrival)) else { return };
        let reports: Vec<_> = self
            .flight
            .drain(..=last)
            .map(|(sent, arrival, ecn)| {
                let steps = |at: Timestamp| {
                    let at = at + TimeDelta::from_seconds_f64((self.scenario.clock)(at.as_seconds()) / 1e3);
                    PeerTimestamp::from_nanos(at.as_nanos() / self.step * self.step)
                };
                PacketReport { sent, arrival: arrival.map(steps), ecn }
            })
            .collect();
        let at = self.now + self.delay();
        if (self.scenario.is_feedback_lost)(self.now.as_seconds()) {
            return;
        }
        if !self.scenario.reports_only {
            self.returning.push_back((at, reports, None));
            return;
        }
        let (feedbacks, expected, arrived) = &mut self.second;
        *feedbacks += 1;
        *expected += reports.len() as u64;
        *arrived += reports.iter().filter(|report| report.arrival.is_some()).count() as u64;
        if *feedbacks >= 20 {
            let ratio = 1.0 - *arrived as f64 / *expected as f64;
            let rate = DataRate::from_bps(*arrived * PACKET * 8);
            let report = LossReport { ratio, expected_packets: *expected };
            self.second = (0, 0, 0);
            self.returning.push_back((at, Vec::new(), Some((report, rate))));
        }
    }

    fn deliver_feedback(&mut self) {
        let Some((_, mut packets, report)) = self.returning.pop_front() else { return };
        packets.retain(|packet| packet.sent.sequence >= self.first);
        if let Some(last) = packets.last() {
            self.in_flight = DataSize::from_bytes(PACKET) * (self.sequence - last.sent.sequence - 1);
        }
        self.pacer.on_in_flight(self.in_flight);
        let is_second = self.now >= self.next_rtt;
        let rtt = propagation(self.now, &packets).filter(|_| self.scenario.rtts && is_second);
        if rtt.is_some() {
            self.next_rtt = self.now + TimeDelta::from_seconds(1);
        }
        let feedback = Feedback {
            packets: &packets,
            rtt,
            loss: report.map(|(loss, _)| loss),
            receiver_estimate: report.map(|(_, rate)| DataRate::from_bps(rate.as_bps() * 3 / 2)),
            in_flight: self.in_flight,
            ..Feedback::default()
        };
        self.controller.on_feedback(self.now, &feedback);
        self.follow();
    }

    fn follow(&mut self) {
        let target = self.controller.target();
        let Limits { min, max, .. } = self.limits;
        assert!((min..=max).contains(&target.media), "{target:?}");
        self.pacer.on_target(self.now, target.pacing, target.window);
        while let Some(probe) = self.controller.next_probe() {
            self.outcome.probes += 1;
            let Probe { cluster, rate, duration, packets, batch } = probe;
            self.pacer.on_probe(self.now, media::Probe::new(cluster, rate, duration, packets, batch));
        }
        let decision = *self.controller.decision();
        if self.outcome.decisions.last() != Some(&decision) {
            self.outcome.decisions.push(decision);
        }
    }

    fn record(&mut self, until: Timestamp) {
        if self.controller.target().padding > DataRate::ZERO {
            self.outcome.padding_seconds += (until - self.now).as_seconds();
        }
        let tenth = |at: Timestamp| (at.as_seconds() * 10.0).ceil() as usize;
        for place in tenth(self.now)..tenth(until) {
            self.outcome.targets[place] = self.controller.target().media.as_bps();
        }
    }
}

/// Checks that a controller halves its rate again and again during 15 s without feedback, goes on sending, and comes back; `before` in
/// Mbit/s is what it reaches first.
pub(super) fn survives_silence(kind: Algorithm, before: f64) {
    let scenario = Scenario {
        limits: limits(50, 300, 2000),
        is_feedback_lost: |at| (30.0..45.0).contains(&at),
        seconds: 70,
        ..Scenario::default()
    };
    let outcome = run(kind, scenario);
    assert!(outcome.target(29.0) > before, "{}", outcome.target(29.0));
    assert!((0.049..0.2).contains(&outcome.target(44.0)), "{}", outcome.target(44.0));
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    // It goes on sending: two packets each 0.48 s.
    let kbps = outcome.mbps(36.0, 45.0) * 1e3;
    assert!((20.0..60.0).contains(&kbps), "{kbps}");
    assert!(outcome.target(60.0) > 1.7, "{}", outcome.target(60.0));
}

/// Sends a packet of which nothing is heard: checks that the rate of 1 Mbit/s is halved after a second and no earlier, and returns the
/// windows before and after it.
pub(super) fn windows_around_a_silent_second(controller: &mut dyn Controller) -> [Option<DataSize>; 2] {
    controller.on_sent(at(0), &SentPacket::new(0, at(0), DataSize::from_bytes(PACKET)));
    controller.on_timeout(at(999), &QueueState::default());
    assert_eq!(controller.target().media.as_bps(), 1_000_000);
    let before = controller.target().window;
    controller.on_timeout(at(1000), &QueueState::default());
    assert_eq!(controller.target().media.as_bps(), 500_000);
    assert_eq!(controller.decision().cause, Cause::Silence);
    [before, controller.target().window]
}

#[test]
fn a_clock_of_the_receiver_that_jumps_costs_no_rate_for_long() {
    let clocks: [fn(f64) -> f64; 4] = [
        |at| if at < 30.0 { 0.0 } else { 200.0 },
        |at| if at < 30.0 { 0.0 } else { 5_000.0 },
        |at| if at < 30.0 { 10_000.0 } else { 9_800.0 },
        |at| if at < 30.0 { 10_000.0 } else { 5_000.0 },
    ];
    for kind in Algorithm::all() {
        for (place, clock) in clocks.into_iter().enumerate() {
            let outcome = run(kind, Scenario { clock, seconds: 60, ..Scenario::default() });
            let (before, after) = (outcome.mbps(20.0, 30.0), outcome.mbps(45.0, 60.0));
            // The draft's rate is at most 1.5 times what arrives, and nothing does in a second that the clock has left out.
            let is_cut = place == 1 && kind.name().starts_with("gcc:draft");
            let least = if is_cut { 0.5 } else { 0.9 };
            assert!(after > least * before, "{} {place}: {before} {after}", kind.name());
            if kind.name() == "copa" {
                let p95 = outcome.queue_delay_p95(45.0, 60.0);
                assert!(p95 < 40.0, "{place}: {p95} ms");
            }
        }
    }
}
