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

use giusto_units::Timestamp;

use crate::{radio::link::Direction, terminal::Environment};

pub use adaptation::{OuterLoop, Prediction, Report};
pub use channel::{Channel, Delivered, MacCounters, Population, RadioUser};
pub use downlink::{Downlink, DownlinkConfig};
pub use harq::MAX_TRANSMISSIONS;
pub use uplink::{Uplink, UplinkConfig};

/// The schedulers of all cells in one direction.
pub trait Radio: Send {
    /// The direction.
    const DIRECTION: Direction;

    /// Processes the millisecond that begins at `now`, number `ms`. Appends the packets that are complete by now to `delivered`.
    fn tick(
        &mut self,
        now: Timestamp,
        ms: u64,
        environment: &Environment,
        population: &mut Population,
        delivered: &mut Vec<Delivered>,
    );
}
