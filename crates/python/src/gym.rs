//! Environments for Gymnasium.

use std::sync::{Mutex, PoisonError, atomic::Ordering};

use giusto::{
    benchmark::Family,
    environment::{
        self, Autoreset, Batch, BatchStep, Begin, Environment, EnvironmentError, Episodes, Feature, RATES,
        STEP, Spread, action_of_rate, rate_of_action,
    },
    scenario::load_controller,
};
use giusto_congestion as congestion;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use pyo3::{
    prelude::*,
    types::{IntoPyDict, PyBytes, PyDict, PyList},
};

use crate::{
    detached::detached,
    error::{Outcome, value_error},
    scenario::{Document, as_settings},
    values::{Feedback, Limits, PacketReport, SentPacket, rate, seconds},
};

/// Environments that are stepped together.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Environments(Mutex<Batch>);

/// What a call did to all environments, as the bytes of arrays in native byte order.
///
/// Environments that a reset leaves alone have zeros.
#[pyclass(frozen, get_all, module = "giusto._giusto")]
pub(crate) struct Steps {
    /// float32, of shape (environments, features).
    observations: Py<PyBytes>,
    /// float64: reward, target in bit/s, use, frame delay in s, share of missed frames; of shape (5, environments).
    figures: Py<PyBytes>,
    /// bool, of shape (4, environments): whether it took a step, whether its episode is over, whether an episode began, whether the
    /// use is a number.
    flags: Py<PyBytes>,
    /// What happens rarely: for an environment, a dictionary with `episode`, `scenario` and `randomised` of an episode that began, with `utility` of
    /// one that is over, and with its last observation as `final` if another began.
    news: Py<PyList>,
}

#[pymethods]
impl Environments {
    /// Makes environments, without episodes.
    #[new]
    #[pyo3(signature = (count, *, benchmark, families, scenarios, document, settings, randomise, flow, controller, step_s, autoreset, threads))]
    #[expect(clippy::too_many_arguments, reason = "called by the package, which names each")]
    fn new(
        count: usize,
        benchmark: &str,
        families: Vec<String>,
        scenarios: Option<u32>,
        document: Option<&Document>,
        settings: Vec<(String, String)>,
        randomise: Vec<(String, bool, Vec<String>)>,
        flow: Option<&str>,
        controller: Option<&str>,
        step_s: f64,
        autoreset: &str,
        threads: u16,
    ) -> Outcome<Self> {
        let episodes = if let Some(document) = document {
            let (document, settings) = (document.with(&[]), as_settings(settings));
            if randomise.is_empty() {
                Episodes::of_scenario(document.scenario(&settings)?, flow)?
            } else {
                let spreads =
                    randomise.into_iter().map(|(path, is_range, values)| (path, spread(is_range, values)));
                Episodes::randomised(document, settings, spreads.collect(), flow)?
            }
        } else {
            let all = Episodes::benchmark(benchmark, &families)?;
            match scenarios {
                Some(most) => all.at_most(most)?,
                None => all,
            }
        };
        if !step_s.is_finite() {
            return Err(value_error(format!("step_s must be from 0.02 to 10, found {step_s}")).into());
        }
        let step = TimeDelta::from_seconds_f64(step_s);
        let controller = controller.map(load_controller).transpose().map_err(value_error)?;
        let environment = || -> Result<_, EnvironmentError> {
            let own = Environment::new(episodes.clone()).with_step(step)?;
            Ok(match controller {
                Some(controller) => own.following(controller),
                None => own,
            })
        };
        let environments = (0..count).map(|_| environment()).collect::<Result<_, _>>()?;
        let autoreset = match autoreset {
            "NextStep" => Autoreset::NextStep,
            "SameStep" => Autoreset::SameStep,
            "Disabled" => Autoreset::Never,
            other => return Err(value_error(format!("no such autoreset mode: {other}")).into()),
        };
        Ok(Self(Mutex::new(Batch::new(environments, autoreset, threads)?)))
    }

    /// Begins episodes: for each environment `None`, or a seed and a number, which both may be `None`.
    fn reset(&self, py: Python<'_>, begin: Vec<Option<(Option<u64>, Option<u64>)>>) -> Outcome<Steps> {
        let begin: Vec<Option<Begin>> =
            begin.into_iter().map(|own| own.map(|(seed, number)| Begin { seed, number })).collect();
        // Scenarios of `lte` take seconds to draw. Steps are too short for a thread of their own.
        let began = detached(
            py,
            |_, ()| Ok(()),
            |interrupt, _progress| {
                self.batch().reset_unless(&begin, || interrupt.stop.load(Ordering::Relaxed))
            },
        )??;
        let began: Vec<Option<&BatchStep>> = began.iter().map(Option::as_ref).collect();
        Ok(Steps::new(py, &began)?)
    }

    /// Steps each environment with its action, without the GIL.
    fn step(&self, py: Python<'_>, actions: Vec<f32>) -> Outcome<Steps> {
        let steps = py.detach(|| self.batch().step(&actions))?;
        let steps: Vec<Option<&BatchStep>> = steps.iter().map(Some).collect();
        Ok(Steps::new(py, &steps)?)
    }
}

/// Two values, between which one is drawn, or several, of which one is.
fn spread(is_range: bool, values: Vec<String>) -> Spread {
    match <[String; 2]>::try_from(values) {
        Ok([low, high]) if is_range => Spread::Range(low, high),
        Ok(values) => Spread::Choices(values.into()),
        Err(values) => Spread::Choices(values),
    }
}

impl Environments {
    fn batch(&self) -> std::sync::MutexGuard<'_, Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps {
    fn new(py: Python<'_>, all: &[Option<&BatchStep>]) -> PyResult<Self> {
        let mut observations = Vec::new();
        let mut figures: [Vec<u8>; 5] = Default::default();
        let mut flags: [Vec<u8>; 4] = Default::default();
        let news = PyList::empty(py);
        for (place, own) in all.iter().enumerate() {
            let observation = own.map_or([0.0; Feature::ALL.len()], |own| own.observation);
            observations.extend(observation.iter().flat_map(|value| value.to_ne_bytes()));
            let step = own.and_then(|own| own.step.as_ref());
            let values = step.map_or([0.0; 5], |step| {
                let of = &step.figures;
                let target = step.target.as_bps() as f64;
                [
                    step.reward,
                    target,
                    of.use_ratio.unwrap_or(0.0),
                    of.frame_delay.as_seconds(),
                    of.missed_ratio,
                ]
            });
            for (column, value) in figures.iter_mut().zip(values) {
                column.extend(value.to_ne_bytes());
            }
            let begins = own.is_some_and(|own| own.step.is_none() || own.next.is_some());
            let is_over = step.is_some_and(|step| step.is_last);
            let uses = step.is_some_and(|step| step.figures.use_ratio.is_some());
            for (column, flag) in flags.iter_mut().zip([step.is_some(), is_over, begins, uses]) {
                column.push(flag.into());
            }
            if let Some(own) = own
                && (begins || is_over)
            {
                news.append((place, Self::news(py, own)?))?;
            }
        }
        Ok(Self {
            observations: PyBytes::new(py, &observations).unbind(),
            figures: PyBytes::new(py, &figures.concat()).unbind(),
            flags: PyBytes::new(py, &flags.concat()).unbind(),
            news: news.unbind(),
        })
    }

    fn news<'py>(py: Python<'py>, own: &BatchStep) -> PyResult<Bound<'py, PyDict>> {
        let news = PyDict::new(py);
        if let Some((number, name)) = own.next.as_ref().or(own.step.is_none().then_some(&own.episode)) {
            news.set_item("episode", number)?;
            news.set_item("scenario", name)?;
            if !own.values.is_empty() {
                let values = own.values.iter().map(|drawn| (&drawn.path, &drawn.value));
                news.set_item("randomised", values.into_py_dict(py)?)?;
            }
        }
        if let Some(figures) = &own.figures {
            news.set_item("utility", figures.utility.total)?;
        }
        if let (Some(step), Some(_)) = (&own.step, &own.next) {
            let last: Vec<u8> = step.observation.iter().flat_map(|value| value.to_ne_bytes()).collect();
            news.set_item("final", PyBytes::new(py, &last))?;
        }
        Ok(news)
    }
}

/// What the sender of a call sees, as the observations of an environment.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Observer(Mutex<environment::Observer>);

#[pymethods]
impl Observer {
    /// An observer of a call with these limits.
    #[new]
    fn new(limits: &Limits) -> Self {
        Self(Mutex::new(environment::Observer::new(limits.into())))
    }

    /// Notes a packet that was sent.
    fn on_sent(&self, packet: &SentPacket) {
        self.observer().on_sent(&packet.0);
    }

    /// Notes feedback.
    fn on_feedback(&self, py: Python<'_>, now_s: f64, feedback: &Feedback) -> PyResult<()> {
        let now = Timestamp::ZERO + seconds("now_s", now_s)?;
        let packets = feedback.packets.bind(py).iter();
        let packets: Vec<congestion::PacketReport> =
            packets.map(|report| Ok(report.cast::<PacketReport>()?.get().0)).collect::<PyResult<_>>()?;
        let feedback = congestion::Feedback::new(&packets, DataSize::ZERO);
        self.observer().on_feedback(now, &feedback);
        Ok(())
    }

    /// Notes new limits.
    fn set_limits(&self, limits: &Limits) {
        self.observer().set_limits(limits.into());
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyDict>) -> Self {
        Self(Mutex::new(self.observer().clone()))
    }

    /// Forgets the delays of the old route.
    fn on_route_change(&self) {
        self.observer().on_route_change();
    }

    /// The observation at the end of a step, as the bytes of an array of float32; begins the next step.
    fn observe<'py>(
        &self,
        py: Python<'py>,
        began_s: f64,
        now_s: f64,
        target_bps: f64,
        oldest_s: f64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let at = |name, value| seconds(name, value).map(|time| Timestamp::ZERO + time);
        let (began, now) = (at("began_s", began_s)?, at("now_s", now_s)?);
        let (target, oldest) = (rate("target_bps", target_bps)?, seconds("oldest_s", oldest_s)?);
        let observation = self.observer().observe(began, now, target, oldest);
        let bytes: Vec<u8> = observation.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Observer {
    fn observer(&self) -> std::sync::MutexGuard<'_, environment::Observer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The features of an observation: name, lowest and highest value.
#[pyfunction]
pub(crate) fn environment_features() -> Vec<(&'static str, f32, f32)> {
    Feature::ALL.iter().map(|feature| (feature.name, feature.low, feature.high)).collect()
}

/// The families of the benchmark's scenarios.
#[pyfunction]
pub(crate) fn environment_families() -> Vec<&'static str> {
    Family::ALL.iter().map(|family| family.name()).collect()
}

/// Default duration of a step in s, and the rates of the actions -1 and 1 in bit/s.
#[pyfunction]
pub(crate) fn environment_scale() -> (f64, u64, u64) {
    (STEP.as_seconds(), RATES.0.as_bps(), RATES.1.as_bps())
}

/// The target rate in bit/s of an action.
#[pyfunction]
pub(crate) fn target_of_action(action: f32) -> PyResult<u64> {
    if action.is_nan() {
        return Err(value_error("the action must be a number from -1 to 1, found nan"));
    }
    Ok(rate_of_action(action).as_bps())
}

/// The action of a target rate in bit/s.
#[pyfunction]
pub(crate) fn action_of_target(target_bps: f64) -> PyResult<f32> {
    if !target_bps.is_finite() || target_bps < 0.0 {
        return Err(value_error(format!(
            "target_bps must be a rate in bit/s of at least 0, found {target_bps}"
        )));
    }
    Ok(action_of_rate(DataRate::from_bps(target_bps as u64)))
}
