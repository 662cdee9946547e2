//! A network of sockets: the clock, the sleeper, batched UDP with kernel timestamps, and the drivers.
//!
//! Linux only. This is the one crate that reads a clock and sleeps.
//!
//! | module | answers |
//! |---|---|
//! | [`clock`] | what time is it, and when did the kernel receive this? |
//! | [`sleeper`] | how does a thread wake on time without spinning? |
//! | [`socket`] | how do many datagrams cross in few system calls, with their stamps? |
//! | [`system`] | what did the system grant of what was asked? |
//! | [`driver`] | where do the pure state machines meet clock and sockets? |
//! | [`emulate`] | how does another program's traffic pass through our hands? |

pub mod clock;
pub mod driver;
pub mod emulate;
pub mod sleeper;
pub mod socket;
mod sys;
pub mod system;

pub use clock::{Clock, StampConverter, Synchronisation};
pub use sleeper::{SleepMode, Sleeper, SleeperConfig, SleeperReport};
pub use socket::{
    Grouping, MESSAGE_BYTES, ReceiveBatch, Received, SEGMENTS, SendCounters, SendError, SocketConfig,
    SocketError, TrafficClass, UdpSocket, Wait,
};
pub use system::{Asked, Granted, ThreadCpu};
