//! The state of the path: what the estimators say, for the laws.

use giusto_units::{TimeDelta, Timestamp};

use super::{frames::TrainRate, loss_ratio::LossRatio};

/// The path at one feedback.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Path {
    pub(super) now: Timestamp,
    /// Time since the feedback before.
    pub(super) step: TimeDelta,
    /// Standing queue, and the same less what has been in flight too short a time to count. `None` while too few packets arrive.
    pub(super) queue: Option<TimeDelta>,
    pub(super) queue_ahead: TimeDelta,
    /// Above the first there is congestion; below the second there is none.
    pub(super) high: TimeDelta,
    pub(super) low: TimeDelta,
    /// Delivery rate over 0.12 s and 0.6 s, in bit/s. Both at least 1.
    pub(super) delivered: f64,
    pub(super) delivered_long: f64,
    pub(super) train: Option<TrainRate>,
    /// Time that a packet takes at the bottleneck.
    pub(super) packet_time: TimeDelta,
    /// Mean size of a packet, in bits.
    pub(super) packet_size: f64,
    pub(super) rtt: TimeDelta,
    pub(super) base_rtt: TimeDelta,
    pub(super) loss: LossRatio,
    /// Whether a loss was reported just now.
    pub(super) is_lost_now: bool,
    /// Whether the packet before the latest loss of this feedback had waited for longer than `high`.
    pub(super) has_waited: bool,
    /// Bits that arrived with this feedback, or passed the bottleneck and were lost at random.
    pub(super) arrived: f64,
    /// Size of the sender's queue, in bits.
    pub(super) waiting: f64,
}

impl Path {
    /// The standing queue; zero while it is unknown.
    pub(super) fn queue(&self) -> TimeDelta {
        self.queue.unwrap_or_default()
    }

    /// Whether a queue stands, below the limit of congestion too.
    pub(super) fn stands(&self) -> bool {
        self.queue() > STANDS + self.packet_time.min(TimeDelta::from_millis(100)) / 2
    }

    /// Whether there is congestion by delay.
    pub(super) fn is_congested(&self) -> bool {
        self.queue.is_some_and(|queue| queue > self.high)
    }

    /// Time until a change of the rate is seen: the round trip, and 150 ms for the encoder, the window of the queue and the interval of
    /// feedback. Chosen by us; RFC 8593 has encoders that react within 200 ms by default.
    pub(super) fn reaction(&self) -> TimeDelta {
        self.base_rtt + REACTION
    }
}

/// Four steps of the timestamps of RFC 8888.
const STANDS: TimeDelta = TimeDelta::from_millis(4);
/// See [`Path::reaction`].
pub(super) const REACTION: TimeDelta = TimeDelta::from_millis(150);

#[cfg(test)]
impl Path {
    /// An empty path of 1 Mbit/s and 50 ms, with a feedback each 50 ms.
    pub(super) fn example() -> Self {
        let ms = TimeDelta::from_millis;
        Self {
            now: Timestamp::ZERO + ms(1000),
            step: ms(50),
            queue: Some(TimeDelta::ZERO),
            high: ms(10),
            low: ms(4),
            delivered: 1e6,
            delivered_long: 1e6,
            packet_time: ms(10),
            packet_size: 1e4,
            rtt: ms(50),
            base_rtt: ms(50),
            loss: LossRatio { ratio: 0.0, packets: 100.0, burst: 1.0, clean: 100.0 },
            ..Self::default()
        }
    }
}
