//! Scenario files, and scenarios made from them with `--set`.

mod rewrite;
mod setting;

use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::{Arc, PoisonError},
};

use giusto_congestion::Algorithm;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

#[cfg(feature = "monitor")]
use super::monitor::MonitorSpec;
use super::{
    city::CityScenario,
    error::{Finding, ScenarioError, read_text},
    keys,
    lesson::Lesson,
    model::{FlowSpec, Purpose, Scenario},
    read::{Context, Found, Node, Problem},
    setting::Setting,
    trace::Traces,
    validate,
};

/// The most problems that an error lists.
const MAX_PROBLEMS: usize = 50;

/// The name of standard input in messages.
const STDIN: &str = "stdin";

/// A scenario file whose values know their places.
#[derive(Debug, Clone)]
pub struct Document {
    /// The name of the file in messages.
    name: String,
    /// The default name of the scenario.
    stem: String,
    /// Where trace files are looked for.
    traces: Traces,
    /// Controllers besides the built-in ones.
    algorithms: Vec<Algorithm>,
    text: String,
}

impl Scenario {
    /// Parses the text of a file called `name`. Trace files are looked for in the current folder.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        Document::parse(text, name)?.scenario(&[])
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        Document::load(path)?.scenario(&[])
    }
}

impl Document {
    /// Reads a file; `-` is standard input, whose trace files are looked for in the current folder.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: it cannot be read, or is not TOML.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let (place, name) = if path.as_os_str() == "-" {
            (Path::new("/dev/stdin"), STDIN.to_owned())
        } else {
            (path, path.display().to_string())
        };
        let text = read_text(place, true).map_err(|error| ScenarioError::new(vec![error]))?;
        let mut document = Self::parse(&text, &name)?;
        document.traces.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(document)
    }

    /// The path of the file; `-` for standard input.
    pub fn path(&self) -> &str {
        if self.name == STDIN { "-" } else { &self.name }
    }

    /// Parses the text of a file called `name`. Trace files are looked for in the current folder.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: it is not TOML.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let document = Self {
            name: name.to_owned(),
            stem: stem.unwrap_or_default(),
            traces: Traces::default(),
            algorithms: Vec::new(),
            text: text.to_owned(),
        };
        document.root()?;
        Ok(document)
    }

    /// The same file, in which media flows may also name these controllers of the caller's own ([`Algorithm::custom`]). A built-in
    /// controller of the same name comes first.
    #[must_use]
    pub fn with_algorithms(self, algorithms: Vec<Algorithm>) -> Self {
        Self { algorithms, ..self }
    }

    /// The same file, with these texts in place of trace files, by the names that the file gives them.
    #[must_use]
    pub fn with_traces(self, texts: BTreeMap<String, String>) -> Self {
        let traces = Traces { given: Arc::new(texts), ..self.traces };
        Self { traces, ..self }
    }

    /// The same file, with these texts in place of trace files that [`with_traces`](Self::with_traces) does not give. A text is asked for
    /// when it is read.
    pub(crate) fn with_carried_traces(self, carried: fn(&str) -> Option<&'static str>) -> Self {
        let traces = Traces { carried: Some(carried), ..self.traces };
        Self { traces, ..self }
    }

    /// The same file, which keeps the texts of the trace files that its scenarios read, for [`kept_traces`](Self::kept_traces).
    #[must_use]
    pub fn keeping_traces(self) -> Self {
        let traces = Traces { kept: Some(Arc::default()), ..self.traces };
        Self { traces, ..self }
    }

    /// The texts of the trace files that were read so far, by the names that the file gives them. Another program, which does not have
    /// them, reads the same scenario with [`with_traces`](Self::with_traces).
    pub fn kept_traces(&self) -> BTreeMap<String, String> {
        let kept = self.traces.kept.as_ref();
        kept.map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// Another text in place of the file's.
    #[cfg(test)]
    pub(crate) fn with_text(&self, text: String) -> Self {
        Self { text, ..self.clone() }
    }

    /// The sentence on what it shows, as in the file.
    pub(crate) fn description(&self) -> Option<String> {
        let root = self.root().ok()?;
        Some(root.get_ref().get("description")?.get_ref().as_str()?.to_owned())
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the file in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The values of the file.
    fn root(&self) -> Result<Node<'_>, ScenarioError> {
        match DeTable::parse(&self.text) {
            Ok(table) => Ok(Spanned::new(0..0, DeValue::Table(table.into_inner()))),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let found = self.text.get(span.clone()).unwrap_or_default();
                let text = match error.message() {
                    "duplicate key" => format!("{found} is set twice: remove one"),
                    message => message.replace('\n', ", "),
                };
                Err(ScenarioError::new(vec![format!("{}: {text}", self.line(&span))]))
            }
        }
    }

    /// `FILE:LINE` of a span.
    fn line(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        format!("{}:{}", self.name, 1 + before.matches('\n').count())
    }

    /// The keys of a setting's path with the list that it may leave out: those of `wire.rate` are `link`, `wire`, `rate`.
    pub(crate) fn whole_path(&self, path: &str) -> Vec<String> {
        // The text was parsed before.
        self.root().map_or_else(|_| Vec::new(), |root| setting::whole_path(&root, path))
    }

    /// The scenario of the file with `settings`, later ones over earlier ones.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line, or with its setting.
    pub fn scenario(&self, settings: &[Setting]) -> Result<Scenario, ScenarioError> {
        self.scenario_with(settings, |_| {})
    }

    /// The same; `change` may modify its flows before they are validated.
    pub(crate) fn scenario_with(
        &self,
        settings: &[Setting],
        change: impl FnOnce(&mut [FlowSpec]),
    ) -> Result<Scenario, ScenarioError> {
        let is_retimed = settings.iter().any(|setting| setting.path == "duration");
        let purpose = if is_retimed { Purpose::Retimed } else { Purpose::Simulation };
        self.read_scenario(settings, purpose, change)
    }

    /// The scenario of the file for its [links in real time](crate::link): flows and `duration` may be left out.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line, or with its setting.
    pub fn links(&self, settings: &[Setting]) -> Result<Scenario, ScenarioError> {
        self.read_scenario(settings, Purpose::Links, |_| {})
    }

    fn read_scenario(
        &self,
        settings: &[Setting],
        purpose: Purpose,
        change: impl FnOnce(&mut [FlowSpec]),
    ) -> Result<Scenario, ScenarioError> {
        if let Some(city) = self.root()?.get_ref().get("city") {
            let text = "a city is no network of links: run it by `giusto sim`, in Python by `giusto.city`";
            return Err(ScenarioError::new(vec![format!("{}: city: {text}", self.line(&city.span()))]));
        }
        let context = Context { text: &self.text, traces: &self.traces, algorithms: &self.algorithms };
        self.read_with(settings, |root| {
            let (mut scenario, changes) = keys::file::scenario(root, &self.stem, purpose, context)?;
            change(&mut scenario.flows);
            validate::scenario(scenario, &changes, purpose).map_err(|found| problems(root, found))
        })
    }

    /// The lesson that the file teaches, if it has one.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem of the lesson with its line.
    pub fn lesson(&self) -> Result<Option<Lesson>, ScenarioError> {
        self.read_with(&[], |root| keys::lesson::of_file(root, &self.text))
    }

    /// Whether the file describes a city.
    pub fn is_city(&self) -> bool {
        // The text was parsed before.
        self.root().is_ok_and(|root| root.get_ref().get("city").is_some())
    }

    /// The city of the file with `settings`, later ones over earlier ones.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line, or with its setting.
    pub fn city(&self, settings: &[Setting]) -> Result<CityScenario, ScenarioError> {
        self.read_with(settings, |root| {
            let scenario = keys::city::scenario(root, &self.stem)?;
            validate::city::scenario(scenario).map_err(|found| problems(root, found))
        })
    }

    /// What the file of a monitor watches.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem with its line.
    #[cfg(feature = "monitor")]
    pub fn monitor(&self) -> Result<MonitorSpec, ScenarioError> {
        self.read_with(&[], |root| {
            let (spec, pairs) = keys::monitor::monitor(root)?;
            validate::monitor::monitor(spec, &pairs).map_err(|found| problems(root, found))
        })
    }

    /// What `read` makes of the values of the file with `settings`.
    fn read_with<T>(
        &self,
        settings: &[Setting],
        read: impl FnOnce(&Node<'_>) -> Found<T>,
    ) -> Result<T, ScenarioError> {
        let mut root = self.root()?;
        // A place beyond the end of the text is that of a setting.
        let first = self.text.len() + 1;
        let named = |setting: &Setting| format!("{}: --set {setting}", self.name);
        let mut wrong = Vec::new();
        for (setting, place) in settings.iter().zip(first..) {
            let result = setting.apply(&mut root, place);
            wrong.extend(result.err().map(|text| format!("{}: {text}", named(setting))));
        }
        if !wrong.is_empty() {
            return Err(ScenarioError::new(wrong));
        }
        let place = |span: &Range<usize>| {
            let setting = span.start.checked_sub(first).and_then(|index| settings.get(index));
            setting.map_or_else(|| self.line(span), named)
        };
        read(&root).map_err(|mut problems| {
            crate::order::sort_by_key(&mut problems, |problem| problem.span.start);
            let left_out = problems.len().saturating_sub(MAX_PROBLEMS);
            problems.truncate(MAX_PROBLEMS);
            let line = |problem: Problem| format!("{}: {}", place(&problem.span), problem.text);
            let mut lines: Vec<_> = problems.into_iter().map(line).collect();
            if left_out > 0 {
                lines.push(format!("{}: {left_out} more problems are not listed", self.name));
            }
            ScenarioError::new(lines)
        })
    }
}

/// The findings with their places.
fn problems(root: &Node<'_>, found: Vec<Finding>) -> Vec<Problem> {
    found.into_iter().map(|(at, text)| Problem { span: keys::file::span(root, at), text }).collect()
}

#[cfg(test)]
mod tests;
