//! How long do packets wait in the network?

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// What is settable of [`QueueDelay`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueDelayConfig {
    /// The delay at which the congestion that it stands for is total; half of it is none. Default 60 ms (§"Reference Window Update",
    /// `QDELAY_TARGET_LO`).
    pub target: TimeDelta,
    /// How much of a rise the average takes over at once; of a fall it takes all. Default 1/4 (§"Detecting Increased Queue Delay",
    /// `QDELAY_AVG_G`).
    pub gain: f64,
    /// The base delay is the least of so many minima. Default 10 (RFC 6817 §2.5, `BASE_HISTORY`).
    pub minima: usize,
    /// For so long each of the minima is taken. Default 1 min (RFC 6817 §2.4.2).
    pub minimum: TimeDelta,
    /// Whether growth and send window heed how much the delay varies. Default: no (`REDUCE_JITTER`).
    pub reduce_jitter: bool,
    /// How fast the averages of least and greatest delay approach each other. Default 1/16 (`QDELAY_MIN_MAX_AVG_G`).
    pub min_max_gain: f64,
    /// How fast the average of their difference moves. Default 1/32 (`QDELAY_DEV_AVG_G`).
    pub deviation_gain: f64,
    /// The difference that stops growth. Default 10 ms (`QDELAY_DEV_THRESHOLD`).
    pub deviation_threshold: TimeDelta,
    /// How fast the average of the least delay of each round trip moves. Default 1/256 (§"Clock drift issues and remedies",
    /// `QDELAY_MIN_AVG_ALPHA`).
    pub drift_gain: f64,
    /// This share of the target, if that average exceeds it, is not a queue but a clock that drifts, or a queue that never
    /// empties. Default 1/4 (same section).
    pub drift_share: f64,
}

/// What feedback can be wrong by: its steps of 1/1024 s (RFC 8888 §3.1), and a clock that is corrected.
const INEXACT: TimeDelta = TimeDelta::from_millis(10);

impl Default for QueueDelayConfig {
    fn default() -> Self {
        Self {
            target: TimeDelta::from_millis(60),
            gain: 1.0 / 4.0,
            minima: 10,
            minimum: TimeDelta::from_seconds(60),
            reduce_jitter: false,
            min_max_gain: 1.0 / 16.0,
            deviation_gain: 1.0 / 32.0,
            deviation_threshold: TimeDelta::from_millis(10),
            drift_gain: 1.0 / 256.0,
            drift_share: 1.0 / 4.0,
        }
    }
}

/// The one-way delay above its least, as LEDBAT measures it (RFC 6817 §2.4.2), and its averages.
#[derive(Debug, Clone)]
pub struct QueueDelay {
    config: QueueDelayConfig,
    /// The least apparent delay of each of the last minutes, the present one last, and when that began.
    minima: VecDeque<TimeDelta>,
    minute: Timestamp,
    /// In seconds, as all that follows.
    latest: f64,
    average: f64,
    averaged: Option<Timestamp>,
    greatest: f64,
    least: f64,
    deviation: f64,
    /// The least of the present round trip, and when that began.
    round_least: Option<f64>,
    round: Option<Timestamp>,
    drift: f64,
}

impl QueueDelay {
    /// Nothing has arrived.
    pub fn new(config: QueueDelayConfig) -> Self {
        Self {
            config,
            minima: VecDeque::with_capacity(config.minima.max(1)),
            minute: Timestamp::ZERO,
            latest: 0.0,
            average: 0.0,
            averaged: None,
            greatest: config.target.as_seconds(),
            least: 0.0,
            deviation: 0.0,
            round_least: None,
            round: None,
            drift: 0.0,
        }
    }

    /// A packet took `apparent` by two clocks of unknown offset, and it is `since` it left. The last packet of a feedback message is what
    /// counts; the others tell of the base delay and of jitter.
    ///
    /// No packet queues for longer than it is since it left: where it seems to, a clock has jumped, and the base delay is learned
    /// anew. This rule is ours; the text has its drift guard alone, which takes a jump of 150 ms for congestion until then.
    pub fn on_packet(&mut self, now: Timestamp, apparent: TimeDelta, since: TimeDelta) {
        let jumped = self.minima.iter().min().is_some_and(|&base| apparent - base > since + INEXACT);
        // Idle for so long that nothing that is remembered holds (RFC 6817 §2.4.2).
        let memory = self.config.minimum * i64::try_from(self.config.minima).unwrap_or(i64::MAX);
        if jumped || now.saturating_since(self.minute) >= memory {
            self.minima.clear();
        }
        if self.minima.is_empty() || now.saturating_since(self.minute) >= self.config.minimum {
            if self.minima.len() >= self.config.minima.max(1) {
                self.minima.pop_front();
            }
            self.minima.push_back(apparent);
            self.minute = now;
        }
        if let Some(last) = self.minima.back_mut() {
            *last = apparent.min(*last);
        }
        let base = self.minima.iter().min().copied().unwrap_or(apparent);
        self.latest = (apparent - base).max(TimeDelta::ZERO).as_seconds();
        self.round_least = Some(self.round_least.unwrap_or(self.latest).min(self.latest));
        self.greatest = self.latest.max(self.greatest).min(self.target());
        self.least = self.latest.min(self.least);
    }

    /// A feedback message has been heard whole: the averages move, at most once in `interval`. Says whether the base delay was found
    /// wrong, and begun anew.
    pub fn update(&mut self, now: Timestamp, interval: TimeDelta, round_trip: TimeDelta) -> bool {
        if self.averaged.is_none_or(|averaged| now.saturating_since(averaged) >= interval) {
            self.averaged = Some(now);
            let rise = self.latest - self.average;
            self.average += if rise < 0.0 { rise } else { self.config.gain * rise };
            if self.config.reduce_jitter {
                self.follow_jitter();
            }
        }
        let round = *self.round.get_or_insert(now);
        if now.saturating_since(round) < round_trip {
            return false;
        }
        self.round = Some(now);
        let Some(least) = self.round_least.take() else { return false };
        self.drift += self.config.drift_gain * (least - self.drift);
        let drifts = self.drift > self.config.drift_share * self.target();
        if drifts {
            self.drift = 0.0;
            self.minima.clear();
        }
        drifts
    }

    fn follow_jitter(&mut self) {
        let QueueDelayConfig { min_max_gain, deviation_gain, .. } = self.config;
        self.greatest -= self.greatest * min_max_gain;
        self.least += min_max_gain * (self.greatest - self.least);
        self.deviation += deviation_gain * (self.greatest - self.least - self.deviation);
    }

    /// The latest (`qdelay`), in seconds.
    pub fn latest(&self) -> f64 {
        self.latest
    }

    /// The average (`qdelay_avg`), in seconds.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// What the average stands for, as a share of packets marked (`l4s_alpha_v_t`): none up to half the target, all at the target.
    pub fn virtual_marks(&self) -> f64 {
        let half = self.target() / 2.0;
        if self.average <= half { 0.0 } else { ((self.average - half) / half).min(1.0) }
    }

    /// 1 where the delay is steady, 0 where it varies by the threshold or more (`ref_wnd_delay_scale`).
    pub fn steadiness(&self) -> f64 {
        let threshold = self.config.deviation_threshold.as_seconds();
        if !self.config.reduce_jitter || self.deviation <= 0.0 {
            1.0
        } else {
            (1.0 - self.deviation / threshold).clamp(0.0, 1.0)
        }
    }

    /// The target (`qdelay_target`), in seconds; never zero.
    pub fn target(&self) -> f64 {
        self.config.target.as_seconds().max(1e-6)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: i64) -> TimeDelta {
        TimeDelta::from_millis(ms)
    }

    fn hear(delay: &mut QueueDelay, now: u64, apparent: i64) -> bool {
        delay.on_packet(at(now), ms(apparent), ms(1000));
        delay.update(at(now), ms(25), ms(50))
    }

    #[test]
    fn a_constant_offset_of_the_clocks_is_no_queue() {
        for offset in [-5_000_000, 0, 7_000_000] {
            let mut delay = QueueDelay::new(QueueDelayConfig::default());
            hear(&mut delay, 0, offset);
            hear(&mut delay, 50, offset + 40);
            assert_eq!((delay.latest(), delay.average()), (0.040, 0.010));
            hear(&mut delay, 100, offset + 5);
            assert_eq!(delay.average(), 0.005, "a fall is believed at once");
        }
    }

    #[test]
    fn marks_rise_from_half_the_target_to_all_at_the_target() {
        let mut delay = QueueDelay::new(QueueDelayConfig { gain: 1.0, ..QueueDelayConfig::default() });
        hear(&mut delay, 0, 100);
        for (now, (queue, marks)) in
            (1..).zip([(30, 0.0), (45, 0.5), (54, 0.8), (60, 1.0), (500, 1.0), (0, 0.0)])
        {
            hear(&mut delay, now * 50, 100 + queue);
            assert!((delay.virtual_marks() - marks).abs() < 1e-9, "{queue} ms: {}", delay.virtual_marks());
        }
    }

    #[test]
    fn the_base_is_forgotten_after_ten_minutes_and_not_before() {
        let mut delay = QueueDelay::new(QueueDelayConfig { drift_gain: 0.0, ..QueueDelayConfig::default() });
        hear(&mut delay, 0, 20);
        for minute in 1..10 {
            hear(&mut delay, minute * 60_000, 28);
            assert_eq!(delay.latest(), 0.008, "minute {minute}");
        }
        hear(&mut delay, 600_000, 28);
        assert_eq!(delay.latest(), 0.0);
    }

    #[test]
    fn after_a_long_idle_time_the_base_is_learned_anew() {
        for (idle, latest) in [(599_000, 0.03), (600_000, 0.0)] {
            let mut delay = QueueDelay::new(QueueDelayConfig::default());
            hear(&mut delay, 0, 20);
            hear(&mut delay, idle, 50);
            assert_eq!(delay.latest(), latest, "{idle} ms");
        }
    }

    #[test]
    fn a_clock_that_drifts_is_found_out() {
        // 1 ms in 10 s, 100 ppm: the tenth minute would bring 60 ms. A quarter of the target is 15 ms; the average lags by 256
        // round trips of 50 ms, which is 1.3 ms of drift.
        let mut delay = QueueDelay::new(QueueDelayConfig::default());
        let resets: Vec<u64> = (0..6000).filter(|&n| hear(&mut delay, n * 50, n as i64 / 200)).collect();
        assert!((155..=175).contains(&(resets[0] / 20)), "{resets:?}");
        assert_eq!(resets.len(), 1, "{resets:?}");
        assert!(delay.latest() < 0.015);
    }

    #[test]
    fn a_clock_that_jumps_is_no_queue() {
        let mut delay = QueueDelay::new(QueueDelayConfig::default());
        let mut heard = |now, apparent| {
            delay.on_packet(at(now), ms(apparent), ms(120));
            delay.latest()
        };
        assert_eq!([heard(0, 500), heard(50, 590), heard(100, 505)], [0.0, 0.09, 0.005]);
        // 150 ms cannot have been waited in 120; then it is measured from there, as after a jump back.
        assert_eq!([heard(150, 650), heard(200, 740), heard(250, 655)], [0.0, 0.09, 0.005]);
        assert_eq!([heard(300, -9000), heard(350, -8910)], [0.0, 0.09]);
    }

    #[test]
    fn jitter_beyond_the_threshold_stops_growth_where_it_is_heeded() {
        for (reduce_jitter, jitter, range) in
            [(true, 0, 0.9..=1.0), (true, 5, 0.3..=0.7), (true, 50, 0.0..=0.0), (false, 50, 1.0..=1.0)]
        {
            let mut delay =
                QueueDelay::new(QueueDelayConfig { reduce_jitter, ..QueueDelayConfig::default() });
            for n in 0..1000 {
                hear(&mut delay, n * 25, 20 + (n as i64 % 2) * jitter);
            }
            assert!(range.contains(&delay.steadiness()), "{jitter} ms: {}", delay.steadiness());
        }
    }
}
