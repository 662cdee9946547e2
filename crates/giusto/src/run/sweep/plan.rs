//! The runs of a sweep.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::fingerprint::fingerprint;
use crate::scenario::{Document, Scenario, ScenarioError, Setting};

/// The maximum number of runs of a sweep: more are taken for a typing error.
pub(super) const MAX_RUNS: usize = 1_000_000;

/// A setting of a scenario and its values in turn: `KEY=A,B,C`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// The path of the setting: `link.bottleneck.rate`.
    pub path: String,
    /// Its values, as in a file; a string needs no quotes.
    pub values: Vec<String>,
}

impl FromStr for Values {
    type Err = String;

    /// Parses `KEY=A,B,C`. Commas within brackets, braces or quotes do not separate values.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is not KEY=A,B,C: write, for example, link.bottleneck.rate=1M,2M,5M");
        let (path, list) = text.split_once('=').ok_or_else(wrong)?;
        let (mut depth, mut quoted) = (0_i32, false);
        let mut values = vec![String::new()];
        for c in list.chars() {
            match c {
                '"' => quoted = !quoted,
                '[' | '{' if !quoted => depth += 1,
                ']' | '}' if !quoted => depth -= 1,
                _ => {}
            }
            if c == ',' && depth == 0 && !quoted {
                values.push(String::new());
            } else if let Some(value) = values.last_mut() {
                value.push(c);
            }
        }
        let values: Vec<String> = values.iter().map(|value| value.trim().to_owned()).collect();
        if path.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { path: path.trim().to_owned(), values })
    }
}

/// The seeds of a sweep: `1..30`, both ends included, or `1,2,5`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds(pub Vec<u64>);

impl fmt::Display for Seeds {
    /// As they are parsed; three or more seeds in sequence are a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let follow = |a: &u64, b: &u64| a.checked_add(1) == Some(*b);
        let ranges = self.0.chunk_by(follow).map(|range| match range {
            [first, _, .., last] => format!("{first}..{last}"),
            few => few.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        });
        f.write_str(&ranges.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" are no seeds: write, for example, 1..30 or 1,2,5");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let Some((from, to)) = part.split_once("..") else {
                seeds.push(number(part)?);
                continue;
            };
            let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
            if from > to || to - from >= MAX_RUNS as u64 {
                return Err(format!(
                    "\"{part}\": seeds run from a smaller number to a larger one, at most {MAX_RUNS} of them"
                ));
            }
            seeds.extend(from..=to);
        }
        Ok(Self(seeds))
    }
}

/// A scenario, the values of each of its parameters, and seeds.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The scenario.
    pub document: Document,
    /// Settings, each with its values; all are combined.
    pub values: Vec<Values>,
    /// Random seeds, each with every combination.
    pub seeds: Seeds,
}

/// A run to be made.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The scenario with its settings.
    pub scenario: Arc<Scenario>,
    /// Its digest: see [`fingerprint`].
    pub fingerprint: String,
    /// The parameters that were set, by their paths.
    pub parameters: BTreeMap<String, String>,
    /// Random seed.
    pub seed: u64,
    /// Whether its expectations are judged: false if a setting with several values has another one than the file, for which the
    /// expectations were written.
    pub judged: bool,
}

impl Planned {
    /// Its key among the runs of a sweep: parameters and seed.
    pub fn key(&self) -> (BTreeMap<String, String>, String) {
        (self.parameters.clone(), self.seed.to_string())
    }
}

impl Sweep {
    /// Every combination of values with every seed. The seed changes first, then the values of the last setting.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists the problems of all combinations.
    pub fn plan(&self) -> Result<Vec<Planned>, ScenarioError> {
        self.plan_unless(&mut || false).map(Option::unwrap_or_default)
    }

    /// The same, unless `is_over`, which is asked before each combination, ends it: then `None`.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists the problems of all combinations.
    pub fn plan_unless(
        &self,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Planned>>, ScenarioError> {
        let mut problems: Vec<String> = Vec::new();
        let mut planned = Vec::new();
        let written_for = self.without_varied();
        for combination in combinations(&self.values) {
            if is_over() {
                return Ok(None);
            }
            let scenario = match self.document.scenario(&combination) {
                Ok(scenario) => Arc::new(scenario),
                Err(error) => {
                    let known = |problem: &&String| !problems.contains(problem);
                    let new: Vec<String> = error.problems().iter().filter(known).cloned().collect();
                    problems.extend(new);
                    continue;
                }
            };
            let fingerprint = fingerprint(&scenario);
            let judged = written_for.as_ref().is_some_and(|own| own.runs_as(&scenario));
            let parameters: BTreeMap<String, String> =
                combination.into_iter().map(|setting| (setting.path, setting.value)).collect();
            planned.extend(self.seeds.0.iter().map(|&seed| Planned {
                scenario: Arc::clone(&scenario),
                fingerprint: fingerprint.clone(),
                parameters: parameters.clone(),
                seed,
                judged,
            }));
        }
        if problems.is_empty() { Ok(Some(planned)) } else { Err(ScenarioError::new(problems)) }
    }

    /// The scenario with the settings that have one value; the others as in the file. `None` if the file is not valid without them.
    fn without_varied(&self) -> Option<Scenario> {
        let one_value = |values: &Values| match &values.values[..] {
            [value] => Some(Setting { path: values.path.clone(), value: value.clone() }),
            _ => None,
        };
        let settings: Vec<Setting> = self.values.iter().filter_map(one_value).collect();
        self.document.scenario(&settings).ok()
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        number_of_runs(&self.values, &self.seeds)
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the values and seeds, before any scenario is made.
    ///
    /// # Errors
    ///
    /// One line with the fix.
    pub fn check(&self) -> Result<(), String> {
        let mut before: Vec<(&str, Vec<String>)> = Vec::new();
        for Values { path, values } in &self.values {
            if path == "seed" {
                return Err("--set seed: seeds are given by --seeds, such as --seeds 1..30".to_owned());
            }
            let whole = self.document.whole_path(path);
            if before.iter().any(|(earlier, _)| earlier == path) {
                return Err(format!("--set {path}: given twice: give all its values at once, as {path}=A,B"));
            }
            if let Some((earlier, _)) = before.iter().find(|(_, earlier)| earlier.starts_with(&whole)) {
                return Err(format!(
                    "--set {path}: it takes the place of --set {earlier} before it: leave one out, or give this one first"
                ));
            }
            before.push((path, whole));
            if values.is_empty() {
                return Err(format!("--set {path}: no value, so no run: give at least one, as {path}=A,B"));
            }
            has_no_duplicate(&format!("--set {path}"), values)?;
        }
        if self.seeds.0.is_empty() {
            return Err("seeds: none, so no run: give at least one, such as 1..30".to_owned());
        }
        has_no_duplicate("seeds", &self.seeds.0)?;
        if self.len() > MAX_RUNS {
            return Err(format!("{} runs are more than {MAX_RUNS}: give fewer values or seeds", self.len()));
        }
        Ok(())
    }
}

/// Every combination of the values; the values of the last setting change first.
pub(super) fn combinations(all: &[Values]) -> Vec<Vec<Setting>> {
    let mut combinations: Vec<Vec<Setting>> = vec![Vec::new()];
    for Values { path, values } in all {
        let all: Vec<Setting> =
            values.iter().map(|value| Setting { path: path.clone(), value: value.clone() }).collect();
        let with = |before: Vec<Setting>| {
            all.iter().map(move |own| [&before[..], std::slice::from_ref(own)].concat())
        };
        combinations = combinations.into_iter().flat_map(with).collect();
    }
    combinations
}

/// Number of the runs of a sweep.
pub(super) fn number_of_runs(values: &[Values], seeds: &Seeds) -> usize {
    let values = values.iter().map(|values| values.values.len());
    values.fold(seeds.0.len(), usize::saturating_mul)
}

fn has_no_duplicate<T: Ord + fmt::Display>(of: &str, values: &[T]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(*value)) {
        Some(twice) => Err(format!("{of}: {twice} is given twice: leave one out")),
        None => Ok(()),
    }
}
