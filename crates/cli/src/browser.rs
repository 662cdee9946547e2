//! A call to a browser.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use anyhow::Context as _;
use clap::Args;
use giusto::view::format::{self, count};
use giusto_congestion::{Algorithm, Limits};
use giusto_units::{DataRate, TimeDelta};
use giusto_webrtc::{
    call::{CallError, CallEvent, CallPlan, run as call},
    ivf::Ivf,
    peer::Secrets,
    result::CallResult,
    source::{FrameSource as _, Ladder},
};
use rand::{
    SeedableRng as _,
    rngs::{StdRng, SysRng},
};

use crate::{
    args,
    console::{self, Progress, print_json, print_text},
    usage::UsageError,
};

/// The largest video file that is read: files are held in memory.
const MAX_FILE_BYTES: u64 = 1 << 30;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  giusto call-browser --media low.ivf,high.ivf --controller gcc:libwebrtc
  chromium http://localhost:8080")]
pub(crate) struct BrowserArgs {
    /// Address of the page (TCP) and of the media (UDP)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// VP8 in IVF files: one, or several rates of the same video with key frames every second or so
    #[arg(long, value_name = "FILE", value_delimiter = ',', required = true)]
    media: Vec<PathBuf>,

    /// Congestion controller
    #[arg(long, value_name = "NAME", default_value = "gcc:libwebrtc", value_parser = controller)]
    controller: Algorithm,

    /// Highest target rate, headers included; as a default, 1.2 times that of the largest file
    #[arg(long, value_name = "RATE", value_parser = args::quantity::<DataRate>)]
    max_rate: Option<DataRate>,

    /// Target rate at the start
    #[arg(long, value_name = "RATE", default_value = "300k", value_parser = args::quantity::<DataRate>)]
    start_rate: DataRate,

    /// End the call after this time; as a default, the browser ends it
    #[arg(short, long, value_name = "TIME", value_parser = args::time_above_zero)]
    duration: Option<TimeDelta>,

    /// Print one JSON object, with ten samples each second of both ends
    #[arg(long)]
    json: bool,
}

fn controller(name: &str) -> Result<Algorithm, String> {
    name.parse().map_err(|error: giusto_congestion::UnknownAlgorithm| error.to_string())
}

fn read(path: &Path) -> Result<Ivf, UsageError> {
    let failed = |why: &dyn std::fmt::Display| UsageError::new(format!("--media {}: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| failed(&error))?.len();
    if length > MAX_FILE_BYTES {
        return Err(failed(&format!("{length} B, at most {MAX_FILE_BYTES} B are read: cut the video")));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    Ivf::parse(&bytes).map_err(|error| failed(&error))
}

pub(crate) fn run(args: &BrowserArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let files = args.media.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let ladder = Ladder::new(files).map_err(|error| UsageError::new(format!("--media: {error}")))?;
    let most = ladder.limits().max();
    let max = args.max_rate.unwrap_or(DataRate::from_bps(most.as_bps() * 6 / 5));
    let plan = CallPlan {
        listen: args.listen,
        algorithm: args.controller,
        limits: Limits { start: args.start_rate, max, ..Limits::default() }.ordered(),
        duration: args.duration,
        source: Box::new(ladder),
    };
    let mut random = StdRng::try_from_rng(&mut SysRng).context("the system gives no random numbers")?;

    let progress = Progress::live();
    let outcome = call(plan, || Secrets::draw(&mut random), stop, |event| say(&progress, &event));
    progress.clear();
    let result = match outcome {
        Err(error @ (CallError::Page { .. } | CallError::Socket(_))) => {
            return Err(UsageError::new(error).into());
        }
        outcome => outcome?,
    };
    if args.json {
        print_json(&result)?;
    } else {
        print_text(&lines(&result).join("\n"))?;
    }
    Ok(if result.connected {
        ExitCode::SUCCESS
    } else {
        console::complain(&format!("error: {}", result.end));
        ExitCode::FAILURE
    })
}

/// A rate in bit/s.
fn rate(bps: u64) -> String {
    format::rate(bps as f64)
}

fn say(progress: &Progress, event: &CallEvent) {
    match event {
        CallEvent::Serving(address) => {
            let ip = address.ip();
            let host = if ip.is_unspecified() { "localhost".to_owned() } else { ip.to_string() };
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            progress.note(&format!("open http://{host}:{} in a browser", address.port()));
        }
        CallEvent::Refused(error) => progress.note(&format!("refused an offer: {error}")),
        CallEvent::Connected(address) => progress.note(&format!("connected to {address}")),
        CallEvent::Live { time, target, sent, decoded } => {
            let decoded =
                decoded.map_or_else(String::new, |frames| format!(", {} frames decoded", count(frames)));
            let line =
                format!("{time:.0}: target {}, sent {}{decoded}", rate(target.as_bps()), rate(sent.as_bps()));
            progress.say(line);
        }
        _ => {}
    }
}

fn lines(result: &CallResult) -> Vec<String> {
    let browser = &result.browser;
    let known = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), count);
    let counters = &result.counters;
    vec![
        format!(
            "{}, feedback {}, DTLS {}, {}",
            result.controller,
            result.feedback,
            result.dtls.unwrap_or("–"),
            result.srtp.as_deref().unwrap_or("no SRTP"),
        ),
        format!(
            "sent      {} in {:.1} s, mean target {}, {} frames, {} of them key frames, {} skipped",
            rate(result.sent_rate_bps),
            result.duration_s,
            rate(result.target_rate_bps),
            count(counters.frames),
            count(counters.key_frames),
            count(counters.skipped_frames),
        ),
        format!(
            "received  {}, {} frames decoded, {} dropped, {} packets lost, {} key frames requested",
            browser.received_rate_bps.map_or_else(|| "–".to_owned(), rate),
            known(browser.frames_decoded),
            known(browser.frames_dropped),
            browser.lost_packets.map_or_else(|| "–".to_owned(), |lost| lost.to_string()),
            count(counters.key_frame_requests),
        ),
        format!(
            "browser   {} freezes, {:.1} s in total, jitter buffer {}",
            known(browser.freezes),
            browser.freezes_s.unwrap_or(0.0),
            browser.jitter_buffer_delay_ms.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.0} ms")),
        ),
        format!("end       {}; CPU {:.1} % of a core", result.end, result.sender_cpu_ratio * 100.0),
    ]
}
