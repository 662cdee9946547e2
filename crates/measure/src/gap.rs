//! Gap errors against an ideal constant-bit-rate stream.

use giusto_units::{DataSize, NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};

use super::{histogram::ErrorHistogram, sequence::SequenceVerdict};

/// The gap that an ideal constant-bit-rate stream leaves after a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum IdealGap {
    /// Unknown: the rate is unlimited.
    Unknown,
    /// Constant, in nanoseconds.
    Fixed(f64),
    /// Nanoseconds per byte of the packet, header bytes included.
    PerByte(f64),
}

impl IdealGap {
    /// From the nominal gap, otherwise from the rate in bit/s (and the size, header bytes included, if it is
    /// fixed). Values that are not above zero and finite are ignored.
    pub(super) fn new(gap: Option<TimeDelta>, rate: Option<f64>, size: Option<DataSize>) -> Self {
        let gap = gap.filter(|&gap| gap > TimeDelta::ZERO);
        let rate = rate.filter(|&rate| rate > 0.0 && rate.is_finite());
        match (gap, rate, size) {
            (Some(gap), _, _) => Self::Fixed(gap.as_nanos() as f64),
            (None, Some(rate), Some(size)) => Self::Fixed(size.as_bytes() as f64 * nanos_per_byte(rate)),
            (None, Some(rate), None) => Self::PerByte(nanos_per_byte(rate)),
            (None, None, _) => Self::Unknown,
        }
    }

    /// The time from a packet of `size` to the one `steps` later in the sequence; `None` if unknown.
    fn after(self, size: DataSize, steps: u64) -> Option<TimeDelta> {
        let nanos = match self {
            Self::Fixed(nanos) => nanos * steps as f64,
            Self::PerByte(nanos) if steps == 1 => nanos * size.as_bytes() as f64,
            Self::PerByte(_) | Self::Unknown => return None,
        };
        // Rounded to the nearest; the cast clamps.
        Some(TimeDelta::from_nanos((nanos + 0.5) as i64))
    }
}

fn nanos_per_byte(rate: f64) -> f64 {
    8.0 * NANOS_PER_SECOND as f64 / rate
}

/// Compares gaps between packets that advance the sequence with the ideal and with the scheduled gap.
#[derive(Debug, Clone)]
pub(super) struct GapMeter {
    ideal: IdealGap,
    previous: Option<Previous>,
    /// Arrival gap − ideal gap.
    pub(super) errors: ErrorHistogram,
    /// Arrival gap − difference of the scheduled times.
    pub(super) schedule_errors: ErrorHistogram,
    /// The arrival gaps themselves. Not kept for very dense streams, where the errors contain the same
    /// information.
    pub(super) gaps: Option<ErrorHistogram>,
}

/// Minimum gap of streams whose gaps are kept: 100 000 datagrams per second. Above that rate, each histogram
/// takes a noticeable share of a core.
const DENSEST_NANOS: f64 = 10_000.0;

/// The packet with the highest sequence number so far.
#[derive(Debug, Clone, Copy)]
struct Previous {
    at: Timestamp,
    size: DataSize,
    scheduled: Option<PeerTimestamp>,
}

impl GapMeter {
    pub(super) fn new(ideal: IdealGap) -> Self {
        let dense = match ideal {
            IdealGap::Fixed(nanos) => nanos < DENSEST_NANOS,
            IdealGap::PerByte(_) => false,
            IdealGap::Unknown => true,
        };
        Self {
            ideal,
            previous: None,
            errors: ErrorHistogram::new(),
            schedule_errors: ErrorHistogram::new(),
            gaps: (!dense).then(ErrorHistogram::new),
        }
    }

    /// Handles a packet. It is compared only if it advances the sequence. `size` includes the header bytes.
    #[inline]
    pub(super) fn on_packet(
        &mut self,
        at: Timestamp,
        verdict: SequenceVerdict,
        size: DataSize,
        scheduled: Option<PeerTimestamp>,
    ) {
        let steps = match verdict {
            SequenceVerdict::InOrder => 1,
            SequenceVerdict::Gap(missing) => missing.saturating_add(1),
            _ => return,
        };
        let Some(previous) = self.previous.replace(Previous { at, size, scheduled }) else { return };
        let gap = at - previous.at;
        if let Some(ideal) = self.ideal.after(previous.size, steps) {
            self.errors.record(gap - ideal);
            if let Some(gaps) = &mut self.gaps {
                gaps.record(gap);
            }
        }
        if let (Some(before), Some(now)) = (previous.scheduled, scheduled) {
            self.schedule_errors.record(gap - (now - before));
        }
    }
}

impl GapMeter {
    /// Handles `count` packets that arrived together with the previous one and are equal to it.
    #[inline]
    pub(super) fn on_run(&mut self, count: u64) {
        let Some(previous) = self.previous else { return };
        if let Some(ideal) = self.ideal.after(previous.size, 1) {
            self.errors.record_many(-ideal, count);
            if let Some(gaps) = &mut self.gaps {
                gaps.record_many(TimeDelta::ZERO, count);
            }
        }
        if previous.scheduled.is_some() {
            self.schedule_errors.record_many(TimeDelta::ZERO, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(200);

    fn us(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000)
    }

    /// 200 B at 1 Mbit/s: 1.6 ms.
    fn meter(size: Option<DataSize>) -> GapMeter {
        GapMeter::new(IdealGap::new(None, Some(1e6), size))
    }

    #[test]
    fn a_burst_is_compared_with_the_ideal_gaps() {
        // 71 packets at once every 113.6 ms: 70 gaps of zero, then one that is 112 ms too long.
        let mut meter = meter(Some(SIZE));
        for i in 0..142 {
            let scheduled = PeerTimestamp::from_nanos(i / 71 * 113_600_000);
            meter.on_packet(us(i / 71 * 113_600), SequenceVerdict::InOrder, SIZE, Some(scheduled));
        }
        let quantiles = meter.errors.quantiles().unwrap();
        assert!((1600.0..1602.0).contains(&quantiles.p50.as_micros()));
        assert_eq!(quantiles.max, TimeDelta::from_micros(112_000));
        // There is no error relative to its own schedule.
        assert_eq!(meter.schedule_errors.max(), Some(TimeDelta::ZERO));
        assert_eq!(meter.schedule_errors.count(), 141);
    }

    #[test]
    fn a_loss_multiplies_the_gap_of_fixed_sizes_only() {
        for (size, compared) in [(Some(SIZE), 2), (None, 1)] {
            let mut meter = meter(size);
            let in_order = SequenceVerdict::InOrder;
            for (number, verdict) in [(0, in_order), (4, SequenceVerdict::Gap(3)), (5, in_order)] {
                meter.on_packet(us(number * 1600), verdict, SIZE, None);
            }
            assert_eq!(meter.errors.count(), compared);
            assert_eq!(meter.errors.max(), Some(TimeDelta::ZERO));
        }
    }

    #[test]
    fn a_packet_of_another_size_has_its_own_gap() {
        let mut meter = meter(None);
        for (at, bytes) in [(0, 1000), (8000, 100), (8800, 200)] {
            meter.on_packet(us(at), SequenceVerdict::InOrder, DataSize::from_bytes(bytes), None);
        }
        assert_eq!(meter.errors.count(), 2);
        assert_eq!((meter.errors.min(), meter.errors.max()), (Some(TimeDelta::ZERO), Some(TimeDelta::ZERO)));
    }

    #[test]
    fn without_a_usable_rate_there_is_no_ideal_gap() {
        for rate in [None, Some(0.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(IdealGap::new(None, rate, Some(SIZE)), IdealGap::Unknown);
        }
        let voice = IdealGap::new(Some(TimeDelta::from_millis(20)), Some(64e3), None);
        assert_eq!(voice.after(SIZE, 2), Some(TimeDelta::from_millis(40)));
        assert_eq!(IdealGap::Fixed(1e300).after(SIZE, u64::MAX), Some(TimeDelta::MAX));
    }
}
