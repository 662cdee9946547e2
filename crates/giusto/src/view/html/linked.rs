//! Charts over one x axis, with a common cursor and a table of the values at the cursor.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::Chart;

/// Charts that share their x axis: they zoom together, and a cursor in one of them stands in all.
///
/// A table above them shows the value of each line at the cursor. The cursor follows the pointer; a slider moves it as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Linked {
    /// The charts. Those that are [keyed elsewhere](Chart::keyed_elsewhere) begin with `lines`, in this order.
    pub(crate) charts: Vec<Chart>,
    /// The x coordinates where the cursor can stand, from the left.
    #[serde(serialize_with = "with_four_decimals")]
    pub(crate) positions: Vec<f64>,
    /// The index of the position where the cursor stands at first.
    pub(crate) start: usize,
    /// The header of the column of names.
    pub(crate) line_header: String,
    /// The names of the lines.
    pub(crate) lines: Vec<String>,
    /// The columns of numbers.
    pub(crate) columns: Vec<ValueColumn>,
    /// The header of the column of texts.
    pub(crate) text_header: String,
    /// The lines of one flow each; the reader chooses which flow the table shows.
    pub(crate) groups: Vec<Group>,
}

/// A column of numbers in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ValueColumn {
    /// The quantity, with its unit.
    pub(crate) name: String,
    pub(crate) decimals: u8,
}

/// The lines of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) lines: Vec<LineValues>,
}

/// The values and texts of one line in the table.
///
/// A page holds thousands of values and texts. Where a value repeats in blocks, each block is serialised once; texts are
/// serialised as a phrase, which many share, and the numbers in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LineValues {
    /// For each column, the value at each position.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// The texts, each once: the x coordinate where it begins to hold, and its words.
    pub(crate) texts: Vec<(f64, String)>,
    /// For each position, the index of the text that holds there.
    pub(crate) current: Vec<Option<usize>>,
    /// For each position, the index of the last text before it that reports a decrease.
    pub(crate) last_decrease: Vec<Option<usize>>,
}

impl Serialize for LineValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut phrases: Vec<String> = Vec::new();
        let mut index_of = |phrase: String| {
            phrases.iter().position(|known| *known == phrase).unwrap_or_else(|| {
                phrases.push(phrase);
                phrases.len() - 1
            })
        };
        let split = self.texts.iter().map(|(at, text)| (at, phrase_and_numbers(text)));
        let texts: Vec<(f64, usize, String)> =
            split.map(|(at, (phrase, numbers))| (*at, index_of(phrase), numbers.join(" "))).collect();
        let values: Vec<Blocks<'_>> = self.values.iter().map(|values| Blocks::of(values)).collect();
        let mut line = serializer.serialize_struct("LineValues", 5)?;
        line.serialize_field("values", &values)?;
        line.serialize_field("phrases", &phrases)?;
        line.serialize_field("texts", &texts)?;
        line.serialize_field("current", &self.current)?;
        line.serialize_field("last_decrease", &self.last_decrease)?;
        line.end()
    }
}

/// Stands for a number in a phrase.
const PLACEHOLDER: char = '¤';

/// A text with a placeholder for each number, and the numbers.
fn phrase_and_numbers(text: &str) -> (String, Vec<&str>) {
    let (mut phrase, mut numbers) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = if is_number {
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        if is_number || first == PLACEHOLDER {
            phrase.push(PLACEHOLDER);
            numbers.push(token);
        } else {
            phrase.push(first);
        }
    }
    (phrase, numbers)
}

/// Numbers of a column, or one for each block of equal ones.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Blocks<'a> {
    Single(&'a [Option<f64>]),
    Equal { length: usize, values: Vec<Option<f64>> },
}

impl<'a> Blocks<'a> {
    fn of(values: &'a [Option<f64>]) -> Self {
        const LONGEST: usize = 16;
        let is_equal = |block: &[Option<f64>]| block.iter().all(|value| block.first() == Some(value));
        let length = (2..=LONGEST).rev().find(|&length| values.chunks(length).all(is_equal));
        match length {
            Some(length) => Self::Equal { length, values: values.iter().step_by(length).copied().collect() },
            None => Self::Single(values),
        }
    }
}

fn with_four_decimals<S: Serializer>(positions: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(positions.iter().map(|&position| rounded(position, 4)))
}

/// `value` rounded to so many decimals.
pub(crate) fn rounded(value: f64, decimals: u8) -> f64 {
    let scale = 10_f64.powi(decimals.into());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_values_keep_their_order_and_their_gaps() {
        let line = LineValues {
            values: vec![vec![Some(1.5), None]],
            texts: vec![(0.25, "0.5 → 12.50 kbit/s, more.".to_owned())],
            current: vec![None, Some(0)],
            last_decrease: vec![None, None],
        };
        let linked = Linked {
            charts: Vec::new(),
            positions: vec![0.1, 0.300_000_04],
            start: 1,
            line_header: "line".to_owned(),
            lines: vec!["a".to_owned()],
            columns: vec![ValueColumn { name: "rate".to_owned(), decimals: 2 }],
            text_header: "words".to_owned(),
            groups: vec![Group { name: "g".to_owned(), lines: vec![line] }],
        };
        let read = serde_json::to_value(&linked).unwrap();
        assert_eq!(read["positions"], json!([0.1, 0.3]));
        let line = &read["groups"][0]["lines"][0];
        assert_eq!(line["phrases"], json!(["¤ → ¤ kbit/s, more."]));
        assert_eq!(line["texts"], json!([[0.25, 0, "0.5 12.50"]]));
        assert_eq!(line["current"], json!([null, 0]));
        assert_eq!(line["values"], json!([[1.5, null]]));
    }

    #[test]
    fn equal_blocks_of_values_are_written_once() {
        let write = |values: &[Option<f64>]| serde_json::to_value(Blocks::of(values)).unwrap();
        let [one, two] = [1.0, 2.0].map(Some);
        let blocks = write(&[one, one, one, two, two, two, None]);
        assert_eq!(blocks, json!({"length": 3, "values": [1.0, 2.0, null]}));
        assert_eq!(write(&[one, one, two]), json!({"length": 2, "values": [1.0, 2.0]}));
        assert_eq!(write(&[one, two, two]), json!([1.0, 2.0, 2.0]));
    }

    #[test]
    fn numbers_and_placeholders_are_taken_out_of_a_phrase() {
        let of = |text| phrase_and_numbers(text);
        assert_eq!(of("a 1.5 ms, 20 % ¤"), ("a ¤ ms, ¤ % ¤".to_owned(), vec!["1.5", "20", "¤"]));
        assert_eq!(of("start"), ("start".to_owned(), vec![]));
    }
}
