//! CUBIC: a window that grows with the cube of the time since the last congestion.

use giusto_units::{TimeDelta, Timestamp};

use super::{
    interface::{Acknowledged, CongestionControl, Opening},
    slow_start::SlowStart,
};

/// Multiplicative decrease (RFC 8312 §4.5).
const BETA: f64 = 0.7;
/// Aggressiveness, in segments per second cubed (RFC 8312 §5.1).
const C: f64 = 0.4;
/// Growth of an AIMD flow that decreases by [`BETA`] and is as fast as standard TCP, in segments per round trip
/// (RFC 8312 §4.2).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC (RFC 8312), with the mends that RFC 9438 made where the former is unclear or jumps.
///
/// | what | here | as in |
/// |---|---|---|
/// | time to the plateau | from the window after the decrease, `K = ∛((W_max − cwnd) / C)` | RFC 9438 §4.2; equal to RFC 8312 eq. 2 unless fast convergence moved `W_max`, where eq. 2 jumps |
/// | window of a Reno flow | grown by `α` segments per window acknowledged, and by 1 above the window before the decrease | RFC 9438 §4.3; RFC 8312 eq. 4 reckons with time over round trip and `α` always |
/// | goal of one round trip | between the window and one and a half of it | RFC 9438 §4.2; unbounded in RFC 8312 |
/// | growth | by segments acknowledged, not by acknowledgements | RFC 9438 §4.2 |
/// | decrease | to `β` of the window, or of what was under way where the application held back | RFC 9438 §4.6 takes what was under way, RFC 8312 §4.5 the window |
/// | after a timeout | the plateau is where congestion avoidance begins, `K` = 0 | RFC 8312 §4.7 |
/// | fast convergence | on | RFC 8312 §4.6 |
///
/// Slow start is that of RFC 5681, at first with `HyStart++` (RFC 9406) where [`Opening::hystart`] says so: where that ends it without
/// a loss, the window is the plateau, and `K` = 0 (RFC 8312 §4.8). A spurious reduction is not undone (RFC 9438 §4.9).
#[derive(Debug)]
pub struct Cubic {
    segment: u64,
    slow_start: SlowStart,
    /// `cwnd`, `ssthresh`, `W_max`, `W_last_max`, in segments.
    window: f64,
    threshold: f64,
    plateau: f64,
    last_plateau: f64,
    /// The window just before the last decrease.
    before: f64,
    avoidance: Option<Avoidance>,
    fast_convergence: bool,
}

/// One stage of congestion avoidance.
#[derive(Debug, Clone, Copy)]
struct Avoidance {
    began: Timestamp,
    /// The latest acknowledgement.
    latest: Timestamp,
    /// `K`, in seconds.
    to_plateau: f64,
    plateau: f64,
    /// `W_est`, in segments.
    reno: f64,
}

impl Avoidance {
    /// `W_cubic` at `time` seconds into the stage (RFC 8312 eq. 1).
    fn cubic(&self, time: f64) -> f64 {
        C * (time - self.to_plateau).powi(3) + self.plateau
    }
}

impl Cubic {
    /// Waits for a connection to begin.
    pub fn new() -> Self {
        Self::opened(&Opening {
            segment: 1,
            window: 1,
            threshold: u64::MAX,
            slow_start_limit: 1,
            hystart: false,
        })
    }

    fn opened(opening: &Opening) -> Self {
        let segments = |bytes: u64| bytes as f64 / opening.segment as f64;
        let threshold =
            if opening.threshold == u64::MAX { f64::INFINITY } else { segments(opening.threshold) };
        Self {
            segment: opening.segment,
            slow_start: SlowStart::new(opening),
            window: segments(opening.window),
            threshold,
            plateau: 0.0,
            last_plateau: 0.0,
            before: 0.0,
            avoidance: None,
            fast_convergence: true,
        }
    }

    /// Does not make room for other flows when its window shrinks: for a flow that is alone on its path, where RFC 8312 §4.6 asks
    /// for it. With losses that come at random or at fixed distances, fast convergence answers every chance variation of the
    /// window, and the average window falls short of RFC 8312 eq. 5, which knows none of it.
    #[must_use]
    pub fn without_fast_convergence(self) -> Self {
        Self { fast_convergence: false, ..self }
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment as f64
    }

    fn enter_avoidance(&self, now: Timestamp) -> Avoidance {
        let (to_plateau, plateau) = if self.window < self.plateau {
            (((self.plateau - self.window) / C).cbrt(), self.plateau)
        } else {
            (0.0, self.window)
        };
        Avoidance { began: now, latest: now, to_plateau, plateau, reno: self.window }
    }

    /// The window that a congestion with `flight` bytes under way reduces.
    fn reduced(&self, flight: u64) -> f64 {
        let flight = self.segments(flight);
        if flight + 1.0 > self.window { self.window } else { flight }
    }

    fn avoid(&mut self, now: Timestamp, acknowledged: f64, round_trip: TimeDelta) {
        let mut stage = self.avoidance.take().unwrap_or_else(|| self.enter_avoidance(now));
        stage.latest = now;
        let alpha = if stage.reno >= self.before { 1.0 } else { ALPHA };
        stage.reno += alpha * acknowledged / self.window;
        let time = now.saturating_since(stage.began).as_seconds();
        if stage.cubic(time) < stage.reno {
            // The TCP-friendly region (RFC 8312 §4.2).
            self.window = self.window.max(stage.reno);
        } else {
            // The concave and the convex region (RFC 8312 §4.3, §4.4).
            let goal = stage.cubic(time + round_trip.as_seconds()).clamp(self.window, 1.5 * self.window);
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
    fn begin(&mut self, opening: Opening) {
        *self = Self { fast_convergence: self.fast_convergence, ..Self::opened(&opening) };
    }

    fn window(&self) -> u64 {
        // Truncation, but not of what a sum of fractions just missed.
        (self.window * self.segment as f64 + 1e-3) as u64
    }

    fn threshold(&self) -> u64 {
        // The conversion saturates.
        (self.threshold * self.segment as f64 + 1e-3) as u64
    }

    fn on_ack(&mut self, now: Timestamp, ack: Acknowledged) {
        if self.window < self.threshold {
            let growth = self.slow_start.on_ack(&ack);
            self.window = (self.window + self.segments(growth)).min(self.threshold);
            if self.slow_start.is_over() {
                self.threshold = self.window;
            }
        } else if !ack.limited {
            // Time in which the application held back does not count (RFC 8312 §5.8).
            if let Some(stage) = &mut self.avoidance {
                stage.began += now.saturating_since(stage.latest);
                stage.latest = now;
            }
        } else {
            self.slow_start.on_end();
            self.avoid(now, self.segments(ack.bytes), ack.round_trip);
        }
    }

    fn on_congestion(&mut self, _now: Timestamp, flight: u64) {
        let reduced = self.reduced(flight);
        // Fast convergence (RFC 8312 §4.6).
        let makes_room = self.fast_convergence && reduced < self.last_plateau;
        self.plateau = if makes_room { reduced * (1.0 + BETA) / 2.0 } else { reduced };
        self.last_plateau = reduced;
        self.before = reduced;
        self.threshold = (reduced * BETA).max(2.0);
        self.window = self.threshold;
        self.avoidance = None;
        self.slow_start.on_end();
    }

    fn on_timeout(&mut self, _now: Timestamp, flight: u64, again: bool) {
        if !again {
            self.before = self.reduced(flight);
            self.threshold = (self.before * BETA).max(2.0);
        }
        self.window = 1.0;
        self.plateau = 0.0;
        self.avoidance = None;
        self.slow_start.on_timeout();
    }

    fn cap(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(self.segments(window)).max(1.0);
        self.avoidance = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: TimeDelta = TimeDelta::from_millis(100);

    /// A window of `segments` at a congestion, and its way in the `seconds` after, one value for each round trip.
    fn after_congestion(segments: u64, seconds: i64) -> Vec<f64> {
        let mut control = Cubic::new();
        let window = 1000 * segments;
        control.begin(Opening {
            segment: 1000,
            window,
            threshold: window,
            slow_start_limit: 2,
            hystart: false,
        });
        control.on_congestion(Timestamp::ZERO, window);
        let mut now = Timestamp::ZERO;
        (0..10 * seconds)
            .map(|_| {
                let acknowledgements = control.window() / 1000;
                for n in 0..acknowledgements as i64 {
                    let spread = ROUND_TRIP.as_nanos() * n / acknowledgements as i64;
                    let ack = Acknowledged {
                        bytes: 1000,
                        limited: true,
                        round_trip: ROUND_TRIP,
                        ..Acknowledged::default()
                    };
                    control.on_ack(now + TimeDelta::from_nanos(spread), ack);
                }
                now += ROUND_TRIP;
                control.window
            })
            .collect()
    }

    #[test]
    fn the_window_returns_to_where_it_was_after_k_seconds_and_goes_beyond() {
        // K = cbrt(1000 * 0.3 / 0.4) = 9.086 s (RFC 8312 eq. 2).
        let way = after_congestion(1000, 14);
        assert!((way[0] - 700.0).abs() < 12.0, "{}", way[0]);
        // Half way, W = 1000 - 0.4 * (9.086 / 2)^3 = 962.5.
        assert!((way[44] - 962.5).abs() < 5.0, "{}", way[44]);
        assert!((way[90] - 1000.0).abs() < 1.0, "{}", way[90]);
        // 4 s beyond, W = 1000 + 0.4 * 64 = 1025.6.
        assert!((way[130] - 1025.6).abs() < 3.0, "{}", way[130]);
    }

    #[test]
    fn a_small_window_grows_as_that_of_a_reno_flow() {
        // From 7 segments by 3 * 0.3 / 1.7 = 0.529 per round trip until it is 10, then by 1.
        let way = after_congestion(10, 2);
        assert!((way[4] - (7.0 + 5.0 * 0.529)).abs() < 0.4, "{}", way[4]);
        assert!(way[19] > 20.0 && way[19] < 25.0, "{}", way[19]);
    }

    #[test]
    fn fast_convergence_lowers_the_plateau_of_a_window_that_shrinks() {
        let mut control = Cubic::new();
        control.begin(Opening {
            segment: 1000,
            window: 100_000,
            threshold: 1,
            slow_start_limit: 2,
            hystart: false,
        });
        control.on_congestion(Timestamp::ZERO, 100_000);
        assert!((control.plateau - 100.0).abs() < 1e-9 && control.window() == 70_000);
        control.on_congestion(Timestamp::ZERO, 70_000);
        assert!((control.plateau - 70.0 * 0.85).abs() < 1e-9 && control.window() == 49_000);
    }

    #[test]
    fn idle_time_is_no_time_to_grow_in() {
        let grown = |limited| {
            let mut control = Cubic::new();
            control.begin(Opening {
                segment: 1000,
                window: 100_000,
                threshold: 1,
                slow_start_limit: 2,
                hystart: false,
            });
            control.on_congestion(Timestamp::ZERO, 100_000);
            let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
            let ack = Acknowledged {
                bytes: 1000,
                limited: true,
                round_trip: ROUND_TRIP,
                ..Acknowledged::default()
            };
            control.on_ack(at(0), ack);
            control.on_ack(at(100), Acknowledged { limited, ..ack });
            (0..70).for_each(|_| control.on_ack(at(100), ack));
            control.window()
        };
        assert!(grown(false) < 73_000, "{}", grown(false));
        assert!(grown(true) > 95_000, "{}", grown(true));
    }
}
