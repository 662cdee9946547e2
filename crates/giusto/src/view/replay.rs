//! A replay as text.

use crate::{
    replay::{Replay, Replayed},
    view::{
        format::{count, or_unknown, percent, plural, rate, time_us},
        table::{Grid, Head},
    },
};

/// Why the figures of a replay are not those of a call.
pub const OPEN_LOOP: &str = "Open loop: the recording does not react to the replayed controllers. A target shows what a controller \
    would have decided on this history, not what it would have reached.";

/// The recording, a line for each controller, at most `width` characters wide if possible, and where each parts from the recorded one.
pub fn text(replay: &Replay, width: u16) -> String {
    let mut text = format!("{}\n{OPEN_LOOP}\n\n", recording(replay));
    if let Some(why) = &replay.shortened {
        text.extend(["The recording may be incomplete: ", why, ".\n\n"]);
    }
    text += &grid(replay).text(width);
    for controller in &replay.controllers {
        let lines = remarks(controller);
        if !lines.is_empty() {
            text.extend(["\n", &controller.side.name, "\n"]);
            text.extend(lines.into_iter().map(|line| format!("  {line}\n")));
        }
    }
    text
}

/// What was recorded.
pub(super) fn recording(replay: &Replay) -> String {
    format!(
        "{}, recorded by {}: {}, {} sent at {}, {} of {} feedback, loss {}",
        replay.session,
        replay.recorder,
        time_us(replay.duration_s * 1e6),
        plural(replay.sent_packets, "packet", "packets"),
        rate(replay.sent_rate_bps),
        plural(replay.feedback_messages, "message", "messages"),
        replay.feedback,
        or_unknown(replay.loss_ratio, percent),
    )
}

/// The table, the recorded controller first.
pub(super) fn grid(replay: &Replay) -> Grid {
    let heads = [
        Head::words("controller", 0),
        Head::number("mean target", 0),
        Head::number("last target", 1),
        Head::number("changes", 0),
        Head::number("time apart", 0),
        Head::number("first apart", 0),
    ];
    let last = |bps: Option<u64>| or_unknown(bps, |bps| rate(bps as f64));
    let recorded = &replay.recorded;
    let first = vec![
        format!("{} (recorded)", recorded.name),
        or_unknown(recorded.mean_target_bps, rate),
        last(recorded.last_target_bps),
        count(recorded.changes),
        String::new(),
        String::new(),
    ];
    let row = |controller: &Replayed| {
        let side = &controller.side;
        if controller.unusable.is_some() {
            let mut row = vec![controller.side.name.clone(), "not replayed".to_owned()];
            row.resize(heads.len(), String::new());
            return row;
        }
        let apart = match controller.identical {
            Some(true) => "identical".to_owned(),
            Some(false) => "differs".to_owned(),
            None => or_unknown(controller.parting.as_ref(), |parting| format!("{:.3} s", parting.at_s)),
        };
        vec![
            controller.side.name.clone(),
            or_unknown(side.mean_target_bps, rate),
            last(side.last_target_bps),
            count(side.changes),
            or_unknown(controller.apart_ratio, percent),
            apart,
        ]
    };
    let rows: Vec<_> = std::iter::once(first).chain(replay.controllers.iter().map(row)).collect();
    Grid::of_rows(heads, &rows)
}

/// Where a controller parts from the recorded one, and what limits its figures.
pub(super) fn remarks(controller: &Replayed) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(controller.unusable.as_ref().map(|why| format!("not replayed: {why}")));
    if controller.identical == Some(true) {
        lines.push("every target, decision and probe is the recorded one".to_owned());
    }
    lines.extend(
        controller.first_difference.as_ref().map(|difference| format!("first difference: {difference}")),
    );
    if let Some(parting) = &controller.parting {
        let [recorded, replayed] = [parting.recorded_bps, parting.replayed_bps].map(|bps| rate(bps as f64));
        lines.push(format!("parts at {:.3} s:", parting.at_s));
        lines.push(format!("  recorded {recorded}, decided at {}", parting.recorded_words));
        lines.push(format!("  replayed {replayed}, decided at {}", parting.replayed_words));
    }
    lines.extend(controller.notes.iter().cloned());
    lines
}
