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
