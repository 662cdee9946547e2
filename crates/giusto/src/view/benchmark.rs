//! A benchmark as tables.

use crate::{
    benchmark::{
        ControllerSummary, Family, FamilySummary, Figures, Interval95, SeedIntervals, Summary, Utility,
    },
    view::{
        format::{or_unknown, percent, short, signed},
        table::{Column, Grid, Head, of_cells},
    },
};

const NOTE: &str = "Medians over the runs unless stated; missed: mean share of frames that were\nskipped, never whole or late. Use < 0.4: of the runs alone. Utility from 0 to\n1; of bound: over that of bound:causal. Last rows: what was attainable, and\nconstant rates; no controllers.\n";

const SEEDS_NOTE: &str =
    "Each seed's figure is one value: their mean, and half of its 95 % confidence interval\n(Student's t).\n";

/// All tables, at most `width` characters wide if possible, the best controller first.
pub fn text(summary: &Summary, width: u16) -> String {
    let ranked = ranked(summary);
    let tables = [
        overview(summary, &ranked).text(width),
        NOTE.to_owned(),
        over_seeds(summary, &ranked).map_or_else(String::new, |grid| {
            heading(&format!("Over {} seeds", summary.seeds.len())) + &grid.text(width) + SEEDS_NOTE
        }),
        heading("Under scores of others"),
        other_scores(&ranked).text(width),
        changes(&ranked),
        heading("Utility by family, median"),
        families(&ranked, width),
        heading("Goals"),
        goals(&ranked).text(width),
        pairs(summary, &ranked, width),
        worst(&ranked),
    ];
    tables.concat()
}

fn heading(text: &str) -> String {
    format!("\n{text}\n")
}

/// The controllers by their mean utility.
pub fn ranked(summary: &Summary) -> Vec<&ControllerSummary> {
    let mut ranked: Vec<&ControllerSummary> = summary.controllers.iter().collect();
    crate::order::sort_by(&mut ranked, |a, b| b.all.utility_mean.total_cmp(&a.all.utility_mean));
    ranked
}

/// A name, and all its runs.
type Judged<'a> = (&'a String, &'a FamilySummary);

/// All that was judged: the controllers in their order, then the references.
fn judged<'a>(summary: &'a Summary, ranked: &[&'a ControllerSummary]) -> Vec<Judged<'a>> {
    let references = summary.references.iter().map(|own| (&own.name, &own.all));
    ranked.iter().map(|own| (&own.name, &own.all)).chain(references).collect()
}

/// The controllers over all runs, then the references, in the terminal and on the page.
pub(super) fn overview(summary: &Summary, ranked: &[&ControllerSummary]) -> Grid {
    let columns: [Column<Judged<'_>>; 13] = [
        Column::words("controller", 0, |(name, _)| (*name).clone()),
        Column::number("runs", 5, |(_, own)| own.runs.to_string()),
        Column::number("utility\nmean", 0, |(_, own)| two(own.utility_mean)),
        Column::number("of\nbound", 0, |(_, own)| of_bound(own)),
        Column::number("median", 3, |(_, own)| two(own.utility)),
        Column::number("p10", 4, |(_, own)| two(own.spread.utility[0])),
        Column::number("use", 0, |(_, own)| two(own.utilisation_ratio)),
        Column::number("frame delay\np95 ms", 0, |(_, own)| short(own.frame_delay_p95_ms)),
        Column::number("queueing delay\np95 ms", 1, |(_, own)| short(own.queue_delay_p95_ms)),
        Column::number("loss", 6, |(_, own)| percent(own.loss_ratio)),
        Column::number("missed\nframes", 0, |(_, own)| percent(own.missed_frames_ratio)),
        Column::number(COLLAPSED, 0, |(_, own)| percent(own.collapsed_ratio)),
        Column::number("utility\n< 0.2", 2, |(_, own)| percent(own.poor_ratio)),
    ];
    Grid::of(&columns, &judged(summary, ranked))
}

/// All that was judged over the seeds, if there are several: means with intervals.
pub(super) fn over_seeds(summary: &Summary, ranked: &[&ControllerSummary]) -> Option<Grid> {
    let columns: [Column<(&String, SeedIntervals)>; 8] = [
        Column::words("controller", 0, |(name, _)| (*name).clone()),
        Column::number("utility\nmean", 0, |(_, own)| three(own.utility_mean)),
        Column::number("of\nbound", 0, |(_, own)| or_unknown(own.bound_ratio, three)),
        Column::number("use", 1, |(_, own)| three(own.utilisation_ratio)),
        Column::number("frame delay\np95 ms", 1, |(_, own)| centred(own.frame_delay_p95_ms, short)),
        Column::number("missed\nframes", 0, |(_, own)| centred(own.missed_frames_ratio, percent)),
        Column::number(COLLAPSED, 0, |(_, own)| centred(own.collapsed_ratio, percent)),
        Column::number("utility\n< 0.2", 2, |(_, own)| centred(own.poor_ratio, percent)),
    ];
    let rows = judged(summary, ranked).into_iter();
    let rows: Vec<_> = rows.filter_map(|(name, own)| Some((name, own.over_seeds?))).collect();
    (!rows.is_empty()).then(|| Grid::of(&columns, &rows))
}

/// The middle of an interval, and half of its width.
fn centred([low, high]: Interval95, write: impl Fn(f64) -> String) -> String {
    format!("{} ± {}", write(f64::midpoint(low, high)), write((high - low) / 2.0))
}

/// The same with three decimals.
fn three(own: Interval95) -> String {
    centred(own, |value| format!("{value:.3}"))
}

/// The names of the families: those of random scenarios in their order, then others.
pub(super) fn family_names(ranked: &[&ControllerSummary]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> =
        ranked.iter().flat_map(|own| own.families.keys()).collect();
    let place = |name: &String| Family::ALL.iter().position(|family| family.name() == name);
    let mut names: Vec<String> = all.into_iter().cloned().collect();
    crate::order::sort_by_key(&mut names, |name| place(name).unwrap_or(usize::MAX));
    names
}

/// The heading of the column of collapsed runs.
pub(super) const COLLAPSED: &str = "use\n< 0.4";

/// A score, its name, and what it is.
type OtherScore = (fn(&FamilySummary) -> f64, &'static str, &'static str);

/// The scores of others.
const OTHER_SCORES: [OtherScore; 2] = [
    (
        |own| own.challenge_score,
        "challenge",
        "network score of the MMSys 2021 challenge of bandwidth estimation: delay, received rate, loss",
    ),
    (|own| own.power, "power", "Kleinrock's power: use over frame delay p95 in 100 ms, geometric mean"),
];

/// The place of each of `ranked` by a score, from 1 on.
fn places(ranked: &[&ControllerSummary], score: fn(&FamilySummary) -> f64) -> Vec<usize> {
    let above = |own: &&ControllerSummary| {
        ranked.iter().filter(|other| score(&other.all).total_cmp(&score(&own.all)).is_gt()).count()
    };
    ranked.iter().map(|own| above(own) + 1).collect()
}

/// The controllers under scores of others: score and place.
pub(super) fn other_scores(ranked: &[&ControllerSummary]) -> Grid {
    let mut columns = vec![Head::words("controller", 0), Head::number("utility", 0)];
    let mut rows: Vec<Vec<String>> = ranked
        .iter()
        .zip(places(ranked, |own| own.utility_mean))
        .map(|(own, place)| vec![own.name.clone(), format!("{:.3} ({place})", own.all.utility_mean)])
        .collect();
    for (score, name, _) in OTHER_SCORES {
        columns.push(Head::number(name, 0));
        for ((row, own), place) in rows.iter_mut().zip(ranked).zip(places(ranked, score)) {
            row.push(format!("{:.3} ({place})", score(&own.all)));
        }
    }
    Grid::of_rows(columns, &rows)
}

/// What changes places under the scores of others.
pub(super) fn changes(ranked: &[&ControllerSummary]) -> String {
    let of = |(score, name, what): OtherScore| {
        let mut moved: Vec<(usize, usize, &str)> = ranked
            .iter()
            .zip(places(ranked, |own| own.utility_mean))
            .zip(places(ranked, score))
            .filter(|((_, from), to)| from != to)
            .map(|((own, from), to)| (from, to, own.name.as_str()))
            .collect();
        crate::order::sort_by_key(&mut moved, |(from, to, _)| std::cmp::Reverse(from.abs_diff(*to)));
        let listed: Vec<String> =
            moved.iter().take(3).map(|(from, to, name)| format!("{name} {from} to {to}")).collect();
        let which = if listed.is_empty() {
            "no controller changes its place".to_owned()
        } else {
            format!("{} of {} change places: {}", moved.len(), ranked.len(), listed.join(", "))
        };
        format!("{name} ({what}): {which}.\n")
    };
    OTHER_SCORES.into_iter().map(of).collect()
}

/// The mean utility over that of the causal bound.
pub(super) fn of_bound(own: &FamilySummary) -> String {
    or_unknown(own.bound_ratio, two)
}

/// The same, and half of its interval over seeds.
pub(super) fn of_bound_over_seeds(own: &FamilySummary) -> String {
    own.over_seeds.and_then(|own| own.bound_ratio).map_or_else(|| of_bound(own), |own| centred(own, two))
}

pub(super) fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn families(ranked: &[&ControllerSummary], width: u16) -> String {
    let row = |family: String| {
        let of = |own: &&ControllerSummary| own.families.get(&family).map(|own| two(own.utility));
        let cells: Option<Vec<String>> = ranked.iter().map(of).collect();
        Some(std::iter::once(family.clone()).chain(cells?).collect())
    };
    of_cells(&heads("family", ranked), family_names(ranked).into_iter().filter_map(row).collect(), width)
}

/// A goal in a summary, its name in tables, and how its figure is written.
type GoalRow = (&'static str, &'static str, fn(f64) -> String);

/// The goals.
const GOALS: &[GoalRow] = &[
    ("dominated_families", "families with another better in use and delay", |value| format!("{value:.0}")),
    ("dominated_runs_ratio", "runs with another better in use and delay", percent),
    ("collapsed_ratio", "collapsed, alone", percent),
    ("steady_utilisation_ratio", "steady: use", two),
    ("steady_queue_delay_p95_ms", "steady: queueing delay p95, ms", short),
    ("steady_missed_frames_ratio", "steady: missed frames", percent),
    ("fading_missed_frames_ratio", "fades and stalls: missed frames", percent),
    ("tcp_fair_ratio", "0.5 to 1.5 of the share beside CUBIC, NewReno", percent),
    ("equal_calls_fair_ratio", "equal calls: Jain of 0.95 or more", percent),
    ("loss_to_6_utilisation_ratio", "random loss to 6 %: use", two),
    ("loss_to_20_utilisation_ratio", "random loss above 6 %: use", two),
    ("rise_within_3_s_ratio", "90 % of a step up within 3 s", percent),
    ("queue_delay_after_fall_p95_ms", "after a fall to a third: queueing delay p95, ms", short),
    ("l4s_utilisation_ratio", "L4S: use", two),
    ("l4s_queue_delay_p95_ms", "L4S: queueing delay p95, ms", short),
];

/// A row for each goal: its name, and the figure of each controller.
pub(super) fn goals(ranked: &[&ControllerSummary]) -> Grid {
    let row = |(key, name, write): &GoalRow| {
        let of = |own: &&ControllerSummary| {
            own.goals.get(key).map_or_else(
                || "–".to_owned(),
                |goal| goal.over_seeds.map_or_else(|| write(goal.value), |own| centred(own, write)),
            )
        };
        std::iter::once((*name).to_owned()).chain(ranked.iter().map(of)).collect()
    };
    let is_known = |(key, ..): &&GoalRow| ranked.iter().any(|own| own.goals.contains_key(key));
    Grid::of_rows(heads("goal", ranked), &GOALS.iter().filter(is_known).map(row).collect::<Vec<_>>())
}

/// A column of words, and one of numbers for each controller: the first ones are shown at any width.
pub(super) fn heads(first: &str, ranked: &[&ControllerSummary]) -> Vec<Head> {
    let controllers = ranked.iter().zip(0..).map(|(own, place)| Head::number(&own.name, place));
    std::iter::once(Head::words(first, 0)).chain(controllers).collect()
}

/// The best controller against each other one.
fn pairs(summary: &Summary, ranked: &[&ControllerSummary], width: u16) -> String {
    let Some((best, others)) = ranked.split_first() else { return String::new() };
    let row = |other: &&ControllerSummary| {
        let (difference, [low, high], wins) = difference(summary, &best.name, &other.name)?;
        Some(vec![
            other.name.clone(),
            signed(difference, 3),
            format!("{} to {}", signed(low, 3), signed(high, 3)),
            percent(wins),
        ])
    };
    let rows: Vec<Vec<String>> = others.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        Head::words("", 0),
        Head::number("mean difference\nof utility", 0),
        Head::number("95 % interval", 0),
        Head::number("wins", 0),
    ];
    heading(&format!("{} against", best.name)) + &of_cells(&columns, rows, width)
}

/// The mean difference of utility of `a` and `b`, its interval and the share of wins of `a`.
pub fn difference(summary: &Summary, a: &str, b: &str) -> Option<(f64, [f64; 2], f64)> {
    summary.pairs.iter().find_map(|pair| {
        let [low, high] = pair.interval;
        if (pair.a.as_str(), pair.b.as_str()) == (a, b) {
            Some((pair.utility_difference, [low, high], pair.wins_ratio))
        } else if (pair.a.as_str(), pair.b.as_str()) == (b, a) {
            Some((-pair.utility_difference, [-high, -low], 1.0 - pair.wins_ratio))
        } else {
            None
        }
    })
}

/// The worst run of each controller.
fn worst(ranked: &[&ControllerSummary]) -> String {
    let line = |own: &&ControllerSummary| {
        let worst = own.worst.first()?;
        Some(format!(
            "{}: utility {:.2}, the best had {:.2}: {}\n",
            own.name, worst.utility, worst.best_utility, worst.command
        ))
    };
    heading("The run of each in which it was furthest behind")
        + &ranked.iter().filter_map(line).collect::<String>()
}

/// The figures of one run; empty without a run.
pub fn run(figures: Option<&Figures>) -> String {
    let Some(own) = figures else { return String::new() };
    let Utility { total, rate, delay, frames, freezes } = own.utility;
    format!(
        "\nJudged: use {:.2}, frame delay {} / {} / {} ms (p50, p95, p99), queueing delay p95 {} ms, loss {}\n\
         frames skipped {}, never whole {}, late {}, repaired {}; freezes {} of the time\n\
         utility {total:.2} = rate {rate:.2} × delay {delay:.2} × frames {frames:.2} × freezes {freezes:.2}\n",
        own.utilisation_ratio,
        short(own.frame_delay_p50_ms),
        short(own.frame_delay_p95_ms),
        short(own.frame_delay_p99_ms),
        short(own.queue_delay_p95_ms),
        percent(own.loss_ratio),
        percent(own.skipped_ratio),
        percent(own.missing_ratio),
        percent(own.late_ratio),
        percent(own.repaired_ratio),
        percent(own.freeze_ratio),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn controllers_with_equal_utility_share_a_place() {
        let own = |name: &str, utility_mean, power| ControllerSummary {
            name: name.to_owned(),
            all: FamilySummary {
                utility_mean,
                challenge_score: utility_mean,
                power,
                ..FamilySummary::default()
            },
            families: BTreeMap::new(),
            goals: BTreeMap::new(),
            worst: Vec::new(),
        };
        let ranked = [own("a", 0.5, 1.0), own("b", 0.5, 1.0), own("c", 0.25, 2.0)];
        let changes = changes(&ranked.iter().collect::<Vec<_>>());
        let lines: Vec<&str> = changes.lines().collect();
        assert!(lines[0].ends_with(": no controller changes its place."), "{changes}");
        assert!(lines[1].ends_with(": 3 of 3 change places: c 3 to 1, a 1 to 2, b 1 to 2."), "{changes}");
        let table = other_scores(&ranked.iter().collect::<Vec<_>>()).text(100);
        assert_eq!(
            [table.matches("0.500 (1)").count(), table.matches("0.250 (3)").count()],
            [4, 2],
            "{table}"
        );
    }
}
