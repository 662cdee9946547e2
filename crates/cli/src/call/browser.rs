//! `giusto call --browser`: a call whose far end is a browser.

use std::{net::SocketAddr, path::Path, process::ExitCode, sync::atomic::AtomicBool};

use giusto::{
    call::{
        Repair, SaveTarget,
        browser::{
            BrowserEvent, BrowserPlan, BrowserRecord, BrowserRunError, CallError, CallEvent, Incoming,
            IncomingFigures, run as call,
        },
        plan::DEFAULT_MAX_RATE,
    },
    record::TimelineOptions,
    replay::SessionLog,
    view::{
        format::{count, plural, rate, time_us},
        html,
    },
    whole_file::{self, Content},
};
use giusto_congestion::{Algorithm, FeedbackKind, Limits};
use giusto_units::DataRate;

use super::{
    BrowserArgs, is_misuse, live_line, open_trace,
    printed::{heard_line, record_text},
    without_timeline,
};
use crate::{
    command_line,
    console::{self, print_json, print_text},
    printer::{Printer, with_printer},
    usage::{UsageError, misuse},
};

/// The address of the page without --listen: WebRTC works in pages of localhost.
const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
/// The port of the page if --listen gives none.
const PAGE_PORT: u16 = 8080;
/// The default controller: that of browsers.
const CONTROLLER: &str = "gcc:libwebrtc";

fn plan(args: &BrowserArgs) -> anyhow::Result<BrowserPlan> {
    let listen: SocketAddr = match &args.listen {
        None => DEFAULT_LISTEN.parse()?,
        Some(text) => crate::args::unicast(super::listen_address(text, PAGE_PORT)?)?,
    };
    let controller: Algorithm = match args.media.controller {
        Some(controller) => controller,
        None => CONTROLLER.parse()?,
    };
    if matches!(args.media.repair, Repair::FlexFec | Repair::Both) {
        misuse!("--repair: browsers are repaired by nack or none");
    }
    let receives = args.reverse || args.bidir;
    if args.save.is_some() && !receives {
        misuse!("--save: nothing comes from the browser: add --reverse or --bidir");
    }
    let video = super::video(&args.media, args.end.max_rate.unwrap_or(DEFAULT_MAX_RATE))?;
    if video.is_none() && !args.reverse {
        misuse!(
            "--browser needs --media with files of VP8, VP9, AV1 or H.264, such as of `ffmpeg -i INPUT -c:v libvpx -g 30 FILE.ivf`, or \
             --encoder-command, or --reverse to receive only"
        );
    }
    // A fifth more than the largest file, for headers and repair.
    let most = video
        .as_ref()
        .map_or(DEFAULT_MAX_RATE, |video| DataRate::from_bps(video.limits().max().as_bps() * 6 / 5));
    let max = args.end.max_rate.unwrap_or(if args.media.media.is_empty() { DEFAULT_MAX_RATE } else { most });
    let defaults = Limits::default();
    let limits = Limits::DEFAULT
        .with_min(args.media.min_rate.unwrap_or(defaults.min))
        .with_start(args.media.start_rate.unwrap_or(defaults.start))
        .with_max(max);
    if args.media.delay_target.is_some() && !controller.requirements().delay_target {
        misuse!("--delay-target: {} has no target of the queueing delay", controller.name());
    }
    let save = args.save.as_deref().map(SaveTarget::create).transpose();
    let save = save.map_err(|error| UsageError::new(format!("--save {error}")))?;
    if let (true, Some(save), Some(video)) = (args.bidir, &save, &video)
        && !save.takes(video.codec())
    {
        let codec = video.codec();
        misuse!("--save: in both directions the video is {codec}: use a name that ends in .ivf or .mkv");
    }
    if args.codec.is_some() && !args.reverse {
        misuse!(
            "--codec: only with --reverse: the browser is sent the codec of --media, and with --bidir sends it too"
        );
    }
    if let (Some(codec), Some(save)) = (args.codec, &save)
        && !save.takes(codec)
    {
        misuse!("--save: the file has no room for {codec}: use a name that ends in .ivf or .mkv");
    }
    if args.reverse {
        return receiving(args, listen, controller, save);
    }
    let needs = controller.requirements();
    if let Some(kind) = args.media.feedback.filter(|kind| !needs.accepts(*kind)) {
        misuse!("--feedback: {} does not accept {kind:?}, only {:?}", controller.name(), needs.accepted);
    }
    // A log says at its beginning which feedback follows; what the browser offers is not known then.
    let common =
        needs.accepted.iter().copied().find(|kind| *kind == giusto_congestion::FeedbackKind::TransportWide);
    let feedback = args.media.feedback.or(common.filter(|_| args.media.session_log.is_some()));
    Ok(BrowserPlan {
        listen,
        controller,
        limits: limits.ordered(),
        delay_target: args.media.delay_target,
        feedback,
        repair: args.media.repair == Repair::Nack,
        duration: args.media.duration,
        interval: args.end.interval,
        video,
        voice: super::voice(args.voice.as_deref())?,
        receives,
        max_receive_rate: args.end.max_rate.filter(|_| receives),
        codec: None,
        save,
        timeline: args.end.out.as_ref().map(|_| TimelineOptions::default()),
    })
}

/// A call to which the browser alone sends.
fn receiving(
    args: &BrowserArgs,
    listen: SocketAddr,
    controller: Algorithm,
    save: Option<SaveTarget>,
) -> anyhow::Result<BrowserPlan> {
    let estimates = controller.requirements().feedback == FeedbackKind::ReceiverEstimate;
    if args.media.controller.is_some() && !estimates {
        misuse!(
            "--controller: with --reverse the browser's own controller decides; only gcc:remb or gcc:rmcat-02 can limit it, found {}",
            controller.name()
        );
    }
    if args.media.feedback.is_some_and(|kind| estimates && kind != FeedbackKind::ReceiverEstimate) {
        misuse!("--feedback: {} sends remb", controller.name());
    }
    Ok(BrowserPlan {
        listen,
        controller,
        limits: Limits::DEFAULT,
        delay_target: None,
        feedback: args.media.feedback.or(estimates.then_some(FeedbackKind::ReceiverEstimate)),
        repair: args.media.repair == Repair::Nack,
        duration: args.media.duration,
        interval: args.end.interval,
        video: None,
        voice: None,
        receives: true,
        max_receive_rate: args.end.max_rate,
        codec: args.codec,
        save,
        timeline: args.end.out.as_ref().map(|_| TimelineOptions::default()),
    })
}

pub(super) fn run(args: &BrowserArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let trace = open_trace(args.end.trace.as_deref())?;
    let log = args.media.session_log.as_ref().map(|path| {
        SessionLog::create(path, &plan.session_info())
            .map_err(|error| UsageError::of_file("--session-log", error))
    });
    let log = log.transpose()?;
    // Notes that are not read do not cost the result.
    with_printer(stop, |printer| {
        let outcome = call(&plan, trace, log.as_ref(), stop, |event| say(&event, printer));
        let outcome = outcome.map_err(|error| match error {
            BrowserRunError::Call(error @ (CallError::Page { .. } | CallError::Socket(_))) => {
                UsageError::new(format!("{error}: choose another address with --listen")).into()
            }
            error => anyhow::Error::from(error),
        });
        let logged = log.filter(|_| !is_misuse(&outcome)).map(|log| log.finish()).transpose();
        let record = outcome?;
        let written = args.end.out.as_ref().map(|out| write_report(out, &record, printer)).transpose();
        if args.end.json {
            print_json(&BrowserRecord { record: without_timeline(&record.record), ..record.clone() })?;
        } else {
            print_text(&record_text(&record.record, args.end.tables))?;
            print_text(&lines(&record).join("\n"))?;
        }
        logged?;
        written?;
        if let Some(error) = &record.record.call.error {
            anyhow::bail!("{error}");
        }
        Ok(console::status(!record.record.call.doubts.is_empty()))
    })
}

fn write_report(out: &Path, record: &BrowserRecord, printer: &mut Printer) -> anyhow::Result<()> {
    let page = html::browser_call(record, command_line());
    whole_file::prepare(out, Content::REPORT, page.to_html().as_bytes())?.commit()?;
    printer.note(format!("wrote {}", out.display()));
    Ok(())
}

fn say(event: &BrowserEvent, printer: &mut Printer) {
    match event {
        BrowserEvent::Connection(CallEvent::Serving(address)) => {
            let ip = address.ip();
            let host = if ip.is_unspecified() { "localhost".to_owned() } else { ip.to_string() };
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            printer.note(format!("open http://{host}:{} in a browser; Ctrl-C ends", address.port()));
        }
        BrowserEvent::Connection(CallEvent::Refused(error)) => {
            printer.refusal(format!("refused the offer of a browser: {error}"));
        }
        BrowserEvent::Connection(CallEvent::PageError(error)) => {
            printer.refusal(format!("the page reports: {error}"));
        }
        BrowserEvent::Connection(CallEvent::Left) => {
            printer.refusal("the browser left before it was connected; waiting for another".to_owned());
        }
        BrowserEvent::Connection(CallEvent::Connected(connected)) => {
            printer.note(format!("connected to {}", connected.browser));
        }
        BrowserEvent::Live { live, freezes } => {
            let frozen = freezes.filter(|&freezes| freezes > 0);
            let frozen = frozen
                .map_or_else(String::new, |freezes| format!("; {}", plural(freezes, "freeze", "freezes")));
            printer.note(format!("{}{frozen}", live_line(live)));
        }
        _ => {}
    }
}

/// What the browser reported, in words.
fn lines(record: &BrowserRecord) -> Vec<String> {
    let (browser, connection) = (&record.browser, &record.connection);
    let known = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), count);
    let mut lines = Vec::new();
    if let Some(incoming) = &record.incoming {
        lines.extend(incoming.streams.iter().map(stream_line));
        if let Some(delay) = incoming.frame_delay_above_min_ms {
            lines.push(format!(
                "frame delay above the shortest: median {:.1} ms, p95 {:.1} ms",
                delay.p50, delay.p95
            ));
        }
        lines.push(format!(
            "browser: sent {} frames in {} packets, {} allowed by its controller",
            known(browser.frames_sent),
            known(browser.sent_packets),
            browser.available_rate_bps.map_or_else(|| "–".to_owned(), |bps| rate(bps as f64)),
        ));
    }
    if record.record.call.video.is_some() || record.incoming.is_none() {
        lines.push(format!(
            "browser: received {}, {} frames decoded, {} dropped, {} freezes of {:.1} s in total, jitter buffer {}",
            browser.received_rate_bps.map_or_else(|| "–".to_owned(), |bps| rate(bps as f64)),
            known(browser.frames_decoded),
            known(browser.frames_dropped),
            known(browser.freezes),
            browser.freezes_s.unwrap_or(0.0),
            browser.jitter_buffer_delay_ms.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.0} ms")),
        ));
    }
    if let Some(heard) = &record.heard_by_browser {
        lines.push(format!("browser: {}", heard_line(heard).trim_start()));
    }
    lines.push(format!(
        "connection: DTLS {}, {}; {} packets requested, {} sent again; {} key frames requested; {}",
        connection.dtls.unwrap_or("–"),
        connection.srtp.as_deref().unwrap_or("no SRTP"),
        count(connection.counters.requested_packets),
        count(connection.counters.retransmitted_datagrams),
        count(connection.counters.key_frame_requests),
        connection.end,
    ));
    lines
}

/// What arrived of a stream of the browser.
fn stream_line(stream: &IncomingFigures) -> String {
    let jitter = stream.jitter_ms.map_or_else(String::new, |ms| format!(", jitter {}", time_us(ms * 1e3)));
    let name = if stream.kind == Incoming::Video { "video" } else { "audio" };
    let rid = stream.rid.map_or_else(String::new, |rid| format!(" {rid}"));
    let size = stream.dimensions.map_or_else(String::new, |(width, height)| format!(" {width}x{height}"));
    format!(
        "{name} {}{rid}{size}: {}, {} lost of {}, {} repaired{jitter}, {} frames",
        stream.codec,
        rate(stream.rate_bps as f64),
        count(stream.lost_packets),
        plural(stream.packets + stream.lost_packets, "packet", "packets"),
        count(stream.repaired_packets),
        count(stream.frames),
    )
}
