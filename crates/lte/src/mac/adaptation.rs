//! Link adaptation: channel reports, and the choice of modulation and coding.

use crate::{carrier::MAX_GROUPS, radio::link::TARGET_BLOCK_ERROR};

/// Change of the outer loop's offset in dB when the first transmission of a block fails. Chosen by us; the usual range is
/// 0.1 to 1 dB.
const STEP_DOWN_DB: f32 = 0.5;

/// Limits of the outer loop's offset in dB. Chosen by us.
const OFFSET_RANGE_DB: (f32, f32) = (-15.0, 5.0);

/// The outer loop: an offset that is subtracted from what the receiver reports, so that a tenth of the first transmissions fails
/// whatever the error of the reports (Sampath et al., "On setting reverse link target SIR in a CDMA system", VTC 1997, eq. 1).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OuterLoop {
    offset_db: f32,
}

impl OuterLoop {
    /// The offset in dB to add to the reported SINR.
    pub fn offset_db(self) -> f32 {
        self.offset_db
    }

    /// Counts the result of a first transmission.
    pub fn on_result(&mut self, decoded: bool) {
        let step = if decoded {
            STEP_DOWN_DB * TARGET_BLOCK_ERROR / (1.0 - TARGET_BLOCK_ERROR)
        } else {
            -STEP_DOWN_DB
        };
        self.offset_db = (self.offset_db + step).clamp(OFFSET_RANGE_DB.0, OFFSET_RANGE_DB.1);
    }
}

giusto_units::defaults! {
    /// A channel report: for each resource block group a channel quality indicator (CQI, 0 to 15) of one stream, and of each of two.
    #[derive(Debug, Clone, Copy)]
    pub struct Report {
        /// One stream.
        pub one: [u8; MAX_GROUPS] = [1; MAX_GROUPS],
        /// Two streams.
        pub two: [[u8; 2]; MAX_GROUPS] = [[0; 2]; MAX_GROUPS],
        /// Whether two streams carry more than one (the rank indicator).
        pub rank: u8 = 1,
        /// What it permits in each group, of all streams together: bits per resource element (downlink) or bits (uplink).
        pub rates: [f32; MAX_GROUPS] = [0.0; MAX_GROUPS],
    }
}

impl Report {
    /// Replaces the qualities in the first `groups` groups by what is to be expected of them.
    pub fn predict(&mut self, prediction: Prediction, groups: usize) {
        prediction.apply(self.one.iter_mut().take(groups));
        if self.rank == 2 {
            for stream in 0..2 {
                prediction.apply(self.two.iter_mut().take(groups).filter_map(|two| two.get_mut(stream)));
            }
        }
    }

    /// The CQI of stream `stream` in group `group`.
    pub fn quality(&self, group: usize, stream: usize) -> u8 {
        if self.rank == 2 {
            self.two.get(group).and_then(|streams| streams.get(stream)).copied().unwrap_or(0)
        } else {
            self.one.get(group).copied().unwrap_or(0)
        }
    }
}

/// Correlation of the power below which a report is older than the coherence time: with this definition it is 9/(16π f) (Rappaport,
/// "Wireless Communications", 2nd ed. 2002, §5.4.3, recalled). Others take the correlation of the amplitude.
const COHERENT: f64 = 0.5;

/// What a report still tells about a group when it is used.
///
/// The power of a channel with Rayleigh fading and the largest Doppler shift f has the autocorrelation J0(2π f t)² (Jakes,
/// "Microwave mobile communications", 1974, §1.3). So the best linear prediction of a group lies that far from the mean of all groups
/// towards its own report. The base station is taken to know the Doppler shift, which it can measure in the uplink.
///
/// Once a report is older than the coherence time, it tells nothing but the mean: the base station no longer selects groups, it
/// spreads a block over many. What little it could gain by a selection is less than what a block gains by fading differently in each
/// of its groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    remaining: f32,
}

impl Prediction {
    /// For reports of the age `age_ms` and users with the Doppler shift `doppler_hz`.
    pub fn new(doppler_hz: f64, age_ms: f64) -> Self {
        let amplitude = libm::j0(2.0 * std::f64::consts::PI * doppler_hz * age_ms / 1000.0);
        let power = amplitude * amplitude;
        Self { remaining: if power < COHERENT { 0.0 } else { power as f32 } }
    }

    /// Replaces the qualities of one stream in all groups.
    fn apply<'a>(self, qualities: impl Iterator<Item = &'a mut u8>) {
        let mut all: [Option<&mut u8>; MAX_GROUPS] = [const { None }; MAX_GROUPS];
        let (mut sum, mut count) = (0, 0_u16);
        for (slot, quality) in all.iter_mut().zip(qualities) {
            (sum, count) = (sum + u16::from(*quality), count + 1);
            *slot = Some(quality);
        }
        let mean = f32::from(sum) / f32::from(count.max(1));
        for quality in all.into_iter().flatten() {
            *quality = (mean + self.remaining * (f32::from(*quality) - mean)).round() as u8;
        }
    }
}

/// Who has the highest metric in each group of resource blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Best {
    /// The highest metric.
    pub(super) metric: [f32; MAX_GROUPS],
    /// The first who has it; `u32::MAX` where nobody exceeds the least.
    pub(super) place: [u32; MAX_GROUPS],
}

impl Best {
    /// Finds the highest metric above `least` in each group: `of` are places with the rates in all groups and a weight, whose product
    /// is the metric.
    pub(super) fn new<'a>(least: f32, of: impl Iterator<Item = (usize, &'a [f32; MAX_GROUPS], f32)>) -> Self {
        let mut best = Self { metric: [least; MAX_GROUPS], place: [u32::MAX; MAX_GROUPS] };
        for (place, rates, weight) in of {
            for ((metric, at), rate) in best.metric.iter_mut().zip(&mut best.place).zip(rates) {
                // Without a branch, so that several groups are compared at once.
                let higher = rate * weight > *metric;
                *metric = if higher { rate * weight } else { *metric };
                *at = if higher { place as u32 } else { *at };
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_report_tells_the_mean_of_all_groups() {
        let report = || Report {
            one: std::array::from_fn(|group| [5, 11][group % 2]),
            two: std::array::from_fn(|group| [[2, 9], [6, 1]][group % 2]),
            rank: 2,
            ..Report::default()
        };
        // 3 km/h at 2 GHz: J0(0.28)² is 0.96. 11 km/h: J0(1.02)² is 0.56. The coherence time of 8 ms belongs to 12 km/h.
        let predicted = |doppler_hz| {
            let mut report = report();
            report.predict(Prediction::new(doppler_hz, 8.0), 10);
            let Report { one, two, .. } = report;
            [one[0], one[1], two[0][0], two[0][1], two[1][0], one[10]]
        };
        assert_eq!(predicted(5.56), [5, 11, 2, 9, 6, 5]);
        assert_eq!(predicted(20.4), [6, 10, 3, 7, 5, 5]);
        for doppler_hz in [22.9, 55.6, 222.0] {
            assert_eq!(predicted(doppler_hz), [8, 8, 4, 5, 4, 5], "the groups beyond are not touched");
        }
    }

    #[test]
    fn the_offset_is_at_rest_when_a_tenth_fails() {
        let mut outer = OuterLoop::default();
        for block in 0..1000 {
            outer.on_result(block % 10 != 0);
        }
        assert!(outer.offset_db().abs() < 0.6, "{}", outer.offset_db());
        // Twice as many failures as aimed at lower it, no failures raise it, to the limits.
        for block in 0..1000 {
            outer.on_result(block % 5 != 0);
        }
        assert!((-15.0..-10.0).contains(&outer.offset_db()), "{}", outer.offset_db());
        for _ in 0..1000 {
            outer.on_result(true);
        }
        assert!((outer.offset_db() - OFFSET_RANGE_DB.1).abs() < 1e-6);
    }
}
