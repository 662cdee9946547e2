//! A scenario file, and the scenarios that it makes with one setting or another.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{FlowSpec, Scenario, ScenarioError, check, problem, read, tree::Node};

/// A file that was read, with the place of each value.
#[derive(Debug, Clone)]
pub struct Document {
    /// What the file is called in complaints.
    name: String,
    /// The name of a scenario that gives itself none.
    stem: String,
    /// Where the traces that it names are looked for.
    folder: PathBuf,
    tree: Node,
}

/// A value that takes the place of one in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What it is: `duration`, `link.bottleneck.rate`.
    pub path: String,
    /// Its value, as in a file; a text needs no quotes.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    /// Reads `KEY=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { path: path.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("\"{text}\" is not KEY=VALUE: write, for example, link.bottleneck.rate=5M")),
        }
    }
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: it cannot be read, or is no TOML.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path)
            .map_err(|error| ScenarioError::new(vec![problem::unreadable(path, &error)]))?;
        let mut document = Self::parse(&text, &path.display().to_string())?;
        document.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(document)
    }

    /// Reads the text of a file called `name`. Traces that it names are looked for from the current folder on.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: it is no TOML.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        let tree = Node::parse(text).map_err(|problem| ScenarioError::new(vec![problem.describe(name)]))?;
        let stem =
            Path::new(name).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Ok(Self { name: name.to_owned(), stem, folder: PathBuf::new(), tree })
    }

    /// The path of a setting with all that it leaves out: `wire.rate` is `link.wire.rate`.
    pub(crate) fn whole_path(&self, path: &str) -> Vec<String> {
        self.tree.whole_path(path)
    }

    /// The scenario that it describes, with `settings` put in, the later ones over the earlier.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] names every problem with its line, or with the setting.
    pub fn scenario(&self, settings: &[Setting]) -> Result<Scenario, ScenarioError> {
        self.scenario_with(settings, |_| {})
    }

    /// The same, its flows changed by `change` before it is checked whether all fits together.
    pub(crate) fn scenario_with(
        &self,
        settings: &[Setting],
        change: impl FnOnce(&mut [FlowSpec]),
    ) -> Result<Scenario, ScenarioError> {
        let mut tree = self.tree.clone();
        let mut problems: Vec<String> = settings
            .iter()
            .filter_map(|Setting { path, value }| tree.set(path, value).err())
            .map(|problem| problem.describe(&self.name))
            .collect();
        if !problems.is_empty() {
            return Err(ScenarioError::new(problems));
        }
        let (mut scenario, found) = read::scenario(&tree, &self.stem, &self.folder);
        change(&mut scenario.flows);
        problems.extend(found.iter().map(|problem| problem.describe(&self.name)));
        if problems.is_empty() {
            problems.extend(
                check::scenario(&scenario)
                    .into_iter()
                    .map(|(at, text)| problem::Problem::at(at.place(&tree), text).describe(&self.name)),
            );
        }
        if problems.is_empty() { Ok(scenario) } else { Err(ScenarioError::new(problems)) }
    }
}
