//! STAMP at the far end (RFC 8762, RFC 8972): session sender and reflector.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto::{
    measured::{
        RunError, own_loss,
        plan::Tempo,
        stamp::{
            self, Reflection, ReflectorIntervals, StampLive, StampPacing, StampPlan, StampPlanError,
            StampResult, StampTarget,
        },
    },
    view::{
        format::{count, plural},
        rows::Record,
        stamp::lines,
    },
};
use giusto_net::{TrafficClass, driver::Verdict};
use giusto_pace::IpVersion;
use giusto_session::probe::Prefixes;
use giusto_session::stamp::{
    ReflectorConfig, ReflectorCounters, STAMP_PORT, packet::Mode, time::TimestampFormat,
};
use giusto_units::{DataRate, DataSize};
use serde_json::json;

use crate::{
    args::{self, RateOrMax},
    console::{self, Progress},
    output::Output,
    printer::Printer,
    recv::{RecvArgs, note, port_alone},
    send::{self, SendArgs},
    usage::{UsageError, misuse},
};

/// The format of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Timestamps {
    Ntp,
    Ptp,
}

pub(crate) fn send(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let to = args::resolve_first(&args.target, args.port, STAMP_PORT)?;
    let plan = plan(args, to)?;
    let target = StampTarget {
        to,
        traffic_class: TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits()),
        interval: args.output.interval(),
    };
    let mut output = Output::new(args.json, &args.output, true);
    let mut printed = Ok(());
    let progress = Progress::live();
    let outcome = stamp::run(&plan, &target, stop, |live| {
        progress.say(live_line(live));
        if let (Some(figures), true) = (live.interval, printed.is_ok()) {
            printed = output.interval(figures);
        }
        if output.is_closed() || printed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    progress.clear();
    let result = outcome.map_err(|error| match error {
        RunError::Socket(error) => UsageError::new(error).into(),
        error => anyhow::Error::from(error),
    })?;
    printed?;

    let warnings = result.doubts.iter().map(|doubt| format!("warning: {doubt}"));
    let text: Vec<_> = warnings.chain(lines(&result)).collect();
    output.other(&text.join("\n"), &result, Record::StampResult(&result))?;
    if result.answered_packets == 0 && result.sent_packets > 0 {
        console::complain(&format!("error: {to}: {}", why_nothing_came(&result, plan.mode())));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::from(if result.doubts.is_empty() { 0 } else { console::DOUBTFUL }))
}

fn plan(args: &SendArgs, to: SocketAddr) -> Result<StampPlan, UsageError> {
    let keys = args.key_file.as_deref().map(args::read_keys).transpose()?;
    let size = (args.size != DataSize::ZERO).then_some(args.size);
    let tempo = args.rate.map(|RateOrMax(rate)| rate.map_or(Tempo::Max, Tempo::Rate));
    let pacing = StampPacing {
        layer: args.layer,
        pacing: args.pacing.pacing(args.strategy),
        limits: send::limits(args, false),
        ip: IpVersion::of(to.ip()),
        seed: args.seed,
        dont_fragment: args.dont_fragment,
        format: match args.timestamps {
            Timestamps::Ntp => TimestampFormat::Ntp,
            Timestamps::Ptp => TimestampFormat::Ptp,
        },
    };
    StampPlan::new(size, tempo, keys, pacing).map_err(|error| match error {
        StampPlanError::Stream(error) => error.into(),
        error => UsageError::new(format!("--size: {error}")),
    })
}

fn live_line(live: StampLive) -> String {
    let [sent, answered] = [live.sent_packets, live.answered_packets].map(count);
    let round_trip = live.round_trip.map_or_else(String::new, |time| format!(", round trip {time:.2}"));
    format!("{sent} sent, {answered} answered{round_trip}")
}

/// The likely cause of a run without answers.
fn why_nothing_came(result: &StampResult, mode: Mode) -> String {
    if result.port_unreachable > 0 {
        "no answer, the port is unreachable: is a STAMP reflector running there, such as `giusto recv --accept stamp`?"
            .to_owned()
    } else if result.forged_packets > 0 {
        "no answer that a key of --key-file verifies: use the key of the reflector".to_owned()
    } else if result.malformed_packets > 0 {
        let fix = match mode {
            Mode::Authenticated => "is the reflector in authenticated mode?",
            Mode::Unauthenticated => "is it a STAMP reflector?",
        };
        format!("no answer, only datagrams that are too short for one: {fix}")
    } else if result.unmatched_packets > 0 {
        "no answer that repeats the number and the time of its packet: is it a STAMP reflector in the same mode?".to_owned()
    } else if mode == Mode::Authenticated {
        "no answer: the reflector does not run, has another key or is unauthenticated, or a firewall drops the packets".to_owned()
    } else {
        "no answer: the reflector does not run or requires authentication (--key-file), or a firewall drops the packets"
            .to_owned()
    }
}

pub(crate) fn reflect(args: &RecvArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if args.max_rate == Some(DataRate::ZERO) {
        misuse!("--max-rate: must be above 0 bit/s, found 0 bit/s");
    }
    let keys = args.key_file.as_deref().map(args::read_keys).transpose()?;
    let authenticated = keys.is_some();
    let defaults = ReflectorConfig::default();
    let config = ReflectorConfig {
        stateful: !args.stateless,
        keys,
        prefixes: Prefixes { allow: args.allow.clone(), deny: args.deny.clone() },
        max_sessions: args.max_streams.into(),
        max_sessions_per_source: args.max_streams_per_host.into(),
        max_rate: args.max_rate.unwrap_or(defaults.max_rate),
        dscp: args.dscp.unwrap_or(defaults.dscp),
        session_timeout: defaults.session_timeout,
    };
    let mut reflection = open(args.place()?.as_deref(), &config)?;

    let mut printer = Printer::start(Progress::live())?;
    printer.note(format!(
        "listening on {} (UDP, STAMP{}); Ctrl-C ends and prints the counts",
        reflection.socket.local_addr(),
        if authenticated { ", authenticated" } else { "" }
    ));
    let clock = reflection.clock;
    let start = clock.now();
    let end = args.duration.map(|duration| start + duration);
    let mut output = Output::new(args.json, &args.output, false).held();
    let mut intervals = args.output.interval().map(|interval| ReflectorIntervals::new(interval, start));
    let mut printed = Ok(());
    let outcome = reflection.run(stop, |reflector, new| {
        let (counters, sessions) = (reflector.counters(), reflector.sessions());
        // Addresses may be made up: only the first few are shown.
        if let Some(from) = new.filter(|_| counters.sessions <= SHOWN_SESSIONS) {
            printer.note(format!("{from}: STAMP session"));
        }
        let ended = intervals.as_mut().and_then(|all| all.on_turn(clock.now(), counters, sessions));
        if let Some(figures) = ended {
            note(&mut printed, output.interval(figures));
            output.take().into_iter().for_each(|text| printer.result(text));
        }
        let shown = plural(sessions as u64, "session", "sessions");
        printer.live(format!("{shown}, {} reflected", count(counters.reflected)));
        let over = end.is_some_and(|end| clock.now() >= end) || printer.is_closed() || printed.is_err();
        if over { Verdict::Stop } else { Verdict::Continue }
    });
    printed?;
    let (counters, sessions, now) =
        (reflection.reflector().counters(), reflection.reflector().sessions(), clock.now());
    if let Some(last) = intervals.and_then(|all| all.finish(now, counters, sessions)) {
        output.interval(last)?;
    }
    let seconds = (now - start).as_seconds();
    let unsent = reflection.unsent_packets();
    let row = Record::ReflectorResult(&counters, seconds);
    let doubt = doubt(counters);
    let warning = doubt.as_ref().map(|doubt| format!("warning: {doubt}\n")).unwrap_or_default();
    let text = warning + &counters_text(counters, unsent);
    output.other(&text, &counters_json(counters, unsent), row)?;
    output.take().into_iter().for_each(|text| printer.result(text));
    printer.finish(stop)?;
    outcome?;
    Ok(console::status(doubt.is_some()))
}

/// Why senders may not trust the losses on the way to this reflector.
fn doubt(counters: ReflectorCounters) -> Option<String> {
    own_loss("reflector", counters.kernel_dropped, None)
}

/// The number of sessions that are announced.
const SHOWN_SESSIONS: u64 = 100;

fn counters_json(counters: ReflectorCounters, unsent: u64) -> serde_json::Value {
    let ReflectorCounters {
        reflected,
        sessions,
        denied,
        malformed,
        forged,
        replayed,
        looped,
        over_rate,
        refused,
        kernel_dropped,
        refused_dscp,
    } = counters;
    json!({
        "protocol": "stamp",
        "sessions": sessions,
        "reflected_packets": reflected,
        "unsent_packets": unsent,
        "refused_dscp_packets": refused_dscp,
        "unanswered_packets": {
            "denied": denied,
            "malformed": malformed,
            "forged": forged,
            "replayed": replayed,
            "looped": looped,
            "over_rate": over_rate,
            "refused": refused,
            "kernel_dropped": kernel_dropped,
        },
        "doubts": doubt(counters).into_iter().collect::<Vec<_>>(),
    })
}

fn counters_text(counters: ReflectorCounters, unsent: u64) -> String {
    let mut text = format!(
        "reflected {} of {}",
        plural(counters.reflected, "packet", "packets"),
        plural(counters.sessions, "session", "sessions")
    );
    let others = [
        (counters.denied, "from addresses not allowed"),
        (counters.malformed, "malformed"),
        (counters.forged, "not authentic"),
        (counters.replayed, "replayed"),
        (counters.looped, "from another reflector"),
        (counters.over_rate, "above the rate of a host"),
        (counters.refused, "without room for their session"),
        (counters.kernel_dropped, "dropped by the full socket buffer"),
        (unsent, "not taken by the system"),
    ];
    let others: Vec<_> =
        others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    if !others.is_empty() {
        text.push_str("; not answered: ");
        text.push_str(&others.join(", "));
    }
    if counters.refused_dscp > 0 {
        let answers = plural(counters.refused_dscp, "answer", "answers");
        text.extend(["; ", &answers, " without the DSCP asked for, which is for network control"]);
    }
    text
}

/// Listens as asked; without an address on port 862 of every address, on a machine without IPv6 on every IPv4 address.
fn open(asked: Option<&str>, config: &ReflectorConfig) -> anyhow::Result<Reflection> {
    let any = |port: u16| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let port = asked.map_or(Some(STAMP_PORT), port_alone);
    let address = match (port, asked) {
        (Some(port), _) => any(port),
        (None, Some(text)) => args::unicast(listen_address(text)?)?,
        (None, None) => any(STAMP_PORT),
    };
    let mut opened = Reflection::open(address, config.clone());
    if opened.is_err() && port.is_some() {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        opened = Reflection::open(address, config.clone());
    }
    opened.map_err(|error| match error {
        RunError::Socket(error) => {
            let fix = "choose another port, such as 8620; ports below 1024 need privilege";
            UsageError::new(format!("{error}: {fix}")).into()
        }
        error => error.into(),
    })
}

/// An address with or without a port, 0 for any free one.
fn listen_address(text: &str) -> Result<SocketAddr, UsageError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, STAMP_PORT));
    }
    args::resolve_first(text, None, STAMP_PORT)
}
