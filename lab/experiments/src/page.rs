//! The parts that the pages of all reproductions share: text, tables of items and charts.

use giusto::view::{
    format::{decimals, grouped, or_unknown},
    html::{Block, Card, Cell, Chart, Column, Prose, Report, Section, Series, Table, Tone},
};

use crate::item::{Item, Reproduction};

/// Where the table of items goes in the Markdown text of a page.
const ITEMS: &str = "{items}";
/// Where the headline goes.
const HEADLINE: &str = "{headline}";

impl Reproduction {
    /// The page that the repository keeps: `text` with the headline and the items filled in. `variants` names the items of
    /// one statement, which follow each other, share a line and end with `(VARIANT)`; with one variant the range is shown.
    pub(crate) fn markdown(&self, text: &str, headline: &str, variants: &[&str]) -> String {
        text.replace(HEADLINE, headline).replace(ITEMS, &self.markdown_items(variants))
    }

    fn markdown_items(&self, variants: &[&str]) -> String {
        let mut reasons: Vec<&str> = Vec::new();
        let has_range = variants.len() == 1;
        let ours = if has_range { &["ours", "range"] } else { variants };
        let mut rows = Vec::new();
        for items in self.items.chunks(variants.len().max(1)) {
            let Some(first) = items.first() else { continue };
            let suffix = format!(" ({})", variants.first().unwrap_or(&""));
            let mut row =
                vec![first.what.trim_end_matches(&suffix).to_owned(), in_unit(first.published, &first.unit)];
            for item in items {
                let verdict = item.why.as_deref().map(|reason| {
                    let number = reasons.iter().position(|known| *known == reason).unwrap_or(reasons.len());
                    if number == reasons.len() {
                        reasons.push(reason);
                    }
                    format!(" {} ({})", item.verdict(), number + 1)
                });
                row.push(bare(item, item.ours) + &verdict.unwrap_or_default());
                let range = item.ours_low.zip(item.ours_high).filter(|(low, high)| low < high);
                let range =
                    range.map(|(low, high)| format!("{}–{}", bare(item, Some(low)), bare(item, Some(high))));
                row.extend(has_range.then(|| range.unwrap_or_default()));
            }
            rows.push(row);
        }
        let reasons = reasons.iter().zip(1..).map(|(reason, number)| format!("\n{number}. {reason}"));
        format!(
            "{}\n\nOurs agrees unless marked; numbers in parentheses give the reason:\n{}",
            markdown_table(&[&["item", "published"], ours].concat(), rows),
            reasons.collect::<String>()
        )
    }

    /// The items as a table of a report.
    pub(crate) fn to_table(&self, caption: impl Into<String>) -> Table {
        let row = |item: &Item| {
            let tone = match item.agrees {
                Some(true) => Tone::Good,
                Some(false) => Tone::Fair,
                None => Tone::Plain,
            };
            [
                item.what.clone().into(),
                in_unit(item.published, &item.unit).into(),
                or_unknown(item.ours, |value| in_unit(value, &item.unit)).into(),
                Cell::toned(item.verdict(), tone),
                item.why.clone().unwrap_or_default().into(),
            ]
        };
        let headers = ["item", "#published", "#ours", "verdict", "why"];
        table(["All published figures", &caption.into()], &headers, self.items.iter().map(row))
    }

    /// A page that begins with the headline, the key figures and the charts, and ends with the items and `text`.
    pub(crate) fn report(
        &self,
        headline: String,
        cards: Vec<Card>,
        sections: Vec<Section>,
        text: &str,
    ) -> Report {
        let mut report = Report::new(format!("giusto reproduce {}", self.name), headline);
        let tone = if self.agreeing() == self.judged() { Tone::Good } else { Tone::Fair };
        let share = format!("{} of {}", self.agreeing(), self.judged());
        let agree = Card::new("Agree", share, "of the published figures that were judged").with_tone(tone);
        report.push([vec![agree], cards].concat());
        report.sections.extend(sections);
        report.sections.extend(prose(text).into_iter().map(Section::from));
        report
    }
}

/// A value with its unit and suitable digits.
pub(crate) fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "ratio" => decimals(value, 3),
        "packets" => format!("{value:.2} {unit}"),
        _ => format!("{} {unit}", grouped(value)),
    }
}

/// A value of an item without the unit, for a column beside one that has it.
pub(crate) fn bare(item: &Item, value: Option<f64>) -> String {
    let text = or_unknown(value, |value| in_unit(value, &item.unit));
    text.strip_suffix(item.unit.as_str()).unwrap_or(&text).trim_end().to_owned()
}

/// A Markdown table, without a line feed at its end.
pub(crate) fn markdown_table(
    header: &[impl AsRef<str>],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let header: Vec<String> = header.iter().map(|name| name.as_ref().to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    let lines = [header, rule].into_iter().chain(rows).map(|row| format!("|{}|", row.join("|")));
    lines.collect::<Vec<_>>().join("\n")
}

/// A table of a report. A header that begins with `#` is one of numbers.
pub(crate) fn table<C: Into<Cell>>(
    [title, caption]: [&str; 2],
    headers: &[&str],
    rows: impl IntoIterator<Item = impl IntoIterator<Item = C>>,
) -> Table {
    let column = |header: &&str| match header.strip_prefix('#') {
        Some(name) => Column::number(name),
        None => Column::words(*header),
    };
    Table {
        title: title.to_owned(),
        caption: caption.to_owned(),
        columns: headers.iter().map(column).collect(),
        rows: rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect(),
        folded: false,
    }
}

/// The sections of a Markdown text, without placeholders. Each list item is a paragraph.
pub(crate) fn prose(text: &str) -> Vec<Prose> {
    let to_prose = |section: &str| {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let mut paragraphs: Vec<String> = Vec::new();
        for line in body.lines() {
            let starts =
                line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
            let line = line.trim_start_matches("- ").replace(['`', '*'], "");
            match paragraphs.last_mut() {
                Some(last) if !starts && !line.is_empty() => last.extend([" ", line.trim()]),
                _ => paragraphs.push(line),
            }
        }
        let paragraphs = paragraphs
            .iter()
            .map(|paragraph| paragraph.trim())
            .filter(|text| !text.is_empty() && !text.starts_with('{'));
        Prose::new(title, paragraphs.map(|text| Block::Paragraph(text.to_owned())).collect())
    };
    text.split("\n## ").skip(1).map(to_prose).filter(|prose| !prose.blocks.is_empty()).collect()
}

/// A chart with titles of both axes and, if given, a y axis from 0 to `top`.
pub(crate) fn chart(
    [title, caption]: [&str; 2],
    [x, y]: [&str; 2],
    top: Option<f64>,
    series: Vec<Series>,
) -> Chart {
    let mut chart = Chart::new(title, caption).with_axes(x, y);
    chart.y.range = top.map(|top| (0.0, top));
    series.into_iter().fold(chart, Chart::with_series)
}

/// A chart whose title begins with `key` and is described in `captions.txt`.
pub(crate) fn figure(key: &str, axes: [&str; 2], top: Option<f64>, series: Vec<Series>) -> Chart {
    let texts = include_str!("captions.txt").split("\n## ");
    let text = texts.filter_map(|text| text.split_once('\n')).find(|(title, _)| title.starts_with(key));
    debug_assert!(text.is_some(), "captions.txt describes no chart \"{key}\"");
    let (title, caption) = text.unwrap_or((key, ""));
    chart([title, &caption.trim().replace('\n', " ")], axes, top, series)
}

/// A line through points.
pub(crate) fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series::line(name, points.into_iter().collect::<Vec<_>>())
}

/// A value that bounds the others, such as a capacity, and holds until the next point.
pub(crate) fn limit(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series::limit(name, points.into_iter().collect::<Vec<_>>())
}

/// Bars: label, length, text at the end.
pub(crate) fn bars(name: impl Into<String>, bars: impl IntoIterator<Item = (String, f64, String)>) -> Series {
    Series::Bars { name: name.into(), bars: bars.into_iter().collect() }
}

/// Points with a range: label, value, low, high.
pub(crate) fn ranges(
    name: impl Into<String>,
    estimates: impl IntoIterator<Item = (String, f64, f64, f64)>,
) -> Series {
    Series::Estimates { name: name.into(), estimates: estimates.into_iter().collect() }
}

/// A line in steps: each value holds until the next point, the last one until `end`.
pub(crate) fn steps(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
    end: f64,
) -> Series {
    let mut stepped: Vec<(f64, f64)> = Vec::new();
    for (at, value) in points {
        stepped.extend(stepped.last().map(|&(_, before)| (at, before)));
        stepped.push((at, value));
    }
    stepped.extend(stepped.last().map(|&(_, value)| (end, value)));
    line(name, stepped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_share_one_number() {
        let item = |id: &str, agrees: bool, why: Option<&str>| Item {
            id: id.to_owned(),
            what: "size (x)".to_owned(),
            unit: "B".to_owned(),
            published: 200.0,
            ours: Some(300.0),
            agrees: Some(agrees),
            comparable: true,
            why: why.map(str::to_owned),
            ..Item::default()
        };
        let items = vec![
            item("a", false, Some("late")),
            item("b", false, Some("late")),
            item("c", false, Some("early")),
            item("d", true, None),
        ];
        let all = Reproduction { items, ..Reproduction::default() };
        insta::assert_snapshot!(all.markdown("{headline}\n\n{items}", "Half.", &["x", "y"]), @r"
        Half.

        |item|published|x|y|
        |---|---|---|---|
        |size|200 B|300 differs (1)|300 differs (1)|
        |size|200 B|300 differs (2)|300|

        Ours agrees unless marked; numbers in parentheses give the reason:

        1. late
        2. early
        ");
    }

    #[test]
    fn sections_without_placeholders_become_prose() {
        let text =
            "# Title\n\n{headline}\n\n## Rule\n\n1. First\n   line.\n2. `Second`.\n\n## Items\n\n{items}\n";
        let paragraphs = ["1. First line.", "2. Second."].map(|text| Block::Paragraph(text.to_owned()));
        assert_eq!(prose(text), [Prose::new("Rule", paragraphs.to_vec())]);
    }
}
