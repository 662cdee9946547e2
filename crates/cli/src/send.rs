//! `giusto send`: a paced stream to a receiver, and what arrived there.

use std::{
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
use giusto_units::{DataRate, TimeDelta};
use serde::Serialize;

use super::{
    args::{LimitArgs, RateOrMax, StreamArgs, resolve},
    console::{self, Progress, print_json, print_text},
};
use giusto::{
    error::UsageError,
    measured::{
        figures,
        plan::{Media, StreamPlan, Tempo},
        result::{RunResult, median},
        send::{self as measured_send, Destination, Live, StreamOutcome, TransmissionError},
    },
    view::table,
};

/// How fast to send where nothing says.
const DEFAULT_RATE: DataRate = DataRate::from_bps(1_000_000);

/// How long to send where nothing bounds it.
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

/// Flags of `giusto send`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7:5005 --rate 5M --size 1200 --duration 10s
  giusto send 192.0.2.7:5005 --profile g711 --streams 20
  giusto send 192.0.2.7:5005 --rate 2M --payload uniform:200-1400 --layer ip --dscp 46")]
pub(crate) struct SendArgs {
    /// The receiver: `giusto recv` at HOST:PORT
    #[arg(value_name = "HOST:PORT")]
    target: String,

    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    limits: LimitArgs,

    /// Streams at once, each from a port of its own, their datagrams spread evenly over time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    streams: u16,

    /// Ask nobody and hear nothing: for receivers that are not giusto
    #[arg(long)]
    one_way: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Several streams in one JSON object.
#[derive(Debug, Serialize)]
struct Runs {
    runs: Vec<RunResult>,
}

pub(crate) fn run(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let to = resolve(&args.target)?;
    let traffic_class = TrafficClass::new(args.stream.dscp, args.stream.ecn.bits())
        .ok_or_else(|| UsageError::new(format!("--dscp {}: use 0 to 63", args.stream.dscp)))?;
    let plan = stream_plan(&args.stream, &args.limits)?.resolve(IpVersion::of(to.ip()))?;
    let destination = Destination { to, streams: args.streams.into(), one_way: args.one_way, traffic_class };

    let progress = Progress::live();
    let outcome = measured_send::run(&plan, &destination, stop, |live| progress.say(live_line(live)));
    progress.clear();
    let run = match outcome {
        Ok(run) => run,
        Err(TransmissionError::Socket(error)) => return Err(UsageError::new(error.to_string()).into()),
        Err(error) => return Err(error.into()),
    };

    let results: Vec<_> =
        run.streams.iter().map(|stream| figures::sent_stream(&plan, &run, stream)).collect();
    let trouble = run.streams.iter().find_map(StreamOutcome::trouble);
    match (args.json, &results[..]) {
        (true, [one]) => print_json(one)?,
        (true, _) => print_json(&Runs { runs: results })?,
        (false, [one]) => print_text(&table::run(one))?,
        (false, many) => {
            print_text(&table::runs(many, console::width()))?;
            let scores = || many.iter().filter_map(|run| run.voice.as_ref()?.mos);
            if let (Some(worst), Some(middle)) = (scores().reduce(f64::min), median(scores())) {
                print_text(&format!("Voice quality: MOS {middle:.2} median, {worst:.2} at worst."))?;
            }
        }
    }
    match trouble {
        Some(trouble) => {
            eprintln!("error: {to}: {trouble}; the figures above are what was measured until then");
            Ok(ExitCode::FAILURE)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The figures of the far end while a run goes on.
pub(crate) fn live_line(live: &Live) -> String {
    let summaries = || live.reports.iter().flatten().map(|report| &report.summary);
    if summaries().next().is_none() {
        return format!("sent {} datagrams", live.sent_packets);
    }
    let rate: f64 = summaries().filter_map(|summary| summary.rate_bps).sum();
    let lost: u64 = summaries().map(|summary| summary.lost_packets).sum();
    let received: u64 = summaries().map(|summary| summary.received_packets).sum();
    let rate = giusto_units::DataRate::from_bps(rate.round() as u64);
    let gap = summaries().filter_map(|summary| summary.gap_error.map(|gap| gap.p99)).max();
    let gap = gap.map_or_else(String::new, |gap| format!(" · gap error p99 {gap:.1}"));
    format!("sent {} · far end: {received} received, {lost} lost, {rate:.4}{gap}", live.sent_packets)
}

/// What the flags ask for.
fn stream_plan(stream: &StreamArgs, limits: &LimitArgs) -> anyhow::Result<StreamPlan> {
    let media = if let Some(profile) = stream.profile {
        let format = match stream.ptime {
            Some(time) => VoiceFormat::with_packet_time(profile, time)
                .map_err(|error| UsageError::new(format!("--ptime: {error}")))?,
            None => VoiceFormat::new(profile),
        };
        let samples = stream.wav.as_deref().map(read_wav).transpose()?.unwrap_or_default();
        Media::Voice(format, samples)
    } else {
        let sizes = match &stream.payload {
            Some(spec) => payload_sizes(spec)?,
            None => PayloadSizes::Fixed(stream.size),
        };
        match (stream.rtp, stream.raw) {
            (true, _) => Media::Rtp(sizes),
            (_, true) => Media::Raw(sizes),
            _ => Media::Giusto(sizes),
        }
    };
    let recorded = match &media {
        Media::Giusto(PayloadSizes::Trace(trace))
        | Media::Rtp(PayloadSizes::Trace(trace))
        | Media::Raw(PayloadSizes::Trace(trace)) => trace.departures().map(Arc::from),
        _ => None,
    };
    let tempo = match (stream.rate, recorded) {
        _ if matches!(media, Media::Voice(..)) => Tempo::Media,
        (Some(RateOrMax(Some(rate))), _) => Tempo::Rate(rate),
        (Some(RateOrMax(None)), _) => Tempo::Max,
        (None, Some(departures)) => Tempo::Recorded(departures),
        (None, None) => Tempo::Rate(DEFAULT_RATE),
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

/// When to end; a recording ends by itself.
fn bounds(args: &LimitArgs, recorded: bool) -> Result<Limits, UsageError> {
    let unbounded = args.count.is_none() && args.bytes.is_none() && !recorded;
    let duration = args.duration.or(unbounded.then_some(DEFAULT_DURATION));
    let zero = |flag: &str| UsageError::new(format!("{flag} 0: nothing would be sent; use a value above 0"));
    if duration == Some(TimeDelta::ZERO) {
        return Err(zero("--duration"));
    }
    if args.count == Some(0) {
        return Err(zero("--count"));
    }
    if args.bytes.is_some_and(|bytes| bytes.as_bytes() == 0) {
        return Err(zero("--bytes"));
    }
    Ok(Limits { duration, packets: args.count, size: args.bytes, ..Limits::default() })
}

fn payload_sizes(spec: &str) -> Result<PayloadSizes, UsageError> {
    if let Some(path) = spec.strip_prefix("trace:") {
        let text = std::fs::read_to_string(path).map_err(|error| {
            UsageError::new(format!("--payload trace:{path}: cannot read the file: {error}"))
        })?;
        let trace = PayloadTrace::parse(&text, path).map_err(|error| UsageError::new(error.to_string()))?;
        return Ok(PayloadSizes::Trace(trace));
    }
    spec.parse().map_err(|error| UsageError::new(format!("--payload: {error}")))
}

/// Reads speech: 8000 samples a second in one channel, whatever the file has.
fn read_wav(path: &std::path::Path) -> anyhow::Result<Vec<i16>> {
    let unusable = |why: String| {
        UsageError::new(format!("--wav {}: {why}: give a WAV file with PCM samples", path.display()))
    };
    let mut reader = hound::WavReader::open(path).map_err(|error| unusable(error.to_string()))?;
    let spec = reader.spec();
    let samples: Result<Vec<i16>, _> = match (spec.sample_format, spec.bits_per_sample) {
        (hound::SampleFormat::Float, _) => {
            reader.samples::<f32>().map(|sample| sample.map(|value| (value * 32_767.0) as i16)).collect()
        }
        (hound::SampleFormat::Int, bits) => reader
            .samples::<i32>()
            .map(|sample| sample.map(|value| (i64::from(value) << 16 >> bits) as i16))
            .collect(),
    };
    let samples = samples.map_err(|error| unusable(error.to_string()))?;
    resample_to_8k(&samples, spec.sample_rate, spec.channels)
        .map_err(|error| unusable(error.to_string()).into())
}
