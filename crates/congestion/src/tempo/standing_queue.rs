//! Standing queue: what waits in the network although a whole window has passed.

use giusto_units::TimeDelta;

use super::arrivals::Arrivals;

/// Window of the minimum. Three frames at 30 per second: within a frame packets wait for each other, and at least one packet of three
/// frames finds the queue as earlier frames left it.
const WINDOW: TimeDelta = TimeDelta::from_millis(100);
/// The window is longer after a gap without arrivals, such as a stall of a radio link: what comes at once after it has waited for the
/// link, not in a queue. At most this, so that a queue that stays is seen.
const MAX_WINDOW: TimeDelta = TimeDelta::from_millis(450);
/// With fewer packets in the window, older ones up to [`MAX_AGE`] are taken.
const MIN_PACKETS: u32 = 4;
const MAX_AGE: TimeDelta = TimeDelta::from_millis(400);

/// Queueing delay of the latest window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StandingQueue {
    /// Lowest queueing delay: what stands.
    pub(super) delay: TimeDelta,
    /// Highest above lowest: what comes and goes.
    pub(super) spread: TimeDelta,
    /// Packets it was taken from.
    pub(super) packets: u32,
}

impl StandingQueue {
    /// The queue above a base delay. `None` without any arrival.
    pub(super) fn of(arrivals: &Arrivals, base: TimeDelta) -> Option<Self> {
        let mut window = WINDOW;
        let (mut packets, mut min, mut max) = (0_u32, TimeDelta::MAX, -TimeDelta::MAX);
        let mut later = None;
        for (age, bin) in arrivals.newest_first() {
            if let Some(later) = later {
                window = window.max(WINDOW + (later - bin.last)).min(MAX_WINDOW);
            }
            later = Some(bin.first);
            if age > window && (packets >= MIN_PACKETS || age > MAX_AGE) {
                break;
            }
            packets = packets.saturating_add(bin.packets);
            min = min.min(bin.min_delay);
            max = max.max(bin.max_delay);
        }
        (packets > 0).then(|| Self { delay: (min - base).max(TimeDelta::ZERO), spread: max - min, packets })
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataSize, PeerTimestamp};

    use super::*;

    /// Pushes packets of (arrival, delay) in ms and returns the queue above 20 ms.
    fn queue(packets: impl IntoIterator<Item = (u64, i64)>) -> StandingQueue {
        let mut arrivals = Arrivals::default();
        for (at, delay) in packets {
            let at = PeerTimestamp::from_nanos(at * 1_000_000);
            arrivals.push(at, TimeDelta::from_millis(delay), DataSize::from_bytes(1000));
        }
        StandingQueue::of(&arrivals, TimeDelta::from_millis(20)).unwrap()
    }

    #[test]
    fn a_frame_that_waits_for_itself_is_no_standing_queue() {
        // Frames of four packets, whose last waits 18 ms; then the same on a queue of 15 ms.
        let frames = |low: i64| {
            (0..30_u64).flat_map(move |frame| {
                (0..4).map(move |packet| (1000 + frame * 33 + packet * 6, 20 + low + packet as i64 * 6))
            })
        };
        let empty = queue(frames(0));
        assert_eq!((empty.delay, empty.spread), (TimeDelta::ZERO, TimeDelta::from_millis(18)));
        assert_eq!(queue(frames(15)).delay, TimeDelta::from_millis(15));
    }

    #[test]
    fn the_burst_after_a_stall_is_no_standing_queue() {
        // A packet each 10 ms; those of 200 ms arrive together, then 60 ms as before, still behind one another.
        let before = (0..50).map(|n| (1000 + n * 10, 20));
        let burst = (0..20_u64).map(|n| (1700, 220 - n as i64 * 10));
        assert_eq!(queue(before.clone().chain(burst.clone())).delay, TimeDelta::ZERO);
        // Without the gap the same delays are a queue.
        assert_eq!(queue((0..20).map(|n| (1700 + n * 10, 60))).delay, TimeDelta::from_millis(40));
        // A queue that stays is seen when the gap is out of the window.
        let after = (0..60).map(|n| (1710 + n * 10, 70));
        assert_eq!(queue(before.chain(burst).chain(after)).delay, TimeDelta::from_millis(50));
    }

    #[test]
    fn few_packets_make_the_window_longer() {
        // One packet each 90 ms: four packets, not two.
        let packets = [(1000, 20), (1090, 50), (1180, 50), (1270, 50)];
        assert_eq!(queue(packets).packets, 4);
        assert_eq!(queue(packets).delay, TimeDelta::ZERO);
    }
}
