#![doc = include_str!("../README.md")]
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | the clock, and kernel receive timestamps on it |
//! | [`sleeper`] | a thread that wakes on time with little spinning |
//! | [`socket`] | UDP sockets that send and receive many datagrams per system call |
//! | [`system`] | what the system granted |
//! | [`driver`] | the loops that give state machines a clock and sockets |
//! | [`group`] | a program and all that it starts, which end with this process |
//! | [`encoder`] | a video encoder as a child process |
//! | [`http`] | one text over HTTP, for monitoring |
//! | [`emulate`] | a relay that measures another program's traffic |

pub mod clock;
pub mod driver;
pub mod emulate;
pub mod encoder;
mod eyeballs;
pub mod group;
mod hangups;
pub mod http;
mod realtime;
pub mod sleeper;
pub mod socket;
mod sys;
pub mod system;
mod tcp;

pub use clock::{Clock, StampConverter};
pub use eyeballs::{ATTEMPT_DELAY, connect_first, in_turns};
pub use giusto_pace::SleepMode;
pub use hangups::Hangups;
pub use sleeper::{Sleeper, SleeperConfig, SleeperReport};
pub use socket::{
    DepartureLag, Grouping, Launch, LaunchError, MESSAGE_BYTES, PathOptions, ReceiveBatch, Received,
    SEGMENTS, SendCounters, SendError, SocketConfig, SocketError, TrafficClass, UdpSocket, Wait, connect_tcp,
    is_passing,
};
pub use sys::{ReceiveBuffer, Synchronisation};
pub use system::{Asked, Granted, Stamper, ThreadCpu};
pub use tcp::{TcpFigures, await_readable};
