//! Heavy losses, which limit the window: ours, since the paper lets losses matter in competitive mode alone.

use giusto_units::{TimeDelta, Timestamp};

use crate::{acknowledgement::PACKET_BOUNDS, feedback::PacketReport};

/// Share of losses above which the window is limited to what arrives: 10 %, from which Google Congestion Control reduces the rate
/// (draft-ietf-rmcat-gcc-02 §6).
const HEAVY_LOSS: f64 = 0.1;

/// Losses since the latest judgement, and what the path carries if they were heavy.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    since: Option<Timestamp>,
    arrived: f64,
    bytes: f64,
    lost: f64,
    /// Highest rate of the window, in bytes per second. `None`: losses do not limit it.
    pub(super) carried: Option<f64>,
}

impl Losses {
    /// Fewest packets of which a share is judged.
    const PACKETS: f64 = 20.0;
    /// Increase of the highest rate with each judgement without heavy losses.
    const LIFT: f64 = 1.25;

    /// Handles a report, after which `lost` more packets are lost. Judges them if the latest judgement is at least `interval` ago.
    pub(super) fn on_report(
        &mut self,
        now: Timestamp,
        packets: &[PacketReport],
        lost: usize,
        interval: TimeDelta,
    ) {
        let since = *self.since.get_or_insert(now);
        for packet in packets.iter().filter(|packet| packet.arrival.is_some()) {
            self.arrived += 1.0;
            self.bytes += (packet.sent.size.as_bytes() as f64).min(PACKET_BOUNDS.1);
        }
        self.lost += lost as f64;
        let (all, time) = (self.arrived + self.lost, now.saturating_since(since));
        if all < Self::PACKETS || time < interval {
            return;
        }
        let rate = self.bytes / time.as_seconds().max(1e-3) / (1.0 - HEAVY_LOSS);
        let carried = if self.lost > HEAVY_LOSS * all {
            Some(rate)
        } else {
            self.carried.map(|carried| carried * Self::LIFT).filter(|carried| *carried < 2.0 * rate)
        };
        *self = Self { since: Some(now), carried, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms, report};

    #[test]
    fn more_than_a_tenth_of_losses_limits_to_what_arrives() {
        // 20 packets of 1200 bytes a second, of which some are lost.
        let mut losses = Losses::default();
        let mut second = |number: u64, lost: usize| {
            let packets: Vec<_> =
                (0..20 - lost as u64).map(|place| report(number * 20 + place, 0, Some(1))).collect();
            losses.on_report(at(number * 1000), &packets, lost, ms(1000));
            losses.carried
        };
        // The first second only begins.
        assert_eq!((second(0, 0), second(1, 0), second(2, 1), second(3, 2)), (None, None, None, None));
        assert_eq!(second(4, 3), Some(17.0 * 1200.0 / 0.9));
        // Lifted by a quarter each, until it is of no use.
        assert_eq!(second(5, 0), Some(17.0 * 1200.0 / 0.9 * 1.25));
        let last = (6..12).map(|number| second(number, 0)).last();
        assert_eq!(last, Some(None));
    }
}
