//! Common parts of algorithms made for acknowledgements, for reports of several packets that come at intervals.

use giusto_units::{DataRate, PeerTimestamp, TimeDelta, Timestamp};

use crate::{
    extremes::{WindowedMaximum, WindowedMinimum},
    feedback::PacketReport,
};

/// Bounds of a packet in bytes: the smallest so that the laws stay finite, the largest is that of Ethernet.
pub(crate) const PACKET_BOUNDS: (f64, f64) = (40.0, 1500.0);
/// Lowest pacing rate, so that a packet leaves when the window permits it: 50 kbit/s, as in RFC 8298 §4.1.1.1.
pub(crate) const MIN_PACING: DataRate = DataRate::from_bps(50_000);

/// The longest interval between reports of a recent time.
#[derive(Debug, Clone)]
pub(crate) struct ReportIntervals {
    /// Longest interval that counts; taken for the interval until there are two reports.
    max: TimeDelta,
    /// How long an interval counts.
    memory: TimeDelta,
    intervals: WindowedMaximum,
    latest: Option<Timestamp>,
}

impl ReportIntervals {
    pub(crate) fn new(max: TimeDelta, memory: TimeDelta) -> Self {
        Self { max, memory, intervals: WindowedMaximum::default(), latest: None }
    }

    /// Handles a report.
    pub(crate) fn on_report(&mut self, now: Timestamp) {
        if let Some(latest) = self.latest {
            let interval = now.saturating_since(latest).min(self.max);
            self.intervals.on_sample(now, interval, self.memory);
        }
        self.latest = Some(now);
    }

    /// The longest interval.
    pub(crate) fn longest(&self) -> TimeDelta {
        self.intervals.get().unwrap_or(self.max)
    }

    /// Whether there was a report.
    pub(crate) fn has_begun(&self) -> bool {
        self.latest.is_some()
    }
}

/// When each packet would have been acknowledged alone.
///
/// Keeps the way back: the minimum of the times from the latest arrival of a report to the report here.
///
/// The two clocks have an unknown offset. The one-way delays of packets contain it too, with the opposite sign, so that the sum of both is
/// an RTT, to which neither the interval of reports nor a queue on the way back adds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledgements {
    way_back: WindowedMinimum,
    latest: Timestamp,
}

impl Acknowledgements {
    /// Handles a report before its packets. The way back is the minimum of this `window`. Returns whether any packet has arrived.
    pub(crate) fn on_report(&mut self, now: Timestamp, window: TimeDelta, packets: &[PacketReport]) -> bool {
        let Some(last) = packets.iter().filter_map(|packet| packet.arrival).max() else { return false };
        self.way_back.on_sample(now, last.apparent_delay(now), window);
        true
    }

    /// Time at which the acknowledgement of a packet of the report at `now` would have come, not before that of an earlier call.
    pub(crate) fn time(&mut self, now: Timestamp, arrival: PeerTimestamp) -> Timestamp {
        let acked = Timestamp::from_nanos(arrival.as_nanos()) + self.way_back();
        self.latest = acked.min(now).max(self.latest);
        self.latest
    }

    /// The latest result of [`time`](Self::time).
    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }

    /// The way back, less the offset of the receiver's clock. Zero before the first report.
    pub(crate) fn way_back(&self) -> TimeDelta {
        self.way_back.get().unwrap_or_default()
    }
}
