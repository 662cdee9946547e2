//! The groups of flags in the help of commands that have many.

use clap::Command;

/// A group: its heading, and its flags by the names of their fields.
type Group = (&'static str, &'static [&'static str]);

const PACING: Group =
    ("Pacing", &["mode", "packets_per_cycle", "catch_up", "burst", "max_burst_rate", "spin", "realtime"]);

#[rustfmt::skip]
const COMMANDS: &[(&str, &[Group])] = &[
    ("send", &[
        ("Stream", &["rate", "size", "payload", "payload_file", "script", "role", "layer", "strategy", "rtp", "raw", "profile", "ptime", "wav", "seed"]),
        ("Pacing", &["mode", "packets_per_cycle", "catch_up", "burst", "max_burst_rate", "spin", "realtime", "pace"]),
        ("Length", &["duration", "count", "bytes", "streams"]),
        ("Network", &["interface", "source", "ttl", "dscp", "ecn", "priority", "flow_label", "dont_fragment", "mtu_discovery",
                      "window"]),
        ("Far end", &["port", "one_way", "protocol", "under_load", "reverse", "bidir", "silence", "key_file", "timestamps"]),
        ("Output", &["interval", "verbose", "histogram", "live", "no_open", "json_lines", "csv", "wide", "json"]),
    ]),
    ("recv", &[
        ("Service", &["port", "interface", "once", "accept", "idle", "duration", "no_offload", "stateless", "dscp"]),
        ("Senders", &["ssm", "key_file", "accept_unauthenticated", "allow", "deny"]),
        ("Limits", &["max_streams", "max_streams_per_host", "max_unannounced", "max_reverse", "max_bytes",
                     "max_lifetime", "max_rate"]),
        ("Output", &["metrics", "interval", "verbose", "histogram", "live", "no_open", "json_lines", "csv", "wide", "json"]),
    ]),
    ("call", &[
        ("Far end", &["listen", "browser", "once", "max_calls", "silence"]),
        ("Protection", &["key_file", "insecure", "srtp", "fingerprint", "certificate"]),
        ("Rate control", &["controller", "max_rate", "start_rate", "min_rate", "feedback", "delay_target"]),
        ("Media", &["video", "audio", "voice", "encoder", "media", "encoder_command", "frame_rate", "codec", "repair", "scenario", "flow",
                    "set", "seed"]),
        ("Network", &["interface", "source", "ttl", "ecn", "priority", "flow_label", "mtu_discovery"]),
        ("Call", &["save", "duration", "reverse", "bidir", "calls"]),
        ("Output", &["interval", "trace", "session_log", "pcap", "out", "live", "no_open", "wide", "json"]),
    ]),
    ("cbr", &[
        ("Streams", &["rate", "size", "strategy", "duration", "repeat", "quick", "layer", "dont_fragment"]),
        PACING,
        ("Comparison", &["against", "against_path"]),
        ("Output", &["out", "live", "no_open", "json_lines", "csv", "wide", "json"]),
    ]),
    ("benchmark", &[
        ("Scenarios", &["seed", "scenarios", "quick", "recordings", "uplink", "scale"]),
        ("Runs", &["controller", "shard", "jobs", "resume"]),
        ("One run", &["replay", "why", "live_page", "engine"]),
        ("Output", &["out", "wide", "json"]),
    ]),
];

/// `command` with the flags of its subcommands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    COMMANDS.iter().fold(command, |command, (name, groups)| {
        command.mut_subcommand(name, |subcommand| {
            subcommand.mut_args(|flag| {
                let own = groups.iter().find(|(_, flags)| flags.contains(&flag.get_id().as_str()));
                match own {
                    Some((heading, _)) => flag.help_heading(*heading),
                    None => flag,
                }
            })
        })
    })
}

/// Each command with the names of the flags in its groups.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static &'static str>)> {
    COMMANDS.iter().map(|(name, groups)| (*name, groups.iter().flat_map(|(_, flags)| flags.iter())))
}
