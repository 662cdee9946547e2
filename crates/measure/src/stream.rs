//! All meters of one stream together.

mod arrival;
mod config;
mod summary;

use giusto_units::{DataSize, TimeDelta, Timestamp};

pub use self::{
    arrival::Arrival,
    config::MeterConfig,
    summary::{EcnCounts, StreamSummary},
};
use super::{
    clock::ClockEstimate,
    delay::DelayMeter,
    gap::{GapMeter, IdealGap},
    histogram::ErrorHistogram,
    jitter::InterarrivalJitter,
    rate::{RateMeter, RateSeries},
    sequence::{SequenceTracker, SequenceVerdict},
};

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
        self.count_ecn(rest.tos, count);
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
        self.count_ecn(arrival.tos, 1);
        if let Some(tos) = arrival.tos {
            self.dscp_changed |= self.tos.is_some_and(|before| before >> 2 != tos >> 2);
            self.tos = Some(tos);
        }
    }

    #[inline]
    fn count_ecn(&mut self, tos: Option<u8>, count: u64) {
        if let Some(counted) = tos.and_then(|tos| self.ecn.get_mut(usize::from(tos & 3))) {
            *counted += count;
        }
    }
}

#[cfg(test)]
mod tests;
