//! The page of a run while it lasts.

use super::{Report, Section, Served};
use crate::packed;

/// The page that follows a run by the events of a [`Board`](crate::watch::Board), at the path `events` beside it, called `title`. Until there are streams it says `awaits`. `nonce` is that of the answer.
pub fn live(title: &str, awaits: &str, nonce: &str) -> String {
    Report::new(title, awaits).to_served_html(Served {
        nonce,
        scripts: &[packed::page("live.js")],
        style: "",
    })
}

/// The final result as the page shows it: the cards and the tables of a report.
#[must_use]
pub fn live_result(mut report: Report) -> Report {
    report.sections.retain(|section| match section {
        Section::Cards(_) => true,
        Section::Table(table) => !table.rows.is_empty(),
        _ => false,
    });
    report
}
