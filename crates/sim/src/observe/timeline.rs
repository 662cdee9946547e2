//! A run over time.

use std::ops::Range;

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{Drops, MediaSeries, Tally, entry};
use crate::{
    packet::{FlowId, LinkId},
    trace::{Event, Note, Observer, Waiting},
};

/// The narrowest window, in nanoseconds: below it a rate is a count of single packets.
const NARROWEST_NS: u64 = 10_000_000;

/// A run is cut into about so many windows, unless a width is given.
const WINDOWS: u64 = 500;

/// Most windows of a run.
const MAX_WINDOWS: u64 = 20_000;

/// What each flow and each link did, in windows of one width. Its size depends on their number alone.
///
/// # Example
///
/// ```
/// use giusto_units::{TimeDelta, Timestamp};
/// use giusto_sim::observe::Timeline;
///
/// let timeline = Timeline::new(Timestamp::from_nanos(60_000_000_000));
/// assert_eq!((timeline.width(), timeline.len()), (TimeDelta::from_millis(120), 500));
/// ```
#[derive(Debug, Clone)]
pub struct Timeline {
    end: Timestamp,
    width_ns: u64,
    /// The window of the last event, and when it ends.
    current: usize,
    current_end: Timestamp,
    flows: Vec<Vec<FlowWindow>>,
    links: Vec<LinkSeries>,
    gauges: Vec<Gauge>,
    /// Of each flow; of most flows nothing.
    media: Vec<Option<Box<MediaSeries>>>,
}

/// What a flow did within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowWindow {
    /// Sent.
    pub sent: Tally,
    /// Arrived, copies included.
    pub received: Tally,
    /// The largest one-way delay of those that arrived.
    pub delay_max: TimeDelta,
    delay_sum_ns: u64,
}

impl FlowWindow {
    /// The mean one-way delay of the packets that arrived; `None` if none did.
    pub fn delay_mean(&self) -> Option<TimeDelta> {
        let mean = self.delay_sum_ns.checked_div(self.received.packets)?;
        Some(TimeDelta::from_nanos(mean as i64))
    }
}

/// What a link did within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkWindow {
    /// Taken from the queue and transmitted.
    pub transmitted: Tally,
    /// What waited in the queue when most did, packets and bytes each for themselves.
    pub waiting_max: Waiting,
    /// The longest that a packet had waited that was taken from the queue.
    pub sojourn_max: TimeDelta,
    /// Dropped.
    pub drops: Drops,
    /// Marked by the queue.
    pub marked_packets: u64,
    packets_ns: u128,
    bytes_ns: u128,
}

/// One link's windows, and what waits in its queue since when.
#[derive(Debug, Clone, Default)]
struct LinkSeries {
    windows: Vec<LinkWindow>,
    waiting: Waiting,
    since: Timestamp,
    /// The window of the last change.
    current: usize,
}

/// A quantity that an agent told of itself, such as its window.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Whose.
    pub flow: FlowId,
    /// What it is, with its unit: `cwnd_bytes`.
    pub name: &'static str,
    /// Sum and number of the values told within each window.
    windows: Vec<(f64, u64)>,
}

impl Gauge {
    /// The mean of the values told within each window; `None` where none was.
    pub fn means(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.windows.iter().map(|&(sum, count)| (count > 0).then(|| sum / count as f64))
    }
}

impl Timeline {
    /// An empty timeline of a run that lasts until `end`: 500 windows, or fewer, so that each is 10 ms wide at least.
    pub fn new(end: Timestamp) -> Self {
        Self::with_width(end, TimeDelta::from_nanos((end.as_nanos() / WINDOWS).max(NARROWEST_NS) as i64))
    }

    /// An empty timeline with windows of `width`, at least 1 ns, and at least what makes 20 000 of them; the last one may be
    /// shorter.
    pub fn with_width(end: Timestamp, width: TimeDelta) -> Self {
        let least = end.as_nanos().div_ceil(MAX_WINDOWS).max(1);
        let width_ns = width.as_nanos().max(0).unsigned_abs().max(least);
        Self {
            end,
            width_ns,
            current: 0,
            current_end: Timestamp::from_nanos(width_ns),
            flows: Vec::new(),
            links: Vec::new(),
            gauges: Vec::new(),
            media: Vec::new(),
        }
    }

    /// How wide a window is.
    pub fn width(&self) -> TimeDelta {
        TimeDelta::from_nanos(self.width_ns as i64)
    }

    /// When the run ends.
    pub fn end(&self) -> Timestamp {
        self.end
    }

    /// How many windows there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        (self.end.as_nanos().div_ceil(self.width_ns)).max(1) as usize
    }

    /// From when to when window `place` lasts.
    pub fn window(&self, place: usize) -> Range<Timestamp> {
        let begin = Timestamp::from_nanos(self.width_ns.saturating_mul(place as u64));
        let end = Timestamp::from_nanos(self.width_ns.saturating_mul(place as u64 + 1));
        begin.min(self.end)..end.min(self.end)
    }

    /// The windows of a flow; none if it did nothing.
    pub fn flow(&self, flow: FlowId) -> &[FlowWindow] {
        self.flows.get(flow.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The windows of a link; none if nothing came by.
    pub fn link(&self, link: LinkId) -> &[LinkWindow] {
        self.links.get(link.0 as usize).map_or(&[], |link| &link.windows)
    }

    /// What waited in a link's queue in window `place` on average over time: packets, bytes. The last window of a run needs
    /// [`finish`](Self::finish).
    pub fn waiting_mean(&self, link: LinkId, place: usize) -> Option<(f64, f64)> {
        let window = self.links.get(link.0 as usize)?.windows.get(place)?;
        let Range { start, end } = self.window(place);
        let nanos = (end - start).as_nanos() as f64;
        (nanos > 0.0).then(|| (window.packets_ns as f64 / nanos, window.bytes_ns as f64 / nanos))
    }

    /// What agents told of themselves.
    pub fn gauges(&self) -> &[Gauge] {
        &self.gauges
    }

    /// What the agents of a media flow told; `None` if they told nothing. The target of the last window of a run needs
    /// [`finish`](Self::finish).
    pub fn media(&self, flow: FlowId) -> Option<&MediaSeries> {
        self.media.get(flow.0 as usize)?.as_deref()
    }

    /// `flow` tells that `name` (with its unit: `cwnd_bytes`) is `value` now. What is no number is not kept.
    pub fn gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.advance(now);
        let known = self.gauges.iter().position(|gauge| gauge.flow == flow && gauge.name == name);
        let place = known.unwrap_or_else(|| {
            self.gauges.push(Gauge { flow, name, windows: vec![(0.0, 0); self.len()] });
            self.gauges.len() - 1
        });
        let window = self.gauges.get_mut(place).and_then(|gauge| gauge.windows.get_mut(self.current));
        if let Some((sum, count)) = window {
            *sum += value;
            *count += 1;
        }
    }

    /// The run is over: what still waits has waited until now.
    pub fn finish(&mut self) {
        let (end, last, width_ns) = (self.end, self.len() - 1, self.width_ns);
        for link in &mut self.links {
            link.wait_until(end, last, width_ns);
        }
        for media in self.media.iter_mut().flatten() {
            media.hold(end, (last, width_ns));
        }
    }

    /// Moves on to the window of `now`. What happens at the very end belongs to the last one.
    #[inline]
    fn advance(&mut self, now: Timestamp) {
        if now >= self.current_end {
            let place = (now.as_nanos() / self.width_ns) as usize;
            self.current = place.min(self.len() - 1);
            self.current_end = if self.current < place {
                Timestamp::MAX
            } else {
                Timestamp::from_nanos(self.width_ns.saturating_mul(place as u64 + 1))
            };
        }
    }

    #[inline]
    fn of_flow(&mut self, flow: FlowId) -> &mut FlowWindow {
        let len = self.len_if_missing(self.flows.len() <= flow.0 as usize);
        let windows = entry(&mut self.flows, flow.0, || vec![FlowWindow::default(); len]);
        windows.get_mut(self.current).expect("the current window lies within the run")
    }

    #[inline]
    fn of_link(&mut self, now: Timestamp, link: LinkId) -> (&mut LinkSeries, usize) {
        let len = self.len_if_missing(self.links.len() <= link.0 as usize);
        let series = entry(&mut self.links, link.0, || LinkSeries {
            windows: vec![LinkWindow::default(); len],
            ..LinkSeries::default()
        });
        series.wait_until(now, self.current, self.width_ns);
        (series, self.current)
    }

    /// The number of windows costs a division; most events need it not.
    #[inline]
    fn len_if_missing(&self, missing: bool) -> usize {
        if missing { self.len() } else { 0 }
    }
}

impl LinkSeries {
    /// What waits now has waited until `now`, in window `place`.
    #[inline]
    fn wait_until(&mut self, now: Timestamp, place: usize, width_ns: u64) {
        while self.current < place {
            let window_end = Timestamp::from_nanos(width_ns * (self.current as u64 + 1));
            self.add_wait(window_end);
            self.current += 1;
            let waiting = self.waiting;
            if let Some(window) = self.windows.get_mut(self.current) {
                window.waiting_max = waiting;
            }
        }
        self.add_wait(now);
    }

    #[inline]
    fn add_wait(&mut self, until: Timestamp) {
        let nanos = u128::from(until.saturating_since(self.since).as_nanos().unsigned_abs());
        if let Some(window) = self.windows.get_mut(self.current) {
            window.packets_ns += nanos * u128::from(self.waiting.packets);
            window.bytes_ns += nanos * u128::from(self.waiting.size.as_bytes());
        }
        self.since = self.since.max(until);
    }

    #[inline]
    fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
        if let Some(LinkWindow { waiting_max: most, .. }) = self.windows.get_mut(self.current) {
            most.packets = most.packets.max(waiting.packets);
            most.size = DataSize::max(most.size, waiting.size);
        }
    }
}

impl Observer for Timeline {
    #[inline]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.advance(now);
        match event {
            Event::Sent { packet } => self.of_flow(packet.flow).sent.add(packet),
            Event::Delivered { packet } => {
                let window = self.of_flow(packet.flow);
                let delay = now.saturating_since(packet.sent);
                window.received.add(packet);
                window.delay_max = window.delay_max.max(delay);
                window.delay_sum_ns += delay.as_nanos().unsigned_abs();
            }
            Event::Queued { link, waiting, .. } => self.of_link(now, *link).0.set_waiting(*waiting),
            Event::Dequeued { link, packet, sojourn, waiting } => {
                let (series, place) = self.of_link(now, *link);
                series.set_waiting(*waiting);
                if let Some(window) = series.windows.get_mut(place) {
                    window.transmitted.add(packet);
                    window.sojourn_max = window.sojourn_max.max(*sojourn);
                }
            }
            Event::Marked { link, .. } => {
                let (series, place) = self.of_link(now, *link);
                if let Some(window) = series.windows.get_mut(place) {
                    window.marked_packets += 1;
                }
            }
            Event::Dropped { link, reason, waiting, .. } => {
                let (series, place) = self.of_link(now, *link);
                series.set_waiting(*waiting);
                if let Some(window) = series.windows.get_mut(place) {
                    window.drops.add(*reason);
                }
            }
        }
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        self.gauge(now, flow, name, value);
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let flow = note.flow();
        self.advance(now);
        let (len, place, width_ns) = (self.len(), self.current, self.width_ns);
        let series = entry(&mut self.media, flow.0, || None);
        let series = series.get_or_insert_with(|| Box::new(MediaSeries::new(len)));
        match note {
            Note::Decided { decision, .. } => series.decide(now, (place, width_ns), decision),
            Note::Frame { ssrc, delay, size, .. } => series.frame(place, *ssrc, (*delay, *size)),
            Note::Skipped { .. } | Note::Discarded { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::packet::{BodyId, DropReason, Packet};

    const LINK: LinkId = LinkId(1);
    const FLOW: FlowId = FlowId(1);

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn packet(sent: Timestamp) -> Packet {
        Packet {
            flow: FLOW,
            bytes: 100,
            sequence: 0,
            sent,
            queued: sent,
            waited_ns: 0,
            body: BodyId::NONE,
            hop: 0,
            ecn: Ecn::NotEct,
        }
    }

    fn waiting(packets: u64) -> Waiting {
        Waiting { packets, size: DataSize::from_bytes(packets * 100) }
    }

    #[test]
    fn what_waits_is_weighed_by_time_across_windows() {
        let mut timeline = Timeline::with_width(ms(35), TimeDelta::from_millis(10));
        assert_eq!((timeline.len(), timeline.window(3)), (4, ms(30)..ms(35)));
        let queued = |packets| Event::Queued { link: LINK, packet: packet(ms(0)), waiting: waiting(packets) };
        timeline.on_event(ms(2), &queued(4));
        timeline.on_event(ms(5), &queued(6));
        let sojourn = TimeDelta::from_millis(23);
        let gone = Event::Dequeued { link: LINK, packet: packet(ms(0)), sojourn, waiting: waiting(2) };
        timeline.on_event(ms(25), &gone);
        timeline.finish();
        // 3 ms with 4 and 5 ms with 6; 10 ms with 6; 5 ms with 6 and 5 ms with 2; 5 of 5 ms with 2.
        let means = [0, 1, 2, 3].map(|place| timeline.waiting_mean(LINK, place).unwrap());
        assert_eq!(means, [(4.2, 420.0), (6.0, 600.0), (4.0, 400.0), (2.0, 200.0)]);
        let most: Vec<u64> = timeline.link(LINK).iter().map(|window| window.waiting_max.packets).collect();
        assert_eq!(most, [6, 6, 6, 2]);
        assert_eq!(timeline.link(LINK)[2].sojourn_max, sojourn);
        assert_eq!(timeline.link(LINK)[2].transmitted.packets, 1);
    }

    #[test]
    fn each_event_falls_into_its_window_and_the_very_end_into_the_last() {
        let mut timeline = Timeline::with_width(ms(30), TimeDelta::from_millis(10));
        for at in [0, 9, 10, 29, 30] {
            timeline.on_event(ms(at), &Event::Sent { packet: packet(ms(at)) });
        }
        timeline.on_event(ms(30), &Event::Delivered { packet: packet(ms(10)) });
        timeline.on_event(ms(30), &Event::Delivered { packet: packet(ms(0)) });
        let reason = DropReason::Aqm;
        let (packet, waiting) = (packet(ms(0)), Waiting::default());
        timeline.on_event(ms(30), &Event::Dropped { link: LINK, packet, reason, waiting });
        let windows = timeline.flow(FLOW);
        assert_eq!(windows.iter().map(|window| window.sent.packets).collect::<Vec<_>>(), [2, 1, 2]);
        assert_eq!(windows[2].delay_mean(), Some(TimeDelta::from_millis(25)));
        assert_eq!((windows[2].delay_max, windows[0].delay_mean()), (TimeDelta::from_millis(30), None));
        assert_eq!(timeline.link(LINK)[2].drops.aqm_packets, 1);
        assert!(timeline.flow(FlowId(0)).iter().all(|window| *window == FlowWindow::default()));
        assert!(timeline.flow(FlowId(9)).is_empty());
    }

    #[test]
    fn gauges_are_averaged_within_their_windows() {
        let mut timeline = Timeline::with_width(ms(30), TimeDelta::from_millis(10));
        for (at, value) in [(0, 10.0), (5, 20.0), (6, f64::NAN), (25, 7.0)] {
            timeline.gauge(ms(at), FLOW, "cwnd_bytes", value);
        }
        let [gauge] = timeline.gauges() else { panic!("one gauge") };
        assert_eq!(gauge.means().collect::<Vec<_>>(), [Some(15.0), None, Some(7.0)]);
    }

    #[test]
    fn a_target_is_weighed_by_time_across_windows_and_frames_by_their_longest() {
        use giusto_congestion::Decision;
        use giusto_units::DataRate;
        let mut timeline = Timeline::with_width(ms(40), TimeDelta::from_millis(10));
        assert_eq!(timeline.media(FLOW), None);
        let decide = |timeline: &mut Timeline, at, from, to| {
            let [from, to] = [from, to].map(DataRate::from_bps);
            let decision = Decision { at: ms(at), from, to, ..Decision::default() };
            timeline.on_note(ms(at), &Note::Decided { flow: FLOW, decision });
        };
        let frame = |timeline: &mut Timeline, at, delay: Option<i64>| {
            let (delay, size) = (delay.map(TimeDelta::from_millis), DataSize::from_bytes(at));
            let ssrc = if at == 22 { 1 } else { 2 };
            timeline.on_note(ms(at), &Note::Frame { flow: FLOW, ssrc, delay, size });
        };
        decide(&mut timeline, 12, 0, 1000);
        decide(&mut timeline, 15, 1000, 2000);
        frame(&mut timeline, 21, Some(30));
        frame(&mut timeline, 22, None);
        decide(&mut timeline, 35, 2000, 500);
        frame(&mut timeline, 40, Some(50));
        frame(&mut timeline, 40, Some(40));
        timeline.finish();
        let media = timeline.media(FLOW).unwrap();
        // Nothing was said of the first 12 ms; 3 ms of 1000 and 5 ms of 2000; 10 ms of 2000; 5 ms of each.
        let means: Vec<_> =
            media.windows().iter().map(crate::observe::MediaWindow::target_mean_bps).collect();
        let close =
            |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-6);
        assert_eq!(means[0], None);
        assert!(close(means[1], 1625.0) && close(means[2], 2000.0) && close(means[3], 1250.0), "{means:?}");
        let frames: Vec<_> =
            media.windows().iter().map(|window| (window.frames, window.frame_delay_max)).collect();
        let millis = |millis| Some(TimeDelta::from_millis(millis));
        assert_eq!(frames, [(0, None), (0, None), (2, millis(30)), (2, millis(50))]);
        assert_eq!((media.decisions().len(), media.left_out()), (3, 0));
    }

    #[test]
    fn a_long_run_takes_no_more_room_than_a_short_one() {
        let of_seconds = |seconds: u64| Timeline::new(Timestamp::from_nanos(seconds * 1_000_000_000));
        assert_eq!([1, 5, 1000].map(|seconds| of_seconds(seconds).len()), [100, 500, 500]);
        assert_eq!(Timeline::with_width(ms(1_000_000), TimeDelta::ZERO).len(), 20_000);
        assert_eq!(Timeline::new(Timestamp::ZERO).len(), 1);
    }
}
