//! Divides the target among the streams.

use giusto_congestion::{QueueState, StreamState};
use giusto_units::{DataRate, DataSize};

use super::{rate_range::RateRange, stream::MediaStream};

/// The weight of earlier packets decays by this factor with each packet: a memory of about 50 packets. Chosen
/// by us.
const MEMORY: f64 = 0.98;

/// Divides the target among the streams.
///
/// Streams with a fixed rate, such as audio, come first. The others divide the rest by priority; what one of
/// them cannot use goes to the others. The target includes headers but encoder rates do not, so each rate is
/// scaled by the share of payload in the stream's recent packets.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    streams: Vec<Share>,
}

#[derive(Debug, Clone)]
struct Share {
    limits: RateRange,
    priority: f64,
    paused: bool,
    /// Decaying sums of payload bytes and of all bytes.
    payload: f64,
    whole: f64,
    rate: DataRate,
}

impl Share {
    /// Payload over the whole packet. Before the first packet: that of 1200 bytes with 48 bytes of headers.
    fn payload_share(&self) -> f64 {
        if self.whole > 0.0 { self.payload / self.whole } else { 1200.0 / 1248.0 }
    }

    /// The payload rate of a rate on the wire.
    fn payload_of(&self, on_wire: f64) -> DataRate {
        DataRate::from_bps((on_wire * self.payload_share()) as u64)
    }

    /// The rate on the wire of a payload rate.
    fn on_wire(&self, rate: DataRate) -> f64 {
        rate.as_bps() as f64 / self.payload_share()
    }
}

impl Shares {
    pub(super) fn new(streams: &[MediaStream]) -> Self {
        let share = |stream: &MediaStream| Share {
            limits: stream.limits,
            priority: usable(stream.priority),
            paused: false,
            payload: 0.0,
            whole: 0.0,
            rate: stream.limits.clamp(stream.start_rate),
        };
        Self { streams: streams.iter().map(share).collect() }
    }

    /// Handles a packet of `payload` bytes, `whole` with headers.
    pub(super) fn on_packet(&mut self, stream: usize, payload: DataSize, whole: DataSize) {
        if let Some(share) = self.streams.get_mut(stream) {
            share.payload = share.payload * MEMORY + payload.as_bytes() as f64;
            share.whole = share.whole * MEMORY + whole.as_bytes() as f64;
        }
    }

    pub(super) fn set_paused(&mut self, stream: usize, paused: bool) {
        if let Some(share) = self.streams.get_mut(stream) {
            share.paused = paused;
        }
    }

    pub(super) fn set_priority(&mut self, stream: usize, priority: f64) {
        if let Some(share) = self.streams.get_mut(stream) {
            share.priority = usable(priority);
        }
    }

    /// The priority of each stream, within finite limits.
    pub(super) fn priorities(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.streams.iter().map(|share| share.priority)
    }

    /// The state of each stream with its queue, for a controller with a rate control for each.
    pub(super) fn states(
        &self,
        queues: impl Iterator<Item = QueueState>,
    ) -> impl Iterator<Item = StreamState> {
        self.streams.iter().zip(queues).map(|(share, queue)| {
            let on_wire = |rate| DataRate::from_bps(share.on_wire(rate) as u64);
            StreamState::new((on_wire(share.limits.min()), on_wire(share.limits.max())), queue)
                .with_priority(share.priority)
                .with_paused(share.paused)
        })
    }

    /// Sets the rate of each stream, headers included.
    pub(super) fn take(&mut self, rates: &[DataRate]) {
        for (share, rate) in self.streams.iter_mut().zip(rates) {
            if !share.paused {
                share.rate = share.limits.clamp(share.payload_of(rate.as_bps() as f64));
            }
        }
    }

    /// The payload rate of each stream.
    pub(super) fn rates(&self) -> impl Iterator<Item = DataRate> + '_ {
        self.streams.iter().map(|share| share.rate)
    }

    /// Divides `target`.
    pub(super) fn divide(&mut self, target: DataRate) {
        let mut left = target.as_bps() as f64;
        let mut open: Vec<&mut Share> = Vec::new();
        for share in &mut self.streams {
            if share.limits.is_fixed() {
                share.rate = share.limits.max();
                if !share.paused {
                    left -= share.on_wire(share.rate);
                }
            } else if !share.paused {
                open.push(share);
            }
        }
        // A stream whose share exceeds its maximum gets the maximum, and the rest is divided again; likewise
        // for the minimum.
        while !open.is_empty() {
            let weights: f64 = open.iter().map(|share| share.priority).sum();
            let available = left.max(0.0);
            let part = |share: &Share| available * share.priority / weights;
            let full: f64 = open
                .iter()
                .map(|share| {
                    part(share)
                        - part(share)
                            .clamp(share.on_wire(share.limits.min()), share.on_wire(share.limits.max()))
                })
                .sum();
            // If the streams above their maximum leave more than the streams below their minimum need, the
            // former are settled first.
            let settles = |share: &Share| {
                if full >= 0.0 {
                    part(share) >= share.on_wire(share.limits.max())
                } else {
                    part(share) <= share.on_wire(share.limits.min())
                }
            };
            let none = !open.iter().any(|share| settles(share));
            let mut next = Vec::new();
            for share in open {
                if none || settles(share) {
                    share.rate = share.limits.clamp(share.payload_of(part(share)));
                    left -= share.on_wire(share.rate);
                } else {
                    next.push(share);
                }
            }
            open = next;
        }
    }
}

/// A priority within limits for which sums and ratios are finite.
fn usable(priority: f64) -> f64 {
    if priority.is_finite() { priority.clamp(1e-6, 1e12) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kbps(kbps: u64) -> DataRate {
        DataRate::from_bps(kbps * 1000)
    }

    fn shares(streams: &[(u64, u64, f64)]) -> Shares {
        let share = |&(min, max, priority): &(u64, u64, f64)| Share {
            limits: RateRange::new(kbps(min), kbps(max)).unwrap(),
            priority,
            paused: false,
            payload: 1.0,
            whole: 1.0,
            rate: kbps(min),
        };
        Shares { streams: streams.iter().map(share).collect() }
    }

    fn divided(streams: &[(u64, u64, f64)], target: u64) -> Vec<u64> {
        let mut shares = shares(streams);
        shares.divide(kbps(target));
        shares.rates().map(|rate| rate.as_bps() / 1000).collect()
    }

    #[test]
    fn the_target_is_divided_by_priorities_within_limits() {
        for (streams, target, expected) in [
            // Audio comes first, and video gets the rest.
            (&[(20, 20, 1.0), (150, 1500, 1.0)][..], 1000, &[20, 980][..]),
            (&[(20, 20, 1.0), (150, 1500, 1.0)], 10, &[20, 150]),
            (&[(150, 3000, 2.0), (150, 3000, 1.0), (150, 3000, 1.0)], 2000, &[1000, 500, 500]),
            (&[(150, 600, 2.0), (150, 3000, 1.0), (150, 3000, 1.0)], 2000, &[600, 700, 700]),
            (&[(150, 600, 1.0), (150, 600, 1.0)], 5000, &[600, 600]),
            // A stream gets its minimum from the others.
            (&[(500, 3000, 1.0), (100, 3000, 4.0)], 1000, &[500, 500]),
        ] {
            assert_eq!(divided(streams, target), expected, "{streams:?}");
        }
    }

    #[test]
    fn priorities_change_the_shares() {
        let mut shares = shares(&[(150, 3000, 1.0), (150, 3000, 1.0)]);
        let mut divide = |change: &dyn Fn(&mut Shares)| {
            change(&mut shares);
            shares.divide(kbps(2000));
            shares.rates().map(|rate| rate.as_bps() / 1000).collect::<Vec<_>>()
        };
        assert_eq!(divide(&|_| ()), [1000, 1000]);
        assert_eq!(divide(&|shares| shares.set_priority(1, 3.0)), [500, 1500]);
        assert_eq!(divide(&|shares| shares.set_priority(7, 3.0)), [500, 1500], "there is no such stream");
        assert_eq!(divide(&|shares| shares.set_priority(0, f64::NAN)), [500, 1500], "as priority 1");
        assert_eq!(divide(&|shares| shares.set_paused(0, true))[1], 2000);
    }

    #[test]
    fn headers_are_subtracted() {
        let mut shares = shares(&[(150, 3000, 1.0)]);
        shares.on_packet(0, DataSize::from_bytes(999_999), DataSize::from_bytes(1_249_999));
        shares.divide(kbps(1000));
        let rate = shares.rates().next().unwrap().as_bps();
        assert!((799_900..=800_100).contains(&rate), "{rate}");
    }
}
