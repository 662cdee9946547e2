//! `giusto send`: sends a paced stream and prints what the receiver measured.

use std::{
    collections::BTreeMap,
    path::Path,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::Args;
use giusto_net::TrafficClass;
use giusto_pace::{IpVersion, Limits};
use giusto_rtp::voice::VoiceFormat;
use giusto_session::probe::{
    payload::{PayloadSizes, PayloadTrace},
    voice::resample_to_8k,
};
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::{
    args::{LimitArgs, RateOrMax, StreamArgs, resolve},
    console::{self, Progress, print_json, print_text},
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        RunError,
        plan::{Layout, Media, StreamPlan, Tempo},
        result::voice_scores,
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
  giusto send 192.0.2.7:4000 --one-way --rtp --count 1000")]
pub(crate) struct SendArgs {
    /// Address and port of `giusto recv`
    #[arg(value_name = "HOST:PORT")]
    target: String,

    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    limits: LimitArgs,

    /// Number of simultaneous streams, each from a port of its own, their datagrams spread evenly over time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    streams: u16,

    /// Send without asking the receiver: for receivers other than giusto
    #[arg(long)]
    one_way: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let to = resolve(&args.target)?;
    let traffic_class = TrafficClass::from_byte(args.stream.dscp << 2 | args.stream.ecn.bits());
    let plan =
        stream_plan(&args.stream, &args.limits)?.resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
    let destination = Destination { to, streams: args.streams.into(), one_way: args.one_way, traffic_class };

    let progress = Progress::live();
    let outcome = send::run(&plan, &destination, stop, |live| progress.say(live_line(live)));
    progress.clear();
    let run = outcome.map_err(|error| match error {
        RunError::Socket(error) => UsageError::new(error).into(),
        error => anyhow::Error::from(error),
    })?;

    let results = run.results(&plan);
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
    Ok(ExitCode::SUCCESS)
}

/// The progress of a run, with the receiver's figures once they have come.
pub(crate) fn live_line(live: &Live) -> String {
    let far_end = live.far_end.as_ref().map(|figures| format!("; receiver: {}", console::live_line(figures)));
    format!("{} sent{}", live.sent_packets, far_end.unwrap_or_default())
}

fn stream_plan(stream: &StreamArgs, limits: &LimitArgs) -> anyhow::Result<StreamPlan> {
    let media = if let Some(profile) = stream.profile {
        let format = match stream.ptime {
            Some(time) => VoiceFormat::with_packet_time(profile, time)
                .map_err(|error| UsageError::new(format!("--ptime: {error}")))?,
            None => VoiceFormat::new(profile),
        };
        Media::Voice(format, stream.wav.as_deref().map(read_wav).transpose()?.unwrap_or_default())
    } else {
        let layout = match (stream.rtp, stream.raw) {
            (true, _) => Layout::Rtp,
            (_, true) => Layout::Raw,
            _ => Layout::Giusto,
        };
        let sizes = stream.payload.as_deref().map(payload_sizes).transpose()?;
        Media::Filler(layout, sizes.unwrap_or(PayloadSizes::Fixed(stream.size)))
    };
    let tempo = match (stream.rate, &media) {
        (_, Media::Voice(..)) => Tempo::Media,
        (Some(RateOrMax(rate)), _) => rate.map_or(Tempo::Max, Tempo::Rate),
        (None, Media::Filler(_, PayloadSizes::Trace(trace))) => {
            trace.departures().map_or(Tempo::Rate(DEFAULT_RATE), |times| Tempo::Recorded(Arc::from(times)))
        }
        (None, Media::Filler(..)) => Tempo::Rate(DEFAULT_RATE),
    };
    Ok(StreamPlan {
        limits: bounds(limits, matches!(tempo, Tempo::Recorded(_)))?,
        media,
        tempo,
        layer: stream.layer,
        pacing: stream.pacing.pacing(stream.strategy),
        seed: stream.seed,
    })
}

/// The limits; a recorded stream ends by itself.
fn bounds(args: &LimitArgs, recorded: bool) -> Result<Limits, UsageError> {
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
