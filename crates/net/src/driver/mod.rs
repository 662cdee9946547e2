//! Loops that connect the state machines to a clock and sockets.
//!
//! | driver | drives |
//! |---|---|
//! | [`transmit`] | schedules, in the thread that sends on time |
//! | [`Conversation`] | [`session::Sender`](giusto_session::probe::Sender): opening, clock requests, reports, the end |
//! | [`Gatherer`] | state machines that take datagrams of several sockets |
//! | [`ControlConnection`], [`ControlListener`] | state machines of iperf3's control connection |
//! | [`ReceiveDriver`] | [`session::Receiver`](giusto_session::probe::Receiver): the receiving endpoint |

mod control;
mod converse;
mod gather;
mod receive;
mod transmit;

pub use control::{ControlConnection, ControlListener, LEAVING};
pub use converse::{Conversation, ConversationEvent};
pub use gather::Gatherer;
pub use receive::{ReceiveDriver, ReceiveError, Verdict};
pub use transmit::{Flow, FlowEnd, FlowOutcome, rehearse, transmit};

use giusto_session::probe::wire::ClockIdentity;

use crate::Clock;

/// The identity of our clock, for the other end.
pub fn clock_identity(clock: Clock) -> ClockIdentity {
    let synchronised = Clock::synchronisation().ok().filter(|state| state.synchronised);
    ClockIdentity {
        machine: machine(),
        origin_monotonic_ns: clock.origin_monotonic_nanos(),
        origin_unix_ns: clock.origin_realtime_nanos(),
        synchronised_within_ns: synchronised.map(|state| state.maximum_error_us.saturating_mul(1_000)),
    }
}

/// An identifier of this machine since its boot; 0 if the system provides none.
fn machine() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}
