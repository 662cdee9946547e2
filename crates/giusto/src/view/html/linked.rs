//! Charts over one x axis, with a common cursor and a table of the values at the cursor.

use serde::{Serialize, Serializer};

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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
            texts: vec![(0.25, "more".to_owned())],
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
        assert_eq!(line["texts"], json!([[0.25, "more"]]));
        assert_eq!(line["current"], json!([null, 0]));
        assert_eq!(line["values"], json!([[1.5, null]]));
    }
}
