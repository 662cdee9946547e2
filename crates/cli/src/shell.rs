//! `giusto completions` and `giusto man`: what a shell and `man` need to know about the command.

use std::{fs, io, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

/// Flags of `giusto completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto completions bash > ~/.local/share/bash-completion/completions/giusto
  giusto completions zsh > \"${fpath[1]}/_giusto\"
  giusto completions fish > ~/.config/fish/completions/giusto.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the completions
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `giusto man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  giusto man ~/.local/share/man/man1 && man giusto-sim")]
pub(crate) struct ManArgs {
    /// Directory to write the pages to
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completions of `command`.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    clap_complete::generate(args.shell, &mut command, "giusto", &mut io::stdout());
    ExitCode::SUCCESS
}

/// Writes a page for `command` and one for each of its subcommands.
pub(crate) fn man(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let place = args.dir.display();
    fs::create_dir_all(&args.dir).with_context(|| format!("{place}: cannot make the directory"))?;
    clap_mangen::generate_to(command, &args.dir).with_context(|| {
        format!("{place}: cannot write the pages: choose a directory that you may write to")
    })?;
    Ok(ExitCode::SUCCESS)
}
