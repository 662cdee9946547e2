//! STAMP at the far end (RFC 8762, RFC 8972): session sender and reflector.

use std::{path::PathBuf, process::ExitCode, sync::atomic::AtomicBool};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto::{
    measured::{
        interval::Interval,
        plan::{Layout, Media, Tempo},
        stamp::{Reflection, ReflectorIntervals, StampClient},
    },
    view::format::{count, plural},
};
use giusto_session::{
    probe::payload::PayloadSizes,
    stamp::{ReflectorConfig, STAMP_PORT, packet::Mode, time::TimestampFormat},
};
use giusto_units::{DataRate, DataSize};

use crate::{
    args::{quantity, read_keys, whole},
    client::{self, ClientArgs, FarEnd},
    live::LivePage,
    output::TextArgs,
    path::PathArgs,
    run::Run,
    server::{ServerArgs, Service},
    usage::misuse,
};

/// The rate without --rate.
const PACKETS_PER_SECOND: u64 = 10;

/// The number of sessions that are announced.
const SHOWN_SESSIONS: u64 = 100;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7 --protocol stamp            10 packets a second for 10 s
  giusto send 192.0.2.7 --protocol stamp -b 1M -l 500 -t 60 --json
  giusto send 192.0.2.7 --protocol stamp --key-file keys")]
pub(crate) struct SenderArgs {
    #[command(flatten)]
    client: ClientArgs,

    #[command(flatten)]
    path: PathArgs,

    /// UDP payload of each packet [default: 44, or 112 with --key-file]
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = quantity::<DataSize>)]
    size: Option<DataSize>,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated packets count
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Format of the timestamps: NTP (UTC), or truncated PTP (TAI, as far as the system knows it)
    #[arg(long, default_value = "ntp", value_name = "FORMAT",
          value_parser = PossibleValuesParser::new(["ntp", "ptp"]).map(|name| format(&name)))]
    timestamps: TimestampFormat,
}

fn format(name: &str) -> TimestampFormat {
    if name == "ptp" { TimestampFormat::Ptp } else { TimestampFormat::Ntp }
}

impl Run for SenderArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let addresses = self.path.reachable(&self.client.target, self.client.addresses(STAMP_PORT)?)?;
        let keys = self.key_file.as_deref().map(read_keys).transpose()?;
        let mode = if keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated };
        let size = self.size.unwrap_or(DataSize::from_bytes(mode.base_bytes() as u64));
        let media = Media::Filler(Layout::Raw, PayloadSizes::Fixed(size));
        let session = StampClient {
            stream: self.client.plan(media, Some(Tempo::PerSecond(PACKETS_PER_SECOND)))?,
            keys,
            format: self.timestamps,
            traffic_class: self.client.traffic_class(),
            path: self.path.options(),
            interval: self.client.output.interval,
            resolver: self.client.resolver(STAMP_PORT),
        };
        let far_end = FarEnd { addresses, shows_sender: true, is_list: false, text: TextArgs::default() };
        client::measure(&self.client, &far_end, stop, page, &session)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto recv --accept stamp                  reflects STAMP, TWAMP Light; port 862 needs privilege
  giusto recv 0.0.0.0:8620 --accept stamp --key-file keys")]
pub(crate) struct ReflectorArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated packets are answered
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Maximum number of simultaneous sessions
    #[arg(long, default_value_t = 16_384, value_name = "N", value_parser = whole::<u16>(1, 65_535))]
    max_streams: u16,

    /// Maximum number of simultaneous sessions from one IPv4 address or one IPv6 prefix of 64 bits
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = whole::<u16>(1, 65_535))]
    max_streams_per_host: u16,

    /// Maximum rate of answers to one host [default: 100M]
    #[arg(long, value_name = "RATE", value_parser = quantity::<DataRate>)]
    max_rate: Option<DataRate>,

    /// Copy the sender's numbers instead of counting each session's packets (RFC 8762 §4)
    #[arg(long)]
    stateless: bool,

    /// Differentiated services code point of the answers, except to packets that ask for another one in a Class of Service TLV
    /// (RFC 8972 §4.4) [default: 0]
    #[arg(long, value_name = "0..63", value_parser = whole::<u8>(0, 63))]
    dscp: Option<u8>,
}

impl Run for ReflectorArgs {
    fn run(self, stop: &AtomicBool, _: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        if self.max_rate == Some(DataRate::ZERO) {
            misuse!("--max-rate: must be above 0 bit/s, found 0 bit/s");
        }
        let keys = self.key_file.as_deref().map(read_keys).transpose()?;
        let sealed = if keys.is_some() { ", authenticated" } else { "" };
        let defaults = ReflectorConfig::default();
        let config = ReflectorConfig {
            stateful: !self.stateless,
            keys,
            prefixes: self.server.prefixes(),
            max_sessions: self.max_streams.into(),
            max_sessions_per_source: self.max_streams_per_host.into(),
            max_rate: self.max_rate.unwrap_or(defaults.max_rate),
            dscp: self.dscp.unwrap_or(defaults.dscp),
            session_timeout: defaults.session_timeout,
        };
        let mut reflection =
            self.server.open(STAMP_PORT, |address| Reflection::open(address, config.clone()))?;

        let clock = reflection.clock;
        let start = clock.now();
        let mut service = Service::start(&self.server, TextArgs::default(), clock)?;
        let address = reflection.socket.local_addr();
        service
            .printer
            .note(format!("listening on {address} (UDP, STAMP{sealed}); Ctrl-C ends and prints the counts"));
        let interval = self.server.output.interval;
        let mut intervals = interval.map(|interval| ReflectorIntervals::new(interval, start));
        let outcome = reflection.run(stop, |reflector, new| {
            let (counters, sessions) = (reflector.counters(), reflector.sessions());
            // Addresses may be made up: only the first few are shown.
            if let Some(from) = new.filter(|_| counters.sessions <= SHOWN_SESSIONS) {
                service.printer.note(format!("{from}: STAMP session"));
            }
            let ended = intervals.as_mut().and_then(|all| all.on_turn(clock.now(), counters, sessions));
            if let Some(figures) = ended {
                service.interval(Interval::Reflector(figures));
            }
            let shown = plural(sessions as u64, "session", "sessions");
            service.printer.live(format!("{shown}, {} reflected", count(counters.reflected)));
            service.turn()
        });
        let (counters, sessions) = (reflection.reflector().counters(), reflection.reflector().sessions());
        if let Some(last) = intervals.and_then(|all| all.finish(clock.now(), counters, sessions)) {
            service.interval(Interval::Reflector(last));
        }
        let result = reflection.result(start);
        service.output.reflector(&result)?;
        let status = service.finish(stop, !result.doubts.is_empty())?;
        outcome?;
        Ok(status)
    }
}
