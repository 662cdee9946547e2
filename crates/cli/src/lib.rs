//! The `giusto` command as a library, for programs that contain it: [`run()`].
//!
//! Results go to standard output, progress and live figures to standard error. `giusto --help` lists the exit statuses.

mod args;
mod benchmark;
mod call;
mod cbr;
mod client;
mod compare;
mod console;
mod demo;
mod explore;
mod forms;
mod groups;
mod iperf3;
mod link;
mod live;
mod live_page;
mod lte;
mod many;
mod merge;
mod monitor;
mod opener;
mod output;
mod path;
mod printer;
mod recv;
mod replay;
mod reproduce;
mod run;
mod send;
mod server;
mod shell;
mod sim;
mod stamp;
mod sweep;
mod tcp;
mod usage;

use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use clap::{
    CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use clap_complete::Shell;

use usage::UsageError;

/// The arguments of the command, without its name: reports contain them.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sends real-time media on time, measures what arrives, simulates networks and compares congestion controllers
///
/// Results go to standard output, progress and live figures to standard error. Ctrl-C or SIGTERM ends a run early and prints
/// its result; a second Ctrl-C ends the program at once.
#[derive(Debug, Parser)]
#[command(name = "giusto", version, max_term_width = 110, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "Units: rates such as 64k, 3M or \"2.5 Gbit/s\", times such as 20ms or \"10 s\", sizes such as 1200 or \"1.2 kB\".
A number without a unit is in bit/s, seconds or bytes; scenario files and --set need units.

Exit status:
    0  success, also of a run that Ctrl-C or a closed pipe ended early
    1  failure: no answer, a far end that disappeared (send, call,
       recv --once), an expectation not met (sim, sweep), a full disk
    2  wrong usage: a flag, an address or a file that cannot be used
    3  measured, but the figures cannot be trusted (send, recv, call,
       link, cbr, demo, compare --live): the machine was overloaded,
       or the counts do not add up
    …  link: that of its command, if it is not 0
  130  ended by a second Ctrl-C

Example:
  giusto demo";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure paced streams on loopback and write an HTML report
    Demo(demo::DemoArgs),
    /// Send a paced UDP stream and print what the receiver measured
    Send,
    /// Receive UDP streams and measure each of them
    Recv,
    /// Hold an adaptive media session with another host: RTP with congestion control
    Call,
    /// Measure the accuracy of constant-bit-rate streams on loopback
    Cbr(cbr::CbrArgs),
    /// Simulate a scenario and check its expectations
    Sim(sim::SimArgs),
    /// Simulate a scenario under several congestion controllers, side by side
    Compare(compare::CompareArgs),
    /// Change the values of a scenario on a page and see the result at once
    Explore(explore::ExploreArgs),
    /// Run other programs across a scenario's links in real time
    Link(Box<link::LinkArgs>),
    /// Simulate a scenario with many values and seeds
    Sweep(sweep::SweepArgs),
    /// Judge congestion controllers on random scenarios
    Benchmark(benchmark::BenchmarkArgs),
    /// Find the constants with which a controller does best, and say whether they are better than chance
    #[command(after_help = "Examples:
  giusto tune nada --constants kappa,tau --out tuned
tune is part of the Python package, which has a command giusto of its own: pip install '.[tune]' in a clone")]
    Tune {
        /// What the command of the Python package takes
        #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Make the figures and the table of a publication, and all that it takes to make them again
    #[command(after_help = "Examples:
  giusto paper media-step --seeds 1..10 --out paper
paper is part of the Python package, which has a command giusto of its own: pip install '.[plot]' in a clone")]
    Paper {
        /// What the command of the Python package takes
        #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Merge the shards of a sweep or a benchmark
    Merge(merge::MergeArgs),
    /// Measure streams between hosts for months, with pages, metrics and notices; it needs the feature `monitor`
    Monitor(monitor::MonitorArgs),
    /// Run a recorded session through congestion controllers
    Replay(replay::ReplayArgs),
    /// Reproduce published results and compare them with the publication
    Reproduce(reproduce::ReproduceArgs),
    /// Write traces of the radio of a simulated LTE network
    Lte(lte::LteArgs),
    /// Print completions for a shell
    #[command(after_help = "Examples:
  giusto completions bash > ~/.local/share/bash-completion/completions/giusto
  giusto completions zsh > \"${fpath[1]}/_giusto\"
  giusto completions fish > ~/.config/fish/completions/giusto.fish")]
    Completions {
        /// Shell that reads the completions
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the JSON schema of scenario files, with which editors complete and check them
    #[command(after_help = "Example:
  giusto schema > scenario.schema.json
A scenario file names it in its first line: #:schema scenario.schema.json")]
    Schema,
    /// Write man pages to a directory
    #[command(after_help = "Example:
  giusto man ~/.local/share/man/man1 && man giusto-sim")]
    Man {
        /// Directory to write the pages to
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// Runs the command with the words of a command line, the first of which is its name. Returns the exit status.
///
/// The command handles signals and writes to standard output as a program of its own does: call this once in a process.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let _ = ARGUMENTS.set(words.iter().skip(1).cloned().collect());
    let words = args::join_negative_values(words);
    let form = forms::chosen(&words);
    let parsed = forms::with_flags(Cli::command(), form).try_get_matches_from(&words).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
        Ok((cli, matches))
    });
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            console::complain(&no_command(&words));
            return ExitCode::from(2);
        }
        Err(error) if error.use_stderr() => {
            let complaint = negative_word(&error, &words).or_else(|| misspelt(&error));
            let complaint = complaint.or_else(|| form.and_then(|form| form.complaint(&error)));
            let complaint = complaint.unwrap_or_else(|| in_short(&error.to_string()));
            console::complain(&complaint);
            return ExitCode::from(2);
        }
        Err(help) => {
            // Help and version.
            return match console::shown(help.print()) {
                Ok(_) => ExitCode::SUCCESS,
                Err(error) => failed(&error),
            };
        }
    };
    let given = matches.subcommand().map_or(&matches, |(_, given)| given);
    if let Err(error) = usage::check_files(given) {
        return failed(&error.into());
    }
    if let Command::Link(args) = &cli.command
        && let Err(error) = link::prepare(args)
    {
        return failed(&error);
    }
    if matches!(cli.command, Command::Monitor(_))
        && let Err(error) = monitor::prepare()
    {
        return failed(&error);
    }
    let stop = Arc::new(AtomicBool::new(false));
    // The others have no result so far that would be worth printing: a signal ends them at once.
    let has_parts = !matches!(
        cli.command,
        Command::Tune { .. }
            | Command::Paper { .. }
            | Command::Merge(_)
            | Command::Completions { .. }
            | Command::Schema
            | Command::Man { .. }
    );
    if has_parts && let Err(error) = console::stop_on_signals(Arc::clone(&stop)) {
        // Signals have lost their own effect by then: nothing would end the program.
        if let ctrlc::Error::System(error) = error {
            return failed(&anyhow::Error::new(error).context("cannot catch signals"));
        }
        let loss = "warning: cannot catch signals, so Ctrl-C will end the run without a result";
        console::complain(&format!("{loss}: {error}"));
    }
    let mut page = None;
    let outcome = match cli.command {
        Command::Demo(args) => demo::run(&args, &stop),
        Command::Send | Command::Recv | Command::Call => {
            form.map_or_else(|| Ok(ExitCode::FAILURE), |form| (form.run)(given, &stop, &mut page))
        }
        Command::Cbr(args) => cbr::run(&args, &stop, &mut page),
        Command::Sim(args) => sim::run(&args, &stop),
        Command::Compare(args) => compare::run(&args, &stop),
        Command::Explore(args) => explore::run(&args, &stop),
        Command::Link(args) => link::run(&args, &stop),
        Command::Sweep(args) => sweep::run(&args, &stop),
        Command::Benchmark(args) => benchmark::run(&args, &stop),
        Command::Tune { .. } => Err(UsageError::new(
            "tune is part of the Python package, whose command giusto has it: pip install '.[tune]' in a clone",
        )
        .into()),
        Command::Paper { .. } => Err(UsageError::new(
            "paper is part of the Python package, whose command giusto has it: pip install '.[plot]' in a clone",
        )
        .into()),
        Command::Merge(args) => merge::run(&args),
        Command::Monitor(args) => monitor::run(&args, &stop),
        Command::Replay(args) => replay::run(&args, &stop),
        Command::Reproduce(args) => reproduce::run(&args, &stop),
        Command::Lte(args) => lte::run(&args, &stop),
        Command::Completions { shell } => shell::completions(shell, forms::with_all_flags(Cli::command())),
        Command::Schema => shell::schema(),
        Command::Man { dir } => shell::man(&dir, forms::with_all_flags(Cli::command())),
    };
    if let Some(page) = page {
        page.close(outcome.as_ref().err().map(message));
    }
    match outcome {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Prints an error; returns its exit status.
fn failed(error: &anyhow::Error) -> ExitCode {
    console::complain(&format!("error: {}", message(error)));
    ExitCode::from(error.downcast_ref::<UsageError>().map_or(1, UsageError::status))
}

/// An error and its causes, each once: some errors include their cause.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.is_empty() {
            cause
        } else if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// The command line, as a shell reads it.
fn command_line() -> String {
    let words = ARGUMENTS.get().into_iter().flatten().map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("giusto".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word, quoted for a shell where needed.
fn quoted(word: &str) -> String {
    if word.contains(|c: char| c.is_whitespace() || "\"'$*;&|<>(){}[]#".contains(c)) {
        format!("'{}'", word.replace('\'', "'\\''"))
    } else {
        word.to_owned()
    }
}

/// The complaint about a negative number that follows no flag, which looks like a flag itself.
fn negative_word(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let number = words.iter().filter_map(|word| word.to_str()).find(|word| args::is_negative(word))?;
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let command = forms::with_flags(Cli::command(), forms::chosen(words));
    let subcommand = words.get(1).and_then(|word| command.find_subcommand(word));
    let first = subcommand.and_then(|command| command.get_positionals().next());
    let place = first.and_then(|argument| argument.get_value_names()?.first()).map(ToString::to_string);
    let wanted = place.map_or_else(|| "a flag".to_owned(), |place| format!("{place} or a flag"));
    Some(format!(
        "error: expected {wanted}, found the negative number \"{number}\": give values behind their flag"
    ))
}

/// The complaint about a command that lacks its subcommand.
fn no_command(words: &[OsString]) -> String {
    let command = Cli::command();
    let given = words.get(1).and_then(|word| command.find_subcommand(word));
    let Some(given) = given else {
        return "error: no command given: start with `giusto demo`, or see `giusto --help`".to_owned();
    };
    let (name, known) = (given.get_name(), names(given).join(", "));
    format!("error: giusto {name} needs a command: one of {known}, or see `giusto {name} --help`")
}

fn names(command: &clap::Command) -> Vec<&str> {
    command.get_subcommands().map(clap::Command::get_name).collect()
}

/// The complaint about a command that does not exist, where one is spelt almost so.
fn misspelt(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = Cli::command();
    let near = names(&command).into_iter().min_by_key(|name| strsim::damerau_levenshtein(word, name))?;
    (strsim::damerau_levenshtein(word, near) <= 2)
        .then(|| format!("error: unknown command \"{word}\": did you mean `giusto {near}`?"))
}

/// An error message of clap in one line, and each of its tips in a line of its own, without the usage.
fn in_short(message: &str) -> String {
    let lines = message
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts: Vec<String> = Vec::new();
    for line in lines.map(words).filter(|line| !line.is_empty()) {
        match parts.last_mut() {
            Some(last) if !line.starts_with("tip: ") => last.extend([" ", &line]),
            _ => parts.push(line),
        }
    }
    // No value of ours begins with two minus signs.
    parts.retain(|part| !(part.starts_with("tip: ") && part.contains("as a value, use '--")));
    parts.join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Lines of man pages have 80 columns, and `man` begins in the eighth.
    #[test]
    fn the_exit_statuses_fit_into_man_pages() {
        let lines = EXIT_STATUS.lines().skip_while(|line| !line.starts_with("Exit status"));
        for line in lines {
            assert!(line.chars().count() <= 71, "{line}");
        }
    }

    /// A build without them has them in its help too.
    #[test]
    fn help_names_the_features_that_commands_need() {
        let help = |words: &[&str]| {
            let command = forms::with_flags(
                Cli::command(),
                forms::chosen(&words.iter().map(OsString::from).collect::<Vec<_>>()),
            );
            let help = command.try_get_matches_from(words).unwrap_err().to_string();
            help.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (words, feature) in [
            (&["giusto", "--help"][..], "notices; it needs the feature `monitor`"),
            (&["giusto", "monitor", "--help"], "notices; it needs the feature `monitor`"),
            (&["giusto", "call", "--help"], "is sent by WebRTC; it needs the feature `browser`"),
            (&["giusto", "call", "--browser", "--help"], "is sent by WebRTC; it needs the feature `browser`"),
        ] {
            assert!(help(words).contains(feature), "{words:?}: {}", help(words));
        }
    }

    #[test]
    fn a_cause_is_printed_once() {
        use std::{io, path::Path};

        use giusto::whole_file::{Content, WriteError};
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let twice = anyhow::Error::from(WriteError::io(Path::new("r.html"), Content::REPORT, full));
        let cause = "no storage space";
        assert_eq!(
            message(&twice),
            format!("r.html: cannot write the report: {cause}: free some space or choose another disk")
        );
        let hidden = anyhow::anyhow!("inner").context("outer");
        assert_eq!(message(&hidden), "outer: inner");
    }

    #[test]
    fn errors_about_flags_are_one_line_with_the_fix() {
        let complaint = |args: &[&str]| {
            let command = forms::with_flags(Cli::command(), None);
            in_short(&command.try_get_matches_from(args).unwrap_err().to_string())
        };
        assert_eq!(
            complaint(&["giusto", "send", "h:1", "--rate", "fast"]),
            "error: invalid value 'fast' for '--rate <RATE>': \"fast\" is not a rate: write a number and a unit, \
             such as \"3 Mbit/s\", or \"max\""
        );
        assert_eq!(
            complaint(&["giusto", "call", "--lisen"]),
            "error: unexpected argument '--lisen' found\n  tip: a similar argument exists: '--listen'"
        );
        // "To pass '--xyz' as a value, use '-- --xyz'" would be no help.
        assert_eq!(complaint(&["giusto", "recv", "--xyz"]), "error: unexpected argument '--xyz' found");
        assert!(!complaint(&["giusto", "send"]).contains('\n'));
    }
}
