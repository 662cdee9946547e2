//! What a server spends on its clients.

use giusto_units::TimeDelta;

giusto_units::defaults! {
    /// What a server spends on its clients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Limits {
        /// Connections at a time. A further one takes the place of one of the host that has the most, the oldest of those that have
        /// asked for nothing yet, or else the oldest. Default: 32, of which a browser opens six.
        pub max_connections: usize = 32,
        /// The longest body of a request, in bytes. Default: 1 MiB.
        pub max_body: usize = 1 << 20,
        /// Time that a client has for its header, for its body, and for reading a whole answer. Default: 5 s.
        pub timeout: TimeDelta = TimeDelta::from_seconds(5),
    }
}
