//! The controller `nada` (RFC 8698 §4.3 and §5.2).

use alloc::vec::Vec;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp, math};

use super::{
    config::{Config, ReceiverConfig},
    receiver::{ReceivedMedia, Receiver},
    reference_rate::{self, ReferenceRate},
    shaping,
};
use crate::{
    clock_jump,
    controller::Controller,
    decided::Decided,
    feedback::{Extension, Feedback, PacketReport, QueueState, SentPacket},
    gcc::rate::{RttBackOff, rtt::propagation},
    limits::Limits,
    nada_report::{RateMode, Report},
    requirements::{FeedbackKind, PacerSettings, Requirements},
    target::{Cause, Signal, Target},
};

/// NADA: the congestion signal of the receiver gives a reference rate, from which the sender's queue is drained.
///
/// It uses the receiver's reports. Without them it computes them from the reports of single packets (RFC 8698 §6.4).
#[derive(Debug, Clone)]
pub struct Nada {
    config: Config,
    reference: ReferenceRate,
    receiver: PacketsAtSender,
    rtt: TimeDelta,
    /// The latest report, and whether its rates are still to be derived from the sender's queue.
    report: Option<Report>,
    is_pending: bool,
    queue: DataSize,
    silence: RttBackOff,
    decided: Decided,
    /// Time of the latest [`on_timeout`](Controller::on_timeout).
    processed: Timestamp,
}

impl Nada {
    /// What it requires of the sender and the receiver.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::Nada,
        accepted: &[FeedbackKind::Nada, FeedbackKind::CongestionControl, FeedbackKind::TransportWide],
        pacer: PacerSettings::SINGLE,
        priority: true,
        sender_queue: true,
        marks: true,
        ..Requirements::DEFAULT
    };

    /// With a receiver other than the RFC's, which is computed at the sender.
    pub(crate) const AT_SENDER: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        accepted: Requirements::ARRIVAL_TIMES,
        sender_queue: false,
        marks: false,
        ..Self::REQUIREMENTS
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let config = Config { limits: config.limits.ordered(), ..config };
        Self {
            config,
            reference: ReferenceRate::new(Timestamp::ZERO, &config),
            receiver: PacketsAtSender::new(Receiver::new(config.receiver)),
            rtt: TimeDelta::ZERO,
            report: None,
            is_pending: false,
            queue: DataSize::ZERO,
            silence: RttBackOff::new(config.silence),
            decided: Decided::new(config.limits),
            processed: Timestamp::ZERO,
        }
    }

    /// The reference rate (`r_ref`).
    pub fn reference_rate(&self) -> DataRate {
        DataRate::from_bps(math::round(self.reference.bps()) as u64)
    }

    /// The latest report, of the receiver or computed here.
    pub fn report(&self) -> Option<Report> {
        self.report
    }

    /// Time that runs backwards counts as no time. The session begins with the first call.
    fn begin(&mut self, now: Timestamp) -> Timestamp {
        let has_begun = self.decided.has_begun();
        let now = self.decided.advance(now);
        if !has_begun {
            self.reference = ReferenceRate::new(now, &self.config);
            self.processed = now;
        }
        now
    }

    fn on_report(&mut self, now: Timestamp, report: Report) {
        self.reference.on_report(now, &self.config, &report, self.rtt);
        self.report = Some(report);
        self.is_pending = true;
    }

    fn cause(&self, report: &Report) -> Cause {
        let threshold_ms = reference_rate::equilibrium_ms(&self.config, self.reference.bps().max(1.0));
        let signal = match report.mode {
            RateMode::RampUp => Signal::UnderUse,
            RateMode::Gradual if report.signal_ms > threshold_ms => Signal::OverUse,
            RateMode::Gradual => Signal::Normal,
        };
        Cause::Delay { signal, trend_ms: report.signal_ms, threshold_ms }
    }

    fn settle(&mut self, cause: Cause) {
        let video = shaping::shaped(&self.config, self.reference.bps(), self.queue).video;
        self.decided.settle(video, cause);
    }
}

impl Controller for Nada {
    fn on_sent(&mut self, now: Timestamp, _packet: &SentPacket) {
        let now = self.begin(now);
        self.silence.on_sent(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.begin(now);
        if let Some(rtt) = feedback.rtt.or_else(|| propagation(now, feedback.packets)) {
            self.rtt = rtt.max(TimeDelta::ZERO);
        }
        let received = match feedback.extension {
            Some(Extension::Nada(report)) => Some(report),
            _ => None,
        };
        if received.is_some() || !feedback.packets.is_empty() {
            // Only missing feedback matters here: a long RTT has its place in equation 3.
            self.silence.on_rtt(now, TimeDelta::ZERO);
        }
        let computed = self.receiver.on_reports(now, feedback.packets);
        if let Some(report) = received.or(computed) {
            self.on_report(now, report);
        }
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.begin(now);
        self.processed = now;
        if let Some(report) = self.report.filter(|_| core::mem::take(&mut self.is_pending)) {
            self.queue = queue.size;
            self.settle(self.cause(&report));
        }
        if let Some(step) = self.silence.update(now, self.decided.target()) {
            self.queue = DataSize::ZERO;
            self.reference.set(&self.config, step.to.as_bps() as f64);
            self.settle(Cause::Silence);
        }
    }

    /// At once after a report, because the sender's queue is needed (§5.2: "upon receipt of an RTCP feedback report").
    fn next_timeout(&self) -> Option<Timestamp> {
        let silence = || self.silence.next_timeout().map(|due| due.max(self.processed + MIN_INTERVAL));
        self.decided.next_timeout(if self.is_pending { Some(self.processed) } else { silence() })
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits.ordered();
        if self.decided.on_limits(now, limits) {
            self.reference.set(&self.config, self.reference.bps());
        } else {
            *self = Self::new(self.config);
        }
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((now, decided)) = self.decided.on_route_change(now, self.config.limits) {
            let reference = ReferenceRate::new(now, &self.config);
            *self = Self { decided, reference, processed: self.processed, ..Self::new(self.config) };
        }
    }

    fn requirements(&self) -> Requirements {
        let Config { receiver, beta_sending, beta_video, .. } = self.config;
        if receiver == ReceiverConfig::default() {
            return Self::REQUIREMENTS;
        }
        Requirements {
            sender_queue: beta_sending > 0.0 || beta_video > 0.0,
            marks: receiver.mark_penalty > TimeDelta::ZERO,
            ..Self::AT_SENDER
        }
    }

    fn target(&self) -> Target {
        let media = self.decided.target();
        let sending = shaping::shaped(&self.config, self.reference.bps(), self.queue).sending;
        Target {
            media,
            pacing: DataRate::from_bps(math::round(sending) as u64).max(media),
            ..Target::default()
        }
    }

    crate::controller::answers!(decided, with its own requirements);
}

/// Shortest interval of [`on_timeout`](Controller::on_timeout) without a report.
const MIN_INTERVAL: TimeDelta = TimeDelta::from_millis(25);

/// The receiver at the sender, from reports of single packets.
#[derive(Debug, Clone)]
struct PacketsAtSender {
    receiver: Receiver,
    /// Highest number that arrived.
    highest: Option<u64>,
    /// Packets above it that were reported as lost.
    missing: u64,
    /// Arrivals of a message, in their order: time and place. Kept to reuse the allocation.
    order: Vec<(Timestamp, usize)>,
}

impl PacketsAtSender {
    fn new(receiver: Receiver) -> Self {
        Self { receiver, highest: None, missing: 0, order: Vec::new() }
    }

    /// Handles the packets of a message that came at `now`, in the order of their numbers. Packets that no message covers count neither as
    /// received nor as lost: the feedback is missing, not the packet.
    fn on_reports(&mut self, now: Timestamp, packets: &[PacketReport]) -> Option<Report> {
        self.order.clear();
        let arrivals = packets.iter().enumerate();
        self.order.extend(arrivals.filter_map(|(place, packet)| {
            packet.arrival.map(|arrival| (Timestamp::from_nanos(arrival.as_nanos()), place))
        }));
        self.order.sort_unstable();
        let &(latest, _) = self.order.last()?;
        let above = |highest: Option<u64>| {
            highest.map_or(0, |highest| packets.partition_point(|packet| packet.sent.sequence <= highest))
        };
        for &(at, place) in &self.order {
            let Some(packet) = packets.get(place) else { continue };
            let SentPacket { sequence, size, .. } = packet.sent;
            let in_order = self.highest.is_none_or(|highest| sequence > highest);
            let missing = in_order.then(|| {
                let skipped = place.saturating_sub(above(self.highest)) as u64;
                self.highest = Some(sequence);
                core::mem::take(&mut self.missing) + skipped
            });
            let delay =
                packet.arrival.map_or(TimeDelta::ZERO, |arrival| -arrival.apparent_delay(packet.sent.at));
            if in_order
                && clock_jump::has_jumped(self.receiver.queueing(delay), now.saturating_since(packet.sent.at))
            {
                self.receiver.forget_delays();
            }
            let is_marked = packet.ecn == Ecn::Ce;
            self.receiver.on_packet(at, &ReceivedMedia { delay, size, missing, is_marked });
        }
        self.missing += packets.len().saturating_sub(above(self.highest)) as u64;
        self.receiver.poll_report(latest)
    }
}
