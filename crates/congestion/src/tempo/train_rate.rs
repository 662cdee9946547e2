//! Train rate: how fast the packets of one frame arrive, which leave faster than the media rate.

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::path::bps;

/// Trains of this time are taken together: about a dozen frames.
const WINDOW: TimeDelta = TimeDelta::from_millis(400);
/// At least so many trains, and so much time of arrivals: timestamps of RFC 8888 have steps of 1 ms, so that 8 ms are within 12 %.
const MIN_TRAINS: usize = 3;
const MIN_SPAN: TimeDelta = TimeDelta::from_millis(8);
/// Packets of a train, at least: two gaps.
const MIN_PACKETS: u32 = 3;
const MAX_TRAINS: usize = 64;

/// Sending and arrival rate of the latest trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrainRate {
    pub(super) sent: DataRate,
    pub(super) arrived: DataRate,
}

impl TrainRate {
    /// Whether the path carried the train as fast as it was sent: there is room for more. 4 % are two steps of the
    /// timestamps in the trains of [`WINDOW`].
    pub(super) fn is_open(&self) -> bool {
        bps(self.arrived) > 0.96 * bps(self.sent)
    }
}

#[derive(Debug, Clone, Copy)]
struct Train {
    first_sent: Timestamp,
    last_sent: Timestamp,
    first_arrival: PeerTimestamp,
    last_arrival: PeerTimestamp,
    /// Size of the packets after the first.
    size: DataSize,
    packets: u32,
}

/// Trains: packets that left without a pause between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Trains {
    open: Option<Train>,
    /// With the time at which it ended.
    closed: VecDeque<(Timestamp, Train)>,
}

impl Trains {
    /// Handles a packet that arrived, in the order of departure. A pause longer than `pause` ends a train.
    pub(super) fn push(
        &mut self,
        now: Timestamp,
        (sent, arrival, size): (Timestamp, PeerTimestamp, DataSize),
        pause: TimeDelta,
    ) {
        if let Some(train) = &mut self.open {
            let gap = sent.saturating_since(train.last_sent);
            if gap <= pause && sent >= train.last_sent {
                train.last_sent = sent;
                train.last_arrival = train.last_arrival.max(arrival);
                train.size += size;
                train.packets = train.packets.saturating_add(1);
                return;
            }
        }
        self.close(now);
        let zero = DataSize::ZERO;
        self.open = Some(Train {
            first_sent: sent,
            last_sent: sent,
            first_arrival: arrival,
            last_arrival: arrival,
            size: zero,
            packets: 1,
        });
    }

    fn close(&mut self, now: Timestamp) {
        if let Some(train) = self.open.take().filter(|train| train.packets >= MIN_PACKETS) {
            self.closed.push_back((now, train));
        }
        while self.closed.len() > MAX_TRAINS
            || self.closed.front().is_some_and(|(at, _)| now.saturating_since(*at) > WINDOW)
        {
            self.closed.pop_front();
        }
    }

    /// The rates of the latest trains; `None` if there are too few.
    pub(super) fn rate(&self, now: Timestamp) -> Option<TrainRate> {
        let recent = self.closed.iter().filter(|(at, _)| now.saturating_since(*at) <= WINDOW);
        let (mut trains, mut size) = (0, DataSize::ZERO);
        let (mut sent, mut arrived) = (TimeDelta::ZERO, TimeDelta::ZERO);
        for (_, train) in recent {
            trains += 1;
            size += train.size;
            sent += train.last_sent.saturating_since(train.first_sent).max(TimeDelta::from_micros(10));
            arrived += (train.last_arrival - train.first_arrival).max(TimeDelta::from_micros(500));
        }
        if trains < MIN_TRAINS || arrived < MIN_SPAN {
            return None;
        }
        Some(TrainRate { sent: DataRate::of(size, sent)?, arrived: DataRate::of(size, arrived)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of five packets of 10 000 bits each 33 ms, which leave `sent_us` apart and arrive `arrived_us` apart.
    fn rate(frames: u64, packets: u64, sent_us: u64, arrived_us: u64) -> Option<TrainRate> {
        let mut trains = Trains::default();
        let mut now = Timestamp::ZERO;
        for frame in 0..frames {
            for packet in 0..packets {
                let sent = Timestamp::from_nanos((frame * 33_000 + packet * sent_us) * 1000);
                let arrival =
                    PeerTimestamp::from_nanos((frame * 33_000 + 50_000 + packet * arrived_us) * 1000);
                now = sent + TimeDelta::from_millis(60);
                trains.push(now, (sent, arrival, DataSize::from_bytes(1250)), TimeDelta::from_millis(6));
            }
        }
        trains.rate(now)
    }

    #[test]
    fn a_train_measures_the_slower_of_sender_and_path() {
        let through = rate(8, 5, 2000, 4000).unwrap();
        assert_eq!((through.sent.as_bps(), through.arrived.as_bps()), (5_000_000, 2_500_000));
        assert!(!through.is_open());
        assert!(rate(8, 5, 2000, 2050).unwrap().is_open());
        // A compressed train says no more than that there is room.
        assert!(rate(8, 5, 2000, 700).unwrap().is_open());
    }

    #[test]
    fn few_or_short_trains_say_nothing() {
        assert_eq!(rate(3, 5, 2000, 4000), None, "two are closed");
        assert_eq!(rate(8, 2, 2000, 4000), None, "one gap is no train");
        assert_eq!(rate(8, 5, 200, 200), None, "7 × 0.8 ms");
    }
}
