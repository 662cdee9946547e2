//! What a monitor watches, as data: a file of hosts, pairs and streams.

use std::net::SocketAddr;

use giusto_congestion::Algorithm;
use giusto_rtp::voice::VoiceFormat;
use giusto_units::{DataRate, DataSize, TimeDelta};

/// A valid file of a monitor.
///
/// # Example
///
/// ```
/// use giusto::scenario::Document;
///
/// let text = r#"
/// [[host]]
/// id = "berlin"
/// address = "192.0.2.1"
/// [[host]]
/// id = "oslo"
/// address = "192.0.2.2"
/// [[stream]]
/// id = "voice"
/// kind = "voice"
/// "#;
/// let monitor = Document::parse(text, "monitor.toml")?.monitor()?;
/// assert_eq!(monitor.pairs, [(0, 1), (1, 0)]);
///
/// // All problems at once.
/// let wrong = text.replace("192.0.2.2", "192.0.2.2:http").replace("kind = \"voice", "kind = \"speech");
/// let error = Document::parse(&wrong, "monitor.toml")?.monitor().unwrap_err();
/// let [host, stream] = error.problems() else { panic!("{error}") };
/// assert!(host.starts_with("monitor.toml:7: host \"oslo\": address: expected HOST or HOST:PORT"), "{host}");
/// assert!(stream.starts_with("monitor.toml:10: stream \"voice\": kind: unknown name \"speech\""), "{stream}");
/// # Ok::<(), giusto::scenario::ScenarioError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MonitorSpec {
    /// The host on which the monitor runs; `None`: the one called as this machine.
    pub here: Option<String>,
    /// The file of the results, relative to the monitor's file.
    pub database: String,
    /// Where page and metrics are served by HTTP.
    pub listen: SocketAddr,
    /// The file of keys that the hosts share, relative to the monitor's file.
    pub keys: Option<String>,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// Which hosts are measured: the places of source and target among the hosts.
    pub pairs: Vec<(usize, usize)>,
    /// What is sent between the hosts of each pair.
    pub streams: Vec<WatchedStream>,
    /// Receiver of notices about thresholds.
    pub webhook: Option<Webhook>,
    /// How long results are kept.
    pub retention: Retention,
}

/// A host of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name on pages and in metrics.
    pub id: String,
    /// Its address or name, and the port of `giusto recv` if it is not 5005.
    pub address: String,
}

/// A stream that is measured again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedStream {
    /// Its name on pages and in metrics.
    pub id: String,
    /// What is sent.
    pub kind: WatchedKind,
    /// The time from one stream to the next.
    pub interval: TimeDelta,
    /// How long each stream lasts.
    pub duration: TimeDelta,
    /// The differentiated services code point of its datagrams.
    pub dscp: u8,
    /// The MTU of the path is looked for by probes before each stream (RFC 8899); not of what the other host sends.
    pub mtu_discovery: bool,
    /// Where its results are out of bounds.
    pub thresholds: Thresholds,
}

/// What a stream of a monitor sends.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchedKind {
    /// Voice as RTP.
    Voice(VoiceFormat),
    /// Datagrams of one size at a constant bit rate.
    Cbr {
        /// The rate of the UDP payload.
        rate: DataRate,
        /// The UDP payload of each datagram.
        size: DataSize,
        /// The stream is also sent from the other host, on request.
        reverse: bool,
    },
    /// A media call: video under congestion control.
    Call {
        /// The port of the listener.
        port: u16,
        /// The congestion controller of the sender.
        controller: Algorithm,
        /// The highest target rate, headers included.
        max_rate: DataRate,
        /// The other host also sends such media, in a call from this host.
        reverse: bool,
    },
    /// STAMP (RFC 8762), which measures both directions.
    Stamp {
        /// The port of the reflector.
        port: u16,
        /// Packets in a second.
        per_second: u64,
    },
    /// Load by the kernel's TCP: rate and round-trip time.
    Tcp {
        /// Simultaneous connections.
        connections: usize,
    },
}

giusto_units::defaults! {
    /// Where the results of a stream are out of bounds. `None`: nowhere.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Thresholds {
        /// The highest share of lost datagrams, 0 to 1.
        pub loss: Option<f64> = None,
        /// The highest 99th percentile of the round-trip time.
        pub rtt_p99: Option<TimeDelta> = None,
        /// The highest 99th percentile of the one-way delay, where it is absolute.
        pub delay_p99: Option<TimeDelta> = None,
        /// The highest 99th percentile of the frame delay of a call.
        pub frame_delay_p99: Option<TimeDelta> = None,
        /// The lowest mean opinion score of voice.
        pub mos: Option<f64> = None,
        /// So many results in a row change the state.
        pub after: u32 = 1,
    }
}

/// Receiver of notices about thresholds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The URL, of HTTP or HTTPS.
    pub url: String,
}

/// How long results are kept, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Each result.
    pub results: u64,
    /// The figures of hours.
    pub hours: u64,
    /// The figures of days, and events.
    pub days: u64,
}

/// Which hosts are measured, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Each host to each other one.
    #[default]
    Mesh,
    /// One host to each other one, and back.
    Star(String),
    /// These.
    List(Vec<(String, String)>),
}

/// Checks the form of `HOST` or `HOST:PORT`.
pub(super) fn address(text: &str) -> Result<(), String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let is_address = bare.parse::<std::net::IpAddr>().is_ok();
    let (host, port) = if is_address { (text, None) } else { split(text) };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if !host.is_empty() && is_port && !text.contains(|c: char| c.is_whitespace() || c == '/') {
        return Ok(());
    }
    Err(format!("expected HOST or HOST:PORT, such as 192.0.2.7:5005 or [2001:db8::7]:5005, found \"{text}\""))
}

fn split(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
}

/// Checks that a URL is one of HTTP, with or without TLS.
pub(super) fn url(text: &str) -> Result<(), String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let is_unusable = |c: char| c.is_control() || c.is_whitespace() || c == '#';
    if host.is_some_and(|host| address(host).is_ok()) && !text.contains(is_unusable) {
        return Ok(());
    }
    Err(format!("expected a URL such as https://example.org/alerts, found \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_nothing_that_a_request_line_cannot_hold() {
        for text in ["https://example.org/alerts", "http://192.0.2.7:9106/a?b=c", "http://[2001:db8::7]"] {
            assert_eq!(url(text), Ok(()), "{text}");
        }
        for text in
            ["ftp://example.org", "https://example.org/my alerts", "https://example.org/#a", "https://"]
        {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
