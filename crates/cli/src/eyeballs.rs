//! Which address of a host is used: that which answers first ("happy eyeballs", RFC 8305).

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto::measured::{RunError, race::in_turns};

/// The address whose far end answers first. `far_end`: what it is, and the command that starts it.
///
/// # Errors
///
/// Where none does.
pub(crate) fn first<E: std::error::Error + Send + Sync + 'static>(
    addresses: &[SocketAddr],
    far_end: (&str, &str),
    race: impl FnOnce(&[SocketAddr]) -> Result<Option<SocketAddr>, E>,
    stop: &AtomicBool,
) -> anyhow::Result<SocketAddr> {
    let in_turns = in_turns(addresses);
    match race(&in_turns)? {
        Some(first) => Ok(first),
        None if stop.load(Ordering::Relaxed) => Err(RunError::Interrupted.into()),
        None => {
            let all: Vec<_> = in_turns.iter().map(SocketAddr::to_string).collect();
            let (name, command) = far_end;
            anyhow::bail!(
                "no {name} answered at {}: start `{command}` there, or check addresses, port and firewall",
                all.join(", ")
            )
        }
    }
}
