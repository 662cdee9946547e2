//! Questions about a scenario with other values, and their answers.

use std::ops::ControlFlow::{Break, Continue};

use giusto_congestion::Algorithm;
use giusto_units::{TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    controls::{Group, controls},
    error::ExploreError,
    film::Film,
    gallery,
};
use crate::{
    record::{FlowTimeline, RunRecord, TimelineOptions},
    run::{
        RecordOptions,
        comparison::{self, Comparison, Controllers, Run},
        simulate_watched,
    },
    scenario::{Document, FlowKind, Scenario, Setting, is_controller_file},
    view::{
        comparison::bottleneck,
        html::{self, Explored, Report},
    },
};

/// The most seeds of a question.
pub const MAX_SEEDS: u16 = 50;

/// The most runs of a question.
pub const MAX_RUNS: usize = 300;

/// The most controllers side by side.
const MAX_CONTROLLERS: usize = 8;

/// The longest simulated time of a run.
const MAX_DURATION: TimeDelta = TimeDelta::from_millis(3_600_000);

/// The simulated time that a sketch shows at most.
const MAX_SKETCH: TimeDelta = TimeDelta::from_millis(60_000);

/// Moments of a sketch.
const SKETCH_POINTS: i64 = 80;

/// Flows of a scenario without media that are compared.
const MAX_FLOWS: usize = 3;

/// What a page asks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// One scenario, or two beside each other.
    pub sides: Vec<Side>,
    /// Controllers side by side; empty: those of the scenario.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// Runs of each, with consecutive seeds; 0 is 1.
    #[serde(default)]
    pub seeds: u16,
}

/// A scenario with settings.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Its name in the gallery; by default the file of the explorer.
    #[serde(default)]
    pub scenario: Option<String>,
    /// Paths and values as in `--set`, later ones over earlier ones.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

impl Side {
    /// The file of the explorer, `document`, with `settings`. Their paths become those of the [controls](Explorer::controls), which name
    /// the list: `link.wire.rate`, not `wire.rate`.
    pub fn of(document: &Document, settings: &[Setting]) -> Self {
        let whole = |setting: &Setting| (document.whole_path(&setting.path).join("."), setting.value.clone());
        Self { scenario: None, settings: settings.iter().map(whole).collect() }
    }

    /// The settings. They may name no file: whoever has the address of a page could read it by the messages about it.
    fn settings(&self) -> Result<Vec<Setting>, ExploreError> {
        let setting = |(path, value): &(String, String)| {
            let setting = Setting { path: path.clone(), value: value.clone() };
            if names_file(&setting) {
                let text = format!("{path}: a file cannot be named here: name it in the scenario file");
                return Err(ExploreError::Question(text));
            }
            Ok(setting)
        };
        self.settings.iter().map(setting).collect()
    }
}

/// Whether a setting has the key of a file, or the name of one of constants.
fn names_file(setting: &Setting) -> bool {
    const FILES: [&str; 2] = ["trace", "mahimahi"];
    fn within(value: &toml_edit::Value) -> bool {
        match value {
            toml_edit::Value::String(text) => is_controller_file(text.value()),
            toml_edit::Value::InlineTable(table) => {
                table.iter().any(|(key, value)| FILES.contains(&key) || within(value))
            }
            toml_edit::Value::Array(array) => array.iter().any(within),
            _ => false,
        }
    }
    let last = setting.path.rsplit('.').next().unwrap_or_default().trim();
    let value = setting.value.trim();
    FILES.contains(&last) || is_controller_file(value) || value.parse().is_ok_and(|value| within(&value))
}

/// A part of an answer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// The page: first of one seed, then, if there are several, of all.
    Picture {
        /// Whether nothing follows.
        last: bool,
        /// The page.
        report: Box<Report>,
        /// The record from which its series take their data.
        record: Value,
        /// The controls of each side.
        controls: Vec<Vec<Group>>,
    },
    /// How many runs have ended.
    Progress {
        /// Ended runs.
        done: usize,
        /// All runs.
        of: usize,
    },
}

/// A small picture: rates over time, in bit/s.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sketch {
    /// The capacity of the slowest link on the path of the first flow that has one; empty without one.
    pub capacity_bps: Vec<Option<f64>>,
    /// The received rate of each flow.
    pub flows_bps: Vec<Vec<f64>>,
}

impl Sketch {
    fn of(record: &RunRecord) -> Self {
        let Some(timeline) = &record.timeline else { return Self::default() };
        let slowest = record.flows.iter().find_map(|flow| bottleneck(record, flow));
        let slowest = slowest.and_then(|slowest| timeline.links.iter().find(|link| link.id == slowest.id));
        let rates = |flow: &FlowTimeline| flow.received_rate_bps.iter().map(|&bps| bps as f64).collect();
        Self {
            capacity_bps: slowest.map(|link| link.capacity_bps.clone()).unwrap_or_default(),
            flows_bps: timeline.flows.iter().map(rates).collect(),
        }
    }
}

/// Answers questions about one file and the scenarios of the gallery.
#[derive(Debug)]
pub struct Explorer {
    file: Option<Document>,
}

/// A question that can be answered: its runs, which may be made in any order and anywhere, and the pictures of their records.
#[derive(Debug)]
pub struct Asked {
    variants: Vec<Variant>,
    seeds: u16,
    notes: Vec<String>,
    controls: Vec<Vec<Group>>,
}

/// One of the runs that are shown beside each other, with each seed.
#[derive(Debug)]
struct Variant {
    label: String,
    scenario: Scenario,
}

impl Explorer {
    /// An explorer of a file, or of the gallery alone.
    pub fn new(file: Option<Document>) -> Self {
        Self { file }
    }

    /// The document of a side.
    fn document(&self, side: &Side) -> Result<Document, ExploreError> {
        match (&side.scenario, &self.file) {
            (Some(name), _) => gallery::document(name),
            (None, Some(file)) => Ok(file.clone()),
            (None, None) => {
                let text = "scenario: missing: name one of the gallery, or start with a FILE";
                Err(ExploreError::Question(text.to_owned()))
            }
        }
    }

    /// The controls of a side.
    ///
    /// # Errors
    ///
    /// [`ExploreError`]: the scenario is unknown, or not valid with the settings.
    pub fn controls(&self, side: &Side) -> Result<Vec<Group>, ExploreError> {
        let (document, settings) = (self.document(side)?, side.settings()?);
        document.scenario(&settings)?;
        Ok(controls(&document, &settings)?)
    }

    /// A question with its scenarios.
    ///
    /// # Errors
    ///
    /// [`ExploreError`] lists what is wrong with it.
    pub fn ask(&self, question: &Question) -> Result<Asked, ExploreError> {
        let seeds = question.seeds.max(1);
        let (variants, notes) = self.variants(question)?;
        check(&variants, seeds)?;
        let controls = question.sides.iter().map(|side| self.controls(side)).collect::<Result<_, _>>()?;
        Ok(Asked { variants, seeds, notes, controls })
    }

    /// The name of the file, as in messages; `None` without one.
    pub fn title(&self) -> Option<&str> {
        self.file.as_ref().map(Document::name)
    }

    /// The file; `None` without one.
    pub fn file(&self) -> Option<&Document> {
        self.file.as_ref()
    }

    /// A small picture of a scenario of the gallery: its first seconds, at a few moments.
    ///
    /// # Errors
    ///
    /// [`ExploreError`]: the gallery has no such scenario.
    pub fn sketch(&self, name: &str) -> Result<Sketch, ExploreError> {
        let side = Side { scenario: Some(name.to_owned()), settings: Vec::new() };
        let scenario = self.document(&side)?.scenario(&[])?;
        let width =
            TimeDelta::from_nanos(scenario.duration().as_nanos().min(MAX_SKETCH.as_nanos()) / SKETCH_POINTS);
        let timeline = TimelineOptions { width: Some(width), max_flows: 4, ..TimelineOptions::default() };
        let end = Timestamp::ZERO + MAX_SKETCH;
        let options = RecordOptions::with_timeline(timeline);
        let watch = |now| if now >= end { Break(()) } else { Continue(()) };
        let record = simulate_watched(&scenario, scenario.seed(), options, &mut (), watch);
        Ok(Sketch::of(&record))
    }

    /// The run of a side, packet by packet.
    ///
    /// # Errors
    ///
    /// [`ExploreError`]: the scenario is unknown, not valid with the settings, or too long.
    pub fn film(&self, side: &Side) -> Result<Film, ExploreError> {
        let scenario = self.document(side)?.scenario(&side.settings()?)?;
        check_length(&scenario)?;
        Ok(Film::of(&scenario))
    }

    /// The text of a side's file with the settings written into it: `giusto sim` accepts it.
    ///
    /// # Errors
    ///
    /// [`ExploreError`]: the scenario is unknown, or not valid with the settings.
    pub fn save(&self, side: &Side) -> Result<String, ExploreError> {
        Ok(self.document(side)?.text_with(&side.settings()?)?)
    }

    /// The scenarios that are asked for, and what else was changed in them.
    fn variants(&self, question: &Question) -> Result<(Vec<Variant>, Vec<String>), ExploreError> {
        let wrong = |text: String| Err(ExploreError::Question(text));
        if !(1..=2).contains(&question.sides.len()) {
            return wrong(format!("sides: {}: ask about one scenario or two", question.sides.len()));
        }
        let controllers = match question.controllers.as_slice() {
            [] => None,
            names => {
                let known: Result<Controllers, String> = names.join(",").parse();
                let known = known.map_err(|error| ExploreError::Question(format!("controllers: {error}")))?;
                // `all` is one name of many.
                let found = known.0.len();
                if found > MAX_CONTROLLERS {
                    return wrong(format!("controllers: {found}: choose at most {MAX_CONTROLLERS}"));
                }
                Some(known)
            }
        };
        let (mut variants, mut notes) = (Vec::new(), Vec::new());
        for (side, letter) in question.sides.iter().zip(["A", "B"]) {
            let (document, settings) = (self.document(side)?, side.settings()?);
            let scenario = document.scenario(&settings)?;
            let several = question.sides.len() > 1;
            let has_media = scenario.flows().iter().any(|flow| matches!(flow.kind, FlowKind::Media(_)));
            let label = |name: &str| if several { format!("{letter}: {name}") } else { name.to_owned() };
            match &controllers {
                Some(controllers) if has_media => {
                    let contenders = comparison::contenders(&document, &settings, controllers, None)?;
                    for note in comparison::notes(&contenders) {
                        if !notes.contains(&note) {
                            notes.push(note);
                        }
                    }
                    variants.extend(contenders.into_iter().map(|contender| Variant {
                        label: label(contender.controller.name()),
                        scenario: contender.scenario,
                    }));
                }
                _ => {
                    let name = own_controller(&scenario).unwrap_or_else(|| scenario.name().to_owned());
                    variants.push(Variant { label: label(&name), scenario });
                }
            }
        }
        Ok((variants, notes))
    }
}

impl Asked {
    /// Number of runs beside each other.
    pub fn variants(&self) -> usize {
        self.variants.len()
    }

    /// Number of seeds of each, at least 1.
    pub fn seeds(&self) -> u16 {
        self.seeds
    }

    /// Runs one of the variants with one of the seeds, both counted from 0; `None` without such a variant, and where `ends`, which is
    /// asked several hundred times, says to give up. `wall_s` stays zero.
    pub fn run(&self, variant: usize, seed: u16, ends: impl Fn() -> bool) -> Option<RunRecord> {
        let Variant { scenario, .. } = self.variants.get(variant)?;
        let options = RecordOptions::with_timeline(TimelineOptions::default());
        let watch = |_| if ends() { Break(()) } else { Continue(()) };
        let mut record =
            simulate_watched(scenario, scenario.seed().wrapping_add(seed.into()), options, &mut (), watch);
        if seed > 0 {
            html::keep_for_bands(&mut record);
        }
        (!record.interrupted).then_some(record)
    }

    /// The runs with the first seed beside each other, in the order of the variants.
    pub fn side_by_side(&self, first: Vec<RunRecord>) -> Comparison {
        side_by_side(&self.variants, first, self.notes.clone())
    }

    /// The picture of the first seed; with the records of the others, if there are any, of all.
    pub fn picture(&self, first: &Comparison, others: &[Vec<RunRecord>]) -> Update {
        let Explored { report, record } = html::explored(first, others);
        let last = others.iter().all(Vec::is_empty) == (self.seeds == 1);
        Update::Picture { last, report: Box::new(report), record, controls: self.controls.clone() }
    }
}

/// The controller of a scenario's media, if all have one and the same.
fn own_controller(scenario: &Scenario) -> Option<String> {
    let mut media = scenario.flows().iter().filter_map(|flow| match &flow.kind {
        FlowKind::Media(media) => Some(media.controller),
        _ => None,
    });
    let first: Algorithm = media.next()?;
    media.all(|other| other == first).then(|| first.name().to_owned())
}

fn check(variants: &[Variant], seeds: u16) -> Result<(), ExploreError> {
    let wrong = |text: String| Err(ExploreError::Question(text));
    if seeds > MAX_SEEDS {
        return wrong(format!("seeds: {seeds}: at most {MAX_SEEDS}; `giusto sweep` runs more"));
    }
    let runs = variants.len() * usize::from(seeds);
    if runs > MAX_RUNS {
        return wrong(format!("{runs} runs: at most {MAX_RUNS}: choose fewer seeds or controllers"));
    }
    variants.iter().try_for_each(|variant| check_length(&variant.scenario))
}

fn check_length(scenario: &Scenario) -> Result<(), ExploreError> {
    let (name, found) = (scenario.name(), scenario.duration());
    if found > MAX_DURATION {
        return Err(ExploreError::Question(format!(
            "{name}: duration: {found}: at most {MAX_DURATION} here; `giusto sim` runs longer"
        )));
    }
    Ok(())
}

/// The first runs as a comparison.
fn side_by_side(variants: &[Variant], records: Vec<RunRecord>, mut notes: Vec<String>) -> Comparison {
    let run = |(variant, result): (&Variant, RunRecord)| {
        let flows = variant.scenario.flows();
        let media: Vec<&str> = flows
            .iter()
            .filter(|flow| matches!(flow.kind, FlowKind::Media(_)))
            .map(|flow| flow.id.as_str())
            .collect();
        let compared = if media.is_empty() {
            flows.iter().take(MAX_FLOWS).map(|flow| flow.id.as_str()).collect()
        } else {
            media
        };
        let feedback = |id: &str| {
            let flow = result.flows.iter().find(|flow| flow.group == id);
            (id.to_owned(), flow.and_then(|flow| flow.feedback.clone()).unwrap_or_default())
        };
        let feedback = crate::order::map(compared.into_iter().map(feedback));
        Run { controller: variant.label.clone(), live: false, feedback, result }
    };
    let runs: Vec<Run> = variants.iter().zip(records).map(run).collect();
    comparison::add_notes_of(&runs, &mut notes);
    let first = variants.first().map(|variant| &variant.scenario);
    Comparison {
        scenario: first.map(|scenario| scenario.name().to_owned()).unwrap_or_default(),
        seed: first.map(|scenario| scenario.seed().to_string()).unwrap_or_default(),
        interrupted: false,
        notes,
        runs,
        parity: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
