//! `giusto recv`: receives streams and measures each of them.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use clap::Args;
use giusto_net::driver::Verdict;
use giusto_session::probe::{
    Counters, Ended, Passive, Prefixes, ReceiverConfig, ReceiverEvent, Stream, StreamLimits,
};
use giusto_units::{DataRate, DataSize, TimeDelta};
use ipnet::IpNet;
use serde_json::json;

use crate::{
    args::{self, DEFAULT_PORT},
    console::{self, Progress},
    iperf3,
    printer::Printer,
    stamp,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        RunError,
        recv::{self, Reception, ReceptionConfig},
        result::RunResult,
    },
    view::{format::plural, table},
};

/// The number of results kept until the end, the newest, so that other hosts cannot exhaust the memory.
const MAX_RESULTS: usize = 10_000;

/// How long a receiver with --once answers its sender, which asks again where the final report was lost.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// The shortest --idle.
pub(crate) const MIN_IDLE: TimeDelta = TimeDelta::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv
  giusto recv 127.0.0.1:5005 --once --json
  giusto recv 0.0.0.0:6000 --accept rtp      measures RTP from any program
  giusto recv --accept iperf3                serves `iperf3 -u -c` on port 5201
  giusto recv --accept stamp                 reflects STAMP and TWAMP Light on port 862")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct RecvArgs {
    /// Address and port to listen on, or a port alone [default: port 5005 of every address]
    #[arg(value_name = "ADDR")]
    pub(crate) address: Option<String>,

    /// End with the first stream
    #[arg(long)]
    pub(crate) once: bool,

    /// Also measure datagrams that no giusto sender announced: RTP only, or of any content (raw); each source address is a
    /// stream. Or serve other programs instead: iperf3 clients in UDP mode, or STAMP senders (RFC 8762)
    #[arg(long, value_name = "KIND")]
    accept: Option<Accept>,

    /// File of keys that both ends share, a line "ID KEY" for each: only authenticated datagrams count
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// With --key-file, also serve senders without keys; a quarter of the streams is kept for those with keys
    #[arg(long, requires = "key_file")]
    pub(crate) accept_unauthenticated: bool,

    /// Serve only these addresses: prefixes such as 192.0.2.0/24, comma-separated
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = prefix)]
    pub(crate) allow: Vec<IpNet>,

    /// Do not answer these addresses
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = prefix)]
    pub(crate) deny: Vec<IpNet>,

    /// End a stream after this time without a datagram
    #[arg(long, default_value = "5s", value_name = "TIME")]
    pub(crate) idle: TimeDelta,

    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<TimeDelta>,

    /// Maximum number of simultaneous streams; a stream takes up to 2 MB of memory
    #[arg(long, default_value = "256", default_value_if("accept", "stamp", "16384"), value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_streams: u16,

    /// Maximum number of simultaneous streams from one IPv4 address or one IPv6 prefix of 64 bits
    #[arg(long, default_value = "128", default_value_if("accept", "stamp", "1024"), value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_streams_per_host: u16,

    /// Maximum number of simultaneous streams that --accept measures, beside the announced ones
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_unannounced: u16,

    /// End streams that carry more payload
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_bytes: Option<DataSize>,

    /// End streams that last longer
    #[arg(long, value_name = "TIME")]
    pub(crate) max_lifetime: Option<TimeDelta>,

    /// Refuse streams that announce a higher rate, and end those that are faster; with --accept stamp, the rate of answers to
    /// one host [default: 100M]
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<DataRate>,

    /// Read every datagram by itself instead of in runs, so that each has its own kernel timestamp
    #[arg(long)]
    pub(crate) no_offload: bool,

    /// With --accept stamp: copy the sender's numbers instead of counting each session's packets (RFC 8762 §4)
    #[arg(long)]
    pub(crate) stateless: bool,

    /// Print one JSON object: that of the stream with --once, else {"runs": […]} at the end
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whom to serve besides giusto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Accept {
    Rtp,
    Raw,
    Iperf3,
    Stamp,
}

pub(crate) fn run(args: &RecvArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if args.accept == Some(Accept::Iperf3) && !(args.allow.is_empty() && args.deny.is_empty()) {
        misuse!("--allow, --deny: not supported with --accept iperf3: use a packet filter of the system");
    }
    let passive = match args.accept {
        None => None,
        Some(Accept::Rtp) => Some(Passive::Rtp),
        Some(Accept::Raw) => Some(Passive::Raw),
        Some(Accept::Iperf3) => return iperf3::serve(args, stop),
        Some(Accept::Stamp) => return stamp::reflect(args, stop),
    };
    if passive.is_some() && args.key_file.is_some() && !args.accept_unauthenticated {
        misuse!(
            "--accept: RTP and raw datagrams carry no authentication: add --accept-unauthenticated, or leave out --key-file"
        );
    }
    let address = listen_address(args.address.as_deref())?;
    if args.idle < MIN_IDLE {
        misuse!("--idle: must be at least {MIN_IDLE}, found {}", args.idle);
    }
    let config =
        ReceptionConfig { address, offload: !args.no_offload, receiver: receiver_config(args, passive)? };
    let mut reception = open(&config, args.address.as_deref())?;

    let mut printer = Printer::start(Progress::live())?;
    printer.note(format!(
        "listening on {} (UDP); Ctrl-C ends and prints the result",
        reception.socket.local_addr()
    ));
    let granted = reception.socket.granted().clone();
    let mut results = Results::default();
    let mut first = None;
    let mut counters = Counters::default();
    let (mut doubtful, mut abandoned, mut limited) = (false, false, None);
    let clock = reception.clock;
    let mut end = args.duration.map(|duration| clock.now() + duration);
    let outcome = reception.run(stop, |receiver, event| {
        counters = receiver.counters();
        match event {
            Some(ReceiverEvent::Opened(id)) => {
                first.get_or_insert(id);
                if let Some(stream) = receiver.stream(id) {
                    printer.note(format!("{}: {}", stream.from(), describe(stream)));
                }
            }
            // With --once the stream of somebody else ends nothing, and is not shown.
            Some(ReceiverEvent::Closed(id, _)) if args.once && first != Some(id) => {}
            Some(ReceiverEvent::Closed(_, mut stream)) => {
                let result = recv::result(&mut stream, receiver.cpu_ratio(), &granted);
                doubtful |= !result.doubts.is_empty();
                abandoned |= stream.request().is_some() && stream.ended() == Some(Ended::Idle);
                if let Some(Ended::Limit(limit)) = stream.ended() {
                    limited = Some(limit);
                }
                if args.json {
                    results.keep(result);
                } else {
                    printer.result(result_text(&result));
                }
                if args.once {
                    let finished = stream.ended() == Some(Ended::Finished);
                    end = Some(clock.now() + if finished { LINGER } else { TimeDelta::ZERO });
                }
            }
            _ => {
                let live = recv::live(receiver);
                let streams = plural(live.streams as u64, "stream", "streams");
                printer.live(format!("{streams}: {}", console::live_line(&live)));
            }
        }
        if end.is_some_and(|end| clock.now() >= end) { Verdict::Stop } else { Verdict::Continue }
    });
    if args.json {
        printer.result(results.text(counters, args.once)?);
    } else if counters != Counters::default() {
        printer.note(outside_streams(counters));
    }
    printer.finish(stop)?;
    outcome?;
    if args.once && abandoned {
        anyhow::bail!("the sender disappeared: nothing came from it for {}", args.idle);
    }
    if let Some(limit) = limited.filter(|_| args.once) {
        anyhow::bail!("the stream was ended: {limit}");
    }
    Ok(ExitCode::from(if doubtful { console::DOUBTFUL } else { 0 }))
}

fn receiver_config(args: &RecvArgs, passive: Option<Passive>) -> Result<ReceiverConfig, UsageError> {
    Ok(ReceiverConfig {
        max_streams: args.max_streams.into(),
        max_streams_per_host: args.max_streams_per_host.into(),
        max_unannounced: args.max_unannounced.into(),
        limits: StreamLimits { rate: args.max_rate, size: args.max_bytes, lifetime: args.max_lifetime },
        keys: args.key_file.as_deref().map(args::read_keys).transpose()?,
        accept_unauthenticated: args.accept_unauthenticated,
        prefixes: Prefixes { allow: args.allow.clone(), deny: args.deny.clone() },
        idle_timeout: args.idle,
        passive,
        ..ReceptionConfig::default().receiver
    })
}

/// A prefix of addresses; a single address is one, too.
fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| format!("expected an address or a prefix such as 192.0.2.0/24, found \"{text}\"");
    text.parse().or_else(|_| address()).map_err(wrong)
}

fn result_text(result: &RunResult) -> String {
    let doubts: Vec<_> = result.doubts.iter().map(|doubt| format!("warning: {doubt}\n\n")).collect();
    doubts.concat() + &table::run(result)
}

/// The results that are printed at the end.
#[derive(Default)]
pub(crate) struct Results {
    newest: VecDeque<RunResult>,
    omitted: u64,
}

impl Results {
    pub(crate) fn keep(&mut self, result: RunResult) {
        if self.newest.len() >= MAX_RESULTS {
            self.newest.pop_front();
            self.omitted += 1;
        }
        self.newest.push_back(result);
    }

    /// Prints them where there is nothing else to count.
    pub(crate) fn print_alone(&mut self, once: bool) -> anyhow::Result<()> {
        match &*self.newest.make_contiguous() {
            [one] if once => console::print_json(one),
            runs => console::print_json(&json!({ "runs": runs, "omitted_runs": self.omitted })),
        }
    }

    fn text(&mut self, counters: Counters, once: bool) -> serde_json::Result<String> {
        let Counters {
            foreign,
            malformed,
            corrupt,
            other_version,
            forged,
            unauthenticated,
            other_source,
            probation,
            denied,
            late,
            refused,
        } = counters;
        match &*self.newest.make_contiguous() {
            [one] if once => serde_json::to_string_pretty(one),
            runs => serde_json::to_string_pretty(&json!({
                "runs": runs,
                "omitted_runs": self.omitted,
                "unmeasured_datagrams": {
                    "foreign": foreign,
                    "malformed": malformed,
                    "corrupt": corrupt,
                    "other_version": other_version,
                    "forged": forged,
                    "unauthenticated": unauthenticated,
                    "other_source": other_source,
                    "probation": probation,
                    "denied": denied,
                    "late": late,
                    "refused": refused,
                },
            })),
        }
    }
}

/// The counts that are not zero.
fn outside_streams(counters: Counters) -> String {
    let counts = [
        (counters.foreign, "foreign"),
        (counters.malformed, "malformed"),
        (counters.corrupt, "corrupt"),
        (counters.other_version, "of another version"),
        (counters.forged, "forged"),
        (counters.unauthenticated, "not authenticated"),
        (counters.other_source, "of another RTP source"),
        (counters.probation, "of RTP not confirmed yet"),
        (counters.denied, "from addresses not allowed"),
        (counters.late, "late"),
    ];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    format!("datagrams outside streams: {counts}; streams refused: {}", counters.refused)
}

/// Listens as configured; on a machine without IPv6, on every IPv4 address where no address was asked for.
fn open(config: &ReceptionConfig, asked: Option<&str>) -> anyhow::Result<Reception> {
    let any_address = asked.is_none_or(|text| port_alone(text).is_some());
    let mut opened = Reception::open(config);
    if opened.is_err() && any_address {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, config.address.port()));
        opened = Reception::open(&ReceptionConfig { address, ..config.clone() });
    }
    opened.map_err(|error| match error {
        RunError::Socket(error) => {
            UsageError::new(format!("{error}: choose another port, or port 0 for any free port")).into()
        }
        error => error.into(),
    })
}

pub(crate) fn port_alone(text: &str) -> Option<u16> {
    text.trim_start_matches(':').parse().ok()
}

fn listen_address(text: Option<&str>) -> Result<SocketAddr, UsageError> {
    let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let Some(text) = text else { return Ok(any(DEFAULT_PORT)) };
    if let Some(port) = port_alone(text) {
        return Ok(any(port));
    }
    let with_port = text.parse().or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, DEFAULT_PORT)));
    with_port.or_else(|_| args::resolve(text))
}

fn describe(stream: &Stream) -> String {
    let Some(request) = stream.request() else { return "unannounced stream".to_owned() };
    format!("stream of {}", describe_stream(request.rate_bps.map(DataRate::from_bps), request.size))
}

/// The rate and the size of a stream, in words.
pub(crate) fn describe_stream(rate: Option<DataRate>, size: Option<DataSize>) -> String {
    let rate = rate.map_or("maximum rate".to_owned(), |rate| rate.to_string());
    let size = size.map_or("varying sizes".to_owned(), |size| size.to_string());
    format!("{rate}, {size}")
}
