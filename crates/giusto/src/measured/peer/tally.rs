//! The datagrams of iperf3, counted by giusto's meter.

use giusto_measure::StreamSummary;
use giusto_net::{Clock, TrafficClass, emulate::Observed};
use giusto_session::iperf3::{Incoming, IncomingConfig};
use giusto_units::DataSize;

use super::PeerRun;
use crate::measured::result::LiveFigures;

/// Counts the datagrams of one stream.
#[derive(Debug)]
pub(super) struct Tally {
    stream: Incoming,
    size: DataSize,
    /// Datagrams that the relay's socket has dropped before those that came.
    kernel_dropped: u64,
}

impl Tally {
    /// For one run; times are those of `clock`.
    pub(super) fn new(run: &PeerRun, clock: Clock) -> Self {
        let stream = Incoming::new(IncomingConfig {
            rate: run.rate,
            size: run.size,
            wide_counters: false,
            origin_monotonic_ns: clock.origin_monotonic_nanos(),
        });
        Self { stream, size: run.size, kernel_dropped: 0 }
    }

    /// Counts a datagram. Greetings, and anything else of another size, are ignored.
    pub(super) fn on_datagram(&mut self, datagram: &Observed<'_>) {
        self.kernel_dropped += u64::from(datagram.kernel_dropped);
        if datagram.size() == self.size {
            self.stream.on_kernel_dropped(self.kernel_dropped);
            let class = datagram.traffic_class.map(TrafficClass::byte);
            self.stream.on_datagram(datagram.at, datagram.bytes, class);
        }
    }

    /// The figures, now that nothing more comes. `sent` is what the client says it sent, and `kernel_dropped` what the relay's socket
    /// has dropped in all.
    pub(super) fn finish(&mut self, sent: Option<u64>, kernel_dropped: u64) -> StreamSummary {
        self.stream.on_kernel_dropped(kernel_dropped);
        self.stream.finish(sent.unwrap_or(self.stream.highest())).summary()
    }

    /// The figures so far.
    pub(super) fn live(&self) -> LiveFigures {
        let meter = self.stream.meter();
        LiveFigures {
            streams: 1,
            received_packets: meter.map_or(0, |meter| meter.sequence().received()),
            rate_bps: meter.and_then(|meter| meter.rate().rate()).unwrap_or(0.0),
            ..LiveFigures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use giusto_measure::DelayBasis;
    use giusto_units::{DataRate, NANOS_PER_SECOND, TimeDelta, Timestamp};

    use super::*;

    /// 200 B at 1 Mbit/s: 1.6 ms.
    const RUN: PeerRun = PeerRun {
        rate: Some(DataRate::from_bps(1_000_000)),
        size: DataSize::from_bytes(200),
        duration: TimeDelta::from_seconds(1),
    };

    fn datagram(sent_nanos: u64, sequence: u32) -> Vec<u8> {
        let seconds = (sent_nanos / NANOS_PER_SECOND) as u32;
        let micros = (sent_nanos % NANOS_PER_SECOND / 1_000) as u32;
        let mut bytes = [seconds, micros, sequence].map(u32::to_be_bytes).concat();
        bytes.resize(200, 0xaa);
        bytes
    }

    fn observed(bytes: &[u8], at: u64) -> Observed<'_> {
        Observed {
            at: Timestamp::from_nanos(at),
            stamped: true,
            bytes,
            from: SocketAddr::from(([127, 0, 0, 1], 9)),
            traffic_class: None,
            kernel_dropped: 0,
        }
    }

    #[test]
    fn a_stream_is_measured_without_its_greeting() {
        let clock = Clock::start();
        let origin = clock.origin_monotonic_nanos();
        let mut tally = Tally::new(&RUN, clock);
        tally.on_datagram(&observed(b"6789", 500));
        for n in 0..100_u32 {
            // Every second datagram is 100 µs late; number 51 never arrives.
            let at = 1_000_000 + u64::from(n) * 1_600_000;
            let late = if n % 2 == 1 { 100_000 } else { 0 };
            if n != 50 {
                tally.on_datagram(&observed(&datagram(origin + at, n + 1), at + late));
            }
        }
        // The last two are lost in the relay's socket, with 3 datagrams of others.
        let summary = tally.finish(Some(102), 5);
        assert_eq!((summary.received_packets, summary.lost_packets), (99, 3));
        assert_eq!((summary.kernel_dropped_packets, summary.implausible_packets), (2, 0));
        let gaps = summary.gap_error.unwrap();
        assert!((99.0..101.0).contains(&gaps.p50.as_micros()), "{gaps:?}");
        let delay = summary.delay.unwrap();
        assert_eq!(delay.basis, DelayBasis::SameClock);
        assert!(delay.max < TimeDelta::from_micros(102), "{delay:?}");
    }

    #[test]
    fn timestamps_of_another_clock_give_relative_delays() {
        let mut tally = Tally::new(&RUN, Clock::start());
        for n in 0..10 {
            let at = u64::from(n) * 1_600_000;
            tally.on_datagram(&observed(&datagram(1_700_000_000 * NANOS_PER_SECOND + at, n + 1), at));
        }
        let summary = tally.finish(None, 0);
        assert_eq!((summary.received_packets, summary.lost_packets), (10, 0));
        assert_eq!(summary.delay.map(|delay| delay.basis), Some(DelayBasis::Relative));
        let mut empty = Tally::new(&RUN, Clock::start());
        assert_eq!(empty.live(), LiveFigures { streams: 1, ..LiveFigures::default() });
        assert_eq!(empty.finish(None, 0).received_packets, 0);
    }
}
