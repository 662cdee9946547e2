//! Values over time in equal windows, whose number is bounded.

use giusto_units::{TimeDelta, Timestamp};

/// Width of a window at first.
const WIDTH: TimeDelta = TimeDelta::from_millis(50);
/// When there are more windows than this, each two become one.
const MAX_WINDOWS: usize = 4096;

/// The windows of several series. All have the same width.
#[derive(Debug)]
pub(super) struct Windows {
    width: TimeDelta,
    /// The value that a rate has at the end of each window.
    pub(super) rates: Vec<Vec<Option<f64>>>,
    /// The maximum of each window.
    pub(super) delays: Vec<Option<f64>>,
    count: usize,
}

impl Windows {
    pub(super) fn new(rates: usize) -> Self {
        Self { width: WIDTH, rates: vec![Vec::new(); rates], delays: Vec::new(), count: 0 }
    }

    /// The window at `now`, which exists afterwards.
    fn place(&mut self, now: Timestamp) -> usize {
        loop {
            let width = self.width.as_nanos().max(1) as u64;
            let place = (now.as_nanos() / width) as usize;
            if place < MAX_WINDOWS {
                self.count = self.count.max(place + 1);
                return place;
            }
            self.width = self.width * 2;
            let later = |pair: &[Option<f64>]| pair.iter().rev().find_map(|value| *value);
            for rates in &mut self.rates {
                *rates = rates.chunks(2).map(later).collect();
            }
            let highest = |pair: &[Option<f64>]| pair.iter().flatten().copied().reduce(f64::max);
            self.delays = self.delays.chunks(2).map(highest).collect();
            self.count = self.count.div_ceil(2);
        }
    }

    /// From `now` on, the rate of series `series` is `bps`.
    pub(super) fn set_rate(&mut self, now: Timestamp, series: usize, bps: f64) {
        let place = self.place(now);
        let Some(rates) = self.rates.get_mut(series) else { return };
        // The value before holds until here.
        let before = rates.iter().rev().find_map(|value| *value);
        if rates.len() <= place {
            rates.resize(place + 1, before);
        }
        if let Some(rate) = rates.get_mut(place) {
            *rate = Some(bps);
        }
    }

    /// A delay at `now`, in ms.
    pub(super) fn add_delay(&mut self, now: Timestamp, ms: f64) {
        let place = self.place(now);
        if self.delays.len() <= place {
            self.delays.resize(place + 1, None);
        }
        if let Some(delay) = self.delays.get_mut(place) {
            *delay = Some(delay.map_or(ms, |delay| delay.max(ms)));
        }
    }

    /// The middle of each window in seconds. All series are as long afterwards.
    pub(super) fn finish(&mut self) -> Vec<f64> {
        let count = self.count;
        for rates in &mut self.rates {
            let last = rates.iter().rev().find_map(|value| *value);
            rates.resize(count, last);
        }
        self.delays.resize(count, None);
        let width = self.width.as_seconds();
        (0..count).map(|place| (place as f64 + 0.5) * width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_and_keeps_its_peaks_and_its_end() {
        let mut windows = Windows::new(1);
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        windows.set_rate(at(10), 0, 5.0);
        for ms in (0..400_000).step_by(50) {
            windows.add_delay(at(ms), if ms == 1000 { 99.0 } else { 1.0 });
        }
        windows.set_rate(at(399_999), 0, 7.0);
        let times = windows.finish();
        assert_eq!((times.len(), windows.rates[0].len(), windows.delays.len()), (4000, 4000, 4000));
        assert_eq!(windows.rates[0].first(), Some(&Some(5.0)));
        assert_eq!((windows.rates[0][3998], windows.rates[0][3999]), (Some(5.0), Some(7.0)));
        assert_eq!(windows.delays[10], Some(99.0));
        assert!((times[1] - 0.15).abs() < 1e-9);
    }
}
