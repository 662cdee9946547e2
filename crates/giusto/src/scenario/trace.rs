//! Trace files of link rates.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_sim::link::rate::RateProfile;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::error::read_text;

/// Bytes per delivery opportunity: Mahimahi's manual, `mm-link(1)`.
const OPPORTUNITY_BYTES: u32 = 1504;

const COLUMNS: &str = "write lines of time_s,rate_bps, such as 12.5,3000000";

/// Where the trace files of a scenario are.
#[derive(Debug, Clone, Default)]
pub(super) struct Traces {
    /// The folder of relative names.
    pub(super) folder: PathBuf,
    /// Texts that take the place of files, by their names in the scenario.
    pub(super) given: Arc<BTreeMap<String, String>>,
    /// The texts of the files that were read, by the same names, if they are to be kept.
    pub(super) kept: Option<Arc<Mutex<BTreeMap<String, String>>>>,
}

impl Traces {
    /// The path of a file and its text.
    pub(super) fn text(&self, name: &str) -> Result<(PathBuf, Cow<'_, str>), String> {
        let path = self.folder.join(name);
        if let Some(text) = self.given.get(name) {
            return Ok((path, Cow::Borrowed(text)));
        }
        let text = read_text(&path, false)?;
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text.clone());
        }
        Ok((path, Cow::Owned(text)))
    }
}

/// Reads a file of the columns `time_s,rate_bps`. Each rate holds from its time on; the trace repeats after `period`.
pub(super) fn rates(traces: &Traces, name: &str, period: Option<TimeDelta>) -> Result<RateProfile, String> {
    let line = |text: &str, steps: &[(Timestamp, DataRate)]| {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if steps.is_empty() && fields == ["time_s", "rate_bps"] {
            return Ok(None);
        }
        let [time, rate] = fields[..] else {
            return Err(format!("expected two columns, found \"{text}\": {COLUMNS}"));
        };
        let wrong = |what: &str| format!("expected a number of at least 0, found \"{what}\": {COLUMNS}");
        let seconds = number(time).ok_or_else(|| wrong(time))?;
        let bps = number(rate).ok_or_else(|| wrong(rate))?;
        let at = Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds);
        match steps.last() {
            Some((before, _)) if at <= *before => {
                Err(format!("times must increase, found {seconds} s after {} s", before.as_seconds()))
            }
            _ => Ok(Some((at, DataRate::from_bps(bps.round() as u64)))),
        }
    };
    let (path, text) = traces.text(name)?;
    profile(&path, &text, COLUMNS, line, |steps| RateProfile::Steps { steps, period })
}

/// Reads a trace of Mahimahi: the millisecond of a delivery opportunity on each line.
pub(super) fn mahimahi(traces: &Traces, name: &str) -> Result<RateProfile, String> {
    const LINES: &str = "write one whole number of milliseconds on each line";
    let line = |text: &str, at: &[Timestamp]| {
        let millis: u64 =
            text.parse().map_err(|_| format!("expected milliseconds, found \"{text}\": {LINES}"))?;
        let moment = Timestamp::from_nanos(millis.saturating_mul(1_000_000));
        match at.last() {
            Some(before) if moment < *before => {
                let before = before.as_nanos() / 1_000_000;
                Err(format!("times must not decrease, found {millis} ms after {before} ms"))
            }
            _ => Ok(Some(moment)),
        }
    };
    let (path, text) = traces.text(name)?;
    profile(&path, &text, LINES, line, |at| RateProfile::Opportunities { at, bytes: OPPORTUNITY_BYTES })
}

/// The profile of the values that `read` finds on the lines of the file at a path, given those before; errors name the file and the line.
fn profile<T>(
    path: &Path,
    text: &str,
    layout: &str,
    read: impl Fn(&str, &[T]) -> Result<Option<T>, String>,
    make: impl FnOnce(Vec<T>) -> RateProfile,
) -> Result<RateProfile, String> {
    let at = |number: usize, what: String| format!("{}:{number}: {what}", path.display());
    let mut values = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
        if !content.is_empty() {
            values.extend(read(content, &values).map_err(|what| at(number, what))?);
        }
    }
    if values.is_empty() {
        return Err(at(1, format!("the trace is empty: {layout}")));
    }
    let profile = make(values);
    profile.check().map_err(|error| at(1, error.to_string()))?;
    Ok(profile)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
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
        let profile = rates(&keeping, name(trace.path()), None).unwrap();
        let texts = keeping.kept.unwrap().lock().unwrap().clone();
        assert_eq!(texts, BTreeMap::from([(name(trace.path()).to_owned(), "0,1e6\n".to_owned())]));
        let given = Traces { given: Arc::new(texts), ..Traces::default() };
        let path = trace.path().to_owned();
        drop(trace);
        assert_eq!(rates(&given, name(&path), None), Ok(profile));
        assert!(rates(&Traces::default(), name(&path), None).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn columns_of_time_and_rate_become_steps() {
        let trace = file("time_s,rate_bps\n0, 1e6 # at first\n\n2.5,3000000\n");
        let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds);
        let steps = vec![(at(0.0), DataRate::from_bps(1_000_000)), (at(2.5), DataRate::from_bps(3_000_000))];
        assert_eq!(
            rates(&Traces::default(), name(trace.path()), None),
            Ok(RateProfile::Steps { steps, period: None })
        );
    }

    #[test]
    fn errors_name_file_and_line() {
        let error_of = |read: fn(&str) -> Result<RateProfile, String>, text: &str| {
            let file = file(text);
            let complaint = read(name(file.path())).unwrap_err();
            complaint.replace(&file.path().display().to_string(), "FILE")
        };
        let rates: fn(&str) -> _ = |name| super::rates(&Traces::default(), name, None);
        let mahimahi: fn(&str) -> _ = |name| super::mahimahi(&Traces::default(), name);
        assert_eq!(error_of(rates, "# nothing\n"), format!("FILE:1: the trace is empty: {COLUMNS}"));
        assert_eq!(
            error_of(rates, "0,1000\n3,2000\n2,1000\n"),
            "FILE:3: times must increase, found 2 s after 3 s"
        );
        assert_eq!(
            error_of(rates, "0;1000\n"),
            format!("FILE:1: expected two columns, found \"0;1000\": {COLUMNS}")
        );
        assert!(error_of(rates, "0,1000\n1,0\n").starts_with("FILE:1: rate is 0 bit/s for ever from 1."));
        assert!(
            error_of(rates, "0,inf\n").starts_with("FILE:1: expected a number of at least 0, found \"inf\"")
        );
        assert_eq!(error_of(mahimahi, "5\n4\n"), "FILE:2: times must not decrease, found 4 ms after 5 ms");
        assert!(error_of(mahimahi, "0.5\n").starts_with("FILE:1: expected milliseconds, found \"0.5\""));
        assert!(error_of(mahimahi, "0\n").starts_with("FILE:1: it repeats after 0 ns"));
        assert!(error_of(mahimahi, "").starts_with("FILE:1: the trace is empty"));
        // It would never end.
        let endless = super::rates(&Traces::default(), "/dev/zero", None).unwrap_err();
        assert_eq!(endless, "/dev/zero: is a pipe or a device: copy it to a file first");
    }
}
