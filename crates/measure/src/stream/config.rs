//! What is known of a stream before its first datagram.

use giusto_units::{DataSize, TimeDelta};

#[cfg(doc)]
use crate::StreamMeter;
use crate::{delay::ClockRelation, sequence::SequenceConfig};

giusto_units::defaults! {
    /// Configuration of a [`StreamMeter`]: known properties of the stream.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct MeterConfig {
        /// The nominal rate in bit/s, header bytes included; above 0. Default: `None`, unlimited. Without it and
        /// without `gap` there is no gap error.
        pub rate: Option<f64> = None,
        /// Header bytes per datagram in rates and gaps, according to the layer: 0 for the payload alone. Default:
        /// 0.
        pub header: DataSize = DataSize::ZERO,
        /// The UDP payload of every datagram, if it is fixed. Default: `None`.
        pub size: Option<DataSize> = None,
        /// The nominal gap, if it does not follow from rate and size: the packet time of a voice stream. Default:
        /// `None`.
        pub gap: Option<TimeDelta> = None,
        /// The interval of the series, at least 1 µs; it doubles when there would be more than 4096 intervals.
        /// Default: 100 ms.
        pub series_interval: TimeDelta = TimeDelta::from_millis(100),
        /// Configuration of the sequence numbers. Default: they start at 0.
        pub sequence: SequenceConfig = SequenceConfig::default(),
        /// Relation between the local clock and the sender's. Default: unknown.
        pub clocks: ClockRelation = ClockRelation::Unknown,
    }
}

giusto_units::setters!(MeterConfig {
    /// The same, with this nominal rate in bit/s.
    with_rate(rate: into f64);
    /// The same, with this header per datagram.
    with_header(header: DataSize);
    /// The same, with datagrams of this size.
    with_size(size: into DataSize);
    /// The same, with this nominal gap.
    with_gap(gap: into TimeDelta);
    /// The same, with this interval of the series.
    with_series_interval(series_interval: TimeDelta);
    /// The same, with these sequence numbers.
    with_sequence(sequence: SequenceConfig);
    /// The same, with this relation of the clocks.
    with_clocks(clocks: ClockRelation);
});
