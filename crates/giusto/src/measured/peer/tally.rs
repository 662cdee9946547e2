//! iperf3's datagrams, as our meter sees them.

use std::ops::Range;

use giusto_measure::{Arrival, ClockRelation, MeterConfig, SequenceConfig, StreamMeter};
use giusto_net::{Clock, TrafficClass, emulate::Observed};
use giusto_rtp::SequenceUnwrapper;
use giusto_units::{DataSize, NANOS_PER_SECOND, PeerTimestamp};

use super::PeerRun;

/// A sender's stamp that is older than this, or younger than the noise of reading a clock allows, is not from our clock.
const PLAUSIBLE_AGE: Range<i64> = -10_000..1_000_000_000;

/// How wide the sequence number in iperf3's datagrams is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CounterWidth {
    /// 32 bits: iperf3's default.
    #[default]
    Bits32,
    /// 64 bits: with iperf3's `--udp-counters-64bit`.
    Bits64,
}

/// What iperf3 writes at the beginning of each datagram, big-endian: seconds, microseconds, and a sequence number that begins
/// at 1 (`iperf_udp_send` in its `iperf_udp.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeader {
    /// When it was sent, whole seconds; on Linux since 3.7 by `CLOCK_MONOTONIC`.
    pub seconds: u32,
    /// The rest of that time, in microseconds.
    pub micros: u32,
    /// The sequence number.
    pub sequence: u64,
}

impl UdpHeader {
    /// The shortest datagram that iperf3 sends (`MIN_UDP_BLOCKSIZE` in its `iperf.h`). Shorter ones, such as the 4 bytes by
    /// which its client makes itself known, are not of the stream.
    pub const SHORTEST: DataSize = DataSize::from_bytes(16);

    /// Reads the header; `None` where the datagram is too short to be of a stream.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::peer::{CounterWidth, UdpHeader};
    ///
    /// let datagram = [0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0];
    /// let header = UdpHeader::parse(&datagram, CounterWidth::Bits32);
    /// assert_eq!(header, Some(UdpHeader { seconds: 5, micros: 9, sequence: 1 }));
    /// assert_eq!(UdpHeader::parse(b"6789", CounterWidth::Bits32), None);
    /// ```
    pub fn parse(datagram: &[u8], width: CounterWidth) -> Option<Self> {
        let (&[s0, s1, s2, s3, u0, u1, u2, u3, counter @ ..], _) = datagram.split_first_chunk::<16>()?;
        let counter = u64::from_be_bytes(counter);
        Some(Self {
            seconds: u32::from_be_bytes([s0, s1, s2, s3]),
            micros: u32::from_be_bytes([u0, u1, u2, u3]),
            sequence: match width {
                CounterWidth::Bits32 => counter >> 32,
                CounterWidth::Bits64 => counter,
            },
        })
    }

    fn sent_nanos(self) -> u64 {
        u64::from(self.seconds) * NANOS_PER_SECOND + u64::from(self.micros) * 1_000
    }
}

/// Gives each of iperf3's datagrams to a meter like those of our own streams.
#[derive(Debug)]
pub(super) struct Tally {
    clock: Clock,
    config: MeterConfig,
    size: DataSize,
    unwrapper: SequenceUnwrapper,
    /// Made with the first datagram, which tells whether its stamps are by our clock.
    meter: Option<StreamMeter>,
    /// The beginning of our clock on the sender's, in nanoseconds; 0 where they are not the same.
    origin: u64,
    /// Drops that the kernel told with datagrams.
    kernel_dropped: u64,
}

impl Tally {
    pub(super) fn new(run: &PeerRun, clock: Clock) -> Self {
        let config = MeterConfig {
            rate: run.rate.map(|rate| rate.as_bps() as f64),
            size: Some(run.size),
            sequence: SequenceConfig { first: Some(1), ..SequenceConfig::default() },
            ..MeterConfig::default()
        };
        Self {
            clock,
            config,
            size: run.size,
            unwrapper: SequenceUnwrapper::new(),
            meter: None,
            origin: 0,
            kernel_dropped: 0,
        }
    }

    pub(super) fn on_datagram(&mut self, datagram: &Observed<'_>) {
        self.kernel_dropped += u64::from(datagram.kernel_dropped);
        let header = UdpHeader::parse(datagram.bytes, CounterWidth::Bits32);
        let Some(header) = header.filter(|_| datagram.size() == self.size) else { return };
        let Some(sequence) = self.unwrapper.unwrap_u32(header.sequence as u32) else { return };

        let sent = header.sent_nanos();
        if self.meter.is_none() {
            let origin = self.clock.origin_monotonic_nanos();
            let age = origin.saturating_add(datagram.at.as_nanos()).cast_signed() - sent.cast_signed();
            let same = PLAUSIBLE_AGE.contains(&age);
            self.config.clocks = if same { ClockRelation::Same } else { ClockRelation::Unknown };
            self.origin = if same { origin } else { 0 };
        }
        let meter = self.meter.get_or_insert_with(|| StreamMeter::new(&self.config));
        meter.on_arrival(&Arrival {
            at: datagram.at,
            sequence,
            size: datagram.size(),
            scheduled: None,
            sent: Some(PeerTimestamp::from_nanos(sent.saturating_sub(self.origin))),
            tos: datagram.traffic_class.map(TrafficClass::byte),
        });
    }

    /// The meter, once the peer has said how many datagrams it sent and the relay's socket how many it dropped.
    pub(super) fn finish(self, sent: Option<u64>, kernel_dropped: u64) -> StreamMeter {
        let mut meter = self.meter.unwrap_or_else(|| StreamMeter::new(&self.config));
        let dropped = kernel_dropped.max(self.kernel_dropped);
        meter.on_kernel_drops(u32::try_from(dropped).unwrap_or(u32::MAX));
        if let Some(sent) = sent {
            meter.finish(sent);
        }
        meter
    }

    /// The stream so far, in a few words.
    pub(super) fn live(&self) -> String {
        let received = self.meter.as_ref().map_or(0, |meter| meter.sequence().received());
        let rate = self.meter.as_ref().and_then(|meter| meter.rate().rate()).unwrap_or(0.0);
        format!("{:.3} Mbit/s, {received} datagrams", rate / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use giusto_measure::DelayBasis;
    use giusto_units::{DataRate, TimeDelta, Timestamp};

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
    fn headers_of_either_width_are_read_and_short_datagrams_are_none() {
        let narrow: Vec<u8> = [7_u32, 999_999, 0x8000_0001, 0xffff_ffff].map(u32::to_be_bytes).concat();
        let header = UdpHeader { seconds: 7, micros: 999_999, sequence: 0x8000_0001 };
        assert_eq!(UdpHeader::parse(&narrow, CounterWidth::Bits32), Some(header));
        let wide = UdpHeader { sequence: 0x8000_0001_ffff_ffff, ..header };
        assert_eq!(UdpHeader::parse(&narrow, CounterWidth::Bits64), Some(wide));
        for len in 0..16 {
            assert_eq!(UdpHeader::parse(&narrow[..len], CounterWidth::Bits32), None);
        }
    }

    #[test]
    fn a_stream_is_judged_as_one_of_ours_and_the_greeting_is_not_of_it() {
        let clock = Clock::start();
        let origin = clock.origin_monotonic_nanos();
        let mut tally = Tally::new(&RUN, clock);
        tally.on_datagram(&observed(b"6789", 500));
        for n in 0..100_u32 {
            // Each second one 100 µs late; number 51 never comes.
            let at = 1_000_000 + u64::from(n) * 1_600_000;
            let late = if n % 2 == 1 { 100_000 } else { 0 };
            if n != 50 {
                tally.on_datagram(&observed(&datagram(origin + at, n + 1), at + late));
            }
        }
        let summary = tally.finish(Some(102), 5).summary();
        assert_eq!((summary.received_packets, summary.lost_packets), (99, 3));
        assert_eq!((summary.kernel_dropped_packets, summary.implausible_packets), (5, 0));
        let gaps = summary.gap_error.unwrap();
        assert!((99.0..101.0).contains(&gaps.p50.as_micros()), "{gaps:?}");
        let delay = summary.delay.unwrap();
        assert_eq!(delay.basis, DelayBasis::SameClock);
        assert!(delay.max < TimeDelta::from_micros(102), "{delay:?}");
    }

    #[test]
    fn stamps_of_another_clock_give_no_absolute_delay() {
        let mut tally = Tally::new(&RUN, Clock::start());
        for n in 0..10 {
            let at = u64::from(n) * 1_600_000;
            tally.on_datagram(&observed(&datagram(1_700_000_000 * NANOS_PER_SECOND + at, n + 1), at));
        }
        let summary = tally.finish(None, 0).summary();
        assert_eq!((summary.received_packets, summary.lost_packets), (10, 0));
        assert_eq!(summary.delay.map(|delay| delay.basis), Some(DelayBasis::Relative));
    }

    #[test]
    fn nothing_at_all_is_a_stream_of_nothing() {
        let tally = Tally::new(&RUN, Clock::start());
        assert_eq!(tally.live(), "0.000 Mbit/s, 0 datagrams");
        assert_eq!(tally.finish(None, 0).summary().received_packets, 0);
    }
}
