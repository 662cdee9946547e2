//! `giusto link`: a scenario's links in real time, for other programs.

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::{Arc, atomic::AtomicBool},
};

use clap::Args;
use giusto_net::emulate::{self, TunDevice, UdpPair};
use giusto_units::TimeDelta;

use crate::{
    args::{resolve_first, time_above_zero, whole},
    command_line,
    console::{DOUBTFUL, Progress, TableArgs, complain, print_json, print_text},
    sim::make_folder,
    usage::{UsageError, misuse},
};
use giusto::{
    explore,
    link::{self, CommandOptions, Ends, LinkError, LinkEvent, LinkOptions, LinkPlan, LinkRun, LiveLinks},
    scenario::Setting,
    view::{files::Files, format::rate, html, tables},
};

/// Flags of `giusto link`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto link codel -- sh -c 'ping -c 5 $GIUSTO_FAR'
  giusto link one-cubic --far 'iperf3 -s' -- sh -c 'iperf3 -c $GIUSTO_FAR -t 10'
  giusto link first --relay 127.0.0.1:5000=127.0.0.1:6000 --out call

COMMAND runs in a network namespace of its own. All its packets cross the links to the far side, whose addresses are \
GIUSTO_FAR and GIUSTO_FAR6 in its environment. As root the far side is this host. Without root it is a namespace too: \
start the program there with --far. A relay needs no privileges.

The flows of FILE are not sent. The first one names the nodes of COMMAND and of the far side. \
docs/how-to/emulate.md says more.

Exit status: that of COMMAND if it is not 0; 3 if the packets were later than --max-lateness or the link was too slow.")]
pub(crate) struct LinkArgs {
    /// Scenario with the links: a file, or the name of a built-in one
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Pass UDP datagrams that come to LISTEN across the links to TARGET, and the answers back; repeatable. LISTEN is a port of
    /// 127.0.0.1 or an address with a port
    #[arg(long, value_name = "LISTEN=TARGET", conflicts_with_all = ["command", "far"])]
    relay: Vec<Relay>,

    /// Run this line in a shell on the far side, as long as COMMAND runs
    #[arg(long, value_name = "LINE", requires = "command")]
    far: Option<String>,

    /// Node of COMMAND, or of the relay's clients [default: where the first flow, or the only link, starts]
    #[arg(long, value_name = "NODE")]
    from: Option<String>,

    /// Node of the far side, or of the relay's targets [default: where the first flow, or the only link, ends]
    #[arg(long, value_name = "NODE")]
    to: Option<String>,

    /// End of the run; ends COMMAND. That of a relay counts from its first datagram; if none comes within 60 s, or TIME if that is
    /// longer, the run fails [default: with COMMAND, or by Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    duration: Option<TimeDelta>,

    /// Start the time of the links with the first RTP or RTCP datagram; what comes before passes at once [default: with COMMAND, unless
    /// it begins with a call of giusto, or with the first datagram of a relay after the handshake]
    #[arg(long)]
    start_with_media: bool,

    /// Random seed [default: that of the scenario]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: Option<u64>,

    /// Change a value of the scenario, such as link.bottleneck.rate=5M; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,

    /// Largest 99th percentile of the lateness at which the figures are trusted
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = time_above_zero)]
    max_lateness: TimeDelta,

    /// Largest packet of COMMAND, in bytes
    #[arg(long, value_name = "BYTES", default_value = "1500", value_parser = whole::<u16>(576, 65_535))]
    mtu: u16,

    /// Ask for real-time priority 1..99 (`SCHED_FIFO`); the result says whether it was granted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "10",
          value_parser = whole::<u8>(1, 99))]
    realtime: Option<u8>,

    /// Write result.json and report.html to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object; the output of COMMAND goes to standard error
    #[arg(long)]
    json: bool,

    /// Program to run, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "relay")]
    command: Vec<OsString>,
}

/// A pair of addresses as text; the target is looked up later.
#[derive(Debug, Clone)]
struct Relay {
    listen: SocketAddr,
    target: String,
}

impl FromStr for Relay {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected LISTEN=TARGET, such as 5000=192.0.2.7:6000, found \"{text}\"");
        let (listen, target) = text.split_once('=').ok_or_else(wrong)?;
        let address = listen.parse().ok();
        let port = || Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), listen.parse().ok()?));
        let listen = address.or_else(port).ok_or_else(wrong)?;
        Ok(Self { listen, target: target.to_owned() })
    }
}

/// What must happen before the program starts its first thread: without the rights to configure interfaces it enters a namespace in
/// which it has them.
pub(crate) fn prepare(args: &LinkArgs) -> anyhow::Result<()> {
    if args.command.is_empty() || emulate::may_configure_network() {
        return Ok(());
    }
    emulate::enter_user_namespace().map_err(|error| unavailable(&LinkError::Namespace(error)))?;
    TunDevice::set_loopback_up().map_err(|error| unavailable(&LinkError::Interface(error)))
}

fn unavailable(error: &LinkError) -> anyhow::Error {
    if let LinkError::Unused { .. } = error {
        anyhow::anyhow!("{error}")
    } else if error.is_about_rights() {
        anyhow::anyhow!(
            "{error}: run it with the rights of root, or use --relay, which needs none and carries UDP"
        )
    } else {
        UsageError::new(error).into()
    }
}

pub(crate) fn run(args: &LinkArgs, stop: &Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let scenario =
        explore::load(&args.file).and_then(|document| document.links(&args.set)).map_err(UsageError::from)?;
    let seed = args.seed.unwrap_or(scenario.seed());
    let ends = Ends { from: args.from.clone(), to: args.to.clone() };
    let plan = LinkPlan::new(&scenario, seed, &ends)
        .map_err(|error| UsageError::new(format!("{}: {error}", args.file.display())))?;
    let pair = |relay: &Relay| {
        let target = resolve_first(&relay.target, None, 0)?;
        if target.port() == 0 {
            misuse!(
                "--relay: the target \"{}\" has no port: add one, such as {}:6000",
                relay.target,
                relay.target
            );
        }
        Ok(UdpPair { listen: relay.listen, target })
    };
    let pairs = args.relay.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(UdpPair { target, .. }) =
        pairs.iter().find(|pair| pairs.iter().any(|own| is_at(own, pair.target)))
    {
        misuse!(
            "--relay: a relay listens at the target {target}, so datagrams would go round: give it another port"
        );
    }
    if let Some(folder) = &args.out {
        make_folder(folder)?;
    }
    let options = LinkOptions {
        duration: args.duration,
        stop: Arc::clone(stop),
        max_lateness: args.max_lateness,
        realtime: args.realtime,
        start: None,
        with_media: args.start_with_media,
        ..LinkOptions::default()
    };
    let progress = Progress::live();
    for line in plan.describe() {
        progress.note(&line);
    }
    let tell = |event: &LinkEvent| match event {
        LinkEvent::Relay(addresses) => {
            for (address, relay) in addresses.iter().zip(&args.relay) {
                progress.note(&format!("listening at {address} for {}", relay.target));
            }
        }
        LinkEvent::Far { v4, v6 } => {
            let v6 = v6.map_or_else(String::new, |v6| format!(", GIUSTO_FAR6={v6}"));
            progress.note(&format!("GIUSTO_FAR={v4}{v6}"));
        }
        LinkEvent::FarFailed(ended) => {
            let line = args.far.as_deref().unwrap_or_default();
            complain(&format!("warning: the program of --far ended with status {}: {line}", ended.status));
        }
        _ => {}
    };
    let report = |links: &LiveLinks| progress.say(live_line(links));
    let result = if args.command.is_empty() {
        link::relay(&plan, &pairs, &options, tell, report)
    } else {
        let asked = CommandOptions {
            command: args.command.clone(),
            far: args.far.clone(),
            mtu: args.mtu,
            output_to_stderr: args.json,
            at_terminal: io::stdin().is_terminal(),
        };
        link::command(&plan, &asked, &options, tell, report)
    };
    progress.clear();
    let run = result.map_err(|error| unavailable(&error))?;
    if run.record.duration_s > 0.0 {
        progress.note(match run.began_with {
            "media" => "the time of the links began with the first RTP packet",
            "command" => "the time of the links began with COMMAND",
            _ => "the time of the links began with the first datagram after the handshake",
        });
    }
    // One of both that fails costs the other nothing.
    let written = args.out.as_ref().map(|folder| write(folder, &run)).transpose();
    print(args, &run)?;
    written?.into_iter().flatten().for_each(|path| progress.wrote(&path));
    Ok(ExitCode::from(status(&run)))
}

/// Whether datagrams to `target` come to this relay.
fn is_at(relay: &UdpPair, target: SocketAddr) -> bool {
    let (own, ip) = (relay.listen.ip(), target.ip());
    // Only to an address of this machine can a socket be bound.
    let is_ours = || !ip.is_multicast() && std::net::UdpSocket::bind((ip, 0)).is_ok();
    relay.listen.port() == target.port() && (own == ip || own.is_unspecified() && is_ours())
}

fn write(folder: &Path, run: &LinkRun) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Files::default();
    files.add_result(folder, run)?;
    files.add_report(folder, &html::simulation(&run.record, command_line()))?;
    Ok(files.commit()?)
}

/// The command's own status comes first: what it says about itself is worth more than how punctual the link was.
fn status(run: &LinkRun) -> u8 {
    let of_command = run.command.as_ref().filter(|command| !command.was_ended).map_or(0, |own| own.status);
    let doubted = run.record.real_time.as_ref().is_some_and(|real_time| !real_time.doubts.is_empty());
    match (of_command, doubted) {
        (0, true) => DOUBTFUL,
        (status, _) => status,
    }
}

/// Standard output belongs to the command, if there is one, except with --json.
fn print(args: &LinkArgs, run: &LinkRun) -> anyhow::Result<()> {
    if args.json {
        let mut shown = run.clone();
        shown.record.timeline = None;
        return print_json(&shown);
    }
    let text = |width| tables::tables(&run.record, width);
    if args.command.is_empty() {
        print_text(&text(args.tables.width()))
    } else {
        complain(&text(args.tables.width_of_errors()));
        Ok(())
    }
}

/// `bottleneck 4.998 Mbit/s, 17 queued, 3 dropped; lateness p99 12 µs`.
fn live_line(live: &LiveLinks) -> String {
    let links = live.links.iter().map(|link| {
        let marked =
            if link.marked_packets > 0 { format!(", {} marked", link.marked_packets) } else { String::new() };
        let (queued, dropped) = (link.queued_packets, link.dropped_packets);
        format!("{} {}, {queued} queued, {dropped} dropped{marked}", link.id, rate(link.delivered_bps))
    });
    let links: Vec<String> = links.collect();
    let late = live.lateness_p99.map_or_else(String::new, |late| format!("; lateness p99 {late:.0}"));
    format!("{}{late}", links.join("; "))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_relay_of_all_addresses_is_at_each_address_of_this_machine() {
        let is_at = |ip: &str, port| {
            let [listen, target] = ["0.0.0.0:5000".to_owned(), format!("{ip}:{port}")];
            is_at(
                &UdpPair { listen: listen.parse().unwrap(), target: target.parse().unwrap() },
                target.parse().unwrap(),
            )
        };
        assert!(is_at("127.0.0.1", 5000) && is_at("127.0.0.9", 5000) && !is_at("127.0.0.1", 5001));
        assert!(!is_at("192.0.2.1", 5000) && !is_at("239.1.1.1", 5000));
        // The address from which it would send to another host: nothing is sent.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        match socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()) {
            Ok(own) => assert!(is_at(&own.ip().to_string(), 5000), "{own}"),
            Err(error) => println!("SKIPPED an address of an interface: {error}"),
        }
    }
}
