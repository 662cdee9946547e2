//! Charts over one x axis, with a common cursor and a table of the values at the cursor.

use serde::Serialize;

use super::Chart;

/// Charts that share their x axis: they zoom together, and a cursor in one of them stands in all.
///
/// A table above them shows the value of each line at the cursor. The cursor follows the pointer; a slider moves it as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Linked {
    /// The charts. Those of the groups begin with `lines`, in this order.
    pub(crate) charts: Vec<Chart>,
    /// JSON pointer to the x coordinates in the page's record.
    pub(crate) x: String,
    /// The cursor can stand at every so many of them.
    pub(crate) step: usize,
    /// The cursor begins at the maximum of the chart with this index.
    pub(crate) start_at: usize,
    /// What a line is of, the heading of their names.
    pub(crate) of: &'static str,
    /// The names of the lines.
    pub(crate) lines: Vec<String>,
    /// The lines of one flow each; the reader chooses which flow the table shows.
    pub(crate) groups: Vec<Group>,
}

/// The lines of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The indices of the charts whose values are columns of the table.
    pub(crate) charts: Vec<usize>,
    /// For each line, the decisions that the cursor can show, in order.
    pub(crate) decisions: Vec<Vec<Decision>>,
}

/// A decision in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Decision {
    pub(crate) x: f64,
    pub(crate) text: String,
    /// Whether it lowered the target.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lower: bool,
}
