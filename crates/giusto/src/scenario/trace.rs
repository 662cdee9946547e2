//! Trace files of link rates.

use std::{fs, path::Path};

use giusto_sim::link::rate::RateProfile;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::error::unreadable;

/// Bytes per delivery opportunity: Mahimahi's manual, `mm-link(1)`.
const OPPORTUNITY_BYTES: u32 = 1504;

const COLUMNS: &str = "write lines of time_s,rate_bps, such as 12.5,3000000";

/// Reads a file of the columns `time_s,rate_bps`. Each rate holds from its time on; the trace repeats after `period`.
pub(super) fn rates(path: &Path, period: Option<TimeDelta>) -> Result<RateProfile, String> {
    let mut steps: Vec<(Timestamp, DataRate)> = Vec::new();
    each_line(path, |text| {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if steps.is_empty() && fields == ["time_s", "rate_bps"] {
            return Ok(());
        }
        let [time, rate] = fields[..] else {
            return Err(format!("expected two columns, found \"{text}\": {COLUMNS}"));
        };
        let wrong = |what: &str| format!("expected a number of at least 0, found \"{what}\": {COLUMNS}");
        let seconds = number(time).ok_or_else(|| wrong(time))?;
        let bps = number(rate).ok_or_else(|| wrong(rate))?;
        if bps.round() < 1.0 {
            return Err(format!(
                "rate must be above 0 bit/s, found \"{rate}\": remove the line, or model an outage as loss"
            ));
        }
        let at = Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds);
        if let Some(&(before, _)) = steps.last().filter(|&&(before, _)| at <= before) {
            let before = before.as_seconds();
            return Err(format!("times must increase, found {seconds} s after {before} s"));
        }
        steps.push((at, DataRate::from_bps(bps.round() as u64)));
        Ok(())
    })?;
    if steps.is_empty() {
        return Err(format!("{}:1: the trace is empty: {COLUMNS}", path.display()));
    }
    let profile = RateProfile::Steps { steps, period };
    profile.check().map_err(|error| format!("{}:1: {error}", path.display()))?;
    Ok(profile)
}

/// Reads a trace of Mahimahi: the millisecond of a delivery opportunity on each line.
pub(super) fn mahimahi(path: &Path) -> Result<RateProfile, String> {
    const LINES: &str = "write one whole number of milliseconds on each line";
    let mut at: Vec<Timestamp> = Vec::new();
    each_line(path, |text| {
        let millis: u64 =
            text.parse().map_err(|_| format!("expected milliseconds, found \"{text}\": {LINES}"))?;
        let moment = Timestamp::from_nanos(millis.saturating_mul(1_000_000));
        if let Some(before) = at.last().filter(|&&before| moment < before) {
            let before = before.as_nanos() / 1_000_000;
            return Err(format!("times must not decrease, found {millis} ms after {before} ms"));
        }
        at.push(moment);
        Ok(())
    })?;
    if at.is_empty() {
        return Err(format!("{}:1: the trace is empty: {LINES}", path.display()));
    }
    let profile = RateProfile::Opportunities { at, bytes: OPPORTUNITY_BYTES };
    profile.check().map_err(|error| format!("{}:1: {error}", path.display()))?;
    Ok(profile)
}

/// Calls `read` with each line that is not empty; its errors are reported with file and line.
fn each_line(path: &Path, mut read: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
        if !content.is_empty() {
            read(content).map_err(|what| format!("{}:{number}: {what}", path.display()))?;
        }
    }
    Ok(())
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

    #[test]
    fn columns_of_time_and_rate_become_steps() {
        let trace = file("time_s,rate_bps\n0, 1e6 # at first\n\n2.5,3000000\n");
        let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds);
        let steps = vec![(at(0.0), DataRate::from_bps(1_000_000)), (at(2.5), DataRate::from_bps(3_000_000))];
        assert_eq!(rates(trace.path(), None), Ok(RateProfile::Steps { steps, period: None }));
    }

    #[test]
    fn errors_name_file_and_line() {
        let told = |read: fn(&Path) -> Result<RateProfile, String>, text: &str| {
            let file = file(text);
            let complaint = read(file.path()).unwrap_err();
            complaint.replace(&file.path().display().to_string(), "FILE")
        };
        let rates: fn(&Path) -> _ = |path| rates(path, None);
        assert_eq!(told(rates, "# nothing\n"), format!("FILE:1: the trace is empty: {COLUMNS}"));
        assert_eq!(
            told(rates, "0,1000\n3,2000\n2,1000\n"),
            "FILE:3: times must increase, found 2 s after 3 s"
        );
        assert_eq!(
            told(rates, "0;1000\n"),
            format!("FILE:1: expected two columns, found \"0;1000\": {COLUMNS}")
        );
        assert!(told(rates, "0,1000\n1,0\n").starts_with("FILE:2: rate must be above 0 bit/s, found \"0\""));
        assert!(told(rates, "0,inf\n").starts_with("FILE:1: expected a number of at least 0, found \"inf\""));
        assert_eq!(told(mahimahi, "5\n4\n"), "FILE:2: times must not decrease, found 4 ms after 5 ms");
        assert!(told(mahimahi, "0.5\n").starts_with("FILE:1: expected milliseconds, found \"0.5\""));
        assert!(told(mahimahi, "0\n").starts_with("FILE:1: it repeats after 0 ns"));
        assert!(told(mahimahi, "").starts_with("FILE:1: the trace is empty"));
    }
}
