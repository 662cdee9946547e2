//! One run of one scenario with one seed.

use std::ops::ControlFlow;

use giusto_sim::trace::Observer;
use giusto_units::Timestamp;

use crate::scenario::{Expectation, FlowKind, FlowSpec, Metric, Scenario, Subject};
use crate::{
    record::{CheckResult, FlowResult, LinkResult, SimResult, StreamKind, StreamResult},
    run::{
        build::{self, Built, BuiltFlow},
        expect::{MediaTally, StreamTally, Tally, Window, Windows, figure, quantiles, time_to_rate},
        media,
    },
    view::trace::TraceNames,
};

/// In how many parts a run looks whether it shall go on.
const LOOKS: i64 = 500;

/// What the flows and links that an observer of a run of `scenario` meets are called: `tcp-2`, and `tcp-2:back` for its
/// answers.
pub fn names(scenario: &Scenario) -> TraceNames {
    let mut flows = Vec::new();
    for spec in scenario.flows() {
        for name in spec.instances() {
            let back = spec.kind.is_two_way().then(|| format!("{name}:back"));
            flows.push(name);
            flows.extend(back);
        }
    }
    TraceNames { flows, links: scenario.links().iter().map(|link| link.id.clone()).collect() }
}

/// Runs `scenario` with `seed` from the beginning to the end. The same seed gives the same result, but for `wall_s`, which
/// stays zero: who has a clock sets it.
///
/// `observer` sees every event; `&mut ()` sees none.
///
/// # Example
///
/// ```
/// use giusto::{run, scenario::Scenario};
///
/// let scenario = Scenario::parse(
///     r#"
///     duration = "10 s"
///     link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", delay = "20 ms" }]
///     flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
///     "#,
///     "voice.toml",
/// )?;
/// let result = run::simulate(&scenario, 1, &mut ());
/// assert_eq!(result.flows[0].sent_packets, 400);
/// assert_eq!(result.flows[0].delay_ms.unwrap().max, 21.6); // 20 ms, and 200 B at 1 Mbit/s
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate(scenario: &Scenario, seed: u64, observer: &mut impl Observer) -> SimResult {
    simulate_watched(scenario, seed, observer, |_| ControlFlow::Continue(()))
}

/// Runs `scenario`, and asks `watch` now and then whether to go on; its argument is how far the run has come.
///
/// A run that is broken off has a result too, of the time until then, without checks.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    observer: &mut impl Observer,
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> SimResult {
    let mut built = build::simulation(scenario, seed);
    let mut windows = Windows::default();
    let plan = Plan::new(scenario, &built, &mut windows);
    let mut end = Timestamp::ZERO;
    for look in 1..=LOOKS {
        let part = i128::from(scenario.duration().as_nanos()) * i128::from(look) / i128::from(LOOKS);
        end = Timestamp::from_nanos(part as u64);
        built.simulation.run_until(end, &mut (&mut windows, &mut *observer));
        if observer.watches() {
            built.simulation.tell_gauges(end, observer);
        }
        if look < LOOKS && watch(end).is_break() {
            break;
        }
    }
    windows.settle(end);
    plan.result(scenario, &built, &windows, end)
}

/// Which windows say what.
#[derive(Debug)]
struct Plan {
    /// Of each flow.
    flows: Vec<usize>,
    /// Of the answers of each flow, if there are any.
    answers: Vec<Option<usize>>,
    /// Of each link.
    links: Vec<usize>,
    /// Of each expectation: of each of its subjects, with its streams that it is of.
    checks: Vec<Vec<(usize, Vec<StreamOf>)>>,
}

/// A stream that an expectation is of.
#[derive(Debug, Clone, Copy)]
struct StreamOf {
    ssrc: u32,
    priority: f64,
}

impl StreamOf {
    /// Of a flow, those that `expectation` is of.
    fn all(spec: Option<&FlowSpec>, expectation: &Expectation) -> Vec<Self> {
        let Some(FlowKind::Media(spec)) = spec.map(|flow| &flow.kind) else { return Vec::new() };
        let wanted = |stream: &media::Stream<'_>| match &expectation.stream {
            Some(id) => stream.id == id,
            None => stream.video.is_some(),
        };
        let one = |stream: media::Stream<'_>| Self {
            ssrc: stream.ssrc,
            priority: stream.video.map_or(1.0, |video| video.priority),
        };
        media::streams(spec).filter(wanted).map(one).collect()
    }
}

impl Plan {
    fn new(scenario: &Scenario, built: &Built, windows: &mut Windows) -> Self {
        let of_flow = |flow: &BuiltFlow, (from, to): (Option<Timestamp>, Option<Timestamp>)| Window {
            from: from.unwrap_or(flow.start + scenario.warmup()),
            to: to.unwrap_or(flow.stop.min(scenario.end())),
        };
        let of_link = |(from, to): (Option<Timestamp>, Option<Timestamp>)| Window {
            from: from.unwrap_or(Timestamp::ZERO + scenario.warmup()),
            to: to.unwrap_or(scenario.end()),
        };
        let whole = (None, None);
        let answers = |flow: &BuiltFlow| Some((flow.backwards?, of_flow(flow, whole)));
        let answers =
            built.flows.iter().map(|flow| answers(flow).map(|(back, time)| windows.flow(back, time)));
        let answers = answers.collect();
        let flows =
            built.flows.iter().map(|flow| windows.flow(flow.forwards, of_flow(flow, whole))).collect();
        let links = built.links.iter().map(|&link| windows.link(link, of_link(whole))).collect();
        let check = |expectation: &Expectation| {
            let mut time = (expectation.from, expectation.to);
            let reaching = expectation.metric == Metric::TimeToRate;
            match &expectation.subject {
                Subject::Flows(ids) => {
                    let flows: Vec<&BuiltFlow> = members(scenario, built, ids).collect();
                    if reaching {
                        // The way to a rate begins where the flows do, whatever the warm-up.
                        time.0 = time.0.or(flows.iter().map(|flow| flow.start).max());
                    }
                    // Sums and indices are over one time: that in which all of them send.
                    let own = || flows.iter().map(|flow| of_flow(flow, time));
                    let from = own().map(|window| window.from).max();
                    let to = own().map(|window| window.to).min();
                    let common = from.zip(to).filter(|(from, to)| from < to);
                    let window = |flow: &BuiltFlow| {
                        common.map_or(of_flow(flow, time), |(from, to)| Window { from, to })
                    };
                    let tally = |flow: &&BuiltFlow| {
                        let number = windows.flow(flow.forwards, window(flow));
                        (number, StreamOf::all(scenario.flows().get(flow.spec), expectation))
                    };
                    let tallies: Vec<(usize, Vec<StreamOf>)> = flows.iter().map(tally).collect();
                    if reaching {
                        for &(number, _) in &tallies {
                            windows.keep_steps(number);
                        }
                    }
                    tallies
                }
                Subject::Link(id) => {
                    let links = scenario.links().iter().zip(&built.links);
                    let named = links.filter(|(link, _)| link.id == *id);
                    named.map(|(_, &link)| (windows.link(link, of_link(time)), Vec::new())).collect()
                }
            }
        };
        Self { flows, answers, links, checks: scenario.expectations().iter().map(check).collect() }
    }

    fn result(&self, scenario: &Scenario, built: &Built, windows: &Windows, end: Timestamp) -> SimResult {
        let whole = end == scenario.end();
        let flows = built.flows.iter().zip(&self.flows).zip(&self.answers);
        let links = scenario.links().iter().zip(&built.links).zip(&self.links);
        let checks = scenario.expectations().iter().zip(&self.checks);
        SimResult {
            scenario: scenario.name().to_owned(),
            seed: built.simulation.seed().to_string(),
            duration_s: end.as_seconds(),
            wall_s: 0.0,
            events: built.simulation.events(),
            interrupted: !whole,
            flows: flows
                .filter_map(|((flow, &number), answers)| {
                    let spec = scenario.flows().get(flow.spec)?;
                    let counted = built.simulation.flow(flow.forwards);
                    let sent = (counted.sent_packets, counted.delivered_packets);
                    let mut result = flow_result((flow, spec), sent, windows.tally(number), end);
                    if let (FlowKind::Media(_), Some(answers)) = (&spec.kind, answers) {
                        let answers = windows.tally(*answers);
                        result.feedback_rate_bps = Some(rate(answers.bytes, answers, end));
                    }
                    Some(result)
                })
                .collect(),
            links: links
                .map(|((spec, &link), &number)| {
                    let (counters, tally) = (built.simulation.link(link).counters(), windows.tally(number));
                    let link = built.simulation.link(link);
                    LinkResult {
                        id: spec.id.clone(),
                        utilisation_ratio: tally.utilisation(&spec.config.rate, end),
                        offered_packets: counters.offered_packets,
                        delivered_packets: counters.delivered_packets,
                        dropped_packets: counters.dropped_packets(),
                        marked_packets: counters.marked_packets,
                        in_flight_packets: link.in_flight() + link.waiting().packets,
                        duplicated_packets: counters.duplicated_packets,
                        queue_delay_ms: quantiles(&tally.queue_delay),
                    }
                })
                .collect(),
            checks: checks
                .filter(|_| whole)
                .map(|(expectation, numbers)| {
                    let tally = |(number, _): &(usize, _)| windows.tally(*number);
                    let tallies: Vec<&Tally> = numbers.iter().map(tally).collect();
                    let value =
                        if expectation.stream.is_some() || expectation.metric == Metric::StreamFairness {
                            let streams = numbers.iter().map(|(_, streams)| streams.as_slice());
                            let streams = tallies.iter().copied().zip(streams).collect::<Vec<_>>();
                            value_of_streams(expectation, &streams, end)
                        } else {
                            value(scenario, expectation, &tallies)
                        };
                    check_result(expectation, value)
                })
                .collect(),
        }
    }
}

/// The flows that `ids` name: all of a flow, or one of it by its number.
fn members<'a>(
    scenario: &'a Scenario,
    built: &'a Built,
    ids: &'a [String],
) -> impl Iterator<Item = &'a BuiltFlow> {
    built.flows.iter().filter(move |flow| {
        let all = scenario.flows().get(flow.spec).is_some_and(|spec| ids.contains(&spec.id));
        all || ids.contains(&flow.name)
    })
}

fn flow_result(
    (flow, spec): (&BuiltFlow, &FlowSpec),
    (sent_packets, received_packets): (u64, u64),
    tally: &Tally,
    end: Timestamp,
) -> FlowResult {
    let told = tally.media();
    FlowResult {
        id: flow.name.clone(),
        kind: spec.kind.name().to_owned(),
        controller: spec.kind.controller(),
        sent_rate_bps: rate(tally.bytes, tally, end),
        received_rate_bps: rate(tally.received_bytes, tally, end),
        sent_packets,
        received_packets,
        loss_ratio: tally.loss(),
        marked_ratio: tally.marked(),
        delay_ms: quantiles(&tally.delay),
        queue_delay_ms: quantiles(&tally.queue_delay),
        target_rate_bps: told.and_then(MediaTally::target_bps),
        decisions: told.map(|media| media.decisions),
        frames: told.map(|media| media.frames),
        frame_delay_ms: told.and_then(|media| quantiles(&media.frame_delay)),
        feedback_rate_bps: None,
        streams: match &spec.kind {
            FlowKind::Media(spec) => {
                media::streams(spec).map(|stream| stream_result(&stream, tally, end)).collect()
            }
            _ => Vec::new(),
        },
    }
}

fn stream_result(stream: &media::Stream<'_>, tally: &Tally, end: Timestamp) -> StreamResult {
    let got = tally.media().and_then(|media| media.stream(stream.ssrc));
    StreamResult {
        id: stream.id.to_owned(),
        ssrc: stream.ssrc,
        kind: if stream.video.is_some() { StreamKind::Video } else { StreamKind::Audio },
        priority: stream.video.map(|video| video.priority),
        received_rate_bps: rate(got.map_or(0, |got| got.bytes), tally, end),
        frames: got.map_or(0, |got| got.frames),
        frame_delay_ms: got.and_then(|got| quantiles(&got.frame_delay)),
        skipped_frames: got.map(|got| got.skipped_frames),
        discarded_packets: got.map(|got| got.discarded_packets),
    }
}

/// Bits per second over the window of `tally`; none over no time.
fn rate(bytes: u64, tally: &Tally, end: Timestamp) -> f64 {
    let seconds = tally.window.seconds(end);
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn check_result(expectation: &Expectation, value: Option<f64>) -> CheckResult {
    CheckResult {
        name: expectation.title(),
        passed: expectation.accepts(value),
        value,
        bound: expectation.bound(),
        unit: expectation.metric.unit().name().to_owned(),
    }
}

/// What came of an expectation of streams.
fn value_of_streams(
    expectation: &Expectation,
    flows: &[(&Tally, &[StreamOf])],
    end: Timestamp,
) -> Option<f64> {
    let streams =
        flows.iter().flat_map(|&(tally, streams)| streams.iter().map(move |stream| (tally, stream)));
    let got = |tally: &Tally, stream: &StreamOf| tally.media()?.stream(stream.ssrc).cloned();
    let rates = streams.clone().map(|(tally, stream)| {
        let bytes = got(tally, stream).map_or(0, |got| got.bytes);
        (rate(bytes, tally, end), stream.priority)
    });
    match expectation.metric {
        Metric::ReceivedRate => return Some(rates.map(|(rate, _)| rate).sum()),
        Metric::StreamFairness => return jain(rates.map(|(rate, priority)| rate / priority)),
        _ => {}
    }
    let mut all = StreamTally::default();
    for other in streams.filter_map(|(tally, stream)| got(tally, stream)) {
        all.merge(&other);
    }
    match expectation.metric {
        Metric::Frames => Some(all.frames as f64),
        Metric::FrameDelay(of) => figure(&all.frame_delay, of),
        _ => None,
    }
}

/// What came of an expectation.
fn value(scenario: &Scenario, expectation: &Expectation, tallies: &[&Tally]) -> Option<f64> {
    let end = scenario.end();
    let (first, others) = tallies.split_first()?;
    let received = tallies.iter().map(|tally| rate(tally.received_bytes, tally, end));
    match expectation.metric {
        Metric::SentRate => return Some(tallies.iter().map(|tally| rate(tally.bytes, tally, end)).sum()),
        Metric::ReceivedRate => return Some(received.sum()),
        Metric::Fairness => return jain(received),
        Metric::TargetRate => {
            // What is not known of one is not known of all.
            return tallies.iter().map(|tally| tally.media()?.target_bps()).sum();
        }
        Metric::TimeToRate => return time_to_rate(tallies, expectation.rate?, end),
        _ => {}
    }
    let mut all = (*first).clone();
    for other in others {
        all.merge(other);
    }
    let of_link = match &expectation.subject {
        Subject::Link(id) => Some(scenario.links().iter().find(|link| link.id == *id)?),
        Subject::Flows(_) => None,
    };
    match expectation.metric {
        Metric::SentRate
        | Metric::ReceivedRate
        | Metric::Fairness
        | Metric::StreamFairness
        | Metric::TargetRate
        | Metric::TimeToRate => None,
        Metric::Decisions => Some(all.media()?.decisions as f64),
        Metric::Frames => Some(all.media().map_or(0, |media| media.frames) as f64),
        Metric::FrameDelay(of) => figure(&all.media()?.frame_delay, of),
        Metric::SentPackets => Some(all.packets as f64),
        Metric::ReceivedPackets => Some(all.received_packets as f64),
        Metric::Loss => all.loss(),
        Metric::Marked if of_link.is_some() => all.link_marked(),
        Metric::Marked => all.marked(),
        Metric::Delay(of) => figure(&all.delay, of),
        Metric::QueueDelay(of) => figure(&all.queue_delay, of),
        Metric::Utilisation => all.utilisation(&of_link?.config.rate, end),
        Metric::Dropped => all.link_dropped(),
    }
}

/// Jain's index of fairness, `(Σx)² / (n·Σx²)`.
fn jain(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = rates.fold((0.0, 0.0, 0.0), |(count, sum, squares), rate| {
        (count + 1.0, sum + rate, squares + rate * rate)
    });
    (squares > 0.0).then(|| sum * sum / (count * squares))
}
