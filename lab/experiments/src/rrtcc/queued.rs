//! The same comparison on a link with a drop-tail queue of 300 ms and the bandwidths of the thesis's network over time.

mod agents;

use std::{array, collections::BTreeMap};

use giusto_congestion::internals::thesis::{Pace, START, ThesisConfig};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::FlowId,
    record::{PlannedFlow, RecordPlan, Recorder, TimelineOptions},
    simulation::Simulation,
    trace::{Event, Observer},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use self::agents::{Media, Reporter};
use super::{
    network::{MEAN_DELAY, Recorded, TABLE_8},
    session::{Outcome, Pair, Setting},
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
pub(super) struct Contender {
    pub(super) name: &'static str,
    id: &'static str,
    algorithm: fn() -> Option<ThesisConfig>,
}

/// UDP, RRTCC, and RRTCC with libwebrtc's amplification of the trend, min(n, 60), and a decision with each packet of a report
/// instead of the last one. Neither is in the draft or the thesis.
pub(super) const CONTENDERS: [Contender; 3] = [
    Contender { name: "UDP", id: "udp", algorithm: || None },
    Contender { name: "RRTCC", id: "rrtcc", algorithm: || Some(ThesisConfig::default()) },
    Contender {
        name: "RRTCC, trend × 60, each packet",
        id: "rrtcc_amplified",
        algorithm: || {
            let mut config = ThesisConfig { pace: Pace::Packet, ..ThesisConfig::default() };
            config.filter.amplification = Some(60);
            Some(config)
        },
    },
];

/// The figures of a run. Delays are those of received packets; over-use is the share of packets at which the delay signalled it.
const FIGURES: [&str; 6] =
    ["sent_rate_bps", "goodput_bps", "loss_ratio", "delay_p50_ms", "delay_p95_ms", "over_use_ratio"];

/// The result of a run through the queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queued {
    /// In the order of [`FIGURES`].
    pub(super) figures: [f64; 6],
    /// The rate from each moment on, in bit/s.
    pub(super) rate: Vec<(f64, f64)>,
    /// The maximum one-way delay of each tenth of a second, by time of arrival, in ms.
    pub(super) delay: Vec<(f64, f64)>,
}

/// All contenders on the same capacity, and two of them without a queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) capacity: Vec<(Timestamp, DataRate)>,
    /// In the order of [`CONTENDERS`].
    pub(super) queued: Vec<Queued>,
    pub(super) coin: Pair,
}

impl Comparison {
    /// The runs of `seed`. Never `None`, as the link is fixed and valid.
    pub(super) fn run(seed: u64) -> Option<Self> {
        let mut capacity = Recorded::new(seed).until(Timestamp::ZERO + DURATION * 2, &TABLE_8);
        for (_, rate) in &mut capacity {
            *rate = (*rate).max(SATURATED);
        }
        let queued = CONTENDERS
            .map(|contender| through_a_queue((contender.algorithm)().as_ref(), seed, capacity.clone()));
        let queued = queued.into_iter().collect::<Option<_>>()?;
        let packets = START.as_bps() * 60 / PACKET.as_bits();
        let coin = Pair::run(&Setting { packet: PACKET, packets, ..Setting::judged(TABLE_8) }, seed);
        capacity.retain(|(at, _)| *at < Timestamp::ZERO + DURATION);
        Some(Self { capacity, queued, coin })
    }
}

fn through_a_queue(
    algorithm: Option<&ThesisConfig>,
    seed: u64,
    steps: Vec<(Timestamp, DataRate)>,
) -> Option<Queued> {
    let mut simulation = Simulation::new(seed);
    let (here, there) = (simulation.node("sender"), simulation.node("receiver"));
    let back = LinkConfig { delay: MEAN_DELAY.into(), ..LinkConfig::default() };
    let way = LinkConfig { rate: RateProfile::Steps { steps, period: None }, ..back.clone() };
    let room = DataRate::from_bps(TABLE_8.0[0]).size_in(QUEUE);
    simulation.add_link("way", (here, there), &way, Box::new(DropTail::new(Limit::Bytes(room)))).ok()?;
    simulation.add_link("back", (there, here), &back, Box::new(DropTail::new(Limit::Unlimited))).ok()?;
    let media = simulation.add_flow(here, there).ok()?;
    let reports = simulation.add_flow(there, here).ok()?;
    let end = Timestamp::ZERO + DURATION;
    let sender = simulation.add_agent(Box::new(Media::new(media, PACKET, algorithm, end)));
    let receiver = simulation.add_agent(Box::new(Reporter::new(reports)));
    simulation.deliver(media, receiver);
    simulation.deliver(reports, sender);

    // Packets that are in the queue at the end still arrive; they count for losses and delays, not for rates.
    let emptied = end + TimeDelta::from_seconds(10);
    let flows = vec![PlannedFlow { flow: media, window: Timestamp::ZERO..emptied, ..PlannedFlow::default() }];
    let timeline = Some(TimelineOptions::every(TimeDelta::from_millis(100)));
    let mut recorder = Recorder::new(RecordPlan { end: emptied, flows, timeline, ..RecordPlan::default() });
    simulation.run_until(end, &mut recorder);
    let (at_end, _) = recorder.clone().finish(&simulation, end);
    simulation.run_until(emptied, &mut recorder);
    let mut over_uses = OverUses(0.0);
    simulation.report_gauges(end, &mut over_uses);
    let (record, _) = recorder.finish(&simulation, emptied);
    let (at_end, flow) = (at_end.flows.first()?, record.flows.first()?);
    let delay = flow.delay_ms?;
    let timeline = record.timeline.as_ref()?;
    let series = timeline.flows.first()?;
    let delays = timeline.t_s.iter().zip(&series.delay_max_ms);
    let decisions = series.media.iter().flat_map(|media| &media.decisions);
    Some(Queued {
        figures: [
            at_end.sent_rate_bps,
            at_end.received_rate_bps,
            flow.loss_ratio?,
            delay.p50,
            delay.p95,
            over_uses.0 / flow.sent_packets as f64,
        ],
        rate: decisions.map(|decision| (decision.at_s, decision.to_bps as f64)).collect(),
        delay: delays.filter_map(|(at, delay)| Some((*at, (*delay)?))).collect(),
    })
}

/// The only gauge of a session: packets at which the delay signalled over-use.
#[derive(Debug)]
struct OverUses(f64);

impl Observer for OverUses {
    fn on_event(&mut self, _now: Timestamp, _event: &Event) {}

    fn on_gauge(&mut self, _now: Timestamp, _flow: FlowId, _name: &'static str, value: f64) {
        self.0 = value;
    }
}

/// The medians of the contender with this number over all seeds, in the order of [`FIGURES`].
pub(super) fn medians(all: &[Comparison], number: usize) -> [Option<f64>; 6] {
    let runs = all.iter().filter_map(|comparison| Some(comparison.queued.get(number)?.figures));
    medians_of(&runs.collect::<Vec<_>>())
}

/// The same without a queue, for one of the senders.
pub(super) fn medians_without(all: &[Comparison], sender: fn(&Pair) -> &Outcome) -> [Option<f64>; 6] {
    let runs = all.iter().map(|comparison| {
        let run = sender(&comparison.coin);
        // The delay is normal with a deviation of 1 ms.
        let delays = [run.mean_delay_ms, run.mean_delay_ms + 1.645];
        [run.sent_bps(), run.goodput_bps(), run.loss_ratio(), delays[0], delays[1], run.over_use_ratio()]
    });
    medians_of(&runs.collect::<Vec<_>>())
}

fn medians_of(runs: &[[f64; 6]]) -> [Option<f64>; 6] {
    array::from_fn(|figure| {
        let values = runs.iter().filter_map(|figures| figures.get(figure).copied());
        Some(Spread::of(values)?.median)
    })
}

/// The medians of all contenders by name.
pub(super) fn beside(all: &[Comparison]) -> BTreeMap<String, f64> {
    let named = |(number, contender): (usize, Contender)| {
        let medians = FIGURES.iter().zip(medians(all, number));
        medians.filter_map(move |(name, median)| Some((format!("queue_{}_{name}", contender.id), median?)))
    };
    giusto::order::map(CONTENDERS.into_iter().enumerate().flat_map(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_through_a_queue_fills_the_link() {
        let comparison = Comparison::run(1).unwrap();
        let [sent, goodput, loss, delay_p50, _, over_use] = comparison.queued[0].figures;
        assert!((sent / 7.2e6 - 1.0).abs() < 1e-3, "{sent}");
        // Never below 7.2 Mbit/s offered, so the link is never idle once it has begun.
        let rates = comparison.capacity.iter().map(|(_, rate)| rate.as_bps() as f64);
        let mean = rates.sum::<f64>() / comparison.capacity.len() as f64;
        assert!((goodput / mean - 1.0).abs() < 0.01, "{goodput} of {mean}");
        assert!((loss - (1.0 - mean / 7.2e6)).abs() < 0.01, "{loss}");
        // A full queue at the rate of Idle is 300 ms, and 10 ms of propagation.
        assert!((290.0..=320.0).contains(&delay_p50), "{delay_p50}");
        assert!(over_use == 0.0);
    }
}
