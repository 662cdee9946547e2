//! What runs in real time have in common: options, results, and the links with their record.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::ControlFlow,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{Arc, atomic::AtomicBool},
};

use giusto_measure::ErrorHistogram;
use giusto_net::{
    SleeperConfig, SleeperReport, SocketError,
    emulate::{
        self, Emulator, EmulatorError, InterfaceError, LiveConfig, LiveReport, NamespaceError, Shell,
        StartSignal, UdpRelayReport,
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

/// What the caller of a run learns while it begins and lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEvent {
    /// A relay listens at these addresses.
    Relay(Vec<SocketAddr>),
    /// The far side of a namespace has these addresses.
    Far {
        /// IPv4.
        v4: Ipv4Addr,
        /// IPv6, if the system has it.
        v6: Option<Ipv6Addr>,
    },
    /// The program on the far side has ended by itself, with an exit status other than zero.
    FarFailed(CommandStatus),
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
    /// How the program on the far side ended, if it failed by itself while the command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_command: Option<CommandStatus>,
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

impl CommandStatus {
    pub(super) fn of(status: ExitStatus) -> Self {
        let signal = status.signal();
        let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
        Self { status: u8::try_from(code).unwrap_or(1), signal, was_ended: false }
    }
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
pub(super) struct World<'p, 'a, T> {
    plan: &'p LinkPlan<'a>,
    emulator: Emulator<T>,
    recorder: Recorder,
    reported: Timestamp,
    delivered: Vec<u64>,
}

impl<'p, 'a, T: Copy> World<'p, 'a, T> {
    pub(super) fn new(
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

    pub(super) fn run<S: Shell<Tag = T>>(
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

    /// The result, without what only a relay or only a command has.
    pub(super) fn finish(
        self,
        live: LiveReport,
        kernel_dropped_packets: u64,
        began_with: &'static str,
        options: &LinkOptions,
    ) -> LinkRun {
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
        LinkRun {
            record,
            listen: Vec::new(),
            relay: None,
            command: None,
            far: Vec::new(),
            far_command: None,
            began_with,
            sleeper: live.sleeper,
            granted: live.granted,
        }
    }
}

/// Of fewer packets the 99th percentile is the maximum.
const FEWEST: u64 = 100;

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
    let bound = TimeDelta::from_seconds_f64(run.max_lateness_us / 1e6);
    let late = late
        .and_then(|late| match run.sent_packets {
            few @ ..FEWEST => late.latest_beyond(few, bound),
            _ => late.tail_beyond("packets", bound),
        })
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

pub(super) fn sleeper(options: &LinkOptions) -> SleeperConfig {
    SleeperConfig { realtime_priority: options.realtime, ..SleeperConfig::default() }
}
