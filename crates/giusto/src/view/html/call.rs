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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FlowEnd, FlowRecord, RunRecord};

    #[test]
    fn a_receiver_that_has_not_reported_received_no_0() {
        let flow = |id: &str, unknown| FlowRecord {
            id: id.to_owned(),
            kind: "media".to_owned(),
            controller: Some("nada".to_owned()),
            sent_rate_bps: 2e6,
            decisions: Some(0),
            unknown,
            ..FlowRecord::default()
        };
        let headline = |flows| {
            let run = RunRecord { flows, ..RunRecord::default() };
            call(&CallRecord { run, ..CallRecord::default() }, "giusto call").headline
        };
        let unreported = Some(FlowEnd::Receiver);
        let lost = headline(vec![flow("call", unreported)]);
        assert!(lost.contains("nada sent 2.00 Mbit/s, and its receiver has not reported"), "{lost}");
        let known = headline(vec![flow("call", None)]);
        assert!(known.contains("nada received 0 bit/s"), "{known}");
        let back = FlowRecord { received_rate_bps: 1e6, ..flow("call:reverse", Some(FlowEnd::Sender)) };
        let both = headline(vec![flow("call", unreported), back]);
        assert!(!both.contains("(call)") && both.contains("1.00 Mbit/s"), "{both}");
    }
}
