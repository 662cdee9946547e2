//! Numbers as text.

use giusto_units::DataRate;

/// The text for an unknown number.
pub const UNKNOWN: &str = "–";

/// Digits in groups of three: `1,011,364`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0.0 && digits != "0" {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in groups of three.
pub fn count(value: u64) -> String {
    grouped(value as f64)
}

/// The units of a quantity, each with its size, the largest first.
type Units = [(f64, &'static str)];

const RATES: &Units = &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
const TIMES_US: &Units = &[(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")];

/// The largest unit of which `value` has at least `least`, or the smallest.
fn unit_of(value: f64, units: &'static Units, least: f64) -> (f64, &'static str) {
    let fitting = units.iter().find(|(size, _)| value.abs() >= size * least);
    fitting.or(units.last()).copied().unwrap_or((1.0, ""))
}

/// A measured rate with three decimals, for tables: `1.011 Mbit/s`.
pub fn rate(bps: f64) -> String {
    let (size, unit) = unit_of(bps, RATES, 0.999_999_5);
    format!("{} {unit}", decimals(bps / size, 3))
}

/// A rate with three digits, for sentences: `1.78 Mbit/s`.
pub fn brief_rate(bps: f64) -> String {
    let [_, high] = rate_range(bps, bps);
    high
}

/// Two rates, the second of which is the higher one, in one unit that the second has: `["0.78", "1.78 Mbit/s"]`.
pub fn rate_range(low: f64, high: f64) -> [String; 2] {
    range(low, high, RATES)
}

/// Two times in microseconds, as [`rate_range`]: `["12.0", "40.0 ms"]`.
pub fn time_range_us(low: f64, high: f64) -> [String; 2] {
    range(low, high, TIMES_US)
}

/// The higher value has three digits; the lower one as many decimals, or two digits.
fn range(low: f64, high: f64, units: &'static Units) -> [String; 2] {
    let (size, unit) = unit_of(high, units, 0.9995);
    let (low, high) = (low / size, high / size);
    let places = match high.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let has_two_digits = |places: &usize| low.abs() * 10_f64.powi(*places as i32) >= 9.95;
    let low_places = (places..12).find(has_two_digits).unwrap_or(places);
    [decimals(low, low_places), format!("{} {unit}", decimals(high, places))]
}

/// A rate in Mbit/s without the unit, so that all of a column have one: `1.776`.
pub fn mbits(bps: f64) -> String {
    decimals(bps / 1e6, 3)
}

/// A number with this many decimals. 0 has none, and a smaller number is not written as if it were 0: `0.975`, `0`, `<0.001`.
pub fn decimals(value: f64, places: usize) -> String {
    let least = 10_f64.powi(-(places as i32));
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= least / 2.0 || v.is_nan() => format!("{value:.places$}"),
        _ if value > 0.0 => format!("<{least:.places$}"),
        _ => format!(">-{least:.places$}"),
    }
}

/// The same with a sign: `+0.975`, `-0.012`, `0`.
pub fn signed(value: f64, places: usize) -> String {
    let text = decimals(value, places);
    if value > 0.0 && !text.starts_with('<') { format!("+{text}") } else { text }
}

/// A requested rate: `1 Mbit/s`, or `max` without one.
pub fn asked_rate(rate_bps: Option<u64>) -> String {
    rate_bps.map_or_else(|| "max".to_owned(), |bps| DataRate::from_bps(bps).to_string())
}

/// A number with about three significant digits and no unit: `0.42`, `12.3`, `1,234`.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v < 0.005 => "0".to_owned(),
        v if v < 0.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// A signed number of parts per million: `+0.2`, `-772`, `+11,364`.
pub fn ppm(value: f64) -> String {
    let text = short(value);
    if text == "0" || text.starts_with('-') { text } else { format!("+{text}") }
}

/// A time in the unit that fits its size: `0.4 µs`, `1.14 ms`, `2.5 s`.
pub fn time_us(us: f64) -> String {
    match us.abs() {
        t if t < 0.000_5 => "0 ns".to_owned(),
        t if t < 0.0995 => format!("{:.0} ns", us * 1e3),
        t if t < 999.5 => format!("{} µs", short(us)),
        t if t < 999.5e3 => format!("{} ms", short(us / 1e3)),
        _ => format!("{} s", short(us / 1e6)),
    }
}

/// A share as a percentage: `0 %`, `0.03 %`, `93.9 %`.
pub fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p.abs() < 0.01 => "<0.01 %".to_owned(),
        p if p.abs() < 9.995 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A load in whole percent, without the sign: `8`, `<1`, `100`.
pub fn load(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0".to_owned(),
        p if p < 0.95 => "<1".to_owned(),
        p => format!("{p:.0}"),
    }
}

/// A number of bytes: `426 kB`, `4.2 MB`.
pub fn buffer(bytes: u64) -> String {
    match bytes {
        b if b >= 999_500 => format!("{} MB", short(b as f64 / 1e6)),
        b if b >= 1_000 => format!("{} kB", short(b as f64 / 1e3)),
        b => format!("{b} B"),
    }
}

/// `value` formatted by `write`, or [`UNKNOWN`].
pub fn or_unknown<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), write)
}

/// Two numbers in one cell: `0.4 / 12`.
pub fn pair(first: Option<f64>, second: Option<f64>, write: impl Fn(f64) -> String) -> String {
    if first.is_none() && second.is_none() {
        return UNKNOWN.to_owned();
    }
    format!("{} / {}", or_unknown(first, &write), or_unknown(second, &write))
}

/// `1 run`, `3 runs`.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", self::count(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_carry_units() {
        assert_eq!([1_011_364.4, -999.6, -0.2].map(grouped), ["1,011,364", "-1,000", "0"]);
        assert_eq!(count(71), "71");
        assert_eq!([1_011_399.0, 999_999.9, 0.0].map(rate), ["1.011 Mbit/s", "1.000 Mbit/s", "0 bit/s"]);
        assert_eq!([400.0, -400.0, 500.0].map(mbits), ["<0.001", ">-0.001", "0.001"]);
        assert_eq!([0.25, -0.25, 0.0, 0.01].map(|value| signed(value, 1)), ["+0.2", "-0.2", "0", "<0.1"]);
        assert_eq!([11_363.6, -0.001, -0.2].map(ppm), ["+11,364", "0", "-0.20"]);
        let times = [0.042, -0.000_01, 0.4, 1_136.0].map(time_us);
        assert_eq!(times, ["42 ns", "0 ns", "0.40 µs", "1.1 ms"]);
        assert_eq!([0.0, 0.000_01, 0.727].map(percent), ["0 %", "<0.01 %", "72.7 %"]);
        assert_eq!([1.0, 0.004].map(load), ["100", "<1"]);
        assert_eq!(buffer(425_984), "426 kB");
        assert_eq!(pair(Some(0.4), None, short), "0.40 / –");
        assert_eq!(pair(None, None, short), "–");
        assert_eq!(plural(1, "run", "runs"), "1 run");
    }

    #[test]
    fn a_range_has_one_unit_and_three_digits() {
        for (low, high, expected) in [
            (779_452.0, 1_776_000.0, ["0.78", "1.78 Mbit/s"]),
            (3_120.0, 1_776_000.0, ["0.0031", "1.78 Mbit/s"]),
            (0.0, 98.64e6, ["0", "98.6 Mbit/s"]),
            (0.0, 0.0, ["0", "0 bit/s"]),
        ] {
            assert_eq!(rate_range(low, high), expected);
        }
        assert_eq!(time_range_us(860.0, 41_234.0), ["0.86", "41.2 ms"]);
        let brief = [999_600.0, 999_400.0, 64_000.0, 0.0].map(brief_rate);
        assert_eq!(brief, ["1.00 Mbit/s", "999 kbit/s", "64.0 kbit/s", "0 bit/s"]);
    }
}
