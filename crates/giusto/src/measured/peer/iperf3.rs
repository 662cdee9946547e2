//! iperf3: found, run, and measured.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use giusto_net::{
    Clock,
    emulate::{RelayConfig, StampingRelay, free_port},
};
use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{
    OwnReport, PeerError, PeerMeasurement, PeerRun,
    process::Process,
    report::{self, Report},
    tally::{Tally, UdpHeader},
};

/// The longest UDP payload over IPv4: 65 535 less the IPv4 and UDP headers (RFC 791, RFC 768).
const LONGEST: DataSize = DataSize::from_bytes(65_507);
/// How long it may take beyond the time that it sends.
const GRACE: TimeDelta = TimeDelta::from_seconds(10);
/// How often a server is started anew where somebody else was quicker to take its port.
const PORT_ATTEMPTS: u32 = 4;
/// The time from one look at the processes to the next.
const LOOK: Duration = Duration::from_millis(50);
/// The time from one live line to the next.
const LIVE: TimeDelta = TimeDelta::from_millis(500);
/// How long a server may take to end once its client has.
const SERVER_END: Duration = Duration::from_millis(200);

/// An installed iperf3.
///
/// # Example
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
/// use giusto::peer::{Iperf3, PeerRun};
///
/// let iperf3 = Iperf3::find(None)?;
/// let run = PeerRun { rate: Some("1 Mbit/s".parse()?), size: "200 B".parse()?, duration: "2 s".parse()? };
/// let measured = iperf3.measure(&run, &AtomicBool::new(false), |line| eprintln!("{line}"))?;
/// println!("{}: gap errors {:?}", measured.name, measured.summary.gap_error);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iperf3 {
    program: PathBuf,
    version: String,
}

impl Iperf3 {
    /// The iperf3 at `path`, else the one that a shell would find.
    ///
    /// # Errors
    ///
    /// [`PeerError`] says that there is none and how to get it, or that this is something else.
    pub fn find(path: Option<&Path>) -> Result<Self, PeerError> {
        let program = path.unwrap_or(Path::new("iperf3")).to_owned();
        let answer = answer(&program).map_err(|source| match (path, source.kind()) {
            (None, io::ErrorKind::NotFound) => PeerError::NotInstalled,
            _ => PeerError::Program { program: program.clone(), source },
        })?;
        let Some(version) = report::version(&answer).map(report::one_line) else {
            let answer = report::one_line(answer.lines().next().unwrap_or(""));
            return Err(PeerError::NotIperf3 { program, answer });
        };
        Ok(Self { program, version })
    }

    /// Its name and version, such as `iperf3 3.12`.
    pub fn name(&self) -> String {
        format!("iperf3 {}", self.version)
    }

    /// The program that is run.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Has it send UDP to itself over loopback, as `run` says, and measures the stream on the way.
    ///
    /// `on_live` gets a line twice a second. Once `stop` is true both processes are ended, and what was measured until then is
    /// the result. In no outcome does a process stay behind.
    ///
    /// # Errors
    ///
    /// [`PeerError`] names the size or rate that it cannot send, or what it complains about.
    pub fn measure(
        &self,
        run: &PeerRun,
        stop: &AtomicBool,
        mut on_live: impl FnMut(&str),
    ) -> Result<PeerMeasurement, PeerError> {
        if !(UdpHeader::SHORTEST..=LONGEST).contains(&run.size) {
            return Err(PeerError::Size { size: run.size });
        }
        if run.rate == Some(DataRate::ZERO) {
            return Err(PeerError::Rate);
        }
        let mut outcome = self.attempt(run, stop, &mut on_live);
        for _ in 1..PORT_ATTEMPTS {
            match &outcome {
                Err(PeerError::Failed { role: SERVER, reason, .. }) if reason.contains("in use") => {
                    outcome = self.attempt(run, stop, &mut on_live);
                }
                _ => break,
            }
        }
        outcome
    }

    fn attempt(
        &self,
        run: &PeerRun,
        stop: &AtomicBool,
        on_live: &mut impl FnMut(&str),
    ) -> Result<PeerMeasurement, PeerError> {
        let clock = Clock::start();
        let seconds = whole_seconds(run.duration);
        let tally = Arc::new(Mutex::new(Tally::new(run, clock)));
        let target = free_port()?;
        let observing = Arc::clone(&tally);
        let relay = StampingRelay::start(
            clock,
            &RelayConfig { target, ..RelayConfig::default() },
            move |datagram| lock(&observing).on_datagram(datagram),
        )?;
        let server = self.start(&server_arguments(target))?;
        let client = self.start(&client_arguments(run, seconds, relay.port()))?;
        let mut pair = Pair { name: self.name(), clock, server, client };
        let limit = TimeDelta::from_seconds(seconds) + GRACE;
        let end = pair.accompany(limit, stop, || {
            let line = lock(&tally).live();
            on_live(&line);
        });
        let interrupted = matches!(end, Ok(End::Interrupted));
        let report = end.and_then(|end| pair.report(end))?;

        // The client is gone: what it sent lies in the relay's socket at the latest.
        let relayed = relay.stop();
        let tally = std::mem::replace(&mut *lock(&tally), Tally::new(run, clock));
        let Report { own, sender_cpu_ratio, receiver_cpu_ratio } = report.unwrap_or_default();
        let meter = tally.finish(own.sent_packets, relayed.kernel_dropped_packets);
        let summary = meter.summary();
        if summary.received_packets == 0 && !interrupted {
            return Err(PeerError::NothingArrived { name: pair.name.clone(), size: run.size });
        }
        Ok(PeerMeasurement {
            name: pair.name.clone(),
            summary,
            sent_packets: own.sent_packets,
            sender_cpu_ratio,
            receiver_cpu_ratio,
            own_report: Some(own).filter(|own| *own != OwnReport::default()),
            relay: relayed,
            duration: TimeDelta::from_seconds(seconds),
            interrupted,
            meter,
        })
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
}

/// How a run ended where it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client ended by itself.
    Finished,
    /// We were asked to stop.
    Interrupted,
}

impl Pair {
    /// Waits until the client has ended, or is to be ended.
    fn accompany(
        &mut self,
        limit: TimeDelta,
        stop: &AtomicBool,
        mut on_live: impl FnMut(),
    ) -> Result<End, PeerError> {
        let begun = self.clock.now();
        let mut shown = begun;
        loop {
            let ended = self.client.wait(LOOK).map_err(|error| self.failed(CLIENT, &error.to_string()))?;
            if ended.is_some() {
                return Ok(End::Finished);
            }
            if stop.load(Relaxed) {
                return Ok(End::Interrupted);
            }
            self.look_after_server()?;
            let now: Timestamp = self.clock.now();
            if now - begun > limit {
                return Err(PeerError::TimedOut { name: self.name.clone(), limit });
            }
            if now - shown >= LIVE {
                shown = now;
                on_live();
            }
        }
    }

    /// A server that has failed tells why better than its client, which only sees a connection closed.
    fn look_after_server(&mut self) -> Result<(), PeerError> {
        match self.server.poll() {
            Ok(Some(status)) if !status.success() => {
                let reason = report::complaint(self.server.output().1);
                let reason = reason.unwrap_or_else(|| format!("it ended with {status}"));
                Err(self.failed(SERVER, &reason))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(SERVER, &error.to_string())),
        }
    }

    /// What the client reports; nothing of an interrupted run.
    fn report(&mut self, end: End) -> Result<Option<Report>, PeerError> {
        if end == End::Interrupted {
            self.client.end();
            self.server.end();
            return Ok(None);
        }
        let (stdout, stderr) = self.client.output();
        match Report::parse(stdout) {
            Ok(report) => Ok(Some(report)),
            Err(reason) => {
                let reason = report::complaint(stderr).unwrap_or(reason);
                // The server may be a moment behind with its reason, if it has one.
                let _ = self.server.wait(SERVER_END);
                self.look_after_server()?;
                Err(self.failed(CLIENT, &reason))
            }
        }
    }

    fn failed(&self, role: &'static str, reason: &str) -> PeerError {
        PeerError::Failed { name: self.name.clone(), role, reason: report::one_line(reason) }
    }
}

/// What `program` says when asked for its version.
fn answer(program: &Path) -> io::Result<String> {
    /// A program that takes longer is none that answers.
    const PATIENCE: TimeDelta = TimeDelta::from_seconds(5);
    let clock = Clock::start();
    let mut process = Process::start(program, &["--version"])?;
    while process.wait(LOOK)?.is_none() {
        if clock.now() - Timestamp::ZERO > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer to --version"));
        }
    }
    let (stdout, stderr) = process.output();
    Ok(if stdout.trim().is_empty() { stderr } else { stdout }.to_owned())
}

fn server_arguments(port: u16) -> Vec<String> {
    ["-s", "-1", "-B", "127.0.0.1", "-p"].map(str::to_owned).into_iter().chain([port.to_string()]).collect()
}

fn client_arguments(run: &PeerRun, seconds: i64, port: u16) -> Vec<String> {
    // iperf3 takes a rate of 0 as unlimited.
    let rate = run.rate.map_or(0, DataRate::as_bps);
    let values = [
        ("-p", port.to_string()),
        ("-b", rate.to_string()),
        ("-l", run.size.as_bytes().to_string()),
        ("-t", seconds.to_string()),
    ];
    let fixed = ["-c", "127.0.0.1", "-u", "-J"].map(str::to_owned);
    fixed.into_iter().chain(values.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value])).collect()
}

/// iperf3 knows whole seconds only, and at least one.
fn whole_seconds(duration: TimeDelta) -> i64 {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(0);
    nanos.div_ceil(NANOS_PER_SECOND).max(1).cast_signed()
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    // A tally is consistent after each datagram, whatever happened to a thread that had it.
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, thread};

    use giusto_measure::DelayBasis;

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
        let stats = fs::read_dir("/proc").unwrap().flatten();
        stats
            .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
            .filter(|stat| {
                // "id (name) state parent ..."
                let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
                stat.contains("(iperf3)") && after_name.get(1..).is_some_and(|rest| rest.starts_with(&parent))
            })
            .collect()
    }

    #[test]
    fn its_stream_is_measured_on_the_way() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        assert!(iperf3.name().starts_with("iperf3 3"));
        let mut lines = Vec::new();
        let measured =
            iperf3.measure(&RUN, &AtomicBool::new(false), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(children(), Vec::<String>::new());

        let summary = &measured.summary;
        let sent = measured.sent_packets.unwrap();
        assert!((300..=950).contains(&sent), "{sent}");
        assert_eq!((summary.received_packets, summary.lost_packets), (sent, 0), "{summary:?}");
        assert_eq!((summary.duplicate_packets, summary.reordered_packets), (0, 0));
        assert_eq!(summary.received_bytes.as_bytes(), sent * 200);
        let rates = [summary.rate_bps, measured.own_report.and_then(|own| own.received_rate_bps)];
        assert!(rates.iter().flatten().all(|rate| (0.5e6..1.5e6).contains(rate)), "{rates:?}");
        assert_eq!(rates.iter().flatten().count(), 2);
        assert_eq!(summary.gap_error.map(|errors| errors.count), Some(sent - 1));
        // Its stamps and the kernel's are of one machine.
        let delay = summary.delay.unwrap();
        assert!(delay.basis == DelayBasis::SameClock && delay.min > TimeDelta::ZERO, "{delay:?}");
        assert!(measured.sender_cpu_ratio.is_some_and(|ratio| (0.0..=2.0).contains(&ratio)));
        assert!(measured.receiver_cpu_ratio.is_some());
        assert!(!measured.interrupted && !lines.is_empty());
        // The greeting is the one datagram more.
        assert_eq!(measured.relay.observed_packets, sent + 1);
        assert_eq!(measured.meter().summary(), measured.summary);
    }

    #[test]
    fn a_stop_ends_both_processes_and_keeps_what_was_measured() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        let run = PeerRun { duration: TimeDelta::from_seconds(60), ..RUN };
        let (clock, stop) = (Clock::start(), AtomicBool::new(false));
        let measured = iperf3.measure(&run, &stop, |_| stop.store(true, Relaxed)).unwrap();
        assert!(clock.now() - Timestamp::ZERO < TimeDelta::from_seconds(10));
        assert_eq!(children(), Vec::<String>::new());
        assert!(measured.interrupted && measured.own_report.is_none());
        assert!(measured.summary.received_packets > 0);

        let measured = iperf3.measure(&run, &AtomicBool::new(true), |_| {}).unwrap();
        assert_eq!(children(), Vec::<String>::new());
        assert!(measured.interrupted);
    }

    #[test]
    fn what_it_complains_about_is_told_in_one_line() {
        let _turn = take_turn();
        let Some(iperf3) = installed() else { return };
        let run = PeerRun { duration: TimeDelta::from_seconds(100_000), ..RUN };
        let error = iperf3.measure(&run, &AtomicBool::new(false), |_| {}).unwrap_err().to_string();
        assert!(error.starts_with(&iperf3.name()) && error.contains("failed as client: "), "{error}");
        assert!(error.contains("86400") && !error.contains('\n'), "{error}");
        assert_eq!(children(), Vec::<String>::new());
    }

    #[test]
    fn only_iperf3_is_found() {
        let missing = Iperf3::find(Some(Path::new("/no/such/iperf3"))).unwrap_err();
        assert!(matches!(missing, PeerError::Program { .. }), "{missing}");
        let shell = Iperf3::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(matches!(shell, PeerError::NotIperf3 { .. }), "{shell}");
    }

    #[test]
    fn what_it_cannot_send_is_refused_before_anything_runs() {
        let iperf3 = Iperf3 { program: "/no/such/iperf3".into(), version: "3.0".to_owned() };
        let error_of = |run: PeerRun| iperf3.measure(&run, &AtomicBool::new(false), |_| {}).unwrap_err();
        for bytes in [0, 4, 15, 65_508] {
            let error = error_of(PeerRun { size: DataSize::from_bytes(bytes), ..RUN });
            assert!(matches!(error, PeerError::Size { .. }), "{error}");
        }
        assert!(matches!(error_of(PeerRun { rate: Some(DataRate::ZERO), ..RUN }), PeerError::Rate));
        assert!(matches!(error_of(RUN), PeerError::Program { .. }));
    }

    #[test]
    fn a_program_that_fails_silently_is_named_with_its_status() {
        let iperf3 = Iperf3 { program: "/bin/false".into(), version: "3.0".to_owned() };
        let error = iperf3.measure(&RUN, &AtomicBool::new(false), |_| {}).unwrap_err().to_string();
        assert_eq!(error, "iperf3 3.0 failed as server: it ended with exit status: 1");
    }

    #[test]
    fn a_client_that_does_not_end_is_ended() {
        let sleeping = || Process::start(Path::new("/bin/sleep"), &["60"]).unwrap();
        let (clock, mut shown) = (Clock::start(), 0);
        let mut pair = Pair { name: "iperf3 3.0".to_owned(), clock, server: sleeping(), client: sleeping() };
        let limit = TimeDelta::from_millis(700);
        let error = pair.accompany(limit, &AtomicBool::new(false), || shown += 1).unwrap_err();
        assert!(matches!(error, PeerError::TimedOut { .. }), "{error}");
        assert!(shown >= 1);
        // Both are killed, for else this would take a minute.
        thread::spawn(move || drop(pair)).join().unwrap();
        assert!(clock.now() - Timestamp::ZERO < TimeDelta::from_seconds(10));
    }

    #[test]
    fn it_is_asked_for_whole_seconds_and_for_no_limit_by_zero() {
        let seconds = |nanos| whole_seconds(TimeDelta::from_nanos(nanos));
        assert_eq!([-1, 0, 1, 1_000_000_000, 1_000_000_001].map(seconds), [1, 1, 1, 1, 2]);
        let arguments = client_arguments(&PeerRun { rate: None, ..RUN }, 3, 5201).join(" ");
        assert_eq!(arguments, "-c 127.0.0.1 -u -J -p 5201 -b 0 -l 200 -t 3");
        assert_eq!(server_arguments(5201).join(" "), "-s -1 -B 127.0.0.1 -p 5201");
    }
}
