//! The files of one simulated run.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_congestion::{Controller, FeedbackKind};
use giusto_sim::traffic::Agent;

use super::{Capture, tap::Tapped};
use crate::{
    replay::{Lacks, SessionInfo, SessionLog},
    run::{End, MediaFlow, Taps},
    scenario::{FlowKind, MediaSpec, Scenario},
    whole_file::WriteError,
};

/// The port of both ends (RFC 3551 §8: the default of RTP). RTCP shares it (RFC 5761).
const PORT: u16 = 5004;

/// Why a file of a run cannot be written. The text names the flow, the scenario or the file, and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The scenario has no such flow.
    #[error("{0}")]
    Flow(String),
    /// The file.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Files that show one media flow of a run, or all of it. They are opened before the run.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The flow, and its log.
    session_log: Option<(String, SessionLog)>,
    /// The capture, until the run has ended.
    capture: Option<Arc<Mutex<Capture>>>,
    /// Media flows so far.
    flows: u8,
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
    /// [`OutputError`] names the flow or the file, and the fix.
    pub fn with_session_log(
        mut self,
        path: &Path,
        scenario: &Scenario,
        flow: Option<&str>,
    ) -> Result<Self, OutputError> {
        let (name, spec) = media_flow(scenario, flow).map_err(OutputError::Flow)?;
        let log = SessionLog::create(path, &session_info(&name, spec))?;
        self.session_log = Some((name, log));
        Ok(self)
    }

    /// Adds a capture of all media flows, as their senders see them: what they send at the time when they send it, and the RTCP that
    /// arrives. The senders have addresses in 192.0.2.0/24 and the receivers in 198.51.100.0/24 (RFC 5737), both with port 5004.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file or the scenario, and the fix.
    pub fn with_capture(mut self, path: &Path, scenario: &Scenario) -> Result<Self, OutputError> {
        if !scenario.flows().iter().any(|flow| matches!(flow.kind, FlowKind::Media(_))) {
            return Err(OutputError::Flow(NO_MEDIA.to_owned()));
        }
        let capture = Capture::create(path, "sender", 0)?;
        self.capture = Some(Arc::new(Mutex::new(capture)));
        Ok(self)
    }

    /// Completes the files after the run; returns their paths, and what is to be said about them.
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
        // The run has ended, and its agents are gone.
        let capture = self.capture.and_then(Arc::into_inner);
        if let Some(capture) = capture {
            let (path, note) = capture.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
            notes.extend(note);
            paths.push(path);
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

    fn agent(&mut self, _flow: MediaFlow<'_>, end: End, agent: Box<dyn Agent>) -> Box<dyn Agent> {
        let (Some(capture), End::Sender) = (&self.capture, end) else { return agent };
        self.flows = self.flows.wrapping_add(1);
        let address = |net: [u8; 3]| {
            let [a, b, c] = net;
            SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, self.flows)), PORT)
        };
        let addresses = (address([192, 0, 2]), address([198, 51, 100]));
        Box::new(Tapped { agent, capture: Arc::clone(capture), addresses })
    }
}

const NO_MEDIA: &str = "this scenario has no flow of kind media: use one that has a controller";

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
        (_, []) => Err(NO_MEDIA.to_owned()),
        (Some(flow), _) => {
            let found = all.iter().find(|(name, _)| name == flow).cloned();
            found.ok_or_else(|| format!("no media flow is called \"{flow}\": known are {}", names()))
        }
        (None, [(name, spec)]) => Ok((name.clone(), spec)),
        (None, _) => {
            Err(format!("the scenario has {} media flows: choose one with --flow: {}", all.len(), names()))
        }
    }
}

pub(crate) fn session_info(name: &str, spec: &MediaSpec) -> SessionInfo {
    let feedback = spec.reported();
    let has_codepoints = matches!(feedback, FeedbackKind::CongestionControl | FeedbackKind::ScreamDraft);
    SessionInfo {
        recorder: concat!("giusto ", env!("CARGO_PKG_VERSION")).to_owned(),
        name: name.to_owned(),
        controller: spec.controller.name().to_owned(),
        limits: spec.limits,
        options: spec.options,
        feedback,
        lacks: Lacks { ecn: !spec.ecn.is_capable() || !has_codepoints, ..Lacks::default() },
    }
}
