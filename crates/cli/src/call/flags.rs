//! The flags of `giusto call`.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto::{
    call::{Encoder, Repair},
    scenario::{MOST_VIDEOS, Setting, load_controller},
};
use giusto_congestion::{Algorithm, FeedbackKind};
use giusto_session::video::VideoCodec;
use giusto_units::{DataRate, Ecn, TimeDelta};

use super::protection::ProtectionArgs;
use crate::{
    args::{self, ecn, rate_above_zero, time_above_zero, whole},
    console::TableArgs,
    live::LiveArgs,
    path::PathArgs,
};

/// Flags of every end.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// Highest target rate, headers included; with --listen, of what this end sends if it is asked to; with --browser, also of the
    /// browser's video [default: 2.5M, of the browser's video none]
    #[arg(short = 'b', long, value_name = "RATE", value_parser = rate_above_zero)]
    pub(super) max_rate: Option<DataRate>,

    /// Time between two lines of live figures on standard error
    #[arg(short = 'i', long, default_value = "1s", value_name = "TIME", value_parser = args::time_from_100_ms)]
    pub(super) interval: TimeDelta,

    /// Write every event of the first call to this file, .csv or .parquet
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// Write an HTML report of the first call to this file
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,

    #[command(flatten)]
    pub(super) tables: TableArgs,

    /// Print one JSON object; with several calls, {"runs": […]}
    #[arg(short = 'J', long)]
    pub(super) json: bool,
}

/// Flags of an end whose far end is giusto.
#[derive(Debug, Args)]
pub(super) struct PeerArgs {
    /// End the call after this time without any datagram of the far end
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = time_above_zero)]
    pub(super) silence: TimeDelta,

    #[command(flatten)]
    pub(super) protection: ProtectionArgs,

    /// Capture the datagrams of this end in pcapng, for Wireshark: RTP and RTCP, without their MACs; SRTP as it is
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,

    #[command(flatten)]
    pub(super) live: LiveArgs,
}

/// Flags of an end that says what is sent.
#[derive(Debug, Args)]
pub(super) struct MediaArgs {
    /// Congestion controller, such as gcc:libwebrtc, nada+kappa=0.4 or a file of constants tuned.toml; an unknown name lists all
    /// [default: gcc:libwebrtc+giusto]
    #[arg(long, value_name = "NAME", value_parser = load_controller)]
    pub(super) controller: Option<Algorithm>,

    /// First target rate [default: 300k]
    #[arg(long, value_name = "RATE", value_parser = rate_above_zero)]
    pub(super) start_rate: Option<DataRate>,

    /// Lowest target rate [default: 30k]
    #[arg(long, value_name = "RATE", value_parser = rate_above_zero)]
    pub(super) min_rate: Option<DataRate>,

    /// Send real video instead of an encoder model: an IVF file (VP8, VP9, H.264, AV1), an .h264 (Annex B) or .obu (AV1) file, or several of one video at several
    /// rates; it begins again at its end
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(super) media: Vec<PathBuf>,

    /// Send the output of a video encoder that this command runs: IVF, H.264 (Annex B) or AV1 (OBUs) on its standard output; it reads lines
    /// "bitrate 640000" (bit/s) and "key-frame"
    #[arg(long, value_name = "COMMAND", conflicts_with = "media")]
    pub(super) encoder_command: Option<String>,

    /// Frames per second of Annex B and OBUs in --media or --encoder-command, which have no timestamps [default: 30]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    pub(super) frame_rate: Option<u16>,

    /// Feedback of the receiver, if the controller accepts several kinds [default: what it requires]
    #[arg(long, value_name = "KIND",
          value_parser = PossibleValuesParser::new(["transport-wide", "rfc8888", "scream-draft", "nada", "remb"])
              .map(|name| feedback(&name)))]
    pub(super) feedback: Option<FeedbackKind>,

    /// Target of the queueing delay, of a controller that has one
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    pub(super) delay_target: Option<TimeDelta>,

    /// Repair of lost packets: nack (requested and sent again), flexfec (parity packets), nack+flexfec or none
    #[arg(long, default_value = "nack", value_name = "KIND",
          value_parser = PossibleValuesParser::new(["none", "nack", "flexfec", "nack+flexfec"]).try_map(|name| name.parse::<Repair>()))]
    pub(super) repair: Repair,

    /// Length of the call [default: 10 s, or that of the scenario; with --browser, until the browser ends it]
    #[arg(short = 't', long, value_name = "TIME", value_parser = time_above_zero)]
    pub(super) duration: Option<TimeDelta>,

    /// Record the input and the output of the controller of the first call, for `giusto replay`
    #[arg(long, value_name = "FILE")]
    pub(super) session_log: Option<PathBuf>,
}

/// The name of the voice that is made here.
pub(super) const TALK: &str = "talk";

/// Media of the end that sends: with --reverse the listener has these flags.
const REAL: [&str; 3] = ["media", "encoder_command", "frame_rate"];

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
    pub(super) target: String,

    /// Serve calls at this address instead; the port is 5004 if not given, 0 for any free one
    #[arg(long, value_name = "ADDR", exclusive = true)]
    pub(super) listen: Option<String>,

    /// Call a browser instead: serves one page by HTTP, to which the video is sent by WebRTC; it needs the feature `browser`
    #[arg(long, exclusive = true)]
    pub(super) browser: bool,

    #[command(flatten)]
    pub(super) media: MediaArgs,

    /// Number of video streams, which share the rate
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u8>(0, MOST_VIDEOS as u64))]
    pub(super) video: u8,

    /// Send an audio stream of 20 kbit/s too
    #[arg(long)]
    pub(super) audio: bool,

    /// Send the speech of this WAV file as Opus (24 kbit/s, with in-band FEC, nothing while it is silent); it begins again at its end.
    /// Without FILE, or for `talk`, a tone in talk spurts. With --reverse, without FILE: receive the speech of the listener. It needs
    /// the feature `voice`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = TALK)]
    pub(super) voice: Option<PathBuf>,

    /// Model of the video encoders, as in scenarios: perfect, statistical, trace or hybrid
    #[arg(long, default_value = "statistical", value_name = "NAME", conflicts_with_all = ["media", "encoder_command"])]
    pub(super) encoder: Encoder,

    /// Explicit congestion notification of the media: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    pub(super) ecn: Ecn,

    /// Take streams, encoders, controller, limits and times from the media flow of a scenario; its links and other flows are not
    /// used
    #[arg(long, value_name = "FILE", conflicts_with_all = ["max_rate", "start_rate", "min_rate", "video", "audio", "encoder",
          "feedback", "delay_target", "ecn", "repair", "reverse", "bidir", "media", "encoder_command", "frame_rate", "voice"])]
    pub(super) scenario: Option<PathBuf>,

    /// With --scenario: this media flow
    #[arg(long, value_name = "ID", requires = "scenario")]
    pub(super) flow: Option<String>,

    /// Change a value of the scenario, as for `giusto sim`; repeatable
    #[arg(long, value_name = "KEY=VALUE", requires = "scenario")]
    pub(super) set: Vec<Setting>,

    /// The listener sends, and the caller receives: models, or with --codec and --voice what the listener has
    #[arg(short = 'R', long, conflicts_with_all = REAL)]
    pub(super) reverse: bool,

    /// With --reverse: receive the real video of the listener, which has --media of this codec
    #[arg(long, value_name = "NAME", requires = "reverse", value_parser = received_codec)]
    pub(super) codec: Option<VideoCodec>,

    /// Both ends send; with --media or --voice the listener needs these flags too
    #[arg(long, conflicts_with = "reverse")]
    pub(super) bidir: bool,

    /// With --bidir or --reverse: save the real media of the listener, as a listener saves those of a caller
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,

    /// Number of calls at the same time
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", conflicts_with = "encoder_command",
          value_parser = whole::<u16>(1, 1000))]
    pub(super) calls: u16,

    /// Random seed of the encoders
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    pub(super) seed: Option<u64>,

    #[command(flatten)]
    pub(super) path: PathArgs,

    /// Find the MTU of the path by probes (RFC 8899) while the call lasts; no datagram of this end is fragmented
    #[arg(long)]
    pub(super) mtu_discovery: bool,

    #[command(flatten)]
    pub(super) peer: PeerArgs,

    #[command(flatten)]
    pub(super) end: EndArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  giusto call --listen 0.0.0.0:5004 --once --save call.ivf")]
pub(crate) struct ListenerArgs {
    /// Serve calls at this address; the port is 5004 if not given, 0 for any free one
    #[arg(long, value_name = "ADDR", required = true)]
    pub(super) listen: String,

    /// Save the media of the first call that has real ones: video as .ivf, or as .h264 (H.264 without times); video and the audio of --voice
    /// in sync as .webm (VP8, VP9, AV1) or .mkv (H.264 too); at most 4 GB
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,

    /// Send this real video to callers with --bidir that send theirs of the same codec, or with --reverse --codec; files as those of a caller
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(super) media: Vec<PathBuf>,

    /// Frames per second of Annex B and OBUs in --media, which have no timestamps [default: 30]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    pub(super) frame_rate: Option<u16>,

    /// Send the speech of this WAV file to callers with --voice and --bidir or --reverse; without FILE, a tone in talk spurts
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = TALK)]
    pub(super) voice: Option<PathBuf>,

    /// End with the first call
    #[arg(long)]
    pub(super) once: bool,

    /// Maximum number of calls at the same time
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = whole::<u16>(1, 10_000))]
    pub(super) max_calls: u16,

    #[command(flatten)]
    pub(super) peer: PeerArgs,

    #[command(flatten)]
    pub(super) end: EndArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto call --browser --media low.ivf,high.ivf            serves a page that receives the video
  giusto call --browser --reverse --save camera.webm        serves a page that sends camera and microphone
  giusto call --browser --reverse --controller gcc:remb     limits them by REMB; otherwise the browser's controller decides
  giusto call --browser --reverse --max-rate 1M             its video has at most 1 Mbit/s")]
pub(crate) struct BrowserArgs {
    /// Call a browser: serves one page by HTTP, to which the video is sent by WebRTC; it needs the feature `browser`
    #[arg(long, required = true)]
    pub(super) browser: bool,

    /// The address of the page and of the media [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,

    /// The browser sends its camera and its microphone, and receives nothing
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "media", "encoder_command", "frame_rate", "voice", "session_log",
          "start_rate", "min_rate", "delay_target"])]
    pub(super) reverse: bool,

    /// Both ends send
    #[arg(long)]
    pub(super) bidir: bool,

    /// Codec of the video that the browser sends: vp8, h264, vp9 or av1 [default: the browser's first that the file has room for]
    #[arg(long, value_name = "NAME", value_parser = received_codec)]
    pub(super) codec: Option<VideoCodec>,

    /// Send the speech of this WAV file as Opus too, as to other listeners; without FILE, a tone in talk spurts
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = TALK)]
    pub(super) voice: Option<PathBuf>,

    /// Save the media of the browser: video as .ivf, or as .h264; video and audio in sync as .webm (VP8, VP9, AV1) or .mkv (H.264 too); at most
    /// 4 GB
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,

    #[command(flatten)]
    pub(super) media: MediaArgs,

    #[command(flatten)]
    pub(super) end: EndArgs,
}

fn received_codec(name: &str) -> Result<VideoCodec, String> {
    let found = VideoCodec::ALL.into_iter().find(|codec| codec.name() == name);
    found.ok_or_else(|| format!("expected vp8, h264, vp9 or av1, found \"{name}\""))
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
