//! What the forms of commands have in common.

use std::{process::ExitCode, sync::atomic::AtomicBool};

use clap::Args;

use crate::live::LivePage;

/// The flags of a form, and what it does.
pub(crate) trait Run: Args {
    /// Runs it until it is done or `stop` is set; `page` keeps its live page for the end.
    fn run(self, stop: &AtomicBool, page: &mut Option<LivePage>) -> anyhow::Result<ExitCode>;
}
