//! Medium access control: link adaptation, HARQ, scheduling.

mod adaptation;
mod channel;
mod downlink;
mod harq;
mod ladder;
mod memory;
mod results;
mod status;
mod uplink;

pub use adaptation::{OuterLoop, Prediction, Report};
pub use channel::{Channel, Delivered, MacCounters, Population, RadioUser};
pub use downlink::{Downlink, DownlinkConfig};
pub use harq::MAX_TRANSMISSIONS;
pub use uplink::{Uplink, UplinkConfig};
