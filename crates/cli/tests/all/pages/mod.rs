//! Opens pages of every kind in a headless browser and checks how they look: on a desktop and a phone, light and dark.

mod invented;

use std::{env, fs, ops::ControlFlow, path::Path, process::Command};

use crate::common::chromium::Chromium;
use giusto::{
    city::{CityConfig, CitySpec, run_logged},
    scenario::{MediaSpec, QueueSpec, VideoSpec},
    view::html::{
        Block, Card, Cell, Chart, Column, Event, Mark, Points, Prose, Report, Section, Series, Table, Tone,
        accuracy, city, demo,
    },
};
use giusto_sim::link::queue::Limit;
use giusto_units::{TimeDelta, Timestamp};
use serde_json::json;

/// A page with charts must stay below this.
const MAX_BYTES: usize = 1_600_000;

const PROBE: &str = include_str!("probe.js");

/// How a page is opened.
#[derive(Debug, Clone, Copy)]
struct Look {
    width: u32,
    dark: bool,
}

impl Look {
    const DESKTOP: Self = Self { width: 1400, dark: false };
    const PHONE: Self = Self { width: 400, dark: true };
}

/// A browser whose pages are inspected.
struct Inspector(Chromium);

impl Inspector {
    fn start(test: &str) -> Option<Self> {
        let mut browser = Chromium::start(test)?;
        browser.precede(PROBE);
        Some(Self(browser))
    }

    /// What the probe finds on the page.
    fn open(&mut self, html: &str, look: Look) -> serde_json::Value {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        fs::write(&page, html).unwrap();
        self.0.resize(look.width, 900);
        self.0.prefer_dark(look.dark);
        self.0.open(&format!("file://{}", page.display()));
        self.0.wait("window.found")
    }
}

/// Checks `html` in every look, and returns what the last one showed. `None` without a browser.
fn check(name: &str, html: &str, charts: usize) -> Option<serde_json::Value> {
    assert!(html.len() < MAX_BYTES, "{name}: {} B", html.len());
    let mut browser = Inspector::start(name)?;
    if let Some(kept) = env::var_os("GIUSTO_KEEP_PAGES") {
        fs::write(Path::new(&kept).join(format!("{name}.html")), html).unwrap();
    }
    let mut last = None;
    for look in [Look::DESKTOP, Look::PHONE] {
        let found = browser.open(html, look);
        assert_eq!(found["width"], look.width, "{name}");
        assert_eq!(found["dark"], look.dark, "{name}");
        assert_eq!(found["problems"], json!([]), "{name} at {look:?}");
        assert_eq!(found["charts"].as_array().map(Vec::len), Some(charts), "{name}");
        last = Some(found);
    }
    last
}

/// The report that a run of `giusto` writes.
fn written(arguments: &[&str], report: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let out = folder.path().join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    let output = command.current_dir(scenarios).args(arguments).arg("--out").arg(&out).output().unwrap();
    assert!(
        output.status.code().is_some_and(|code| code <= 1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::read_to_string(out.join(report)).unwrap()
}

fn wave(phase: f64, points: u32) -> Vec<(f64, f64)> {
    (0..points).map(|i| (f64::from(i) / 10.0, 2.0 + (f64::from(i) / 20.0 + phase).sin())).collect()
}

/// A wide table, a list of words, and a list with numbers.
fn tables(hostile: &str, long: &str) -> [Table; 3] {
    let mut columns = vec![Column::words("case")];
    columns.extend((0..14).map(|number| Column::number(format!("controller {number}"))));
    columns.push(Column::number("one-way delay (ms) p50 / p95 / p99 / max"));
    columns.push(Column::number("nowhere known"));
    let row = |case: &str| {
        let cells = (0..14).map(|number| Cell::toned(format!("{number} of 14"), Tone::Fair));
        let last = ["1 / 2 / 3 / 4", "–"].map(Cell::from);
        std::iter::once(Cell::from(case)).chain(cells).chain(last).collect()
    };
    let rows = vec![row("5.1"), row(long), row(hostile)];
    let wide = Table { title: "Wide".to_owned(), caption: long.to_owned(), columns, rows, folded: true };
    let words = ["what", "value"].map(Column::words).to_vec();
    let rows = vec![vec![long.into(), Cell::toned(long, Tone::Good)]];
    let list = Table { title: "List".to_owned(), columns: words, rows, ..Table::default() };

    let columns = vec![
        Column::words("expectation"),
        Column::number("expected"),
        Column::number("found"),
        Column::words("result"),
    ];
    let cells =
        ["flow camera: queueing-delay-p95", "1.234 Mbit/s to 2.345 Mbit/s", "1.500 Mbit/s"].map(Cell::from);
    let rows = vec![cells.into_iter().chain([Cell::toned("met", Tone::Good)]).collect()];
    let expectations = Table { title: "Expectations".to_owned(), columns, rows, ..Table::default() };
    [wide, list, expectations]
}

/// Sixteen names at points of which many are close together, two in one place, and some at the edges.
fn named_points() -> Chart {
    let places = [
        (230.0, 0.91),
        (151.0, 0.6),
        (122.0, 0.41),
        (122.0, 0.41),
        (122.5, 0.35),
        (353.0, 0.82),
        (347.0, 0.69),
        (363.0, 0.69),
        (437.0, 0.9),
        (101.0, 0.1),
        (98.8, 0.07),
        (320.0, 0.93),
        (489.0, 0.98),
        (637.0, 0.23),
        (637.0, 0.23),
        (1812.0, 0.66),
    ];
    let event = |(place, (x, y)): (usize, (f64, f64))| Event {
        x,
        y,
        text: "here".to_owned(),
        label: format!("scream:rfc8298+{place}"),
    };
    let events = places.into_iter().enumerate().map(event).collect();
    Chart::new("Named points", "")
        .with_axes("delay (ms)", "use")
        .with_log_x()
        .with_full_width()
        .with_series(Series::Events { name: String::new(), events })
        .with_mark(Mark::AtY(1.0, "fair share".to_owned()))
}

/// Every kind of section, chart and text, with more series than there are colours.
fn gallery() -> Report {
    let hostile = "</script><script>alert(1)</script> & `code`";
    let long = "A sentence that is long enough to need several lines on a phone, and says nothing else";
    let record = json!({
        "timeline": {"t_s": [0.0, 1.0, 2.0, 3.0]},
        "flows": [{"timeline": {"received_rate_bps": [1e6, null, 2e6, 3e6]}}],
    });
    let mut report =
        Report::new(hostile, long).with_command("giusto demo --label \"<b>\"").with_record(record);
    report.push(vec![
        Card::new("Good", "1.000 Mbit/s", long).with_tone(Tone::Good),
        Card::new("Fair", "12.3 ms", "").with_tone(Tone::Fair),
        Card::new("Bad", hostile, "").with_tone(Tone::Bad),
        Card::new("Plain", "7", "of 7"),
        Card::new("Long", "1,234,567.890 Mbit/s", long),
    ]);
    report.push(Prose::new(
        hostile,
        vec![
            Block::Paragraph(format!("{hostile} {}", "unbroken".repeat(30))),
            Block::Definitions(vec![("Term".to_owned(), long.to_owned())]),
            Block::Code("giusto sim ".repeat(20)),
        ],
    ));
    report.sections.extend(tables(hostile, long).map(Section::from));

    let many =
        (0..30).map(|number| Series::line(format!("controller {number}"), wave(f64::from(number) / 5.0, 40)));
    let dense =
        (0..30).map(|number| Series::line(format!("{long} {number}"), wave(f64::from(number) / 5.0, 3000)));
    let axes = |chart: Chart| chart.with_axes("time (s)", "rate (Mbit/s)");
    report.push(many.fold(axes(Chart::new("Thirty lines", long)), Chart::with_series));
    report.push(dense.fold(axes(Chart::new("Thirty long lines", "")), Chart::with_series).with_full_width());
    let steps = Series::Steps {
        name: String::new(),
        classes: vec![(10.0, 11.0, 5), (11.0, 12.0, 0), (14.0, 15.0, 900)],
    };
    let mut histogram =
        Chart::new("Histogram", "").with_axes("gap (µs)", "packets").with_log_y().with_series(steps);
    histogram.y.range = Some((0.5, 2000.0));
    report.push(histogram.with_mark(Mark::AtX(12.5, "ideal".to_owned())));
    report.push(named_points());
    let referenced = Points::in_record("/timeline/t_s", "/flows/0/timeline/received_rate_bps").scaled(1e-6);
    let events = ["over-use", "loss", "probe"].map(|kind| Series::Events {
        name: kind.to_owned(),
        events: vec![Event { x: 1.5, y: 2.0, text: format!("{kind}: {long}"), label: String::new() }],
    });
    let capacity = Series::limit("capacity of the bottleneck", vec![(0.0, 3.5), (2.0, 2.5), (3.0, 2.5)]);
    let record = axes(Chart::new("From the record", "")).with_series(Series::line("received", referenced));
    report.push(events.into_iter().fold(record, Chart::with_series).with_series(capacity));
    let stacked = |name: &str| Series::stacked(name, vec![(0.0, 1.0), (1.0, 3.0), (2.0, 0.0)]);
    report.push(
        axes(Chart::new("Stacked", "")).with_series(stacked("queue full")).with_series(stacked("lost")),
    );
    let logarithmic = Series::line("percentile", vec![(2.0, 0.01), (100.0, 3.0), (1e5, 4e4)]);
    let mut percentiles =
        axes(Chart::new("Percentiles", "")).with_log_x().with_log_y().with_series(logarithmic);
    percentiles.x.ticks =
        vec![(2.0, "50 %".to_owned()), (100.0, "99 %".to_owned()), (1e5, "99.999 %".to_owned())];
    report.push(percentiles);
    for (name, low, high) in
        [("Half a decade", 122.0, 347.0), ("A decade", 8.0, 90.0), ("An eighth", 95.0, 127.0)]
    {
        let delays = Series::line("delay", vec![(low, 0.1), (high, 0.6)]);
        report.push(axes(Chart::new(name, "")).with_log_x().with_series(delays));
    }
    let labels = ["10 kbit/s\n200 B", "an uncommonly long label of one bar", "100 Mbit/s\n1400 B"];
    let bars = |name: &str, scale: f64| Series::Bars {
        name: name.to_owned(),
        bars: labels
            .iter()
            .map(|label| ((*label).to_owned(), scale, format!("{scale:.0e} of 9e9")))
            .collect(),
    };
    let linear = Chart::new("Bars", "")
        .with_axes("", "CPU (%)")
        .with_series(bars("grid", 70.0))
        .with_series(bars("at0", 3.0));
    report.push(linear.with_mark(Mark::AtY(90.0, "limit".to_owned())));
    let logarithmic = Chart::new("Logarithmic bars", "").with_axes("", "error (ppm)").with_log_y();
    report.push((0..12).fold(logarithmic, |chart, number| {
        chart.with_series(bars(&format!("sender {number}"), 10_f64.powi(number - 2)))
    }));
    let estimates = |name: &str, shift: f64| Series::Estimates {
        name: name.to_owned(),
        estimates: labels
            .iter()
            .map(|label| ((*label).to_owned(), shift, shift - 4.0, shift + 9.0))
            .collect(),
    };
    let intervals =
        Chart::new("Estimates", "").with_axes("", "loss (%)").with_series(estimates("published", 20.0));
    report.push(intervals.with_series(estimates("ours", 25.0)).with_mark(Mark::AtY(0.0, "zero".to_owned())));
    report
}

#[test]
fn a_page_of_every_kind_of_section_is_readable() {
    let html = gallery().to_html();
    let Some(found) = check("gallery", &html, 13) else { return };
    let mut browser = Inspector::start("gallery").unwrap();
    // All pages share one style sheet, in which colours do not depend on the width: the other looks are checked here alone. Where four cards
    // fit into a row, the fifth is not alone in the next.
    for look in [
        Look { width: 1100, dark: false },
        Look { dark: true, ..Look::DESKTOP },
        Look { dark: false, ..Look::PHONE },
    ] {
        assert_eq!(browser.open(&html, look)["problems"], json!([]), "{look:?}");
    }
    let text = found["text"].as_str().unwrap();
    for wanted in [
        "</script><script>alert(1)</script> & code",
        "13 of 14",
        "capacity of the bottleneck",
        "Run it again",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert_eq!(found["tables"], 3);
    assert!(text.contains("one-way delay") && !text.contains("nowhere known"));
    let chart = |title: &str| {
        let charts = found["charts"].as_array().unwrap().iter();
        charts.clone().find(|chart| chart["title"] == title).unwrap()
    };
    let values = |title: &str| -> Vec<Option<f64>> {
        let values = chart(title)["lines"][0]["y"].as_array().unwrap();
        values.iter().map(serde_json::Value::as_f64).collect()
    };
    // Taken from the record, scaled, and broken at the null.
    assert_eq!(values("From the record"), [Some(1.0), None, Some(2.0), Some(3.0)]);
    // Steps close at both ends and over the gap between classes.
    assert_eq!(values("Histogram"), [0.1, 5.0, 0.1, 0.1, 900.0, 0.1].map(Some));
    assert_eq!(chart("Thirty lines")["lines"].as_array().unwrap().len(), 30);
}

#[test]
fn measured_pages_are_readable() {
    check("demo", &demo(&invented::demo()).to_html(), 7);
    check("accuracy", &accuracy(&invented::runs(), "giusto cbr").to_html(), 3);
}

#[test]
fn the_page_of_a_simulation_is_readable() {
    let html = written(&["sim", "media/media-vs-cubic.toml"], "report.html");
    check("simulation", &html, html.matches("\"kind\":\"chart\"").count());
}

#[test]
fn the_page_of_a_comparison_is_readable() {
    let html = written(&["compare", "media/compare.toml", "--controller", "all"], "report.html");
    let Some(found) = check("comparison", &html, html.matches("\"full_width\":").count()) else {
        return;
    };
    let text = found["text"].as_str().unwrap();
    for wanted in ["At ", " → ", "target (Mbit/s)", "queueing delay (ms)", "loss (%)"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn the_page_of_a_reproduction_is_readable() {
    let html = written(&["reproduce", "rfc8867", "--quick", "--controller", "fixed"], "report.html");
    check("rfc8867", &html, html.matches("\"kind\":\"chart\"").count());
}

#[test]
fn the_page_of_a_benchmark_is_readable() {
    let arguments = [
        "benchmark",
        "--scenarios",
        "4",
        "--controller",
        "gcc:libwebrtc,gcc:remb,nada,scream:rfc8298+giusto,scream:v2",
    ];
    let html = written(&arguments, "report.html");
    check("benchmark", &html, html.matches("\"kind\":\"chart\"").count());
}

#[test]
fn the_page_of_a_city_is_readable() {
    let second = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let mut config = CityConfig {
        users_per_cell: 0.4,
        call: TimeDelta::from_seconds(8),
        files: None,
        evaluation: (second(3), second(9)),
        ..CityConfig::default()
    };
    config.deployment.speed_mps = 30.0 / 3.6;
    let media = MediaSpec::new(Some(VideoSpec::default()), None);
    let spec = CitySpec { config, media, queue: QueueSpec::DropTail(Limit::Packets(1000)) };
    let (record, log) = run_logged(&spec, &giusto::city::Alone, |_| ControlFlow::Continue(())).unwrap();
    let html = city(&record, &log, "giusto sim: city", "giusto sim city.toml --out out").to_html();
    let Some(found) = check("city", &html, 4) else { return };
    let text = found["text"].as_str().unwrap();
    for wanted in ["Cells, SINR and paths", "path of a call", "frame delay", "Outside coverage"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

/// The checks must be able to fail.
#[test]
fn the_checks_find_faults() {
    let Some(mut browser) = Inspector::start("the_checks_find_faults") else { return };
    let mut report = Report::new("t", "h");
    report.push(Chart::new("c", "").with_series(Series::line("l", Points::in_record("/none", "/none"))));
    report.push(vec![Card::new("a", "1", ""); 4]);
    let words = "a sentence that does not fit into one line on a phone".to_owned();
    let rows = vec![vec![Cell::from("a"), Cell::from(words)]];
    report.push(Table { columns: ["a", "b"].map(Column::words).to_vec(), rows, ..Table::default() });
    report.push(named_points());
    let head = ["a", "one-way delay (ms) p50 / p95 / p99 / max", "c", "d", "e", "f"];
    let columns = head.map(Column::number).to_vec();
    let cells =
        ["12", "1.0", "12,345,678", "12,345,678", "12,345,678", "12,345,678"].map(Cell::from).to_vec();
    report.push(Table { title: "Numbers".to_owned(), columns, rows: vec![cells], ..Table::default() });
    let html = report.to_html();
    let mut problems =
        |html: &str| browser.open(html, Look { dark: false, ..Look::PHONE })["problems"].to_string();
    let missing = problems(&html);
    assert!(missing.contains("no array at /none") && missing.contains("chart not drawn"), "{missing}");
    let faults = [
        ("h1 { width: 900px }", "px wide"),
        ("h1 { color: #ccc }", "contrast"),
        (".headline { overflow: hidden; width: 4px; white-space: nowrap }", "cut off"),
        (".card { flex-basis: 30% !important }", "alone in its row"),
        (
            ".list, .list tr, .list td { display: revert !important; white-space: nowrap !important }",
            "scrolls sideways",
        ),
        (".plot:has(svg) { margin-top: 40px }", "changes its height"),
        (".annotation-text { font-size: 60px !important }", "names of points overlap"),
        ("thead th { min-width: 0 !important }", "px high"),
    ];
    for (style, wanted) in faults {
        let found = problems(&html.replace("</style>", &format!("{style}</style>")));
        assert!(found.contains(wanted), "{style}: {found}");
    }
}
