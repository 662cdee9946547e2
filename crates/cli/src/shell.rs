//! `giusto completions` and `giusto man`: what a shell and `man` need to know about the command.

use std::{fs, io, path::Path, process::ExitCode};

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

/// Prints the completions of `command`.
pub(crate) fn completions(shell: Shell, mut command: Command) -> ExitCode {
    clap_complete::generate(shell, &mut command, "giusto", &mut io::stdout());
    ExitCode::SUCCESS
}

/// Writes a page for `command` and one for each of its subcommands to `directory`.
pub(crate) fn man(directory: &Path, command: Command) -> anyhow::Result<ExitCode> {
    let place = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("{place}: cannot make the directory"))?;
    clap_mangen::generate_to(command, directory).with_context(|| {
        format!("{place}: cannot write the pages: choose a directory that you may write to")
    })?;
    Ok(ExitCode::SUCCESS)
}
