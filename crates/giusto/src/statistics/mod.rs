//! The table of figures: one row for each statistic of a flow, a stream, a link and a city.
//!
//! A row says what a statistic is called, what it is, in which unit, and from where in the record it is read. Tables in the terminal,
//! pages, CSV and Arrow columns, Python attributes, metrics of expectations and `docs/reference/statistics.md` are made from the rows. To
//! add a statistic: compute it in the record, and add its row.

mod city;
mod flow;
mod link;
mod measured;
mod metric;
mod unit;
mod window;

use crate::{
    quantiles::Quantiles,
    record::{Distribution, FlowRecord},
    text::format::{count, decimals, mbits, or_unknown, percent, plural, ppm, rate, short, time_us},
};

pub use city::{CALLS, CityMetric, RADIO, USERS};
pub use flow::{FLOW, MEDIA, REPAIR, STREAM};
pub use link::LINK;
pub use measured::RUN;
pub use metric::{Metric, Subject};
pub use unit::Unit;
pub(crate) use window::{FlowWindow, Window};

/// A statistic of `T`.
#[derive(Debug)]
pub struct Statistic<T: 'static> {
    /// Name in JSON, CSV, Arrow and Python, with its unit.
    pub name: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// What it is, in a sentence.
    pub definition: &'static str,
    /// Unit, and from where in the record it is read.
    pub read: Read<T>,
    /// In which order columns leave a table that is too wide, the highest number first; 0 stays. `None`: not in tables.
    pub column: Option<u8>,
    /// Whether its column is left out where it is 0 everywhere.
    pub is_rare: bool,
    /// Whether tables of sweeps have it.
    pub in_sweeps: bool,
    /// As a metric of expectations: its name, and its value in a window.
    pub metric: Option<(&'static str, Measure)>,
}

/// The unit of a statistic, and from where in the record it is read.
#[derive(Debug, Clone, Copy)]
pub enum Read<T: 'static> {
    /// In bit/s.
    Rate(fn(&T) -> Option<f64>),
    /// A ratio, 0 to 1.
    Ratio(fn(&T) -> Option<f64>),
    /// A number of these.
    Count(&'static str, fn(&T) -> Option<u64>),
    /// A time in ms.
    Time(fn(&T) -> Option<f64>),
    /// In dB.
    Decibel(fn(&T) -> Option<f64>),
    /// In parts per million.
    Ppm(fn(&T) -> Option<f64>),
    /// Without unit.
    Number(fn(&T) -> Option<f64>),
    /// Quantiles of a time, in units of so many µs.
    Quantiles(f64, fn(&T) -> Quantiles),
    /// A distribution in ms.
    Delay(fn(&T) -> Option<Distribution>),
    /// Not in the record: a metric of expectations alone, in this unit.
    Metric(Unit),
}

/// The value of a metric in the window of an expectation.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    /// A number.
    Number(fn(&Window<'_>) -> Option<f64>),
    /// A metric for each part of a distribution: `delay-p95`.
    Delay(fn(&Window<'_>) -> Option<Distribution>),
    /// That of the record, for cities.
    Recorded,
}

/// Part of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Mean.
    Mean,
    /// Median.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// Maximum.
    Max,
}

giusto_units::names!(Part { Mean = "mean", P50 = "p50", P95 = "p95", P99 = "p99", Max = "max" });

impl Part {
    /// Its value.
    pub const fn of(self, all: &Distribution) -> f64 {
        match self {
            Self::Mean => all.mean,
            Self::P50 => all.p50,
            Self::P95 => all.p95,
            Self::P99 => all.p99,
            Self::Max => all.max,
        }
    }
}

impl<T> Statistic<T> {
    const fn new(name: &'static str, title: &'static str, read: Read<T>) -> Self {
        Self {
            name,
            title,
            definition: "",
            read,
            column: None,
            is_rare: false,
            in_sweeps: false,
            metric: None,
        }
    }

    const fn rate(name: &'static str, title: &'static str, of: fn(&T) -> Option<f64>) -> Self {
        Self::new(name, title, Read::Rate(of))
    }

    const fn ratio(name: &'static str, title: &'static str, of: fn(&T) -> Option<f64>) -> Self {
        Self::new(name, title, Read::Ratio(of))
    }

    const fn packets(name: &'static str, title: &'static str, of: fn(&T) -> Option<u64>) -> Self {
        Self::new(name, title, Read::Count("packets", of))
    }

    const fn frames(name: &'static str, title: &'static str, of: fn(&T) -> Option<u64>) -> Self {
        Self::new(name, title, Read::Count("frames", of))
    }

    const fn datagrams(name: &'static str, title: &'static str, of: fn(&T) -> Option<u64>) -> Self {
        Self::new(name, title, Read::Count("datagrams", of))
    }

    const fn delay(name: &'static str, title: &'static str, of: fn(&T) -> Option<Distribution>) -> Self {
        Self::new(name, title, Read::Delay(of))
    }

    const fn defined(self, definition: &'static str) -> Self {
        Self { definition, ..self }
    }

    const fn column(self, place: u8) -> Self {
        Self { column: Some(place), ..self }
    }

    const fn rare(self) -> Self {
        Self { is_rare: true, ..self }
    }

    const fn in_sweeps(self) -> Self {
        Self { in_sweeps: true, ..self }
    }

    const fn metric(self, name: &'static str, value: fn(&Window<'_>) -> Option<f64>) -> Self {
        Self { metric: Some((name, Measure::Number(value))), ..self }
    }

    const fn delay_metric(self, name: &'static str, value: fn(&Window<'_>) -> Option<Distribution>) -> Self {
        Self { metric: Some((name, Measure::Delay(value))), ..self }
    }

    const fn named(self, name: &'static str) -> Self {
        Self { metric: Some((name, Measure::Recorded)), ..self }
    }

    /// Its unit.
    pub const fn unit(&self) -> Unit {
        match self.read {
            Read::Rate(_) => Unit::Rate,
            Read::Ratio(_) => Unit::Ratio,
            Read::Count(of, _) => Unit::Count(of),
            Read::Time(_) | Read::Quantiles(..) | Read::Delay(_) => Unit::Time,
            Read::Ppm(_) => Unit::Count("ppm"),
            Read::Number(_) => Unit::Count(""),
            Read::Decibel(_) => Unit::Count("dB"),
            Read::Metric(unit) => unit,
        }
    }

    /// Whether it has a value in `record`.
    pub fn is_known(&self, record: &T) -> bool {
        match self.read {
            Read::Count(_, of) => of(record).is_some_and(|count| count > 0 || !self.is_rare),
            Read::Delay(of) => of(record).is_some(),
            Read::Quantiles(_, of) => of(record) != Quantiles::default(),
            _ => self.number(record).is_some(),
        }
    }

    /// Its value in its unit; `None` for a distribution.
    pub fn number(&self, record: &T) -> Option<f64> {
        match self.read {
            Read::Rate(of) => measured(of(record)),
            Read::Ratio(of) | Read::Time(of) | Read::Decibel(of) | Read::Ppm(of) | Read::Number(of) => {
                of(record)
            }
            Read::Count(_, of) => of(record).map(|count| count as f64),
            Read::Delay(_) | Read::Quantiles(..) | Read::Metric(_) => None,
        }
    }

    /// The name of its column, or of that of a part of a distribution: `delay_p95_ms`.
    pub(crate) fn name_of(&self, part: Option<Part>) -> String {
        match part {
            Some(part) => format!("{}_{}_ms", self.name.trim_end_matches("_ms"), part.name()),
            None => self.name.to_owned(),
        }
    }

    /// The value of that column.
    pub(crate) fn value_of(&self, record: &T, part: Option<Part>) -> Option<f64> {
        match (&self.read, part) {
            (Read::Delay(of), Some(part)) => Some(part.of(&of(record)?)),
            _ => self.number(record),
        }
    }

    /// Its value in words, of a distribution these parts.
    pub fn text(&self, record: &T, parts: &[Part]) -> String {
        match self.read {
            Read::Rate(of) => or_unknown(measured(of(record)), rate),
            Read::Ratio(of) => or_unknown(of(record), percent),
            Read::Count(_, of) => or_unknown(of(record), count),
            Read::Time(of) => or_unknown(of(record), |ms| time_us(ms * 1e3)),
            Read::Decibel(of) => or_unknown(of(record), |db| format!("{db:.1} dB")),
            Read::Ppm(of) => or_unknown(of(record), |error| format!("{} ppm", ppm(error))),
            Read::Number(of) => or_unknown(of(record), |value| decimals(value, 2)),
            Read::Quantiles(us, of) => quantiles(&of(record), us),
            Read::Delay(of) => or_unknown(of(record), |all| {
                parts.iter().map(|part| short(part.of(&all))).collect::<Vec<_>>().join(" / ")
            }),
            Read::Metric(_) => String::new(),
        }
    }

    /// A value of it without unit: of a rate in Mbit/s.
    pub(crate) fn bare(&self, value: f64) -> String {
        match self.unit() {
            Unit::Rate => mbits(value),
            Unit::Ratio => percent(value),
            Unit::Count(_) => count(value as u64),
            Unit::Time => short(value),
        }
    }

    /// Its value without unit, of a distribution these parts.
    pub(crate) fn bare_text(&self, record: &T, parts: &[Part]) -> String {
        match self.read {
            Read::Delay(_) => self.text(record, parts),
            _ => or_unknown(self.number(record), |value| self.bare(value)),
        }
    }

    /// The header of a column of such values: `frame delay` and `p95 ms`.
    pub(crate) fn bare_header(&self, parts: &[Part]) -> String {
        match self.read {
            Read::Rate(_) => format!("{}\nMbit/s", self.title.trim_end_matches(" rate")),
            Read::Delay(_) => {
                let parts: Vec<_> = parts.iter().map(|part| part.name()).collect();
                format!("{}\n{} ms", self.title, parts.join("/"))
            }
            _ => self.title.to_owned(),
        }
    }

    /// Its value in words, with the unit also of a count.
    pub fn with_unit(&self, record: &T) -> String {
        match self.read {
            Read::Count(many, of) => {
                let one = many.strip_suffix('s').unwrap_or(many);
                or_unknown(of(record), |count| plural(count, one, many))
            }
            _ => self.text(record, &[]),
        }
    }

    /// The header of its column: the title, and below it the unit or the parts of a distribution.
    pub fn header(&self, parts: &[Part]) -> String {
        match self.read {
            Read::Delay(_) => {
                let parts = parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(" / ");
                format!("{} ms\n{parts}", self.title)
            }
            _ => in_two_lines(self.title),
        }
    }
}

/// The statistic of flows of this name.
pub(crate) fn of_flow(name: &str) -> Option<&'static Statistic<FlowRecord>> {
    FLOW.iter().chain(MEDIA).find(|row| row.name == name)
}

/// A rate, unless it is that of no time.
fn measured(rate: Option<f64>) -> Option<f64> {
    rate.filter(|rate| !rate.is_nan())
}

/// The known quantiles, in units of so many µs, and the maximum.
fn quantiles(values: &Quantiles, us: f64) -> String {
    let named =
        [(values.p50, "median"), (values.p99, "p99"), (values.p999, "p99.9"), (values.max, "maximum")];
    let known =
        named.into_iter().filter_map(|(value, name)| Some(format!("{} {name}", time_us(value? * us))));
    known.collect::<Vec<_>>().join(", ")
}

/// Words in two lines, as narrow as can be.
fn in_two_lines(title: &str) -> String {
    let breaks = title.match_indices(' ').map(|(at, _)| title.split_at(at));
    let width = |(first, second): &(&str, &str)| first.len().max(second.len() - 1);
    match breaks.min_by_key(width) {
        Some((first, second)) => format!("{first}\n{}", second.trim_start()),
        None => title.to_owned(),
    }
}
