//! Series and histograms of a run.

use giusto_measure::{ErrorHistogram, StreamMeter};

/// One class of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBin {
    /// The class begins here, in µs.
    pub lo_us: f64,
    /// The class ends before this, in µs.
    pub hi_us: f64,
    /// The number of values in it.
    pub count: u64,
}

impl From<(f64, f64, u64)> for HistogramBin {
    fn from((lo_us, hi_us, count): (f64, f64, u64)) -> Self {
        Self { lo_us, hi_us, count }
    }
}

/// Series and histograms for the plots of a run. An empty vector draws no plot. Not part of the JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPlots {
    /// The received rate over time: seconds since the start, bit/s.
    pub rate_series: Vec<(f64, f64)>,
    /// Gaps between neighbouring arrivals.
    pub gap_histogram: Vec<HistogramBin>,
    /// Schedule errors of departures.
    pub schedule_error_histogram: Vec<HistogramBin>,
    /// One-way delay over time: seconds since the start, ms.
    pub one_way_delay_series: Vec<(f64, f64)>,
}

impl RunPlots {
    /// The plots of a stream as `meter` received it; `schedule_error` is the sender's.
    pub(in crate::measured) fn new(meter: &StreamMeter, schedule_error: &ErrorHistogram) -> Self {
        // Bounds are whole nanoseconds, both included.
        let bins = |errors: &ErrorHistogram| {
            let bins = errors.buckets();
            bins.map(|bin| (bin.lower.as_micros(), bin.upper.as_micros() + 1e-3, bin.count).into()).collect()
        };
        let mut points: Vec<_> = meter.series().points().collect();
        let began = points.first().map(|point| point.start).unwrap_or_default();
        // The last interval ended early with the stream: its mean would look like a fall.
        points.pop();
        let rates = points.iter().map(|point| ((point.start - began).as_seconds(), point.rate_bps()));
        let delays = meter.delay().points();
        Self {
            rate_series: rates.collect(),
            gap_histogram: meter.gaps().map(bins).unwrap_or_default(),
            schedule_error_histogram: bins(schedule_error),
            one_way_delay_series: delays
                .map(|(at, delay)| ((at - began).as_seconds(), delay.as_millis()))
                .collect(),
        }
    }
}
