//! The page of a call.

use super::{
    Report,
    simulation::{doubts_first, simulation},
};
use crate::call::CallRecord;

/// The page of a call over UDP: that of its record, with the doubts of this end first.
pub fn call(record: &CallRecord, command: impl Into<String>) -> Report {
    let mut page = simulation(&record.run, command);
    page.title = format!("giusto call: {}, {}", record.run.scenario, record.call.role);
    page.headline = doubts_first(&record.call.doubts, &page.headline);
    page
}
