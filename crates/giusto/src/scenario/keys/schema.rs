//! The JSON schema of scenario files, and the paths of settings.

use serde_json::{Map, Value, json};

use super::{CITY_FILE, FILE};
use crate::scenario::row::{Group, Key, Kind, Preset, Range, Variant};

/// The JSON schema (draft 7) of scenario files, with which editors complete and check them.
///
/// It is wider than the reader: it does not check what several values say together, such as that links lead to the ends of a flow.
///
/// # Example
///
/// ```
/// let schema = giusto::scenario::schema();
/// assert_eq!(schema["definitions"]["link"]["properties"]["corruption"]["maximum"], 1.0);
/// ```
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let files = [&FILE, &CITY_FILE].map(|group| object(group, None, &mut definitions));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Scenario of giusto",
        "anyOf": files,
        "definitions": definitions,
    })
}

/// The paths that a setting can have, with `ID` for an id: `link.ID.rate`. They end before the keys of tables.
pub fn setting_paths() -> Vec<String> {
    let mut paths = Vec::new();
    for row in FILE.rows(None).chain(CITY_FILE.rows(None)) {
        let element = match row.kind {
            Kind::List(Kind::Table(part)) => Some((*part, part.rows(None).any(|row| row.name == "id"))),
            _ => None,
        };
        match (element, row.kind) {
            (Some((part, has_id)), _) => {
                let element = if has_id { "ID" } else { "1" };
                let kinds = part.kinds.iter().flat_map(|kinds| kinds.all).flat_map(|kind| kind.keys);
                let keys = part.keys.iter().chain(kinds).copied().flatten();
                paths.extend(keys.map(|key| format!("{}.{element}.{}", row.name, key.name)));
            }
            (None, Kind::Table(part)) if row.name == "city" => {
                paths.extend(part.rows(None).map(|key| format!("city.{}", key.name)));
            }
            _ if row.name != "lesson" => paths.push(row.name.to_owned()),
            _ => {}
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn object(group: &Group, kind: Option<&'static Variant>, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    if let Some((kinds, kind)) = group.kinds.as_ref().zip(kind) {
        properties.insert(kinds.tag.to_owned(), json!({ "const": kind.name, "description": kind.text }));
    }
    let rows: Vec<&Key> = group.rows(kind).collect();
    for row in &rows {
        let mut value = of(&row.kind, definitions);
        let is_text = matches!(row.kind, Kind::Rate(_) | Kind::Size(_) | Kind::Time(_) | Kind::Measure(..));
        let range = if is_text { format!("; {}", row.kind.bounds()) } else { String::new() };
        let default = match row.default {
            Preset::Said(default) => format!("; default: {default}"),
            _ => String::new(),
        };
        if let Value::Object(value) = &mut value {
            value.insert("description".to_owned(), format!("{}{range}{default}", row.text).into());
            if let Preset::Is(default) | Preset::Shown(default) = row.default {
                let default = serde_json::from_str(default).unwrap_or_else(|_| default.into());
                value.insert("default".to_owned(), default);
            }
        }
        properties.insert(row.name.to_owned(), value);
    }
    let tag = group.kinds.as_ref().filter(|kinds| kinds.default.is_none()).map(|kinds| kinds.tag);
    let required: Vec<&str> =
        tag.into_iter().chain(rows.iter().filter(|row| row.is_required()).map(|row| row.name)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The schema of a value.
fn of(kind: &Kind, definitions: &mut Map<String, Value>) -> Value {
    const RATE: &str = "([kMGT]?(bit/s|bps)|[kKMGT])";
    const SIZE: &str = "([kMGT]?B|[kKMGT])";
    const TIME: &str = "(ns|us|µs|ms|s|min|h)";
    let quantity =
        |unit: &str| json!({ "type": "string", "pattern": format!("^ *[0-9][0-9._]* *{unit} *$") });
    match kind {
        Kind::Text | Kind::Name => json!({ "type": "string" }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Whole(range) => bounded("integer", *range),
        Kind::Number(range) => bounded("number", *range),
        Kind::Rate(Range { above: false, .. }) => json!({ "anyOf": [quantity(RATE), { "const": "0" }] }),
        Kind::Rate(_) => quantity(RATE),
        Kind::Size(_) => quantity(SIZE),
        Kind::Time(_) => quantity(TIME),
        Kind::Measure(units, _) => {
            let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
            quantity(&format!("({})", names.join("|")))
        }
        Kind::Capacity => {
            json!({ "anyOf": [quantity(&format!("(packets?|{SIZE}|{TIME})")), { "const": "unlimited" }] })
        }
        Kind::Word(word) => json!({ "const": word }),
        Kind::Choice(names) => json!({ "enum": names() }),
        Kind::Controller => {
            let constants = json!({
                "type": "object",
                "properties": { "algorithm": { "enum": kind.names() } },
                "required": ["algorithm"],
                "additionalProperties": { "type": ["number", "string"] },
            });
            let text = json!({ "type": "string", "pattern": "[+].+=|[.]toml$" });
            json!({ "anyOf": [{ "enum": kind.names() }, text, constants] })
        }
        Kind::List(element) => json!({ "type": "array", "items": of(element, definitions) }),
        Kind::Pair(first, second) => {
            let items = [of(first, definitions), of(second, definitions)];
            json!({ "type": "array", "items": items, "minItems": 2, "maxItems": 2 })
        }
        Kind::Any(forms) => {
            let forms: Vec<Value> = forms.iter().map(|form| of(form, definitions)).collect();
            json!({ "anyOf": forms })
        }
        Kind::Table(group) => {
            if !definitions.contains_key(group.name) {
                definitions.insert(group.name.to_owned(), Value::Null);
                let value = match &group.kinds {
                    None => object(group, None, definitions),
                    Some(kinds) => {
                        let tables = kinds.all.iter().map(|kind| object(group, Some(kind), definitions));
                        json!({ "anyOf": tables.collect::<Vec<_>>() })
                    }
                };
                definitions.insert(group.name.to_owned(), value);
            }
            let table = json!({ "$ref": format!("#/definitions/{}", group.name) });
            let names = kind.names();
            json!({ "anyOf": if names.is_empty() { vec![table] } else { vec![json!({ "enum": names }), table] } })
        }
    }
}

fn bounded(kind: &str, Range { min, max, above }: Range) -> Value {
    let mut value = Map::from_iter([("type".to_owned(), kind.into())]);
    let least = if above { "exclusiveMinimum" } else { "minimum" };
    let bounds = [(least, min), ("maximum", max)].into_iter().filter(|(_, bound)| bound.is_finite());
    value.extend(bounds.map(|(name, bound)| (name.to_owned(), bound.into())));
    Value::Object(value)
}
