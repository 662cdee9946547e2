//! `giusto recv`: receives streams and measures each of them.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::Args;
use giusto_net::{PathOptions, http::TextServer};
use giusto_session::probe::{
    Counters, Ended, Passive, Receiver, ReceiverConfig, ReceiverEvent, Stream, StreamLimits,
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use serde_json::json;

use crate::{
    args::{self, DEFAULT_PORT},
    console,
    live::{self, Awaits, LiveArgs, LivePage},
    printer::Printer,
    run::Run,
    server::{ServerArgs, Service, StreamsArgs, describe_request, port_alone},
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        interval::ReceptionIntervals,
        metrics::{CONTENT_TYPE, Metrics, StreamTotals},
        recv::{self, Reception, ReceptionConfig, Shown},
        result::RunResult,
        reverse::ReverseRuns,
    },
    view::format::plural,
};

/// How long a receiver with --once answers its sender, which asks again where the final report was lost.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// The time between two live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(250);

const UNANNOUNCED: &str = "datagrams arrive that no sender announced: --accept raw measures any, also of send --one-way; --accept rtp measures RTP";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv
  giusto recv -i 1                        prints a line a second
  giusto recv 127.0.0.1:5005 --once --json
  giusto recv 0.0.0.0:6000 --accept rtp   measures RTP from any program
  giusto recv 239.1.2.3 --interface eth1  joins a multicast group
  giusto recv 232.1.2.3 --ssm 192.0.2.7   the same, of one source
  giusto recv --accept iperf3             serves `iperf3 -u -c` on port 5201
  giusto recv --accept stamp              reflects STAMP, TWAMP Light; port 862
  giusto recv --metrics 127.0.0.1:9105    serves metrics for Prometheus
  giusto recv --live                      shows the streams in a browser")]
pub(crate) struct RecvArgs {
    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    streams: StreamsArgs,

    /// Receive and send by this interface alone
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    /// With the address of a multicast group: receive only what these hosts send to it (SSM, RFC 4607), comma-separated
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    ssm: Vec<IpAddr>,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated datagrams count
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// With --key-file, also serve senders without keys; a quarter of the streams is kept for those with keys
    #[arg(long, requires = "key_file")]
    accept_unauthenticated: bool,

    /// Maximum number of simultaneous streams from one IPv4 address or one IPv6 prefix of 64 bits
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = args::whole::<u16>(1, 65_535))]
    max_streams_per_host: u16,

    /// Maximum number of simultaneous streams that --accept measures, beside the announced ones
    #[arg(long, default_value_t = 64, value_name = "N", requires = "accept", value_parser = args::whole::<u16>(1, 65_535))]
    max_unannounced: u16,

    /// Maximum number of streams sent at the same time to ends that ask for them (`giusto send --reverse`); 0: none
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = args::whole::<u16>(0, 1000))]
    max_reverse: u16,

    /// End streams that carry more payload
    #[arg(long, value_name = "BYTES", value_parser = args::quantity::<DataSize>)]
    max_bytes: Option<DataSize>,

    /// Serve metrics for Prometheus by HTTP at this address, path /metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    live: LiveArgs,
}

impl Run for RecvArgs {
    #[expect(clippy::too_many_lines, reason = "one run, from its flags to its exit status")]
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let StreamsArgs { once, idle, no_offload, text, .. } = self.streams;
        let receiver = self.config()?;
        let config = ReceptionConfig {
            sources: self.sources()?,
            path: PathOptions { interface: self.interface.clone(), ..PathOptions::default() },
            offload: !no_offload,
            rtcp: receiver.passive == Some(Passive::Rtp),
            receiver,
            ..ReceptionConfig::default()
        };
        let mut reception = self.server.open_any(DEFAULT_PORT, |address| {
            Reception::open(&ReceptionConfig { address, ..config.clone() })
        })?;
        let mut monitoring = self.metrics.map(Monitoring::start).transpose()?;

        let mut feed = self.live.start("giusto recv", Awaits::Others("streams"), page)?;
        let mut shown = VecDeque::new();
        let clock = reception.clock;
        let mut service = Service::start(&self.server, text, clock)?;
        announce(&mut service.printer, &reception, monitoring.as_ref());
        let granted = reception.socket.granted();
        let reverse = reception.reverse.clone();
        let mut first = None;
        let mut counters = Counters::default();
        let mut intervals = self.server.output.interval.map(ReceptionIntervals::new);
        let (mut abandoned, mut limited) = (false, None);
        // What no sender of ours announced is measured with --accept alone.
        let mut has_hint = self.key_file.is_none() || self.accept_unauthenticated;
        let mut live_at = clock.now();
        let outcome = reception.run(stop, |receiver, event| {
            counters = receiver.counters();
            if has_hint && first.is_none() && counters.foreign > 0 {
                has_hint = false;
                service.printer.note(UNANNOUNCED.to_owned());
            }
            if let Some(monitoring) = &mut monitoring {
                monitoring.on_event(clock.now(), receiver, event.as_ref());
            }
            if let Some(feed) = &mut feed {
                let now = clock.now();
                let shown = Shown { at: now, run: 0, name: None };
                recv::watch(feed, shown, now, receiver, event.as_ref());
            }
            let only = first.filter(|_| once);
            let ended =
                intervals.as_mut().map(|all| all.on_event(clock.now(), receiver, event.as_ref(), only));
            if let Some(figures) = ended.flatten() {
                service.interval(figures);
            }
            match event {
                Some(ReceiverEvent::Opened(id)) => {
                    first.get_or_insert(id);
                    if let Some(stream) = receiver.stream(id) {
                        service.printer.note(format!("{}: {}", stream.from(), describe(stream)));
                    }
                }
                Some(ReceiverEvent::Moved(id)) => {
                    if let Some(stream) = receiver.stream(id) {
                        let before = stream
                            .former_paths()
                            .last()
                            .map_or_else(String::new, |path| path.from.to_string());
                        service
                            .printer
                            .note(format!("{before}: the stream now comes from {}", stream.from()));
                    }
                }
                Some(ReceiverEvent::Reverse(asked)) => {
                    let stream = format!("stream of {}", describe_request(&asked.request));
                    service.printer.note(format!("{}: asks for a {stream}", asked.to));
                }
                Some(ReceiverEvent::ReverseMoved { from, to }) => {
                    service.printer.note(format!("{from}: the stream now goes to {to}"));
                }
                // With --once another sender's stream ends nothing, and is not shown.
                Some(ReceiverEvent::Closed(id, _)) if once && first != Some(id) => {}
                Some(ReceiverEvent::Closed(_, mut stream)) => {
                    let result = recv::result(&mut stream, receiver.cpu_ratio(), &granted);
                    abandoned |= stream.request().is_some() && stream.ended() == Some(Ended::Idle);
                    if let Some(Ended::Limit(limit)) = stream.ended() {
                        limited = Some(limit);
                    }
                    if feed.is_some() {
                        live::keep(&mut shown, stream.from().to_string(), &result);
                    }
                    service.results(Some(&title(&result)), vec![result]);
                    if once {
                        let finished = stream.ended() == Some(Ended::Finished);
                        service.end_in(if finished { LINGER } else { TimeDelta::ZERO });
                    }
                }
                _ if clock.now() < live_at => {}
                _ => {
                    live_at = clock.now() + LIVE;
                    let live = recv::live(receiver);
                    let streams = plural(live.streams as u64, "stream", "streams");
                    service.printer.live(format!("{streams}: {}", console::live_line(&live)));
                }
            }
            if print_sent(&mut service, &reverse) && once && first.is_none() {
                service.end_in(TimeDelta::ZERO);
            }
            service.turn()
        });
        // Streams that were sent until the end.
        print_sent(&mut service, &reverse);
        if let Some(feed) = &mut feed {
            feed.finish(clock.now());
        }
        LivePage::keep_result(page, live::report(shown));
        if service.output.is_one_object() {
            let reasons = counters.reasons().into_iter().map(|(name, _, datagrams)| (name, datagrams));
            let unmeasured = giusto::order::map(reasons.chain([("refused", counters.refused)]));
            service.print_object(once, giusto::order::map([("unmeasured_datagrams", json!(unmeasured))]))?;
        } else if counters != Counters::default() {
            service.printer.note(outside_streams(counters));
        }
        let status = service.finish(stop, false)?;
        outcome?;
        if once && abandoned {
            anyhow::bail!("the sender disappeared: nothing came from it for {idle}");
        }
        if let Some(limit) = limited.filter(|_| once) {
            anyhow::bail!("the stream was ended: {limit}");
        }
        Ok(status)
    }
}

/// Prints the streams that were sent to ends that asked for them, and have ended. Returns whether there are any.
fn print_sent(service: &mut Service, reverse: &ReverseRuns) -> bool {
    let ended = reverse.take();
    let any = !ended.is_empty();
    for (to, outcome) in ended {
        match outcome {
            Ok(result) => service.results(Some(&format!("sent to {to}:")), vec![result]),
            Err(error) => service.printer.note(format!("warning: {to}: no stream was sent: {error}")),
        }
    }
    any
}

impl RecvArgs {
    /// The sources of a group that are received.
    fn sources(&self) -> Result<Vec<IpAddr>, UsageError> {
        let (address, _) = self.server.listen_address(DEFAULT_PORT)?;
        let group = address.ip();
        if let Some(source) = self.ssm.first().filter(|_| !group.is_multicast()) {
            misuse!(
                "--ssm {source}: {group} is no multicast group: give one, such as 232.1.2.3, or use --allow"
            );
        }
        if let Some(source) = self.ssm.iter().find(|source| source.is_ipv4() != group.is_ipv4()) {
            misuse!("--ssm {source}: it must be of the same address family as the group {group}");
        }
        if group.is_multicast() && self.key_file.is_some() {
            misuse!(
                "--key-file: {group} is a multicast group, whose streams carry no authentication: leave it out"
            );
        }
        Ok(self.ssm.clone())
    }

    fn config(&self) -> Result<ReceiverConfig, UsageError> {
        let passive = match self.server.accept.as_deref() {
            None => None,
            Some("rtp") => Some(Passive::Rtp),
            Some(_) => Some(Passive::Raw),
        };
        if passive.is_some() && self.key_file.is_some() && !self.accept_unauthenticated {
            misuse!(
                "--accept: RTP and raw datagrams carry no authentication: add --accept-unauthenticated, or leave out --key-file"
            );
        }
        let StreamsArgs { max_streams, max_rate, max_lifetime, idle, .. } = self.streams;
        let default = ReceptionConfig::default().receiver;
        Ok(ReceiverConfig {
            max_streams: max_streams.into(),
            max_streams_per_host: self.max_streams_per_host.into(),
            max_unannounced: self.max_unannounced.into(),
            max_reverse: self.max_reverse.into(),
            max_reverse_rate: max_rate.unwrap_or(default.max_reverse_rate),
            limits: StreamLimits { rate: max_rate, size: self.max_bytes, lifetime: max_lifetime },
            keys: self.key_file.as_deref().map(args::read_keys).transpose()?,
            accept_unauthenticated: self.accept_unauthenticated,
            prefixes: self.server.prefixes(),
            idle_timeout: idle,
            passive,
            ..default
        })
    }
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

/// The line above a result: whose it is.
fn title(result: &RunResult) -> String {
    let from = result.from.as_deref().unwrap_or("unknown sender");
    match result.duration_s {
        Some(seconds) => format!("{from}, {seconds:.1} s:"),
        None => format!("{from}:"),
    }
}

/// The counts that are not zero.
fn outside_streams(counters: Counters) -> String {
    let counts = counters.reasons().into_iter().filter(|(_, _, datagrams)| *datagrams > 0);
    let counts: Vec<_> = counts.map(|(_, what, datagrams)| format!("{datagrams} {what}")).collect();
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    format!("datagrams outside streams: {counts}; streams refused: {}", counters.refused)
}

fn describe(stream: &Stream) -> String {
    let Some(request) = stream.request() else { return "unannounced stream".to_owned() };
    format!("stream of {}", describe_request(request))
}
