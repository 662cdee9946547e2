//! Writes session logs.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_congestion::{
    Controller, Decision, Probe, Target,
    log::{Answer, Call, Log, Logged},
};
use giusto_units::{DataRate, Timestamp};

use super::{
    event::{Event, Message, SessionInfo},
    wire::{Head, Item, Packets},
};
use crate::{
    growing::Growing,
    whole_file::{Content, WriteError},
};

/// The default maximum size of a file: about a day of a call at 1 Mbit/s.
pub const DEFAULT_MAX_BYTES: u64 = 2_000_000_000;

/// A session log under construction.
///
/// The file grows from the first event on, in place of an earlier one; it is readable up to the last flush, at most a second ago, even if the process is killed. When
/// it reaches its maximum size, it ends there, and the session goes on without it.
///
/// # Example
///
/// ```
/// use giusto::replay::{Lacks, SessionInfo, SessionLog};
/// use giusto_congestion::{Algorithm, Controller, FeedbackKind, Limits, Options, QueueState};
/// use giusto_units::Timestamp;
///
/// # let folder = std::env::temp_dir().join(format!("giusto-session-log-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let info = SessionInfo {
///     recorder: "example".to_owned(),
///     name: "call".to_owned(),
///     controller: "gcc:libwebrtc".to_owned(),
///     limits: Limits::default(),
///     options: Options::default(),
///     feedback: FeedbackKind::TransportWide,
///     lacks: Lacks::default(),
/// };
/// let log = SessionLog::create(&folder.join("call.jsonl"), &info)?;
/// let mut controller = log.record("gcc:libwebrtc".parse::<Algorithm>()?.build(info.limits));
/// controller.on_timeout(Timestamp::ZERO, &QueueState::default());
/// assert!(log.finish()?.lines > 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionLog(Arc<Mutex<Writer>>);

/// A finished session log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its path.
    pub path: PathBuf,
    /// Number of lines.
    pub lines: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it reached its maximum size before the session ended.
    pub is_cut: bool,
}

impl SessionLog {
    /// Begins a log of at most [`DEFAULT_MAX_BYTES`] at `path`, in place of an earlier file.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create(path: &Path, info: &SessionInfo) -> Result<Self, WriteError> {
        Self::create_limited(path, info, DEFAULT_MAX_BYTES)
    }

    /// Begins a log of at most `max_bytes`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create_limited(path: &Path, info: &SessionInfo, max_bytes: u64) -> Result<Self, WriteError> {
        let mut writer = Writer {
            // Its last line, which says why it ends, may go beyond the maximum.
            file: Growing::create(path, Content::SESSION_LOG, u64::MAX)?,
            packets: Packets::default(),
            line: Vec::new(),
            lines: 0,
            max_bytes,
            is_cut: false,
            now: Timestamp::ZERO,
            last: None,
        };
        writer.write(&Head::from(info));
        writer.file.end_head()?;
        Ok(Self(Arc::new(Mutex::new(writer))))
    }

    /// Records the input and the output of `controller`. A log records one controller.
    pub fn record(&self, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        Box::new(Logged::new(controller, Box::new(self.clone())))
    }

    /// Ends the log. What is called afterwards is not recorded.
    ///
    /// # Errors
    ///
    /// [`WriteError`] of the first failure since the beginning. The file holds what was written until then.
    pub fn finish(&self) -> Result<Written, WriteError> {
        self.with(|writer| {
            if !writer.is_cut {
                writer.end("session ended");
            }
            writer.file.close()?;
            Ok(Written {
                path: writer.file.path().to_owned(),
                lines: writer.lines,
                bytes: writer.file.bytes(),
                is_cut: writer.is_cut,
            })
        })
    }

    fn with<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> R {
        // A panic elsewhere must not lose the log.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log for SessionLog {
    fn on_call(&mut self, now: Timestamp, call: &Call<'_>) {
        if let Some(event) = event(call) {
            self.with(|writer| writer.on_event(now, &event));
        }
    }

    fn on_answer(&mut self, now: Timestamp, answer: &Answer<'_>) {
        self.with(|writer| writer.on_answer(now, answer));
    }

    fn on_probe(&mut self, now: Timestamp, probe: &Probe) {
        self.with(|writer| writer.on_event(now, &Event::Probe(*probe)));
    }
}

/// The event of a call; `None` for one that the format does not have.
fn event(call: &Call<'_>) -> Option<Event> {
    Some(match call {
        Call::Sent(packet) => Event::Sent(*packet),
        Call::Feedback(feedback) => Event::Feedback(Message::from(feedback)),
        Call::Timeout(queue) => Event::Timeout(*queue),
        Call::Streams(streams) => Event::Streams(streams.to_vec()),
        Call::Limits(limits) => Event::Limits(*limits),
        Call::RouteChange => Event::RouteChange,
        _ => return None,
    })
}

#[derive(Debug)]
struct Writer {
    file: Growing,
    packets: Packets,
    /// Kept to reuse the allocation.
    line: Vec<u8>,
    lines: u64,
    max_bytes: u64,
    is_cut: bool,
    now: Timestamp,
    last: Option<(Target, Decision, Vec<DataRate>)>,
}

impl Writer {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        if !self.file.is_open() {
            return;
        }
        self.now = self.now.max(now);
        let line = self.packets.line(now, event);
        self.write(&line);
        if self.file.bytes() >= self.max_bytes {
            self.is_cut = true;
            self.end("maximum size reached");
            self.file.stop();
        }
    }

    /// Writes what has changed of an answer.
    fn on_answer(&mut self, now: Timestamp, answer: &Answer<'_>) {
        if !self.file.is_open() {
            return;
        }
        let Answer { target, decision, stream_targets, .. } = *answer;
        let last = self.last.take();
        if last.as_ref().is_none_or(|last| last.0 != target) {
            self.on_event(now, &Event::Target(target));
        }
        if last.as_ref().is_none_or(|last| last.1 != decision) {
            self.on_event(now, &Event::Decision(decision));
        }
        let before = last.map(|last| last.2).unwrap_or_default();
        let shares = if before == stream_targets {
            before
        } else {
            let shares = stream_targets.to_vec();
            self.on_event(now, &Event::Shares(shares.clone()));
            shares
        };
        self.last = Some((target, decision, shares));
    }

    fn end(&mut self, why: &str) {
        let line = (self.now.as_nanos(), Item::End(self.lines, why.to_owned()));
        self.write(&line);
    }

    fn write(&mut self, line: &impl serde::Serialize) {
        if !self.file.is_open() {
            return;
        }
        self.line.clear();
        match serde_json::to_writer(&mut self.line, line) {
            Ok(()) => {
                self.line.push(b'\n');
                self.file.write(self.now, &self.line);
                self.lines += u64::from(self.file.is_open());
            }
            Err(error) => self.file.fail(error.into()),
        }
    }
}
