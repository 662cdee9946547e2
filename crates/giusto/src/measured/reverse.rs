//! Streams in the reverse direction: the listening end sends, the requesting end measures.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Scope},
};

use giusto_net::{Clock, SocketConfig, UdpSocket, driver::pass_on};
use giusto_pace::{IpVersion, Limits};
use giusto_session::{
    keys::KeyRing,
    probe::{Receiver, ReverseStream, StreamLimits, payload::PayloadSizes},
};
use giusto_units::{DataRate, TimeDelta};

use crate::measured::{
    RunError,
    plan::{Layout, Media, Pacing, ResolvedPlan, StreamPlan, Tempo},
    result::RunResult,
    send::{self, Destination},
};

/// The longest stream that is sent on request.
const LONGEST: TimeDelta = TimeDelta::from_seconds(3600);

/// The number of results kept until [`ReverseRuns::take`], the newest.
const MAX_RESULTS: usize = 1000;

/// The streams that a receiving end sends because it was asked to.
#[derive(Debug, Clone, Default)]
pub struct ReverseRuns {
    /// The limits of each stream.
    limits: StreamLimits,
    keys: Option<KeyRing>,
    ended: Arc<Mutex<Vec<Ended>>>,
    running: Arc<AtomicUsize>,
    /// Where the running ones go, and their sockets.
    open: Arc<Mutex<Vec<Open>>>,
    halt: Arc<AtomicBool>,
}

/// Where a stream goes, and its socket.
type Open = (SocketAddr, Arc<UdpSocket>);

#[derive(Debug)]
struct Ended {
    to: SocketAddr,
    outcome: Result<RunResult, RunError>,
    /// The receiver knows that there is room for another one.
    noted: bool,
}

impl ReverseRuns {
    /// No streams yet; each stays within `limits`.
    pub(super) fn new(limits: StreamLimits, keys: Option<KeyRing>) -> Self {
        Self { limits, keys, ..Self::default() }
    }

    /// The streams that have ended since the last call: where they went, and the sender's result or why there is none.
    pub fn take(&self) -> Vec<(SocketAddr, Result<RunResult, RunError>)> {
        let mut ended = self.lock();
        let noted = ended.extract_if(.., |run| run.noted);
        noted.map(|run| (run.to, run.outcome)).collect()
    }

    /// Whether none runs at this moment.
    pub fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// Ends those that run.
    pub(super) fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }

    /// Informs the receiver of streams that have ended.
    pub(super) fn note_ended(&self, receiver: &mut Receiver) {
        for run in self.lock().iter_mut().filter(|run| !run.noted) {
            run.noted = true;
            receiver.reverse_ended(run.to);
        }
    }

    /// Sends a stream in a thread of its own, from the port of `socket`.
    pub(super) fn start<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        asked: ReverseStream,
        socket: &UdpSocket,
        clock: Clock,
        receiver: &mut Receiver,
    ) {
        let to = asked.to;
        let config = SocketConfig { sample_departures: true, ..SocketConfig::default() };
        let beside = match socket.beside(to, &config) {
            Ok(beside) => beside,
            Err(error) => return self.end(to, Err(error.into())),
        };
        pass_on(&beside, clock, receiver);
        let beside = Arc::new(beside);
        self.open().push((to, Arc::clone(&beside)));
        let runs = self.clone();
        runs.running.fetch_add(1, Ordering::Relaxed);
        let sending = thread::Builder::new().spawn_scoped(scope, move || {
            let outcome = runs.send(&asked, &beside);
            let to = runs.close(&beside).unwrap_or(to);
            runs.end(to, outcome);
            runs.running.fetch_sub(1, Ordering::Relaxed);
        });
        if sending.is_err() {
            self.open().pop();
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.end(to, Err(RunError::Thread("sending")));
        }
    }

    /// Who asked for the stream to `from` is now at `to`.
    pub(super) fn follow(&self, from: SocketAddr, to: SocketAddr) {
        if let Some((home, socket)) = self.open().iter_mut().find(|(home, _)| *home == from) {
            *home = to;
            // Where there is no route, the silence of the far end ends the stream.
            let _ = socket.reconnect(to);
        }
    }

    /// Forgets the socket of a stream that has ended; returns where it went last.
    fn close(&self, socket: &Arc<UdpSocket>) -> Option<SocketAddr> {
        let mut open = self.open();
        let index = open.iter().position(|(_, known)| Arc::ptr_eq(known, socket))?;
        Some(open.swap_remove(index).0)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, asked: &ReverseStream, socket: &UdpSocket) -> Result<RunResult, RunError> {
        let plan = self.plan(asked)?;
        let keys = self.keys.clone().filter(|_| asked.authenticated);
        let destination = Destination { keys, ..Destination::new(asked.to) };
        let run = send::over(&plan, &destination, std::slice::from_ref(socket), &self.halt, |_| {})?;
        let result = run.results(&plan).into_iter().next().unwrap_or_default();
        Ok(RunResult { to: Some(asked.to.to_string()), ..result })
    }

    fn plan(&self, asked: &ReverseStream) -> Result<ResolvedPlan, RunError> {
        let request = &asked.request;
        let limits = request.reverse.unwrap_or_default();
        let longest = self.limits.lifetime.unwrap_or(LONGEST).min(LONGEST);
        let size = request.size.ok_or(RunError::Unplanned)?;
        let layout = if asked.authenticated { Layout::Authenticated } else { Layout::Giusto };
        let plan = StreamPlan {
            media: Media::Filler(layout, PayloadSizes::Fixed(size)),
            tempo: request.rate_bps.map_or(Tempo::Max, |rate| Tempo::Rate(DataRate::from_bps(rate))),
            layer: request.layer,
            pacing: Pacing::default(),
            limits: Limits::default()
                .with_duration(limits.duration.unwrap_or(longest).min(longest))
                .with_packets(request.packets)
                .with_size([limits.payload, self.limits.size].into_iter().flatten().min()),
            content: None,
            seed: 1,
            dont_fragment: false,
            mtu_discovery: false,
        };
        plan.resolve(IpVersion::of(asked.to.ip())).map_err(|_| RunError::Unplanned)
    }

    fn end(&self, to: SocketAddr, outcome: Result<RunResult, RunError>) {
        let mut ended = self.lock();
        if ended.len() >= MAX_RESULTS {
            ended.remove(0);
        }
        ended.push(Ended { to, outcome, noted: false });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ended>> {
        // The list is consistent after each change, even if a thread panicked while it held the lock.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
