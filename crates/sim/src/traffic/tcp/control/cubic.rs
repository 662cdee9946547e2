//! CUBIC: the window is a cubic function of the time since the last congestion event.

use giusto_units::{TimeDelta, Timestamp, math};

use super::{
    interface::{Acknowledgment, CongestionControl, ConnectionStart},
    slow_start::SlowStart,
};

/// Multiplicative decrease (RFC 8312 §4.5).
const BETA: f64 = 0.7;
/// Scaling constant in segments/s³ (RFC 8312 §5.1).
const C: f64 = 0.4;
/// Increase per RTT, in segments, of an AIMD flow that decreases by [`BETA`] and has the throughput of standard TCP (RFC
/// 8312 §4.2).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC (RFC 8312), with rules of RFC 9438 where the former is ambiguous or discontinuous.
///
/// | rule | here | source |
/// |---|---|---|
/// | time to the plateau | from the window after the decrease, `K = ∛((W_max − cwnd) / C)` | RFC 9438 §4.2; equal to RFC 8312 eq. 2, which is discontinuous if fast convergence changed `W_max` |
/// | estimated Reno window | grows by `α` segments per window acknowledged, and by 1 above the window before the decrease | RFC 9438 §4.3; RFC 8312 eq. 4 uses time divided by RTT, and always `α` |
/// | target after one RTT | between the window and 1.5 times the window | RFC 9438 §4.2; unbounded in RFC 8312 |
/// | growth | by segments acknowledged, not by acknowledgements | RFC 9438 §4.2 |
/// | decrease | to `β` times the window, or times the flight size if the application limited the sender | RFC 9438 §4.6 uses the flight size, RFC 8312 §4.5 the window |
/// | after a timeout | the plateau is the window at the start of congestion avoidance, `K` = 0 | RFC 8312 §4.7 |
/// | fast convergence | on | RFC 8312 §4.6 |
///
/// Slow start is that of RFC 5681. With [`ConnectionStart::hystart`] the first one uses `HyStart++` (RFC 9406); if it ends
/// slow start without a loss, the plateau is the window, and `K` = 0 (RFC 8312 §4.8). A spurious timeout is undone (RFC 9438
/// §4.9.1), a spurious fast recovery is not.
#[derive(Debug)]
pub struct Cubic {
    segment: u64,
    slow_start: SlowStart,
    /// `cwnd`, `ssthresh`, `W_max`, `W_last_max`, in segments.
    window: f64,
    threshold: f64,
    plateau: f64,
    last_plateau: f64,
    /// The window before the last decrease.
    before_decrease: f64,
    avoidance: Option<Avoidance>,
    fast_convergence: bool,
    /// Window, threshold and plateau before the last timeout.
    before_timeout: (f64, f64, f64),
}

/// One period of congestion avoidance.
#[derive(Debug, Clone, Copy)]
struct Avoidance {
    start: Timestamp,
    last_ack: Timestamp,
    /// `K`, in seconds.
    to_plateau: f64,
    plateau: f64,
    /// `W_est`, in segments.
    reno: f64,
}

impl Avoidance {
    /// `W_cubic` at `time` seconds after the start (RFC 8312 eq. 1).
    fn cubic(&self, time: f64) -> f64 {
        let since = time - self.to_plateau;
        C * (since * since * since) + self.plateau
    }
}

impl Cubic {
    /// Creates a congestion control without a connection.
    pub fn new() -> Self {
        Self::started(&ConnectionStart {
            segment: 1,
            window: 1,
            threshold: u64::MAX,
            slow_start_limit: 1,
            hystart: false,
        })
    }

    fn started(start: &ConnectionStart) -> Self {
        let segments = |bytes: u64| bytes as f64 / start.segment as f64;
        let threshold = if start.threshold == u64::MAX { f64::INFINITY } else { segments(start.threshold) };
        Self {
            segment: start.segment,
            slow_start: SlowStart::new(start),
            window: segments(start.window),
            threshold,
            plateau: 0.0,
            last_plateau: 0.0,
            before_decrease: 0.0,
            avoidance: None,
            fast_convergence: true,
            before_timeout: (0.0, 0.0, 0.0),
        }
    }

    /// Disables fast convergence, as RFC 8312 §4.6 recommends for a flow that is alone on its path. With random or periodic
    /// losses, fast convergence reacts to every random variation of the window, and the average window is below that of RFC
    /// 8312 eq. 5, which assumes no fast convergence.
    #[cfg(test)]
    pub(in crate::traffic::tcp) fn without_fast_convergence(self) -> Self {
        Self { fast_convergence: false, ..self }
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment as f64
    }

    fn enter_avoidance(&self, now: Timestamp) -> Avoidance {
        let (to_plateau, plateau) = if self.window < self.plateau {
            (math::cbrt((self.plateau - self.window) / C), self.plateau)
        } else {
            (0.0, self.window)
        };
        Avoidance { start: now, last_ack: now, to_plateau, plateau, reno: self.window }
    }

    /// The window to reduce at a congestion event with `flight` bytes outstanding.
    fn reduced(&self, flight: u64) -> f64 {
        let flight = self.segments(flight);
        if flight + 1.0 > self.window { self.window } else { flight }
    }

    fn avoid(&mut self, now: Timestamp, acknowledged: f64, rtt: TimeDelta) {
        let mut stage = self.avoidance.take().unwrap_or_else(|| self.enter_avoidance(now));
        stage.last_ack = now;
        // RFC 9438 §4.3 raises α to 1 here. Linux leaves it at 0.53, and decreases to whole segments: with 0.6 % of random losses at 31 ms
        // each is 6 % of the goodput, and both together the whole difference (docs/reproduce/kernel-parity.md).
        let alpha = if stage.reno >= self.before_decrease { 1.0 } else { ALPHA };
        stage.reno += alpha * acknowledged / self.window;
        let time = now.saturating_since(stage.start).as_seconds();
        if stage.cubic(time) < stage.reno {
            // The TCP-friendly region (RFC 8312 §4.2).
            self.window = self.window.max(stage.reno);
        } else {
            // The concave and the convex region (RFC 8312 §4.3, §4.4).
            let goal = stage.cubic(time + rtt.as_seconds()).clamp(self.window, 1.5 * self.window);
            self.window += (goal - self.window) / self.window * acknowledged;
        }
        self.avoidance = Some(stage);
    }
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl CongestionControl for Cubic {
    fn on_start(&mut self, start: ConnectionStart) {
        *self = Self { fast_convergence: self.fast_convergence, ..Self::started(&start) };
    }

    fn window(&self) -> u64 {
        // Tolerates rounding errors of the fractional window before truncation.
        (self.window * self.segment as f64 + 1e-3) as u64
    }

    fn threshold(&self) -> u64 {
        // The conversion saturates.
        (self.threshold * self.segment as f64 + 1e-3) as u64
    }

    fn on_ack(&mut self, now: Timestamp, ack: Acknowledgment) {
        if self.window < self.threshold {
            let growth = self.slow_start.on_ack(&ack);
            self.window = (self.window + self.segments(growth)).min(self.threshold);
            if self.slow_start.is_over() {
                self.threshold = self.window;
            }
        } else if !ack.window_limited {
            // Application-limited time does not count (RFC 8312 §5.8).
            if let Some(stage) = &mut self.avoidance {
                stage.start += now.saturating_since(stage.last_ack);
                stage.last_ack = now;
            }
        } else {
            self.slow_start.on_end();
            self.avoid(now, self.segments(ack.bytes), ack.smoothed_rtt);
        }
    }

    fn on_congestion(&mut self, _now: Timestamp, flight: u64) {
        let reduced = self.reduced(flight);
        // Fast convergence (RFC 8312 §4.6).
        let makes_room = self.fast_convergence && reduced < self.last_plateau;
        self.plateau = if makes_room { reduced * (1.0 + BETA) / 2.0 } else { reduced };
        self.last_plateau = reduced;
        self.before_decrease = reduced;
        self.threshold = (reduced * BETA).max(2.0);
        self.window = self.threshold;
        self.avoidance = None;
        self.slow_start.on_end();
    }

    fn on_timeout(&mut self, _now: Timestamp, flight: u64, is_repeated: bool) {
        if !is_repeated {
            self.before_timeout = (self.window, self.threshold, self.plateau);
            self.before_decrease = self.reduced(flight);
            self.threshold = (self.before_decrease * BETA).max(2.0);
        }
        self.window = 1.0;
        self.plateau = 0.0;
        self.avoidance = None;
        self.slow_start.on_timeout();
    }

    fn on_spurious_timeout(&mut self, _now: Timestamp) {
        // RFC 9438 §4.9.1. The epoch starts again, with the window as its plateau.
        let (window, threshold, plateau) = self.before_timeout;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.plateau = plateau;
        self.avoidance = None;
        self.slow_start.on_end();
    }

    fn limit_window(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(self.segments(window)).max(1.0);
        self.avoidance = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{START, close};

    const RTT: TimeDelta = TimeDelta::from_millis(100);

    fn ack() -> Acknowledgment {
        Acknowledgment { bytes: 1000, window_limited: true, smoothed_rtt: RTT, ..Acknowledgment::default() }
    }

    /// A control after a congestion event with this window.
    fn reduced(window: u64) -> Cubic {
        let mut control = Cubic::new();
        control.on_start(ConnectionStart { window, threshold: window, ..START });
        control.on_congestion(Timestamp::ZERO, window);
        control
    }

    /// The window in the `seconds` after a congestion event with a window of `segments`, one value per RTT.
    fn after_congestion(segments: u64, seconds: i64) -> Vec<f64> {
        let mut control = reduced(1000 * segments);
        let mut now = Timestamp::ZERO;
        (0..10 * seconds)
            .map(|_| {
                let acknowledgements = control.window() / 1000;
                for n in 0..acknowledgements as i64 {
                    let spread = RTT.as_nanos() * n / acknowledgements as i64;
                    control.on_ack(now + TimeDelta::from_nanos(spread), ack());
                }
                now += RTT;
                control.window
            })
            .collect()
    }

    #[test]
    fn the_window_reaches_the_plateau_after_k_seconds() {
        // K = cbrt(1000 * 0.3 / 0.4) = 9.086 s (RFC 8312 eq. 2).
        let windows = after_congestion(1000, 14);
        assert!((windows[0] - 700.0).abs() < 12.0, "{}", windows[0]);
        // At half that time, W = 1000 - 0.4 * (9.086 / 2)^3 = 962.5.
        assert!((windows[44] - 962.5).abs() < 5.0, "{}", windows[44]);
        assert!((windows[90] - 1000.0).abs() < 1.0, "{}", windows[90]);
        // 4 s later, W = 1000 + 0.4 * 64 = 1025.6.
        assert!((windows[130] - 1025.6).abs() < 3.0, "{}", windows[130]);
    }

    #[test]
    fn a_small_window_grows_like_reno() {
        // It grows from 7 segments by 3 * 0.3 / 1.7 = 0.529 per RTT up to 10, then by 1.
        let windows = after_congestion(10, 2);
        assert!((windows[4] - (7.0 + 5.0 * 0.529)).abs() < 0.4, "{}", windows[4]);
        assert!(windows[19] > 20.0 && windows[19] < 25.0, "{}", windows[19]);
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut control = reduced(100_000);
        close(control.plateau, 100.0);
        assert_eq!(control.window(), 70_000);
        control.on_congestion(Timestamp::ZERO, 70_000);
        close(control.plateau, 70.0 * 0.85);
        assert_eq!(control.window(), 49_000);
    }

    #[test]
    fn application_limited_time_does_not_count() {
        let grown = |window_limited| {
            let mut control = reduced(100_000);
            let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
            control.on_ack(at(0), ack());
            control.on_ack(at(100), Acknowledgment { window_limited, ..ack() });
            (0..70).for_each(|_| control.on_ack(at(100), ack()));
            control.window()
        };
        assert!(grown(false) < 73_000, "{}", grown(false));
        assert!(grown(true) > 95_000, "{}", grown(true));
    }
}
