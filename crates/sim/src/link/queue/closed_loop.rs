//! The laws at work on sources that respond to them, against what theory says of both.

use std::{cmp::Reverse, collections::BinaryHeap};

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{law::sojourn, tests::packet, *};
use crate::{packet::Dropped, random};

const BYTES: u32 = 1500;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Response {
    /// None: a packet each so often.
    Constant(TimeDelta),
    /// Half the window for a mark or a loss, a packet more for each round trip (RFC 5681 §3.1).
    Reno,
    /// Less by half of the averaged share of marks, a packet more for each round trip (RFC 8257 §3.3).
    Scalable,
}

/// A source with its window in packets.
struct Source {
    response: Response,
    ecn: Ecn,
    base_rtt: TimeDelta,
    window: f64,
    in_flight: u64,
    next: u64,
    /// Signals on what was sent before this one are answered already.
    recover: u64,
    is_starting: bool,
    /// The averaged share of marks, and the counts of this round: marked, all, and the first of the next round.
    share: f64,
    round: (u64, u64, u64),
}

impl Source {
    fn new(response: Response, ecn: Ecn, base_rtt_millis: i64) -> Self {
        let base_rtt = TimeDelta::from_millis(base_rtt_millis);
        let (in_flight, next, recover, round) = (0, 0, 0, (0, 0, 0));
        Self {
            response,
            ecn,
            base_rtt,
            window: 10.0,
            in_flight,
            next,
            recover,
            is_starting: true,
            share: 1.0,
            round,
        }
    }

    fn on_feedback(&mut self, sequence: u64, marked: bool, lost: bool) {
        self.in_flight -= 1;
        if self.response == Response::Scalable {
            self.on_scalable_round(sequence, marked);
        }
        let halves = lost || (marked && self.response == Response::Reno);
        if halves && sequence >= self.recover {
            self.window = (self.window / 2.0).max(1.0);
            self.recover = self.next;
        }
        if marked || lost {
            self.is_starting = false;
        } else {
            self.window += if self.is_starting { 1.0 } else { 1.0 / self.window };
        }
    }

    fn on_scalable_round(&mut self, sequence: u64, marked: bool) {
        self.round.0 += u64::from(marked);
        self.round.1 += 1;
        if sequence >= self.round.2 {
            self.share += (self.round.0 as f64 / self.round.1 as f64 - self.share) / 16.0;
            if self.round.0 > 0 {
                self.window = (self.window * (1.0 - self.share / 2.0)).max(1.0);
            }
            self.round = (0, 0, self.next);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    LinkFree,
    Emit(usize),
    Feedback { flow: usize, sequence: u64, marked: bool, lost: bool },
}

/// What became of one flow after the warm-up.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    delivered: u64,
    marked: u64,
    dropped: u64,
    sojourn_seconds: f64,
}

impl Tally {
    fn sojourn_millis(&self) -> f64 {
        1e3 * self.sojourn_seconds / self.delivered as f64
    }

    /// The mean window in packets by Little's law: packets a second times the round trip.
    fn window(&self, seconds: i64, flows: usize, base_rtt_millis: f64) -> f64 {
        let per_second = self.delivered as f64 / (seconds as f64 / 2.0) / flows as f64;
        per_second * (base_rtt_millis + self.sojourn_millis()) / 1e3
    }

    fn drop_share(&self) -> f64 {
        self.dropped as f64 / (self.dropped + self.delivered) as f64
    }

    fn mark_share(&self) -> f64 {
        self.marked as f64 / self.delivered as f64
    }
}

/// One link, its queue, and sources that hear of each packet one base round trip after it left or was dropped.
struct Bottleneck {
    queue: Box<dyn Queue>,
    rate: DataRate,
    sources: Vec<Source>,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    ordered: u64,
    is_busy: bool,
    from: Timestamp,
    tallies: Vec<Tally>,
    /// When each packet was dropped, from the beginning.
    drop_times: Vec<Timestamp>,
}

impl Bottleneck {
    /// Runs for `seconds`, of which the first half warms up.
    fn run(queue: impl Queue + 'static, mbps: u64, sources: Vec<Source>, seconds: i64) -> Self {
        let rate = DataRate::from_bps(mbps * 1_000_000);
        let tallies = vec![Tally::default(); sources.len()];
        let until = Timestamp::ZERO + TimeDelta::from_seconds(seconds);
        let mut link = Self {
            queue: Box::new(queue),
            rate,
            sources,
            events: BinaryHeap::new(),
            ordered: 0,
            is_busy: false,
            from: Timestamp::ZERO + TimeDelta::from_seconds(seconds) / 2,
            tallies,
            drop_times: Vec::new(),
        };
        link.queue.on_rate(Timestamp::ZERO, rate);
        (0..link.sources.len()).for_each(|flow| link.schedule(Timestamp::ZERO, Event::Emit(flow)));
        while let Some(&Reverse((at, _, event))) = link.events.peek() {
            if let Some(due) = link.queue.next_timer().filter(|&due| due <= at) {
                link.queue.on_timer(due);
                continue;
            }
            if at > until {
                break;
            }
            link.events.pop();
            link.handle(at, event);
        }
        link
    }

    fn schedule(&mut self, at: Timestamp, event: Event) {
        self.ordered += 1;
        self.events.push(Reverse((at, self.ordered, event)));
    }

    fn handle(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::LinkFree => {
                self.is_busy = false;
                self.transmit(now);
            }
            Event::Emit(flow) => {
                if let Response::Constant(interval) = self.sources[flow].response {
                    self.send(now, flow);
                    self.schedule(now + interval, Event::Emit(flow));
                } else {
                    self.fill_window(now, flow);
                }
            }
            Event::Feedback { flow, sequence, marked, lost } => {
                self.sources[flow].on_feedback(sequence, marked, lost);
                self.fill_window(now, flow);
            }
        }
    }

    fn fill_window(&mut self, now: Timestamp, flow: usize) {
        while !matches!(self.sources[flow].response, Response::Constant(_))
            && (self.sources[flow].in_flight as f64) < self.sources[flow].window.floor()
        {
            self.send(now, flow);
        }
    }

    fn send(&mut self, now: Timestamp, flow: usize) {
        let source = &mut self.sources[flow];
        let packet = packet(flow as u32, source.next, BYTES, source.ecn);
        source.next += 1;
        source.in_flight += 1;
        let mut drops = Vec::new();
        self.queue.enqueue(now, packet, &mut drops);
        self.lose(now, drops);
        if !self.is_busy {
            self.transmit(now);
        }
    }

    fn transmit(&mut self, now: Timestamp) {
        let mut drops = Vec::new();
        let packet = self.queue.dequeue(now, &mut drops);
        self.lose(now, drops);
        let Some(packet) = packet else { return };
        let flow = packet.flow.0 as usize;
        let marked = packet.ecn == Ecn::Ce;
        if now >= self.from {
            let tally = &mut self.tallies[flow];
            tally.delivered += 1;
            tally.marked += u64::from(marked);
            tally.sojourn_seconds += sojourn(now, &packet).as_seconds();
        }
        let sent = now + self.rate.time_for(packet.size()).unwrap();
        self.is_busy = true;
        self.schedule(sent, Event::LinkFree);
        let sequence = packet.sequence;
        let base_rtt = self.sources[flow].base_rtt;
        self.schedule(sent + base_rtt, Event::Feedback { flow, sequence, marked, lost: false });
    }

    fn lose(&mut self, now: Timestamp, drops: Vec<Dropped>) {
        for Dropped { packet, .. } in drops {
            let (flow, sequence) = (packet.flow.0 as usize, packet.sequence);
            self.tallies[flow].dropped += u64::from(now >= self.from);
            self.drop_times.push(now);
            let base_rtt = self.sources[flow].base_rtt;
            self.schedule(now + base_rtt, Event::Feedback { flow, sequence, marked: false, lost: true });
        }
    }

    /// The share of the link that was in use after the warm-up.
    fn utilisation(&self, seconds: i64) -> f64 {
        let delivered: u64 = self.tallies.iter().map(|tally| tally.delivered).sum();
        DataSize::from_bytes(delivered * u64::from(BYTES)).as_bits() as f64
            / (self.rate.as_bps() as f64 * seconds as f64 / 2.0)
    }
}

/// A constant source at `percent` of 12 Mbit/s, that is of 1000 packets a second.
fn constant(percent: i64, ecn: Ecn) -> Source {
    Source::new(Response::Constant(TimeDelta::from_millis(100) / percent), ecn, 20)
}

fn within(found: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&found), "{found} is not within {low} to {high}");
}

fn pie(config: PieConfig) -> Pie {
    Pie::new(config, random::stream(3, "link: queue")).unwrap()
}

#[test]
fn codel_drops_ever_more_of_an_overload_that_does_not_yield() {
    let queue = CoDel::new(CoDelConfig { limit: Limit::Unlimited, ..Default::default() }).unwrap();
    let link = Bottleneck::run(queue, 12, vec![constant(120, Ecn::NotEct)], 40);
    let count = |from: u64, to: u64| {
        let second = |at: &Timestamp| at.as_nanos() / 1_000_000_000;
        link.drop_times.iter().filter(|at| (from..to).contains(&second(at))).count()
    };
    // Drop n comes 100 ms · Σ 1/√i ≈ 200 ms · √n after the first: n ≈ (t/200 ms)², so in second s some 25·(2s + 1).
    for second in [2, 4, 6] {
        let expected = 25.0 * (2.0 * second as f64 + 1.0);
        within(count(second, second + 1) as f64, 0.9 * expected, 1.1 * expected);
    }
    // 50·t drops a second meet the overload of 200 a second after 4 s, and have worked the backlog off by 8 s; from then on it
    // builds and breaks down in turns, so that the second half ends with some of it left or gained.
    within(link.tallies[0].drop_share(), 0.95 / 6.0, 1.1 / 6.0);
}

#[test]
fn codel_holds_a_responsive_source_near_its_target() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let sources = (0..4).map(|_| Source::new(Response::Reno, ecn, 50)).collect();
        let link = Bottleneck::run(CoDel::new(CoDelConfig::default()).unwrap(), 20, sources, 60);
        let sojourn = link.tallies.iter().map(Tally::sojourn_millis).sum::<f64>() / 4.0;
        within(sojourn, 2.5, 10.0);
        within(link.utilisation(60), 0.9, 1.001);
    }
}

#[test]
fn fq_codel_shares_equally_between_who_yields_and_who_does_not() {
    let queue = FqCodel::new(FqCodelConfig::default(), random::stream(3, "link: queue")).unwrap();
    // 6 Mbit/s that do not yield, twice Reno, and a sparse flow of 120 kbit/s.
    let reno = || Source::new(Response::Reno, Ecn::Ect0, 30);
    let sources = vec![constant(50, Ecn::NotEct), reno(), reno(), constant(1, Ecn::NotEct)];
    let link = Bottleneck::run(queue, 12, sources, 40);
    let fair = (20_000.0 - link.tallies[3].delivered as f64) / 3.0;
    // Who never yields always has a queue, and so gets its share at least; Reno is at times without one after it has halved,
    // and the rest goes to the others.
    within(link.tallies[0].delivered as f64 / fair, 0.999, 1.1);
    within(link.tallies[1].delivered as f64 / fair, 0.9, 1.001);
    within(link.tallies[2].delivered as f64 / fair, 0.9, 1.001);
    within(link.utilisation(40), 0.999, 1.001);
    // A sparse packet waits for the one on the wire, and for new flows: no more than the quantum of each of the others.
    within(link.tallies[3].sojourn_millis(), 0.0, 2.0);
    assert_eq!(link.tallies[3].dropped, 0);
}

#[test]
fn pie_holds_its_target_by_dropping_what_is_too_much() {
    let by_rate = LatencyEstimate::DepartureRate { threshold: DataSize::from_bytes(1 << 14) };
    for latency in [LatencyEstimate::Timestamps, by_rate] {
        let link = Bottleneck::run(
            pie(PieConfig { latency, ..Default::default() }),
            12,
            vec![constant(120, Ecn::Ect0)],
            60,
        );
        within(link.tallies[0].sojourn_millis(), 13.0, 17.0);
        // 1 − 1/1.2.
        within(link.tallies[0].drop_share(), 0.1667 - 0.005, 0.1667 + 0.005);
    }
}

#[test]
fn pie_holds_responsive_sources_at_its_target() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let sources = (0..4).map(|_| Source::new(Response::Reno, ecn, 50)).collect();
        let link = Bottleneck::run(pie(PieConfig::default()), 20, sources, 60);
        let sojourn = link.tallies.iter().map(Tally::sojourn_millis).sum::<f64>() / 4.0;
        within(sojourn, 11.0, 19.0);
        within(link.utilisation(60), 0.95, 1.001);
    }
}

#[test]
fn red_holds_its_average_between_the_thresholds() {
    let config = RedConfig { max_probability: 0.1, ..Default::default() };
    let queue = Red::new(config, random::stream(3, "link: queue")).unwrap();
    let sources = (0..8).map(|_| Source::new(Response::Reno, Ecn::Ect0, 20)).collect();
    let link = Bottleneck::run(queue, 20, sources, 60);
    // By Little's law, 5 to 15 packets are 3 to 9 ms.
    let sojourn = link.tallies.iter().map(Tally::sojourn_millis).sum::<f64>() / 8.0;
    within(sojourn, 3.0, 9.0);
    within(link.utilisation(60), 0.9, 1.001);
    // Signals are uniform from 1 to 1/p_b apart, so 2·p_b of the packets bear one, with p_b = 0.1·(average − 5)/10.
    let marks = link.tallies.iter().map(Tally::mark_share).sum::<f64>() / 8.0;
    let average = sojourn / 0.6;
    within(marks / (2.0 * 0.1 * (average - 5.0) / 10.0), 0.7, 1.3);
}

#[test]
fn a_step_keeps_a_scalable_source_at_the_threshold() {
    let queue = StepMark::new(StepMarkConfig::default()).unwrap();
    let link = Bottleneck::run(queue, 50, vec![Source::new(Response::Scalable, Ecn::Ect1, 10)], 20);
    within(link.tallies[0].sojourn_millis(), 0.3, 1.5);
    within(link.utilisation(20), 0.95, 1.001);
    assert_eq!(link.tallies[0].dropped, 0);
}

#[test]
fn dualpi2_holds_an_overload_at_its_target_in_either_queue() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let queue = DualPi2::new(DualPi2Config::default()).unwrap();
        let link = Bottleneck::run(queue, 12, vec![constant(150, ecn)], 60);
        // 15 ms are held at the head. Where it is dropped, the next, 2/3 ms younger, leaves in its place: for each that leaves,
        // half a packet is dropped, so the delay of what leaves is 1/3 ms less.
        within(link.tallies[0].sojourn_millis() - (15.0 - 1.0 / 3.0), -0.2, 0.2);
        // 1 − 1/1.5, above p_Cmax = 1/4, so that marks become drops.
        within(link.tallies[0].drop_share(), 0.3333 - 0.005, 0.3333 + 0.005);
    }
}

/// Several flows as one.
fn together(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |sum, tally| Tally {
        delivered: sum.delivered + tally.delivered,
        marked: sum.marked + tally.marked,
        dropped: sum.dropped + tally.dropped,
        sojourn_seconds: sum.sojourn_seconds + tally.sojourn_seconds,
    })
}

/// Scalable or Reno sources, as one.
struct Kind {
    sojourn_millis: f64,
    window: f64,
    signal_share: f64,
    dropped: u64,
}

/// So many scalable and so many Reno sources, on 40 Mbit/s for each pair; whether marks or drops are Reno's signals is for `ecn` to say.
fn coexistence(scheduler: Scheduler, each: usize, ecn: Ecn) -> [Kind; 2] {
    const SECONDS: i64 = 40;
    let queue = DualPi2::new(DualPi2Config { scheduler, ..Default::default() }).unwrap();
    let mut sources: Vec<_> = (0..each).map(|_| Source::new(Response::Scalable, Ecn::Ect1, 20)).collect();
    sources.extend((0..each).map(|_| Source::new(Response::Reno, ecn, 20)));
    let link = Bottleneck::run(queue, 40 * each as u64, sources, SECONDS);
    within(link.utilisation(SECONDS), 0.98, 1.001);
    let (scalable, classic) = link.tallies.split_at(each);
    [scalable, classic].map(|tallies| {
        let tally = together(tallies);
        Kind {
            sojourn_millis: tally.sojourn_millis(),
            window: tally.window(SECONDS, each, 20.0),
            signal_share: tally.mark_share() + tally.drop_share(),
            dropped: tally.dropped,
        }
    })
}

const SCHEDULERS: [Scheduler; 2] = [
    Scheduler::WeightedRoundRobin { classic_share: 1.0 / 16.0 },
    Scheduler::TimeShiftedFifo { shift: TimeDelta::from_millis(50) },
];

#[test]
fn dualpi2_holds_each_kind_of_source_at_its_own_delay_and_both_at_about_the_same_window() {
    for scheduler in SCHEDULERS {
        for ecn in [Ecn::Ect0, Ecn::NotEct] {
            let [scalable, classic] = coexistence(scheduler, 1, ecn);
            within(classic.sojourn_millis, 11.0, 19.0);
            within(scalable.sojourn_millis, 0.0, 1.2);
            assert_eq!(scalable.dropped, 0);
            // "Roughly equal", says RFC 9332 §2.1. With p' at rest it would be some 0.8, as below; a single sawtooth swings p', which
            // leaves Reno more signals (the mean of p'² is above the square of the mean), and the scalable source a larger window.
            within(scalable.window / classic.window, 1.0 / 1.5, 1.5);
        }
    }
}

#[test]
fn dualpi2_couples_marks_and_windows_as_the_theory_of_both_sources_says() {
    for scheduler in SCHEDULERS {
        // Twelve of each, whose sawteeth even out.
        let [scalable, classic] = coexistence(scheduler, 12, Ecn::NotEct);
        within(classic.sojourn_millis, 13.0, 17.0);
        within(scalable.sojourn_millis, 0.0, 1.2);
        // RFC 9332 equation (1): p_L = 2·√p_C; below that by as much as p' still swings.
        within(scalable.signal_share / (2.0 * classic.signal_share.sqrt()), 0.9, 1.1);
        // W_L = 2/p_L (RFC 9332 Appendix C.2, equation 6), and W_C = C/√p_C with C = 1.22 for signals at even distances to 1.31 for independent
        // ones (Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997, Table 1); here they
        // are even for the twelve flows together. With p_L = 2·p' and p_C = (p')², the ratio is 1/C.
        within(scalable.window * scalable.signal_share / 2.0, 0.9, 1.1);
        within(classic.window * classic.signal_share.sqrt(), 1.22 * 0.9, 1.31 * 1.1);
        within(scalable.window / classic.window, 0.9 / 1.31, 1.1 / 1.22);
    }
}
