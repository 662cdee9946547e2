//! A run packet by packet: the moving picture of a lesson.

use std::collections::{BTreeMap, BTreeSet};

use giusto_sim::{
    packet::{DropReason, LinkId, Packet},
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

use crate::{
    record::{RunRecord, TimelineOptions},
    run::{RecordOptions, simulate_watched},
    scenario::Scenario,
};

/// The most packets of a film: of a run with more it shows those before.
const MAX_PACKETS: usize = 60_000;

/// The unit of the times of a film.
const TICK: TimeDelta = TimeDelta::from_micros(100);

/// Windows of the timeline beside a film.
const WINDOWS: i64 = 240;

/// A run, with each of its packets. Times are in units of 100 µs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Film {
    /// The figures of the run and its timeline.
    pub record: RunRecord,
    /// The number of the link that is shown: the first one of the file, or the first one that its first flow names.
    pub link: usize,
    /// Six numbers for each packet of the flows that cross this link, in the order of sending: twice the number of its flow in the record, and 1 more for an answer; the
    /// time from the sending of the packet before to its own; from there to the queue of the link that is shown; in that queue; from
    /// there to its end; and what became of it: 1 delivered, 2 dropped by the queue, 3 lost on the wire, 0 still under way, and 4 more
    /// where a queue marked it. A time that is not known is -1.
    pub packets: Vec<i64>,
    /// Four numbers for each complete frame: the number of its flow, its time, its delay or -1, and whether it is late.
    pub frames: Vec<i64>,
    /// The end of the film: that of the run, or of the packets that it holds.
    pub end_s: f64,
}

impl Film {
    /// Runs a scenario with its own seed.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut camera = Camera::of(scenario);
        // Rounded up: a last window of some nanoseconds would show the rounding to whole bytes as a rate.
        let width = TimeDelta::from_nanos((scenario.duration().as_nanos() + WINDOWS - 1) / WINDOWS);
        let options = RecordOptions::with_timeline(TimelineOptions {
            width: Some(width),
            ..TimelineOptions::default()
        });
        // Observers of any kind share one compiled simulation.
        let mut observer: &mut dyn Observer = &mut camera;
        let watch = |_| std::ops::ControlFlow::Continue(());
        let record = simulate_watched(scenario, scenario.seed(), options, &mut observer, watch);
        let end = camera.full_at.map_or(record.duration_s, Timestamp::as_seconds);
        let link = camera.link.0 as usize;
        Self { record, link, packets: camera.packets(), frames: camera.frames, end_s: end }
    }
}

/// Where a packet was when.
#[derive(Debug)]
struct Shot {
    flow: i64,
    sent: Timestamp,
    queued: Option<Timestamp>,
    dequeued: Option<Timestamp>,
    end: Option<Timestamp>,
    fate: i64,
}

/// Takes the film.
#[derive(Debug, Default)]
struct Camera {
    link: LinkId,
    /// By its id in the simulation, each flow as a film numbers it.
    flows: Vec<i64>,
    shots: Vec<Shot>,
    /// Packets under way.
    under_way: BTreeMap<(u32, u64), usize>,
    frames: Vec<i64>,
    full_at: Option<Timestamp>,
}

impl Camera {
    fn of(scenario: &Scenario) -> Self {
        let instances = scenario.flows().iter().flat_map(|flow| flow.instances().map(|_| &flow.kind));
        // A simulation numbers its flows in this order.
        let number = |(number, kind): (i64, &crate::scenario::FlowKind)| {
            let answers = kind.is_two_way().then_some(2 * number + 1);
            std::iter::once(2 * number).chain(answers)
        };
        let via = scenario.flows().first().and_then(|flow| flow.via.first());
        let place = scenario.links().iter().position(|link| Some(&link.id) == via);
        let link = LinkId(place.unwrap_or_default() as u32);
        Self { link, flows: (0..).zip(instances).flat_map(number).collect(), ..Self::default() }
    }

    fn shot(&mut self, packet: &Packet) -> Option<&mut Shot> {
        let place = *self.under_way.get(&(packet.flow.0, packet.sequence))?;
        self.shots.get_mut(place)
    }

    fn ends(&mut self, now: Timestamp, packet: &Packet, fate: i64) {
        if let Some(shot) = self.shot(packet) {
            shot.end = Some(now);
            shot.fate += fate;
        }
        self.under_way.remove(&(packet.flow.0, packet.sequence));
    }

    fn packets(&self) -> Vec<i64> {
        let mut before = Timestamp::ZERO;
        let between = |from: Timestamp, to: Option<Timestamp>| to.map_or(-1, |to| ticks(to) - ticks(from));
        let numbers = |shot: &Shot| {
            let since = ticks(shot.sent) - ticks(before);
            before = shot.sent;
            let left = shot.dequeued.or(shot.queued).unwrap_or(shot.sent);
            let to_queue = between(shot.sent, shot.queued);
            let in_queue = shot.queued.map_or(-1, |queued| between(queued, shot.dequeued));
            [shot.flow, since, to_queue, in_queue, between(left, shot.end), shot.fate]
        };
        // Of flows beside the link that is shown nothing can be seen.
        let queued = self.shots.iter().filter(|shot| shot.queued.is_some());
        let crossing: BTreeSet<i64> = queued.map(|shot| shot.flow / 2).collect();
        let shown = self.shots.iter().filter(|shot| crossing.contains(&(shot.flow / 2)));
        shown.flat_map(numbers).collect()
    }
}

fn ticks(at: Timestamp) -> i64 {
    (at - Timestamp::ZERO).as_nanos() / TICK.as_nanos()
}

impl Observer for Camera {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Sent { packet } if self.shots.len() < MAX_PACKETS => {
                let Some(&flow) = self.flows.get(packet.flow.0 as usize) else { return };
                self.under_way.insert((packet.flow.0, packet.sequence), self.shots.len());
                self.shots.push(Shot { flow, sent: now, queued: None, dequeued: None, end: None, fate: 0 });
            }
            Event::Sent { .. } => self.full_at = self.full_at.or(Some(now)),
            Event::Queued { link, packet, .. } if *link == self.link => {
                if let Some(shot) = self.shot(packet) {
                    shot.queued = Some(now);
                }
            }
            Event::Dequeued { link, packet, .. } if *link == self.link => {
                if let Some(shot) = self.shot(packet) {
                    shot.dequeued = Some(now);
                }
            }
            Event::Marked { packet, .. } => {
                if let Some(shot) = self.shot(packet) {
                    shot.fate |= 4;
                }
            }
            Event::Dropped { packet, reason, .. } => {
                let by_queue = matches!(reason, DropReason::Overflow | DropReason::Aqm);
                self.ends(now, packet, if by_queue { 2 } else { 3 });
            }
            Event::Delivered { packet } => self.ends(now, packet, 1),
            _ => {}
        }
    }

    fn on_note(&mut self, _now: Timestamp, note: &Note) {
        if let Note::Frame { flow, at, delay, late, .. } = *note
            && let Some(&flow) = self.flows.get(flow.0 as usize)
        {
            let delay = delay.map_or(-1, |delay| delay.as_nanos() / TICK.as_nanos());
            self.frames.extend([flow / 2, ticks(at), delay, late.into()]);
        }
    }
}

#[cfg(test)]
mod tests;
