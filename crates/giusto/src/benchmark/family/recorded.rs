//! Scenarios of recorded links: each window of a recording with several round-trip times and queues.

use sha2::{Digest, Sha256};

use super::{
    super::{
        VERSION,
        draw::{rate, steps, time},
    },
    CAPACITY, Call, Drawn, Encoder, JUDGED, Path,
};

/// Base round-trip times and queues in time at the mean rate, s: each window has a scenario of each pair.
const RTT: [f64; 3] = [0.02, 0.06, 0.15];
const QUEUE: [f64; 2] = [0.1, 1.0];

/// The number of scenarios of a window.
pub(in crate::benchmark) const OF_WINDOW: u64 = (RTT.len() * QUEUE.len()) as u64;

/// A part of a recording.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::benchmark) struct RecordedWindow {
    /// The file, and where in it the window begins.
    pub(in crate::benchmark) name: String,
    /// What it belongs to.
    pub(in crate::benchmark) family: String,
    /// Length, s.
    pub(in crate::benchmark) duration: f64,
    /// Times in s and rates in bit/s from them on; the first time is 0.
    pub(in crate::benchmark) rates: Vec<(f64, f64)>,
}

impl RecordedWindow {
    /// The mean rate from a time on, bit/s.
    pub(in crate::benchmark) fn mean_from(&self, from: f64) -> f64 {
        self.bits(from, self.duration) / (self.duration - from).max(1e-3)
    }

    /// The bits between two times.
    fn bits(&self, from: f64, to: f64) -> f64 {
        let ends = self.rates.iter().skip(1).map(|&(at, _)| at).chain([self.duration]);
        let each = self.rates.iter().zip(ends);
        each.map(|(&(start, rate), end)| rate * (end.min(to) - start.max(from)).max(0.0)).sum()
    }

    /// The maximum over a second.
    fn peak(&self) -> f64 {
        let seconds = 0..self.duration.floor() as u32;
        seconds.map(|second| self.bits(f64::from(second), f64::from(second) + 1.0)).fold(0.0, f64::max)
    }
}

/// Scenario `number`: of window number / 6 and its grid.
pub(in crate::benchmark) fn of_recording(number: u64, window: &RecordedWindow) -> Drawn {
    let place = (number % OF_WINDOW) as usize;
    let pick = |values: &[f64], place: usize| values.get(place % values.len()).copied().unwrap_or_default();
    let (rtt, queue) = (pick(&RTT, place / QUEUE.len()), pick(&QUEUE, place));
    let capacity = window.mean_from(0.0);
    let mut path = Path::plain(capacity, rtt, queue);
    let written = |bps: f64| if bps < 1.0 { "\"0\"".to_owned() } else { rate(bps) };
    let mut rates: Vec<(f64, String)> = Vec::new();
    for &(at, bps) in &window.rates {
        let text = written(bps);
        // Of rates within a microsecond the last counts.
        if rates.last().is_some_and(|&(before, _)| time(before) == time(at)) {
            rates.pop();
        }
        if rates.last().is_none_or(|(_, before)| *before != text) {
            rates.push((at, text));
        }
    }
    // An outage must end, if only after the run.
    rates.push((window.duration, rate(capacity)));
    path.rate = steps(rates);
    path.decide();
    let call = Call { share: capacity, peak: window.peak().min(CAPACITY.1), ..Call::new(JUDGED) };
    let flow = Encoder::plain().text(&call);
    let path = path.text();
    // It depends on the window and its place in the grid alone.
    let digest = Sha256::digest(format!("giusto benchmark {VERSION}\n{path}"));
    let start: [u8; 8] = std::array::from_fn(|place| digest.get(place).copied().unwrap_or(0));
    let seed = u64::from_be_bytes(start) >> 1;
    let (rtt_ms, queue_ms) = (rtt * 1e3, queue * 1e3);
    let title = format!("{}, RTT {rtt_ms} ms, queue {queue_ms} ms", window.name);
    let text = format!(
        "# giusto benchmark, version {VERSION}: {title:?}\nname = \"recording {number}\"\nduration = {}\nseed = {seed}\n\n{path}{flow}",
        time(window.duration),
    );
    Drawn {
        seed: String::new(),
        number,
        family: window.family.clone(),
        recording: Some(window.name.clone()),
        change_s: None,
        change_ratio: None,
        rtt_ms,
        rival: None,
        random_loss: None,
        text,
    }
}
