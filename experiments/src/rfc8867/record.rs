//! What a run did, in intervals of 200 ms: RFC 8867 §4.1, RFC 8868 §3.

use giusto_measure::ErrorHistogram;
use giusto_sim::{
    packet::FlowId,
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp};

use giusto::{
    run,
    scenario::{FlowKind, Scenario},
};

/// Rates are measured over this (RFC 8868 §3, item 1).
pub(super) const INTERVAL: TimeDelta = TimeDelta::from_millis(200);
/// As many of them make a second.
pub(super) const PER_SECOND: usize = 5;

/// What a flow did in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    /// On the wire, all headers included.
    pub(super) sent_bytes: u64,
    /// On the wire, all headers included.
    pub(super) received_bytes: u64,
    /// The frames that arrived whole.
    pub(super) frame_bytes: u64,
    /// The longest that a packet that arrived had waited in queues, in nanoseconds.
    pub(super) waited_ns: u64,
}

/// What a flow did, interval by interval.
#[derive(Debug, Clone)]
pub(super) struct FlowRecord {
    /// Its name.
    pub(super) name: String,
    pub(super) is_media: bool,
    pub(super) intervals: Vec<Interval>,
    /// From a frame's capture until it was there.
    pub(super) frame_delay: ErrorHistogram,
    /// What came back: reports, acknowledgements.
    pub(super) back_bytes: u64,
}

/// An observer of one run.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) flows: Vec<FlowRecord>,
    /// For each flow of the simulation its place here, and whether it carries the answers.
    places: Vec<(usize, bool)>,
}

impl Record {
    /// An empty record of a run of `scenario`.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let length = (scenario.end().as_nanos() / INTERVAL.as_nanos().unsigned_abs()) as usize + 1;
        let media: Vec<String> = scenario
            .flows()
            .iter()
            .filter(|flow| matches!(flow.kind, FlowKind::Media(_)))
            .flat_map(|flow| flow.instances().collect::<Vec<_>>())
            .collect();
        let mut record = Self { flows: Vec::new(), places: Vec::new() };
        for name in run::names(scenario).flows {
            let back = name.strip_suffix(":back");
            let known = record.flows.iter().position(|flow| Some(flow.name.as_str()) == back);
            record.places.push(known.map_or((record.flows.len(), false), |place| (place, true)));
            if known.is_none() {
                record.flows.push(FlowRecord {
                    is_media: media.contains(&name),
                    name,
                    intervals: vec![Interval::default(); length],
                    frame_delay: ErrorHistogram::new(),
                    back_bytes: 0,
                });
            }
        }
        record
    }

    /// A flow by its name.
    pub(super) fn flow(&self, name: &str) -> Option<&FlowRecord> {
        self.flows.iter().find(|flow| flow.name == name)
    }

    fn at(&mut self, flow: FlowId) -> Option<(&mut FlowRecord, bool)> {
        let &(place, back) = self.places.get(flow.0 as usize)?;
        Some((self.flows.get_mut(place)?, back))
    }
}

impl FlowRecord {
    fn interval(&mut self, now: Timestamp) -> Option<&mut Interval> {
        self.intervals.get_mut((now.as_nanos() / INTERVAL.as_nanos().unsigned_abs()) as usize)
    }
}

impl Observer for Record {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        let (Event::Sent { packet } | Event::Delivered { packet }) = event else { return };
        let Some((flow, back)) = self.at(packet.flow) else { return };
        let bytes = u64::from(packet.bytes);
        let sent = matches!(event, Event::Sent { .. });
        if back {
            flow.back_bytes += if sent { bytes } else { 0 };
            return;
        }
        let Some(interval) = flow.interval(now) else { return };
        if sent {
            interval.sent_bytes += bytes;
        } else {
            interval.received_bytes += bytes;
            interval.waited_ns = interval.waited_ns.max(packet.waited_ns);
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let &Note::Frame { flow, delay, size, .. } = note else { return };
        let Some((flow, _)) = self.at(flow) else { return };
        if let Some(delay) = delay {
            flow.frame_delay.record(delay);
        }
        if let Some(interval) = flow.interval(now) {
            interval.frame_bytes += size.as_bytes();
        }
    }
}
