//! A script of a dialogue: who talks when, in which datagrams.
//!
//! ```toml
//! repeat = 2
//!
//! [[part]]
//! who = "near"        # near, far or both
//! time = "2.4 s"
//! size = "172 B"
//! every = "20 ms"
//!
//! [[part]]            # without who: silence
//! time = "600 ms"
//! ```

use std::str::FromStr;

use giusto_session::probe::payload::PayloadTrace;
use giusto_units::{DataSize, TimeDelta};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The most datagrams of one end.
const MAX_PACKETS: usize = 10_000_000;
/// The most repetitions.
const MAX_REPEAT: u64 = 1_000_000;

/// An end of a dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that the script calls near.
    Near,
    /// The other end.
    Far,
}

/// A dialogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    repeat: u64,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    near: bool,
    far: bool,
    time: TimeDelta,
    /// Of the datagrams of those who talk.
    size: DataSize,
    every: TimeDelta,
}

/// An error in a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct ScriptError {
    file: String,
    line: usize,
    what: String,
}

impl Script {
    /// Reads the text of the file `name`.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] names file, line, value and fix.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScriptError> {
        let at = |offset: usize, what: String| {
            let line = 1 + text.get(..offset).unwrap_or(text).matches('\n').count();
            ScriptError { file: name.to_owned(), line, what }
        };
        let root = DeTable::parse(text)
            .map_err(|error| at(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        let (mut repeat, mut parts) = (1, Vec::new());
        for (key, value) in root.get_ref() {
            let place = value.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("repeat", DeValue::Integer(number)) => {
                    let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
                    repeat = number.filter(|number| (1..=MAX_REPEAT).contains(number)).ok_or_else(|| {
                        at(place, format!("repeat: must be a whole number from 1 to {MAX_REPEAT}"))
                    })?;
                }
                ("part", DeValue::Array(all)) => {
                    for part in all {
                        parts.push(Part::read(part, &at)?);
                    }
                }
                ("repeat", _) => return Err(at(place, "repeat: must be a whole number".to_owned())),
                ("part", _) => return Err(at(place, "part: write [[part]] before each part".to_owned())),
                (key, _) => {
                    let what = format!("unknown key \"{key}\": there are repeat and [[part]]");
                    return Err(at(value.span().start, what));
                }
            }
        }
        let script = Self { repeat, parts };
        for role in [Role::Near, Role::Far] {
            if script.packets(role) > MAX_PACKETS as u64 {
                return Err(at(0, format!("more than {MAX_PACKETS} datagrams: shorten it, or lower repeat")));
            }
        }
        if script.packets(Role::Near) == 0 && script.packets(Role::Far) == 0 {
            return Err(at(0, "nobody talks: give a [[part]] with who, time, size and every".to_owned()));
        }
        Ok(script)
    }

    /// The datagrams of one end, and when they leave; `None` where it never talks.
    pub fn trace(&self, role: Role) -> Option<PayloadTrace> {
        let (mut sizes, mut departures) = (Vec::new(), Vec::new());
        let mut begin = TimeDelta::ZERO;
        for _ in 0..self.repeat {
            for part in &self.parts {
                if part.talks(role) {
                    for number in 0..part.packets() {
                        departures.push(begin + part.every * i64::try_from(number).unwrap_or(i64::MAX));
                        sizes.push(part.size);
                    }
                }
                begin += part.time;
            }
        }
        PayloadTrace::timed(sizes, departures)
    }

    fn packets(&self, role: Role) -> u64 {
        let talking = self.parts.iter().filter(|part| part.talks(role));
        talking.fold(0_u64, |sum, part| sum.saturating_add(part.packets())).saturating_mul(self.repeat)
    }
}

impl Part {
    fn talks(&self, role: Role) -> bool {
        match role {
            Role::Near => self.near,
            Role::Far => self.far,
        }
    }

    /// The datagrams that begin within its time.
    fn packets(&self) -> u64 {
        let (time, every) = (self.time.as_nanos().unsigned_abs(), self.every.as_nanos().unsigned_abs());
        time.div_ceil(every.max(1))
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        at: &impl Fn(usize, String) -> ScriptError,
    ) -> Result<Self, ScriptError> {
        let place = value.span().start;
        let DeValue::Table(table) = value.get_ref() else {
            return Err(at(place, "part: write [[part]] before each part".to_owned()));
        };
        let (mut who, mut time, mut size, mut every) = (None, None, None, None);
        for (key, value) in table {
            let place = value.span().start;
            let key: &str = key.get_ref();
            let DeValue::String(text) = value.get_ref() else {
                return Err(at(place, format!("{key}: expected a quoted string, such as \"20 ms\"")));
            };
            let wrong = |what| at(place, what);
            match key {
                "who" => {
                    who = Some(match text.as_ref() {
                        "near" => (true, false),
                        "far" => (false, true),
                        "both" => (true, true),
                        other => {
                            let what =
                                format!("who: must be \"near\", \"far\" or \"both\", found \"{other}\"");
                            return Err(at(place, what));
                        }
                    });
                }
                "time" => time = Some(quantity(key, text, &TimeDelta::ZERO).map_err(wrong)?),
                "size" => size = Some(quantity(key, text, &DataSize::ZERO).map_err(wrong)?),
                "every" => every = Some(quantity(key, text, &TimeDelta::ZERO).map_err(wrong)?),
                _ => {
                    let what = format!("unknown key \"{key}\": a part has who, time, size and every");
                    return Err(at(place, what));
                }
            }
        }
        let missing = |key: &str, why: &str| at(place, format!("a part without {key}: add {why}"));
        let time = time.ok_or_else(|| missing("time", "time = \"2 s\""))?;
        let Some((near, far)) = who else {
            return if size.is_some() || every.is_some() {
                Err(missing(
                    "who",
                    "who = \"near\", \"far\" or \"both\", or leave out size and every for silence",
                ))
            } else {
                Ok(Self { near: false, far: false, time, size: DataSize::ZERO, every: time })
            };
        };
        let size = size.ok_or_else(|| missing("size", "size = \"172 B\""))?;
        let every = every.ok_or_else(|| missing("every", "every = \"20 ms\""))?;
        Ok(Self { near, far, time, size, every })
    }
}

/// A quantity above zero.
fn quantity<T: FromStr<Err: ToString> + PartialOrd>(key: &str, text: &str, zero: &T) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(value) if value > *zero => Ok(value),
        Ok(_) => Err(format!("{key}: must be above 0, found \"{text}\"")),
        Err(error) => Err(format!("{key}: {}", error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALOGUE: &str = r#"
repeat = 2
[[part]]
who = "near"
time = "50 ms"
size = "172 B"
every = "20 ms"
[[part]]
time = "100 ms"
[[part]]
who = "both"
time = "40 ms"
size = "60 B"
every = "20 ms"
"#;

    fn millis(trace: &PayloadTrace) -> Vec<(f64, u64)> {
        let times = trace.departures().unwrap().iter().map(|time| time.as_millis());
        times.zip(trace.sizes().iter().map(|size| size.as_bytes())).collect()
    }

    #[test]
    fn each_end_talks_in_its_parts_and_the_script_repeats() {
        let script = Script::parse(DIALOGUE, "d.toml").unwrap();
        // By hand: a round lasts 190 ms.
        let near = [(0.0, 172), (20.0, 172), (40.0, 172), (150.0, 60), (170.0, 60)];
        let again = near.map(|(at, size)| (at + 190.0, size));
        assert_eq!(millis(&script.trace(Role::Near).unwrap()), [near, again].concat());
        let far = [(150.0, 60), (170.0, 60), (340.0, 60), (360.0, 60)];
        assert_eq!(millis(&script.trace(Role::Far).unwrap()), far);
        let alone = Script::parse(&DIALOGUE.replace("both", "near"), "d.toml").unwrap();
        assert_eq!(alone.trace(Role::Far), None);
    }

    #[test]
    fn errors_name_line_value_and_fix() {
        for (from, to, expected) in [
            (
                "who = \"both\"",
                "who = \"all\"",
                "11: who: must be \"near\", \"far\" or \"both\", found \"all\"",
            ),
            ("size = \"60 B\"", "size = \"0 B\"", "13: size: must be above 0, found \"0 B\""),
            ("size = \"60 B\"\n", "", "10: a part without size: add size = \"172 B\""),
            ("time = \"50 ms\"", "time = 50", "5: time: expected a quoted string, such as \"20 ms\""),
            (
                "time = \"100 ms\"",
                "tme = \"100 ms\"",
                "9: unknown key \"tme\": a part has who, time, size and every",
            ),
            ("repeat = 2", "repeat = 0", "2: repeat: must be a whole number from 1 to 1000000"),
            ("repeat = 2", "repeats = 2", "2: unknown key \"repeats\": there are repeat and [[part]]"),
            (
                "repeat = 2",
                "repeat = 1000000",
                "1: more than 10000000 datagrams: shorten it, or lower repeat",
            ),
        ] {
            let every = if to.ends_with("1000000") { "every = \"1 ms\"" } else { "every = \"20 ms\"" };
            let text = DIALOGUE.replacen(from, to, 1).replace("every = \"20 ms\"", every);
            let error = Script::parse(&text, "d.toml").unwrap_err().to_string();
            assert_eq!(error, format!("d.toml:{expected}"));
        }
        let silence = "[[part]]\ntime = \"1 s\"\n";
        assert!(Script::parse(silence, "d.toml").unwrap_err().to_string().contains("nobody talks"));
        for length in 0..DIALOGUE.len() {
            // Whatever is cut off, it does not panic.
            let _ = Script::parse(&DIALOGUE[..length], "d.toml");
        }
    }
}
