//! The run of a city: from event to event, and from millisecond to millisecond.

mod arrivals;

use std::{borrow::Cow, cmp::Reverse, collections::BinaryHeap, sync::Arc};

use giusto_sim::{
    engine::EventQueue,
    random::{self, Random},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    air::{Air, Motion},
    board::{Board, Parts, Step, Window, lock},
    config::{CityConfig, CityError, Opposite, RADIO_ROUND_TRIP},
    crew::Crew,
    ends::{Change, Completed, Ends, Key, SHARDS, Way},
    measures::{CallMeasures, CityFigures, RadioFigures},
    people::{Person, Workload},
};
use crate::{
    bearer::BearerCounters,
    carrier::Carrier,
    mac::{Channel, Downlink, MacCounters, Uplink},
    radio::{
        fading::{Fading, Profile, step_ms},
        layout::Layout,
        link::{Direction, LinkModel},
        propagation::Deployment,
    },
    terminal::{Environment, Terminal, Walker},
};

/// Number of samples of a precomputed fading trace, and number of traces: 6 MB. Users begin at random places in them. A trace
/// repeats after 16 s at 3 km/h and after 4 s at 30 km/h, some 90 and 230 periods of the largest Doppler shift.
const FADING_SAMPLES: usize = 4096;
const FADING_TRACES: usize = 8;

/// A person stays for this long after the end of its call, so that what is on its way arrives.
const LINGERS: TimeDelta = TimeDelta::from_seconds(3);

/// A file transfer leaves this long after its last byte has arrived, so that the acknowledgement arrives.
const FILE_LINGERS: TimeDelta = TimeDelta::from_millis(500);

/// Length of a window at most, in ms: shorter than a file transfer stays after its end.
const MAX_WINDOW_MS: u64 = 10;

/// A user whose wideband SINR at full load is below this has no coverage: the lowest CQI needs about -7 dB.
const COVERAGE_DB: f64 = -7.0;

const MILLISECOND: TimeDelta = TimeDelta::from_millis(1);

/// Counters of a city.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CityCounters {
    /// Calls that have begun.
    pub calls: u64,
    /// Calls whose user was outside coverage on arrival. They take place nevertheless.
    pub uncovered_calls: u64,
    /// File transfers that have begun.
    pub files: u64,
    /// File transfers that were completed.
    pub completed_files: u64,
    /// File transfers that were given up.
    pub abandoned_files: u64,
    /// Sum of the durations of completed file transfers.
    pub file_time: TimeDelta,
    /// Handovers.
    pub handovers: u64,
    /// Packets sent by agents.
    pub packets: u64,
    /// Bearers of users who have left, by direction: downlink, uplink.
    pub bearers: [BearerCounters; 2],
}

#[derive(Debug, Clone, Copy)]
enum Wake {
    Call,
    File,
    /// A person, by its place and its number.
    Leave(u32, u32),
}

/// A person as the city knows it.
#[derive(Debug)]
struct Resident {
    id: u32,
    /// Place in the population of the radio.
    place: u32,
    joined: Timestamp,
    leaves: Key,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A call, and its time within the evaluation.
    Call(TimeDelta),
    File {
        is_complete: bool,
    },
}

/// What happens in the next window, for the parts of the city.
#[derive(Debug, Default)]
struct News {
    motions: [Vec<(u64, Motion)>; 2],
    /// At the network's side and at the user's.
    changes: [Vec<(u32, Change)>; 2],
}

/// Cells, users and their traffic, and the current time.
///
/// A run advances in windows of half of the delay of the core network. In each step the downlink processes a window, both ends of all
/// calls the window before, and the uplink the one before that. None of them needs what another does in the same step: a packet
/// takes the delay of the core network from an end at the network's side to a cell, and back. Their work can therefore be done at
/// the same time, and the result is that of a run from event to event.
pub struct City<'a> {
    config: CityConfig,
    environment: Arc<Environment>,
    parts: Parts,
    news: News,
    /// Whether the radio models the downlink and the uplink.
    modelled: (bool, bool),
    workload: &'a mut dyn Workload,
    events: EventQueue<Wake>,
    persons: Vec<Option<Resident>>,
    free_persons: Vec<u32>,
    joined: u32,
    walkers: Vec<Option<Walker>>,
    free_places: Vec<u32>,
    /// When file transfers are given up: the time, the person's place and number.
    patience: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
    completed: Vec<Completed>,
    ms: u64,
    arrivals: [Random; 2],
    finished: Vec<CallMeasures>,
    counters: CityCounters,
    end_events: u64,
    error: Option<CityError>,
}

impl std::fmt::Debug for City<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("City").field("config", &self.config).field("ms", &self.ms).finish_non_exhaustive()
    }
}

impl<'a> City<'a> {
    /// An empty city at time zero.
    ///
    /// # Errors
    ///
    /// [`CityError`] names a setting out of range.
    pub fn new(config: CityConfig, workload: &'a mut dyn Workload) -> Result<Self, CityError> {
        config.validate()?;
        let seed = config.seed;
        let stream = |part: &str| random::stream(seed, &format!("lte: {part}"));
        let carrier = Carrier::downlink(config.downlink.blocks.max(config.uplink.blocks));
        let deployment = config.deployment.clone();
        let environment = environment(config.profile, deployment, carrier, &mut stream("fading"));
        let has = |direction| config.direction == direction || config.opposite == Opposite::Radio;
        let downlink = has(Direction::Downlink)
            .then(|| Downlink::new(config.downlink, &environment, stream("downlink blocks")));
        let uplink =
            has(Direction::Uplink).then(|| Uplink::new(config.uplink, &environment, stream("uplink blocks")));
        let core = config.core_delay();
        let way = |by_radio, delay| {
            if by_radio { Way::Radio(delay) } else { Way::Fixed(core + RADIO_ROUND_TRIP / 2) }
        };
        let ends = |way| (0..SHARDS).map(|_| Ends::new(way, config.evaluation)).collect();
        let mut city = Self {
            modelled: (downlink.is_some(), uplink.is_some()),
            environment: Arc::new(environment),
            parts: Parts {
                network: ends(way(downlink.is_some(), core)),
                user: ends(way(uplink.is_some(), TimeDelta::ZERO)),
                downlink: downlink.map(|downlink| Box::new(Air::new(downlink, TimeDelta::ZERO))),
                uplink: uplink.map(|uplink| Box::new(Air::new(uplink, core))),
            },
            news: News::default(),
            workload,
            events: EventQueue::default(),
            persons: Vec::new(),
            free_persons: Vec::new(),
            joined: 0,
            walkers: Vec::new(),
            free_places: Vec::new(),
            patience: BinaryHeap::new(),
            completed: Vec::new(),
            ms: 0,
            arrivals: [stream("calls"), stream("files")],
            finished: Vec::new(),
            counters: CityCounters::default(),
            end_events: 0,
            error: None,
            config,
        };
        city.schedule_call();
        city.schedule_file();
        Ok(city)
    }

    /// Configuration.
    pub fn config(&self) -> &CityConfig {
        &self.config
    }

    /// Current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + MILLISECOND * self.ms as i64
    }

    /// What all users share.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Where the user at `place` is, and its path gains.
    pub fn terminal(&self, place: u32) -> Option<&Terminal> {
        Some(&self.walkers.get(place as usize)?.as_ref()?.terminal)
    }

    /// The channel of the user at `place` in `direction`, if it is modelled.
    pub fn channel(&self, place: u32, direction: Direction) -> Option<&Channel> {
        match direction {
            Direction::Downlink => self.parts.downlink.as_ref()?.channel(place),
            Direction::Uplink => self.parts.uplink.as_ref()?.channel(place),
        }
    }

    /// The people that are there.
    pub fn people(&self) -> impl Iterator<Item = Person<'_>> {
        self.persons.iter().flatten().filter_map(|resident| {
            let group = resident.id as usize % SHARDS;
            let network = self.parts.network.get(group)?.activity(resident.id)?;
            let user = self.parts.user.get(group)?.activity(resident.id)?;
            let (sender, receiver) = match self.config.direction {
                Direction::Downlink => (network, user),
                Direction::Uplink => (user, network),
            };
            Some(Person { place: resident.place, sender, receiver })
        })
    }

    /// Counters since the start.
    pub fn counters(&self) -> CityCounters {
        let downlink = self.parts.downlink.as_ref().map(|air| air.counters);
        let uplink = self.parts.uplink.as_ref().map(|air| air.counters);
        CityCounters { bearers: [downlink, uplink].map(Option::unwrap_or_default), ..self.counters }
    }

    /// Number of events so far: those of agents, and milliseconds.
    pub fn events(&self) -> u64 {
        self.events.popped() + self.end_events + self.ms
    }

    /// Counters of the scheduler in `direction`, if it is modelled.
    pub fn mac(&self, direction: Direction) -> Option<MacCounters> {
        match direction {
            Direction::Downlink => self.parts.downlink.as_ref().map(|air| air.radio.counters()),
            Direction::Uplink => self.uplink().map(Uplink::counters),
        }
    }

    /// The uplink, if it is modelled.
    pub fn uplink(&self) -> Option<&Uplink> {
        self.parts.uplink.as_ref().map(|air| &air.radio)
    }

    /// Measures of all calls so far that overlap the evaluation.
    pub fn calls(&self) -> impl Iterator<Item = Cow<'_, CallMeasures>> {
        let present = self.people().filter_map(|person| person.measures());
        self.finished.iter().map(Cow::Borrowed).chain(present.map(Cow::Owned))
    }

    /// The figures so far.
    pub fn figures(&self) -> CityFigures {
        let counters = &self.counters;
        let calls: Vec<_> = self.calls().collect();
        CityFigures {
            uncovered_calls: counters.uncovered_calls,
            all_calls: counters.calls,
            files: counters.files,
            completed_files: counters.completed_files,
            abandoned_files: counters.abandoned_files,
            file_time_s: counters.file_time.as_seconds() / (counters.completed_files as f64).max(1.0),
            handovers: counters.handovers,
            downlink: self.radio(Direction::Downlink),
            uplink: self.radio(Direction::Uplink),
            ..CityFigures::of(calls.iter().map(Cow::as_ref))
        }
    }

    /// The figures of the radio in `direction`, if it is modelled.
    fn radio(&self, direction: Direction) -> Option<RadioFigures> {
        let mac = self.mac(direction)?;
        let uplink = self.uplink().filter(|_| direction == Direction::Uplink);
        let cells = self.environment.layout.cells() as f64;
        Some(RadioFigures {
            cell_throughput_bps: mac.decoded_bits as f64 / self.now().as_seconds() / cells,
            used_ratio: mac.used_ratio(),
            first_error_ratio: mac.first_error_ratio(),
            lost_blocks: mac.lost_blocks,
            interference_over_noise_db: uplink.map(Uplink::interference_over_noise_db),
        })
    }

    /// Processes everything before `end`. Can be called again with a later end. The result does not depend on `crew`.
    ///
    /// # Errors
    ///
    /// [`CityError::Call`] if a call could not be built.
    pub fn run_until(&mut self, end: Timestamp, crew: &dyn Crew) -> Result<(), CityError> {
        let end = end.as_nanos().div_ceil(1_000_000);
        let (environment, mut parts) = (Arc::clone(&self.environment), std::mem::take(&mut self.parts));
        let board = Board::new(&environment, &mut parts);
        crew.work(
            &mut || {
                let _over = Over(&board);
                self.lead(end, &board);
            },
            &|| board.help(),
        );
        self.parts = parts;
        self.error.take().map_or(Ok(()), Err)
    }

    /// Processes all milliseconds before `end`, step by step.
    fn lead(&mut self, end: u64, board: &Board<'_>) {
        let (mut planned, mut ends, mut uplink) = (None, None, None);
        while planned.is_some() || self.ms < end || ends.is_some() || uplink.is_some() {
            let is_drained = ends.is_none() && uplink.is_none();
            let downlink = planned.take().or_else(|| {
                let window = self.plan_window(end, is_drained, board)?;
                self.exchange(board);
                Some(window)
            });
            if self.error.is_some() {
                return;
            }
            if self.window_ms() > 0 {
                // Who helps begins with the downlink, meanwhile the window after it is planned.
                board.begin(Step { downlink, ends, uplink });
                planned = self.plan_window(end, false, board);
                board.finish();
                self.exchange(board);
                (ends, uplink) = (downlink, ends);
                continue;
            }
            // One millisecond in the order of its events.
            for step in [
                Step { ends: downlink, ..Step::default() },
                Step { downlink, ..Step::default() },
                Step { ends: downlink, ..Step::default() },
                Step { uplink: downlink, ..Step::default() },
            ] {
                board.begin(step);
                board.finish();
                self.exchange(board);
            }
        }
    }

    /// Plans the window that follows, if it can be planned yet.
    fn plan_window(&mut self, end: u64, is_drained: bool, board: &Board<'_>) -> Option<Window> {
        let window = (self.ms < end).then(|| self.next_window(end, is_drained, board)).flatten()?;
        self.plan(window);
        Some(window)
    }

    /// Length of a window at most; 0 if the delay of the core network leaves no room for one.
    fn window_ms(&self) -> u64 {
        let core_ms = self.config.core_delay().as_nanos().unsigned_abs() / 1_000_000;
        (core_ms / 2).min(MAX_WINDOW_MS)
    }

    /// The window that follows; `None` if it has to wait until all windows before it have been processed. A file transfer is given up
    /// only if it has not been completed until then, which nobody knows before.
    fn next_window(&mut self, end: u64, is_drained: bool, board: &Board<'_>) -> Option<Window> {
        let (from, mut until) = (self.ms, end.min(self.ms + self.window_ms().max(1)));
        while let Some(&Reverse((at, number, id))) = self.patience.peek() {
            if self.open_file(number, id).is_none() {
                self.patience.pop();
                continue;
            }
            let ms = at.as_nanos().div_ceil(1_000_000);
            if ms > from {
                until = until.min(ms);
            } else if is_drained {
                self.give_up(from, board);
                until = from + 1;
            } else {
                return None;
            }
            break;
        }
        Some((from, until))
    }

    /// Brings the receivers of files that are given up in the millisecond `ms` to that time.
    fn give_up(&mut self, ms: u64, board: &Board<'_>) {
        let due: Vec<_> = self.patience.iter().map(|Reverse(due)| *due).collect();
        for (at, number, id) in due {
            if at.as_nanos().div_ceil(1_000_000) > ms {
                continue;
            }
            let Some(leaves) = self.open_file(number, id).map(|resident| resident.leaves) else { continue };
            for side in [&board.network, &board.user] {
                if let Some(ends) = side.get(id as usize % SHARDS) {
                    lock(ends).run_one(id, leaves);
                }
            }
        }
        self.exchange(board);
    }

    /// The person, if it transfers a file that is not complete.
    fn open_file(&self, number: u32, id: u32) -> Option<&Resident> {
        let resident = self.persons.get(number as usize)?.as_ref()?;
        let is_open = matches!(resident.kind, Kind::File { is_complete: false });
        (resident.id == id && is_open).then_some(resident)
    }

    /// People come, move and leave in a window.
    fn plan(&mut self, (from, until): Window) {
        for ms in from..until {
            self.ms = ms;
            let now = self.now();
            while let Some((at, wake)) = self.events.pop_until(now) {
                match wake {
                    Wake::Call => {
                        self.begin_call(at);
                        self.schedule_call();
                    }
                    Wake::File => {
                        self.begin_file(at);
                        self.schedule_file();
                    }
                    Wake::Leave(number, id) => self.leave(at, number, id),
                }
            }
            self.move_users();
        }
        self.ms = until;
    }

    /// Moves the users whose turn it is.
    fn move_users(&mut self) {
        for (place, walker) in (0..).zip(&mut self.walkers) {
            let Some(walker) = walker.as_mut().filter(|walker| walker.moves_at(self.ms)) else { continue };
            let from = walker.terminal.serving();
            let is_handed_over = walker.advance(&self.environment);
            self.counters.handovers += u64::from(is_handed_over);
            let moved = walker.terminal.moved();
            for motions in &mut self.news.motions {
                motions.push((self.ms, Motion::Move { place, moved, from, is_handed_over }));
            }
        }
    }

    /// Passes on what has been planned, and what ends and radio have produced.
    fn exchange(&mut self, board: &Board<'_>) {
        let [motions_down, motions_up] = &mut self.news.motions;
        let mut downlink = board.downlink.as_ref().map(lock);
        let mut uplink = board.uplink.as_ref().map(lock);
        match &mut downlink {
            Some(air) => air.motions.extend(motions_down.drain(..)),
            None => motions_down.clear(),
        }
        match &mut uplink {
            Some(air) => air.motions.extend(motions_up.drain(..)),
            None => motions_up.clear(),
        }
        for (changes, side) in self.news.changes.iter_mut().zip([&board.network, &board.user]) {
            for (id, change) in changes.drain(..) {
                if let Some(ends) = side.get(id as usize % SHARDS) {
                    lock(ends).changes.push(change);
                }
            }
        }
        for (group, (network, user)) in board.network.iter().zip(&board.user).enumerate() {
            let (network, user) = (&mut **lock(network), &mut **lock(user));
            move_to(&mut user.inbox, &mut network.output.fixed);
            move_to(&mut network.inbox, &mut user.output.fixed);
            if let Some((inbox, outbox)) = downlink.as_mut().and_then(|air| air.boxes(group)) {
                move_to(inbox, &mut network.output.sent);
                move_to(&mut user.inbox, outbox);
            }
            if let Some((inbox, outbox)) = uplink.as_mut().and_then(|air| air.boxes(group)) {
                move_to(inbox, &mut user.output.sent);
                move_to(&mut network.inbox, outbox);
            }
            for output in [&mut network.output, &mut user.output] {
                self.counters.packets += std::mem::take(&mut output.packets);
                self.end_events += std::mem::take(&mut output.events);
                self.completed.append(&mut output.completed);
                for (place, measures) in output.measures.drain(..) {
                    if let Some(call) = self.finished.get_mut(place) {
                        call.add(measures);
                    }
                }
            }
        }
        self.completed.sort_unstable();
        for completed in std::mem::take(&mut self.completed) {
            self.complete(completed);
        }
    }
}

/// Ends the work of those who help, also if the one who leads panics.
struct Over<'a, 'b>(&'a Board<'b>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Appends all of `from`, mostly without copying.
fn move_to<T>(to: &mut Vec<T>, from: &mut Vec<T>) {
    if to.is_empty() {
        std::mem::swap(to, from);
    } else {
        to.append(from);
    }
}

/// What all users of `carrier` share.
pub(crate) fn environment(
    profile: Profile,
    deployment: Deployment,
    carrier: Carrier,
    random: &mut Random,
) -> Environment {
    let fading = Fading::new(
        profile,
        deployment.speed_mps,
        deployment.carrier_hz,
        carrier.groups(),
        Deployment::RESOURCE_BLOCK_HZ * f64::from(carrier.group),
        FADING_SAMPLES * step_ms(deployment.doppler_hz()),
        FADING_TRACES,
        random,
    );
    let layout = Layout::hexagonal(deployment.inter_site_distance_m);
    Environment { layout, deployment, fading, model: LinkModel::new() }
}
