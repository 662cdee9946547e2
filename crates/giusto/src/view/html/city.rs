//! The page of a simulated city.

use super::{
    Card, Chart, Column, Event, Prose, Report, Series, Table,
    finding::ms,
    format::{brief_rate, count, or_unknown, percent, plural, short},
    map::Map,
};
use crate::{
    city::{CallLog, CallSample, CityFigures, CityLog, CityRecord},
    statistics::{CALLS, RADIO, Statistic, USERS},
};

/// The page of a city; `title` names it, such as `giusto sim: city`, and `command` makes it again.
pub fn city(
    record: &CityRecord,
    log: &CityLog,
    title: impl Into<String>,
    command: impl Into<String>,
) -> Report {
    let mut report = Report::new(title, headline(record)).with_command(command);
    report.push(cards(record));
    let chosen = chosen(log);
    report.push(map(record, log, chosen));
    if let Some(call) = chosen {
        for chart in life(call) {
            report.push(chart);
        }
    }
    let figures = &record.figures;
    let caption = format!(
        "{}, {}: {} calls in a cell on average, {} km/h. Of the packets and frames sent within the evaluation.{}",
        record.controller,
        record.direction,
        short(record.users_per_cell),
        short(record.speed_kmh),
        record.doubts.iter().fold(String::new(), |text, doubt| text + " Warning: " + doubt + "."),
    );
    report.push(table("Calls", &caption, CALLS, &[("value", Some(figures))]));
    let caption =
        "Over the whole run and all cells. A direction without figures is modelled as a constant delay.";
    let directions = [("downlink", figures.downlink.as_ref()), ("uplink", figures.uplink.as_ref())];
    report.push(table("Radio", caption, RADIO, &directions));
    report.push(table("Users and file transfers", "Over the whole run.", USERS, &[("value", Some(figures))]));
    report.push(how_measured(record));
    report
}

/// The finding: rate and delay of the calls.
fn headline(record: &CityRecord) -> String {
    if record.figures.calls == 0 {
        return "No call was long enough within the evaluation to be evaluated.".to_owned();
    }
    format!(
        "{} received {} of video; 98 % of the frames of 95 % of them were complete within {}.",
        plural(record.figures.calls as u64, "call", "calls"),
        brief_rate(record.figures.received_video_bps),
        ms(record.figures.frame_tail_ms),
    )
}

fn cards(record: &CityRecord) -> Vec<Card> {
    let figures = &record.figures;
    let card = |row: &Statistic<CityFigures>| {
        let (first, rest) = row.title.split_at(1);
        Card::new(first.to_uppercase() + rest, row.text(figures, &[]), row.definition)
    };
    let shown = ["frame_tail_ms", "packet_tail_ms", "received_video_bps", "loss_ratio"];
    let mut cards: Vec<Card> = CALLS.iter().filter(|row| shown.contains(&row.name)).map(card).collect();
    let radio = record.radio();
    if let Some(radio) = radio {
        let note = format!("of resource blocks, {}", record.direction);
        cards.push(Card::new("Utilisation", percent(radio.used_ratio), note));
    }
    let note = format!("of {}", plural(record.figures.all_calls, "call", "calls"));
    cards.push(Card::new("Outside coverage", count(record.figures.uncovered_calls), note));
    cards
}

/// The call that is shown over time: of those that were sampled, the one with the most handovers, else the first.
fn chosen(log: &CityLog) -> Option<&CallLog> {
    let sampled = log.calls.iter().filter(|call| !call.samples.is_empty());
    sampled.rev().max_by_key(|call| call.handovers.len())
}

fn map(record: &CityRecord, log: &CityLog, chosen: Option<&CallLog>) -> Map {
    let shown = log.calls.len() as u64;
    let paths = if log.other_calls == 0 {
        format!("the paths of all {}", plural(shown, "call", "calls"))
    } else {
        format!("the paths of the first {shown} of {} calls", shown + log.other_calls)
    };
    let number = chosen.map(|call| call.number);
    let thick =
        number.map_or_else(String::new, |number| format!(" Call {number}, shown over time below, is thick."));
    let caption = format!(
        "Wideband SINR of the downlink with all cells at full power, without shadowing and fast fading: each user draws shadowing of its own. \
         Borders are where another cell becomes the strongest on this map. Lines are {paths}, {} km/h, and circles are handovers, which \
         follow the shadowing of the user. The area repeats on all sides.{thick}",
        short(record.speed_kmh),
    );
    Map::new("Cells, SINR and paths", caption, log, number)
}

/// One call over time.
fn life(call: &CallLog) -> Vec<Chart> {
    let line = |name: &str, of: &dyn Fn(&CallSample) -> f64| {
        let points: Vec<_> = call.samples.iter().map(|sample| (sample.time_s, of(sample))).collect();
        Series::line(name, points)
    };
    let chart = Chart::over_time::<String>;
    let sinr_at = |time_s: f64| {
        call.samples
            .iter()
            .find(|sample| sample.time_s >= time_s)
            .map_or(0.0, |sample| f64::from(sample.sinr_db))
    };
    let handovers: Vec<Event> = call
        .handovers
        .iter()
        .map(|handover| Event {
            x: handover.time_s,
            y: sinr_at(handover.time_s),
            text: format!("handover from cell {} to cell {}", handover.from, handover.to),
            label: String::new(),
        })
        .collect();
    let number = call.number;
    let mut sinr = chart(
        format!("Call {number}: SINR"),
        "Of the last transmission before each 0.1 s, a mean over its resource blocks, in dB.",
        "SINR (dB)",
        "",
    )
    .with_series(line("SINR", &|sample| f64::from(sample.sinr_db)));
    if !handovers.is_empty() {
        sinr.series.push(Series::Events { name: "handover".to_owned(), events: handovers });
    }
    let rates = chart(
        format!("Call {number}: rates"),
        "The target of the controller, and what arrives with all headers: the mean of the second before.",
        "rate",
        "bit/s",
    )
    .with_series(line("target", &|sample| sample.target_bps as f64))
    .with_series(Series::line("received", smoothed(&call.samples)));
    let queue = chart(
        format!("Call {number}: queue"),
        "Bytes that wait in the bearer of the user, each 0.1 s.",
        "queue",
        "B",
    )
    .with_series(line("", &|sample| f64::from(sample.backlog_bytes)));
    let frames: Vec<_> = call
        .samples
        .iter()
        .filter_map(|sample| Some((sample.time_s, sample.frame_delay_ms? / 1e3)))
        .collect();
    let delay = chart(
        format!("Call {number}: frame delay"),
        "From the capture of a video frame until it is complete: the mean of the frames in each 0.1 s.",
        "frame delay",
        "s",
    )
    .with_series(Series::line("", frames));
    vec![sinr, rates, queue, delay]
}

/// The received rate as a mean over a second.
fn smoothed(samples: &[CallSample]) -> Vec<(f64, f64)> {
    const SECOND: usize = 10;
    let mean = |(last, sample): (usize, &CallSample)| {
        let window = samples.get((last + 1).saturating_sub(SECOND)..=last).unwrap_or_default();
        let sum: f64 = window.iter().map(|sample| sample.received_bps).sum();
        (sample.time_s, sum / window.len() as f64)
    };
    samples.iter().enumerate().map(mean).collect()
}

/// A table of statistics: the value in each of the records that there are, and what it is.
fn table<T>(title: &str, caption: &str, rows: &[Statistic<T>], records: &[(&str, Option<&T>)]) -> Table {
    let values = records.iter().map(|(name, _)| Column::number(*name));
    let columns = std::iter::once(Column::words("statistic")).chain(values);
    let row = |row: &Statistic<T>| -> Vec<String> {
        let values = records.iter().map(|(_, record)| or_unknown(*record, |record| row.text(record, &[])));
        let cells = std::iter::once(row.title.to_owned()).chain(values);
        cells.chain([row.definition.to_owned()]).collect()
    };
    let rows = rows.iter().filter(|row| row.column.is_some()).map(row);
    Table::new(title, caption, columns.chain([Column::words("definition")]), rows)
}

fn how_measured(record: &CityRecord) -> Prose {
    let terms = [(
        "SINR",
        "Signal to interference and noise ratio. Interference is that of the cells that transmit in the same millisecond.",
    )];
    let run = format!(
        "{} s were simulated with seed {}, {} and {}. docs/explanation/lte.md describes the model.",
        short(record.simulated_s),
        record.seed,
        plural(record.events, "event", "events"),
        plural(record.packets, "packet", "packets"),
    );
    Prose::definitions("How it is measured", &terms, run)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use giusto_sim::link::queue::Limit;
    use giusto_units::{TimeDelta, Timestamp};
    use serde_json::Value;

    use super::*;
    use crate::{
        city::{CityConfig, CitySpec, run, run_logged},
        scenario::{MediaSpec, QueueSpec, VideoSpec},
    };

    fn spec() -> CitySpec {
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
        CitySpec { config, media, queue: QueueSpec::DropTail(Limit::Packets(1000)) }
    }

    #[test]
    fn the_log_agrees_with_the_record_and_is_drawn() {
        let (record, log) = run_logged(&spec(), &crate::city::Alone, |_| ControlFlow::Continue(())).unwrap();
        // To keep a log changes nothing.
        let plain = run(&spec(), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(plain, crate::city::CityRecord { wall_s: plain.wall_s, ..record.clone() });

        assert_eq!(log.calls.len() as u64 + log.other_calls, record.figures.all_calls);
        let handovers: usize = log.calls.iter().map(|call| call.handovers.len()).sum();
        let all = record.figures.handovers;
        assert!(handovers as u64 <= all && all > 0, "{handovers} of {all}");
        for call in &log.calls {
            // 8.33 m in a second, unless the path comes back on the other side of the area.
            let steps = call.path.iter().zip(call.path.iter().skip(2));
            for ((x0, y0), (x1, y1)) in steps {
                let moved = (x1 - x0).hypot(y1 - y0);
                assert!((8.0..18.0).contains(&moved) || moved > 500.0, "call {}: {moved} m", call.number);
            }
        }
        let whole = log.calls.iter().filter(|call| call.samples.len() >= 79);
        for call in whole.clone() {
            let received = call.samples.iter().map(|sample| sample.received_bps).sum::<f64>()
                / call.samples.len() as f64;
            assert!((30e3..3e6).contains(&received), "call {}: {received} bit/s", call.number);
            assert!(call.samples.iter().any(|sample| sample.frame_delay_ms.is_some_and(|ms| ms > 20.0)));
            assert!(call.samples.iter().any(|sample| sample.target_bps > 0));
        }
        assert!(whole.count() > 0);

        let model = serde_json::to_value(city(&record, &log, "t", "c")).unwrap();
        let sections = model["sections"].as_array().unwrap();
        let map = &sections.iter().find(|section| section["kind"] == "map").unwrap()["content"];
        let length = |value: &Value| value.as_array().unwrap().len();
        assert_eq!((length(&map["middles"]), length(&map["sites"])), (21, 7));
        assert_eq!((length(&map["paths"]), length(&map["handovers"])), (log.calls.len(), handovers));
        assert_eq!(map["paths"].as_array().unwrap().iter().filter(|path| path["chosen"] == true).count(), 1);
        assert_eq!(sections.iter().filter(|section| section["kind"] == "chart").count(), 4);
    }
}
