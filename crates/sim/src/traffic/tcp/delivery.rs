//! Delivery-rate samples (draft-ietf-ccwg-bbr-03 §4.1).

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    control::RateSample,
    history::{Stamp, Transmitted},
};

/// The state of a connection for delivery-rate samples.
///
/// | here | draft §4.1.2.1 |
/// |---|---|
/// | `delivered_at` | `C.delivered_time` |
/// | `first_sent` | `C.first_send_time` |
/// | `limited_until` | `C.app_limited` |
/// | `lost` | `C.lost` |
#[derive(Debug, Default)]
pub(super) struct Delivery {
    delivered_at: Timestamp,
    first_sent: Timestamp,
    limited_until: u64,
    pub(super) lost: u64,
}

impl Delivery {
    /// The state to store with a transmission of `bytes` (§4.1.2.2). `flight` is without them.
    pub(super) fn stamp(&mut self, now: Timestamp, delivered: u64, flight: u64, bytes: u64) -> Stamp {
        if flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            flight: flight + bytes,
            app_limited: self.limited_until > 0,
        }
    }

    /// Processes an acknowledgement (§4.1.2.3). `total` bytes are delivered in all, `new` by this one; `flight` bytes are
    /// left, and `is_limited` if there is nothing to send.
    pub(super) fn on_ack(
        &mut self,
        now: Timestamp,
        newest: Option<Transmitted>,
        (total, new): (u64, u64),
        (flight, is_limited): (u64, bool),
        min_rtt: Option<TimeDelta>,
    ) -> Option<RateSample> {
        if self.limited_until > 0 && total > self.limited_until {
            self.limited_until = 0;
        }
        if is_limited {
            self.limited_until = (total + flight).max(1);
        }
        if new > 0 {
            self.delivered_at = now;
        }
        let sent = newest?;
        let stamp = sent.stamp?;
        self.first_sent = sent.at;
        let interval =
            sent.at.saturating_since(stamp.first_sent).max(now.saturating_since(stamp.delivered_at));
        let delivered = DataSize::from_bytes(total - stamp.delivered);
        // An interval below the minimum RTT is not reliable.
        let is_reliable = interval > TimeDelta::ZERO && min_rtt.is_none_or(|min_rtt| interval >= min_rtt);
        Some(RateSample {
            delivery_rate: is_reliable.then(|| DataRate::of(delivered, interval)).flatten(),
            total_delivered: total,
            prior_delivered: stamp.delivered,
            lost: self.lost - stamp.lost,
            flight_when_sent: stamp.flight,
            app_limited: stamp.app_limited,
        })
    }
}
