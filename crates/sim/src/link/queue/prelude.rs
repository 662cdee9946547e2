//! What every file of a discipline uses.

pub(super) use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

pub(super) use super::{
    discipline::{Discipline, Queue, sojourn},
    error::{Check, QueueError},
    fifo::{Fifo, FifoQueue, Law},
    limit::Limit,
};
pub(super) use crate::{
    packet::{DropReason, Dropped, Packet},
    random::Random,
};

/// In an implementation of [`Discipline`] for a configuration with a field `limit`: its name, its capacity, and how its queue is made.
macro_rules! discipline {
    ($name:literal, |$config:ident, $random:ident| $queue:expr) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn limit(&self) -> Limit {
            self.limit
        }

        fn queue(&self, $random: &dyn Fn() -> Random) -> Result<Box<dyn Queue>, QueueError> {
            let $config = *self;
            Ok(Box::new($queue?))
        }
    };
}

pub(super) use discipline;
