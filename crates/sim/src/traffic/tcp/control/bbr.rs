//! BBR version 3, a congestion control based on a model of the path.

use giusto_units::{DataRate, TimeDelta, Timestamp, math};
use rand::RngExt;

use super::interface::{Acknowledgment, CongestionControl, ConnectionStart, Feedback, Lost, RateSample};
use crate::random::Random;

/// Gains and bounds of draft-ietf-ccwg-bbr-03 §2.5 to §2.14 and §5.6.1.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.5;
const DOWN_PACING_GAIN: f64 = 0.9;
const UP_PACING_GAIN: f64 = 1.25;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Share of the estimated bandwidth at which the sender paces (`PacingMarginPercent`, §5.6.2).
const PACING_SHARE: f64 = 0.99;
/// Losses over the flight above which it is too high (`LossThresh`, §2.8).
const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
/// Minimum window in segments (`MinPipeCwnd`).
const MIN_WINDOW: f64 = 4.0;
const STARTUP_LOSSES: u32 = 6;
const PROBE_RTT_INTERVAL: TimeDelta = TimeDelta::from_seconds(5);
const PROBE_RTT_DURATION: TimeDelta = TimeDelta::from_millis(200);
const MIN_RTT_WINDOW: TimeDelta = TimeDelta::from_seconds(10);
/// Maximum number of rounds between two probes for bandwidth (§5.3.3.5.3).
const MAX_ROUNDS: u64 = 63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// The state of the acknowledgements of a probe for bandwidth (`BBR.ack_phase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probing {
    Idle,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

giusto_units::defaults! {
    /// BBR version 3 (draft-ietf-ccwg-bbr-03 §5).
    ///
    /// | here | draft |
    /// |---|---|
    /// | `max_rate`, `low_rate` | `BBR.max_bw` of two cycles, `BBR.bw_shortterm` |
    /// | `high_flight`, `low_flight` | `BBR.inflight_longterm`, `BBR.inflight_shortterm` |
    /// | `min_rtt` | `BBR.min_rtt`, 10 s; probed for every 5 s |
    /// | `full_rate`, `is_full` | `BBR.full_bw`, `BBR.full_bw_reached` |
    ///
    /// Not implemented: reaction to ECN, which is optional; `extra_acked`, the allowance for aggregated acknowledgements; packet
    /// conservation in the first round of a recovery; the restart from idle; the marks of a limited application in ProbeRTT (§5.3.4.3) and of
    /// lost packets (§5.5.10.2); the precautionary probing of later drafts.
    ///
    /// With 1 % of random losses on a link of 12 Mbit/s it delivers 10.3, 9.0 and 9.7 Mbit/s at RTTs of 20, 40 and 80 ms. Without the short-term
    /// bounds these are 10.6, 9.9 and 10.1, without the long-term bound 10.8, 10.3 and 10.3, and without both, as in version 1, 11.2, 11.1 and
    /// 11.1. Linux has version 1.
    #[derive(Debug)]
    pub struct Bbr {
        random: Random = random,
        segment: f64 = 1.0,
        initial_window: f64 = 1.0,
        /// Windows and flights are in bytes, rates in bytes per second.
        window: f64 = 1.0,
        saved_window: f64 = 0.0,
        pacing: Option<f64> = None,
        pacing_gain: f64 = STARTUP_PACING_GAIN,
        window_gain: f64 = CWND_GAIN,
        phase: Phase = Phase::Startup,
        probing: Probing = Probing::Idle,
        max_rate: [f64; 2] = [0.0; 2],
        low_rate: f64 = f64::INFINITY,
        high_flight: f64 = f64::INFINITY,
        low_flight: f64 = f64::INFINITY,
        latest_rate: f64 = 0.0,
        latest_flight: f64 = 0.0,
        min_rtt: Option<TimeDelta> = None,
        min_rtt_at: Timestamp = Timestamp::ZERO,
        probed_rtt: Option<TimeDelta> = None,
        probed_rtt_at: Timestamp = Timestamp::ZERO,
        probe_rtt_until: Option<Timestamp> = None,
        probe_rtt_round: bool = false,
        round_end: u64 = 0,
        round_start: bool = false,
        loss_round_end: u64 = 0,
        loss_round_start: bool = false,
        loss_in_round: bool = false,
        losses_in_round: u32 = 0,
        full_rate: f64 = 0.0,
        full_count: u32 = 0,
        is_full_now: bool = false,
        is_full: bool = false,
        cycle_start: Timestamp = Timestamp::ZERO,
        probe_wait: TimeDelta = TimeDelta::ZERO,
        rounds_since_probe: u64 = 0,
        has_probe_samples: bool = false,
        up_rounds: u32 = 0,
        up_bytes: f64 = 0.0,
        up_quota: f64 = f64::INFINITY,
        total: u64 = 0,
    }
    /// Creates a congestion control without a connection. `random` varies the time between probes for bandwidth.
    pub fn new(random: Random);
}

impl Bbr {
    fn max_rate(&self) -> f64 {
        self.max_rate[0].max(self.max_rate[1])
    }

    fn rate(&self) -> f64 {
        self.max_rate().min(self.low_rate)
    }

    /// `BBRBDPMultiple` (§5.6.4.2), the initial window before the first RTT sample.
    fn product(&self, rate: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial_window, |min_rtt| gain * rate * min_rtt.as_seconds())
    }

    /// `BBRQuantizationBudget` (§5.6.4.2): at least three sending quanta of 1 ms, or of two segments.
    fn inflight(&self, rate: f64, gain: f64) -> f64 {
        let quantum = (self.pacing.unwrap_or_default() * 1e-3)
            .clamp(2.0 * self.segment, 65_536.0_f64.max(2.0 * self.segment));
        let extra = if self.phase == Phase::Up { 2.0 * self.segment } else { 0.0 };
        self.product(rate, gain).max(3.0 * quantum).max(MIN_WINDOW * self.segment) + extra
    }

    fn flight_with_headroom(&self) -> f64 {
        if self.high_flight.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.high_flight).max(self.segment);
        (self.high_flight - headroom).max(MIN_WINDOW * self.segment)
    }

    fn target_flight(&self) -> f64 {
        self.product(self.rate(), 1.0).min(self.window)
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        (self.pacing_gain, self.window_gain) = match phase {
            Phase::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Phase::Drain => (DRAIN_PACING_GAIN, CWND_GAIN),
            Phase::Down => (DOWN_PACING_GAIN, CWND_GAIN),
            Phase::Cruise | Phase::Refill => (1.0, CWND_GAIN),
            Phase::Up => (UP_PACING_GAIN, UP_CWND_GAIN),
            Phase::ProbeRtt => (1.0, PROBE_RTT_CWND_GAIN),
        };
    }

    fn is_probe_bw(&self) -> bool {
        matches!(self.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    fn start_round(&mut self) {
        self.round_end = self.total;
    }

    fn reset_lower_bounds(&mut self) {
        self.low_rate = f64::INFINITY;
        self.low_flight = f64::INFINITY;
    }

    fn reset_full(&mut self, rate: f64) {
        self.full_rate = rate;
        self.full_count = 0;
        self.is_full_now = false;
    }

    /// §5.3.3.1
    fn start_down(&mut self, now: Timestamp) {
        self.loss_in_round = false;
        self.latest_rate = 0.0;
        self.latest_flight = 0.0;
        self.up_quota = f64::INFINITY;
        // §5.3.3.5.3: 2 s to 3 s, and the round counter starts at 0 or 1.
        self.rounds_since_probe = self.random.random_range(0..=1);
        self.probe_wait = TimeDelta::from_micros(self.random.random_range(2_000_000..=3_000_000));
        self.cycle_start = now;
        self.probing = Probing::Stopping;
        self.start_round();
        self.enter(Phase::Down);
    }

    /// §5.3.3.3
    fn start_refill(&mut self) {
        self.reset_lower_bounds();
        self.up_rounds = 0;
        self.up_bytes = 0.0;
        self.probing = Probing::Refilling;
        self.start_round();
        self.enter(Phase::Refill);
    }

    /// §5.3.3.4
    fn start_up(&mut self, now: Timestamp, rate: f64) {
        self.probing = Probing::Starting;
        self.start_round();
        self.reset_full(rate);
        self.cycle_start = now;
        self.enter(Phase::Up);
        self.raise_slope();
    }

    fn raise_slope(&mut self) {
        let growth = math::powi(2.0, self.up_rounds) * self.segment;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_quota = (self.window / growth).max(1.0) * self.segment;
    }

    fn update_round(&mut self, sample: &RateSample) {
        self.round_start = sample.prior_delivered >= self.round_end;
        if self.round_start {
            self.start_round();
            self.rounds_since_probe += 1;
        }
    }

    /// §5.5.10.3: the short-term bounds after a round with loss, unless it probes for bandwidth.
    fn adapt_lower_bounds(&mut self) {
        let probes = matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up);
        if probes || !self.loss_in_round {
            return;
        }
        let rate = if self.low_rate.is_finite() { self.low_rate } else { self.max_rate() };
        let flight = if self.low_flight.is_finite() { self.low_flight } else { self.window };
        self.low_rate = self.latest_rate.max(BETA * rate);
        self.low_flight = self.latest_flight.max(BETA * flight);
    }

    /// §5.3.1.2 and §5.3.1.3
    fn check_full(&mut self, sample: &RateSample, rate: f64) {
        if !self.is_full_now && self.round_start && !sample.app_limited {
            if rate >= 1.25 * self.full_rate {
                self.reset_full(rate);
            } else {
                self.full_count += 1;
                self.is_full_now = self.full_count >= 3;
                self.is_full |= self.is_full_now;
            }
        }
    }

    fn check_startup_loss(&mut self, sample: &RateSample) {
        let is_high = self.losses_in_round >= STARTUP_LOSSES && is_too_high(sample);
        if self.phase == Phase::Startup && self.loss_round_start && is_high {
            self.is_full = true;
            self.high_flight = self.product(self.max_rate(), 1.0).max(self.latest_flight);
        }
    }

    /// §5.3.3.6, `BBRAdaptLongTermModel`
    fn adapt_upper_bounds(&mut self, now: Timestamp, sample: &RateSample, acked: f64, is_limited: bool) {
        if self.probing == Probing::Starting && self.round_start {
            self.probing = Probing::Feedback;
        }
        if self.probing == Probing::Stopping && self.round_start {
            self.has_probe_samples = false;
            self.probing = Probing::Idle;
            if self.is_probe_bw() && !sample.app_limited && self.max_rate[1] > 0.0 {
                self.max_rate = [self.max_rate[1], 0.0];
            }
        }
        if is_too_high(sample) {
            if self.has_probe_samples {
                self.on_flight_too_high(now, sample.flight_when_sent as f64, sample.app_limited);
            }
            return;
        }
        if self.high_flight.is_infinite() {
            return;
        }
        self.high_flight = self.high_flight.max(sample.flight_when_sent as f64);
        if self.phase == Phase::Up && is_limited && self.window >= self.high_flight {
            self.up_bytes += acked;
            if self.up_bytes >= self.up_quota {
                let steps = (self.up_bytes / self.up_quota).floor();
                self.up_bytes -= steps * self.up_quota;
                self.high_flight += steps * self.segment;
            }
            if self.round_start {
                self.raise_slope();
            }
        }
    }

    fn on_flight_too_high(&mut self, now: Timestamp, flight: f64, app_limited: bool) {
        self.has_probe_samples = false;
        if !app_limited {
            self.high_flight = flight.max(BETA * self.target_flight());
        }
        if self.phase == Phase::Up {
            self.start_down(now);
        }
    }

    /// §5.3.3.6
    fn update_cycle(&mut self, now: Timestamp, flight: f64, is_limited: bool, rate: f64) {
        let waited = now.saturating_since(self.cycle_start) > self.probe_wait;
        let reno_rounds = ((self.target_flight() / self.segment) as u64).min(MAX_ROUNDS);
        let must_probe = waited || self.rounds_since_probe >= reno_rounds.max(1);
        match self.phase {
            Phase::Down | Phase::Cruise if must_probe => self.start_refill(),
            Phase::Down => {
                let is_drained =
                    flight <= self.flight_with_headroom() && flight <= self.inflight(self.max_rate(), 1.0);
                if is_drained {
                    self.enter(Phase::Cruise);
                }
            }
            Phase::Refill if self.round_start => {
                self.has_probe_samples = true;
                self.start_up(now, rate);
            }
            Phase::Up => {
                if is_limited && self.window >= self.high_flight {
                    self.reset_full(rate);
                } else if self.is_full_now {
                    self.start_down(now);
                }
            }
            _ => {}
        }
    }

    /// §5.3.4.3: returns whether the minimum RTT must be probed for.
    fn update_min_rtt(&mut self, now: Timestamp, rtt: Option<TimeDelta>) -> bool {
        let is_expired = now.saturating_since(self.probed_rtt_at) > PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt.filter(|&rtt| is_expired || self.probed_rtt.is_none_or(|known| rtt < known)) {
            self.probed_rtt = Some(rtt);
            self.probed_rtt_at = now;
        }
        let is_old = now.saturating_since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = self.probed_rtt
            && (is_old || self.min_rtt.is_none_or(|known| rtt < known))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = self.probed_rtt_at;
        }
        is_expired
    }

    /// §5.3.4.3
    fn check_probe_rtt(&mut self, now: Timestamp, is_expired: bool, flight: f64) {
        if self.phase != Phase::ProbeRtt && is_expired {
            self.saved_window = self.window;
            self.probe_rtt_until = None;
            self.probing = Probing::Stopping;
            self.enter(Phase::ProbeRtt);
            self.start_round();
        }
        if self.phase != Phase::ProbeRtt {
            return;
        }
        match self.probe_rtt_until {
            None if flight <= self.probe_rtt_window() => {
                self.probe_rtt_until = Some(now + PROBE_RTT_DURATION);
                self.probe_rtt_round = false;
                self.start_round();
            }
            Some(until) => {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round && now > until {
                    self.probed_rtt_at = now;
                    self.window = self.window.max(self.saved_window);
                    self.reset_lower_bounds();
                    if self.is_full {
                        self.start_down(now);
                        self.enter(Phase::Cruise);
                    } else {
                        self.enter(Phase::Startup);
                    }
                }
            }
            None => {}
        }
    }

    fn probe_rtt_window(&self) -> f64 {
        self.product(self.rate(), PROBE_RTT_CWND_GAIN).max(MIN_WINDOW * self.segment)
    }

    fn set_pacing(&mut self, smoothed: TimeDelta) {
        let rtt = smoothed.as_seconds();
        if self.max_rate() <= 0.0 {
            if self.pacing.is_none() && rtt > 0.0 {
                self.pacing = Some(STARTUP_PACING_GAIN * self.window / rtt);
            }
            return;
        }
        let rate = PACING_SHARE * self.pacing_gain * self.rate();
        if self.is_full || self.pacing.is_none_or(|known| rate > known) {
            self.pacing = Some(rate);
        }
    }

    /// §5.6.4.6 and §5.6.4.7
    fn set_window(&mut self, acked: f64) {
        let max = self.inflight(self.rate(), self.window_gain);
        if self.is_full {
            self.window = (self.window + acked).min(max);
        } else if self.window < max || (self.total as f64) < self.initial_window {
            self.window += acked;
        }
        let min = MIN_WINDOW * self.segment;
        self.window = self.window.max(min);
        if self.phase == Phase::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.high_flight,
            Phase::Cruise | Phase::ProbeRtt => self.flight_with_headroom(),
            Phase::Startup | Phase::Drain => f64::INFINITY,
        };
        self.window = self.window.min(cap.min(self.low_flight).max(min));
    }
}

/// `IsInflightTooHigh` (§5.5.10.2).
fn is_too_high(sample: &RateSample) -> bool {
    sample.lost as f64 > LOSS_THRESHOLD * sample.flight_when_sent as f64
}

impl CongestionControl for Bbr {
    fn on_start(&mut self, start: ConnectionStart) {
        let fresh = Self::new(self.random.clone());
        let window = start.window as f64;
        *self = Self { segment: start.segment as f64, initial_window: window, window, ..fresh };
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn threshold(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<DataRate> {
        self.pacing.map(|rate| DataRate::from_bps((rate * 8.0).max(1000.0) as u64))
    }

    fn needs_rate(&self) -> bool {
        true
    }

    fn controls_recovery(&self) -> bool {
        true
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        let Some(sample) = feedback.rate else { return };
        let acked = feedback.delivered as f64;
        let flight = feedback.flight as f64;
        let is_limited = flight + acked + self.segment > self.window;
        self.total = sample.total_delivered;
        let rate = sample.delivery_rate.map_or(0.0, |rate| rate.as_bps() as f64 / 8.0);
        let delivered = (sample.total_delivered - sample.prior_delivered) as f64;
        self.latest_rate = self.latest_rate.max(rate);
        self.latest_flight = self.latest_flight.max(delivered);
        self.loss_round_start = sample.prior_delivered >= self.loss_round_end;
        if self.loss_round_start {
            self.loss_round_end = sample.total_delivered;
        }
        self.update_round(&sample);
        if rate >= self.max_rate() || !sample.app_limited {
            self.max_rate[1] = self.max_rate[1].max(rate);
        }
        if self.loss_round_start {
            self.adapt_lower_bounds();
            self.check_startup_loss(&sample);
            self.loss_in_round = false;
            self.losses_in_round = 0;
        }
        if matches!(self.phase, Phase::Startup | Phase::Up) {
            self.check_full(&sample, rate);
        }
        if self.phase == Phase::Startup && self.is_full {
            self.enter(Phase::Drain);
        }
        if self.phase == Phase::Drain && flight <= self.inflight(self.rate(), 1.0) {
            self.start_down(now);
        }
        if self.is_full {
            self.adapt_upper_bounds(now, &sample, acked, is_limited);
            self.update_cycle(now, flight, is_limited, rate);
        }
        let is_expired = self.update_min_rtt(now, feedback.rtt_sample);
        self.check_probe_rtt(now, is_expired, flight);
        if self.loss_round_start {
            self.latest_rate = rate;
            self.latest_flight = delivered;
        }
        self.set_pacing(feedback.smoothed_rtt);
        self.set_window(acked);
    }

    /// §5.5.10.2, `BBRHandleLostPacket`
    fn on_loss(&mut self, now: Timestamp, lost: Lost) {
        // `NoteLoss`: a whole round is judged from the first loss on, so that the bounds see what the path still delivers.
        if !self.loss_in_round {
            self.loss_round_end = lost.delivered;
        }
        self.loss_in_round = true;
        self.losses_in_round += 1;
        let (bytes, flight) = (lost.bytes as f64, lost.flight_when_sent as f64);
        let total = lost.lost_since_sent as f64;
        if self.has_probe_samples && total > LOSS_THRESHOLD * flight {
            let (flight, total) = (flight - bytes, total - bytes);
            let prefix = (LOSS_THRESHOLD * flight - total) / (1.0 - LOSS_THRESHOLD);
            self.on_flight_too_high(now, flight + prefix.max(0.0), false);
        }
    }

    fn on_ack(&mut self, _now: Timestamp, _ack: Acknowledgment) {}

    fn on_congestion(&mut self, _now: Timestamp, _flight: u64) {}

    fn on_timeout(&mut self, _now: Timestamp, _flight: u64, is_repeated: bool) {
        if !is_repeated {
            self.saved_window = self.window;
        }
        self.window = self.segment;
    }

    fn on_spurious_timeout(&mut self, _now: Timestamp) {
        self.window = self.window.max(self.saved_window);
        self.reset_lower_bounds();
    }

    fn limit_window(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(window as f64).max(self.segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random, testing::START};

    /// `NoteLoss`: the first loss of a round begins the round after which the bounds fall.
    #[test]
    fn bounds_fall_a_round_after_the_first_loss() {
        let mut bbr = Bbr::new(random::stream(1, "bbr"));
        bbr.on_start(START);
        bbr.is_full = true;
        bbr.max_rate = [125e3, 125e3];
        bbr.min_rtt = Some(TimeDelta::from_millis(40));
        bbr.enter(Phase::Cruise);
        bbr.probe_wait = TimeDelta::from_seconds(3);
        // An acknowledgement of a segment sent when `prior` bytes were delivered.
        let acked = |bbr: &mut Bbr, prior: u64, total: u64| {
            let delivery_rate = Some(DataRate::from_bps(800_000));
            let rate = RateSample {
                delivery_rate,
                total_delivered: total,
                prior_delivered: prior,
                flight_when_sent: 5000,
                ..RateSample::default()
            };
            let feedback = Feedback { delivered: 1000, rate: Some(rate), ..Feedback::default() };
            bbr.on_feedback(Timestamp::from_nanos(1_000_000_000 + total * 8000), &feedback);
            bbr.low_rate
        };
        // A round ends at 8000 bytes delivered.
        assert!(acked(&mut bbr, 3000, 8000).is_infinite());
        for delivered in [10_000, 11_000] {
            let lost = Lost { bytes: 1000, flight_when_sent: 5000, lost_since_sent: 1000, delivered };
            bbr.on_loss(Timestamp::from_nanos(1_100_000_000), lost);
        }
        // The old round ends, but what was sent before the loss tells nothing of the time after it.
        assert!(acked(&mut bbr, 8000, 11_000).is_infinite());
        assert!(acked(&mut bbr, 9000, 12_000).is_infinite());
        assert!((acked(&mut bbr, 10_000, 13_000) - 100e3).abs() < 1.0, "{}", bbr.low_rate);
    }
}
