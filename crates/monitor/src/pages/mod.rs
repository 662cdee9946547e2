//! The pages: a matrix of the mesh with a heat map, and the charts of a direction.

mod levels;
mod overview;
mod pair;

use std::path::PathBuf;

use giusto::{
    scenario::{MonitorSpec, WatchedStream},
    view::html::{Block, Cell, Column, Links, Prose, Report, Section, Table},
};
use giusto_net::http::{Request, Response};

use crate::{
    metric::Metric,
    sample::SeriesKey,
    store::{Reader, Span, StoreError, StoredEvent},
    utc,
};

pub use overview::overview;
pub use pair::pair;

/// The metrics that a reader can choose.
const METRICS: [Metric; 8] = [
    Metric::Loss,
    Metric::Rtt,
    Metric::RttP99,
    Metric::DelayP99,
    Metric::FrameDelayP99,
    Metric::Jitter,
    Metric::Mos,
    Metric::Known,
];

/// After this time a page asks again, in seconds.
const REFRESH: &str = "60";

/// What pages are made of: the configuration and the database.
#[derive(Debug, Clone)]
pub struct Site {
    /// What is watched.
    pub spec: MonitorSpec,
    /// The host on which the monitor runs.
    pub here: String,
    /// The database.
    pub database: PathBuf,
}

/// The answer to a request for a page at `now`, in seconds since the Unix epoch; `failure` is why newer results are not in the database.
pub fn answer(site: &Site, failure: Option<&str>, request: &Request, now: u64) -> Response {
    let asked = Asked::of(&request.query);
    let page = match request.path.as_str() {
        "/" => Reader::open(&site.database).and_then(|reader| overview(site, &reader, &asked, now)).map(Some),
        "/pair" => Reader::open(&site.database).and_then(|reader| pair(site, &reader, &asked, now)),
        _ => Ok(None),
    };
    match page {
        Ok(Some(mut report)) => {
            if let Some(failure) = failure {
                report.headline =
                    format!("Results are not written: {failure}. In the file: {}", report.headline);
            }
            Response::page(report.to_html())
                .with_header("Refresh", REFRESH)
                .with_header("Cache-Control", "no-store")
        }
        Ok(None) => Response::text("404 Not Found", "nothing here: see / and /metrics\n"),
        Err(error) => Response::text("500 Internal Server Error", format!("{error}\n")),
    }
}

/// What a reader has chosen, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The direction.
    pub from: Option<String>,
    /// The direction.
    pub to: Option<String>,
    /// The stream.
    pub stream: Option<String>,
    /// The metric of matrix and heat map.
    pub metric: Option<Metric>,
    /// The time that charts show.
    pub span: Option<Span>,
}

impl Asked {
    /// That of the query of an address. Names need no escapes.
    pub fn of(query: &str) -> Self {
        let mut asked = Self::default();
        for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            let text = Some(value.to_owned());
            match name {
                "from" => asked.from = text,
                "to" => asked.to = text,
                "stream" => asked.stream = text,
                "metric" => asked.metric = Metric::named(value),
                "span" => asked.span = Span::named(value),
                _ => {}
            }
        }
        asked
    }
}

/// The stream that was asked for, or the first one.
fn chosen<'a>(site: &'a Site, asked: &Asked) -> Option<&'a WatchedStream> {
    let streams = &site.spec.streams;
    let named = asked.stream.as_ref().and_then(|name| streams.iter().find(|stream| stream.id == *name));
    named.or(streams.first())
}

fn pair_link(series: &SeriesKey, span: Span) -> String {
    let SeriesKey { from, to, stream } = series;
    format!("pair?from={from}&to={to}&stream={stream}&span={}", span.name())
}

/// Links between values of one choice.
fn links<T: PartialEq + Copy>(
    label: &str,
    all: impl IntoIterator<Item = T>,
    chosen: T,
    name: impl Fn(T) -> String,
    address: impl Fn(T) -> String,
) -> Links {
    let link = |value: T| (name(value), address(value), value == chosen);
    Links { label: label.to_owned(), links: all.into_iter().map(link).collect() }
}

/// A table of events; `name` says whose each is.
fn events(events: &[StoredEvent], name: impl Fn(&StoredEvent) -> Option<String>) -> Section {
    let row = |event: &StoredEvent| {
        let whose = name(event)?;
        let lasted = match event.until {
            None => "goes on".to_owned(),
            Some(until) if until <= event.time => "–".to_owned(),
            Some(until) => lasted(until - event.time),
        };
        let cells = [utc::whole(event.time), whose, event.kind.name().to_owned(), lasted, event.text.clone()];
        Some(cells.map(Cell::from).into())
    };
    let columns = ["time (UTC)", "direction", "event", "lasted", "what"];
    let rows: Vec<_> = events.iter().filter_map(row).collect();
    if rows.is_empty() {
        let none = "No outage, no change of the path, no crossed bound.".to_owned();
        return Prose::new("Events", vec![Block::Paragraph(none)]).into();
    }
    let table = Table {
        title: "Events".to_owned(),
        caption: "Outages, changes of the path and crossed bounds, the newest first.".to_owned(),
        columns: columns.map(Column::words).into(),
        rows,
        folded: false,
    };
    table.into()
}

/// A time in words, from whole minutes on.
fn lasted(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The name of a direction on pages.
fn direction(from: &str, to: &str) -> String {
    format!("{from} → {to}")
}

/// A report with its title.
fn report(title: &str, headline: String) -> Report {
    Report::new(title, headline)
}

/// What a page needs of the database.
type Found<T> = Result<T, StoreError>;
