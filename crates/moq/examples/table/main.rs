//! Writes docs/reproduce/moq.md: a broadcast of Media over QUIC in virtual time, by giusto's controllers and by quinn's own.
//!
//! ```sh
//! cargo run --release --example table -- 10 ../../docs/reproduce/moq.md
//! ```
//!
//! The arguments: runs per row, and the page; without one it prints.
#![allow(dead_code, reason = "the program has more than the table uses")]
#![allow(clippy::indexing_slicing, reason = "a run that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "an origin for virtual times")]

#[path = "../../../quinn/examples/table/world/baseline.rs"]
mod baseline;
#[path = "../../src/film.rs"]
mod film;
mod net;
#[path = "../../src/publish.rs"]
mod publish;
#[path = "../../src/quic.rs"]
mod quic;
#[path = "../../src/relay.rs"]
mod relay;
#[path = "../../../quinn/examples/frames/tls.rs"]
mod tls;
#[path = "../../src/watch.rs"]
mod watch;
mod world;

use std::{
    env,
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use film::Film;
use giusto_sim::link::queue::Limit;
use giusto_units::TimeDelta;
use watch::{Figures, Frame};
use world::Path;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

const CONTROLLERS: [&str; 6] =
    ["tempo", "scream:v2", "gcc:libwebrtc", "quinn:newreno", "quinn:cubic", "quinn:bbr"];
/// Capacities in kbit/s, each for [`STEP`].
const CAPACITIES: [u64; 3] = [3000, 1000, 3000];
const STEP: Duration = Duration::from_secs(20);
/// Figures are of frames captured from then on.
const WARM_UP: Duration = Duration::from_secs(5);
/// Frames that arrive later than this are missed (`giusto_session::media::PLAYOUT_DEADLINE`).
const DEADLINE: Duration = Duration::from_millis(400);
const FRAMES_PER_SECOND: u64 = 30;
/// Student's t for 95 % by degrees of freedom, from 1 on.
const STUDENT: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Goodput in Mbit/s, percentiles of the delay in ms, and missed frames in per cent.
fn figures(frames: &[Frame]) -> [f64; 5] {
    let Some(first) = frames.first() else { return [f64::NAN; 5] };
    let duration = STEP * CAPACITIES.len() as u32;
    let counted: Vec<Frame> = frames
        .iter()
        .filter(|frame| (first.captured + WARM_UP..first.captured + duration).contains(&frame.captured))
        .cloned()
        .collect();
    let Figures { goodput_mbps, p50, p95, p99, .. } = Figures::of(&counted);
    let due = duration.saturating_sub(WARM_UP).as_secs() * FRAMES_PER_SECOND;
    let in_time = counted.iter().filter(|frame| frame.delay <= DEADLINE).count();
    let ms = |delay: Duration| delay.as_secs_f64() * 1e3;
    [goodput_mbps, ms(p50), ms(p95), ms(p99), 100.0 * (1.0 - in_time as f64 / due as f64)]
}

/// Mean and half the 95 % interval.
fn cell(values: &[f64], decimals: usize) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = STUDENT.get(values.len().wrapping_sub(2)).copied().unwrap_or(f64::NAN);
    format!("{mean:.decimals$} ± {:.decimals$}", t * (variance / count).sqrt())
}

fn main() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let runs: usize = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let path = arguments.next();
    // Times of capture are relative to the first.
    publish::now();
    let mut table = "|controller|goodput, Mbit/s|p50, ms|p95, ms|p99, ms|missed, %|\n".to_owned();
    writeln!(table, "{}|", "|-".repeat(6))?;
    let mut headline = Vec::new();
    for controller in CONTROLLERS {
        let mut columns: [Vec<f64>; 5] = Default::default();
        for run in 0..runs {
            let start = Instant::now();
            let path = Path {
                capacities: &CAPACITIES,
                step: STEP,
                delay: TimeDelta::from_millis(25 + run as i64),
                queue: Limit::Time(TimeDelta::from_millis(300)),
            };
            let (published, frames) = world::broadcast(controller, Film::made(), &path)?;
            let found = figures(&frames);
            eprintln!("{controller}, {:.1?}: {found:.2?}; {published}", start.elapsed());
            for (column, figure) in columns.iter_mut().zip(found) {
                column.push(figure);
            }
        }
        let cells: Vec<_> =
            columns.iter().zip([2, 0, 0, 0, 1]).map(|(column, digits)| cell(column, digits)).collect();
        writeln!(table, "|{controller}|{}|", cells.join("|"))?;
        headline.push(format!("{:.0} ms with {controller}", columns[2].iter().sum::<f64>() / runs as f64));
    }
    let page = include_str!("page.md")
        .replace("{headline}", &headline.join(", "))
        .replace("{runs}", &runs.to_string())
        .replace("{last}", &(24 + runs).to_string())
        .replace("{table}", table.trim_end());
    let arguments = path.as_ref().map_or(String::new(), |path| format!(" -- {runs} {path}"));
    let mark = format!(
        "<!-- Generated by `cargo run --release --example table{arguments}` in crates/moq; the text is crates/moq/examples/table/page.md. -->\n"
    );
    match path {
        Some(path) => fs::write(path, mark + &page)?,
        None => println!("{page}"),
    }
    Ok(())
}
