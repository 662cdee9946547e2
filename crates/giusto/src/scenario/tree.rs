//! A scenario file as values that know their places, and settings put into it.

use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In this line of the file, from 1.
    Line(usize),
    /// In a setting.
    Setting(String),
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The place of the key.
    pub(super) place: Place,
    pub(super) node: Node,
}

impl Node {
    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let place = |at: usize| {
            let before = text.get(..at).unwrap_or(text);
            Place::Line(1 + before.matches('\n').count())
        };
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let found = text.get(span.clone()).unwrap_or_default();
            let what = match error.message() {
                "duplicate key" => format!("{found} is given twice: leave one out"),
                message => message.replace('\n', ", "),
            };
            Problem::at(place(span.start), what)
        })?;
        let value = from_table(table.get_ref(), &place)?;
        Ok(Self { place: Place::Line(1), value })
    }

    /// The value of `key`, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries of a table; anything else has none.
    pub(super) fn entries(&self) -> &[Entry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    /// The elements of an array; anything else has none.
    pub(super) fn elements(&self) -> &[Self] {
        if let Value::Array(elements) = &self.value { elements } else { &[] }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The value as it is written.
    pub(super) fn written(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{text}\""),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::Array(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }

    /// Puts `value` where `path` leads: `duration`, `link.bottleneck.rate`, `bottleneck.queue.kind`, `call.video.2.priority`,
    /// `expect.1.min`.
    pub(super) fn set(&mut self, path: &str, value: &str) -> Result<(), Problem> {
        let place = Place::Setting(format!("{path}={value}"));
        let segments: Vec<&str> = path.split('.').collect();
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(Problem::at(
                place,
                "a path has names between dots, such as link.bottleneck.rate".to_owned(),
            ));
        }
        let value = read_setting(value, &place)?;
        let (node, keys) = self.addressed(&segments, &place)?;
        node.put("", keys, value).map_err(|text| Problem::at(place, text))
    }

    /// The link, flow, change, expectation or whole scenario that a path means, and the keys within it.
    fn addressed<'a, 's>(
        &'a mut self,
        segments: &'s [&'s str],
        place: &Place,
    ) -> Result<(&'a mut Self, &'s [&'s str]), Problem> {
        let problem = |text: String| Problem::at(place.clone(), text);
        let (group, name, keys) = match segments {
            [group @ ("link" | "flow" | "change" | "expect"), name, keys @ ..] if !keys.is_empty() => {
                (Some(*group), *name, keys)
            }
            [group @ ("link" | "flow" | "change" | "expect"), ..] => {
                let number = if matches!(*group, "link" | "flow") { "ID" } else { "1" };
                return Err(problem(format!("what of it? Write {group}.{number}.KEY=VALUE")));
            }
            [name, keys @ ..] if !keys.is_empty() && self.is_named(name) => (None, *name, keys),
            [name, ..] if super::read::ROOT_KEYS.contains(name) => return Ok((self, segments)),
            [name, ..] => {
                return Err(problem(format!("nothing is called \"{name}\": there are {}", self.names())));
            }
            [] => return Err(problem("what is to be set? Write KEY=VALUE".to_owned())),
        };
        let group = group.unwrap_or(if self.has("link", name) { "link" } else { "flow" });
        let names = self.names();
        let elements = match self.get_mut(group).map(|node| &mut node.value) {
            Some(Value::Array(elements)) => elements.as_mut_slice(),
            _ => &mut [],
        };
        let count = elements.len();
        let found = if matches!(group, "link" | "flow") {
            elements.iter_mut().find(|node| node.get("id").and_then(Self::as_text) == Some(name))
        } else {
            name.parse::<usize>().ok().and_then(|number| elements.get_mut(number.checked_sub(1)?))
        };
        let missing = || match group {
            "link" | "flow" => format!("no {group} is called \"{name}\": there are {names}"),
            _ => format!("no {group} {name}: there are {count}, numbered from 1"),
        };
        found.map(|node| (node, keys)).ok_or_else(|| problem(missing()))
    }

    /// The names of `path`, with the kind of thing that it may leave out in front.
    pub(super) fn whole_path(&self, path: &str) -> Vec<String> {
        let names: Vec<String> = path.split('.').map(str::to_owned).collect();
        let kind = match &names[..] {
            [kind, ..] if matches!(kind.as_str(), "link" | "flow" | "change" | "expect") => None,
            [id, _, ..] if self.has("link", id) => Some("link"),
            [id, _, ..] if self.has("flow", id) => Some("flow"),
            _ => None,
        };
        kind.map(str::to_owned).into_iter().chain(names).collect()
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    fn ids(&self, group: &str) -> impl Iterator<Item = &str> {
        self.get(group).into_iter().flat_map(Self::elements).filter_map(|node| node.get("id")?.as_text())
    }

    fn has(&self, group: &str, name: &str) -> bool {
        self.ids(group).any(|id| id == name)
    }

    fn is_named(&self, name: &str) -> bool {
        self.has("link", name) || self.has("flow", name)
    }

    /// All that a path may begin with, in words.
    fn names(&self) -> String {
        let named = ["link", "flow"]
            .into_iter()
            .flat_map(|group| self.ids(group).map(move |id| format!("{group}.{id}")));
        named.chain(["duration", "warmup", "seed"].map(str::to_owned)).collect::<Vec<_>>().join(", ")
    }

    /// Puts `value` below the keys of this, which is what `of` says. A name that stands for a kind becomes a table of that kind; of a
    /// list, a key is the id of an element, or its number from 1.
    fn put(&mut self, of: &str, keys: &[&str], value: Self) -> Result<(), String> {
        let [key, rest @ ..] = keys else {
            *self = value;
            return Ok(());
        };
        let entries = match &mut self.value {
            Value::Array(elements) => return element(elements, key)?.put(of, rest, value),
            Value::Table(entries) => entries,
            other => {
                let kind = match other {
                    Value::Text(kind) => vec![Entry {
                        key: if of == "video" { "model" } else { "kind" }.to_owned(),
                        place: self.place.clone(),
                        node: Self { place: self.place.clone(), value: Value::Text(std::mem::take(kind)) },
                    }],
                    _ => Vec::new(),
                };
                *other = Value::Table(kind);
                let Value::Table(entries) = other else { return Ok(()) };
                entries
            }
        };
        let place = value.place.clone();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
            entry.place = place;
            return entry.node.put(key, rest, value);
        }
        let mut node = Self { place: place.clone(), value: Value::Table(Vec::new()) };
        node.put(key, rest, value)?;
        entries.push(Entry { key: (*key).to_owned(), place, node });
        Ok(())
    }
}

/// The element that has this id or, from 1, this number.
fn element<'a>(elements: &'a mut [Node], key: &str) -> Result<&'a mut Node, String> {
    let count = elements.len();
    let named = elements.iter().position(|node| node.get("id").and_then(Node::as_text) == Some(key));
    let place = named.or_else(|| key.parse::<usize>().ok()?.checked_sub(1));
    let found = place.and_then(|place| elements.get_mut(place));
    found.ok_or_else(|| format!("the list has no \"{key}\": there are {count}, numbered from 1"))
}

/// The value of a setting: as in a file, and a text needs no quotes.
fn read_setting(text: &str, place: &Place) -> Result<Node, Problem> {
    let text = text.trim();
    let structured = text.starts_with(['{', '[', '"', '\'']);
    match DeValue::parse(text) {
        Ok(value) if !value.get_ref().is_datetime() => {
            from_value(value.get_ref(), &|_| place.clone(), place.clone())
        }
        Err(error) if structured => Err(Problem::at(place.clone(), error.message().replace('\n', ", "))),
        _ => Ok(Node { place: place.clone(), value: Value::Text(text.to_owned()) }),
    }
}

fn from_table(table: &DeTable<'_>, place: &impl Fn(usize) -> Place) -> Result<Value, Problem> {
    let mut entries = table
        .iter()
        .map(|(key, value)| {
            let at = key.span().start;
            let node = from_value(value.get_ref(), place, place(value.span().start))?;
            Ok((at, Entry { key: key.get_ref().to_string(), place: place(at), node }))
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    entries.sort_by_key(|&(at, _)| at);
    Ok(Value::Table(entries.into_iter().map(|(_, entry)| entry).collect()))
}

fn from_value(value: &DeValue<'_>, place: &impl Fn(usize) -> Place, here: Place) -> Result<Node, Problem> {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Integer(integer),
            Err(_) => return Err(Problem::at(here, format!("{} is too large a number", integer.as_str()))),
        },
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
        DeValue::Array(array) => Value::Array(
            array
                .iter()
                .map(|value| from_value(value.get_ref(), place, place(value.span().start)))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => from_table(table, place)?,
    };
    Ok(Node { place: here, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "duration = \"5 s\"\n[[link]]\nid = \"wire\"\nqueue = \"codel\"\n[[flow]]\nid = \"tcp\"\n";

    fn after(path: &str, value: &str) -> Node {
        let mut tree = Node::parse(FILE).unwrap();
        tree.set(path, value).unwrap();
        tree
    }

    #[test]
    fn every_value_knows_its_line() {
        let tree = Node::parse(FILE).unwrap();
        let link = &tree.get("link").unwrap().elements()[0];
        assert_eq!(link.get("queue").unwrap().place, Place::Line(4));
        assert_eq!(Node::parse("a = 1\nb = \n").unwrap_err().place, Some(Place::Line(2)));
    }

    #[test]
    fn a_setting_addresses_by_name_by_number_or_by_kind_of_thing() {
        let rate = |tree: &Node| tree.get("link").unwrap().elements()[0].get("rate").unwrap().value.clone();
        assert_eq!(rate(&after("wire.rate", "5M")), Value::Text("5M".to_owned()));
        assert_eq!(rate(&after("link.wire.rate", "\"5 Mbit/s\"")), Value::Text("5 Mbit/s".to_owned()));
        assert_eq!(after("duration", "7 s").get("duration").unwrap().as_text(), Some("7 s"));
        let tree = after("flow.tcp.count", "3");
        assert_eq!(tree.get("flow").unwrap().elements()[0].get("count").unwrap().value, Value::Integer(3));
    }

    #[test]
    fn a_setting_below_a_kind_keeps_the_kind() {
        let tree = after("wire.queue.target", "9 ms");
        let queue = tree.get("link").unwrap().elements()[0].get("queue").unwrap();
        assert_eq!(queue.get("kind").unwrap().as_text(), Some("codel"));
        assert_eq!(queue.get("target").unwrap().as_text(), Some("9 ms"));
    }

    #[test]
    fn a_setting_reaches_into_a_list_by_id_or_by_number() {
        let file = format!(
            "{FILE}video = [{{ id = \"a\", max = 1 }}, \"perfect\"]\nvia = [\"x\", \"y\"]\nsteps = [[\"0 s\", \"1 M\"]]\n"
        );
        let set = |path: &str| {
            let mut tree = Node::parse(&file).unwrap();
            tree.set(path, "3").map_err(|problem| problem.text)?;
            Ok::<_, String>(tree.get("flow").unwrap().elements()[0].clone())
        };
        let videos = |path: &str| set(path).unwrap().get("video").unwrap().elements().to_vec();
        for path in ["tcp.video.a.max", "tcp.video.1.max", "flow.tcp.video.1.max"] {
            assert_eq!(videos(path)[0].get("max").unwrap().value, Value::Integer(3), "{path}");
        }
        let named = videos("tcp.video.2.max");
        assert_eq!(named[1].get("model").unwrap().as_text(), Some("perfect"));
        assert_eq!(named[1].get("max").unwrap().value, Value::Integer(3));
        let flow = set("tcp.via.2").unwrap();
        let via = flow.get("via").unwrap().elements();
        assert_eq!((via[0].as_text(), &via[1].value), (Some("x"), &Value::Integer(3)));
        let flow = set("tcp.steps.1.2").unwrap();
        assert_eq!(flow.get("steps").unwrap().elements()[0].elements()[1].value, Value::Integer(3));
        let missing = "the list has no \"3\": there are 2, numbered from 1";
        assert_eq!(set("tcp.video.3.max").unwrap_err(), missing);
        assert!(set("tcp.video.0.max").is_err() && set("tcp.video.b.max").is_err());
    }

    #[test]
    fn a_setting_of_what_is_not_there_names_what_is() {
        let complaint = |path: &str| Node::parse(FILE).unwrap().set(path, "1").unwrap_err().text;
        assert_eq!(
            complaint("wier.rate"),
            "nothing is called \"wier\": there are link.wire, flow.tcp, duration, warmup, seed"
        );
        assert_eq!(
            complaint("flow.udp.rate"),
            "no flow is called \"udp\": there are link.wire, flow.tcp, duration, warmup, seed"
        );
        assert_eq!(complaint("expect.1.min"), "no expect 1: there are 0, numbered from 1");
        assert_eq!(complaint("link.wire"), "what of it? Write link.ID.KEY=VALUE");
        assert_eq!(complaint("link..rate"), "a path has names between dots, such as link.bottleneck.rate");
    }
}
