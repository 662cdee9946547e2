//! The MTU of the path of streams: fragments are forbidden, and it is found by probes.

use std::{
    iter,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto_net::{
    Clock, UdpSocket,
    driver::{Conversation, ConversationEvent},
};
use giusto_session::{
    path_mtu::{PathMtuFigures, PathMtuSearch},
    probe::wire::SenderFigures,
};
use giusto_units::DataSize;

use crate::measured::{RunError, plan::ResolvedPlan};

/// The MTU of the first link where the system does not say: that of Ethernet (RFC 894).
pub(crate) const DEFAULT_LINK_MTU: u64 = 1500;

/// The search for the MTU of the path of one stream, if the plan has it.
pub(super) fn search(
    plan: &ResolvedPlan,
    clock: Clock,
    socket: &UdpSocket,
    to: SocketAddr,
) -> Option<PathMtuSearch> {
    plan.plan().mtu_discovery.then(|| {
        let mtu = socket.link_mtu().or(socket.path_mtu()).map_or(DEFAULT_LINK_MTU, DataSize::as_bytes);
        PathMtuSearch::new(clock.now(), to.ip().to_canonical().is_ipv6(), mtu)
    })
}

/// Finds it before the stream begins, if the plan has it; returns what else happened meanwhile.
///
/// # Errors
///
/// [`RunError`] where nothing is found, or the datagrams do not fit.
pub(super) fn find(
    plan: &ResolvedPlan,
    to: SocketAddr,
    conversation: &mut Conversation<'_>,
    stop: &AtomicBool,
) -> Result<Vec<ConversationEvent>, RunError> {
    let mut events = Vec::new();
    if plan.plan().mtu_discovery {
        conversation.find_path_mtu(stop, |event| events.push(event));
        let is_over = stop.load(Ordering::Relaxed);
        let found = (0..).map_while(|stream| conversation.path_mtu(stream));
        let fits = if is_over { Err(RunError::Interrupted) } else { check_size(plan, to, found) };
        if fits.is_err() {
            // Nothing follows: the far end need not wait for it.
            conversation.finish(iter::repeat_with(SenderFigures::default), |_| {});
        }
        fits?;
    }
    Ok(events)
}

/// Forbids fragments of the stream, as planned. Messages meanwhile fit every path: they have at most 280 bytes.
pub(super) fn forbid_fragments(plan: &ResolvedPlan, sockets: &[UdpSocket]) -> Result<(), RunError> {
    if plan.plan().mtu_discovery {
        sockets.iter().try_for_each(UdpSocket::probe_path)?;
    } else if plan.plan().dont_fragment {
        sockets.iter().try_for_each(|socket| socket.forbid_fragments(true))?;
    }
    Ok(())
}

/// Checks that the datagrams fit the paths that were found.
fn check_size(
    plan: &ResolvedPlan,
    to: SocketAddr,
    found: impl Iterator<Item = PathMtuFigures>,
) -> Result<(), RunError> {
    for found in found {
        let (Some(most), Some(mtu)) = (found.payload_bytes, found.mtu_bytes) else {
            return Err(RunError::NoMtu { to });
        };
        if let Some(payload) = plan.request(None).size.map(DataSize::as_bytes).filter(|size| *size > most) {
            return Err(RunError::AboveFoundMtu { to, payload, mtu, most });
        }
    }
    Ok(())
}

/// After the stream: its last message passes whatever the MTU of the path is.
pub(super) fn permit_fragments(sockets: &[UdpSocket]) {
    for socket in sockets {
        // Where the system refuses, the message may be too long for the path.
        let _ = socket.forbid_fragments(false);
    }
}
