//! What is measured of each user, and of the city, as the SCReAM draft defines it.

use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

/// Percentile over the packets or frames of a user, and over users (draft-johansson-rmcat-scream-cc-00 §10).
const WITHIN_USER: f64 = 0.98;
const OVER_USERS: f64 = 0.95;

/// A user counts if its call overlapped the evaluation by this much. Chosen by us.
pub(super) const LEAST_OVERLAP: TimeDelta = TimeDelta::from_seconds(5);

/// What a call did within the evaluation.
#[derive(Debug, Clone, Default)]
pub struct CallMeasures {
    /// Time of the call within the evaluation.
    pub overlap: TimeDelta,
    /// Packets of the media that were sent.
    pub sent_packets: u64,
    /// Those of them that arrived.
    pub received_packets: u64,
    /// Bytes of video that were sent: RTP payload.
    pub sent_video_bytes: u64,
    /// Bytes of video that were received.
    pub received_video_bytes: u64,
    /// Video frames that were encoded.
    pub frames: u64,
    /// Frames that were not encoded because the sender's queue was too old.
    pub skipped_frames: u64,
    /// Delay of each packet in µs, from its transmission to its arrival.
    pub packet_delays_us: Vec<u32>,
    /// Delay of each video frame in µs, from its capture.
    pub frame_delays_us: Vec<u32>,
}

impl CallMeasures {
    pub(super) fn new((from, until): (Timestamp, Timestamp), (start, stop): (Timestamp, Timestamp)) -> Self {
        let overlap = stop.min(until).saturating_since(start.max(from));
        Self { overlap, ..Self::default() }
    }

    /// Adds what the other end of the same call has counted.
    pub(super) fn add(&mut self, other: Self) {
        self.overlap = self.overlap.max(other.overlap);
        self.sent_packets += other.sent_packets;
        self.received_packets += other.received_packets;
        self.sent_video_bytes += other.sent_video_bytes;
        self.received_video_bytes += other.received_video_bytes;
        self.frames += other.frames;
        self.skipped_frames += other.skipped_frames;
        self.packet_delays_us.extend(other.packet_delays_us);
        self.frame_delays_us.extend(other.frame_delays_us);
    }

    /// Whether it counts in the figures of the city.
    pub fn counts(&self) -> bool {
        self.overlap >= LEAST_OVERLAP
    }

    /// Mean rate of the video that was sent, in bit/s.
    pub fn sent_video_bps(&self) -> f64 {
        self.sent_video_bytes as f64 * 8.0 / self.overlap.as_seconds()
    }

    /// Mean rate of the video that was received, in bit/s.
    pub fn received_video_bps(&self) -> f64 {
        self.received_video_bytes as f64 * 8.0 / self.overlap.as_seconds()
    }

    /// Share of the packets that did not arrive.
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.sent_packets > 0).then(|| 1.0 - self.received_packets as f64 / self.sent_packets as f64)
    }
}

/// The figures of a run. Those of calls are a row of the draft's tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CityFigures {
    /// Calls that count.
    pub calls: usize,
    /// 95th percentile over calls of the 98th percentile of the delay of video frames, in ms.
    pub frame_tail_ms: f64,
    /// The same of packets.
    pub packet_tail_ms: f64,
    /// Median over calls of the median delay of packets, in ms.
    pub packet_median_ms: f64,
    /// Mean over calls of the share of packets lost.
    pub loss_ratio: f64,
    /// Mean over calls of the rate of the video sent, in bit/s.
    pub sent_video_bps: f64,
    /// Mean over calls of the rate of the video received, in bit/s.
    pub received_video_bps: f64,
    /// Share of the frames that were skipped.
    pub skipped_ratio: f64,
    /// Calls whose user was outside coverage on arrival. They take place nevertheless.
    pub uncovered_calls: u64,
    /// All calls that have begun.
    pub all_calls: u64,
    /// File transfers that have begun.
    pub files: u64,
    /// File transfers that were completed.
    pub completed_files: u64,
    /// File transfers that were given up.
    pub abandoned_files: u64,
    /// Mean duration of a completed file transfer, in s.
    pub file_time_s: f64,
    /// Handovers.
    pub handovers: u64,
    /// The radio of the downlink, if it is modelled.
    pub downlink: Option<RadioFigures>,
    /// The radio of the uplink, if it is modelled.
    pub uplink: Option<RadioFigures>,
}

/// The radio in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RadioFigures {
    /// Mean rate of decoded transport blocks per cell, in bit/s.
    pub cell_throughput_bps: f64,
    /// Share of the resource blocks that was used.
    pub used_ratio: f64,
    /// Share of first transmissions that failed.
    pub first_error_ratio: f64,
    /// Transport blocks that failed in every transmission.
    pub lost_blocks: u64,
    /// Mean interference over noise in dB (uplink).
    pub interference_over_noise_db: Option<f64>,
}

impl CityFigures {
    /// The figures of these calls, without users, files and radio.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a CallMeasures>) -> Self {
        let calls: Vec<_> = calls.into_iter().filter(|call| call.counts()).collect();
        let tail = |delays: fn(&CallMeasures) -> &Vec<u32>, within, over| {
            let per_call = calls.iter().filter_map(|call| percentile(delays(call), within));
            percentile(&per_call.collect::<Vec<_>>(), over).map_or(f64::NAN, |us| f64::from(us) / 1000.0)
        };
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            sum / count
        };
        let (frames, skipped) = calls
            .iter()
            .fold((0, 0), |(frames, skipped), call| (frames + call.frames, skipped + call.skipped_frames));
        Self {
            calls: calls.len(),
            frame_tail_ms: tail(|call| &call.frame_delays_us, WITHIN_USER, OVER_USERS),
            packet_tail_ms: tail(|call| &call.packet_delays_us, WITHIN_USER, OVER_USERS),
            packet_median_ms: tail(|call| &call.packet_delays_us, 0.5, 0.5),
            loss_ratio: mean(&mut calls.iter().filter_map(|call| call.loss_ratio())),
            sent_video_bps: mean(&mut calls.iter().map(|call| call.sent_video_bps())),
            received_video_bps: mean(&mut calls.iter().map(|call| call.received_video_bps())),
            skipped_ratio: skipped as f64 / ((frames + skipped) as f64).max(1.0),
            ..Self::default()
        }
    }
}

/// The smallest value that at least this share of the values does not exceed; `None` without values.
pub fn percentile(values: &[u32], share: f64) -> Option<u32> {
    let mut sorted = values.to_vec();
    let rank = (libm::ceil(share * values.len() as f64) as usize).clamp(1, values.len().max(1)) - 1;
    (rank < sorted.len()).then(|| *sorted.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let values: Vec<u32> = (1..=100).rev().collect();
        let of = |share| percentile(&values, share);
        assert_eq!((of(0.98), of(0.5), of(1.0), of(0.0)), (Some(98), Some(50), Some(100), Some(1)));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7], 0.98), Some(7));
    }

    #[test]
    fn a_tail_is_a_percentile_of_percentiles() {
        let call = |worst: u32| CallMeasures {
            overlap: TimeDelta::from_seconds(10),
            sent_packets: 100,
            received_packets: 90,
            sent_video_bytes: 1_000_000,
            packet_delays_us: (0..100).map(|number| if number < 97 { 1000 } else { worst }).collect(),
            ..CallMeasures::default()
        };
        let calls: Vec<_> = (1..=20).map(|number| call(number * 10_000)).collect();
        let figures = CityFigures::of(&calls);
        // The 98th of a hundred packets is a late one, and the 19th of twenty users has 190 ms.
        assert_eq!((figures.packet_tail_ms, figures.packet_median_ms), (190.0, 1.0));
        assert!((figures.sent_video_bps - 800_000.0).abs() < 1e-6);
        assert!((figures.loss_ratio - 0.1).abs() < 1e-12);
        let short = CallMeasures { overlap: TimeDelta::from_seconds(4), ..call(1) };
        assert_eq!(CityFigures::of([&short]).calls, 0);
    }
}
