//! Interarrival jitter (RFC 3550).

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp, math};

/// Interarrival jitter, RFC 3550 §6.4.1, in nanoseconds instead of RTP timestamp units.
///
/// `D(i−1, i) = (R_i − R_{i−1}) − (S_i − S_{i−1})` and `J_i = J_{i−1} + (|D(i−1, i)| − J_{i−1}) / 16`, over packets in the
/// order of their arrival. As in the RFC's Appendix A.8, J begins at zero and the first packet only sets the reference. The
/// unknown offset of the two clocks cancels in D.
///
/// # Example
///
/// ```
/// use giusto_measure::InterarrivalJitter;
/// use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};
///
/// let mut jitter = InterarrivalJitter::new();
/// for (sent_ms, arrived_ms) in [(0, 1000), (20, 1020), (40, 1056)] {
///     jitter.on_packet(
///         Timestamp::from_nanos(arrived_ms * 1_000_000),
///         PeerTimestamp::from_nanos(sent_ms * 1_000_000),
///     );
/// }
/// assert_eq!(jitter.jitter(), Some(TimeDelta::from_millis(1)));   // 16 ms / 16
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct InterarrivalJitter {
    transit: Option<TimeDelta>,
    /// J, in nanoseconds; `None` before the second packet.
    jitter: Option<f64>,
}

impl InterarrivalJitter {
    /// A meter before the first packet.
    #[inline]
    pub const fn new() -> Self {
        Self { transit: None, jitter: None }
    }

    /// Handles a packet that arrived at `at` and was sent (or, with RTP, sampled) at `sent`.
    #[inline]
    pub fn on_packet(&mut self, at: Timestamp, sent: PeerTimestamp) {
        let transit = sent.apparent_delay(at);
        if let Some(previous) = self.transit.replace(transit) {
            let difference = (transit - previous).abs().as_nanos() as f64;
            let jitter = self.jitter.unwrap_or(0.0);
            self.jitter = Some(jitter + (difference - jitter) / 16.0);
        }
    }

    /// Handles `count` packets that were sent and arrived together with the previous one: each `D` is zero.
    #[inline]
    pub fn on_run(&mut self, count: u64) {
        if self.transit.is_some() {
            let decay = math::powi(15.0 / 16.0, u32::try_from(count).unwrap_or(u32::MAX));
            self.jitter = Some(self.jitter.unwrap_or(0.0) * decay);
        }
    }

    /// J, rounded to a nanosecond; `None` before the second packet.
    #[inline]
    pub fn jitter(&self) -> Option<TimeDelta> {
        self.jitter.map(|nanos| TimeDelta::from_nanos(nanos.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jitter_of(packets: impl IntoIterator<Item = (u64, u64)>) -> Option<TimeDelta> {
        let mut jitter = InterarrivalJitter::new();
        for (sent, at) in packets {
            jitter.on_packet(Timestamp::from_nanos(at), PeerTimestamp::from_nanos(sent));
        }
        jitter.jitter()
    }

    #[test]
    fn alternating_delays_converge_to_their_difference() {
        // |D| is 1 ms for every packet, so J tends to 1 ms: after n steps it is 1 − (15/16)^n of it.
        let packet = |i: u64| (i * 20_000_000, i * 20_000_000 + (i % 2) * 1_000_000);
        let after = |packets: u64| jitter_of((0..packets).map(packet)).unwrap().as_millis();
        for (packets, jitter) in [(2, 0.0625), (3, 0.121_094), (300, 1.0)] {
            assert!((after(packets) - jitter).abs() < 1e-6, "{packets}");
        }
        assert_eq!(jitter_of([(5, 900)]), None);
    }

    proptest! {
        /// The integer form of RFC 3550 A.8, in nanosecond units: `jitter += d − ((jitter + 8) >> 4)`, sampled as `>> 4`.
        #[test]
        fn it_matches_the_integer_algorithm_of_rfc_3550(
            packets in prop::collection::vec((0_u64..50_000_000, 0_u64..50_000_000), 2..200)
        ) {
            let (mut sent, mut previous, mut scaled) = (0, None, 0_i64);
            let mut stream = Vec::new();
            for (gap, delay) in packets {
                sent += gap;
                let transit = delay as i64;
                if let Some(before) = previous.replace(transit) {
                    let d: i64 = transit - before;
                    scaled += d.abs() - ((scaled + 8) >> 4);
                }
                stream.push((sent, sent + delay));
            }
            let found = jitter_of(stream).unwrap().as_nanos();
            prop_assert!((found - (scaled >> 4)).abs() <= 2, "{found} against {}", scaled >> 4);
        }

        #[test]
        fn any_timestamps_are_safe(packets: Vec<(u64, u64)>) {
            let _ = jitter_of(packets);
        }
    }
}
