//! Flags that several commands share, and the parsing of their values.

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    os::unix::fs::PermissionsExt,
    path::Path,
    str::FromStr,
};

use clap::Args;
use giusto_net::{SleepMode, SocketError, driver::Resolver};
use giusto_pace::{BurstBound, CatchUp, Strategy};
use giusto_session::keys::KeyRing;
use giusto_units::{DataRate, Ecn, TimeDelta, UnitError};

use crate::{
    console,
    usage::{UsageError, misuse},
};
use giusto::{
    measured::plan::Pacing,
    whole_file::{read_bounded_text, unreadable},
};

/// A rate; `None` for as fast as the machine can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateOrMax(pub(crate) Option<DataRate>);

/// The highest rate that can be asked for.
const MAX_RATE: DataRate = DataRate::from_bps(1_000_000_000_000);

impl FromStr for RateOrMax {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if is_negative(text) {
            return Err(format!("must be above 0 bit/s, found \"{text}\""));
        }
        if text == "max" {
            return Ok(Self(None));
        }
        match text.parse::<DataRate>() {
            Ok(DataRate::ZERO) => Err(format!("must be above 0 bit/s, found \"{text}\"")),
            // No interface is as fast; one cycle of datagrams must fit into memory.
            Ok(rate) if rate > MAX_RATE => Err(format!(
                "must be at most {MAX_RATE}, found \"{text}\": use max for as fast as the machine can"
            )),
            Ok(rate) => Ok(Self(Some(rate))),
            Err(error @ UnitError::NotANumber { .. }) => Err(format!("{error}, or \"max\"")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether a text is a number below 0. A lone minus sign is no number.
pub(crate) fn is_negative(text: &str) -> bool {
    text.trim_start().strip_prefix('-').is_some_and(is_number_like)
}

fn is_number_like(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || word.starts_with("inf")
        || word.starts_with("nan")
}

/// Joins a flag and the negative number that follows it: `--rate -5M` becomes `--rate=-5M`. No flag of ours looks like a number, so
/// that the message is about the value, not about an unknown flag.
pub(crate) fn join_negative_values(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut only_values = false;
    for word in words {
        let flag = joined.last().and_then(|last| last.to_str()).is_some_and(|last| {
            let name = last.strip_prefix("--").filter(|name| !name.is_empty());
            let all_letters = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphabetic());
            let short = last.strip_prefix('-').filter(all_letters);
            name.or(short).is_some_and(|name| {
                !last.contains('=') && name.starts_with(|c: char| c.is_ascii_alphabetic())
            })
        });
        match joined.last_mut() {
            Some(last) if flag && !only_values && word.to_str().is_some_and(is_negative) => {
                last.push("=");
                last.push(word);
            }
            _ => {
                only_values |= word == "--";
                joined.push(word);
            }
        }
    }
    joined
}

/// A time; a number without a unit is in seconds.
pub(crate) fn time(text: &str) -> Result<TimeDelta, String> {
    let bare = text.trim();
    let number = !is_negative(text)
        && bare.contains(|c: char| c.is_ascii_digit())
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'+' | b'-' | b'e' | b'E'));
    if number { quantity::<TimeDelta>(&format!("{bare} s")) } else { quantity(text) }
}

/// A time that is not 0.
pub(crate) fn time_above_zero(text: &str) -> Result<TimeDelta, String> {
    match time(text)? {
        TimeDelta::ZERO => Err(format!("must be above 0 s, found \"{text}\"")),
        time => Ok(time),
    }
}

/// A rate that is not 0.
pub(crate) fn rate_above_zero(text: &str) -> Result<DataRate, String> {
    match quantity(text)? {
        DataRate::ZERO => Err(format!("must be above 0 bit/s, found \"{text}\"")),
        rate => Ok(rate),
    }
}

/// A rate, a size or a time that is not negative.
pub(crate) fn quantity<T: FromStr<Err = UnitError>>(text: &str) -> Result<T, String> {
    if is_negative(text) {
        return Err(format!("must not be negative, found \"{}\"", text.trim()));
    }
    text.parse().map_err(|error: UnitError| error.to_string())
}

/// A whole number from `low` to `high`.
pub(crate) fn whole<T: TryFrom<u64>>(
    low: u64,
    high: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse::<u64>().ok().filter(|number| (low..=high).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let digits = text.trim();
            let is_too_large = digits.len() > 19 && digits.bytes().all(|digit| digit.is_ascii_digit());
            let range = if high == u64::MAX && !is_too_large {
                format!("{low} or more")
            } else {
                format!("from {low} to {high}")
            };
            format!("must be a whole number, {range}, found \"{text}\"")
        })
    }
}

/// A port number.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    whole(1, 65_535)(text)
}

/// Reads a file of shared keys; warns of one that every user of this machine may read.
///
/// # Errors
///
/// [`UsageError`] names the file and the line, never a key.
pub(crate) fn read_keys(path: &Path) -> Result<KeyRing, UsageError> {
    read_keys_of("--key-file", path)
}

/// Reads the file of keys that this names.
pub(crate) fn read_keys_of(place: &str, path: &Path) -> Result<KeyRing, UsageError> {
    let unusable =
        |why: &dyn std::fmt::Display| UsageError::new(format!("{place} {}: {why}", path.display()));
    let text = read_bounded_text(path)
        .map_err(|error| UsageError::new(format!("{place} {}", unreadable(path, &error))))?;
    let is_public = std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o004 != 0);
    if is_public {
        let path = path.display();
        console::complain(&format!(
            "warning: {place} {path}: every user of this machine may read it: use chmod 600 {path}"
        ));
    }
    KeyRing::parse(&text).map_err(|error| unusable(&error))
}

/// The ECN codepoint of this name.
pub(crate) fn ecn(name: &str) -> Ecn {
    match name {
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        _ => Ecn::NotEct,
    }
}

/// The timing of departures.
#[derive(Debug, Clone, Args)]
pub(crate) struct PacingArgs {
    /// CPU time spent on precision. precise: one datagram at a time; balanced: groups of at most 0.1 ms at high rates;
    /// eco: groups of at most 2 ms, never spins
    #[arg(long, default_value = "balanced", value_name = "MODE")]
    pub(crate) mode: SleepMode,

    /// Datagrams that leave together [default: by --mode for grid, the 16 KiB socket-buffer rule for other strategies]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 100_000))]
    pub(crate) packets_per_cycle: Option<u32>,

    /// What happens to datagrams that are later than --burst allows: burst sends them later, skip drops them, reanchor restarts the schedule
    #[arg(long, default_value = "burst", value_name = "RULE")]
    pub(crate) catch_up: CatchUp,

    /// Largest burst to catch up, unless the machine wakes the sender late: datagrams (4), a size (4800 B) or a time (5 ms) [default: by --mode]
    #[arg(long, value_name = "BOUND")]
    pub(crate) burst: Option<BurstBound>,

    /// Maximum rate within a burst
    #[arg(long, value_name = "RATE", value_parser = quantity::<DataRate>)]
    pub(crate) max_burst_rate: Option<DataRate>,

    /// Spin where send-sleep or a traffic shaper would sleep, as the Firebind program does by default
    #[arg(long)]
    pub(crate) spin: bool,

    /// Ask for real-time priority 1..99 (`SCHED_FIFO`); the result says whether it was granted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "10",
          value_parser = whole::<u8>(1, 99))]
    pub(crate) realtime: Option<u8>,
}

/// The port of `giusto recv`, close to those of RTP.
pub(crate) const DEFAULT_PORT: u16 = 5005;

/// Refuses the address of a multicast group.
///
/// # Errors
///
/// [`UsageError`] names it.
pub(crate) fn unicast(address: SocketAddr) -> Result<SocketAddr, UsageError> {
    SocketError::refuse_multicast(address).map_err(UsageError::new)?;
    Ok(address)
}

/// The first address of `HOST` or `HOST:PORT`.
///
/// # Errors
///
/// [`UsageError`] where the host is unknown or the port is not one.
pub(crate) fn resolve_first(target: &str, port: Option<u16>, default: u16) -> Result<SocketAddr, UsageError> {
    let all = resolve_all(target, port, default)?;
    all.first()
        .copied()
        .ok_or_else(|| UsageError::new(format!("unknown host in \"{target}\": check the name")))
}

/// Resolves the name in `target` again, as [`resolve_any`] does; `None` where it is an address, which stays what it is.
pub(crate) fn resolver(target: &str, asked: Option<u16>, default: u16) -> Option<Resolver> {
    let is_name = target.contains(|c: char| c.is_ascii_alphabetic());
    let target = target.to_owned();
    is_name.then(|| Resolver::new(move || resolve_any(&target, asked, default).unwrap_or_default()))
}

/// Every address of `HOST` or `HOST:PORT`, each once, in the order of the system; at least one. `asked` is the port of --port,
/// `default` that of the protocol.
///
/// # Errors
///
/// [`UsageError`] where the host is unknown or a multicast group, the port is not one, or two ports are given.
pub(crate) fn resolve_all(
    target: &str,
    asked: Option<u16>,
    default: u16,
) -> Result<Vec<SocketAddr>, UsageError> {
    resolve_any(target, asked, default)?.into_iter().map(unicast).collect()
}

/// The same, where a multicast group is welcome.
///
/// # Errors
///
/// As [`resolve_all`].
pub(crate) fn resolve_any(
    target: &str,
    asked: Option<u16>,
    default: u16,
) -> Result<Vec<SocketAddr>, UsageError> {
    let bare = target.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(target);
    // Of a link-local address with its zone, `fe80::1%eth0`.
    let address = bare.split_once('%').map_or(bare, |(address, _)| address);
    let (host, port) = match target.rsplit_once(':') {
        _ if address.parse::<IpAddr>().is_ok() => (bare, Some(asked.unwrap_or(default))),
        Some((_, port)) if asked.is_some_and(|asked| port.parse() != Ok(asked)) => {
            misuse!("--port: \"{target}\" has another port: give one of them");
        }
        Some((host, port)) => {
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            (host, port.parse().ok().filter(|port| *port > 0))
        }
        None => (target, Some(asked.unwrap_or(default))),
    };
    // A number alone is a port that was meant for another flag; the system takes it for an IPv4 address.
    let is_host = host.contains(|c: char| !c.is_ascii_digit());
    let Some(port) = port.filter(|_| is_host) else {
        misuse!(
            "expected HOST or HOST:PORT, such as 192.0.2.7:5005 or [2001:db8::7]:5005, found \"{target}\""
        );
    };
    let unknown =
        |why: &str| UsageError::new(format!("unknown host in \"{target}\" ({why}): check the name"));
    let found = (host, port).to_socket_addrs().map_err(|error| unknown(&error.to_string()))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(unknown("it has no address")) } else { Ok(addresses) }
}

impl PacingArgs {
    /// Refuses what has no effect with any of these strategies, or with any strategy where no rate is to be kept.
    pub(crate) fn check(&self, strategies: &[Strategy], is_paced: bool) -> Result<(), UsageError> {
        let has_grid = is_paced && strategies.contains(&Strategy::Grid);
        let sleeps = |strategy: &Strategy| {
            !matches!(strategy, Strategy::Grid | Strategy::SendCompare | Strategy::Unpaced)
        };
        let is_other = |strategy: &Strategy| !matches!(strategy, Strategy::Grid | Strategy::Unpaced);
        let when =
            |own| if is_paced { own } else { "only at a rate, which neither max nor a trace of times is" };
        let grid = when("only with --strategy grid");
        let flags = [
            ("--strategy", !is_paced && strategies.iter().any(is_other), when("")),
            ("--catch-up", self.catch_up != CatchUp::Burst && !has_grid, grid),
            ("--burst", self.burst.is_some() && !has_grid, grid),
            (
                "--spin",
                self.spin && !(is_paced && strategies.iter().any(sleeps)),
                when("only with strategies that sleep for a time"),
            ),
        ];
        match flags.into_iter().find(|(_, is_idle, _)| *is_idle) {
            Some((flag, _, when)) => misuse!("{flag}: has an effect {when}: leave it out"),
            None => Ok(()),
        }
    }

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
            by_kernel: false,
        }
    }
}

/// A time of at least 100 ms.
pub(crate) fn time_from_100_ms(text: &str) -> Result<TimeDelta, String> {
    const MIN: TimeDelta = TimeDelta::from_millis(100);
    match time(text)? {
        short if short < MIN => Err(format!("must be at least {MIN}, found {short}")),
        long => Ok(long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_too_large_is_told_its_bound() {
        let seed = whole::<u64>(0, u64::MAX);
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        let too_large = seed("18446744073709551616").unwrap_err();
        assert!(too_large.contains("from 0 to 18446744073709551615"), "{too_large}");
        assert!(seed("-1").unwrap_err().contains("0 or more"));
    }

    #[test]
    fn half_a_bracket_is_no_address() {
        for text in ["[::1", "::1]", "[::1:5005", "[[::1]]"] {
            assert!(resolve_first(text, None, 5005).is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_may_lack_its_port() {
        let resolved = |text| {
            resolve_first(text, None, DEFAULT_PORT)
                .map(|address| address.to_string())
                .map_err(|error| error.to_string())
        };
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:5005"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("::1", "[::1]:5005"),
            ("[::1]", "[::1]:5005"),
            ("[::1]:7", "[::1]:7"),
            ("2001:db8::7", "[2001:db8::7]:5005"),
            ("fe80::7%lo", "[fe80::7%1]:5005"),
            ("[fe80::7%lo]:7", "[fe80::7%1]:7"),
        ] {
            assert_eq!(resolved(text), Ok(address.to_owned()));
        }
        for text in ["", ":", ":7", "host:", "host:0", "host:65536", "host:port", "99999", "7:7"] {
            assert!(resolved(text).unwrap_err().starts_with("expected HOST or HOST:PORT"), "{text}");
        }
    }
}
