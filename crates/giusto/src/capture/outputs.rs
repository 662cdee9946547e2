//! The files of one simulated run.

use std::path::{Path, PathBuf};

use giusto_congestion::{Controller, FeedbackKind};

use crate::{
    replay::{Lacks, SessionInfo, SessionLog},
    run::{MediaFlow, Taps},
    scenario::{FlowKind, MediaSpec, Scenario},
    whole_file::WriteError,
};

/// Files that show one media flow of a run, or all of it. They are opened before the run.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The flow, and its log.
    session_log: Option<(String, SessionLog)>,
}

impl Outputs {
    /// Files of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a session log of the flow with the name `flow`, or of the only media flow of `scenario`.
    ///
    /// # Errors
    ///
    /// The text names the flow or the file, and the fix.
    pub fn with_session_log(mut self, path: &Path, scenario: &Scenario, flow: Option<&str>) -> Result<Self, String> {
        let (name, spec) = media_flow(scenario, flow)?;
        let log = SessionLog::create(path, &session_info(&name, spec)).map_err(|error| error.to_string())?;
        self.session_log = Some((name, log));
        Ok(self)
    }

    /// Completes the files; returns their paths, and what is to be said about them.
    ///
    /// # Errors
    ///
    /// [`WriteError`] of the first file that could not be written.
    pub fn finish(self) -> Result<(Vec<PathBuf>, Vec<String>), WriteError> {
        let (mut paths, mut notes) = (Vec::new(), Vec::new());
        if let Some((_, log)) = self.session_log {
            let written = log.finish()?;
            if written.is_cut {
                let (path, bytes) = (written.path.display(), written.bytes);
                notes.push(format!("{path} ends early: it has reached its maximum size, {bytes} B"));
            }
            paths.push(written.path);
        }
        Ok((paths, notes))
    }
}

impl Taps for Outputs {
    fn controller(&mut self, flow: MediaFlow<'_>, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        match &self.session_log {
            Some((name, log)) if name == flow.name => log.record(controller),
            _ => controller,
        }
    }
}

/// The media flow of this name, or the only one.
fn media_flow<'a>(scenario: &'a Scenario, flow: Option<&str>) -> Result<(String, &'a MediaSpec), String> {
    let media = scenario.flows().iter().filter_map(|spec| match &spec.kind {
        FlowKind::Media(media) => Some((spec, media)),
        _ => None,
    });
    let all: Vec<(String, &MediaSpec)> =
        media.flat_map(|(spec, media)| spec.instances().map(move |name| (name, media))).collect();
    let names = || all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match (flow, all.as_slice()) {
        (_, []) => Err("this scenario has no flow of kind media: use one that has a controller".to_owned()),
        (Some(flow), _) => {
            let found = all.iter().find(|(name, _)| name == flow).cloned();
            found.ok_or_else(|| format!("no media flow is called \"{flow}\": known are {}", names()))
        }
        (None, [(name, spec)]) => Ok((name.clone(), spec)),
        (None, _) => Err(format!("the scenario has {} media flows: choose one with --flow: {}", all.len(), names())),
    }
}

fn session_info(name: &str, spec: &MediaSpec) -> SessionInfo {
    let feedback = spec.reported();
    let has_codepoints = matches!(feedback, FeedbackKind::CongestionControl | FeedbackKind::ScreamDraft);
    SessionInfo {
        recorder: concat!("giusto sim ", env!("CARGO_PKG_VERSION")).to_owned(),
        name: name.to_owned(),
        controller: spec.controller.name().to_owned(),
        limits: spec.limits,
        delay_target: spec.delay_target,
        feedback,
        lacks: Lacks { ecn: !spec.ecn.is_capable() || !has_codepoints, ..Lacks::default() },
    }
}
