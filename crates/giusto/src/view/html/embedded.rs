//! The record that a page embeds, without the columns that no chart draws.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{
    Points, Section,
    chart::{Series, significant},
};

/// The record as JSON. Of its timelines, only the columns that series point to are kept, with five significant digits.
pub(super) fn drawn_part(record: &impl Serialize, sections: &[Section]) -> Value {
    let mut pointers = BTreeSet::new();
    for section in sections {
        match section {
            Section::Chart(chart) => pointers.extend(chart.series.iter().flat_map(columns)),
            Section::Linked(linked) => {
                pointers.extend(linked.charts.iter().flat_map(|chart| &chart.series).flat_map(columns));
            }
            _ => {}
        }
    }
    // Strings, numbers and vectors under names that are strings: serialisation has no way to fail.
    let mut value = serde_json::to_value(record).unwrap_or_default();
    trim(&mut value, "", &pointers);
    value
}

/// The columns that a series points to.
fn columns(series: &Series) -> Vec<&str> {
    match series {
        Series::Line { points: Points::InRecord { x, y, .. }, .. }
        | Series::Stacked { points: Points::InRecord { x, y, .. }, .. }
        | Series::Limit { points: Points::InRecord { x, y, .. }, .. } => vec![x, y],
        _ => Vec::new(),
    }
}

fn trim(value: &mut Value, path: &str, pointers: &BTreeSet<&str>) {
    match value {
        Value::Object(fields) => {
            let in_timeline = path.contains("/timeline");
            fields.retain(|name, field| {
                let own = format!("{path}/{name}");
                match field {
                    Value::Array(items) if in_timeline && !items.iter().any(Value::is_object) => {
                        pointers.contains(own.as_str())
                    }
                    // Marks show the decisions in words.
                    Value::Array(_) if in_timeline && name == "decisions" => false,
                    _ => true,
                }
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
    use crate::view::html::Chart;

    #[test]
    fn only_drawn_columns_are_embedded() {
        let points = Points::in_record("/timeline/t_s", "/timeline/flows/1/sent");
        let chart = Chart::new("", "").with_series(Series::line("sent", points));
        let record = json!({
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
        assert_eq!(drawn_part(&record, &[chart.into()]), drawn);
    }
}
