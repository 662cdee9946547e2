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
const BIN_NS: u64 = 20_000_000;

/// Names of files that come with recordings and are none.
const NO_RECORDINGS: [&str; 5] = ["readme", "license", "licence", "copying", "makefile"];

/// Recorded links, of which scenarios are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Recordings {
    windows: Vec<RecordedWindow>,
    /// Windows that were left out.
    slow: usize,
    digest: String,
    flags: String,
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
        let scaled = scale.to_bits() != 1.0_f64.to_bits();
        let scaled = if scaled { format!(" --scale {scale}") } else { String::new() };
        let flags = if up { " --uplink" } else { "" }.to_owned() + &scaled;
        Ok(Self { windows, slow, digest, flags })
    }

    /// What distinguishes these from others, in 16 letters.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The flags with which they were read, such as ` --scale 2`; none if by default.
    pub(crate) fn flags(&self) -> &str {
        &self.flags
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
            for (at, rate) in steps {
                let (at, rate) = (seconds(at), rate.as_bps() as f64 * scale);
                match all.last_mut() {
                    Some(last) if at - last.end <= GAP => {
                        last.rates.push((at, rate));
                        last.end = at;
                    }
                    _ => all.push(Stretch { rates: vec![(at, rate)], end: at }),
                }
            }
            // The last rate holds as long as the one before.
            for stretch in &mut all {
                if let [.., (before, _), (last, _)] = stretch.rates[..] {
                    stretch.end = last + (last - before);
                }
            }
            all
        }
        Recorded::Opportunities(at) => {
            let bits = f64::from(OPPORTUNITY_BYTES * 8) * scale;
            let end = at.last().map_or(0.0, |last| seconds(*last));
            let mut bins = vec![0.0; (end / BIN).ceil() as usize];
            for moment in at {
                // An opportunity at the end of a bin belongs to it.
                let place = (moment.as_nanos().div_ceil(BIN_NS) as usize).saturating_sub(1);
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
            // Shares are known in steps of 0.1 s.
            let duration = ((self.end - from).min(WINDOW) * 10.0 + 1e-6).floor() / 10.0;
            windows.push(RecordedWindow {
                name: format!("{} from {} s", file.display(), from.round()),
                family: family.clone(),
                duration,
                rates: self.cut(from, duration),
            });
            from += duration;
        }
        windows
    }

    /// The rates of a time, from 0 on; in bins if they change more often.
    fn cut(&self, from: f64, duration: f64) -> Vec<(f64, f64)> {
        let first = self.rates.partition_point(|&(at, _)| at <= from).saturating_sub(1);
        // Less than half a millisecond before the end is the end.
        let own = self.rates.iter().skip(first).take_while(|&&(at, _)| at < from + duration - 5e-4);
        let rates: Vec<(f64, f64)> = own.map(|&(at, rate)| ((at - from).max(0.0), rate)).collect();
        let bins = (duration / BIN).ceil() as usize;
        if rates.len() <= bins + 1 {
            return rates;
        }
        let mut bits = vec![0.0; bins];
        let ends = rates.iter().skip(1).map(|&(at, _)| at).chain([duration]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::{Plan, Reference, run, share::FairShares, summary};

    fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// A rate each second that rises and falls, with an outage.
    fn table(seconds: u32) -> String {
        let rate = |second: u32| if second % 40 == 13 { 0 } else { 500 + 100 * (second % 17) };
        let lines = (0..seconds).map(|second| format!("{second},{}\n", rate(second)));
        "time_s,rate_kbps\n".to_owned() + &lines.collect::<String>()
    }

    /// One opportunity each 4 ms: 3.008 Mbit/s.
    fn opportunities(seconds: u32) -> String {
        let lines: Vec<String> = (1..=seconds * 250).map(|number| (number * 4).to_string()).collect();
        lines.join("\n")
    }

    #[test]
    fn windows_of_recordings_are_scenarios_with_the_recorded_capacity() {
        let [slow, words] = ["time_s,rate_kbps\n0,20\n10,20\n20,20\n", "words"].map(str::to_owned);
        let train = [("train/a.csv", table(400)), ("train/README.md", words)];
        let others = [("car.down", opportunities(30)), ("slow.csv", slow)];
        let folder = folder(&[train, others].concat());
        let recordings = Recordings::read(folder.path(), false, 1.0).unwrap();
        // Of 400 s: six windows of 60 s and one of 40 s, of which four count.
        let names: Vec<&str> = recordings.windows.iter().map(|own| own.name.as_str()).collect();
        let of_train = [0, 60, 180, 300].map(|from| format!("train/a.csv from {from} s"));
        assert_eq!(names[0], "car.down from 0 s");
        assert_eq!(names[1..], of_train);
        assert_eq!((recordings.windows(), recordings.slow_windows(), recordings.scenarios()), (5, 1, 30));
        let fixed = "fixed".parse().unwrap();
        for number in 0..30 {
            let drawn = recordings.draw(number).unwrap();
            let scenario = drawn.scenario(fixed).unwrap();
            let window = &recordings.windows[(number / OF_WINDOW) as usize];
            let shares = FairShares::of(&scenario);
            let bits: f64 = shares.flows[0].bits.iter().sum();
            let recorded = window.mean_from(5.0) * (window.duration - 5.0);
            assert!((bits / recorded - 1.0).abs() < 0.01, "{number}: {bits} {recorded}");
            assert!(shares.is_alone && (scenario.duration().as_seconds() - window.duration).abs() < 1e-6);
        }
        // The grid: three round-trip times with two queues each.
        let grid: Vec<f64> = (6..12).map(|number| recordings.draw(number).unwrap().rtt_ms).collect();
        assert_eq!(grid, [20.0, 20.0, 60.0, 60.0, 150.0, 150.0]);
        let texts: Vec<String> = (6..8).map(|number| recordings.draw(number).unwrap().text(fixed)).collect();
        assert_ne!(texts[0], texts[1]);
        assert_eq!(recordings.draw(30), None);
        // By hand: the opportunities of 4 ms; twice that.
        assert!((recordings.windows[0].mean_from(0.0) / 3.008e6 - 1.0).abs() < 1e-3);
        let twice = Recordings::read(folder.path(), false, 2.0).unwrap();
        assert!((twice.windows[0].mean_from(0.0) / 6.016e6 - 1.0).abs() < 1e-3);
        assert_ne!(twice.digest(), recordings.digest());
        assert_eq!([recordings.flags(), twice.flags()], ["", " --scale 2"]);
    }

    #[test]
    fn a_recording_may_end_at_any_time_and_change_at_any() {
        // An opportunity each 7 ms until 39.991 s; a rate each 50 ms; two rates within a microsecond.
        let opportunities: Vec<String> = (1..=5713).map(|number| (number * 7).to_string()).collect();
        let fine = (0..=501).map(|row| format!("{},{}\n", f64::from(row) * 0.05, 1000 + row));
        let near = "time_s,rate_kbps\n0,500\n0.0000001,900\n10,300\n10.0000002,700\n17,800\n24,900\n";
        let files = [
            ("a.down", opportunities.join("\n")),
            ("b.csv", "time_s,rate_kbps\n".to_owned() + &fine.collect::<String>()),
            ("c.csv", near.to_owned()),
        ];
        let folder = folder(&files);
        let recordings = Recordings::read(folder.path(), false, 1.0).unwrap();
        let durations: Vec<f64> = recordings.windows.iter().map(|own| own.duration).collect();
        assert_eq!(durations, [39.9, 25.1, 31.0]);
        for number in 0..recordings.scenarios() {
            let scenario = recordings.draw(number).unwrap().scenario("fixed".parse().unwrap()).unwrap();
            let window = &recordings.windows[(number / OF_WINDOW) as usize];
            let bits: f64 = FairShares::of(&scenario).flows[0].bits.iter().sum();
            let recorded = window.mean_from(5.0) * (window.duration - 5.0);
            assert!((bits / recorded - 1.0).abs() < 0.01, "{number}: {bits} {recorded}");
        }
    }

    #[test]
    fn a_recording_with_a_gap_is_two() {
        let text = table(30) + "1000,900\n1010,900\n1020,300\n1030,900\n";
        let folder = folder(&[("gap.csv", text)]);
        let recordings = Recordings::read(folder.path(), false, 1.0).unwrap();
        let own: Vec<_> = recordings.windows.iter().map(|own| (own.name.as_str(), own.duration)).collect();
        assert_eq!(own, [("gap.csv from 0 s", 30.0), ("gap.csv from 1000 s", 40.0)]);
        assert!((recordings.windows[1].mean_from(0.0) - 750e3).abs() < 1.0);
    }

    #[test]
    fn what_is_no_recording_is_named_with_file_and_line() {
        let complaint = |files: &[(&str, String)]| {
            let folder = folder(files);
            let text = Recordings::read(folder.path(), false, 1.0).unwrap_err().to_string();
            text.replace(&folder.path().display().to_string(), "DIR")
        };
        let notes = [("a.csv", table(30)), ("notes.txt", "call me\n".to_owned())];
        insta::assert_snapshot!(complaint(&notes), @r#"DIR/notes.txt:1: no column of times in "call me": name it time_s, or Timestamp (or move what is no recording out of the folder)"#);
        let short = [("a.csv", table(10))];
        insta::assert_snapshot!(complaint(&short), @"DIR: no recording of 20 s with a mean rate of 100 kbit/s, of 1 files: docs/reference/benchmark.md names the formats");
        let missing = Recordings::read(Path::new("/nowhere"), false, 1.0).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere: cannot be read"), "{missing}");
    }

    #[test]
    fn recordings_are_judged_with_the_bounds_and_by_folder() {
        let folder = folder(&[("static/a.csv", table(30)), ("car.down", opportunities(20))]);
        let recordings = Recordings::read(folder.path(), false, 1.0).unwrap();
        let mut plan = Plan::of_recordings(recordings, vec!["scream:v2".parse().unwrap()]).unwrap();
        assert_eq!(plan.runs(), 12 * 6);
        plan.references = vec![Reference::Causal];
        let result = run(&plan, Vec::new(), || false, |_| {});
        assert_eq!(result.runs.len(), 12 * 2);
        let summary = summary(&result);
        let own = &summary.controllers[0];
        assert_eq!(own.families.keys().collect::<Vec<_>>(), ["car.down", "static"]);
        // No goal of random scenarios of this name.
        let goals: Vec<&str> = own.goals.keys().copied().collect();
        assert_eq!(goals, ["collapsed_ratio", "dominated_families", "dominated_runs_ratio"]);
        let bound = summary.references[0].all.utility_mean;
        let mean = own.all.utility_mean;
        assert!(mean > 0.2 && bound > mean && bound <= 1.0, "{bound} {own:?}");
        assert!(own.worst[0].command.starts_with("giusto benchmark --recordings DIR --replay "));
        assert!(own.worst[0].recording.as_ref().unwrap().contains(" from 0 s"));
    }
}
