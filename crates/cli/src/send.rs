//! `giusto send`: sends a paced stream and prints what the receiver measured.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto_net::TrafficClass;
use giusto_pace::{HeaderLayer, IpVersion, Limits, Strategy};
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::probe::{
    payload::{PayloadSizes, PayloadTrace},
    voice::resample_to_8k,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta};

use crate::{
    args::{PacingArgs, RateOrMax, read_keys, resolve},
    console::{self, Progress, print_json, print_text},
    iperf3, stamp,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        RunError,
        median::voice_scores,
        plan::{Layout, Media, StreamPlan, Tempo},
        send::{self, Destination, Live},
    },
    view::table,
};

const DEFAULT_RATE: DataRate = DataRate::from_bps(1_000_000);
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7:5005 --rate 5M --size 1200 --duration 10s
  giusto send 192.0.2.7:5005 --profile g711 --streams 20
  giusto send 192.0.2.7:5005 --rate 2M --payload uniform:200-1400 --layer ip --dscp 46
  giusto send 192.0.2.7:4000 --one-way --rtp --count 1000
  giusto send 192.0.2.7 --protocol iperf3 --rate 5M --reverse
  giusto send 192.0.2.7 --protocol stamp            10 packets a second for 10 s to a STAMP reflector, port 862")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct SendArgs {
    /// Address of `giusto recv`; the port is 5005 if not given
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) target: String,

    /// Rate at the layer given by --layer, such as 64k, 3M or "2.5 Gbit/s"; max: as fast as the machine can
    /// [default: 1M, or the times of a trace that has them]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<RateOrMax>,

    /// UDP payload of each datagram [with --protocol stamp: 44, or 112 with --key-file]
    #[arg(long, default_value = "1200", default_value_if("protocol", "stamp", "0"), value_name = "BYTES", conflicts_with_all = ["payload", "profile"])]
    pub(crate) size: DataSize,

    /// Varying payload sizes: uniform:200-1200, normal:800,200, exp:600, choice:200*3,1200*1, or trace:FILE with one
    /// size a line, or one `time_s,size_bytes` a line; such a trace also sets the departure times unless --rate is given
    #[arg(long, value_name = "SPEC", conflicts_with = "profile")]
    pub(crate) payload: Option<String>,

    /// Headers that the rate includes: payload, udp, ip or ethernet
    #[arg(long, default_value = "payload", value_name = "LAYER")]
    pub(crate) layer: HeaderLayer,

    /// Transmit loop: grid, send-compare, send-sleep, send-sleep-deficit, or a traffic shaper of TR-99-77: dt0, dt1, dt2,
    /// dt2-live, at0, at1
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
    #[arg(long, value_name = "TIME", requires = "profile")]
    ptime: Option<TimeDelta>,

    /// WAV file that a G.711 profile sends in a loop [default: a tone]
    #[arg(long, value_name = "FILE", requires = "profile")]
    wav: Option<PathBuf>,

    /// Differentiated services code point of every datagram; 46 is expedited forwarding
    #[arg(long, default_value_t = 0, value_name = "0..63", value_parser = clap::value_parser!(u8).range(..64))]
    pub(crate) dscp: u8,

    /// Explicit congestion notification of every datagram: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    pub(crate) ecn: Ecn,

    /// Forbid fragments: a datagram that exceeds the MTU of the path ends the run with an error
    #[arg(long)]
    pub(crate) dont_fragment: bool,

    /// Random seed of payload sizes and filler
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,

    /// Time to send [default: 10 s unless --count, --bytes or a trace ends the stream]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<TimeDelta>,

    /// Datagrams to send, for each stream
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,

    /// Payload to send, for each stream
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes: Option<DataSize>,

    /// Number of simultaneous streams, each from a port of its own, their datagrams spread evenly over time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) streams: u16,

    /// Send without asking the receiver: for receivers other than giusto
    #[arg(long)]
    pub(crate) one_way: bool,

    /// Protocol of the far end: giusto recv, an iperf3 server in UDP mode, or a STAMP reflector (RFC 8762)
    #[arg(long, default_value = "giusto", value_name = "NAME")]
    protocol: Protocol,

    /// The iperf3 server sends instead of this end, which measures
    #[arg(short = 'R', long)]
    pub(crate) reverse: bool,

    /// File of keys that both ends share, a line "ID KEY" for each: only authenticated datagrams count
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Format of the timestamps of --protocol stamp: NTP (UTC), or truncated PTP (TAI, as far as the system knows it)
    #[arg(long, default_value = "ntp", value_name = "FORMAT")]
    pub(crate) timestamps: stamp::Timestamps,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the far end speaks.
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

pub(crate) fn run(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    match args.protocol {
        Protocol::Giusto | Protocol::Stamp if args.reverse => {
            misuse!("--reverse: possible with --protocol iperf3 alone");
        }
        Protocol::Giusto => {}
        Protocol::Iperf3 => return iperf3::send(args, stop),
        Protocol::Stamp => return stamp::send(args, stop),
    }
    let to = resolve(&args.target)?;
    let traffic_class = TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits());
    let plan = stream_plan(args)?.resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
    let keys = args.key_file.as_deref().map(read_keys).transpose()?;
    if keys.is_some() && args.one_way {
        misuse!(
            "--key-file: cannot be used with --one-way, for the receiver is not asked: leave out one of them"
        );
    }
    let destination =
        Destination { to, streams: args.streams.into(), one_way: args.one_way, traffic_class, keys };

    let progress = Progress::live();
    let outcome = send::run(&plan, &destination, stop, |live| progress.say(live_line(live)));
    progress.clear();
    let run = outcome.map_err(|error| match error {
        RunError::Socket(error) => UsageError::new(error).into(),
        error => anyhow::Error::from(error),
    })?;

    let results = run.results(&plan);
    console::print_doubts(&results, args.json)?;
    match (args.json, &results[..]) {
        (true, [one]) => print_json(one)?,
        (true, many) => print_json(&BTreeMap::from([("runs", many)]))?,
        (false, [one]) => print_text(&table::run(one))?,
        (false, many) => {
            print_text(&table::runs(many, console::width()))?;
            if let Some((median, lowest)) = voice_scores(many) {
                print_text(&format!("Voice quality: MOS {median:.2} median, {lowest:.2} lowest."))?;
            }
        }
    }
    if let Some(failure) = run.failure() {
        eprintln!("error: {to}: {failure}; the figures cover the time until then");
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::measured(&results))
}

/// The progress of a run, with the receiver's figures once they have come.
pub(crate) fn live_line(live: &Live) -> String {
    let far_end = live.far_end.as_ref().map(|figures| format!("; receiver: {}", console::live_line(figures)));
    format!("{} sent{}", live.sent_packets, far_end.unwrap_or_default())
}

fn stream_plan(args: &SendArgs) -> anyhow::Result<StreamPlan> {
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
    base_plan(args, media)
}

/// The plan that the flags make for these contents.
pub(crate) fn base_plan(args: &SendArgs, media: Media) -> anyhow::Result<StreamPlan> {
    let tempo = match (args.rate, &media) {
        (_, Media::Voice(..)) => Tempo::Media,
        (Some(RateOrMax(rate)), _) => rate.map_or(Tempo::Max, Tempo::Rate),
        (None, Media::Filler(_, PayloadSizes::Trace(trace))) => {
            trace.departures().map_or(Tempo::Rate(DEFAULT_RATE), |times| Tempo::Recorded(Arc::from(times)))
        }
        (None, Media::Filler(..)) => Tempo::Rate(DEFAULT_RATE),
    };
    Ok(StreamPlan {
        limits: limits(args, matches!(tempo, Tempo::Recorded(_)))?,
        media,
        tempo,
        layer: args.layer,
        pacing: args.pacing.pacing(args.strategy),
        dont_fragment: args.dont_fragment,
        seed: args.seed,
    })
}

/// The limits; a recorded stream ends by itself.
pub(crate) fn limits(args: &SendArgs, recorded: bool) -> Result<Limits, UsageError> {
    for (flag, zero, is_zero) in [
        ("--duration", "0 s", args.duration == Some(TimeDelta::ZERO)),
        ("--count", "0", args.count == Some(0)),
        ("--bytes", "0 B", args.bytes == Some(DataSize::ZERO)),
    ] {
        if is_zero {
            misuse!("{flag}: must be above {zero}, found {zero}");
        }
    }
    let unbounded = args.count.is_none() && args.bytes.is_none() && !recorded;
    let duration = args.duration.or(unbounded.then_some(DEFAULT_DURATION));
    Ok(Limits { duration, packets: args.count, size: args.bytes, ..Limits::default() })
}

fn payload_sizes(spec: &str) -> Result<PayloadSizes, UsageError> {
    let Some(path) = spec.strip_prefix("trace:") else {
        return spec.parse().map_err(|error| UsageError::new(format!("--payload: {error}")));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError::new(format!("--payload trace:{path}: cannot read the file: {error}")))?;
    let trace = PayloadTrace::parse(&text, path).map_err(UsageError::new)?;
    Ok(PayloadSizes::Trace(trace))
}

/// Reads a WAV file of any rate and number of channels: 8000 samples a second in one channel.
fn read_wav(path: &Path) -> Result<Vec<i16>, UsageError> {
    let unusable = |why: String| {
        UsageError::new(format!("--wav {}: {why}: expected a WAV file with PCM samples", path.display()))
    };
    let mut reader = hound::WavReader::open(path).map_err(|error| unusable(error.to_string()))?;
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
