//! Plots over one axis, and a cursor that tells what holds at one place of it.

use serde::Serialize;

use super::Chart;

/// Plots that share their x axis: they are moved together, and a cursor in one of them stands in all.
///
/// Beside them a table tells what each line says at the cursor. It follows the pointer; a slider moves it where there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Linked {
    /// The plots, each [with a cursor](Chart::with_cursor). Those that are [keyed elsewhere](Chart::keyed_elsewhere) begin with
    /// `lines`, in this order.
    pub(crate) charts: Vec<Chart>,
    /// Where the cursor can stand, from the left.
    pub(crate) places: Vec<f64>,
    /// Which of these it begins at.
    pub(crate) start: usize,
    /// What the lines are: the head of their column.
    pub(crate) lines_are: String,
    /// Their names.
    pub(crate) lines: Vec<String>,
    /// What is known of each line in numbers.
    pub(crate) columns: Vec<Figures>,
    /// What is known in words: the head of that column.
    pub(crate) says_are: String,
    /// The same lines for one thing or another; one of them is shown at a time.
    pub(crate) groups: Vec<Group>,
}

/// A column of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    /// What they are, with their unit.
    pub(crate) name: String,
    pub(crate) decimals: u8,
}

/// All lines for one thing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) lines: Vec<Told>,
}

/// What one line tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Told {
    /// Of each column, the value at each place.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// What was said, each once: where, and in words.
    pub(crate) said: Vec<(f64, String)>,
    /// Which of it holds at each place.
    pub(crate) holds: Vec<Option<usize>>,
    /// What else of it is to be told there.
    pub(crate) also: Vec<Option<usize>>,
}

/// What the script reads.
#[derive(Serialize)]
struct Data<'a> {
    places: Vec<f64>,
    start: usize,
    decimals: Vec<u8>,
    groups: Vec<Vec<&'a Told>>,
}

impl Linked {
    /// All that the cursor tells as JSON, fit to stand inside a script element.
    pub(super) fn data(&self) -> String {
        let data = Data {
            places: self.places.iter().map(|&place| rounded(place, 4)).collect(),
            start: self.start,
            decimals: self.columns.iter().map(|column| column.decimals).collect(),
            groups: self.groups.iter().map(|group| group.lines.iter().collect()).collect(),
        };
        // Numbers and texts under names that are texts: nothing of it cannot be written.
        let json = serde_json::to_string(&data).unwrap_or_default();
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

/// `value` with so many decimals: more would be bytes that nobody sees.
pub(crate) fn rounded(value: f64, decimals: u8) -> f64 {
    let scale = 10_f64.powi(decimals.into());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_stay_within_their_element_and_keep_their_order() {
        let told = Told {
            values: vec![vec![Some(1.5), None]],
            said: vec![(0.25, "</script> & more".to_owned())],
            holds: vec![None, Some(0)],
            also: vec![None, None],
        };
        let linked = Linked {
            charts: Vec::new(),
            places: vec![0.1, 0.300_000_04],
            start: 1,
            lines_are: "line".to_owned(),
            lines: vec!["a".to_owned()],
            columns: vec![Figures { name: "rate".to_owned(), decimals: 2 }],
            says_are: "words".to_owned(),
            groups: vec![Group { name: "g".to_owned(), lines: vec![told] }],
        };
        let data = linked.data();
        assert!(!data.contains('<') && !data.contains('&'), "{data}");
        let read: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(read["places"], serde_json::json!([0.1, 0.3]));
        let line = &read["groups"][0][0];
        assert_eq!(line["said"], serde_json::json!([[0.25, "</script> & more"]]));
        assert_eq!(line["holds"], serde_json::json!([null, 0]));
        assert_eq!(line["values"], serde_json::json!([[1.5, null]]));
    }
}
