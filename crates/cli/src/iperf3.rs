//! iperf3 at the far end: its client and its server of UDP streams.

use std::{process::ExitCode, sync::atomic::AtomicBool};

use crate::{recv::RecvArgs, send::SendArgs, usage::misuse};

pub(crate) fn send(_args: &SendArgs, _stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    misuse!("--protocol iperf3: not available yet");
}

pub(crate) fn serve(_args: &RecvArgs, _stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    misuse!("--accept iperf3: not available yet");
}
