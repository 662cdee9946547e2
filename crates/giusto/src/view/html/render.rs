//! From the model to HTML. The template escapes all text by itself; what is marked safe in it is made here.

use askama::Template;
use plotly::Plot;

use super::{
    Block, Card, Cell, Chart, Drawing, Linked, Prose, Report, Section, Table, Tone, chart::keyed_colour,
};

/// Cells with more characters than this are given room to be read as sentences.
const LONG_CELL_CHARS: usize = 48;

/// Cells with at most as many characters as this are never broken.
const SHORT_CELL_CHARS: usize = 28;

/// A section as it is laid out: neighbouring plots form one group.
enum Part<'a> {
    Cards(&'a [Card]),
    Table(usize, TableView<'a>),
    Charts(Vec<ChartView<'a>>),
    Linked(LinkedView<'a>),
    Drawing(usize, &'a Drawing),
    Prose(&'a Prose),
}

/// A table, and how each cell of it is set.
struct TableView<'a> {
    table: &'a Table,
    /// A table of words is a list: on a narrow screen its cells stand below each other.
    is_list: bool,
    /// Class and cell.
    rows: Vec<Vec<(&'static str, &'a Cell)>>,
}

/// A plot, and the script that draws it.
struct ChartView<'a> {
    id: String,
    chart: &'a Chart,
    plot: String,
}

/// Linked plots, and what the cursor tells.
struct LinkedView<'a> {
    id: usize,
    linked: &'a Linked,
    charts: Vec<ChartView<'a>>,
    /// Name and colour of each line.
    lines: Vec<(&'a str, &'static str)>,
    /// What the script reads.
    data: String,
}

#[derive(Template)]
#[template(path = "page.html.j2", config = "src/view/html/askama.toml")]
struct Page<'a> {
    report: &'a Report,
    parts: Vec<Part<'a>>,
    style: &'static str,
    plot_library: String,
    link_script: &'static str,
    version: &'static str,
}

/// The page as one HTML text.
pub(super) fn page(report: &Report) -> String {
    let parts = parts(&report.sections);
    let has_links = parts.iter().any(|part| matches!(part, Part::Linked(_)));
    let has_plots = has_links || parts.iter().any(|part| matches!(part, Part::Charts(_)));
    let page = Page {
        report,
        parts,
        style: include_str!("style.css"),
        plot_library: if has_plots { plot_library() } else { String::new() },
        link_script: if has_links { include_str!("linked.js") } else { "" },
        version: env!("CARGO_PKG_VERSION"),
    };
    // A String takes whatever is written to it: rendering into one has no way to fail.
    page.render().unwrap_or_default()
}

fn parts(sections: &[Section]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for (id, section) in sections.iter().enumerate() {
        match section {
            Section::Cards(cards) => parts.push(Part::Cards(cards)),
            Section::Table(table) => parts.push(Part::Table(id, table_view(table))),
            Section::Drawing(drawing) => parts.push(Part::Drawing(id, drawing)),
            Section::Prose(prose) => parts.push(Part::Prose(prose)),
            Section::Linked(linked) => {
                let charts = linked.charts.iter().enumerate();
                let charts = charts.map(|(place, chart)| chart_view(chart, format!("{id}-{place}")));
                let (charts, data) = (charts.collect(), linked.data());
                let lines = linked.lines.iter().enumerate();
                let lines = lines.map(|(number, name)| (name.as_str(), keyed_colour(number))).collect();
                parts.push(Part::Linked(LinkedView { id, linked, charts, lines, data }));
            }
            Section::Chart(chart) => {
                let view = chart_view(chart, id.to_string());
                match parts.last_mut() {
                    Some(Part::Charts(group)) => group.push(view),
                    _ => parts.push(Part::Charts(vec![view])),
                }
            }
        }
    }
    parts
}

fn chart_view(chart: &Chart, id: String) -> ChartView<'_> {
    // The library writes its figures as JSON without `<`, `>` or `&`, fit to stand inside a script.
    let plot = chart.to_plot().to_inline_html(Some(&format!("plot{id}")));
    ChartView { id, chart, plot }
}

fn table_view(table: &Table) -> TableView<'_> {
    let class = |position: usize, cell: &Cell| {
        if table.columns.get(position).is_some_and(|column| column.numeric) {
            return "n";
        }
        match cell.text.chars().count() {
            0..=SHORT_CELL_CHARS => "short",
            letters if letters <= LONG_CELL_CHARS => "w",
            _ => "long",
        }
    };
    TableView {
        table,
        is_list: table.columns.iter().all(|column| !column.numeric),
        rows: table
            .rows
            .iter()
            .map(|row| row.iter().enumerate().map(|(at, cell)| (class(at, cell), cell)).collect())
            .collect(),
    }
}

/// The library that draws the plots, as one script element. The formula renderer that travels with it is left behind: no
/// plot here writes formulas, and it is two megabytes.
fn plot_library() -> String {
    const END: &str = "</script>";
    let mut scripts = Plot::offline_js_sources();
    if let Some(end) = scripts.find(END) {
        scripts.truncate(end + END.len());
    }
    scripts
}

/// Text between backticks is something to type, the rest is words: each part with whether it is the former.
pub(super) fn parts_of_text(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part))
}
