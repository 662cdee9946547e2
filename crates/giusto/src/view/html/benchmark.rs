//! The page of a benchmark: who wins where.

use super::{Block, Cell, Chart, Column, Event, Mark, Prose, Report, Series, Table, Tone};
use crate::{
    benchmark::{ControllerSummary, FamilySummary, Summary},
    view::{
        benchmark::{
            COLLAPSED, changes, difference, family_names, goals, heads, of_bound_over_seeds, other_scores,
            over_seeds, overview, ranked, two,
        },
        format::{decimals, short},
        table::Head,
    },
};

/// The page of a benchmark; `command` makes it again.
pub fn benchmark(summary: &Summary, command: impl Into<String>) -> Report {
    let ranked = ranked(summary);
    let of = match (&summary.recordings, summary.seeds.len()) {
        (Some(recordings), _) => format!("recordings {recordings}"),
        (None, 0 | 1) => format!("seed {}", summary.seed),
        (None, _) => format!("seeds {}", summary.seeds.join(", ")),
    };
    let title = format!("giusto benchmark, version {}, {of}", summary.version);
    let mut report = Report::new(title, headline(summary, &ranked)).with_command(command);
    report.push(utilities(&ranked));
    report.push(pareto(&ranked));
    report.push(winners(&ranked));
    report.push(controllers(summary, &ranked));
    if let Some(grid) = over_seeds(summary, &ranked) {
        let caption = "The figure of each seed is one value: their mean, and half of its 95 % confidence interval (Student's t).";
        report.push(Table::of_grid(&format!("Over {} seeds", summary.seeds.len()), caption, grid));
    }
    report.push(Table::of_grid(
        "Under scores of others",
        format!("Score and place. {}", changes(&ranked)),
        other_scores(&ranked),
    ));
    report.push(by_family(
        "Utility by family",
        "The median over the runs of a family, 0 to 1. Marked: the highest of each row, and those below two thirds of it.",
        &ranked,
        |own| two(own.utility),
        |own, all| match own.utility {
            _ if highest(all) < NOTHING => Tone::Plain,
            utility if utility >= highest(all) => Tone::Good,
            utility if utility < highest(all) * 2.0 / 3.0 => Tone::Bad,
            _ => Tone::Plain,
        },
    ));
    report.push(by_family(
        "Use and frame delay by family",
        "Medians of the use of the fair capacity, and of the 95th percentile of the frame delay in ms. Marked: no other controller is better in both.",
        &ranked,
        |own| format!("{:.2} / {}", own.utilisation_ratio, short(own.frame_delay_p95_ms)),
        |own, all| if all.iter().any(|other| beats(other, own)) { Tone::Plain } else { Tone::Good },
    ));
    report.push(
        by_family(
            "Parts of the utility by family",
            "Medians of rate × delay × frames × freezes.",
            &ranked,
            |own| {
                let parts = [own.parts.rate, own.parts.delay, own.parts.frames, own.parts.freezes];
                parts.map(|part| format!("{part:.2}")).join(" · ")
            },
            |_, _| Tone::Plain,
        )
        .folded(),
    );
    report.push(
        by_family(
            "Share of the bound by family",
            "Mean utility over that of `bound:causal` in the same scenarios; of several seeds, half of its 95 % confidence interval.",
            &ranked,
            of_bound_over_seeds,
            |own, _| {
                own.bound_ratio.map_or(Tone::Plain, |of| if of < 0.85 { Tone::Bad } else { Tone::Plain })
            },
        )
        .folded(),
    );
    let caption = "Each over the runs that docs/reference/benchmark.md names.";
    report.push(Table::of_grid("Goals", caption, goals(&ranked)));
    report.push(pairs(summary, &ranked));
    for own in &ranked {
        report.push(worst(own));
    }
    report.push(how(summary));
    report
}

/// Lower utilities are shown as 0.00: nobody wins with one.
const NOTHING: f64 = 0.005;

fn highest(all: &[&FamilySummary]) -> f64 {
    all.iter().map(|own| own.utility).fold(0.0, f64::max)
}

fn beats(a: &FamilySummary, b: &FamilySummary) -> bool {
    a.utilisation_ratio > b.utilisation_ratio && a.frame_delay_p95_ms < b.frame_delay_p95_ms
}

/// The figures of all controllers in a family.
fn row_of<'a>(ranked: &[&'a ControllerSummary], family: &str) -> Vec<&'a FamilySummary> {
    ranked.iter().filter_map(|own| own.families.get(family)).collect()
}

fn headline(summary: &Summary, ranked: &[&ControllerSummary]) -> String {
    let Some(best) = ranked.first().filter(|best| best.all.runs > 0) else {
        return "No scenario was finished.".to_owned();
    };
    let rows: Vec<Vec<&FamilySummary>> = family_names(ranked)
        .iter()
        .map(|family| row_of(ranked, family))
        .filter(|row| !row.is_empty())
        .collect();
    let is_won =
        |row: &&Vec<&FamilySummary>| row.first().is_some_and(|own| own.utility >= highest(row).max(NOTHING));
    let wins = rows.iter().filter(is_won).count();
    let early = match summary.missing_runs {
        0 => String::new(),
        missing => format!("{missing} runs are missing; their scenarios are left out. "),
    };
    if best.all.utility_mean < NOTHING {
        return format!("{early}No controller has a mean utility above 0.00.");
    }
    let lead = ranked.get(1).and_then(|next| Some((next, difference(summary, &best.name, &next.name)?.1)));
    let lead = lead.map_or_else(String::new, |(next, [low, high])| {
        let name = &next.name;
        if low > 0.0 {
            format!(", {} to {} more than {name}", decimals(low, 3), decimals(high, 3))
        } else {
            format!("; {name} is as good within the 95 % interval")
        }
    });
    format!(
        "{early}{} has the highest mean utility, {:.2}{lead}, and the highest median in {wins} of {} families.",
        best.name,
        best.all.utility_mean,
        rows.len(),
    )
}

fn utilities(ranked: &[&ControllerSummary]) -> Chart {
    let estimate = |own: &&ControllerSummary| {
        let [low, high] = own.all.spread.utility;
        (own.name.clone(), own.all.utility_mean, low, high)
    };
    let mut chart =
        Chart::new("Utility", "Mean over all runs; the lines reach from the 10th to the 90th percentile.")
            .with_series(Series::Estimates {
                name: "utility".to_owned(),
                estimates: ranked.iter().map(estimate).collect(),
            });
    "utility".clone_into(&mut chart.y.title);
    chart.y.range = Some((0.0, 1.0));
    chart
}

fn pareto(ranked: &[&ControllerSummary]) -> Chart {
    let chart = Chart::new(
        "Use against frame delay",
        "Medians over all runs. Better controllers are nearer to the upper left.",
    )
    .with_axes("frame delay p95 (ms)", "use of the fair capacity")
    .with_log_x()
    .with_full_width()
    .with_mark(Mark::AtY(1.0, "fair share".to_owned()));
    let event = |own: &&ControllerSummary| {
        let FamilySummary { utilisation_ratio, frame_delay_p95_ms, .. } = own.all;
        let label = own.name.clone();
        let text =
            format!("{label}: use {utilisation_ratio:.2}, frame delay {} ms", short(frame_delay_p95_ms));
        Event { x: frame_delay_p95_ms, y: utilisation_ratio, text, label }
    };
    chart.with_series(Series::Events { name: String::new(), events: ranked.iter().map(event).collect() })
}

fn controllers(summary: &Summary, ranked: &[&ControllerSummary]) -> Table {
    let caption = "Medians over all runs. Missed frames: mean share of the frames that were skipped, never whole, or more than 400 ms \
                   late. Use < 0.4: of the runs with nothing competing. The last rows are no controllers: `bound:causal` knows the fair \
                   share one RTT and 50 ms late, `bound:oracle` in advance; `fixed` sends a part of the mean share at all times.";
    let mut table = Table::of_grid("Controllers", caption, overview(summary, ranked));
    let collapsed = Column::from(Head::number(COLLAPSED, 0)).name;
    let place = table.columns.iter().position(|column| column.name == collapsed);
    for (row, own) in table.rows.iter_mut().zip(ranked) {
        if let Some(cell) = place.and_then(|place| row.get_mut(place))
            && own.all.collapsed_ratio > 0.05
        {
            cell.tone = Tone::Bad;
        }
    }
    table
}

/// The two best controllers of each family.
fn winners(ranked: &[&ControllerSummary]) -> Table {
    let row = |family: String| {
        let of = |own: &&&ControllerSummary| own.families.contains_key(&family);
        let mut own: Vec<&&ControllerSummary> = ranked.iter().filter(of).collect();
        let utility = |own: &ControllerSummary| own.families.get(&family).map_or(0.0, |own| own.utility);
        crate::order::sort_by(&mut own, |a, b| utility(b).total_cmp(&utility(a)));
        let cell = |own: &&&ControllerSummary| {
            let is_good = utility(own) >= NOTHING;
            Cell::from(if is_good { format!("{} {:.2}", own.name, utility(own)) } else { "–".to_owned() })
        };
        let cells: Vec<Cell> = own.iter().take(2).map(cell).collect();
        (!cells.is_empty()).then(|| std::iter::once(Cell::from(family.clone())).chain(cells))
    };
    let columns = ["family", "best", "next"].map(Column::words).into_iter().take(1 + ranked.len());
    let caption = "The controllers with the highest median utility in each family of scenarios, with that utility; none where it is 0.00.";
    Table::new("Who wins where", caption, columns, family_names(ranked).into_iter().filter_map(row))
}

/// A row for each family, a column for each controller.
fn by_family(
    title: &str,
    caption: &str,
    ranked: &[&ControllerSummary],
    text: impl Fn(&FamilySummary) -> String,
    tone: impl Fn(&FamilySummary, &[&FamilySummary]) -> Tone,
) -> Table {
    let row = |family: String| {
        let all = row_of(ranked, &family);
        let cells = all.iter().map(|own| Cell::toned(text(own), tone(own, &all)));
        let complete = !all.is_empty() && all.len() == ranked.len();
        complete.then(|| std::iter::once(Cell::from(family.clone())).chain(cells).collect::<Vec<_>>())
    };
    Table::new(title, caption, columns("family", ranked), family_names(ranked).into_iter().filter_map(row))
}

fn columns(first: &str, ranked: &[&ControllerSummary]) -> impl Iterator<Item = Column> {
    heads(first, ranked).into_iter().map(Column::from)
}

/// Each controller against each other one.
fn pairs(summary: &Summary, ranked: &[&ControllerSummary]) -> Table {
    let row = |own: &&ControllerSummary| {
        let cell = |other: &&ControllerSummary| match difference(summary, &own.name, &other.name) {
            Some((mean, [low, high], _)) => {
                let tone = if low > 0.0 {
                    Tone::Good
                } else if high < 0.0 {
                    Tone::Bad
                } else {
                    Tone::Plain
                };
                Cell::toned(format!("{mean:+.2} ({low:+.2} to {high:+.2})"), tone)
            }
            None => Cell::from("–"),
        };
        std::iter::once(Cell::from(own.name.clone())).chain(ranked.iter().map(cell)).collect::<Vec<_>>()
    };
    let caption = "Mean difference of the utility on the same scenarios, row less column, and its 95 % interval (bootstrap; of \
                   fewer than 20, Student's t). Marked: the interval does not contain 0.";
    Table::new("Pairs", caption, columns("", ranked), ranked.iter().map(row)).folded()
}

fn worst(own: &ControllerSummary) -> Table {
    let row = |run: &crate::benchmark::WorstRun| {
        [
            run.recording.as_ref().unwrap_or(&run.family).clone(),
            run.scenario.to_string(),
            two(run.utility),
            two(run.best_utility),
            two(run.utilisation_ratio),
            short(run.frame_delay_p95_ms),
            format!("`{}`", run.command),
        ]
    };
    let numbers = ["scenario", "utility", "best utility", "use", "frame delay p95 (ms)"].map(Column::number);
    let columns = std::iter::once(Column::words("family")).chain(numbers).chain([Column::words("command")]);
    let title = format!("{}: the runs in which it was furthest behind", own.name);
    let caption = "The command repeats the run and explains the target where the frame delay was longest; with --out it writes the scenario and \
                   its page.";
    Table::new(title, caption, columns, own.worst.iter().map(row)).folded()
}

fn how(summary: &Summary) -> Prose {
    let scenarios = match (&summary.recordings, summary.seeds.len()) {
        (Some(_), _) => format!("{} scenarios, made of recorded links", summary.scenarios),
        (None, 0 | 1) => format!("{} scenarios of seed {:?}, drawn", summary.scenarios, summary.seed),
        (None, seeds) => format!("{} scenarios of each of {seeds} seeds, drawn", summary.scenarios),
    };
    let text = format!(
        "{scenarios} by version {} of the benchmark, each under every controller with the same random numbers. Figures \
         begin 5 s after the start of a call. Frame delay is the time from the capture of a frame until it, or a later one, was complete, so \
         that frames that were skipped or never whole count. docs/reference/benchmark.md states the distributions, the figures and the utility.",
        summary.version
    );
    Prose::new("How it was judged", vec![Block::Paragraph(text)])
}
