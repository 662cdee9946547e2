//! The state machine, and what it makes of the parts (draft §5.2.3, §5.3 and §5.6). Bytes, and bytes per second.

use giusto_units::{TimeDelta, Timestamp};

use super::{
    aggregation::Aggregation,
    config::Config,
    delivery::{Delivery, Sample, Sent},
    full_pipe::FullPipe,
    long_term::{LongTerm, flight_at_loss},
    max_rate::MaxRate,
    min_rtt::MinRtt,
    phase::Phase,
    round::Rounds,
    short_term::ShortTerm,
};

/// A report, besides its sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) now: Timestamp,
    /// Minimum RTT of its packets, if any has arrived.
    pub(super) rtt: Option<TimeDelta>,
    /// Bytes in flight after it (`C.inflight`).
    pub(super) flight: f64,
    /// Whether the window limited the sender since the report before (`C.is_cwnd_limited`).
    pub(super) is_window_limited: bool,
}

/// BBR's model of the path.
#[derive(Debug, Clone)]
pub(super) struct Model {
    config: Config,
    /// Size of the largest packet (`C.SMSS`); before the first report that of the latest one, since a first guess is larger.
    pub(super) packet: f64,
    pub(super) delivery: Delivery,
    pub(super) phase: Phase,
    /// Whether acknowledgements still report on a probe that has stopped (`BBR.ack_phase` is `ACKS_PROBE_STOPPING`; nothing depends on
    /// its other values).
    is_stopping: bool,
    max_rate: MaxRate,
    min_rtt: MinRtt,
    rounds: Rounds,
    pipe: FullPipe,
    short: ShortTerm,
    long: LongTerm,
    aggregation: Aggregation,
    /// `C.cwnd` and `BBR.prior_cwnd`.
    window: f64,
    saved_window: f64,
    /// `C.pacing_rate`.
    pacing: f64,
    /// `is_bw_probe_sample`.
    is_probe_sample: bool,
    cycle_start: Timestamp,
    probe_wait: TimeDelta,
    rounds_since_probe: u64,
    drain_round: u64,
    /// While few packets are in flight to probe for the RTT: until when at least, and whether a round has passed.
    probe_rtt_until: Option<(Timestamp, bool)>,
    idle_restart: bool,
    losses_in_round: u32,
}

impl Model {
    /// At the start of a session at `now`.
    pub(super) fn new(now: Timestamp, config: Config, packet: f64) -> Self {
        let mut aggregation = Aggregation::default();
        aggregation.restart(now);
        Self {
            config,
            packet,
            delivery: Delivery::default(),
            phase: Phase::Startup,
            is_stopping: false,
            max_rate: MaxRate::default(),
            min_rtt: MinRtt::new(now),
            rounds: Rounds::default(),
            pipe: FullPipe::default(),
            short: ShortTerm::new(),
            long: LongTerm::new(),
            aggregation,
            window: config.initial_window * packet,
            saved_window: 0.0,
            pacing: config.limits.start.as_bps() as f64 / 8.0,
            is_probe_sample: false,
            cycle_start: now,
            probe_wait: TimeDelta::ZERO,
            rounds_since_probe: 0,
            drain_round: 0,
            probe_rtt_until: None,
            idle_restart: false,
            losses_in_round: 0,
        }
    }

    /// `BBR.bw`.
    pub(super) fn rate(&self) -> f64 {
        self.max_rate.get().min(self.short.rate)
    }

    /// `BBR.min_rtt`.
    pub(super) fn min_rtt(&self) -> Option<TimeDelta> {
        self.min_rtt.get()
    }

    /// `C.cwnd`.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// `C.pacing_rate`.
    pub(super) fn pacing(&self) -> f64 {
        self.pacing
    }

    /// Whether samples have given an estimate.
    pub(super) fn has_estimate(&self) -> bool {
        self.rate() > 0.0 && self.min_rtt().is_some()
    }

    /// Handles the first packet after nothing was in flight (`HandleRestartFromIdle`).
    pub(super) fn on_restart(&mut self, now: Timestamp) {
        if self.delivery.is_app_limited() {
            self.idle_restart = true;
            self.aggregation.restart(now);
            if self.phase == Phase::ProbeRtt {
                self.end_probe_rtt(now);
            } else if self.phase.is_probe_bw() {
                self.set_pacing(1.0);
            }
        }
    }

    /// Handles a packet that was lost, or marked (`HandleLostPacket`).
    pub(super) fn on_lost(&mut self, now: Timestamp, packet: &Sent) {
        self.delivery.on_lost(packet.size);
        self.short.on_loss(self.delivery.delivered);
        self.losses_in_round += 1;
        if !self.is_probe_sample {
            return;
        }
        let lost = self.delivery.lost.saturating_sub(packet.lost) as f64;
        let (size, flight) = (packet.size as f64, packet.flight as f64);
        if lost > self.config.loss_threshold * flight {
            let flight = flight_at_loss(&self.config, size, flight, lost);
            self.on_flight_too_high(now, flight, packet.is_app_limited);
        }
    }

    /// Handles a report with a sample (`UpdateOnACK`), after its losses.
    pub(super) fn on_report(&mut self, report: &Report, sample: &Sample) {
        let now = report.now;
        self.short.on_delivery(sample.rate, sample.delivered, sample.prior, self.delivery.delivered);
        self.rounds.update(sample.prior, self.delivery.delivered);
        self.rounds_since_probe += u64::from(self.rounds.has_begun);
        if sample.rate > 0.0 {
            self.max_rate.on_sample(sample.rate, sample.is_app_limited);
        }
        self.short.adapt(&self.config, self.phase.probes(), self.max_rate.get(), self.window);
        let memory = if self.pipe.was_full { self.config.aggregation_rounds } else { 1 };
        let rounds = (self.rounds.count, memory);
        self.aggregation.on_acked(now, self.rate(), sample.acked, self.window, rounds);
        if self.rounds.has_begun && !sample.is_app_limited {
            self.pipe.on_round(sample.rate);
        }
        self.check_startup(sample);
        self.check_drain(report);
        if self.pipe.was_full {
            self.update_cycle(report, sample);
        }
        if let Some(rtt) = report.rtt {
            self.min_rtt.on_sample(now, &self.config, rtt);
        }
        self.check_probe_rtt(report);
        self.idle_restart &= sample.delivered <= 0.0;
        self.short.advance(sample.rate, sample.delivered);
        self.set_pacing(self.phase.gains(&self.config).0);
        self.set_window(sample.acked);
    }

    /// `CheckStartupDone`, with `CheckStartupHighLoss`.
    fn check_startup(&mut self, sample: &Sample) {
        let losses = self.losses_in_round;
        if self.short.is_round_over {
            self.losses_in_round = 0;
        }
        if self.phase != Phase::Startup {
            return;
        }
        let is_high = losses >= self.config.startup_losses && self.is_too_high(sample);
        if self.short.is_round_over && is_high {
            self.pipe.was_full = true;
            self.long.flight = self.product(1.0).max(self.short.latest_flight);
        }
        if self.pipe.was_full {
            self.phase = Phase::Drain;
            self.drain_round = self.rounds.count;
        }
    }

    fn check_drain(&mut self, report: &Report) {
        let is_late = self.rounds.count > self.drain_round + 3;
        if self.phase == Phase::Drain && (is_late || report.flight <= self.flight(1.0)) {
            self.start_down(report.now);
        }
    }

    fn start_down(&mut self, now: Timestamp) {
        self.short.forget_signals();
        self.long.on_down();
        // §5.3.3.8.3: two draws, from the time, since a controller has no random numbers. Flows that probe at different times stay apart.
        let draw = scrambled(now.as_nanos());
        self.rounds_since_probe = draw & 1;
        let (min, max) = self.config.probe_wait;
        let share = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        self.probe_wait = min + TimeDelta::from_seconds_f64((max - min).as_seconds() * share);
        self.cycle_start = now;
        self.is_stopping = true;
        self.rounds.begin(self.delivery.delivered);
        self.phase = Phase::Down;
    }

    fn start_refill(&mut self) {
        self.short.forget_bounds();
        self.long.on_refill();
        self.is_stopping = false;
        self.rounds.begin(self.delivery.delivered);
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.is_stopping = false;
        self.rounds.begin(self.delivery.delivered);
        self.pipe.restart(sample.rate);
        self.phase = Phase::Up;
        self.long.raise_slope(self.window, self.packet);
    }

    /// `UpdateProbeBWCyclePhase`.
    fn update_cycle(&mut self, report: &Report, sample: &Sample) {
        if self.adapt_long_term(report, sample) {
            return;
        }
        let is_over = self.phase == Phase::Up && self.must_go_down(report, sample);
        match self.phase {
            Phase::Down | Phase::Cruise if self.must_probe(report.now) => self.start_refill(),
            Phase::Down => {
                let bound = self.long.with_headroom(&self.config, self.packet);
                if report.flight <= bound && report.flight <= self.quantized(self.max_product(1.0)) {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Refill if self.rounds.has_begun => {
                self.is_probe_sample = true;
                self.start_up(sample);
            }
            Phase::Up if is_over => {
                self.long.was_too_high = false;
                self.start_down(report.now);
            }
            _ => {}
        }
    }

    /// `IsTimeToProbeBW`.
    fn must_probe(&self, now: Timestamp) -> bool {
        let reno = ((self.target_flight() / self.packet) as u64).min(self.config.max_probe_rounds);
        now.saturating_since(self.cycle_start) > self.probe_wait || self.rounds_since_probe >= reno.max(1)
    }

    /// `IsTimeToGoDown`.
    fn must_go_down(&mut self, report: &Report, sample: &Sample) -> bool {
        if self.long.was_too_high && report.flight >= self.long.flight {
            self.long.was_precautionary = true;
            return true;
        }
        if report.is_window_limited && self.window >= self.long.flight {
            self.pipe.restart(sample.rate);
            return false;
        }
        self.pipe.is_full
    }

    /// `AdaptLongTermModel`: returns whether it has changed the phase.
    fn adapt_long_term(&mut self, report: &Report, sample: &Sample) -> bool {
        if self.is_stopping && self.rounds.has_begun {
            self.is_probe_sample = false;
            self.is_stopping = false;
            if self.phase.is_probe_bw() && !sample.is_app_limited {
                self.max_rate.advance();
            }
            if self.phase.is_probe_bw() && self.long.was_precautionary && !self.long.was_too_high {
                self.start_refill();
                return true;
            }
        }
        if !self.is_too_high(sample) && self.long.flight.is_finite() {
            self.long.flight = self.long.flight.max(sample.flight_when_sent);
            let is_bound = report.is_window_limited && self.window >= self.long.flight;
            if self.phase == Phase::Up && is_bound {
                self.long.grow(sample.acked, self.packet);
                if self.rounds.has_begun {
                    self.long.raise_slope(self.window, self.packet);
                }
            }
        }
        false
    }

    /// `IsInflightTooHigh`.
    fn is_too_high(&self, sample: &Sample) -> bool {
        sample.lost > self.config.loss_threshold * sample.flight_when_sent
    }

    /// `HandleInflightTooHigh`.
    fn on_flight_too_high(&mut self, now: Timestamp, flight: f64, is_app_limited: bool) {
        self.long.was_too_high = true;
        self.is_probe_sample = false;
        if !is_app_limited {
            self.long.flight = flight.max(self.config.beta * self.target_flight());
        }
        if self.phase == Phase::Up {
            self.start_down(now);
        }
    }

    /// `CheckProbeRTT`.
    fn check_probe_rtt(&mut self, report: &Report) {
        let now = report.now;
        if self.phase != Phase::ProbeRtt && self.min_rtt.is_expired && !self.idle_restart {
            self.phase = Phase::ProbeRtt;
            self.saved_window = self.window;
            self.probe_rtt_until = None;
            self.is_stopping = true;
            self.rounds.begin(self.delivery.delivered);
        }
        if self.phase != Phase::ProbeRtt {
            return;
        }
        self.delivery.limit(report.flight as u64);
        if let Some((_, has_round)) = &mut self.probe_rtt_until {
            *has_round |= self.rounds.has_begun;
            if *has_round {
                self.end_probe_rtt(now);
            }
        } else if report.flight <= self.probe_rtt_window() {
            self.probe_rtt_until = Some((now + self.config.probe_rtt_duration, false));
            self.rounds.begin(self.delivery.delivered);
        }
    }

    /// `CheckProbeRTTDone`.
    fn end_probe_rtt(&mut self, now: Timestamp) {
        if self.probe_rtt_until.is_none_or(|(until, _)| now <= until) {
            return;
        }
        self.min_rtt.on_probed(now);
        self.window = self.window.max(self.saved_window);
        self.short.forget_bounds();
        if self.pipe.was_full {
            self.start_down(now);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }

    /// `BDPMultiple`, the initial window before the first RTT.
    fn product(&self, gain: f64) -> f64 {
        self.of_rtt(gain * self.rate())
    }

    /// The same with `BBR.max_bw`.
    fn max_product(&self, gain: f64) -> f64 {
        self.of_rtt(gain * self.max_rate.get())
    }

    fn of_rtt(&self, rate: f64) -> f64 {
        let initial = self.config.initial_window * self.packet;
        self.min_rtt().map_or(initial, |min_rtt| rate * min_rtt.as_seconds())
    }

    /// `QuantizationBudget`. The send quantum is that of single packets: there is no offload (§5.5.8).
    fn quantized(&self, flight: f64) -> f64 {
        let extra = if self.phase == Phase::Up { 2.0 * self.packet } else { 0.0 };
        flight.max(self.config.min_window * self.packet) + extra
    }

    /// `Inflight`.
    fn flight(&self, gain: f64) -> f64 {
        self.quantized(self.product(gain))
    }

    /// `TargetInflight`.
    fn target_flight(&self) -> f64 {
        self.product(1.0).min(self.window)
    }

    /// `ProbeRTTCwnd`, and the data of an interval of feedback, as in the other phases.
    fn probe_rtt_window(&self) -> f64 {
        let product = self.product(self.config.probe_rtt_gain);
        product.max(self.config.min_window * self.packet) + self.aggregation.bytes()
    }

    /// `SetPacingRateWithGain`.
    fn set_pacing(&mut self, gain: f64) {
        let rate = gain * self.rate() * (1.0 - self.config.pacing_margin);
        if self.pipe.was_full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// `SetCwnd`.
    fn set_window(&mut self, acked: f64) {
        let (_, gain) = self.phase.gains(&self.config);
        let max = self.quantized(self.product(gain) + self.aggregation.bytes());
        let initial = self.config.initial_window * self.packet;
        if self.pipe.was_full {
            self.window = (self.window + acked).min(max);
        } else if self.window < max || (self.delivery.delivered as f64) < initial {
            self.window += acked;
        }
        let min = self.config.min_window * self.packet;
        self.window = self.window.max(min);
        if self.phase == Phase::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        // `BoundCwndForModel`.
        let long = match self.phase {
            Phase::Cruise | Phase::ProbeRtt => self.long.with_headroom(&self.config, self.packet),
            Phase::Down | Phase::Refill | Phase::Up => self.long.flight,
            Phase::Startup | Phase::Drain => f64::INFINITY,
        };
        self.window = self.window.min(long.min(self.short.flight).max(min));
    }
}

/// A number without apparent relation to `number` (`splitmix64`).
fn scrambled(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
