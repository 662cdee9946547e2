//! `giusto call`: an adaptive media session over real UDP.

#[cfg(feature = "browser")]
mod browser;
mod flags;
mod printed;
mod protection;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto::{
    call::{
        CallPlan, CallRecord, CallRunError, CallSettings, Caller, Direction, Listener, Live, MediaPlan,
        PlanError, SaveTarget, VideoInput, VoiceInput,
        race::first_listener,
        run::{ListenerEvent, create_trace},
    },
    capture::CallCapture,
    explore,
    measured::RunError,
    record::{RunRecord, TimelineOptions},
    replay::SessionLog,
    view::{html, trace::TraceFile},
    watch::SharedFeed,
    whole_file::{self, Content},
};
use giusto_net::{
    Clock,
    driver::Verdict,
    encoder::{EncoderConfig, EncoderProcess},
};
use giusto_session::{call::Protection, media::RateRange};
use giusto_units::{DataRate, TimeDelta};
use serde_json::json;

use self::{
    flags::{EndArgs, MediaArgs, PeerArgs, TALK},
    printed::{live_line, record_text},
};
use crate::{
    args, command_line,
    console::{self, print_json, print_text},
    live::{Awaits, LivePage},
    printer::{Printer, with_printer},
    run::Run,
    send::wav_samples,
    usage::{UsageError, misuse},
};
pub(crate) use flags::{BrowserArgs, CallerArgs, ListenerArgs};

/// The port of calls: that of RTP (RFC 3551 §8), so that programs which dissect packets recognise it.
const CALL_PORT: u16 = 5004;

/// The length of a call without --duration.
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

/// The lowest rate that a running encoder is asked for: VP8 of 320 × 180 below this is useless. Chosen by us.
const LOWEST_ENCODER_RATE: DataRate = DataRate::from_bps(50_000);

/// Its first rate: the first target of a call.
const DEFAULT_START_RATE: DataRate = DataRate::from_bps(300_000);

/// Samples that are kept in memory. Chosen by us: 17 minutes of 48 kHz and two channels, 200 MB.
const MAX_VOICE_SAMPLES: u32 = 100_000_000;

/// The number of records of a listener that are kept for --json.
const MAX_RECORDS: usize = 1_000;

/// Runs an end whose far end is giusto, with its settings and its capture, which a call that failed leaves too.
fn with_peer(
    end: &EndArgs,
    peer: &PeerArgs,
    awaits: Awaits<'_>,
    save: Option<&Path>,
    page: &mut Option<LivePage>,
    printer: &mut Printer,
    run: impl FnOnce(CallSettings, &mut Option<LivePage>, &mut Printer) -> anyhow::Result<ExitCode>,
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
    let outcome = run(settings, page, printer);
    let capture = capture.filter(|_| !is_misuse(&outcome));
    if let Some((path, note)) = capture.map(|capture| capture.finish()).transpose()?.flatten() {
        if let Some(note) = note {
            printer.note(note);
        }
        printer.note(format!("wrote {}", path.display()));
    }
    outcome
}

/// Whether a call failed before it began, so that its recordings are left out.
fn is_misuse<T>(outcome: &anyhow::Result<T>) -> bool {
    outcome.as_ref().is_err_and(anyhow::Error::is::<UsageError>)
}

impl Run for CallerArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let (awaits, save) = (Awaits::Answer(&self.target), self.save.as_deref());
        with_printer(stop, |printer| {
            with_peer(&self.end, &self.peer, awaits, save, page, printer, |settings, page, printer| {
                call(&self, settings, page, printer, stop)
            })
        })
    }
}

impl Run for ListenerArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let (awaits, save) = (Awaits::Others("calls"), self.save.as_deref());
        with_printer(stop, |printer| {
            with_peer(&self.end, &self.peer, awaits, save, page, printer, |settings, page, printer| {
                listen(&self, settings, page, printer, stop)
            })
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
    printer: &mut Printer,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let addresses = args::resolve_all(&args.target, None, CALL_PORT)?;
    let addresses = args.path.reachable(&args.target, addresses)?;
    let receives = args.bidir || args.reverse && (args.codec.is_some() || args.voice.is_some());
    if args.save.is_some() && !receives {
        misuse!(
            "--save: nothing real comes from the listener: add --bidir, or --reverse with --codec or --voice, or save at the listener"
        );
    }
    if let Some((save, codec)) = settings.save.as_ref().zip(args.codec)
        && !save.takes(codec)
    {
        misuse!("--save: the file has no room for {codec}: use a name that ends in .ivf or .mkv");
    }
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
        resolver: args::resolver(&args.target, None, CALL_PORT),
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
    let on_live = |live: &Live| printer.note(live_line(live));
    let records = caller.run(args.calls.into(), (trace, &mut ()), stopped, on_live).map_err(usage);
    let logged = log.filter(|_| !is_misuse(&records)).map(|log| log.finish()).transpose();
    let records = records?;
    LivePage::keep_result(page, live_result(&records));
    let status = finish(&args.end, true, &records, printer)?;
    logged?;
    Ok(status)
}

/// The final result as the page shows it: the first call.
fn live_result(records: &[CallRecord]) -> Option<html::Report> {
    records.first().map(|record| html::call(record, command_line()))
}

fn listen(
    args: &ListenerArgs,
    settings: CallSettings,
    page: &mut Option<LivePage>,
    printer: &mut Printer,
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
    let video = (!args.media.is_empty()).then(|| files(&args.media, args.frame_rate)).transpose()?;
    let settings = CallSettings { video, voice: voice(args.voice.as_deref())?, ..settings };
    let save = settings.save.clone();
    let mut listener =
        Listener::open(address, usize::from(args.max_calls), max_rate, settings).map_err(usage)?;
    let end = if args.once { "ends with the first call" } else { "Ctrl-C ends" };
    printer.note(format!("listening on {} (UDP, calls{sealed}); {end}", listener.address()));
    let mut records: Vec<CallRecord> = Vec::new();
    let mut doubtful = false;
    let served = listener
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
                        printer.note(format!("{from}: call, {}", media.join(", ")));
                        let codec = offer.sends.as_ref().and_then(|media| media.codec);
                        if let Some(save) = &save {
                            let opus = offer
                                .sends
                                .as_ref()
                                .and_then(|media| media.audio)
                                .is_some_and(|audio| audio.opus);
                            let why = match codec {
                                None if opus && save.takes_audio() => None,
                                None => Some("the call sends no real video".to_owned()),
                                Some(codec) if !save.takes(codec) => Some(format!(
                                    "the call sends {codec}: use a name that ends in .ivf or .mkv"
                                )),
                                Some(_) => None,
                            };
                            if let Some(why) = why {
                                printer.note(format!("{from}: not saved: {why}"));
                            }
                        }
                    }
                    ListenerEvent::Refused { from, why } => {
                        printer.refusal(format!("{from}: refused: {why}"));
                    }
                    ListenerEvent::NotAuthentic { from, why } => {
                        printer.refusal(format!("{from}: refused: {why}"));
                    }
                    ListenerEvent::Live(live) => printer.note(live_line(&live)),
                    ListenerEvent::Ended(record) => {
                        doubtful |= !record.call.doubts.is_empty();
                        if !args.once && !args.end.json {
                            printer.result(record_text(&record, args.end.tables));
                        }
                        if records.len() < MAX_RECORDS {
                            records.push(*record);
                        }
                    }
                    _ => {}
                }
                if printer.is_closed() { Verdict::Stop } else { Verdict::Continue }
            },
        )
        .map_err(usage);
    if records.is_empty() {
        served?;
        return finish(&args.end, args.once, &records, printer);
    }
    LivePage::keep_result(page, live_result(&records));
    let status = if args.once || args.end.json {
        finish(&args.end, args.once, &records, printer)?
    } else {
        write_files(&args.end, &records, printer)?;
        console::status(doubtful)
    };
    served?;
    Ok(status)
}

/// Prints and writes the records of calls that have ended; `one`: a single one is no list.
fn finish(
    args: &EndArgs,
    one: bool,
    records: &[CallRecord],
    printer: &mut Printer,
) -> anyhow::Result<ExitCode> {
    // A full disk does not cost what was measured.
    let written = write_files(args, records, printer);
    let bare: Vec<CallRecord> = records.iter().map(without_timeline).collect();
    match bare.as_slice() {
        [record] if args.json && one => print_json(record)?,
        all if args.json => print_json(&json!({ "runs": all }))?,
        all => all.iter().try_for_each(|record| print_text(&record_text(record, args.tables)))?,
    }
    written?;
    if let Some(error) = records.iter().find_map(|record| record.call.error.as_ref()) {
        anyhow::bail!("{error}");
    }
    Ok(console::status(records.iter().any(|record| !record.call.doubts.is_empty())))
}

fn write_files(args: &EndArgs, records: &[CallRecord], printer: &mut Printer) -> anyhow::Result<()> {
    let Some((out, record)) = args.out.as_ref().zip(records.first()) else { return Ok(()) };
    let page = html::call(record, command_line());
    whole_file::prepare(out, Content::REPORT, page.to_html().as_bytes())?.commit()?;
    printer.note(format!("wrote {}", out.display()));
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
    let is_real = !asked.media.is_empty() || asked.encoder_command.is_some() || args.codec.is_some();
    if is_real && args.video != 1 {
        misuse!(
            "--video {}: a call has one real video: leave out --video, or --media, --encoder-command and --codec",
            args.video
        );
    }
    if let Some(video) = video(asked, media.max_rate)? {
        plan.set_video(video);
    }
    if let Some(codec) = args.codec {
        plan.request_video(codec);
    }
    match args.voice.as_deref() {
        Some(path) if args.reverse && path != Path::new(TALK) => {
            misuse!("--voice {}: with --reverse the listener sends: name the file there", path.display());
        }
        Some(_) if args.reverse => plan.request_speech(),
        path => voice(path)?.into_iter().for_each(|voice| plan.set_voice(voice)),
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
    files(&args.media, args.frame_rate).map(Some)
}

fn files(paths: &[PathBuf], frame_rate: Option<u16>) -> anyhow::Result<VideoInput> {
    let interval = TimeDelta::from_seconds(1) / i64::from(frame_rate.unwrap_or(30));
    let files = VideoInput::files(paths.iter().map(PathBuf::as_path), interval);
    Ok(files.map_err(|error| UsageError::new(format!("--media {error}")))?)
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
