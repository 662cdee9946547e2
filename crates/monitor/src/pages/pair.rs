//! The page of a direction: its newest figures, its charts over time, its events.

use std::collections::BTreeMap;

use giusto::view::html::{Card, Chart, Event, Mark, Points, Report, Scale, Series};

use super::{Asked, Found, Site, direction, events, levels, links, pair_link, report};
use crate::{
    engine::show,
    metric::{Metric, Summary},
    sample::SeriesKey,
    store::{EventKind, Known, Reader, Span, StoredEvent},
    utc,
};

const DAY_S: u64 = 86_400;
const MONTH_S: u64 = 30 * DAY_S;
const YEAR_S: u64 = 366 * DAY_S;

/// Times from one tick to the next, in seconds, and the most ticks of an axis.
const STEPS: [u64; 10] = [60, 300, 900, 3600, 4 * 3600, DAY_S, 2 * DAY_S, 7 * DAY_S, MONTH_S, 61 * DAY_S];
const MAX_TICKS: u64 = 8;

/// A bound is drawn if the highest value reaches this share of it: else it would hide the others.
const NEAR: f64 = 0.2;

/// Events that a page shows.
const MAX_EVENTS: usize = 100;

/// The page at `now`; `None` if there is no such direction.
///
/// # Errors
///
/// [`StoreError`](crate::store::StoreError) names the database.
pub fn pair(site: &Site, reader: &Reader, asked: &Asked, now: u64) -> Found<Option<Report>> {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let key = SeriesKey { from: text(&asked.from), to: text(&asked.to), stream: text(&asked.stream) };
    let span = asked.span.unwrap_or(Span::Day);
    let all = reader.series()?;
    let Some(id) = all.get(&key).copied() else { return Ok(None) };
    let course = reader.course(id, span, now)?;
    let begin = now.saturating_sub(span.seconds());
    let happened = reader.events(Some(id), begin, MAX_EVENTS)?;
    let thresholds =
        site.spec.streams.iter().find(|stream| stream.id == key.stream).map(|stream| stream.thresholds);
    let thresholds = thresholds.unwrap_or_default();

    let title = format!("{}, {}", direction(&key.from, &key.to), key.stream);
    let mut page = report(&title, headline(&course, span));
    let back = SeriesKey { from: key.to.clone(), to: key.from.clone(), stream: key.stream.clone() };
    let mut ways =
        links("Time", Span::ALL, span, |span| span.name().to_owned(), |span| pair_link(&key, span));
    // Where the other host measures it, its own pages have it.
    if all.contains_key(&back) {
        ways.links.push(("way back".to_owned(), pair_link(&back, span), false));
    }
    ways.links.push(("all hosts".to_owned(), format!("/?stream={}", key.stream), false));
    page.push(ways);
    page.push(cards(&course));
    let drawing = Drawing { course: &course, span, begin, now, events: &happened };
    let charts = [
        drawing.chart("Loss", "ratio", &[Metric::Loss], levels::limit(Metric::Loss, &thresholds)),
        drawing.chart(
            "Round-trip time",
            "s",
            &[Metric::RttMin, Metric::Rtt, Metric::RttP99],
            levels::limit(Metric::RttP99, &thresholds),
        ),
        drawing.chart(
            "One-way delay",
            "s",
            &[Metric::Delay, Metric::DelayP99],
            levels::limit(Metric::DelayP99, &thresholds),
        ),
        drawing.chart(
            "Frame delay",
            "s",
            &[Metric::FrameDelay, Metric::FrameDelayP99],
            levels::limit(Metric::FrameDelayP99, &thresholds),
        ),
        drawing.chart("Jitter", "s", &[Metric::Jitter], None),
        drawing.chart("MOS", "", &[Metric::Mos], levels::limit(Metric::Mos, &thresholds)),
        drawing.chart("Received rate", "bit/s", &[Metric::Rate], None),
        drawing.chart("Use", "ratio", &[Metric::Use], None),
        drawing.chart("Clock offset", "s", &[Metric::ClockOffset], None),
        drawing.chart("Availability", "ratio", &[Metric::Known], None),
    ];
    // What this stream does not measure is left out.
    charts.into_iter().flatten().for_each(|chart| page.push(chart));
    let whose =
        |event: &StoredEvent| Some(if event.series.is_some() { title.clone() } else { "monitor".to_owned() });
    page.push(events(&happened, whose));
    Ok(Some(page))
}

fn mean(course: &[Known], metric: Metric) -> Option<f64> {
    let all = course.iter().filter_map(|known| known.values.get(&metric));
    let (sum, count) = all.fold((0.0, 0.0), |(sum, count), summary: &Summary| {
        (sum + summary.mean * summary.count as f64, count + summary.count as f64)
    });
    (count > 0.0).then(|| sum / count)
}

fn headline(course: &[Known], span: Span) -> String {
    let of = match span {
        Span::SixHours => "the last six hours".to_owned(),
        span => format!("the last {}", span.name()),
    };
    match (mean(course, Metric::Known), mean(course, Metric::Loss)) {
        (None, _) => format!("Nothing is known of {of}."),
        (Some(known), None) => format!("In {of}, {} of the results are known.", show(Metric::Known, known)),
        (Some(known), Some(loss)) => {
            let [known, loss] = [show(Metric::Known, known), show(Metric::Loss, loss)];
            format!("In {of}, the mean loss over the results is {loss}; {known} of the results are known.")
        }
    }
}

/// The newest values.
fn cards(course: &[Known]) -> Vec<Card> {
    let Some(newest) = course.last() else { return Vec::new() };
    let when = format!("at {} UTC", utc::time_of_day(newest.time));
    if newest.values.get(&Metric::Known).is_none_or(|known| known.mean == 0.0) {
        return vec![Card::new("state", "unknown", when)];
    }
    let shown = [
        Metric::Loss,
        Metric::Rtt,
        Metric::RttP99,
        Metric::DelayP99,
        Metric::FrameDelayP99,
        Metric::Use,
        Metric::Jitter,
        Metric::Mos,
    ];
    let card = |metric: Metric| {
        let value = newest.values.get(&metric)?.mean;
        let error = newest.values.get(&Metric::DelayError).filter(|_| metric == Metric::DelayP99);
        let note =
            error.map_or_else(|| when.clone(), |error| format!("± {}", show(Metric::DelayError, error.max)));
        Some(Card::new(metric.to_string(), show(metric, value), note))
    };
    shown.into_iter().filter_map(card).collect()
}

/// The highest value of a chart.
fn top(chart: &Chart) -> f64 {
    let values = chart.series.iter().flat_map(|series| match series {
        Series::Line { points: Points::Inline { y, .. }, .. } => &y[..],
        _ => &[],
    });
    values.copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
}

struct Drawing<'a> {
    course: &'a [Known],
    span: Span,
    begin: u64,
    now: u64,
    events: &'a [StoredEvent],
}

impl Drawing<'_> {
    /// A chart of metrics over time; `None` if there are none. A unit `s` is that of values in ms.
    fn chart(
        &self,
        title: &str,
        unit: &'static str,
        metrics: &[Metric],
        limit: Option<f64>,
    ) -> Option<Chart> {
        let factor = if unit == "s" { 1e-3 } else { 1.0 };
        let falls = metrics.contains(&Metric::Mos);
        if !metrics.iter().any(|metric| self.course.iter().any(|known| known.values.contains_key(metric))) {
            return None;
        }
        let mut chart =
            Chart::new(title, self.caption(metrics)).with_axes("time (UTC)", title).with_full_width();
        chart.x = Scale {
            title: "time (UTC)".to_owned(),
            range: Some(self.range()),
            ticks: self.ticks(),
            ..Scale::default()
        };
        (chart.y.unit, chart.y.from_zero) = (unit, !matches!(metrics, [Metric::Mos | Metric::ClockOffset]));
        let error = metrics.iter().find_map(|metric| match metric {
            Metric::Delay => Some(Metric::DelayError),
            Metric::ClockOffset => Some(Metric::ClockError),
            _ => None,
        });
        for metric in metrics {
            let place = chart.series.len();
            let value =
                |values: &BTreeMap<Metric, Summary>| values.get(metric).map(|summary| summary.mean * factor);
            let name =
                if self.span.level().is_some() { format!("{metric}, mean") } else { metric.to_string() };
            chart.series.push(Series::line(name, self.line(value)));
            // The error of what is estimated, or the range of an hour's or a day's results.
            let ends = |values: &BTreeMap<Metric, Summary>| {
                let summary = values.get(metric)?;
                if let Some(error) = error {
                    let error = values.get(&error)?.max;
                    return Some((summary.mean - error, summary.mean + error));
                }
                Some((summary.min, summary.p99))
            };
            let is_banded =
                matches!(metric, Metric::Delay | Metric::ClockOffset) || self.span.level().is_some();
            if is_banded && self.course.iter().any(|known| ends(&known.values).is_some()) {
                let low = self.line(|values| ends(values).map(|(low, _)| low * factor));
                let high = self.line(|values| ends(values).map(|(_, high)| high * factor));
                chart.series.push(Series::Band { of: place, low, high });
            }
        }
        chart.series.extend(self.marks(&chart));
        let is_near = |limit: f64| falls || top(&chart) >= NEAR * limit * factor;
        if let Some(limit) = limit.filter(|limit| is_near(*limit)) {
            chart = chart.with_mark(Mark::AtY(limit * factor, "bound".to_owned()));
        }
        Some(chart)
    }

    fn caption(&self, metrics: &[Metric]) -> String {
        let each = match self.span.level() {
            None => "Each result",
            Some((_, 3600)) => {
                "Each hour: the mean of its results, and in the band from the lowest to the 99th percentile"
            }
            Some(_) => {
                "Each day: the mean of its results, and in the band from the lowest to the 99th percentile"
            }
        };
        let error = match metrics {
            [Metric::Delay, ..] => "; the band is the possible error of the median",
            [Metric::ClockOffset] => {
                " of the far clock less that of this host; the band is the possible error"
            }
            _ => "",
        };
        format!("{each}{error}. Where the line is broken, nothing is known.")
    }

    fn hours(&self, time: u64) -> f64 {
        (time as f64 - self.begin as f64) / 3600.0
    }

    /// The values of a line, broken where one is missing.
    fn line(&self, value: impl Fn(&BTreeMap<Metric, Summary>) -> Option<f64>) -> Points {
        let times = self.course.iter().map(|known| known.time);
        let mut steps: Vec<u64> = times.clone().zip(times.skip(1)).map(|(a, b)| b - a).collect();
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().unwrap_or(u64::MAX);
        let mut points = Vec::with_capacity(self.course.len());
        let mut last = None;
        for known in self.course {
            if last.is_some_and(|last| known.time - last > step + step / 2) {
                points.push((self.hours(last.unwrap_or_default() + step), f64::NAN));
            }
            last = Some(known.time);
            points.push((self.hours(known.time), value(&known.values).unwrap_or(f64::NAN)));
        }
        Points::from(points)
    }

    /// Outages and changes of the path, at the height of the highest value.
    fn marks(&self, chart: &Chart) -> Option<Series> {
        let top = top(chart);
        let shown = |event: &&StoredEvent| {
            event.time >= self.begin
                && matches!(event.kind, EventKind::Outage | EventKind::Path | EventKind::Hole)
        };
        let mut marks: Vec<Event> = self
            .events
            .iter()
            .filter(shown)
            .map(|event| Event {
                x: self.hours(event.time),
                y: top,
                text: format!("{} {}: {}", utc::whole(event.time), event.kind.name(), event.text),
                label: String::new(),
            })
            .collect();
        marks.reverse();
        (!marks.is_empty())
            .then(|| Series::Events { name: "outages and changes of the path".to_owned(), events: marks })
    }

    /// The time that charts show: from the first result on, if it is later than the beginning of the span.
    fn range(&self) -> (f64, f64) {
        let first = self.course.first().map_or(self.begin, |known| known.time.max(self.begin));
        let (first, end) = (self.hours(first), self.hours(self.now));
        ((first - (end - first) / 50.0).max(0.0), end)
    }

    /// Round times.
    fn ticks(&self) -> Vec<(f64, String)> {
        let (first, end) = self.range();
        let step = STEPS.into_iter().find(|step| (end - first) * 3600.0 <= (MAX_TICKS * step) as f64);
        let step = step.unwrap_or(YEAR_S);
        let first = (self.begin + (first * 3600.0) as u64).next_multiple_of(step);
        let name = |time: u64| match step {
            0..DAY_S if !time.is_multiple_of(DAY_S) => utc::time_of_day(time),
            0..MONTH_S => utc::day(time),
            _ => utc::month(time),
        };
        (first..=self.now).step_by(step as usize).map(|time| (self.hours(time), name(time))).collect()
    }
}
