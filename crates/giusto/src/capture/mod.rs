//! What a run leaves besides its record: a session log of one controller, its packets as pcapng, its course as a Chrome trace.

mod call;
mod chrome;
mod outputs;
mod pcapng;
mod tap;
#[cfg(test)]
mod tests;

pub use call::CallCapture;
pub use chrome::ChromeTrace;
pub(crate) use outputs::session_info;
pub use outputs::{OutputError, Outputs};
pub use pcapng::{Capture, Direction, UdpDatagram};
