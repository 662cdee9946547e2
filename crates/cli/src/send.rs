//! `giusto send`: streams to a giusto receiver, or to any receiver of UDP.

use std::{
    io::{self, ErrorKind, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use clap::Args;
use giusto_pace::Limits;
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::probe::{
    payload::{PayloadContent, PayloadError, PayloadSizes, PayloadTrace},
    voice::resample_to_8k,
};
use giusto_units::{DataSize, TimeDelta};

use crate::{
    args::{DEFAULT_PORT, quantity, read_keys, time, time_from_100_ms, whole},
    client::{self, ClientArgs, FarEnd, SENDS},
    live::{Awaits, LiveArgs, LivePage},
    output::TextArgs,
    path::PathArgs,
    run::Run,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        plan::{Layout, Media},
        script::{Role, Script},
        send::Destination,
        streams::{Direction, Streams},
    },
    watch::SharedFeed,
    whole_file::{read_bounded, read_bounded_text, unreadable},
};

/// The time between two reports of a receiver.
const REPORTS: TimeDelta = TimeDelta::from_millis(500);

/// Flags of streams that only this end sends.
const FORWARD: [&str; 10] =
    ["payload", "payload_file", "script", "rtp", "raw", "profile", "streams", "one_way", "live", "pace"];

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto send 192.0.2.7 -b 5M -t 10 -i 1      5 Mbit/s for 10 s, a line a second
  giusto send 192.0.2.7 --profile g711 --streams 20
  giusto send 192.0.2.7 -b 2M --payload uniform:200-1400 --layer ip --dscp 46
  giusto send 192.0.2.7:4000 --one-way --rtp --count 1000
  giusto send 192.0.2.7 --reverse -b 5M -t 5  the far end sends
  giusto send 192.0.2.7 --protocol iperf3 -b 5M --reverse
  giusto send 192.0.2.7 -P 20 -t 60 --live    shows the streams in a browser
  giusto send 239.1.2.3 --interface eth1 --ttl 8   to a multicast group
  giusto send 192.0.2.7 --protocol stamp      10 packets a second for 10 s")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct SendArgs {
    #[command(flatten)]
    client: ClientArgs,

    #[command(flatten)]
    path: PathArgs,

    /// UDP payload of each datagram
    #[arg(short = 'l', long, default_value = "1200", value_name = "BYTES", value_parser = quantity::<DataSize>,
          conflicts_with_all = ["payload", "profile"])]
    size: DataSize,

    /// Varying payload sizes: uniform:200-1200, normal:800,200, exp:600, lognormal:600,300, pareto:100,1.5, choice:200*3,1200*1, or
    /// trace:FILE with one size a line, or one `time_s,size_bytes` a line; such a trace also sets the departure times unless --rate
    /// is given
    #[arg(long, value_name = "SPEC", conflicts_with = "profile")]
    payload: Option<String>,

    /// Send the bytes of a file behind the header of each datagram, in pieces that fill --size; -: standard input, read to its end,
    /// in frames (RFC 4571: a length of 2 bytes, the higher first, then so many bytes), one for each datagram. The stream ends with
    /// the file; with -t, -n or --count the file repeats
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "profile"])]
    payload_file: Option<PathBuf>,

    /// Script of a dialogue: a TOML file of [[part]]s with who ("near", "far", "both"; none: silence), time = "2 s", size = "172 B" and
    /// every = "20 ms", and repeat = N; sets sizes and times. Run it at both ends for both directions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "payload_file", "profile", "rate", "size"])]
    script: Option<PathBuf>,

    /// Which part this end takes in the script
    #[arg(long = "as", value_name = "ROLE", default_value = "near", requires = "script", value_parser = ["near", "far"])]
    role: String,

    /// Send RTP (RFC 3550) instead of the giusto format
    #[arg(long, conflicts_with = "raw")]
    rtp: bool,

    /// Send filler without a header
    #[arg(long, conflicts_with = "profile")]
    raw: bool,

    /// Send voice as RTP: g711 (µ-law), g711a, g729, g722 or opus; sets rate, size and packet time
    #[arg(long, value_name = "CODEC", conflicts_with = "rate")]
    profile: Option<VoiceProfile>,

    /// Packet time of --profile
    #[arg(long, value_name = "TIME", value_parser = time, requires = "profile")]
    ptime: Option<TimeDelta>,

    /// WAV file that a G.711 profile sends in a loop [default: a tone]
    #[arg(long, value_name = "FILE", requires = "profile")]
    wav: Option<PathBuf>,

    /// What times departures. kernel: handed over up to 10 ms ahead (`SO_TXTIME`), where the interface has the qdisc fq, or etf for
    /// --one-way; elsewhere the result says why not
    #[arg(long, default_value = "program", value_name = "WHO", value_parser = ["program", "kernel"])]
    pace: String,

    /// Socket buffers, for sending and receiving, such as 256k [default: 1 MB and 4 MB]; the result says what the system granted
    #[arg(short = 'w', long, value_name = "BYTES", value_parser = quantity::<DataSize>)]
    window: Option<DataSize>,

    /// Number of simultaneous streams, each from a port of its own, their datagrams spread evenly over time
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", value_parser = whole::<u16>(1, 1000))]
    streams: u16,

    /// End the run after this time without any message of the receiver; with a longer --idle there, a stream outlasts an interface
    /// that goes away, or comes back with another address
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = time_from_100_ms, conflicts_with_all = ["one_way", "reverse"])]
    silence: TimeDelta,

    /// Find the MTU of the path by probes (RFC 8899), before the stream and while it lasts; no datagram is fragmented
    #[arg(long, conflicts_with_all = ["one_way", "reverse", "dont_fragment"])]
    mtu_discovery: bool,

    /// Send without asking the receiver: for receivers other than giusto
    #[arg(long)]
    one_way: bool,

    /// The far end sends, and this end measures
    #[arg(short = 'R', long, conflicts_with_all = FORWARD, conflicts_with_all = SENDS,
          conflicts_with_all = ["dscp", "ecn", "seed"])]
    reverse: bool,

    /// Both ends send at the same time
    #[arg(long, conflicts_with_all = FORWARD, conflicts_with_all = ["reverse", "interval"])]
    bidir: bool,

    /// File of keys that both ends share, one line "ID KEY" for each: only authenticated datagrams count
    #[arg(long, value_name = "FILE", conflicts_with = "one_way")]
    key_file: Option<PathBuf>,

    #[command(flatten)]
    live: LiveArgs,

    #[command(flatten)]
    text: TextArgs,
}

impl Run for SendArgs {
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode> {
        let direction = match (self.reverse, self.bidir) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Both,
            _ => Direction::Forward,
        };
        let interval = self.client.output.interval;
        let reported = direction == Direction::Forward && !self.one_way;
        if interval.is_some_and(|interval| interval < REPORTS && reported) {
            misuse!("--interval: must be at least {REPORTS}, the time between two reports of the receiver");
        }
        let addresses = self.client.addresses_or_group(DEFAULT_PORT)?;
        let addresses = self.path.reachable(&self.client.target, addresses)?;
        let group = addresses.iter().find(|address| address.ip().to_canonical().is_multicast());
        if let Some(group) = group {
            self.check_group(*group)?;
        }
        let (media, content) = self.media()?;
        let mut plan = self.client.plan(media, None)?;
        if let Some(content) = &content
            && !self.client.has_limit()
        {
            plan.limits = Limits::default().with_packets(content.count());
        }
        plan.content = content;
        plan.pacing.by_kernel = self.pace == "kernel";
        plan.mtu_discovery = self.mtu_discovery;
        let keys = self.key_file.as_deref().map(read_keys).transpose()?;
        let feed = self.live.start("giusto send", Awaits::Answer(&self.client.target), page)?;
        let destination = Destination {
            streams: self.streams.into(),
            one_way: self.one_way || group.is_some(),
            traffic_class: self.client.traffic_class(),
            path: self.path.options(),
            silence: self.silence,
            resolver: self.client.resolver(DEFAULT_PORT),
            keys,
            buffers: self.window,
            interval,
            feed: feed.map(SharedFeed::from),
            // That of the host which answers first.
            ..Destination::new(([0; 4], 0).into())
        };
        let session = Streams { plan, direction, destination };
        let far_end = FarEnd {
            addresses,
            shows_sender: direction == Direction::Forward,
            is_list: direction == Direction::Both,
            text: self.text,
        };
        client::measure(&self.client, &far_end, stop, page, &session)
    }
}

impl SendArgs {
    /// A group has many receivers, which do not answer.
    fn check_group(&self, group: SocketAddr) -> Result<(), UsageError> {
        let flags = [
            ("--reverse", self.reverse),
            ("--bidir", self.bidir),
            ("--key-file", self.key_file.is_some()),
            ("--mtu-discovery", self.mtu_discovery),
        ];
        if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
            misuse!("{flag}: {group} is a multicast group, whose receivers do not answer: leave it out");
        }
        Ok(())
    }

    /// The contents of the datagrams, and the bytes of a file if they are to be in them.
    fn media(&self) -> Result<(Media, Option<PayloadContent>), UsageError> {
        if let Some(profile) = self.profile {
            let format = match self.ptime {
                Some(time) => VoiceFormat::with_packet_time(profile, time)
                    .map_err(|error| UsageError::new(format!("--ptime: {error}")))?,
                None => VoiceFormat::new(profile),
            };
            let samples = self.wav.as_deref().map(read_wav).transpose()?;
            return Ok((Media::Voice(format, samples.unwrap_or_default()), None));
        }
        let layout = match (self.rtp, self.raw) {
            (true, _) => Layout::Rtp,
            (_, true) => Layout::Raw,
            _ if self.key_file.is_some() => Layout::Authenticated,
            _ => Layout::Giusto,
        };
        if let Some(path) = &self.payload_file {
            let content = payload_content(path, layout, self.size)?;
            let sizes = PayloadSizes::Trace(content.sizes(layout.header_bytes()));
            return Ok((Media::Filler(layout, sizes), Some(content)));
        }
        let sizes = match &self.script {
            Some(path) => Some(PayloadSizes::Trace(script_trace(path, &self.role, layout)?)),
            None => self.payload.as_deref().map(|spec| payload_sizes(spec, layout)).transpose()?,
        };
        Ok((Media::Filler(layout, sizes.unwrap_or(PayloadSizes::Fixed(self.size))), None))
    }
}

fn payload_sizes(spec: &str, layout: Layout) -> Result<PayloadSizes, UsageError> {
    let Some(path) = spec.strip_prefix("trace:") else {
        return spec.parse().map_err(|error| {
            let file = if matches!(error, PayloadError::Kind(_)) { ", or trace:FILE" } else { "" };
            UsageError::new(format!("--payload: {error}{file}"))
        });
    };
    let text = read_bounded_text(Path::new(path)).map_err(|error| {
        UsageError::new(format!("--payload trace:{}", unreadable(Path::new(path), &error)))
    })?;
    let trace = PayloadTrace::parse(&text, path).map_err(UsageError::new)?;
    check_sizes(&trace, layout, &format!("--payload trace:{path}"))?;
    Ok(PayloadSizes::Trace(trace))
}

/// What was asked for size by size is sent so, or not at all.
fn check_sizes(trace: &PayloadTrace, layout: Layout, what: &str) -> Result<(), UsageError> {
    let (least, most) = (layout.header_bytes().max(1) as u64, LONGEST as u64);
    if let Some(size) = trace.sizes().iter().find(|size| !(least..=most).contains(&size.as_bytes())) {
        misuse!("{what}: size: must be from {least} B, the header, to {most} B, found {size}");
    }
    Ok(())
}

/// The longest payload: RFC 768 over RFC 791.
const LONGEST: usize = 65_507;

/// The pieces of a file, or the frames of standard input.
fn payload_content(path: &Path, layout: Layout, size: DataSize) -> Result<PayloadContent, UsageError> {
    let (name, header) = (path.display().to_string(), layout.header_bytes());
    let wrong = |why: &dyn std::fmt::Display| UsageError::new(format!("--payload-file {why}"));
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| wrong(&format!("-: cannot read: {error}")))?;
        let content = PayloadContent::frames(&name, bytes).map_err(|error| wrong(&error))?;
        let trace = content.sizes(header);
        let longest = trace.sizes().iter().copied().max().unwrap_or_default();
        // Filler would stand for it.
        if trace.sizes().contains(&DataSize::ZERO) {
            return Err(wrong(&"-: a frame must have at least 1 byte with --raw"));
        }
        if longest.as_bytes() > LONGEST as u64 {
            let most = LONGEST - header;
            return Err(wrong(&format!(
                "-: a frame must have at most {most} bytes behind a header of {header}"
            )));
        }
        return Ok(content);
    }
    let room = (size.as_bytes() as usize).saturating_sub(header);
    if room == 0 {
        misuse!("--size: must be above {header} B, the header, with --payload-file, found {size}");
    }
    let bytes = read_bounded(path).map_err(|error| wrong(&unreadable(path, &error)))?;
    PayloadContent::pieces(&name, bytes, room).map_err(|error| wrong(&error))
}

/// What this end says in a script.
fn script_trace(path: &Path, role: &str, layout: Layout) -> Result<PayloadTrace, UsageError> {
    let text = read_bounded_text(path)
        .map_err(|error| UsageError::new(format!("--script {}", unreadable(path, &error))))?;
    let script = Script::parse(&text, &path.display().to_string())
        .map_err(|error| UsageError::new(format!("--script {error}")))?;
    let trace = script.trace(if role == "far" { Role::Far } else { Role::Near });
    let Some(trace) = trace else {
        misuse!("--as {role}: this end never talks in {}: choose the other role", path.display());
    };
    check_sizes(&trace, layout, &format!("--script {}", path.display()))?;
    Ok(trace)
}

/// Reads a WAV file of any rate and number of channels: 8000 samples a second in one channel.
fn read_wav(path: &Path) -> Result<Vec<i16>, UsageError> {
    let (samples, spec) = wav_samples("--wav", path, u32::MAX)?;
    resample_to_8k(&samples, spec.sample_rate, spec.channels)
        .map_err(|error| UsageError::new(format!("--wav {}: {error}", path.display())))
}

/// The samples of the WAV file that was given by this flag, those of all channels in turn, at most so many.
pub(crate) fn wav_samples(
    flag: &str,
    path: &Path,
    most: u32,
) -> Result<(Vec<i16>, hound::WavSpec), UsageError> {
    let unusable = |why: String| {
        UsageError::new(format!("{flag} {}: {why}: expected a WAV file with PCM samples", path.display()))
    };
    let mut reader = hound::WavReader::open(path).map_err(|error| match error {
        hound::Error::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => {
            UsageError::new(format!("{flag} {}", unreadable(path, &error)))
        }
        error => unusable(error.to_string()),
    })?;
    let spec = reader.spec();
    if reader.len() > most {
        let (path, long) = (path.display(), reader.len());
        return Err(UsageError::new(format!(
            "{flag} {path}: it has {long} samples, more than {most}: cut it, such as by `ffmpeg -i {path} -t 600 OUT.wav`"
        )));
    }
    let samples: Result<Vec<i16>, _> = match spec.sample_format {
        hound::SampleFormat::Float => {
            reader.samples::<f32>().map(|sample| sample.map(|value| (value * 32_767.0) as i16)).collect()
        }
        hound::SampleFormat::Int => {
            let to_16_bits = |value: i32| (i64::from(value) << 16 >> spec.bits_per_sample) as i16;
            reader.samples::<i32>().map(|sample| sample.map(to_16_bits)).collect()
        }
    };
    Ok((samples.map_err(|error| unusable(error.to_string()))?, spec))
}
