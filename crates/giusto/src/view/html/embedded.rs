//! The record that a page embeds, without the columns that no chart draws.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{
    Chart, Points, Section,
    chart::{Series, significant},
};

/// Strings, numbers and vectors under names that are strings: serialisation has no way to fail.
pub(super) fn to_json(record: &impl Serialize) -> Value {
    crate::json::tree(record).unwrap_or_default()
}

/// Of the timelines in a record, keeps only the columns that series point to, with five significant digits.
pub(super) fn keep_drawn(record: &mut Value, sections: &[Section]) {
    let mut pointers = BTreeSet::new();
    for section in sections {
        let charts = match section {
            Section::Chart(chart) => std::slice::from_ref(&**chart),
            Section::Linked(linked) => {
                pointers.insert(linked.x.as_str());
                &linked.charts
            }
            _ => &[],
        };
        pointers.extend(charts.iter().flat_map(|chart| &chart.series).filter_map(columns).flatten());
    }
    trim(record, "", &pointers);
}

/// Whether a column that a series of `chart` points to holds a positive number.
pub(super) fn has_values(record: &Value, chart: &Chart) -> bool {
    let y = chart.series.iter().filter_map(columns).filter_map(|[_, y]| record.pointer(y)?.as_array());
    y.flatten().any(|value| value.as_f64().is_some_and(|value| value > 0.0))
}

/// The columns that a series points to.
fn columns(series: &Series) -> Option<[&str; 2]> {
    match series {
        Series::Line { points: Points::InRecord { x, y, .. }, .. }
        | Series::Stacked { points: Points::InRecord { x, y, .. }, .. }
        | Series::Limit { points: Points::InRecord { x, y, .. }, .. } => Some([x, y]),
        _ => None,
    }
}

fn trim(value: &mut Value, path: &str, pointers: &BTreeSet<&str>) {
    match value {
        Value::Object(fields) => {
            let in_timeline = path.contains("/timeline") || path.contains("/overview");
            fields.retain(|name, field| {
                let is_drawn = || pointers.contains(format!("{path}/{name}").as_str());
                let holds_series = ["flows", "links", "gauges", "streams"].contains(&name.as_str());
                !(in_timeline && field.is_array()) || holds_series || is_drawn()
            });
            for (name, field) in fields {
                trim(field, &format!("{path}/{name}"), pointers);
            }
        }
        Value::Array(items) if pointers.contains(path) => {
            for item in items {
                if let Some(number) = item.as_f64().filter(|_| item.is_f64()) {
                    *item = significant(number).into();
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter_mut().enumerate() {
                trim(item, &format!("{path}/{place}"), pointers);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chart(y: &str) -> Chart {
        Chart::new("", "").with_series(Series::line("", Points::in_record("/timeline/t_s", y)))
    }

    #[test]
    fn only_drawn_columns_are_embedded() {
        let mut record = json!({
            "seed": "1",
            "flows": [{"path": ["wire"]}],
            "timeline": {
                "t_s": [0.1, 0.2],
                "flows": [{"id": "a", "sent": [1, 2]}, {"id": "b", "sent": [1.234_567_89, null], "decisions": [{}]}],
            },
        });
        let drawn = json!({
            "seed": "1",
            "flows": [{"path": ["wire"]}],
            "timeline": {"t_s": [0.1, 0.2], "flows": [{"id": "a"}, {"id": "b", "sent": [1.2346, null]}]},
        });
        keep_drawn(&mut record, &[chart("/timeline/flows/1/sent").into()]);
        assert_eq!(record, drawn);
    }

    #[test]
    fn a_chart_of_zeros_has_no_values() {
        let record = json!({ "timeline": { "none": [0, null], "some": [0, 0.5] } });
        let found =
            ["none", "some", "absent"].map(|name| has_values(&record, &chart(&format!("/timeline/{name}"))));
        assert_eq!(found, [false, true, false]);
    }
}
