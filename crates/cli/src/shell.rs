//! `giusto completions` and `giusto man`: what a shell and `man` need to know about the command.

use std::{fs, io, path::Path, process::ExitCode};

use clap::Command;
use clap_complete::Shell;

use crate::{console::print_text, usage::UsageError};

/// Prints the completions of `command`.
pub(crate) fn completions(shell: Shell, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "giusto", &mut text);
    print_text(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for `command` and one for each of its subcommands to `directory`.
pub(crate) fn man(directory: &Path, command: Command) -> anyhow::Result<ExitCode> {
    let unusable = |what: &str, error: io::Error| {
        let fix = "choose a directory that you may write to";
        UsageError::new(format!("{}: cannot {what}: {error}: {fix}", directory.display()))
    };
    fs::create_dir_all(directory).map_err(|error| unusable("make the directory", error))?;
    clap_mangen::generate_to(command, directory).map_err(|error| unusable("write the pages", error))?;
    Ok(ExitCode::SUCCESS)
}
