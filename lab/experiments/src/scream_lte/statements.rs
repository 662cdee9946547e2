//! What is judged: the published numbers, and statements that follow from them.

use giusto::view::sweep::Interval;

use super::{
    ScreamLte,
    published::{Link, PLACES, Published, Quantity, TABLES, Table, table_of},
};
use crate::item::{Item, Rule, Spread, Statement};

/// A published number agrees within this factor.
pub(super) const FACTOR: f64 = 2.0;

/// A loss also agrees within this many percentage points.
pub(super) const LOSS_POINTS: f64 = 1.0;

/// Tolerance of the ratio of bitrates.
pub(super) const RATIO: f64 = 0.3;

/// Tolerance of the ratio of loads at saturation.
const SATURATION: f64 = 0.15;

/// How a published number is judged.
pub(super) fn rule(quantity: Quantity, published: f64) -> Rule {
    let (low, high) = (published / FACTOR, published * FACTOR);
    match quantity {
        Quantity::Loss => Rule::Between(low.min(published - LOSS_POINTS), high.max(published + LOSS_POINTS)),
        _ => Rule::Between(low, high),
    }
}

/// Every number of the tables.
pub(super) fn numbers(all: &ScreamLte) -> Vec<Item> {
    let mut items = Vec::new();
    for table in &TABLES {
        for row in &table.rows {
            for quantity in Quantity::ALL {
                let (name, short, unit) = quantity.names();
                let published = row.value(quantity);
                let ours = all.mean(table.place, row.users, table.of.controller(), quantity);
                let statement = Statement::ratio(
                    format!("table-{}-{short}-{}", table.number, row.users),
                    format!("{name}, {}, {} users", heading(table), row.users),
                    published,
                    rule(quantity, published),
                    (),
                );
                let why = why_number(table, quantity, published, ours.map(|ours| ours.mean));
                items.push(judged(&statement.in_unit(unit).because(why), ours));
            }
        }
    }
    items
}

/// Ratios, saturation, and where the tails cross.
pub(super) fn derived(all: &ScreamLte) -> Vec<Item> {
    let mut items = ratios(all);
    items.extend([Link::Downlink, Link::Uplink].map(|link| saturation(all, link)));
    for quantity in [Quantity::PacketTail, Quantity::FrameTail] {
        items.extend(PLACES.iter().filter_map(|&place| crossover(all, place, quantity)));
    }
    items
}

/// The item with the mean over seeds and its confidence interval.
fn judged(statement: &Statement<()>, ours: Option<Interval>) -> Item {
    let spread = ours.map(|ours| Spread {
        low: ours.low.unwrap_or(ours.mean),
        median: ours.mean,
        high: ours.high.unwrap_or(ours.mean),
    });
    let item = statement.judge(spread);
    let (low, high) = (ours.and_then(|ours| ours.low), ours.and_then(|ours| ours.high));
    Item { ours_low: low, ours_high: high, ..item }
}

/// SCReAM's bitrate over GCC's, at each load.
fn ratios(all: &ScreamLte) -> Vec<Item> {
    let mut items = Vec::new();
    for place in PLACES {
        let [Some(gcc), Some(scream)] = Published::ALL.map(|of| table_of(place, of)) else { continue };
        for (gcc, scream) in gcc.rows.iter().zip(&scream.rows) {
            let published = scream.value(Quantity::Rate) / gcc.value(Quantity::Rate);
            let ratios: Vec<f64> = all
                .pairs(place, gcc.users, Quantity::Rate)
                .into_iter()
                .map(|(_, [gcc, scream])| scream / gcc)
                .collect();
            let ours = Interval::of(&ratios);
            let is_low = ours.is_some_and(|ours| ours.mean < published);
            let statement = Statement::ratio(
                format!("ratio-{}-{}", of_place(place), gcc.users),
                format!("SCReAM over GCC, bitrate, {}, {} users", in_words(place), gcc.users),
                published,
                Rule::Near(RATIO),
                (),
            )
            .because(if is_low { WHY_CELLS_CARRY_MORE } else { WHY_GROWTH });
            items.push(judged(&statement, ours));
        }
    }
    items
}

/// SCReAM's video in a cell, 30 against 3 km/h: users times bitrate, the mean of the two highest loads.
fn saturation(all: &ScreamLte, link: Link) -> Item {
    let rows = |speed| table_of((link, speed), Published::Scream).map(|table| table.rows);
    let highest = |speed: u32, rate: &dyn Fn(u32, &super::published::Row) -> Option<f64>| {
        let loads =
            rows(speed)?.into_iter().rev().take(2).map(|row| Some(f64::from(row.users) * rate(speed, &row)?));
        Some(loads.sum::<Option<f64>>()? / 2.0)
    };
    let ratio = |rate: &dyn Fn(u32, &super::published::Row) -> Option<f64>| {
        Some(highest(30, rate)? / highest(3, rate)?)
    };
    let published = ratio(&|_, row| Some(row.value(Quantity::Rate))).unwrap_or(f64::NAN);
    let controller = Published::Scream.controller();
    let of_seed = |seed: u64| {
        ratio(&|speed, row| {
            let mut runs = all.at(super::JUDGED, (link, speed), row.users, controller);
            runs.find(|run| run.seed == seed)?.value(Quantity::Rate)
        })
    };
    let ratios: Vec<f64> = (1..=all.plan.seeds).filter_map(of_seed).collect();
    let statement = Statement::ratio(
        format!("saturation-{}", link.name()),
        format!("SCReAM's video in a full cell, 30 over 3 km/h, {}", link.name()),
        published,
        Rule::Within(SATURATION),
        (),
    );
    judged(&statement.because(WHY_UNSAID), Interval::of(&ratios))
}

/// The load from which on SCReAM's tail is lower than GCC's.
fn crossover(all: &ScreamLte, place: (Link, u32), quantity: Quantity) -> Option<Item> {
    let [gcc, scream] = Published::ALL.map(|of| table_of(place, of));
    let (gcc, scream) = (gcc?, scream?);
    let tails = gcc.rows.iter().zip(&scream.rows);
    let tails = tails.map(|(gcc, scream)| Some([gcc.value(quantity), scream.value(quantity)]));
    let published = crossing(&gcc.rows.map(|row| row.users), tails)?;
    let of_seed = |seed: u64| {
        let tails = gcc.rows.iter().map(|row| {
            let pairs = all.pairs(place, row.users, quantity);
            pairs.into_iter().find(|(of, _)| *of == seed).map(|(_, tails)| tails)
        });
        crossing(&gcc.rows.map(|row| row.users), tails)
    };
    let means = gcc.rows.iter().map(|row| {
        let [gcc, scream] = Published::ALL.map(|of| all.mean(place, row.users, of.controller(), quantity));
        Some([gcc?.mean, scream?.mean])
    });
    let seeds: Vec<f64> = (1..=all.plan.seeds).filter_map(of_seed).collect();
    let ours = crossing(&gcc.rows.map(|row| row.users), means).map(|mean| Interval {
        mean,
        low: seeds.iter().copied().reduce(f64::min).filter(|_| seeds.len() > 1),
        high: seeds.iter().copied().reduce(f64::max).filter(|_| seeds.len() > 1),
    });
    let (name, short, _) = quantity.names();
    let statement = Statement::ratio(
        format!("crossover-{short}-{}", of_place(place)),
        format!("users from which SCReAM has the lower {name}, {}", in_words(place)),
        published,
        Rule::Within(0.0),
        (),
    );
    let is_early = ours.is_some_and(|ours| ours.mean < published);
    // The draft's full uplink carries as much as ours.
    let why = match place.0 {
        _ if is_early => WHY_UNSAID,
        Link::Downlink => WHY_CELLS_CARRY_MORE,
        Link::Uplink => WHY_GROWTH,
    };
    Some(judged(&statement.in_unit("users").because(why), ours))
}

/// The first load from which on the second tail is lower; one more than the highest load if there is none. `None` if a tail is missing.
pub(super) fn crossing(users: &[u32], tails: impl Iterator<Item = Option<[f64; 2]>>) -> Option<f64> {
    let tails: Vec<[f64; 2]> = tails.collect::<Option<_>>()?;
    let lower = tails.iter().rev().take_while(|[gcc, scream]| scream < gcc).count();
    let first = users.len().checked_sub(lower)?;
    Some(f64::from(users.get(first).copied().or_else(|| Some(users.last()? + 1))?))
}

/// Where a table is: "downlink, 3 km/h, GCC".
pub(super) fn heading(table: &Table) -> String {
    format!("{}, {}", in_words(table.place), table.of.name())
}

/// A direction and a speed.
pub(super) fn in_words((link, speed): (Link, u32)) -> String {
    format!("{}, {speed} km/h", link.name())
}

fn of_place((link, speed): (Link, u32)) -> String {
    format!("{}-{speed}", link.name())
}

const WHY_GROWTH: &str = "With 2 users our GCC meets no over-use in a run, neither down nor up. Frame delays have a noise of 39 ms² down and 70 \
                          ms² up (medians), with which its rule grows by 3.4 and 2.7 % a second, so the length of the calls decides its bitrate: \
                          see the reading of 60 s. The draft does not state the length, and its faster uplink needs less noise there, or more \
                          frequent changes. Nor does ours fill the uplink's queues within 30 s at 3 km/h.";
const WHY_CELLS_CARRY_MORE: &str = "Our cells carry 18 Mbit/s down and 8 up, near 3GPP's 16.9 and 7.4. With SCReAM and the most users the \
                                    draft's carry 34 (3 km/h) and 41 % (30 km/h) of our video down, so users share less and GCC meets full \
                                    queues at lower loads: see the reading of 5 MHz. Up they carry 78 and 103 %.";
const WHY_UNSAID: &str = "Depends on AQM, scheduler, antennas and video, which the draft leaves unsaid. It asks to read its tables as \
                          comparisons, not as exact values.";

/// Why a number differs.
fn why_number(table: &Table, quantity: Quantity, published: f64, ours: Option<f64>) -> &'static str {
    let is_more = ours.is_some_and(|ours| ours > published);
    match (quantity, table.of) {
        (Quantity::Rate, Published::Gcc) if !is_more => WHY_GROWTH,
        (Quantity::Rate, _) if is_more => WHY_CELLS_CARRY_MORE,
        (_, Published::Gcc) if !is_more && table.place.0 == Link::Uplink => WHY_GROWTH,
        (Quantity::FrameTail | Quantity::PacketTail | Quantity::Loss, _) if !is_more => WHY_CELLS_CARRY_MORE,
        _ => WHY_UNSAID,
    }
}
