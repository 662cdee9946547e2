//! iperf3: finds it, runs it, measures it.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use giusto_measure::ErrorHistogram;
use giusto_net::{
    Clock,
    emulate::{RelayConfig, StampingRelay, free_port},
};
use giusto_session::iperf3::{HEADER_BYTES, MAX_DATAGRAM_BYTES};
use giusto_units::{DataRate, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{
    PeerError, PeerMeasurement, PeerReport, PeerRun,
    process::Process,
    report::{complaint, one_line, version},
    tally::Tally,
};
use crate::measured::result::LiveFigures;

/// How long a run may take beyond the time that it sends.
const GRACE: TimeDelta = TimeDelta::from_seconds(10);
/// How often a server is started again where another program took its port first.
const PORT_ATTEMPTS: u32 = 4;
/// The time between two checks of the processes. It is short so that in a second there are enough wake-ups to say how late this
/// machine is.
const LOOK: TimeDelta = TimeDelta::from_millis(5);
/// The time between two calls with live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(500);
/// How long a server may take to end after its client.
const SERVER_END: Duration = Duration::from_millis(200);

/// An installed iperf3.
///
/// # Example
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
/// use giusto::measured::peer::{Iperf3, PeerRun};
///
/// let iperf3 = Iperf3::find(None)?;
/// let run = PeerRun { rate: Some("1 Mbit/s".parse()?), size: "200 B".parse()?, duration: "2 s".parse()? };
/// let measured = iperf3.measure(&run, &AtomicBool::new(false), |live| eprintln!("{} bit/s", live.rate_bps))?;
/// println!("{}: gap errors {:?}", measured.name, measured.summary.gap_error);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iperf3 {
    program: PathBuf,
    version: String,
}

impl Iperf3 {
    /// The iperf3 at `path`, or the one on the path.
    ///
    /// # Errors
    ///
    /// [`PeerError`] where there is none, or where the program is not iperf3.
    pub fn find(path: Option<&Path>) -> Result<Self, PeerError> {
        let program = path.unwrap_or(Path::new("iperf3")).to_owned();
        let answer = answer(&program).map_err(|source| match (path, source.kind()) {
            (None, io::ErrorKind::NotFound) => PeerError::NotInstalled,
            _ => PeerError::Program { program: program.clone(), source },
        })?;
        if let Some(version) = version(&answer) {
            return Ok(Self { program, version: one_line(version) });
        }
        let answer = one_line(answer.lines().next().unwrap_or(""));
        Err(PeerError::NotIperf3 { program, answer })
    }

    /// Its name and version, such as `iperf3 3.12`.
    pub fn name(&self) -> String {
        format!("iperf3 {}", self.version)
    }

    /// Makes it send UDP to itself over loopback, and measures the stream on the way.
    ///
    /// `on_live` is called twice a second. Once `stop` is true both processes are killed, and the result covers the time until
    /// then. No process outlives the call.
    ///
    /// # Errors
    ///
    /// [`PeerError`] names the size or rate that it cannot send, or its own error.
    pub fn measure(
        &self,
        run: &PeerRun,
        stop: &AtomicBool,
        mut on_live: impl FnMut(&LiveFigures),
    ) -> Result<PeerMeasurement, PeerError> {
        if !(HEADER_BYTES as u64..=MAX_DATAGRAM_BYTES).contains(&run.size.as_bytes()) {
            return Err(PeerError::Size { size: run.size });
        }
        if run.rate == Some(DataRate::ZERO) {
            return Err(PeerError::Rate);
        }
        let mut again = 1..PORT_ATTEMPTS;
        loop {
            match self.attempt(run, stop, &mut on_live) {
                Err(PeerError::Failed { role: SERVER, reason, .. })
                    if reason.contains("in use") && again.next().is_some() => {}
                outcome => return outcome,
            }
        }
    }

    fn attempt(
        &self,
        run: &PeerRun,
        stop: &AtomicBool,
        on_live: &mut impl FnMut(&LiveFigures),
    ) -> Result<PeerMeasurement, PeerError> {
        let clock = Clock::start();
        let seconds = whole_seconds(run.duration);
        let tally = Arc::new(Mutex::new(Tally::new(run, clock)));
        let target = free_port()?;
        let observing = Arc::clone(&tally);
        let config = RelayConfig { target, ..RelayConfig::default() };
        let relay =
            StampingRelay::start(clock, &config, move |datagram| lock(&observing).on_datagram(datagram))?;
        let server = self.start(&server_arguments(target))?;
        let client = self.start(&client_arguments(run, seconds, relay.port()))?;
        let wake_latency = ErrorHistogram::new();
        let mut pair = Pair { name: self.name(), clock, server, client, wake_latency };
        let limit = TimeDelta::from_seconds(seconds) + GRACE;
        let ended = pair.wait(limit, stop, || on_live(&lock(&tally).live()))?;
        let report = ended.map(|_| pair.report()).transpose()?;
        let wake_latency = pair.wake_latency.clone();
        drop(pair);

        // The client has ended: what it sent waits in the relay's socket at the latest.
        let relay = relay.stop();
        let sent = report.and_then(|report| report.sent_packets);
        let summary = lock(&tally).finish(sent, relay.kernel_dropped_packets);
        if summary.received_packets == 0 && report.is_some() {
            return Err(PeerError::NothingArrived { name: self.name(), size: run.size });
        }
        let duration = TimeDelta::from_seconds(seconds);
        Ok(PeerMeasurement { name: self.name(), summary, report, relay, duration, wake_latency })
    }

    fn start(&self, arguments: &[String]) -> Result<Process, PeerError> {
        Process::start(&self.program, arguments)
            .map_err(|source| PeerError::Program { program: self.program.clone(), source })
    }
}

const CLIENT: &str = "client";
const SERVER: &str = "server";

/// A client and its server. Dropping it ends both.
#[derive(Debug)]
struct Pair {
    name: String,
    clock: Clock,
    server: Process,
    client: Process,
    /// How late this machine wakes a thread meanwhile.
    wake_latency: ErrorHistogram,
}

impl Pair {
    /// Waits until the client has ended by itself; `None` where `stop` was set before.
    fn wait(
        &mut self,
        limit: TimeDelta,
        stop: &AtomicBool,
        mut on_live: impl FnMut(),
    ) -> Result<Option<ExitStatus>, PeerError> {
        let begun = self.clock.now();
        let mut shown = begun;
        loop {
            let at = self.clock.now() + LOOK;
            let ended =
                self.client.wait(LOOK.to_std()).map_err(|error| self.failed(CLIENT, &error.to_string()))?;
            self.wake_latency.record(self.clock.now().saturating_since(at));
            if ended.is_some() || stop.load(Relaxed) {
                return Ok(ended);
            }
            self.check_server()?;
            let now = self.clock.now();
            if now - begun > limit {
                return Err(PeerError::TimedOut { name: self.name.clone(), limit });
            }
            if now - shown >= LIVE {
                shown = now;
                on_live();
            }
        }
    }

    /// A server that has failed names the reason; its client only sees a closed connection.
    fn check_server(&mut self) -> Result<(), PeerError> {
        let reason = match self.server.poll() {
            Ok(Some(status)) if !status.success() => {
                complaint(&self.server.output().1).unwrap_or_else(|| status.to_string())
            }
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        };
        Err(self.failed(SERVER, &reason))
    }

    /// The report of a client that has ended.
    fn report(&mut self) -> Result<PeerReport, PeerError> {
        let (stdout, stderr) = self.client.output();
        PeerReport::parse(&stdout).or_else(|reason| {
            // The server may be a moment late with its reason, if it has one.
            let _ = self.server.wait(SERVER_END);
            self.check_server()?;
            Err(self.failed(CLIENT, &complaint(&stderr).unwrap_or(reason)))
        })
    }

    fn failed(&self, role: &'static str, reason: &str) -> PeerError {
        PeerError::Failed { name: self.name.clone(), role, reason: one_line(reason) }
    }
}

/// The answer of `program` to `--version`.
fn answer(program: &Path) -> io::Result<String> {
    const TIMEOUT: TimeDelta = TimeDelta::from_seconds(5);
    let clock = Clock::start();
    let mut process = Process::start(program, &["--version"])?;
    while process.wait(LOOK.to_std())?.is_none() {
        if clock.now() - Timestamp::ZERO > TIMEOUT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer to --version within 5 s"));
        }
    }
    let (stdout, stderr) = process.output();
    Ok(if stdout.trim().is_empty() { stderr } else { stdout })
}

fn server_arguments(port: u16) -> Vec<String> {
    ["-s", "-1", "-B", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec()
}

fn client_arguments(run: &PeerRun, seconds: i64, port: u16) -> Vec<String> {
    // iperf3 takes a rate of 0 as unlimited.
    let rate = run.rate.map_or(0, DataRate::as_bps);
    let size = run.size.as_bytes();
    let line = format!("-c 127.0.0.1 -u -J -p {port} -b {rate} -l {size} -t {seconds}");
    line.split(' ').map(str::to_owned).collect()
}

/// iperf3 takes whole seconds, at least one.
fn whole_seconds(duration: TimeDelta) -> i64 {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(0);
    nanos.div_ceil(NANOS_PER_SECOND).max(1).cast_signed()
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    // A tally is consistent after each datagram, even if a thread panicked while it held the lock.
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, thread};

    use giusto_measure::DelayBasis;
    use giusto_units::DataSize;

    use super::*;

    const RUN: PeerRun = PeerRun {
        rate: Some(DataRate::from_bps(1_000_000)),
        size: DataSize::from_bytes(200),
        duration: TimeDelta::from_seconds(1),
    };

    /// Tests that look at this process's children take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn take_turn() -> std::sync::MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The iperf3 of this machine. Where there is none, that is said in spite of captured output.
    fn installed() -> Option<Iperf3> {
        match Iperf3::find(None) {
            Ok(iperf3) => Some(iperf3),
            Err(PeerError::NotInstalled) => {
                let _ = writeln!(io::stderr(), "SKIPPED iperf3 not installed");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Children of this process whose program is named `iperf3`.
    fn children() -> Vec<String> {
        let parent = format!(" {} ", std::process::id());
        // "id (name) state parent ..."
        let is_child = |stat: &String| {
            let after_name = stat.split_once("(iperf3) ").map_or("", |(_, rest)| rest);
            after_name.get(1..).is_some_and(|rest| rest.starts_with(&parent))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|own| fs::read_to_string(own.path().join("stat")).ok()).filter(is_child).collect()
    }

    #[test]
    fn a_run_is_measured_on_the_way() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        assert!(iperf3.name().starts_with("iperf3 3"));
        let mut live = Vec::new();
        let measured = iperf3.measure(&RUN, &AtomicBool::new(false), |figures| live.push(*figures)).unwrap();
        // A busy machine has fewer.
        let wakes = measured.wake_latency.count();
        assert!((10..=1_000_000).contains(&wakes), "{wakes}");
        let report = measured.report.unwrap();
        assert_eq!(children(), Vec::<String>::new());

        let summary = &measured.summary;
        let sent = report.sent_packets.unwrap();
        assert!((1..=950).contains(&sent), "at most 1.5 times what the rate gives: {sent}");
        assert_eq!((summary.received_packets, summary.lost_packets), (sent, 0), "{summary:?}");
        assert_eq!((summary.duplicate_packets, summary.reordered_packets), (0, 0));
        assert_eq!(summary.received_bytes.as_bytes(), sent * 200);
        assert!(summary.rate_bps.is_some() && report.sent_rate_bps.is_some());
        assert!(report.received_rate_bps.is_some());
        assert_eq!(summary.gap_error.map(|errors| errors.count), Some(sent - 1));
        // Its stamps and the kernel's are of one machine.
        let delay = summary.delay.unwrap();
        assert!(delay.basis == DelayBasis::SameClock && delay.min > TimeDelta::ZERO, "{delay:?}");
        assert!(report.sender_cpu_ratio.is_some_and(|ratio| (0.0..=2.0).contains(&ratio)));
        assert!(report.receiver_cpu_ratio.is_some());
        assert!(live.is_sorted_by_key(|figures| figures.received_packets) && !live.is_empty());
        // The greeting is the one datagram more.
        assert_eq!(measured.relay.observed_packets, sent + 1);
    }

    #[test]
    fn a_stop_kills_both_processes_and_keeps_the_figures() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        let run = PeerRun { duration: TimeDelta::from_seconds(60), ..RUN };
        let (clock, stop) = (Clock::start(), AtomicBool::new(false));
        let stop_once_received = |live: &LiveFigures| stop.store(live.received_packets > 0, Relaxed);
        let measured = iperf3.measure(&run, &stop, stop_once_received).unwrap();
        assert!(clock.now() - Timestamp::ZERO < TimeDelta::from_seconds(10));
        assert_eq!(children(), Vec::<String>::new());
        assert!(measured.report.is_none());
        assert!(measured.summary.received_packets > 0);

        let measured = iperf3.measure(&run, &AtomicBool::new(true), |_| {}).unwrap();
        assert_eq!(children(), Vec::<String>::new());
        assert!(measured.report.is_none());
    }

    #[test]
    fn an_error_of_iperf3_is_one_line() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        let run = PeerRun { duration: TimeDelta::from_seconds(100_000), ..RUN };
        let error = iperf3.measure(&run, &AtomicBool::new(false), |_| {}).unwrap_err().to_string();
        assert!(error.starts_with(&iperf3.name()) && error.contains("failed as client: "), "{error}");
        assert!(error.contains("86400") && !error.contains('\n'), "{error}");
        assert_eq!(children(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_iperf3_or_no_stream_is_refused_at_once() {
        let missing = Iperf3::find(Some(Path::new("/no/such/iperf3"))).unwrap_err();
        assert!(matches!(missing, PeerError::Program { .. }), "{missing}");
        let shell = Iperf3::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(matches!(shell, PeerError::NotIperf3 { .. }), "{shell}");
        let error_of = |program: &str, run: PeerRun| {
            let iperf3 = Iperf3 { program: program.into(), version: "3.0".to_owned() };
            iperf3.measure(&run, &AtomicBool::new(false), |_| {}).unwrap_err()
        };
        for bytes in [0, 4, 15, 65_508] {
            let error = error_of("/no/iperf3", PeerRun { size: DataSize::from_bytes(bytes), ..RUN });
            assert!(matches!(error, PeerError::Size { .. }), "{error}");
        }
        let without_rate = PeerRun { rate: Some(DataRate::ZERO), ..RUN };
        assert!(matches!(error_of("/no/iperf3", without_rate), PeerError::Rate));
        assert!(matches!(error_of("/no/iperf3", RUN), PeerError::Program { .. }));
        let silent = error_of("/bin/false", RUN).to_string();
        assert_eq!(silent, "iperf3 3.0 failed as server: exit status: 1");
    }

    #[test]
    fn a_client_that_does_not_end_is_killed() {
        let sleeping = || Process::start(Path::new("/bin/sleep"), &["60"]).unwrap();
        let (clock, mut shown) = (Clock::start(), 0);
        let (name, wake_latency) = ("iperf3 3.0".to_owned(), ErrorHistogram::new());
        let mut pair = Pair { name, clock, server: sleeping(), client: sleeping(), wake_latency };
        let limit = TimeDelta::from_millis(700);
        let error = pair.wait(limit, &AtomicBool::new(false), || shown += 1).unwrap_err();
        assert!(matches!(error, PeerError::TimedOut { .. }), "{error}");
        assert!(shown >= 1);
        // Both are killed, for else this would take a minute.
        thread::spawn(move || drop(pair)).join().unwrap();
        assert!(clock.now() - Timestamp::ZERO < TimeDelta::from_seconds(10));
    }

    #[test]
    fn arguments_hold_whole_seconds_and_rate_0_for_max() {
        let seconds = |nanos| whole_seconds(TimeDelta::from_nanos(nanos));
        assert_eq!([-1, 0, 1, 1_000_000_000, 1_000_000_001].map(seconds), [1, 1, 1, 1, 2]);
        let arguments = client_arguments(&PeerRun { rate: None, ..RUN }, 3, 5201).join(" ");
        assert_eq!(arguments, "-c 127.0.0.1 -u -J -p 5201 -b 0 -l 200 -t 3");
        assert_eq!(server_arguments(5201).join(" "), "-s -1 -B 127.0.0.1 -p 5201");
    }
}
