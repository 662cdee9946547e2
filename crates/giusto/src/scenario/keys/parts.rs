//! What files of both kinds have.

use super::prelude::*;

keys! { HEAD {
    "name", Text, Said("name of the file"), "Title, also of result folders";
    "description", Text, Said("empty"), "What it shows, in one sentence";
    "seed", Any(&[Whole(ANY), Text]), Shown("1"), "Random seed; above 2^63 a string";
} }

/// What files of both kinds begin with: name, description, seed.
pub(super) fn head(keys: &mut read::Table<'_>, name: &mut String, description: &mut String, seed: &mut u64) {
    keys.set("name", name);
    keys.set("description", description);
    keys.set_with("seed", seed, |node| match node.get_ref().as_str().map(str::parse) {
        Some(Ok(seed)) => Ok(seed),
        Some(Err(_)) => expected(node, "a whole number from 0 to 18446744073709551615"),
        None => u64::read(node),
    });
}

/// The elements of a list such as `[[link]]`, called by `name`; none if one of them cannot be read.
pub(super) fn each<'t, T>(
    keys: &mut read::Table<'t>,
    key: &'static str,
    group: &'static Group,
    name: fn(&Node<'_>) -> Option<String>,
    mut read: impl FnMut(&mut read::Table<'t>) -> T,
) -> Option<Vec<T>> {
    keys.with(key, |node| {
        if node.get_ref().is_array() {
            elements(node, name, |node| table(node, group, &mut read))
        } else {
            wrong(node, format_args!("there may be several: write [[{key}]]"))
        }
    })
}
