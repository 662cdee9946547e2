//! The sending side of every protocol: the flags that all have, and how a run is shown.

use std::{
    net::SocketAddr,
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
use giusto_net::{SocketError, TrafficClass, driver::Resolver};
use giusto_pace::{HeaderLayer, Limits, Strategy};
use giusto_session::probe::payload::PayloadSizes;
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta};

use crate::{
    args::{
        PacingArgs, RateOrMax, ecn, port, quantity, resolve_all, resolve_any, resolver, time_above_zero,
        whole,
    },
    console::{self, Progress},
    live::{self, LivePage},
    output::{Output, OutputArgs, TextArgs},
    usage::UsageError,
};
use giusto::{
    measured::{
        RunError,
        live::{Arrived, Client, Live, Outcome, Results},
        plan::{Media, StreamPlan, Tempo},
    },
    view::format::count,
};

const DEFAULT_RATE: DataRate = DataRate::from_bps(1_000_000);
const DEFAULT_DURATION: TimeDelta = TimeDelta::from_seconds(10);

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Address of the far end; the port is 5005 if not given [iperf3: 5201, stamp: 862]
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) target: String,

    /// Port of the far end, if not in the address
    #[arg(short, long, value_name = "PORT", value_parser = port)]
    port: Option<u16>,

    /// Protocol of the far end: giusto recv, an iperf3 server in UDP mode, a STAMP reflector (RFC 8762), or giusto recv --accept tcp;
    /// each has its own flags: `giusto send --protocol stamp --help`
    #[arg(long, default_value = "giusto", value_name = "NAME")]
    protocol: String,

    /// Rate at the layer given by --layer, such as 64k, 3M or "2.5 Gbit/s"; max: as fast as the machine can
    /// [default: 1M, or the times of a trace that has them; stamp: 10 packets a second]
    #[arg(short = 'b', long, value_name = "RATE")]
    pub(crate) rate: Option<RateOrMax>,

    /// Headers that the rate includes: payload, udp, ip or ethernet
    #[arg(long, default_value = "payload", value_name = "LAYER")]
    layer: HeaderLayer,

    /// Transmit loop: grid, send-compare, send-sleep, send-sleep-deficit, send-sleep-oversleep, unpaced, or a traffic shaper of
    /// TR-99-77: dt0, dt1, dt2, dt2-live, at0, at1
    #[arg(long, default_value = "grid", value_name = "NAME")]
    strategy: Strategy,

    #[command(flatten)]
    pacing: PacingArgs,

    /// Differentiated services code point of every datagram; 46 is expedited forwarding
    #[arg(long, default_value_t = 0, value_name = "0..63", value_parser = whole::<u8>(0, 63))]
    dscp: u8,

    /// Explicit congestion notification of every datagram: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    ecn: Ecn,

    /// Forbid fragments: a datagram that exceeds the MTU of the path ends the run with an error
    #[arg(long)]
    dont_fragment: bool,

    /// Random seed of payload sizes and filler
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: u64,

    /// Time to send [default: 10 s unless --count, --bytes or a trace ends the stream]
    #[arg(short = 't', long, value_name = "TIME", value_parser = time_above_zero)]
    duration: Option<TimeDelta>,

    /// Datagrams to send, for each stream
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX))]
    count: Option<u64>,

    /// Payload to send, for each stream
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = bytes_above_zero)]
    bytes: Option<DataSize>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The flags of [`ClientArgs`] that say how this end sends: with --reverse that is the matter of the far end.
pub(crate) const SENDS: [&str; 9] = [
    "strategy",
    "mode",
    "packets_per_cycle",
    "catch_up",
    "burst",
    "max_burst_rate",
    "spin",
    "realtime",
    "dont_fragment",
];

fn bytes_above_zero(text: &str) -> Result<DataSize, String> {
    match quantity(text)? {
        DataSize::ZERO => Err(format!("must be above 0 B, found \"{text}\"")),
        size => Ok(size),
    }
}

impl ClientArgs {
    /// Resolves the name of the far end again; `default` is the port of its protocol.
    pub(crate) fn resolver(&self, default: u16) -> Option<Resolver> {
        resolver(&self.target, self.port, default)
    }

    /// The same, where a multicast group is welcome.
    pub(crate) fn addresses_or_group(&self, default: u16) -> Result<Vec<SocketAddr>, UsageError> {
        resolve_any(&self.target, self.port, default)
    }

    /// Every address of the far end; `default` is the port of its protocol.
    pub(crate) fn addresses(&self, default: u16) -> Result<Vec<SocketAddr>, UsageError> {
        resolve_all(&self.target, self.port, default)
    }

    pub(crate) fn traffic_class(&self) -> TrafficClass {
        TrafficClass::from_byte(self.dscp << 2 | self.ecn.bits())
    }

    /// Whether a flag says when the stream ends.
    pub(crate) const fn has_limit(&self) -> bool {
        self.duration.is_some() || self.count.is_some() || self.bytes.is_some()
    }

    /// The plan that the flags make for these contents. Without --rate the contents set the tempo, or else `usual`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] names a flag that has no effect.
    pub(crate) fn plan(&self, media: Media, usual: Option<Tempo>) -> Result<StreamPlan, UsageError> {
        let asked = self.rate.map(|RateOrMax(rate)| rate.map_or(Tempo::Max, Tempo::Rate));
        let own = match &media {
            Media::Voice(..) => Some(Tempo::Media),
            Media::Filler(_, PayloadSizes::Trace(trace)) => {
                trace.departures().map(|times| Tempo::Recorded(Arc::from(times)))
            }
            Media::Filler(..) => usual,
        };
        let tempo = asked.or(own).unwrap_or(Tempo::Rate(DEFAULT_RATE));
        self.pacing.check(&[self.strategy], !matches!(tempo, Tempo::Max | Tempo::Recorded(_)))?;
        // A recorded stream ends by itself.
        let unbounded = self.count.is_none() && self.bytes.is_none() && !matches!(tempo, Tempo::Recorded(_));
        let duration = self.duration.or(unbounded.then_some(DEFAULT_DURATION));
        Ok(StreamPlan {
            limits: Limits::default().with_duration(duration).with_packets(self.count).with_size(self.bytes),
            media,
            content: None,
            tempo,
            layer: self.layer,
            pacing: self.pacing.pacing(self.strategy),
            dont_fragment: self.dont_fragment,
            mtu_discovery: false,
            seed: self.seed,
        })
    }
}

/// The far end of a run, and how its results are shown.
#[derive(Debug)]
pub(crate) struct FarEnd {
    /// Its host may have several: that which answers first is used.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The intervals are of what this end sends.
    pub(crate) shows_sender: bool,
    /// There can be several results: they are printed as a list.
    pub(crate) is_list: bool,
    pub(crate) text: TextArgs,
}

/// Measures with a far end, shows the progress, and prints the result.
pub(crate) fn measure(
    args: &ClientArgs,
    far_end: &FarEnd,
    stop: &AtomicBool,
    page: &mut Option<LivePage>,
    session: &impl Client,
) -> anyhow::Result<ExitCode> {
    let mut output = Output::new(&args.output, far_end.text, far_end.shows_sender);
    let mut printed = Ok(());
    let progress = Progress::live();
    let mut on_live = |live: &Live| {
        progress.say(live_line(live));
        if let (Some(figures), true) = (live.interval, printed.is_ok()) {
            printed = output.interval(figures);
        }
        if output.is_closed() || printed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = session.run(&far_end.addresses, stop, &mut on_live);
    progress.clear();
    let (to, Outcome { mut results, failure }) = outcome.map_err(explained)?;
    printed?;
    if let Results::Streams(runs) = &mut results {
        far_end.text.trim(runs);
    }
    if let Results::Streams(runs) = &results {
        let named = (1..).zip(runs).map(|(number, result)| (format!("stream {number}"), result.clone()));
        LivePage::keep_result(page, live::report(named));
    }
    output.outcome(&results, far_end.is_list)?;
    if let Some(failure) = failure {
        let error = format!("{to}: {failure}");
        console::complain(&format!("error: {error}"));
        LivePage::keep_error(page, &error);
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::status(results.doubts().next().is_some()))
}

/// An error that the user can correct is a usage error.
pub(crate) fn explained(error: RunError) -> anyhow::Error {
    match error {
        RunError::Socket(error @ SocketError::Bind { address, .. }) if !address.ip().is_unspecified() => {
            UsageError::new(format!("{error}: give --source an address of this machine")).into()
        }
        RunError::Socket(error) => UsageError::new(error).into(),
        RunError::Plan(error) => UsageError::from(error).into(),
        error => error.into(),
    }
}

/// The state of a run in one line.
pub(crate) fn live_line(live: &Live) -> String {
    let sent = live.sent_packets.map(|sent| format!("{} sent", count(sent)));
    let receiver = if sent.is_some() { "receiver: " } else { "" };
    let arrived = live.arrived.map(|arrived| match arrived {
        Arrived::Streams(figures) => format!("{receiver}{}", console::live_line(&figures)),
        Arrived::Answers(answered, rtt) => {
            let rtt = rtt.map_or_else(String::new, |time| format!(", RTT {time:.2}"));
            format!("{} answered{rtt}", count(answered))
        }
    });
    [sent, arrived].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
