//! The clock of an RTP stream at its receiver.

use giusto_rtp::{SequenceUnwrapper, rtcp::SenderReport};
use giusto_units::{PeerTimestamp, TimeDelta};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Unwraps RTP's 16-bit and 32-bit numbers, and keeps the latest sender report.
#[derive(Debug)]
pub(super) struct MediaClock {
    rate_hz: u32,
    sequence: SequenceUnwrapper,
    timestamp: SequenceUnwrapper,
    report: Option<ReportedTime>,
}

/// A media time, and the time of day that the sender gives for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReportedTime {
    pub(super) media: PeerTimestamp,
    /// Nanoseconds since 1 January 1970.
    pub(super) unix_ns: u64,
}

impl MediaClock {
    /// The clock of a stream whose timestamp counts `rate_hz` units a second.
    pub(super) fn new(rate_hz: u32) -> Self {
        Self {
            rate_hz: rate_hz.max(1),
            sequence: SequenceUnwrapper::new(),
            timestamp: SequenceUnwrapper::new(),
            report: None,
        }
    }

    /// Unwrapped sequence number and media time; `None` where it was sent before the first datagram that arrived.
    pub(super) fn unwrap(&mut self, sequence: u16, timestamp: u32) -> Option<(u64, PeerTimestamp)> {
        let sequence = self.sequence.unwrap_u16(sequence);
        let units = self.timestamp.unwrap_u32(timestamp);
        Some((sequence?, self.media_time(units?)))
    }

    /// Keeps a report, unless its sender has no time of day or it lies before the first datagram.
    pub(super) fn on_report(&mut self, report: &SenderReport) {
        // A copy: a damaged report must not move the clock.
        let units = { self.timestamp }.unwrap_u32(report.rtp_timestamp);
        if let (Some(units), Some(unix_ns)) = (units, report.time.to_unix_nanos()) {
            self.report = Some(ReportedTime { media: self.media_time(units), unix_ns });
        }
    }

    /// The latest report.
    pub(super) fn reported(&self) -> Option<ReportedTime> {
        self.report
    }

    /// The duration of one unit, rounded up: the resolution of media times.
    pub(super) fn unit(&self) -> TimeDelta {
        TimeDelta::from_nanos(1_000_000_000_i64.div_euclid(i64::from(self.rate_hz)) + 1)
    }

    fn media_time(&self, units: u64) -> PeerTimestamp {
        let nanos = u128::from(units) * NANOS_PER_SECOND / u128::from(self.rate_hz);
        PeerTimestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use giusto_rtp::NtpTimestamp;

    use super::*;

    #[test]
    fn unwrapping_a_report_leaves_the_datagrams_counter() {
        let mut clock = MediaClock::new(8_000);
        let last = clock.media_time(u64::from(u32::MAX) - 159);
        assert_eq!(clock.unwrap(65_535, u32::MAX - 159), Some((65_535, last)));
        let mut report = SenderReport { rtp_timestamp: 0, ..SenderReport::default() };
        clock.on_report(&report);
        assert_eq!(clock.reported(), None, "a clock that counts from its start is no time of day");
        report.time = NtpTimestamp::from_unix_nanos(5_000_000_000);
        clock.on_report(&report);
        let media = clock.media_time(1 << 32);
        assert_eq!(clock.reported(), Some(ReportedTime { media, unix_ns: 5_000_000_000 }));
        report.rtp_timestamp = u32::MAX / 2;
        clock.on_report(&report);
        assert_eq!(clock.unwrap(0, 0), Some((65_536, media)));
        assert_eq!(clock.unit(), TimeDelta::from_micros(125) + TimeDelta::from_nanos(1));
    }
}
