//! Keys of a monitor.

use std::net::{Ipv4Addr, SocketAddr};

use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_units::TimeDelta;

use super::{parts::each, prelude::*};
use crate::scenario::{
    MediaSpec,
    monitor::{
        HostSpec, MonitorSpec, Pairs, Retention, Thresholds, WatchedKind, WatchedStream, Webhook, address,
        url,
    },
    trace::Traces,
};

/// The port of page and metrics.
const PORT: u16 = 9106;

const DAY: u64 = 86_400;
/// A retention is in days.
const DAYS: &[(&str, f64)] = &[("days", 1.0), ("day", 1.0), ("weeks", 1.0 / 7.0), ("years", 1.0 / 365.25)];

/// A file of a monitor.
pub(crate) const MONITOR_FILE: Group = Group::new("monitor", &[TOP, PARTS]);

keys! { TOP {
    "here", Name, Said("name of this machine"), "Host on which this file is read; `--here` overrides it";
    "database", Text, Is("monitor.db"), "File of the results (SQLite), relative to this file";
    "listen", Text, Is("127.0.0.1:9106"), "Address and port of the page and the metrics, by HTTP";
    "keys", Text, Unset, "File of keys shared with `giusto recv --key-file`, relative to this file";
    "pairs", Table(&PAIRS), Is("mesh"), "Which hosts are measured; this host measures the pairs to which it belongs";
} }

keys! { PARTS {
    "host", List(&Table(&HOST)), Required("[]"), "Hosts; each runs `giusto recv`";
    "stream", List(&Table(&STREAM)), Required("[]"), "Streams between the hosts of each pair";
    "threshold", Table(&THRESHOLD), Unset, "Bounds of all streams that have none of their own";
    "webhook", Table(&WEBHOOK), Unset, "Receiver of a notice when a threshold is crossed, and when it is met again";
    "retention", Table(&RETENTION), Unset, "How long results are kept";
} }

const PAIRS: Group = Group::new("pairs", &[]).with_kinds(
    "kind",
    Some("mesh"),
    &[
        variant("mesh", "each host to each other one", &[]),
        variant("star", "one host to each other one, and back", &[STAR]),
        variant("list", "these", &[LIST]),
    ],
);
keys! { STAR { "centre", Name, Required("berlin"), "Host in the middle"; } }
keys! { LIST { "list", List(&Pair(&Name, &Name)), Required("[[\"berlin\", \"oslo\"]]"), "Source and target of each pair"; } }

const HOST: Group = Group::new("host", &[HOST_KEYS]);
keys! { HOST_KEYS {
    "id", Name, Required("berlin"), "Name on pages and in metrics";
    "address", Text, Required("192.0.2.1"), "Address or name, with the port of `giusto recv` if it is not 5005";
} }

const STREAM: Group = Group::new("stream", &[STREAM_KEYS]).with_kinds("kind", None, &[
    variant("voice", "RTP as a codec sends it, with R and MOS; `giusto recv` with keys also needs `--accept-unauthenticated`", &[VOICE]),
    variant("cbr", "datagrams at a constant bit rate", &[CBR]),
    variant("call", "video under congestion control; the hosts run `giusto call --listen`, with the same keys", &[CALL]),
    variant("stamp", "STAMP (RFC 8762), both directions at once; the hosts run `giusto recv --accept stamp`", &[STAMP]),
    variant("tcp", "as much as the kernel's TCP sends, with its own RTT; the hosts run `giusto recv --accept tcp`", &[TCP]),
]);
keys! { STREAM_KEYS {
    "id", Name, Required("voice"), "Name on pages and in metrics";
    "interval", Time(within(1.0, 86_400.0)), Is("1 min"), "Time from one stream to the next";
    "duration", Time(within(0.1, 3600.0)), Is("10 s"), "Length of each stream, at most half of the interval";
    "dscp", Whole(within(0.0, 63.0)), Is("0"), "Differentiated services code point";
    "mtu-discovery", Switch, Is("false"), "Find the path MTU by probes first (RFC 8899); not of STAMP and TCP";
    "threshold", Table(&THRESHOLD), Said("those of the file"), "Bounds of this stream";
} }
keys! { VOICE {
    "codec", Choice(|| CODECS.map(|(name, _)| name).to_vec()), Is("g711"), "Codec; `g711` is µ-law, `g711a` A-law";
} }
keys! { CBR {
    "rate", Rate(up_to(100e9)), Is("1 Mbit/s"), "Rate of the UDP payload";
    "size", Size(within(56.0, 65_507.0)), Is("1200 B"), "UDP payload of each datagram";
    "reverse", Switch, Is("false"), "The other host also sends one to this host, which asks for it";
} }
keys! { CALL {
    "port", Whole(within(1.0, 65_535.0)), Is("5004"), "Port of the listener";
    "controller", Controller, Shown("gcc:libwebrtc+giusto"), "Congestion [controller](controllers.md) of the sender";
    "max-rate", Rate(within(30e3, 100e9)), Is("2.5 Mbit/s"), "Highest target rate, headers included; the use is the received share of it";
    "reverse", Switch, Is("false"), "The other host also sends media to this host, which calls it";
} }
keys! { STAMP {
    "port", Whole(within(1.0, 65_535.0)), Is("862"), "Port of the reflector";
    "rate", Whole(within(1.0, 10_000.0)), Is("10"), "Packets in a second";
} }

keys! { TCP { "connections", Whole(within(1.0, 128.0)), Is("1"), "Simultaneous connections"; } }

const THRESHOLD: Group = Group::new("threshold", &[BOUNDS]);
keys! { BOUNDS, bounds(to: Thresholds) {
    "loss", Number(within(0.0, 1.0)), Unset, "Highest share of lost datagrams" => to.loss;
    "rtt-p99", Time(ANY), Unset, "Highest 99th percentile of the round-trip time" => to.rtt_p99;
    "delay-p99", Time(ANY), Unset, "Highest 99th percentile of the one-way delay, where it is absolute" => to.delay_p99;
    "frame-delay-p99", Time(ANY), Unset, "Highest 99th percentile of the frame delay of a call" => to.frame_delay_p99;
    "mos", Number(within(1.0, 5.0)), Unset, "Lowest mean opinion score of voice" => to.mos;
    "after", Whole(within(1.0, 1000.0)), Is("1"), "So many results in a row change the state" => to.after;
} }

const WEBHOOK: Group = Group::new("webhook", &[WEBHOOK_KEYS]);
keys! { WEBHOOK_KEYS {
    "url", Text, Required("https://example.org/alerts"), "Gets a JSON object by POST for each change of state, once; repeated until it is accepted";
} }

const RETENTION: Group = Group::new("retention", &[RETENTION_KEYS]);
keys! { RETENTION_KEYS {
    "results", Measure(DAYS, within(2.0, 3_653.0)), Is("90 days"), "Each result";
    "hours", Measure(DAYS, within(2.0, 36_525.0)), Is("2 years"), "Figures of each hour";
    "days", Measure(DAYS, within(2.0, 36_525.0)), Is("20 years"), "Figures of each day, and events";
} }

const CODECS: [(&str, VoiceProfile); 5] = [
    ("g711", VoiceProfile::G711Ulaw),
    ("g711a", VoiceProfile::G711Alaw),
    ("g729", VoiceProfile::G729),
    ("g722", VoiceProfile::G722),
    ("opus", VoiceProfile::Opus),
];

/// Reads the file of a monitor, and which hosts it measures.
pub(in crate::scenario) fn monitor(root: &Node<'_>) -> Found<(MonitorSpec, Pairs)> {
    table(root, &MONITOR_FILE, |keys| {
        let here = keys.optional("here");
        let database = keys.value("database");
        let listen = keys.with("listen", |node| {
            let text = String::read(node)?;
            let wanted =
                || format!("expected an address and a port, such as 127.0.0.1:{PORT}, found \"{text}\"");
            text.parse().or_else(|_| wrong(node, wanted()))
        });
        let key_file = keys.optional("keys");
        let pairs = keys.with("pairs", |node| named(node, &PAIRS, pairs)).flatten();
        let hosts = each(keys, "host", &HOST, quoted_id, |keys| {
            let address = keys.with("address", |node| checked(node, address));
            HostSpec { id: keys.value("id"), address: address.unwrap_or_default() }
        });
        let common = threshold(keys).unwrap_or_default();
        let streams = each(keys, "stream", &STREAM, quoted_id, |keys| stream(keys, common));
        let webhook = keys.with("webhook", |node| {
            table(node, &WEBHOOK, |keys| {
                let url = keys.with("url", |node| checked(node, url));
                Webhook { url: url.unwrap_or_default() }
            })
        });
        let kept = keys.with("retention", |node| table(node, &RETENTION, kept)).unwrap_or(KEPT_DAYS);
        let seconds = |days: u64| days * DAY;
        let retention = Retention {
            results: seconds(kept.results),
            hours: seconds(kept.hours),
            days: seconds(kept.days),
        };
        let spec = MonitorSpec {
            here,
            database,
            listen: listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
            keys: key_file,
            hosts: hosts.unwrap_or_default(),
            pairs: Vec::new(),
            streams: streams.into_iter().flatten().flatten().collect(),
            webhook,
            retention,
        };
        (spec, pairs.unwrap_or_default())
    })
}

/// How long results are kept, in days.
const KEPT_DAYS: Retention = Retention { results: 90, hours: 731, days: 7305 };

fn kept(keys: &mut read::Table<'_>) -> Retention {
    let mut days = |key, default| {
        let read = |node: &Node<'_>| measure(node, DAYS).map(|days| days.round() as u64);
        keys.with(key, read).unwrap_or(default)
    };
    Retention {
        results: days("results", KEPT_DAYS.results),
        hours: days("hours", KEPT_DAYS.hours),
        days: days("days", KEPT_DAYS.days),
    }
}

/// A text that `check` accepts.
fn checked(node: &Node<'_>, check: fn(&str) -> Result<(), String>) -> Found<String> {
    let text = String::read(node)?;
    match check(&text) {
        Ok(()) => Ok(text),
        Err(why) => wrong(node, why),
    }
}

fn pairs(keys: &mut read::Table<'_>) -> Option<Pairs> {
    Some(match keys.kind(&PAIRS)? {
        "star" => Pairs::Star(keys.value("centre")),
        "list" => Pairs::List(keys.value("list")),
        _ => Pairs::Mesh,
    })
}

fn threshold(keys: &mut read::Table<'_>) -> Option<Thresholds> {
    keys.with("threshold", |node| table(node, &THRESHOLD, |keys| bounds(keys, Thresholds::default())))
}

fn stream(keys: &mut read::Table<'_>, common: Thresholds) -> Option<WatchedStream> {
    let id = keys.value("id");
    let interval: TimeDelta = keys.value("interval");
    let duration: TimeDelta = keys.value("duration");
    // The next one must not begin before the last one has its result.
    let longest = TimeDelta::from_nanos(interval.as_nanos() / 2);
    if duration > longest {
        keys.wrong(
            "duration",
            format_args!("duration: must be at most half of the interval, {longest}, found {duration}"),
        );
    }
    let dscp = keys.value::<u32>("dscp") as u8;
    let thresholds = threshold(keys).unwrap_or(common);
    let kind_name = keys.kind(&STREAM)?;
    if kind_name == "call" && dscp != 0 {
        keys.wrong("dscp", format_args!("dscp: calls have none: leave it out, found {dscp}"));
    }
    let mtu_discovery = keys.value("mtu-discovery");
    if mtu_discovery && ["stamp", "tcp"].contains(&kind_name) {
        keys.wrong("mtu-discovery", format_args!("mtu-discovery: {kind_name} has none: leave it out"));
    }
    let kind = match kind_name {
        "voice" => {
            let codec = keys.with("codec", |node| read::choice(node, CODECS));
            WatchedKind::Voice(VoiceFormat::new(codec.unwrap_or_default()))
        }
        "cbr" => WatchedKind::Cbr {
            rate: keys.value("rate"),
            size: keys.value("size"),
            reverse: keys.value("reverse"),
        },
        "call" => {
            let port: u32 = keys.value("port");
            let read = |node: &Node<'_>| read::controller(node, &Traces::default(), &[]);
            let controller = keys.with("controller", read).unwrap_or_else(MediaSpec::default_controller);
            let (max_rate, reverse) = (keys.value("max-rate"), keys.value("reverse"));
            WatchedKind::Call { port: port as u16, controller, max_rate, reverse }
        }
        "tcp" => WatchedKind::Tcp { connections: keys.value("connections") },
        _ => {
            let port: u32 = keys.value("port");
            WatchedKind::Stamp { port: port as u16, per_second: keys.value("rate") }
        }
    };
    Some(WatchedStream { id, kind, interval, duration, dscp, mtu_discovery, thresholds })
}
