//! What a picture of a city shows: a map, the paths of its users, and the calls over time.

use std::{collections::BTreeMap, ops::ControlFlow};

use giusto_lte::{
    city::{City, CityConfig, CityError, Crew, Person},
    coverage::Coverage,
    terminal::MOVE_MS,
};
use giusto_units::{TimeDelta, Timestamp};

use super::{Calls, CityRecord, CitySpec, DRAIN, advance};

/// Interval of samples: users move once in it.
const INTERVAL: TimeDelta = TimeDelta::from_millis(MOVE_MS as i64);

/// The middle of a cell, as a share of the distance between sites.
const MIDDLE: f64 = 0.3;

/// Samples from one place of a path to the next: 1 s.
const SAMPLES_PER_PLACE: u64 = 10;

/// Calls whose path is kept, and calls that are kept over time: more would not be seen.
const MAX_PATHS: usize = 300;
const MAX_TIMELINES: usize = 60;

/// A city while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct CityLog {
    /// Distance between neighbouring sites in m.
    pub inter_site_distance_m: f64,
    /// East and north of each site in m.
    pub sites: Vec<(f64, f64)>,
    /// East and north of a place inside each cell in m, in front of its antenna.
    pub middles: Vec<(f64, f64)>,
    /// Wideband SINR without shadowing.
    pub coverage: Coverage,
    /// The first calls, at most 300.
    pub calls: Vec<CallLog>,
    /// Calls of which nothing was kept.
    pub other_calls: u64,
}

/// A call while it ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallLog {
    /// Number of the call, from 0.
    pub number: u32,
    /// Its beginning and its planned end in s.
    pub time_s: (f64, f64),
    /// East and north in m, once in a second.
    pub path: Vec<(f64, f64)>,
    /// Handovers.
    pub handovers: Vec<Handover>,
    /// Samples; none for calls that hardly overlap the evaluation, and beyond the first 60 others.
    pub samples: Vec<CallSample>,
}

/// A handover.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Handover {
    /// When, in s, at most 0.1 s late.
    pub time_s: f64,
    /// East and north in m.
    pub at: (f64, f64),
    /// The cell before.
    pub from: usize,
    /// The cell after.
    pub to: usize,
}

/// A call in an interval of 0.1 s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallSample {
    /// End of the interval in s.
    pub time_s: f64,
    /// SINR of the last transmission in dB; NaN before the first one.
    pub sinr_db: f32,
    /// Target rate of the controller in bit/s.
    pub target_bps: u64,
    /// Received rate of the media in bit/s, all headers included.
    pub received_bps: f64,
    /// Bytes that wait in the bearer of the media.
    pub backlog_bytes: u32,
    /// Mean delay of the video frames that became complete, in ms.
    pub frame_delay_ms: Option<f64>,
}

/// Runs a city as [`run`](super::run) does, with the help of `crew`, and keeps what a picture of it needs. `wall_s` stays zero; a caller with a clock sets it.
///
/// # Errors
///
/// [`CityError`] names a setting out of range.
pub fn run_logged(
    spec: &CitySpec,
    crew: &dyn Crew,
    mut progress: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<(CityRecord, CityLog), CityError> {
    let mut calls = Calls::new(spec).map_err(|error| CityError::Call(error.to_string()))?;
    let mut city = City::new(spec.config.clone(), &mut calls)?;
    let mut logger = Logger::new(&city);
    let end = spec.config.evaluation.1 + DRAIN;
    let mut samples = 0_u64;
    while city.now() < end {
        let next = (city.now() + INTERVAL).min(end);
        if advance(&mut city, next, crew, &mut progress)?.is_break() {
            break;
        }
        logger.sample(&city, samples.is_multiple_of(SAMPLES_PER_PLACE));
        samples += 1;
    }
    let mut log = logger.log;
    log.other_calls = city.counters().calls - log.calls.len() as u64;
    Ok((CityRecord::new(spec, &city), log))
}

/// Samples a city.
struct Logger {
    log: CityLog,
    known: BTreeMap<u32, Known>,
    timelines: usize,
}

/// What the last sample found.
struct Known {
    /// Index of the call in the log.
    place: usize,
    cell: usize,
    received_bytes: u64,
    frames: u64,
    frame_delay: TimeDelta,
    has_timeline: bool,
}

impl Logger {
    fn new(city: &City<'_>) -> Self {
        let environment = city.environment();
        let layout = &environment.layout;
        let sites = layout.sites().iter().map(|site| (site.x_m, site.y_m)).collect();
        let ahead = layout.inter_site_distance_m() * MIDDLE;
        let middles = (0..layout.cells()).filter_map(|cell| {
            let at = layout.sites().get(layout.site_of(cell))?.moved(ahead, layout.boresight_rad(cell));
            Some((at.x_m, at.y_m))
        });
        let log = CityLog {
            inter_site_distance_m: layout.inter_site_distance_m(),
            sites,
            middles: middles.collect(),
            coverage: Coverage::new(layout, &environment.deployment, &city.config().downlink),
            calls: Vec::new(),
            other_calls: 0,
        };
        Self { log, known: BTreeMap::new(), timelines: 0 }
    }

    fn sample(&mut self, city: &City<'_>, with_place: bool) {
        for person in city.people() {
            self.sample_person(city, &person, with_place);
        }
    }

    fn sample_person(&mut self, city: &City<'_>, person: &Person<'_>, with_place: bool) -> Option<()> {
        let (number, time, totals) = (person.call()?, person.time()?, person.totals()?);
        let terminal = city.terminal(person.place())?;
        let (at, cell) = (terminal.position(), terminal.serving());
        let at = (at.x_m, at.y_m);
        let now = city.now();
        if !self.known.contains_key(&number) {
            if self.log.calls.len() >= MAX_PATHS {
                return None;
            }
            let has_timeline = self.timelines < MAX_TIMELINES && is_evaluated(city.config(), time.0, time.1);
            self.timelines += usize::from(has_timeline);
            let place = self.log.calls.len();
            let time_s = (time.0.as_seconds(), time.1.as_seconds());
            self.log.calls.push(CallLog { number, time_s, path: vec![at], ..CallLog::default() });
            let known = Known {
                place,
                cell,
                received_bytes: 0,
                frames: 0,
                frame_delay: TimeDelta::ZERO,
                has_timeline,
            };
            self.known.insert(number, known);
        }
        // It stays for a while after the call.
        if now > time.1 + INTERVAL {
            return None;
        }
        let known = self.known.get_mut(&number)?;
        let call = self.log.calls.get_mut(known.place)?;
        if with_place {
            call.path.push(at);
        }
        if cell != known.cell {
            call.handovers.push(Handover { time_s: now.as_seconds(), at, from: known.cell, to: cell });
            known.cell = cell;
        }
        if known.has_timeline {
            let channel = city.channel(person.place(), city.config().direction)?;
            let frames = totals.frames - known.frames;
            let delay = (totals.frame_delay - known.frame_delay).as_millis() / (frames as f64).max(1.0);
            let bytes = totals.received_bytes - known.received_bytes;
            call.samples.push(CallSample {
                time_s: now.as_seconds(),
                sinr_db: channel.sinr_db(),
                target_bps: person.target().as_bps(),
                received_bps: bytes as f64 * 8.0 / INTERVAL.as_seconds(),
                backlog_bytes: channel.bearer.backlog(now),
                frame_delay_ms: (frames > 0).then_some(delay),
            });
            (known.received_bytes, known.frames, known.frame_delay) =
                (totals.received_bytes, totals.frames, totals.frame_delay);
        }
        Some(())
    }
}

/// Whether at least half of the call is within the evaluation, or half of the evaluation within the call.
fn is_evaluated(config: &CityConfig, start: Timestamp, stop: Timestamp) -> bool {
    let (from, until) = config.evaluation;
    let overlap = stop.min(until).saturating_since(start.max(from));
    overlap * 2 >= (until - from).min(stop - start)
}
