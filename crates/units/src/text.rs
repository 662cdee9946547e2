//! The text forms of quantities: `"50 ms"`, `"3 Mbit/s"`, `"1200 B"`.

use alloc::{borrow::ToOwned, string::String};
use core::{fmt, str::FromStr};

use crate::{
    data::{DataRate, DataSize},
    math,
    time::{NANOS_PER_SECOND, TimeDelta, Timestamp},
};

/// Error of reading a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not begin with a number.
    NotANumber {
        /// The text.
        text: String,
        /// The quantity that was expected.
        what: &'static str,
        /// An example of a valid text.
        example: &'static str,
    },
    /// The unit is missing or unknown.
    Unit {
        /// The text.
        text: String,
        /// The quantity that was expected.
        what: &'static str,
        /// The known units.
        units: &'static str,
        /// An example of a valid text.
        example: &'static str,
    },
    /// The number is out of the quantity's range: negative, not finite, or too large.
    Range {
        /// The text.
        text: String,
        /// The quantity that was expected.
        what: &'static str,
        /// The range in words.
        range: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { text, what, example } => {
                write!(f, "\"{text}\" is not a {what}: write a number and a unit, such as \"{example}\"")
            }
            Self::Unit { text, what, units, example } => {
                write!(f, "\"{text}\": {what} needs one of the units {units}, such as \"{example}\"")
            }
            Self::Range { text, what, range } => {
                write!(f, "\"{text}\" is outside what a {what} can hold: {range}")
            }
        }
    }
}

impl core::error::Error for UnitError {}

/// Name and size of a unit, in base units.
type Unit = (&'static str, u64);

const TIME_UNITS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("min", 60 * NANOS_PER_SECOND),
    ("h", 3_600 * NANOS_PER_SECOND),
];

const RATE_UNITS: &[Unit] = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

const SIZE_UNITS: &[Unit] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Text form of a quantity.
struct Notation {
    what: &'static str,
    units: &'static [Unit],
    unit_names: &'static str,
    example: &'static str,
    range: &'static str,
    /// Maximum value, in base units.
    max: u64,
}

const TIME: Notation = Notation {
    what: "duration",
    units: TIME_UNITS,
    unit_names: "ns, us, ms, s, min, h",
    example: "50 ms",
    range: "0 ns to 292 years",
    max: i64::MAX as u64,
};

const RATE: Notation = Notation {
    what: "rate",
    units: RATE_UNITS,
    unit_names: "bit/s, kbit/s, Mbit/s, Gbit/s (or k, M, G)",
    example: "3 Mbit/s",
    range: "0 bit/s to 18 446 Pbit/s",
    max: u64::MAX,
};

const SIZE: Notation = Notation {
    what: "size",
    units: SIZE_UNITS,
    unit_names: "B, kB, MB, GB",
    example: "1200 B",
    range: "0 B to 18 446 PB",
    max: u64::MAX,
};

impl Notation {
    /// Reads `text` as a number of base units, rounded to a whole number.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '+' | '-');
        let mut split = trimmed.find(|c| !is_digit(c)).unwrap_or(trimmed.len());
        // An exponent: no unit begins with "e" and a digit.
        if let Some(power) = trimmed.get(split..).and_then(|rest| rest.strip_prefix(['e', 'E']))
            && power.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit())
        {
            split = trimmed.len() - power.trim_start_matches(is_digit).len();
        }
        let (number, unit) = trimmed.split_at(split);
        let number = number.replace('_', "");
        let unit = unit.trim();
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(self.not_a_number(text));
        }
        let &(_, scale) =
            self.units.iter().find(|(name, _)| *name == unit).ok_or_else(|| UnitError::Unit {
                text: text.to_owned(),
                what: self.what,
                units: self.unit_names,
                example: self.example,
            })?;
        let out_of_range = || UnitError::Range { text: text.to_owned(), what: self.what, range: self.range };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).filter(|&value| value <= self.max).ok_or_else(out_of_range);
        }
        let value = number.parse::<f64>().map_err(|_| self.not_a_number(text))? * scale as f64;
        let value = math::round(value);
        if (0.0..self.max as f64).contains(&value) { Ok(value as u64) } else { Err(out_of_range()) }
    }

    fn not_a_number(&self, text: &str) -> UnitError {
        UnitError::NotANumber { text: text.to_owned(), what: self.what, example: self.example }
    }
}

/// Prints `value` base units exactly, in the largest of `units` that gives at least 1, without trailing
/// zeros.
fn print(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let &(name, scale) =
        units.iter().rev().find(|(_, scale)| value >= *scale).or(units.first()).unwrap_or(&("", 1));
    let (whole, rest) = (value / scale, value % scale);
    let digits = scale.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    let fraction = fraction.trim_end_matches('0');
    let text = match f.precision() {
        Some(precision) => format!("{:.precision$} {name}", value as f64 / scale as f64),
        None if fraction.is_empty() || rest == 0 => format!("{whole} {name}"),
        None => format!("{whole}.{fraction} {name}"),
    };
    f.pad_integral(true, "", &text)
}

impl fmt::Display for TimeDelta {
    /// Prints for people: `"50 ms"`, `"113.6 ms"`, `"-3 us"`. A precision (`{:.1}`) rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[Unit] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", NANOS_PER_SECOND)];
        if self.as_nanos() < 0 {
            f.write_str("-")?;
        }
        print(f, self.as_nanos().unsigned_abs(), SHOWN)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_seconds())
    }
}

impl fmt::Display for DataRate {
    /// Prints for people: `"3 Mbit/s"`, `"1.0114 Mbit/s"`. A precision (`{:.1}`) rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.as_bps(), RATE_UNITS.get(..5).unwrap_or(RATE_UNITS))
    }
}

impl fmt::Display for DataSize {
    /// Prints for people: `"1200 B"` is `"1.2 kB"`. A precision (`{:.1}`) rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Datagram sizes stay in bytes, to be comparable.
        const KEEP_BYTES_BELOW: u64 = 100_000;
        let units = if self.as_bytes() < KEEP_BYTES_BELOW { 1 } else { 5 };
        print(f, self.as_bytes(), SIZE_UNITS.get(..units).unwrap_or(SIZE_UNITS))
    }
}

impl FromStr for TimeDelta {
    type Err = UnitError;
    /// Reads `"50 ms"`, `"1.5s"`, `"250us"`. A unit is required; negative durations are rejected.
    ///
    /// # Errors
    ///
    /// [`UnitError`] names the text and gives a valid example.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        TIME.parse(text).map(|nanos| Self::from_nanos(nanos as i64))
    }
}

impl FromStr for DataRate {
    type Err = UnitError;
    /// Reads `"3 Mbit/s"`, `"3Mbps"`, `"3M"`, `"3000000"`: bits per second, SI prefixes.
    ///
    /// # Errors
    ///
    /// [`UnitError`] names the text and gives a valid example.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        RATE.parse(text).map(Self::from_bps)
    }
}

impl FromStr for DataSize {
    type Err = UnitError;
    /// Reads `"1200 B"`, `"1.5 kB"`, `"1200"`: bytes, SI prefixes.
    ///
    /// # Errors
    ///
    /// [`UnitError`] names the text and gives a valid example.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.parse(text).map(Self::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_read_with_common_units() {
        let rates = [("10k", 10_000), ("3 Mbit/s", 3_000_000), ("1.5Gbps", 1_500_000_000), ("1_000", 1_000)];
        for (text, bps) in rates {
            assert_eq!(text.parse(), Ok(DataRate::from_bps(bps)));
        }
        for text in ["1.2 kB", "1.2e3 B", "12E+2 B", "12000e-1B"] {
            assert_eq!(text.parse(), Ok(DataSize::from_bytes(1200)));
        }
        for (text, micros) in [("250us", 250), ("0.16 s", 160_000), ("2min", 120_000_000)] {
            assert_eq!(text.parse(), Ok(TimeDelta::from_micros(micros)));
        }
    }

    #[test]
    fn errors_name_the_text_and_the_fix() {
        let message = |text: &str| text.parse::<TimeDelta>().unwrap_err().to_string();
        let units = r#""10": duration needs one of the units ns, us, ms, s, min, h, such as "50 ms""#;
        assert_eq!(message("10"), units);
        let number = r#""soon" is not a duration: write a number and a unit, such as "50 ms""#;
        assert_eq!(message("soon"), number);
        assert!(message("-1 s").contains("outside what a duration can hold"));
        assert!(matches!("3 Mib/s".parse::<DataRate>(), Err(UnitError::Unit { .. })));
        assert!(matches!("99999999 Tbit/s".parse::<DataRate>(), Err(UnitError::Range { .. })));
        for text in ["", ".", "-", "1.2.3 s", "--1 s", "µ", "\u{1F980} s", "1e99 s", "1 e3 s", "1e s"] {
            assert!(text.parse::<TimeDelta>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn quantities_are_printed_exactly() {
        assert_eq!(DataRate::from_bps(1_011_399).to_string(), "1.011399 Mbit/s");
        assert_eq!(DataRate::from_bps(0).to_string(), "0 bit/s");
        assert_eq!(DataSize::from_bytes(1200).to_string(), "1200 B");
        assert_eq!(DataSize::from_bytes(1_500_000).to_string(), "1.5 MB");
        assert_eq!(TimeDelta::from_nanos(113_600_000).to_string(), "113.6 ms");
        assert_eq!(TimeDelta::from_nanos(-3_000).to_string(), "-3 us");
        assert_eq!(format!("{:.1}", TimeDelta::from_nanos(1_234_567)), "1.2 ms");
    }

    proptest! {
        #[test]
        fn printed_quantities_are_read_back(bps: u64, nanos in 0..i64::MAX, bytes: u64) {
            prop_assert_eq!(DataRate::from_bps(bps).to_string().parse::<DataRate>().map(|r| {
                // Reading rounds fractions beyond 53 bits, but not whole numbers.
                (r.as_bps() as f64 - bps as f64).abs() <= bps as f64 * 1e-15
            }), Ok(true));
            let close = |a: f64, b: f64| (a - b).abs() <= b.abs() * 1e-15;
            let delta: TimeDelta = TimeDelta::from_nanos(nanos).to_string().parse().unwrap();
            prop_assert!(close(delta.as_nanos() as f64, nanos as f64));
            let size: DataSize = DataSize::from_bytes(bytes).to_string().parse().unwrap();
            prop_assert!(close(size.as_bytes() as f64, bytes as f64));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text: String) {
            let _ = text.parse::<DataRate>();
            let _ = text.parse::<TimeDelta>();
            let _ = text.parse::<DataSize>();
        }
    }
}
