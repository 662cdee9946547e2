//! The controller `bbr`.

use alloc::vec::Vec;

use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp, math};

use super::{
    config::Config,
    delivery::Sent,
    model::{Model, Report},
    phase::Phase,
    usage::Usage,
};
use crate::{
    acknowledgement::{Acknowledgements, MIN_PACING, PACKET_BOUNDS, ReportIntervals},
    controller::Controller,
    decided::Decided,
    feedback::{Feedback, QueueState, SentPacket, StreamState},
    limits::Limits,
    reordering::Reordering,
    requirements::{FeedbackKind, PacerSettings, Requirements, Staleness},
    scream::flight::Flight,
    target::{Cause, Target},
};

/// RTT before the first sample, for the reordering window.
const FIRST_RTT: TimeDelta = TimeDelta::from_millis(100);
/// Time over which the longest interval of feedback counts.
const INTERVALS: TimeDelta = TimeDelta::from_seconds(1);

/// BBR: paces at its estimate of the bottleneck's bandwidth, with gains that look for more and drain the queue.
///
/// The media rate is the pacing rate, as far as the window permits it.
#[derive(Debug, Clone)]
pub struct Bbr {
    config: Config,
    model: Model,
    acknowledgements: Acknowledgements,
    usage: Usage,
    flight: Flight,
    reordering: Reordering,
    /// Whether the window permitted no further packet since the latest report.
    is_window_full: bool,
    intervals: ReportIntervals,
    /// Packets of a report that have arrived. Kept to reuse the allocation.
    acked: Vec<(Timestamp, Sent)>,
    decided: Decided,
    /// Whether all media that could use more are paused.
    is_paused: bool,
    /// Share of losses and marks of the latest report.
    losses: (f64, f64),
    /// Whether the media rate is still to be derived from the model and the sender's queue.
    is_pending: bool,
    /// Time of the latest [`on_timeout`](Controller::on_timeout).
    processed: Timestamp,
}

impl Bbr {
    /// What it requires of the sender and the receiver.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::CongestionControl,
        pacer: PacerSettings::SINGLE,
        // The window may delay packets, as in SCReAM.
        staleness: Staleness { skip_after: None, discard_after: Some(TimeDelta::from_millis(400)) },
        sender_queue: true,
        marks: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let config = Config { limits: config.limits.ordered(), ..config };
        Self {
            config,
            model: Model::new(Timestamp::ZERO, config, PACKET_BOUNDS.1),
            acknowledgements: Acknowledgements::default(),
            usage: Usage::default(),
            flight: Flight::default(),
            reordering: Reordering::default(),
            is_window_full: false,
            intervals: ReportIntervals::new(config.max_feedback_interval, INTERVALS),
            acked: Vec::new(),
            decided: Decided::new(config.limits),
            is_paused: false,
            losses: (0.0, 0.0),
            is_pending: false,
            processed: Timestamp::ZERO,
        }
    }

    /// The state of the machine.
    pub fn phase(&self) -> Phase {
        self.model.phase
    }

    /// The estimate of the bandwidth (`BBR.bw`); zero before the first sample.
    pub fn bandwidth(&self) -> DataRate {
        bits(self.model.rate())
    }

    /// The estimate of the minimum RTT.
    pub fn min_rtt(&self) -> Option<TimeDelta> {
        self.model.min_rtt()
    }

    fn begin(&mut self, now: Timestamp) -> Timestamp {
        let has_begun = self.decided.has_begun();
        let now = self.decided.advance(now);
        if !has_begun {
            self.model = Model::new(now, self.config, self.model.packet);
            self.processed = now;
        }
        now
    }

    /// Rate in bytes per second at which media may leave: the pacing rate, or what the window permits in an RTT and an interval of
    /// feedback. In `ProbeRTT`, half of the estimate.
    fn permitted(&self) -> f64 {
        let Some(min_rtt) = self.model.min_rtt().filter(|_| self.model.has_estimate()) else {
            return self.config.limits.start.as_bps() as f64 / 8.0;
        };
        let rate = self.model.pacing().min(self.window_rate(min_rtt));
        match self.model.phase {
            Phase::ProbeRtt => rate.min(self.config.probe_rtt_gain * self.model.rate()),
            _ => rate,
        }
    }

    /// Rate in bytes per second at which the window is full at the end of an interval of feedback.
    fn window_rate(&self, min_rtt: TimeDelta) -> f64 {
        self.model.window() / (min_rtt + self.intervals.longest()).as_seconds().max(1e-3)
    }

    /// Whether the window limits media that use what they may. Its rate does, too, which keeps it from becoming full.
    fn is_window_limited(&self) -> bool {
        let is_slower = |min_rtt| self.window_rate(min_rtt) < self.model.pacing();
        self.is_window_full || (!self.usage.is_limited() && self.model.min_rtt().is_some_and(is_slower))
    }

    fn settle(&mut self, queued: f64) {
        let (lost, marked) = self.losses;
        let cause = if lost > 0.0 {
            Cause::Loss { ratio: lost }
        } else if marked > 0.0 {
            Cause::Marks { ratio: marked }
        } else {
            Cause::AcknowledgedRate { rate_bps: self.model.rate() * 8.0 }
        };
        let rate = self.config.drain.media_rate(self.permitted(), queued);
        self.decided.settle(rate * 8.0, cause);
    }

    /// Handles the packets of a report one by one: losses first, then arrivals.
    fn on_packets(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let (mut lost, mut marked) = (0.0, 0.0);
        let (mut rtt, mut acked) = (None, core::mem::take(&mut self.acked));
        acked.clear();
        self.acknowledgements.on_report(now, self.config.min_rtt_window, feedback.packets);
        for packet in feedback.packets {
            self.reordering.on_packet(now, packet);
            let Some(arrival) = packet.arrival else { continue };
            let Some(sent) = self.model.delivery.take(packet.sent.sequence) else { continue };
            if packet.ecn == Ecn::Ce {
                marked += 1.0;
                self.model.on_lost(now, &sent);
            }
            self.flight.on_arrival(now, &packet.sent);
            let delay = -arrival.apparent_delay(packet.sent.at) + self.acknowledgements.way_back();
            let delay = delay.max(TimeDelta::from_millis(1));
            rtt = Some(rtt.map_or(delay, |rtt: TimeDelta| rtt.min(delay)));
            acked.push((self.acknowledgements.time(now, arrival), sent));
        }
        for sequence in self.reordering.lost(now, self.model.min_rtt().unwrap_or(FIRST_RTT)) {
            if let Some(sent) = self.model.delivery.take(sequence) {
                lost += 1.0;
                self.model.on_lost(now, &sent);
            }
        }
        let count = (feedback.packets.len() as f64).max(lost).max(1.0);
        self.losses = (lost / count, marked / count);
        if let Some(sample) = self.model.delivery.on_acked(&acked, self.model.min_rtt()) {
            let flight = feedback.in_flight.as_bytes() as f64;
            let report = Report { now, rtt, flight, is_window_limited: self.is_window_limited() };
            self.model.on_report(&report, &sample);
            self.is_window_full = false;
        }
        self.acked = acked;
    }
}

fn bits(bytes_per_second: f64) -> DataRate {
    DataRate::from_bps(math::round(bytes_per_second * 8.0) as u64)
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.begin(now);
        let (min, max) = PACKET_BOUNDS;
        let size = (packet.size.as_bytes() as f64).min(max);
        self.model.packet =
            if self.intervals.has_begun() { self.model.packet.max(size) } else { size }.max(min);
        self.usage.on_time(now, &self.config, self.permitted(), self.model.packet);
        let window = self.target().window.map_or(f64::INFINITY, |window| window.as_bytes() as f64);
        let is_full = packet.in_flight.as_bytes() as f64 + size > window;
        self.is_window_full |= is_full;
        self.usage.on_sent(size, is_full);
        if packet.in_flight <= packet.size {
            self.model.on_restart(now);
        }
        self.flight.on_sent(now, packet);
        self.model.delivery.on_sent(now, packet, self.usage.is_limited());
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.begin(now);
        if feedback.packets.is_empty() {
            return;
        }
        self.usage.on_time(now, &self.config, self.permitted(), self.model.packet);
        self.flight.on_feedback(now, feedback);
        self.intervals.on_report(now);
        self.on_packets(now, feedback);
        self.is_pending = self.model.has_estimate();
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.begin(now);
        self.processed = now;
        if core::mem::take(&mut self.is_pending) {
            self.settle(queue.size.as_bytes() as f64);
        }
        if self.flight.gives_up(now) {
            self.decided.settle(self.decided.target().as_bps() as f64 / 2.0, Cause::Silence);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let due = if self.is_pending { Some(self.processed) } else { self.flight.deadline() };
        self.decided.next_timeout(due)
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.config.limits = limits.ordered();
        if !self.decided.on_limits(now, limits) {
            *self = Self::new(self.config);
        }
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((now, decided)) = self.decided.on_route_change(now, self.config.limits) {
            let (model, processed) = (Model::new(now, self.config, self.model.packet), self.processed);
            *self = Self { model, decided, processed, ..Self::new(self.config) };
        }
    }

    fn target(&self) -> Target {
        let media = self.decided.target();
        let window = if self.flight.is_silent() {
            self.config.min_window * self.model.packet / 2.0
        } else {
            self.model.window()
        };
        let looks = self.model.phase.probes() && self.model.has_estimate();
        let pads = self.config.pads && looks && !self.is_paused;
        Target {
            media,
            pacing: bits(self.permitted()).max(media).max(MIN_PACING),
            padding: if pads { media } else { DataRate::ZERO },
            window: Some(self.flight.window(window.max(self.model.packet))),
        }
    }

    fn on_streams(&mut self, _now: Timestamp, streams: &[StreamState]) {
        let mut adaptive = streams.iter().filter(|stream| stream.usable.0 < stream.usable.1).peekable();
        self.is_paused = adaptive.peek().is_some() && adaptive.all(|stream| stream.paused);
    }

    crate::controller::answers!(decided);
}
