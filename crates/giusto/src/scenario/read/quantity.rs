//! Values of a file: quantities, which are text with a unit, numbers, and lists and pairs of them.

use std::{fmt, str::FromStr};

use giusto_sim::link::queue::Limit;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use toml::de::{DeInteger, DeValue};

use super::value::{Found, Node, Read, expected, list, shown, text, within, wrong};
use crate::scenario::row::Kind;

/// The quantity that `parse` makes of a text.
fn quantity<T>(node: &Node<'_>, what: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Found<T> {
    let Some(text) = node.get_ref().as_str() else { return expected(node, what) };
    parse(text).or_else(|error| wrong(node, error))
}

/// A number with its unit, which must not be `excluded`.
fn with_unit<T: FromStr<Err: fmt::Display> + PartialEq>(
    node: &Node<'_>,
    what: &str,
    excluded: Option<(T, &str)>,
) -> Found<T> {
    quantity(node, what, |text| match text.parse::<T>() {
        Ok(_) if !text.contains(char::is_alphabetic) => Err(format!("expected {what}, found \"{text}\"")),
        Ok(value) => match excluded {
            Some((zero, name)) if value == zero => Err(format!("must be above {name}, found \"{text}\"")),
            _ => Ok(value),
        },
        Err(error) => Err(error.to_string()),
    })
}

impl Read for DataRate {
    fn read(node: &Node<'_>) -> Found<Self> {
        with_unit(node, "a rate with its unit, such as \"5 Mbit/s\"", Some((Self::ZERO, "0 bit/s")))
    }
}

/// A rate that may be zero, as during an outage. Zero needs no unit.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::scenario) struct RateOrZero(pub(in crate::scenario) DataRate);

impl Read for RateOrZero {
    fn read(node: &Node<'_>) -> Found<Self> {
        if node.get_ref().as_str().is_some_and(|text| text.trim() == "0") {
            return Ok(Self::default());
        }
        with_unit(node, "a rate with its unit, such as \"5 Mbit/s\", or \"0\"", None).map(Self)
    }
}

impl Read for DataSize {
    fn read(node: &Node<'_>) -> Found<Self> {
        with_unit(node, "a size with its unit, such as \"1200 B\"", Some((Self::ZERO, "0 B")))
    }
}

impl Read for TimeDelta {
    fn read(node: &Node<'_>) -> Found<Self> {
        match node.get_ref().as_str() {
            Some(text) if text.trim_start().starts_with('-') => {
                wrong(node, format_args!("must be at least 0 s, found \"{text}\""))
            }
            _ => with_unit(node, "a time with its unit, such as \"50 ms\"", None),
        }
    }
}

impl Read for Timestamp {
    fn read(node: &Node<'_>) -> Found<Self> {
        if node.get_ref().is_str() {
            TimeDelta::read(node).map(|time| Self::ZERO + time)
        } else {
            expected(node, "a time of the run with its unit, such as \"20 s\"")
        }
    }
}

impl Read for Limit {
    fn read(node: &Node<'_>) -> Found<Self> {
        const WHAT: &str = "\"100 packets\", \"64 kB\", \"300 ms\" or \"unlimited\"";
        quantity(node, WHAT, |text| {
            let text = text.trim();
            let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
            let limit = match packets {
                Some(number) => number.trim().parse().ok().map(Self::Packets),
                None if text == "unlimited" => Some(Self::Unlimited),
                None if !text.contains(char::is_alphabetic) => None,
                None => {
                    let size = text.parse().ok().map(Self::Bytes);
                    size.or_else(|| text.parse().ok().map(Self::Time))
                }
            };
            match limit {
                Some(Self::Packets(0) | Self::Bytes(DataSize::ZERO) | Self::Time(TimeDelta::ZERO)) => {
                    Err(format!("must be above 0, found \"{text}\""))
                }
                Some(limit) => Ok(limit),
                None => Err(format!("expected {WHAT}, found \"{text}\"")),
            }
        })
    }
}

impl Read for String {
    fn read(node: &Node<'_>) -> Found<Self> {
        text(node).map(str::to_owned)
    }
}

impl Read for bool {
    fn read(node: &Node<'_>) -> Found<Self> {
        node.get_ref().as_bool().map_or_else(|| expected(node, "true or false"), Ok)
    }
}

impl Read for f64 {
    fn read(node: &Node<'_>) -> Found<Self> {
        let value = match node.get_ref() {
            DeValue::Float(value) => value.as_str().parse().ok(),
            DeValue::Integer(value) => Some(integer(value) as Self),
            _ => return expected(node, "a number without quotes or unit, such as 0.01"),
        };
        value.filter(|value: &Self| value.is_finite()).map_or_else(|| expected(node, "a finite number"), Ok)
    }
}

/// What does not fit into 128 bits is too large, or too small, by far.
fn integer(value: &DeInteger<'_>) -> i128 {
    let far = if value.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(value.as_str(), value.radix()).unwrap_or(far)
}

impl Read for u64 {
    fn read(node: &Node<'_>) -> Found<Self> {
        let DeValue::Integer(value) = node.get_ref() else { return expected(node, "a whole number") };
        let number = integer(value);
        let bound = if number < 0 { "at least 0" } else { "at most 18446744073709551615" };
        Self::try_from(number).or_else(|_| wrong(node, format_args!("must be {bound}, found {value}")))
    }
}

impl Read for u32 {
    fn read(node: &Node<'_>) -> Found<Self> {
        let number = u64::read(node)?;
        let many = |_| wrong(node, format_args!("must be at most {}, found {number}", Self::MAX));
        Self::try_from(number).or_else(many)
    }
}

impl Read for usize {
    fn read(node: &Node<'_>) -> Found<Self> {
        u32::read(node).map(|number| number as Self)
    }
}

/// A number with one of `units`, divided by what the unit is smaller by.
pub(in crate::scenario) fn measure(node: &Node<'_>, units: &[(&str, f64)]) -> Found<f64> {
    let read = |text: &str| {
        let (unit, divisor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number / divisor)
    };
    let value = node.get_ref().as_str().and_then(|text| read(text.trim()));
    let unit = units.first().map_or("", |(unit, _)| unit);
    value.map_or_else(|| expected(node, &format!("a number and its unit, such as \"3 {unit}\"")), Ok)
}

/// Checks the range of a number.
pub(super) fn check(kind: &Kind, node: &Node<'_>) -> Result<(), String> {
    let (text, is_integer) = (node.get_ref().as_str(), node.get_ref().is_integer());
    let number = match kind {
        Kind::Whole(_) if !is_integer => {
            return Err(format!("expected a whole number, {}, found {}", kind.bounds(), shown(node)));
        }
        Kind::Whole(_) | Kind::Number(_) => f64::read(node).ok(),
        Kind::Rate(_) => text.and_then(|text| text.parse().ok()).map(|rate: DataRate| rate.as_bps() as f64),
        Kind::Size(_) => text.and_then(|text| text.parse().ok()).map(|size: DataSize| size.as_bytes() as f64),
        Kind::Time(_) => text.and_then(|text| text.parse().ok()).map(TimeDelta::as_seconds),
        Kind::Measure(units, _) => {
            let first = units.first().map_or(1.0, |(_, divisor)| *divisor);
            measure(node, units).ok().map(|number| number * first)
        }
        Kind::Any(forms) => {
            let fits = |form: &&Kind| is_integer || !matches!(form, Kind::Whole(_));
            return forms.iter().filter(fits).try_for_each(|form| check(form, node));
        }
        _ => None,
    };
    number.map_or(Ok(()), |number| kind.check(number, &shown(node)))
}

impl<T: Read> Read for Option<T> {
    fn read(node: &Node<'_>) -> Found<Self> {
        T::read(node).map(Some)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node<'_>) -> Found<Self> {
        list(node, |node| T::read(node))
    }
}

impl<A: Read, B: Read> Read for (A, B) {
    fn read(node: &Node<'_>) -> Found<Self> {
        const WHAT: &str = "a pair of values in brackets";
        let Some(elements) = node.get_ref().as_array() else { return expected(node, WHAT) };
        let mut elements = elements.iter();
        match (elements.next(), elements.next(), elements.len()) {
            (Some(first), Some(second), 0) => {
                let first = A::read(first).map_err(|problems| within(problems, " 1"))?;
                Ok((first, B::read(second).map_err(|problems| within(problems, " 2"))?))
            }
            (first, second, more) => {
                let found = first.iter().count() + second.iter().count() + more;
                wrong(node, format_args!("expected {WHAT}, found {found}"))
            }
        }
    }
}
