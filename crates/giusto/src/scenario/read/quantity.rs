//! Quantities: numbers with a unit in quotes.

use std::{fmt, marker::PhantomData, str::FromStr};

use giusto_sim::link::queue::Limit;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A value that a file gives as text.
pub(super) trait Quantity: Sized {
    /// What a file must give, with an example.
    const EXPECTED: &'static str;

    fn read(text: &str) -> Result<Self, String>;
}

fn with_unit<T: FromStr<Err: fmt::Display>>(text: &str, expected: &str) -> Result<T, String> {
    match text.parse() {
        Ok(_) if !text.contains(char::is_alphabetic) => Err(format!("expected {expected}, found \"{text}\"")),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

impl Quantity for DataRate {
    const EXPECTED: &'static str = "a rate with its unit, such as \"5 Mbit/s\"";

    fn read(text: &str) -> Result<Self, String> {
        match with_unit(text, Self::EXPECTED)? {
            Self::ZERO => Err(format!("must be above 0 bit/s, found \"{text}\"")),
            rate => Ok(rate),
        }
    }
}

impl Quantity for DataSize {
    const EXPECTED: &'static str = "a size with its unit, such as \"1200 B\"";

    fn read(text: &str) -> Result<Self, String> {
        match with_unit(text, Self::EXPECTED)? {
            Self::ZERO => Err(format!("must be above 0 B, found \"{text}\"")),
            size => Ok(size),
        }
    }
}

impl Quantity for TimeDelta {
    const EXPECTED: &'static str = "a time with its unit, such as \"50 ms\"";

    fn read(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('-') {
            return Err(format!("must be at least 0 s, found \"{text}\""));
        }
        with_unit(text, Self::EXPECTED)
    }
}

impl Quantity for Timestamp {
    const EXPECTED: &'static str = "a time of the run with its unit, such as \"20 s\"";

    fn read(text: &str) -> Result<Self, String> {
        TimeDelta::read(text).map(|time| Self::ZERO + time)
    }
}

impl Quantity for Limit {
    const EXPECTED: &'static str = "\"100 packets\", \"64 kB\", \"300 ms\" or \"unlimited\"";

    fn read(text: &str) -> Result<Self, String> {
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
            None => Err(format!("expected {}, found \"{text}\"", Self::EXPECTED)),
        }
    }
}

/// Reads a quantity.
pub(super) fn quantity<'de, D: Deserializer<'de>, T: Quantity>(value: D) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>);
    impl<T: Quantity> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            T::read(text).map_err(E::custom)
        }
    }
    value.deserialize_str(Text(PhantomData))
}

/// Reads a quantity that need not be there.
pub(super) fn optional<'de, D: Deserializer<'de>, T: Quantity>(value: D) -> Result<Option<T>, D::Error> {
    quantity(value).map(Some)
}

/// A quantity as a type of its own, for lists and options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Q<T>(pub(super) T);

impl<'de, T: Quantity> Deserialize<'de> for Q<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        quantity(value).map(Self)
    }
}

/// Pairs of quantities without their wrappers.
pub(super) fn pairs<A, B>(pairs: Vec<(Q<A>, Q<B>)>) -> Vec<(A, B)> {
    pairs.into_iter().map(|(a, b)| (a.0, b.0)).collect()
}

/// A whole number of at least `MIN`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count<const MIN: u32>(pub(super) u32);

impl<'de, const MIN: u32> Deserialize<'de> for Count<MIN> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Number<const MIN: u32>;
        impl<const MIN: u32> Visitor<'_> for Number<MIN> {
            type Value = u32;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number of at least {MIN}")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<u32, E> {
                match u32::try_from(value) {
                    Ok(count) if count >= MIN => Ok(count),
                    Ok(_) => Err(E::custom(format_args!("must be at least {MIN}, found {value}"))),
                    Err(_) if value < 0 => {
                        Err(E::custom(format_args!("must be at least {MIN}, found {value}")))
                    }
                    Err(_) => Err(E::custom(format_args!("must be at most {}, found {value}", u32::MAX))),
                }
            }
        }
        value.deserialize_u32(Number::<MIN>).map(Self)
    }
}

/// Reads a count of at least 1.
pub(super) fn count<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    Count::<1>::deserialize(value).map(|count| count.0)
}

/// Reads a count of at least 1 that need not be there.
pub(super) fn optional_count<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    count(value).map(Some)
}

/// A number or a text, where both have a meaning.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a quoted string")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(u64::try_from(value).map_or(Scalar::Number(value as f64), Scalar::Whole))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
        }
        value.deserialize_any(Any)
    }
}

impl Scalar {
    pub(super) fn as_number(&self) -> Result<f64, String> {
        match self {
            Self::Whole(value) => Ok(*value as f64),
            Self::Number(value) => Ok(*value),
            Self::Text(text) => Err(format!("expected a number without quotes or unit, found \"{text}\"")),
        }
    }

    pub(super) fn as_quantity<T: Quantity>(&self) -> Result<T, String> {
        match self {
            Self::Whole(value) => Err(format!("expected {}, found {value}", T::EXPECTED)),
            Self::Number(value) => Err(format!("expected {}, found {value}", T::EXPECTED)),
            Self::Text(text) => T::read(text),
        }
    }
}
