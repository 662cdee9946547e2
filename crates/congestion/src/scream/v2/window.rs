//! The reference window.

use giusto_units::{DataSize, TimeDelta, Timestamp};

giusto_units::defaults! {
    /// Configuration of the reference window. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct WindowConfig {
        /// Minimum window. Default 3000 B (§"Reference Window Update", `MIN_REF_WND`).
        pub min: DataSize = DataSize::from_bytes(3000),
        /// Maximum packet size (`MSS`), by which the window grows per RTT. Default 1000 B (same section).
        pub segment: DataSize = DataSize::from_bytes(1000),
        /// The window may grow up to this multiple of the bytes in flight, plus a packet. Default 1.5
        /// (`BYTES_IN_FLIGHT_HEAD_ROOM`).
        pub head_room: f64 = 1.5,
        /// Factor on the window at a loss. Default 0.7 (`BETA_LOSS`).
        pub beta_loss: f64 = 0.7,
        /// Factor on the window at a classic mark. Default 0.8 (`BETA_ECN`).
        pub beta_ecn: f64 = 0.8,
        /// Number of RTTs after congestion for which multiplicative growth is reduced. Default 100
        /// (`POST_CONGESTION_DELAY_RTT`).
        pub post_congestion_rounds: f64 = 100.0,
        /// Multiplicative growth per RTT as a share of the window, besides a packet. Default 0.02
        /// (`MUL_INCREASE_FACTOR`).
        pub multiplicative: f64 = 0.02,
        /// Minimum RTT in the formulas: a shorter RTT gives no advantage. Default 25 ms (`VIRTUAL_RTT`).
        pub virtual_rtt: TimeDelta = TimeDelta::from_millis(25),
        /// Minimum share of growth and reduction near the window at the last congestion. Default 0.25
        /// (§"Reference Window Increase", where the prose has 0.1 and the code 0.25).
        pub inflection_floor: f64 = 0.25,
        /// Factor on the relative distance to that window, before squaring. Default 8 (§"Reference Window
        /// Reduction").
        pub inflection_scale: f64 = 8.0,
        /// Minimum share of growth while the delay varies. Default 0.1 (§"Reference Window Increase").
        pub jitter_floor: f64 = 0.1,
        /// Number of RTTs without congestion after which a mark first reduces the window to the bytes in flight.
        /// Default 100 (§"Reference Window Reduction").
        pub quiet_rounds: f64 = 100.0,
        /// If the target is below this share of the received rate, it was already reduced by the RTT. Default 0.8
        /// (§"Reference window undershoot at congestion", `ACKED_BITRATE_MARGIN`). Zero: off.
        pub acknowledged_margin: f64 = 0.8,
        /// Share of the usual reduction in that case. Default 0.25 (`BACKOFF_SCALE_LOW_TARGET_RATE`).
        pub low_target_scale: f64 = 0.25,
        /// Whether a reduction by delay is divided by the square of the number of virtual RTTs in an RTT. Default: no, by that number
        /// (§"Reference Window Reduction").
        pub squared_rounds: bool = false,
    }
}

/// Congestion signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Congestion {
    /// Packets were lost.
    Loss,
    /// Packets were marked; each mark counts as congestion.
    Mark,
    /// Packets were marked; the average share, for graded marks (L4S).
    Marks(f64),
    /// The delay, as an equivalent share of marks.
    Delay(f64),
}

/// State of the path, besides congestion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Path {
    /// The smoothed RTT.
    pub(super) rtt: TimeDelta,
    /// Maximum bytes in flight in this round trip and the previous one, and in the previous one alone.
    pub(super) in_flight: (DataSize, DataSize),
    /// Whether the queue is short: at most a quarter of the delay target.
    pub(super) is_short: bool,
    /// 1 if the delay is constant, 0 if it varies too much.
    pub(super) steadiness: f64,
    /// Whether the target was already reduced to less than the margin's share of the received rate.
    pub(super) is_low: bool,
    /// Whether the target is at its maximum: growth has no effect.
    pub(super) is_at_max: bool,
}

/// The reference window (§"Reference Window Update").
///
/// | here | in the text |
/// |---|---|
/// | window | `ref_wnd` |
/// | inflection | `ref_wnd_i`, the window at the last congestion |
/// | limit | `max_policed_ref_wnd` |
///
/// In the text's comment the inflection point is updated before the distance to it is computed; in its code,
/// after. We follow the code. According to the comment, the distance at each first reaction would be zero,
/// and a window far above would be reduced by a quarter of the usual share.
#[derive(Debug, Clone)]
pub(super) struct ReferenceWindow {
    config: WindowConfig,
    /// In bytes, like the following fields.
    window: f64,
    inflection: f64,
    may_move: bool,
    limit: f64,
    /// Time at which packets were last lost or marked.
    detected: Option<Timestamp>,
    /// Time of the last reduction, and of the last reduction by a fixed factor.
    reacted: Option<Timestamp>,
    cut: Option<Timestamp>,
    /// Distance to the inflection point, 0.1 (near) to 1, at the last [`react`](Self::react).
    distance: f64,
}

impl ReferenceWindow {
    /// A window of `size`.
    pub(super) fn new(config: WindowConfig, size: f64) -> Self {
        let mut this = Self {
            config,
            window: 0.0,
            inflection: 1.0,
            may_move: true,
            limit: f64::INFINITY,
            detected: None,
            reacted: None,
            cut: None,
            distance: 1.0,
        };
        this.set(size);
        this
    }

    /// The window, in bytes: at least the minimum.
    pub(super) fn size(&self) -> f64 {
        self.window
    }

    /// Share of the window that one packet takes, at most 1 (`ref_wnd_ratio`).
    pub(super) fn segment_share(&self) -> f64 {
        (self.config.segment.as_bytes() as f64 / self.window).min(1.0)
    }

    /// Whether a reaction to congestion is due: once per virtual RTT, or per RTT if that is shorter.
    pub(super) fn is_due(&self, now: Timestamp, rtt: TimeDelta) -> bool {
        let interval = self.config.virtual_rtt.min(rtt);
        self.reacted.is_none_or(|reacted| now.saturating_since(reacted) >= interval)
    }

    /// Whether a reaction by a fixed factor is due: once per RTT.
    pub(super) fn is_cut_due(&self, now: Timestamp, rtt: TimeDelta) -> bool {
        self.cut.is_none_or(|cut| now.saturating_since(cut) >= rtt)
    }

    /// Handles lost or marked packets.
    pub(super) fn on_detected(&mut self, now: Timestamp) {
        self.detected = Some(now);
    }

    /// Reduces the window for `congestion`, if there is any.
    pub(super) fn react(&mut self, now: Timestamp, congestion: Option<Congestion>, path: &Path) {
        let relative = (self.window - self.inflection) / self.inflection * self.config.inflection_scale;
        self.distance = (relative * relative).clamp(0.1, 1.0);
        let Some(congestion) = congestion else { return };
        if core::mem::replace(&mut self.may_move, false) {
            self.inflection = self.window;
        }
        if matches!(congestion, Congestion::Loss | Congestion::Mark) {
            self.cut = Some(now);
        }
        let kept = match congestion {
            Congestion::Loss => self.config.beta_loss,
            Congestion::Mark => self.config.beta_ecn,
            Congestion::Delay(share) => {
                let share = if self.config.squared_rounds { share / self.rounds(path) } else { share };
                1.0 - self.back_off(share, path)
            }
            Congestion::Marks(share) => {
                self.come_down(now, path);
                let near = if path.is_short {
                    let floor = self.config.inflection_floor;
                    self.distance.max(floor) * path.steadiness.max(floor)
                } else {
                    1.0
                };
                1.0 - self.back_off(share, path) * near
            }
        };
        self.set(self.window * kept);
        self.reacted = Some(now);
    }

    /// Share by which the window is reduced at this share of marked packets. With longer RTTs there is more
    /// than one reaction per RTT, which divide the reduction.
    fn back_off(&self, marked: f64, path: &Path) -> f64 {
        let low = if path.is_low { self.config.low_target_scale } else { 1.0 };
        marked / 2.0 / self.rounds(path) * low
    }

    /// Virtual RTTs in an RTT, at least 1: so many reactions an RTT may have.
    fn rounds(&self, path: &Path) -> f64 {
        (path.rtt.as_seconds() / self.virtual_rtt()).max(1.0)
    }

    /// After a long time without congestion the window may be far above the bytes in flight. Our addition: a
    /// value of zero is ignored, because the bytes in flight are unknown before the second round trip.
    fn come_down(&mut self, now: Timestamp, path: &Path) {
        let quiet = self.config.quiet_rounds * self.rtt(path);
        let is_long = self.reacted.is_none_or(|reacted| now.saturating_since(reacted).as_seconds() > quiet);
        let before = path.in_flight.1.as_bytes() as f64;
        if is_long && before > 0.0 {
            self.window = self.window.min(before);
        }
    }

    /// Grows by the bytes that were acknowledged without a mark. Returns whether the window may have been too
    /// large for the bytes in flight to grow.
    pub(super) fn grow(&mut self, now: Timestamp, acknowledged: f64, path: &Path) -> bool {
        let segment = self.config.segment.as_bytes() as f64;
        let wait = self.config.post_congestion_rounds * self.rtt(path);
        let calm = self.detected.map_or(1.0, |detected| {
            (now.saturating_since(detected).as_seconds() / wait.max(f64::MIN_POSITIVE)).min(1.0)
        });
        let factor = 1.0 + self.config.multiplicative * self.window / segment * calm * self.distance;
        let increment = acknowledged
            * self.segment_share()
            * (path.rtt.as_seconds() / self.virtual_rtt()).min(1.0)
            * self.distance.max(self.config.inflection_floor)
            * path.steadiness.max(self.config.jitter_floor)
            * factor;
        let max = segment + path.in_flight.0.as_bytes() as f64 * self.config.head_room;
        let wanted = self.window + increment;
        let is_limited = wanted > max;
        if increment > 0.0 && !is_limited && !path.is_at_max {
            self.set(wanted);
            self.may_move = true;
        }
        is_limited
    }

    /// Reduces the window to `max` if it is larger.
    pub(super) fn cap(&mut self, max: f64) {
        self.set(self.window.min(max));
    }

    /// Handles a detected policer: the window is limited to less than this for a long time.
    pub(super) fn police(&mut self, beta: f64) {
        self.limit = self.window * beta;
    }

    /// Handles the end of a round trip: the policer limit is raised slightly.
    pub(super) fn lift(&mut self, share: f64) {
        self.limit *= 1.0 + share;
    }

    /// Sets the window to `size`, within its limits.
    pub(super) fn set(&mut self, size: f64) {
        let min = (self.config.min.as_bytes() as f64).max(1.0);
        self.window = size.min(self.limit).min(MAX).max(min);
    }

    fn virtual_rtt(&self) -> f64 {
        self.config.virtual_rtt.as_seconds().max(1e-6)
    }

    fn rtt(&self, path: &Path) -> f64 {
        path.rtt.max(self.config.virtual_rtt).as_seconds()
    }
}

/// The maximum window, in bytes, so that arithmetic stays exact. 1 PB.
const MAX: f64 = 1e15;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::at;

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    fn path(rtt: i64) -> Path {
        Path {
            rtt: TimeDelta::from_millis(rtt),
            in_flight: (size(1_000_000), size(1_000_000)),
            is_short: true,
            steadiness: 1.0,
            is_low: false,
            is_at_max: false,
        }
    }

    fn window(size: f64) -> ReferenceWindow {
        ReferenceWindow::new(WindowConfig::default(), size)
    }

    #[test]
    fn each_congestion_signal_reduces_it_by_its_share() {
        for (congestion, rtt, kept) in [
            (Congestion::Loss, 25, 0.7),
            (Congestion::Mark, 25, 0.8),
            (Congestion::Marks(0.5), 25, 0.75),
            (Congestion::Marks(0.5), 100, 0.9375),
            (Congestion::Marks(0.5), 5, 0.75),
            (Congestion::Delay(1.0), 25, 0.5),
            (Congestion::Delay(1.0), 50, 0.75),
        ] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(congestion), &path(rtt));
            let left = window.size() / 100_000.0;
            assert!((left - kept).abs() < 1e-9, "{congestion:?} at {rtt} ms: {left}");
        }
    }

    /// `ScreamV2Tx.cpp`: `virtualL4sAlpha`, 1 at the target, is divided by the reactions in an RTT, and half of it again.
    #[test]
    fn in_the_authors_library_a_reduction_by_delay_is_divided_twice() {
        for (rtt, kept) in [(25, 0.5), (50, 0.875), (100, 0.968_75), (400, 1.0 - 0.5 / 256.0)] {
            let config = WindowConfig { squared_rounds: true, ..WindowConfig::default() };
            let mut window = ReferenceWindow::new(config, 100_000.0);
            window.react(at(0), Some(Congestion::Delay(1.0)), &path(rtt));
            assert!((window.size() / 100_000.0 - kept).abs() < 1e-9, "{rtt} ms: {}", window.size());
        }
    }

    #[test]
    fn graded_reactions_are_per_virtual_rtt_and_cuts_per_rtt() {
        let rtt = TimeDelta::from_millis(80);
        let mut window = window(100_000.0);
        assert!(window.is_due(at(0), rtt) && window.is_cut_due(at(0), rtt));
        window.react(at(0), Some(Congestion::Mark), &path(80));
        assert!(!window.is_due(at(24), rtt) && window.is_due(at(25), rtt));
        window.react(at(40), Some(Congestion::Marks(0.1)), &path(80));
        assert!(!window.is_cut_due(at(79), rtt) && window.is_cut_due(at(80), rtt));
        assert!(window.is_due(at(45), TimeDelta::from_millis(5)), "round trips that are shorter count");
    }

    #[test]
    fn near_the_last_congestion_marks_reduce_it_less() {
        for (is_short, kept) in [(true, 0.9375), (false, 0.75)] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(Congestion::Marks(0.0)), &path(25));
            window.react(at(25), Some(Congestion::Marks(0.5)), &Path { is_short, ..path(25) });
            assert!((window.size() / 100_000.0 - kept).abs() < 1e-9, "{}", window.size());
        }
    }

    #[test]
    fn an_already_reduced_target_backs_off_by_a_quarter() {
        let mut window = window(100_000.0);
        window.react(at(0), Some(Congestion::Delay(1.0)), &Path { is_low: true, ..path(25) });
        assert!((window.size() - 87_500.0).abs() < 1e-6, "{}", window.size());
    }

    #[test]
    fn growth_per_rtt_is_lower_near_the_last_congestion() {
        // There is no multiplicative growth immediately after congestion.
        for (below, packets) in [(1.0, 0.25), (0.5, 1.0)] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(Congestion::Marks(0.0)), &path(25));
            window.set(100_000.0 * below);
            window.on_detected(at(100));
            window.react(at(100), None, &path(25));
            let before = window.size();
            // One RTT acknowledges one window.
            window.grow(at(100), before, &path(25));
            assert!(
                (window.size() - before - packets * 1000.0).abs() < 1e-6,
                "{below}: {}",
                window.size() - before
            );
        }
    }

    #[test]
    fn long_after_congestion_it_grows_by_2_percent_and_a_packet() {
        let mut window = window(100_000.0);
        window.react(at(0), None, &path(25));
        window.grow(at(0), 100_000.0, &path(25));
        assert!((window.size() - 103_000.0).abs() < 1e-6, "{}", window.size());
    }

    #[test]
    fn two_marks_per_rtt_keep_it_constant() {
        // The text: "2 marked data units per RTT". An RTT of 25 ms and 50 packets: two in fifty are marked,
        // one reaction.
        let mut window = window(50_000.0);
        for round in 0..400 {
            let now = at(round * 25);
            window.on_detected(now);
            window.react(now, Some(Congestion::Marks(0.04)), &path(25));
            let acknowledged = window.size() * 0.96;
            window.grow(now, acknowledged, &path(25));
        }
        assert!((45_000.0..=55_000.0).contains(&window.size()), "{}", window.size());
    }

    #[test]
    fn it_does_not_grow_while_unused_or_at_the_maximum() {
        let used = Path { in_flight: (size(10_000), size(10_000)), ..path(25) };
        let mut window = window(15_000.0);
        while !window.grow(at(0), 1000.0, &used) {}
        assert!((15_800.0..=16_000.0).contains(&window.size()), "{}", window.size());
        let before = window.size();
        assert!(!window.grow(at(0), 1000.0, &Path { is_at_max: true, ..path(25) }));
        assert_eq!(window.size(), before);
    }

    #[test]
    fn after_a_long_time_a_mark_sets_it_to_the_bytes_in_flight() {
        for (quiet, expected) in [(2400, 100_000.0), (2600, 40_000.0)] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(Congestion::Marks(0.0)), &path(25));
            let used = Path { in_flight: (size(50_000), size(40_000)), ..path(25) };
            window.set(100_000.0);
            window.react(at(quiet), Some(Congestion::Marks(0.0)), &used);
            assert_eq!(window.size(), expected, "{quiet} ms");
        }
    }

    #[test]
    fn a_policer_limit_applies_and_rises_slowly() {
        let mut window = window(100_000.0);
        window.police(0.9);
        window.set(1e9);
        assert_eq!(window.size(), 90_000.0);
        (0..1000).for_each(|_| window.lift(0.001));
        window.set(1e9);
        let e = window.size() / 90_000.0;
        assert!((2.71..2.72).contains(&e), "{e}");
        (0..10_000_000).for_each(|_| window.lift(0.001));
        window.set(1e9);
        assert_eq!(window.size(), 1e9, "a limit that has grown away is none");
    }

    #[test]
    fn it_stays_at_or_above_the_minimum() {
        let mut window = window(0.0);
        window.police(0.0);
        window.react(at(0), Some(Congestion::Loss), &path(25));
        window.cap(0.0);
        assert_eq!(window.size(), 3000.0);
        assert!((window.segment_share() - 1.0 / 3.0).abs() < 1e-12);
    }
}
