//! How much should be in flight? The reference window.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// What is settable of [`ReferenceWindow`]. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowConfig {
    /// The least. Default 3000 B (§"Reference Window Update", `MIN_REF_WND`).
    pub min: DataSize,
    /// The largest packet (`MSS`), by which the window grows in a round trip. Default 1000 B (same section).
    pub segment: DataSize,
    /// The window may grow to a packet more than this multiple of what was in flight. Default 1.5 (`BYTES_IN_FLIGHT_HEAD_ROOM`).
    pub head_room: f64,
    /// What a loss leaves. Default 0.7 (`BETA_LOSS`).
    pub beta_loss: f64,
    /// What a mark leaves where marks are classic. Default 0.8 (`BETA_ECN`).
    pub beta_ecn: f64,
    /// For so many round trips after congestion, growth by a factor is held back. Default 100 (`POST_CONGESTION_DELAY_RTT`).
    pub post_congestion_rounds: f64,
    /// By which share of itself the window grows in a round trip, besides a packet. Default 0.02 (`MUL_INCREASE_FACTOR`).
    pub multiplicative: f64,
    /// Shorter round trips count as this: they gain nothing. Default 25 ms (`VIRTUAL_RTT`).
    pub virtual_round_trip: TimeDelta,
    /// Near the window that last met congestion, growth and back-off are this share of the usual at least. Default 0.25
    /// (§"Reference Window Increase", where the prose has 0.1 and the code 0.25).
    pub inflection_floor: f64,
    /// What counts as near: the distance, relative to that window, times this, squared. Default 8 (§"Reference Window Reduction").
    pub inflection_scale: f64,
    /// Where delay varies, growth is this share of the usual at least. Default 0.1 (§"Reference Window Increase").
    pub jitter_floor: f64,
    /// A mark after so many quiet round trips brings the window down to what is in flight first. Default 100 (§"Reference Window
    /// Reduction").
    pub quiet_rounds: f64,
    /// A target below this share of what arrives was lowered already, by the round trip. Default 0.8 (§"Reference window undershoot
    /// at congestion", `ACKED_BITRATE_MARGIN`). Zero: not heeded.
    pub acknowledged_margin: f64,
    /// Then the window backs off by this share of the usual. Default 0.25 (`BACKOFF_SCALE_LOW_TARGET_RATE`).
    pub low_target_scale: f64,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            min: DataSize::from_bytes(3000),
            segment: DataSize::from_bytes(1000),
            head_room: 1.5,
            beta_loss: 0.7,
            beta_ecn: 0.8,
            post_congestion_rounds: 100.0,
            multiplicative: 0.02,
            virtual_round_trip: TimeDelta::from_millis(25),
            inflection_floor: 0.25,
            inflection_scale: 8.0,
            jitter_floor: 0.1,
            quiet_rounds: 100.0,
            acknowledged_margin: 0.8,
            low_target_scale: 0.25,
        }
    }
}

/// Why the window is to be reduced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Congestion {
    /// Packets were lost.
    Loss,
    /// Packets were marked, and one mark counts as congestion.
    Mark,
    /// Packets were marked in this average share, where marks are graded (L4S).
    Marks(f64),
    /// The delay stands for marks in this share.
    Delay(f64),
}

/// What the path looks like, besides congestion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// The smoothed round trip.
    pub round_trip: TimeDelta,
    /// The most that was in flight in this round trip and the one before, and in the one before.
    pub in_flight: (DataSize, DataSize),
    /// Whether the queue is short: no more than a quarter of the delay's target.
    pub is_short: bool,
    /// 1 where the delay is steady, 0 where it varies too much.
    pub steadiness: f64,
    /// Whether the target was lowered already, to less than the margin's share of what arrives.
    pub is_low: bool,
    /// Whether the target is as high as it may be: growth gains nothing.
    pub is_at_most: bool,
}

/// The reference window (§"Reference Window Update").
///
/// | here | in the text |
/// |---|---|
/// | window | `ref_wnd` |
/// | inflection | `ref_wnd_i`, the window that last met congestion |
/// | limit | `max_policed_ref_wnd` |
///
/// The text's comment has the inflection moved before the distance to it is taken, its code after. The code is followed: by
/// the comment each first reaction would be to a distance of none, and a window far above would back off by a quarter.
#[derive(Debug, Clone)]
pub struct ReferenceWindow {
    config: WindowConfig,
    /// In bytes, as is all that follows.
    window: f64,
    inflection: f64,
    may_move: bool,
    limit: f64,
    /// When packets were last lost or marked.
    detected: Option<Timestamp>,
    /// When the window last was reduced, and when by a fixed factor.
    reacted: Option<Timestamp>,
    cut: Option<Timestamp>,
    /// The nearness to the inflection, 0.1 (near) to 1, as of the last [`react`](Self::react).
    distance: f64,
}

impl ReferenceWindow {
    /// A window of `size`.
    pub fn new(config: WindowConfig, size: f64) -> Self {
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

    /// The window, in bytes: never below the least.
    pub fn size(&self) -> f64 {
        self.window
    }

    /// How much of the window one packet is, at most all (`ref_wnd_ratio`).
    pub fn segment_share(&self) -> f64 {
        (self.config.segment.as_bytes() as f64 / self.window).min(1.0)
    }

    /// Whether a reaction to congestion is due: one each virtual round trip, or each round trip where that is shorter.
    pub fn is_due(&self, now: Timestamp, round_trip: TimeDelta) -> bool {
        let interval = self.config.virtual_round_trip.min(round_trip);
        self.reacted.is_none_or(|reacted| now.saturating_since(reacted) >= interval)
    }

    /// Whether a reaction by a fixed factor is due: one each round trip.
    pub fn is_cut_due(&self, now: Timestamp, round_trip: TimeDelta) -> bool {
        self.cut.is_none_or(|cut| now.saturating_since(cut) >= round_trip)
    }

    /// Packets were lost or marked.
    pub fn on_detected(&mut self, now: Timestamp) {
        self.detected = Some(now);
    }

    /// Backs off from `congestion`, if there is any.
    pub fn react(&mut self, now: Timestamp, congestion: Option<Congestion>, path: &Path) {
        let relative = (self.window - self.inflection) / self.inflection * self.config.inflection_scale;
        self.distance = (relative * relative).clamp(0.1, 1.0);
        let Some(congestion) = congestion else { return };
        if std::mem::replace(&mut self.may_move, false) {
            self.inflection = self.window;
        }
        if matches!(congestion, Congestion::Loss | Congestion::Mark) {
            self.cut = Some(now);
        }
        let kept = match congestion {
            Congestion::Loss => self.config.beta_loss,
            Congestion::Mark => self.config.beta_ecn,
            Congestion::Delay(share) => 1.0 - self.back_off(share, path),
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

    /// By which share the window falls where so many packets are marked. Longer round trips see more than one reaction each, which
    /// they share.
    fn back_off(&self, marked: f64, path: &Path) -> f64 {
        let rounds = (path.round_trip.as_seconds() / self.virtual_round_trip()).max(1.0);
        let low = if path.is_low { self.config.low_target_scale } else { 1.0 };
        marked / 2.0 / rounds * low
    }

    /// After long without congestion the window may be far above what is in flight. What was in flight never being nothing is ours: there
    /// is none before the second round trip.
    fn come_down(&mut self, now: Timestamp, path: &Path) {
        let quiet = self.config.quiet_rounds * self.round_trip(path);
        let is_long = self.reacted.is_none_or(|reacted| now.saturating_since(reacted).as_seconds() > quiet);
        let before = path.in_flight.1.as_bytes() as f64;
        if is_long && before > 0.0 {
            self.window = self.window.min(before);
        }
    }

    /// Grows for so much that arrived unmarked. Says whether the window may have been too large for what is in flight to grow.
    pub fn grow(&mut self, now: Timestamp, acknowledged: f64, path: &Path) -> bool {
        let segment = self.config.segment.as_bytes() as f64;
        let wait = self.config.post_congestion_rounds * self.round_trip(path);
        let calm = self.detected.map_or(1.0, |detected| {
            (now.saturating_since(detected).as_seconds() / wait.max(f64::MIN_POSITIVE)).min(1.0)
        });
        let factor = 1.0 + self.config.multiplicative * self.window / segment * calm * self.distance;
        let increment = acknowledged
            * self.segment_share()
            * (path.round_trip.as_seconds() / self.virtual_round_trip()).min(1.0)
            * self.distance.max(self.config.inflection_floor)
            * path.steadiness.max(self.config.jitter_floor)
            * factor;
        let most = segment + path.in_flight.0.as_bytes() as f64 * self.config.head_room;
        let wanted = self.window + increment;
        let is_limited = wanted > most;
        if increment > 0.0 && !is_limited && !path.is_at_most {
            self.set(wanted);
            self.may_move = true;
        }
        is_limited
    }

    /// Brings the window down to `most` where it is above.
    pub fn cap(&mut self, most: f64) {
        self.set(self.window.min(most));
    }

    /// A policer is found: the window stays below this for long.
    pub fn police(&mut self, beta: f64) {
        self.limit = self.window * beta;
    }

    /// A round trip has passed: the limit of the policer is lifted by a little.
    pub fn lift(&mut self, share: f64) {
        self.limit *= 1.0 + share;
    }

    /// A window of `size`, within its bounds.
    pub fn set(&mut self, size: f64) {
        let least = (self.config.min.as_bytes() as f64).max(1.0);
        self.window = size.min(self.limit).min(MOST).max(least);
    }

    fn virtual_round_trip(&self) -> f64 {
        self.config.virtual_round_trip.as_seconds().max(1e-6)
    }

    fn round_trip(&self, path: &Path) -> f64 {
        path.round_trip.max(self.config.virtual_round_trip).as_seconds()
    }
}

/// The largest window, in bytes: arithmetic with it stays exact. 1 PB.
const MOST: f64 = 1e15;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    fn path(round_trip: i64) -> Path {
        Path {
            round_trip: TimeDelta::from_millis(round_trip),
            in_flight: (size(1_000_000), size(1_000_000)),
            is_short: true,
            steadiness: 1.0,
            is_low: false,
            is_at_most: false,
        }
    }

    fn window(size: f64) -> ReferenceWindow {
        ReferenceWindow::new(WindowConfig::default(), size)
    }

    #[test]
    fn each_congestion_takes_its_part() {
        for (congestion, round_trip, kept) in [
            (Congestion::Loss, 25, 0.7),
            (Congestion::Mark, 25, 0.8),
            (Congestion::Marks(0.5), 25, 0.75),
            (Congestion::Marks(0.5), 100, 0.9375),
            (Congestion::Marks(0.5), 5, 0.75),
            (Congestion::Delay(1.0), 25, 0.5),
            (Congestion::Delay(1.0), 50, 0.75),
        ] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(congestion), &path(round_trip));
            let left = window.size() / 100_000.0;
            assert!((left - kept).abs() < 1e-9, "{congestion:?} at {round_trip} ms: {left}");
        }
    }

    #[test]
    fn a_graded_reaction_is_due_each_virtual_round_trip_and_a_cut_each_round_trip() {
        let round_trip = TimeDelta::from_millis(80);
        let mut window = window(100_000.0);
        assert!(window.is_due(at(0), round_trip) && window.is_cut_due(at(0), round_trip));
        window.react(at(0), Some(Congestion::Mark), &path(80));
        assert!(!window.is_due(at(24), round_trip) && window.is_due(at(25), round_trip));
        window.react(at(40), Some(Congestion::Marks(0.1)), &path(80));
        assert!(!window.is_cut_due(at(79), round_trip) && window.is_cut_due(at(80), round_trip));
        assert!(window.is_due(at(45), TimeDelta::from_millis(5)), "round trips that are shorter count");
    }

    #[test]
    fn near_the_last_congestion_marks_take_a_quarter_and_only_while_the_queue_is_short() {
        for (is_short, kept) in [(true, 0.9375), (false, 0.75)] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(Congestion::Marks(0.0)), &path(25));
            window.react(at(25), Some(Congestion::Marks(0.5)), &Path { is_short, ..path(25) });
            assert!((window.size() / 100_000.0 - kept).abs() < 1e-9, "{}", window.size());
        }
    }

    #[test]
    fn a_target_that_was_lowered_already_takes_a_quarter() {
        let mut window = window(100_000.0);
        window.react(at(0), Some(Congestion::Delay(1.0)), &Path { is_low: true, ..path(25) });
        assert!((window.size() - 87_500.0).abs() < 1e-6, "{}", window.size());
    }

    #[test]
    fn a_round_trip_after_congestion_brings_a_quarter_of_a_packet_and_far_from_it_a_whole_one() {
        // Right after congestion there is no growth by a factor.
        for (below, packets) in [(1.0, 0.25), (0.5, 1.0)] {
            let mut window = window(100_000.0);
            window.react(at(0), Some(Congestion::Marks(0.0)), &path(25));
            window.set(100_000.0 * below);
            window.on_detected(at(100));
            window.react(at(100), None, &path(25));
            let before = window.size();
            // What one round trip acknowledges is the window.
            window.grow(at(100), before, &path(25));
            assert!(
                (window.size() - before - packets * 1000.0).abs() < 1e-6,
                "{below}: {}",
                window.size() - before
            );
        }
    }

    #[test]
    fn long_after_congestion_it_grows_by_two_percent_and_a_packet() {
        let mut window = window(100_000.0);
        window.react(at(0), None, &path(25));
        window.grow(at(0), 100_000.0, &path(25));
        assert!((window.size() - 103_000.0).abs() < 1e-6, "{}", window.size());
    }

    #[test]
    fn two_marks_a_round_trip_hold_it() {
        // The text: "2 marked data units per RTT". A round trip of 25 ms and 50 packets: two in fifty are marked, one reaction.
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
    fn it_does_not_grow_beyond_what_is_used_nor_where_nothing_is_gained() {
        let used = Path { in_flight: (size(10_000), size(10_000)), ..path(25) };
        let mut window = window(15_000.0);
        while !window.grow(at(0), 1000.0, &used) {}
        assert!((15_800.0..=16_000.0).contains(&window.size()), "{}", window.size());
        let before = window.size();
        assert!(!window.grow(at(0), 1000.0, &Path { is_at_most: true, ..path(25) }));
        assert_eq!(window.size(), before);
    }

    #[test]
    fn after_long_quiet_a_mark_brings_it_to_what_was_in_flight() {
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
    fn a_policers_limit_holds_and_is_lifted_slowly() {
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
    fn nothing_brings_it_below_the_least() {
        let mut window = window(0.0);
        window.police(0.0);
        window.react(at(0), Some(Congestion::Loss), &path(25));
        window.cap(0.0);
        assert_eq!(window.size(), 3000.0);
        assert!((window.segment_share() - 1.0 / 3.0).abs() < 1e-12);
    }
}
