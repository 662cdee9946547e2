//! The receiving end: a socket, a secret, and a receiver behind it.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_net::{
    Clock, Granted, SocketConfig, SocketError, UdpSocket,
    driver::{ReceiveDriver, ReceiveError, Verdict, clock_identity},
};
use giusto_session::probe::{Passive, Receiver, ReceiverConfig, ReceiverEvent};
use giusto_units::{DataRate, TimeDelta};
use rand::{TryRng, rngs::SysRng};

/// How a receiving end is set up.
#[derive(Debug, Clone)]
pub struct ReceptionConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// Streams at once.
    pub max_streams: usize,
    /// Streams at once from one address.
    pub max_streams_per_host: usize,
    /// Faster streams are refused.
    pub max_rate: Option<DataRate>,
    /// A stream that is silent for so long has ended.
    pub idle_timeout: TimeDelta,
    /// What unannounced datagrams are taken for.
    pub passive: Option<Passive>,
    /// Let the kernel hand over runs of datagrams as one.
    pub offload: bool,
}

impl ReceptionConfig {
    /// The defaults, at `address`.
    pub fn at(address: SocketAddr) -> Self {
        let defaults = ReceiverConfig::new([0; 32], giusto_session::probe::wire::ClockIdentity::default());
        Self {
            address,
            max_streams: defaults.max_streams,
            max_streams_per_host: defaults.max_streams_per_host,
            max_rate: defaults.max_rate,
            idle_timeout: defaults.idle_timeout,
            passive: defaults.passive,
            offload: true,
        }
    }
}

/// Why there is no receiving end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceptionError {
    /// The address cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The system no longer lets us receive.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The system gave no secret.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

/// A receiving end that listens, and has not begun to receive.
#[derive(Debug)]
pub struct Reception {
    socket: UdpSocket,
    clock: Clock,
    receiver: Receiver,
}

impl Reception {
    /// Listens.
    ///
    /// # Errors
    ///
    /// [`ReceptionError`] where the address cannot be had.
    pub fn open(config: &ReceptionConfig) -> Result<Self, ReceptionError> {
        let socket_config = SocketConfig { gro: config.offload, ..SocketConfig::default() };
        let socket = UdpSocket::bind(config.address, &socket_config)?;
        let clock = Clock::start();
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret).map_err(|error| ReceptionError::Random(error.to_string()))?;
        let receiver = Receiver::new(ReceiverConfig {
            max_streams: config.max_streams,
            max_streams_per_host: config.max_streams_per_host,
            max_rate: config.max_rate,
            idle_timeout: config.idle_timeout,
            passive: config.passive,
            ..ReceiverConfig::new(secret, clock_identity(clock))
        });
        Ok(Self { socket, clock, receiver })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// What the system granted.
    pub fn granted(&self) -> &Granted {
        self.socket.granted()
    }

    /// The clock that arrivals are told by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Receives on the calling thread until `stop` is set or `on_event` has had enough. See [`ReceiveDriver::run`].
    ///
    /// # Errors
    ///
    /// [`ReceptionError::Receive`]; the streams have been ended, and their events given.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        on_event: impl FnMut(&mut Receiver, Option<ReceiverEvent>) -> Verdict,
    ) -> Result<(), ReceptionError> {
        Ok(ReceiveDriver::new(&self.socket, self.clock).run(&mut self.receiver, stop, on_event)?)
    }
}
