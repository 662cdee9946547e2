//! Published figures and ours, side by side.
//!
//! Each reproduction states its rule of agreement before anything is measured, in its own page of the docs; an [`Item`]
//! that does not agree says why.

pub mod firebind;
pub mod rfc8867;
pub mod rrtcc;
pub mod shaper;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use giusto::view::{
    format::UNKNOWN,
    html::{self, Cell, Tone},
};

/// A reproduction: in JSON the one object of `giusto reproduce NAME --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Its name on the command line.
    pub name: String,
    /// One item for each published number or statement.
    pub items: Vec<Item>,
    /// Measured beside it, named with the unit: nothing published to compare it with, so it is not judged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, f64>,
}

/// One published number or statement, and what we found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// A name that stays: `send-sleep-1M-200`.
    pub id: String,
    /// What it is, in words.
    pub what: String,
    /// The unit of `published` and `ours`.
    pub unit: String,
    /// As published.
    pub published: f64,
    /// What we found, comparable with `published`; `None` if nothing was measured.
    pub ours: Option<f64>,
    /// The least of what repeated runs found.
    pub ours_low: Option<f64>,
    /// The largest of what repeated runs found.
    pub ours_high: Option<f64>,
    /// Whether the two agree, by the rule stated beforehand.
    pub agrees: bool,
    /// Why they do not agree.
    pub why: Option<String>,
    /// Whether the rule could be applied at all: false where our set-up lacks what the figure depends on. Such an item
    /// never agrees.
    pub comparable: bool,
    /// Figures that the judgement rests on, named with their unit.
    pub figures: BTreeMap<String, f64>,
}

impl Item {
    /// The verdict in a word or two.
    pub fn verdict(&self) -> &'static str {
        match (self.agrees, self.comparable, self.ours) {
            (true, ..) => "agrees",
            (_, false, _) => "not comparable",
            (_, _, None) => "not measured",
            _ => "differs",
        }
    }
}

impl Reproduction {
    /// Items that agree.
    pub fn agreeing(&self) -> usize {
        self.items.iter().filter(|item| item.agrees).count()
    }

    /// Items that the rule could be applied to.
    pub fn comparable(&self) -> usize {
        self.items.iter().filter(|item| item.comparable).count()
    }

    /// The items as a table of a report.
    pub fn to_table(&self) -> html::Table {
        use html::Column;
        let number = |item: &Item, value: Option<f64>| {
            value.map_or_else(|| UNKNOWN.to_owned(), |value| in_unit(value, &item.unit))
        };
        let row = |item: &Item| {
            let tone = match (item.agrees, item.comparable) {
                (true, _) => Tone::Good,
                (_, false) => Tone::Plain,
                _ => Tone::Fair,
            };
            vec![
                item.what.clone().into(),
                number(item, Some(item.published)).into(),
                number(item, item.ours).into(),
                Cell::toned(item.verdict(), tone),
                item.why.clone().unwrap_or_default().into(),
            ]
        };
        html::Table {
            title: "Every published figure and ours".to_owned(),
            caption: "By the rule stated below, which was written before anything was measured.".to_owned(),
            columns: vec![
                Column::words("what"),
                Column::number("published"),
                Column::number("ours"),
                Column::words("verdict"),
                Column::words("why"),
            ],
            rows: self.items.iter().map(row).collect(),
            folded: false,
        }
    }
}

/// A value with its unit, and the digits that it deserves.
pub(crate) fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "ratio" => format!("{value:.3}"),
        "packets" => format!("{value:.2} {unit}"),
        _ => format!("{} {unit}", giusto::view::format::grouped(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_becomes_json_that_others_can_rely_on() {
        let item = Item {
            id: "send-sleep-10k-200".to_owned(),
            what: "Send and Sleep, 10 kbit/s, 200 B".to_owned(),
            unit: "bit/s".to_owned(),
            published: 10_161.0,
            ours: Some(10_161.25),
            ours_low: Some(10_161.0),
            ours_high: Some(10_161.5),
            agrees: true,
            why: None,
            comparable: true,
            figures: BTreeMap::from([("predicted_bps".to_owned(), 10_161.29)]),
        };
        insta::assert_snapshot!(serde_json::to_string_pretty(&item).unwrap(), @r#"
        {
          "id": "send-sleep-10k-200",
          "what": "Send and Sleep, 10 kbit/s, 200 B",
          "unit": "bit/s",
          "published": 10161.0,
          "ours": 10161.25,
          "ours_low": 10161.0,
          "ours_high": 10161.5,
          "agrees": true,
          "why": null,
          "comparable": true,
          "figures": {
            "predicted_bps": 10161.29
          }
        }
        "#);
        assert_eq!(serde_json::from_str::<Item>(&serde_json::to_string(&item).unwrap()).unwrap(), item);
        assert_eq!(item.verdict(), "agrees");
    }

    #[test]
    fn what_cannot_be_compared_is_neither_an_agreement_nor_a_difference() {
        let item = Item {
            id: String::new(),
            what: String::new(),
            unit: "ratio".to_owned(),
            published: 0.94,
            ours: Some(0.94),
            ours_low: None,
            ours_high: None,
            agrees: false,
            why: Some("no such link".to_owned()),
            comparable: false,
            figures: BTreeMap::new(),
        };
        assert_eq!(item.verdict(), "not comparable");
        let all = Reproduction { name: "x".to_owned(), items: vec![item], ..Reproduction::default() };
        assert_eq!((all.agreeing(), all.comparable()), (0, 0));
        assert_eq!(all.to_table().rows[0][1].text, "0.940");
    }
}
