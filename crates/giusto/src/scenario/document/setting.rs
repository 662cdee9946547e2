//! How settings replace values of a file.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::scenario::{
    keys::{CITY_FILE, FILE},
    read::{Node, id_of},
    row::{Key, Kind, tag_of},
    setting::Setting,
};

/// The row of a key at the top of a file.
fn top(key: &str) -> Option<&'static Key> {
    FILE.rows(None).chain(CITY_FILE.rows(None)).find(|row| row.name == key)
}

fn is_list(key: &str) -> bool {
    top(key).is_some_and(|row| matches!(row.kind, Kind::List(_)))
}

impl Setting {
    /// Puts the value into a file's `root`, at `place` within the text.
    pub(super) fn apply<'t>(&'t self, root: &mut Node<'t>, place: usize) -> Result<(), String> {
        let whole = whole_path(root, &self.path);
        let keys: Vec<&str> = whole.iter().map(String::as_str).collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err("a path is names with dots between them, such as link.bottleneck.rate".to_owned());
        }
        match keys[..] {
            ["expect"] if self.value.starts_with('[') => put(root, "", &keys, place, self.node(place)?),
            [list] | [list, _] if is_list(list) => {
                let element = if matches!(list, "medium" | "link" | "flow") { "ID" } else { "1" };
                Err(format!("which key of it? Write {list}.{element}.KEY=VALUE"))
            }
            [list @ ("medium" | "link" | "flow"), id, ..] if !ids(root, list).any(|known| known == id) => {
                Err(format!("no {list} is called \"{id}\": use one of {}", names(root)))
            }
            ["city"] => Err("which key of it? Write city.KEY=VALUE".to_owned()),
            ["city", ..] if root.get_ref().get("city").is_none() => {
                Err(format!("the scenario has no city: use one of {}", names(root)))
            }
            [list, number, ..] if is_list(list) && root.get_ref().get(list).is_none() => {
                Err(missing(list, number, 0))
            }
            [key, ..] if key != "lesson" && top(key).is_some() => {
                put(root, "", &keys, place, self.node(place)?)
            }
            [key, ..] => Err(format!("nothing is called \"{key}\": use one of {}", names(root))),
            [] => Ok(()),
        }
    }

    /// The value, as in a file; anything that is not TOML is a string.
    fn node(&self, place: usize) -> Result<Node<'_>, String> {
        let value = self.value.as_str();
        match DeValue::parse(value) {
            Ok(parsed) if !parsed.get_ref().is_datetime() => Ok(placed(parsed, place)),
            Err(error) if value.starts_with(['{', '[', '"', '\'']) => {
                Err(error.message().replace('\n', ", "))
            }
            _ => Ok(at(place, DeValue::String(value.into()))),
        }
    }
}

fn at<T>(place: usize, value: T) -> Spanned<T> {
    Spanned::new(place..place + 1, value)
}

/// The value with everything in it at `place`.
fn placed(node: Node<'_>, place: usize) -> Node<'_> {
    let value = match node.into_inner() {
        DeValue::Array(array) => DeValue::Array(array.into_iter().map(|node| placed(node, place)).collect()),
        DeValue::Table(table) => {
            let entry = |(key, node): (Spanned<_>, _)| (at(place, key.into_inner()), placed(node, place));
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        value => value,
    };
    at(place, value)
}

fn missing(list: &str, key: &str, count: usize) -> String {
    format!("no {list} {key}: there are {count}, numbered from 1")
}

/// The keys of `path`, with the list that it may leave out in front.
pub(super) fn whole_path(root: &Node<'_>, path: &str) -> Vec<String> {
    let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
    let has = |list, wanted: &str| ids(root, list).any(|id| id == wanted);
    let list = match &keys[..] {
        [list, ..] if is_list(list) => None,
        [id, _, ..] => ["link", "flow", "medium"].into_iter().find(|list| has(list, id)),
        _ => None,
    };
    list.map(str::to_owned).into_iter().chain(keys).collect()
}

fn ids<'a>(root: &'a Node<'_>, list: &str) -> impl Iterator<Item = &'a str> {
    let parts = root.get_ref().get(list).and_then(|list| list.get_ref().as_array());
    parts.into_iter().flatten().filter_map(id_of)
}

/// Everything that a path can begin with.
fn names(root: &Node<'_>) -> String {
    let parts = ["medium", "link", "flow"]
        .into_iter()
        .flat_map(|list| ids(root, list).map(move |id| format!("{list}.{id}")));
    let keys: &[&str] = if root.get_ref().get("city").is_some() {
        &["city.KEY", "seed"]
    } else {
        &["duration", "warmup", "seed"]
    };
    parts.chain(keys.iter().copied().map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

/// Puts `value` at `keys` below a node that is the value of `of`.
///
/// A name of a kind becomes a table of that kind. In a list, a key is the id of an element or its number, from 1.
fn put<'t>(
    node: &mut Node<'t>,
    of: &str,
    keys: &[&str],
    place: usize,
    value: Node<'t>,
) -> Result<(), String> {
    let [key, rest @ ..] = keys else {
        *node = value;
        return Ok(());
    };
    if let DeValue::Array(elements) = node.get_mut() {
        let named = elements.iter().position(|element| id_of(element) == Some(key));
        let index = named.or_else(|| key.parse::<usize>().ok()?.checked_sub(1));
        let count = elements.len();
        let element = index.and_then(|index| elements.get_mut(index));
        return put(element.ok_or_else(|| missing(of, key, count))?, of, rest, place, value);
    }
    if !node.get_ref().is_table() {
        let mut table = DeTable::new();
        if node.get_ref().is_str() {
            table.insert(at(place, tag_of(of).into()), node.clone());
        }
        *node = at(place, DeValue::Table(table));
    }
    let DeValue::Table(table) = node.get_mut() else { return Ok(()) };
    let child = table.remove(*key);
    let mut child = child.unwrap_or_else(|| at(place, DeValue::Boolean(false)));
    let result = put(&mut child, key, rest, place, value);
    table.insert(at(place, (*key).to_owned().into()), child);
    result
}
