//! `giusto recv`: streams from anywhere, each measured apart.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use clap::{Args, ValueEnum};
use giusto_measure::RatePoint;
use giusto_net::driver::Verdict;
use giusto_session::probe::{Counters, Ended, Passive, Receiver, ReceiverEvent, Stream};
use giusto_units::{DataRate, TimeDelta};
use serde::Serialize;

use super::console::{Progress, print_json, print_text};
use giusto::{
    error::UsageError,
    measured::{
        figures,
        recv::{Reception, ReceptionConfig, ReceptionError},
        result::RunResult,
    },
    view::table,
};

/// The port where nothing else is said: RTP's usual neighbourhood.
const DEFAULT_PORT: u16 = 5005;

/// How many results are kept for the end; strangers must not fill the memory.
const KEPT: usize = 10_000;

/// How long a receiver that is to end with its first stream still answers that stream's sender.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// What unannounced datagrams are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Unannounced {
    /// RTP.
    Rtp,
    /// Anything.
    Raw,
}

/// Flags of `giusto recv`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv
  giusto recv 127.0.0.1:5005 --once --json
  giusto recv 0.0.0.0:6000 --accept rtp      measures RTP from any program")]
pub(crate) struct RecvArgs {
    /// Where to listen: ADDRESS:PORT, or a port alone; default: port 5005 of every address
    #[arg(value_name = "ADDR")]
    address: Option<String>,

    /// End with the first stream's end
    #[arg(long)]
    once: bool,

    /// Also measure datagrams that no giusto sender announced, by where they come from: rtp or raw
    #[arg(long, value_name = "KIND")]
    accept: Option<Unannounced>,

    /// A stream that is silent for so long has ended
    #[arg(long, default_value = "5s", value_name = "TIME")]
    idle: TimeDelta,

    /// End after this time, however many streams came
    #[arg(long, value_name = "TIME")]
    duration: Option<TimeDelta>,

    /// Streams at once; further ones are refused. A stream takes up to 2 MB
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_streams: u16,

    /// Streams at once from one IP address; further ones are refused
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_streams_per_host: u16,

    /// Refuse streams that announce a higher rate
    #[arg(long, value_name = "RATE")]
    max_rate: Option<DataRate>,

    /// Take every datagram by itself, not in runs: each has a timestamp of its own
    #[arg(long)]
    no_offload: bool,

    /// Print one JSON object on standard output: the stream's with --once, else {"runs": […]} at the end
    #[arg(long)]
    json: bool,
}

/// All that was received, in one JSON object.
#[derive(Debug, Serialize)]
struct Received {
    runs: Vec<RunResult>,
    omitted_runs: u64,
    unmeasured_datagrams: Unmeasured,
}

/// What belonged to no stream.
#[derive(Debug, Serialize)]
struct Unmeasured {
    foreign: u64,
    malformed: u64,
    other_version: u64,
    forged: u64,
    late: u64,
    refused: u64,
}

impl From<Counters> for Unmeasured {
    fn from(counters: Counters) -> Self {
        let Counters { foreign, malformed, other_version, forged, late, refused } = counters;
        Self { foreign, malformed, other_version, forged, late, refused }
    }
}

impl RecvArgs {
    /// A port at most, so that any address will do.
    fn asks_for_no_address(&self) -> bool {
        self.address.as_ref().is_none_or(|text| text.trim_start_matches(':').parse::<u16>().is_ok())
    }
}

pub(crate) fn run(args: &RecvArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let config = ReceptionConfig {
        max_streams: args.max_streams.into(),
        max_streams_per_host: args.max_streams_per_host.into(),
        max_rate: args.max_rate,
        idle_timeout: args.idle,
        passive: args.accept.map(|accept| match accept {
            Unannounced::Rtp => Passive::Rtp,
            Unannounced::Raw => Passive::Raw,
        }),
        offload: !args.no_offload,
        ..ReceptionConfig::at(listen_address(args.address.as_deref())?)
    };
    if args.idle < TimeDelta::from_millis(100) {
        return Err(UsageError::new(format!("--idle {}: use 100 ms or more", args.idle)).into());
    }
    let mut opened = Reception::open(&config);
    if opened.is_err() && config.address.ip() == Ipv6Addr::UNSPECIFIED && args.asks_for_no_address() {
        // A machine without IPv6.
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, config.address.port()));
        opened = Reception::open(&ReceptionConfig { address, ..config });
    }
    let mut reception = opened.map_err(|error| match error {
        ReceptionError::Socket(error) => anyhow::Error::from(UsageError::new(format!(
            "{error}: choose another port, or port 0 for any free one"
        ))),
        other => other.into(),
    })?;

    let progress = Progress::live();
    progress.note(&format!("listening on {} (UDP); Ctrl-C ends and prints the result", reception.address()));
    let granted = reception.granted().clone();
    let mut results = Vec::new();
    let mut omitted: u64 = 0;
    let mut counters = Counters::default();
    let mut ended = None;
    let clock = reception.clock();
    let mut end = args.duration.map(|duration| clock.now() + duration);
    let outcome = reception.run(stop, |receiver, event| {
        counters = receiver.counters();
        match event {
            Some(ReceiverEvent::Opened(id)) => {
                if let Some(stream) = receiver.stream(id) {
                    progress.note(&format!("{}: {}", stream.from(), describe(stream)));
                }
            }
            Some(ReceiverEvent::Closed(_, mut stream)) => {
                let result = figures::received_stream(&mut stream, receiver.cpu_ratio(), &granted);
                if !args.json {
                    ended = print_text(&table::run(&result)).err().or(ended.take());
                }
                if args.json && results.len() < KEPT {
                    results.push(result);
                } else if args.json {
                    omitted += 1;
                }
                if args.once {
                    // A sender that did not get its final report asks for it again.
                    let asks_again = stream.ended() == Some(Ended::Finished);
                    end = Some(clock.now() + if asks_again { LINGER } else { TimeDelta::ZERO });
                }
            }
            _ => progress.say(live_line(receiver)),
        }
        if end.is_some_and(|end| clock.now() >= end) { Verdict::Stop } else { Verdict::GoOn }
    });
    progress.clear();
    if let Some(error) = ended {
        return Err(error);
    }
    if args.json {
        match (args.once, results.len()) {
            (true, 1) => print_json(&results.first())?,
            _ => print_json(&Received {
                runs: results,
                omitted_runs: omitted,
                unmeasured_datagrams: counters.into(),
            })?,
        }
    } else if counters != Counters::default() {
        progress.note(&unmeasured_line(&counters));
    }
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn listen_address(text: Option<&str>) -> Result<SocketAddr, UsageError> {
    let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let Some(text) = text else { return Ok(any(DEFAULT_PORT)) };
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(any(port));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse() {
        return Ok(SocketAddr::new(ip, DEFAULT_PORT));
    }
    super::args::resolve(text)
}

fn describe(stream: &Stream) -> String {
    let Some(request) = stream.request() else { return "an unannounced stream".to_owned() };
    let rate =
        request.rate_bps.map_or("as fast as it can".to_owned(), |rate| DataRate::from_bps(rate).to_string());
    let size = request.size.map_or("varied sizes".to_owned(), |size| size.to_string());
    format!("a stream of {rate}, {size}")
}

fn live_line(receiver: &Receiver) -> String {
    let streams: Vec<_> = receiver.streams().map(|(_, stream)| stream).collect();
    if streams.is_empty() {
        return "waiting".to_owned();
    }
    let rate: f64 = streams.iter().map(|stream| rate_of_last_second(stream)).sum();
    let losses = streams.iter().map(|stream| stream.meter().sequence().losses());
    let (received, lost) = losses.fold((0, 0), |(r, l), loss| (r + loss.received, l + loss.lost));
    format!(
        "{} stream{} · {} now · {received} received, {lost} lost",
        streams.len(),
        if streams.len() == 1 { "" } else { "s" },
        DataRate::from_bps(rate.round() as u64)
    )
}

/// The mean of the last ten intervals of a tenth of a second that are over.
fn rate_of_last_second(stream: &Stream) -> f64 {
    let points: Vec<_> = stream.meter().series().points().collect();
    let whole = points.len().saturating_sub(1);
    let last = points.get(whole.saturating_sub(10)..whole).unwrap_or_default();
    last.iter().map(RatePoint::rate_bps).sum::<f64>() / last.len().max(1) as f64
}

fn unmeasured_line(counters: &Counters) -> String {
    let Counters { foreign, malformed, other_version, forged, late, refused } = counters;
    format!(
        "datagrams of no stream: {foreign} foreign, {malformed} malformed, {other_version} of another version, {forged} forged, \
         {late} late; streams refused: {refused}"
    )
}
