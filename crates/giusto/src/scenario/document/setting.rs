//! Settings that replace values of a file: `--set KEY=VALUE`.

use std::{fmt, str::FromStr};

use toml::{
    Spanned,
    de::{DeArray, DeString, DeTable, DeValue},
};

use crate::scenario::read::Node;

/// The lists of a file.
const LISTS: [&str; 4] = ["link", "flow", "change", "expect"];

/// The keys at the top of a file that are not lists.
const KEYS: [&str; 5] = ["name", "description", "seed", "duration", "warmup"];

/// A value that replaces one of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where: `duration`, `link.bottleneck.rate`.
    pub path: String,
    /// The value as in a file; a string needs no quotes.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    /// Parses `KEY=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { path: path.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("expected KEY=VALUE, such as link.bottleneck.rate=5M, found \"{text}\"")),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}

impl Setting {
    /// Bytes of its text.
    pub(super) fn len(&self) -> usize {
        self.path.len() + 1 + self.value.len()
    }

    /// Puts the value into a file's `root`; its places begin at `begin`.
    pub(super) fn apply<'t>(&'t self, root: &mut Node<'t>, begin: usize) -> Result<(), String> {
        let keys: Vec<&str> = self.path.split('.').collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err("a path is names with dots between them, such as link.bottleneck.rate".to_owned());
        }
        let value = self.node(begin + self.path.len() + 1)?;
        let whole = whole_path(root, &self.path);
        let names = names(root);
        let [list, id, rest @ ..] = whole.as_slice() else {
            return match keys[..] {
                [key] if KEYS.contains(&key) => put(root, "", &keys, begin, value),
                [list] if LISTS.contains(&list) => Err(incomplete(list)),
                _ => Err(format!("nothing is called \"{}\": use one of {names}", self.path)),
            };
        };
        if !LISTS.contains(&list.as_str()) {
            return match keys.first() {
                Some(first) if KEYS.contains(first) => put(root, "", &keys, begin, value),
                _ => Err(format!("nothing is called \"{list}\": use one of {names}")),
            };
        }
        if rest.is_empty() {
            return Err(incomplete(list));
        }
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let parts = table(root).and_then(|table| table.get_mut(list.as_str())).and_then(array);
        let count = parts.as_ref().map_or(0, |parts| parts.len());
        let part = parts.and_then(|parts| match list.as_str() {
            "link" | "flow" => parts.iter_mut().find(|part| self::id(part) == Some(id)),
            _ => parts.get_mut(id.parse::<usize>().ok()?.checked_sub(1)?),
        });
        match part {
            Some(part) => put(part, list, &rest, begin, value),
            None if matches!(list.as_str(), "link" | "flow") => {
                Err(format!("no {list} is called \"{id}\": use one of {names}"))
            }
            None => Err(format!("no {list} {id}: there are {count}, numbered from 1")),
        }
    }

    /// The value, as in a file; anything that is not TOML is a string.
    fn node(&self, begin: usize) -> Result<Node<'_>, String> {
        let value = self.value.as_str();
        match DeValue::parse(value) {
            Ok(parsed) if !parsed.get_ref().is_datetime() => Ok(moved(parsed, begin)),
            Err(error) if value.starts_with(['{', '[', '"', '\'']) => {
                Err(error.message().replace('\n', ", "))
            }
            _ => Ok(Spanned::new(begin..begin + value.len(), DeValue::String(value.into()))),
        }
    }
}

/// The value with all places moved by `offset`.
fn moved<'t>(node: Node<'t>, offset: usize) -> Node<'t> {
    let span = node.span().start + offset..node.span().end + offset;
    let value = match node.into_inner() {
        DeValue::Array(array) => DeValue::Array(array.into_iter().map(|node| moved(node, offset)).collect()),
        DeValue::Table(table) => {
            let entry = |(key, node): (Spanned<DeString<'t>>, Node<'t>)| {
                let span = key.span().start + offset..key.span().end + offset;
                (Spanned::new(span, key.into_inner()), moved(node, offset))
            };
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        value => value,
    };
    Spanned::new(span, value)
}

fn incomplete(list: &str) -> String {
    let element = if matches!(list, "link" | "flow") { "ID" } else { "1" };
    format!("which key of it? Write {list}.{element}.KEY=VALUE")
}

/// The keys of `path`, with the list that it may leave out in front.
pub(super) fn whole_path(root: &Node<'_>, path: &str) -> Vec<String> {
    let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
    let has = |list, wanted: &str| ids(root, list).any(|id| id == wanted);
    let list = match &keys[..] {
        [list, ..] if LISTS.contains(&list.as_str()) => None,
        [id, _, ..] => ["link", "flow"].into_iter().find(|list| has(list, id)),
        _ => None,
    };
    list.map(str::to_owned).into_iter().chain(keys).collect()
}

fn ids<'a>(root: &'a Node<'_>, list: &str) -> impl Iterator<Item = &'a str> {
    let parts = root.get_ref().get(list).and_then(|list| list.get_ref().as_array());
    parts.into_iter().flatten().filter_map(id)
}

fn id<'a>(part: &'a Node<'_>) -> Option<&'a str> {
    part.get_ref().get("id")?.get_ref().as_str()
}

/// Everything that a path can begin with.
fn names(root: &Node<'_>) -> String {
    let parts =
        ["link", "flow"].into_iter().flat_map(|list| ids(root, list).map(move |id| format!("{list}.{id}")));
    parts.chain(["duration", "warmup", "seed"].map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

fn table<'a, 't>(node: &'a mut Node<'t>) -> Option<&'a mut DeTable<'t>> {
    if let DeValue::Table(table) = node.get_mut() { Some(table) } else { None }
}

fn array<'a, 't>(node: &'a mut Node<'t>) -> Option<&'a mut DeArray<'t>> {
    if let DeValue::Array(array) = node.get_mut() { Some(array) } else { None }
}

/// Puts `value` at `keys` below a node that is the value of `of`.
///
/// A name of a kind becomes a table of that kind. In a list, a key is the id of an element or its number, from 1.
fn put<'t>(
    node: &mut Node<'t>,
    of: &str,
    keys: &[&str],
    begin: usize,
    value: Node<'t>,
) -> Result<(), String> {
    let [key, rest @ ..] = keys else {
        *node = value;
        return Ok(());
    };
    if let Some(elements) = array(node) {
        let count = elements.len();
        let named = elements.iter().position(|element| id(element) == Some(key));
        let index = named.or_else(|| key.parse::<usize>().ok()?.checked_sub(1));
        let element = index.and_then(|index| elements.get_mut(index));
        let missing = || format!("the list has no \"{key}\": there are {count}, numbered from 1");
        return put(element.ok_or_else(missing)?, of, rest, begin, value);
    }
    let place = begin..begin + 1;
    let key_node = |key: &str| Spanned::new(place.clone(), key.to_owned().into());
    if table(node).is_none() {
        let mut table = DeTable::new();
        if node.get_ref().is_str() {
            let tag = if of == "video" { "model" } else { "kind" };
            table.insert(key_node(tag), node.clone());
        }
        *node = Spanned::new(place.clone(), DeValue::Table(table));
    }
    let Some(table) = table(node) else { return Ok(()) };
    let (_, mut child) = table
        .remove_entry(*key)
        .unwrap_or_else(|| (key_node(key), Spanned::new(place.clone(), DeValue::Boolean(false))));
    let result = put(&mut child, key, rest, begin, value);
    table.insert(key_node(key), child);
    result
}
