//! Recorded links in a folder, of which scenarios are made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use giusto_units::Timestamp;
use sha2::{Digest, Sha256};

use super::{
    family::{Drawn, OF_WINDOW, RecordedWindow, of_recording},
    share::START_UP,
};
use crate::{
    scenario::{
        error::read_text,
        trace::{Direction, OPPORTUNITY_BYTES, Recorded, recorded},
    },
    whole_file::unreadable,
};

/// Length of a window, and the least, s.
const WINDOW: f64 = 60.0;
const SHORTEST: f64 = 20.0;

/// A recording that says nothing for longer is two, s.
const GAP: f64 = 10.0;

/// Windows of one recording, evenly spread.
const MOST_WINDOWS: usize = 4;

/// A window with a lower mean carries no call, bit/s: the least capacity of the random scenarios.
const LEAST_MEAN: f64 = 100e3;

/// Width of the bins of opportunities, and of rates that change more often, s.
const BIN: f64 = 0.02;

/// Names of files that come with recordings and are none.
const NO_RECORDINGS: [&str; 5] = ["readme", "license", "licence", "copying", "makefile"];

/// Recorded links, of which scenarios are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Recordings {
    windows: Vec<RecordedWindow>,
    /// Windows that were left out.
    slow: usize,
    digest: String,
}

/// Recordings that cannot be used. The texts name file, line and fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingsError {
    /// A file cannot be read, or is no recording.
    #[error("{0}")]
    File(String),
    /// There is no window.
    #[error(
        "{folder}: no recording of {SHORTEST} s with a mean rate of 100 kbit/s, of {files} files: docs/reference/benchmark.md names the formats"
    )]
    Nothing {
        /// The folder.
        folder: String,
        /// Number of files.
        files: usize,
    },
}

impl Recordings {
    /// Reads all files in `folder` and the folders in it. Those of the uplink count if `up`, where a recording has both directions; each
    /// rate is multiplied by `scale`.
    ///
    /// # Errors
    ///
    /// [`RecordingsError`]: a file is no recording, or none is long enough.
    pub fn read(folder: &Path, up: bool, scale: f64) -> Result<Self, RecordingsError> {
        let direction = if up { Direction::Up } else { Direction::Down };
        let mut files = Vec::new();
        collect(folder, &mut files).map_err(RecordingsError::File)?;
        let (mut windows, mut slow) = (Vec::new(), 0);
        for file in &files {
            let text = read_text(file, false).map_err(RecordingsError::File)?;
            let recorded = recorded(file, &text, direction).map_err(|error| {
                RecordingsError::File(format!("{error} (or move what is no recording out of the folder)"))
            })?;
            let relative = file.strip_prefix(folder).unwrap_or(file);
            let own: Vec<RecordedWindow> =
                stretches(recorded, scale).iter().flat_map(|stretch| stretch.windows(relative)).collect();
            let all = own.len();
            let own: Vec<RecordedWindow> = own.into_iter().filter(is_fast).collect();
            slow += all - own.len();
            windows.extend(spread(own));
        }
        if windows.is_empty() {
            let folder = folder.display().to_string();
            return Err(RecordingsError::Nothing { folder, files: files.len() });
        }
        let mut digest = Sha256::new();
        for window in &windows {
            digest.update(format!("{} {} {:?}\n", window.name, window.duration, window.rates));
        }
        let bytes = digest.finalize();
        let start: [u8; 8] = std::array::from_fn(|place| bytes.get(place).copied().unwrap_or(0));
        let digest = format!("{:016x}", u64::from_be_bytes(start));
        Ok(Self { windows, slow, digest })
    }

    /// What distinguishes these from others, in 16 letters.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Number of windows that were left out, because no call fits into their rate.
    pub fn slow_windows(&self) -> usize {
        self.slow
    }

    /// Number of scenarios.
    pub(super) fn scenarios(&self) -> u64 {
        self.windows.len() as u64 * OF_WINDOW
    }

    /// The scenario of this number, if there is one.
    pub(super) fn draw(&self, number: u64) -> Option<Drawn> {
        let place = usize::try_from(number / OF_WINDOW).ok()?;
        self.windows.get(place).map(|window| of_recording(number, window))
    }
}

fn is_fast(window: &RecordedWindow) -> bool {
    window.mean_from(0.0) >= LEAST_MEAN && window.mean_from(START_UP.as_seconds()) >= LEAST_MEAN
}

/// At most [`MOST_WINDOWS`] of these, evenly spread.
fn spread(windows: Vec<RecordedWindow>) -> Vec<RecordedWindow> {
    let (all, most) = (windows.len(), MOST_WINDOWS.min(windows.len()));
    let places: Vec<usize> = (0..most).map(|own| own * all / most.max(1)).collect();
    windows.into_iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, own)| own).collect()
}

/// The files in a folder and its folders, by name.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| unreadable(folder, &error))?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.starts_with('.') || NO_RECORDINGS.iter().any(|own| name.starts_with(own)) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// A part of a recording without a gap: times in s and rates in bit/s, and its end.
#[derive(Debug, Clone, PartialEq)]
struct Stretch {
    rates: Vec<(f64, f64)>,
    end: f64,
}

fn seconds(at: Timestamp) -> f64 {
    (at - Timestamp::ZERO).as_seconds()
}

fn stretches(recorded: Recorded, scale: f64) -> Vec<Stretch> {
    match recorded {
        Recorded::Rates(steps) => {
            let mut all: Vec<Stretch> = Vec::new();
            let mut width = 1.0;
            for (at, rate) in steps {
                let (at, rate) = (seconds(at), rate.as_bps() as f64 * scale);
                match all.last_mut() {
                    Some(last) if at - last.end <= GAP => {
                        let before = last.rates.last().map_or(at, |&(before, _)| before);
                        width = at - before;
                        last.rates.push((at, rate));
                        last.end = at;
                    }
                    _ => all.push(Stretch { rates: vec![(at, rate)], end: at }),
                }
            }
            // The last rate holds as long as the one before.
            for stretch in &mut all {
                stretch.end += width.min(GAP);
            }
            all
        }
        Recorded::Opportunities(at) => {
            let bits = f64::from(OPPORTUNITY_BYTES * 8) * scale;
            let end = at.last().map_or(0.0, |last| seconds(*last));
            let mut bins = vec![0.0; (end / BIN).ceil() as usize];
            for moment in at {
                // An opportunity at the end of a bin belongs to it.
                let place = ((seconds(moment) / BIN).ceil() as usize).saturating_sub(1);
                if let Some(bin) = bins.get_mut(place) {
                    *bin += bits / BIN;
                }
            }
            let rates = bins.into_iter().enumerate().map(|(place, rate)| (place as f64 * BIN, rate));
            vec![Stretch { rates: rates.collect(), end }]
        }
    }
}

impl Stretch {
    /// Its windows: whole ones from its start on, and the rest if it is not too short.
    fn windows(&self, file: &Path) -> Vec<RecordedWindow> {
        let mut components = file.components().map(|own| own.as_os_str().to_string_lossy().into_owned());
        let family = components.next().unwrap_or_default();
        let begin = self.rates.first().map_or(0.0, |&(at, _)| at);
        let mut windows = Vec::new();
        let mut from = begin;
        while self.end - from >= SHORTEST {
            let to = (from + WINDOW).min(self.end);
            windows.push(RecordedWindow {
                name: format!("{} from {} s", file.display(), from.round()),
                family: family.clone(),
                // Shares are known in steps of 0.1 s.
                duration: ((to - from) * 10.0 + 1e-6).floor() / 10.0,
                rates: self.cut(from, to),
            });
            from = to;
        }
        windows
    }

    /// The rates between two times, from 0 on; in bins if they change more often.
    fn cut(&self, from: f64, to: f64) -> Vec<(f64, f64)> {
        let first = self.rates.partition_point(|&(at, _)| at <= from).saturating_sub(1);
        let own = self.rates.iter().skip(first).take_while(|&&(at, _)| at < to);
        let rates: Vec<(f64, f64)> = own.map(|&(at, rate)| ((at - from).max(0.0), rate)).collect();
        let bins = ((to - from) / BIN).ceil() as usize;
        if rates.len() <= bins + 1 {
            return rates;
        }
        let mut bits = vec![0.0; bins];
        let ends = rates.iter().skip(1).map(|&(at, _)| at).chain([to - from]);
        for (&(start, rate), end) in rates.iter().zip(ends) {
            let mut now = start;
            while now < end {
                let place = (now / BIN + 1e-9).floor() as usize;
                let until = end.min((place + 1) as f64 * BIN);
                if let Some(bin) = bits.get_mut(place) {
                    *bin += rate * (until - now);
                }
                now = until.max(now + 1e-9);
            }
        }
        bits.into_iter().enumerate().map(|(place, bits)| (place as f64 * BIN, bits / BIN)).collect()
    }
}
