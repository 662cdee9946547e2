//! iperf3 at the far end: its client and its server of UDP streams.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use giusto_net::TrafficClass;
use giusto_pace::IpVersion;
use giusto_session::{
    iperf3::{DEFAULT_PORT, MAX_STREAMS, Parameters, ServerConfig, ServerError},
    probe::payload::PayloadSizes,
};

use crate::{
    args::resolve_first,
    console::{self, Progress, print_json, print_text},
    recv::{MIN_IDLE, RecvArgs, Results, describe_stream},
    send::{SendArgs, base_plan},
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        iperf3::{Iperf3Error, Iperf3Live, Iperf3Server, Iperf3ServerConfig, Notice, Target, run},
        plan::{Layout, Media},
        result::{FarEndFigures, RunResult},
    },
    view::{
        format::{count, plural, rate},
        summary, table,
    },
};

/// Drives an iperf3 server.
pub(crate) fn send(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let unsupported = [
        ("--rtp", args.rtp),
        ("--raw", args.raw),
        ("--profile", args.profile.is_some()),
        ("--payload", args.payload.is_some()),
        ("--one-way", args.one_way),
        ("--key-file", args.key_file.is_some()),
    ];
    if let Some((flag, _)) = unsupported.iter().find(|(_, given)| *given) {
        misuse!(
            "{flag}: not supported with --protocol iperf3, whose datagrams have one size and a fixed format: leave it out"
        );
    }
    let streams = usize::from(args.streams);
    if streams > MAX_STREAMS {
        misuse!("--streams: must be at most {MAX_STREAMS} with --protocol iperf3, found {streams}");
    }
    let to = resolve_first(&args.target, args.port, DEFAULT_PORT)?;
    let media = Media::Filler(Layout::Iperf3 { wide_counters: true }, PayloadSizes::Fixed(args.size));
    let plan = base_plan(args, media).resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
    let target = Target {
        to,
        streams,
        reverse: args.reverse,
        bidirectional: args.bidir,
        traffic_class: TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits()),
    };

    let progress = Progress::live();
    let outcome = run(&plan, &target, stop, |live| progress.say(live_line(live)));
    progress.clear();
    let run = outcome.map_err(|error| match error {
        Iperf3Error::Socket(error) => UsageError::new(error).into(),
        error => anyhow::Error::from(error),
    })?;
    print(&run.results, args.json, args.output.is_verbose())?;
    if let Some(failure) = run.failure {
        console::complain(&format!("error: {to}: {failure}; the figures cover the time until then"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::measured(&run.results))
}

fn live_line(live: &Iperf3Live) -> String {
    let sent = live.sent_packets.map(|sent| format!("{sent} sent"));
    let received = live.received.as_ref().map(console::live_line);
    [sent, received].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Prints results of streams with iperf3 at the far end.
fn print(results: &[RunResult], json: bool, verbose: bool) -> anyhow::Result<()> {
    console::print_doubts(results, json)?;
    match (json, results) {
        (true, [one]) => print_json(one),
        (true, many) => print_json(&BTreeMap::from([("runs", many)])),
        (false, results) => {
            let every = match results {
                _ if !verbose => String::new(),
                [one] => format!("\n{}", table::run(one)),
                many => format!("\n{}", table::runs(many, console::width())),
            };
            print_text(&(summaries(results) + &told(results) + &every))
        }
    }
}

/// The summary, one of each direction if there are both.
fn summaries(results: &[RunResult]) -> String {
    let (received, sent): (Vec<_>, Vec<_>) = results.iter().cloned().partition(|run| run.from.is_some());
    if received.is_empty() || sent.is_empty() {
        return summary::text(results);
    }
    format!("sent:\n{}\nreceived:\n{}", summary::text(&sent), summary::text(&received))
}

/// The far end's own figures of all streams, named as such.
fn told(results: &[RunResult]) -> String {
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
            "  received  {packets}, {lost} lost, jitter {most}{jitter:.3} ms, {mean_rate} over its test"
        ));
    }
    lines.join("\n") + "\n"
}

/// Serves iperf3 clients.
pub(crate) fn serve(args: &RecvArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if args.idle < MIN_IDLE {
        misuse!("--idle: must be at least {MIN_IDLE}, found {}", args.idle);
    }
    if args.key_file.is_some() {
        misuse!(
            "--key-file: not supported with --accept iperf3, whose protocol has no such keys: leave it out"
        );
    }
    let (address, any_address) = listen_address(args.place()?.as_deref())?;
    let config = Iperf3ServerConfig {
        address,
        offload: !args.no_offload,
        limits: ServerConfig {
            max_streams: usize::from(args.max_streams).min(ServerConfig::default().max_streams),
            max_rate: args.max_rate,
            idle_timeout: args.idle,
        },
    };
    let mut opened = Iperf3Server::open(&config);
    if opened.is_err() && any_address {
        // A machine without IPv6.
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        opened = Iperf3Server::open(&Iperf3ServerConfig { address, ..config });
    }
    let mut server = opened.map_err(|error| {
        anyhow::Error::from(UsageError::new(format!(
            "{error}: choose another port, or port 0 for any free port"
        )))
    })?;

    let progress = Progress::live();
    progress
        .note(&format!("listening on {} (iperf3); Ctrl-C ends and prints the result", server.local_addr()));
    let clock = server.clock();
    let end = args.duration.map(|duration| clock.now() + duration);
    let mut results = Results::default();
    let mut printed = Ok(());
    let (mut doubtful, mut failure) = (false, None);
    server.run(stop, |notice| {
        match notice {
            Notice::Opened { from, parameters } => {
                progress.note(&format!("{from}: {}", describe(parameters)));
            }
            Notice::Live(live) => progress.say(live_line(live)),
            Notice::Refused { from, error } => progress.note(&format!("{from}: {error}")),
            Notice::Closed { results: streams, failure: why } => {
                doubtful |= streams.iter().any(|result| !result.doubts.is_empty());
                if let Some(why) = &why {
                    progress.note(&format!("the test ended early: {why}"));
                }
                failure = why;
                if args.json {
                    for result in streams {
                        results.keep(result);
                    }
                } else if !streams.is_empty()
                    && let Err(error) = print(&streams, false, args.output.is_verbose())
                {
                    printed = Err(error);
                }
                if args.once {
                    return false;
                }
            }
            _ => {}
        }
        end.is_none_or(|end| clock.now() < end)
    });
    progress.clear();
    printed?;
    if args.json {
        results.print_alone(args.once)?;
    }
    match failure {
        Some(why) if args.once && !matches!(why, ServerError::Ended(_)) => anyhow::bail!("{why}"),
        _ => Ok(ExitCode::from(if doubtful { console::DOUBTFUL } else { 0 })),
    }
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
            told(std::slice::from_ref(&result)),
            "\nFigures of the far end (iperf3 server)\n  received  1,000 datagrams, 1 lost, jitter 0.012 ms, 1.000 Mbit/s \
             over its test\n"
        );
        assert_eq!(
            told(&[result.clone(), result, sent]),
            "\nFigures of the far end (iperf3 server)\n  sent      5 datagrams, 2.000 Mbit/s over its test\n  \
             received  2,000 datagrams, 2 lost, jitter at most 0.012 ms, 2.000 Mbit/s over its test\n"
        );
        assert_eq!(told(&[RunResult::default()]), "\nThe far end sent no figures of its own.\n");
    }
}
