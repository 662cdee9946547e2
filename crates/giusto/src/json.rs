//! JSON through one writer and one reader. What serialises a record is compiled anew for each kind of them, which are a tenth of the
//! program; so all is written as text without breaks, and read as text.

use std::iter::repeat_n;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Error, Value, from_str, to_string};

/// A value's tree.
///
/// # Errors
///
/// Those of `serde_json::to_value`.
pub fn tree(value: &impl Serialize) -> Result<Value, Error> {
    from_str(&to_string(value)?)
}

/// What `serde_json::from_slice` reads.
///
/// # Errors
///
/// The bytes are not UTF-8, or not what is to be read.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    from_str(std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?)
}

/// What `serde_json::to_string_pretty` writes.
///
/// # Errors
///
/// Those of `serde_json::to_string`.
pub fn pretty(value: &impl Serialize) -> Result<String, Error> {
    Ok(with_breaks(&to_string(value)?))
}

/// JSON without breaks as one that has an item in each line.
fn with_breaks(text: &str) -> String {
    let mut pretty = String::with_capacity(2 * text.len());
    let mut depth = 0;
    let line = |pretty: &mut String, depth| {
        pretty.push('\n');
        pretty.extend(repeat_n("  ", depth));
    };
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '"' => {
                pretty.push('"');
                while let Some(char) = rest.next() {
                    pretty.push(char);
                    match char {
                        '\\' => pretty.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                pretty.push(char);
                if let Some(end) = rest.next_if(|&next| next == '}' || next == ']') {
                    pretty.push(end);
                } else {
                    depth += 1;
                    line(&mut pretty, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(char);
            }
            ',' => {
                pretty.push(',');
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            _ => pretty.push(char),
        }
    }
    pretty
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::{json, to_string_pretty};

    use super::*;

    fn any_tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            r#"[\\"{}\[\]:, \na-cé]{0,9}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(Value::from),
                vec((r#"[\\"{}:,a-c]{0,4}"#, inner), 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn breaks_are_those_of_serde_json(tree in any_tree()) {
            prop_assert_eq!(pretty(&tree).unwrap(), to_string_pretty(&tree).unwrap());
        }
    }

    #[test]
    fn bytes_are_read_as_text() {
        assert_eq!(from_bytes::<Value>(br#"{"a": [1.5]}"#).unwrap(), tree(&json!({"a": [1.5]})).unwrap());
        let problem = from_bytes::<Value>(b"\"\xff\"").unwrap_err();
        assert_eq!(problem.to_string(), "invalid utf-8 sequence of 1 bytes from index 1");
    }
}
