//! The tables of a simulated city in the terminal.

use crate::{
    city::{CityRecord, CityRun, DirectionRecord},
    view::{
        format::{UNKNOWN, count, or_unknown, percent, plural, rate, short, time_us},
        table::{Column, fitted},
        tables,
    },
};

/// Tables of the calls, of the radio and of file transfers, at most `width` characters wide if possible, and a line for each check.
pub fn tables(run: &CityRun, width: u16) -> String {
    let checks: Vec<String> = run.checks.iter().map(tables::check).collect();
    let parts = [heading(run), figures(&run.city, width), checks.join("\n")];
    parts.join("\n").trim_end().to_owned()
}

/// Tables of the calls, of the radio and of file transfers, at most `width` characters wide if possible.
pub fn figures(record: &CityRecord, width: u16) -> String {
    let one = std::slice::from_ref(record);
    let radio: Vec<Radio> = [("downlink", record.downlink), ("uplink", record.uplink)]
        .into_iter()
        .filter_map(|(name, record)| Some((name, record?)))
        .collect();
    let files = if record.files > 0 { fitted(FILES, one, width) + "\n" } else { String::new() };
    let users = format!(
        "{} of {} had no coverage on arrival; {}\n",
        count(record.uncovered_users),
        plural(record.all_calls, "call", "calls"),
        plural(record.handovers, "handover", "handovers")
    );
    [fitted(CALLS, one, width), fitted(RATES, one, width), fitted(RADIO, &radio, width)].join("\n")
        + "\n"
        + &files
        + &users
}

type Radio = (&'static str, DirectionRecord);

const CALLS: &[Column<CityRecord>] = &[
    Column::words("calls", 0, |record| {
        format!("{} {} {}", count(record.calls as u64), record.direction, record.controller)
    }),
    Column::number("frame delay ms\np98 of a call, p95 of calls", 0, |record| {
        known(record.frame_tail_ms, short)
    }),
    Column::number("packet delay ms\np98 of a call, p95 of calls", 2, |record| {
        known(record.packet_tail_ms, short)
    }),
    Column::number("packet delay ms\nmedian", 1, |record| known(record.packet_median_ms, short)),
];

const RATES: &[Column<CityRecord>] = &[
    Column::number("video\nsent", 0, |record| known(record.sent_video_bps, rate)),
    Column::number("\nreceived", 0, |record| known(record.received_video_bps, rate)),
    Column::number("frames\nskipped", 0, |record| known(record.skipped_ratio, percent)),
    Column::number("packet\nloss", 0, |record| known(record.loss_ratio, percent)),
];

const RADIO: &[Column<Radio>] = &[
    Column::words("radio", 0, |(name, _)| (*name).to_owned()),
    Column::number("cell\nthroughput", 0, |(_, radio)| rate(radio.cell_throughput_bps)),
    Column::number("utilisation", 0, |(_, radio)| percent(radio.used_ratio)),
    Column::number("block\nerror", 0, |(_, radio)| percent(radio.first_error_ratio)),
    Column::number("lost\nblocks", 0, |(_, radio)| count(radio.lost_blocks)),
    Column::number("interference\nover noise dB", 0, |(_, radio)| {
        or_unknown(radio.interference_over_noise_db, short)
    }),
];

const FILES: &[Column<CityRecord>] = &[
    Column::number("files", 0, |record| count(record.files)),
    Column::number("completed", 0, |record| count(record.completed_files)),
    Column::number("given up", 0, |record| count(record.abandoned_files)),
    Column::number("mean time", 0, |record| {
        if record.completed_files > 0 { time_us(record.file_time_s * 1e6) } else { UNKNOWN.to_owned() }
    }),
];

/// The name of the run, its duration and its city.
fn heading(run: &CityRun) -> String {
    let CityRun { scenario, seed, duration_s, wall_s, events, interrupted, city, .. } = run;
    let speed = if *wall_s > 0.0 {
        format!(" in {}, {} times as fast", time_us(wall_s * 1e6), short(duration_s / wall_s))
    } else {
        String::new()
    };
    let early = if *interrupted { ", ended early: nothing was checked" } else { "" };
    let events = plural(*events, "event", "events");
    let users = format!("{} users per cell at {} km/h", city.users_per_cell, short(city.speed_kmh));
    format!("{scenario}, seed {seed}: {duration_s} s{speed}, {events}{early}\n{users}\n")
}

/// A figure, if there is one: a mean over nothing is not a number.
fn known(value: f64, write: fn(f64) -> String) -> String {
    or_unknown(Some(value).filter(|value| value.is_finite()), write)
}
