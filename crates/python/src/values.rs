//! The values that the engine passes to a controller written in Python, and those that it returns.

use giusto_congestion::{self as congestion, Extension, nada::RateMode};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyFloat, PyInt, PyList, PyTuple, PyType},
};

use crate::error::value_error;

/// The pacing rate over the media rate unless the controller gives one: `kDefaultPaceMultiplier` of libwebrtc
/// (`modules/congestion_controller/goog_cc/goog_cc_network_control.h`).
pub(crate) const PACING: f64 = 2.5;

/// The methods of a class of values: its own, and equality, a hash, a text and a pickle, which follow from its fields.
macro_rules! value {
    ($class:ty { $($field:ident: $type:ty),+ } => $made:expr; $($own:tt)*) => {
        #[pymethods]
        impl $class {
            $($own)*

            fn __eq__(own: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
                let names = [$(stringify!($field)),+];
                Ok(other.is_instance_of::<Self>() && fields(own, &names)?.eq(fields(other, &names)?)?)
            }

            fn __hash__(own: &Bound<'_, Self>) -> PyResult<isize> {
                fields(own, &[$(stringify!($field)),+])?.hash()
            }

            fn __repr__(own: &Bound<'_, Self>) -> PyResult<String> {
                let text = |name| Ok(format!("{name}={}", own.getattr(name)?.repr()?));
                let texts = [$(stringify!($field)),+].into_iter().map(text).collect::<PyResult<Vec<_>>>()?;
                Ok(format!("{}({})", own.get_type().name()?, texts.join(", ")))
            }

            fn __reduce__<'py>(own: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
                Ok((own.get_type().getattr("_made")?, (fields(own, &[$(stringify!($field)),+])?,)))
            }

            #[classmethod]
            #[pyo3(name = "_made")]
            fn made(_class: &Bound<'_, PyType>, fields: ($($type,)+)) -> PyResult<Self> {
                let ($($field,)+) = fields;
                Ok($made)
            }
        }
    };
}

/// What makes a value again, and its argument.
type Pickled<'py> = (Bound<'py, PyAny>, (Bound<'py, PyTuple>,));

/// The fields of a value.
fn fields<'py>(value: &Bound<'py, PyAny>, names: &[&str]) -> PyResult<Bound<'py, PyTuple>> {
    let fields = names.iter().map(|&name| value.getattr(name)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(value.py(), fields)
}

/// Bounds of the target rate, headers included.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
#[expect(clippy::struct_field_names, reason = "numbers carry their unit in Python")]
pub(crate) struct Limits {
    /// Lowest target rate, bit/s.
    min_bps: u64,
    /// Target rate at the start and after a route change, bit/s.
    start_bps: u64,
    /// Highest target rate, bit/s.
    max_bps: u64,
}

value!(Limits { min_bps: u64, start_bps: u64, max_bps: u64 } => Self { min_bps, start_bps, max_bps };);

impl From<&Limits> for congestion::Limits {
    fn from(limits: &Limits) -> Self {
        let rate = DataRate::from_bps;
        Self::DEFAULT
            .with_min(rate(limits.min_bps))
            .with_start(rate(limits.start_bps))
            .with_max(rate(limits.max_bps))
    }
}

impl From<congestion::Limits> for Limits {
    fn from(limits: congestion::Limits) -> Self {
        let congestion::Limits { min, start, max, .. } = limits;
        Self { min_bps: min.as_bps(), start_bps: start.as_bps(), max_bps: max.as_bps() }
    }
}

/// A packet that was sent.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct SentPacket(pub(crate) congestion::SentPacket);

value! {
    SentPacket { sequence: u64, at_s: f64, size_bytes: u64, probe: Option<u32>, in_flight_bytes: u64 } => {
        let at = Timestamp::ZERO + seconds("at_s", at_s)?;
        let sent = congestion::SentPacket::new(sequence, at, DataSize::from_bytes(size_bytes));
        Self(sent.with_probe(probe).with_in_flight(DataSize::from_bytes(in_flight_bytes)))
    };

    /// Number in sending order, over all streams.
    #[getter]
    fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Time of departure, s.
    #[getter]
    fn at_s(&self) -> f64 {
        self.0.at.as_seconds()
    }

    /// Size that counts towards the rates, headers included, bytes.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.0.size.as_bytes()
    }

    /// Probe cluster that it belongs to, if any.
    #[getter]
    fn probe(&self) -> Option<u32> {
        self.0.probe
    }

    /// Bytes in flight, this packet included.
    #[getter]
    fn in_flight_bytes(&self) -> u64 {
        self.0.in_flight.as_bytes()
    }
}

/// A report of one packet.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct PacketReport(pub(crate) congestion::PacketReport);

value! {
    PacketReport { sent: Py<SentPacket>, arrival_s: Option<f64>, ecn: String } => {
        let arrival = arrival_s.map(|at| PeerTimestamp::from_nanos((at * 1e9).round() as u64));
        let ecn = Ecn::named(&ecn).unwrap_or_default();
        Self(congestion::PacketReport::new(sent.get().0, arrival).with_ecn(ecn))
    };

    /// The packet.
    #[getter]
    fn sent(&self) -> SentPacket {
        SentPacket(self.0.sent)
    }

    /// Time of arrival on the receiver's clock, s; `None`: reported as not received.
    #[getter]
    fn arrival_s(&self) -> Option<f64> {
        self.0.arrival.map(|arrival| arrival.as_nanos() as f64 / 1e9)
    }

    /// ECN codepoint on arrival, if the feedback has it: `not-ect`, `ect0`, `ect1` or `ce`.
    #[getter]
    fn ecn(&self) -> &'static str {
        self.0.ecn.name()
    }
}

/// The receiver's report of NADA (RFC 8698 §5.3).
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct NadaReport {
    /// `rmode`: whether the rate may rise in large steps (accelerated ramp-up), or only gradually.
    ramp_up: bool,
    /// `x_curr`: aggregate congestion signal, ms.
    signal_ms: f64,
    /// `r_recv`: received rate, bit/s.
    received_bps: u64,
}

value!(NadaReport { ramp_up: bool, signal_ms: f64, received_bps: u64 } => Self { ramp_up, signal_ms, received_bps };);

/// A feedback message.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct Feedback {
    /// Reports of packets, in the order of their numbers; empty for messages without any.
    pub(crate) packets: Py<PyList>,
    /// Round-trip time, if the message gives one, s.
    round_trip_s: Option<f64>,
    /// The receiver's estimate of the available rate (REMB), bit/s.
    receiver_estimate_bps: Option<u64>,
    /// Share of packets lost since the previous receiver report, 0 to 1; `None` for other messages.
    loss_ratio: Option<f64>,
    /// The receiver's report of NADA; `None` for other messages.
    nada: Option<Py<NadaReport>>,
    /// Whether the receiver requests a lower rate (source quench of SCReAM's first draft).
    quench: bool,
    /// Bytes in flight after this message.
    in_flight_bytes: u64,
}

value! {
    Feedback {
        packets: Py<PyList>,
        round_trip_s: Option<f64>,
        receiver_estimate_bps: Option<u64>,
        loss_ratio: Option<f64>,
        nada: Option<Py<NadaReport>>,
        quench: bool,
        in_flight_bytes: u64
    } => Self { packets, round_trip_s, receiver_estimate_bps, loss_ratio, nada, quench, in_flight_bytes };
}

impl Feedback {
    pub(crate) fn new(py: Python<'_>, feedback: &congestion::Feedback<'_>) -> PyResult<Self> {
        let packets = feedback.packets.iter().map(|report| Py::new(py, PacketReport(*report)));
        let packets = packets.collect::<PyResult<Vec<_>>>()?;
        let nada = match feedback.extension {
            Some(Extension::Nada(report)) => {
                let own = NadaReport {
                    ramp_up: report.mode == RateMode::RampUp,
                    signal_ms: report.signal_ms,
                    received_bps: report.received.as_bps(),
                };
                Some(Py::new(py, own)?)
            }
            _ => None,
        };
        Ok(Self {
            packets: PyList::new(py, packets)?.unbind(),
            round_trip_s: feedback.rtt.map(TimeDelta::as_seconds),
            receiver_estimate_bps: feedback.receiver_estimate.map(DataRate::as_bps),
            loss_ratio: feedback.loss.map(|loss| loss.ratio),
            nada,
            quench: feedback.extension == Some(Extension::SourceQuench),
            in_flight_bytes: feedback.in_flight.as_bytes(),
        })
    }
}

/// The sender's queue.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct QueueState {
    /// Size of all queued packets, bytes.
    size_bytes: u64,
    /// Age of the oldest queued packet, s.
    oldest_s: f64,
}

value!(QueueState { size_bytes: u64, oldest_s: f64 } => Self { size_bytes, oldest_s };);

impl From<&congestion::QueueState> for QueueState {
    fn from(queue: &congestion::QueueState) -> Self {
        Self { size_bytes: queue.size.as_bytes(), oldest_s: queue.oldest.as_seconds() }
    }
}

/// A stream of the sender.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct StreamState {
    /// Weight among the adaptive streams, above 0.
    priority: f64,
    /// Lowest rate that it can use, headers included, bit/s.
    min_bps: u64,
    /// Highest rate that it can use, headers included, bit/s. Equal to the lowest if it does not adapt.
    max_bps: u64,
    /// Whether it is paused and produces no frames.
    paused: bool,
    /// Its queued packets.
    queue: Py<QueueState>,
}

value! {
    StreamState { priority: f64, min_bps: u64, max_bps: u64, paused: bool, queue: Py<QueueState> } =>
        Self { priority, min_bps, max_bps, paused, queue };
}

impl StreamState {
    pub(crate) fn new(py: Python<'_>, stream: &congestion::StreamState) -> PyResult<Self> {
        Ok(Self {
            priority: stream.priority,
            min_bps: stream.usable.0.as_bps(),
            max_bps: stream.usable.1.as_bps(),
            paused: stream.paused,
            queue: Py::new(py, QueueState::from(&stream.queue))?,
        })
    }
}

/// Rates and limits for the sender.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct Target {
    /// Rate of the media, headers included, bit/s.
    pub(crate) media_bps: f64,
    /// Rate at which queued packets are sent, bit/s. Default: 2.5 times the media rate, as in libwebrtc.
    pub(crate) pacing_bps: f64,
    /// Rate up to which the sender adds padding, bit/s; 0: no padding.
    pub(crate) padding_bps: f64,
    /// Limit of the bytes in flight; `None`: no limit.
    pub(crate) window_bytes: Option<u64>,
}

value! {
    Target { media_bps: f64, pacing_bps: f64, padding_bps: f64, window_bytes: Option<u64> } =>
        Self { media_bps, pacing_bps, padding_bps, window_bytes };

    #[new]
    #[pyo3(signature = (media_bps, *, pacing_bps = None, padding_bps = 0.0, window_bytes = None))]
    pub(crate) fn new(
        media_bps: Number,
        pacing_bps: Option<Number>,
        #[pyo3(from_py_with = number)] padding_bps: f64,
        window_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let Number(media_bps) = media_bps;
        let pacing_bps = pacing_bps.map_or(PACING * media_bps, |given| given.0);
        rate("media_bps", media_bps)?;
        rate("pacing_bps", pacing_bps)?;
        rate("padding_bps", padding_bps)?;
        Ok(Self { media_bps, pacing_bps, padding_bps, window_bytes })
    }
}

/// A cluster of packets that are sent faster than the target, to measure what the path can carry.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct Probe {
    /// Number of the cluster, which its packets carry.
    pub(crate) cluster: u32,
    /// Sending rate, bit/s.
    pub(crate) rate_bps: f64,
    /// Minimum duration, s.
    pub(crate) duration_s: f64,
    /// Minimum number of packets.
    pub(crate) packets: u32,
}

value! {
    // Code of PyO3 has another `Probe`.
    crate::values::Probe { cluster: u32, rate_bps: f64, duration_s: f64, packets: u32 } =>
        Self { cluster, rate_bps, duration_s, packets };

    #[new]
    #[pyo3(signature = (cluster, rate_bps, *, duration_s = 0.015, packets = 5))]
    fn new(
        cluster: u32,
        rate_bps: Number,
        #[pyo3(from_py_with = number)] duration_s: f64,
        packets: u32,
    ) -> PyResult<Self> {
        let Number(rate_bps) = rate_bps;
        rate("rate_bps", rate_bps)?;
        seconds("duration_s", duration_s)?;
        Ok(Self { cluster, rate_bps, duration_s, packets })
    }
}

/// A number, which a boolean is not, be it of Python or of `numpy`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(found: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // Those of most calls need no name.
        let is_plain = found.is_instance_of::<PyFloat>() || found.is_exact_instance_of::<PyInt>();
        if !is_plain {
            let kind = found.get_type().name()?;
            if kind == "bool" || kind == "bool_" {
                return Err(PyTypeError::new_err(format!("must be a number, not {}", found.repr()?)));
            }
        }
        found.extract().map(Self)
    }
}

/// The same, for arguments whose default is to be seen.
pub(crate) fn number(found: &Bound<'_, PyAny>) -> PyResult<f64> {
    found.extract::<Number>().map(|found| found.0)
}

/// The rate of this name, if it is one.
pub(crate) fn rate(name: &str, bps: f64) -> PyResult<DataRate> {
    if bps.is_finite() && bps >= 0.0 {
        Ok(DataRate::from_bps(bps.round() as u64))
    } else {
        Err(value_error(format!("{name} must be a rate in bit/s of at least 0, found {bps}")))
    }
}

/// The time of this name, if it is one.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<TimeDelta> {
    if seconds.is_finite() && seconds >= 0.0 {
        Ok(TimeDelta::from_seconds_f64(seconds))
    } else {
        Err(value_error(format!("{name} must be a time in s of at least 0, found {seconds}")))
    }
}
