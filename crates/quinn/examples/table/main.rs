//! Writes docs/reproduce/quic.md: calls over QUIC in virtual time, by giusto's controllers and by quinn's own.
//!
//! ```sh
//! cargo run --release -p giusto-quinn --example table -- 10 docs/reproduce/quic.md
//! ```
//!
//! The arguments: seeds per row, and the page; without one it prints.

#![expect(clippy::panic, reason = "a run that cannot go on should end")]

mod world;

use std::{env, fmt::Write as _, fs, path::Path};

use giusto_quinn::DataRate;
use giusto_sim::link::{queue::Limit, rate::RateProfile};
use giusto_units::{TimeDelta, Timestamp};
use statrs::distribution::{ContinuousCDF, StudentsT};
use world::{Bulk, Call, Figures};

const CONTROLLERS: [&str; 7] =
    ["tempo", "scream:v2", "gcc:libwebrtc", "nada", "quinn:newreno", "quinn:cubic", "quinn:bbr"];
const TRACE: &str = "../../scenarios/traces/lte/down-30kmh-6M-edge.mahimahi";
const COMMAND: &str = "cargo run --release -p giusto-quinn --example table";

/// A row: its first cells, and what is run for each seed.
struct Row {
    cells: Vec<String>,
    call: Call,
}

struct Table {
    title: &'static str,
    /// Names of the first columns.
    heads: Vec<&'static str>,
    /// Name of the column of other traffic.
    other: Option<&'static str>,
    rows: Vec<Row>,
}

fn fixed(bps: u64) -> RateProfile {
    RateProfile::Fixed(DataRate::from_bps(bps))
}

/// Each controller with and without skipping.
fn both(call: impl Fn(&str) -> Call) -> Vec<Row> {
    let mut rows = Vec::new();
    for controller in CONTROLLERS {
        for skips in [false, true] {
            let cells = vec![controller.to_owned(), if skips { "yes" } else { "no" }.to_owned()];
            rows.push(Row { cells, call: Call { skips, ..call(controller) } });
        }
    }
    rows
}

fn tables() -> Vec<Table> {
    let heads = || vec!["controller", "skips"];
    let mut steps = both(|name| Call::over_steps(name, 60, 0));
    let ordinary = Call { fast_acknowledgements: false, ..Call::over_steps("tempo", 60, 0) };
    steps.push(Row {
        cells: vec!["tempo, ordinary acknowledgements".to_owned(), "yes".to_owned()],
        call: ordinary,
    });
    let lte = Path::new(env!("CARGO_MANIFEST_DIR")).join(TRACE);
    let lte = fs::read_to_string(&lte).unwrap_or_else(|error| panic!("{}: {error}", lte.display()));
    let at =
        lte.lines().map(|line| Timestamp::from_nanos(line.parse::<u64>().expect("milliseconds") * 1_000_000));
    let lte = RateProfile::Opportunities { at: at.collect(), bytes: 1504 };
    let mut files = Vec::new();
    for (controller, way, bulk) in [
        ("tempo", "no file", None),
        ("tempo", "same priority", Some(Bulk::Equal)),
        ("tempo", "lower priority", Some(Bulk::Lower)),
        ("tempo", "lower priority, `Media::spare`", Some(Bulk::Spare)),
        ("scream:v2", "same priority", Some(Bulk::Equal)),
        ("scream:v2", "lower priority", Some(Bulk::Lower)),
        ("scream:v2", "lower priority, `Media::spare`", Some(Bulk::Spare)),
        ("quinn:cubic", "same priority", Some(Bulk::Equal)),
        ("quinn:cubic", "lower priority", Some(Bulk::Lower)),
    ] {
        let most = DataRate::from_bps(1_500_000);
        let call = Call { bulk, most, ..Call::over(controller, fixed(3_000_000), 0) };
        files.push(Row { cells: vec![controller.to_owned(), way.to_owned()], call });
    }
    let mut arrivals = Vec::new();
    for controller in ["tempo", "scream:v2", "gcc:libwebrtc"] {
        for (times, receive_timestamps) in [("acknowledgements", false), ("receive timestamps", true)] {
            let jitter_back = Some(TimeDelta::from_millis(40));
            let call = Call { jitter_back, receive_timestamps, ..Call::over_steps(controller, 60, 0) };
            arrivals.push(Row { cells: vec![controller.to_owned(), times.to_owned()], call });
        }
    }
    vec![
        Table { title: "3, 1, 3 Mbit/s, 20 s each", heads: heads(), other: None, rows: steps },
        Table {
            title: "3 Mbit/s, 5 % of the packets lost",
            heads: heads(),
            other: None,
            rows: both(|name| Call { loss: 0.05, ..Call::over(name, fixed(3_000_000), 0) }),
        },
        Table {
            title: "Trace of an LTE cell edge, 3.7 Mbit/s in the mean, queue of 1000 packets",
            heads: heads(),
            other: None,
            rows: both(|name| Call { queue: Limit::Packets(1000), ..Call::over(name, lte.clone(), 0) }),
        },
        Table {
            title: "4 Mbit/s beside a CUBIC download from 10 s on, figures from 15 s on",
            heads: heads(),
            other: Some("CUBIC, Mbit/s"),
            rows: both(|name| Call { beside_cubic: true, ..Call::over(name, fixed(4_000_000), 0) }),
        },
        Table {
            title: "3 Mbit/s, an encoder of at most 1.5 Mbit/s, a file on a stream of the same connection",
            heads: vec!["controller", "the file's stream"],
            other: Some("file, Mbit/s"),
            rows: files,
        },
        Table {
            title: "3, 1, 3 Mbit/s, with 0 to 40 ms of jitter on the way back, which keeps the order",
            heads: vec!["controller", "times of arrival"],
            other: None,
            rows: arrivals,
        },
    ]
}

/// Mean and half the 95 % interval.
fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, f64::NAN);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = StudentsT::new(0.0, 1.0, count - 1.0).expect("degrees of freedom").inverse_cdf(0.975);
    (mean, t * (variance / count).sqrt())
}

fn cell(values: &[f64], decimals: usize) -> String {
    let (mean, half) = interval(values);
    format!("{mean:.decimals$} ± {half:.decimals$}")
}

fn main() {
    let mut arguments = env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(10, |text| text.parse().expect("a number of seeds"));
    let path = arguments.next();
    let mut text = String::new();
    let mut headline = Vec::new();
    for (place, table) in tables().iter().enumerate() {
        let other = table.other.map_or(String::new(), |name| format!("{name}|"));
        let names = table.heads.join("|");
        writeln!(text, "### {}\n", table.title).expect("memory");
        writeln!(text, "|{names}|goodput, Mbit/s|p50, ms|p95, ms|p99, ms|missed, %|{other}").expect("memory");
        let columns = table.heads.len() + 5 + usize::from(table.other.is_some());
        writeln!(text, "{}|", "|-".repeat(columns)).expect("memory");
        for row in &table.rows {
            let runs: Vec<Figures> =
                (1..=seeds).map(|seed| Call { seed, ..row.call.clone() }.figures()).collect();
            let of = |figure: fn(&Figures) -> f64| runs.iter().map(figure).collect::<Vec<f64>>();
            let p95 = of(|run| run.p95);
            let mut cells = row.cells.clone();
            cells.push(cell(&of(|run| run.goodput), 2));
            cells.push(cell(&of(|run| run.p50), 0));
            cells.push(cell(&p95, 0));
            cells.push(cell(&of(|run| run.p99), 0));
            cells.push(cell(&of(|run| 100.0 * run.missed), 1));
            if table.other.is_some() {
                cells.push(cell(&of(|run| run.other), 2));
            }
            eprintln!("{}: {}", table.title, cells.join(" | "));
            writeln!(text, "|{}|", cells.join("|")).expect("memory");
            if place == 0
                && row.cells.get(1).is_some_and(|skips| skips == "yes")
                && row.call.fast_acknowledgements
            {
                headline.push(format!("{:.0} ms with {}", interval(&p95).0, row.call.controller));
            }
        }
        text.push('\n');
    }
    let headline =
        format!("The 95th percentile of the frame delay over 3, 1, 3 Mbit/s was {}.", headline.join(", "));
    let arguments = path.as_ref().map_or(String::new(), |path| format!(" -- {seeds} {path}"));
    let page = include_str!("page.md")
        .replace("{headline}", &headline)
        .replace("{seeds}", &seeds.to_string())
        .replace("{tables}", text.trim_end());
    let mark = format!(
        "<!-- Generated by `{COMMAND}{arguments}`; the text is crates/quinn/examples/table/page.md. -->\n"
    );
    match path {
        Some(path) => fs::write(&path, mark + &page).unwrap_or_else(|error| panic!("{path}: {error}")),
        None => println!("{page}"),
    }
}
