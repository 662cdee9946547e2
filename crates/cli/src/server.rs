//! The listening side of every protocol: the flags that all have, and what a service prints.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use clap::Args;
use giusto_net::{Clock, SocketError, driver::Verdict};
use giusto_session::probe::{
    Prefixes,
    wire::{StreamRequest, TimeKeeping},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use ipnet::IpNet;
use serde::Serialize;
use serde_json::json;

use crate::{
    args,
    console::{self, Progress},
    output::{Output, OutputArgs, TextArgs},
    printer::Printer,
    usage::{UsageError, misuse},
};
use giusto::measured::{RunError, interval::Interval, result::RunResult};

/// The only result, and what the service counted beside it.
#[derive(Serialize)]
struct Only<'a> {
    #[serde(flatten)]
    one: &'a RunResult,
    #[serde(flatten)]
    counts: BTreeMap<&'a str, serde_json::Value>,
}

/// The number of results kept until the end, the newest, so that other hosts cannot exhaust the memory.
const MAX_RESULTS: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address and port to listen on, or a port alone [default: port 5005 of every address; iperf3: 5201, stamp: 862]
    #[arg(value_name = "ADDR")]
    address: Option<String>,

    /// Port to listen on, if not in the address
    #[arg(short, long, value_name = "PORT", value_parser = args::port)]
    port: Option<u16>,

    /// Also measure datagrams that no giusto sender announced: RTP only, or of any content (raw); each source address is a
    /// stream. Or serve other programs instead, with flags of their own (`giusto recv --accept stamp --help`): iperf3 clients in
    /// UDP mode, STAMP senders (RFC 8762), or the load of `giusto send --protocol tcp`
    #[arg(long, value_name = "KIND")]
    pub(crate) accept: Option<String>,

    /// Serve only these addresses: prefixes such as 192.0.2.0/24, comma-separated
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = prefix)]
    allow: Vec<IpNet>,

    /// Do not answer these addresses
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = prefix)]
    deny: Vec<IpNet>,

    /// End after this time
    #[arg(short = 't', long, value_name = "TIME", value_parser = args::time_above_zero)]
    duration: Option<TimeDelta>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Flags of services that receive streams.
#[derive(Debug, Args)]
pub(crate) struct StreamsArgs {
    /// End with the first stream
    #[arg(long)]
    pub(crate) once: bool,

    /// End a stream after this time without a datagram
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = args::time_from_100_ms)]
    pub(crate) idle: TimeDelta,

    /// Maximum number of simultaneous streams, each of up to 2 MB of memory
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = args::whole::<u16>(1, 65_535))]
    pub(crate) max_streams: u16,

    /// End streams that last longer; with --accept iperf3, refuse tests that announce it
    #[arg(long, value_name = "TIME", value_parser = args::time_above_zero)]
    pub(crate) max_lifetime: Option<TimeDelta>,

    /// Refuse streams that announce a higher rate, and end those that are faster; without it, what this end sends is limited to 100M
    #[arg(long, value_name = "RATE", value_parser = args::rate_above_zero)]
    pub(crate) max_rate: Option<DataRate>,

    /// Read every datagram by itself instead of in runs, so that each has its own kernel timestamp
    #[arg(long)]
    pub(crate) no_offload: bool,

    #[command(flatten)]
    pub(crate) text: TextArgs,
}

/// A prefix of addresses; a single address is one, too.
fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| format!("expected an address or a prefix such as 192.0.2.0/24, found \"{text}\"");
    text.parse().or_else(|_| address()).map_err(wrong)
}

impl ServerArgs {
    pub(crate) fn prefixes(&self) -> Prefixes {
        Prefixes { allow: self.allow.clone(), deny: self.deny.clone() }
    }

    /// Listens as asked, by default on this port; on a machine without IPv6, on every IPv4 address where no address was asked for.
    pub(crate) fn open<T>(
        &self,
        default: u16,
        open: impl Fn(SocketAddr) -> Result<T, RunError>,
    ) -> anyhow::Result<T> {
        args::unicast(self.listen_address(default)?.0)?;
        self.open_any(default, open)
    }

    /// The same, where a multicast group is welcome.
    pub(crate) fn open_any<T>(
        &self,
        default: u16,
        open: impl Fn(SocketAddr) -> Result<T, RunError>,
    ) -> anyhow::Result<T> {
        let (address, any) = self.listen_address(default)?;
        let mut opened = open(address);
        if any && opened.as_ref().is_err_and(|error| binding(error) != Some(io::ErrorKind::AddrInUse)) {
            opened = open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())));
        }
        opened.map_err(|error| match error {
            RunError::Socket(error @ (SocketError::Join { .. } | SocketError::Interface { .. })) => {
                UsageError::new(error).into()
            }
            RunError::Socket(SocketError::Bind { ref source, .. }) | RunError::Listen { ref source, .. } => {
                UsageError::new(format!("{error}: {}", fix_of_binding(source.kind()))).into()
            }
            RunError::Socket(error) => UsageError::new(error).into(),
            error => error.into(),
        })
    }

    /// The address to listen on, and whether any address of this machine will do.
    pub(crate) fn listen_address(&self, default: u16) -> Result<(SocketAddr, bool), UsageError> {
        let any = |port| (SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true);
        let without_port = self.port.unwrap_or(default);
        let Some(text) = self.address.as_deref() else { return Ok(any(without_port)) };
        let alone = port_alone(text).map(any);
        match (alone.or_else(|| Some((text.parse().ok()?, false))), self.port) {
            (Some((address, _)), Some(port)) if address.port() != port => {
                misuse!("--port: \"{text}\" has another port: give one of them")
            }
            (Some(with_port), _) => Ok(with_port),
            (None, _) => match text.parse() {
                Ok(ip) => Ok((SocketAddr::new(ip, without_port), false)),
                Err(_) => Ok((args::resolve_first(text, self.port, default)?, false)),
            },
        }
    }
}

pub(crate) fn port_alone(text: &str) -> Option<u16> {
    text.strip_prefix(':').unwrap_or(text).parse().ok()
}

/// A service that runs: what it prints, and when it ends.
pub(crate) struct Service {
    pub(crate) printer: Printer,
    pub(crate) output: Output,
    clock: Clock,
    end: Option<Timestamp>,
    printed: anyhow::Result<()>,
    doubtful: bool,
    /// The results for one JSON object at the end.
    newest: VecDeque<RunResult>,
    omitted: u64,
}

impl Service {
    pub(crate) fn start(args: &ServerArgs, text: TextArgs, clock: Clock) -> anyhow::Result<Self> {
        Ok(Self {
            printer: Printer::start(Progress::live())?,
            output: Output::new(&args.output, text, false).held(),
            clock,
            end: args.duration.map(|duration| clock.now() + duration),
            printed: Ok(()),
            doubtful: false,
            newest: VecDeque::new(),
            omitted: 0,
        })
    }

    /// Ends it after this time.
    pub(crate) fn end_in(&mut self, time: TimeDelta) {
        self.end = Some(self.clock.now() + time);
    }

    pub(crate) fn interval(&mut self, figures: impl Into<Interval>) {
        let printed = self.output.interval(figures);
        self.note(printed);
    }

    /// Results of streams: with a title, or those of each direction by themselves.
    pub(crate) fn results(&mut self, title: Option<&str>, mut results: Vec<RunResult>) {
        self.output.text_args().trim(&mut results);
        self.doubtful |= results.iter().any(|result| !result.doubts.is_empty());
        if self.output.is_one_object() {
            self.newest.extend(results);
            let excess = self.newest.len().saturating_sub(MAX_RESULTS);
            self.omitted += excess as u64;
            self.newest.drain(..excess);
        } else if !results.is_empty() {
            let printed = match title {
                Some(_) => self.output.results(title, &results),
                None => self.output.directions(&results),
            };
            self.note(printed);
        }
    }

    /// Prints what waits. Call it in each turn.
    pub(crate) fn turn(&mut self) -> Verdict {
        self.output.take().into_iter().for_each(|text| self.printer.result(text));
        let over = self.end.is_some_and(|end| self.clock.now() >= end);
        if over || self.printer.is_closed() || self.printed.is_err() {
            Verdict::Stop
        } else {
            Verdict::Continue
        }
    }

    /// Prints the results of streams as one JSON object, if that is asked for, with `counts`: with `once` the only one, else all.
    pub(crate) fn print_object(
        &mut self,
        once: bool,
        mut counts: BTreeMap<&str, serde_json::Value>,
    ) -> anyhow::Result<()> {
        match &*self.newest.make_contiguous() {
            [one] if once => self.output.object(&Only { one, counts }),
            runs => {
                counts.extend([("runs", json!(runs)), ("omitted_runs", json!(self.omitted))]);
                self.output.object(&counts)
            }
        }
    }

    /// Waits until all is printed. Returns the exit status.
    pub(crate) fn finish(mut self, stop: &AtomicBool, doubtful: bool) -> anyhow::Result<ExitCode> {
        self.turn();
        self.printed?;
        self.printer.finish(stop)?;
        Ok(console::status(self.doubtful || doubtful))
    }

    /// Keeps the first error.
    pub(crate) fn note(&mut self, printed: anyhow::Result<()>) {
        if self.printed.is_ok() {
            self.printed = printed;
        }
    }
}

/// Why an address cannot be bound, if that is the error.
fn binding(error: &RunError) -> Option<io::ErrorKind> {
    match error {
        RunError::Socket(SocketError::Bind { source, .. }) | RunError::Listen { source, .. } => {
            Some(source.kind())
        }
        _ => None,
    }
}

/// What to do about an address that cannot be listened on.
fn fix_of_binding(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::AddrNotAvailable => {
            "listen on an address of this machine, or on all: give only a port"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need privilege: choose another port",
        _ => "choose another port, or port 0 for any free port",
    }
}

/// The stream that a sender announces, in words.
pub(crate) fn describe_request(request: &StreamRequest) -> String {
    let rate = request.rate_bps.map(DataRate::from_bps);
    match (rate, request.pacing.keeping) {
        (None, TimeKeeping::Recorded) => with_size("varying rate", request.size),
        (rate, _) => describe_stream(rate, request.size),
    }
}

/// The rate and the size of a stream, in words; without a rate it is as fast as possible.
pub(crate) fn describe_stream(rate: Option<DataRate>, size: Option<DataSize>) -> String {
    with_size(&rate.map_or("maximum rate".to_owned(), |rate| rate.to_string()), size)
}

fn with_size(rate: &str, size: Option<DataSize>) -> String {
    let size = size.map_or("varying sizes".to_owned(), |size| size.to_string());
    format!("{rate}, {size}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Listens {
        #[command(flatten)]
        args: ServerArgs,
    }

    #[test]
    fn only_a_stream_without_pacing_is_of_maximum_rate() {
        let described = |rate_bps, keeping, size| {
            let mut request = StreamRequest { rate_bps, size, ..StreamRequest::nothing() };
            request.pacing.keeping = keeping;
            describe_request(&request)
        };
        let size = Some(DataSize::from_bytes(172));
        assert_eq!(described(None, TimeKeeping::Max, size), "maximum rate, 172 B");
        assert_eq!(described(None, TimeKeeping::Recorded, size), "varying rate, 172 B");
        assert_eq!(described(None, TimeKeeping::Recorded, None), "varying rate, varying sizes");
        assert_eq!(described(Some(64_000), TimeKeeping::Recorded, size), "64 kbit/s, 172 B");
        assert_eq!(described(Some(64_000), TimeKeeping::default(), size), "64 kbit/s, 172 B");
    }

    #[test]
    fn an_address_may_lack_its_port_or_be_a_port_alone() {
        let parsed = |words: &[&str]| {
            Listens::try_parse_from([&["recv"], words].concat()).unwrap().args.listen_address(5201)
        };
        let any = |port| Ok((SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true));
        assert_eq!(parsed(&[]), any(5201));
        assert_eq!(parsed(&["7"]), any(7));
        assert_eq!(parsed(&["-p", "7"]), any(7));
        assert_eq!(parsed(&["127.0.0.1:0"]), Ok((SocketAddr::from(([127, 0, 0, 1], 0)), false)));
        assert_eq!(parsed(&["::1", "-p", "7"]), Ok((SocketAddr::from((Ipv6Addr::LOCALHOST, 7)), false)));
        assert_eq!(parsed(&["::1"]), Ok((SocketAddr::from((Ipv6Addr::LOCALHOST, 5201)), false)));
        assert!(parsed(&["127.0.0.1:8", "-p", "7"]).is_err());
    }
}
