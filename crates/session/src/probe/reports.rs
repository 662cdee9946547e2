//! RTCP sender reports of a stream that is sent as RTP: from them any receiver knows the time of day of each sample.

use giusto_rtp::{
    NtpTimestamp, RTP_HEADER_BYTES,
    rtcp::{Bye, Description, SenderReport, SourceDescription},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Relates RTP timestamps to a clock: at one time the timestamp has this value, and from there it counts with the clock rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaTiming {
    /// The synchronisation source.
    pub ssrc: u32,
    /// Units of the RTP timestamp per second.
    pub clock_rate_hz: u32,
    /// The time of `timestamp` on the sender's clock.
    pub at: Timestamp,
    /// The RTP timestamp at that time.
    pub timestamp: u32,
}

impl MediaTiming {
    fn timestamp_at(&self, now: Timestamp) -> u32 {
        let passed = i128::from((now - self.at).as_nanos());
        let units = passed * i128::from(self.clock_rate_hz) / 1_000_000_000;
        self.timestamp.wrapping_add(units as u32)
    }
}

/// Writes the sender reports (RFC 3550 §6.4.1) of one stream, each with a canonical name (§6.5.1).
///
/// The first follows the first datagrams; then there is one in the time that RFC 3550 §6.2 calls the reduced minimum interval,
/// 360 s divided by the rate in kbit/s, but not below a second and not above the 5 s of the same section.
#[derive(Debug, Clone)]
pub struct SenderReports {
    cname: String,
    origin_unix_ns: u64,
    interval: TimeDelta,
    next: Timestamp,
}

impl SenderReports {
    /// Reports of a sender whose clock reads zero at `origin_unix_ns`, in nanoseconds since 1 January 1970. `cname`
    /// names the sender: random text rather than the name of a host (RFC 7022 §4). Without a `rate` a report is sent each second.
    pub fn new(origin_unix_ns: u64, cname: String, rate: Option<DataRate>) -> Self {
        Self { cname, origin_unix_ns, interval: report_interval(rate), next: Timestamp::ZERO }
    }

    /// The report that is due, if one is, after `packets` datagrams with `payload`, RTP headers included.
    pub fn poll(
        &mut self,
        now: Timestamp,
        timing: MediaTiming,
        packets: u64,
        payload: DataSize,
    ) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        self.next = now + self.interval;
        Some(self.compound(now, timing, packets, payload, false))
    }

    /// The last report, with a goodbye (RFC 3550 §6.6).
    pub fn goodbye(&self, now: Timestamp, timing: MediaTiming, packets: u64, payload: DataSize) -> Vec<u8> {
        self.compound(now, timing, packets, payload, true)
    }

    fn compound(
        &self,
        now: Timestamp,
        timing: MediaTiming,
        packets: u64,
        payload: DataSize,
        last: bool,
    ) -> Vec<u8> {
        let MediaTiming { ssrc, .. } = timing;
        let headers = packets * RTP_HEADER_BYTES as u64;
        let report = SenderReport {
            ssrc,
            time: NtpTimestamp::from_unix_nanos(self.origin_unix_ns + now.as_nanos()),
            rtp_timestamp: timing.timestamp_at(now),
            packets: packets as u32,
            payload_bytes: payload.as_bytes().saturating_sub(headers) as u32,
            blocks: Vec::new(),
        };
        let name = Description { ssrc, cname: Some(self.cname.clone()) };
        let mut bytes = Vec::new();
        // None of them is too long: a report without blocks, one chunk with a short name, one source.
        let written = report
            .write(&mut bytes)
            .and_then(|()| SourceDescription { chunks: vec![name] }.write(&mut bytes))
            .and_then(|()| {
                if last { Bye { sources: vec![ssrc], ..Bye::default() }.write(&mut bytes) } else { Ok(()) }
            });
        debug_assert!(written.is_ok(), "{written:?}");
        bytes
    }
}

/// The time between two reports about a stream of this rate; see [`SenderReports`].
pub(super) fn report_interval(rate: Option<DataRate>) -> TimeDelta {
    const SHORTEST: f64 = 1.0;
    const LONGEST: f64 = 5.0;
    let interval = rate.map_or(SHORTEST, |rate| 360_000.0 / rate.as_bps().max(1) as f64);
    TimeDelta::from_seconds_f64(interval.clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use giusto_rtp::rtcp::{Packet, Packets};

    use super::*;

    const TIMING: MediaTiming = MediaTiming {
        ssrc: 7,
        clock_rate_hz: 8_000,
        at: Timestamp::from_nanos(2_000_000_000),
        timestamp: u32::MAX - 79,
    };

    fn read(bytes: &[u8]) -> Vec<Packet> {
        Packets::new(bytes).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_report_relates_the_timestamp_to_the_time_of_day() {
        let mut reports = SenderReports::new(1_700_000_000_000_000_000, "x".to_owned(), None);
        let now = TIMING.at + TimeDelta::from_millis(20);
        let packets = read(&reports.poll(now, TIMING, 3, DataSize::from_bytes(3 * 172)).unwrap());
        let [Packet::SenderReport(report), Packet::SourceDescription(names)] = &packets[..] else {
            panic!("{packets:?}")
        };
        assert_eq!(report.time.to_unix_nanos(), Some(1_700_000_002_020_000_000));
        // 160 samples after 80 units before the wrap.
        assert_eq!((report.ssrc, report.rtp_timestamp), (7, 80));
        assert_eq!((report.packets, report.payload_bytes), (3, 480));
        assert_eq!(names.chunks[0].cname.as_deref(), Some("x"));
        assert_eq!(reports.poll(now + TimeDelta::from_millis(999), TIMING, 4, DataSize::ZERO), None);
        assert!(reports.poll(now + TimeDelta::from_seconds(1), TIMING, 4, DataSize::ZERO).is_some());
        let last = read(&reports.goodbye(TIMING.at - TimeDelta::from_millis(10), TIMING, 4, DataSize::ZERO));
        let [Packet::SenderReport(report), _, Packet::Bye(bye)] = &last[..] else { panic!("{last:?}") };
        assert_eq!((report.rtp_timestamp, &bye.sources[..]), (u32::MAX - 159, &[7][..]));
    }

    #[test]
    fn the_interval_follows_the_rate_between_one_and_five_seconds() {
        for (bps, seconds) in [(64_000, 5.0), (80_000, 4.5), (180_000, 2.0), (1_000_000, 1.0), (0, 5.0)] {
            let reports = SenderReports::new(0, String::new(), Some(DataRate::from_bps(bps)));
            assert_eq!(reports.interval, TimeDelta::from_seconds_f64(seconds), "{bps}");
        }
    }
}
