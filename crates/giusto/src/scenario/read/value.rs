//! Reads the values of a file one by one. A value that cannot be read is a [`Problem`] with its place and the keys that lead to it.

use std::{fmt, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::scenario::error::{nearest, unknown};

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
pub(super) trait Read: Sized {
    fn read(node: &Node<'_>) -> Found<Self>;
}

/// A kind of something by its name, and how its keys are read.
pub(super) type Kind<'k, 't, T> = (&'static str, &'k dyn Fn(&mut Table<'t>) -> T);

pub(super) fn wrong<T>(node: &Node<'_>, text: impl fmt::Display) -> Found<T> {
    Err(vec![Problem { span: node.span(), text: text.to_string() }])
}

pub(super) fn expected<T>(node: &Node<'_>, what: &str) -> Found<T> {
    let found = match node.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(value) => value.to_string(),
        DeValue::Float(value) => value.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    wrong(node, format_args!("expected {what}, found {found}"))
}

/// Puts the name of a key or of an element in front of each problem. An element's own name follows that of its list.
pub(super) fn within(mut problems: Vec<Problem>, name: &str) -> Vec<Problem> {
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

pub(super) fn quoted_id(node: &Node<'_>) -> Option<String> {
    id_of(node).map(|id| format!("\"{id}\""))
}

/// The text at a key of a table.
pub(super) fn text_at<'a>(node: &'a Node<'_>, key: &str) -> Option<&'a str> {
    node.get_ref().get(key)?.get_ref().as_str()
}

pub(super) fn text<'a>(node: &'a Node<'_>) -> Found<&'a str> {
    node.get_ref().as_str().map_or_else(|| expected(node, "a quoted string"), Ok)
}

/// One of the names of `known`.
pub(super) fn choice<'n, T>(node: &Node<'_>, known: impl IntoIterator<Item = (&'n str, T)>) -> Found<T> {
    let word = text(node)?;
    let (names, mut values): (Vec<&str>, Vec<T>) = known.into_iter().unzip();
    match names.iter().position(|name| *name == word) {
        Some(index) => Ok(values.swap_remove(index)),
        None => wrong(node, unknown("name", word, &names)),
    }
}

/// A list, with each element read by `read`.
pub(super) fn list<'t, T>(node: &'t Node<'t>, read: impl FnMut(&'t Node<'t>) -> Found<T>) -> Found<Vec<T>> {
    elements(node, quoted_id, read)
}

/// A list whose elements are called by `name`, or else by their numbers.
pub(super) fn elements<'t, T>(
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
pub(super) fn one_or_many<'t, T>(
    node: &'t Node<'t>,
    mut read: impl FnMut(&'t Node<'t>) -> Found<T>,
) -> Found<Vec<T>> {
    if node.get_ref().is_array() { list(node, read) } else { Ok(vec![read(node)?]) }
}

/// A table, whose keys are read by `read`.
pub(super) fn table<'t, T>(node: &'t Node<'t>, read: impl FnOnce(&mut Table<'t>) -> T) -> Found<T> {
    if node.get_ref().is_table() {
        named(node, read)
    } else {
        expected(node, "a table, such as { key = value }")
    }
}

/// A table with a [kind](Table::kind), or the name of the kind alone.
pub(super) fn named<'t, T>(node: &'t Node<'t>, read: impl FnOnce(&mut Table<'t>) -> T) -> Found<T> {
    let mut keys = Table { node, known: Vec::new(), all_known: true, problems: Vec::new(), wrong: None };
    let value = read(&mut keys);
    keys.add_unknown_keys();
    if keys.problems.is_empty() {
        keys.problems.extend(keys.wrong);
    }
    if keys.problems.is_empty() { Ok(value) } else { Err(keys.problems) }
}

/// A value whose `kind` says how its keys are read; `default` is the kind of a table that names none.
pub(super) fn one_of<'t, T: Default>(
    node: &'t Node<'t>,
    default: Option<&str>,
    kinds: &[Kind<'_, 't, T>],
) -> Found<T> {
    named(node, |keys| keys.kind("kind", default, kinds).unwrap_or_default())
}

/// A table whose keys are being read. Every problem is noted; what is read from a table with problems is not used.
pub(super) struct Table<'t> {
    node: &'t Node<'t>,
    /// The keys asked for so far.
    known: Vec<&'static str>,
    /// Whether no other keys would be asked for if the problems were fixed.
    all_known: bool,
    problems: Vec<Problem>,
    /// A problem of values that could each be read; another problem may be its cause.
    wrong: Option<Problem>,
}

impl<'t> Table<'t> {
    fn entries(&self) -> Option<&'t DeTable<'t>> {
        self.node.get_ref().as_table()
    }

    /// The value of `key`, if it is there, read by `read`.
    pub(super) fn with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'t Node<'t>) -> Found<T>,
    ) -> Option<T> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let value = read(self.entries()?.get(key)?);
        value.map_err(|problems| self.problems.extend(within(problems, key))).ok()
    }

    /// Whether `key` is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries().is_some_and(|entries| entries.contains_key(key))
    }

    pub(super) fn optional<T: Read>(&mut self, key: &'static str) -> Option<T> {
        self.with(key, |node| T::read(node))
    }

    /// The value of `key`, which must be there.
    pub(super) fn required<T: Read + Default>(&mut self, key: &'static str) -> T {
        self.required_with(key, |node| T::read(node)).unwrap_or_default()
    }

    /// The value of `key`, which must be there, read by `read`; none if there is a problem.
    pub(super) fn required_with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'t Node<'t>) -> Found<T>,
    ) -> Option<T> {
        self.require(key);
        self.with(key, read)
    }

    /// Sets `field` to the value of `key`, if it is there.
    pub(super) fn set<T: Read>(&mut self, key: &'static str, field: &mut T) {
        self.set_with(key, field, |node| T::read(node));
    }

    /// Sets `field` to the value of `key`, if it is there, read by `read`.
    pub(super) fn set_with<T>(
        &mut self,
        key: &'static str,
        field: &mut T,
        read: impl FnOnce(&'t Node<'t>) -> Found<T>,
    ) {
        if let Some(value) = self.with(key, read) {
            *field = value;
        }
    }

    /// Notes that `key` is missing, if it is.
    pub(super) fn require(&mut self, key: &'static str) {
        if self.entries().is_some_and(|entries| entries.contains_key(key)) {
            return;
        }
        let example = match key {
            "duration" => "duration = \"60 s\"",
            "burst" => "burst = \"30 kB\"",
            "rate" => "rate = \"5 Mbit/s\"",
            "city" => "a table [city]",
            "load" => "load = \"4 Mbit/s\"",
            "size" => "size = \"1200 B\"",
            "sizes" => "sizes = [12000, 2500]",
            "at" => "at = \"20 s\"",
            "metric" => "metric = \"received-rate\"",
            "std" | "max" | "uniform" | "on" | "off" => "a time, such as \"5 ms\"",
            "steps" => "steps = [[\"0 s\", \"5 ms\"]]",
            "to-bad" | "to-good" => "a probability, such as 0.01",
            _ => &format!("{key} = \"NAME\""),
        };
        let text = format!("{key} is missing: add {example}");
        self.problems.push(Problem { span: self.node.span(), text });
    }

    /// Reads the keys of the kind that `tag` names, or the value itself if it is a name; `default` is the kind of a table
    /// without `tag`.
    pub(super) fn kind<T>(
        &mut self,
        tag: &'static str,
        default: Option<&str>,
        kinds: &[Kind<'_, 't, T>],
    ) -> Option<T> {
        let known = || kinds.iter().copied();
        let read = match self.node.get_ref() {
            DeValue::Table(entries) if entries.contains_key(tag) => {
                self.with(tag, |node| choice(node, known()))
            }
            DeValue::Table(_) => {
                self.known.push(tag);
                let read = known().find(|(name, _)| Some(*name) == default).map(|(_, read)| read);
                if read.is_none() {
                    self.require(tag);
                }
                read
            }
            _ => {
                let names: Vec<&str> = known().map(|(name, _)| name).collect();
                let found = if self.node.get_ref().is_str() {
                    choice(self.node, known())
                } else {
                    let names = names.join("|");
                    expected(self.node, &format!("a name or a table, such as {{ {tag} = \"{names}\" }}"))
                };
                found.map_err(|problems| self.problems.extend(problems)).ok()
            }
        };
        self.all_known &= read.is_some();
        read.map(|read| read(self))
    }

    /// Notes that `key` must not be there, if it is.
    pub(super) fn refuse(&mut self, key: &'static str, text: &str) {
        self.with(key, |node| wrong::<()>(node, text));
    }

    /// Notes an error of values that could each be read: at `key`, or at the table if `key` is not there.
    pub(super) fn wrong(&mut self, key: &str, text: impl fmt::Display) {
        let span = self.entries().and_then(|entries| entries.get(key)).unwrap_or(self.node).span();
        self.wrong.get_or_insert(Problem { span, text: text.to_string() });
    }

    fn add_unknown_keys(&mut self) {
        let entries = self.entries().filter(|_| self.all_known).into_iter().flatten();
        for (key, _) in entries.filter(|(key, _)| !self.known.contains(&key.get_ref().as_ref())) {
            let fix = nearest(key.get_ref(), &self.known).map_or_else(
                || format!("known keys are {}", self.known.join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            let text = format!("unknown key \"{}\": {fix}", key.get_ref());
            self.problems.push(Problem { span: key.span(), text });
        }
    }
}
