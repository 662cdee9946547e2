//! The text of a file with settings written into it. Comments and layout stay.

use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};

use super::{Document, Setting};
use crate::scenario::{ScenarioError, row::tag_of};

impl Document {
    /// The text of the file with `settings`, later ones over earlier ones. It is a scenario file of the same values; comments and
    /// layout stay where a value is replaced.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line, or with its setting.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::Document;
    ///
    /// let text = r#"duration = "10 s" # short
    /// link = [{ id = "wire", from = "a", to = "b" }]
    /// flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
    /// "#;
    /// let document = Document::parse(text, "wire.toml")?;
    /// let changed = document.text_with(&["duration=20s".parse()?, "wire.loss=0.1".parse()?])?;
    /// assert!(changed.starts_with("duration = \"20s\" # short\n"));
    /// assert!(changed.contains(r#"[{ id = "wire", from = "a", to = "b", loss = 0.1 }]"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text_with(&self, settings: &[Setting]) -> Result<String, ScenarioError> {
        // Reports what is wrong with a setting.
        self.scenario(settings)?;
        let text = self.changed(settings)?.to_string();
        // Of a file, no expectation is about a time beyond its end.
        Self { text: text.clone(), ..self.clone() }.scenario(&[])?;
        Ok(text)
    }

    /// The text of the file without the keys at these paths: a list, the id of one of its elements, and a key of that.
    pub(crate) fn text_without(&self, paths: &[[&str; 3]]) -> Result<String, ScenarioError> {
        let mut document = self.editable()?;
        for [list, id, key] in paths {
            match document.get_mut(list) {
                Some(Item::ArrayOfTables(elements)) => {
                    let named = elements.iter_mut().find(|element| id_of(*element) == Some(id));
                    named.and_then(|element| element.remove(key));
                }
                Some(Item::Value(Value::Array(elements))) => {
                    let mut tables = elements.iter_mut().filter_map(Value::as_inline_table_mut);
                    let named = tables.find(|element| id_of(*element) == Some(id));
                    named.and_then(|element| element.remove(key));
                }
                _ => {}
            }
        }
        Ok(document.to_string())
    }

    /// The values of the file with their layout.
    fn editable(&self) -> Result<DocumentMut, ScenarioError> {
        self.text.parse::<DocumentMut>().map_err(|error| {
            let line = error.message().replace('\n', ", ");
            ScenarioError::new(vec![format!("{}: {line}", self.name)])
        })
    }

    /// The values of the file with `settings`, as far as they have a place in it.
    pub(crate) fn changed(&self, settings: &[Setting]) -> Result<DocumentMut, ScenarioError> {
        let mut document = self.editable()?;
        for setting in settings {
            let keys = self.whole_path(&setting.path);
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            put_in(document.as_table_mut(), &keys, value_of(setting));
        }
        Ok(document)
    }
}

/// The value as in a file; anything that is not TOML is a string.
fn value_of(setting: &Setting) -> Value {
    match setting.value.parse::<Value>() {
        Ok(mut value) if !value.is_datetime() => {
            value.decor_mut().clear();
            value
        }
        _ => Value::from(setting.value.as_str()),
    }
}

/// Puts `value` at `keys` below a table.
fn put_in(table: &mut dyn TableLike, keys: &[&str], value: Value) {
    let Some((key, rest)) = keys.split_first() else { return };
    if let Some(item) = table.get_mut(key) {
        put(item, key, rest, value);
    } else {
        table.insert(key, Item::Value(nested(rest, value)));
    }
}

/// `value` in a table for each of `keys`.
fn nested(keys: &[&str], value: Value) -> Value {
    keys.iter().rev().fold(value, |value, key| {
        let mut table = InlineTable::new();
        table.insert(*key, value);
        table.into()
    })
}

/// Puts `value` at `keys` below an item that is the value of `of`. A name of a kind becomes a table of that kind.
fn put(item: &mut Item, of: &str, keys: &[&str], value: Value) {
    let Some((key, rest)) = keys.split_first() else {
        match (item.as_value(), value) {
            (Some(old), mut value) => {
                *value.decor_mut() = old.decor().clone();
                *item = Item::Value(value);
            }
            (None, value) => *item = Item::Value(value),
        }
        return;
    };
    match item {
        Item::ArrayOfTables(elements) => {
            let named = elements.iter().position(|element| id_of(element) == Some(key));
            if let Some(element) = named.or_else(|| number(key)).and_then(|index| elements.get_mut(index)) {
                put_in(element, rest, value);
            }
        }
        Item::Value(Value::Array(elements)) => put_in_array(elements, key, rest, value),
        item => {
            if !item.is_table_like() {
                let mut table = InlineTable::new();
                if let Some(name) = item.as_str() {
                    table.insert(tag_of(of), name.into());
                }
                let mut table = Value::from(table);
                if let Some(old) = item.as_value() {
                    *table.decor_mut() = old.decor().clone();
                }
                *item = Item::Value(table);
            }
            match item {
                Item::Value(Value::InlineTable(table)) => put_inline(table, keys, value),
                item => {
                    if let Some(table) = item.as_table_like_mut() {
                        put_in(table, keys, value);
                    }
                }
            }
        }
    }
}

/// In a list, a key is the id of an element or its number, from 1.
fn put_in_array(elements: &mut Array, key: &str, rest: &[&str], value: Value) {
    let named = elements
        .iter()
        .position(|element| element.as_inline_table().and_then(|table| id_of(table)) == Some(key));
    let Some(element) = named.or_else(|| number(key)).and_then(|index| elements.get_mut(index)) else {
        return;
    };
    if rest.is_empty() {
        *element = value.decorated(" ", " ");
    } else if let Some(table) = element.as_inline_table_mut() {
        put_inline(table, rest, value);
    }
}

/// The same in a table of one line, which has the usual spaces afterwards. One of several lines keeps its layout and its comments.
fn put_inline(table: &mut InlineTable, keys: &[&str], value: Value) {
    put_in(table, keys, value);
    if !table.to_string().contains('\n') {
        table.fmt();
    }
}

fn number(key: &str) -> Option<usize> {
    key.parse::<usize>().ok()?.checked_sub(1)
}

fn id_of(table: &dyn TableLike) -> Option<&str> {
    table.get("id")?.as_str()
}
