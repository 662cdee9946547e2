//! A run in figures.

use std::ops::Range;

use giusto_measure::ErrorHistogram;
use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::{
    Drops, Tally, entry,
    fates::{Fate, Fates},
};
use crate::{
    packet::{FlowId, LinkId, Packet},
    trace::{Event, Observer},
};

/// Counts and distributions of each flow and each link.
///
/// # Example
///
/// ```
/// use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
/// use giusto_sim::{
///     link::{LinkConfig, queue::{DropTail, Limit}, rate::RateProfile},
///     observe::Summary,
///     random,
///     simulation::Simulation,
///     traffic::{Pattern, Source},
/// };
///
/// let mut simulation = Simulation::new(1);
/// let ends = (simulation.node("here"), simulation.node("there"));
/// let rate = RateProfile::Fixed(DataRate::from_bps(8_000_000));
/// let config = LinkConfig { rate, delay: TimeDelta::from_millis(20).into(), ..LinkConfig::default() };
/// simulation.add_link("link", ends, &config, Box::new(DropTail::new(Limit::Packets(9))))?;
/// let flow = simulation.add_flow(ends.0, ends.1)?;
/// // Twice as much as fits.
/// let pattern = Pattern::constant(DataRate::from_bps(16_000_000), DataSize::from_bytes(1000));
/// simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(1, "source"))?));
///
/// let mut summary = Summary::default();
/// let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
/// summary.measure(flow, second(1)..second(9));
/// simulation.run_until(second(10), &mut summary);
///
/// let figures = summary.flow(flow).expect("it sent");
/// assert_eq!(figures.sent.packets, 16_000);
/// assert_eq!(figures.loss_ratio(), Some(0.5));
/// // 20 ms on the way, 1 ms for itself, up to 9 ms for those before it.
/// assert_eq!(figures.delay.max(), Some(TimeDelta::from_millis(30)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Summary {
    flows: Vec<FlowSummary>,
    links: Vec<LinkSummary>,
}

/// A flow in figures.
///
/// A packet belongs to the window in which it was sent, whenever its fate becomes known; `received` alone goes by the time of
/// arrival. A packet that was copied on its way counts once: it is delivered if any copy arrived, at the first one's delay.
#[derive(Debug, Clone)]
pub struct FlowSummary {
    /// From when on, and until before when, it is measured.
    pub window: Range<Timestamp>,
    /// Sent within the window.
    pub sent: Tally,
    /// Arrived within the window, whenever it was sent; copies apart.
    pub received: Tally,
    /// Of those sent within the window: arrived.
    pub delivered: Tally,
    /// Of those sent within the window: dropped, and no copy arrived.
    pub dropped: Tally,
    /// Of those delivered: with the mark of congestion, CE.
    pub marked: Tally,
    /// Arrivals of what had arrived before, of what was sent within the window.
    pub duplicate_packets: u64,
    /// One-way delay of those delivered, from leaving the source to reaching the end.
    pub delay: ErrorHistogram,
    /// Time that those delivered spent in queues, of all links together.
    pub queue_delay: ErrorHistogram,
    fates: Fates,
}

impl Default for FlowSummary {
    fn default() -> Self {
        Self {
            window: Timestamp::ZERO..Timestamp::MAX,
            sent: Tally::default(),
            received: Tally::default(),
            delivered: Tally::default(),
            dropped: Tally::default(),
            marked: Tally::default(),
            duplicate_packets: 0,
            delay: ErrorHistogram::new(),
            queue_delay: ErrorHistogram::new(),
            fates: Fates::default(),
        }
    }
}

impl FlowSummary {
    /// Of the packets sent within the window whose fate is known, the share that was dropped (0 to 1).
    pub fn loss_ratio(&self) -> Option<f64> {
        ratio(self.dropped.packets, self.dropped.packets + self.delivered.packets)
    }

    /// Of the packets delivered, the share that carried a mark of congestion (0 to 1).
    pub fn marked_ratio(&self) -> Option<f64> {
        ratio(self.marked.packets, self.delivered.packets)
    }

    /// How long it was measured in a run that lasted until `end`.
    pub fn measured(&self, end: Timestamp) -> TimeDelta {
        self.window.end.min(end).saturating_since(self.window.start)
    }

    /// What it sent over that time, in bit/s, all headers included.
    pub fn sent_rate_bps(&self, end: Timestamp) -> Option<f64> {
        self.rate_bps(self.sent, end)
    }

    /// What arrived of it over that time, in bit/s, all headers included, copies apart.
    pub fn received_rate_bps(&self, end: Timestamp) -> Option<f64> {
        self.rate_bps(self.received, end)
    }

    fn rate_bps(&self, tally: Tally, end: Timestamp) -> Option<f64> {
        let seconds = self.measured(end).as_seconds();
        (seconds > 0.0).then(|| tally.size.as_bits() as f64 / seconds)
    }

    fn deliver(&mut self, now: Timestamp, packet: &Packet) {
        let fate = self.fates.deliver(packet.sequence);
        if fate != Fate::Copy && self.window.contains(&now) {
            self.received.add(packet);
        }
        if !self.window.contains(&packet.sent) {
            return;
        }
        match fate {
            Fate::First => {}
            Fate::AfterAll => self.dropped.remove(packet),
            Fate::Copy => {
                self.duplicate_packets += 1;
                return;
            }
        }
        self.delivered.add(packet);
        if packet.ecn == Ecn::Ce {
            self.marked.add(packet);
        }
        self.delay.record(now.saturating_since(packet.sent));
        self.queue_delay.record(TimeDelta::from_nanos(packet.waited_ns as i64));
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A link in figures, over the whole run.
#[derive(Debug, Clone, Default)]
pub struct LinkSummary {
    /// Taken from the queue to be transmitted.
    pub transmitted: Tally,
    /// How long these had waited in the queue.
    pub queue_delay: ErrorHistogram,
    /// Dropped here.
    pub drops: Drops,
    /// Marked by the queue.
    pub marked_packets: u64,
}

impl Summary {
    /// Measures `flow` from `window.start` until before `window.end` only. Say it before the run; otherwise all counts.
    pub fn measure(&mut self, flow: FlowId, window: Range<Timestamp>) {
        entry(&mut self.flows, flow.0, FlowSummary::default).window = window;
    }

    /// The figures of a flow; `None` if nothing is known of it.
    pub fn flow(&self, flow: FlowId) -> Option<&FlowSummary> {
        self.flows.get(flow.0 as usize)
    }

    /// The figures of a link; `None` if nothing is known of it.
    pub fn link(&self, link: LinkId) -> Option<&LinkSummary> {
        self.links.get(link.0 as usize)
    }

    fn of_flow(&mut self, packet: &Packet) -> &mut FlowSummary {
        entry(&mut self.flows, packet.flow.0, FlowSummary::default)
    }

    fn of_link(&mut self, link: LinkId) -> &mut LinkSummary {
        entry(&mut self.links, link.0, LinkSummary::default)
    }
}

impl Observer for Summary {
    #[inline]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Sent { packet } => {
                let flow = self.of_flow(packet);
                if flow.window.contains(&now) {
                    flow.sent.add(packet);
                }
            }
            Event::Queued { .. } => {}
            Event::Dequeued { link, packet, sojourn, .. } => {
                let link = self.of_link(*link);
                link.transmitted.add(packet);
                link.queue_delay.record(*sojourn);
            }
            Event::Marked { link, .. } => self.of_link(*link).marked_packets += 1,
            Event::Dropped { link, packet, reason, .. } => {
                self.of_link(*link).drops.add(*reason);
                let flow = self.of_flow(packet);
                if flow.fates.drop(packet.sequence) == Fate::First && flow.window.contains(&packet.sent) {
                    flow.dropped.add(packet);
                }
            }
            Event::Delivered { packet } => self.of_flow(packet).deliver(now, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::*;
    use crate::packet::{BodyId, DropReason};

    const LINK: LinkId = LinkId(2);

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn packet(sequence: u64, sent: Timestamp) -> Packet {
        Packet {
            flow: FlowId(1),
            bytes: 100,
            sequence,
            sent,
            queued: sent,
            waited_ns: 2_000_000,
            body: BodyId::NONE,
            hop: 0,
            ecn: Ecn::NotEct,
        }
    }

    fn dropped(packet: Packet, reason: DropReason) -> Event {
        Event::Dropped { link: LINK, packet, reason, waiting: crate::trace::Waiting::default() }
    }

    #[test]
    fn each_packet_counts_once_in_the_window_in_which_it_was_sent() {
        let mut summary = Summary::default();
        summary.measure(FlowId(1), ms(10)..ms(20));
        for (sequence, sent) in [(0, 5), (1, 10), (2, 12), (3, 14), (4, 19), (5, 20)] {
            summary.on_event(ms(sent), &Event::Sent { packet: packet(sequence, ms(sent)) });
        }
        let deliver = |summary: &mut Summary, at, sequence, sent| {
            summary.on_event(ms(at), &Event::Delivered { packet: packet(sequence, ms(sent)) });
        };
        deliver(&mut summary, 15, 0, 5);
        deliver(&mut summary, 16, 1, 10);
        deliver(&mut summary, 17, 1, 10);
        summary.on_event(ms(18), &dropped(packet(1, ms(10)), DropReason::Loss));
        summary.on_event(ms(18), &dropped(packet(2, ms(12)), DropReason::Aqm));
        summary.on_event(ms(18), &dropped(packet(3, ms(14)), DropReason::Overflow));
        deliver(&mut summary, 30, 3, 14);
        deliver(&mut summary, 31, 5, 20);
        let flow = summary.flow(FlowId(1)).unwrap();
        let packets = [flow.sent, flow.received, flow.delivered, flow.dropped].map(|tally| tally.packets);
        // Sent 1 to 4; 0 and 1 came within the window; 1 and 3 arrived, 2 was dropped, 4 is on its way.
        assert_eq!(packets, [4, 2, 2, 1]);
        assert_eq!(flow.loss_ratio(), Some(1.0 / 3.0));
        assert_eq!(flow.duplicate_packets, 1);
        assert_eq!(flow.delay.min(), Some(TimeDelta::from_millis(6)));
        assert_eq!(flow.delay.max(), Some(TimeDelta::from_millis(16)));
        assert_eq!(flow.queue_delay.mean(), Some(TimeDelta::from_millis(2)));
        assert_eq!(flow.sent.size, DataSize::from_bytes(400));
        assert_eq!(flow.sent_rate_bps(ms(1000)), Some(320_000.0));
        assert_eq!(flow.sent_rate_bps(ms(15)), Some(640_000.0));
        let link = summary.link(LINK).unwrap();
        assert_eq!(link.drops, Drops { overflow_packets: 1, aqm_packets: 1, lost_packets: 1 });
    }

    #[test]
    fn marks_are_counted_where_they_are_set_and_where_they_arrive() {
        let mut summary = Summary::default();
        let marked = Packet { ecn: Ecn::Ce, ..packet(0, ms(0)) };
        summary.on_event(ms(1), &Event::Marked { link: LINK, packet: marked });
        summary.on_event(ms(1), &Event::Marked { link: LINK, packet: Packet { sequence: 1, ..marked } });
        summary.on_event(ms(2), &Event::Delivered { packet: marked });
        summary.on_event(ms(2), &Event::Delivered { packet: packet(2, ms(0)) });
        assert_eq!(summary.link(LINK).unwrap().marked_packets, 2);
        assert_eq!(summary.flow(FlowId(1)).unwrap().marked_ratio(), Some(0.5));
    }

    #[test]
    fn what_never_sent_has_no_ratios() {
        let mut summary = Summary::default();
        summary.measure(FlowId(3), ms(5)..ms(9));
        let flow = summary.flow(FlowId(3)).unwrap();
        assert_eq!((flow.loss_ratio(), flow.marked_ratio(), flow.sent_rate_bps(ms(4))), (None, None, None));
        assert!(summary.flow(FlowId(4)).is_none() && summary.link(LINK).is_none());
    }
}
