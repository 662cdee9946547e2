//! Answers to requests.

use std::{collections::BTreeMap, ops::ControlFlow};

use giusto::{
    city,
    explore::{Asked, Explorer},
    record::RunRecord,
    run::{self, RecordOptions, comparison::Comparison},
    scenario::Document,
};
use serde::Serialize;
use toml::{Table, Value};

use crate::request::{File, Request, Run};

/// Answers requests, one after the other.
#[derive(Debug)]
pub struct Engine {
    explorer: Explorer,
    answer: Option<Answer>,
}

/// The answer to a question as far as it has come.
#[derive(Debug)]
struct Answer {
    asked: Asked,
    records: BTreeMap<Run, RunRecord>,
    /// What is drawn: the runs of the first seed, and of each variant those of the others.
    first: Option<Comparison>,
    others: Vec<Vec<RunRecord>>,
}

/// What is known when a question was asked.
#[derive(Debug, Serialize)]
struct Begun<T> {
    variants: usize,
    seeds: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<T>,
}

impl Default for Engine {
    fn default() -> Self {
        Self { explorer: Explorer::new(None), answer: None }
    }
}

impl Engine {
    /// Answers a request with JSON.
    ///
    /// # Errors
    ///
    /// Every problem, a sentence each.
    pub fn answer(&mut self, request: &str) -> Result<String, Vec<String>> {
        let request = serde_json::from_str(request)
            .map_err(|error| vec![format!("the request cannot be read: {error}")])?;
        match request {
            Request::Version => Ok(json(&env!("CARGO_PKG_VERSION"))),
            Request::File(file) => {
                let document = document(&file)?;
                if document.is_city() {
                    return Err(vec![format!(
                        "{}: a city is no network of links: run it by `giusto sim`",
                        file.name
                    )]);
                }
                self.explorer = Explorer::new(Some(document));
                self.answer = None;
                Ok(json(&()))
            }
            Request::Ask(question) => {
                let asked = self.explorer.ask(&question).map_err(|error| error.problems())?;
                let (variants, seeds) = (asked.variants(), asked.seeds());
                let others = vec![Vec::new(); variants];
                let mut answer = Answer { asked, records: BTreeMap::new(), first: None, others };
                // Of a single run the page waits for nothing but the picture.
                let picture = if (variants, seeds) == (1, 1) {
                    let run = Run(0, 0);
                    answer.records.insert(run, answer.run(run)?);
                    Some(answer.picture()?)
                } else {
                    None
                };
                let begun = Ok(json(&Begun { variants, seeds, picture }));
                self.answer = Some(answer);
                begun
            }
            Request::Run(run) => {
                let answer = self.current()?;
                let record = answer.run(run)?;
                answer.records.insert(run, record);
                Ok(json(&()))
            }
            Request::Lend(run) => Ok(json(&self.current()?.run(run)?)),
            Request::Keep(run, record) => {
                self.current()?.records.insert(run, *record);
                Ok(json(&()))
            }
            Request::Picture => Ok(json(&self.current()?.picture()?)),
            Request::Save(side) => Ok(json(&self.explorer.save(&side).map_err(|error| error.problems())?)),
            Request::Film(side) => Ok(json(&self.explorer.film(&side).map_err(|error| error.problems())?)),
            Request::Sketch(name) => {
                Ok(json(&self.explorer.sketch(&name).map_err(|error| error.problems())?))
            }
            Request::Simulate(file) => simulate(&file),
        }
    }

    fn current(&mut self) -> Result<&mut Answer, Vec<String>> {
        self.answer.as_mut().ok_or_else(|| vec!["nothing was asked before this request".to_owned()])
    }
}

impl Answer {
    fn run(&self, Run(variant, seed): Run) -> Result<RunRecord, Vec<String>> {
        let unknown = || vec![format!("run {variant} of the question: there are {}", self.asked.variants())];
        self.asked.run(variant, seed, || false).ok_or_else(unknown)
    }

    /// The picture of the first seed; where all others have been kept, too, of all.
    fn picture(&mut self) -> Result<impl Serialize + use<>, Vec<String>> {
        let variants = self.asked.variants();
        if self.first.is_none() {
            let first: Vec<RunRecord> =
                (0..variants).filter_map(|variant| self.records.remove(&Run(variant, 0))).collect();
            if first.len() < variants {
                return Err(vec![format!("{} of {variants} runs are there", first.len())]);
            }
            self.first = Some(self.asked.side_by_side(first));
        }
        if self.records.len() == variants * usize::from(self.asked.seeds() - 1) {
            for (Run(variant, _), record) in std::mem::take(&mut self.records) {
                if let Some(records) = self.others.get_mut(variant) {
                    records.push(record);
                }
            }
        }
        let first = self.first.as_ref().ok_or_else(Vec::new)?;
        Ok(self.asked.picture(first, &self.others))
    }
}

/// Strings, numbers and vectors under names that are strings: serialisation has no way to fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The file with what is beside it, under the names that the file gives it.
fn document(file: &File) -> Result<Document, Vec<String>> {
    let document = Document::parse(&file.text, &file.name).map_err(|error| error.problems().to_vec())?;
    let mut given = file.beside.clone();
    // A browser does not tell the folder of a file.
    let by_name: BTreeMap<&str, &String> =
        file.beside.iter().map(|(name, text)| (base(name), text)).collect();
    let mut visit = vec![Value::Table(file.text.parse::<Table>().unwrap_or_default())];
    while let Some(value) = visit.pop() {
        match value {
            Value::Table(table) => visit.extend(table.into_iter().map(|(_, value)| value)),
            Value::Array(array) => visit.extend(array),
            Value::String(name) if !given.contains_key(&name) => {
                if let Some(text) = by_name.get(base(&name)) {
                    given.insert(name, (*text).clone());
                }
            }
            _ => {}
        }
    }
    Ok(document.with_traces(given))
}

/// The last part of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The record of a scenario or a city with its own seed.
fn simulate(file: &File) -> Result<String, Vec<String>> {
    let document = document(file)?;
    if document.is_city() {
        let scenario = document.city(&[]).map_err(|error| error.problems().to_vec())?;
        let seed = scenario.spec.config.seed;
        let (run, _) = city::simulate_logged(&scenario, seed, &city::Alone, |_| ControlFlow::Continue(()))
            .map_err(|error| vec![error.to_string()])?;
        return Ok(pretty(&run.took(0.0)));
    }
    let scenario = document.scenario(&[]).map_err(|error| error.problems().to_vec())?;
    Ok(pretty(&run::simulate(&scenario, scenario.seed(), RecordOptions::default(), &mut ())))
}

#[cfg(test)]
mod tests;
