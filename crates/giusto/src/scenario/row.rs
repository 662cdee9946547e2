//! What a row of the [table of keys](super::keys) is.

use giusto_congestion::Algorithm;
use giusto_units::{DataRate, DataSize, TimeDelta};

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Preset,
    /// What it means, in one sentence.
    pub(crate) text: &'static str,
}

/// Rows that belong together.
pub(crate) type Keys = &'static [Key];

/// A table of a file.
#[derive(Debug)]
pub(crate) struct Group {
    /// What it describes.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Keys],
    pub(crate) kinds: Option<Kinds>,
}

/// Kinds of what a table describes. Where a kind requires no keys, its name may stand alone.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// The key that names the kind.
    pub(crate) tag: &'static str,
    /// The kind of a table that names none.
    pub(crate) default: Option<&'static str>,
    pub(crate) all: &'static [Variant],
}

/// One kind of something.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) text: &'static str,
    pub(crate) keys: &'static [Keys],
}

/// The value of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    /// The name of another part.
    Name,
    /// True or false.
    Switch,
    Whole(Range),
    Number(Range),
    /// A text with a unit; the range is in bit/s.
    Rate(Range),
    /// In bytes.
    Size(Range),
    /// In seconds.
    Time(Range),
    /// A text with one of these units and what each is smaller by than the base; the range is in the first.
    Measure(&'static [(&'static str, f64)], Range),
    /// The length of a queue: packets, a size, a time, or `unlimited`.
    Capacity,
    /// Exactly this text.
    Word(&'static str),
    Choice(fn() -> Vec<&'static str>),
    /// A controller: a name, a name with constants, a file or a table of them.
    Controller,
    List(&'static Self),
    Pair(&'static Self, &'static Self),
    /// One of several forms.
    Any(&'static [Self]),
    Table(&'static Group),
}

/// The range of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Whether the minimum itself is outside.
    pub(crate) above: bool,
}

/// From 0 on.
pub(crate) const ANY: Range = from(0.0);
/// Above 0.
pub(crate) const ABOVE_0: Range = above(0.0);
/// A count of at least 1.
pub(crate) const COUNT: Kind = Kind::Whole(from(1.0));
/// A ratio or a probability.
pub(crate) const RATIO: Kind = Kind::Number(within(0.0, 1.0));

pub(super) const fn from(min: f64) -> Range {
    within(min, f64::INFINITY)
}

pub(super) const fn within(min: f64, max: f64) -> Range {
    Range { min, max, above: false }
}

pub(super) const fn above(min: f64) -> Range {
    Range { above: true, ..from(min) }
}

/// Above 0, and at most `max`.
pub(crate) const fn up_to(max: f64) -> Range {
    Range { max, ..ABOVE_0 }
}

/// What holds where a file leaves a key out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Preset {
    /// The key must be there; a value to begin with.
    Required(&'static str),
    /// This value, as in a file; strings have no quotes.
    Is(&'static str),
    /// The same; `giusto explore` has a control for it also where a file leaves it out.
    Shown(&'static str),
    /// What this says.
    Said(&'static str),
    /// Nothing.
    Unset,
}

/// Something with a name in a file.
pub(crate) trait Named: Copy + 'static {
    fn named() -> Vec<(&'static str, Self)>;
}

/// The kind of a value of this type.
pub(super) const fn choice<T: Named>() -> Kind {
    Kind::Choice(|| T::named().into_iter().map(|(name, _)| name).collect())
}

impl Group {
    pub(super) const fn new(name: &'static str, keys: &'static [Keys]) -> Self {
        Self { name, keys, kinds: None }
    }

    pub(super) const fn with_kinds(
        self,
        tag: &'static str,
        default: Option<&'static str>,
        all: &'static [Variant],
    ) -> Self {
        Self { kinds: Some(Kinds { tag, default, all }), ..self }
    }

    /// The kind of a table with these keys that names none: the default, or another one whose required keys are there.
    pub(crate) fn unnamed(&'static self, has: &dyn Fn(&str) -> bool) -> Option<&'static Variant> {
        let kinds = self.kinds.as_ref()?;
        let default = kinds.all.iter().find(|kind| Some(kind.name) == kinds.default)?;
        let fits = |kind: &&Variant| kind.rows().all(|row| !row.is_required() || has(row.name));
        let other = || kinds.all.iter().find(|kind| kind.needs_keys() && fits(kind));
        Some(if fits(&default) { default } else { other().unwrap_or(default) })
    }

    /// The kind of this name.
    pub(crate) fn kind(&'static self, name: &str) -> Option<&'static Variant> {
        self.kinds.as_ref()?.all.iter().find(|kind| kind.name == name)
    }

    /// The rows of a table of this kind.
    pub(crate) fn rows(&self, kind: Option<&'static Variant>) -> impl Iterator<Item = &'static Key> {
        let keys: Vec<Keys> =
            self.keys.iter().chain(kind.map_or(&[][..], |kind| kind.keys)).copied().collect();
        keys.into_iter().flatten()
    }
}

impl Variant {
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().copied().flatten()
    }

    fn needs_keys(&self) -> bool {
        self.rows().any(Key::is_required)
    }
}

pub(super) const fn variant(name: &'static str, text: &'static str, keys: &'static [Keys]) -> Variant {
    Variant { name, text, keys }
}

impl Key {
    pub(crate) const fn is_required(&self) -> bool {
        matches!(self.default, Preset::Required(_))
    }
}

impl Kind {
    /// Its forms.
    pub(crate) fn forms(&self) -> &[Self] {
        match self {
            Self::Any(forms) => forms,
            one => std::slice::from_ref(one),
        }
    }

    /// The tables that it can be, alone or in a list.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &'static Group> {
        self.forms().iter().filter_map(|form| match form {
            Self::Table(group) | Self::List(Self::Table(group)) => Some(*group),
            _ => None,
        })
    }

    /// The names that it can be.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let of = |form: &Self| match form {
            Self::Word(word) => vec![*word],
            Self::Choice(names) => names(),
            Self::Controller => Algorithm::all().map(Algorithm::name).collect(),
            Self::Table(Group { keys, kinds: Some(kinds), .. })
                if !keys.iter().copied().flatten().any(Key::is_required) =>
            {
                kinds.all.iter().filter(|kind| !kind.needs_keys()).map(|kind| kind.name).collect()
            }
            _ => Vec::new(),
        };
        self.forms().iter().flat_map(of).collect()
    }

    /// A number of this kind with its unit.
    pub(crate) fn write(&self, number: f64) -> String {
        match self {
            Self::Rate(_) => DataRate::from_bps(number as u64).to_string(),
            Self::Size(_) => DataSize::from_bytes(number as u64).to_string(),
            Self::Time(_) if number == 0.0 => "0 s".to_owned(),
            Self::Time(_) => TimeDelta::from_seconds_f64(number).to_string(),
            Self::Measure([(unit, _), ..], _) => format!("{number} {unit}"),
            _ => number.to_string(),
        }
    }

    pub(crate) const fn range(&self) -> Option<Range> {
        match *self {
            Self::Whole(range)
            | Self::Number(range)
            | Self::Rate(range)
            | Self::Size(range)
            | Self::Time(range)
            | Self::Measure(_, range) => Some(range),
            _ => None,
        }
    }

    /// The bounds of the range in words: `above 0 s`, `1 to 10`.
    pub(crate) fn bounds(&self) -> String {
        let Some(Range { min, max, above }) = self.range() else { return String::new() };
        let (least, most) = (self.write(min), self.write(max));
        match (above, max.is_finite()) {
            (true, true) => format!("above {least}, at most {most}"),
            (true, false) => format!("above {least}"),
            (false, true) => format!("{least} to {most}"),
            (false, false) => format!("at least {least}"),
        }
    }

    /// Says that a number is outside the range, if it is; `found` is what stands in the file.
    pub(crate) fn check(&self, number: f64, found: &str) -> Result<(), String> {
        match self.range() {
            Some(range) if !range.holds(number) => Err(format!("must be {}, found {found}", self.bounds())),
            _ => Ok(()),
        }
    }
}

impl Range {
    fn holds(self, number: f64) -> bool {
        number <= self.max && if self.above { number > self.min } else { number >= self.min }
    }
}

/// The key that names the kind of a table that is the value of `key`.
pub(crate) fn tag_of(key: &str) -> &'static str {
    if key == "video" { "model" } else { "kind" }
}
