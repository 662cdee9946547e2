//! The `giusto` command.

fn main() {}
