//! Flags that several commands share, and the parsing of their values.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    path::Path,
    str::FromStr,
};

use clap::Args;
use giusto_net::SleepMode;
use giusto_pace::{BurstBound, CatchUp, Strategy};
use giusto_session::keys::KeyRing;
use giusto_units::{DataRate, UnitError};

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

/// Reads a file of shared keys.
///
/// # Errors
///
/// [`UsageError`] names the file and the line, never a key.
pub(crate) fn read_keys(path: &Path) -> Result<KeyRing, UsageError> {
    let unusable =
        |why: &dyn std::fmt::Display| UsageError::new(format!("--key-file {}: {why}", path.display()));
    let text =
        std::fs::read_to_string(path).map_err(|error| unusable(&format!("cannot read it: {error}")))?;
    KeyRing::parse(&text).map_err(|error| unusable(&error))
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

    /// Largest burst to catch up, unless the machine wakes the sender late: datagrams (4), a size (4800 B) or a time (5 ms) [default: by --mode]
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

/// The port of `giusto recv`, close to those of RTP.
pub(crate) const DEFAULT_PORT: u16 = 5005;

/// The first address of `HOST` or `HOST:PORT`.
///
/// # Errors
///
/// [`UsageError`] where the host is unknown or the port is not one.
pub(crate) fn resolve(target: &str) -> Result<SocketAddr, UsageError> {
    resolve_with_port(target, DEFAULT_PORT)
}

/// As [`resolve`], with `default` where there is no port.
///
/// # Errors
///
/// As [`resolve`].
pub(crate) fn resolve_with_port(target: &str, default: u16) -> Result<SocketAddr, UsageError> {
    let bare = target.trim_start_matches('[').trim_end_matches(']');
    let (host, port) = match target.rsplit_once(':') {
        _ if bare.parse::<IpAddr>().is_ok() => (bare, Some(default)),
        Some((host, port)) => {
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            (host, port.parse().ok().filter(|port| *port > 0))
        }
        None => (target, Some(default)),
    };
    let Some(port) = port.filter(|_| !host.is_empty()) else {
        misuse!(
            "expected HOST or HOST:PORT, such as 192.0.2.7:5005 or [2001:db8::7]:5005, found \"{target}\""
        );
    };
    let unknown =
        |why: &str| UsageError::new(format!("unknown host in \"{target}\" ({why}): check the name"));
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| unknown(&error.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_lack_its_port() {
        let resolved =
            |text| resolve(text).map(|address| address.to_string()).map_err(|error| error.to_string());
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:5005"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("::1", "[::1]:5005"),
            ("[::1]", "[::1]:5005"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(resolved(text), Ok(address.to_owned()));
        }
        for text in ["", ":", ":7", "host:", "host:0", "host:65536", "host:port"] {
            assert!(resolved(text).unwrap_err().starts_with("expected HOST or HOST:PORT"), "{text}");
        }
    }
}
