//! The monitor of a host, without input and output: which stream is due, and what its result changes.

use std::collections::{BTreeMap, BTreeSet};

use giusto::scenario::{HostSpec, MonitorSpec, Thresholds, WatchedKind, WatchedStream};
use giusto_units::{TimeDelta, Timestamp};

use crate::{
    metric::{Figures, Metric},
    notice,
    sample::{Sample, SeriesKey},
    schedule::Slots,
    store::{Entry, EventKind, Note},
    watch::{Bound, Change, Watch},
};

/// A stream that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The host that sends, the one that receives, and the name of the stream.
    pub series: SeriesKey,
    /// What is sent.
    pub stream: WatchedStream,
    /// The other host.
    pub target: HostSpec,
    /// The other host sends.
    pub reverse: bool,
    /// The beginning of its interval, in seconds.
    pub time: u64,
}

/// Something to do in each interval.
#[derive(Debug, Clone)]
struct Task {
    job: Job,
    slots: Slots,
    is_running: bool,
}

/// The newest result of a series, for those who watch; before the first one, what a monitor before has left.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// When its interval began.
    pub time: u64,
    /// Its figures; `None` where it is unknown.
    pub figures: Option<Figures>,
    /// The crossed bounds.
    pub crossed: Vec<Bound>,
    /// Results so far, and those of them that were unknown.
    pub results: [u64; 2],
}

/// The monitor of a host.
#[derive(Debug, Default)]
pub struct Engine {
    tasks: Vec<Task>,
    watches: BTreeMap<SeriesKey, Watch>,
    states: BTreeMap<SeriesKey, State>,
    /// Streams that were due while their predecessors were still running.
    overrun: u64,
    has_webhook: bool,
}

impl Engine {
    /// A monitor that runs on the host called `here`, one of those in `spec`.
    pub fn new(spec: &MonitorSpec, here: &str) -> Self {
        let mut engine = Self::default();
        engine.reload(0, spec, here);
        engine
    }

    /// Goes on with another configuration. Streams that it also has keep their places in time and their states; those that it has no
    /// longer are watched no longer: the entries end what went on of them at `now`, in seconds.
    pub fn reload(&mut self, now: u64, spec: &MonitorSpec, here: &str) -> Vec<Entry> {
        self.has_webhook = spec.webhook.is_some();
        let tasks = tasks(spec, here).into_iter().map(|mut task| {
            if let Some(old) = self.tasks.iter().find(|old| old.job.series == task.job.series) {
                task.slots.continue_from(&old.slots);
                task.is_running = old.is_running;
            }
            task
        });
        self.tasks = tasks.collect();
        self.forget_unwatched(now)
    }

    /// Drops what is known of series that are not measured, and ends what went on of them.
    fn forget_unwatched(&mut self, now: u64) -> Vec<Entry> {
        let mut kept: BTreeSet<SeriesKey> = self.tasks.iter().map(|task| task.job.series.clone()).collect();
        kept.extend(self.tasks.iter().filter_map(|task| way_back(&task.job)));
        self.states.retain(|series, _| kept.contains(series));
        let (watched, gone) =
            std::mem::take(&mut self.watches).into_iter().partition(|(series, _)| kept.contains(series));
        self.watches = watched;
        let gone: BTreeMap<_, _> = gone;
        let ended = gone.into_iter().map(|(series, watch)| Entry {
            series: Some(series),
            time: now,
            sample: None,
            notes: watch.goes_on().map(note).collect(),
            notices: Vec::new(),
        });
        ended.filter(|entry| !entry.notes.is_empty()).collect()
    }

    /// Takes over the events that a monitor before has left open: those of outages and bounds. The entries end those of series that are
    /// not watched here at `now`, in seconds.
    pub fn resume(&mut self, now: u64, events: &[(SeriesKey, EventKind, String)]) -> Vec<Entry> {
        let mut open: BTreeMap<&SeriesKey, (bool, Vec<Bound>)> = BTreeMap::new();
        for (series, kind, name) in events {
            let (out, crossed) = open.entry(series).or_default();
            *out |= *kind == EventKind::Outage;
            crossed.extend(Bound::named(name).filter(|_| *kind == EventKind::Bound));
        }
        for (series, (out, crossed)) in open {
            self.watches.insert(series.clone(), Watch::resumed(out, crossed.iter().copied()));
            self.states.insert(series.clone(), State { time: now, figures: None, crossed, results: [0; 2] });
        }
        self.forget_unwatched(now)
    }

    /// What another file with these open events lacks: what goes on begins there at `now`, in seconds, and what does not ends.
    pub(crate) fn reconcile(&self, now: u64, open: &[(SeriesKey, EventKind, String)]) -> Vec<Entry> {
        let goes_on = |(series, watch): (&SeriesKey, &Watch)| {
            let ends = watch.goes_on().map(note).filter_map(|note| match note {
                Note::Ended { kind, name } => Some((series.clone(), kind, name)),
                Note::Began { .. } => None,
            });
            ends.collect::<Vec<_>>()
        };
        let own: BTreeSet<_> = self.watches.iter().flat_map(goes_on).collect();
        let open: BTreeSet<_> = open.iter().cloned().collect();
        let began = own.difference(&open).map(|(series, kind, name)| {
            let what = if name.is_empty() { String::new() } else { format!("bound {name}, crossed ") };
            let text = format!("{what}before this file was begun");
            (series, Note::Began { kind: *kind, name: name.clone(), lasts: true, text })
        });
        let ended = open
            .difference(&own)
            .map(|(series, kind, name)| (series, Note::Ended { kind: *kind, name: name.clone() }));
        let entry = |(series, note): (&SeriesKey, Note)| Entry {
            series: Some(series.clone()),
            time: now,
            sample: None,
            notes: vec![note],
            notices: Vec::new(),
        };
        began.chain(ended).map(entry).collect()
    }

    /// The next stream that is due; `None` if there is none now.
    pub fn poll(&mut self, now: Timestamp) -> Option<Job> {
        for task in &mut self.tasks {
            let Some(slot) = task.slots.take(now) else { continue };
            if task.is_running {
                self.overrun += 1;
                continue;
            }
            task.is_running = true;
            return Some(Job { time: seconds(slot), ..task.job.clone() });
        }
        None
    }

    /// When [`Self::poll`] has the next stream.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.tasks.iter().filter_map(|task| task.slots.due()).min()
    }

    /// What came of a job, of its direction and, with STAMP, of the way back: the entries for the store.
    pub fn on_result(&mut self, job: &Job, there: Sample, back: Option<Sample>) -> Vec<Entry> {
        let task = self.tasks.iter_mut().find(|task| task.job.series == job.series);
        let is_watched = task.is_some();
        if let Some(task) = task {
            task.is_running = false;
        }
        let thresholds = &job.stream.thresholds;
        let mut entries = vec![self.entry(job.series.clone(), job.time, there, thresholds)];
        if let Some((series, back)) = way_back(job).zip(back) {
            entries.push(self.entry(series, job.time, back, thresholds));
        }
        // A reload has removed the stream while it ran: its result is kept, and nothing that would go on.
        if !is_watched {
            for entry in &mut entries {
                entry.notes.clear();
                entry.notices.clear();
            }
            self.forget_unwatched(job.time);
        }
        entries
    }

    fn entry(&mut self, series: SeriesKey, time: u64, sample: Sample, thresholds: &Thresholds) -> Entry {
        let watch = self.watches.entry(series.clone()).or_default();
        let changes = watch.on_sample(&sample, thresholds);
        let figures = match &sample {
            Sample::Measured(measured) => Some(measured.all()),
            Sample::Unknown(_) => None,
        };
        let crossed = Bound::ALL.into_iter().filter(|bound| watch.is_crossed(*bound)).collect();
        let [all, unknown] = self.states.get(&series).map_or([0; 2], |state| state.results);
        let results = [all + 1, unknown + u64::from(figures.is_none())];
        self.states.insert(series.clone(), State { time, figures, crossed, results });
        let notices = changes
            .iter()
            .filter(|_| self.has_webhook)
            .filter_map(|change| notice::body(&series, time, change));
        Entry {
            time,
            notices: notices.collect(),
            notes: changes.into_iter().map(note).collect(),
            sample: Some(sample),
            series: Some(series),
        }
    }

    /// The state of each series that has a result since the start, or that a monitor before has left with an open event.
    pub fn states(&self) -> &BTreeMap<SeriesKey, State> {
        &self.states
    }

    /// Counts of what did not go as planned.
    pub fn troubles(&self) -> Troubles {
        let slots = self.tasks.iter().map(|task| &task.slots);
        let (missed, set_back) =
            slots.fold((0, 0), |(missed, back), slots| (missed + slots.missed(), back + slots.set_back()));
        Troubles { missed, overrun: self.overrun, set_back }
    }

    /// The number of streams.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether nothing is measured from here.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// Counts of what did not go as planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Streams whose time passed while the machine slept or was too busy.
    pub missed: u64,
    /// Streams that were due while their predecessors were still running.
    pub overrun: u64,
    /// How often the clock was set back by more than an interval.
    pub set_back: u64,
}

/// The series of the way back, which STAMP measures as well.
fn way_back(job: &Job) -> Option<SeriesKey> {
    let is_both = matches!(job.stream.kind, WatchedKind::Stamp { .. });
    let SeriesKey { from, to, stream } = job.series.clone();
    is_both.then_some(SeriesKey { from: to, to: from, stream })
}

/// The streams that this host measures: to the targets of its pairs, and from the sources of its pairs what they send on request. They
/// are spread over their intervals by their places among those of all hosts, so that streams of different hosts do not meet.
fn tasks(spec: &MonitorSpec, here: &str) -> Vec<Task> {
    let mut tasks = Vec::new();
    let steps = (spec.pairs.len() * spec.streams.len()).max(1) as f64;
    let mut step = 0.0;
    for (from, to) in &spec.pairs {
        for stream in &spec.streams {
            let phase = TimeDelta::from_seconds_f64(stream.interval.as_seconds() * step / steps);
            step += 1.0;
            let (Some(source), Some(target)) = (spec.hosts.get(*from), spec.hosts.get(*to)) else { continue };
            let can_reverse = matches!(
                stream.kind,
                WatchedKind::Cbr { reverse: true, .. } | WatchedKind::Call { reverse: true, .. }
            );
            let (other, reverse) = match () {
                () if source.id == here => (target, false),
                () if target.id == here && can_reverse => (source, true),
                () => continue,
            };
            let series =
                SeriesKey { from: source.id.clone(), to: target.id.clone(), stream: stream.id.clone() };
            let job = Job { series, stream: stream.clone(), target: other.clone(), reverse, time: 0 };
            tasks.push(Task { job, slots: Slots::new(stream.interval, phase), is_running: false });
        }
    }
    tasks
}

fn seconds(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000_000_000
}

/// What is noted of the time between the last result of a monitor before and the start of this one, if it is more than two of the longest
/// intervals.
pub fn gap(last: Option<u64>, now: u64, longest: TimeDelta) -> Vec<Entry> {
    let Some(last) = last.filter(|last| now.saturating_sub(*last) as f64 > 2.0 * longest.as_seconds()) else {
        return Vec::new();
    };
    let (kind, name) = (EventKind::Gap, String::new());
    let text = "the monitor did not run".to_owned();
    let notes = [
        (last, Note::Began { kind, name: name.clone(), lasts: true, text }),
        (now, Note::Ended { kind, name }),
    ];
    let entry =
        |(time, note)| Entry { series: None, time, sample: None, notes: vec![note], notices: Vec::new() };
    notes.map(entry).into()
}

fn note(change: Change) -> Note {
    let name = String::new();
    match change {
        Change::OutageBegan(text) => Note::Began { kind: EventKind::Outage, name, lasts: true, text },
        Change::OutageEnded => Note::Ended { kind: EventKind::Outage, name },
        Change::Hole(seconds) => {
            let text = format!("no datagram arrived for {seconds:.1} s");
            Note::Began { kind: EventKind::Hole, name, lasts: false, text }
        }
        Change::Path(text) => Note::Began { kind: EventKind::Path, name, lasts: false, text },
        Change::Bound { bound, crossed: false, .. } => {
            Note::Ended { kind: EventKind::Bound, name: bound.name().to_owned() }
        }
        Change::Bound { bound, value, limit, reason, .. } => {
            let text = match (bound, value.zip(limit)) {
                (Bound::Reachable, _) | (_, None) => "not reachable".to_owned(),
                (Bound::Loss, Some((value, limit))) => {
                    format!("loss {} above {}", show(Metric::Loss, value), show(Metric::Loss, limit))
                }
                (Bound::RttP99, Some((value, limit))) => format!("RTT p99 {value:.2} ms above {limit} ms"),
                (Bound::DelayP99, Some((value, limit))) => {
                    format!("one-way delay p99 {value:.2} ms above {limit} ms")
                }
                (Bound::FrameDelayP99, Some((value, limit))) => {
                    format!("frame delay p99 {value:.2} ms above {limit} ms")
                }
                (Bound::Mos, Some((value, limit))) => format!("MOS {value:.2} below {limit}"),
            };
            let text = reason.map_or_else(|| text.clone(), |reason| format!("{text}: {reason}"));
            Note::Began { kind: EventKind::Bound, name: bound.name().to_owned(), lasts: true, text }
        }
    }
}

/// A value with its unit.
pub fn show(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Known | Metric::Loss | Metric::Use => giusto::view::format::percent(value),
        Metric::Mos => format!("{value:.2}"),
        Metric::Rate => giusto::view::format::rate(value),
        _ => format!("{value:.2} ms"),
    }
}
