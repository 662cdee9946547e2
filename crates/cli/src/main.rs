//! The `giusto` command: flags in, a result out.
//!
//! Results go to standard output, progress and live figures to standard error. Exit status: 0 done, 1 failed or an
//! expectation not met, 2 bad usage.

mod args;
mod cbr;
mod compare;
mod console;
mod demo;
mod files;
mod recv;
mod reproduce;
mod send;
mod sim;
mod sweep;
mod timed;

use std::{
    ffi::OsString,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::{Parser, Subcommand, error::ErrorKind};

use giusto::error::UsageError;

/// Real-time media leaves on time, and is measured where it arrives.
#[derive(Debug, Parser)]
#[command(name = "giusto", version, max_term_width = 110, after_help = "Start with: giusto demo")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send and measure a stream on loopback, and write one HTML report: the main job, nothing to configure.
    Demo(demo::DemoArgs),
    /// Send a paced UDP stream to a `giusto recv`, and show what arrived there.
    Send(Box<send::SendArgs>),
    /// Receive streams, each measured apart.
    Recv(recv::RecvArgs),
    /// Constant bit rate on loopback: rates × sizes × strategies in one table, beside other tools if asked for.
    Cbr(cbr::CbrArgs),
    /// Run a scenario in numbers alone, and see whether it is as expected.
    Sim(sim::SimArgs),
    /// Run a scenario under several congestion controllers, and lay them side by side.
    Compare(compare::CompareArgs),
    /// Run a scenario many times: with other values, with other seeds.
    Sweep(sweep::SweepArgs),
    /// Published results beside ours.
    Reproduce(reproduce::ReproduceArgs),
}

/// Runs the command that `args` ask for, and says how it went.
fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprintln!("error: no command given: begin with `giusto demo`, or see `giusto --help`");
            return ExitCode::from(2);
        }
        Err(error) if error.use_stderr() => {
            eprintln!("{}", one_line(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(help) => {
            // Help and version; a closed pipe is nobody's fault.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    if let Err(error) = console::stop_on_signals(Arc::clone(&stop)) {
        eprintln!("warning: Ctrl-C will end the run without a result: {error}");
    }
    let outcome = match cli.command {
        Command::Demo(args) => demo::run(&args, &stop),
        Command::Send(args) => send::run(&args, &stop),
        Command::Recv(args) => recv::run(&args, &stop),
        Command::Cbr(args) => cbr::run(&args, &stop),
        Command::Sim(args) => sim::run(&args, &stop),
        Command::Compare(args) => compare::run(&args, &stop),
        Command::Sweep(args) => sweep::run(&args, &stop),
        Command::Reproduce(args) => reproduce::run(&args, &stop),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::from(if error.downcast_ref::<UsageError>().is_some() { 2 } else { 1 })
        }
    }
}

/// An error and what caused it, each cause once: some errors tell theirs themselves.
fn told(error: &anyhow::Error) -> String {
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

/// The command that was given, to be given again.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once("giusto".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    if word.contains(|c: char| c.is_whitespace() || "\"'$*;&|<>(){}[]#".contains(c)) {
        format!("'{}'", word.replace('\'', "'\\''"))
    } else {
        word.to_owned()
    }
}

/// A complaint about the flags without the usage page behind it.
fn one_line(message: &str) -> String {
    let mut words = Vec::new();
    for line in message.lines() {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        words.extend(line.split_whitespace());
    }
    words.join(" ")
}

fn main() -> ExitCode {
    run(std::env::args_os())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_cause_is_told_once() {
        use std::{io, path::Path};

        use giusto::whole_file::{Content, WriteError};
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let twice = anyhow::Error::from(WriteError::io(Path::new("r.html"), Content::REPORT, full));
        let cause = "no storage space";
        assert_eq!(
            told(&twice),
            format!("r.html: cannot write the report: {cause}: free some space or choose another disk")
        );
        let hidden = anyhow::anyhow!("inner").context("outer");
        assert_eq!(told(&hidden), "outer: inner");
    }

    #[test]
    fn a_complaint_about_flags_is_one_line_with_the_mend() {
        let complaint = |args: &[&str]| one_line(&Cli::try_parse_from(args).unwrap_err().to_string());
        assert_eq!(
            complaint(&["giusto", "send", "h:1", "--rate", "fast"]),
            "error: invalid value 'fast' for '--rate <RATE>': \"fast\" is not a rate: write a number and a unit, \
             such as \"3 Mbit/s\", or \"max\""
        );
        assert!(complaint(&["giusto", "send", "h:1", "--duratoin", "1s"]).contains("'--duration'"));
        assert!(!complaint(&["giusto", "send"]).contains('\n'));
    }
}
