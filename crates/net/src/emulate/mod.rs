//! Other programs' traffic: measured, or across the simulator's links in real time.
//!
//! A [`StampingRelay`] forwards datagrams between a client and a server on this machine and timestamps each
//! of them.
//!
//! With the feature `emulate`, [`run`] drives the simulator's links in real time: an [`Emulator`] decides when each packet comes out,
//! a [`Shell`] receives and sends the packets. [`UdpRelay`] is the shell of UDP sockets, [`TunShell`] that of a network namespace.

#[cfg(feature = "emulate")]
mod child;
mod connections;
#[cfg(feature = "emulate")]
mod emulator;
#[cfg(feature = "emulate")]
pub mod ip;
#[cfg(feature = "emulate")]
mod live;
#[cfg(feature = "emulate")]
mod namespace;
#[cfg(feature = "emulate")]
mod offload;
mod relay;
mod run;
mod shared;
#[cfg(feature = "emulate")]
mod tun;
#[cfg(feature = "emulate")]
mod udp;

#[cfg(feature = "emulate")]
pub use child::Supervised;
#[cfg(feature = "emulate")]
pub use emulator::{Arrival, Delivery, Emulator, EmulatorCounters, EmulatorError, MAX_ROUTES};
#[cfg(feature = "emulate")]
pub use live::{LiveConfig, LiveReport, Sent, Shell, Start, StartSignal, run};
#[cfg(feature = "emulate")]
pub use namespace::{Namespace, NamespaceError, enter_user_namespace, may_configure_network};
#[cfg(feature = "emulate")]
pub use offload::Piece;
pub use relay::{Observed, RelayConfig, RelayReport, StampingRelay, free_port};
pub use run::DatagramRun;
pub use shared::RelayError;
#[cfg(feature = "emulate")]
pub use tun::{InterfaceError, TunConfig, TunDevice, TunShell};
#[cfg(feature = "emulate")]
pub use udp::{UdpPair, UdpRelay, UdpRelayReport};

/// Changes one bit, which `random` selects; nothing of what is empty.
#[cfg(feature = "emulate")]
fn flip(bytes: &mut [u8], random: u32) {
    let bit = (random as usize).checked_rem(bytes.len() * 8).unwrap_or(0);
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}
