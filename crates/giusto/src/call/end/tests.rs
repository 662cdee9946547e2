use std::net::SocketAddr;

use giusto_congestion::Cause;
use giusto_net::SocketConfig;
use giusto_session::call::{Answer, CallEvent, Protection};
use giusto_units::Ecn;

use super::*;
use crate::{
    call::{
        flows::FORWARD_ID,
        plan::{CallPlan, Direction, MediaPlan, overhead},
        side::Received,
    },
    watch,
};

const CALLER: u32 = 0x0100;
const LISTENER: u32 = 0x0200;

fn plan(controller: &str) -> CallPlan {
    let media = MediaPlan { controller: controller.parse().unwrap(), ..MediaPlan::default() };
    CallPlan::new(&media, Direction::Forward, TimeDelta::from_seconds(60), 1).unwrap()
}

/// One end of a call in which the caller sends.
fn side(plan: CallPlan, is_caller: bool) -> SideConfig {
    let received =
        Received { spec: plan.media.clone(), controller: plan.media.controller.to_string(), opus: false };
    SideConfig {
        name: plan.name.clone(),
        seed: 1,
        flow: FORWARD_ID.to_owned(),
        duration: plan.duration,
        flows: plan.flows,
        measured: plan.measured(),
        is_caller,
        sends: is_caller.then_some(plan.media),
        receives: (!is_caller).then_some(received),
        sources: if is_caller { (CALLER, LISTENER) } else { (LISTENER, CALLER) },
        overhead: overhead(false, Protection::Insecure),
        timeline: Some(TimelineOptions::default()),
        session_log: None,
        video: None,
        voice: None,
        save: None,
        is_watched: is_caller,
    }
}

/// Both ends of a call without a network between them.
struct Pair {
    plan: CallPlan,
    local: LocalEnd,
    ends: [Calls<CallSide>; 2],
    id: CallId,
    /// The call at the listener.
    served: Option<CallId>,
    /// Whether the result of the caller is taken at its end.
    takes_result: bool,
    /// Whether the system of the caller takes nothing.
    refuses: bool,
    ended: Option<Outcome>,
}

impl Pair {
    fn new(plan: CallPlan, settings: CallSettings) -> Self {
        let offer = plan.offer(CALLER, settings.protection);
        let local = LocalEnd::new(Clock::start(), settings);
        let listener = CallsConfig { max_calls: 1, ..CallsConfig::new([2; 32]) };
        let mut caller = Calls::new(CallsConfig::new([1; 32]));
        let id = caller.call(Timestamp::ZERO, address(1), 7, offer).unwrap();
        Self {
            plan,
            local,
            ends: [caller, Calls::new(listener)],
            id,
            served: None,
            takes_result: false,
            refuses: false,
            ended: None,
        }
    }

    /// What happens at `now`, as far as the caller's page is concerned.
    fn step(&mut self, now: Timestamp) {
        let mut buffer = Vec::new();
        let mut quiet = 0;
        while quiet < 2 {
            for (own, other) in [(0, 1), (1, 0)] {
                quiet += 1;
                self.ends[own].handle_timeout(now);
                let mut refused = Vec::new();
                while let Some(outgoing) = self.ends[own].poll_transmit(now, &mut buffer) {
                    let bytes = std::mem::take(&mut buffer);
                    if self.refuses && own == 0 {
                        refused.extend(outgoing.media);
                        continue;
                    }
                    self.ends[other].handle_datagram(now, address(own), &bytes, Ecn::NotEct);
                    quiet = 0;
                }
                for media in refused {
                    self.ends[own].handle_unsent(now, media);
                }
                while let Some(event) = self.ends[own].poll_event() {
                    let config = side(self.plan.clone(), own == 0);
                    let media = || CallSide::new(&config, None, &mut ()).unwrap();
                    match event {
                        CallEvent::Offered { id, .. } => {
                            self.served = Some(id);
                            self.ends[own].accept(now, id, Answer { sources: LISTENER }, media());
                        }
                        CallEvent::Accepted { id, .. } => {
                            self.ends[own].begin(now, id, media());
                            self.local.on_begun(now, id, (config, address(1)), 0);
                        }
                        CallEvent::Ended { id, outcome } if own == 0 && self.takes_result => {
                            let any = ([127, 0, 0, 1], 0).into();
                            let socket = UdpSocket::bind(any, &SocketConfig::default()).unwrap();
                            let mut driver = CallDriver::new(&socket, Clock::start());
                            self.ended = self.local.result(now, id, &outcome, &mut self.ends[0], &mut driver);
                        }
                        _ => {}
                    }
                    quiet = 0;
                }
            }
        }
        self.local.show(now, &mut self.ends[0]);
    }

    /// What happens in these milliseconds.
    fn steps(&mut self, millis: std::ops::Range<u64>) {
        millis.for_each(|millis| self.step(at(millis)));
    }

    /// Ends the call, and takes the record of the caller.
    fn end(&mut self, millis: u64) -> CallRecord {
        self.takes_result = true;
        self.ends[0].finish(at(millis), self.id);
        self.steps(millis..millis + 1_000);
        self.ended.take().unwrap().record
    }

    /// Decisions that wait to be shown.
    fn waiting(&mut self) -> usize {
        self.ends[0].media_mut(self.id).map_or(0, |side| side.take_decisions().len())
    }
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, end as u8], 5004))
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000 + millis * 1_000_000)
}

#[test]
fn calls_are_visited_when_an_update_is_due() {
    let watched = || {
        let (feed, snapshots) = watch::feed();
        let settings = CallSettings { feed: Some(feed.into()), ..CallSettings::default() };
        (Pair::new(plan("scream:v2"), settings), snapshots)
    };
    let (mut pair, snapshots) = watched();
    let (mut updates, mut decisions) = (0, 0);
    for millis in 0..3_000 {
        pair.step(at(millis));
        while let Ok(snapshot) = snapshots.try_recv() {
            updates += 1;
            decisions += snapshot.decisions.len();
            assert_eq!((pair.waiting(), snapshot.more), (0, 0), "an update has all decisions");
            assert!(snapshot.streams.iter().all(|stream| stream.id == 0));
        }
    }
    assert!((29..=31).contains(&updates) && decisions > 10, "{updates} {decisions}");
    // Between two updates the decisions wait at the call.
    let (mut pair, snapshots) = watched();
    let (mut waited, mut shown) = (0, 0);
    for millis in 0..3_000 {
        pair.step(at(millis));
        waited += pair.waiting();
        shown += snapshots.try_iter().map(|snapshot| snapshot.decisions.len()).sum::<usize>();
    }
    // Those of the very moment of an update are shown.
    assert!(waited > 10 && shown < waited, "{waited} {shown}");
    assert!((waited + shown).abs_diff(decisions) <= 10, "{waited} {shown} {decisions}");
}

#[test]
fn delays_over_time_are_those_of_frames_alone() {
    let mut pair = Pair::new(plan("scream:v2"), CallSettings::default());
    pair.steps(0..3_000);
    pair.ends[0].finish(at(3_000), pair.id);
    pair.steps(3_000..3_100);
    for (end, receives) in [(0, false), (1, true)] {
        let id = if receives { pair.served.unwrap() } else { pair.id };
        let side = pair.ends[end].take_media(id).unwrap();
        let (record, _) = side.finish(Timestamp::ZERO + TimeDelta::from_seconds(3), None);
        let flow = &record.timeline.unwrap().flows[0];
        let windows = flow.delay_mean_ms.len();
        assert!(windows > 10, "{windows}");
        for delays in [&flow.delay_mean_ms, &flow.delay_max_ms, &flow.queue_delay_max_ms] {
            assert_eq!(*delays, vec![None; windows]);
        }
        assert_eq!(flow.delay_cdf.ms, Vec::<f64>::new());
        let frames = flow.media.as_ref().unwrap().frame_delay_max_ms.iter().flatten();
        // The network has no delay of its own.
        let known = frames.inspect(|delay| assert!((0.0..1_000.0).contains(*delay), "{delay}")).count();
        assert_eq!(known > 10, receives, "{known}");
    }
}

#[test]
fn route_changes_of_a_scenario_reach_the_controller() {
    for changes in [vec![], vec![Timestamp::ZERO + TimeDelta::from_seconds(1)]] {
        let mut plan = plan("gcc:libwebrtc");
        plan.media.route_changes.clone_from(&changes);
        let mut pair = Pair::new(plan, CallSettings::default());
        let mut noticed = Vec::new();
        for millis in 0..2_000 {
            pair.step(at(millis));
            let side = pair.ends[0].media_mut(pair.id);
            let decisions = side.map(CallSide::take_decisions).unwrap_or_default();
            let changed = decisions.iter().filter(|decision| decision.cause == Cause::RouteChange);
            noticed.extend(changed.map(|decision| decision.at));
        }
        assert_eq!(noticed, changes);
    }
}

#[test]
fn an_end_of_a_call_knows_what_the_other_lost_itself() {
    let mut pair = Pair::new(plan("scream:v2"), CallSettings::default());
    pair.steps(0..500);
    let served = pair.served.unwrap();
    pair.ends[1].media_mut(served).unwrap().note_dropped(7);
    let doubts = pair.end(500).call.doubts;
    assert!(doubts[0].starts_with("7 lost in the listener's buffer, not on the path: "), "{doubts:?}");
}

#[test]
fn what_the_system_refuses_is_neither_sent_nor_lost() {
    let mut pair = Pair::new(plan("scream:v2"), CallSettings::default());
    pair.steps(0..2_000);
    pair.refuses = true;
    pair.steps(2_000..2_400);
    pair.refuses = false;
    pair.steps(2_400..4_000);
    let CallRecord { run, call } = pair.end(4_000);
    let flow = &run.flows[0];
    assert!(call.unsent_packets > 10 && flow.sent_packets > 100, "{call:?}");
    // Nothing is lost on the way.
    assert_eq!((flow.lost_packets, flow.received_packets), (0, flow.sent_packets));
    let timeline = run.timeline.unwrap();
    let over_time: u64 = timeline.flows.iter().flat_map(|flow| &flow.sent_packets).sum();
    assert!(over_time.abs_diff(flow.sent_packets) <= 5, "{over_time} of {}", flow.sent_packets);
}

#[test]
fn each_address_of_a_far_end_has_its_packets() {
    let mut pair = Pair::new(plan("scream:v2"), CallSettings::default());
    let (id, there) = (pair.id, address(1));
    pair.steps(0..500);
    // Only this end's own address has changed.
    pair.local.on_moved(at(500), id, there, &pair.ends[0]);
    pair.steps(500..1_000);
    pair.local.on_moved(at(1_000), id, address(9), &pair.ends[0]);
    pair.steps(1_000..2_000);
    let CallRecord { run, call } = pair.end(2_000);
    let [first, second] = call.paths.as_slice() else { panic!("{:?}", call.paths) };
    assert_eq!((first.far_end.clone(), second.far_end.clone()), (there.to_string(), address(9).to_string()));
    assert!(first.sent_packets > 20 && second.sent_packets > 20, "{:?}", call.paths);
    assert_eq!(first.sent_packets + second.sent_packets, run.flows[0].sent_packets);
    assert!((0.9..1.1).contains(&first.until_s) && second.until_s > 1.9, "{:?}", call.paths);
}

#[test]
fn live_figures_after_an_idle_or_busy_time_are_of_whole_intervals() {
    let mut pair = Pair::new(plan("gcc:libwebrtc"), CallSettings::default());
    pair.steps(0..1000);
    let due = |pair: &mut Pair, times: [u64; 5]| {
        times.map(|millis| pair.local.live(at(millis), &pair.ends[0]).is_some())
    };
    assert_eq!(due(&mut pair, [999, 1000, 1001, 1999, 2000]), [false, true, false, false, true]);
    // The call ends, and another begins.
    pair.local.open.clear();
    let config = side(pair.plan.clone(), true);
    pair.local.on_begun(at(9000), pair.id, (config, address(1)), 0);
    assert_eq!(due(&mut pair, [9000, 9001, 9999, 10_000, 10_001]), [false, false, false, true, false]);
    // The thread waits for some seconds.
    assert_eq!(due(&mut pair, [15_000, 15_001, 15_999, 16_000, 16_001]), [true, false, false, true, false]);
}
