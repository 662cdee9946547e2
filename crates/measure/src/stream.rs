//! All meters of one stream together.

use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    clock::ClockEstimate,
    delay::{ClockRelation, DelayMeter, DelaySummary},
    gap::{GapMeter, IdealGap},
    histogram::{ErrorHistogram, Quantiles},
    jitter::InterarrivalJitter,
    loss::LossSummary,
    rate::{RateMeter, RateSeries},
    sequence::{SequenceConfig, SequenceTracker, SequenceVerdict},
};

/// An arrived datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Arrival {
    /// Arrival time, preferably from the kernel. Datagrams that the kernel merged have the same time.
    pub at: Timestamp,
    /// Its sequence number; [`SequenceUnwrapper`](giusto_rtp::SequenceUnwrapper) converts numbers of 16 or 32
    /// bits.
    pub sequence: u64,
    /// The UDP payload.
    pub size: DataSize,
    /// Scheduled send time, if the datagram contains it.
    pub scheduled: Option<PeerTimestamp>,
    /// Actual send time (or, with RTP, the sampling time), if the datagram contains it.
    pub sent: Option<PeerTimestamp>,
    /// The IPv4 TOS or IPv6 traffic-class byte, if the socket provides it.
    pub tos: Option<u8>,
}

impl Arrival {
    /// A datagram without send times and TOS byte.
    pub const fn new(at: Timestamp, sequence: u64, size: DataSize) -> Self {
        Self { at, sequence, size, scheduled: None, sent: None, tos: None }
    }

    /// The same, with its scheduled send time.
    #[must_use]
    pub fn with_scheduled(mut self, scheduled: impl Into<Option<PeerTimestamp>>) -> Self {
        self.scheduled = scheduled.into();
        self
    }

    /// The same, with its actual send time.
    #[must_use]
    pub fn with_sent(mut self, sent: impl Into<Option<PeerTimestamp>>) -> Self {
        self.sent = sent.into();
        self
    }

    /// The same, with its TOS or traffic-class byte.
    #[must_use]
    pub fn with_tos(mut self, tos: impl Into<Option<u8>>) -> Self {
        self.tos = tos.into();
        self
    }
}

/// Configuration of a [`StreamMeter`]: known properties of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MeterConfig {
    /// The nominal rate in bit/s, header bytes included; above 0. Default: `None`, unlimited. Without it and
    /// without `gap` there is no gap error.
    pub rate: Option<f64>,
    /// Header bytes per datagram in rates and gaps, according to the layer: 0 for the payload alone. Default:
    /// 0.
    pub header: DataSize,
    /// The UDP payload of every datagram, if it is fixed. Default: `None`.
    pub size: Option<DataSize>,
    /// The nominal gap, if it does not follow from rate and size: the packet time of a voice stream. Default:
    /// `None`.
    pub gap: Option<TimeDelta>,
    /// The interval of the series, at least 1 µs; it doubles when there would be more than 4096 intervals.
    /// Default: 100 ms.
    pub series_interval: TimeDelta,
    /// Configuration of the sequence numbers. Default: they start at 0.
    pub sequence: SequenceConfig,
    /// Relation between the local clock and the sender's. Default: unknown.
    pub clocks: ClockRelation,
}

impl MeterConfig {
    /// The same, with this nominal rate in bit/s.
    #[must_use]
    pub fn with_rate(mut self, rate: impl Into<Option<f64>>) -> Self {
        self.rate = rate.into();
        self
    }

    /// The same, with this header per datagram.
    #[must_use]
    pub const fn with_header(mut self, header: DataSize) -> Self {
        self.header = header;
        self
    }

    /// The same, with datagrams of this size.
    #[must_use]
    pub fn with_size(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.size = size.into();
        self
    }

    /// The same, with this nominal gap.
    #[must_use]
    pub fn with_gap(mut self, gap: impl Into<Option<TimeDelta>>) -> Self {
        self.gap = gap.into();
        self
    }

    /// The same, with this interval of the series.
    #[must_use]
    pub const fn with_series_interval(mut self, series_interval: TimeDelta) -> Self {
        self.series_interval = series_interval;
        self
    }

    /// The same, with these sequence numbers.
    #[must_use]
    pub const fn with_sequence(mut self, sequence: SequenceConfig) -> Self {
        self.sequence = sequence;
        self
    }

    /// The same, with this relation of the clocks.
    #[must_use]
    pub const fn with_clocks(mut self, clocks: ClockRelation) -> Self {
        self.clocks = clocks;
        self
    }
}

impl Default for MeterConfig {
    fn default() -> Self {
        Self {
            rate: None,
            header: DataSize::ZERO,
            size: None,
            gap: None,
            series_interval: TimeDelta::from_millis(100),
            sequence: SequenceConfig::default(),
            clocks: ClockRelation::Unknown,
        }
    }
}

/// Packets by their ECN field (RFC 3168 §5), if the socket provides it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct EcnCounts {
    /// Not ECN-capable: `00`.
    pub not_ect: u64,
    /// ECT(0): `10`.
    pub ect0: u64,
    /// ECT(1): `01`.
    pub ect1: u64,
    /// Congestion experienced: `11`.
    pub ce: u64,
}

/// Measurements of a stream, in a few hundred bytes: small enough for a control message.
///
/// Times are in nanoseconds and sizes in bytes when serialised.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StreamSummary {
    /// Datagrams received, without duplicates.
    pub received_packets: u64,
    /// Their UDP payload.
    pub received_bytes: DataSize,
    /// Datagrams lost.
    pub lost_packets: u64,
    /// Duplicates.
    pub duplicate_packets: u64,
    /// Datagrams overtaken by a later one: RFC 4737 §3.3.
    pub reordered_packets: u64,
    /// Maximum reordering extent in datagrams: RFC 4737 §4.2.
    pub max_reorder_extent: u64,
    /// Datagrams too late to be distinguished from duplicates; they count neither as received nor as
    /// duplicates.
    pub too_old_packets: u64,
    /// Datagrams ignored for an implausible sequence number.
    pub implausible_packets: u64,
    /// Pattern of loss.
    pub loss: LossSummary,
    /// Of the lost datagrams: those that the receiving socket dropped because its buffer was full. At most so many where the
    /// socket receives other datagrams too.
    pub kernel_dropped_packets: u64,
    /// The rate in bit/s, header bytes included as configured, over N − 1 intervals: [`RateMeter::rate`].
    pub rate_bps: Option<f64>,
    /// All bits divided by the time from first to last: [`RateMeter::fencepost_rate`].
    pub fencepost_rate_bps: Option<f64>,
    /// Interarrival jitter, RFC 3550 §6.4.1, at the end.
    pub jitter: Option<TimeDelta>,
    /// One-way delay.
    pub delay: Option<DelaySummary>,
    /// Arrival gap minus the gap of an ideal constant-bit-rate stream.
    pub gap_error: Option<Quantiles>,
    /// Arrival gap minus the gap of the sender's schedule.
    pub schedule_gap_error: Option<Quantiles>,
    /// The sender's schedule error: actual minus scheduled send time.
    pub schedule_error: Option<Quantiles>,
    /// ECN marks.
    pub ecn: EcnCounts,
    /// The DSCP (RFC 2474 §3) of the latest datagram.
    pub dscp: Option<u8>,
    /// Whether the DSCP changed during the stream.
    pub dscp_changed: bool,
    /// Arrival time of the first datagram.
    pub first_arrival: Option<Timestamp>,
    /// Arrival time of the last datagram.
    pub last_arrival: Option<Timestamp>,
    /// Number of arrival timestamps that ran backwards and were replaced by the latest one.
    pub backward_stamps: u64,
}

/// Measures one stream, datagram by datagram, in bounded memory.
///
/// Duplicates and datagrams with implausible sequence numbers are counted as such and otherwise ignored.
///
/// # Example
///
/// ```
/// use giusto_measure::{Arrival, MeterConfig, StreamMeter};
/// use giusto_units::{DataSize, TimeDelta, Timestamp};
///
/// let size = DataSize::from_bytes(1250);
/// let mut meter = StreamMeter::new(&MeterConfig::default().with_rate(1e6).with_size(size));
/// for sequence in [0, 1, 3, 4] {
///     let at = Timestamp::from_nanos(sequence * 10_000_000);
///     meter.on_arrival(&Arrival::new(at, sequence, size));
/// }
/// let summary = meter.summary();
/// assert_eq!((summary.received_packets, summary.lost_packets), (4, 1));
/// assert_eq!(summary.rate_bps, Some(750_000.0));
/// assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
/// ```
#[derive(Debug, Clone)]
pub struct StreamMeter {
    header: DataSize,
    sequence: SequenceTracker,
    /// The last implausible datagram, in case another one confirms it.
    held: Option<Arrival>,
    rate: RateMeter,
    series: RateSeries,
    gaps: GapMeter,
    jitter: InterarrivalJitter,
    delay: DelayMeter,
    schedule_errors: ErrorHistogram,
    received_bytes: DataSize,
    /// Missing datagrams that the socket may have dropped.
    kernel_dropped: u64,
    /// What the socket may have dropped since the highest datagram.
    droppable: u64,
    /// By the two bits of the field.
    ecn: [u64; 4],
    tos: Option<u8>,
    dscp_changed: bool,
    first_arrival: Option<Timestamp>,
    latest: Timestamp,
    backward_stamps: u64,
}

impl StreamMeter {
    /// A meter before the first datagram. A rate or gap that is not above zero is ignored.
    pub fn new(config: &MeterConfig) -> Self {
        let size = config.size.map(|size| size + config.header);
        Self {
            header: config.header,
            sequence: SequenceTracker::new(config.sequence),
            held: None,
            rate: RateMeter::new(),
            series: RateSeries::new(config.series_interval),
            gaps: GapMeter::new(IdealGap::new(config.gap, config.rate, size)),
            jitter: InterarrivalJitter::new(),
            delay: DelayMeter::new(config.clocks),
            schedule_errors: ErrorHistogram::new(),
            received_bytes: DataSize::ZERO,
            kernel_dropped: 0,
            droppable: 0,
            ecn: [0; 4],
            tos: None,
            dscp_changed: false,
            first_arrival: None,
            latest: Timestamp::ZERO,
            backward_stamps: 0,
        }
    }

    /// Handles a datagram. Returns the classification of its sequence number.
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival) -> SequenceVerdict {
        let verdict = self.sequence.on_packet(arrival.sequence);
        match verdict {
            SequenceVerdict::InOrder => {
                self.count(arrival, verdict);
                self.droppable = 0;
            }
            SequenceVerdict::Gap(missing) => {
                self.count(arrival, verdict);
                self.series.on_lost(self.latest, missing);
                self.on_missing(missing);
            }
            SequenceVerdict::Resumed(missing) => {
                self.on_missing(missing);
                if let Some(held) = self.held.take() {
                    self.count(&held, SequenceVerdict::Gap(missing));
                }
                self.series.on_lost(self.latest, missing);
                return self.on_arrival(arrival);
            }
            SequenceVerdict::Reordered { .. } => {
                self.count(arrival, verdict);
                self.series.on_recovered(self.latest);
            }
            SequenceVerdict::Implausible => self.held = Some(*arrival),
            SequenceVerdict::Duplicate | SequenceVerdict::TooOld => {}
        }
        verdict
    }

    /// Handles `count` datagrams that arrived together, with consecutive sequence numbers from `first` on and
    /// otherwise equal. The result is that of as many calls of [`on_arrival`](Self::on_arrival), at the cost
    /// of two.
    #[inline]
    pub fn on_run(&mut self, first: &Arrival, count: u64) {
        if count == 0 {
            return;
        }
        let verdict = self.on_arrival(first);
        let (rest, count) = (Arrival { sequence: first.sequence.saturating_add(1), ..*first }, count - 1);
        if count == 0 {
            return;
        }
        // Datagrams after one that did not count cannot be handled together with it.
        if !verdict.advances() || !self.sequence.on_run(rest.sequence, count) {
            for step in 0..count {
                self.on_arrival(&Arrival { sequence: rest.sequence.saturating_add(step), ..rest });
            }
            return;
        }
        let at = rest.at.max(self.latest);
        self.backward_stamps += if at > rest.at { count } else { 0 };
        self.received_bytes += rest.size * count;
        let size = rest.size + self.header;
        self.rate.on_packet(at, rest.scheduled, size * count);
        self.series.on_packets(at, size, count);
        self.gaps.on_run(count);
        if let Some(sent) = rest.sent {
            self.jitter.on_run(count);
            self.delay.on_run(at, rest.sequence, count, sent);
            if let Some(scheduled) = rest.scheduled {
                self.schedule_errors.record_many(sent - scheduled, count);
            }
        }
        if let Some(count_of_codepoint) = rest.tos.and_then(|tos| self.ecn.get_mut(usize::from(tos & 3))) {
            *count_of_codepoint += count;
        }
    }

    /// A datagram was ignored: the caller knows that there can be none of its sequence number.
    pub fn on_implausible(&mut self) {
        self.sequence.on_implausible();
    }

    /// The kernel says that the socket dropped up to `count` more datagrams before the next one that is handled (Linux: the
    /// difference of two `SO_RXQ_OVFL` counters). As many of those that are missing there count as dropped by the socket.
    #[inline]
    pub fn on_kernel_drops(&mut self, count: u64) {
        self.droppable = self.droppable.saturating_add(count);
    }

    fn on_missing(&mut self, missing: u64) {
        self.kernel_dropped = self.kernel_dropped.saturating_add(missing.min(self.droppable));
        self.droppable = 0;
    }

    /// Of the lost datagrams: those that the receiving socket dropped, as in the summary.
    #[inline]
    pub fn kernel_dropped_packets(&self) -> u64 {
        self.kernel_dropped.min(self.missing())
    }

    fn missing(&self) -> u64 {
        self.sequence.expected().saturating_sub(self.sequence.received())
    }

    /// Sets the estimate of the sender's clock for the whole stream.
    #[inline]
    pub fn on_clock(&mut self, estimate: &ClockEstimate) {
        self.delay.on_clock(estimate);
    }

    /// Sets the relation of the two clocks that the sender stated: [`DelayMeter::on_stated_clock`].
    pub fn on_stated_clock(&mut self, estimate: &ClockEstimate) {
        self.delay.on_stated_clock(estimate);
    }

    /// Sets the number of datagrams sent, so that losses at the end count too.
    #[inline]
    pub fn finish(&mut self, sent: u64) {
        let missing = self.missing();
        self.sequence.finish(sent);
        self.on_missing(self.missing().saturating_sub(missing));
    }

    /// The UDP payload of all datagrams received, without duplicates.
    #[inline]
    pub fn received_bytes(&self) -> DataSize {
        self.received_bytes
    }

    /// The measurements so far. Reads windows and histograms: do not call it for every datagram.
    pub fn summary(&self) -> StreamSummary {
        let loss = self.sequence.losses();
        let [not_ect, ect1, ect0, ce] = self.ecn;
        StreamSummary {
            received_packets: loss.received,
            received_bytes: self.received_bytes,
            lost_packets: loss.lost,
            duplicate_packets: self.sequence.duplicates(),
            reordered_packets: self.sequence.reordered(),
            max_reorder_extent: self.sequence.max_extent(),
            too_old_packets: self.sequence.too_old(),
            implausible_packets: self.sequence.implausible(),
            loss,
            kernel_dropped_packets: self.kernel_dropped.min(loss.lost),
            rate_bps: self.rate.rate(),
            fencepost_rate_bps: self.rate.fencepost_rate(),
            jitter: self.jitter.jitter(),
            delay: self.delay.summary(),
            gap_error: self.gaps.errors.quantiles(),
            schedule_gap_error: self.gaps.schedule_errors.quantiles(),
            schedule_error: self.schedule_errors.quantiles(),
            ecn: EcnCounts { not_ect, ect0, ect1, ce },
            dscp: self.tos.map(|tos| tos >> 2),
            dscp_changed: self.dscp_changed,
            first_arrival: self.first_arrival,
            last_arrival: self.first_arrival.map(|_| self.latest),
            backward_stamps: self.backward_stamps,
        }
    }

    /// The rate alone, which is faster than a summary.
    #[inline]
    pub fn rate(&self) -> &RateMeter {
        &self.rate
    }

    /// The header bytes of a datagram that rates include, as configured.
    #[inline]
    pub fn header(&self) -> DataSize {
        self.header
    }

    /// The interarrival jitter at this time (RFC 3550 §6.4.1).
    #[inline]
    pub fn jitter(&self) -> Option<TimeDelta> {
        self.jitter.jitter()
    }

    /// The arrival times of the first and of the latest datagram.
    #[inline]
    pub fn arrivals(&self) -> Option<(Timestamp, Timestamp)> {
        self.first_arrival.map(|first| (first, self.latest))
    }

    /// Received data and losses over time, header bytes included as configured.
    #[inline]
    pub fn series(&self) -> &RateSeries {
        &self.series
    }

    /// Arrival gaps minus those of an ideal constant-bit-rate stream.
    #[inline]
    pub fn gap_errors(&self) -> &ErrorHistogram {
        &self.gaps.errors
    }

    /// The arrival gaps themselves; `None` if the rate is unlimited or above 100 000 datagrams per second.
    #[inline]
    pub fn gaps(&self) -> Option<&ErrorHistogram> {
        self.gaps.gaps.as_ref()
    }

    /// Arrival gaps minus those of the sender's schedule.
    #[inline]
    pub fn schedule_gap_errors(&self) -> &ErrorHistogram {
        &self.gaps.schedule_errors
    }

    /// The sender's schedule errors: actual minus scheduled send times.
    #[inline]
    pub fn schedule_errors(&self) -> &ErrorHistogram {
        &self.schedule_errors
    }

    /// One-way delays; its points are for plots.
    #[inline]
    pub fn delay(&self) -> &DelayMeter {
        &self.delay
    }

    /// Sequence numbers.
    #[inline]
    pub fn sequence(&self) -> &SequenceTracker {
        &self.sequence
    }

    /// Counts a datagram that is not a duplicate.
    #[inline]
    fn count(&mut self, arrival: &Arrival, verdict: SequenceVerdict) {
        let &Arrival { sequence, scheduled, sent, .. } = arrival;
        let at = arrival.at.max(self.latest);
        self.backward_stamps += u64::from(at > arrival.at);
        self.latest = at;
        self.first_arrival.get_or_insert(at);
        self.received_bytes += arrival.size;

        let size = arrival.size + self.header;
        if verdict.advances() {
            self.rate.on_packet(at, scheduled, size);
        } else {
            self.rate.on_late_packet(at, scheduled, size);
        }
        self.series.on_packets(at, size, 1);
        self.gaps.on_packet(at, verdict, size, scheduled);
        if let Some(sent) = sent {
            self.jitter.on_packet(at, sent);
            self.delay.on_packet(at, sequence, sent);
            if let Some(scheduled) = scheduled {
                self.schedule_errors.record(sent - scheduled);
            }
        }
        if let Some(tos) = arrival.tos {
            if let Some(count) = self.ecn.get_mut(usize::from(tos & 3)) {
                *count += 1;
            }
            self.dscp_changed |= self.tos.is_some_and(|before| before >> 2 != tos >> 2);
            self.tos = Some(tos);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::DelayBasis;

    const SIZE: DataSize = DataSize::from_bytes(200);

    fn us(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000)
    }

    /// 200 B every 1.6 ms, 1 Mbit/s, a delay of 0.5 ms, a constant schedule error of 3 µs.
    fn arrival(sequence: u64) -> Arrival {
        let due = sequence * 1_600_000;
        Arrival {
            at: Timestamp::from_nanos(due + 503_000),
            sequence,
            size: SIZE,
            scheduled: Some(PeerTimestamp::from_nanos(due)),
            sent: Some(PeerTimestamp::from_nanos(due + 3_000)),
            tos: Some(0),
        }
    }

    fn config() -> MeterConfig {
        MeterConfig {
            rate: Some(1e6),
            size: Some(SIZE),
            clocks: ClockRelation::Same,
            ..MeterConfig::default()
        }
    }

    fn measured(arrivals: impl IntoIterator<Item = Arrival>) -> StreamMeter {
        let mut meter = StreamMeter::new(&config());
        for arrival in arrivals {
            meter.on_arrival(&arrival);
        }
        meter
    }

    proptest! {
        #[test]
        fn a_run_equals_its_single_datagrams(
            runs in proptest::collection::vec((0_u64..300, 1_u64..70, 0_u64..40_000, any::<u8>()), 1..40)
        ) {
            let (mut by_runs, mut one_by_one) = (StreamMeter::new(&config()), StreamMeter::new(&config()));
            let mut at = 0;
            for (sequence, count, gap, tos) in runs {
                at += gap;
                let sent = Some(PeerTimestamp::from_nanos(at / 2));
                let first = Arrival { at: us(at), sequence, sent, tos: Some(tos), ..arrival(sequence) };
                by_runs.on_run(&first, count);
                for sequence in sequence..sequence + count {
                    one_by_one.on_arrival(&Arrival { sequence, ..first });
                }
            }
            prop_assert_eq!(by_runs.summary(), one_by_one.summary());
        }
    }

    #[test]
    fn a_run_at_the_last_numbers_is_handled() {
        let mut meter = StreamMeter::new(&config());
        meter.on_run(&arrival(0), 3);
        meter.on_run(&Arrival { sequence: u64::MAX - 1, ..arrival(3) }, 70);
        let summary = meter.summary();
        assert_eq!((summary.received_packets, summary.lost_packets), (3, 0));
        assert_eq!(summary.implausible_packets, 70);
    }

    #[test]
    fn without_datagrams_the_summary_is_empty() {
        let summary = StreamMeter::new(&MeterConfig::default()).summary();
        assert_eq!((summary.received_packets, summary.rate_bps, summary.jitter), (0, None, None));
        assert_eq!((summary.delay, summary.gap_error, summary.first_arrival), (None, None, None));
    }

    #[test]
    fn an_ideal_stream_has_ideal_figures() {
        let summary = measured((0..1000).map(arrival)).summary();
        assert_eq!(summary.rate_bps, Some(1e6));
        assert_eq!(summary.fencepost_rate_bps.map(f64::round), Some(1_001_001.0));
        assert_eq!((summary.received_packets, summary.lost_packets), (1000, 0));
        assert_eq!(summary.received_bytes, DataSize::from_bytes(200_000));
        assert_eq!(summary.jitter, Some(TimeDelta::ZERO));
        let delay = summary.delay.unwrap();
        assert_eq!(
            (delay.basis, delay.min, delay.max),
            (DelayBasis::SameClock, TimeDelta::from_micros(500), TimeDelta::from_micros(500))
        );
        assert_eq!(summary.gap_error.map(|errors| (errors.count, errors.max)), Some((999, TimeDelta::ZERO)));
        assert_eq!(summary.schedule_gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
        let schedule = summary.schedule_error.unwrap();
        assert_eq!(
            (schedule.count, schedule.bias, schedule.max),
            (1000, TimeDelta::from_micros(3), TimeDelta::from_micros(3))
        );
        assert_eq!(
            (summary.first_arrival, summary.last_arrival),
            (Some(us(503)), Some(us(999 * 1600 + 503)))
        );
    }

    #[test]
    fn header_bytes_count_in_rates_and_gaps() {
        // 28 B of IPv4 and UDP: 1.14 Mbit/s at the IP layer is the same stream.
        let mut meter = StreamMeter::new(&MeterConfig {
            rate: Some(1.14e6),
            header: DataSize::from_bytes(28),
            ..config()
        });
        for sequence in 0..100 {
            meter.on_arrival(&arrival(sequence));
        }
        let summary = meter.summary();
        assert_eq!(summary.rate_bps, Some(1.14e6));
        assert_eq!(summary.received_bytes, DataSize::from_bytes(20_000));
        assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
    }

    #[test]
    fn a_duplicate_is_counted_and_otherwise_ignored() {
        let once = measured((0..100).map(arrival)).summary();
        let twice = measured((0..100).flat_map(|sequence| [arrival(sequence); 2])).summary();
        assert_eq!(twice.duplicate_packets, 100);
        assert_eq!(StreamSummary { duplicate_packets: 0, ..twice }, once);
    }

    #[test]
    fn reordering_does_not_affect_rate_loss_or_gap_errors() {
        let mut arrivals: Vec<_> = (0..100).map(arrival).collect();
        // Packet 50 takes 4 ms longer, and is overtaken by two.
        arrivals[50].at += TimeDelta::from_millis(4);
        arrivals.swap(50, 51);
        arrivals.swap(51, 52);
        let meter = measured(arrivals);
        let summary = meter.summary();
        assert_eq!((summary.rate_bps, summary.lost_packets), (Some(1e6), 0));
        assert_eq!((summary.reordered_packets, summary.max_reorder_extent), (1, 2));
        assert_eq!(summary.gap_error.map(|errors| (errors.count, errors.max)), Some((98, TimeDelta::ZERO)));
        assert_eq!(summary.delay.map(|delay| delay.max), Some(TimeDelta::from_micros(4500)));
        let points: Vec<_> = meter.series().points().collect();
        assert_eq!(points.iter().map(|point| (point.lost, point.recovered)).max(), Some((1, 1)));
    }

    #[test]
    fn losses_are_counted_to_the_senders_last_packet() {
        let mut meter = measured((0..90).filter(|sequence| sequence % 10 != 5).map(arrival));
        meter.on_kernel_drops(3);
        meter.on_kernel_drops(4);
        meter.finish(100);
        let summary = meter.summary();
        assert_eq!((summary.lost_packets, summary.loss.expected, summary.loss.periods), (19, 100, 10));
        assert_eq!(summary.loss.period_lengths, [9, 0, 0, 0, 0, 1]);
        assert_eq!(summary.kernel_dropped_packets, 7);
        assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
        assert_eq!(meter.series().points().map(|point| point.lost).sum::<u64>(), 9);
    }

    #[test]
    fn losses_in_the_socket_are_those_that_it_can_have_dropped() {
        let dropped = |drops: [u64; 4], sent| {
            let mut meter = StreamMeter::new(&config());
            for (sequence, drops) in [0, 1, 10, 15].into_iter().zip(drops) {
                meter.on_kernel_drops(drops);
                meter.on_arrival(&arrival(sequence));
            }
            meter.on_kernel_drops(100);
            if let Some(sent) = sent {
                meter.finish(sent);
            }
            assert_eq!(meter.kernel_dropped_packets(), meter.summary().kernel_dropped_packets);
            meter.kernel_dropped_packets()
        };
        // 8 and 4 are missing, and 4 behind the last one.
        assert_eq!(dropped([0, 0, 8, 4], None), 12);
        assert_eq!(dropped([0, 0, 8, 4], Some(20)), 16);
        // Lost on the path, the first 3 excepted.
        assert_eq!(dropped([0, 0, 3, 0], None), 3);
        // The kernel also drops what is not of the stream: before its first datagram, where nothing is missing, and more.
        assert_eq!(dropped([70, 70, 80, 50], None), 12);
        assert_eq!(dropped([70, 70, 0, 0], Some(16)), 0);
        // What was missing arrives: it was on the path.
        let mut meter = measured([0].map(arrival));
        meter.on_kernel_drops(2);
        for sequence in [3, 2] {
            meter.on_arrival(&arrival(sequence));
        }
        assert_eq!((meter.kernel_dropped_packets(), meter.summary().lost_packets), (1, 1));
    }

    #[test]
    fn a_confirmed_jump_counts_both_packets() {
        let leap = 1 << 30;
        let mut meter = measured((0..10).map(arrival));
        assert_eq!(meter.on_arrival(&arrival(leap)), SequenceVerdict::Implausible);
        assert_eq!(meter.summary().received_packets, 10);
        meter.on_arrival(&arrival(leap + 1));
        let summary = meter.summary();
        assert_eq!((summary.received_packets, summary.implausible_packets), (12, 0));
        assert_eq!(summary.received_bytes, DataSize::from_bytes(2400));
        assert_eq!(summary.lost_packets, leap - 10);
        assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
    }

    #[test]
    fn ecn_and_dscp_are_reported_as_received() {
        let marks = [0b10, 0b10, 0b01, 0b11, 0b00, 46 << 2 | 0b11];
        let meter = measured(marks.iter().zip(0..).map(|(&tos, i)| Arrival { tos: Some(tos), ..arrival(i) }));
        let summary = meter.summary();
        assert_eq!(summary.ecn, EcnCounts { not_ect: 1, ect0: 2, ect1: 1, ce: 2 });
        assert_eq!((summary.dscp, summary.dscp_changed), (Some(46), true));
        let silent = measured((0..9).map(|i| Arrival { tos: None, ..arrival(i) })).summary();
        assert_eq!((silent.ecn, silent.dscp, silent.dscp_changed), (EcnCounts::default(), None, false));
    }

    #[test]
    fn a_backward_timestamp_is_replaced_and_counted() {
        let summary = measured([
            Arrival { at: us(100), ..arrival(0) },
            Arrival { at: us(90), ..arrival(1) },
            Arrival { at: us(200), ..arrival(2) },
        ])
        .summary();
        assert_eq!(summary.backward_stamps, 1);
        assert_eq!((summary.first_arrival, summary.last_arrival), (Some(us(100)), Some(us(200))));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_summary_takes_a_few_hundred_bytes() {
        let mut meter = StreamMeter::new(&MeterConfig { clocks: ClockRelation::Unknown, ..config() });
        for sequence in 0..100_000 {
            let late = TimeDelta::from_nanos((sequence as i64 * 7919) % 900_001);
            let arrival = Arrival { tos: Some(46 << 2), ..arrival(sequence) };
            meter.on_arrival(&Arrival { at: arrival.at + late, ..arrival });
        }
        meter.on_clock(&ClockEstimate {
            at: us(1),
            offset: TimeDelta::from_nanos(-1_764_000_000_123_456_789),
            uncertainty: TimeDelta::from_micros(77),
            drift: Some(crate::ClockDrift { ppm: -12.345, standard_error_ppm: 0.1, samples: 64 }),
            samples: 700,
        });
        let summary = meter.summary();
        let bytes = postcard::to_allocvec(&summary).unwrap();
        assert!((100..400).contains(&bytes.len()), "{} bytes", bytes.len());
        assert_eq!(postcard::from_bytes::<StreamSummary>(&bytes), Ok(summary));
    }

    fn any_arrival() -> impl Strategy<Value = Arrival> {
        let sequence = prop_oneof![0_u64..50, any::<u64>()];
        let stamps = any::<(u64, u64, Option<u64>, Option<u64>, Option<u8>)>();
        (sequence, stamps).prop_map(|(sequence, (at, size, scheduled, sent, tos))| Arrival {
            at: Timestamp::from_nanos(at),
            sequence,
            size: DataSize::from_bytes(size),
            scheduled: scheduled.map(PeerTimestamp::from_nanos),
            sent: sent.map(PeerTimestamp::from_nanos),
            tos,
        })
    }

    proptest! {
        #[test]
        fn any_datagram_is_safe_and_counted_once(
            arrivals in prop::collection::vec(any_arrival(), 0..80), rate: Option<f64>, gap: Option<i64>, header: u64,
        ) {
            let mut meter = StreamMeter::new(&MeterConfig {
                rate,
                gap: gap.map(TimeDelta::from_nanos),
                header: DataSize::from_bytes(header),
                ..MeterConfig::default()
            });
            for arrival in &arrivals {
                meter.on_arrival(arrival);
            }
            let summary = meter.summary();
            let counted = summary.received_packets
                + summary.duplicate_packets
                + summary.too_old_packets
                + summary.implausible_packets;
            prop_assert_eq!(counted, arrivals.len() as u64);
            prop_assert_eq!(summary.loss.expected, summary.received_packets + summary.lost_packets);
            let (lost, recovered) = meter
                .series()
                .points()
                .fold((0, 0), |(lost, recovered), point| (lost + u128::from(point.lost), recovered + point.recovered));
            prop_assert_eq!(lost - u128::from(recovered), u128::from(summary.lost_packets));
        }
    }
}
