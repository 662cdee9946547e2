//! The same comparison on a link with a drop-tail queue of 300 ms and the bandwidths of the thesis's network over time.

mod agents;

use std::collections::BTreeMap;

use giusto_congestion::gcc::{
    delay::KalmanTwoStateConfig,
    thesis::{Pace, ThesisConfig, filter},
};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::FlowId,
    record::{PlannedFlow, RecordPlan, Recorder},
    simulation::Simulation,
    trace::{Event, Note, Observer},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use self::agents::{Media, Reporter};
use super::{
    network::{Bandwidths, MEAN_DELAY, Recorded, State},
    session::{Pair, Setting},
};
use crate::item::Spread;

/// Duration of sending: about as long as 1000 packets of 60,000 B take at the initial rate.
const DURATION: TimeDelta = TimeDelta::from_seconds(60);

/// Packet size on the link; packets of 60,000 B would take 83 ms each.
const PACKET: DataSize = DataSize::from_bytes(1200);

/// Size of the queue, in time at the rate of Idle.
pub(super) const QUEUE: TimeDelta = TimeDelta::from_millis(300);

/// The rate of a saturated link, which cannot be zero: two bits in 2 s.
const SATURATED: DataRate = DataRate::from_bps(1);

/// A sender into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    Udp,
    Rrtcc,
    /// RRTCC with libwebrtc's amplification of the trend, min(n, 60), and a decision with each packet of a report instead of the
    /// last one. Neither is in the draft or the thesis.
    Amplified,
}

impl Contender {
    pub(super) const ALL: [Self; 3] = [Self::Udp, Self::Rrtcc, Self::Amplified];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Rrtcc => "RRTCC",
            Self::Amplified => "RRTCC, trend × 60, each packet",
        }
    }

    const fn id(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Rrtcc => "rrtcc",
            Self::Amplified => "rrtcc_amplified",
        }
    }

    fn algorithm(self) -> Option<ThesisConfig> {
        let filter = |amplification| KalmanTwoStateConfig { amplification, ..filter() };
        match self {
            Self::Udp => None,
            Self::Rrtcc => Some(ThesisConfig::default()),
            Self::Amplified => {
                Some(ThesisConfig { filter: filter(Some(60)), pace: Pace::Packet, ..ThesisConfig::default() })
            }
        }
    }
}

/// The result of a run through the queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queued {
    pub(super) contender: Contender,
    pub(super) sent_bps: f64,
    pub(super) goodput_bps: f64,
    pub(super) loss_ratio: f64,
    /// One-way delay of received packets, median and 95th percentile.
    pub(super) delay_ms: [f64; 2],
    /// The share of packets at which the delay signalled over-use.
    pub(super) over_use_ratio: f64,
    /// The rate from each moment on, in bit/s.
    pub(super) rate: Vec<(f64, f64)>,
    /// The maximum one-way delay of each tenth of a second, by time of arrival, in ms.
    pub(super) delay: Vec<(f64, f64)>,
}

/// All contenders on the same capacity, and two of them without a queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) capacity: Vec<(f64, f64)>,
    pub(super) queued: Vec<Queued>,
    pub(super) coin: Pair,
}

impl Comparison {
    /// The runs of `seed`. Never `None`, as the link is fixed and valid.
    pub(super) fn run(seed: u64) -> Option<Self> {
        let mut recorded = Recorded::new(seed);
        let states = recorded.until(Timestamp::ZERO + DURATION * 2);
        let rate = |state: State| Bandwidths::TABLE_8.of(state).max(SATURATED);
        let steps: Vec<(Timestamp, DataRate)> =
            states.iter().map(|(at, state)| (*at, rate(*state))).collect();
        let queued = Contender::ALL.into_iter().map(|contender| through_a_queue(contender, seed, &steps));
        let packets = DataRate::as_bps(giusto_congestion::gcc::thesis::START) * 60 / PACKET.as_bits();
        let setting = Setting { packet: PACKET, packets, ..Setting::judged(Bandwidths::TABLE_8) };
        let until = DURATION.as_seconds();
        let capacity = |(at, rate): &(Timestamp, DataRate)| (at.as_seconds(), rate.as_bps() as f64);
        Some(Self {
            capacity: steps.iter().map(capacity).filter(|(at, _)| *at < until).collect(),
            queued: queued.collect::<Option<_>>()?,
            coin: Pair::run(&setting, seed),
        })
    }

    pub(super) fn of(&self, contender: Contender) -> Option<&Queued> {
        self.queued.iter().find(|queued| queued.contender == contender)
    }
}

fn through_a_queue(contender: Contender, seed: u64, steps: &[(Timestamp, DataRate)]) -> Option<Queued> {
    let mut simulation = Simulation::new(seed);
    let (here, there) = (simulation.node("sender"), simulation.node("receiver"));
    let way = LinkConfig {
        rate: RateProfile::Steps { steps: steps.to_vec(), period: None },
        delay: MEAN_DELAY.into(),
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: MEAN_DELAY.into(), ..LinkConfig::default() };
    let room = Bandwidths::TABLE_8.idle.size_in(QUEUE);
    simulation.add_link("way", (here, there), &way, Box::new(DropTail::new(Limit::Bytes(room)))).ok()?;
    simulation.add_link("back", (there, here), &back, Box::new(DropTail::new(Limit::Unlimited))).ok()?;
    let media = simulation.add_flow(here, there).ok()?;
    let reports = simulation.add_flow(there, here).ok()?;
    let end = Timestamp::ZERO + DURATION;
    let sender =
        simulation.add_agent(Box::new(Media::new(media, PACKET, contender.algorithm().as_ref(), end)));
    let receiver = simulation.add_agent(Box::new(Reporter::new(reports)));
    simulation.deliver(media, receiver);
    simulation.deliver(reports, sender);

    // Packets that are in the queue at the end still arrive; they count for losses and delays, not for rates.
    let emptied = end + TimeDelta::from_seconds(10);
    let flows = vec![PlannedFlow { flow: media, window: Timestamp::ZERO..emptied, ..PlannedFlow::default() }];
    let recorder = Recorder::new(RecordPlan { end: emptied, flows, ..RecordPlan::default() });
    let mut seen = (recorder, Seen { media, ..Seen::default() });
    simulation.run_until(end, &mut seen);
    let (at_end, _) = seen.0.clone().finish(&simulation, end);
    simulation.run_until(emptied, &mut seen);
    let (recorder, mut drawn) = seen;
    simulation.report_gauges(end, &mut drawn);
    let (record, _) = recorder.finish(&simulation, emptied);
    let (at_end, flow) = (at_end.flows.first()?, record.flows.first()?);
    let delay = flow.delay_ms?;
    Some(Queued {
        contender,
        sent_bps: at_end.sent_rate_bps,
        goodput_bps: at_end.received_rate_bps,
        loss_ratio: flow.loss_ratio?,
        delay_ms: [delay.p50, delay.p95],
        over_use_ratio: drawn.over_uses / flow.sent_packets as f64,
        rate: drawn.rate,
        delay: drawn.delay,
    })
}

/// Length of the bins of [`Queued::delay`].
const BIN_S: f64 = 0.1;

/// What the charts of a run show.
#[derive(Debug, Default)]
struct Seen {
    media: FlowId,
    rate: Vec<(f64, f64)>,
    delay: Vec<(f64, f64)>,
    over_uses: f64,
}

impl Observer for Seen {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        let Event::Delivered { packet } = event else { return };
        if packet.flow != self.media {
            return;
        }
        let (at, delay) = ((now.as_seconds() / BIN_S).floor() * BIN_S, (now - packet.sent).as_millis());
        match self.delay.last_mut() {
            Some(last) if (last.0 - at).abs() < BIN_S / 2.0 => last.1 = last.1.max(delay),
            _ => self.delay.push((at, delay)),
        }
    }

    fn on_gauge(&mut self, _now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        if flow == self.media && name == agents::OVER_USES {
            self.over_uses = value;
        }
    }

    fn on_note(&mut self, _now: Timestamp, note: &Note) {
        if let Note::Decided { decision, .. } = note {
            self.rate.push((decision.at.as_seconds(), decision.to.as_bps() as f64));
        }
    }
}

/// A figure of a run with its name in JSON.
type Figure = (&'static str, fn(&Queued) -> f64);

const FIGURES: [Figure; 6] = [
    ("sent_rate_bps", |it| it.sent_bps),
    ("goodput_bps", |it| it.goodput_bps),
    ("loss_ratio", |it| it.loss_ratio),
    ("delay_p50_ms", |it| it.delay_ms[0]),
    ("delay_p95_ms", |it| it.delay_ms[1]),
    ("over_use_ratio", |it| it.over_use_ratio),
];

/// The medians of [`FIGURES`] over all seeds.
pub(super) fn medians(all: &[Comparison], contender: Contender) -> [Option<f64>; 6] {
    FIGURES.map(|(_, value)| {
        Spread::of(all.iter().filter_map(|it| it.of(contender)).map(value)).map(|spread| spread.median)
    })
}

/// The medians of all contenders by name.
pub(super) fn beside(all: &[Comparison]) -> BTreeMap<String, f64> {
    let named = |contender: Contender| {
        let medians = FIGURES.iter().zip(medians(all, contender));
        medians.filter_map(move |((name, _), median)| {
            Some((format!("queue_{}_{name}", contender.id()), median?))
        })
    };
    Contender::ALL.into_iter().flat_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_through_a_queue_delivers_what_the_link_has() {
        let comparison = Comparison::run(1).unwrap();
        let udp = comparison.of(Contender::Udp).unwrap();
        assert!((udp.sent_bps / 7.2e6 - 1.0).abs() < 1e-3, "{}", udp.sent_bps);
        // Never below 7.2 Mbit/s offered, so the link is never idle once it has begun.
        let mean =
            comparison.capacity.iter().map(|(_, rate)| rate).sum::<f64>() / comparison.capacity.len() as f64;
        assert!((udp.goodput_bps / mean - 1.0).abs() < 0.01, "{} of {mean}", udp.goodput_bps);
        assert!((udp.loss_ratio - (1.0 - mean / 7.2e6)).abs() < 0.01, "{}", udp.loss_ratio);
        // A full queue at the rate of Idle is 300 ms, and 10 ms of propagation.
        assert!((290.0..=320.0).contains(&udp.delay_ms[0]), "{:?}", udp.delay_ms);
        assert!(udp.over_use_ratio == 0.0);
    }
}
