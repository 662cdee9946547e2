//! Which flags of `send`, `recv` and `call` have an effect with which far end. The others are refused.

use clap::{Arg, ArgMatches, Command, CommandFactory, parser::ValueSource};

use crate::{
    Cli,
    call::CallArgs,
    recv::{Accept, RecvArgs},
    send::{Protocol, SendArgs},
    usage::{UsageError, misuse},
};

/// The flags of a command, by the names of its fields: for each mode, whether the flag has an effect.
struct Table<const MODES: usize> {
    command: &'static str,
    modes: [&'static str; MODES],
    flags: &'static [(&'static str, [bool; MODES])],
}

const Y: bool = true;
const N: bool = false;

/// The far end sends in the modes with `--reverse`: how it paces its datagrams is its own matter.
#[rustfmt::skip]
const SEND: Table<7> = Table {
    command: "send",
    modes: [
        "giusto streams", "--one-way", "--reverse", "--bidir",
        "--protocol iperf3", "--protocol iperf3 --reverse", "--protocol stamp",
    ],
    flags: &[
        //                    giusto  one-way reverse bidir iperf3 iperf3-R stamp
        ("target",            [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("port",              [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("rate",              [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("size",              [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("payload",           [Y,     Y,      N,      N,    N,     N,       N]),
        ("layer",             [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("strategy",          [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("mode",              [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("packets_per_cycle", [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("catch_up",          [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("burst",             [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("max_burst_rate",    [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("spin",              [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("realtime",          [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("rtp",               [Y,     Y,      N,      N,    N,     N,       N]),
        ("raw",               [Y,     Y,      N,      N,    N,     N,       N]),
        ("profile",           [Y,     Y,      N,      N,    N,     N,       N]),
        ("ptime",             [Y,     Y,      N,      N,    N,     N,       N]),
        ("wav",               [Y,     Y,      N,      N,    N,     N,       N]),
        ("dscp",              [Y,     Y,      N,      Y,    Y,     Y,       Y]),
        ("ecn",               [Y,     Y,      N,      Y,    Y,     Y,       Y]),
        ("dont_fragment",     [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("seed",              [Y,     Y,      N,      Y,    Y,     N,       Y]),
        ("duration",          [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("count",             [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("bytes",             [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("streams",           [Y,     Y,      N,      N,    Y,     Y,       N]),
        ("one_way",           [Y,     Y,      N,      N,    N,     N,       N]),
        ("protocol",          [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("reverse",           [Y,     Y,      Y,      N,    Y,     Y,       N]),
        ("bidir",             [Y,     Y,      N,      Y,    Y,     N,       N]),
        ("key_file",          [Y,     N,      Y,      Y,    N,     N,       Y]),
        ("timestamps",        [N,     N,      N,      N,    N,     N,       Y]),
        ("interval",          [Y,     Y,      Y,      N,    Y,     Y,       Y]),
        ("live",              [Y,     Y,      N,      N,    N,     N,       N]),
        ("no_open",           [Y,     Y,      N,      N,    N,     N,       N]),
        ("json_lines",        [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("csv",               [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
        ("wide",              [Y,     Y,      Y,      Y,    Y,     Y,       N]),
        ("verbose",           [Y,     Y,      Y,      Y,    Y,     Y,       N]),
        ("json",              [Y,     Y,      Y,      Y,    Y,     Y,       Y]),
    ],
};

#[rustfmt::skip]
const RECV: Table<5> = Table {
    command: "recv",
    modes: ["giusto streams", "--accept rtp", "--accept raw", "--accept iperf3", "--accept stamp"],
    flags: &[
        //                         giusto rtp raw iperf3 stamp
        ("address",                [Y,    Y,  Y,  Y,     Y]),
        ("port",                   [Y,    Y,  Y,  Y,     Y]),
        ("once",                   [Y,    Y,  Y,  Y,     N]),
        ("accept",                 [Y,    Y,  Y,  Y,     Y]),
        ("key_file",               [Y,    Y,  Y,  N,     Y]),
        ("accept_unauthenticated", [Y,    Y,  Y,  N,     N]),
        ("allow",                  [Y,    Y,  Y,  Y,     Y]),
        ("deny",                   [Y,    Y,  Y,  Y,     Y]),
        ("idle",                   [Y,    Y,  Y,  Y,     N]),
        ("duration",               [Y,    Y,  Y,  Y,     Y]),
        ("max_streams",            [Y,    Y,  Y,  Y,     Y]),
        ("max_streams_per_host",   [Y,    Y,  Y,  N,     Y]),
        ("max_unannounced",        [N,    Y,  Y,  N,     N]),
        ("max_reverse",            [Y,    Y,  Y,  N,     N]),
        ("max_bytes",              [Y,    Y,  Y,  N,     N]),
        ("max_lifetime",           [Y,    Y,  Y,  Y,     N]),
        ("max_rate",               [Y,    Y,  Y,  Y,     Y]),
        ("no_offload",             [Y,    Y,  Y,  Y,     N]),
        ("stateless",              [N,    N,  N,  N,     Y]),
        ("dscp",                   [N,    N,  N,  N,     Y]),
        ("metrics",                [Y,    Y,  Y,  N,     N]),
        ("interval",               [Y,    Y,  Y,  Y,     Y]),
        ("live",                   [Y,    Y,  Y,  N,     N]),
        ("no_open",                [Y,    Y,  Y,  N,     N]),
        ("json_lines",             [Y,    Y,  Y,  Y,     Y]),
        ("csv",                    [Y,    Y,  Y,  Y,     Y]),
        ("wide",                   [Y,    Y,  Y,  Y,     N]),
        ("verbose",                [Y,    Y,  Y,  Y,     N]),
        ("json",                   [Y,    Y,  Y,  Y,     Y]),
    ],
};

#[rustfmt::skip]
const CALL: Table<3> = Table {
    command: "call",
    modes: ["a caller", "--listen", "--browser"],
    flags: &[
        //               caller listen browser
        ("target",       [Y,    N,     N]),
        ("listen",       [N,    Y,     Y]),
        ("browser",      [N,    N,     Y]),
        ("media",        [Y,    N,     Y]),
        ("encoder_command", [Y, N,     Y]),
        ("frame_rate",   [Y,    N,     Y]),
        ("save",         [N,    Y,     N]),
        ("once",         [N,    Y,     N]),
        ("max_calls",    [N,    Y,     N]),
        ("controller",   [Y,    N,     Y]),
        ("max_rate",     [Y,    Y,     Y]),
        ("start_rate",   [Y,    N,     Y]),
        ("min_rate",     [Y,    N,     Y]),
        ("video",        [Y,    N,     N]),
        ("audio",        [Y,    N,     N]),
        ("encoder",      [Y,    N,     N]),
        ("feedback",     [Y,    N,     Y]),
        ("delay_target", [Y,    N,     Y]),
        ("ecn",          [Y,    N,     N]),
        ("repair",       [Y,    N,     Y]),
        ("scenario",     [Y,    N,     N]),
        ("flow",         [Y,    N,     N]),
        ("set",          [Y,    N,     N]),
        ("duration",     [Y,    N,     Y]),
        ("reverse",      [Y,    N,     N]),
        ("bidir",        [Y,    N,     N]),
        ("calls",        [Y,    N,     N]),
        ("seed",         [Y,    N,     N]),
        ("silence",      [Y,    Y,     N]),
        ("key_file",     [Y,    Y,     N]),
        ("interval",     [Y,    Y,     Y]),
        ("trace",        [Y,    Y,     Y]),
        ("session_log",  [Y,    N,     Y]),
        ("pcap",         [Y,    Y,     N]),
        ("out",          [Y,    Y,     Y]),
        ("live",         [Y,    Y,     N]),
        ("no_open",      [Y,    Y,     N]),
        ("wide",         [Y,    Y,     Y]),
        ("json",         [Y,    Y,     Y]),
    ],
};

/// Refuses flags of `call` that have no effect.
///
/// # Errors
///
/// [`UsageError`] names the flag and the fix.
pub(crate) fn check_call(args: &CallArgs, matches: &ArgMatches) -> Result<(), UsageError> {
    CALL.check(args.mode(), matches)
}

/// Refuses flags of `send` that have no effect.
///
/// # Errors
///
/// [`UsageError`] names the flag and the fix.
pub(crate) fn check_send(args: &SendArgs, matches: &ArgMatches) -> Result<(), UsageError> {
    let mode = match (args.protocol, args.reverse) {
        (Protocol::Stamp, _) => 6,
        (Protocol::Iperf3, reverse) => 4 + usize::from(reverse),
        (Protocol::Giusto, true) => 2,
        (Protocol::Giusto, false) if args.bidir => 3,
        (Protocol::Giusto, false) => usize::from(args.one_way),
    };
    SEND.check(mode, matches)
}

/// Refuses flags of `recv` that have no effect.
///
/// # Errors
///
/// [`UsageError`] names the flag and the fix.
pub(crate) fn check_recv(args: &RecvArgs, matches: &ArgMatches) -> Result<(), UsageError> {
    let mode = match args.accept {
        None => 0,
        Some(Accept::Rtp) => 1,
        Some(Accept::Raw) => 2,
        Some(Accept::Iperf3) => 3,
        Some(Accept::Stamp) => 4,
    };
    RECV.check(mode, matches)
}

impl<const MODES: usize> Table<MODES> {
    fn check(&self, mode: usize, matches: &ArgMatches) -> Result<(), UsageError> {
        let works = |row: &[bool; MODES]| row.get(mode).copied().unwrap_or(true);
        let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let Some((name, row)) = self.flags.iter().find(|(name, row)| !works(row) && given(name)) else {
            return Ok(());
        };
        let others: Vec<&str> =
            self.modes.iter().zip(row).filter(|(_, works)| **works).map(|(m, _)| *m).collect();
        let or = match &others[..] {
            few @ ([_] | [_, _]) => format!(", or use {}", few.join(" or ")),
            _ => String::new(),
        };
        let (flag, mode) = (self.flag(name), self.modes.get(mode).copied().unwrap_or_default());
        misuse!("{flag}: not supported with {mode}: leave it out{or}")
    }

    /// The flag as it is typed.
    fn flag(&self, name: &str) -> String {
        let command = Cli::command();
        let arguments = command.find_subcommand(self.command).into_iter().flat_map(Command::get_arguments);
        let long = arguments.filter(|arg| arg.get_id() == name).find_map(Arg::get_long);
        format!("--{}", long.unwrap_or(name))
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::Command as Subcommand;

    /// The verdict on a command line.
    fn verdict(words: &[&str]) -> Result<(), String> {
        let matches = Cli::command().try_get_matches_from(words).unwrap_or_else(|e| panic!("{words:?}: {e}"));
        let given = matches.subcommand().unwrap().1;
        match Cli::from_arg_matches(&matches).unwrap().command {
            Subcommand::Send(args) => check_send(&args, given),
            Subcommand::Recv(args) => check_recv(&args, given),
            Subcommand::Call(args) => check_call(&args, given),
            _ => panic!("{words:?}"),
        }
        .map_err(|error| error.to_string())
    }

    /// A value that each flag takes, and what it needs besides.
    fn sample(command: &str, name: &str) -> Vec<&'static str> {
        match (command, name) {
            ("call", "delay_target" | "silence") => vec!["1"],
            ("call", "controller") => vec!["gcc:libwebrtc"],
            ("call", "encoder") => vec!["perfect"],
            ("call", "feedback") => vec!["rfc8888"],
            ("call", "repair") => vec!["nack"],
            (
                "call",
                "scenario" | "media" | "encoder_command" | "save" | "trace" | "session_log" | "pcap" | "out",
            ) => {
                vec!["f"]
            }
            ("call", "flow") => vec!["f", "--scenario", "f"],
            ("call", "set") => vec!["a=b", "--scenario", "f"],
            (_, "rate" | "max_rate" | "max_burst_rate" | "start_rate" | "min_rate") => vec!["1M"],
            (_, "size" | "bytes" | "max_bytes") => vec!["1000"],
            (_, "payload") => vec!["uniform:100-200"],
            (_, "layer") => vec!["ip"],
            (_, "strategy") => vec!["grid"],
            (_, "mode") => vec!["eco"],
            (_, "catch_up") => vec!["skip"],
            (_, "profile") => vec!["g711"],
            (_, "ptime") => vec!["20ms", "--profile", "g711"],
            (_, "wav") => vec!["a.wav", "--profile", "g711"],
            (_, "ecn") => vec!["ect1"],
            (_, "idle" | "duration" | "max_lifetime" | "interval") => vec!["3"],
            (_, "timestamps") => vec!["ptp"],
            (_, "key_file") => vec!["keys"],
            (_, "accept_unauthenticated") => vec!["--key-file", "keys"],
            (_, "allow" | "deny") => vec!["192.0.2.0/24"],
            (_, "metrics") => vec!["9105"],
            (_, "no_open") => vec!["--live"],
            (
                _,
                "rtp" | "raw" | "spin" | "dont_fragment" | "one_way" | "reverse" | "bidir" | "once"
                | "json_lines" | "csv" | "json" | "wide" | "verbose" | "no_offload" | "stateless" | "audio"
                | "browser" | "live",
            ) => {
                vec![]
            }
            _ => vec!["4"],
        }
    }

    fn walk<const MODES: usize>(table: &Table<MODES>, base: &[&str], modes: [&[&str]; MODES]) {
        let command = Cli::command();
        let arguments = command.find_subcommand(table.command).unwrap().get_arguments();
        let mut all: Vec<&str> =
            arguments.map(|arg| arg.get_id().as_str()).filter(|id| *id != "help").collect();
        let mut listed: Vec<&str> = table.flags.iter().map(|(name, _)| *name).collect();
        all.sort_unstable();
        listed.sort_unstable();
        assert_eq!(all, listed, "every flag of {} is in the table", table.command);
        let selects = ["target", "address", "protocol", "accept", "listen", "browser"];
        for (name, row) in table.flags.iter().filter(|(name, _)| !selects.contains(name)) {
            let flag = table.flag(name);
            for (mode, words) in modes.iter().enumerate() {
                let chosen = words.contains(&&flag[..]);
                // These select a mode themselves, or exclude each other.
                let other_mode = ["reverse", "bidir", "one_way"].contains(name)
                    && (mode < 2 || words.iter().any(|word| ["--reverse", "--bidir"].contains(word)));
                if chosen || other_mode {
                    continue;
                }
                let words = [base, words, &[&flag], &sample(table.command, name)].concat();
                let verdict = verdict(&words);
                assert_eq!(verdict.is_ok(), row[mode], "{words:?}: {verdict:?}");
                if let Err(error) = verdict {
                    let wanted = format!("not supported with {}: leave it out", table.modes[mode]);
                    assert!(error.starts_with("--") && error.contains(&wanted), "{error}");
                }
            }
        }
        for words in modes {
            assert_eq!(verdict(&[base, words].concat()), Ok(()), "{words:?}");
        }
    }

    #[test]
    fn each_flag_works_or_is_refused_as_the_table_says() {
        let modes: [&[&str]; 7] = [
            &[],
            &["--one-way"],
            &["--reverse"],
            &["--bidir"],
            &["--protocol", "iperf3"],
            &["--protocol", "iperf3", "--reverse"],
            &["--protocol", "stamp"],
        ];
        walk(&SEND, &["giusto", "send", "192.0.2.1"], modes);
        let modes: [&[&str]; 5] = [
            &[],
            &["--accept", "rtp"],
            &["--accept", "raw"],
            &["--accept", "iperf3"],
            &["--accept", "stamp"],
        ];
        walk(&RECV, &["giusto", "recv"], modes);
        let modes: [&[&str]; 3] = [&["192.0.2.1"], &["--listen", "127.0.0.1"], &["--browser"]];
        walk(&CALL, &["giusto", "call"], modes);
    }

    #[test]
    fn a_refusal_names_the_mode_that_knows_the_flag() {
        assert_eq!(
            verdict(&["giusto", "recv", "--stateless"]),
            Err("--stateless: not supported with giusto streams: leave it out, or use --accept stamp"
                .to_owned())
        );
        assert_eq!(
            verdict(&["giusto", "send", "h", "--protocol", "stamp", "-R"]),
            Err("--reverse: not supported with --protocol stamp: leave it out".to_owned())
        );
    }
}
