//! Reads the keys of a table.

use std::fmt;

use toml::de::{DeTable, DeValue};

use super::{
    quantity::check,
    value::{Found, Node, Problem, Read, choice, expected, quoted, within, wrong},
};
use crate::scenario::{
    error::nearest,
    row::{Group, Key, Preset},
};

/// A table, whose keys are read by `read`.
pub(in crate::scenario) fn table<'t, T>(
    node: &'t Node<'t>,
    group: &'static Group,
    read: impl FnOnce(&mut Table<'t>) -> T,
) -> Found<T> {
    if node.get_ref().is_table() {
        named(node, group, read)
    } else {
        expected(node, "a table, such as { key = value }")
    }
}

/// A table with a [kind](Table::kind), or the name of the kind alone.
pub(in crate::scenario) fn named<'t, T>(
    node: &'t Node<'t>,
    group: &'static Group,
    read: impl FnOnce(&mut Table<'t>) -> T,
) -> Found<T> {
    let mut keys = Table::new(node, group);
    let value = read(&mut keys);
    keys.finish()?;
    Ok(value)
}

/// A table whose keys are being read. Every problem is noted; what is read from a table with problems is not used.
pub(in crate::scenario) struct Table<'t> {
    node: &'t Node<'t>,
    /// The keys that it may have.
    rows: Vec<&'static Key>,
    /// Keys without a row.
    others: Vec<&'static str>,
    /// Whether no other keys would be known if the problems were fixed.
    all_known: bool,
    /// Required keys that may be missing all the same.
    spared: &'static [&'static str],
    problems: Vec<Problem>,
    /// A problem of values that could each be read; another problem may be its cause.
    wrong: Option<Problem>,
}

impl<'t> Table<'t> {
    fn new(node: &'t Node<'t>, group: &'static Group) -> Self {
        let rows = group.keys.iter().copied().flatten().collect();
        let (others, problems) = (Vec::new(), Vec::new());
        Self { node, rows, others, all_known: true, spared: &[], problems, wrong: None }
    }

    fn entries(&self) -> Option<&'t DeTable<'t>> {
        self.node.get_ref().as_table()
    }

    /// Lets required keys be missing.
    pub(in crate::scenario) fn spare(&mut self, keys: &'static [&'static str]) {
        self.spared = keys;
    }

    /// The value of `key`, if it is there and in its range, read by `read`.
    pub(in crate::scenario) fn with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'t Node<'t>) -> Found<T>,
    ) -> Option<T> {
        let node = self.checked(key)?;
        match read(node) {
            Ok(value) => Some(value),
            Err(problems) => {
                self.problems.extend(within(problems, key));
                None
            }
        }
    }

    /// The value of `key`, if it is there and in its range.
    fn checked(&mut self, key: &'static str) -> Option<&'t Node<'t>> {
        let row = self.rows.iter().find(|row| row.name == key);
        debug_assert!(row.is_some() || !self.all_known, "{key} has no row");
        let node = self.entries()?.get(key)?;
        if let Some(row) = row
            && let Err(text) = check(&row.kind, node)
        {
            let problem = Problem { span: node.span(), text: text + &fix(row) };
            self.problems.extend(within(vec![problem], key));
            return None;
        }
        Some(node)
    }

    /// Whether `key` is there.
    pub(in crate::scenario) fn has(&self, key: &str) -> bool {
        self.entries().is_some_and(|entries| entries.contains_key(key))
    }

    pub(in crate::scenario) fn optional<T: Read>(&mut self, key: &'static str) -> Option<T> {
        self.with(key, |node| T::read(node))
    }

    /// The value of `key`, or else the default of its row, or else of its type.
    pub(in crate::scenario) fn value<T: Read + Default>(&mut self, key: &'static str) -> T {
        let default = self.rows.iter().find(|row| row.name == key).map(|row| row.default);
        match (self.optional(key), default) {
            (Some(value), _) => value,
            (None, Some(Preset::Is(text) | Preset::Shown(text))) => {
                let node = DeValue::parse(&quoted(text)).map(|node| T::read(&node));
                node.ok().and_then(Result::ok).unwrap_or_default()
            }
            _ => T::default(),
        }
    }

    /// Sets `field` to the value of `key`, if it is there.
    pub(in crate::scenario) fn set<T: Read>(&mut self, key: &'static str, field: &mut T) {
        self.set_with(key, field, |node| T::read(node));
    }

    /// Sets `field` to the value of `key`, if it is there, read by `read`.
    pub(in crate::scenario) fn set_with<T>(
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
    pub(in crate::scenario) fn require(&mut self, key: &str, example: &str) {
        if !self.has(key) {
            let text = format!("{key} is missing: add {key} = {}", quoted(example));
            self.problems.push(Problem { span: self.node.span(), text });
        }
    }

    /// The kind of the table, or that the value itself names. Its keys are known from then on.
    pub(in crate::scenario) fn kind(&mut self, group: &'static Group) -> Option<&'static str> {
        let kinds = group.kinds.as_ref()?;
        let known = || kinds.all.iter().map(|kind| (kind.name, kind));
        let names = || known().map(|(name, _)| name).collect::<Vec<_>>().join("|");
        let table = self.node.get_ref().as_table();
        let node = table.map_or(Some(self.node), |entries| entries.get(kinds.tag));
        self.others.push(kinds.tag);
        let found = match node {
            Some(node) if table.is_some() => choice(node, known()).map_err(|found| within(found, kinds.tag)),
            Some(node) if node.get_ref().is_str() => choice(node, known()),
            Some(node) => {
                expected(node, &format!("a name or a table, such as {{ {} = \"{}\" }}", kinds.tag, names()))
            }
            None => {
                let default = group.unnamed(&|key| self.has(key));
                let missing = || format!("{0} is missing: add {0} = \"{1}\"", kinds.tag, names());
                default.map_or_else(|| wrong(self.node, missing()), Ok)
            }
        };
        let kind = found.map_err(|problems| self.problems.extend(problems)).ok();
        self.all_known &= kind.is_some();
        self.rows.extend(kind.into_iter().flat_map(|kind| kind.keys).copied().flatten());
        kind.map(|kind| kind.name)
    }

    /// Notes that nothing reads the tables of a kind, though the kind is known.
    pub(in crate::scenario) fn without_reader<T>(&mut self, kind: Option<&str>) -> Option<T> {
        let text = |kind| format!("{kind} is known, but not implemented: use another kind");
        let problem = |kind| Problem { span: self.node.span(), text: text(kind) };
        self.problems.extend(kind.map(problem));
        None
    }

    /// Notes that `key` must not be there, if it is.
    pub(in crate::scenario) fn refuse(&mut self, key: &'static str, text: &str) {
        if !self.rows.iter().any(|row| row.name == key) {
            self.others.push(key);
        }
        let node = self.entries().and_then(|entries| entries.get(key));
        let problem = |node: &Node<'_>| Problem { span: node.span(), text: format!("{key}: {text}") };
        self.problems.extend(node.map(problem));
    }

    /// Notes an error of values that could each be read: at `key`, or at the table if `key` is not there.
    pub(in crate::scenario) fn wrong(&mut self, key: &str, text: impl fmt::Display) {
        let span = self.entries().and_then(|entries| entries.get(key)).unwrap_or(self.node).span();
        self.wrong.get_or_insert(Problem { span, text: text.to_string() });
    }

    /// Reports the problems, with the keys that are missing or unknown.
    fn finish(mut self) -> Found<()> {
        for row in std::mem::take(&mut self.rows) {
            self.others.push(row.name);
            match row.default {
                Preset::Required(example) if !self.spared.contains(&row.name) => {
                    self.require(row.name, example);
                }
                _ => {}
            }
        }
        let entries = self.entries().filter(|_| self.all_known).into_iter().flatten();
        for (key, _) in entries.filter(|(key, _)| !self.others.contains(&key.get_ref().as_ref())) {
            let fix = nearest(key.get_ref(), &self.others).map_or_else(
                || format!("known keys are {}", self.others.join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            let text = format!("unknown key \"{}\": {fix}", key.get_ref());
            self.problems.push(Problem { span: key.span(), text });
        }
        if self.problems.is_empty() {
            self.problems.extend(self.wrong);
        }
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

/// What to write instead of a number outside the range of its key.
fn fix(row: &Key) -> String {
    let words = row.kind.names();
    let default = match row.default {
        // The message says enough: `rate: must be above 0 bit/s`.
        Preset::Is(value) | Preset::Shown(value) if words.contains(&value) => return String::new(),
        Preset::Is(value) | Preset::Shown(value) => format!(": the default is {}", quoted(value)),
        Preset::Required(value) => format!(": try {}", quoted(value)),
        Preset::Said(_) | Preset::Unset => String::new(),
    };
    words.iter().fold(String::new(), |text, word| text + ", or \"" + word + "\"") + &default
}
