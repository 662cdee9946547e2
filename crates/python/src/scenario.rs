//! Scenarios.

use std::path::PathBuf;

use giusto::{
    explore,
    scenario::{self, Setting},
};
use giusto_congestion::Algorithm;
use pyo3::{prelude::*, types::PyType};

use crate::{
    controller::Own,
    error::{Outcome, value_error},
};

/// The text of a scenario.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Document(scenario::Document);

impl Document {
    /// The document, in which media flows may name the controllers `own`.
    pub(crate) fn with(&self, own: &[Own]) -> scenario::Document {
        self.0.clone().with_algorithms(own.iter().map(Own::algorithm).collect())
    }
}

#[pymethods]
impl Document {
    /// Parses the text of a file called `name`.
    #[new]
    fn new(text: &str, name: &str) -> Outcome<Self> {
        Ok(Self(scenario::Document::parse(text, name)?))
    }

    /// Reads a file, or the built-in scenario of this name where there is none.
    #[staticmethod]
    fn load(path: PathBuf) -> Outcome<Self> {
        Ok(Self(explore::load(path)?))
    }

    /// The text.
    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }

    /// Raises a `ScenarioError` unless the scenario with these settings is valid. Returns its name and its seed.
    fn check(
        &self,
        settings: Vec<(String, String)>,
        controllers: Vec<Bound<'_, PyType>>,
    ) -> Outcome<(String, u64)> {
        let own = Own::all(&controllers)?;
        let scenario = self.with(&own).scenario(&as_settings(settings))?;
        Ok((scenario.name().to_owned(), scenario.seed()))
    }
}

pub(crate) fn as_settings(settings: Vec<(String, String)>) -> Vec<Setting> {
    settings.into_iter().map(|(path, value)| Setting { path, value }).collect()
}

/// A table in JSON as TOML.
#[pyfunction]
pub(crate) fn toml(json: &str) -> PyResult<String> {
    let table: ::toml::Table = serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
    ::toml::to_string(&table).map_err(|error| value_error(error.to_string()))
}

/// The built-in controllers: name and description of each.
#[pyfunction]
pub(crate) fn controllers() -> Vec<(&'static str, &'static str)> {
    Algorithm::all().map(|algorithm| (algorithm.name(), algorithm.summary())).collect()
}
