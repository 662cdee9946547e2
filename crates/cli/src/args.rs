//! Flags that several commands share, and the parsing of their values.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    str::FromStr,
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use giusto_net::SleepMode;
use giusto_pace::{BurstBound, CatchUp, HeaderLayer, Strategy};
use giusto_rtp::voice::VoiceProfile;
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, UnitError};

use crate::usage::{UsageError, misuse};
use giusto::measured::plan::Pacing;

/// A rate; `None` for as fast as the machine can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateOrMax(pub(crate) Option<DataRate>);

impl FromStr for RateOrMax {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(None));
        }
        match text.parse::<DataRate>() {
            Ok(DataRate::ZERO) => Err(format!("must be above 0 bit/s, found \"{text}\"")),
            Ok(rate) => Ok(Self(Some(rate))),
            Err(error @ UnitError::NotANumber { .. }) => Err(format!("{error}, or \"max\"")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The ECN codepoint of this name.
fn ecn(name: &str) -> Ecn {
    match name {
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        _ => Ecn::NotEct,
    }
}

/// The stream to send.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamArgs {
    /// Rate at the layer given by --layer, such as 64k, 3M or "2.5 Gbit/s"; max: as fast as the machine can
    /// [default: 1M, or the times of a trace that has them]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<RateOrMax>,

    /// UDP payload of each datagram
    #[arg(long, default_value = "1200", value_name = "BYTES", conflicts_with_all = ["payload", "profile"])]
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
    pub(crate) ptime: Option<TimeDelta>,

    /// WAV file that a G.711 profile sends in a loop [default: a tone]
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) wav: Option<PathBuf>,

    /// Differentiated services code point of every datagram; 46 is expedited forwarding
    #[arg(long, default_value_t = 0, value_name = "0..63", value_parser = clap::value_parser!(u8).range(..64))]
    pub(crate) dscp: u8,

    /// Explicit congestion notification of every datagram: ect0 for classic ECN, ect1 for L4S (RFC 9331)
    #[arg(long, default_value = "off", value_name = "ECN",
          value_parser = PossibleValuesParser::new(["off", "ect0", "ect1"]).map(|name| ecn(&name)))]
    pub(crate) ecn: Ecn,

    /// Random seed of payload sizes and filler
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// The timing of departures.
#[derive(Debug, Clone, Args)]
pub(crate) struct PacingArgs {
    /// CPU time spent on precision. precise: one datagram at a time; balanced: groups of at most 0.1 ms at high rates;
    /// eco: groups of at most 2 ms, never spins
    #[arg(long, default_value = "balanced", value_name = "MODE")]
    pub(crate) mode: SleepMode,

    /// Datagrams that leave together [default: by --mode for grid, the 16 KiB socket-buffer rule for other strategies]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) packets_per_cycle: Option<u32>,

    /// Datagrams that are late beyond --burst: burst sends them later, skip drops them, reanchor restarts the schedule
    #[arg(long, default_value = "burst", value_name = "RULE")]
    pub(crate) catch_up: CatchUp,

    /// Largest burst to catch up: datagrams (4), a size (4800 B) or a time (5 ms) [default: by --mode]
    #[arg(long, value_name = "BOUND")]
    pub(crate) burst: Option<BurstBound>,

    /// Maximum rate within a burst
    #[arg(long, value_name = "RATE")]
    pub(crate) max_burst_rate: Option<DataRate>,

    /// Spin where send-sleep or a traffic shaper would sleep, as the Firebind program does by default
    #[arg(long)]
    pub(crate) spin: bool,

    /// Ask for real-time priority 1..99 (`SCHED_FIFO`); the result says whether it was granted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "10",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) realtime: Option<u8>,
}

/// The end of a stream; the first limit that is reached counts.
#[derive(Debug, Clone, Args)]
pub(crate) struct LimitArgs {
    /// Time to send [default: 10 s unless --count, --bytes or a trace ends the stream]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<TimeDelta>,

    /// Datagrams to send, for each stream
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,

    /// Payload to send, for each stream
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes: Option<DataSize>,
}

/// The first address of `HOST:PORT`.
///
/// # Errors
///
/// [`UsageError`] where the port is missing or the host is unknown.
pub(crate) fn resolve(target: &str) -> Result<SocketAddr, UsageError> {
    let well_formed = target
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    if !well_formed {
        misuse!(
            "expected HOST:PORT, such as 192.0.2.7:5005, [2001:db8::7]:5005 or host.example:5005, found \"{target}\""
        );
    }
    let unknown =
        |why: &str| UsageError::new(format!("unknown host in \"{target}\" ({why}): check the name"));
    let mut addresses = target.to_socket_addrs().map_err(|error| unknown(&error.to_string()))?;
    addresses.next().ok_or_else(|| unknown("it has no address"))
}

impl PacingArgs {
    /// The pacing that the flags and a strategy make.
    pub(crate) fn pacing(&self, strategy: Strategy) -> Pacing {
        Pacing {
            strategy,
            mode: self.mode,
            packets_per_cycle: self.packets_per_cycle,
            catch_up: self.catch_up,
            burst_bound: self.burst,
            max_burst_rate: self.max_burst_rate,
            spin: self.spin,
            realtime: self.realtime,
        }
    }
}
