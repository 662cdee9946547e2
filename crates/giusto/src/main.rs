//! The `giusto` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    giusto::command::run(std::env::args_os())
}
