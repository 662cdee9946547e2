//! What is known of a stream before its first datagram.

use giusto_units::{DataSize, TimeDelta};

#[cfg(doc)]
use crate::StreamMeter;
use crate::{delay::ClockRelation, sequence::SequenceConfig};

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
