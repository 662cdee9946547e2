//! The near end of TCP load.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_net::{Clock, PathOptions, SocketError, TcpFigures, TrafficClass, connect_first, connect_tcp};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use serde::Serialize;

use super::{
    ANSWER, ASK, BLOCK, FILLER, LOAD, MAGIC, PROBE, Responsiveness, TOTAL, block_header,
    responsiveness::Samples,
};
use crate::measured::RunError;

/// How long a handshake or an answer may take.
const PATIENCE: TimeDelta = TimeDelta::from_seconds(5);
/// The time between two requests of a kind: ten a second, well below the limit of 100 in §5.1 of the draft.
const PROBES: TimeDelta = TimeDelta::from_millis(100);
/// The requests of the last four intervals of a second count (MAD in §5.3).
const COUNTED: TimeDelta = TimeDelta::from_seconds(4);
/// How long the idle path is measured.
const IDLE: TimeDelta = TimeDelta::from_seconds(1);

giusto_units::defaults! {
    /// Load by the kernel's TCP.
    #[derive(Debug, Clone)]
    pub struct TcpLoad {
        /// The number of connections.
        pub connections: usize = 1,
        /// How long they send.
        pub duration: TimeDelta = TimeDelta::from_seconds(10),
        /// The length of intervals.
        pub interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Whether responsiveness is measured, before and under the load.
        pub under_load: bool = false,
        /// Where the segments of this end leave, and what routers and switches read of them.
        pub path: PathOptions = PathOptions::default(),
        /// Their DSCP; ECN of TCP is the matter of the kernel.
        pub traffic_class: TrafficClass = TrafficClass::default(),
    }
}

/// The figures of an interval, of all connections together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TcpInterval {
    /// From the start of the load, in seconds.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// What the far end acknowledged, in bit/s; `None` where the kernel does not say.
    pub rate_bps: Option<f64>,
    /// The mean of the smoothed round-trip times of the connections at its end, in ms.
    pub rtt_ms: f64,
    /// Segments that were sent again.
    pub retransmitted_segments: u64,
    /// The sum of the congestion windows at its end, in segments.
    pub window_segments: u64,
}

/// The result of a TCP load.
#[derive(Debug, Clone, Serialize)]
pub struct TcpResult {
    /// The far end.
    pub to: String,
    /// The number of connections.
    pub connections: usize,
    /// How long they sent, in seconds.
    pub duration_s: f64,
    /// What the far end says that it received, in bytes; `None` if a connection ended without its word.
    pub received_bytes: Option<u64>,
    /// What was acknowledged over the time of sending, in bit/s.
    pub rate_bps: Option<f64>,
    /// The median of the intervals' round-trip times, in ms.
    pub rtt_p50_ms: Option<f64>,
    /// Their maximum.
    pub rtt_max_ms: Option<f64>,
    /// The smallest round-trip time that the kernel knows, in ms.
    pub rtt_min_ms: Option<f64>,
    /// Segments that were sent again.
    pub retransmitted_segments: u64,
    /// Where rate, RTT and retransmissions are from: the kernel of this end.
    pub source: &'static str,
    /// The responsiveness of the path, if it was measured.
    pub responsiveness: Option<Responsiveness>,
    /// The intervals.
    pub intervals: Vec<TcpInterval>,
    /// Why the run ended early, if it did.
    pub failure: Option<String>,
}

/// What the threads of a run share.
struct Shared<'a> {
    clock: Clock,
    /// The load has ended, or the user wants it to.
    over: &'a AtomicBool,
    /// Requests on the connections that carry the load, of which each has one answer.
    asked: AtomicUsize,
    loaded: Mutex<Vec<(Timestamp, TimeDelta)>>,
    totals: Mutex<Vec<u64>>,
    failure: Mutex<Option<String>>,
}

impl Shared<'_> {
    fn fail(&self, what: &str, error: &io::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| format!("{what}: {error}"));
        self.over.store(true, Ordering::Relaxed);
    }

    /// Starts a thread for `work`; if the system gives none, the load ends with an error. A panic here would wait for ever for the other
    /// threads, which run until `over` is set.
    fn spawn<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<thread::ScopedJoinHandle<'scope, T>> {
        let spawned = thread::Builder::new().spawn_scoped(scope, work);
        spawned.map_err(|error| self.fail("the system gives no thread for the load", &error)).ok()
    }
}

impl TcpLoad {
    /// Sends until the time is over or `stop` is set, to that of the server's addresses which accepts first (RFC 8305); `on_interval` is
    /// called after each interval.
    ///
    /// # Errors
    ///
    /// [`RunError::ConnectTcp`] where a connection cannot be made. Later errors are part of the result.
    pub fn run(
        &self,
        addresses: &[SocketAddr],
        stop: &AtomicBool,
        mut on_interval: impl FnMut(&TcpInterval),
    ) -> Result<TcpResult, RunError> {
        let failed = |error| match error {
            SocketError::Connect { source, .. } if source.kind() == io::ErrorKind::Interrupted => {
                RunError::Interrupted
            }
            SocketError::Connect { source, .. } => RunError::ConnectTcp { to: addresses.to_vec(), source },
            error => RunError::Socket(error),
        };
        let path = (&self.path, self.traffic_class);
        let (to, first) = connect_first(addresses, path, PATIENCE, stop).map_err(failed)?;
        let route = Route { to, path: &self.path, class: self.traffic_class };
        let mut first = Some(first);
        let clock = Clock::start();
        let mut idle = Samples::default();
        if self.under_load {
            // Of its handshake the race is a part: it does not count.
            if let Some(mut stream) = first.take() {
                ask(&mut stream, clock.now()).map_err(|error| failed(route.failed(error)))?;
            }
            let end = clock.now() + IDLE;
            while clock.now() < end && !stop.load(Ordering::Relaxed) {
                let next = clock.now() + PROBES;
                idle.foreign.push(route.foreign_probe(clock).map_err(failed)?);
                wait_until(clock, next, stop);
            }
        }
        let mut connections = Vec::with_capacity(self.connections);
        while connections.len() < self.connections {
            let stream = first.take().map_or_else(|| route.open(), Ok).map_err(failed)?;
            connections.push(route.prepare(stream, LOAD).map_err(failed)?);
        }
        let over = AtomicBool::new(false);
        let shared = Shared {
            clock,
            over: &over,
            asked: AtomicUsize::new(0),
            loaded: Mutex::default(),
            totals: Mutex::default(),
            failure: Mutex::default(),
        };
        let asks: Vec<AtomicBool> = connections.iter().map(|_| AtomicBool::new(false)).collect();
        let start = clock.now();
        let mut intervals = Intervals::new(start, self.interval);
        let mut load = Samples::default();
        let sent_until = thread::scope(|scope| {
            for (stream, ask) in connections.iter().zip(&asks) {
                let shared = &shared;
                shared.spawn(scope, move || send_load(stream, ask, shared));
                shared.spawn(scope, move || read_answers(stream, shared));
            }
            let probes = || foreign_probes(route, clock, &over);
            let foreign = self.under_load.then(|| shared.spawn(scope, probes)).flatten();
            let (end, mut next_ask, mut turn) = (start + self.duration, start, 0_usize);
            let mut now = start;
            while now < end && !stop.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                if self.under_load && now >= next_ask {
                    next_ask = now + PROBES;
                    if let Some(ask) = asks.get(turn % asks.len().max(1)) {
                        ask.store(true, Ordering::Relaxed);
                    }
                    turn += 1;
                }
                if let Some(interval) = intervals.on_turn(now, &connections, end) {
                    on_interval(&interval);
                }
                wait_until(clock, (now + TimeDelta::from_millis(20)).min(end), stop);
                now = clock.now();
            }
            if let Some(interval) = intervals.finish(now, &connections) {
                on_interval(&interval);
            }
            over.store(true, Ordering::Relaxed);
            if let Some(Ok((probes, failed))) = foreign.map(thread::ScopedJoinHandle::join) {
                load.failed = failed;
                let counted = probes.into_iter().filter(|(at, _)| *at + COUNTED >= now);
                load.foreign = counted.map(|(_, probe)| probe).collect();
            }
            now
        });
        let Shared { loaded, totals, failure, .. } = shared;
        let loaded = loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let counted = loaded.into_iter().filter(|(at, _)| *at + COUNTED >= sent_until);
        load.loaded = counted.map(|(_, rtt)| rtt).collect();
        let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
        let interrupted = stop.load(Ordering::Relaxed).then(|| "interrupted".to_owned());
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner).or(interrupted);
        let mut result = intervals.result(sent_until);
        result.to = to.to_string();
        result.connections = self.connections;
        result.received_bytes = (totals.len() == self.connections).then(|| totals.iter().sum());
        result.responsiveness = self.under_load.then(|| Responsiveness::new(&idle, &load));
        result.failure = failure;
        Ok(result)
    }
}

/// How the far end is reached.
#[derive(Debug, Clone, Copy)]
struct Route<'a> {
    to: SocketAddr,
    path: &'a PathOptions,
    class: TrafficClass,
}

impl Route<'_> {
    fn open(&self) -> Result<TcpStream, SocketError> {
        connect_tcp(self.to, self.path, self.class, PATIENCE.to_std())
    }

    fn failed(&self, source: io::Error) -> SocketError {
        SocketError::Connect { address: self.to, source }
    }

    /// Makes it a connection of a kind.
    fn prepare(&self, mut stream: TcpStream, kind: u8) -> Result<TcpStream, SocketError> {
        let mut prepare = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE.to_std()))?;
            stream.set_write_timeout(Some(Duration::from_millis(200)))?;
            stream.write_all(&[&MAGIC[..], &[kind]].concat())
        };
        prepare().map_err(|error| self.failed(error))?;
        Ok(stream)
    }

    /// The time of a handshake, and of a request on the new connection.
    fn foreign_probe(&self, clock: Clock) -> Result<(TimeDelta, TimeDelta), SocketError> {
        let begun = clock.now();
        let mut stream = self.open()?;
        let connected = clock.now();
        ask(&mut stream, begun).map_err(|error| self.failed(error))?;
        Ok((connected - begun, clock.now() - connected))
    }
}

/// A request and its answer.
fn ask(stream: &mut TcpStream, begun: Timestamp) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE.to_std()))?;
    let mut request = MAGIC.to_vec();
    request.push(PROBE);
    request.extend(begun.as_nanos().to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer)?;
    if answer.get(1..) != request.get(MAGIC.len() + 1..) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not that of giusto recv --accept tcp",
        ));
    }
    Ok(())
}

/// Probes until the load is over: the time of each, and how many failed.
type ForeignProbes = (Vec<(Timestamp, (TimeDelta, TimeDelta))>, usize);

fn foreign_probes(route: Route<'_>, clock: Clock, over: &AtomicBool) -> ForeignProbes {
    let (mut probes, mut failed) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let begun = clock.now();
        match route.foreign_probe(clock) {
            Ok(probe) => probes.push((begun, probe)),
            Err(_) => failed += 1,
        }
        wait_until(clock, begun + PROBES, over);
    }
    (probes, failed)
}

/// Sends blocks until the load is over, and a request where one is asked for.
fn send_load(mut stream: &TcpStream, ask: &AtomicBool, shared: &Shared<'_>) {
    let mut block = block_header(FILLER, BLOCK).to_vec();
    // Nothing on the way can compress it: a sequence by a generator of MINSTD (Park and Miller, CACM 31(10), 1988).
    block.extend((0..BLOCK).scan(1_u64, |state, _| {
        *state = *state * 48_271 % 2_147_483_647;
        Some((*state >> 8) as u8)
    }));
    let mut outcome = Ok(());
    while outcome.is_ok() && !shared.over.load(Ordering::Relaxed) {
        outcome = if ask.swap(false, Ordering::Relaxed) {
            let mut request = block_header(ASK, ANSWER - 1).to_vec();
            request.extend(shared.clock.now().as_nanos().to_be_bytes());
            shared.asked.fetch_add(1, Ordering::Relaxed);
            write_patiently(&mut stream, &request)
        } else {
            write_patiently(&mut stream, &block)
        };
    }
    match outcome {
        Ok(()) => drop(stream.shutdown(Shutdown::Write)),
        Err(error) => shared.fail("the connection broke while sending", &error),
    }
}

/// Writes all of it, however long the window is closed; a connection that is dead ends by an error of the kernel's.
fn write_patiently(stream: &mut &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let mut waits = 0;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                waits = 0;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                waits += 1;
                // 200 ms each: after 10 s without any progress the far end is gone.
                if waits > 50 {
                    return Err(error);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads answers until the far end has said how much it received.
fn read_answers(mut stream: &TcpStream, shared: &Shared<'_>) {
    let mut bytes = [0; ANSWER];
    loop {
        match stream.read_exact(&mut bytes) {
            Ok(()) => {}
            // Without requests there are no answers; a part of one is not waited for twice.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
                    && !shared.over.load(Ordering::Relaxed) =>
            {
                continue;
            }
            Err(error) => return shared.fail("the far end did not say how much it received", &error),
        }
        let [kind, number @ ..] = bytes;
        let number = u64::from_be_bytes(number);
        let now = shared.clock.now();
        if kind == TOTAL {
            return shared.totals.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
        // A far end that makes numbers up makes only its own figure wrong.
        let rtt = now.saturating_since(Timestamp::from_nanos(number));
        let mut loaded = shared.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.len() >= shared.asked.load(Ordering::Relaxed) {
            return shared.fail("the far end answered", &io::Error::other("it was not asked"));
        }
        loaded.push((now, rtt));
    }
}

/// Waits; a flag ends it within 20 ms.
fn wait_until(clock: Clock, end: Timestamp, stop: &AtomicBool) {
    const PIECE: Duration = Duration::from_millis(20);
    loop {
        let left = end.saturating_since(clock.now());
        if left == TimeDelta::ZERO || stop.load(Ordering::Relaxed) {
            return;
        }
        thread::park_timeout(left.to_std().min(PIECE));
    }
}

/// The sums of all connections.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    acked: Option<u64>,
    retransmitted: u64,
    window: u64,
    rtt_ms: f64,
    min_rtt_ms: Option<f64>,
}

impl Sums {
    fn of(connections: &[TcpStream]) -> Self {
        let figures: Vec<TcpFigures> =
            connections.iter().filter_map(|stream| TcpFigures::of(stream).ok()).collect();
        let minimum = figures.iter().filter_map(|figures| figures.min_rtt).min();
        let rtts: f64 = figures.iter().map(|figures| figures.rtt.as_millis()).sum();
        Self {
            acked: figures.iter().map(|figures| figures.acked.map(DataSize::as_bytes)).sum(),
            retransmitted: figures.iter().map(|figures| u64::from(figures.retransmitted_segments)).sum(),
            window: figures.iter().map(|figures| u64::from(figures.window_segments)).sum(),
            rtt_ms: rtts / figures.len().max(1) as f64,
            min_rtt_ms: minimum.map(TimeDelta::as_millis),
        }
    }
}

struct Intervals {
    start: Timestamp,
    length: TimeDelta,
    begun: Timestamp,
    before: Sums,
    latest: Sums,
    all: Vec<TcpInterval>,
}

impl Intervals {
    fn new(start: Timestamp, length: TimeDelta) -> Self {
        Self {
            start,
            length,
            begun: start,
            before: Sums::default(),
            latest: Sums::default(),
            all: Vec::new(),
        }
    }

    /// The interval that has ended, if one has; the last one ends with the load.
    fn on_turn(&mut self, now: Timestamp, connections: &[TcpStream], end: Timestamp) -> Option<TcpInterval> {
        (now >= self.begun + self.length && self.begun + self.length < end)
            .then(|| self.close(now, connections))
    }

    fn finish(&mut self, now: Timestamp, connections: &[TcpStream]) -> Option<TcpInterval> {
        (now > self.begun).then(|| self.close(now, connections))
    }

    fn close(&mut self, now: Timestamp, connections: &[TcpStream]) -> TcpInterval {
        let sums = Sums::of(connections);
        let seconds = (now - self.begun).as_seconds().max(1e-9);
        // In the first interval nothing was acknowledged before.
        let before = self.before.acked.unwrap_or(0);
        let interval = TcpInterval {
            start_s: (self.begun - self.start).as_seconds(),
            end_s: (now - self.start).as_seconds(),
            rate_bps: sums.acked.map(|acked| acked.saturating_sub(before) as f64 * 8.0 / seconds),
            rtt_ms: sums.rtt_ms,
            retransmitted_segments: sums.retransmitted.saturating_sub(self.before.retransmitted),
            window_segments: sums.window,
        };
        (self.begun, self.before, self.latest) = (now, sums, sums);
        self.all.push(interval);
        interval
    }

    fn result(self, end: Timestamp) -> TcpResult {
        let seconds = (end - self.start).as_seconds().max(1e-9);
        let mut rtts: Vec<f64> = self.all.iter().map(|interval| interval.rtt_ms).collect();
        rtts.sort_unstable_by(f64::total_cmp);
        TcpResult {
            to: String::new(),
            connections: 0,
            duration_s: seconds,
            received_bytes: None,
            rate_bps: self.latest.acked.map(|acked| acked as f64 * 8.0 / seconds),
            rtt_p50_ms: rtts.get(rtts.len() / 2).copied(),
            rtt_max_ms: rtts.last().copied(),
            rtt_min_ms: self.latest.min_rtt_ms,
            retransmitted_segments: self.latest.retransmitted,
            source: "kernel (TCP_INFO)",
            responsiveness: None,
            intervals: self.all,
            failure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn answers_without_requests_end_the_load() {
        for (answers, failure) in [(0, None), (1, Some("the far end answered: it was not asked"))] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let to = listener.local_addr().unwrap();
            let far_end = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&super::super::answer(ASK, 0).repeat(answers)).unwrap();
                let _ = io::copy(&mut stream, &mut io::sink());
                let _ = stream.write_all(&super::super::answer(TOTAL, 7));
            });
            let load = TcpLoad { duration: TimeDelta::from_millis(500), ..TcpLoad::default() };
            let result = load.run(&[to], &AtomicBool::new(false), |_| {}).unwrap();
            assert_eq!(result.failure.as_deref(), failure);
            assert_eq!(result.received_bytes, failure.is_none().then_some(7));
            far_end.join().unwrap();
        }
    }
}
