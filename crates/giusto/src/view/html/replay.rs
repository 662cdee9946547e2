//! The page of a replay.

use super::{Block, Chart, Prose, Report, Series, Table};
use crate::{
    replay::{Replay, ReplayTimeline, Replayed},
    view::{
        format::percent,
        replay::{OPEN_LOOP, grid, recording, remarks},
    },
};

/// The page of a replay; `command` makes it again.
pub fn replay(replay: &Replay, command: impl Into<String>) -> Report {
    let title = format!("giusto replay: {}", replay.session);
    let mut report = Report::new(title, headline(replay)).with_command(command);
    report.push(Table::of_grid("Controllers", OPEN_LOOP, grid(replay)));
    if let Some(timeline) = &replay.timeline {
        for chart in charts(replay, timeline) {
            report.push(chart);
        }
    }
    let with_remarks = |controller: &Replayed| {
        let lines = remarks(controller);
        (!lines.is_empty()).then(|| (controller.side.name.clone(), lines.join("; ").replace(":;", ":")))
    };
    let remarks: Vec<_> = replay.controllers.iter().filter_map(with_remarks).collect();
    if !remarks.is_empty() {
        report.push(Prose::new("Where they part", vec![Block::Definitions(remarks)]));
    }
    report.push(how(replay));
    report
}

fn headline(replay: &Replay) -> String {
    let usable = || replay.controllers.iter().filter(|controller| controller.unusable.is_none());
    let furthest = usable().filter(|controller| controller.identical.is_none());
    let furthest = furthest.filter_map(|controller| Some((controller, controller.apart_ratio?)));
    match furthest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((controller, ratio)) => format!(
            "{} was more than {} from {} in {} of the time.",
            controller.side.name,
            percent(replay.apart_above_ratio),
            replay.recorded.name,
            percent(ratio),
        ),
        None if usable().any(|controller| controller.identical == Some(true)) => {
            format!("{} made the same decisions again.", replay.recorded.name)
        }
        None => format!("{} of {} were replayed.", usable().count(), replay.controllers.len()),
    }
}

fn charts(replay: &Replay, timeline: &ReplayTimeline) -> [Chart; 2] {
    let points = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
        timeline.t_s.iter().zip(values).map(|(&t, value)| (t, value.unwrap_or(f64::NAN))).collect()
    };
    let caption = "The recorded target, and the targets of the replayed controllers on the same history. The history does not react to them.";
    let mut targets = Chart::over_time("Target rates", caption, "target rate", "bit/s");
    let name = format!("{} (recorded)", replay.recorded.name);
    targets = targets.with_series(Series::line(name, points(&timeline.recorded_bps)));
    for (controller, values) in replay.controllers.iter().zip(&timeline.replayed_bps) {
        if controller.unusable.is_none() {
            targets = targets.with_series(Series::line(controller.side.name.clone(), points(values)));
        }
    }
    let caption = "The maximum in each window of: arrival time on the receiver's clock, minus departure time on the sender's clock, minus the minimum of this difference so far.";
    let delay = Chart::over_time("Delay above its minimum", caption, "delay", "s");
    let seconds: Vec<(f64, f64)> =
        points(&timeline.delay_ms).into_iter().map(|(t, ms)| (t, ms / 1e3)).collect();
    [targets, delay.with_series(Series::line("", seconds))]
}

fn how(replay: &Replay) -> Prose {
    let apart = format!(
        "Share of the time in which the target differs from the recorded one by more than {} of it.",
        percent(replay.apart_above_ratio)
    );
    let terms =
        [("Time apart", &apart[..]), ("Mean target", "Mean of the media rate over time, headers included.")];
    let shortened = replay.shortened.as_ref();
    let shortened =
        shortened.map_or(String::new(), |why| format!(" The recording may be incomplete: {why}."));
    let text = format!("{}.{shortened} {OPEN_LOOP}", recording(replay));
    Prose::definitions("How this was made", &terms, text)
}
