//! Streams to a giusto receiver, from it, or both at the same time.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use giusto_net::driver::Verdict;
use giusto_pace::IpVersion;
use giusto_session::probe::{Ended, ReceiverEvent};
use giusto_units::TimeDelta;

use crate::measured::{
    RunError,
    interval::ReceptionIntervals,
    live::{Arrived, Client, Live, Outcome},
    plan::{ResolvedPlan, StreamPlan},
    race::{choose, first_receiver, first_with_route},
    recv::{self, Reception},
    result::RunResult,
    send::{self, Destination, Transmission},
};

/// How long the far end may take to begin what it has agreed to.
const BEGINS: TimeDelta = TimeDelta::from_seconds(5);

/// How long the receiver answers a sender that has not got the final report.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end.
    Forward,
    /// The far end.
    Reverse,
    /// Both.
    Both,
}

/// What is sent, and how.
#[derive(Debug, Clone)]
pub struct Streams {
    /// The plan of each stream.
    pub plan: StreamPlan,
    /// Who sends.
    pub direction: Direction,
    /// The far end; the address is that of [`Client::run`].
    pub destination: Destination,
}

impl Client for Streams {
    fn run(
        &self,
        addresses: &[SocketAddr],
        stop: &AtomicBool,
        on_live: &mut dyn FnMut(&Live),
    ) -> Result<(SocketAddr, Outcome), RunError> {
        let to = self.far_end(addresses, stop)?;
        Ok((to, self.run_to(to, stop, on_live)?))
    }
}

impl Streams {
    /// The address of the receiver: the first that answers.
    fn far_end(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<SocketAddr, RunError> {
        let race = |all: &[SocketAddr]| {
            if self.destination.one_way {
                Ok(first_with_route(all, &self.destination.path))
            } else {
                first_receiver(all, &self.destination, stop)
            }
        };
        choose(addresses, ("giusto receiver", "giusto recv"), race, stop)
    }

    fn run_to(
        &self,
        to: SocketAddr,
        stop: &AtomicBool,
        on_live: &mut dyn FnMut(&Live),
    ) -> Result<Outcome, RunError> {
        let plan = self.plan.resolve(IpVersion::of(to.ip()))?;
        let destination = Destination { to, ..self.destination.clone() };
        if self.direction == Direction::Forward {
            let run = send::run(&plan, &destination, stop, on_live)?;
            return Ok(Outcome::of_streams(run.results(&plan), run.failure()));
        }
        let mut reception = Reception::ask(&plan, &destination, stop)?;
        let (sent, received) = thread::scope(|scope| {
            let sending = (self.direction == Direction::Both).then(|| {
                let alone = Destination { interval: None, ..destination.clone() };
                let plan = &plan;
                thread::Builder::new().spawn_scoped(scope, move || send::run(plan, &alone, stop, |_| {}))
            });
            let received = measure(&mut reception, destination.interval, stop, on_live);
            let sent = sending.map(|thread| {
                let sent = thread.ok().and_then(|thread| thread.join().ok());
                sent.unwrap_or(Err(RunError::Thread("sending")))
            });
            received.map(|received| (sent.transpose(), received))
        })?;
        // The far end has answered: a failure of sending costs what was received nothing, and no other address is tried.
        let (sent, failure) = match sent {
            Ok(sent) => (sent, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let failure = failure.or_else(|| sent.as_ref().and_then(Transmission::failure));
        let failure = failure.or_else(|| match &received {
            _ if stop.load(Ordering::Relaxed) => None,
            Some((Some(Ended::Finished), result)) => cut_short(&plan, result),
            Some(_) => Some("the sender there disappeared".to_owned()),
            None => Some(format!(
                "it agreed to send, but nothing arrived within {BEGINS}: is UDP blocked on the path?"
            )),
        });
        let sent = sent.map(|sent| sent.results(&plan)).unwrap_or_default();
        let results = sent.into_iter().chain(received.map(|(_, result)| result)).collect();
        Ok(Outcome::of_streams(results, failure))
    }
}

/// That the far end has ended its stream long before what was asked for, if it has.
fn cut_short(plan: &ResolvedPlan, received: &RunResult) -> Option<String> {
    /// The share of the datagrams that may be missing, beside the last cycles.
    const SHORT: f64 = 0.05;
    let asked = plan.datagrams()?;
    let skipped = received.slips.map_or(0, |slips| slips.skipped_packets);
    let had =
        received.sent_packets?.saturating_add(skipped).saturating_add(received.unsent_packets.unwrap_or(0));
    let few = (had.saturating_add(2) as f64) < asked as f64 * (1.0 - SHORT);
    few.then(|| {
        format!(
            "the far end ended its stream after {had} of {asked} datagrams: it was stopped, or it limits streams (--max-lifetime, \
             --max-bytes)"
        )
    })
}

/// Measures the stream that comes. Without one for [`BEGINS`] there is nothing to return.
fn measure(
    reception: &mut Reception,
    interval: Option<TimeDelta>,
    stop: &AtomicBool,
    mut on_live: impl FnMut(&Live),
) -> Result<Option<(Option<Ended>, RunResult)>, RunError> {
    let granted = reception.socket.granted();
    let clock = reception.clock;
    let mut intervals = interval.map(ReceptionIntervals::new);
    let mut end = Some(clock.now() + BEGINS);
    let mut measured = None;
    reception.run(stop, |receiver, event| {
        let now = clock.now();
        let interval = intervals.as_mut().and_then(|all| all.on_event(now, receiver, event.as_ref(), None));
        let arrived = Some(Arrived::Streams(recv::live(receiver)));
        on_live(&Live { sent_packets: None, arrived, interval: interval.map(Into::into) });
        match event {
            Some(ReceiverEvent::Opened(_)) => end = None,
            Some(ReceiverEvent::Closed(_, mut stream)) => {
                let result = recv::result(&mut stream, receiver.cpu_ratio(), &granted);
                let linger = if stream.ended() == Some(Ended::Finished) { LINGER } else { TimeDelta::ZERO };
                end = Some(now + linger);
                measured = Some((stream.ended(), result));
            }
            _ => {}
        }
        if end.is_some_and(|end| now >= end) { Verdict::Stop } else { Verdict::Continue }
    })?;
    if let Some((_, result)) = &mut measured {
        reception.add_absences(result);
        result.doubts = result.find_doubts();
    }
    Ok(measured)
}
