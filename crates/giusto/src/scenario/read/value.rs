//! Reads the values of a file one by one. A value that cannot be read is a [`Problem`] with its place and the keys that lead to it.

use std::{fmt, ops::Range};

use toml::{Spanned, de::DeValue};

use crate::scenario::{error::unknown, row::Named};

/// A TOML value and its span.
pub(in crate::scenario) type Node<'t> = Spanned<DeValue<'t>>;

/// A problem with a value.
#[derive(Debug)]
pub(in crate::scenario) struct Problem {
    pub(in crate::scenario) span: Range<usize>,
    /// The keys that lead to the value, outermost first, and what is wrong with it.
    pub(in crate::scenario) text: String,
}

/// A value, or all problems found in it.
pub(in crate::scenario) type Found<T> = Result<T, Vec<Problem>>;

/// What can be read from one value of a file.
pub(in crate::scenario) trait Read: Sized {
    fn read(node: &Node<'_>) -> Found<Self>;
}

pub(in crate::scenario) fn wrong<T>(node: &Node<'_>, text: impl fmt::Display) -> Found<T> {
    Err(problem(node, &text))
}

fn problem(node: &Node<'_>, text: &dyn fmt::Display) -> Vec<Problem> {
    vec![Problem { span: node.span(), text: text.to_string() }]
}

pub(in crate::scenario) fn expected<T>(node: &Node<'_>, what: &str) -> Found<T> {
    wrong(node, format_args!("expected {what}, found {}", shown(node)))
}

/// A value as in a file.
pub(in crate::scenario) fn shown(node: &Node<'_>) -> String {
    match node.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(value) => value.to_string(),
        DeValue::Float(value) => value.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Puts the name of a key or of an element in front of each problem. An element's own name follows that of its list.
pub(in crate::scenario) fn within(mut problems: Vec<Problem>, name: &str) -> Vec<Problem> {
    for Problem { text, .. } in &mut problems {
        let colon = if text.starts_with(' ') { "" } else { ": " };
        *text = format!("{name}{colon}{text}");
    }
    problems
}

/// The id in a table.
pub(in crate::scenario) fn id_of<'a>(node: &'a Node<'_>) -> Option<&'a str> {
    text_at(node, "id")
}

pub(in crate::scenario) fn quoted_id(node: &Node<'_>) -> Option<String> {
    id_of(node).map(|id| format!("\"{id}\""))
}

/// The text at a key of a table.
pub(in crate::scenario) fn text_at<'a>(node: &'a Node<'_>, key: &str) -> Option<&'a str> {
    node.get_ref().get(key)?.get_ref().as_str()
}

pub(in crate::scenario) fn text<'a>(node: &'a Node<'_>) -> Found<&'a str> {
    node.get_ref().as_str().map_or_else(|| expected(node, "a quoted string"), Ok)
}

/// A value as in a file, from one whose strings have no quotes.
pub(in crate::scenario) fn quoted(value: &str) -> String {
    match DeValue::parse(value) {
        Ok(parsed) if !parsed.get_ref().is_datetime() => value.to_owned(),
        _ => format!("\"{value}\""),
    }
}

/// One of the names of `known`.
pub(in crate::scenario) fn choice<'n, T>(
    node: &Node<'_>,
    known: impl IntoIterator<Item = (&'n str, T)>,
) -> Found<T> {
    let word = text(node)?;
    let (names, mut values): (Vec<&str>, Vec<T>) = known.into_iter().unzip();
    match names.iter().position(|name| *name == word) {
        Some(index) => Ok(values.swap_remove(index)),
        None => wrong(node, unknown("name", word, &names)),
    }
}

/// A list, with each element read by `read`.
pub(in crate::scenario) fn list<'t, T>(
    node: &'t Node<'t>,
    read: impl FnMut(&'t Node<'t>) -> Found<T>,
) -> Found<Vec<T>> {
    elements(node, quoted_id, read)
}

/// A list whose elements are called by `name`, or else by their numbers.
pub(in crate::scenario) fn elements<'t, T>(
    node: &'t Node<'t>,
    name: impl Fn(&Node<'_>) -> Option<String>,
    mut read: impl FnMut(&'t Node<'t>) -> Found<T>,
) -> Found<Vec<T>> {
    let Some(elements) = node.get_ref().as_array() else { return expected(node, "a list") };
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for (element, number) in elements.iter().zip(1..) {
        match read(element) {
            Ok(value) => values.push(value),
            Err(found) => {
                let name = name(element).unwrap_or_else(|| format!("{number}"));
                problems.extend(within(found, &format!(" {name}")));
            }
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// One value, or a list of them.
pub(in crate::scenario) fn one_or_many<'t, T>(
    node: &'t Node<'t>,
    mut read: impl FnMut(&'t Node<'t>) -> Found<T>,
) -> Found<Vec<T>> {
    if node.get_ref().is_array() { list(node, read) } else { Ok(vec![read(node)?]) }
}

impl<T: Named> Read for T {
    fn read(node: &Node<'_>) -> Found<Self> {
        choice(node, T::named())
    }
}
