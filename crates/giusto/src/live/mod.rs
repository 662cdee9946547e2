//! A scenario with one media flow in real time: a [call](crate::call) across the scenario's [links](crate::link) on this machine.
//!
//! [`run`] gives the same record as [`simulate`](crate::run::simulate()), with the same encoders, controller, links and random
//! numbers. Only time and the order of events are those of the machine:
//!
//! ```text
//! caller --loopback--> relay with the links --loopback--> listener      three threads
//! ```
//!
//! The time of the links begins with the media of the caller. Only RTP and RTCP cross them: the messages that open, keep and close the
//! call pass at once, so that the links see the packets of the simulation, and each packet has the random numbers that it has there.
//!
//! | figures | measured by |
//! |---|---|
//! | sent rate, target, decisions, skipped and discarded frames | the caller |
//! | received rate, goodput, frames, frame delay, feedback | the listener |
//! | one-way and queueing delay, losses, everything of links | the relay, from the entry of a packet into the first link on |

mod merge;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use giusto_net::{
    driver::Verdict,
    emulate::{StartSignal, UdpPair},
};
use giusto_units::{DataRate, TimeDelta};

use crate::{
    call::{
        CallPlan, CallRecord, CallRunError, CallSettings, Caller, Listener, PlanError, run::ListenerEvent,
    },
    link::{self, Ends, LinkError, LinkEvent, LinkOptions, LinkPlan, LinkPlanError, LinkRun},
    record::{RunRecord, TimelineOptions},
    run::{build, expect, simulate},
    scenario::{FlowKind, Scenario},
};

/// The bound on the 99th percentile of the links' lateness: a fifth of the tolerance of the queueing delay in
/// [`Parity`](crate::run::comparison::Parity).
const MAX_LATENESS: TimeDelta = TimeDelta::from_micros(2_000);

/// Why a scenario did not run in real time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The scenario has other flows than one media flow.
    #[error(
        "{scenario}: {problem}: a run in real time has one flow of kind media; use a scenario with this flow alone"
    )]
    Flows {
        /// The name of the scenario.
        scenario: String,
        /// The flow, and what is wrong with it.
        problem: String,
    },
    /// No call can be made of the flow.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The links do not connect its ends.
    #[error(transparent)]
    LinkPlan(#[from] LinkPlanError),
    /// The links did not run.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The call did not begin or not go on.
    #[error(transparent)]
    Call(#[from] CallRunError),
    /// An end has no record of the call.
    #[error("the call across the links has no record of its {0}: run it again on a machine that does less")]
    Incomplete(&'static str),
}

/// Checks that `scenario` can run in real time.
///
/// # Errors
///
/// [`LiveError::Flows`] names the flow that prevents it.
pub fn check(scenario: &Scenario) -> Result<(), LiveError> {
    let problem = |problem: String| LiveError::Flows { scenario: scenario.name().to_owned(), problem };
    let mut media = 0;
    for flow in scenario.flows() {
        if !matches!(flow.kind, FlowKind::Media(_)) {
            return Err(problem(format!("flow {} is of kind {}", flow.id, flow.kind.name())));
        }
        media += flow.instances().count();
        if media > 1 {
            return Err(problem(format!("flow {} is a further media flow", flow.id)));
        }
    }
    if media == 0 { Err(problem("there is no flow of kind media".to_owned())) } else { Ok(()) }
}

/// Runs `scenario` with `seed` in real time, which takes its duration and about a second. When `stop` is set, the call is ended in
/// good order, and the record is that of the time until then. `watch` receives the time several times a second.
///
/// Only one run at a time is a measurement: two disturb each other. The reasons to doubt the figures are in the record's
/// [`real_time`](RunRecord::real_time).
///
/// # Errors
///
/// [`LiveError`]: the scenario has other flows than one media flow, or the sockets could not be used.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    with_timeline: bool,
    stop: &AtomicBool,
    mut watch: impl FnMut(TimeDelta),
) -> Result<RunRecord, LiveError> {
    check(scenario)?;
    let built = build::simulation_with(scenario, seed, &mut ());
    let (flow, spec) =
        built.flows.first().zip(scenario.flows().first()).ok_or(LiveError::Incomplete("flow"))?;
    let about = simulate::about_flow(flow, spec, &built);
    let mut plan = CallPlan::from_scenario(scenario, None, seed)?;
    plan.flows = (flow.start, flow.stop);
    let windows = (expect::window_of_flow(scenario, flow), expect::window_of_link(scenario));
    let links = LinkPlan::new(scenario, seed, &Ends::default())?.measuring(windows);

    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let began = StartSignal::default();
    let timeline = with_timeline.then(TimelineOptions::default);
    let settings =
        || CallSettings { timeline, interval: TimeDelta::from_millis(200), ..CallSettings::default() };
    let listener = Listener::open(local, 1, DataRate::ZERO, settings())?;
    let pair = UdpPair { listen: local, target: listener.address() };
    let options = LinkOptions {
        duration: Some(scenario.duration()),
        stop: Arc::default(),
        max_lateness: MAX_LATENESS,
        realtime: None,
        start: Some(began.clone()),
        ..LinkOptions::default()
    };
    let settings = CallSettings { began: Some(began), ..settings() };

    let relay_at = Mutex::new(None);
    let parts: Result<_, LiveError> = thread::scope(|scope| {
        let (announce, ready) = mpsc::channel::<()>();
        let relay = thread::Builder::new().spawn_scoped(scope, {
            let (links, options, relay_at) = (&links, &options, &relay_at);
            move || {
                let tell = |event: &LinkEvent| {
                    if let LinkEvent::Relay(listen) = event {
                        *relay_at.lock().unwrap_or_else(PoisonError::into_inner) = listen.first().copied();
                        // Nobody listens any more if the run has failed.
                        let _ = announce.send(());
                    }
                };
                link::relay(links, &[pair], options, tell, |_| ())
            }
        });
        let relay = relay.map_err(|_| LiveError::Incomplete("relay"))?;
        let call = || -> Result<_, LiveError> {
            let _ = ready.recv();
            let to = relay_at.lock().unwrap_or_else(PoisonError::into_inner).take();
            let to = to.ok_or(LiveError::Incomplete("relay"))?;
            let caller = Caller::open(to, plan, settings)?;
            let abort = AtomicBool::new(false);
            thread::scope(|scope| {
                let listening = thread::Builder::new().spawn_scoped(scope, || listen(listener, &abort));
                let listening = listening.map_err(|_| LiveError::Incomplete("listener"))?;
                let called = caller.run(1, (None, &mut ()), || stop.load(Relaxed), |live| watch(live.at));
                // The listener ends with the call; without one it waits for none.
                abort.store(called.is_err(), Relaxed);
                let listened = listening.join().map_err(|_| LiveError::Incomplete("listener"))?;
                let called = called?.pop().ok_or(LiveError::Incomplete("caller"))?;
                Ok((called, listened?.ok_or(LiveError::Incomplete("listener"))?))
            })
        };
        let calls = call();
        options.stop.store(true, Relaxed);
        let links: LinkRun = relay.join().map_err(|_| LiveError::Incomplete("relay"))??;
        let (called, listened) = calls?;
        Ok((called, listened, links))
    });
    let (caller, listener, links) = parts?;
    Ok(merge::merge(about, caller, listener, links.record))
}

/// Serves one call.
fn listen(mut listener: Listener, abort: &AtomicBool) -> Result<Option<CallRecord>, CallRunError> {
    let mut record = None;
    listener.run(
        true,
        (None, &mut ()),
        || abort.load(Relaxed),
        |event| {
            if let ListenerEvent::Ended(ended) = event {
                record = Some(*ended);
            }
            Verdict::Continue
        },
    )?;
    Ok(record)
}
