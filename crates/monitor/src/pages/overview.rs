//! The first page: the matrix of the mesh, and a heat map of the last two days.

use std::collections::{BTreeMap, BTreeSet};

use giusto::{
    scenario::WatchedStream,
    view::{
        format::plural,
        html::{Level, Matrix, MatrixCell, Report},
    },
};

use super::{Asked, Found, METRICS, Site, chosen, direction, events, levels, links, pair_link, report};
use crate::{
    engine::show,
    metric::{Metric, Summary},
    sample::SeriesKey,
    store::{EventKind, Latest, Reader, Span},
    utc,
};

/// The hours of the heat map.
const HOURS: u64 = 48;
/// Columns from one label to the next.
const LABELS: u64 = 6;
/// Events of this time are shown, in seconds, and at most so many.
const RECENT_S: u64 = 86_400;
const MAX_EVENTS: usize = 40;
/// Outages that the headline names.
const MAX_NAMED: usize = 3;
/// More than can go on: an outage and a few bounds of each series.
const MAX_OPEN: usize = 10_000;

/// The page at `now`.
///
/// # Errors
///
/// [`StoreError`](crate::store::StoreError) names the database.
pub fn overview(site: &Site, reader: &Reader, asked: &Asked, now: u64) -> Found<Report> {
    let metric = asked.metric.unwrap_or(Metric::Loss);
    let Some(stream) = chosen(site, asked) else {
        return Ok(report("giusto monitor", "Nothing is watched.".to_owned()));
    };
    let mut series = reader.series()?;
    let is_host = |id: &str| site.spec.hosts.iter().any(|host| host.id == id);
    let of = |key: &SeriesKey| site.spec.streams.iter().find(|stream| stream.id == key.stream);
    // What is no longer in the configuration is not shown.
    series.retain(|key, _| is_host(&key.from) && is_host(&key.to) && of(key).is_some());
    let names: BTreeMap<i64, &SeriesKey> = series.iter().map(|(key, id)| (*id, key)).collect();
    let oldest = site.spec.streams.iter().map(fresh_s).max().unwrap_or_default();
    let mut latest = reader.latest(now.saturating_sub(oldest), now)?;
    latest.retain(|id, latest| {
        let stream = names.get(id).and_then(|key| of(key));
        stream.is_some_and(|stream| now.saturating_sub(latest.time) <= fresh_s(stream))
    });
    let view = View { site, stream, metric, series: &series, latest: &latest };

    let mut page = report("giusto monitor", view.headline(reader, now)?);
    let address = |stream: &str, metric: Metric| format!("?stream={stream}&metric={}", metric.name());
    if site.spec.streams.len() > 1 {
        let ids = site.spec.streams.iter().map(|stream| stream.id.as_str());
        page.push(links("Stream", ids, &*stream.id, str::to_owned, |id| address(id, metric)));
    }
    page.push(links(
        "Figure",
        METRICS,
        metric,
        |metric| metric.to_string(),
        |metric| address(&stream.id, metric),
    ));
    page.push(view.matrix(now));
    page.push(view.heat(&reader.hours(metric, begin(now), now)?, now));
    let recent = reader.events(None, now.saturating_sub(RECENT_S), MAX_EVENTS)?;
    page.push(events(&recent, |event| match event.series {
        None => Some("monitor".to_owned()),
        Some(id) => names.get(&id).map(|key| format!("{}, {}", direction(&key.from, &key.to), key.stream)),
    }));
    Ok(page)
}

/// How old the newest result of a stream may be, in seconds: it comes after its interval has begun and the stream has ended.
fn fresh_s(stream: &WatchedStream) -> u64 {
    (2.0 * stream.interval.as_seconds() + stream.duration.as_seconds()) as u64 + 15
}

/// The beginning of the heat map.
fn begin(now: u64) -> u64 {
    (now - now % 3600).saturating_sub((HOURS - 1) * 3600)
}

struct View<'a> {
    site: &'a Site,
    stream: &'a WatchedStream,
    metric: Metric,
    series: &'a BTreeMap<SeriesKey, i64>,
    latest: &'a BTreeMap<i64, Latest>,
}

impl View<'_> {
    /// The finding, in one sentence.
    fn headline(&self, reader: &Reader, now: u64) -> Found<String> {
        let open = reader.events(None, now, MAX_OPEN)?;
        // Each series with an open event of the kind.
        let having = |kind: EventKind| {
            let open = open.iter().filter(|event| event.until.is_none() && event.kind == kind);
            let ids: BTreeSet<i64> = open.filter_map(|event| event.series).collect();
            self.series.iter().filter(|(_, id)| ids.contains(id)).map(|(key, _)| key).collect::<Vec<_>>()
        };
        let crossed = having(EventKind::Bound);
        let down = having(EventKind::Outage);
        let names = down.iter().take(MAX_NAMED);
        let names = names.map(|key| format!("{} ({})", direction(&key.from, &key.to), key.stream));
        let names = names.collect::<Vec<_>>().join(", ");
        let outage = match down.len().saturating_sub(MAX_NAMED) {
            0 if down.is_empty() => String::new(),
            0 => format!("Outage of {names}. "),
            more => format!("Outage of {names} and {more} more. "),
        };
        let known = |latest: &&Latest| latest.figures.of(Metric::Known) == Some(1.0);
        let measured = self.latest.values().filter(known).count() as u64;
        let unknown = self.series.len() as u64 - measured;
        let all = plural(measured, "stream is measured", "streams are measured");
        let mut text = match crossed.len() {
            0 if measured == 0 => format!("{outage}{all}"),
            0 => format!("{outage}{all}, all within bounds"),
            bad => format!("{outage}{all}, {bad} out of bounds"),
        };
        if unknown > 0 {
            text.extend([", ", &unknown.to_string(), " unknown"]);
        }
        Ok(text + ".")
    }

    fn key(&self, from: &str, to: &str) -> SeriesKey {
        SeriesKey { from: from.to_owned(), to: to.to_owned(), stream: self.stream.id.clone() }
    }

    fn matrix(&self, now: u64) -> Matrix {
        let hosts: Vec<&str> = self.site.spec.hosts.iter().map(|host| host.id.as_str()).collect();
        let row = |from: &&str| ((*from).to_owned(), hosts.iter().map(|to| self.cell(from, to)).collect());
        Matrix {
            title: format!("{}, now", capitalised(self.metric)),
            caption: format!(
                "The newest result of the stream `{}` from each row to each column, at {} UTC. A cell opens its charts; other hosts measure \
                 what is empty.",
                self.stream.id,
                utc::time_of_day(now)
            ),
            corner: "from, to".to_owned(),
            columns: hosts.iter().map(|host| (*host).to_owned()).collect(),
            rows: hosts.iter().map(row).collect(),
            dense: false,
            legend: levels::legend(self.metric, &self.stream.thresholds),
        }
    }

    fn cell(&self, from: &str, to: &str) -> MatrixCell {
        let key = self.key(from, to);
        let Some(id) = self.series.get(&key) else { return MatrixCell::default() };
        let link = pair_link(&key, Span::Day);
        let latest = self.latest.get(id);
        let name = direction(from, to);
        let figures =
            latest.map(|latest| latest.figures).filter(|figures| figures.of(Metric::Known) == Some(1.0));
        let Some(figures) = figures else {
            let about = format!("{name}: unknown");
            return MatrixCell { text: "?".to_owned(), level: Level::Unknown, about, link };
        };
        let Some(value) = figures.of(self.metric) else {
            let about = format!("{name}: {} is not measured", self.metric);
            return MatrixCell { text: "–".to_owned(), level: Level::Empty, about, link };
        };
        let text = show(self.metric, value);
        let doubt = if latest.is_some_and(|latest| latest.doubtful) { ", cannot be trusted" } else { "" };
        MatrixCell {
            about: format!("{name}: {} {text}{doubt}", self.metric),
            text: if doubt.is_empty() { text } else { format!("{text} *") },
            level: levels::level(self.metric, value, &self.stream.thresholds),
            link,
        }
    }

    fn heat(&self, hours: &BTreeMap<(i64, u64), Summary>, now: u64) -> Matrix {
        let begin = begin(now);
        let times: Vec<u64> = (0..HOURS).map(|hour| begin + hour * 3600).collect();
        let label = |time: &u64| match time / 3600 % 24 {
            0 => utc::day(*time),
            hour if hour % LABELS == 0 => utc::time_of_day(*time),
            _ => String::new(),
        };
        let own = self.series.iter().filter(|(key, _)| key.stream == self.stream.id);
        let rows = own.map(|(key, id)| {
            let cells = times.iter().map(|time| self.hour(key, *time, hours.get(&(*id, *time))));
            (direction(&key.from, &key.to), cells.collect())
        });
        let worst =
            if self.metric == Metric::Known { "The mean" } else { "The 99th percentile of the results" };
        let worst = if self.metric == Metric::Mos { "The lowest result" } else { worst };
        Matrix {
            title: format!("{}, hour by hour", capitalised(self.metric)),
            caption: format!(
                "{worst} of each hour of the last two days (UTC). Hours without any result are unknown."
            ),
            corner: String::new(),
            columns: times.iter().map(label).collect(),
            rows: rows.collect(),
            dense: true,
            legend: levels::legend(self.metric, &self.stream.thresholds),
        }
    }

    fn hour(&self, key: &SeriesKey, time: u64, summary: Option<&Summary>) -> MatrixCell {
        let name =
            format!("{}, {} {}", direction(&key.from, &key.to), utc::day(time), utc::time_of_day(time));
        let Some(summary) = summary else {
            let about = format!("{name}: unknown");
            return MatrixCell { text: String::new(), level: Level::Unknown, about, link: String::new() };
        };
        let value = match self.metric {
            Metric::Known => summary.mean,
            Metric::Mos => summary.min,
            _ => summary.p99,
        };
        let level = levels::level(self.metric, value, &self.stream.thresholds);
        // A sign besides the colour.
        let text = match level {
            Level::Of(3) => "!",
            Level::Of(4) => "‼",
            _ => "",
        };
        MatrixCell {
            text: text.to_owned(),
            level,
            about: format!("{name}: {} {}", self.metric, show(self.metric, value)),
            link: pair_link(key, Span::Week),
        }
    }
}

fn capitalised(metric: Metric) -> String {
    let text = metric.to_string();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
