//! The reflecting end.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_net::{
    Clock, SocketConfig, UdpSocket,
    driver::{ReflectDriver, Verdict, stamp_clock},
};
use giusto_session::stamp::{Reflector, ReflectorConfig, ReflectorCounters};
use giusto_units::Timestamp;

use crate::measured::{RunError, own_loss, result::ReflectorResult};

impl ReflectorResult {
    /// The result of `counters` after `duration_s` seconds.
    pub(crate) fn new(counters: ReflectorCounters, unsent_packets: u64, duration_s: f64) -> Self {
        let reasons = counters.reasons().into_iter();
        Self {
            doubts: own_loss("reflector", counters.kernel_dropped, None).into_iter().collect(),
            protocol: "stamp",
            reflected_packets: counters.reflected,
            refused_dscp_packets: counters.refused_dscp,
            sessions: counters.sessions,
            unanswered_packets: reasons.map(|(name, _, packets)| (name, packets)).collect(),
            unsent_packets,
            duration_s,
            counters,
        }
    }
}

/// A Session-Reflector that listens, but does not answer yet.
#[derive(Debug)]
pub struct Reflection {
    /// The socket on which it listens.
    pub socket: UdpSocket,
    /// The clock of its timeouts.
    pub clock: Clock,
    reflector: Reflector,
    unsent: u64,
}

impl Reflection {
    /// Opens the socket at `address`.
    ///
    /// # Errors
    ///
    /// [`RunError::Socket`] where the address is not available.
    pub fn open(address: SocketAddr, config: ReflectorConfig) -> Result<Self, RunError> {
        let socket_config = SocketConfig { receive_ttl: true, ..SocketConfig::default() };
        let socket = UdpSocket::bind(address, &socket_config)?;
        let reflector = Reflector::new(config, stamp_clock());
        Ok(Self { socket, clock: Clock::start(), reflector, unsent: 0 })
    }

    /// Reflects on the calling thread until `stop` is set or `on_turn` returns [`Verdict::Stop`]. See
    /// [`ReflectDriver::run`].
    ///
    /// # Errors
    ///
    /// [`RunError::Receive`] if the socket fails.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        on_turn: impl FnMut(&Reflector, Option<SocketAddr>) -> Verdict,
    ) -> Result<(), RunError> {
        let mut driver = ReflectDriver::new(&self.socket, self.clock);
        let outcome = driver.run(&mut self.reflector, stop, on_turn);
        self.unsent += driver.unsent();
        Ok(outcome?)
    }

    /// The reflector, with its counts.
    pub fn reflector(&self) -> &Reflector {
        &self.reflector
    }

    /// The result, if it has reflected since `start`.
    pub fn result(&self, start: Timestamp) -> ReflectorResult {
        let seconds = (self.clock.now() - start).as_seconds();
        ReflectorResult::new(self.reflector.counters(), self.unsent, seconds)
    }
}
