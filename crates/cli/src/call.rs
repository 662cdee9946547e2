//! `giusto call`: an adaptive media session over real UDP.

#[cfg(feature = "browser")]
mod browser;
mod printed;
mod protection;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto::{
    call::{
        CallPlan, CallRecord, CallRunError, CallSettings, Caller, Direction, Encoder, Listener, MediaPlan,
        PlanError, Repair, SaveTarget, VideoInput, VoiceInput,
        race::first_listener,
        run::{ListenerEvent, create_trace},
    },
    capture::CallCapture,
    explore,
    measured::RunError,
    record::{RunRecord, TimelineOptions},
    replay::SessionLog,
    scenario::{MOST_VIDEOS, Setting, load_controller},
    view::{html, trace::TraceFile},
    watch::SharedFeed,
    whole_file::{self, Content},
};
use giusto_congestion::{Algorithm, FeedbackKind};
use giusto_net::{
    Clock,
    driver::Verdict,
    encoder::{EncoderConfig, EncoderProcess},
};
use giusto_session::{call::Protection, media::RateRange};
use giusto_units::{DataRate, Ecn, TimeDelta};
use serde_json::json;

use self::{
    printed::{live_line, print_record},
    protection::ProtectionArgs,
};
use crate::{
    args::{self, ecn, quantity, time_above_zero, whole},
    command_line,
    console::{self, TableArgs, complain, print_json},
    live::{Awaits, LiveArgs, LivePage},
    path::PathArgs,
    run::Run,
    send::wav_samples,
    usage::{UsageError, misuse},
};

/// The port of calls: that of RTP (RFC 3551 §8), so that programs which dissect packets recognise it.
const CALL_PORT: u16 = 5004;

/// The length of a call without --duration.
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

/// The lowest rate that a running encoder is asked for: VP8 of 320 × 180 below this is useless. Chosen by us.
const LOWEST_ENCODER_RATE: DataRate = DataRate::from_bps(50_000);

/// Its first rate: the first target of a call.
const DEFAULT_START_RATE: DataRate = DataRate::from_bps(300_000);

/// The number of records of a listener that are kept for --json.
const MAX_RECORDS: usize = 1_000;

/// Flags of every end.
#[derive(Debug, Args)]
struct EndArgs {
    /// Highest target rate, headers included; with --listen, of what this end sends if it is asked to [default: 2.5M]
    #[arg(short = 'b', long, value_name = "RATE", value_parser = rate_above_zero)]
    max_rate: Option<DataRate>,

    /// Time between two lines of live figures on standard error
    #[arg(short = 'i', long, default_value = "1s", value_name = "TIME", value_parser = args::time_from_100_ms)]
    interval: TimeDelta,

    /// Write every event of the first call to this file, .csv or .parquet
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Write an HTML report of the first call to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object; with several calls, {"runs": […]}
    #[arg(short = 'J', long)]
    json: bool,
}

/// Flags of an end whose far end is giusto.
#[derive(Debug, Args)]
struct PeerArgs {
    /// End the call after this time without any datagram of the far end
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = time_above_zero)]
    silence: TimeDelta,

    #[command(flatten)]
    protection: ProtectionArgs,

    /// Capture the datagrams of this end in pcapng, for Wireshark: RTP and RTCP, without their MACs; SRTP as it is
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    #[command(flatten)]
    live: LiveArgs,
}

/// Flags of an end that says what is sent.
#[derive(Debug, Args)]
struct MediaArgs {
    /// Congestion controller, such as gcc:libwebrtc, nada+kappa=0.4 or a file of constants tuned.toml; an unknown name lists all
    /// [default: gcc:libwebrtc+giusto]
    #[arg(long, value_name = "NAME", value_parser = load_controller)]
    controller: Option<Algorithm>,

    /// First target rate [default: 300k]
    #[arg(long, value_name = "RATE", value_parser = rate_above_zero)]
    start_rate: Option<DataRate>,

    /// Lowest target rate [default: 30k]
    #[arg(long, value_name = "RATE", value_parser = rate_above_zero)]
    min_rate: Option<DataRate>,

    /// Send real video instead of an encoder model: an IVF file (VP8) or an .h264 file (Annex B), or several of one video at several
    /// rates; it begins again at its end
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    media: Vec<PathBuf>,

    /// Send the output of a video encoder that this command runs: IVF (VP8) or H.264 (Annex B) on its standard output; it reads lines
    /// "bitrate 640000" (bit/s) and "key-frame"
    #[arg(long, value_name = "COMMAND", conflicts_with = "media")]
    encoder_command: Option<String>,

    /// Frames per second of H.264 in --media or --encoder-command, which has no timestamps [default: 30]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    frame_rate: Option<u16>,

    /// Feedback of the receiver, if the controller accepts several kinds [default: what it requires]
    #[arg(long, value_name = "KIND",
          value_parser = PossibleValuesParser::new(["transport-wide", "rfc8888", "scream-draft", "nada", "remb"])
              .map(|name| feedback(&name)))]
    feedback: Option<FeedbackKind>,

    /// Target of the queueing delay, of a controller that has one
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    delay_target: Option<TimeDelta>,

    /// Repair of lost packets: nack (requested and sent again), flexfec (parity packets), nack+flexfec or none
    #[arg(long, default_value = "nack", value_name = "KIND",
          value_parser = PossibleValuesParser::new(["none", "nack", "flexfec", "nack+flexfec"]).try_map(|name| name.parse::<Repair>()))]
    repair: Repair,

    /// Length of the call [default: 10 s, or that of the scenario; with --browser, until the browser ends it]
    #[arg(short = 't', long, value_name = "TIME", value_parser = time_above_zero)]
    duration: Option<TimeDelta>,

    /// Record the input and the output of the controller of the first call, for `giusto replay`
    #[arg(long, value_name = "FILE")]
    session_log: Option<PathBuf>,
}

/// The name of the voice that is made here.
const TALK: &str = "talk";

/// Samples that are kept in memory. Chosen by us: 17 minutes of 48 kHz and two channels, 200 MB.
const MAX_VOICE_SAMPLES: u32 = 100_000_000;

/// Real video has no direction but this one.
const REAL: [&str; 3] = ["media", "encoder_command", "voice"];

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto call --listen 0.0.0.0                     serves calls on port 5004
  giusto call 192.0.2.7 --controller scream:v2 --max-rate 2M -t 30
  giusto call 192.0.2.7 --video 2 --audio --bidir --out call.html
  giusto call 192.0.2.7 --scenario media --json
  giusto call 192.0.2.7 --session-log call.jsonl && giusto replay call.jsonl
  giusto call 192.0.2.7 -t 60 --live               shows target, decisions and delays in a browser
  giusto call --browser --media low.ivf,high.ivf   serves a page that receives the video

The caller sends and the listener receives, unless --reverse or --bidir says otherwise.
Each end prints the record of the session, in the form of `giusto sim --json`. The ends that wait have flags of their own:
`giusto call --listen 0.0.0.0 --help`, `giusto call --browser --help`.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct CallerArgs {
    /// Address of the listener; the port is 5004 if not given
    #[arg(value_name = "HOST[:PORT]")]
    target: String,

    /// Serve calls at this address instead; the port is 5004 if not given, 0 for any free one
    #[arg(long, value_name = "ADDR", exclusive = true)]
    listen: Option<String>,

    /// Call a browser instead: serves one page by HTTP, to which the video is sent by WebRTC
    #[arg(long, exclusive = true)]
    browser: bool,

    #[command(flatten)]
    media: MediaArgs,

    /// Number of video streams, which share the rate
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u8>(0, MOST_VIDEOS as u64))]
    video: u8,

    /// Send an audio stream of 20 kbit/s too
    #[arg(long)]
    audio: bool,

    /// Send the speech of this WAV file as Opus (24 kbit/s, with in-band FEC, nothing while it is silent); it begins again at its end.
    /// Without FILE, or for `talk`, a tone in talk spurts. It needs the feature `voice`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = TALK)]
    voice: Option<PathBuf>,

    /// Model of the video encoders, as in scenarios: perfect, statistical, trace or hybrid
    #[arg(long, default_value = "statistical", value_name = "NAME", conflicts_with_all = ["media", "encoder_command"])]
    encoder: Encoder,

    /// Explicit congestion notification of the media: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    ecn: Ecn,

    /// Take streams, encoders, controller, limits and times from the media flow of a scenario; its links and other flows are not
    /// used
    #[arg(long, value_name = "FILE", conflicts_with_all = ["max_rate", "start_rate", "min_rate", "video", "audio", "encoder",
          "feedback", "delay_target", "ecn", "repair", "reverse", "bidir", "media", "encoder_command", "frame_rate", "voice"])]
    scenario: Option<PathBuf>,

    /// With --scenario: this media flow
    #[arg(long, value_name = "ID", requires = "scenario")]
    flow: Option<String>,

    /// Change a value of the scenario, as for `giusto sim`; repeatable
    #[arg(long, value_name = "KEY=VALUE", requires = "scenario")]
    set: Vec<Setting>,

    /// The listener sends, and the caller receives
    #[arg(short = 'R', long, conflicts_with_all = REAL)]
    reverse: bool,

    /// Both ends send
    #[arg(long, conflicts_with = "reverse", conflicts_with_all = REAL)]
    bidir: bool,

    /// Number of calls at the same time
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", conflicts_with = "encoder_command",
          value_parser = whole::<u16>(1, 1000))]
    calls: u16,

    /// Random seed of the encoders
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: Option<u64>,

    #[command(flatten)]
    path: PathArgs,

    /// Find the MTU of the path by probes (RFC 8899) while the call lasts; no datagram of this end is fragmented
    #[arg(long)]
    mtu_discovery: bool,

    #[command(flatten)]
    peer: PeerArgs,

    #[command(flatten)]
    end: EndArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  giusto call --listen 0.0.0.0:5004 --once --save call.ivf")]
pub(crate) struct ListenerArgs {
    /// Serve calls at this address; the port is 5004 if not given, 0 for any free one
    #[arg(long, value_name = "ADDR", required = true)]
    listen: String,

    /// Save the media of the first call that has real ones: video as .ivf, or as .h264 (H.264 without times); video and the audio of --voice
    /// in sync as .webm (VP8, VP9) or .mkv (H.264 too)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// End with the first call
    #[arg(long)]
    once: bool,

    /// Maximum number of calls at the same time
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = whole::<u16>(1, 10_000))]
    max_calls: u16,

    #[command(flatten)]
    peer: PeerArgs,

    #[command(flatten)]
    end: EndArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto call --browser --media low.ivf,high.ivf            serves a page that receives the video
  giusto call --browser --reverse --save camera.webm        serves a page that sends camera and microphone
  giusto call --browser --reverse --controller gcc:remb     limits them by REMB; otherwise the browser's controller decides")]
pub(crate) struct BrowserArgs {
    /// Call a browser: serves one page by HTTP, to which the video is sent by WebRTC
    #[arg(long, required = true)]
    browser: bool,

    /// The address of the page and of the media [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// The browser sends its camera and its microphone, and receives nothing
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "media", "encoder_command", "frame_rate", "voice", "session_log", "max_rate",
          "start_rate", "min_rate", "delay_target"])]
    reverse: bool,

    /// Both ends send
    #[arg(long)]
    bidir: bool,

    /// Send the speech of this WAV file as Opus too, as to other listeners; without FILE, a tone in talk spurts
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = TALK)]
    voice: Option<PathBuf>,

    /// Save the media of the browser: video as .ivf, or as .h264; video and audio in sync as .webm (VP8, VP9) or .mkv (H.264 too)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    media: MediaArgs,

    #[command(flatten)]
    end: EndArgs,
}

/// A rate that is not 0.
fn rate_above_zero(text: &str) -> Result<DataRate, String> {
    match quantity::<DataRate>(text)? {
        DataRate::ZERO => Err(format!("must be above 0 bit/s, found \"{text}\"")),
        rate => Ok(rate),
    }
}

fn feedback(name: &str) -> FeedbackKind {
    match name {
        "rfc8888" => FeedbackKind::CongestionControl,
        "scream-draft" => FeedbackKind::ScreamDraft,
        "nada" => FeedbackKind::Nada,
        "remb" => FeedbackKind::ReceiverEstimate,
        _ => FeedbackKind::TransportWide,
    }
}

/// Runs an end whose far end is giusto, with its settings and its capture, which a call that failed leaves too.
fn with_peer(
    end: &EndArgs,
    peer: &PeerArgs,
    awaits: Awaits<'_>,
    save: Option<&Path>,
    page: &mut Option<LivePage>,
    run: impl FnOnce(CallSettings, &mut Option<LivePage>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    end.out.as_deref().map(|out| console::check_file("--out", out, Content::REPORT)).transpose()?;
    let protection = peer.protection.take(matches!(awaits, Awaits::Answer(_)))?;
    let feed = peer.live.start("giusto call", awaits, page)?;
    let capture = peer.pcap.as_deref().map(CallCapture::create).transpose();
    let capture = capture.map_err(|error| UsageError::of_file("--pcap", error))?;
    let save = save.map(SaveTarget::create).transpose();
    let settings = CallSettings {
        keys: protection.keys,
        protection: protection.media,
        #[cfg(feature = "browser")]
        identity: protection.identity,
        silence: peer.silence,
        timeline: end.out.as_ref().map(|_| TimelineOptions::default()),
        interval: end.interval,
        save: save.map_err(|error| UsageError::new(format!("--save {error}")))?,
        capture: capture.clone(),
        feed: feed.map(SharedFeed::from),
        ..CallSettings::default()
    };
    let outcome = run(settings, page);
    let capture = capture.filter(|_| !is_misuse(&outcome));
    if let Some((path, note)) = capture.map(|capture| capture.finish()).transpose()?.flatten() {
        if let Some(note) = note {
            complain(&note);
        }
        complain(&format!("wrote {}", path.display()));
    }
    outcome
}

/// Whether a call failed before it began, so that its recordings are left out.
fn is_misuse<T>(outcome: &anyhow::Result<T>) -> bool {
    outcome.as_ref().is_err_and(anyhow::Error::is::<UsageError>)
}

impl Run for CallerArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let awaits = Awaits::Answer(&self.target);
        with_peer(&self.end, &self.peer, awaits, None, page, |settings, page| {
            call(&self, settings, page, stop)
        })
    }
}

impl Run for ListenerArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let (awaits, save) = (Awaits::Others("calls"), self.save.as_deref());
        with_peer(&self.end, &self.peer, awaits, save, page, |settings, page| {
            listen(&self, settings, page, stop)
        })
    }
}

impl Run for BrowserArgs {
    fn run(self, stop: &AtomicBool, _: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let out = self.end.out.as_deref();
        out.map(|out| console::check_file("--out", out, Content::REPORT)).transpose()?;
        #[cfg(feature = "browser")]
        return browser::run(&self, stop);
        #[cfg(not(feature = "browser"))]
        {
            let _ = stop;
            misuse!("--browser: {}", protection::NO_WEBRTC);
        }
    }
}

fn call(
    args: &CallerArgs,
    settings: CallSettings,
    page: &mut Option<LivePage>,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let addresses = args::resolve_all(&args.target, None, CALL_PORT)?;
    let addresses = args.path.reachable(&args.target, addresses)?;
    let plan = plan(args)?;
    let trace = open_trace(args.end.trace.as_deref())?;
    let log = match (&args.media.session_log, plan.session_info()) {
        (None, _) => None,
        (Some(path), Some(info)) => Some(
            SessionLog::create(path, &info).map_err(|error| UsageError::of_file("--session-log", error))?,
        ),
        (Some(_), None) => {
            misuse!("--session-log: this end sends no media with --reverse: leave out one of them")
        }
    };
    let settings = CallSettings {
        session_log: log.clone(),
        path: args.path.options(),
        mtu_discovery: args.mtu_discovery,
        ..settings
    };
    let to = match addresses.as_slice() {
        [] => misuse!("unknown host in \"{}\": check the name", args.target),
        [only] => *only,
        several => first_listener(several, &settings, stop)?.ok_or_else(|| {
            let far_end = ("listener", "giusto call --listen");
            if stop.load(Ordering::Relaxed) {
                RunError::Interrupted
            } else {
                RunError::NoneAnswers { far_end, addresses }
            }
        })?,
    };
    let caller = Caller::open(to, plan, settings).map_err(usage)?;
    let stopped = || stop.load(Ordering::Relaxed);
    let records = caller.run(args.calls.into(), (trace, &mut ()), stopped, |live| complain(&live_line(live)));
    let records = records.map_err(usage);
    if let Some(log) = log.filter(|_| !is_misuse(&records)) {
        log.finish()?;
    }
    let records = records?;
    LivePage::keep_result(page, live_result(&records));
    finish(&args.end, true, &records)
}

/// The final result as the page shows it: the first call.
fn live_result(records: &[CallRecord]) -> Option<html::Report> {
    records.first().map(|record| html::call(record, command_line()))
}

fn listen(
    args: &ListenerArgs,
    settings: CallSettings,
    page: &mut Option<LivePage>,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let address = args::unicast(listen_address(&args.listen, CALL_PORT)?)?;
    let trace = open_trace(args.end.trace.as_deref())?;
    let max_rate = args.end.max_rate.unwrap_or(MediaPlan::default().max_rate);
    let sealed = match (&settings.keys, settings.protection) {
        (_, Protection::Encrypted) => ", encrypted",
        (Some(_), _) => ", authenticated",
        (None, Protection::Insecure) => ", insecure",
        (None, _) => "",
    };
    let save = settings.save.clone();
    let mut listener =
        Listener::open(address, usize::from(args.max_calls), max_rate, settings).map_err(usage)?;
    let end = if args.once { "ends with the first call" } else { "Ctrl-C ends" };
    complain(&format!("listening on {} (UDP, calls{sealed}); {end}", listener.address()));
    let mut records: Vec<CallRecord> = Vec::new();
    let (mut printed, mut doubtful) = (Ok(()), false);
    listener
        .run(
            args.once,
            (trace, &mut ()),
            || stop.load(Ordering::Relaxed),
            |event| {
                match event {
                    ListenerEvent::Begun { from, offer } => {
                        let sends =
                            offer.sends.as_ref().map(|media| format!("sends by {}", media.controller));
                        let wants =
                            offer.wants.as_ref().map(|media| format!("receives by {}", media.controller));
                        let media: Vec<String> = [sends, wants].into_iter().flatten().collect();
                        complain(&format!("{from}: call, {}", media.join(", ")));
                        let codec = offer.sends.as_ref().and_then(|media| media.codec);
                        if let Some(save) = &save {
                            let opus = offer.sends.as_ref().and_then(|media| media.audio).is_some_and(|audio| audio.opus);
                            let why = match codec {
                                None if opus && save.takes_audio() => None,
                                None => Some("the call sends no real video".to_owned()),
                                Some(codec) if !save.takes(codec) => {
                                    Some(format!("the call sends {codec}: use a name that ends in .ivf, or in .mkv but for AV1"))
                                }
                                Some(_) => None,
                            };
                            if let Some(why) = why {
                                complain(&format!("{from}: not saved: {why}"));
                            }
                        }
                    }
                    ListenerEvent::Refused { from, why } => complain(&format!("{from}: refused: {why}")),
                    ListenerEvent::NotAuthentic { from, why } => complain(&format!("{from}: refused: {why}")),
                    ListenerEvent::Live(live) => complain(&live_line(&live)),
                    ListenerEvent::Ended(record) => {
                        doubtful |= !record.call.doubts.is_empty();
                        if !args.once && !args.end.json {
                            printed = print_record(&record, args.end.tables);
                        }
                        if records.len() < MAX_RECORDS {
                            records.push(*record);
                        }
                    }
                    _ => {}
                }
                if printed.is_err() { Verdict::Stop } else { Verdict::Continue }
            },
        )
        .map_err(usage)?;
    LivePage::keep_result(page, live_result(&records));
    printed?;
    if records.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if args.once || args.end.json {
        return finish(&args.end, args.once, &records);
    }
    write_files(&args.end, &records)?;
    Ok(console::status(doubtful))
}

/// Prints and writes the records of calls that have ended; `one`: a single one is no list.
fn finish(args: &EndArgs, one: bool, records: &[CallRecord]) -> anyhow::Result<ExitCode> {
    write_files(args, records)?;
    let bare: Vec<CallRecord> = records.iter().map(without_timeline).collect();
    match bare.as_slice() {
        [record] if args.json && one => print_json(record)?,
        all if args.json => print_json(&json!({ "runs": all }))?,
        all => all.iter().try_for_each(|record| print_record(record, args.tables))?,
    }
    if let Some(error) = records.iter().find_map(|record| record.call.error.as_ref()) {
        anyhow::bail!("{error}");
    }
    Ok(console::status(records.iter().any(|record| !record.call.doubts.is_empty())))
}

fn write_files(args: &EndArgs, records: &[CallRecord]) -> anyhow::Result<()> {
    let Some((out, record)) = args.out.as_ref().zip(records.first()) else { return Ok(()) };
    let page = html::call(record, command_line());
    whole_file::prepare(out, Content::REPORT, page.to_html().as_bytes())?.commit()?;
    complain(&format!("wrote {}", out.display()));
    Ok(())
}

fn without_timeline(record: &CallRecord) -> CallRecord {
    CallRecord { run: RunRecord { timeline: None, ..record.run.clone() }, call: record.call.clone() }
}

fn plan(args: &CallerArgs) -> anyhow::Result<CallPlan> {
    let invalid = |error: PlanError| anyhow::Error::from(UsageError::new(error));
    let asked = &args.media;
    if let Some(file) = &args.scenario {
        let scenario = explore::load(file).and_then(|document| document.scenario(&args.set));
        let scenario = scenario.map_err(|error| UsageError::new(error.problems().join("\nerror: ")))?;
        let seed = args.seed.unwrap_or(scenario.seed());
        let mut plan = CallPlan::from_scenario(&scenario, args.flow.as_deref(), seed).map_err(invalid)?;
        if let Some(controller) = asked.controller {
            plan.set_controller(controller);
        }
        if let Some(duration) = asked.duration {
            plan.set_duration(duration);
        }
        return Ok(plan);
    }
    if args.video == 0 && !args.audio && args.voice.is_none() {
        misuse!("--video 0: a call without video needs --audio or --voice");
    }
    let defaults = MediaPlan::default();
    let media = MediaPlan {
        controller: asked.controller.unwrap_or(defaults.controller),
        feedback: asked.feedback,
        encoder: args.encoder,
        videos: args.video.into(),
        audio: args.audio || args.voice.is_some(),
        min_rate: asked.min_rate,
        start_rate: asked.start_rate,
        max_rate: args.end.max_rate.unwrap_or(defaults.max_rate),
        delay_target: asked.delay_target,
        ecn: args.ecn,
        repair: asked.repair,
    };
    let direction = match (args.reverse, args.bidir) {
        (true, _) => Direction::Reverse,
        (_, true) => Direction::Both,
        _ => Direction::Forward,
    };
    let duration = asked.duration.unwrap_or(DEFAULT_DURATION);
    let mut plan = CallPlan::new(&media, direction, duration, args.seed.unwrap_or(1)).map_err(invalid)?;
    let is_real = !asked.media.is_empty() || asked.encoder_command.is_some();
    if is_real && args.video != 1 {
        misuse!(
            "--video {}: a call sends one real video: leave out --video, or --media and --encoder-command",
            args.video
        );
    }
    if let Some(video) = video(asked, media.max_rate)? {
        plan.set_video(video);
    }
    if let Some(voice) = voice(args.voice.as_deref())? {
        plan.set_voice(voice);
    }
    Ok(plan)
}

/// The speech that this end sends.
fn voice(path: Option<&Path>) -> anyhow::Result<Option<VoiceInput>> {
    let Some(path) = path else { return Ok(None) };
    if path == Path::new(TALK) {
        return Ok(Some(VoiceInput::talk().map_err(|why| UsageError::new(format!("--voice: {why}")))?));
    }
    let (samples, spec) = wav_samples("--voice", path, MAX_VOICE_SAMPLES)?;
    let name = path.display();
    if spec.sample_format == hound::SampleFormat::Float {
        misuse!(
            "--voice {name}: its samples are floats, expected 16 bits: convert it, such as by `ffmpeg -i {name} -c:a pcm_s16le OUT.wav`"
        );
    }
    let voice = VoiceInput::new(samples, spec.sample_rate, spec.channels);
    Ok(Some(voice.map_err(|why| UsageError::new(format!("--voice {name}: {why}")))?))
}

/// The real video that this end sends.
fn video(args: &MediaArgs, max_rate: DataRate) -> anyhow::Result<Option<VideoInput>> {
    if args.media.is_empty() && args.encoder_command.is_none() {
        if args.frame_rate.is_some() {
            misuse!(
                "--frame-rate: encoder models have their own: add --media or --encoder-command, or leave it out"
            );
        }
        return Ok(None);
    }
    let interval = TimeDelta::from_seconds(1) / i64::from(args.frame_rate.unwrap_or(30));
    if let Some(command) = &args.encoder_command {
        let encoder = EncoderProcess::start(
            EncoderConfig {
                command: command.clone(),
                limits: RateRange::new(LOWEST_ENCODER_RATE.min(max_rate), max_rate).unwrap_or_default(),
                start_rate: args.start_rate.unwrap_or(DEFAULT_START_RATE).min(max_rate),
                interval,
            },
            Clock::start(),
        );
        let encoder = encoder.map_err(|error| anyhow::anyhow!("--encoder-command: {error}"))?;
        return Ok(Some(VideoInput::encoder(encoder)));
    }
    let files = VideoInput::files(args.media.iter().map(PathBuf::as_path), interval);
    Ok(Some(files.map_err(|error| UsageError::new(format!("--media {error}")))?))
}

fn open_trace(path: Option<&Path>) -> Result<Option<TraceFile>, UsageError> {
    let open = |path| create_trace(path).map_err(|error| UsageError::of_file("--trace", error));
    path.map(open).transpose()
}

/// An error of the socket's address is one of usage.
fn usage(error: CallRunError) -> anyhow::Error {
    match error {
        CallRunError::Socket(error) => {
            UsageError::new(format!("{error}: choose another address or port")).into()
        }
        CallRunError::Offer(error) => UsageError::new(error).into(),
        error => error.into(),
    }
}

/// An address with or without a port, or a port alone.
fn listen_address(text: &str, default_port: u16) -> Result<SocketAddr, UsageError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, default_port));
    }
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    if let Ok(port) = port {
        let any: IpAddr =
            if text.starts_with(':') { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        return Ok(SocketAddr::new(any, port));
    }
    args::resolve_first(text, None, default_port)
}
