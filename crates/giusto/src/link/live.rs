//! Runs in real time.

use std::{
    ffi::OsString,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::ControlFlow,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use giusto_measure::ErrorHistogram;
use giusto_net::{
    Clock, SleeperConfig, SleeperReport, SocketError,
    emulate::{
        self, Emulator, EmulatorError, InterfaceError, LiveConfig, LiveReport, Namespace, NamespaceError,
        Shell, Start, StartSignal, Supervised, TunConfig, TunDevice, TunShell, UdpPair, UdpRelay,
        UdpRelayReport,
    },
    system::Granted,
};
use giusto_sim::{
    link::Link,
    packet::LinkId,
    record::{Lateness, RealTimeRecord, RecordedRun, Recorder, RunRecord},
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use serde::Serialize;

use super::plan::LinkPlan;
use crate::trust::Late;

/// The content of all packets inside at most: a second at 2 Gbit/s.
const MEMORY: DataSize = DataSize::from_bytes(256_000_000);
/// How often the state is reported.
const REPORT: TimeDelta = TimeDelta::from_millis(1_000);
/// How often the command is looked after.
const LOOK: TimeDelta = TimeDelta::from_millis(20);
/// The longest time that the program on the far side has to open a socket before the command starts.
const LISTEN: TimeDelta = TimeDelta::from_millis(1_000);
/// The smallest MTU with IPv6: RFC 8200 §5.
const MIN_IPV6_MTU: u16 = 1280;

giusto_units::defaults! {
    /// Options of every run.
    #[derive(Debug, Clone)]
    pub struct LinkOptions {
        /// The end of the run, from its start. Default: none.
        pub duration: Option<TimeDelta> = None,
        /// Ends the run early once it is true.
        pub stop: Arc<AtomicBool> = Arc::default(),
        /// The bound on the 99th percentile of the lateness; beyond it the figures are doubted. Default: 500 µs.
        pub max_lateness: TimeDelta = TimeDelta::from_micros(500),
        /// Priority for the real-time class `SCHED_FIFO`, 1 to 99, if it is to be requested. Default: `None`.
        pub realtime: Option<u8> = None,
        /// Of a relay: when the time of the links begins. From there to the end of the duration, RTP and RTCP cross the links; all other
        /// datagrams pass at once, and only `stop` ends the run. Default: `None`: with the first datagram of a relay that belongs to no
        /// handshake (giusto's own, DTLS, STUN), or with the command.
        pub start: Option<StartSignal> = None,
        /// The time of the links begins with the first RTP or RTCP datagram. What comes before passes at once. Default: only if the first
        /// packet of a command is of a call's handshake.
        pub with_media: bool = false,
        /// With a duration, a relay ends after this time, or the duration if that is longer, without a datagram that begins the time of the
        /// links. Default: 60 s.
        pub patience: TimeDelta = TimeDelta::from_seconds(60),
    }
}

giusto_units::defaults! {
    /// Options of a run of a command.
    #[derive(Debug, Clone)]
    pub struct CommandOptions {
        /// The program and its arguments.
        pub command: Vec<OsString> = Vec::new(),
        /// A command line for the shell, to run on the far side as long as the command runs.
        pub far: Option<String> = None,
        /// The largest packet, in bytes. Default: 1500.
        pub mtu: u16 = 1500,
        /// Whether the command's standard output becomes our standard error. Default: no.
        pub output_to_stderr: bool = false,
        /// Whether the command gets the terminal of standard input, if there is one: it reads from there, and Ctrl-C ends it, not this
        /// process. Default: no.
        pub at_terminal: bool = false,
    }
}

/// What is ready before the first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// A relay listens at these addresses.
    Relay(Vec<SocketAddr>),
    /// The far side of a namespace has these addresses.
    Far {
        /// IPv4.
        v4: Ipv4Addr,
        /// IPv6, if the system has it.
        v6: Option<Ipv6Addr>,
    },
}

/// The state of the links, once a second.
#[derive(Debug, Clone, Default)]
pub struct LiveLinks {
    /// Time since the start of the links.
    pub now: Timestamp,
    /// Each link of the scenario.
    pub links: Vec<LinkState>,
    /// 99th percentile of the lateness so far.
    pub lateness_p99: Option<TimeDelta>,
}

/// The state of a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkState {
    /// Its name.
    pub id: String,
    /// The rate of what left it since the last report, in bit/s.
    pub delivered_bps: f64,
    /// Packets in its queue.
    pub queued_packets: u64,
    /// Packets dropped and lost since the start.
    pub dropped_packets: u64,
    /// Packets marked since the start.
    pub marked_packets: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct LinkRun {
    /// The record of the links, as of a simulated run.
    #[serde(flatten)]
    pub record: RunRecord,
    /// Addresses at which the relay listened; empty without a relay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<SocketAddr>,
    /// Counts of the relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<UdpRelayReport>,
    /// How the command ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandStatus>,
    /// Addresses of the far side; empty with a relay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<IpAddr>,
    /// What the time of the links began with: `command`, `media`, `datagram` of a relay after its handshake, or `signal`.
    pub began_with: &'static str,
    /// Wake-ups of the thread that drives the links.
    pub sleeper: SleeperReport,
    /// What the system granted.
    pub granted: Granted,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandStatus {
    /// Its exit status; 128 and the signal's number if a signal ended it.
    pub status: u8,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether it was ended: by the duration, Ctrl-C or SIGTERM.
    pub was_ended: bool,
}

/// A run that could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A route that the links do not make.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A socket of the relay.
    #[error("relay: {0}")]
    Socket(#[from] SocketError),
    /// A namespace: a right is missing, or the kernel has none.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A TUN device: a right is missing, or the kernel has none.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A relay to which nothing was sent.
    #[error(
        "no {datagram} came within {waited:.0}: send to the relay's address, or leave out --duration to wait without end"
    )]
    Unused {
        /// What would have begun the time of the links.
        datagram: &'static str,
        /// How long the relay has waited.
        waited: TimeDelta,
    },
    /// A program that cannot be started.
    #[error("cannot start \"{program}\": {source}: check the name")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

impl LinkError {
    /// Whether a relay works where this failed: namespaces or TUN devices are missing or forbidden.
    pub const fn is_about_rights(&self) -> bool {
        matches!(self, Self::Namespace(_) | Self::Interface(_))
    }
}

/// The links after a run, for the recorder.
struct Ended<'a, T> {
    seed: u64,
    emulator: &'a Emulator<T>,
}

impl<T: Copy> RecordedRun for Ended<'_, T> {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn events(&self) -> u64 {
        self.emulator.counters().events
    }

    fn link(&self, link: LinkId) -> Option<&Link> {
        self.emulator.link(link)
    }
}

/// What the shells have in common: the links, their observer, and the report once a second.
struct World<'p, 'a, T> {
    plan: &'p LinkPlan<'a>,
    emulator: Emulator<T>,
    recorder: Recorder,
    reported: Timestamp,
    delivered: Vec<u64>,
}

impl<'p, 'a, T: Copy> World<'p, 'a, T> {
    fn new(
        plan: &'p LinkPlan<'a>,
        pairs: usize,
        kind: &str,
        duration: Option<TimeDelta>,
    ) -> Result<Self, LinkError> {
        let emulator = Emulator::new(plan.links(), plan.routes(pairs), MEMORY)?;
        let recorder = Recorder::new(plan.record(pairs, kind, duration));
        let delivered = vec![0; plan.scenario().links().len()];
        Ok(Self { plan, emulator, recorder, reported: Timestamp::ZERO, delivered })
    }

    fn run<S: Shell<Tag = T>>(
        &mut self,
        shell: &mut S,
        config: &LiveConfig,
        mut look: impl FnMut(Timestamp) -> ControlFlow<()>,
        mut report: impl FnMut(&LiveLinks),
    ) -> LiveReport {
        let Self { plan, emulator, recorder, reported, delivered } = self;
        emulate::run(shell, emulator, recorder, config, |now, emulator, lateness| {
            // The time of the links may begin again.
            *reported = (*reported).min(now);
            if now.saturating_since(*reported) >= REPORT {
                report(&state(plan, emulator, lateness, now, now - *reported, delivered));
                *reported = now;
            }
            look(now)
        })
    }

    fn finish(self, live: LiveReport, kernel_dropped_packets: u64, options: &LinkOptions) -> Finished {
        let Self { plan, emulator, recorder, .. } = self;
        let ended = Ended { seed: plan.seed(), emulator: &emulator };
        let (mut record, _) = recorder.finish(&ended, live.now);
        record.wall_s = record.duration_s;
        record.interrupted = options.duration.is_some_and(|whole| live.now < Timestamp::ZERO + whole);
        let counters = emulator.counters();
        let mut real_time = RealTimeRecord {
            lateness_us: lateness_us(&live.lateness),
            max_lateness_us: options.max_lateness.as_micros(),
            sent_packets: live.sent_packets,
            unsent_packets: live.unsent_packets,
            refused_packets: counters.refused_packets,
            kernel_dropped_packets,
            doubts: Vec::new(),
        };
        real_time.doubts = doubts(&real_time, options.start.is_none());
        record.real_time = Some(real_time);
        Finished { record, sleeper: live.sleeper, granted: live.granted }
    }
}

struct Finished {
    record: RunRecord,
    sleeper: SleeperReport,
    granted: Granted,
}

fn lateness_us(lateness: &ErrorHistogram) -> Option<Lateness> {
    let quantile = |quantile| lateness.quantile(quantile).map(TimeDelta::as_micros);
    Some(Lateness {
        p50: quantile(0.5)?,
        p99: quantile(0.99)?,
        p999: quantile(0.999)?,
        max: lateness.max()?.as_micros(),
    })
}

/// Why the figures cannot be trusted; `has_flags` if the flags of `giusto link` can change it.
fn doubts(run: &RealTimeRecord, has_flags: bool) -> Vec<String> {
    let flags = if has_flags { ", use --realtime, or raise --max-lateness" } else { "" };
    let late = run.lateness_us.and_then(|late| Late::from_micros(Some(late.p50), Some(late.p99)));
    let late = late
        .and_then(|late| late.tail_beyond("packets", TimeDelta::from_seconds_f64(run.max_lateness_us / 1e6)))
        .map(|late| format!("this machine was overloaded: {late}: let it do less{flags}"));
    let counted = |count: u64, text: &str| (count > 0).then(|| format!("{count} packets {text}"));
    let dropped = counted(
        run.kernel_dropped_packets,
        "were dropped by the kernel before they reached the link, which was too slow: lower the rate of the programs",
    );
    let refused = counted(
        run.refused_packets,
        "did not enter the link, which held 256 MB already: limit its queue or its delay",
    );
    [late, dropped, refused].into_iter().flatten().collect()
}

fn state<T: Copy>(
    plan: &LinkPlan<'_>,
    emulator: &Emulator<T>,
    lateness: &ErrorHistogram,
    now: Timestamp,
    span: TimeDelta,
    delivered: &mut [u64],
) -> LiveLinks {
    let links = plan.scenario().links().iter().zip(emulator.links()).zip(delivered);
    let links = links.map(|((spec, link), before)| {
        let counters = link.counters();
        let bytes = counters.delivered_bytes - std::mem::replace(before, counters.delivered_bytes);
        LinkState {
            id: spec.id.clone(),
            delivered_bps: bytes as f64 * 8.0 / span.as_seconds().max(1e-9),
            queued_packets: link.backlog().packets,
            dropped_packets: counters.dropped_packets(),
            marked_packets: counters.marked_packets,
        }
    });
    LiveLinks { now, links: links.collect(), lateness_p99: lateness.quantile(0.99) }
}

fn sleeper(options: &LinkOptions) -> SleeperConfig {
    SleeperConfig { realtime_priority: options.realtime, ..SleeperConfig::default() }
}

/// Relays UDP between clients and targets across the links until the end that the options give. The time of the links begins as the
/// options say.
///
/// `ready` receives the addresses of the relay, `report` the state once a second.
///
/// # Errors
///
/// [`LinkError::Socket`] names the address that is not available. [`LinkError::Unused`]: there is a duration, and nothing came.
pub fn relay(
    plan: &LinkPlan<'_>,
    pairs: &[UdpPair],
    options: &LinkOptions,
    ready: impl FnOnce(&Ready),
    report: impl FnMut(&LiveLinks),
) -> Result<LinkRun, LinkError> {
    let mut world = World::new(plan, pairs.len(), "udp", options.duration)?;
    let clock = Clock::start();
    let mut shell = UdpRelay::new(pairs, clock)?;
    let listen: Vec<SocketAddr> = shell.addresses().collect();
    ready(&Ready::Relay(listen.clone()));
    let config = LiveConfig {
        start: match &options.start {
            Some(start) => Start::Signal { start: start.clone(), crosses: is_media },
            None if options.with_media => Start::First(is_media),
            None => Start::First(begins),
        },
        duration: options.duration,
        stop: Some(Arc::clone(&options.stop)),
        clock: Some(clock),
        sleeper: sleeper(options),
        ..LiveConfig::default()
    };
    let patience = options.duration.filter(|_| options.start.is_none()).map(|run| run.max(options.patience));
    let mut unused = None;
    let look = |now: Timestamp| {
        let waited = clock.now().saturating_since(Timestamp::ZERO);
        match patience {
            Some(patience) if now == Timestamp::ZERO && waited >= patience => {
                unused = Some(waited);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    };
    let began_with = match &options.start {
        Some(_) => "signal",
        None if options.with_media => "media",
        None => "datagram",
    };
    let live = world.run(&mut shell, &config, look, report);
    if let Some(waited) = unused {
        let datagram = if options.with_media { "RTP or RTCP datagram" } else { "datagram of a stream" };
        return Err(LinkError::Unused { datagram, waited });
    }
    let counts = shell.report();
    let Finished { record, sleeper, granted } = world.finish(live, counts.kernel_dropped_packets, options);
    Ok(LinkRun {
        record,
        listen,
        relay: Some(counts),
        command: None,
        far: Vec::new(),
        began_with,
        sleeper,
        granted,
    })
}

/// Whether a datagram is RTP or RTCP: RFC 7983 §7.
fn is_media(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(128..=191))
}

/// Whether a datagram is more than a handshake, whose time is not that of what follows. STUN by its cookie (RFC 8489 §5), DTLS by its
/// content type and version (RFC 9147 §4).
fn begins(datagram: &[u8]) -> bool {
    let is_handshake = matches!(datagram, [0..=3, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] | [20..=63, 254, ..]);
    !is_handshake && !giusto_session::is_control(datagram)
}

/// The UDP payload of an IP packet.
fn udp_payload(packet: &[u8]) -> Option<&[u8]> {
    const UDP: u8 = 17;
    let (protocol, header) = match packet.first()? {
        first @ 0x40..=0x4f => (packet.get(9)?, usize::from(first & 15) * 4),
        0x60..=0x6f => (packet.get(6)?, 40),
        _ => return None,
    };
    packet.get(header + 8..).filter(|_| *protocol == UDP)
}

/// Whether an IP packet is RTP or RTCP over UDP.
fn is_media_packet(packet: &[u8]) -> bool {
    udp_payload(packet).is_some_and(is_media)
}

/// Whether an IP packet is of the handshake of a call.
fn opens_call(packet: &[u8]) -> bool {
    udp_payload(packet).is_some_and(giusto_session::is_call_control)
}

/// Runs a command in a network namespace of its own, whose only way out leads across the links to the network namespace of the
/// calling thread. The time of the links begins with the command, or as the options say, and ends with it.
///
/// The environment of the command has `GIUSTO_FAR` and `GIUSTO_FAR6`, the addresses of the far side, and `GIUSTO_NEAR` and
/// `GIUSTO_NEAR6`, its own.
///
/// # Errors
///
/// [`LinkError`]: a namespace or a device cannot be made, or a program cannot be started.
pub fn command(
    plan: &LinkPlan<'_>,
    asked: &CommandOptions,
    options: &LinkOptions,
    ready: impl FnOnce(&Ready),
    report: impl FnMut(&LiveLinks),
) -> Result<LinkRun, LinkError> {
    let mut world = World::new(plan, 1, "ip", None)?;
    let far = TunDevice::create()?;
    let addresses = Addresses::of(far.number(), asked.mtu);
    far.configure(&addresses.far(asked.mtu))?;
    let namespace = Namespace::new()?;
    let near_config = addresses.near(asked.mtu);
    let near = namespace.run(move || {
        TunDevice::set_loopback_up()?;
        let near = TunDevice::create()?;
        near.configure(&near_config)?;
        Ok::<_, InterfaceError>(near)
    })??;
    ready(&Ready::Far { v4: addresses.far_v4, v6: addresses.v6.map(|(far, _)| far) });
    let mut shell = TunShell::new(near, far);
    let clock = Clock::start();
    let mut beside = match &asked.far {
        Some(line) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line).stdin(Stdio::null());
            let mut beside = start(None, shell, asked, &addresses, line)?;
            let begin = clock.now();
            // The command may need what it offers; a program that does not listen is not waited for any longer.
            while !beside.listens()
                && clock.now() - begin < LISTEN
                && matches!(beside.poll(clock.now()), Ok(None))
            {
                std::thread::park_timeout(LOOK.to_std());
            }
            Some(beside)
        }
        None => None,
    };
    let mut words = asked.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    let mut line = Command::new(&program);
    line.args(words);
    let mut child = start(Some(&namespace), line, asked, &addresses, &program.to_string_lossy())?;
    if asked.at_terminal {
        child.take_terminal();
    }
    let start = if options.with_media {
        Start::First(is_media_packet)
    } else {
        Start::Opening { is_opening: opens_call, is_first: is_media_packet }
    };
    let config =
        LiveConfig { start, watch_interval: LOOK, sleeper: sleeper(options), ..LiveConfig::default() };
    let mut ended = None;
    let mut was_ended = false;
    let look = |link_now: Timestamp| {
        let now = clock.now();
        let stopped = options.stop.load(Relaxed);
        if stopped || options.duration.is_some_and(|whole| link_now >= Timestamp::ZERO + whole) {
            was_ended = true;
            child.end(now);
        }
        match child.poll(now) {
            Ok(None) => ControlFlow::Continue(()),
            status => {
                ended = status.ok().flatten();
                ControlFlow::Break(())
            }
        }
    };
    let live = world.run(&mut shell, &config, look, report);
    // What the command has left behind ends with it.
    for program in std::iter::once(&mut child).chain(&mut beside) {
        end(program, clock);
    }
    let interrupted = options.stop.load(Relaxed) && was_ended || child.was_interrupted();
    was_ended |= interrupted;
    let near_dropped = {
        let name = shell.near().name().to_owned();
        namespace.run(move || TunDevice::dropped_packets_of(&name)).ok().flatten().unwrap_or(0)
    };
    let dropped = near_dropped + shell.far().dropped_packets().unwrap_or(0);
    let began_with = if live.opened || options.with_media { "media" } else { "command" };
    let Finished { mut record, sleeper, granted } = world.finish(live, dropped, options);
    record.interrupted = interrupted;
    let status = ended.map(|status| CommandStatus { was_ended, ..CommandStatus::of(status) });
    let far = std::iter::once(addresses.far_v4.into()).chain(addresses.v6.map(|(far, _)| far.into()));
    Ok(LinkRun {
        record,
        listen: Vec::new(),
        relay: None,
        command: status,
        far: far.collect(),
        began_with,
        sleeper,
        granted,
    })
}

/// Starts a program with the addresses in its environment.
fn start(
    namespace: Option<&Namespace>,
    mut line: Command,
    asked: &CommandOptions,
    addresses: &Addresses,
    program: &str,
) -> Result<Supervised, LinkError> {
    let Addresses { far_v4, near_v4, v6 } = addresses;
    line.env("GIUSTO_FAR", far_v4.to_string()).env("GIUSTO_NEAR", near_v4.to_string());
    if let Some((far, near)) = v6 {
        line.env("GIUSTO_FAR6", far.to_string()).env("GIUSTO_NEAR6", near.to_string());
    }
    if asked.output_to_stderr {
        line.stdout(io::stderr());
    }
    Supervised::start(namespace, line)
        .map_err(|source| LinkError::Start { program: program.to_owned(), source })
}

/// Ends a program with all that it started, and waits for that.
fn end(child: &mut Supervised, clock: Clock) {
    child.end(clock.now());
    while child.poll(clock.now()).is_ok() && matches!(child.is_gone(), Ok(false)) {
        std::thread::park_timeout(LOOK.to_std());
    }
}

impl CommandStatus {
    fn of(status: ExitStatus) -> Self {
        let signal = status.signal();
        let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
        Self { status: u8::try_from(code).unwrap_or(1), signal, was_ended: false }
    }
}

/// The addresses of both ends.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    far_v4: Ipv4Addr,
    near_v4: Ipv4Addr,
    /// Far and near.
    v6: Option<(Ipv6Addr, Ipv6Addr)>,
}

impl Addresses {
    /// Those of device `number`, from the ranges for benchmarks of networks: 198.18.0.0/15 (RFC 2544 appendix C.2.2) and `2001:2::/48`
    /// (RFC 5180 §8). No host of the Internet has one.
    fn of(number: u8, mtu: u16) -> Self {
        let has_v6 = mtu >= MIN_IPV6_MTU && std::path::Path::new("/proc/sys/net/ipv6").exists();
        let v6 = |host| Ipv6Addr::new(0x2001, 2, 0, number.into(), 0, 0, 0, host);
        Self {
            far_v4: Ipv4Addr::new(198, 18, number, 1),
            near_v4: Ipv4Addr::new(198, 18, number, 2),
            v6: has_v6.then(|| (v6(1), v6(2))),
        }
    }

    fn far(self, mtu: u16) -> TunConfig {
        let v6 = self.v6.map(|(far, _)| (far, 64));
        TunConfig { v4: (self.far_v4, 30), v6, mtu, default_route: false }
    }

    fn near(self, mtu: u16) -> TunConfig {
        let v6 = self.v6.map(|(_, near)| (near, 64));
        TunConfig { v4: (self.near_v4, 30), v6, mtu, default_route: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{link::Ends, scenario::Document};

    #[test]
    fn a_relay_with_a_duration_and_nothing_to_relay_ends() {
        let text = "duration = \"1 s\"\n[[link]]\nid = \"path\"\nfrom = \"a\"\nto = \"b\"\nreverse = {}\n";
        let scenario = Document::parse(text, "path.toml").and_then(|links| links.links(&[])).unwrap();
        let plan = LinkPlan::new(&scenario, 1, &Ends::default()).unwrap();
        let (listen, target) = ("127.0.0.1:0".parse().unwrap(), "127.0.0.1:9".parse().unwrap());
        let run = |duration: i64, patience: i64, with_media| {
            let [duration, patience] = [duration, patience].map(TimeDelta::from_millis);
            let options =
                LinkOptions { duration: Some(duration), patience, with_media, ..LinkOptions::default() };
            relay(&plan, &[UdpPair { listen, target }], &options, |_| (), |_| ()).unwrap_err().to_string()
        };
        let begins = "no datagram of a stream came within ";
        assert!(run(50, 200, false).starts_with(begins) && run(200, 50, false).starts_with(begins));
        assert!(run(50, 50, true).starts_with("no RTP or RTCP datagram came within "));
    }
}
