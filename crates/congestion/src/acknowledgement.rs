//! When each packet would have been acknowledged alone, from reports of several packets. For algorithms made for acknowledgements.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use crate::{extremes::WindowedMinimum, feedback::PacketReport};

/// The way back: the minimum of the times from the latest arrival of a report to the report here.
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
