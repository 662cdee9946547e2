//! The reflecting end.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_net::{
    Clock, SocketConfig, UdpSocket,
    driver::{ReflectDriver, Verdict, stamp_clock},
};
use giusto_session::stamp::{Reflector, ReflectorConfig};

use crate::measured::RunError;

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

    /// Answers that the system did not take.
    pub fn unsent_packets(&self) -> u64 {
        self.unsent
    }
}
