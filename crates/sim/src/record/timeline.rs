//! Timeline of a run, in windows of equal width.

use std::ops::Range;

use giusto_units::{TimeDelta, Timestamp};

use super::{
    media::MediaSeries,
    plan::{RecordPlan, TimelineOptions},
    types::{self, FlowTimeline, LinkTimeline},
};
use crate::{
    link::rate::RateProfile,
    packet::{DropReason, FlowId, LinkId, Packet},
    trace::{Backlog, Note},
};

/// Minimum default width of a window: below it a rate would be a count of single packets.
const MIN_DEFAULT_NS: u64 = 10_000_000;

/// The number of windows, unless a width is given.
const WINDOWS: u64 = 500;

/// The maximum number of windows of a run.
const MAX_WINDOWS: u64 = 20_000;

/// The contents of each window. Memory depends only on the number of flows, links and windows.
#[derive(Debug, Clone, Default)]
pub(super) struct TimelineRecorder {
    end: Timestamp,
    width_ns: u64,
    windows: usize,
    max_decisions: usize,
    open_end: bool,
    /// The window of the last event, and its end. None of them (their number) from the end of the run on.
    current: usize,
    current_end: Timestamp,
    /// For each flow id its index in `flows`, if it has one.
    places: Vec<Option<usize>>,
    flows: Vec<FlowSeries>,
    /// By link id.
    links: Vec<LinkSeries>,
}

/// A flow, or the flows of a group.
#[derive(Debug, Clone)]
struct FlowSeries {
    id: String,
    members: u32,
    /// When the flow stops, or the first of the group.
    stop: Timestamp,
    windows: Vec<FlowWindow>,
    gauges: Vec<GaugeSeries>,
    media: Option<Box<MediaSeries>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct FlowWindow {
    sent_packets: u64,
    sent_bytes: u64,
    received_packets: u64,
    received_bytes: u64,
    goodput_bytes: u64,
    dropped_packets: u64,
    delay_sum_ns: u64,
    delay_max: TimeDelta,
    queue_delay_max_ns: u64,
}

/// Sum and number of the values reported in each window.
#[derive(Debug, Clone)]
struct GaugeSeries {
    name: &'static str,
    windows: Vec<(f64, u64)>,
}

/// A link, and its backlog with the time of the last change.
#[derive(Debug, Clone, Default)]
struct LinkSeries {
    windows: Vec<LinkWindow>,
    backlog: u64,
    since: Timestamp,
    /// The window of the last change.
    current: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct LinkWindow {
    transmitted_packets: u64,
    transmitted_bytes: u64,
    queued_max_bytes: u64,
    queued_bytes_ns: u128,
    sojourn_sum_ns: u64,
    sojourn_max_ns: u64,
    dropped_packets: u64,
    lost_packets: u64,
    marked_packets: u64,
}

impl TimelineRecorder {
    /// An empty timeline for a run of `plan`.
    pub(super) fn new(plan: &RecordPlan, options: TimelineOptions) -> Self {
        let end = plan.end;
        let smallest = end.as_nanos().div_ceil(MAX_WINDOWS).max(1);
        let default = (end.as_nanos() / WINDOWS).max(MIN_DEFAULT_NS);
        let width_ns = options.width.map_or(default, |width| width.as_nanos().max(0).unsigned_abs());
        let width_ns = width_ns.max(smallest);
        let windows = end.as_nanos().div_ceil(width_ns).max(1) as usize;
        let mut timeline = Self {
            end,
            width_ns,
            windows,
            max_decisions: options.max_decisions,
            open_end: options.open_end,
            ..Self::default()
        };
        let is_grouped = plan.flows.len() > options.max_flows;
        for flow in &plan.flows {
            let known = timeline.flows.iter().position(|known| is_grouped && known.id == flow.about.group);
            let place = known.unwrap_or_else(|| {
                timeline.flows.push(FlowSeries {
                    id: if is_grouped { flow.about.group.clone() } else { flow.about.id.clone() },
                    members: 0,
                    stop: flow.window.end,
                    windows: vec![FlowWindow::default(); windows],
                    gauges: Vec::new(),
                    media: None,
                });
                timeline.flows.len() - 1
            });
            if let Some(series) = timeline.flows.get_mut(place) {
                series.members += 1;
            }
            let number = flow.flow.0 as usize;
            if timeline.places.len() <= number {
                timeline.places.resize(number + 1, None);
            }
            if let Some(known) = timeline.places.get_mut(number) {
                *known = Some(place);
            }
        }
        let links = plan.links.iter().map(|link| link.link.0 as usize + 1).max().unwrap_or(0);
        let link = LinkSeries { windows: vec![LinkWindow::default(); windows], ..LinkSeries::default() };
        timeline.links = vec![link; links];
        timeline
    }

    /// Advances to the window of `now`. The end of the run belongs to none, as it does not to the window of the record.
    #[inline]
    pub(super) fn advance(&mut self, now: Timestamp) {
        if now >= self.current_end {
            while self.open_end && now.as_nanos() / self.width_ns >= self.windows as u64 {
                self.widen();
            }
            let place = (now.as_nanos() / self.width_ns) as usize;
            let is_over = now >= self.end && !self.open_end;
            self.current = if is_over { self.windows } else { place.min(self.windows) };
            self.current_end = match Timestamp::from_nanos(self.width_ns.saturating_mul(place as u64 + 1)) {
                _ if self.current == self.windows => Timestamp::MAX,
                end if self.open_end => end,
                end => end.min(self.end),
            };
        }
    }

    /// Doubles the width of the windows. Their number stays, so that the second half is empty.
    fn widen(&mut self) {
        for series in &mut self.flows {
            merge_pairs(&mut series.windows, FlowWindow::merge);
            for gauge in &mut series.gauges {
                merge_pairs(&mut gauge.windows, |(sum, count), (more, times)| (sum + more, count + times));
            }
        }
        for series in &mut self.links {
            merge_pairs(&mut series.windows, LinkWindow::merge);
            series.current /= 2;
        }
        self.width_ns *= 2;
        self.current /= 2;
        self.end = Timestamp::from_nanos(self.width_ns.saturating_mul(self.windows as u64));
    }

    #[inline]
    fn flow(&mut self, flow: FlowId) -> Option<&mut FlowWindow> {
        let place = (*self.places.get(flow.0 as usize)?)?;
        self.flows.get_mut(place)?.windows.get_mut(self.current)
    }

    #[inline]
    fn link(&mut self, now: Timestamp, link: LinkId) -> Option<&mut LinkSeries> {
        let series = self.links.get_mut(link.0 as usize)?;
        series.wait_until(now, self.current, self.width_ns);
        Some(series)
    }

    #[inline]
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        if let Some(window) = self.flow(packet.flow) {
            window.sent_packets += 1;
            window.sent_bytes += u64::from(packet.bytes);
        }
    }

    pub(super) fn on_unsent(&mut self, packet: &Packet) {
        if let Some(window) = self.flow(packet.flow) {
            window.sent_packets = window.sent_packets.saturating_sub(1);
            window.sent_bytes = window.sent_bytes.saturating_sub(u64::from(packet.bytes));
        }
    }

    #[inline]
    pub(super) fn on_delivered(&mut self, now: Timestamp, packet: &Packet) {
        if let Some(window) = self.flow(packet.flow) {
            let delay = now.saturating_since(packet.sent);
            window.received_packets += 1;
            window.received_bytes += u64::from(packet.bytes);
            window.delay_sum_ns += delay.as_nanos().unsigned_abs();
            window.delay_max = window.delay_max.max(delay);
            window.queue_delay_max_ns = window.queue_delay_max_ns.max(packet.queue_delay_ns);
        }
    }

    pub(super) fn on_queued(&mut self, now: Timestamp, link: LinkId, backlog: Backlog) {
        if let Some(series) = self.link(now, link) {
            series.set_backlog(backlog);
        }
    }

    pub(super) fn on_dequeued(
        &mut self,
        now: Timestamp,
        link: LinkId,
        packet: &Packet,
        sojourn: TimeDelta,
        backlog: Backlog,
    ) {
        let Some(series) = self.link(now, link) else { return };
        series.set_backlog(backlog);
        if let Some(window) = series.window() {
            let sojourn_ns = sojourn.as_nanos().max(0).unsigned_abs();
            window.transmitted_packets += 1;
            window.transmitted_bytes += u64::from(packet.bytes);
            window.sojourn_sum_ns += sojourn_ns;
            window.sojourn_max_ns = window.sojourn_max_ns.max(sojourn_ns);
        }
    }

    pub(super) fn on_marked(&mut self, now: Timestamp, link: LinkId) {
        if let Some(window) = self.link(now, link).and_then(LinkSeries::window) {
            window.marked_packets += 1;
        }
    }

    /// Handles a packet that a link dropped. `is_lost`: no other copy can be delivered.
    pub(super) fn on_dropped(
        &mut self,
        now: Timestamp,
        link: LinkId,
        packet: &Packet,
        reason: DropReason,
        backlog: Backlog,
        is_lost: bool,
    ) {
        if let Some(window) = self.flow(packet.flow) {
            window.dropped_packets += u64::from(is_lost);
        }
        if reason == DropReason::Corruption {
            return;
        }
        let Some(series) = self.link(now, link) else { return };
        series.set_backlog(backlog);
        if let Some(window) = series.window() {
            match reason {
                DropReason::Corruption => {}
                DropReason::Loss => window.lost_packets += 1,
                DropReason::Overflow | DropReason::Aqm => window.dropped_packets += 1,
            }
        }
    }

    /// Handles the report that `name` of `flow` is `value`. NaN and infinite values, and those of groups, are
    /// ignored.
    pub(super) fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.advance(now);
        // A value that is sampled at the end belongs to the last window.
        let (windows, current) = (self.windows, self.current.min(self.windows - 1));
        let Some(series) = self.single(flow) else { return };
        let known = series.gauges.iter().position(|gauge| gauge.name == name);
        let place = known.unwrap_or_else(|| {
            series.gauges.push(GaugeSeries { name, windows: vec![(0.0, 0); windows] });
            series.gauges.len() - 1
        });
        if let Some((sum, count)) =
            series.gauges.get_mut(place).and_then(|gauge| gauge.windows.get_mut(current))
        {
            *sum += value;
            *count += 1;
        }
    }

    pub(super) fn on_note(&mut self, now: Timestamp, note: &Note) {
        if !matches!(note, Note::Decided { .. } | Note::Frame { .. } | Note::Received { .. }) {
            return;
        }
        self.advance(now);
        if self.current == self.windows {
            return;
        }
        if let (Note::Frame { size, .. } | Note::Received { size, .. }, Some(window)) =
            (note, self.flow(note.flow()))
        {
            window.goodput_bytes += size.as_bytes();
        }
        if matches!(note, Note::Received { .. }) {
            return;
        }
        let (windows, max, place) = (self.windows, self.max_decisions, (self.current, self.width_ns));
        let Some(series) = self.single(note.flow()) else { return };
        let media = series.media.get_or_insert_with(|| Box::new(MediaSeries::new(windows, max, series.stop)));
        match note {
            Note::Decided { decision, .. } => media.decide(now, place.0, place.1, decision),
            Note::Frame { ssrc, delay, size, .. } => media.frame(place.0, *ssrc, *delay, *size),
            _ => {}
        }
    }

    /// The series of a flow with its own timeline.
    fn single(&mut self, flow: FlowId) -> Option<&mut FlowSeries> {
        let place = (*self.places.get(flow.0 as usize)?)?;
        self.flows.get_mut(place).filter(|series| series.members == 1)
    }

    /// Start and end of window `place`.
    fn window(&self, place: usize, end: Timestamp) -> Range<Timestamp> {
        let bound = |place: u64| Timestamp::from_nanos(self.width_ns.saturating_mul(place)).min(end);
        bound(place as u64)..bound(place as u64 + 1)
    }

    /// The timeline of a run of `plan` that has reached `end`. Delay distributions are left empty.
    pub(super) fn finish(mut self, plan: &RecordPlan, end: Timestamp) -> types::Timeline {
        // A run with an open end may widen the windows, and then ends later.
        self.advance(end);
        let end = end.min(self.end);
        self.advance(end);
        let place = (self.current, self.width_ns);
        // A run that was ended early has windows only up to its end.
        let windows = (end.as_nanos().div_ceil(self.width_ns) as usize).clamp(1, self.windows);
        let bounds: Vec<Range<Timestamp>> = (0..windows).map(|place| self.window(place, end)).collect();
        let t_s =
            bounds.iter().map(|window| f64::midpoint(window.start.as_seconds(), window.end.as_seconds()));
        let t_s = t_s.collect();
        for series in &mut self.links {
            series.wait_until(end, place.0, place.1);
        }
        let links = plan.links.iter().filter_map(|link| {
            let series = self.links.get(link.link.0 as usize)?;
            Some(series.columns(&link.about.id, &link.rate, &bounds))
        });
        let links = links.collect();
        let flows = self.flows.into_iter().map(|mut series| {
            if let Some(media) = &mut series.media {
                media.hold(end, place.0, place.1);
            }
            series.columns(windows)
        });
        let width_s = self.width_ns as f64 / 1e9;
        let mut timeline = types::Timeline { width_s, t_s, flows: flows.collect(), links };
        timeline.fill_rates();
        timeline
    }

    /// Index of a flow in the timeline.
    pub(super) fn place(&self, flow: FlowId) -> Option<usize> {
        self.places.get(flow.0 as usize).copied().flatten()
    }
}

/// Replaces each two neighbours by one, and fills up with empty ones.
fn merge_pairs<T: Copy + Default>(windows: &mut [T], merge: impl Fn(T, T) -> T) {
    for place in 0..windows.len() {
        let at = |place: usize| windows.get(place).copied().unwrap_or_default();
        let merged = merge(at(2 * place), at(2 * place + 1));
        if let Some(window) = windows.get_mut(place) {
            *window = merged;
        }
    }
}

impl FlowWindow {
    /// Two neighbours as one.
    fn merge(self, next: Self) -> Self {
        Self {
            sent_packets: self.sent_packets + next.sent_packets,
            sent_bytes: self.sent_bytes + next.sent_bytes,
            received_packets: self.received_packets + next.received_packets,
            received_bytes: self.received_bytes + next.received_bytes,
            goodput_bytes: self.goodput_bytes + next.goodput_bytes,
            dropped_packets: self.dropped_packets + next.dropped_packets,
            delay_sum_ns: self.delay_sum_ns + next.delay_sum_ns,
            delay_max: self.delay_max.max(next.delay_max),
            queue_delay_max_ns: self.queue_delay_max_ns.max(next.queue_delay_max_ns),
        }
    }
}

impl LinkWindow {
    /// Two neighbours as one.
    fn merge(self, next: Self) -> Self {
        Self {
            transmitted_packets: self.transmitted_packets + next.transmitted_packets,
            transmitted_bytes: self.transmitted_bytes + next.transmitted_bytes,
            queued_max_bytes: self.queued_max_bytes.max(next.queued_max_bytes),
            queued_bytes_ns: self.queued_bytes_ns + next.queued_bytes_ns,
            sojourn_sum_ns: self.sojourn_sum_ns + next.sojourn_sum_ns,
            sojourn_max_ns: self.sojourn_max_ns.max(next.sojourn_max_ns),
            dropped_packets: self.dropped_packets + next.dropped_packets,
            lost_packets: self.lost_packets + next.lost_packets,
            marked_packets: self.marked_packets + next.marked_packets,
        }
    }
}

impl FlowSeries {
    fn columns(self, windows: usize) -> FlowTimeline {
        let shown = || self.windows.iter().take(windows);
        let of_received = |of: fn(&FlowWindow) -> f64| {
            shown().map(|window| (window.received_packets > 0).then(|| of(window))).collect()
        };
        let has_goodput = self.windows.iter().any(|window| window.goodput_bytes > 0);
        FlowTimeline {
            id: self.id,
            members: self.members,
            sent_packets: shown().map(|window| window.sent_packets).collect(),
            sent_bytes: shown().map(|window| window.sent_bytes).collect(),
            received_packets: shown().map(|window| window.received_packets).collect(),
            received_bytes: shown().map(|window| window.received_bytes).collect(),
            goodput_bytes: shown().filter(|_| has_goodput).map(|window| window.goodput_bytes).collect(),
            dropped_packets: shown().map(|window| window.dropped_packets).collect(),
            sent_rate_bps: Vec::new(),
            received_rate_bps: Vec::new(),
            goodput_bps: Vec::new(),
            loss_ratio: Vec::new(),
            delay_mean_ms: of_received(|window| {
                let mean = window.delay_sum_ns / window.received_packets.max(1);
                TimeDelta::from_nanos(mean as i64).as_millis()
            }),
            delay_max_ms: of_received(|window| window.delay_max.as_millis()),
            queue_delay_max_ms: of_received(|window| {
                TimeDelta::from_nanos(window.queue_delay_max_ns as i64).as_millis()
            }),
            delay_cdf: types::Cdf::default(),
            gauges: self.gauges.into_iter().map(|gauge| gauge.columns(windows)).collect(),
            media: self.media.map(|media| media.columns(windows)),
        }
    }
}

impl GaugeSeries {
    fn columns(self, windows: usize) -> types::Gauge {
        let mean = |(sum, count): (f64, u64)| (count > 0).then(|| sum / count as f64);
        types::Gauge {
            name: self.name.to_owned(),
            mean: self.windows.into_iter().take(windows).map(mean).collect(),
        }
    }
}

impl LinkSeries {
    fn window(&mut self) -> Option<&mut LinkWindow> {
        self.windows.get_mut(self.current)
    }

    /// Accounts for the backlog until `now`, in window `place`.
    #[inline]
    fn wait_until(&mut self, now: Timestamp, place: usize, width_ns: u64) {
        while self.current < place {
            let window_end = Timestamp::from_nanos(width_ns * (self.current as u64 + 1));
            self.add_wait(window_end.min(now));
            self.current += 1;
            let backlog = self.backlog;
            if let Some(window) = self.window() {
                window.queued_max_bytes = backlog;
            }
        }
        self.add_wait(now);
    }

    #[inline]
    fn add_wait(&mut self, until: Timestamp) {
        let nanos = u128::from(until.saturating_since(self.since).as_nanos().unsigned_abs());
        let backlog = self.backlog;
        if let Some(window) = self.window() {
            window.queued_bytes_ns += nanos * u128::from(backlog);
        }
        self.since = self.since.max(until);
    }

    #[inline]
    fn set_backlog(&mut self, backlog: Backlog) {
        self.backlog = backlog.size.as_bytes();
        let backlog = self.backlog;
        if let Some(window) = self.window() {
            window.queued_max_bytes = window.queued_max_bytes.max(backlog);
        }
    }

    fn columns(&self, id: &str, rate: &RateProfile, bounds: &[Range<Timestamp>]) -> LinkTimeline {
        let shown = || self.windows.iter().zip(bounds).map(|(window, _)| window);
        let counts = |of: fn(&LinkWindow) -> u64| shown().map(of).collect();
        let ms = |nanos: u64| TimeDelta::from_nanos(nanos as i64).as_millis();
        let of_transmitted = |of: &dyn Fn(&LinkWindow) -> f64| {
            shown().map(|window| (window.transmitted_packets > 0).then(|| of(window))).collect()
        };
        let queued_mean = |(window, bounds): (&LinkWindow, &Range<Timestamp>)| {
            let nanos = (bounds.end - bounds.start).as_nanos() as f64;
            if nanos > 0.0 { window.queued_bytes_ns as f64 / nanos } else { 0.0 }
        };
        LinkTimeline {
            id: id.to_owned(),
            capacity_bps: capacities(rate, bounds),
            transmitted_packets: counts(|window| window.transmitted_packets),
            transmitted_bytes: counts(|window| window.transmitted_bytes),
            queued_mean_bytes: self.windows.iter().zip(bounds).map(queued_mean).collect(),
            queued_max_bytes: counts(|window| window.queued_max_bytes),
            queue_delay_max_ms: of_transmitted(&|window| ms(window.sojourn_max_ns)),
            queue_delay_mean_ms: of_transmitted(&|window| {
                ms(window.sojourn_sum_ns / window.transmitted_packets.max(1))
            }),
            dropped_packets: counts(|window| window.dropped_packets),
            lost_packets: counts(|window| window.lost_packets),
            marked_packets: counts(|window| window.marked_packets),
        }
    }
}

/// The mean of a rate within each window.
fn capacities(rate: &RateProfile, bounds: &[Range<Timestamp>]) -> Vec<Option<f64>> {
    let mean = |window: &Range<Timestamp>| {
        let seconds = (window.end - window.start).as_seconds();
        if let RateProfile::Fixed(rate) = rate {
            return Some(rate.as_bps() as f64);
        }
        let bits = rate.bits_between(window.start, window.end);
        bits.filter(|_| seconds > 0.0).map(|bits| bits / seconds)
    };
    bounds.iter().map(mean).collect()
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
