//! Measures the datagrams of one stream.

use giusto_measure::{Arrival, ClockRelation, MeterConfig, SequenceConfig, StreamMeter};
use giusto_rtp::SequenceUnwrapper;
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    datagram::DataHeader,
    messages::{Parameters, StreamOutcome},
};

/// The age in nanoseconds of a timestamp that is plausible if the sender reads our clock; below 0 is the noise of two readings.
const PLAUSIBLE_AGE: std::ops::Range<i64> = -10_000..1_000_000_000;

/// The properties of a stream that are known before it begins.
#[derive(Debug, Clone, Copy)]
pub struct IncomingConfig {
    /// The requested rate of UDP payload; `None`: unlimited.
    pub rate: Option<DataRate>,
    /// The UDP payload of each datagram.
    pub size: DataSize,
    /// Sequence numbers have 64 bits instead of 32.
    pub wide_counters: bool,
    /// Time 0 of our clock on `CLOCK_MONOTONIC`, in nanoseconds: where the sender's times fit, both ends have one clock.
    pub origin_monotonic_ns: u64,
}

impl IncomingConfig {
    /// A stream of these parameters.
    pub const fn new(parameters: &Parameters, origin_monotonic_ns: u64) -> Self {
        Self {
            rate: parameters.rate,
            size: parameters.size,
            wide_counters: parameters.wide_counters,
            origin_monotonic_ns,
        }
    }
}

giusto_units::defaults! {
    /// A stream at its receiving end.
    ///
    /// The first sequence number is 1. Datagrams without room for a header, such as greetings, are ignored.
    #[derive(Debug)]
    pub struct Incoming {
        config: IncomingConfig = config,
        unwrapper: SequenceUnwrapper = SequenceUnwrapper::new(),
        /// Created by the first datagram, which shows whether its timestamps are of our clock.
        meter: Option<Box<StreamMeter>> = None,
        /// Time 0 of our clock on the sender's, in nanoseconds; 0 where they differ.
        origin_ns: u64 = 0,
        all_bytes: u64 = 0,
        last_heard: Option<Timestamp> = None,
        omitted: Omitted = Omitted { packets: 0, lost: 0 },
        /// Messages that the socket has dropped so far.
        kernel_dropped: u64 = 0,
        /// The most datagrams in one message: a dropped message may have had as many.
        largest_message: u64 = 1,
        /// Datagrams that may have been dropped since the last one.
        droppable: u64 = 0,
        /// The sender's count, once it is known.
        sent: u64 = 0,
    }
    /// A stream before its first datagram.
    pub fn new(config: IncomingConfig);
}

/// Datagrams that do not count at the client's request.
#[derive(Debug, Clone, Copy, Default)]
struct Omitted {
    packets: u64,
    lost: u64,
}

impl Incoming {
    /// Handles a datagram that arrived at `at`, with the traffic class `tos`. Returns whether it is one of the stream.
    pub fn on_datagram(&mut self, at: Timestamp, datagram: &[u8], tos: Option<u8>) -> bool {
        let Some(header) = DataHeader::parse(datagram, self.config.wide_counters) else { return false };
        let sequence = if self.config.wide_counters {
            Some(header.sequence)
        } else {
            self.unwrapper.unwrap_u32(header.sequence as u32)
        };
        let Some(sequence) = sequence else { return false };
        self.last_heard = Some(at);
        self.all_bytes = self.all_bytes.saturating_add(datagram.len() as u64);
        let origin_ns = self.origin_ns(at, header.sent_ns);
        let arrival = Arrival::new(at, sequence, DataSize::from_bytes(datagram.len() as u64))
            .with_sent(PeerTimestamp::from_nanos(header.sent_ns.saturating_sub(origin_ns)))
            .with_tos(tos);
        self.count_drops();
        self.meter_mut(1).on_arrival(&arrival);
        true
    }

    /// Decides with the first datagram whether both ends have one clock.
    fn origin_ns(&mut self, at: Timestamp, sent_ns: u64) -> u64 {
        if self.meter.is_none() {
            let origin_ns = self.config.origin_monotonic_ns;
            let age = origin_ns.saturating_add(at.as_nanos()).wrapping_sub(sent_ns).cast_signed();
            if PLAUSIBLE_AGE.contains(&age) {
                self.origin_ns = origin_ns;
            }
        }
        self.origin_ns
    }

    fn meter_mut(&mut self, first: u64) -> &mut StreamMeter {
        let same_clock = self.origin_ns != 0;
        let config = self.config;
        self.meter.get_or_insert_with(|| {
            let config = MeterConfig::default()
                .with_rate(config.rate.map(|rate| rate.as_bps() as f64))
                .with_size(config.size)
                .with_sequence(SequenceConfig::default().with_first(first))
                .with_clocks(if same_clock { ClockRelation::Same } else { ClockRelation::Unknown });
            Box::new(StreamMeter::new(&config))
        })
    }

    /// The omitted time is over: counting begins again with the next sequence number.
    pub fn end_omitted(&mut self) {
        let Some(meter) = self.meter.take() else { return };
        let packets = meter.sequence().highest().unwrap_or(0);
        let lost = self.omitted.lost + meter.sequence().losses().lost;
        self.omitted = Omitted { packets, lost };
        self.all_bytes = 0;
        self.meter_mut(packets.saturating_add(1));
    }

    /// Before the datagrams of a message of the socket: their number, and the messages that the socket had dropped before it, which may
    /// be of other streams too.
    pub fn on_message(&mut self, datagrams: u64, kernel_dropped: Option<u64>) {
        self.largest_message = self.largest_message.max(datagrams);
        if let Some(total) = kernel_dropped {
            self.on_kernel_dropped(total);
        }
    }

    /// The messages that the socket has dropped so far, now that it is empty.
    pub fn on_kernel_dropped(&mut self, total: u64) {
        let more = total.saturating_sub(self.kernel_dropped);
        self.kernel_dropped = self.kernel_dropped.max(total);
        self.droppable = self.droppable.saturating_add(more.saturating_mul(self.largest_message));
    }

    /// The sender's count of datagrams, those of the omitted time included: losses at the end count too. Returns its meter.
    pub fn finish(&mut self, sent: u64) -> &StreamMeter {
        self.sent = sent;
        let counted = sent.saturating_sub(self.omitted.packets);
        self.count_drops();
        let meter = self.meter_mut(1);
        meter.finish(counted);
        meter
    }

    fn count_drops(&mut self) {
        let droppable = std::mem::take(&mut self.droppable);
        if droppable > 0 {
            self.meter_mut(1).on_kernel_drops(droppable);
        }
    }

    /// Its meter; `None` before the first datagram.
    pub fn meter(&self) -> Option<&StreamMeter> {
        self.meter.as_deref()
    }

    /// Arrival of the last datagram.
    pub const fn last_heard(&self) -> Option<Timestamp> {
        self.last_heard
    }

    /// The highest sequence number so far: how many the sender has sent, as far as it is known here.
    pub fn highest(&self) -> u64 {
        self.meter().and_then(|meter| meter.sequence().highest()).unwrap_or(self.omitted.packets)
    }

    /// Datagrams of the omitted time.
    pub const fn omitted_packets(&self) -> u64 {
        self.omitted.packets
    }

    /// The payload that arrived since the omitted time, with duplicates.
    pub const fn bytes(&self) -> u64 {
        self.all_bytes
    }

    /// Its figures for the far end; after [`finish`](Self::finish) its losses, and the number of datagrams, are those of the whole
    /// stream.
    pub fn outcome(&self, id: i64, duration: TimeDelta) -> StreamOutcome {
        let summary = self.meter().map(StreamMeter::summary);
        let summary = summary.as_ref();
        StreamOutcome {
            id,
            bytes: self.all_bytes,
            jitter: summary.and_then(|summary| summary.jitter).unwrap_or_default(),
            lost_packets: self.omitted.lost + summary.map_or(0, |summary| summary.lost_packets),
            omitted_lost_packets: self.omitted.lost,
            packets: self.highest().max(self.sent),
            omitted_packets: self.omitted.packets,
            duration,
        }
    }
}
