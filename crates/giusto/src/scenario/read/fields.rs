//! The fields of one table: each is asked for by its key, and what nobody asked for is not known.

use std::{cell::RefCell, fmt, str::FromStr};

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::scenario::{
    problem::{Problem, nearest},
    tree::{Node, Value},
};

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Findings(RefCell<Vec<Problem>>);

impl Findings {
    pub(super) fn push(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// All of it, from the top of the file.
    pub(super) fn take(self) -> Vec<Problem> {
        use crate::scenario::tree::Place;
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| match problem.place {
            Some(Place::Line(line)) => line,
            _ => usize::MAX,
        });
        problems
    }
}

/// A table that is being read.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    table: &'a Node,
    /// What the table describes: `link "bottleneck"`; nothing for the whole file.
    owner: String,
    findings: &'a Findings,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(table: &'a Node, owner: String, findings: &'a Findings) -> Self {
        let fields = Self { table, owner, findings, asked: RefCell::default() };
        if !matches!(table.value, Value::Table(_)) {
            fields.report(table, format!("{} is no table: write {{ key = value, … }}", table.written()));
        }
        fields
    }

    /// The table below `key`, or `None` if there is something else, or nothing.
    pub(super) fn table(&self, key: &'static str) -> Option<Fields<'a>> {
        let node = self.node(key)?;
        matches!(node.value, Value::Table(_)).then(|| Fields::new(node, self.path(key), self.findings))
    }

    /// What this table is called in complaints.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    pub(super) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// The value of `key`; from now on the key is known.
    pub(super) fn node(&self, key: &'static str) -> Option<&'a Node> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table.get(key)
    }

    /// Says what is wrong with the value of `key`.
    pub(super) fn complain(&self, node: &Node, key: &str, what: fmt::Arguments<'_>) {
        self.findings.push(Problem::at(node.place.clone(), format!("{}: {what}", self.path(key))));
    }

    /// Says what is wrong with the table.
    pub(super) fn complain_of_all(&self, what: String) {
        self.report(self.table, what);
    }

    fn report(&self, node: &Node, what: String) {
        let text = if self.owner.is_empty() { what } else { format!("{}: {what}", self.owner) };
        self.findings.push(Problem::at(node.place.clone(), text));
    }

    fn path(&self, key: &str) -> String {
        if self.owner.is_empty() { key.to_owned() } else { format!("{}: {key}", self.owner) }
    }

    /// What `read` gives for `key`, which has to be there.
    pub(super) fn required<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Self, &'static str) -> Option<T>,
    ) -> Option<T> {
        if self.node(key).is_none() {
            self.complain_of_all(format!("{key} is missing: add {}", example(key)));
        }
        read(self, key)
    }

    /// A text.
    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        let node = self.node(key)?;
        self.text_of(node, key)
    }

    pub(super) fn text_of(&self, node: &Node, key: &str) -> Option<String> {
        if node.as_text().is_none() {
            self.complain(node, key, format_args!("{} is no text: put it between quotes", node.written()));
        }
        node.as_text().map(str::to_owned)
    }

    /// Whether something is so.
    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        if let Value::Boolean(value) = node.value {
            return Some(value);
        }
        self.complain(node, key, format_args!("{} is neither true nor false", node.written()));
        None
    }

    /// A number.
    pub(super) fn number(&self, key: &'static str) -> Option<f64> {
        let node = self.node(key)?;
        match node.value {
            Value::Integer(value) => return Some(value as f64),
            Value::Float(value) if value.is_finite() => return Some(value),
            _ => {}
        }
        self.complain(
            node,
            key,
            format_args!("{} is no number: write one without quotes or unit, such as 0.01", node.written()),
        );
        None
    }

    /// A whole number of at least `least`.
    pub(super) fn count(&self, key: &'static str, least: u32) -> Option<u32> {
        let node = self.node(key)?;
        if let Value::Integer(value) = node.value
            && let Ok(value) = u32::try_from(value)
            && value >= least
        {
            return Some(value);
        }
        self.complain(node, key, format_args!("{} is no whole number from {least} on", node.written()));
        None
    }

    /// A seed: a number, or a text with a number, since TOML's numbers end at 2^63.
    pub(super) fn seed(&self, key: &'static str) -> Option<u64> {
        let node = self.node(key)?;
        let seed = match &node.value {
            Value::Integer(value) => u64::try_from(*value).ok(),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        if seed.is_none() {
            self.complain(
                node,
                key,
                format_args!("{} is no seed: use a whole number from 0 on", node.written()),
            );
        }
        seed
    }

    /// A rate above zero.
    pub(super) fn rate(&self, key: &'static str) -> Option<DataRate> {
        let node = self.node(key)?;
        self.rate_of(node, key)
    }

    pub(super) fn rate_of(&self, node: &Node, key: &str) -> Option<DataRate> {
        let rate: DataRate = self.quantity(node, key, "rate", "5 Mbit/s")?;
        if rate == DataRate::ZERO {
            let found = node.written();
            let mend = if self.owner.starts_with("flow") {
                "write, for example, \"5 Mbit/s\", or leave the flow out"
            } else {
                "for a link that carries nothing give loss = 1"
            };
            self.findings.push(Problem::at(
                node.place.clone(),
                format!("{} must be above 0 bit/s, found {found}: {mend}", self.path(key)),
            ));
            return None;
        }
        Some(rate)
    }

    /// A span of time, not negative.
    pub(super) fn time(&self, key: &'static str) -> Option<TimeDelta> {
        let node = self.node(key)?;
        self.time_of(node, key)
    }

    pub(super) fn time_of(&self, node: &Node, key: &str) -> Option<TimeDelta> {
        if node.as_text().is_some_and(|text| text.trim_start().starts_with('-')) {
            self.complain(
                node,
                key,
                format_args!("{} lies before the start: use \"0 s\" or later", node.written()),
            );
            return None;
        }
        self.quantity(node, key, "time", "50 ms")
    }

    /// A moment of the run.
    pub(super) fn moment(&self, key: &'static str) -> Option<Timestamp> {
        self.time(key).map(|time| Timestamp::ZERO + time)
    }

    /// A size above zero.
    pub(super) fn size(&self, key: &'static str) -> Option<DataSize> {
        let node = self.node(key)?;
        self.size_of(node, key)
    }

    pub(super) fn size_of(&self, node: &Node, key: &str) -> Option<DataSize> {
        let size: DataSize = self.quantity(node, key, "size", "1200 B")?;
        if size == DataSize::ZERO {
            self.complain(
                node,
                key,
                format_args!("must be above 0 B, found {}: write, for example, \"1200 B\"", node.written()),
            );
            return None;
        }
        Some(size)
    }

    /// A text, or several.
    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        let node = self.node(key)?;
        let texts = match &node.value {
            Value::Text(text) => Some(vec![text.clone()]),
            Value::Array(nodes) => nodes.iter().map(|node| node.as_text().map(str::to_owned)).collect(),
            _ => None,
        };
        if texts.is_none() {
            self.complain(node, key, format_args!("a name between quotes is wanted, or a list of names"));
        }
        texts
    }

    fn quantity<T: FromStr<Err: fmt::Display>>(
        &self,
        node: &Node,
        key: &str,
        what: &str,
        such_as: &str,
    ) -> Option<T> {
        let Some(text) = node.as_text() else {
            self.complain(
                node,
                key,
                format_args!("{} has no unit: write a {what} such as \"{such_as}\"", node.written()),
            );
            return None;
        };
        match text.parse() {
            Ok(_) if !text.contains(char::is_alphabetic) => {
                self.complain(
                    node,
                    key,
                    format_args!("\"{text}\" has no unit: write a {what} such as \"{such_as}\""),
                );
                None
            }
            Ok(value) => Some(value),
            Err(error) => {
                self.complain(node, key, format_args!("{error}"));
                None
            }
        }
    }

    /// Complains of every key that nobody asked for.
    pub(super) fn finish(self) {
        let asked = self.asked.borrow();
        for entry in self.table.entries() {
            if asked.contains(&entry.key.as_str()) {
                continue;
            }
            let mend = nearest(&entry.key, &asked).map_or_else(
                || format!("known here are {}", asked.join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            let of = if self.owner.is_empty() { String::new() } else { format!("{}: ", self.owner) };
            let text = format!("{of}unknown key \"{}\": {mend}", entry.key);
            self.findings.push(Problem::at(entry.place.clone(), text));
        }
    }
}

/// What a missing key could say.
fn example(key: &str) -> &'static str {
    match key {
        "duration" => "duration = \"60 s\"",
        "id" => "id = \"NAME\"",
        "rate" => "rate = \"5 Mbit/s\"",
        "size" => "size = \"1200 B\"",
        "kind" => "kind = \"NAME\"",
        "at" => "at = \"20 s\"",
        "link" => "link = \"NAME\"",
        "from" | "to" => "the name of a node",
        "metric" => "metric = \"received-rate\"",
        "limit" => "limit = \"100 packets\"",
        "steps" => "steps = [[\"0 s\", \"5 Mbit/s\"]]",
        _ => "it",
    }
}
