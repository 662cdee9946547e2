//! Delivery rate: what arrives. While a queue stands, it is the capacity that the path has for us.

use giusto_units::{DataRate, DataSize, TimeDelta};

use super::arrivals::Arrivals;

/// Rate of the packets that arrived in the latest `window`: the size of all but the first, over the time from the first to the last.
/// If they cover less than a third of the window, the size of all of them over the window.
pub(super) fn delivery_rate(arrivals: &Arrivals, window: TimeDelta) -> DataRate {
    let (mut after_first, mut all, mut span) = (DataSize::ZERO, DataSize::ZERO, TimeDelta::ZERO);
    let newest = arrivals.newest();
    for bin in arrivals.newest_first() {
        let Some(age) = newest.map(|newest| newest - bin.first) else { break };
        if age > window {
            break;
        }
        let (size, rest) = bin.sizes();
        (after_first, all, span) = (all + rest, all + size, age);
    }
    let is_covered = span * 3 > window && span > TimeDelta::ZERO;
    let (size, time) = if is_covered { (after_first, span) } else { (all, window) };
    DataRate::of(size, time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use giusto_units::PeerTimestamp;

    use super::*;

    const WINDOW: TimeDelta = TimeDelta::from_millis(200);

    fn arrivals(every_us: u64, packets: u64) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for packet in 0..packets {
            let at = PeerTimestamp::from_nanos(1_000_000_000 + packet * every_us * 1000);
            arrivals.push(at, DataSize::from_bytes(1250));
        }
        arrivals
    }

    #[test]
    fn a_busy_link_is_measured_exactly() {
        // 10 000 bits each 5 ms are 2 Mbit/s, whatever the place of the window in them.
        for packets in [60, 61, 62, 63] {
            assert_eq!(delivery_rate(&arrivals(5000, packets), WINDOW), DataRate::from_bps(2_000_000));
        }
        let fast = delivery_rate(&arrivals(330, 900), WINDOW).as_bps() as f64;
        assert!((fast / 30.303e6 - 1.0).abs() < 1e-3, "{fast}");
    }

    #[test]
    fn a_burst_alone_counts_over_the_window() {
        // Ten packets within 9 ms are 100 000 bits in 200 ms, not 10 Mbit/s.
        assert_eq!(delivery_rate(&arrivals(1000, 10), WINDOW), DataRate::from_bps(500_000));
        assert_eq!(delivery_rate(&Arrivals::default(), WINDOW), DataRate::ZERO);
    }
}
