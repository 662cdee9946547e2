//! Cities.

use std::{path::PathBuf, sync::atomic::Ordering};

use giusto::{
    city::{CityLog, CityRun},
    view::{arrow, city, files::Files, html, table},
};
use pyo3::prelude::*;

use crate::{
    arrow::ArrowStream,
    detached::detached,
    error::{Outcome, value_error},
    scenario::{Document, as_settings},
    seed::Seed,
};

/// The result of a run of a city.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct City {
    run: CityRun,
    log: CityLog,
}

#[pymethods]
impl City {
    /// The result in JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.run).map_err(|error| value_error(error.to_string()))
    }

    /// Whether all expectations are met.
    #[getter]
    fn passed(&self) -> bool {
        self.run.passed()
    }

    /// The tables that the command prints.
    fn tables(&self) -> String {
        city::tables(&self.run, table::ALL)
    }

    /// The calls that were kept.
    fn calls(&self) -> Outcome<ArrowStream> {
        Ok(arrow::city_calls(&self.log)?.into())
    }

    /// The calls that were kept over time.
    fn calls_over_time(&self) -> Outcome<ArrowStream> {
        Ok(arrow::city_calls_over_time(&self.log)?.into())
    }

    /// Writes `result.json` and `report.html` to a folder; `command` is shown on the page.
    fn write(&self, folder: PathBuf, command: String) -> Outcome<()> {
        let mut files = Files::default();
        files.add_result(&folder, &self.run)?;
        let title = format!("giusto: {}", self.run.scenario);
        files.add_report(&folder, &html::city(&self.run.city, &self.log, title, command))?;
        files.commit()?;
        Ok(())
    }
}

/// Runs a city.
#[pyfunction]
pub(crate) fn run_city(
    py: Python<'_>,
    document: &Document,
    settings: Vec<(String, String)>,
    seed: Option<Seed>,
) -> Outcome<City> {
    let scenario = document.with(&[]).city(&as_settings(settings))?;
    let seed = seed.map_or(scenario.spec.config.seed, |seed| seed.0);
    let done = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            giusto::city::timed(&scenario, seed, |_| interrupt.stop.load(Ordering::Relaxed))
        },
    )?;
    let (run, log) = done.map_err(|error| value_error(error.to_string()))?;
    Ok(City { run, log })
}
