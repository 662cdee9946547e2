//! The table of keys: one row for each key of a scenario file.
//!
//! A row has the key's name, the [kind](Kind) and range of its value, its [default](Preset), one sentence of documentation, and, after
//! `=>`, the field that it sets. From the rows come the reader and its errors ([`super::read`]), the controls of `giusto explore`, the
//! completion of `--set`, the JSON schema ([`schema()`]) and `docs/reference/scenario.md`. To add a key, add its row and use its field.

pub(super) mod city;
pub(super) mod expectation;
pub(super) mod file;
pub(super) mod flow;
pub(super) mod lesson;
pub(super) mod link;
pub(super) mod media;
mod medium;
#[cfg(feature = "monitor")]
pub(super) mod monitor;
mod parts;
mod prelude;
mod queue;
#[cfg(test)]
mod reference;
mod schema;
mod tcp;
mod video;

pub(super) use self::media::MEDIA;
pub use self::schema::{schema, setting_paths};
pub(crate) use self::{
    city::CITY_FILE,
    file::{FILE, RUN},
};

/// Defines rows, and the function that reads those with a field: `"name", kind, default, "meaning" => field;`.
macro_rules! keys {
    ($(#[$doc:meta])* $rows:ident { $($name:literal, $kind:expr, $default:expr, $text:literal;)* }) => {
        $(#[$doc])*
        pub(in crate::scenario) const $rows: $crate::scenario::row::Keys = &[$($crate::scenario::row::Key {
            name: $name, kind: $kind, default: $default, text: $text,
        }),*];
    };
    ($(#[$doc:meta])* $rows:ident, $read:ident($to:ident: $target:ty) {
        $($name:literal, $kind:expr, $default:expr, $text:literal $(=> $field:expr)?;)*
    }) => {
        keys!($(#[$doc])* $rows { $($name, $kind, $default, $text;)* });

        fn $read(keys: &mut $crate::scenario::read::Table<'_>, mut $to: $target) -> $target {
            $($(keys.set($name, &mut $field);)?)*
            $to
        }
    };
}
use keys;

/// Gives the values of a type their names: `names!(Type: list of names and values)`.
macro_rules! names {
    ($type:ty: $all:expr) => {
        impl $crate::scenario::row::Named for $type {
            fn named() -> Vec<(&'static str, Self)> {
                $all
            }
        }
    };
}
use names;
