//! Controllers written in Python.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use giusto::run::{MediaFlow, Taps};
use giusto_congestion::{
    self as congestion, Algorithm, Cause, Controller, Decision, FeedbackKind, Fixed, Requirements,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyList, PyMapping, PyType},
};

use crate::{
    error::value_error,
    values::{Feedback, Limits, Number, Probe, QueueState, SentPacket, StreamState, Target, rate, seconds},
};

/// A timeout less than this after the one before is no progress: no controller acts so often.
const SOON: TimeDelta = TimeDelta::from_micros(1);
/// Number of such timeouts in a row, and of probes, that ends a run. One timeout too early may come of rounding.
const MAX_SOON: u32 = 100;
const MAX_PROBES: u32 = 100;
/// Highest rate of a probe: the packets of its duration leave in no time.
const MAX_PROBE_RATE: DataRate = DataRate::from_bps(100_000_000_000);

/// A class of controllers in Python.
pub(crate) struct Own {
    class: Py<PyType>,
    algorithm: Algorithm,
}

/// The methods that an object has of its own class, or of its own. Those that it takes from `giusto.Controller` need not be called.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent methods")]
struct Hooks {
    on_sent: bool,
    on_feedback: bool,
    on_timeout: bool,
    next_timeout: bool,
    set_limits: bool,
    on_route_change: bool,
    next_probe: bool,
    frame_drop_interval: bool,
    on_streams: bool,
    stream_targets: bool,
    cause: bool,
}

impl Hooks {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let base = object.py().import("giusto")?.getattr("Controller")?;
        let (class, own) = (object.get_type(), object.getattr("__dict__")?);
        let has = |method: &str| -> PyResult<bool> {
            Ok(own.contains(method)? || !class.getattr(method)?.is(&base.getattr(method)?))
        };
        Ok(Self {
            on_sent: has("on_sent")?,
            on_feedback: has("on_feedback")?,
            on_timeout: has("on_timeout")?,
            next_timeout: has("next_timeout")?,
            set_limits: has("set_limits")?,
            on_route_change: has("on_route_change")?,
            next_probe: has("next_probe")?,
            frame_drop_interval: has("frame_drop_interval")?,
            on_streams: has("on_streams")?,
            stream_targets: has("stream_targets")?,
            cause: has("cause")?,
        })
    }
}

/// What scenarios call the controllers of all runs so far. A scenario names an algorithm, which is never freed; each run makes its
/// controllers itself ([`OwnTaps`]).
static ALGORITHMS: Mutex<Vec<Algorithm>> = Mutex::new(Vec::new());

/// The algorithm of this name and these requirements.
fn algorithm(name: &str, requirements: Requirements) -> Algorithm {
    let mut known = ALGORITHMS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = known.iter().find(|own| own.name() == name && own.requirements() == requirements);
    same.copied().unwrap_or_else(|| {
        let new = Algorithm::custom(name, requirements, |limits, _| Box::new(Fixed::new(limits.start)));
        known.push(new);
        new
    })
}

impl Own {
    /// The classes with their requirements.
    pub(crate) fn all(classes: &[Bound<'_, PyType>]) -> PyResult<Vec<Self>> {
        let own = classes.iter().map(Self::new).collect::<PyResult<Vec<_>>>()?;
        for (place, class) in own.iter().enumerate() {
            let name = class.algorithm.name();
            if own.iter().take(place).any(|earlier| earlier.algorithm.name() == name) {
                return Err(value_error(format!("two controllers are called \"{name}\": rename one")));
            }
        }
        Ok(own)
    }

    /// The class with its requirements.
    pub(crate) fn new(class: &Bound<'_, PyType>) -> PyResult<Self> {
        let name: Option<String> = class.getattr("name")?.extract()?;
        let name = name.map_or_else(|| class.name().map(|name| name.to_string()), Ok)?;
        if Algorithm::all().any(|built_in| built_in.name() == name) {
            return Err(value_error(format!(
                "controller \"{name}\" has the name of a built-in one: rename it"
            )));
        }
        let feedback: String = class.getattr("feedback")?.extract()?;
        let (feedback, accepted): (FeedbackKind, &'static [FeedbackKind]) = match feedback.as_str() {
            "transport-wide" => (FeedbackKind::TransportWide, Requirements::ARRIVAL_TIMES),
            "rfc8888" => (FeedbackKind::CongestionControl, Requirements::ARRIVAL_TIMES),
            "scream-draft" => (FeedbackKind::ScreamDraft, &[FeedbackKind::ScreamDraft]),
            "nada" => (FeedbackKind::Nada, &[FeedbackKind::Nada]),
            "remb" => (FeedbackKind::ReceiverEstimate, &[FeedbackKind::ReceiverEstimate]),
            "reports" => (FeedbackKind::ReceiverReports, &[FeedbackKind::ReceiverReports]),
            other => {
                let known = "transport-wide, rfc8888, scream-draft, nada, remb, reports";
                let text =
                    format!("controller \"{name}\": feedback \"{other}\" is unknown: use one of {known}");
                return Err(value_error(text));
            }
        };
        let time = |attribute: &str| -> PyResult<Option<TimeDelta>> {
            let given: Option<f64> = class.getattr(attribute)?.extract()?;
            given.map(|given| seconds(&format!("controller \"{name}\": {attribute}"), given)).transpose()
        };
        let mut requirements = Requirements::DEFAULT.with_feedback(feedback, accepted);
        requirements.pacer.burst = time("burst_s")?.unwrap_or(requirements.pacer.burst);
        requirements.staleness.discard_after = time("discard_after_s")?;
        requirements.marks = class.getattr("marks")?.extract()?;
        requirements.receiver_limit = class.getattr("receiver_limit")?.extract()?;
        Ok(Self { class: class.clone().unbind(), algorithm: algorithm(&name, requirements) })
    }

    /// What scenarios call it.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// The first exception in a controller, which ends its run, and of several runs all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raised {
    is_set: Arc<AtomicBool>,
    error: Arc<Mutex<Option<PyErr>>>,
}

impl Raised {
    /// Whether there is one.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    fn set(&self, error: PyErr) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// The exception as an error.
    pub(crate) fn result(&self) -> PyResult<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}

/// Makes the controllers of a run or a call that are written in Python.
pub(crate) struct OwnTaps<'a> {
    own: &'a [Own],
    raised: &'a Raised,
}

impl<'a> OwnTaps<'a> {
    /// The controllers of `own`; what they raise goes to `raised`.
    pub(crate) fn new(own: &'a [Own], raised: &'a Raised) -> Self {
        Self { own, raised }
    }
}

impl Taps for OwnTaps<'_> {
    fn controller(&mut self, flow: MediaFlow<'_>, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        let Some(own) = self.own.iter().find(|own| own.algorithm == flow.spec.controller) else {
            return controller;
        };
        match PythonController::new(own, flow.spec.limits.ordered(), self.raised.clone()) {
            Ok(python) => Box::new(python),
            Err(error) => {
                self.raised.set(error);
                controller
            }
        }
    }
}

/// A controller that is a Python object.
#[derive(Debug)]
struct PythonController {
    object: Py<PyAny>,
    name: &'static str,
    hooks: Hooks,
    requirements: Requirements,
    limits: congestion::Limits,
    target: congestion::Target,
    stream_targets: Vec<DataRate>,
    frame_drop_interval: Option<u32>,
    decision: Decision,
    next_timeout: Option<Timestamp>,
    /// Timeouts in a row that came too soon after one another, and the time of the latest call.
    soon: u32,
    now: Timestamp,
    /// Probes in a row.
    probes: u32,
    raised: Raised,
}

impl PythonController {
    fn new(own: &Own, limits: congestion::Limits, raised: Raised) -> PyResult<Self> {
        Python::attach(|py| {
            let object = own.class.call1(py, (Limits::from(limits),))?;
            let hooks = Hooks::of(object.bind(py))?;
            let mut controller = Self {
                object,
                name: own.algorithm.name(),
                hooks,
                requirements: own.algorithm.requirements(),
                limits,
                target: congestion::Target::default(),
                stream_targets: Vec::new(),
                frame_drop_interval: None,
                decision: Decision::default(),
                next_timeout: None,
                soon: 0,
                now: Timestamp::ZERO,
                probes: 0,
                raised,
            };
            controller.read(py, Timestamp::ZERO)?;
            let media = controller.target.media;
            controller.decision = Decision::new(Timestamp::ZERO, media, Cause::Start);
            Ok(controller)
        })
    }

    /// Calls a method of the object with the time, and reads its output again.
    fn call(&mut self, now: Timestamp, call: impl FnOnce(&Self, Python<'_>) -> PyResult<()>) {
        if self.raised.is_set() {
            self.next_timeout = None;
            return;
        }
        self.now = now;
        let result = Python::attach(|py| {
            call(self, py)?;
            self.read(py, now)
        });
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Ends the run.
    fn fail(&mut self, error: PyErr) {
        self.next_timeout = None;
        self.raised.set(error);
    }

    /// What `method` returned now is wrong.
    fn wrong(&self, method: &str, text: impl std::fmt::Display) -> PyErr {
        let (name, now) = (self.name, self.now.as_seconds());
        value_error(format!("controller \"{name}\": {method}() at {now} s: {text}"))
    }

    /// `method` returned something of another type than is `wanted`.
    fn wrong_type(&self, method: &str, found: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
        let (name, now) = (self.name, self.now.as_seconds());
        let text =
            format!("controller \"{name}\": {method}() at {now} s: must return {wanted}, found {found:?}");
        PyTypeError::new_err(text)
    }

    /// What `method` returns.
    fn given<T: for<'a, 'py> FromPyObject<'a, 'py>>(
        &self,
        py: Python<'_>,
        method: &str,
        wanted: &str,
    ) -> PyResult<T> {
        let found = self.object.bind(py).call_method0(method)?;
        found.extract().map_err(|_| self.wrong_type(method, &found, wanted))
    }

    /// A rate that `method` returned.
    fn rate(&self, method: &str, bps: f64) -> PyResult<DataRate> {
        rate("the rate", bps)
            .map_err(|error| self.wrong(method, Python::attach(|py| error.value(py).to_string())))
    }

    /// Ends a run whose next timeout does not come later.
    fn expect_progress(&mut self, now: Timestamp) {
        self.now = now;
        let Some(next) = self.next_timeout.filter(|next| *next < now + SOON) else {
            self.soon = 0;
            return;
        };
        self.soon += 1;
        if self.soon >= MAX_SOON {
            let next = next.as_seconds();
            let text = format!(
                "{MAX_SOON} times in a row it was not later than on_timeout() before it, found {next} s: \
                 return a later time, or None"
            );
            let error = self.wrong("next_timeout", text);
            self.fail(error);
        }
    }

    /// Reads the output of the object.
    fn read(&mut self, py: Python<'_>, now: Timestamp) -> PyResult<()> {
        let target = self.object.bind(py).call_method0("target")?;
        self.target = match target.extract::<Number>() {
            Ok(media_bps) => {
                self.rate("target", media_bps.0)?;
                self.within_limits(&Target::new(media_bps, None, 0.0, None)?)
            }
            Err(_) => match target.cast::<Target>() {
                Ok(target) => self.within_limits(&target.borrow()),
                Err(_) => {
                    return Err(self.wrong_type("target", &target, "a rate in bit/s, or a giusto.Target"));
                }
            },
        };
        if self.target.media != self.decision.to {
            let cause = if self.hooks.cause { self.cause(py)? } else { Cause::Unstated };
            self.decision = Decision::new(now, self.target.media, cause).with_from(self.decision.to);
        }
        if self.hooks.stream_targets {
            let given: Vec<Number> = self.given(py, "stream_targets", "a list of rates in bit/s")?;
            let rates = given.into_iter().map(|bps| self.rate("stream_targets", bps.0));
            self.stream_targets = rates.collect::<PyResult<_>>()?;
        }
        if self.hooks.frame_drop_interval {
            let given: Option<u32> =
                self.given(py, "frame_drop_interval", "an integer of at least 1, or None")?;
            if given == Some(0) {
                return Err(self.wrong("frame_drop_interval", "must be at least 1, or None, found 0"));
            }
            self.frame_drop_interval = given;
        }
        if self.hooks.next_timeout {
            let next: Option<Number> = self.given(py, "next_timeout", "a time in s, or None")?;
            let next = next.map(|next| next.0);
            let is_time = |next: &f64| next.is_finite() && *next >= 0.0;
            if let Some(next) = next.filter(|next| !is_time(next)) {
                let text = format!("must be a time in s of at least 0, or None, found {next}");
                return Err(self.wrong("next_timeout", text));
            }
            let next = next.map(TimeDelta::from_seconds_f64);
            self.next_timeout = next.map(|next| Timestamp::ZERO + next);
        }
        Ok(())
    }

    fn within_limits(&self, target: &Target) -> congestion::Target {
        let rate = |bps: f64| DataRate::from_bps(bps.round() as u64);
        let media = rate(target.media_bps).clamp(self.limits.min, self.limits.max);
        congestion::Target::new(media, rate(target.pacing_bps).max(media))
            .with_padding(rate(target.padding_bps))
            .with_window(target.window_bytes.map(DataSize::from_bytes))
    }

    /// Why the target changed: the name of a cause, or a mapping with its fields as in JSON.
    fn cause(&self, py: Python<'_>) -> PyResult<Cause> {
        let given = self.object.bind(py).call_method0("cause")?;
        let mut fields = serde_json::Map::new();
        if let Ok(table) = given.cast::<PyMapping>() {
            for item in table.items()? {
                let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
                let value = match value.extract::<f64>() {
                    Ok(number) => serde_json::Value::from(number),
                    Err(_) => serde_json::Value::from(value.extract::<String>()?),
                };
                fields.insert(key, value);
            }
        } else {
            let Ok(cause) = given.extract::<String>() else {
                return Err(self.wrong_type("cause", &given, "a string, or a mapping with \"cause\""));
            };
            fields.insert("cause".to_owned(), cause.into());
        }
        serde_json::from_value(fields.into())
            .map_err(|error| self.wrong("cause", format!("returned {given}: {error}")))
    }
}

impl Controller for PythonController {
    fn on_sent(&mut self, now: Timestamp, packet: &congestion::SentPacket) {
        if self.hooks.on_sent {
            self.call(now, |own, py| {
                let packet = SentPacket(*packet);
                own.object.call_method1(py, "on_sent", (now.as_seconds(), packet)).map(drop)
            });
        }
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &congestion::Feedback<'_>) {
        if self.hooks.on_feedback {
            self.call(now, |own, py| {
                let feedback = Feedback::new(py, feedback)?;
                own.object.call_method1(py, "on_feedback", (now.as_seconds(), feedback)).map(drop)
            });
        }
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &congestion::QueueState) {
        if self.hooks.on_timeout {
            self.call(now, |own, py| {
                let queue = QueueState::from(queue);
                own.object.call_method1(py, "on_timeout", (now.as_seconds(), queue)).map(drop)
            });
        }
        self.expect_progress(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.next_timeout
    }

    fn frame_drop_interval(&self) -> Option<u32> {
        self.frame_drop_interval
    }

    fn on_streams(&mut self, now: Timestamp, streams: &[congestion::StreamState]) {
        if self.hooks.on_streams {
            self.call(now, |own, py| {
                let states = streams.iter().map(|stream| Py::new(py, StreamState::new(py, stream)?));
                let states = PyList::new(py, states.collect::<PyResult<Vec<_>>>()?)?;
                own.object.call_method1(py, "on_streams", (now.as_seconds(), states)).map(drop)
            });
        }
    }

    fn stream_targets(&self) -> &[DataRate] {
        &self.stream_targets
    }

    fn set_limits(&mut self, now: Timestamp, limits: congestion::Limits) {
        self.limits = limits.ordered();
        let limits = self.limits;
        let is_own = self.hooks.set_limits;
        self.call(now, |own, py| {
            if is_own {
                let limits = Limits::from(limits);
                own.object.call_method1(py, "set_limits", (now.as_seconds(), limits))?;
            }
            Ok(())
        });
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if self.hooks.on_route_change {
            self.call(now, |own, py| {
                own.object.call_method1(py, "on_route_change", (now.as_seconds(),)).map(drop)
            });
        }
    }

    fn target(&self) -> congestion::Target {
        self.target
    }

    fn requirements(&self) -> Requirements {
        self.requirements
    }

    fn next_probe(&mut self) -> Option<congestion::Probe> {
        if !self.hooks.next_probe || self.raised.is_set() {
            return None;
        }
        let asked = Python::attach(|py| {
            let probe = self.object.bind(py).call_method0("next_probe")?;
            if probe.is_none() {
                self.probes = 0;
                return Ok(None);
            }
            self.probes += 1;
            if self.probes > MAX_PROBES {
                let text = format!("{MAX_PROBES} probes in a row: return each once, then None");
                return Err(self.wrong("next_probe", text));
            }
            let Ok(probe) = probe.cast::<Probe>() else {
                return Err(self.wrong_type("next_probe", &probe, "a giusto.Probe, or None"));
            };
            let probe = probe.borrow();
            let rate = rate("rate_bps", probe.rate_bps)?;
            if rate > MAX_PROBE_RATE {
                let text = format!(
                    "a probe of {rate}: ask for at most {MAX_PROBE_RATE}, since its packets leave at that rate"
                );
                return Err(self.wrong("next_probe", text));
            }
            Ok(Some(
                congestion::Probe::new(probe.cluster, rate)
                    .with_duration(seconds("duration_s", probe.duration_s)?)
                    .with_packets(probe.packets)
                    .with_batch(BATCH),
            ))
        });
        asked.unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    /// A copy whose object is a deep copy (`copy.deepcopy`). Where that fails, the exception ends the run, of both, and the copy has no
    /// object.
    fn clone_box(&self) -> Box<dyn Controller> {
        let copied = Python::attach(|py| {
            let copy = py.import("copy")?.call_method1("deepcopy", (&self.object,))?;
            Ok(copy.unbind())
        });
        let object = copied.unwrap_or_else(|error| {
            self.raised.set(error);
            #[allow(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime")]
            Python::attach(|py| py.None())
        });
        Box::new(Self {
            object,
            stream_targets: self.stream_targets.clone(),
            raised: self.raised.clone(),
            ..*self
        })
    }
}

/// Packets of a probe are sent in batches of this duration: `min_probe_delta` of libwebrtc
/// (`modules/pacing/bitrate_prober.h`).
const BATCH: TimeDelta = TimeDelta::from_millis(2);
