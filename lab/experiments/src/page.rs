//! The page of a reproduction: items, pictures and tables, in the terminal, in Markdown and as a report.

use serde::Serialize;

use giusto::view::{
    format::{decimals, grouped, or_unknown},
    html::{Block, Card, Chart, Prose, Report, Section, Series, Table, Tone},
    table::{Grid, Head},
};

use crate::item::{Item, Reproduction};

/// The result of a reproduction.
pub trait Findings {
    /// The one object of `--json`.
    fn printed(&self) -> impl Serialize;

    /// What it shows: in the terminal, as the page that the repository keeps, and as a report.
    fn page(&self) -> Page;
}

/// What a reproduction shows.
#[derive(Debug, Default)]
pub struct Page {
    /// The finding in a sentence.
    pub headline: String,
    /// The items that are listed where the text says `{items}`.
    pub items: Reproduction,
    /// The variants of one statement, which follow each other, share a line and end with `(VARIANT)`; empty without variants.
    pub variants: Vec<String>,
    /// Key figures of the report.
    pub cards: Vec<Card>,
    /// Charts of the report, and tables that belong to them.
    pub pictures: Vec<Section>,
    /// Further tables.
    pub tables: Vec<PageTable>,
    /// Lines below the tables in the terminal.
    pub notes: String,
    /// The text in Markdown: a title, the headline where it says `{headline}`, and sections.
    pub text: &'static str,
}

/// A table of a page.
#[derive(Debug)]
pub struct PageTable {
    /// Where it stands in the text: `{KEY}`; elsewhere at the end of the report. Without a key the terminal leaves it out.
    pub key: &'static str,
    /// The heading.
    pub title: String,
    /// What the rows are.
    pub caption: String,
    /// The cells.
    pub grid: Grid,
}

impl PageTable {
    /// A table whose first `words` columns are words, the others numbers.
    pub(crate) fn new(
        key: &'static str,
        [title, caption]: [&str; 2],
        headers: &[impl AsRef<str>],
        words: usize,
        rows: &[Vec<String>],
    ) -> Self {
        let head = |(place, name): (usize, &_)| {
            let name: &str = AsRef::as_ref(name);
            let order = u8::try_from((place + 1).saturating_sub(words)).unwrap_or(u8::MAX);
            if place < words { Head::words(name, 0) } else { Head::number(name, order) }
        };
        let grid = Grid::of_rows(headers.iter().enumerate().map(head), rows);
        Self { key, title: title.to_owned(), caption: caption.to_owned(), grid }
    }

    fn section(&self) -> Section {
        Table::of_grid(&self.title, self.caption.clone(), self.grid.clone()).into()
    }
}

impl Page {
    /// The tables, the items, the finding and the notes, at most `width` characters wide if possible.
    pub fn table(&self, width: u16) -> String {
        let shown = self.tables.iter().filter(|table| !table.key.is_empty());
        let tables = shown.map(|table| [&table.title, "\n", &table.grid.text(width), "\n"].concat());
        let tables: String = tables.collect();
        let items = if self.lists_items() { self.items_grid().text(width) + "\n" } else { String::new() };
        format!("{tables}{items}{}\n{}", self.headline, self.notes)
    }

    /// The page that the repository keeps.
    pub fn markdown(&self) -> String {
        let mut text =
            self.text.replace("{headline}", &self.headline).replace("{items}", &self.markdown_items());
        for key in placeholders(self.text).filter(|key| !["headline", "items"].contains(key)) {
            let tables: Vec<&PageTable> = self.tables.iter().filter(|table| table.key == key).collect();
            let in_markdown = |table: &&PageTable| {
                let title = if tables.len() > 1 { format!("{}:\n\n", table.title) } else { String::new() };
                title + &markdown_table(&table.grid.headers().collect::<Vec<_>>(), table.grid.rows())
            };
            let tables = if tables.is_empty() {
                "Not run.".to_owned()
            } else {
                tables.iter().map(in_markdown).collect::<Vec<_>>().join("\n\n")
            };
            text = text.replace(&format!("{{{key}}}"), &tables);
        }
        text
    }

    /// The report: the headline, the key figures and the pictures, then the text with its tables. `command` makes it again.
    pub fn report(&self, command: &str) -> Report {
        let Self { items, .. } = self;
        let mut report =
            Report::new(format!("giusto reproduce {}", items.name), &*self.headline).with_command(command);
        let share = format!("{} of {}", items.agreeing(), items.judged());
        let tone = if items.agreeing() == items.judged() { Tone::Good } else { Tone::Fair };
        let agree = Card::new("Agree", share, "of the published figures that were judged").with_tone(tone);
        let agree = (self.lists_items() && items.judged() > 0).then_some(agree);
        report.push(agree.into_iter().chain(self.cards.iter().cloned()).collect::<Vec<_>>());
        report.sections.extend(self.pictures.iter().cloned());
        for section in self.text.split("\n## ").skip(1) {
            report.sections.extend(prose(section).map(Section::from));
            for key in placeholders(section) {
                if key == "items" {
                    report.push(items.to_table());
                }
                report
                    .sections
                    .extend(self.tables.iter().filter(|table| table.key == key).map(PageTable::section));
            }
        }
        let is_placed = |table: &&PageTable| placeholders(self.text).any(|key| key == table.key);
        report.sections.extend(self.tables.iter().filter(|table| !is_placed(table)).map(PageTable::section));
        report
    }

    fn lists_items(&self) -> bool {
        placeholders(self.text).any(|key| key == "items")
    }

    /// The items of each statement, one for each variant.
    fn statements(&self) -> impl Iterator<Item = (String, &Item, &[Item])> {
        self.items.items.chunks(self.variants.len().max(1)).filter_map(|items| {
            let first = items.first()?;
            let suffix = self.variants.first().map_or_else(String::new, |variant| format!(" ({variant})"));
            Some((first.what.trim_end_matches(&suffix).to_owned(), first, items))
        })
    }

    fn items_grid(&self) -> Grid {
        let mut heads = vec![Head::words("statement", 0), Head::number("published", 0)];
        for (place, variant) in (0..).zip(&self.variants) {
            heads.extend([Head::number(variant.replacen(' ', "\n", 1), place), Head::words("", place)]);
        }
        if self.variants.is_empty() {
            heads
                .extend([("ours", 0), ("from", 1), ("to", 1)].map(|(name, place)| Head::number(name, place)));
            heads.push(Head::words("", 0));
        }
        let row = |(what, first, items): (String, &Item, &[Item])| {
            let mut row = vec![what, in_unit(first.published, &first.unit)];
            for item in items {
                row.push(bare(item, item.ours));
                if self.variants.is_empty() {
                    row.extend([item.ours_low, item.ours_high].map(|value| bare(item, value)));
                }
                row.push(item.verdict().to_owned());
            }
            row
        };
        Grid::of_rows(heads, &self.statements().map(row).collect::<Vec<_>>())
    }

    fn markdown_items(&self) -> String {
        let mut reasons: Vec<&str> = Vec::new();
        let has_range = self.variants.is_empty();
        let ours =
            if has_range { vec!["ours".to_owned(), "range".to_owned()] } else { self.variants.clone() };
        let mut rows = Vec::new();
        for (what, first, items) in self.statements() {
            let mut row = vec![what, in_unit(first.published, &first.unit)];
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
        let header = [vec!["item".to_owned(), "published".to_owned()], ours].concat();
        format!(
            "{}\n\nOurs agrees unless marked; numbers in parentheses give the reason:\n{}",
            markdown_table(&header, rows),
            reasons.collect::<String>()
        )
    }
}

impl Reproduction {
    /// The items as a table of a report.
    fn to_table(&self) -> Table {
        let headers = ["item", "published", "ours", "range", "verdict", "why"];
        let row = |item: &Item| {
            let range = item.ours_low.zip(item.ours_high).filter(|(low, high)| low < high);
            vec![
                item.what.clone(),
                in_unit(item.published, &item.unit),
                or_unknown(item.ours, |value| in_unit(value, &item.unit)),
                range.map_or_else(String::new, |(low, high)| {
                    format!("{} to {}", bare(item, Some(low)), bare(item, Some(high)))
                }),
                item.verdict().to_owned(),
                item.why.clone().unwrap_or_default(),
            ]
        };
        let heads = headers.map(|name| match name {
            "published" | "ours" | "range" => Head::number(name, 0),
            _ => Head::words(name, 0),
        });
        let rows: Vec<Vec<String>> = self.items.iter().map(row).collect();
        let mut table =
            Table::of_grid("All published figures", "By the rule of this page.", Grid::of_rows(heads, &rows));
        for (row, item) in table.rows.iter_mut().zip(&self.items) {
            let tone = match item.agrees {
                Some(true) => Tone::Good,
                Some(false) => Tone::Fair,
                None => Tone::Plain,
            };
            row.iter_mut().skip(4).take(1).for_each(|cell| cell.tone = tone);
        }
        table
    }
}

/// The keys of the lines `{KEY}` of a text.
fn placeholders(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter_map(|line| line.strip_prefix('{')?.strip_suffix('}'))
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

/// The text of a section in Markdown, without placeholders. Each list item is a paragraph.
fn prose(section: &str) -> Option<Prose> {
    let (title, body) = section.split_once('\n').unwrap_or((section, ""));
    let mut paragraphs: Vec<String> = Vec::new();
    for line in body.lines().filter(|line| !line.starts_with('{')) {
        let starts =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let line = line.trim_start_matches("- ").replace(['`', '*'], "");
        match paragraphs.last_mut() {
            Some(last) if !starts && !line.is_empty() => last.extend([" ", line.trim()]),
            _ => paragraphs.push(line),
        }
    }
    let paragraphs = paragraphs.iter().map(|paragraph| paragraph.trim()).filter(|text| !text.is_empty());
    let blocks: Vec<Block> = paragraphs.map(|text| Block::Paragraph(text.to_owned())).collect();
    (!blocks.is_empty()).then(|| Prose::new(title, blocks))
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

    fn item(id: &str, agrees: bool, why: Option<&str>) -> Item {
        Item {
            id: id.to_owned(),
            what: "size (x)".to_owned(),
            unit: "B".to_owned(),
            published: 200.0,
            ours: Some(300.0),
            agrees: Some(agrees),
            comparable: true,
            why: why.map(str::to_owned),
            ..Item::default()
        }
    }

    fn page() -> Page {
        let items = vec![
            item("a", false, Some("late")),
            item("b", false, Some("late")),
            item("c", false, Some("early")),
            item("d", true, None),
        ];
        Page {
            headline: "Half.".to_owned(),
            items: Reproduction { items, ..Reproduction::default() },
            variants: vec!["x".to_owned(), "y".to_owned()],
            tables: vec![PageTable::new("more", ["More", "Of it."], &["a", "b"], 1, &[vec!["c".to_owned()]])],
            text: "# Title\n\n{headline}\n\n## Rule\n\n1. First\n   line.\n2. `Second`.\n\n{more}\n\n## Items\n\n{items}",
            ..Page::default()
        }
    }

    #[test]
    fn equal_reasons_share_one_number() {
        insta::assert_snapshot!(page().markdown(), @r"
        # Title

        Half.

        ## Rule

        1. First
           line.
        2. `Second`.

        |a|b|
        |---|---|
        |c||

        ## Items

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
    fn a_table_follows_the_text_that_announces_it() {
        let [Section::Cards(_), Section::Prose(rule), Section::Table(more), Section::Table(items)] =
            &page().report("x").sections[..]
        else {
            panic!("{:?}", page().report("x").sections);
        };
        let paragraphs = ["1. First line.", "2. Second."].map(|text| Block::Paragraph(text.to_owned()));
        assert_eq!(*rule, Prose::new("Rule", paragraphs.to_vec()));
        assert_eq!((more.title.as_str(), items.rows.len()), ("More", 4));
    }
}
