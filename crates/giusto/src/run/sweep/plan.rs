//! Which runs a sweep has.

use std::{collections::BTreeMap, str::FromStr, sync::Arc};

use super::fingerprint::fingerprint;
use crate::scenario::{Document, Scenario, ScenarioError, Setting};

/// The most runs that a sweep may have: more would be a slip of the finger.
const MAX_RUNS: usize = 1_000_000;

/// A path of a scenario and the values that it takes in turn: `KEY=A,B,C`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// What is set: `link.bottleneck.rate`.
    pub path: String,
    /// Its values, as in a file; a text needs no quotes.
    pub values: Vec<String>,
}

impl FromStr for Values {
    type Err = String;

    /// Reads `KEY=A,B,C`. Commas between brackets, braces or quotes separate nothing.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

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
    /// What is set, each with the values that it takes; all are combined.
    pub values: Vec<Values>,
    /// The seeds, each with every combination.
    pub seeds: Seeds,
}

/// A run that is to be done.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The scenario, with all that is set.
    pub scenario: Arc<Scenario>,
    /// Its digest: see [`fingerprint`].
    pub fingerprint: String,
    /// What is set, by its path.
    pub parameters: BTreeMap<String, String>,
    /// What its chance derives from.
    pub seed: u64,
}

impl Planned {
    /// What tells it from the other runs of a sweep.
    pub(super) fn key(&self) -> (BTreeMap<String, String>, String) {
        (self.parameters.clone(), self.seed.to_string())
    }
}

impl Sweep {
    /// Every combination of values with every seed, in this order; the last value changes first, and the seeds before it.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] names what is wrong with a combination.
    pub fn plan(&self) -> Result<Vec<Planned>, ScenarioError> {
        let mut combinations: Vec<Vec<Setting>> = vec![Vec::new()];
        for Values { path, values } in &self.values {
            combinations = combinations
                .iter()
                .flat_map(|combination| {
                    values.iter().map(|value| {
                        let setting = Setting { path: path.clone(), value: value.clone() };
                        combination.iter().cloned().chain([setting]).collect()
                    })
                })
                .collect();
        }
        let mut problems = Vec::new();
        let mut planned = Vec::new();
        for combination in combinations {
            match self.document.scenario(&combination) {
                Ok(scenario) => {
                    let fingerprint = fingerprint(&scenario);
                    let scenario = Arc::new(scenario);
                    let parameters: BTreeMap<String, String> =
                        combination.into_iter().map(|setting| (setting.path, setting.value)).collect();
                    planned.extend(self.seeds.0.iter().map(|&seed| Planned {
                        scenario: Arc::clone(&scenario),
                        fingerprint: fingerprint.clone(),
                        parameters: parameters.clone(),
                        seed,
                    }));
                }
                Err(error) => {
                    for problem in error.problems() {
                        if !problems.contains(problem) {
                            problems.push(problem.clone());
                        }
                    }
                }
            }
        }
        if problems.is_empty() { Ok(planned) } else { Err(ScenarioError::new(problems)) }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.values
            .iter()
            .map(|values| values.values.len())
            .product::<usize>()
            .saturating_mul(self.seeds.0.len())
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is wrong with the whole, before any scenario is made.
    ///
    /// # Errors
    ///
    /// One line with the mend.
    pub fn check(&self) -> Result<(), String> {
        let paths = || self.values.iter().map(|values| values.path.as_str());
        if paths().any(|path| path == "seed") {
            return Err("--set seed: seeds are given by --seeds, such as --seeds 1..30".to_owned());
        }
        if let Some((_, twice)) =
            paths().enumerate().find(|(place, path)| paths().take(*place).any(|other| other == *path))
        {
            return Err(format!("--set {twice}: given twice: give all its values at once, as {twice}=A,B"));
        }
        let whole: Vec<Vec<String>> = paths().map(|path| self.document.whole_path(path)).collect();
        for (place, later) in whole.iter().enumerate() {
            let hidden =
                whole.iter().take(place).zip(paths()).find(|(earlier, _)| earlier.starts_with(later));
            if let (Some((_, earlier)), Some(path)) = (hidden, paths().nth(place)) {
                return Err(format!(
                    "--set {path}: it takes the place of --set {earlier} before it: leave one out, or give this one first"
                ));
            }
        }
        if self.values.iter().any(|values| has_twice(&values.values)) || has_twice(&self.seeds.0) {
            return Err("a value or a seed is given twice: leave one out".to_owned());
        }
        if self.len() > MAX_RUNS {
            return Err(format!("{} runs are more than {MAX_RUNS}: give fewer values or seeds", self.len()));
        }
        Ok(())
    }
}

fn has_twice<T: Ord>(values: &[T]) -> bool {
    values.iter().collect::<std::collections::BTreeSet<_>>().len() < values.len()
}
