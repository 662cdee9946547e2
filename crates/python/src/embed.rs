//! The built-in controllers for senders that are written in Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use giusto::scenario::load_controller;
use giusto_congestion::{
    self as congestion, Algorithm, Controller, FeedbackKind, History, OutgoingPacket, RtpId,
};
use giusto_rtp::NtpTimestamp;
use giusto_units::{DataRate, DataSize, Timestamp};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyMemoryView},
};

use crate::{
    error::{Outcome, value_error},
    values::{Feedback, Number, Probe, SentPacket, Target, number, rate, seconds},
};

/// A congestion controller with the history of sent packets, for a sender of your own.
///
/// It reads no clock: times are seconds since an origin of your choice. Rates include all headers. `ntp_at_zero` is the 64-bit NTP time
/// of your sender reports at time 0, for the RTT of receiver reports. Read `target`, `next_probe` and `next_timeout` after each call.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct RateControl {
    algorithm: Algorithm,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    controller: Box<dyn Controller>,
    history: History,
    limits: congestion::Limits,
}

#[pymethods]
impl RateControl {
    /// A controller of this name with these limits. `ntp_at_zero` is the 64-bit NTP time, in the sender reports, at time 0.
    #[new]
    #[pyo3(signature = (controller, *, min_bps, start_bps, max_bps, ntp_at_zero = None))]
    fn new(
        controller: &str,
        min_bps: Number,
        start_bps: Number,
        max_bps: Number,
        ntp_at_zero: Option<u64>,
    ) -> Outcome<Self> {
        let (Number(min_bps), Number(start_bps), Number(max_bps)) = (min_bps, start_bps, max_bps);
        let algorithm = load_controller(controller).map_err(value_error)?;
        let limits = congestion::Limits::DEFAULT
            .with_min(rate("min_bps", min_bps)?)
            .with_start(rate("start_bps", start_bps)?)
            .with_max(rate("max_bps", max_bps)?);
        if limits.ordered() != limits {
            return Err(value_error(format!(
                "min_bps must not be above start_bps, nor start_bps above max_bps: found {min_bps}, {start_bps} and {max_bps}"
            ))
            .into());
        }
        let history = History::new();
        let history = match ntp_at_zero {
            Some(bits) => history.with_ntp_at_zero(NtpTimestamp::from_bits(bits)),
            None => history,
        };
        let state = State { controller: algorithm.build(limits), history, limits };
        Ok(Self { algorithm, state: Mutex::new(state) })
    }

    /// Name of the controller.
    #[getter]
    fn name(&self) -> &'static str {
        self.algorithm.name()
    }

    /// The RTCP messages to which it reacts.
    #[getter]
    fn accepted_feedback(&self) -> Vec<&'static str> {
        let name = |kind: &FeedbackKind| match kind {
            FeedbackKind::TransportWide => "transport-wide",
            FeedbackKind::CongestionControl => "rfc8888",
            FeedbackKind::ScreamDraft => "scream-draft",
            FeedbackKind::Nada => "nada",
            FeedbackKind::ReceiverEstimate => "remb",
            FeedbackKind::ReceiverReports => "reports",
            _ => "its own",
        };
        self.algorithm.requirements().accepted.iter().map(name).collect()
    }

    /// Records a packet that leaves at `now_s`, with the numbers to which the receiver's feedback refers.
    #[pyo3(signature = (now_s, size_bytes, *, ssrc = None, sequence = None, transport_sequence = None, probe = None))]
    fn on_sent(
        &self,
        now_s: Number,
        size_bytes: u64,
        ssrc: Option<u32>,
        sequence: Option<u16>,
        transport_sequence: Option<u16>,
        probe: Option<u32>,
    ) -> Outcome<SentPacket> {
        let now = time(now_s)?;
        let rtp = match (ssrc, sequence) {
            (Some(ssrc), Some(sequence)) => Some(RtpId { ssrc, sequence }),
            (None, None) => None,
            _ => return Err(value_error("ssrc and sequence belong together: give both or neither").into()),
        };
        let packet = OutgoingPacket::new(DataSize::from_bytes(size_bytes))
            .with_transport_sequence(transport_sequence)
            .with_rtp(rtp)
            .with_probe(probe);
        let State { controller, history, .. } = &mut *self.state();
        let sent = history.on_sent(now, packet);
        controller.on_sent(now, &sent);
        Ok(SentPacket(sent))
    }

    /// Handles a decrypted RTCP datagram. Returns what is new in it. An invalid one is a `ValueError` and changes nothing.
    fn on_rtcp(
        &self,
        py: Python<'_>,
        now_s: Number,
        datagram: &Bound<'_, PyAny>,
    ) -> Outcome<Option<Feedback>> {
        let now = time(now_s)?;
        let datagram = bytes(datagram)?;
        let datagram = datagram.as_bytes();
        let mut state = self.state();
        let State { controller, history, .. } = &mut *state;
        let Some(feedback) =
            history.on_rtcp(now, datagram).map_err(|error| value_error(error.to_string()))?
        else {
            return Ok(None);
        };
        controller.on_feedback(now, &feedback);
        // Objects are made without the lock: Python's garbage collector may then let another thread run, which waits for it with the GIL.
        let packets = feedback.packets.to_vec();
        let own = congestion::Feedback::new(&packets, feedback.in_flight)
            .with_rtt(feedback.rtt)
            .with_receiver_estimate(feedback.receiver_estimate)
            .with_loss(feedback.loss)
            .with_extension(feedback.extension);
        drop(state);
        Ok(Some(Feedback::new(py, &own)?))
    }

    /// Handles the time of `next_timeout`.
    #[pyo3(signature = (now_s, *, queue_bytes = 0, oldest_s = 0.0))]
    fn on_timeout(
        &self,
        now_s: Number,
        queue_bytes: u64,
        #[pyo3(from_py_with = number)] oldest_s: f64,
    ) -> Outcome<()> {
        let now = time(now_s)?;
        let queue =
            congestion::QueueState::new(DataSize::from_bytes(queue_bytes), seconds("oldest_s", oldest_s)?);
        let State { controller, history, .. } = &mut *self.state();
        history.on_timeout(now);
        controller.on_timeout(now, &queue);
        Ok(())
    }

    /// The latest time at which `on_timeout` must be called, s.
    fn next_timeout(&self) -> Option<f64> {
        let state = self.state();
        let times = [state.controller.next_timeout(), state.history.next_timeout()];
        times.into_iter().flatten().min().map(Timestamp::as_seconds)
    }

    /// Sets new limits; those that are not given stay. The start rate is kept within the others.
    #[pyo3(signature = (now_s, *, min_bps = None, start_bps = None, max_bps = None))]
    fn set_limits(
        &self,
        now_s: Number,
        min_bps: Option<Number>,
        start_bps: Option<Number>,
        max_bps: Option<Number>,
    ) -> Outcome<()> {
        let now = time(now_s)?;
        let mut state = self.state();
        let or = |name: &str, given: Option<Number>, before: DataRate| {
            given.map_or(Ok(before), |Number(given)| rate(name, given))
        };
        let limits = congestion::Limits::DEFAULT
            .with_min(or("min_bps", min_bps, state.limits.min)?)
            .with_start(or("start_bps", start_bps, state.limits.start)?)
            .with_max(or("max_bps", max_bps, state.limits.max)?);
        if limits.min > limits.max {
            let (min, max) = (limits.min.as_bps(), limits.max.as_bps());
            return Err(
                value_error(format!("min_bps must not be above max_bps: found {min} and {max}")).into()
            );
        }
        // A start rate that was given earlier may be outside the new limits.
        let limits = limits.ordered();
        state.limits = limits;
        state.controller.set_limits(now, limits);
        Ok(())
    }

    /// Handles a change of the route.
    fn on_route_change(&self, now_s: Number) -> Outcome<()> {
        let now = time(now_s)?;
        let mut state = self.state();
        state.history.on_route_change();
        state.controller.on_route_change(now);
        Ok(())
    }

    /// What may be sent now.
    #[getter]
    fn target(&self) -> Target {
        let target = self.state().controller.target();
        Target {
            media_bps: target.media.as_bps() as f64,
            pacing_bps: target.pacing.as_bps() as f64,
            padding_bps: target.padding.as_bps() as f64,
            window_bytes: target.window.map(DataSize::as_bytes),
        }
    }

    /// The next probe to send, once.
    fn next_probe(&self) -> Option<Probe> {
        let probe = self.state().controller.next_probe()?;
        Some(Probe {
            cluster: probe.cluster,
            rate_bps: probe.rate.as_bps() as f64,
            duration_s: probe.duration.as_seconds(),
            packets: probe.packets,
        })
    }

    /// Bytes in flight.
    #[getter]
    fn in_flight_bytes(&self) -> u64 {
        self.state().history.in_flight().as_bytes()
    }

    /// The latest decision: `at_s`, `from_bps`, `to_bps`, `cause` and its fields.
    #[getter]
    fn decision<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let decision = *self.state().controller.decision();
        let mut fields =
            serde_json::to_value(decision.cause).map_err(|error| value_error(error.to_string()))?;
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("at_s".to_owned(), decision.at.as_seconds().into());
            fields.insert("from_bps".to_owned(), decision.from.as_bps().into());
            fields.insert("to_bps".to_owned(), decision.to.as_bps().into());
        }
        py.import("json")?.call_method1("loads", (fields.to_string(),))
    }

    fn __repr__(&self) -> String {
        format!(
            "<giusto.RateControl {:?}, {}>",
            self.algorithm.name(),
            self.state().controller.target().media
        )
    }
}

impl RateControl {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time since an origin of the caller's choice.
fn time(Number(now_s): Number) -> PyResult<Timestamp> {
    Ok(Timestamp::ZERO + seconds("now_s", now_s)?)
}

/// The bytes of an object that has a buffer, such as a `bytearray` or a `memoryview`.
fn bytes<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match given.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => Ok(PyMemoryView::from(given)?.call_method0("tobytes")?.cast_into()?),
    }
}
