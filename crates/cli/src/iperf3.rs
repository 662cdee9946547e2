//! iperf3 at the far end: its client and its server of UDP streams.

use std::{process::ExitCode, sync::atomic::AtomicBool};

use clap::Args;
use giusto_net::driver::Verdict;
use giusto_session::{
    iperf3::{DEFAULT_PORT, MAX_STREAMS, Parameters, ServerConfig, ServerError},
    probe::payload::PayloadSizes,
};
use giusto_units::DataSize;
use serde_json::json;

use crate::{
    args::{quantity, whole},
    client::{self, ClientArgs, FarEnd, SENDS, live_line},
    live::LivePage,
    output::TextArgs,
    path::PathArgs,
    run::Run,
    server::{ServerArgs, Service, StreamsArgs, describe_stream},
};
use giusto::{
    measured::{
        iperf3::{Iperf3Client, Iperf3Server, Iperf3ServerConfig, Notice},
        plan::{Layout, Media},
    },
    view::format::plural,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7 --protocol iperf3 -b 5M -t 10 -i 1
  giusto send 192.0.2.7 --protocol iperf3 -b 5M --reverse   the server sends")]
pub(crate) struct Iperf3ClientArgs {
    #[command(flatten)]
    client: ClientArgs,

    #[command(flatten)]
    path: PathArgs,

    /// UDP payload of each datagram
    #[arg(short = 'l', long, default_value = "1200", value_name = "BYTES", value_parser = quantity::<DataSize>)]
    size: DataSize,

    /// Number of simultaneous streams, each from a port of its own, their datagrams spread evenly over time
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", value_parser = whole::<u16>(1, MAX_STREAMS as u64))]
    streams: u16,

    /// The far end sends, and this end measures
    #[arg(short = 'R', long, conflicts_with_all = SENDS, conflicts_with = "seed")]
    reverse: bool,

    /// Both ends send at the same time
    #[arg(long, conflicts_with = "reverse")]
    bidir: bool,

    #[command(flatten)]
    text: TextArgs,
}

impl Run for Iperf3ClientArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let media = Media::Filler(Layout::Iperf3 { wide_counters: true }, PayloadSizes::Fixed(self.size));
        let session = Iperf3Client {
            plan: self.client.plan(media, None)?,
            streams: self.streams.into(),
            reverse: self.reverse,
            bidirectional: self.bidir,
            traffic_class: self.client.traffic_class(),
            path: self.path.options(),
            interval: self.client.output.interval,
        };
        let addresses = self.path.reachable(&self.client.target, self.client.addresses(DEFAULT_PORT)?)?;
        let far_end = FarEnd { addresses, shows_sender: !self.reverse, is_list: false, text: self.text };
        client::measure(&self.client, &far_end, stop, page, &session)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv --accept iperf3                 serves `iperf3 -u -c`, also with -R, -P, --bidir and -O
  giusto recv 0.0.0.0:5201 --accept iperf3 --max-rate 100M")]
pub(crate) struct Iperf3ServerArgs {
    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    streams: StreamsArgs,
}

impl Run for Iperf3ServerArgs {
    fn run(self, stop: &AtomicBool, _: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let StreamsArgs { once, idle, max_streams, max_lifetime, max_rate, no_offload, text } = self.streams;
        let defaults = ServerConfig::default();
        let mut server = self.server.open(DEFAULT_PORT, |address| {
            Iperf3Server::open(&Iperf3ServerConfig {
                address,
                offload: !no_offload,
                prefixes: self.server.prefixes(),
                limits: ServerConfig {
                    max_streams: usize::from(max_streams).min(defaults.max_streams),
                    max_rate,
                    max_sent_rate: max_rate.unwrap_or(defaults.max_sent_rate),
                    max_duration: max_lifetime,
                    idle_timeout: idle,
                },
                interval: self.server.output.interval,
            })
        })?;
        let mut service = Service::start(&self.server, text, server.clock())?;
        let address = server.local_addr();
        service.printer.note(format!("listening on {address} (iperf3); Ctrl-C ends and prints the result"));
        let mut failure = None;
        server.run(stop, |notice| {
            let mut go_on = true;
            match notice {
                Notice::Opened { from, parameters } => {
                    service.output.set_sender(parameters.client_receives());
                    service.printer.note(format!("{from}: {}", describe(parameters)));
                }
                Notice::Live(live) => {
                    service.printer.live(live_line(live));
                    if let Some(figures) = live.interval {
                        service.interval(figures);
                    }
                }
                Notice::Refused { from, error } => service.printer.refusal(format!("{from}: {error}")),
                Notice::NoRoom(error) => service.printer.note(format!(
                    "warning: clients cannot be accepted: {error}: raise the limit of open files (ulimit -n)"
                )),
                Notice::Closed { results, failure: why } => {
                    if let Some(why) = &why {
                        service.printer.note(format!("the test ended early: {why}"));
                    }
                    failure = why;
                    service.results(None, results);
                    go_on = !once;
                }
                _ => {}
            }
            service.turn() == Verdict::Continue && go_on
        });
        let denied = server.denied();
        if service.output.is_one_object() {
            service.print_object(once, giusto::order::map([("denied_connections", json!(denied))]))?;
        } else if denied > 0 {
            let denied = plural(denied, "connection", "connections");
            service.printer.note(format!("{denied} from addresses not allowed"));
        }
        let status = service.finish(stop, false)?;
        match failure {
            Some(why) if once && !matches!(why, ServerError::Ended(_)) => anyhow::bail!("{why}"),
            _ => Ok(status),
        }
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
