//! What a server spends on its clients.

use giusto_units::TimeDelta;

/// What a server spends on its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. A further one takes the place of one of the host that has the most, the oldest of those that have
    /// asked for nothing yet, or else the oldest. Default: 32, of which a browser opens six.
    pub max_connections: usize,
    /// The longest body of a request, in bytes. Default: 1 MiB.
    pub max_body: usize,
    /// Time that a client has for its header, for its body, and for reading a whole answer. Default: 5 s.
    pub timeout: TimeDelta,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_connections: 32, max_body: 1 << 20, timeout: TimeDelta::from_seconds(5) }
    }
}
