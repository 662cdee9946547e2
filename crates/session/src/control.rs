//! Which datagrams are messages of a giusto session.

use crate::{call, envelope::MAGIC, probe};

/// Whether a datagram is a message of a giusto session, such as of its handshake, a Ping or its end: it carries neither media nor a
/// stream.
pub fn is_control(datagram: &[u8]) -> bool {
    let kinds = [probe::wire::CONTROL_KINDS, call::CONTROL_KINDS];
    matches!(datagram, [a, b, c, kind, ..] if [*a, *b, *c] == MAGIC && kinds.as_flattened().contains(kind))
}
