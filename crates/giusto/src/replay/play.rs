//! Runs a recording through controllers and compares them.

use std::collections::VecDeque;

use giusto_congestion::{Algorithm, Decision, Target};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    Recording,
    event::{Entry, Event},
    player::Player,
    read::ReadError,
    result::{Parting, Replay, ReplayTimeline, Replayed, Side},
    sampled::Windows,
    wire::Packets,
};
use crate::{record::DecisionRecord, text::decision::decision_in_words};

/// The most answers of the recorded controller that wait to be compared. One call has at most a few.
const MAX_PENDING: usize = 100_000;

/// What is replayed.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// The controllers.
    pub controllers: Vec<Algorithm>,
    /// Two targets are apart when they differ by more than this share of the recorded one. Default 0.1.
    pub apart_above: f64,
}

impl ReplayOptions {
    /// These controllers, with defaults.
    pub fn of(controllers: Vec<Algorithm>) -> Self {
        Self { controllers, apart_above: 0.1 }
    }
}

/// A change of the target of a controller.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// When.
    pub at: Timestamp,
    /// The controller; `None` for the recorded one.
    pub controller: Option<&'a str>,
    /// The new target or decision.
    pub change: &'a Event,
}

/// Runs `recording` through controllers. `observe` receives each target and decision, in order for each controller.
///
/// # Errors
///
/// [`ReadError`]: the recording is damaged.
pub fn replay(
    recording: &mut dyn Recording,
    options: &ReplayOptions,
    observe: &mut dyn FnMut(&Step<'_>),
) -> Result<Replay, ReadError> {
    let info = recording.info().clone();
    let mut run = Run::new(&info, options);
    let mut players: Vec<_> =
        options.controllers.iter().map(|&algorithm| Player::new(algorithm, &info)).collect();
    while let Some(entry) = recording.next_entry()? {
        // Several events of one time are one moment: compare after the last of them.
        if entry.at > run.end {
            (0..players.len()).for_each(|place| run.compare(place));
        }
        run.on_recorded(&entry, observe);
        for (place, player) in players.iter_mut().enumerate() {
            let Ok(player) = player else { continue };
            let name = player.algorithm.name();
            player.show(&entry, &mut |at, event| {
                observe(&Step { at, controller: Some(name), change: &event });
                run.on_replayed(at, place, event);
            });
        }
    }
    (0..players.len()).for_each(|place| run.compare(place));
    run.shortened = recording.shortened();
    Ok(run.finish(&info, players, options))
}

/// The state of one side of a comparison.
#[derive(Debug, Default)]
struct Course {
    target: Option<Target>,
    decision: Option<Decision>,
    /// An estimate in words, where there are no decisions.
    words: String,
    changes: u64,
    since: Option<Timestamp>,
    /// Integral of the target, in bits.
    bits: f64,
    begun: Option<Timestamp>,
}

impl Course {
    fn advance(&mut self, now: Timestamp) {
        let (Some(target), Some(since)) = (self.target, self.since) else { return };
        self.bits += target.media.as_bps() as f64 * now.saturating_since(since).as_seconds();
        self.since = Some(since.max(now));
    }

    fn set(&mut self, now: Timestamp, target: Target) {
        self.advance(now);
        self.changes += u64::from(self.target.is_some_and(|before| before.media != target.media));
        self.target = Some(target);
        self.since = Some(self.since.map_or(now, |since| since.max(now)));
        self.begun.get_or_insert(now);
    }

    fn side(&mut self, name: &str, end: Timestamp) -> Side {
        self.advance(end);
        let seconds = self.begun.map_or(0.0, |begun| end.saturating_since(begun).as_seconds());
        Side {
            name: name.to_owned(),
            mean_target_bps: (seconds > 0.0).then(|| self.bits / seconds),
            last_target_bps: self.target.map(|target| target.media.as_bps()),
            changes: self.changes,
        }
    }

    fn record(&self) -> Option<DecisionRecord> {
        self.decision.map(|decision| DecisionRecord {
            at_s: decision.at.as_seconds(),
            from_bps: decision.from.as_bps(),
            to_bps: decision.to.as_bps(),
            cause: decision.cause,
        })
    }

    fn words(&self) -> String {
        match self.record() {
            Some(record) => format!("{:.3} s: {}", record.at_s, decision_in_words(&record)),
            None if self.words.is_empty() => "no decision yet".to_owned(),
            None => self.words.clone(),
        }
    }
}

/// A replayed controller beside the recorded one.
#[derive(Debug, Default)]
struct Beside {
    course: Course,
    apart: TimeDelta,
    /// Time of the latest comparison, and whether the targets were apart.
    latest: Option<(Timestamp, bool)>,
    parting: Option<Parting>,
    /// Answers that the recording must have next, if it is the recorded controller.
    pending: VecDeque<(Timestamp, Event)>,
    /// The same for probes, which the sender may take after a later call.
    probes: VecDeque<(Timestamp, Event)>,
    difference: Option<String>,
}

#[derive(Debug)]
struct Run {
    recorded: Course,
    beside: Vec<Beside>,
    is_recorded: Vec<bool>,
    windows: Windows,
    apart_above: f64,
    end: Timestamp,
    sent: (u64, u64),
    messages: u64,
    reported: u64,
    lost: u64,
    /// Minimum of arrival less departure.
    shortest: Option<i128>,
    shortened: Option<String>,
}

impl Run {
    fn new(info: &super::SessionInfo, options: &ReplayOptions) -> Self {
        let count = options.controllers.len();
        let is_recorded = |algorithm: &Algorithm| !info.lacks.calls && algorithm.name() == info.controller;
        Self {
            recorded: Course::default(),
            beside: (0..count).map(|_| Beside::default()).collect(),
            is_recorded: options.controllers.iter().map(is_recorded).collect(),
            windows: Windows::new(count + 1),
            apart_above: options.apart_above,
            end: Timestamp::ZERO,
            sent: (0, 0),
            messages: 0,
            reported: 0,
            lost: 0,
            shortest: None,
            shortened: None,
        }
    }

    fn on_recorded(&mut self, entry: &Entry, observe: &mut dyn FnMut(&Step<'_>)) {
        self.end = self.end.max(entry.at);
        let at = entry.at;
        match &entry.event {
            Event::Sent(packet) => {
                self.sent.0 += 1;
                self.sent.1 += packet.size.as_bytes();
            }
            Event::Feedback(message) => {
                self.messages += 1;
                for report in &message.packets {
                    self.reported += 1;
                    let Some(arrival) = report.arrival else {
                        self.lost += 1;
                        continue;
                    };
                    let delay = i128::from(arrival.as_nanos()) - i128::from(report.sent.at.as_nanos());
                    let shortest = self.shortest.map_or(delay, |shortest| shortest.min(delay));
                    self.shortest = Some(shortest);
                    self.windows.add_delay(report.sent.at, (delay - shortest) as f64 / 1e6);
                }
            }
            Event::Target(target) => {
                self.recorded.set(at, *target);
                self.windows.set_rate(at, 0, target.media.as_bps() as f64);
            }
            Event::Decision(decision) => self.recorded.decision = Some(*decision),
            Event::Estimate(words) => self.recorded.words.clone_from(words),
            _ => {}
        }
        let is_answer =
            matches!(entry.event, Event::Target(_) | Event::Decision(_) | Event::Probe(_) | Event::Shares(_));
        if is_answer {
            observe(&Step { at, controller: None, change: &entry.event });
            for (beside, _) in self.beside.iter_mut().zip(&self.is_recorded).filter(|(_, same)| **same) {
                beside.expect(at, &entry.event);
            }
        } else if matches!(entry.event, Event::Estimate(_)) {
            observe(&Step { at, controller: None, change: &entry.event });
        }
    }

    fn on_replayed(&mut self, at: Timestamp, place: usize, event: Event) {
        let Some(beside) = self.beside.get_mut(place) else { return };
        match &event {
            Event::Target(target) => {
                beside.course.set(at, *target);
                self.windows.set_rate(at, place + 1, target.media.as_bps() as f64);
            }
            Event::Decision(decision) => beside.course.decision = Some(*decision),
            _ => {}
        }
        if self.is_recorded.get(place) == Some(&true) && beside.pending.len() < MAX_PENDING {
            let is_probe = matches!(event, Event::Probe(_));
            if is_probe { &mut beside.probes } else { &mut beside.pending }.push_back((at, event));
        }
    }

    /// Compares the targets at the time of the latest event.
    fn compare(&mut self, place: usize) {
        let now = self.end;
        let Some(beside) = self.beside.get_mut(place) else { return };
        if self.is_recorded.get(place) == Some(&true) {
            // Its answers follow in the recording, and are compared exactly.
            return;
        }
        let (Some(recorded), Some(replayed)) = (self.recorded.target, beside.course.target) else { return };
        let (recorded, replayed) = (recorded.media.as_bps(), replayed.media.as_bps());
        let apart = recorded.abs_diff(replayed) as f64 > self.apart_above * recorded as f64;
        if let Some((since, true)) = beside.latest {
            beside.apart += now.saturating_since(since);
        }
        beside.latest = Some((now, apart));
        if apart && beside.parting.is_none() {
            beside.parting = Some(Parting {
                at_s: now.as_seconds(),
                recorded_bps: recorded,
                replayed_bps: replayed,
                recorded_decision: self.recorded.record(),
                recorded_words: self.recorded.words(),
                replayed_decision: beside.course.record(),
                replayed_words: beside.course.words(),
            });
        }
    }

    fn finish(
        mut self,
        info: &super::SessionInfo,
        players: Vec<Result<Player, String>>,
        options: &ReplayOptions,
    ) -> Replay {
        let end = self.end;
        let mut controllers = Vec::new();
        for (place, (player, algorithm)) in players.into_iter().zip(&options.controllers).enumerate() {
            let mut beside = self.beside.get_mut(place).map(std::mem::take).unwrap_or_default();
            let (unusable, mut notes, same) = match player {
                Ok(player) => (None, player.notes(info), player.is_recorded),
                Err(why) => (Some(why), Vec::new(), false),
            };
            // The recording may end within the answers of its last call.
            let is_cut = self.shortened.is_some();
            if let Some((at, event)) =
                beside.pending.front().or(beside.probes.front()).filter(|_| same && !is_cut)
            {
                beside
                    .difference
                    .get_or_insert(format!("{at}: the replay has {event:?}, the recording nothing"));
            }
            let side = beside.course.side(algorithm.name(), end);
            let begun = beside.course.begun.unwrap_or(end);
            let seconds = end.saturating_since(begun).as_seconds();
            // A recording without a target agrees with nothing.
            let is_compared = self.recorded.begun.is_some() || beside.difference.is_some();
            if same && !is_compared {
                notes.push("the recording has no target: nothing was compared".to_owned());
            }
            controllers.push(Replayed {
                apart_ratio: match (same, unusable.is_some(), seconds > 0.0) {
                    (_, true, _) | (_, _, false) => None,
                    (true, ..) if !is_compared => None,
                    (true, ..) => beside.difference.is_none().then_some(0.0),
                    _ => Some((beside.apart.as_seconds() / seconds).clamp(0.0, 1.0)),
                },
                unusable,
                notes,
                identical: (same && is_compared).then_some(beside.difference.is_none()),
                first_difference: beside.difference,
                side,
                parting: beside.parting,
            });
        }
        let t_s = self.windows.finish();
        let mut rates = std::mem::take(&mut self.windows.rates).into_iter();
        let timeline = ReplayTimeline {
            t_s,
            recorded_bps: rates.next().unwrap_or_default(),
            replayed_bps: rates.collect(),
            delay_ms: std::mem::take(&mut self.windows.delays),
        };
        let duration_s = end.as_seconds();
        Replay {
            session: info.name.clone(),
            recorder: info.recorder.clone(),
            feedback: info.feedback.name().to_owned(),
            open_loop: true,
            duration_s,
            sent_packets: self.sent.0,
            sent_rate_bps: if duration_s > 0.0 { self.sent.1 as f64 * 8.0 / duration_s } else { 0.0 },
            feedback_messages: self.messages,
            loss_ratio: (self.reported > 0).then(|| self.lost as f64 / self.reported as f64),
            shortened: self.shortened.take(),
            apart_above_ratio: self.apart_above,
            recorded: self.recorded.side(&info.controller, end),
            controllers,
            timeline: Some(timeline),
        }
    }
}

impl Beside {
    /// The recording has this answer next.
    fn expect(&mut self, at: Timestamp, event: &Event) {
        if self.difference.is_some() {
            return;
        }
        let is_probe = matches!(event, Event::Probe(_));
        let next = if is_probe { self.probes.pop_front() } else { self.pending.pop_front() };
        // As lines of a session log.
        let line = |at, event: &Event| {
            serde_json::to_string(&Packets::default().line(at, event)).unwrap_or_default()
        };
        let replayed = match next {
            Some((own_at, own)) if own == *event && (own_at == at || is_probe) => return,
            Some((own_at, own)) => line(own_at, &own),
            None => "nothing".to_owned(),
        };
        self.difference = Some(format!("{at}: the recording has {}, the replay {replayed}", line(at, event)));
    }
}
