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
    /// Minimum of the one-way delays, of the same time.
    way_there: WindowedMinimum,
    latest: Timestamp,
}

/// A one-way delay that falls by so much from one report to the next, while the way back becomes longer, may be a clock that was set back.
const SET_BACK: TimeDelta = TimeDelta::from_millis(10);

/// What a report contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// No packet has arrived.
    Nothing,
    /// Packets have arrived.
    Arrivals,
    /// Packets have arrived, and the receiver's clock was set back: earlier delays cannot be compared.
    SetBack,
}

impl Acknowledgements {
    /// Handles a report before its packets. The way back is the minimum of this `window`.
    pub(crate) fn on_report(
        &mut self,
        now: Timestamp,
        window: TimeDelta,
        packets: &[PacketReport],
    ) -> Content {
        let Some(last) = packets.iter().filter_map(|packet| packet.arrival).max() else {
            return Content::Nothing;
        };
        let delays = packets
            .iter()
            .filter_map(|packet| packet.arrival.map(|arrival| -arrival.apparent_delay(packet.sent.at)));
        let (there, back) = (delays.min().unwrap_or_default(), last.apparent_delay(now));
        // A clock that is set back shortens one way by as much as it lengthens the other. If it only seems so, the minima are found again.
        let shorter = self.way_there.get().map_or(TimeDelta::ZERO, |minimum| minimum - there);
        let is_set_back = shorter >= SET_BACK && back - self.way_back() >= shorter / 2;
        if is_set_back {
            (self.way_there, self.way_back) = Default::default();
        }
        self.way_there.on_sample(now, there, window);
        self.way_back.on_sample(now, back, window);
        if is_set_back { Content::SetBack } else { Content::Arrivals }
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
