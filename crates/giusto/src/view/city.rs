//! The tables of a simulated city in the terminal.

use crate::{
    city::{CityRecord, CityRun, RadioFigures},
    statistics::{CALLS, RADIO, USERS},
    view::{
        format::{plural, short, time_us},
        table::Grid,
        tables,
    },
};

/// Tables of the calls, of the radio and of file transfers, at most `width` characters wide if possible, and a line for each check.
pub fn tables(run: &CityRun, width: u16) -> String {
    let checks: Vec<String> = run.checks.iter().map(tables::check).collect();
    let parts = [heading(run), figures(&run.city, width), checks.join("\n")];
    parts.join("\n").trim_end().to_owned()
}

/// Tables of the calls, of the radio and of users, at most `width` characters wide if possible.
pub fn figures(record: &CityRecord, width: u16) -> String {
    let figures = [&record.figures];
    let mut calls = Grid::default();
    calls.words("city", 0, [format!("{} {}", record.direction, record.controller)]);
    calls.statistics(CALLS, &figures, &[]);
    let directions = [("downlink", &record.figures.downlink), ("uplink", &record.figures.uplink)];
    let directions =
        directions.into_iter().filter_map(|(name, radio)| Some((name.to_owned(), radio.as_ref()?)));
    let (names, radios): (Vec<String>, Vec<&RadioFigures>) = directions.unzip();
    let mut radio = Grid::default();
    radio.words("radio", 0, names);
    radio.statistics(RADIO, &radios, &[]);
    let mut users = Grid::default();
    users.statistics(USERS, &figures, &[]);
    [calls, radio, users].map(|grid| grid.text(width)).join("\n")
}

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
    let doubts = city.doubts.iter().fold(String::new(), |text, doubt| text + "warning: " + doubt + "\n");
    format!("{doubts}{scenario}, seed {seed}: {duration_s} s{speed}, {events}{early}\n{users}\n")
}
