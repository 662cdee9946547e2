//! A serde deserializer over TOML values that know their places.
//!
//! It differs from that of `toml` in its errors, which have the path and the place of the value and list unknown keys with the
//! nearest known one, and in three ways to read a value:
//!
//! - An enum whose serde name is a key, such as `kind`, is read from a table whose key of that name names the variant, or from
//!   the name of a variant alone. `#[serde(rename = "model=trace")]` gives the variant of a table without that key.
//! - [`Shape`] tells by the form of a value which type reads it.
//! - [`Both`] reads two types from one table.

use std::{cell::Cell, fmt, marker::PhantomData, ops::Range, rc::Rc};

use serde::{
    Deserialize,
    de::{
        self, DeserializeSeed, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
        VariantAccess, Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};
use toml::{
    Spanned,
    de::{DeFloat, DeInteger, DeTable, DeValue},
};

use crate::scenario::error::{nearest, unknown};

/// A TOML value and its span.
pub(in crate::scenario) type Node<'t> = Spanned<DeValue<'t>>;

type Keys = &'static [&'static str];

/// A value, a table or a list, each read as another type.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "Shape", rename_all = "lowercase")]
pub(super) enum Shape<V, T> {
    Value(V),
    Table(T),
}

/// One value, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "Shape", rename_all = "lowercase")]
pub(super) enum OneOrMany<T> {
    Value(T),
    List(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(super) fn into_vec(self) -> Vec<T> {
        match self {
            Self::Value(value) => vec![value],
            Self::List(values) => values,
        }
    }
}

/// Two types that share a table; a key that neither knows is an error.
#[derive(Debug, Clone)]
pub(super) struct Both<A, B>(pub(super) A, pub(super) B);

impl<'t, A: Deserialize<'t>, B: Deserialize<'t>> Deserialize<'t> for Both<A, B> {
    fn deserialize<D: de::Deserializer<'t>>(value: D) -> Result<Self, D::Error> {
        struct Parts<A, B>(PhantomData<(A, B)>);
        impl<'t, A: Deserialize<'t>, B: Deserialize<'t>> Visitor<'t> for Parts<A, B> {
            type Value = Both<A, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_seq<S: SeqAccess<'t>>(self, mut parts: S) -> Result<Both<A, B>, S::Error> {
                // Both are read, and the error of the second includes that of the first: its unknown keys may explain it.
                let (first, second) = (parts.next_element(), parts.next_element());
                match (second?, first?) {
                    (Some(second), Some(first)) => Ok(Both(first, second)),
                    _ => Err(de::Error::custom("two parts")),
                }
            }
        }
        value.deserialize_tuple_struct("Both", 2, Parts(PhantomData))
    }
}

/// A problem with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scenario) struct Problem {
    pub(in crate::scenario) span: Option<Range<usize>>,
    /// The keys that lead to the value, outermost first.
    path: Vec<String>,
    text: String,
}

/// All problems found in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scenario) struct Problems(pub(in crate::scenario) Vec<Problem>);

impl Problem {
    pub(in crate::scenario) fn new(span: Option<Range<usize>>, text: impl Into<String>) -> Self {
        Self { span, path: Vec::new(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.path {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.text)
    }
}

impl Problems {
    fn at(mut self, span: &Range<usize>) -> Self {
        for problem in &mut self.0 {
            problem.span.get_or_insert_with(|| span.clone());
        }
        self
    }

    /// Puts the name of a key or of an element in front of each path.
    pub(super) fn within(mut self, name: &str) -> Self {
        for problem in &mut self.0 {
            match problem.path.first_mut() {
                // An element's own name follows that of its list.
                Some(first) if first.starts_with(' ') => first.insert_str(0, name),
                _ => problem.path.insert(0, name.to_owned()),
            }
        }
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| writeln!(f, "{problem}"))
    }
}

impl std::error::Error for Problems {}

impl de::Error for Problems {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(vec![Problem::new(None, text.to_string())])
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "a string" => "a quoted string".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "f64" => "a number without quotes or unit, such as 0.01".to_owned(),
            "a sequence" => "a list".to_owned(),
            "u64" => "a whole number of at least 0".to_owned(),
            "a tuple of size 2" => "a pair of values in brackets".to_owned(),
            text if text.starts_with("struct ") => "a table, such as { key = value }".to_owned(),
            text => text.to_owned(),
        };
        let found = match found {
            Unexpected::Str(text) => format!("\"{text}\""),
            Unexpected::Signed(value) => value.to_string(),
            Unexpected::Float(value) => value.to_string(),
            Unexpected::Bool(value) => value.to_string(),
            Unexpected::Map => "a table".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            other => other.to_string(),
        };
        Self::custom(format_args!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(found: usize, _: &dyn Expected) -> Self {
        Self::custom(format_args!("expected a pair of values in brackets, found {found}"))
    }

    fn unknown_variant(word: &str, known: Keys) -> Self {
        Self::custom(unknown("name", word, known))
    }

    fn missing_field(key: &'static str) -> Self {
        let example = match key {
            "duration" => "duration = \"60 s\"",
            "rate" => "rate = \"5 Mbit/s\"",
            "size" => "size = \"1200 B\"",
            "at" => "at = \"20 s\"",
            "metric" => "metric = \"received-rate\"",
            "steps" => "steps = [[\"0 s\", \"5 Mbit/s\"]]",
            "std" | "max" | "uniform" | "exponential" | "on" | "off" => "a time, such as \"5 ms\"",
            "to-bad" | "to-good" => "a probability, such as 0.01",
            _ => return Self::custom(format_args!("{key} is missing: add {key} = \"NAME\"")),
        };
        Self::custom(format_args!("{key} is missing: add {example}"))
    }
}

enum Whole {
    Signed(i64),
    Unsigned(u64),
}

fn whole(integer: &DeInteger<'_>) -> Result<Whole, Problems> {
    let (text, radix) = (integer.as_str(), integer.radix());
    let signed = i64::from_str_radix(text, radix).map(Whole::Signed);
    signed
        .or_else(|_| u64::from_str_radix(text, radix).map(Whole::Unsigned))
        .map_err(|_| de::Error::custom(format_args!("{text} is too large a number")))
}

fn finite(float: &DeFloat<'_>) -> Result<f64, Problems> {
    let text = float.as_str();
    let finite = text.parse().ok().filter(|value: &f64| value.is_finite());
    finite.ok_or_else(|| de::Error::custom(format_args!("expected a finite number, found {text}")))
}

/// A node on its way into a type.
#[derive(Clone)]
#[expect(clippy::struct_field_names, reason = "a TOML value")]
pub(super) struct Value<'t> {
    span: Range<usize>,
    /// None: an empty table, of a variant that is named alone.
    value: Option<&'t DeValue<'t>>,
    /// Keys of this table that are read elsewhere.
    taken: Vec<&'static str>,
    /// Where the keys of a type are noted that reads only a part of this table.
    part: Option<Rc<Cell<Keys>>>,
}

impl<'t> From<&'t Node<'t>> for Value<'t> {
    fn from(node: &'t Node<'t>) -> Self {
        Self { span: node.span(), value: Some(node.get_ref()), taken: Vec::new(), part: None }
    }
}

impl<'t> Value<'t> {
    fn unexpected(&self) -> Unexpected<'t> {
        match self.value {
            None | Some(DeValue::Table(_)) => Unexpected::Map,
            Some(DeValue::Array(_)) => Unexpected::Seq,
            Some(DeValue::String(text)) => Unexpected::Str(text),
            Some(DeValue::Boolean(value)) => Unexpected::Bool(*value),
            Some(DeValue::Integer(_)) => Unexpected::Other("a whole number"),
            Some(DeValue::Float(_)) => Unexpected::Other("a number"),
            Some(DeValue::Datetime(_)) => Unexpected::Other("a date"),
        }
    }

    fn as_table(&self) -> Option<&'t DeTable<'t>> {
        if let Some(DeValue::Table(table)) = self.value { Some(table) } else { None }
    }

    fn get(&self, key: &str) -> Option<&'t Node<'t>> {
        self.as_table()?.get(key)
    }

    /// The keys of this table in the order of the file.
    fn entries(&self) -> Entries<'t> {
        let table = self.as_table().into_iter().flatten();
        let mut entries: Vec<_> =
            table.map(|(key, value)| (key.get_ref().as_ref(), key.span(), value)).collect();
        entries.sort_by_key(|(_, span, _)| span.start);
        Entries { entries: entries.into_iter(), next: None }
    }

    /// The keys of this table that are in `fields`, and a problem for each key that is in no part of it.
    /// Not generic: it would be compiled once for each type that is read.
    fn fields(&self, fields: Keys) -> (Entries<'t>, Vec<Problem>) {
        let mut known = self.taken.clone();
        known.extend(fields.iter().filter(|key| !self.taken.contains(key)));
        let entries: Vec<_> = self.entries().entries.collect();
        let unknown = entries.iter().filter(|(key, ..)| self.part.is_none() && !known.contains(key));
        let problems = unknown.map(|(key, span, _)| {
            let fix = nearest(key, &known).map_or_else(
                || format!("known keys are {}", known.join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            Problem::new(Some(span.clone()), format!("unknown key \"{key}\": {fix}"))
        });
        let problems = problems.collect();
        if let Some(part) = &self.part {
            part.set(fields);
        }
        let entries: Vec<_> = entries.into_iter().filter(|(key, ..)| fields.contains(key)).collect();
        (Entries { entries: entries.into_iter(), next: None }, problems)
    }

    fn visit<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Problems> {
        use de::Error;
        match self.value {
            None => visitor.visit_map(self.entries()),
            Some(DeValue::String(text)) => visitor.visit_borrowed_str(text),
            Some(DeValue::Integer(integer)) => match whole(integer)? {
                Whole::Signed(value) => visitor.visit_i64(value),
                Whole::Unsigned(value) => visitor.visit_u64(value),
            },
            Some(DeValue::Float(float)) => visitor.visit_f64(finite(float)?),
            Some(DeValue::Boolean(value)) => visitor.visit_bool(*value),
            Some(DeValue::Datetime(datetime)) => visitor.visit_string(datetime.to_string()),
            Some(DeValue::Array(array)) => {
                let mut elements = Elements { elements: array.iter().enumerate() };
                let value = visitor.visit_seq(&mut elements)?;
                match elements.elements.len() {
                    0 => Ok(value),
                    _ => Err(Problems::invalid_length(array.len(), &"")),
                }
            }
            Some(DeValue::Table(_)) => visitor.visit_map(self.entries()),
        }
    }

    /// The variant of an enum and the value of its content.
    fn variant(
        mut self,
        name: &'static str,
        variants: Keys,
    ) -> Result<(&'t str, Range<usize>, Self), Problems> {
        use de::Error;
        let has = |name| variants.contains(&name);
        if name == "Shape" {
            let shape = match self.value {
                Some(DeValue::Table(_)) | None if has("table") => "table",
                Some(DeValue::Array(_)) if has("list") => "list",
                _ => "value",
            };
            return Ok((shape, self.span.clone(), self));
        }
        let (tag, default) = name.split_once('=').map_or((name, None), |(tag, default)| (tag, Some(default)));
        match self.value {
            Some(DeValue::String(text)) => Ok((text, self.span.clone(), Self { value: None, ..self })),
            Some(DeValue::Table(_)) if tag.starts_with(char::is_lowercase) => {
                let named = if let Some(node) = self.get(tag) {
                    let named = Value::from(node);
                    let wrong = || Problems::invalid_type(named.unexpected(), &"a quoted string");
                    let text = node.get_ref().as_str().ok_or_else(|| wrong().at(&named.span).within(tag))?;
                    (text, named.span)
                } else {
                    (default.ok_or_else(|| Problems::missing_field(tag))?, self.span.clone())
                };
                if !variants.contains(&named.0) {
                    return Err(Problems::unknown_variant(named.0, variants).at(&named.1).within(tag));
                }
                self.taken.push(tag);
                Ok((named.0, named.1, self))
            }
            _ if tag.starts_with(char::is_lowercase) => {
                let expected = format!("a name or a table, such as {{ {tag} = \"{}\" }}", variants.join("|"));
                Err(Problems::invalid_type(self.unexpected(), &expected.as_str()))
            }
            _ => Err(Problems::invalid_type(self.unexpected(), &"a quoted string")),
        }
    }
}

impl<'t> de::Deserializer<'t> for Value<'t> {
    type Error = Problems;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Problems> {
        let span = self.span.clone();
        self.visit(visitor).map_err(|problems| problems.at(&span))
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Problems> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problems> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Problems> {
        debug_assert_eq!(name, "Both", "the only tuple struct that is read");
        visitor.visit_seq(Parts { value: self, keys: Rc::default(), is_first: true, problems: Vec::new() })
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        fields: Keys,
        visitor: V,
    ) -> Result<V::Value, Problems> {
        let span = self.span.clone();
        if self.value.is_some() && self.as_table().is_none() {
            return self.deserialize_any(visitor);
        }
        let (entries, mut problems) = self.fields(fields);
        match visitor.visit_map(entries) {
            Ok(value) if problems.is_empty() => Ok(value),
            Ok(_) => Err(Problems(problems)),
            Err(error) => {
                problems.extend(error.at(&span).0);
                Err(Problems(problems))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        name: &'static str,
        variants: Keys,
        visitor: V,
    ) -> Result<V::Value, Problems> {
        let span = self.span.clone();
        let variant = self.variant(name, variants).map_err(|problems| problems.at(&span))?;
        let span = variant.1.clone();
        visitor.visit_enum(Variant(variant.0, variant.2)).map_err(|problems| problems.at(&span))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple map
        identifier ignored_any
    }
}

/// The entries of a table.
struct Entries<'t> {
    entries: std::vec::IntoIter<(&'t str, Range<usize>, &'t Node<'t>)>,
    next: Option<(&'t str, &'t Node<'t>)>,
}

impl<'t> MapAccess<'t> for Entries<'t> {
    type Error = Problems;

    fn next_key_seed<K: DeserializeSeed<'t>>(&mut self, seed: K) -> Result<Option<K::Value>, Problems> {
        let Some((key, _, node)) = self.entries.next() else { return Ok(None) };
        self.next = Some((key, node));
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Problems> {
        let Some((key, node)) = self.next.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        seed.deserialize(Value::from(node)).map_err(|problems| problems.within(key))
    }
}

/// The elements of a list.
struct Elements<'t> {
    elements: std::iter::Enumerate<std::slice::Iter<'t, Node<'t>>>,
}

impl<'t> SeqAccess<'t> for &mut Elements<'t> {
    type Error = Problems;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Problems> {
        let Some((index, node)) = self.elements.next() else { return Ok(None) };
        let name = || match Value::from(node).get("id").and_then(|id| id.get_ref().as_str()) {
            Some(id) => format!(" \"{id}\""),
            None => format!(" {}", index + 1),
        };
        seed.deserialize(Value::from(node)).map(Some).map_err(|problems| problems.within(&name()))
    }
}

/// The two parts of a table that [`Both`] reads.
struct Parts<'t> {
    value: Value<'t>,
    keys: Rc<Cell<Keys>>,
    is_first: bool,
    /// Those of the first part.
    problems: Vec<Problem>,
}

impl<'t> SeqAccess<'t> for Parts<'t> {
    type Error = Problems;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Problems> {
        let mut value = self.value.clone();
        if std::mem::take(&mut self.is_first) {
            value.part = Some(Rc::clone(&self.keys));
        } else {
            value.taken.extend(self.keys.get());
        }
        let span = value.span.clone();
        seed.deserialize(value).map(Some).map_err(|problems| {
            for problem in problems.at(&span).0 {
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
            Problems(self.problems.clone())
        })
    }
}

/// A variant of an enum and its content.
struct Variant<'t>(&'t str, Value<'t>);

impl<'t> EnumAccess<'t> for Variant<'t> {
    type Error = Problems;
    type Variant = Value<'t>;

    fn variant_seed<V: DeserializeSeed<'t>>(self, seed: V) -> Result<(V::Value, Value<'t>), Problems> {
        let name: StrDeserializer<'_, Problems> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self.1))
    }
}

impl<'t> VariantAccess<'t> for Value<'t> {
    type Error = Problems;

    fn unit_variant(self) -> Result<(), Problems> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, Problems> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'t>>(self, _: usize, visitor: V) -> Result<V::Value, Problems> {
        de::Deserializer::deserialize_any(self, visitor)
    }

    fn struct_variant<V: Visitor<'t>>(self, fields: Keys, visitor: V) -> Result<V::Value, Problems> {
        de::Deserializer::deserialize_struct(self, "", fields, visitor)
    }
}
