//! Calls in the cells of a city: the media sessions of scenarios over the radio of `giusto-lte`.

mod log;
mod record;
mod simulate;
#[cfg(feature = "system")]
mod timed;
#[cfg(feature = "system")]
pub mod traces;

use std::ops::ControlFlow;

use giusto_lte::city::{Call, CallPlan, City, CityError, Workload};
use giusto_sim::{
    link::queue::{Queue, QueueError},
    random,
    traffic::Media,
};
use giusto_units::{TimeDelta, Timestamp};

pub use giusto_lte::city::{Alone, CityConfig, CityFigures, Crew, RadioFigures};
pub use log::{CallLog, CallSample, CityLog, Handover, run_logged};
pub use record::CityRecord;
pub use simulate::{CityRun, simulate, simulate_logged};
#[cfg(feature = "system")]
pub use timed::timed;

use crate::run::media;
pub use crate::scenario::CitySpec;

/// Packets sent at the end of the evaluation may arrive until this much later.
const DRAIN: TimeDelta = TimeDelta::from_seconds(4);

/// The calls of a city.
#[derive(Debug)]
pub struct Calls {
    spec: CitySpec,
    bearers: u64,
}

impl Calls {
    /// The calls of `spec`.
    ///
    /// # Errors
    ///
    /// [`QueueError`] if the queue of the bearers has a setting out of range.
    pub fn new(spec: &CitySpec) -> Result<Self, QueueError> {
        spec.queue.discipline().queue(&|| random::stream(0, "test"))?;
        Ok(Self { spec: spec.clone(), bearers: 0 })
    }
}

impl Workload for Calls {
    fn call(&mut self, plan: &CallPlan) -> Result<Call, String> {
        let (seed, number) = (self.spec.config.seed, plan.number);
        let random = |part: &str| random::stream(seed, &format!("lte: call {number}: {part}"));
        let (media, ends, (start, stop)) = (&self.spec.media, media::Ends::SIMULATED, plan.time);
        let controller = media::controller(media);
        let sender = media::sender(media, controller, ends, start, random, media::RealSources::default());
        let sender = sender.map_err(|error| error.to_string())?;
        let receiver = media::receiver(media, ends).map_err(|error| error.to_string())?;
        let (flow, feedback) = plan.flows;
        Ok(Call {
            sender: Box::new(Media::new(sender, flow, flow, start).stopping_at(stop)),
            receiver: Box::new(Media::new(receiver, feedback, flow, start)),
            video_ssrc: media::FIRST_VIDEO_SSRC,
        })
    }

    fn queue(&mut self) -> Box<dyn Queue> {
        self.bearers += 1;
        let (seed, bearer) = (self.spec.config.seed, self.bearers);
        let random = || random::stream(seed, &format!("lte: bearer {bearer}: queue"));
        self.spec.queue.discipline().queue(&random).expect("the queue was built before")
    }
}

/// Runs a city until its evaluation has ended. `progress` learns in each tenth of a simulated second how far it is, and may stop it.
/// `wall_s` stays zero; a caller with a clock sets it.
///
/// # Errors
///
/// [`CityError`] names a setting out of range.
pub fn run(
    spec: &CitySpec,
    mut progress: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<CityRecord, CityError> {
    let mut calls = Calls::new(spec).map_err(|error| CityError::Call(error.to_string()))?;
    let mut city = City::new(spec.config.clone(), &mut calls)?;
    // A city that was ended early has a record, too.
    let _ = advance(&mut city, end(spec), &Alone, &mut progress)?;
    Ok(CityRecord::new(spec, &city))
}

/// Interval at which a city asks whether to go on.
const WATCH: TimeDelta = TimeDelta::from_millis(100);

/// Runs `city` until `end`, and asks `watch` after each interval whether to go on.
fn advance(
    city: &mut City<'_>,
    end: Timestamp,
    crew: &dyn Crew,
    watch: &mut impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, CityError> {
    while city.now() < end {
        city.run_until((city.now() + WATCH).min(end), crew)?;
        if watch(city.now()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// When the run of a city ends: some seconds after its evaluation.
pub fn end(spec: &CitySpec) -> Timestamp {
    spec.config.evaluation.1 + DRAIN
}
