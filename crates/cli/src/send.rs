//! `giusto send`: sends a paced stream and prints what the receiver measured.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto_net::TrafficClass;
use giusto_pace::{HeaderLayer, IpVersion, Limits, Strategy};
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::probe::{
    SenderError,
    payload::{PayloadSizes, PayloadTrace},
    voice::resample_to_8k,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta};
use serde_json::json;

use crate::{
    args::{
        DEFAULT_PORT, PacingArgs, RateOrMax, port, quantity, read_keys, resolve_all, time, time_above_zero,
        whole,
    },
    console::{self, Progress},
    iperf3,
    live::{self, Awaits, LiveArgs, LivePage},
    output::{Output, OutputArgs},
    reverse, stamp,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        RunError,
        plan::{Layout, Media, ResolvedPlan, StreamPlan, Tempo},
        send::{self, Destination, Live, Transmission},
    },
    watch::SharedFeed,
    whole_file::unreadable,
};

const DEFAULT_RATE: DataRate = DataRate::from_bps(1_000_000);
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

/// The time between two reports of a receiver.
const REPORTS: TimeDelta = TimeDelta::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7 -b 5M -t 10 -i 1      5 Mbit/s for 10 s, a line a second
  giusto send 192.0.2.7 --profile g711 --streams 20
  giusto send 192.0.2.7 -b 2M --payload uniform:200-1400 --layer ip --dscp 46
  giusto send 192.0.2.7:4000 --one-way --rtp --count 1000
  giusto send 192.0.2.7 --reverse -b 5M -t 5  the far end sends
  giusto send 192.0.2.7 --protocol iperf3 -b 5M --reverse
  giusto send 192.0.2.7 -P 20 -t 60 --live    shows the streams in a browser
  giusto send 192.0.2.7 --protocol stamp      10 packets a second for 10 s")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct SendArgs {
    /// Address of the far end; the port is 5005 if not given [iperf3: 5201, stamp: 862]
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) target: String,

    /// Port of the far end, if not in the address
    #[arg(short, long, value_name = "PORT", value_parser = port)]
    pub(crate) port: Option<u16>,

    /// Rate at the layer given by --layer, such as 64k, 3M or "2.5 Gbit/s"; max: as fast as the machine can
    /// [default: 1M, or the times of a trace that has them]
    #[arg(short = 'b', long, value_name = "RATE")]
    pub(crate) rate: Option<RateOrMax>,

    /// UDP payload of each datagram [with --protocol stamp: 44, or 112 with --key-file]
    #[arg(short = 'l', long, default_value = "1200", default_value_if("protocol", "stamp", "0"), value_name = "BYTES",
          value_parser = quantity::<DataSize>, conflicts_with_all = ["payload", "profile"])]
    pub(crate) size: DataSize,

    /// Varying payload sizes: uniform:200-1200, normal:800,200, exp:600, choice:200*3,1200*1, or trace:FILE with one
    /// size a line, or one `time_s,size_bytes` a line; such a trace also sets the departure times unless --rate is given
    #[arg(long, value_name = "SPEC", conflicts_with = "profile")]
    pub(crate) payload: Option<String>,

    /// Headers that the rate includes: payload, udp, ip or ethernet
    #[arg(long, default_value = "payload", value_name = "LAYER")]
    pub(crate) layer: HeaderLayer,

    /// Transmit loop: grid, send-compare, send-sleep, send-sleep-deficit, send-sleep-oversleep, unpaced, or a traffic shaper of
    /// TR-99-77: dt0, dt1, dt2, dt2-live, at0, at1
    #[arg(long, default_value = "grid", value_name = "NAME")]
    pub(crate) strategy: Strategy,

    #[command(flatten)]
    pub(crate) pacing: PacingArgs,

    /// Send RTP (RFC 3550) instead of the giusto format
    #[arg(long, conflicts_with = "raw")]
    pub(crate) rtp: bool,

    /// Send filler without a header
    #[arg(long, conflicts_with = "profile")]
    pub(crate) raw: bool,

    /// Send voice as RTP: g711 (µ-law), g711a, g729, g722 or opus; sets rate, size and packet time
    #[arg(long, value_name = "CODEC", conflicts_with = "rate")]
    pub(crate) profile: Option<VoiceProfile>,

    /// Packet time of --profile
    #[arg(long, value_name = "TIME", value_parser = time, requires = "profile")]
    ptime: Option<TimeDelta>,

    /// WAV file that a G.711 profile sends in a loop [default: a tone]
    #[arg(long, value_name = "FILE", requires = "profile")]
    wav: Option<PathBuf>,

    /// Differentiated services code point of every datagram; 46 is expedited forwarding
    #[arg(long, default_value_t = 0, value_name = "0..63", value_parser = whole::<u8>(0, 63))]
    pub(crate) dscp: u8,

    /// Explicit congestion notification of every datagram: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    pub(crate) ecn: Ecn,

    /// Forbid fragments: a datagram that exceeds the MTU of the path ends the run with an error
    #[arg(long)]
    pub(crate) dont_fragment: bool,

    /// Random seed of payload sizes and filler
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,

    /// Time to send [default: 10 s unless --count, --bytes or a trace ends the stream]
    #[arg(short = 't', long, value_name = "TIME", value_parser = time_above_zero)]
    pub(crate) duration: Option<TimeDelta>,

    /// Datagrams to send, for each stream
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) count: Option<u64>,

    /// Payload to send, for each stream
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = bytes_above_zero)]
    pub(crate) bytes: Option<DataSize>,

    /// Number of simultaneous streams, each from a port of its own, their datagrams spread evenly over time
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    pub(crate) streams: u16,

    /// Send without asking the receiver: for receivers other than giusto
    #[arg(long)]
    pub(crate) one_way: bool,

    /// Protocol of the far end: giusto recv, an iperf3 server in UDP mode, or a STAMP reflector (RFC 8762)
    #[arg(long, default_value = "giusto", value_name = "NAME")]
    pub(crate) protocol: Protocol,

    /// The far end sends, and this end measures
    #[arg(short = 'R', long)]
    pub(crate) reverse: bool,

    /// Both ends send at the same time
    #[arg(long, conflicts_with = "reverse")]
    pub(crate) bidir: bool,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated datagrams count
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Format of the timestamps of --protocol stamp: NTP (UTC), or truncated PTP (TAI, as far as the system knows it)
    #[arg(long, default_value = "ntp", value_name = "FORMAT")]
    pub(crate) timestamps: stamp::Timestamps,

    #[command(flatten)]
    live: LiveArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Print the result as one JSON object
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
}

/// The protocol of the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Giusto,
    Iperf3,
    Stamp,
}

/// The ECN codepoint of this name.
fn ecn(name: &str) -> Ecn {
    match name {
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        _ => Ecn::NotEct,
    }
}

pub(crate) fn run(
    args: &SendArgs,
    stop: &AtomicBool,
    page: &mut Option<LivePage>,
) -> anyhow::Result<ExitCode> {
    match args.protocol {
        Protocol::Giusto if args.reverse || args.bidir => return reverse::run(args, stop),
        Protocol::Giusto => {}
        Protocol::Iperf3 => return iperf3::send(args, stop),
        Protocol::Stamp => return stamp::send(args, stop),
    }
    if args.output.interval().is_some_and(|interval| interval < REPORTS && !args.one_way) {
        misuse!("--interval: must be at least {REPORTS}, the time between two reports of the receiver");
    }
    let addresses = resolve_all(&args.target, args.port, DEFAULT_PORT)?;
    let plan = stream_plan(args)?;
    let feed = args.live.start("giusto send", Awaits::Answer(&args.target), page)?;
    let mut output = Output::new(args.json, &args.output, true);
    let mut printed = Ok(());
    let progress = Progress::live();
    let on_live = |live: &Live| {
        progress.say(live_line(live));
        if let (Some(figures), true) = (&live.interval, printed.is_ok()) {
            printed = output.interval(*figures);
        }
        if output.is_closed() || printed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = send_to_first(args, &plan, &addresses, feed.map(SharedFeed::from).as_ref(), stop, on_live);
    progress.clear();
    let (to, plan, run) = outcome?;
    printed?;

    let results = run.results(&plan);
    let named = (1..).zip(&results).map(|(number, result)| (format!("stream {number}"), result.clone()));
    LivePage::keep_result(page, live::report(named));
    if output.is_one_object() {
        match &results[..] {
            [one] => output.object(one)?,
            many => output.object(&json!({ "runs": many }))?,
        }
    } else {
        let title = (results.len() > 1).then(|| format!("{} streams together:", results.len()));
        output.results(title.as_deref(), &results)?;
    }
    if let Some(failure) = run.failure() {
        let error = format!("{to}: {failure}; the figures cover the time until then");
        console::complain(&format!("error: {error}"));
        LivePage::keep_error(page, &error);
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::measured(&results))
}

/// Sends to the first of the addresses of a host that answers.
fn send_to_first(
    args: &SendArgs,
    plan: &StreamPlan,
    addresses: &[SocketAddr],
    feed: Option<&SharedFeed>,
    stop: &AtomicBool,
    mut on_live: impl FnMut(&Live),
) -> anyhow::Result<(SocketAddr, ResolvedPlan, Transmission)> {
    let traffic_class = TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits());
    let keys = args.key_file.as_deref().map(read_keys).transpose()?;
    let mut failed: Vec<String> = Vec::new();
    for (index, to) in addresses.iter().copied().enumerate() {
        let plan = plan.clone().resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
        let destination = Destination {
            to,
            streams: args.streams.into(),
            one_way: args.one_way,
            traffic_class,
            keys: keys.clone(),
            interval: args.output.interval(),
            feed: feed.cloned(),
        };
        let is_last = index + 1 == addresses.len();
        match send::run(&plan, &destination, stop, &mut on_live) {
            Ok(run) => return Ok((to, plan, run)),
            Err(error) if !is_last && is_silent(&error) => failed.push(to.to_string()),
            Err(RunError::Socket(error)) => return Err(UsageError::new(error).into()),
            Err(error) if failed.is_empty() => return Err(error.into()),
            Err(error) => {
                let before = failed.join(", ");
                return Err(anyhow::Error::from(error).context(format!("no giusto receiver at {before}")));
            }
        }
    }
    Err(UsageError::new(format!("unknown host in \"{}\": check the name", args.target)).into())
}

/// Whether another address of the host may answer.
pub(crate) fn is_silent(error: &RunError) -> bool {
    use SenderError::{NoAnswer, PortUnreachable};
    matches!(error, RunError::Socket(_) | RunError::Refused { reason: NoAnswer(_) | PortUnreachable, .. })
}

/// The progress of a run, with the receiver's figures once they have come.
pub(crate) fn live_line(live: &Live) -> String {
    let far_end = live.far_end.as_ref().map(|figures| format!("; receiver: {}", console::live_line(figures)));
    format!("{} sent{}", live.sent_packets, far_end.unwrap_or_default())
}

pub(crate) fn stream_plan(args: &SendArgs) -> anyhow::Result<StreamPlan> {
    let media = if let Some(profile) = args.profile {
        let format = match args.ptime {
            Some(time) => VoiceFormat::with_packet_time(profile, time)
                .map_err(|error| UsageError::new(format!("--ptime: {error}")))?,
            None => VoiceFormat::new(profile),
        };
        Media::Voice(format, args.wav.as_deref().map(read_wav).transpose()?.unwrap_or_default())
    } else {
        let layout = match (args.rtp, args.raw) {
            (true, _) => Layout::Rtp,
            (_, true) => Layout::Raw,
            _ if args.key_file.is_some() => Layout::Authenticated,
            _ => Layout::Giusto,
        };
        let sizes = args.payload.as_deref().map(payload_sizes).transpose()?;
        Media::Filler(layout, sizes.unwrap_or(PayloadSizes::Fixed(args.size)))
    };
    Ok(base_plan(args, media))
}

/// The plan that the flags make for these contents.
pub(crate) fn base_plan(args: &SendArgs, media: Media) -> StreamPlan {
    let tempo = match (args.rate, &media) {
        (_, Media::Voice(..)) => Tempo::Media,
        (Some(RateOrMax(rate)), _) => rate.map_or(Tempo::Max, Tempo::Rate),
        (None, Media::Filler(_, PayloadSizes::Trace(trace))) => {
            trace.departures().map_or(Tempo::Rate(DEFAULT_RATE), |times| Tempo::Recorded(Arc::from(times)))
        }
        (None, Media::Filler(..)) => Tempo::Rate(DEFAULT_RATE),
    };
    StreamPlan {
        limits: limits(args, matches!(tempo, Tempo::Recorded(_))),
        media,
        tempo,
        layer: args.layer,
        pacing: args.pacing.pacing(args.strategy),
        dont_fragment: args.dont_fragment,
        seed: args.seed,
    }
}

/// The limits; a recorded stream ends by itself.
pub(crate) fn limits(args: &SendArgs, recorded: bool) -> Limits {
    let unbounded = args.count.is_none() && args.bytes.is_none() && !recorded;
    let duration = args.duration.or(unbounded.then_some(DEFAULT_DURATION));
    Limits::default().with_duration(duration).with_packets(args.count).with_size(args.bytes)
}

fn bytes_above_zero(text: &str) -> Result<DataSize, String> {
    match quantity(text)? {
        DataSize::ZERO => Err(format!("must be above 0 B, found \"{text}\"")),
        size => Ok(size),
    }
}

fn payload_sizes(spec: &str) -> Result<PayloadSizes, UsageError> {
    let Some(path) = spec.strip_prefix("trace:") else {
        return spec.parse().map_err(|error| UsageError::new(format!("--payload: {error}")));
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        UsageError::new(format!("--payload trace:{}", unreadable(Path::new(path), &error)))
    })?;
    let trace = PayloadTrace::parse(&text, path).map_err(UsageError::new)?;
    Ok(PayloadSizes::Trace(trace))
}

/// Reads a WAV file of any rate and number of channels: 8000 samples a second in one channel.
fn read_wav(path: &Path) -> Result<Vec<i16>, UsageError> {
    let unusable = |why: String| {
        UsageError::new(format!("--wav {}: {why}: expected a WAV file with PCM samples", path.display()))
    };
    let mut reader = hound::WavReader::open(path).map_err(|error| match error {
        hound::Error::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => {
            UsageError::new(format!("--wav {}", unreadable(path, &error)))
        }
        error => unusable(error.to_string()),
    })?;
    let spec = reader.spec();
    let samples: Result<Vec<i16>, _> = match spec.sample_format {
        hound::SampleFormat::Float => {
            reader.samples::<f32>().map(|sample| sample.map(|value| (value * 32_767.0) as i16)).collect()
        }
        hound::SampleFormat::Int => {
            let to_16_bits = |value: i32| (i64::from(value) << 16 >> spec.bits_per_sample) as i16;
            reader.samples::<i32>().map(|sample| sample.map(to_16_bits)).collect()
        }
    };
    let samples = samples.map_err(|error| unusable(error.to_string()))?;
    resample_to_8k(&samples, spec.sample_rate, spec.channels).map_err(|error| unusable(error.to_string()))
}
