//! Averages of what cells send or receive, and their memory: a report is computed when the scheduler uses it, from what was
//! measured then.

/// Number of past measurements that are remembered. The scheduler uses the last one that has arrived.
const MEASUREMENTS: usize = 16;

/// Weight of the present millisecond in an average: about 40 ms. TS 36.213 §7.2.3 does not restrict the observation interval.
/// Chosen by us.
const WEIGHT: f32 = 1.0 / 40.0;

/// Averages in each cell over about 40 ms, remembered at each interval of measurements.
#[derive(Debug)]
pub(super) struct Averages<T> {
    interval_ms: u64,
    average: Vec<T>,
    memory: Vec<Vec<T>>,
}

impl<const N: usize> Averages<[f32; N]> {
    pub(super) fn new(cells: usize, interval_ms: u64) -> Self {
        let average = vec![[0.0; N]; cells];
        Self { interval_ms, memory: vec![average.clone(); MEASUREMENTS], average }
    }

    /// Adds the values at `ms`.
    pub(super) fn add(&mut self, ms: u64, present: &[[f32; N]]) {
        for (average, present) in self.average.iter_mut().zip(present) {
            for (average, present) in average.iter_mut().zip(present) {
                *average += WEIGHT * (present - *average);
            }
        }
        if ms.is_multiple_of(self.interval_ms) {
            let place = self.place(ms);
            if let Some(memory) = self.memory.get_mut(place) {
                memory.clone_from(&self.average);
            }
        }
    }

    /// The present averages.
    pub(super) fn present(&self) -> &[[f32; N]] {
        &self.average
    }

    /// Time of the last measurement at or before `ms`.
    pub(super) fn measured_by(&self, ms: u64) -> u64 {
        ms / self.interval_ms * self.interval_ms
    }

    /// The averages that were measured at `ms`.
    pub(super) fn at(&self, ms: u64) -> &[[f32; N]] {
        self.memory.get(self.place(ms)).map_or(&[], Vec::as_slice)
    }

    fn place(&self, ms: u64) -> usize {
        (ms / self.interval_ms) as usize % MEASUREMENTS
    }
}
