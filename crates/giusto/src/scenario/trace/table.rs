//! Tables of recorded rates: what monitors of networks write, in lines of columns.

use giusto_units::{DataRate, TimeDelta, Timestamp};

/// How to write a table.
pub(super) const COLUMNS: &str = "write lines of time_s,rate_bps, such as 12.5,3000000";

/// Whose rate counts, where a recording has both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards the user.
    #[default]
    Down,
    /// From the user.
    Up,
}

giusto_units::names!(Direction { Down = "down", Up = "up" });

/// Times and the rates from them on.
pub(super) type Steps = Vec<(Timestamp, DataRate)>;

/// Times above this, in seconds, are since 1970: errors name them from the first one on.
const EPOCH: f64 = 1e8;

/// No recording has times above this, in seconds, which is in the year 5138: the file has another unit.
const LATEST: f64 = 1e11;

/// No link has a rate above this, in bit/s: the file has another unit.
const HIGHEST: f64 = 1e15;

/// Without a unit, no rate of a link is lower: the file has another unit, bit/s.
const LEAST_PEAK: f64 = 1000.0;

/// Reads the lines of a table, each with its number; errors name the number of the line. Times count from the first line on.
///
/// With a header, the columns are those of its names:
///
/// - `DL_bitrate` and `UL_bitrate` of G-NetTrack, in kbit/s, without the lines in whose `State`, `I`, nothing was transferred;
/// - `Speed` of MONROE's downloads, in B/s;
/// - any of a rate, in the unit that its name ends with, otherwise in bit/s.
pub(super) fn read<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    direction: Direction,
) -> Result<Steps, (usize, String)> {
    let mut columns: Option<Columns> = None;
    let mut steps = Steps::new();
    let (mut first, mut before) = (None, 0.0);
    for (number, line) in lines {
        let at = |what| (number, what);
        let columns = if let Some(own) = &columns {
            own
        } else {
            let (own, is_header) = Columns::of(line, direction).map_err(at)?;
            let own = &*columns.insert(own);
            if is_header {
                continue;
            }
            own
        };
        let Some((time, bps)) = columns.values(line).map_err(at)? else { continue };
        let (seconds, is_date) = match time {
            When::Number(seconds) => (seconds, false),
            When::Date(seconds) => (seconds, true),
        };
        if seconds > LATEST {
            let fix = "name the unit in a header, such as time_ms,rate_bps";
            return Err(at(format!("the time {seconds} s is later than the year 5138: {fix}")));
        }
        let origin = *first.get_or_insert(seconds);
        if !steps.is_empty() && seconds <= before {
            if !is_date || seconds < before {
                let since = if origin > EPOCH { origin } else { 0.0 };
                let (now, last) = (seconds - since, before - since);
                return Err(at(format!("times must increase, found {now} s after {last} s")));
            }
            // Dates are in whole seconds, in which there may be two lines: the later one counts.
            steps.pop();
        }
        before = seconds;
        let moment = Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds - origin);
        steps.push((moment, DataRate::from_bps(bps.round() as u64)));
    }
    let peak = steps.iter().map(|(_, rate)| rate.as_bps()).max().unwrap_or(0) as f64;
    if let Some(columns) = columns
        && !columns.has_unit
        && peak > 0.0
        && peak < LEAST_PEAK
    {
        let fix = "name the unit in a header, such as time_s,rate_mbps";
        return Err((1, format!("the highest rate is {peak} bit/s: {fix}")));
    }
    Ok(steps)
}

/// Where the columns of a table are.
#[derive(Debug, Clone)]
struct Columns {
    separator: Option<char>,
    /// Place and seconds of one of its units.
    time: (usize, f64),
    /// Place and bit/s of one of its units.
    rate: (usize, f64),
    has_unit: bool,
    /// Whether a line may be without a value: after a header.
    has_gaps: bool,
    /// The column that says whether G-NetTrack transferred anything.
    state: Option<usize>,
    count: usize,
}

impl Columns {
    /// Those of a table that begins with this line, and whether the line is a header.
    fn of(line: &str, direction: Direction) -> Result<(Self, bool), String> {
        let separator = ['\t', ';', ','].into_iter().find(|separator| line.contains(*separator));
        let names = split(line, separator);
        let plain = Self {
            separator,
            time: (0, 1.0),
            rate: (1, 1.0),
            has_unit: false,
            has_gaps: false,
            state: None,
            count: names.len(),
        };
        if names.first().is_none_or(|first| when(first).is_some()) {
            return Ok((plain, false));
        }
        if !names.iter().any(|name| name.chars().any(char::is_alphabetic)) {
            return Err(format!("expected two columns, found \"{line}\": {COLUMNS}"));
        }
        let missing = |what: &str, fix: &str| format!("no column of {what} in \"{line}\": {fix}");
        let time = names.iter().enumerate().find_map(|(place, name)| Some((place, time_unit(name)?)));
        let time = time.ok_or_else(|| missing("times", "name it time_s, or Timestamp"))?;
        let rate = rate_of(&names, direction).map_err(|what| match what {
            Missing::Rate => missing("rates", "name it rate_bps, rate_kbps or rate_mbps"),
            Missing::Direction(name, other) => missing(
                &format!("rates {}", direction.name()),
                &format!("it has {name}, of direction {other}"),
            ),
            Missing::Which(a, b) => format!("both {a} and {b} are rates: keep one of the columns"),
        })?;
        let is_g_net_track = names.get(rate.place).is_some_and(|name| G_NET_TRACK.contains(name));
        let state = names.iter().position(|name| *name == "State").filter(|_| is_g_net_track);
        let plain = Self { time, has_gaps: true, state, ..plain };
        Ok((Self { rate: (rate.place, rate.unit), has_unit: rate.is_stated, ..plain }, true))
    }

    /// The time and the rate in bit/s on a line; `None` if a monitor had no rate.
    fn values(&self, line: &str) -> Result<Option<(When, f64)>, String> {
        let fields = split(line, self.separator);
        if !self.has_gaps && fields.len() != 2 {
            return Err(format!("expected two columns, found \"{line}\": {COLUMNS}"));
        }
        let last = fields.iter().rposition(|field| !field.is_empty()).map_or(0, |place| place + 1);
        if self.has_gaps && last > self.count {
            return Err(format!(
                "expected {} columns as in the header, found {last} in \"{line}\": write decimals with a point, and name every column in the header",
                self.count
            ));
        }
        if self.has_gaps && fields.len() <= self.time.0.max(self.rate.0) {
            let (found, expected) = (fields.len(), self.count);
            return Err(format!(
                "expected {expected} columns as in the header, found {found} in \"{line}\": complete the line, or remove it"
            ));
        }
        let field = |place: usize| fields.get(place).copied().unwrap_or_default();
        let (time, rate) = (field(self.time.0), field(self.rate.0));
        let is_idle = self.state.is_some_and(|place| field(place) == "I");
        if self.has_gaps && (is_idle || NO_VALUE.contains(&rate.to_ascii_lowercase().as_str())) {
            return Ok(None);
        }
        let fix = if self.has_gaps { "correct the line, or remove it" } else { COLUMNS };
        let wrong = |found: &str| format!("expected a number of at least 0, found \"{found}\": {fix}");
        let time = match when(time).ok_or_else(|| wrong(time))? {
            When::Number(value) => When::Number(value * self.time.1),
            date @ When::Date(_) => date,
        };
        let bps = number(rate).ok_or_else(|| wrong(rate))? * self.rate.1;
        if bps > HIGHEST {
            return Err(format!(
                "the rate {bps:e} bit/s is more than 1 Pbit/s: correct it, or the unit in the header"
            ));
        }
        Ok(Some((time, bps)))
    }
}

/// The rates of G-NetTrack, in kbit/s (Raca et al., "Beyond Throughput, The Next Generation: a 5G Dataset with Channel and Context
/// Metrics", `MMSys` 2020).
const G_NET_TRACK: [&str; 2] = ["DL_bitrate", "UL_bitrate"];

/// What stands for no value.
const NO_VALUE: [&str; 6] = ["", "-", "na", "n/a", "nan", "null"];

fn split(line: &str, separator: Option<char>) -> Vec<&str> {
    match separator {
        Some(separator) => {
            let mut is_quoted = false;
            let mut separates = |c| {
                is_quoted ^= c == '"';
                c == separator && !is_quoted
            };
            line.split(&mut separates).map(unquoted).collect()
        }
        None => line.split_whitespace().map(unquoted).collect(),
    }
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"').trim()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// A moment in a table.
#[derive(Debug, Clone, Copy)]
enum When {
    /// A number in the unit of the column.
    Number(f64),
    /// A date and a time of day, in seconds since 1970.
    Date(f64),
}

/// A number, or `2020.02.14_13.21.26`, `2020-02-14 13:21:26.5`, `2020-02-14T13:21:26Z`.
fn when(text: &str) -> Option<When> {
    if let Some(value) = number(text) {
        return Some(When::Number(value));
    }
    let text = text.trim_end_matches('Z');
    let mut parts = text.splitn(6, |c: char| !c.is_ascii_digit());
    let mut next = || parts.next()?.parse::<u32>().ok();
    let [year, month, day, hour, minute] = [next()?, next()?, next()?, next()?, next()?];
    let seconds = number(parts.next()?)?;
    let is_valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && seconds < 61.0;
    let whole = days(i64::from(year), i64::from(month), i64::from(day)) * 86_400
        + i64::from(hour * 3600 + minute * 60);
    is_valid.then_some(When::Date(whole as f64 + seconds))
}

/// Days of a month of the Gregorian calendar.
fn days_of(year: u32, month: u32) -> u32 {
    let of = |year: u32, month: u32| days(i64::from(year), i64::from(month), 1);
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (of(next_year, next) - of(year, month)) as u32
}

/// Days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with the day that only some have.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Of 1970-01-01.
    before + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The unit of a column of times in s; `None` if it is another column.
fn time_unit(name: &str) -> Option<f64> {
    const STEMS: [&str; 8] =
        ["time", "t", "timestamp", "elapsed", "elapsedtime", "epoch", "unixtime", "elapsed_time"];
    let (stem, unit) = named_unit(name);
    let of = |unit: &str| match unit {
        "s" | "sec" | "second" | "seconds" => Some(1.0),
        "ms" | "msec" | "milliseconds" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    };
    match unit {
        Some(unit) => STEMS.contains(&stem.as_str()).then(|| of(&unit.to_ascii_lowercase())).flatten(),
        None if STEMS.contains(&stem.as_str()) => Some(1.0),
        None => of(&stem).filter(|_| stem.len() > 1),
    }
}

/// A column of rates.
#[derive(Debug, Clone, PartialEq)]
struct RateColumn {
    place: usize,
    /// bit/s of one of its units.
    unit: f64,
    is_stated: bool,
    direction: Option<Direction>,
}

/// Why there is no column of rates.
enum Missing {
    Rate,
    /// The column of the other direction, and that.
    Direction(String, &'static str),
    Which(String, String),
}

/// The column of rates that counts.
fn rate_of(names: &[&str], direction: Direction) -> Result<RateColumn, Missing> {
    let all: Vec<RateColumn> =
        names.iter().enumerate().filter_map(|(place, name)| rate_column(place, name)).collect();
    if let Some(own) = all.iter().find(|own| own.direction == Some(direction)) {
        return Ok(own.clone());
    }
    let name = |own: &RateColumn| names.get(own.place).map(|name| (*name).to_owned()).unwrap_or_default();
    if let Some((other, of)) = all.iter().find_map(|own| Some((own, own.direction?))) {
        return Err(Missing::Direction(name(other), of.name()));
    }
    let stated: Vec<&RateColumn> = all.iter().filter(|own| own.is_stated).collect();
    let among = if stated.is_empty() { all.iter().collect() } else { stated };
    match among[..] {
        [own] => Ok(own.clone()),
        [a, b, ..] => Err(Missing::Which(name(a), name(b))),
        [] => monroe(names).ok_or(Missing::Rate),
    }
}

/// The column `Speed` of MONROE's downloads (`MONROE.EXP.HTTP.DOWNLOAD`): curl's, in B/s. Other monitors call a velocity so.
fn monroe(names: &[&str]) -> Option<RateColumn> {
    const OTHERS: [&str; 6] = ["dataid", "iccid", "nodeid", "bytes", "downloadtime", "totaltime"];
    let is = |name: &str, own: &str| name.eq_ignore_ascii_case(own);
    let known = names.iter().any(|name| OTHERS.iter().any(|own| is(name, own)));
    let place = names.iter().position(|name| is(name, "speed")).filter(|_| known)?;
    Some(RateColumn { place, unit: 8.0, is_stated: true, direction: None })
}

fn rate_column(place: usize, name: &str) -> Option<RateColumn> {
    const STEMS: [&str; 6] = ["rate", "bitrate", "throughput", "bandwidth", "capacity", "goodput"];
    let (stem, unit) = named_unit(name);
    let stated = match unit {
        // Of another unit, no rate can be read.
        Some(unit) => Some(rate_unit(unit)?),
        None => rate_unit(name),
    };
    let (mut direction, mut rest) = (None, Vec::new());
    for part in stem.split(['_', ' ', '-']).filter(|part| !part.is_empty()) {
        match part {
            "dl" | "down" | "downlink" | "download" | "rx" => direction = Some(Direction::Down),
            "ul" | "up" | "uplink" | "upload" | "tx" => direction = Some(Direction::Up),
            part => rest.push(part),
        }
    }
    let is_rate = match rest[..] {
        [] => stated.is_some() && direction.is_some(),
        [one] => STEMS.contains(&one) || rate_unit(name).is_some(),
        _ => false,
    };
    let of_g_net_track = G_NET_TRACK.contains(&name).then_some(1e3);
    let stated = stated.or(of_g_net_track);
    is_rate.then(|| RateColumn { place, unit: stated.unwrap_or(1.0), is_stated: stated.is_some(), direction })
}

/// A name in small letters without its unit, and the unit: `rate_kbps`, `Rate (kbit/s)`, `rate [kbit/s]`.
fn named_unit(name: &str) -> (String, Option<&str>) {
    let parts = match name.split_once(['(', '[']) {
        Some((stem, unit)) => Some((stem, unit.trim_end_matches([')', ']']))),
        None => name.rsplit_once(['_', ' ']).filter(|(_, unit)| {
            rate_unit(unit).is_some() || ["s", "ms", "us", "ns", "sec", "seconds"].contains(unit)
        }),
    };
    let (stem, unit) = parts.map_or((name, None), |(stem, unit)| (stem, Some(unit.trim())));
    (stem.trim().to_ascii_lowercase(), unit)
}

/// bit/s of this unit: `bps`, `kbit/s`, `Mbps`, `MB/s`.
fn rate_unit(text: &str) -> Option<f64> {
    let each = ["/sec", "/s", "ps"].iter().find_map(|each| text.strip_suffix(each))?;
    let (scale, each) = match each.split_at_checked(1)? {
        ("k" | "K", each) => (1e3, each),
        ("m" | "M", each) => (1e6, each),
        ("g" | "G", each) => (1e9, each),
        _ => (1.0, each),
    };
    match each {
        "b" | "bit" | "bits" => Some(scale),
        "B" | "byte" | "bytes" | "Byte" | "Bytes" => Some(scale * 8.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, direction: Direction) -> Result<Vec<(f64, u64)>, (usize, String)> {
        let steps = read((1..).zip(text.lines()), direction)?;
        let own = |(at, rate): &(Timestamp, DataRate)| ((*at - Timestamp::ZERO).as_seconds(), rate.as_bps());
        Ok(steps.iter().map(own).collect())
    }

    fn down(text: &str) -> Vec<(f64, u64)> {
        read_text(text, Direction::Down).unwrap()
    }

    #[test]
    fn milliseconds_since_1970_need_their_unit() {
        let text = |header| format!("{header}\n1600000000000,2000\n1600000001000,3000\n");
        let late = "the time 1600000000000 s is later than the year 5138: name the unit in a header, such as time_ms,rate_bps";
        for header in ["timestamp,rate_kbps", "time_s,rate_kbps"] {
            assert_eq!(read_text(&text(header), Direction::Down), Err((2, late.to_owned())), "{header}");
        }
        assert!(read_text("0,2000000\n1e18,3000000\n", Direction::Down).is_err());
        assert_eq!(down(&text("time_ms,rate_kbps")), [(0.0, 2_000_000), (1.0, 3_000_000)]);
        let seconds = "timestamp,rate_kbps\n1600000000,2000\n1600000001,3000\n";
        assert_eq!(down(seconds), [(0.0, 2_000_000), (1.0, 3_000_000)]);
    }

    #[test]
    fn a_unit_in_the_header_counts() {
        let rates = [
            ("time_s,rate_bps", 2_000_000.0),
            ("t,kbps", 2000.0),
            ("Time (s);Throughput (Mbit/s)", 2.0),
            ("time\tbandwidth [MB/s]", 0.25),
            ("seconds capacity_kBps", 250.0),
            ("elapsed,Download Mbps", 2.0),
        ];
        for (header, value) in rates {
            let separator = ['\t', ';', ','].into_iter().find(|own| header.contains(*own)).unwrap_or(' ');
            let text = format!("{header}\n0{separator}{value}\n2.5{separator}{value}\n");
            assert_eq!(down(&text), [(0.0, 2_000_000), (2.5, 2_000_000)], "{header}");
        }
        assert_eq!(down("time_ms,rate_bps\n500,5000\n1500,6000\n"), [(0.0, 5000), (1.0, 6000)]);
        assert_eq!(down("rate_mbps,time_s\n1,3\n"), [(0.0, 1_000_000)]);
        // What is no rate stands beside one.
        assert_eq!(down("time_s,Bandwidth (MHz),rate\n0,20,5000\n"), [(0.0, 5000)]);
    }

    /// The first rate would otherwise hold for all the time before it.
    #[test]
    fn times_count_from_the_first_line_on() {
        for start in [0.0, 7.5, 3600.0, 1.6e9] {
            let text = format!("time_s,rate_bps\n{start},5000\n{},6000\n", start + 2.0);
            assert_eq!(down(&text), [(0.0, 5000), (2.0, 6000)], "{start}");
        }
        // Also after lines without a value.
        assert_eq!(down("time_s,rate_bps\n3,-\n4,5000\n5,6000\n"), [(0.0, 5000), (1.0, 6000)]);
    }

    #[test]
    fn logs_of_g_net_track_have_dates_gaps_and_two_directions() {
        let text = "Timestamp,Speed,CellID,DL_bitrate,UL_bitrate,State,BANDWIDTH\n\
                    2020.02.28_23.59.58,0,11,63,20,D,20\n\
                    2020.02.28_23.59.59,0,11,2000,4,D,20\n\
                    2020.02.28_23.59.59,0,11,3000,5,D,20\n\
                    2020.02.29_00.00.01,0,11,-,-,I,20\n\
                    2020.02.29_00.00.02,0,11,0,7,D,20\n\
                    2020.02.29_00.00.03,0,11,9,9,I,20\n";
        assert_eq!(down(text), [(0.0, 63_000), (1.0, 3_000_000), (4.0, 0)]);
        let tabs = text.replace(',', "\t");
        let up = read_text(&tabs, Direction::Up).unwrap();
        assert_eq!(up, [(0.0, 20_000), (1.0, 5000), (4.0, 7000)]);
        // Empty fields may follow.
        assert_eq!(down("time_s,rate_bps\n0,5000,\n2,6000,,\n"), [(0.0, 5000), (2.0, 6000)]);
        // Other times increase.
        let twice = read_text("time_s,rate_kbps\n1,5\n1,6\n", Direction::Down).unwrap_err();
        assert_eq!(twice, (3, "times must increase, found 1 s after 1 s".to_owned()));
    }

    #[test]
    fn downloads_of_monroe_have_seconds_since_1970_and_bytes_per_second() {
        let text = "NodeId,Iccid,Timestamp,Bytes,Speed\n\
                    41,89,1460720460.5,102400,1695251.0\n41,89,1460720470.5,102400,250000\n";
        assert_eq!(down(text), [(0.0, 13_562_008), (10.0, 2_000_000)]);
        // A velocity is no rate.
        let complaint = read_text("Timestamp,Speed\n1,50\n", Direction::Down).unwrap_err();
        assert!(complaint.1.starts_with("no column of rates in \"Timestamp,Speed\""), "{complaint:?}");
    }

    #[test]
    fn errors_name_the_line_and_the_fix() {
        let complaint = |text: &str| {
            let (line, what) = read_text(text, Direction::Up).unwrap_err();
            format!("{line}: {what}")
        };
        insta::assert_snapshot!(complaint("time_s,rate_kbps\n0,5\n1,2e12\n"), @"3: the rate 2e15 bit/s is more than 1 Pbit/s: correct it, or the unit in the header");
        insta::assert_snapshot!(complaint("time_s,rate_mbps\n0,5,3,7\n"), @r#"2: expected 2 columns as in the header, found 4 in "0,5,3,7": write decimals with a point, and name every column in the header"#);
        insta::assert_snapshot!(complaint("time_s,rate_kbps\n0,5\n1\n"), @r#"3: expected 2 columns as in the header, found 1 in "1": complete the line, or remove it"#);
        insta::assert_snapshot!(complaint("time_s,\"at, when\",rate_kbps\n0,\"Oslo, N\",\"1,000\"\n"), @r#"2: expected a number of at least 0, found "1,000": correct the line, or remove it"#);
        insta::assert_snapshot!(complaint("rate_kbps,cell\n0,5\n"), @r#"1: no column of times in "rate_kbps,cell": name it time_s, or Timestamp"#);
        insta::assert_snapshot!(complaint("time_s,Rate (KiB/s)\n0,5000\n"), @r#"1: no column of rates in "time_s,Rate (KiB/s)": name it rate_bps, rate_kbps or rate_mbps"#);
        insta::assert_snapshot!(complaint("time,dl_kbps\n0,5\n"), @r#"1: no column of rates up in "time,dl_kbps": it has dl_kbps, of direction down"#);
        insta::assert_snapshot!(complaint("time,rate_kbps,capacity_kbps\n0,5,5\n"), @"1: both rate_kbps and capacity_kbps are rates: keep one of the columns");
        insta::assert_snapshot!(complaint("0\t4.03\n1\t5.2\n"), @"1: the highest rate is 5 bit/s: name the unit in a header, such as time_s,rate_mbps");
        insta::assert_snapshot!(complaint("Timestamp,rate_kbps\n2020-02-14 13:21:26,5\n2020-02-14 13:21:25,5\n"), @"3: times must increase, found -1 s after 0 s");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        // Known: 2000-03-01 is day 11017, 2020-02-29 day 18321.
        assert_eq!([days(1970, 1, 1), days(2000, 3, 1), days(2020, 2, 29)], [0, 11_017, 18_321]);
        let of = |text| match when(text) {
            Some(When::Date(seconds)) => seconds,
            _ => f64::NAN,
        };
        assert!((of("2020-02-14T13:21:26.5Z") - 1_581_686_486.5).abs() < 1e-3);
        let day = |date: &str| when(&format!("{date} 13:21:26")).is_some();
        assert_eq!(["2020-02-29", "2021-12-31", "2000-02-29"].map(day), [true; 3]);
        assert_eq!(
            ["2020-02-30", "2021-02-29", "1900-02-29", "2020-04-31", "2020-01-00"].map(day),
            [false; 5]
        );
        assert!(when("2020.13.14_13.21.26").is_none() && when("2020").is_some() && when("-1").is_none());
    }
}
