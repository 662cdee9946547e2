//! Train rate: how fast the packets of one frame arrive, which leave faster than the media rate.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::bps;

/// Trains of this time are taken together: about a dozen frames.
const WINDOW: TimeDelta = TimeDelta::from_millis(400);
/// At least so many trains, and so much time of arrivals: timestamps of RFC 8888 have steps of 1 ms, so that 8 ms are within 12 %.
const MIN_TRAINS: usize = 3;
const MIN_SPAN: TimeDelta = TimeDelta::from_millis(8);
/// Packets of a train, at least: one gap. At low rates a frame has no more, and [`MIN_SPAN`] says how many such trains are needed.
const MIN_PACKETS: u32 = 2;
/// A train ends at a gap that is longer than pacing explains by this factor and this time, which covers a sender's timer; in seconds. With
/// a longer one, frames at 60 Hz that leave at little more than the media rate are taken for one train, whose rate is that of the media.
const PAUSE: f64 = 1.3;
const TIMER: f64 = 0.001;
/// No gap within a train is longer than three frames at 30 Hz, in seconds.
const MAX_PAUSE: f64 = 0.1;
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
    last_size: DataSize,
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
    /// Handles a packet that arrived, in the order of departure. `pacing`: the rate at which packets leave, in bit/s.
    pub(super) fn push(
        &mut self,
        now: Timestamp,
        sent: Timestamp,
        arrival: PeerTimestamp,
        size: DataSize,
        pacing: f64,
    ) {
        if let Some(train) = &mut self.open {
            let gap = sent.saturating_since(train.last_sent);
            // Both sides in bits, which saves a division for each packet.
            let own = train.last_size.as_bits() as f64;
            let pause = (PAUSE * own).min(MAX_PAUSE * pacing) + TIMER * pacing;
            if gap.as_nanos() as f64 * 1e-9 * pacing <= pause && sent >= train.last_sent {
                train.last_sent = sent;
                train.last_arrival = train.last_arrival.max(arrival);
                train.size += size;
                train.last_size = size;
                train.packets = train.packets.saturating_add(1);
                return;
            }
        }
        self.close(now);
        self.open = Some(Train {
            first_sent: sent,
            last_sent: sent,
            first_arrival: arrival,
            last_arrival: arrival,
            size: DataSize::ZERO,
            last_size: size,
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
                trains.push(now, sent, arrival, DataSize::from_bytes(1250), 1e10 / sent_us as f64);
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
        assert_eq!(rate(8, 1, 2000, 4000), None, "no gap is no train");
        assert_eq!(rate(8, 2, 2000, 4000), rate(8, 5, 2000, 4000), "one gap is one");
        assert_eq!(rate(8, 5, 200, 200), None, "7 × 0.8 ms");
    }

    #[test]
    fn frames_with_a_short_pause_between_them_are_trains_of_their_own() {
        // 60 Hz: four packets 3.5 ms apart, then 6.2 ms. Together they would measure 2.4 Mbit/s.
        let mut trains = Trains::default();
        let mut now = Timestamp::ZERO;
        for frame in 0..20 {
            for packet in 0..4 {
                let sent = Timestamp::from_nanos((frame * 16_700 + packet * 3500) * 1000);
                let arrival = PeerTimestamp::from_nanos(sent.as_nanos() + 30_000_000);
                now = sent + TimeDelta::from_millis(60);
                trains.push(now, sent, arrival, DataSize::from_bytes(1250), 1e4 / 0.0035);
            }
        }
        let sent = trains.rate(now).unwrap().sent.as_bps();
        assert!((2_850_000..=2_860_000).contains(&sent), "{sent}");
    }
}
