//! Queueing delay on the path (RFC 6817 §2.4.2, §3.1).

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use crate::{base_delay::BaseDelay, clock_jump};

/// Number of stored minima, one per minute (RFC 6817 §2.4.2; §2.5, `BASE_HISTORY`).
const BASE_HISTORY: usize = 10;
/// RFC 6817 §2.4.2.
const MINUTE: TimeDelta = TimeDelta::from_seconds(60);

/// The one-way delay minus its minimum over ten minutes, without the skew of the clocks.
///
/// Samples are not filtered (RFC 8298 §4.1.2: "No smoothing of the qdelay is performed"). After a jump of a clock
/// ([`clock_jump`]) the base delay is measured again.
#[derive(Debug, Clone)]
pub(super) struct QueueDelay {
    base: BaseDelay,
}

impl Default for QueueDelay {
    fn default() -> Self {
        Self { base: BaseDelay::new(MINUTE, BASE_HISTORY) }
    }
}

impl QueueDelay {
    /// Handles a packet that was sent at `sent`, arrived at `arrival` and was reported at `now`, which never
    /// runs backwards. Returns its queueing delay.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: Timestamp, arrival: PeerTimestamp) -> TimeDelta {
        let delay = -arrival.apparent_delay(sent);
        let queued = self.base.get(now).map(|base| delay - base);
        if queued.is_some_and(|queued| clock_jump::has_jumped(queued, now.saturating_since(sent))) {
            self.base.clear();
        }
        self.base.on_sample(now, delay);
        (delay - self.base.get(now).unwrap_or(delay)).max(TimeDelta::ZERO)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    /// A packet sent at a given second, with this queueing delay in milliseconds, a base delay of 25 ms and a
    /// clock that is a day ahead.
    fn queued(delay: &mut QueueDelay, second: u64, millis: u64) -> f64 {
        let sent = Timestamp::from_nanos(second * 1_000_000_000);
        let day = 86_400_000_000_000;
        let arrival = PeerTimestamp::from_nanos(sent.as_nanos() + day + (25 + millis) * 1_000_000);
        delay.on_packet(sent + TimeDelta::from_millis(100), sent, arrival).as_millis()
    }

    #[test]
    fn it_is_the_excess_over_the_minimum() {
        let mut delay = QueueDelay::default();
        let delays: Vec<f64> =
            [30, 0, 40, 7].into_iter().zip(0..).map(|(ms, second)| queued(&mut delay, second, ms)).collect();
        assert_eq!(delays, [0.0, 0.0, 40.0, 7.0]);
    }

    #[test]
    fn a_longer_path_becomes_the_base_after_10_minutes() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        // The minima of ten minutes are stored: the first one leaves with the eleventh.
        let first_zero = (1..1000).find(|&second| queued(&mut delay, second, 50) == 0.0);
        assert!(first_zero.is_some_and(|second| (540..=610).contains(&second)), "{first_zero:?}");
    }

    #[test]
    fn a_long_idle_time_resets_the_base_delay() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 599, 20), 20.0);
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 601, 20), 0.0);
    }

    /// The queueing delay in each second of an hour, in milliseconds, with a remote clock that is fast by
    /// `ppm`; a frame is queued for `queued` milliseconds.
    fn with_skew(ppm: f64, queued: impl Fn(u64) -> f64) -> Vec<f64> {
        let mut delay = QueueDelay::default();
        let delays = |second: u64| {
            let sent = Timestamp::from_nanos(second * 1_000_000_000);
            let nanos = sent.as_nanos() as f64 * (1.0 + ppm * 1e-6) + 25e6 + queued(second) * 1e6;
            let arrival = PeerTimestamp::from_nanos(3_600_000_000_000 + nanos as u64);
            delay.on_packet(sent + TimeDelta::from_millis(200), sent, arrival).as_millis()
        };
        (0..3600).map(delays).collect()
    }

    #[test]
    fn the_skew_of_a_fast_remote_clock_is_removed() {
        for ppm in [-100.0, -20.0, 0.0, 20.0, 100.0, 190.0] {
            let delays = with_skew(ppm, |second| (second % 5) as f64 * 10.0);
            let worst = |from: usize, residue: usize| {
                let of = delays.iter().enumerate().skip(from).filter(|(second, _)| second % 5 == residue);
                of.map(|(_, &ms)| ms).fold((f64::MAX, 0.0_f64), |(low, high), ms| (low.min(ms), high.max(ms)))
            };
            // From the time at which the line is known; before, three minutes at 190 ppm are 34 ms.
            let (low, high) = worst(240, 0);
            assert!(low >= 0.0 && high < 2.0, "{ppm} ppm: none is taken for {low} to {high} ms");
            let (low, high) = worst(240, 4);
            assert!(low > 38.0 && high < 42.0, "{ppm} ppm: 40 ms are taken for {low} to {high} ms");
        }
    }

    #[test]
    fn a_growing_queue_does_not_count_as_skew() {
        // 30 ms per minute exceed clock skew: 500 ppm.
        let delays = with_skew(0.0, |second| second.min(300) as f64 / 2.0);
        assert!((delays[300] - 150.0).abs() < 0.1, "{}", delays[300]);
        // Ten milliseconds per minute in jumps: no line.
        let delays =
            with_skew(0.0, |second| [0.0, 15.0, 12.0, 30.0, 36.0, 55.0][(second / 60).min(5) as usize]);
        assert!((delays[400] - 55.0).abs() < 0.1, "{}", delays[400]);
    }

    #[test]
    fn a_clock_jump_does_not_count_as_queueing() {
        for jump in [1_000_000_000, 3_600_000_000_000_i64, -1_000_000_000] {
            let mut delay = QueueDelay::default();
            let mut delays = |second: u64, millis: i64, jump: i64| {
                let sent = Timestamp::from_nanos(second * 1_000_000_000);
                let nanos = sent.as_nanos() as i64 + 36_000_000_000_000 + (25 + millis) * 1_000_000 + jump;
                let arrival = PeerTimestamp::from_nanos(nanos as u64);
                delay.on_packet(sent + TimeDelta::from_millis(150), sent, arrival).as_millis()
            };
            assert_eq!((delays(0, 0, 0), delays(1, 90, 0), delays(2, 5, 0)), (0.0, 90.0, 5.0));
            // Restarted with the first sample.
            assert_eq!(
                (delays(3, 0, jump), delays(4, 70, jump), delays(5, 3, jump)),
                (0.0, 70.0, 3.0),
                "{jump}"
            );
        }
    }

    #[test]
    fn extreme_values_are_safe() {
        let mut delay = QueueDelay::default();
        for (sent, arrival) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
            let delays = delay.on_packet(
                Timestamp::MAX,
                Timestamp::from_nanos(sent),
                PeerTimestamp::from_nanos(arrival),
            );
            assert!(delays >= TimeDelta::ZERO);
        }
    }
}
