//! Loops that connect the state machines to a clock and sockets.
//!
//! | driver | drives |
//! |---|---|
//! | [`transmit`] | schedules, in the thread that sends on time |
//! | [`Driver`] | every [`Session`](giusto_session::Session) whose socket is connected: giusto's, STAMP's, RTCP of RTP's |
//! | [`Conversation`] | [`session::Sender`](giusto_session::probe::Sender): opening, clock requests, reports, the end |
//! | [`Gatherer`] | state machines that take datagrams of several sockets |
//! | [`ControlConnection`], [`ControlListener`] | state machines of iperf3's control connection |
//! | [`ReceiveDriver`] | [`session::Receiver`](giusto_session::probe::Receiver): the receiving endpoint |
//! | [`CallDriver`] | [`session::Calls`](giusto_session::call::Calls): media sessions |
//! | [`ReflectDriver`] | [`session::Reflector`](giusto_session::stamp::Reflector): a STAMP reflector |

mod ahead;
mod call;
mod control;
mod converse;
mod flow;
mod gather;
mod nap;
mod receive;
mod reflect;
mod resolve;
mod roam;
mod session;
mod shared;
mod transmit;

pub use call::{CallDriver, CallDriverReport, Tap};
pub use control::{ControlConnection, ControlListener, LEAVING};
pub use converse::{Conversation, ConversationEvent};
pub use flow::{Flow, FlowEnd, FlowOutcome};
pub use gather::Gatherer;
pub use receive::{ReceiveDriver, ReceiveError, Verdict, pass_on};
pub use reflect::{ReflectDriver, stamp_clock};
pub use resolve::Resolver;
pub use roam::{LONG_SILENCE, Roam};
pub use session::{Driver, Link};
pub use transmit::{rehearse, transmit};

use std::os::unix::fs::MetadataExt;

use giusto_session::probe::LocalClock;

use crate::Clock;

/// Our clock, with what the other end of a session must not know.
pub fn local_clock(clock: Clock) -> LocalClock {
    let synchronised = Clock::synchronisation().ok().filter(|state| state.synchronised);
    LocalClock {
        boot: monotonic_clock_id(),
        origin_monotonic_ns: clock.origin_monotonic_nanos(),
        origin_unix_ns: clock.origin_realtime_nanos(),
        synchronised_within_ns: synchronised.map(|state| state.maximum_error_us.saturating_mul(1_000)),
    }
}

/// The random identifier of this machine since its boot, 122 of its 128 bits random, with the number of the time namespace, in which
/// the monotonic clock may have an offset (`time_namespaces(7)`); `None` if the system provides none.
fn monotonic_clock_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    (digits.len() == 32).then_some(())?;
    let boot = u128::from_str_radix(&digits, 16).ok().filter(|id| *id != 0)?;
    // A kernel without time namespaces has one clock.
    let namespace = std::fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino());
    Some((boot ^ u128::from(namespace)).to_be_bytes())
}
