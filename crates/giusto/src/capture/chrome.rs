//! A run as Chrome trace events, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open.
//!
//! The format is the JSON Array Format of "Trace Event Format" (Google, the document that catapult's trace viewer names). Its closing
//! bracket is optional, so that a file of a killed process is valid.
//!
//! | of a run | event |
//! |---|---|
//! | target, sent rate, received rate, gauges of a flow; queueing delay of a link | counter (`C`) |
//! | decision of a controller, skipped frame, discarded packets | instant event (`i`) |
//! | frame, from its capture until it arrived complete | nestable asynchronous span (`b`, `e`) |

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use giusto_sim::{
    packet::{FlowId, LinkId},
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp};
use serde_json::{Value, json};

use crate::{
    growing::Growing,
    record::DecisionRecord,
    text::decision::decision_in_words,
    trace::TraceNames,
    whole_file::{Content, WriteError},
};

/// The maximum size of a trace.
const MAX_BYTES: u64 = 1_000_000_000;
/// Rates and queueing delays are those of windows of this length.
const WINDOW: TimeDelta = TimeDelta::from_millis(50);
/// Flows have these process ids from here on, and links from the other.
const FIRST_FLOW: u64 = 1;
const FIRST_LINK: u64 = 100_001;

/// A Chrome trace under construction.
#[derive(Debug)]
pub struct ChromeTrace {
    file: Growing,
    is_empty: bool,
    names: TraceNames,
    /// Bytes sent and received by each flow, and the maximum queueing delay of each link, in the window.
    flows: BTreeMap<u32, (u64, u64)>,
    links: BTreeMap<u32, TimeDelta>,
    /// Number of the window.
    window: u64,
    frames: u64,
    now: Timestamp,
}

impl ChromeTrace {
    /// Begins a trace of at most 1 GB at `path`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create(path: &Path, names: TraceNames) -> Result<Self, WriteError> {
        let file = Growing::create(path, Content::CHROME_TRACE, MAX_BYTES)?;
        let mut trace = Self {
            file,
            is_empty: true,
            flows: BTreeMap::new(),
            links: BTreeMap::new(),
            window: 0,
            frames: 0,
            now: Timestamp::ZERO,
            names: TraceNames::default(),
        };
        for (place, name) in (0..).zip(&names.flows) {
            trace.name(FIRST_FLOW + place, "flow", name);
        }
        for (place, name) in (0..).zip(&names.links) {
            trace.name(FIRST_LINK + place, "link", name);
        }
        trace.names = names;
        trace.file.end_head()?;
        Ok(trace)
    }

    /// Completes the file. Returns its path, and what is to be said about it, if anything.
    ///
    /// # Errors
    ///
    /// [`WriteError`] of the first failure since the beginning.
    pub fn finish(mut self) -> Result<(PathBuf, Option<String>), WriteError> {
        self.end_window();
        let end: &[u8] = if self.is_empty { b"[]\n" } else { b"\n]\n" };
        self.file.write(self.now, end);
        self.file.finish()
    }

    fn name(&mut self, process: u64, kind: &str, name: &str) {
        self.write(&json!({"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": format!("{kind} {name}")}}));
    }

    fn counter(&mut self, at: Timestamp, process: u64, name: &str, value: &Value) {
        self.write(&json!({"ph": "C", "name": name, "pid": process, "tid": 0, "ts": micros(at), "args": {"value": value}}));
    }

    fn instant(&mut self, at: Timestamp, flow: FlowId, name: &str, args: &Value) {
        let process = FIRST_FLOW + u64::from(flow.0);
        self.write(&json!({"ph": "i", "s": "p", "cat": "decision", "name": name, "pid": process, "tid": 0, "ts": micros(at), "args": args}));
    }

    fn write(&mut self, event: &Value) {
        let separator = if std::mem::take(&mut self.is_empty) { "[\n" } else { ",\n" };
        self.file.write(self.now, format!("{separator}{event}").as_bytes());
    }

    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let window = self.now.as_nanos() / WINDOW.as_nanos() as u64;
        if window > self.window {
            self.end_window();
            self.window = window;
        }
    }

    /// Writes the counters of the window, at its beginning: a counter holds until the next.
    fn end_window(&mut self) {
        let at = Timestamp::from_nanos(self.window * WINDOW.as_nanos() as u64);
        let bps = |bytes: u64| json!((bytes as f64 * 8.0 / WINDOW.as_seconds()).round());
        // A flow or a link that is silent has zero until it is used again.
        for (flow, (sent, received)) in self.flows.clone() {
            let process = FIRST_FLOW + u64::from(flow);
            self.counter(at, process, "sent rate (bit/s)", &bps(sent));
            self.counter(at, process, "received rate (bit/s)", &bps(received));
        }
        for (link, delay) in self.links.clone() {
            let ms = json!(delay.as_nanos() as f64 / 1e6);
            self.counter(at, FIRST_LINK + u64::from(link), "queueing delay (ms)", &ms);
        }
        self.flows.retain(|_, bytes| std::mem::take(bytes) != (0, 0));
        self.links.retain(|_, delay| std::mem::replace(delay, TimeDelta::ZERO) > TimeDelta::ZERO);
    }
}

/// A time in microseconds, with the nanoseconds as decimals.
fn micros(at: Timestamp) -> Value {
    json!(at.as_nanos() as f64 / 1e3)
}

impl Observer for ChromeTrace {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.advance(now);
        match event {
            Event::Sent { packet } => {
                self.flows.entry(packet.flow.0).or_default().0 += u64::from(packet.bytes);
            }
            Event::Delivered { packet } => {
                self.flows.entry(packet.flow.0).or_default().1 += u64::from(packet.bytes);
            }
            Event::Dequeued { link: LinkId(link), sojourn, .. } => {
                let delay = self.links.entry(*link).or_default();
                *delay = (*delay).max(*sojourn);
            }
            _ => {}
        }
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        self.advance(now);
        if value.is_finite() {
            self.counter(now, FIRST_FLOW + u64::from(flow.0), name, &json!(value));
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        self.advance(now);
        match note {
            Note::Decided { flow, decision } => {
                let record = DecisionRecord {
                    at_s: decision.at.as_seconds(),
                    from_bps: decision.from.as_bps(),
                    to_bps: decision.to.as_bps(),
                    cause: decision.cause,
                };
                let process = FIRST_FLOW + u64::from(flow.0);
                self.counter(decision.at, process, "target rate (bit/s)", &json!(decision.to.as_bps()));
                let args = json!({"from_bps": decision.from.as_bps(), "to_bps": decision.to.as_bps(), "cause": decision.cause});
                self.instant(decision.at, *flow, &decision_in_words(&record), &args);
            }
            Note::Frame { flow, ssrc, at: arrived, delay, size, repaired, late } => {
                // Without a delay, the capture is unknown.
                let Some(delay) = delay.filter(|delay| *delay >= TimeDelta::ZERO) else { return };
                self.frames += 1;
                let (id, process) = (self.frames.to_string(), FIRST_FLOW + u64::from(flow.0));
                let captured =
                    Timestamp::from_nanos(arrived.as_nanos().saturating_sub(delay.as_nanos() as u64));
                for (phase, at) in [("b", captured), ("e", *arrived)] {
                    let args = json!({"ssrc": ssrc, "size_bytes": size.as_bytes(), "repaired": repaired, "late": late});
                    self.write(&json!({"ph": phase, "cat": "frame", "name": "frame", "id": id, "pid": process, "tid": 0, "ts": micros(at), "args": args}));
                }
            }
            Note::Skipped { flow, ssrc } => self.instant(now, *flow, "frame skipped", &json!({"ssrc": ssrc})),
            Note::Discarded { flow, ssrc, packets } => {
                self.instant(now, *flow, "packets discarded", &json!({"ssrc": ssrc, "packets": packets}));
            }
            _ => {}
        }
    }
}
