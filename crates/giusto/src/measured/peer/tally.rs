//! The datagrams of iperf3, counted by giusto's meter.

use std::ops::Range;

use giusto_measure::{Arrival, ClockRelation, MeterConfig, SequenceConfig, StreamMeter, StreamSummary};
use giusto_net::{Clock, TrafficClass, emulate::Observed};
use giusto_rtp::SequenceUnwrapper;
use giusto_session::iperf3::{DataHeader, HEADER_BYTES};
use giusto_units::{DataSize, PeerTimestamp};

use super::PeerRun;
use crate::measured::result::LiveFigures;

/// Ages of a sender's timestamp in nanoseconds that are plausible if it reads our clock; below 0 is the noise of two readings.
const PLAUSIBLE_AGE: Range<i64> = -10_000..1_000_000_000;

/// The shortest datagram of a stream. Shorter ones, such as the 4 bytes with which the client introduces itself, are not part of the
/// stream.
pub(super) const SHORTEST: DataSize = DataSize::from_bytes(HEADER_BYTES as u64);

/// Gives each of iperf3's datagrams to a meter.
#[derive(Debug)]
pub(super) struct Tally {
    clock: Clock,
    config: MeterConfig,
    size: DataSize,
    unwrapper: SequenceUnwrapper,
    /// Created by the first datagram, which shows whether its timestamps are of our clock.
    meter: Option<StreamMeter>,
    /// The time 0 of our clock on the sender's, in nanoseconds; 0 where they are not the same.
    origin: u64,
    /// Datagrams that the relay's socket has dropped so far.
    kernel_dropped: u64,
    /// Of these: since the last datagram of the stream.
    droppable: u64,
}

impl Tally {
    pub(super) fn new(run: &PeerRun, clock: Clock) -> Self {
        let config = MeterConfig::default()
            .with_rate(run.rate.map(|rate| rate.as_bps() as f64))
            .with_size(run.size)
            .with_sequence(SequenceConfig::default().with_first(1));
        let unwrapper = SequenceUnwrapper::new();
        Self {
            clock,
            config,
            size: run.size,
            unwrapper,
            meter: None,
            origin: 0,
            kernel_dropped: 0,
            droppable: 0,
        }
    }

    pub(super) fn on_datagram(&mut self, datagram: &Observed<'_>) {
        self.kernel_dropped += u64::from(datagram.kernel_dropped);
        self.droppable += u64::from(datagram.kernel_dropped);
        let header = DataHeader::parse(datagram.bytes, false).filter(|_| datagram.size() == self.size);
        let Some(DataHeader { sent_ns: sent_nanos, sequence }) = header else { return };
        let Some(sequence) = self.unwrapper.unwrap_u32(sequence as u32) else { return };
        if self.meter.is_none() {
            let origin = self.clock.origin_monotonic_nanos();
            let age = origin.saturating_add(datagram.at.as_nanos()).cast_signed() - sent_nanos.cast_signed();
            if PLAUSIBLE_AGE.contains(&age) {
                (self.config.clocks, self.origin) = (ClockRelation::Same, origin);
            }
        }
        let meter = self.meter.get_or_insert_with(|| StreamMeter::new(&self.config));
        meter.on_kernel_drops(std::mem::take(&mut self.droppable));
        let arrival = Arrival::new(datagram.at, sequence, datagram.size())
            .with_sent(PeerTimestamp::from_nanos(sent_nanos.saturating_sub(self.origin)))
            .with_tos(datagram.traffic_class.map(TrafficClass::byte));
        meter.on_arrival(&arrival);
    }

    /// The summary at the end; `sent` is the peer's own count, `kernel_dropped` that of the relay's socket.
    pub(super) fn finish(&mut self, sent: Option<u64>, kernel_dropped: u64) -> StreamSummary {
        let meter = self.meter.get_or_insert_with(|| StreamMeter::new(&self.config));
        meter.on_kernel_drops(self.droppable + kernel_dropped.saturating_sub(self.kernel_dropped));
        if let Some(sent) = sent {
            meter.finish(sent);
        }
        meter.summary()
    }

    /// The figures of the stream so far.
    pub(super) fn live(&self) -> LiveFigures {
        let meter = self.meter.as_ref();
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
    }

    #[test]
    fn a_tally_without_datagrams_is_empty() {
        let mut tally = Tally::new(&RUN, Clock::start());
        assert_eq!(tally.live(), LiveFigures { streams: 1, ..LiveFigures::default() });
        assert_eq!(tally.finish(None, 0).received_packets, 0);
    }
}
