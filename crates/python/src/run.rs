//! Simulated runs, and the records of calls.

use std::sync::atomic::Ordering;

use giusto::{
    call::{CallFigures, CallRecord},
    record::{RunRecord, Timeline, TimelineOptions},
    run::{RecordOptions, timed},
    view::{
        arrow,
        files::Files,
        html, table, tables,
        trace::{TraceNames, TraceTable},
    },
};
use pyo3::{prelude::*, types::PyType};
use serde::Serialize;

use crate::{
    arrow::ArrowStream,
    controller::{Own, OwnTaps, Raised},
    detached::detached,
    error::{Outcome, value_error},
    scenario::{Document, as_settings},
    seed::Seed,
};

/// The result of a run or of a call.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Run {
    record: RunRecord,
    /// What only a call has.
    call: Option<CallFigures>,
    trace: Option<Py<ArrowStream>>,
}

impl Run {
    /// The result of a call.
    pub(crate) fn of_call(CallRecord { run, call }: CallRecord) -> Self {
        Self { record: run, call: Some(call), trace: None }
    }

    /// `record`, with what only a call has.
    fn complete(&self, record: RunRecord) -> Complete {
        match self.call.clone() {
            Some(call) => Complete::Call(CallRecord { run: record, call }),
            None => Complete::Run(record),
        }
    }

    fn timeline(&self) -> PyResult<&Timeline> {
        self.record
            .timeline
            .as_ref()
            .ok_or_else(|| value_error("the run was recorded without a timeline: run it with timeline=True"))
    }
}

/// A record as the command prints it.
#[derive(Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "it is printed at once")]
enum Complete {
    Run(RunRecord),
    Call(CallRecord),
}

#[pymethods]
impl Run {
    /// The record in JSON, without the timeline.
    fn json(&self) -> PyResult<String> {
        let summary = RunRecord { timeline: None, ..self.record.clone() };
        serde_json::to_string(&self.complete(summary)).map_err(|error| value_error(error.to_string()))
    }

    /// The tables that the command prints.
    fn tables(&self) -> String {
        match &self.call {
            Some(_) => tables::flows(&self.record, table::ALL),
            None => tables::tables(&self.record, table::ALL),
        }
    }

    /// Each flow over time.
    fn flows_over_time(&self) -> Outcome<ArrowStream> {
        Ok(arrow::flows_over_time(self.timeline()?)?.into())
    }

    /// Each link over time.
    fn links_over_time(&self) -> Outcome<ArrowStream> {
        Ok(arrow::links_over_time(self.timeline()?)?.into())
    }

    /// The decisions of all controllers.
    fn decisions(&self) -> Outcome<ArrowStream> {
        self.timeline()?;
        Ok(arrow::decisions(&self.record)?.into())
    }

    /// Every event.
    fn trace(&self, py: Python<'_>) -> PyResult<Py<ArrowStream>> {
        self.trace
            .as_ref()
            .map(|trace| trace.clone_ref(py))
            .ok_or_else(|| value_error("the run was recorded without a trace: run it with trace=True"))
    }

    /// Writes `result.json` and `report.html` to a folder; `command` is shown on the page.
    fn write(&self, folder: std::path::PathBuf, command: String) -> Outcome<()> {
        self.timeline()?;
        let mut files = Files::default();
        files.add_result(&folder, &self.complete(self.record.clone()))?;
        let mut report = html::simulation(&self.record, command);
        if let Some(call) = &self.call {
            report.title = format!("giusto call: {}", call.role);
        }
        files.add_report(&folder, &report)?;
        files.commit()?;
        Ok(())
    }
}

/// Runs a scenario.
#[pyfunction]
#[pyo3(signature = (document, settings, controllers, seed, *, timeline, trace))]
pub(crate) fn run(
    py: Python<'_>,
    document: &Document,
    settings: Vec<(String, String)>,
    controllers: Vec<Bound<'_, PyType>>,
    seed: Option<Seed>,
    timeline: bool,
    trace: bool,
) -> Outcome<Run> {
    let own = Own::all(&controllers)?;
    let scenario = document.with(&own).scenario(&as_settings(settings))?;
    let raised = Raised::default();
    let seed = seed.map_or(scenario.seed(), |seed| seed.0);
    let options = TimelineOptions { max_decisions: usize::MAX, ..TimelineOptions::default() };
    let options = RecordOptions { timeline: timeline.then_some(options) };
    let mut table = trace.then(|| TraceTable::new(TraceNames::of(&scenario)));
    let record = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            let ends = |_| interrupt.stop.load(Ordering::Relaxed) || raised.is_set();
            let mut taps = OwnTaps::new(&own, &raised);
            timed::run_with(&scenario, seed, options, &mut taps, &mut table, ends)
        },
    )?;
    raised.result()?;
    let trace = match table {
        Some(table) => {
            let (schema, batches) = table.finish()?;
            Some(Py::new(py, ArrowStream::new(schema, batches))?)
        }
        None => None,
    };
    Ok(Run { record, call: None, trace })
}
