//! Statistics of flows and links in the windows of expectations.

use std::collections::BTreeMap;

use giusto_measure::ErrorHistogram;
use giusto_units::TimeDelta;

use super::types::{Cdf, Distribution};
use crate::trace::RepairEvent;

/// The statistics of a [`Measurement`](super::Measurement), by the definitions of the record.
#[derive(Debug, Clone)]
pub enum Figures {
    /// Statistics of flows; without distributions if they were not requested.
    Flows {
        /// Each flow.
        flows: Vec<FlowFigures>,
        /// One-way delay of the packets of all flows.
        delay_ms: Option<Distribution>,
        /// Queueing delay of the packets of all flows.
        queue_delay_ms: Option<Distribution>,
        /// Frame delay of all flows.
        frame_delay_ms: Option<Distribution>,
    },
    /// Statistics of a link.
    Link(LinkFigures),
}

/// Statistics of a flow.
#[derive(Debug, Clone, Default)]
pub struct FlowFigures {
    /// Length of the window, up to the end of the run.
    pub seconds: f64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Unique packets received.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent in the window and delivered by the end of the run.
    pub arrived_packets: u64,
    /// Packets sent in the window and lost by the end of the run.
    pub lost_packets: u64,
    /// Further copies that were delivered, of packets sent in the window.
    pub duplicate_packets: u64,
    /// Packets received with a CE mark.
    pub marked_packets: u64,
    /// Payload delivered to the application.
    pub goodput_bytes: u64,
    /// Received bytes of each [`STEP`](Self::STEP) of the window, if they were requested.
    pub step_bytes: Vec<u64>,
    /// Media: mean of the target rate over time.
    pub target_rate_bps: Option<f64>,
    /// Media: number of changes of the target.
    pub decisions: Option<u64>,
    /// Media: frames that became complete.
    pub frames: Option<u64>,
    /// Media: each known stream, by its SSRC.
    pub streams: BTreeMap<u32, StreamFigures>,
}

/// Statistics of a stream.
#[derive(Debug, Clone, Default)]
pub struct StreamFigures {
    /// Frames that became complete.
    pub frames: u64,
    /// Their bytes, without headers.
    pub bytes: u64,
    /// Their delays.
    pub frame_delay: ErrorHistogram,
    /// Frames that were not encoded.
    pub skipped_frames: u64,
    /// Packets that were discarded.
    pub discarded_packets: u64,
    /// Frames that became complete after their playout deadline.
    pub late_frames: u64,
    /// Repair of lost packets.
    pub repair: RepairFigures,
}

/// Repair of the lost packets of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepairFigures {
    /// Complete frames with at least one repaired packet.
    pub repaired_frames: u64,
    /// Requests for packets, each time counted.
    pub requested_packets: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Packets of parity sent.
    pub parity_packets: u64,
    /// Bytes of the repair packets, all headers included.
    pub bytes: u64,
    /// Packets recovered from parity.
    pub recovered_packets: u64,
    /// Requests for a key frame.
    pub key_frame_requests: u64,
}

impl RepairFigures {
    pub(super) fn count(&mut self, event: RepairEvent) {
        match event {
            RepairEvent::Requested(packets) => self.requested_packets += packets,
            RepairEvent::KeyFrameRequested => self.key_frame_requests += 1,
            RepairEvent::Retransmitted(size) => {
                self.retransmitted_packets += 1;
                self.bytes += size.as_bytes();
            }
            RepairEvent::Parity(size) => {
                self.parity_packets += 1;
                self.bytes += size.as_bytes();
            }
            RepairEvent::Recovered => self.recovered_packets += 1,
        }
    }
}

/// Statistics of a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkFigures {
    /// Packets that left the queue, transmitted or dropped.
    pub packets: u64,
    /// Packets dropped or lost.
    pub dropped_packets: u64,
    /// Packets marked.
    pub marked_packets: u64,
    /// Bytes transmitted divided by the capacity; `None` if unlimited.
    pub utilisation_ratio: Option<f64>,
    /// Queueing delay.
    pub queue_delay_ms: Option<Distribution>,
}

impl FlowFigures {
    /// Received bytes are counted in steps of this width, from the start of the window.
    pub const STEP: TimeDelta = TimeDelta::from_millis(500);

    /// `bytes` divided by the length of the window; NaN if that is zero.
    pub fn rate_bps(&self, bytes: u64) -> f64 {
        if self.seconds > 0.0 { bytes as f64 * 8.0 / self.seconds } else { f64::NAN }
    }
}

impl Distribution {
    /// The distribution of delays in milliseconds; `None` if there are none.
    pub fn of(delays: &ErrorHistogram) -> Option<Self> {
        let [p50, p95, p99] = delays.quantiles_at([0.5, 0.95, 0.99])?.map(TimeDelta::as_millis);
        Some(Self { mean: delays.mean()?.as_millis(), p50, p95, p99, max: delays.max()?.as_millis() })
    }
}

impl Cdf {
    /// Approximate number of points.
    const POINTS: f64 = 200.0;

    /// The cumulative distribution of delays. It ends at the maximum.
    pub fn of(delays: &ErrorHistogram) -> Self {
        let mut cdf = Self::default();
        let (mut below, mut last) = (0_u64, f64::NEG_INFINITY);
        for bucket in delays.buckets() {
            if cdf.ms.is_empty() {
                cdf.ms.push(bucket.lower.as_millis());
                cdf.ratio.push(0.0);
            }
            below += bucket.count;
            let ratio = below as f64 / delays.count() as f64;
            if ratio - last >= 1.0 / Self::POINTS || below == delays.count() {
                let upper = delays.max().map_or(bucket.upper, |max| bucket.upper.min(max));
                cdf.ms.push(upper.as_millis());
                cdf.ratio.push(ratio);
                last = ratio;
            }
        }
        cdf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_the_maximum_and_all_packets() {
        let mut delays = ErrorHistogram::new();
        (1..=10_000).for_each(|micros| delays.record(TimeDelta::from_micros(micros)));
        delays.record(TimeDelta::from_millis(700));
        let Cdf { ms, ratio } = Cdf::of(&delays);
        assert!((100..205).contains(&ms.len()) && ms.len() == ratio.len(), "{}", ms.len());
        assert!(ms.is_sorted() && ratio.is_sorted());
        assert_eq!((ms.last(), ratio.last()), (Some(&700.0), Some(&1.0)));
        let half = ratio.iter().position(|&ratio| ratio >= 0.5).unwrap();
        assert!((4.95..5.10).contains(&ms[half]), "{}", ms[half]);
        assert_eq!(Cdf::of(&ErrorHistogram::new()), Cdf::default());
        assert_eq!(Distribution::of(&ErrorHistogram::new()), None);
        assert!((Distribution::of(&delays).unwrap().mean - 5.07).abs() < 0.01);
    }
}
