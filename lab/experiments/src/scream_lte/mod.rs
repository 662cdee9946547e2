//! The LTE evaluation of draft-johansson-rmcat-scream-cc-00, "Self-Clocked Rate Adaptation for Multimedia", §10: GCC against SCReAM
//! in 21 cells, tables 2 to 9.
//!
//! Both run in the city of `giusto-lte`, with today's controllers beside them. What the draft leaves unsaid is varied one by one.
//! See `docs/reproduce/scream-lte.md`.

mod page;
mod published;
mod setting;
mod statements;

use std::{ops::ControlFlow, sync::Mutex};

use giusto_congestion::Algorithm;
use giusto_lte::city::CityError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use self::published::Link;
use self::{
    published::{PLACES, Published, Quantity, table_of},
    setting::{JUDGED, READINGS, Reading},
};
use crate::item::Reproduction;
use giusto::{
    city::{self, CityRecord, CitySpec},
    view::sweep::Interval,
};

/// The name of this reproduction.
pub const NAME: &str = "scream-lte";

/// The page in Markdown: introduction, rule and findings.
const TEXT: &str = include_str!("page.md");

const SECOND_NS: u64 = 1_000_000_000;

/// Controllers that the draft does not have.
const TODAY: [&str; 4] = ["gcc:remb", "gcc:libwebrtc", "scream:rfc8298", "scream:v2"];

/// The runs to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The controllers, each at every load.
    pub controllers: Vec<Algorithm>,
    /// Seeds: 1 to this.
    pub seeds: u64,
    /// Seeds with which the unknowns are varied and today's controllers run: 1 to this, at most those above.
    pub beside_seeds: u64,
    /// Places among the six loads of a table.
    loads: &'static [usize],
    /// Where the unknowns are varied: direction and speed, users per cell.
    varied: &'static [((Link, u32), u32)],
}

impl Plan {
    /// All loads of the tables with the controllers of the tables and three seeds, and with today's and one; quick, the first and the
    /// second load with those of the tables and one seed, and nothing is varied: 36 s of CPU time.
    pub fn new(quick: bool) -> Self {
        const VARIED: &[((Link, u32), u32)] = &[
            ((Link::Downlink, 3), 2),
            ((Link::Downlink, 3), 8),
            ((Link::Uplink, 3), 5),
            ((Link::Uplink, 30), 2),
        ];
        let names = Published::ALL.into_iter().map(Published::controller);
        let names = names.chain(TODAY.into_iter().take(if quick { 0 } else { TODAY.len() }));
        let controllers = names.filter_map(|name| name.parse().ok()).collect();
        if quick {
            Self { controllers, seeds: 1, beside_seeds: 1, loads: &[0, 1], varied: &[] }
        } else {
            Self { controllers, seeds: 3, beside_seeds: 1, loads: &[0, 1, 2, 3, 4, 5], varied: VARIED }
        }
    }

    /// The runs, those first that matter most if not all are made.
    fn tasks(&self) -> Vec<Task> {
        let is_published = |controller: &&Algorithm| {
            Published::ALL.iter().any(|published| published.controller() == controller.name())
        };
        let (published, today): (Vec<&Algorithm>, Vec<&Algorithm>) =
            self.controllers.iter().partition(is_published);
        let at_loads = |reading: &'static str, seed: u64, controllers: &[&Algorithm]| {
            let mut tasks = Vec::new();
            for place in PLACES {
                let rows = table_of(place, Published::Gcc).map(|table| &table.rows[..]).unwrap_or_default();
                for row in self.loads.iter().filter_map(|&load| rows.get(load)) {
                    let task = |controller| Task { reading, place, users: row.users, controller, seed };
                    tasks.extend(controllers.iter().map(|&&controller| task(controller)));
                }
            }
            tasks
        };
        let mut tasks = at_loads(JUDGED, 1, &published);
        // With --quick nothing is varied.
        let readings = READINGS.iter().skip(if self.varied.is_empty() { READINGS.len() } else { 1 });
        for seed in 1..=self.beside_seeds {
            for &Reading { name: reading, is_whole, .. } in readings.clone() {
                if is_whole {
                    tasks.extend(at_loads(reading, seed, &published));
                    continue;
                }
                for &(place, users) in self.varied {
                    let task = |controller| Task { reading, place, users, controller, seed };
                    tasks.extend(published.iter().map(|&&controller| task(controller)));
                }
            }
        }
        tasks.extend((2..=self.seeds).flat_map(|seed| at_loads(JUDGED, seed, &published)));
        tasks.extend((1..=self.beside_seeds).flat_map(|seed| at_loads(JUDGED, seed, &today)));
        tasks
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.tasks().len()
    }

    /// How often [`run`] calls its `step`, if it is not ended early.
    pub fn steps(&self, known: &[Run]) -> u64 {
        self.tasks().iter().filter(|task| task.among(known).is_none()).map(Task::steps).sum()
    }
}

/// A run to make.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Task {
    reading: &'static str,
    place: (Link, u32),
    users: u32,
    controller: Algorithm,
    seed: u64,
}

/// A run that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What the draft leaves unsaid, as read: `as judged`, or one thing that differs.
    pub reading: String,
    /// Direction of the media.
    pub link: Link,
    /// Speed of the users in km/h.
    pub speed_kmh: u32,
    /// Mean number of users in a cell.
    pub users: u32,
    /// Controller.
    pub controller: String,
    /// Random seed.
    pub seed: u64,
    /// Calls that were evaluated.
    pub calls: usize,
    /// 95th percentile over users of the 98th percentile of the delay of video frames, in ms; `None` if no frame arrived.
    pub frame_tail_ms: Option<f64>,
    /// The same of packets.
    pub packet_tail_ms: Option<f64>,
    /// Mean over users of the share of packets that did not arrive.
    pub loss_ratio: Option<f64>,
    /// Mean over users of the rate of the video sent, in bit/s: RTP payload.
    pub sent_video_bps: Option<f64>,
    /// Mean over users of the rate of the video received, in bit/s.
    pub received_video_bps: Option<f64>,
    /// Share of video frames that the sender skipped.
    pub skipped_ratio: f64,
    /// Share of the resource blocks that was used, in the direction of the media.
    pub used_ratio: Option<f64>,
    /// Share of first transmissions that failed.
    pub first_error_ratio: Option<f64>,
    /// Users outside coverage when they arrived.
    pub uncovered_calls: u64,
}

impl Run {
    fn new(task: &Task, record: &CityRecord) -> Self {
        let known = |value: f64| value.is_finite().then_some(value);
        let (figures, radio) = (&record.figures, record.radio());
        Self {
            reading: task.reading.to_owned(),
            link: task.place.0,
            speed_kmh: task.place.1,
            users: task.users,
            controller: task.controller.name().to_owned(),
            seed: task.seed,
            calls: figures.calls,
            frame_tail_ms: known(figures.frame_tail_ms),
            packet_tail_ms: known(figures.packet_tail_ms),
            loss_ratio: known(figures.loss_ratio),
            sent_video_bps: known(figures.sent_video_bps),
            received_video_bps: known(figures.received_video_bps),
            skipped_ratio: figures.skipped_ratio,
            used_ratio: radio.map(|radio| radio.used_ratio),
            first_error_ratio: radio.map(|radio| radio.first_error_ratio),
            uncovered_calls: figures.uncovered_calls,
        }
    }

    fn is_of(&self, task: &Task) -> bool {
        self.reading == task.reading
            && (self.link, self.speed_kmh) == task.place
            && self.users == task.users
            && self.controller == task.controller.name()
            && self.seed == task.seed
    }

    /// A figure in the unit of the draft's tables.
    fn value(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::FrameTail => self.frame_tail_ms,
            Quantity::PacketTail => self.packet_tail_ms,
            Quantity::Loss => self.loss_ratio.map(|ratio| ratio * 100.0),
            Quantity::Rate => self.sent_video_bps.map(|bps| bps / 1e3),
        }
    }
}

/// The reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreamLte {
    /// The runs that were planned.
    pub plan: Plan,
    /// The runs that were made, in the order of the plan; fewer if it was interrupted.
    pub runs: Vec<Run>,
}

/// In JSON the one object of `giusto reproduce scream-lte --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// Each published number and each derived statement, judged.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// The number of planned runs.
    pub planned_runs: usize,
    /// The runs.
    pub runs: Vec<Run>,
}

/// Makes the runs of `plan` that `known` does not hold, on the threads of rayon's current pool. `watch` is called in each simulated
/// millisecond and may end everything; `step` is called after each simulated second, `done` with each completed run.
///
/// # Errors
///
/// [`CityError`]: a setting is out of range, which a test excludes.
pub fn run(
    plan: Plan,
    known: &[Run],
    watch: impl Fn() -> ControlFlow<()> + Sync,
    step: impl Fn() + Sync,
    done: impl FnMut(&Run) + Send,
) -> Result<ScreamLte, CityError> {
    let done = Mutex::new(done);
    let make = |(number, task): (usize, &Task)| {
        let run = match task.among(known) {
            Some(run) => run.clone(),
            None => match task.run(&watch, &step).transpose()? {
                Ok(run) => run,
                Err(error) => return Some(Err(error)),
            },
        };
        if let Ok(mut done) = done.lock() {
            done(&run);
        }
        Some(Ok((number, run)))
    };
    let tasks = plan.tasks();
    // In the order of the list, which splitting it into halves would not keep.
    let runs = tasks.iter().enumerate().par_bridge().filter_map(make);
    let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
    runs.sort_unstable_by_key(|(number, _)| *number);
    Ok(ScreamLte { plan, runs: runs.into_iter().map(|(_, run)| run).collect() })
}

impl Task {
    /// The run, if it has been made.
    fn among<'a>(&self, known: &'a [Run]) -> Option<&'a Run> {
        known.iter().find(|run| run.is_of(self))
    }

    /// The city; `None` if there is no such reading.
    fn city(&self) -> Option<CitySpec> {
        Some(setting::reading(self.reading)?.city(self.place, self.users, self.controller, self.seed))
    }

    /// Its whole seconds.
    fn steps(&self) -> u64 {
        self.city().map_or(0, |spec| city::end(&spec).as_nanos() / SECOND_NS)
    }

    /// Makes the run; `None` if it was interrupted.
    fn run(&self, watch: impl Fn() -> ControlFlow<()>, step: impl Fn()) -> Result<Option<Run>, CityError> {
        let Some(spec) = self.city() else { return Ok(None) };
        if watch().is_break() {
            return Ok(None);
        }
        let mut is_stopped = false;
        let record = city::run(&spec, |now| {
            if now.as_nanos().is_multiple_of(SECOND_NS) {
                step();
            }
            let next = watch();
            is_stopped |= next.is_break();
            next
        })?;
        Ok((!is_stopped).then(|| Run::new(self, &record)))
    }
}

impl ScreamLte {
    /// Every published number and every derived statement, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let items = [statements::derived(self), statements::numbers(self)].concat();
        let beside = giusto::order::map([("seeds".to_owned(), self.plan.seeds as f64)]);
        Reproduction { name: NAME.to_owned(), items, beside }
    }

    /// The same with the runs of another reading in the place of those that are judged.
    fn read_as(&self, reading: &str) -> Self {
        let runs = self.runs.iter().filter(|run| run.reading == reading);
        let runs = runs.map(|run| Run { reading: JUDGED.to_owned(), ..run.clone() }).collect();
        Self { plan: self.plan.clone(), runs }
    }

    /// The runs of a controller at a load, with their seeds.
    fn at<'a>(
        &'a self,
        reading: &'a str,
        place: (Link, u32),
        users: u32,
        controller: &'a str,
    ) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| {
            run.reading == reading
                && (run.link, run.speed_kmh) == place
                && run.users == users
                && run.controller == controller
        })
    }

    /// The mean over seeds of a figure, as judged.
    fn mean(&self, place: (Link, u32), users: u32, controller: &str, quantity: Quantity) -> Option<Interval> {
        let values: Vec<f64> =
            self.at(JUDGED, place, users, controller).filter_map(|run| run.value(quantity)).collect();
        Interval::of(&values)
    }

    /// The value of each seed that both algorithms of the draft were run with: GCC's and SCReAM's.
    fn pairs(&self, place: (Link, u32), users: u32, quantity: Quantity) -> Vec<(u64, [f64; 2])> {
        let of = |published: Published| self.at(JUDGED, place, users, published.controller());
        let pair = |gcc: &Run| {
            let scream = of(Published::Scream).find(|run| run.seed == gcc.seed)?;
            Some((gcc.seed, [gcc.value(quantity)?, scream.value(quantity)?]))
        };
        of(Published::Gcc).filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests;
