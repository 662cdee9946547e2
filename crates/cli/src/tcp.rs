//! TCP at the far end: load by the kernel's TCP, and responsiveness under it.

use std::{
    collections::VecDeque,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_net::{Clock, TrafficClass, driver::Verdict};
use giusto_units::TimeDelta;
use serde_json::json;

use crate::{
    args::{DEFAULT_PORT, port, resolve_all, time_above_zero, time_from_100_ms, whole},
    client::explained,
    console,
    live::LivePage,
    output::{FormArgs, Output, TextArgs},
    path::PathArgs,
    run::Run,
    server::{ServerArgs, Service},
    usage::misuse,
};
use giusto::{
    measured::tcp::{Responsiveness, TcpInterval, TcpLoad, TcpResult, TcpServed, TcpServer},
    view::format::{count, or_unknown, plural, rate, time_us},
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7 --protocol tcp -t 10 -i 1     needs `giusto recv --accept tcp` there
  giusto send 192.0.2.7 --protocol tcp --under-load   responsiveness: round trips a minute")]
pub(crate) struct TcpClientArgs {
    /// Address of the far end; the port is 5005 if not given
    #[arg(value_name = "HOST[:PORT]")]
    target: String,

    /// Port of the far end, if not in the address
    #[arg(short, long, value_name = "PORT", value_parser = port)]
    port: Option<u16>,

    /// Protocol of the far end
    #[arg(long, default_value = "tcp", value_name = "NAME")]
    protocol: String,

    #[command(flatten)]
    path: PathArgs,

    /// Differentiated services code point of every segment of this end
    #[arg(long, default_value_t = 0, value_name = "0..63", value_parser = whole::<u8>(0, 63))]
    dscp: u8,

    /// Time to send
    #[arg(short = 't', long, default_value = "10s", value_name = "TIME", value_parser = time_above_zero)]
    duration: TimeDelta,

    /// Number of simultaneous connections [default: 1, with --under-load 8]
    #[arg(short = 'P', long, value_name = "N", value_parser = whole::<u16>(1, 128))]
    streams: Option<u16>,

    /// Measure responsiveness, by draft-ietf-ippm-responsiveness-08 for TCP without TLS: round trips a minute of requests on new
    /// connections and on those that carry the load
    #[arg(long)]
    under_load: bool,

    /// Print a line for each interval of this length: rate, RTT, retransmissions, congestion window, from the kernel's `TCP_INFO`
    #[arg(short, long, value_name = "TIME", value_parser = time_from_100_ms)]
    interval: Option<TimeDelta>,

    #[command(flatten)]
    form: FormArgs,
}

impl Run for TcpClientArgs {
    fn run(self, stop: &AtomicBool, _: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let addresses = resolve_all(&self.target, self.port, DEFAULT_PORT)?;
        let addresses = self.path.reachable(&self.target, addresses)?;
        let load = TcpLoad {
            connections: self.streams.unwrap_or(if self.under_load { 8 } else { 1 }).into(),
            duration: self.duration,
            interval: self.interval.unwrap_or(TimeDelta::from_seconds(1)),
            under_load: self.under_load,
            path: self.path.options(),
            traffic_class: TrafficClass::from_byte(self.dscp << 2),
        };
        let mut output = Output::of_form(&self.form, TextArgs::default());
        let (mut printed, shown) = (Ok(()), self.interval.is_some());
        let on_interval = |interval: &TcpInterval| {
            if shown && printed.is_ok() {
                printed = output.tcp_interval(interval, HEADER, &line(interval));
            }
            if output.is_closed() || printed.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let result = load.run(&addresses, stop, on_interval).map_err(explained)?;
        printed?;
        output.tcp(&result, &text(&result))?;
        match &result.failure {
            Some(failure) if failure != "interrupted" => {
                console::complain(&format!("error: {}: {failure}", result.to));
                Ok(ExitCode::FAILURE)
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Above the lines of intervals.
const HEADER: &str = "   interval s          rate         RTT   resent   window";

fn line(interval: &TcpInterval) -> String {
    let TcpInterval { start_s, end_s, rtt_ms, .. } = *interval;
    let (rate, rtt) = (or_unknown(interval.rate_bps, rate), time_us(rtt_ms * 1e3));
    let (resent, window) = (count(interval.retransmitted_segments), count(interval.window_segments));
    format!("{start_s:5.1} to {end_s:5.1} {rate:>13} {rtt:>11} {resent:>8} {window:>8}")
}

fn text(result: &TcpResult) -> String {
    let ms = |value: Option<f64>| or_unknown(value, |millis| time_us(millis * 1e3));
    let mut lines = vec![
        format!(
            "rate     {} acknowledged, {}",
            or_unknown(result.rate_bps, rate),
            plural(result.connections as u64, "connection", "connections")
        ),
        format!(
            "RTT      {} minimum, {} median, {} maximum (TCP_INFO)",
            ms(result.rtt_min_ms),
            ms(result.rtt_p50_ms),
            ms(result.rtt_max_ms)
        ),
        format!("resent   {}", plural(result.retransmitted_segments, "segment", "segments")),
    ];
    if let Some(Responsiveness { rpm, foreign_rpm, loaded_rpm, idle_rpm, failed_probes, .. }) =
        result.responsiveness
    {
        let whole = |value: Option<f64>| or_unknown(value.map(|value| value.round() as u64), count);
        let failed = if failed_probes > 0 { format!("; {failed_probes} failed") } else { String::new() };
        lines.push(format!(
            "RPM      {} round trips a minute under load, {} idle",
            whole(rpm),
            whole(idle_rpm)
        ));
        lines.push(format!(
            "         {} on new connections, {} on loaded ones{failed}",
            whole(foreign_rpm),
            whole(loaded_rpm)
        ));
    }
    if let Some(failure) = &result.failure {
        lines.push(format!("ended    {failure}"));
    }
    lines.join("\n")
}

fn served_line(served: &TcpServed) -> String {
    let TcpServed { from, received_bytes, duration_s, rx_rate_bps } = served;
    format!(
        "{from}: {} bytes in {duration_s:.2} s, {}",
        count(*received_bytes),
        or_unknown(*rx_rate_bps, rate)
    )
}

#[derive(Debug, Args)]
#[command(mut_arg("interval", |flag| flag.hide(true)), after_help = "Examples:
  giusto recv --accept tcp                    the far end of `giusto send --protocol tcp`
  giusto recv 0.0.0.0:5005 --accept tcp --allow 192.0.2.0/24")]
pub(crate) struct TcpServerArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// End with the first load connection
    #[arg(long)]
    once: bool,

    /// Maximum number of simultaneous connections, each with a thread; one host gets at most half of them
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    max_streams: u16,
}

impl Run for TcpServerArgs {
    fn run(self, stop: &AtomicBool, _: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        // The newest are kept for `--json`.
        const KEPT: usize = 10_000;
        if self.server.output.interval.is_some() {
            misuse!(
                "--interval: not supported with --accept tcp: the sender has intervals, as giusto send --protocol tcp -i 1"
            );
        }
        let server = self.server.open(DEFAULT_PORT, |address| {
            TcpServer::open(address, self.server.prefixes(), self.max_streams.into())
        })?;
        let mut service = Service::start(&self.server, TextArgs::default(), Clock::start())?;
        service.printer.note(format!("listening on {} (TCP); Ctrl-C ends", server.address()));
        let mut served = VecDeque::<TcpServed>::new();
        server.run(stop, |ended| {
            let is_over = self.once && ended.is_some();
            match ended {
                Some(one) if service.output.is_one_object() => {
                    served.push_back(one);
                    if served.len() > KEPT {
                        served.pop_front();
                    }
                }
                Some(one) => {
                    let printed = service.output.tcp_served(&one, &served_line(&one));
                    service.note(printed);
                }
                None => {}
            }
            service.turn() == Verdict::Continue && !is_over
        });
        if service.output.is_one_object() {
            service.output.object(&json!({ "connections": served }))?;
        }
        service.finish(stop, false)
    }
}
