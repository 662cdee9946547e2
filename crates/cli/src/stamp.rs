//! STAMP at the far end (RFC 8762, RFC 8972): session sender and reflector.

use std::{process::ExitCode, sync::atomic::AtomicBool};

use crate::{recv::RecvArgs, send::SendArgs, usage::misuse};

pub(crate) fn send(_args: &SendArgs, _stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    misuse!("--protocol stamp: not available yet");
}

pub(crate) fn reflect(_args: &RecvArgs, _stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    misuse!("--accept stamp: not available yet");
}
