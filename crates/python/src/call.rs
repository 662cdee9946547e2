//! Calls over UDP.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    str::FromStr,
    sync::{Mutex, TryLockError, atomic::Ordering},
};

use giusto::{
    call::{
        CallPlan, CallRunError, CallSettings, Caller, Listener as Serving, MediaPlan, race::first_listener,
        run::ListenerEvent,
    },
    record::TimelineOptions,
    scenario::load_controller,
};
use giusto_congestion::Algorithm;
use giusto_net::driver::Verdict;
use giusto_units::DataRate;
use pyo3::{
    exceptions::{PyOSError, PyRuntimeError},
    prelude::*,
    types::PyType,
};

use crate::{
    controller::{Own, OwnTaps, Raised},
    detached::detached,
    error::{Outcome, value_error},
    run::Run,
    seed::Seed,
};

/// The argument of this name, from its text.
fn parsed<T: FromStr<Err: ToString>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| value_error(format!("{name}: {}", error.to_string())))
}

/// The same, if it is given.
fn parsed_if_given<T: FromStr<Err: ToString>>(name: &str, text: Option<String>) -> PyResult<Option<T>> {
    text.map(|text| parsed(name, &text)).transpose()
}

/// The first address of a host.
fn address(py: Python<'_>, host: &str, port: u16) -> PyResult<SocketAddr> {
    Ok(addresses(py, host, port)?.0)
}

/// The addresses of a host: the first, and all. A name server may take seconds to answer, or not to.
fn addresses(py: Python<'_>, host: &str, port: u16) -> PyResult<(SocketAddr, Vec<SocketAddr>)> {
    let unknown =
        |why: &dyn std::fmt::Display| PyOSError::new_err(format!("unknown host \"{host}\" ({why})"));
    let found = py.detach(|| (host, port).to_socket_addrs());
    let found: Vec<_> = found.map_err(|error| unknown(&error))?.collect();
    Ok((*found.first().ok_or_else(|| unknown(&"it has no address"))?, found))
}

/// The controller of this name, or of a class of the user.
fn chosen(controller: &Bound<'_, PyAny>) -> PyResult<(Algorithm, Vec<Own>)> {
    if let Ok(class) = controller.cast::<PyType>() {
        let own = Own::new(class)?;
        return Ok((own.algorithm(), vec![own]));
    }
    let named = load_controller(&controller.extract::<String>()?);
    Ok((named.map_err(|error| value_error(format!("controller: {error}")))?, Vec::new()))
}

/// What both ends set.
fn settings(silence: &str, timeline: bool) -> PyResult<CallSettings> {
    let options = TimelineOptions { max_decisions: usize::MAX, ..TimelineOptions::default() };
    Ok(CallSettings {
        silence: parsed("silence", silence)?,
        timeline: timeline.then_some(options),
        ..CallSettings::default()
    })
}

/// Calls a listener.
#[pyfunction]
#[pyo3(signature = (
    host, port, *, controller, duration, rates, video, audio, encoder, delay_target, repair, direction, seed, silence, timeline
))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn call(
    py: Python<'_>,
    host: &str,
    port: u16,
    controller: Option<Bound<'_, PyAny>>,
    duration: &str,
    rates: [Option<String>; 3],
    video: u8,
    audio: bool,
    encoder: &str,
    delay_target: Option<String>,
    repair: &str,
    direction: &str,
    seed: Seed,
    silence: &str,
    timeline: bool,
) -> Outcome<Run> {
    let defaults = MediaPlan::default();
    let (controller, own) =
        controller.as_ref().map(chosen).transpose()?.unwrap_or((defaults.controller, Vec::new()));
    let [min_rate, start_rate, max_rate] = rates;
    let media = MediaPlan {
        controller,
        encoder: parsed("encoder", encoder)?,
        videos: video.into(),
        audio,
        min_rate: parsed_if_given("min_rate", min_rate)?,
        start_rate: parsed_if_given("start_rate", start_rate)?,
        max_rate: parsed_if_given("max_rate", max_rate)?.unwrap_or(defaults.max_rate),
        delay_target: parsed_if_given("delay_target", delay_target)?,
        repair: parsed("repair", repair)?,
        ..defaults
    };
    let plan = CallPlan::new(&media, parsed("direction", direction)?, parsed("duration", duration)?, seed.0)?;
    let (first, addresses) = addresses(py, host, port)?;
    let settings = settings(silence, timeline)?;
    let raised = Raised::default();
    let records = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            let is_over = || interrupt.stop.load(Ordering::Relaxed) || raised.is_set();
            let answers = match addresses.as_slice() {
                several @ [_, _, ..] => first_listener(several, &settings, &interrupt.stop)?,
                _ => None,
            };
            // Where none answers, the call says why.
            let caller = Caller::open(answers.unwrap_or(first), plan, settings)?;
            caller.run(1, (None, &mut OwnTaps::new(&own, &raised)), is_over, |_| ())
        },
    )?;
    raised.result()?;
    let record = records?.pop().ok_or(CallRunError::Interrupted)?;
    Ok(Run::of_call(record))
}

/// Serves calls, one after the other.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Listener {
    serving: Mutex<Serving>,
    own: Vec<Own>,
    #[pyo3(get)]
    host: String,
    #[pyo3(get)]
    port: u16,
}

#[pymethods]
impl Listener {
    /// Opens the socket.
    #[new]
    #[pyo3(signature = (host, port, *, controllers, max_rate, silence, timeline))]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        controllers: Vec<Bound<'_, PyType>>,
        max_rate: Option<String>,
        silence: &str,
        timeline: bool,
    ) -> Outcome<Self> {
        let own = Own::all(&controllers)?;
        let max_rate: Option<DataRate> = parsed_if_given("max_rate", max_rate)?;
        if max_rate == Some(DataRate::ZERO) {
            return Err(value_error("max_rate must be above 0 bit/s, such as \"2 Mbit/s\"").into());
        }
        let max_rate = max_rate.unwrap_or(MediaPlan::default().max_rate);
        let algorithms = own.iter().map(Own::algorithm).collect();
        let settings = CallSettings { algorithms, ..settings(silence, timeline)? };
        let listener = Serving::open(address(py, host, port)?, 1, max_rate, settings)?;
        let address = listener.address();
        Ok(Self { serving: Mutex::new(listener), own, host: address.ip().to_string(), port: address.port() })
    }

    /// Serves one call.
    fn serve(&self, py: Python<'_>) -> Outcome<Run> {
        let mut listener = match self.serving.try_lock() {
            Ok(listener) => listener,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(PyRuntimeError::new_err("another thread serves a call with this listener").into());
            }
        };
        let listener = &mut *listener;
        let raised = Raised::default();
        let mut record = None;
        let served = detached(
            py,
            |_, ()| Ok(()),
            |interrupt, _progress| {
                let is_over = || interrupt.stop.load(Ordering::Relaxed) || raised.is_set();
                let mut taps = OwnTaps::new(&self.own, &raised);
                listener.run(true, (None, &mut taps), is_over, |event| {
                    if let ListenerEvent::Ended(ended) = event {
                        record = Some(*ended);
                    }
                    Verdict::Continue
                })
            },
        )?;
        raised.result()?;
        served?;
        Ok(Run::of_call(record.ok_or(CallRunError::Interrupted)?))
    }
}
