//! Controllers side by side: one scenario, one seed, a run under each.
//!
//! Everything but the controller is the same in all runs: the network, the other flows and all random draws.

use std::{collections::BTreeMap, str::FromStr};

use giusto_congestion::Algorithm;
use serde::Serialize;

mod parity;

pub use parity::{MAX_QUEUE_DELAY_DIFFERENCE, MAX_RATE_DIFFERENCE, Parity};

use crate::{
    record::RunRecord,
    scenario::{
        Document, FlowKind, FlowSpec, MediaSpec, Scenario, ScenarioError, Setting, Unsupported, controller,
        load_controller,
    },
};

/// The controllers of a comparison, each once.
///
/// # Example
///
/// ```
/// use giusto::run::comparison::Controllers;
/// use giusto_congestion::Algorithm;
///
/// let two: Controllers = "gcc:remb,fixed".parse()?;
/// assert_eq!(two.0.iter().map(|one| one.name()).collect::<Vec<_>>(), ["gcc:remb", "fixed"]);
/// assert!("all".parse::<Controllers>()?.0.into_iter().eq(Algorithm::all()));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers(pub Vec<Algorithm>);

/// The default controllers of a comparison.
const DEFAULT: [&str; 6] =
    ["fixed", "gcc:libwebrtc+giusto", "gcc:remb", "scream:d00+giusto", "scream:rfc8298+giusto", "scream:v2"];

impl Default for Controllers {
    /// The baseline, Google Congestion Control at the sender and at the receiver, and the three generations of SCReAM.
    fn default() -> Self {
        let known = DEFAULT.iter().map(|name| name.parse());
        Self(known.collect::<Result<_, _>>().expect("the names are in the table of controllers"))
    }
}

impl FromStr for Controllers {
    type Err = String;

    /// Parses names separated by commas, each maybe with [constants](controller), or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::each(text, controller)
    }
}

impl Controllers {
    /// Parses the same, where [files](load_controller) of constants may stand for names.
    ///
    /// # Errors
    ///
    /// What is unknown or cannot be read, with the fix.
    pub fn load(text: &str) -> Result<Self, String> {
        Self::each(text, load_controller)
    }

    fn each(text: &str, parse: impl Fn(&str) -> Result<Algorithm, String>) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self(Algorithm::all().collect::<Vec<_>>()));
        }
        let mut kinds = Vec::new();
        for name in text.split(',') {
            let kind =
                parse(name.trim()).map_err(|error| format!("{error}; all by itself takes every one"))?;
            if kinds.contains(&kind) {
                return Err(format!("{kind} is given twice: leave one out"));
            }
            kinds.push(kind);
        }
        Ok(Self(kinds))
    }
}

/// A run to be made: the scenario under one of the controllers.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The controller.
    pub controller: Algorithm,
    /// The scenario with it.
    pub scenario: Scenario,
    /// The feedback of each compared flow of the scenario, by the flow's name.
    pub feedback: BTreeMap<String, String>,
    /// Settings of the scenario that this controller does not support, with the flow's name.
    removed: Vec<(String, Unsupported)>,
}

impl Contender {
    /// The text of `document`, and `settings`, both without what this controller does not support. The controller is not set in them.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: the document cannot be read.
    pub fn plain(
        &self,
        document: &Document,
        settings: &[Setting],
    ) -> Result<(String, Vec<Setting>), ScenarioError> {
        let paths: Vec<[&str; 3]> =
            self.removed.iter().map(|(flow, setting)| ["flow", flow, setting.key()]).collect();
        let is_kept = |setting: &&Setting| {
            let keys = document.whole_path(&setting.path);
            !paths.iter().any(|path| keys.iter().eq(path))
        };
        let text = document.text_without(&paths)?;
        Ok((text, settings.iter().filter(is_kept).cloned().collect()))
    }
}

/// The scenario of `document` with `settings` under each of `controllers`: of all its media flows, or of `flow` alone.
///
/// Settings that a controller does not support are removed, and feedback that it does not accept is replaced by what it requires;
/// [`notes`] lists them.
///
/// # Errors
///
/// [`ScenarioError`]: the scenario is not valid, it has no media flow, or none that is called `flow`.
pub fn contenders(
    document: &Document,
    settings: &[Setting],
    controllers: &Controllers,
    flow: Option<&str>,
) -> Result<Vec<Contender>, ScenarioError> {
    let compared = |id: &str| flow.is_none_or(|flow| flow == id);
    let contender = |&controller: &Algorithm| {
        let (mut feedback, mut removed) = (BTreeMap::new(), Vec::new());
        let scenario = document.scenario_with(settings, |flows| {
            for (id, media) in media_of(flows).filter(|(id, _)| compared(id)) {
                removed.extend(
                    media.set_controller(controller).into_iter().map(|setting| (id.to_owned(), setting)),
                );
                feedback.insert(id.to_owned(), media.reported().name().to_owned());
            }
        })?;
        if feedback.is_empty() {
            return Err(nothing_to_compare(&scenario, flow));
        }
        Ok(Contender { controller, scenario, feedback, removed })
    };
    controllers.0.iter().map(contender).collect()
}

/// The media flows and their ids.
fn media_of(flows: &mut [FlowSpec]) -> impl Iterator<Item = (&str, &mut MediaSpec)> {
    flows.iter_mut().filter_map(|spec| match &mut spec.kind {
        FlowKind::Media(media) => Some((spec.id.as_str(), media)),
        _ => None,
    })
}

fn nothing_to_compare(scenario: &Scenario, flow: Option<&str>) -> ScenarioError {
    let media = scenario.flows().iter().filter(|spec| matches!(spec.kind, FlowKind::Media(_)));
    let known: Vec<&str> = media.map(|spec| spec.id.as_str()).collect();
    let text = match flow {
        Some(flow) if !known.is_empty() => {
            format!("--flow {flow}: no such flow is of kind media: known are {}", known.join(", "))
        }
        _ => {
            let fix = "compare a scenario with a flow of kind media";
            format!("{}: no flow has a controller that can be chosen: {fix}", scenario.name())
        }
    };
    ScenarioError::new(vec![text])
}

/// Changes besides the controllers, a sentence each.
pub fn notes(contenders: &[Contender]) -> Vec<String> {
    let mut notes = Vec::new();
    // One sentence for all controllers without the same setting.
    let mut without: Vec<(_, Vec<&str>)> = Vec::new();
    for Contender { controller, feedback, removed, .. } in contenders {
        for (flow, setting) in removed {
            let why = match setting {
                Unsupported::Feedback(given) => {
                    let used = feedback.get(flow).map_or("its own", String::as_str);
                    let given = given.name();
                    notes.push(format!(
                        "{controller} cannot use {given}, the feedback of {flow} in the scenario: it gets {used}."
                    ));
                    continue;
                }
                Unsupported::ReceiverLimit => {
                    "only scream:d00 and scream:d00+giusto with scream-draft support it"
                }
                Unsupported::DelayTarget => "they aim at no delay",
                Unsupported::Priority => "they share without weights",
                Unsupported::AuthorsLaws => "they have none",
                Unsupported::LimitedProbes => "they do not probe",
            };
            let group = (setting.key(), flow.as_str(), why);
            match without.iter_mut().find(|(known, _)| *known == group) {
                Some((_, controllers)) => controllers.push(controller.name()),
                None => without.push((group, vec![controller.name()])),
            }
        }
    }
    notes.extend(without.into_iter().map(|((key, flow, why), controllers)| {
        format!("The {key} of {flow} in the scenario is left out, since {why}: {}.", controllers.join(", "))
    }));
    notes
}

/// Adds the notes of `runs` to those of their contenders, each once.
pub fn add_notes_of(runs: &[Run], notes: &mut Vec<String>) {
    for note in runs.iter().flat_map(|run| &run.result.notes).map(|note| format!("{note}.")) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// One of the compared runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// The controller.
    pub controller: String,
    /// Whether it ran in real time: see [`live`](crate::live).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The feedback of each compared flow of the scenario, by the flow's name.
    pub feedback: BTreeMap<String, String>,
    /// The record of the run.
    #[serde(flatten)]
    pub result: RunRecord,
}

impl Run {
    /// The controller, and whether it ran in real time.
    pub fn label(&self) -> String {
        if self.live { format!("{} live", self.controller) } else { self.controller.clone() }
    }

    /// Why the figures of a run in real time cannot be trusted.
    pub fn doubts(&self) -> &[String] {
        self.result.real_time.as_ref().map_or(&[], |real_time| &real_time.doubts)
    }
}

/// The records of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// Random seed; a string, since JSON numbers lose digits.
    pub seed: String,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Changes besides the controllers, and the notes of the runs, a sentence each.
    pub notes: Vec<String>,
    /// The runs in the order in which the controllers were given, each followed by that in real time, if there is one; fewer if it
    /// was interrupted.
    pub runs: Vec<Run>,
    /// The simulation and the real time of each controller with both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parity: Vec<Parity>,
}

impl Comparison {
    /// Simulations and runs in real time side by side.
    pub fn of(simulated: Vec<Run>, live: Vec<Run>) -> Self {
        let mut live: BTreeMap<String, Run> =
            live.into_iter().map(|run| (run.controller.clone(), run)).collect();
        let (mut runs, mut parity) = (Vec::new(), Vec::new());
        for run in simulated {
            let live = live.remove(&run.controller);
            parity.extend(live.as_ref().and_then(|live| Parity::of(&run, live)));
            runs.push(run);
            runs.extend(live);
        }
        Self { runs, parity, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
