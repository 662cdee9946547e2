//! A reader of JSON that refuses an object with a name twice (RFC 8259, section 4): [`serde_json::Value`] keeps the last one silently.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// Checks one JSON text.
pub(super) fn check(text: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<Unique>(text).map(drop)
}

struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Names)
    }
}

struct Names;

macro_rules! leaves {
    ($($visit:ident: $value:ty),*) => {
        $(fn $visit<E: Error>(self, _: $value) -> Result<Unique, E> { Ok(Unique) })*
    };
}

impl<'de> Visitor<'de> for Names {
    type Value = Unique;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    leaves!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, Unique)) = entries.next_entry::<String, Unique>()? {
            if let Some(twice) = names.replace(name) {
                return Err(A::Error::custom(format!("an object has {twice:?} twice")));
            }
        }
        Ok(Unique)
    }
}

#[test]
fn a_name_given_twice_is_refused() {
    check(br#"[{"a": 1, "b": {"a": null}}, {"a": -0.5}]"#).unwrap();
    let error = check(br#"[{"a": [{"b": 1, "b": 1}]}]"#).unwrap_err().to_string();
    assert!(error.starts_with("an object has \"b\" twice"), "{error}");
}
