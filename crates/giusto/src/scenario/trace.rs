//! Trace files of link rates.

mod table;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_sim::link::rate::RateProfile;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use self::table::COLUMNS;
pub(crate) use self::table::Direction;
use super::error::read_text;

/// Bytes per delivery opportunity: Mahimahi's manual, `mm-link(1)`.
pub(crate) const OPPORTUNITY_BYTES: u32 = 1504;

/// Where the trace files of a scenario are.
#[derive(Debug, Clone, Default)]
pub(super) struct Traces {
    /// The folder of relative names.
    pub(super) folder: PathBuf,
    /// Texts that take the place of files, by their names in the scenario.
    pub(super) given: Arc<BTreeMap<String, String>>,
    /// Gives texts that the program carries, by the same names.
    pub(super) carried: Option<fn(&str) -> Option<&'static str>>,
    /// The texts of the files that were read, by the same names, if they are to be kept.
    pub(super) kept: Option<Arc<Mutex<BTreeMap<String, String>>>>,
}

impl Traces {
    /// The path of a file and its text.
    pub(super) fn text(&self, name: &str) -> Result<(PathBuf, Cow<'_, str>), String> {
        let path = self.folder.join(name);
        let carried = || self.carried.and_then(|carried| carried(name));
        let text = match self.given.get(name).map(String::as_str).or_else(carried) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(read_text(&path, false)?),
        };
        if let Some(kept) = &self.kept {
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.to_owned(), text.clone().into_owned());
        }
        Ok((path, text))
    }
}

giusto_units::defaults! {
    /// How a trace is read.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Reading {
        /// The direction of a recording of both.
        pub(crate) direction: Direction = Direction::Down,
        /// Factor of its rates, above 0.
        pub(crate) scale: f64 = 1.0,
    }
}

/// What a file of recorded rates holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Recorded {
    /// Rates, each from its time on.
    Rates(Vec<(Timestamp, DataRate)>),
    /// Delivery opportunities of Mahimahi.
    Opportunities(Vec<Timestamp>),
}

/// Reads a recording of any format that its content shows: opportunities of Mahimahi, or a table of times and rates. Errors name `path`
/// and the line.
pub(crate) fn recorded(path: &Path, text: &str, direction: Direction) -> Result<Recorded, String> {
    let is_number = |line: &str| line.trim().bytes().all(|byte| byte.is_ascii_digit());
    if content(text).next().is_some_and(|(_, line)| is_number(line)) {
        return opportunities(path, text).map(Recorded::Opportunities);
    }
    let steps = table::read(content(text), direction);
    let steps = steps.map_err(|(number, what)| format!("{}:{number}: {what}", path.display()))?;
    filled(path, steps, COLUMNS).map(Recorded::Rates)
}

/// Reads a recording as a link's rate; that of a table repeats after `period`.
pub(super) fn rates(
    traces: &Traces,
    name: &str,
    period: Option<TimeDelta>,
    reading: Reading,
) -> Result<RateProfile, String> {
    let (path, text) = traces.text(name)?;
    let profile = match recorded(&path, &text, reading.direction)? {
        Recorded::Rates(steps) => RateProfile::Steps { steps, period },
        Recorded::Opportunities(_) if period.is_some() => return Err(OWN_PERIOD.to_owned()),
        Recorded::Opportunities(at) => RateProfile::Opportunities { at, bytes: OPPORTUNITY_BYTES },
    };
    checked(&path, scaled(profile, reading.scale))
}

/// A period beside a trace that has one.
pub(super) const OWN_PERIOD: &str = "a trace of Mahimahi has its own period: remove period";

/// Reads a trace of Mahimahi: the millisecond of a delivery opportunity on each line.
pub(super) fn mahimahi(traces: &Traces, name: &str, scale: f64) -> Result<RateProfile, String> {
    let (path, text) = traces.text(name)?;
    let at = opportunities(&path, &text)?;
    checked(&path, scaled(RateProfile::Opportunities { at, bytes: OPPORTUNITY_BYTES }, scale))
}

/// A profile whose rates are multiplied by `factor`.
pub(super) fn scaled(profile: RateProfile, factor: f64) -> RateProfile {
    match profile {
        RateProfile::Steps { steps, period } => {
            let own = |(at, rate): (Timestamp, DataRate)| {
                (at, DataRate::from_bps((rate.as_bps() as f64 * factor).round() as u64))
            };
            RateProfile::Steps { steps: steps.into_iter().map(own).collect(), period }
        }
        RateProfile::Opportunities { at, bytes } => opportunities_of(at, f64::from(bytes) * factor),
        other => other,
    }
}

/// Largest deviation of a scaled rate.
const TOLERANCE: f64 = 1e-3;

/// Most opportunities of a period that is repeated for the deviation.
const MOST_OPPORTUNITIES: usize = 1_000_000;

/// Opportunities at `at` of this mean size: of a whole number of bytes if that is close enough; otherwise of more bytes, and evenly
/// fewer of them, in as many periods as needed.
fn opportunities_of(at: Vec<Timestamp>, bytes: f64) -> RateProfile {
    let rounded = bytes.round();
    if (rounded - bytes).abs() <= bytes * TOLERANCE || at.is_empty() {
        return RateProfile::Opportunities { at, bytes: rounded as u32 };
    }
    let share = bytes / bytes.ceil();
    // Half of an opportunity too many or too few is within half of the tolerance.
    let periods = (1.0 / (TOLERANCE * share * at.len() as f64)).ceil();
    let periods = (periods as usize).clamp(1, (MOST_OPPORTUNITIES / at.len()).max(1));
    let all = at.len() * periods;
    let kept = ((all as f64 * share).round() as usize).max(1);
    let period = at.last().map_or(0, |last| last.as_nanos());
    let each = (0..periods as u64).flat_map(|round| {
        at.iter()
            .map(move |at| Timestamp::from_nanos(at.as_nanos().saturating_add(round.saturating_mul(period))))
    });
    // The last one is kept: the period ends with it.
    let before = |number: usize| number as u128 * kept as u128 / all as u128;
    let at = (0..all).zip(each).filter(|&(number, _)| before(number + 1) > before(number));
    RateProfile::Opportunities { at: at.map(|(_, at)| at).collect(), bytes: bytes.ceil() as u32 }
}

/// The longest time of a trace of Mahimahi, in ms: a week. Times since 1970 are later.
const LONGEST_MS: u64 = 604_800_000;

fn opportunities(path: &Path, text: &str) -> Result<Vec<Timestamp>, String> {
    const LINES: &str = "write one whole number of milliseconds on each line";
    let mut at: Vec<Timestamp> = Vec::new();
    for (number, line) in content(text) {
        let wrong = |what: String| format!("{}:{number}: {what}", path.display());
        let millis: u64 = line
            .trim()
            .parse()
            .map_err(|_| wrong(format!("expected milliseconds, found \"{line}\": {LINES}")))?;
        if millis > LONGEST_MS {
            return Err(wrong(format!("{millis} ms is more than a week: count from the start of the trace")));
        }
        let moment = Timestamp::from_nanos(millis * 1_000_000);
        if let Some(before) = at.last().filter(|before| moment < **before) {
            let before = before.as_nanos() / 1_000_000;
            return Err(wrong(format!("times must not decrease, found {millis} ms after {before} ms")));
        }
        at.push(moment);
    }
    filled(path, at, LINES)
}

/// The lines of a file that are neither empty nor comments, with their numbers.
fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(without_comment)).filter(|(_, line)| !line.trim().is_empty())
}

/// A line without a comment; tabs at its ends separate columns.
fn without_comment(line: &str) -> &str {
    let line = line.split('#').next().unwrap_or_default();
    line.trim_start_matches('\u{feff}').trim_matches([' ', '\r'])
}

fn filled<T>(path: &Path, values: Vec<T>, layout: &str) -> Result<Vec<T>, String> {
    if values.is_empty() {
        return Err(format!("{}:1: the trace is empty: {layout}", path.display()));
    }
    Ok(values)
}

fn checked(path: &Path, profile: RateProfile) -> Result<RateProfile, String> {
    profile.check().map_err(|error| format!("{}:1: {error}", path.display()))?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn name(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn texts_that_are_given_take_the_place_of_files_and_those_of_files_are_kept() {
        let trace = file("0,1e6\n");
        let keeping = Traces { kept: Some(Arc::default()), ..Traces::default() };
        let profile = rates(&keeping, name(trace.path()), None, Reading::default()).unwrap();
        let texts = keeping.kept.unwrap().lock().unwrap().clone();
        assert_eq!(texts, BTreeMap::from([(name(trace.path()).to_owned(), "0,1e6\n".to_owned())]));
        let given = Traces { given: Arc::new(texts), ..Traces::default() };
        let path = trace.path().to_owned();
        drop(trace);
        assert_eq!(rates(&given, name(&path), None, Reading::default()), Ok(profile));
        let error = rates(&Traces::default(), name(&path), None, Reading::default()).unwrap_err();
        assert!(error.contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_trace_shows_by_its_content_what_it_is_and_is_scaled() {
        let read = |text: &str, scale| {
            let file = file(text);
            rates(&Traces::default(), name(file.path()), None, Reading { scale, ..Reading::default() })
        };
        let at = [5, 5, 9].map(|millis| Timestamp::from_nanos(millis * 1_000_000)).to_vec();
        let opportunities = |bytes| Ok(RateProfile::Opportunities { at: at.clone(), bytes });
        assert_eq!(read("5\n5\n9\n", 1.0), opportunities(1504));
        assert_eq!(read("5\n5\n9\n", 0.25), opportunities(376));
        assert_eq!(read("5 \n5\t\n 9\t \n", 1.0), opportunities(1504));
        let steps = |rates: [u64; 2]| {
            let at = [Timestamp::ZERO, Timestamp::ZERO + TimeDelta::from_seconds(1)];
            let steps = at.into_iter().zip(rates.map(DataRate::from_bps)).collect();
            Ok(RateProfile::Steps { steps, period: None })
        };
        assert_eq!(read("time_s;rate_kbps\n0;100\n1;3000\n", 1.0), steps([100_000, 3_000_000]));
        let commented = "time_s,rate_bps\n0, 1e6 # at first\n\n1,3000000\n";
        assert_eq!(read(commented, 1.0), steps([1_000_000, 3_000_000]));
        assert_eq!(read("time_s;rate_kbps\n0;100\n1;3000\n", 2.5), steps([250_000, 7_500_000]));
        let file = file("1\n2\n");
        let period = Some(TimeDelta::from_seconds(1));
        let complaint = rates(&Traces::default(), name(file.path()), period, Reading::default());
        assert_eq!(complaint, Err(OWN_PERIOD.to_owned()));
    }

    #[test]
    fn a_scale_holds_to_a_thousandth() {
        let at: Vec<Timestamp> =
            [3, 7, 7, 12].map(|millis| Timestamp::from_nanos(millis * 1_000_000)).to_vec();
        let plain = RateProfile::Opportunities { at, bytes: OPPORTUNITY_BYTES };
        let mean = |profile: &RateProfile| {
            profile.check().unwrap();
            let RateProfile::Opportunities { at, bytes } = profile else { panic!("{profile:?}") };
            let period = at.last().unwrap().as_nanos();
            assert!(period.is_multiple_of(12_000_000) && at.is_sorted(), "{period}");
            at.len() as f64 * f64::from(*bytes) / period as f64
        };
        for scale in [1e-5, 0.001, 0.0015, 0.1, 1.0 / 3.0, 0.77, 1.0, 2.5, 1000.0] {
            let found = mean(&scaled(plain.clone(), scale)) / mean(&plain) / scale;
            assert!((found - 1.0).abs() <= 0.001, "{scale}: {found}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let error_of = |read: fn(&str) -> Result<RateProfile, String>, text: &str| {
            let file = file(text);
            let complaint = read(name(file.path())).unwrap_err();
            complaint.replace(&file.path().display().to_string(), "FILE")
        };
        let rates: fn(&str) -> _ = |name| super::rates(&Traces::default(), name, None, Reading::default());
        let mahimahi: fn(&str) -> _ = |name| super::mahimahi(&Traces::default(), name, 1.0);
        let columns = format!("FILE:1: expected two columns, found \"0,1000,2\": {COLUMNS}");
        for (read, text, expected) in [
            (rates, "# nothing\n", "FILE:1: the trace is empty: "),
            (rates, "0,1000\n3,2000\n2,1000\n", "FILE:3: times must increase, found 2 s after 3 s"),
            (rates, "0,1000,2\n", &columns),
            (rates, "0,1000\n1,0\n", "FILE:1: rate is 0 bit/s for ever from 1."),
            (rates, "0,inf\n", "FILE:1: expected a number of at least 0, found \"inf\""),
            (mahimahi, "5\n4\n", "FILE:2: times must not decrease, found 4 ms after 5 ms"),
            (mahimahi, "0.5\n", "FILE:1: expected milliseconds, found \"0.5\""),
            (
                mahimahi,
                "604800000\n604800001\n",
                "FILE:2: 604800001 ms is more than a week: count from the start",
            ),
            (rates, "1600000000000\n", "FILE:1: 1600000000000 ms is more than a week: count from the start"),
            (mahimahi, "0\n", "FILE:1: it repeats after 0 ns"),
            (mahimahi, "", "FILE:1: the trace is empty"),
        ] {
            let error = error_of(read, text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        // It would never end.
        let endless = super::rates(&Traces::default(), "/dev/zero", None, Reading::default()).unwrap_err();
        assert_eq!(endless, "/dev/zero: is a pipe or a device: copy it to a file first");
    }
}
