//! `giusto recv`: receives streams and measures each of them.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::Args;
use giusto_net::{driver::Verdict, http::TextServer};
use giusto_session::probe::{
    Counters, Ended, Passive, Prefixes, Receiver, ReceiverConfig, ReceiverEvent, Stream, StreamLimits,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use ipnet::IpNet;
use serde_json::json;

use crate::{
    args::{self, DEFAULT_PORT},
    console::{self, Progress},
    iperf3,
    live::{self, Awaits, LiveArgs, LivePage},
    output::{Output, OutputArgs},
    printer::Printer,
    stamp,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        RunError,
        interval::ReceptionIntervals,
        metrics::{CONTENT_TYPE, Metrics, StreamTotals},
        recv::{self, Reception, ReceptionConfig, Shown},
        result::RunResult,
    },
    view::format::plural,
};

/// The number of results kept until the end, the newest, so that other hosts cannot exhaust the memory.
const MAX_RESULTS: usize = 10_000;

/// How long a receiver with --once answers its sender, which asks again where the final report was lost.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// The time between two live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(250);

/// The shortest --idle.
pub(crate) const MIN_IDLE: TimeDelta = TimeDelta::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv
  giusto recv -i 1                        prints a line a second
  giusto recv 127.0.0.1:5005 --once --json
  giusto recv 0.0.0.0:6000 --accept rtp   measures RTP from any program
  giusto recv --accept iperf3             serves `iperf3 -u -c` on port 5201
  giusto recv --accept stamp              reflects STAMP, TWAMP Light; port 862
  giusto recv --metrics 127.0.0.1:9105    serves metrics for Prometheus
  giusto recv --live                      shows the streams in a browser")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct RecvArgs {
    /// Address and port to listen on, or a port alone [default: port 5005 of every address; iperf3: 5201, stamp: 862]
    #[arg(value_name = "ADDR")]
    pub(crate) address: Option<String>,

    /// Port to listen on, if not in the address
    #[arg(short, long, value_name = "PORT", value_parser = args::port)]
    pub(crate) port: Option<u16>,

    /// End with the first stream
    #[arg(long)]
    pub(crate) once: bool,

    /// Also measure datagrams that no giusto sender announced: RTP only, or of any content (raw); each source address is a
    /// stream. Or serve other programs instead: iperf3 clients in UDP mode, or STAMP senders (RFC 8762)
    #[arg(long, value_name = "KIND")]
    pub(crate) accept: Option<Accept>,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated datagrams count
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
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = args::time)]
    pub(crate) idle: TimeDelta,

    /// End after this time
    #[arg(short = 't', long, value_name = "TIME", value_parser = args::time_above_zero)]
    pub(crate) duration: Option<TimeDelta>,

    /// Maximum number of simultaneous streams, each of up to 2 MB of memory [stamp: 16384 sessions]
    #[arg(long, default_value = "256", default_value_if("accept", "stamp", "16384"), value_name = "N",
          value_parser = args::whole::<u16>(1, 65_535))]
    pub(crate) max_streams: u16,

    /// Maximum number of simultaneous streams from one IPv4 address or one IPv6 prefix of 64 bits [stamp: 1024]
    #[arg(long, default_value = "128", default_value_if("accept", "stamp", "1024"), value_name = "N",
          value_parser = args::whole::<u16>(1, 65_535))]
    pub(crate) max_streams_per_host: u16,

    /// Maximum number of simultaneous streams that --accept measures, beside the announced ones
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = args::whole::<u16>(1, 65_535))]
    max_unannounced: u16,

    /// Maximum number of streams sent at the same time to ends that ask for them (`giusto send --reverse`); 0: none
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = args::whole::<u16>(0, 1000))]
    max_reverse: u16,

    /// End streams that carry more payload
    #[arg(long, value_name = "BYTES", value_parser = args::quantity::<DataSize>)]
    pub(crate) max_bytes: Option<DataSize>,

    /// End streams that last longer; with --accept iperf3, refuse tests that announce it
    #[arg(long, value_name = "TIME", value_parser = args::time_above_zero)]
    pub(crate) max_lifetime: Option<TimeDelta>,

    /// Refuse streams that announce a higher rate, and end those that are faster; with --accept stamp, the rate of answers to
    /// one host [default: none; stamp: 100M]
    #[arg(long, value_name = "RATE", value_parser = args::quantity::<DataRate>)]
    pub(crate) max_rate: Option<DataRate>,

    /// Read every datagram by itself instead of in runs, so that each has its own kernel timestamp
    #[arg(long)]
    pub(crate) no_offload: bool,

    /// With --accept stamp: copy the sender's numbers instead of counting each session's packets (RFC 8762 §4)
    #[arg(long)]
    pub(crate) stateless: bool,

    /// With --accept stamp: differentiated services code point of the answers, except to packets that ask for another one in a
    /// Class of Service TLV (RFC 8972 §4.4) [default: 0]
    #[arg(long, value_name = "0..63", value_parser = args::whole::<u8>(0, 63))]
    pub(crate) dscp: Option<u8>,

    /// Serve metrics for Prometheus by HTTP at this address, path /metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    live: LiveArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Print one JSON object: that of the stream with --once, else {"runs": […]} at the end
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
}

/// Senders to serve besides giusto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Accept {
    Rtp,
    Raw,
    Iperf3,
    Stamp,
}

#[expect(clippy::too_many_lines, reason = "one run, from its flags to its exit status")]
pub(crate) fn run(
    args: &RecvArgs,
    stop: &AtomicBool,
    page: &mut Option<LivePage>,
) -> anyhow::Result<ExitCode> {
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
    let address = args::unicast(listen_address(args.address.as_deref(), args.port)?)?;
    if args.idle < MIN_IDLE {
        misuse!("--idle: must be at least {MIN_IDLE}, found {}", args.idle);
    }
    let rtcp = passive == Some(Passive::Rtp);
    let config = ReceptionConfig {
        address,
        offload: !args.no_offload,
        rtcp,
        receiver: receiver_config(args, passive)?,
    };
    let mut reception = open(&config, args.address.as_deref())?;
    let mut monitoring = args.metrics.map(Monitoring::start).transpose()?;

    let mut feed = args.live.start("giusto recv", Awaits::Others("streams"), page)?;
    let mut shown = VecDeque::new();
    let mut printer = Printer::start(Progress::live())?;
    announce(&mut printer, &reception, monitoring.as_ref());
    let granted = reception.socket.granted().clone();
    let reverse = reception.reverse.clone();
    let mut results = Results::default();
    let mut first = None;
    let mut counters = Counters::default();
    let mut output = Output::new(args.json, &args.output, false).held();
    let mut intervals = args.output.interval().map(ReceptionIntervals::new);
    let mut printed = Ok(());
    let (mut doubtful, mut abandoned, mut limited) = (false, false, None);
    let clock = reception.clock;
    let mut live_at = clock.now();
    let mut end = args.duration.map(|duration| clock.now() + duration);
    let outcome = reception.run(stop, |receiver, event| {
        counters = receiver.counters();
        if let Some(monitoring) = &mut monitoring {
            monitoring.on_event(clock.now(), receiver, event.as_ref());
        }
        if let Some(feed) = &mut feed {
            let now = clock.now();
            let shown = Shown { at: now, run: 0, name: None };
            recv::watch(feed, shown, (now, receiver), event.as_ref());
        }
        let only = first.filter(|_| args.once);
        let ended = intervals.as_mut().map(|all| all.on_event(clock.now(), receiver, event.as_ref(), only));
        if let Some(figures) = ended.flatten() {
            note(&mut printed, output.interval(figures));
        }
        match event {
            Some(ReceiverEvent::Opened(id)) => {
                first.get_or_insert(id);
                if let Some(stream) = receiver.stream(id) {
                    printer.note(format!("{}: {}", stream.from(), describe(stream)));
                }
            }
            Some(ReceiverEvent::Reverse(asked)) => {
                let rate = asked.request.rate_bps.map(DataRate::from_bps);
                let stream = format!("stream of {}", describe_stream(rate, asked.request.size));
                printer.note(format!("{}: asks for a {stream}", asked.to));
            }
            // With --once another sender's stream ends nothing, and is not shown.
            Some(ReceiverEvent::Closed(id, _)) if args.once && first != Some(id) => {}
            Some(ReceiverEvent::Closed(_, mut stream)) => {
                let result = recv::result(&mut stream, receiver.cpu_ratio(), &granted);
                doubtful |= !result.doubts.is_empty();
                abandoned |= stream.request().is_some() && stream.ended() == Some(Ended::Idle);
                if let Some(Ended::Limit(limit)) = stream.ended() {
                    limited = Some(limit);
                }
                if feed.is_some() {
                    live::keep(&mut shown, stream.from().to_string(), &result);
                }
                if output.is_one_object() {
                    results.keep(result);
                } else {
                    note(&mut printed, output.results(Some(&title(&result)), &[result]));
                }
                if args.once {
                    let finished = stream.ended() == Some(Ended::Finished);
                    end = Some(clock.now() + if finished { LINGER } else { TimeDelta::ZERO });
                }
            }
            _ if clock.now() < live_at => {}
            _ => {
                live_at = clock.now() + LIVE;
                let live = recv::live(receiver);
                let streams = plural(live.streams as u64, "stream", "streams");
                printer.live(format!("{streams}: {}", console::live_line(&live)));
            }
        }
        for (to, outcome) in reverse.take() {
            match outcome {
                Ok(result) => {
                    doubtful |= !result.doubts.is_empty();
                    if output.is_one_object() {
                        results.keep(result);
                    } else {
                        note(&mut printed, output.results(Some(&format!("sent to {to}:")), &[result]));
                    }
                }
                Err(error) => printer.note(format!("warning: {to}: no stream was sent: {error}")),
            }
            if args.once && first.is_none() {
                end = Some(clock.now());
            }
        }
        output.take().into_iter().for_each(|text| printer.result(text));
        if printer.is_closed() || printed.is_err() {
            return Verdict::Stop;
        }
        if end.is_some_and(|end| clock.now() >= end) { Verdict::Stop } else { Verdict::Continue }
    });
    if let Some(feed) = &mut feed {
        feed.finish(clock.now());
    }
    LivePage::keep_result(page, live::report(shown));
    printed?;
    if output.is_one_object() {
        results.print(&mut output, counters, args.once)?;
        output.take().into_iter().for_each(|text| printer.result(text));
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

impl RecvArgs {
    /// The address as text, with the port of --port.
    pub(crate) fn place(&self) -> Result<Option<String>, UsageError> {
        match (self.address.as_deref(), self.port) {
            (address, None) => Ok(address.map(str::to_owned)),
            (None, Some(port)) => Ok(Some(port.to_string())),
            (Some(text), Some(port)) => match text.parse::<IpAddr>() {
                Ok(ip) => Ok(Some(SocketAddr::new(ip, port).to_string())),
                Err(_) => misuse!(
                    "--port: give the port in the address, or --port and an IP address, found \"{text}\""
                ),
            },
        }
    }
}

fn receiver_config(args: &RecvArgs, passive: Option<Passive>) -> Result<ReceiverConfig, UsageError> {
    let default = ReceptionConfig::default().receiver;
    Ok(ReceiverConfig {
        max_streams: args.max_streams.into(),
        max_streams_per_host: args.max_streams_per_host.into(),
        max_unannounced: args.max_unannounced.into(),
        max_reverse: args.max_reverse.into(),
        max_reverse_rate: args.max_rate.unwrap_or(default.max_reverse_rate),
        limits: StreamLimits { rate: args.max_rate, size: args.max_bytes, lifetime: args.max_lifetime },
        keys: args.key_file.as_deref().map(args::read_keys).transpose()?,
        accept_unauthenticated: args.accept_unauthenticated,
        prefixes: Prefixes { allow: args.allow.clone(), deny: args.deny.clone() },
        idle_timeout: args.idle,
        passive,
        ..default
    })
}

/// A prefix of addresses; a single address is one, too.
fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| format!("expected an address or a prefix such as 192.0.2.0/24, found \"{text}\"");
    text.parse().or_else(|_| address()).map_err(wrong)
}

fn announce(printer: &mut Printer, reception: &Reception, monitoring: Option<&Monitoring>) {
    let address = reception.socket.local_addr();
    let rtcp = reception
        .rtcp
        .as_ref()
        .map_or_else(String::new, |rtcp| format!(", RTCP also on port {}", rtcp.local_addr().port()));
    printer.note(format!("listening on {address} (UDP){rtcp}; Ctrl-C ends and prints the result"));
    if let Some(monitoring) = monitoring {
        printer.note(format!("metrics at http://{}/metrics", monitoring.server.local_addr()));
    }
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = text.parse().ok().or_else(|| port_alone(text).map(local));
    let address = address
        .ok_or_else(|| format!("expected an address and a port, such as 127.0.0.1:9105, found \"{text}\""))?;
    args::unicast(address).map_err(|error| error.to_string())
}

/// What --metrics needs.
struct Monitoring {
    metrics: Arc<Metrics>,
    server: TextServer,
    ended: StreamTotals,
    update_at: Timestamp,
}

impl Monitoring {
    fn start(address: SocketAddr) -> Result<Self, UsageError> {
        let metrics = Arc::new(Metrics::new());
        let shown = Arc::clone(&metrics);
        let server = TextServer::start(address, "/metrics", CONTENT_TYPE, move || shown.text());
        let server = server.map_err(|error| {
            UsageError::new(format!("--metrics {address}: {error}: choose another address or port"))
        })?;
        Ok(Self { metrics, server, ended: StreamTotals::default(), update_at: Timestamp::ZERO })
    }

    fn on_event(&mut self, now: Timestamp, receiver: &Receiver, event: Option<&ReceiverEvent>) {
        self.metrics.on_event(event);
        self.ended.on_event(event);
        if now >= self.update_at {
            self.update_at = now + LIVE;
            self.metrics.update(receiver, &self.ended);
        }
    }
}

/// Keeps the first error.
pub(crate) fn note(all: &mut anyhow::Result<()>, this: anyhow::Result<()>) {
    if all.is_ok() {
        *all = this;
    }
}

/// The line above a result: whose it is.
fn title(result: &RunResult) -> String {
    let from = result.from.as_deref().unwrap_or("unknown sender");
    match result.duration_s {
        Some(seconds) => format!("{from}, {seconds:.1} s:"),
        None => format!("{from}:"),
    }
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

    /// Prints them where only connections are counted besides.
    pub(crate) fn print_alone(&mut self, output: &mut Output, once: bool, denied: u64) -> anyhow::Result<()> {
        match &*self.newest.make_contiguous() {
            [one] if once => output.object(one),
            runs => output.object(&json!({
                "runs": runs,
                "omitted_runs": self.omitted,
                "denied_connections": denied,
            })),
        }
    }

    fn print(&mut self, output: &mut Output, counters: Counters, once: bool) -> anyhow::Result<()> {
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
            unanswered_handshakes,
        } = counters;
        match &*self.newest.make_contiguous() {
            [one] if once => output.object(one),
            runs => output.object(&json!({
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
                    "unanswered_handshakes": unanswered_handshakes,
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
        (counters.unanswered_handshakes, "of too many handshakes"),
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
    text.strip_prefix(':').unwrap_or(text).parse().ok()
}

fn listen_address(text: Option<&str>, port: Option<u16>) -> Result<SocketAddr, UsageError> {
    let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let without_port = port.unwrap_or(DEFAULT_PORT);
    let Some(text) = text else { return Ok(any(without_port)) };
    let with_port = port_alone(text).map(any).or_else(|| text.parse().ok());
    match (with_port, port) {
        (Some(address), Some(port)) if address.port() != port => {
            misuse!("--port: \"{text}\" has another port: give one of them")
        }
        (Some(address), _) => Ok(address),
        (None, _) => match text.parse() {
            Ok(ip) => Ok(SocketAddr::new(ip, without_port)),
            Err(_) => args::resolve_first(text, port, DEFAULT_PORT),
        },
    }
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
