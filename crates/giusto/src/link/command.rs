//! A command whose packets all cross the links.

use std::{
    ffi::OsString,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    ops::ControlFlow,
    process::{Command, ExitStatus, Stdio},
    sync::atomic::Ordering::Relaxed,
};

use giusto_net::{
    Clock,
    emulate::{InterfaceError, LiveConfig, Namespace, Start, Supervised, TunConfig, TunDevice, TunShell},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    live::{CommandStatus, LinkError, LinkEvent, LinkOptions, LinkRun, LiveLinks, World, sleeper},
    plan::LinkPlan,
    relay::is_media,
};

/// How often the command is looked after.
const LOOK: TimeDelta = TimeDelta::from_millis(20);
/// The longest time that the program on the far side has to open a socket before the command starts.
const LISTEN: TimeDelta = TimeDelta::from_millis(1_000);
/// The smallest MTU with IPv6: RFC 8200 §5.
const MIN_IPV6_MTU: u16 = 1280;

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
    mut tell: impl FnMut(&LinkEvent),
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
    tell(&LinkEvent::Far { v4: addresses.far_v4, v6: addresses.v6.map(|(far, _)| far) });
    let mut shell = TunShell::new(near, far);
    let clock = Clock::start();
    let mut beside = match &asked.far {
        Some(line) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line).stdin(Stdio::null());
            let mut beside = Beside { program: start(None, shell, asked, &addresses, line)?, ended: None };
            let begin = clock.now();
            // The command may need what it offers; a program that does not listen is not waited for any longer.
            while !beside.program.listens()
                && clock.now() - begin < LISTEN
                && !beside.has_ended(clock.now(), &mut tell)
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
        // Ctrl-C may have reached it too.
        if let Some(beside) = &mut beside
            && !stopped
        {
            beside.has_ended(now, &mut tell);
        }
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
    let far_command = beside.as_ref().and_then(Beside::failure);
    // What the command has left behind ends with it.
    for program in std::iter::once(&mut child).chain(beside.as_mut().map(|beside| &mut beside.program)) {
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
    let mut run = world.finish(live, dropped, began_with, options);
    run.record.interrupted = interrupted;
    let status = ended.map(|status| CommandStatus { was_ended, ..CommandStatus::of(status) });
    let far = std::iter::once(addresses.far_v4.into()).chain(addresses.v6.map(|(far, _)| far.into()));
    Ok(LinkRun { command: status, far: far.collect(), far_command, ..run })
}

/// The program on the far side.
struct Beside {
    program: Supervised,
    /// How it ended by itself.
    ended: Option<ExitStatus>,
}

impl Beside {
    /// Whether it has ended by itself. Reports a failure once.
    fn has_ended(&mut self, now: Timestamp, tell: &mut impl FnMut(&LinkEvent)) -> bool {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.program.poll(now)
        {
            self.ended = Some(status);
            if let Some(failure) = self.failure() {
                tell(&LinkEvent::FarFailed(failure));
            }
        }
        self.ended.is_some()
    }

    fn failure(&self) -> Option<CommandStatus> {
        self.ended.map(CommandStatus::of).filter(|ended| ended.status != 0)
    }
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
