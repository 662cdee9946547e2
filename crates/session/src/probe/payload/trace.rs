//! Recorded payload sizes.

use giusto_units::{DataSize, TimeDelta};

use super::error::PayloadError;

const TIME_COLUMN: &str = "time_s";
const SIZE_COLUMN: &str = "size_bytes";
const COLUMNS: &str = "write one size in bytes per line, or the columns time_s,size_bytes";

/// A recorded series of payload sizes, optionally with departure times.
///
/// # Example
///
/// ```
/// use giusto_session::probe::payload::PayloadTrace;
/// use giusto_units::TimeDelta;
///
/// let trace = PayloadTrace::parse("time_s,size_bytes\n0.00,1200\n0.02,300\n", "call.csv")?;
/// assert_eq!(trace.sizes().len(), 2);
/// assert_eq!(trace.departures(), Some(&[TimeDelta::ZERO, TimeDelta::from_millis(20)][..]));
/// # Ok::<(), giusto_session::probe::payload::PayloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadTrace {
    sizes: Vec<DataSize>,
    departures: Option<Vec<TimeDelta>>,
}

/// Positions of the columns of a trace.
#[derive(Clone, Copy, PartialEq)]
struct Columns {
    time: Option<usize>,
    size: usize,
    count: usize,
}

impl PayloadTrace {
    /// Reads the text of a file called `name`: one size in bytes per line, or the columns time in seconds and
    /// size in bytes.
    ///
    /// A first line of `size_bytes`, or of `time_s` and `size_bytes` in any order, names the columns. Empty
    /// lines and text after a `#` are ignored.
    ///
    /// # Errors
    ///
    /// [`PayloadError::Line`] names file, line and fix for an invalid size, for times that run backwards, and
    /// for a changed number of columns. [`PayloadError::EmptyTrace`] if no line has a size.
    pub fn parse(text: &str, name: &str) -> Result<Self, PayloadError> {
        let mut columns: Option<Columns> = None;
        let mut sizes = Vec::new();
        let mut times: Vec<TimeDelta> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong =
                |what: String, fix| PayloadError::Line { file: name.to_owned(), line: number, what, fix };
            let content = line.split('#').next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
            if content.is_empty() {
                continue;
            }
            let fields: Vec<&str> = content.split(',').map(str::trim).collect();
            let columns = if let Some(columns) = columns {
                columns
            } else {
                let (found, is_header) = Columns::of(&fields)
                    .ok_or_else(|| wrong(format!("\"{content}\" names no known columns"), COLUMNS))?;
                columns = Some(found);
                if is_header {
                    continue;
                }
                found
            };
            if fields.len() != columns.count {
                let what = format!("{} columns, where {} were expected", fields.len(), columns.count);
                return Err(wrong(what, COLUMNS));
            }
            let field = |index: usize| fields.get(index).copied().unwrap_or_default();
            let size: u64 = field(columns.size).parse().map_err(|_| {
                wrong(format!("\"{}\" is not a size", field(columns.size)), "write whole bytes, such as 1200")
            })?;
            sizes.push(DataSize::from_bytes(size));
            if let Some(index) = columns.time {
                let time = seconds(field(index)).ok_or_else(|| {
                    wrong(
                        format!("\"{}\" is not a time", field(index)),
                        "write seconds of at least 0, such as 0.02",
                    )
                })?;
                if times.last().is_some_and(|&last| time < last) {
                    let what = format!("time runs backwards to {} s", field(index));
                    return Err(wrong(what, "order the lines by time"));
                }
                times.push(time);
            }
        }
        let timed = columns.is_some_and(|columns| columns.time.is_some());
        if sizes.is_empty() {
            return Err(PayloadError::EmptyTrace { file: name.to_owned() });
        }
        Ok(Self { sizes, departures: timed.then_some(times) })
    }

    /// Sizes without times; at least one.
    pub(super) fn of_sizes(sizes: Vec<DataSize>) -> Self {
        Self { sizes, departures: None }
    }

    /// Sizes with as many departure times, in increasing order; `None` without any.
    pub fn timed(sizes: Vec<DataSize>, departures: Vec<TimeDelta>) -> Option<Self> {
        let fit = !sizes.is_empty() && sizes.len() == departures.len() && departures.is_sorted();
        fit.then_some(Self { sizes, departures: Some(departures) })
    }

    /// The sizes in order, at least one.
    pub fn sizes(&self) -> &[DataSize] {
        &self.sizes
    }

    /// Departure times of the [`sizes`](Self::sizes) on the trace's time scale, in increasing order; `None`
    /// if it has no times.
    pub fn departures(&self) -> Option<&[TimeDelta]> {
        self.departures.as_deref()
    }
}

impl Columns {
    /// From the first line of content. Also returns whether that line is a header.
    fn of(fields: &[&str]) -> Option<(Self, bool)> {
        let count = fields.len();
        let is_number = |field: &&str| field.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        if fields.iter().any(is_number) {
            let time = (count == 2).then_some(0);
            return (count <= 2).then_some((Self { time, size: count - 1, count }, false));
        }
        let place = |name: &str| fields.iter().position(|field| field.eq_ignore_ascii_case(name));
        Some((Self { time: place(TIME_COLUMN), size: place(SIZE_COLUMN)?, count }, true))
    }
}

fn seconds(text: &str) -> Option<TimeDelta> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..1e9).contains(&seconds).then(|| TimeDelta::from_seconds_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<u64> {
        let trace = PayloadTrace::parse(text, "t.csv").unwrap();
        trace.sizes().iter().map(|size| size.as_bytes()).collect()
    }

    #[test]
    fn sizes_are_read_with_and_without_header_times_and_comments() {
        assert_eq!(sizes("100\n\n 200 \n"), [100, 200]);
        assert_eq!(sizes("# recorded\r\nsize_bytes\r\n100 # first\r\n200"), [100, 200]);
        assert_eq!(sizes("0.5,100\n0.5,200\n"), [100, 200]);
        assert_eq!(sizes("size_bytes,flow,time_s\n100,a,0\n200,b,1\n"), [100, 200]);
        let trace = PayloadTrace::parse("size_bytes,time_s\n100,0.25\n200,0.250000001\n", "t.csv").unwrap();
        let times = [TimeDelta::from_millis(250), TimeDelta::from_nanos(250_000_001)];
        assert_eq!(trace.departures(), Some(&times[..]));
        assert_eq!(PayloadTrace::parse("100\n", "t.csv").unwrap().departures(), None);
    }

    #[test]
    fn an_error_names_file_line_and_fix() {
        let message = |text| PayloadTrace::parse(text, "sizes.csv").unwrap_err().to_string();
        for (text, expected) in [
            ("100\nbig\n", "2: \"big\" is not a size: write whole bytes, such as 1200"),
            ("# header\n0.2,100\n0.1,100\n", "3: time runs backwards to 0.1 s: order the lines by time"),
            ("-1,100", "1: \"-1\" is not a time: write seconds of at least 0, such as 0.02"),
            (
                "0,100\n100\n",
                "2: 1 columns, where 2 were expected: write one size in bytes per line, or the columns",
            ),
            ("bytes\n100\n", "1: \"bytes\" names no known columns"),
            ("1,2,3\n", "1: "),
            ("-5\n", "1: \"-5\" is not a size"),
            ("1.5\n", "1: \"1.5\" is not a size"),
            ("nan,5\n", "1: \"nan\" is not a time"),
        ] {
            let found = message(text);
            assert!(found.starts_with(&format!("sizes.csv:{expected}")), "{text:?}: {found}");
        }
        for empty in ["", "\n\n", "# nothing\n", "size_bytes\n"] {
            assert!(message(empty).starts_with("sizes.csv: no sizes"), "{empty:?}");
        }
    }
}
