//! The page of a simulated city.

use super::{
    Card, Cell, Chart, Column, Event, Prose, Report, Series, Table,
    finding::ms,
    format::{brief_rate, count, or_unknown, percent, plural, rate, short},
    map::Map,
};
use crate::city::{CallLog, CallSample, CityLog, CityRecord, DirectionRecord};

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
    report.push(figures(record));
    report.push(radio(record));
    report.push(files(record));
    report.push(how_measured(record));
    report
}

/// The finding: rate and delay of the calls.
fn headline(record: &CityRecord) -> String {
    if record.calls == 0 {
        return "No call was long enough within the evaluation to be evaluated.".to_owned();
    }
    format!(
        "{} received {} of video; 98 % of the frames of 95 % of them were complete within {}.",
        plural(record.calls as u64, "call", "calls"),
        brief_rate(record.received_video_bps),
        ms(record.frame_tail_ms),
    )
}

fn cards(record: &CityRecord) -> Vec<Card> {
    let known = |value: f64, write: fn(f64) -> String| {
        or_unknown(Some(value).filter(|value| value.is_finite()), write)
    };
    let radio = if record.direction == "uplink" { record.uplink } else { record.downlink };
    let mut cards = vec![
        Card::new(
            "Frame delay",
            known(record.frame_tail_ms, ms),
            "95th percentile over calls of their 98th percentile",
        ),
        Card::new("Packet delay", known(record.packet_tail_ms, ms), "the same of packets"),
        Card::new("Video received", known(record.received_video_bps, rate), "mean over calls"),
        Card::new("Loss", known(record.loss_ratio, percent), "of packets, mean over calls"),
    ];
    if let Some(radio) = radio {
        let note = format!("of resource blocks, {}", record.direction);
        cards.push(Card::new("Utilisation", percent(radio.used_ratio), note));
    }
    let note = format!("of {}", plural(record.all_calls, "user", "users"));
    cards.push(Card::new("Outside coverage", count(record.uncovered_users), note));
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
    let chart = |title: String, caption: &str, quantity: &str, unit: &'static str| {
        let mut chart = Chart::new(title, caption).with_axes("time (s)", quantity).with_full_width();
        (chart.y.unit, chart.y.from_zero) = (unit, !unit.is_empty());
        chart
    };
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

/// A table of quantities and values.
fn values(title: &str, caption: &str, rows: Vec<(&str, String)>) -> Table {
    Table {
        title: title.to_owned(),
        caption: caption.to_owned(),
        columns: vec![Column::words("quantity"), Column::number("value")],
        rows: rows.into_iter().map(|(name, value)| vec![Cell::from(name), Cell::from(value)]).collect(),
        folded: false,
    }
}

fn figures(record: &CityRecord) -> Table {
    let known = |value: f64, write: fn(f64) -> String| {
        or_unknown(Some(value).filter(|value| value.is_finite()), write)
    };
    values(
        "Calls",
        "Of the packets and frames sent within the evaluation, in calls of which at least 5 s are in it.",
        vec![
            ("controller", record.controller.clone()),
            ("direction of the media", record.direction.to_owned()),
            ("speed of the users", format!("{} km/h", short(record.speed_kmh))),
            ("calls in a cell, mean", short(record.users_per_cell)),
            ("calls evaluated", record.calls.to_string()),
            ("frame delay, 95 % of calls, 98 % of frames", known(record.frame_tail_ms, ms)),
            ("packet delay, 95 % of calls, 98 % of packets", known(record.packet_tail_ms, ms)),
            ("packet delay, median", known(record.packet_median_ms, ms)),
            ("loss", known(record.loss_ratio, percent)),
            ("video sent", known(record.sent_video_bps, rate)),
            ("video received", known(record.received_video_bps, rate)),
            ("frames skipped by the sender", percent(record.skipped_ratio)),
            ("users with a call, all", count(record.all_calls)),
            ("of them outside coverage", count(record.uncovered_users)),
        ],
    )
}

fn radio(record: &CityRecord) -> Table {
    let of = |write: &dyn Fn(&DirectionRecord) -> String| {
        [record.downlink, record.uplink].map(|radio| Cell::from(or_unknown(radio.as_ref(), write)))
    };
    let row = |name: &str, write: &dyn Fn(&DirectionRecord) -> String| {
        let [down, up] = of(write);
        vec![Cell::from(name), down, up]
    };
    Table {
        title: "Radio".to_owned(),
        caption: format!(
            "Over the whole run and all 21 cells; {}. A direction without figures is modelled as a constant delay.",
            plural(record.handovers, "handover", "handovers"),
        ),
        columns: vec![Column::words("quantity"), Column::number("downlink"), Column::number("uplink")],
        rows: vec![
            row("decoded rate of a cell", &|radio| rate(radio.cell_throughput_bps)),
            row("resource blocks used", &|radio| percent(radio.used_ratio)),
            row("first transmissions that failed", &|radio| percent(radio.first_error_ratio)),
            row("transport blocks lost", &|radio| count(radio.lost_blocks)),
            row("interference over noise", &|radio| {
                or_unknown(radio.interference_over_noise_db, |db| format!("{db:.1} dB"))
            }),
        ],
        folded: false,
    }
}

fn files(record: &CityRecord) -> Table {
    let time = Some(record.file_time_s).filter(|_| record.completed_files > 0);
    values(
        "File transfers",
        "Objects over TCP, each of a user of its own.",
        vec![
            ("begun", count(record.files)),
            ("completed", count(record.completed_files)),
            ("given up", count(record.abandoned_files)),
            ("mean time of a completed one", or_unknown(time, |seconds| ms(seconds * 1e3))),
        ],
    )
}

fn how_measured(record: &CityRecord) -> Prose {
    let terms = [
        (
            "SINR",
            "Signal to interference and noise ratio. Interference is that of the cells that transmit in the same millisecond.",
        ),
        (
            "Frame delay",
            "From the capture of a video frame until it is complete at the receiver: the queue of the sender included.",
        ),
        ("Packet delay", "From the departure of an IP packet at the sender to its arrival at the receiver."),
        (
            "Outside coverage",
            "Users whose wideband SINR at full load was below -7 dB when they arrived. They call nevertheless.",
        ),
    ];
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
        let (record, log) = run_logged(&spec(), |_| ControlFlow::Continue(())).unwrap();
        // To keep a log changes nothing.
        let plain = run(&spec(), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(plain, crate::city::CityRecord { wall_s: plain.wall_s, ..record.clone() });

        assert_eq!(log.calls.len() as u64 + log.other_calls, record.all_calls);
        let handovers: usize = log.calls.iter().map(|call| call.handovers.len()).sum();
        assert!(
            handovers as u64 <= record.handovers && record.handovers > 0,
            "{handovers} of {}",
            record.handovers
        );
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
