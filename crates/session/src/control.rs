//! Which datagrams are messages of a giusto session.

use crate::{call, envelope::MAGIC, probe};

/// Whether a datagram is a message of a giusto session, such as of its handshake, a Ping or its end: it carries neither media nor a
/// stream.
pub fn is_control(datagram: &[u8]) -> bool {
    is_one_of(datagram, &probe::wire::CONTROL_KINDS) || is_call_control(datagram)
}

/// Whether a datagram is such a message of a call.
pub fn is_call_control(datagram: &[u8]) -> bool {
    is_one_of(datagram, &call::CONTROL_KINDS)
}

fn is_one_of(datagram: &[u8], kinds: &[u8]) -> bool {
    matches!(datagram, [a, b, c, kind, ..] if [*a, *b, *c] == MAGIC && kinds.contains(kind))
}
