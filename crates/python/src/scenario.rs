//! Scenarios.

use std::{collections::BTreeMap, path::PathBuf};

use giusto::{
    explore,
    run::comparison::{self, Controllers},
    scenario::{self, Setting, load_controller},
};
use giusto_congestion::{Algorithm, Constant};
use pyo3::{prelude::*, types::PyType};

use crate::{
    controller::Own,
    error::{Outcome, value_error},
};

/// A document as Python can pickle it: text, name, texts of its trace files; and settings.
pub(crate) type Pickled = (String, String, BTreeMap<String, String>, Vec<(String, String)>);

/// The text of a file, and settings.
type Plain = (String, Vec<(String, String)>);

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
    /// Parses the text of a file called `name`, with these texts in place of its trace files.
    #[new]
    #[pyo3(signature = (text, name, traces=BTreeMap::new()))]
    fn new(text: &str, name: &str, traces: BTreeMap<String, String>) -> Outcome<Self> {
        Ok(Self(scenario::Document::parse(text, name)?.with_traces(traces)))
    }

    /// Reads a file, or the built-in scenario of this name where there is none.
    #[staticmethod]
    fn load(path: PathBuf) -> Outcome<Self> {
        Ok(Self(explore::load(path)?))
    }

    /// Text, name, the texts of the trace files that the scenario with these settings reads, and the settings.
    #[pyo3(signature = (settings, controllers=vec![]))]
    fn pickled(
        &self,
        settings: Vec<(String, String)>,
        controllers: Vec<Bound<'_, PyType>>,
    ) -> Outcome<Pickled> {
        let document = self.with(&Own::all(&controllers)?).keeping_traces();
        document.scenario(&as_settings(settings.clone()))?;
        Ok((document.text().to_owned(), document.name().to_owned(), document.kept_traces(), settings))
    }

    /// Text and settings for each of the controllers called `names`, of all media flows or of `flow`: without what that controller does
    /// not support. And the sentences that say so.
    fn contenders(
        &self,
        settings: Vec<(String, String)>,
        controllers: Vec<Bound<'_, PyType>>,
        names: Vec<String>,
        flow: Option<&str>,
    ) -> Outcome<(Vec<Plain>, Vec<String>)> {
        let own = Own::all(&controllers)?;
        let named = |name: &String| {
            let own = own.iter().map(Own::algorithm).find(|own| own.name() == name);
            own.map_or_else(|| load_controller(name), Ok)
        };
        let all = names.iter().map(named).collect::<Result<_, _>>().map_err(value_error)?;
        let (document, settings) = (self.with(&own), as_settings(settings));
        let found = comparison::contenders(&document, &settings, &Controllers(all), flow)?;
        let plain = |contender: &comparison::Contender| -> Outcome<Plain> {
            let (text, settings) = contender.plain(&document, &settings)?;
            Ok((text, settings.into_iter().map(|setting| (setting.path, setting.value)).collect()))
        };
        Ok((found.iter().map(plain).collect::<Outcome<_>>()?, comparison::notes(&found)))
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

/// The paths that settings can have: `link.ID.rate`.
#[pyfunction]
pub(crate) fn setting_paths() -> Vec<String> {
    scenario::setting_paths()
}

/// The built-in controllers: name and description of each.
#[pyfunction]
pub(crate) fn controllers() -> Vec<(&'static str, &'static str)> {
    Algorithm::all().map(|algorithm| (algorithm.name(), algorithm.summary())).collect()
}

/// A constant of a controller: name, description, unit, smallest and largest value, whether it is a whole number, and its value.
type ConstantRow = (&'static str, &'static str, &'static str, (f64, f64), bool, f64);

/// The constants of a controller that can be set, and its name.
#[pyfunction]
pub(crate) fn constants(controller: &str) -> PyResult<(&'static str, Vec<ConstantRow>)> {
    let algorithm = load_controller(controller).map_err(value_error)?;
    let row = |own: Constant| (own.name, own.summary, own.unit, own.range, own.is_whole, own.value);
    Ok((algorithm.name(), algorithm.constants().into_iter().map(row).collect()))
}

/// The name of a controller with these values of its constants.
#[pyfunction]
pub(crate) fn with_constants(controller: &str, values: Vec<(String, f64)>) -> PyResult<&'static str> {
    let algorithm = load_controller(controller).map_err(value_error)?;
    let unit = |name: &str| {
        algorithm.constants().into_iter().find(|own| own.name == name).map_or("", |own| own.unit)
    };
    let text = |(name, value): &(String, f64)| format!("+{name}={value}{}", unit(name));
    // Values that were set before give way.
    let is_other =
        |part: &&str| part.split_once('=').is_none_or(|(name, _)| values.iter().all(|(own, _)| own != name));
    let before: Vec<&str> = algorithm.name().split('+').filter(is_other).collect();
    let name = before.join("+") + &values.iter().map(text).collect::<String>();
    load_controller(&name).map(Algorithm::name).map_err(value_error)
}
