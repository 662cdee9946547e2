//! Controllers side by side: one scenario, one seed, a run under each.
//!
//! Whatever is not the controller is the same in all runs: the network, the other flows, and all that chance decides.

mod observer;
mod table;

use std::{collections::BTreeMap, str::FromStr};

use giusto_core::control::{ControllerKind, FeedbackKind};
pub use observer::{Losses, RunObserver};
use serde::Serialize;
pub use table::Row;
pub(crate) use table::columns;

use crate::{
    scenario::{Document, FEEDBACKS, FlowKind, Scenario, ScenarioError, Setting},
    simulation::{self, result::SimResult},
};

/// Which controllers are compared, each once.
///
/// # Example
///
/// ```
/// use giusto::{comparison::Controllers, core::control::ControllerKind};
///
/// let two: Controllers = "gcc:remb,fixed".parse()?;
/// assert_eq!(two.0, [ControllerKind::GccRemb, ControllerKind::Fixed]);
/// assert_eq!("all".parse::<Controllers>()?.0, ControllerKind::ALL);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers(pub Vec<ControllerKind>);

impl Default for Controllers {
    /// The baseline, Google Congestion Control at the sender and at the receiver, and the three generations of SCReAM.
    fn default() -> Self {
        use ControllerKind::{Fixed, GccLibwebrtc, GccRemb, ScreamD00, ScreamRfc8298, ScreamV2};
        Self(vec![Fixed, GccLibwebrtc, GccRemb, ScreamD00, ScreamRfc8298, ScreamV2])
    }
}

impl FromStr for Controllers {
    type Err = String;

    /// Reads names with commas between them, or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self(ControllerKind::ALL.to_vec()));
        }
        let mut kinds = Vec::new();
        for name in text.split(',') {
            let kind: ControllerKind =
                name.trim().parse().map_err(|error| format!("{error}; all takes every one"))?;
            if kinds.contains(&kind) {
                return Err(format!("{kind} is given twice: leave one out"));
            }
            kinds.push(kind);
        }
        Ok(Self(kinds))
    }
}

/// A run that is to be done: the scenario under one of the controllers.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The controller.
    pub controller: ControllerKind,
    /// The scenario with it.
    pub scenario: Scenario,
    /// What the receiver of each compared flow of the scenario reports, by the flow's name.
    pub feedback: BTreeMap<String, String>,
    /// What was changed besides the controller, a sentence each.
    pub notes: Vec<String>,
}

/// A flow whose controllers are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its own name: numbered if there are several of it.
    pub name: String,
    /// What the scenario calls it.
    pub id: String,
    /// The link of its way that carries least over the whole run; none if no rate is limited.
    pub bottleneck: Option<String>,
}

/// The scenario of `document` with `settings` under each of `controllers`: of all its media flows, or of `flow` alone.
///
/// Feedback that a controller does not hear gives way to what it wants.
///
/// # Errors
///
/// [`ScenarioError`]: the scenario is wrong, no flow of it is media, or none of these is called `flow`.
pub fn contenders(
    document: &Document,
    settings: &[Setting],
    controllers: &Controllers,
    flow: Option<&str>,
) -> Result<Vec<Contender>, ScenarioError> {
    let base = document.scenario(settings)?;
    let media: Vec<(&str, Option<FeedbackKind>)> = base
        .flows()
        .iter()
        .filter_map(|spec| match &spec.kind {
            FlowKind::Media(media) => Some((spec.id.as_str(), media.feedback)),
            _ => None,
        })
        .collect();
    if media.is_empty() {
        let mend = "compare a scenario with a flow of kind media";
        let text = format!("{}: no flow has a controller that can be chosen: {mend}", base.name());
        return Err(ScenarioError::new(vec![text]));
    }
    let compared = || media.iter().filter(|(id, _)| flow.is_none_or(|flow| flow == *id));
    if let (Some(flow), None) = (flow, compared().next()) {
        let known: Vec<&str> = media.iter().map(|(id, _)| *id).collect();
        let text = format!("--flow {flow}: no such flow is of kind media: known are {}", known.join(", "));
        return Err(ScenarioError::new(vec![text]));
    }
    let contender = |&controller: &ControllerKind| {
        let mut settings = settings.to_vec();
        let (mut feedback, mut notes) = (BTreeMap::new(), Vec::new());
        for &(id, given) in compared() {
            let mut set = |key: &str, value: &str| {
                settings.push(Setting { path: format!("flow.{id}.{key}"), value: value.to_owned() });
            };
            set("controller", controller.name());
            let heard = given.filter(|&given| controller.hears(given)).unwrap_or(controller.feedback());
            if let Some(given) = given.filter(|&given| given != heard) {
                set("feedback", feedback_name(heard));
                notes.push(format!(
                    "{controller} hears nothing in {}, which the scenario gives {id}: it is given {}.",
                    feedback_name(given),
                    feedback_name(heard)
                ));
            }
            feedback.insert(id.to_owned(), feedback_name(heard).to_owned());
        }
        Ok(Contender { controller, scenario: document.scenario(&settings)?, feedback, notes })
    };
    controllers.0.iter().map(contender).collect()
}

/// A kind of feedback as a file names it.
fn feedback_name(kind: FeedbackKind) -> &'static str {
    FEEDBACKS.iter().find(|(_, known)| *known == kind).map_or("its own", |(name, _)| name)
}

impl Contender {
    /// The flows whose controllers are compared, in the order of the scenario.
    pub fn subjects(&self, seed: u64) -> Vec<Subject> {
        // A scenario that exists can be built.
        let Ok(built) = simulation::build::simulation(&self.scenario, seed) else { return Vec::new() };
        let end = self.scenario.end();
        let subject = |flow: &simulation::build::BuiltFlow| {
            let id = self.scenario.flows().get(flow.spec).map(|spec| spec.id.clone())?;
            let way = &built.simulation.flow(flow.forwards).path;
            let links = self.scenario.links().iter().zip(&built.links);
            let on_way = links.filter(|(_, link)| way.contains(link)).map(|(spec, _)| spec);
            let limited = on_way.filter_map(|spec| Some((spec.config.rate.capacity(end)?, &spec.id)));
            let bottleneck = limited.min_by_key(|(capacity, _)| *capacity).map(|(_, id)| id.clone());
            self.feedback.contains_key(&id).then(|| Subject { name: flow.name.clone(), id, bottleneck })
        };
        built.flows.iter().filter_map(subject).collect()
    }
}

/// One of the runs that were compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// The controller.
    pub controller: String,
    /// What the receiver of each compared flow of the scenario reported, by the flow's name.
    pub feedback: BTreeMap<String, String>,
    /// What came of it.
    #[serde(flatten)]
    pub result: SimResult,
}

/// What came of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// What all chance derived from; a string, since JSON numbers lose digits.
    pub seed: String,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// What was changed besides the controllers, a sentence each.
    pub notes: Vec<String>,
    /// The flows whose controllers are compared.
    #[serde(skip)]
    pub subjects: Vec<Subject>,
    /// The runs in the order in which the controllers were given; fewer if it was interrupted.
    pub runs: Vec<Run>,
}

impl Comparison {
    /// A line for each controller and each flow that it controls.
    pub fn rows(&self) -> Vec<Row> {
        let of_run = |run: &Run| -> Vec<Row> {
            self.subjects.iter().filter_map(|subject| Row::new(run, subject)).collect()
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    /// The comparison as a person reads it, at most `width` characters wide where that can be done.
    pub fn text(&self, width: u16) -> String {
        table::text(self, width)
    }
}

#[cfg(test)]
mod tests;
