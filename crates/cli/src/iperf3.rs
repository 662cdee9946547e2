//! iperf3 at the far end: its client and its server of UDP streams.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto_net::TrafficClass;
use giusto_pace::IpVersion;
use giusto_session::{
    iperf3::{DEFAULT_PORT, MAX_STREAMS, Parameters, ServerConfig, ServerError},
    probe::{Prefixes, payload::PayloadSizes},
};
use serde_json::json;

use crate::{
    args::{resolve_all, resolve_first, unicast},
    console::{self, Progress},
    output::Output,
    printer::Printer,
    recv::{MIN_IDLE, RecvArgs, Results, describe_stream, note},
    send::{SendArgs, base_plan},
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        iperf3::{ClientRun, Iperf3Error, Iperf3Live, Iperf3Server, Iperf3ServerConfig, Notice, Target, run},
        plan::{Layout, Media},
        result::{FarEndFigures, RunResult},
    },
    view::format::{count, plural, rate, time_us},
};

/// Drives an iperf3 server.
pub(crate) fn send(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let streams = usize::from(args.streams);
    if streams > MAX_STREAMS {
        misuse!("--streams: must be at most {MAX_STREAMS} with --protocol iperf3, found {streams}");
    }
    let addresses = resolve_all(&args.target, args.port, DEFAULT_PORT)?;
    let mut output = Output::new(args.json, &args.output, args.bidir || !args.reverse);
    let mut printed = Ok(());
    let progress = Progress::live();
    let on_live = |live: &Iperf3Live| {
        progress.say(live_line(live));
        if let (Some(figures), true) = (live.interval, printed.is_ok()) {
            printed = output.interval(figures);
        }
        if output.is_closed() || printed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = drive_first(args, &addresses, stop, on_live);
    progress.clear();
    let (to, run) = outcome?;
    printed?;
    if output.is_one_object() {
        match &run.results[..] {
            [one] => output.object(one)?,
            many => output.object(&json!({ "runs": many }))?,
        }
    } else {
        print(&mut output, &run.results)?;
    }
    if let Some(failure) = run.failure {
        console::complain(&format!("error: {to}: {failure}; the figures cover the time until then"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::measured(&run.results))
}

/// Drives the server at the first of the addresses of a host where there is one.
fn drive_first(
    args: &SendArgs,
    addresses: &[SocketAddr],
    stop: &AtomicBool,
    mut on_live: impl FnMut(&Iperf3Live),
) -> anyhow::Result<(SocketAddr, ClientRun)> {
    let mut failed: Vec<String> = Vec::new();
    for (index, to) in addresses.iter().copied().enumerate() {
        let media = Media::Filler(Layout::Iperf3 { wide_counters: true }, PayloadSizes::Fixed(args.size));
        let plan = base_plan(args, media).resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
        let target = Target {
            to,
            streams: args.streams.into(),
            reverse: args.reverse,
            bidirectional: args.bidir,
            traffic_class: TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits()),
            interval: args.output.interval(),
        };
        let is_last = index + 1 == addresses.len();
        match run(&plan, &target, stop, &mut on_live) {
            Ok(run) => return Ok((to, run)),
            Err(Iperf3Error::Connect { .. } | Iperf3Error::Socket(_)) if !is_last => {
                failed.push(to.to_string());
            }
            Err(Iperf3Error::Socket(error)) => return Err(UsageError::new(error).into()),
            Err(error) if failed.is_empty() => return Err(error.into()),
            Err(error) => {
                let before = failed.join(", ");
                return Err(anyhow::Error::from(error).context(format!("no iperf3 server at {before}")));
            }
        }
    }
    Err(UsageError::new(format!("unknown host in \"{}\": check the name", args.target)).into())
}

fn live_line(live: &Iperf3Live) -> String {
    let sent = live.sent_packets.map(|sent| format!("{sent} sent"));
    let received = live.received.as_ref().map(console::live_line);
    [sent, received].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Prints results of streams with iperf3 at the far end, those of each direction by themselves.
fn print(output: &mut Output, results: &[RunResult]) -> anyhow::Result<()> {
    let (received, sent): (Vec<_>, Vec<_>) = results.iter().cloned().partition(|run| run.from.is_some());
    let both = !received.is_empty() && !sent.is_empty();
    for (title, runs) in [("sent:", sent), ("received:", received)] {
        if !runs.is_empty() {
            output.results(both.then_some(title), &runs)?;
        }
    }
    output.remark(&far_end(results))
}

/// The far end's own figures of all streams, named as such.
fn far_end(results: &[RunResult]) -> String {
    let all: Vec<&FarEndFigures> = results.iter().filter_map(|result| result.far_end.as_ref()).collect();
    let Some(program) = all.first().map(|figures| &figures.program) else {
        return "\nThe far end sent no figures of its own.\n".to_owned();
    };
    let datagrams = |n| plural(n, "datagram", "datagrams");
    let (received, sent): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|figures| figures.received_packets.is_some());
    let sum = |of: fn(&FarEndFigures) -> Option<u64>, all: &[&FarEndFigures]| {
        all.iter().filter_map(|figures| of(figures)).fold(0, u64::saturating_add)
    };
    let mean_rate = |all: &[&FarEndFigures]| rate(all.iter().filter_map(|figures| figures.rate_bps).sum());
    let mut lines = vec![format!("\nFigures of the far end ({program})")];
    if !sent.is_empty() {
        let packets = datagrams(sum(|figures| figures.sent_packets, &sent));
        lines.push(format!("  sent      {packets}, {} over its test", mean_rate(&sent)));
    }
    if !received.is_empty() {
        let packets = datagrams(sum(|figures| figures.received_packets, &received));
        let lost = count(sum(|figures| figures.lost_packets, &received));
        let jitter = received.iter().filter_map(|figures| figures.jitter_ms).fold(0.0, f64::max);
        let most = if received.len() > 1 { "at most " } else { "" };
        let mean_rate = mean_rate(&received);
        lines.push(format!(
            "  received  {packets}, {lost} lost, jitter {most}{}, {mean_rate} over its test",
            time_us(jitter * 1e3)
        ));
    }
    lines.join("\n") + "\n"
}

/// Serves iperf3 clients.
pub(crate) fn serve(args: &RecvArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if args.idle < MIN_IDLE {
        misuse!("--idle: must be at least {MIN_IDLE}, found {}", args.idle);
    }
    let mut server = open(args)?;
    let mut printer = Printer::start(Progress::live())?;
    let address = server.local_addr();
    printer.note(format!("listening on {address} (iperf3); Ctrl-C ends and prints the result"));
    let clock = server.clock();
    let end = args.duration.map(|duration| clock.now() + duration);
    let mut output = Output::new(args.json, &args.output, false).held();
    let mut results = Results::default();
    let mut printed = Ok(());
    let (mut doubtful, mut failure) = (false, None);
    server.run(stop, |notice| {
        let mut go_on = true;
        match notice {
            Notice::Opened { from, parameters } => {
                output.set_sender(parameters.client_receives());
                printer.note(format!("{from}: {}", describe(parameters)));
            }
            Notice::Live(live) => {
                printer.live(live_line(live));
                if let Some(figures) = live.interval {
                    note(&mut printed, output.interval(figures));
                }
            }
            Notice::Refused { from, error } => printer.note(format!("{from}: {error}")),
            Notice::NoRoom(error) => printer.note(format!(
                "warning: clients cannot be accepted: {error}: raise the limit of open files (ulimit -n)"
            )),
            Notice::Closed { results: streams, failure: why } => {
                doubtful |= streams.iter().any(|result| !result.doubts.is_empty());
                if let Some(why) = &why {
                    printer.note(format!("the test ended early: {why}"));
                }
                failure = why;
                if output.is_one_object() {
                    for result in streams {
                        results.keep(result);
                    }
                } else if !streams.is_empty() {
                    note(&mut printed, print(&mut output, &streams));
                }
                go_on = !args.once;
            }
            _ => {}
        }
        output.take().into_iter().for_each(|text| printer.result(text));
        let lasts = end.is_none_or(|end| clock.now() < end);
        go_on && lasts && !printer.is_closed() && printed.is_ok()
    });
    printed?;
    let denied = server.denied();
    if output.is_one_object() {
        results.print_alone(&mut output, args.once, denied)?;
        output.take().into_iter().for_each(|text| printer.result(text));
    } else if denied > 0 {
        let denied = plural(denied, "connection", "connections");
        printer.note(format!("{denied} from addresses not allowed"));
    }
    printer.finish(stop)?;
    match failure {
        Some(why) if args.once && !matches!(why, ServerError::Ended(_)) => anyhow::bail!("{why}"),
        _ => Ok(ExitCode::from(if doubtful { console::DOUBTFUL } else { 0 })),
    }
}

/// Listens as asked; without an address on every address, on a machine without IPv6 on every IPv4 address.
fn open(args: &RecvArgs) -> anyhow::Result<Iperf3Server> {
    let (address, any_address) = listen_address(args.place()?.as_deref())?;
    let config = Iperf3ServerConfig {
        address: unicast(address)?,
        offload: !args.no_offload,
        prefixes: Prefixes { allow: args.allow.clone(), deny: args.deny.clone() },
        limits: ServerConfig {
            max_streams: usize::from(args.max_streams).min(ServerConfig::default().max_streams),
            max_rate: args.max_rate,
            max_duration: args.max_lifetime,
            idle_timeout: args.idle,
        },
        interval: args.output.interval(),
    };
    let mut opened = Iperf3Server::open(&config);
    if opened.is_err() && any_address {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        opened = Iperf3Server::open(&Iperf3ServerConfig { address, ..config });
    }
    opened.map_err(|error| {
        let fix = "choose another port, or port 0 for any free port";
        UsageError::new(format!("{error}: {fix}")).into()
    })
}

fn describe(parameters: &Parameters) -> String {
    let Parameters { streams, rate, size, .. } = *parameters;
    let direction = match (parameters.bidirectional, parameters.reverse) {
        (true, _) => "in both directions",
        (_, true) => "to the client",
        _ => "from the client",
    };
    let each = if streams > 1 { ", each" } else { "" };
    let streams = plural(streams as u64, "stream", "streams");
    format!("{streams} {direction}{each}: {}", describe_stream(rate, Some(size)))
}

/// The address to listen on, and whether any address of this machine will do.
fn listen_address(text: Option<&str>) -> Result<(SocketAddr, bool), UsageError> {
    let any = |port| (SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true);
    let Some(text) = text else { return Ok(any(DEFAULT_PORT)) };
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(any(port));
    }
    let address = text.parse().or_else(|_| resolve_first(text, None, DEFAULT_PORT));
    address.map(|address| (address, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_iperf3_is_the_default() {
        let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        assert_eq!(listen_address(None), Ok((any(5201), true)));
        assert_eq!(listen_address(Some("7")), Ok((any(7), true)));
        assert_eq!(listen_address(Some("127.0.0.1:0")), Ok((SocketAddr::from(([127, 0, 0, 1], 0)), false)));
        assert_eq!(listen_address(Some("::1")), Ok((SocketAddr::from((Ipv6Addr::LOCALHOST, 5201)), false)));
    }

    #[test]
    fn figures_of_the_far_end_are_named_as_such() {
        let figures = FarEndFigures {
            program: "iperf3 server".to_owned(),
            received_packets: Some(1000),
            lost_packets: Some(1),
            jitter_ms: Some(0.0123),
            rate_bps: Some(1e6),
            ..FarEndFigures::default()
        };
        let result = RunResult { far_end: Some(figures), ..RunResult::default() };
        let sent = FarEndFigures { sent_packets: Some(5), rate_bps: Some(2e6), ..FarEndFigures::default() };
        let sent = RunResult { far_end: Some(sent), ..RunResult::default() };
        assert_eq!(
            far_end(std::slice::from_ref(&result)),
            "\nFigures of the far end (iperf3 server)\n  received  1,000 datagrams, 1 lost, jitter 12.3 µs, 1.000 Mbit/s \
             over its test\n"
        );
        assert_eq!(
            far_end(&[result.clone(), result, sent]),
            "\nFigures of the far end (iperf3 server)\n  sent      5 datagrams, 2.000 Mbit/s over its test\n  \
             received  2,000 datagrams, 2 lost, jitter at most 12.3 µs, 2.000 Mbit/s over its test\n"
        );
        assert_eq!(far_end(&[RunResult::default()]), "\nThe far end sent no figures of its own.\n");
    }
}
