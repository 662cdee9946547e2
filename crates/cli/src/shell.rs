//! `giusto completions`, `giusto man` and `giusto schema`: what a shell, `man` and an editor need to know.

use std::{fs, path::Path, process::ExitCode};

use clap::{
    Command,
    builder::{PossibleValue, PossibleValuesParser},
};
use clap_complete::Shell;
use giusto::{
    scenario,
    whole_file::{Content, WriteError},
};

use crate::{
    console::{print_json, print_text},
    usage::UsageError,
};

/// Prints the completions of `command`, with the keys of scenarios for `--set`.
pub(crate) fn completions(shell: Shell, mut command: Command) -> anyhow::Result<ExitCode> {
    let path = |path: String| PossibleValue::new(&*format!("{path}=").leak());
    let paths: Vec<PossibleValue> = scenario::setting_paths().into_iter().map(path).collect();
    let has_set = |command: &&Command| command.get_arguments().any(|flag| flag.get_id() == "set");
    let names: Vec<String> =
        command.get_subcommands().filter(has_set).map(|own| own.get_name().to_owned()).collect();
    for name in names {
        let parser = PossibleValuesParser::new(paths.clone());
        command = command.mut_subcommand(name, |own| own.mut_arg("set", |flag| flag.value_parser(parser)));
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "giusto", &mut text);
    print_text(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for `command` and one for each of its subcommands to `directory`.
pub(crate) fn man(directory: &Path, command: Command) -> anyhow::Result<ExitCode> {
    let pages = Content { name: "man pages", example: "giusto.1" };
    let unusable = |error| UsageError::of_file("man:", WriteError::io(directory, pages, error));
    fs::create_dir_all(directory).map_err(unusable)?;
    clap_mangen::generate_to(command, directory).map_err(unusable)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON schema of scenario files.
pub(crate) fn schema() -> anyhow::Result<ExitCode> {
    print_json(&scenario::schema())?;
    Ok(ExitCode::SUCCESS)
}
