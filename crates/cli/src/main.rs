//! The `giusto` command.

use std::process::ExitCode;

// Many small objects live for different times in a simulation: this allocator keeps them closer together than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    giusto_cli::run(std::env::args_os())
}
