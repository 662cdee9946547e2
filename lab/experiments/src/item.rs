//! Published figures and ours: what an item is, and how the two are compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use giusto::measured::median::median;

/// A reproduction: in JSON the one object of `giusto reproduce NAME --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Its name on the command line.
    pub name: String,
    /// One item for each published number or statement.
    pub items: Vec<Item>,
    /// Other measurements, named with their unit. Nothing published corresponds to them, so they are not judged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, f64>,
}

/// One published number or statement, and what we found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// A stable name: `send-sleep-1M-200`.
    pub id: String,
    /// The quantity in words.
    pub what: String,
    /// The unit of `published` and `ours`.
    pub unit: String,
    /// As published.
    pub published: f64,
    /// Our value, comparable with `published`; `None` if nothing was measured.
    pub ours: Option<f64>,
    /// The lower end of repeated runs.
    pub ours_low: Option<f64>,
    /// The upper end of repeated runs.
    pub ours_high: Option<f64>,
    /// Whether the two agree, by the rule stated beforehand; `None` if nothing was measured or the two are not comparable.
    pub agrees: Option<bool>,
    /// Why they do not agree.
    pub why: Option<String>,
    /// Whether the rule applies at all: false where our set-up lacks what the figure depends on.
    pub comparable: bool,
    /// Figures that the judgement rests on, named with their unit.
    pub figures: BTreeMap<String, f64>,
}

impl Item {
    /// The verdict in a word or two.
    pub fn verdict(&self) -> &'static str {
        match self.agrees {
            Some(true) => "agrees",
            Some(false) => "differs",
            None if self.comparable => "not measured",
            None => "not comparable",
        }
    }

    /// Whether it was judged, and agrees.
    pub(crate) fn does_agree(&self) -> bool {
        self.agrees == Some(true)
    }
}

impl Reproduction {
    /// Items that agree.
    pub fn agreeing(&self) -> usize {
        self.items.iter().filter(|item| item.does_agree()).count()
    }

    /// Items that were judged: measured, and comparable.
    pub fn judged(&self) -> usize {
        self.items.iter().filter(|item| item.agrees.is_some()).count()
    }

    /// Our value of the item called `id`, if it was measured.
    pub(crate) fn ours(&self, id: &str) -> Option<f64> {
        self.items.iter().find(|item| item.id == id)?.ours
    }
}

/// The median of repeated runs and their range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Median, 5th and 95th percentile of the finite values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Self::between(values, [0.05, 0.95])
    }

    /// Median, minimum and maximum of the finite values.
    pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Self::between(values, [0.0, 1.0])
    }

    fn between(values: impl IntoIterator<Item = f64>, [low, high]: [f64; 2]) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().saturating_sub(1) as f64;
        let at = |share: f64| values.get((last * share).round() as usize).copied();
        Some(Self { low: at(low)?, median: median(values.iter().copied())?, high: at(high)? })
    }
}

/// Mean and standard deviation; `None` without values.
pub(crate) fn mean_and_deviation(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.into_iter().collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (!values.is_empty()).then(|| (mean, variance.sqrt()))
}

/// How ours is compared with the published value. Bounds are in the unit of the item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// The median is within this share of the published value.
    Near(f64),
    /// As `Near`, and the published value lies within our range.
    NearAndInRange(f64),
    /// The median is at most this far from the published value.
    Within(f64),
    /// The median is between these.
    Between(f64, f64),
    /// The median is at least this.
    AtLeast(f64),
    /// The median is at most this.
    AtMost(f64),
}

impl Rule {
    pub(crate) fn agrees(self, published: f64, ours: Spread) -> bool {
        let distance = (ours.median - published).abs();
        match self {
            Self::Near(share) => distance <= share * published.abs(),
            Self::NearAndInRange(share) => {
                distance <= share * published.abs() && (ours.low..=ours.high).contains(&published)
            }
            Self::Within(bound) => distance <= bound,
            Self::Between(low, high) => (low..=high).contains(&ours.median),
            Self::AtLeast(bound) => ours.median >= bound,
            Self::AtMost(bound) => ours.median <= bound,
        }
    }

    /// The bounds, for the figures of an item.
    fn figures(self) -> BTreeMap<String, f64> {
        let bounds = match self {
            Self::Near(share) | Self::NearAndInRange(share) => vec![("tolerance_ratio", share)],
            Self::Within(bound) => vec![("tolerance", bound)],
            Self::Between(low, high) => vec![("minimum", low), ("maximum", high)],
            Self::AtLeast(bound) => vec![("minimum", bound)],
            Self::AtMost(bound) => vec![("maximum", bound)],
        };
        bounds.into_iter().map(|(name, bound)| (name.to_owned(), bound)).collect()
    }
}

/// A published number or sentence, the rule that judges it, and how ours is obtained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement<F> {
    /// A stable name.
    pub(crate) id: String,
    /// The quantity in words that fit a table.
    pub(crate) what: String,
    pub(crate) published: f64,
    pub(crate) unit: &'static str,
    pub(crate) rule: Rule,
    pub(crate) ours: F,
    /// Why ours differs, where it differs.
    pub(crate) why: &'static str,
    pub(crate) comparable: bool,
}

impl<F> Statement<F> {
    /// A statement about a ratio.
    pub(crate) fn ratio(
        id: impl Into<String>,
        what: impl Into<String>,
        published: f64,
        rule: Rule,
        ours: F,
    ) -> Self {
        let (id, what) = (id.into(), what.into());
        Self { id, what, published, unit: "ratio", rule, ours, why: "", comparable: true }
    }

    /// The same statement with the reason that is given where ours differs.
    pub(crate) fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// The same statement about a quantity in `unit`.
    pub(crate) fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// The same statement, shown and never judged.
    pub(crate) fn not_comparable(self) -> Self {
        Self { comparable: false, ..self }
    }

    /// The statement judged by our value.
    pub(crate) fn judge(&self, ours: Option<Spread>) -> Item {
        let agrees = ours.filter(|_| self.comparable).map(|ours| self.rule.agrees(self.published, ours));
        let why = if ours.is_some() { self.why } else { "Not measured." };
        Item {
            id: self.id.clone(),
            what: self.what.clone(),
            unit: self.unit.to_owned(),
            published: self.published,
            ours: ours.map(|ours| ours.median),
            ours_low: ours.map(|ours| ours.low),
            ours_high: ours.map(|ours| ours.high),
            agrees,
            why: (agrees != Some(true)).then(|| why.to_owned()),
            comparable: self.comparable,
            figures: self.rule.figures(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_has_stable_json() {
        let item = Item {
            id: "send-sleep-10k-200".to_owned(),
            what: "Send and Sleep, 10 kbit/s, 200 B".to_owned(),
            unit: "bit/s".to_owned(),
            published: 10_161.0,
            ours: Some(10_161.25),
            ours_low: Some(10_161.0),
            ours_high: Some(10_161.5),
            agrees: Some(true),
            why: None,
            comparable: true,
            figures: BTreeMap::from([("predicted_bps".to_owned(), 10_161.29)]),
        };
        let json = serde_json::to_string(&item).unwrap();
        insta::assert_snapshot!(json, @r#"{"id":"send-sleep-10k-200","what":"Send and Sleep, 10 kbit/s, 200 B","unit":"bit/s","published":10161.0,"ours":10161.25,"ours_low":10161.0,"ours_high":10161.5,"agrees":true,"why":null,"comparable":true,"figures":{"predicted_bps":10161.29}}"#);
        assert_eq!(serde_json::from_str::<Item>(&json).unwrap(), item);
        assert_eq!(item.verdict(), "agrees");
    }

    #[test]
    fn an_item_that_is_not_comparable_is_not_counted() {
        let item = Item { unit: "ratio".to_owned(), published: 0.94, ours: Some(0.94), ..Item::default() };
        assert_eq!(item.verdict(), "not comparable");
        let all = Reproduction { items: vec![item], ..Reproduction::default() };
        assert_eq!((all.agreeing(), all.judged()), (0, 0));
    }

    #[test]
    fn what_was_not_measured_neither_agrees_nor_differs() {
        let statement = Statement::ratio("id", "what", 2.0, Rule::Near(0.1), ());
        let items = [Some(2.1), Some(2.3), None].map(|ours| statement.judge(Spread::of(ours))).to_vec();
        let verdicts: Vec<_> = items.iter().map(|item| (item.agrees, item.verdict())).collect();
        assert_eq!(verdicts, [(Some(true), "agrees"), (Some(false), "differs"), (None, "not measured")]);
        let all = Reproduction { items, ..Reproduction::default() };
        assert_eq!((all.agreeing(), all.judged()), (1, 2));
    }

    #[test]
    fn every_rule_can_fail_on_both_sides() {
        let spread = |median: f64, width: f64| Spread { low: median - width, median, high: median + width };
        for (rule, good, bad) in [
            (Rule::Near(0.05), [(950.0, 0.0), (1050.0, 0.0)], [(949.0, 0.0), (1051.0, 0.0)]),
            (Rule::NearAndInRange(0.05), [(960.0, 50.0), (1040.0, 50.0)], [(940.0, 90.0), (960.0, 10.0)]),
            (Rule::Within(2.0), [(998.0, 0.0), (1002.0, 0.0)], [(997.9, 9.0), (1002.1, 9.0)]),
            (Rule::Between(2.0, 3.0), [(2.0, 1.0), (3.0, 0.0)], [(1.9, 1.0), (3.1, 1.0)]),
            (Rule::AtLeast(0.5), [(0.5, 0.5), (0.6, 0.0)], [(0.49, 0.5), (f64::NAN, 0.0)]),
            (Rule::AtMost(0.1), [(0.1, 0.5), (0.0, 0.0)], [(0.11, 0.5), (f64::NAN, 0.0)]),
        ] {
            for (median, width) in good {
                assert!(rule.agrees(1000.0, spread(median, width)), "{rule:?}: {median}");
            }
            for (median, width) in bad {
                assert!(!rule.agrees(1000.0, spread(median, width)), "{rule:?}: {median}");
            }
        }
    }

    #[test]
    fn a_spread_ignores_values_that_are_not_finite() {
        let values = || (0..=100).map(f64::from).chain([f64::NAN, f64::INFINITY]);
        assert_eq!(Spread::of(values()), Some(Spread { low: 5.0, median: 50.0, high: 95.0 }));
        assert_eq!(Spread::range(values()), Some(Spread { low: 0.0, median: 50.0, high: 100.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
