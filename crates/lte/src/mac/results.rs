//! Results of transmissions: what is decoded and acknowledged, each in its millisecond.

use giusto_sim::packet::Packet;
use giusto_units::Timestamp;

use super::{
    channel::{Channel, Delivered, MacCounters, Population},
    harq::{Calendar, DECODE_MS, Pending, ROUND_TRIP_MS},
};
use crate::radio::link::Direction;

/// The results that are still to come in one direction.
#[derive(Debug)]
pub(super) struct Results {
    direction: Direction,
    decoding: Calendar<Pending>,
    feedback: Calendar<Pending>,
    pending: Vec<Pending>,
    packets: Vec<Packet>,
}

impl Results {
    pub(super) fn new(direction: Direction) -> Self {
        Self {
            direction,
            decoding: Calendar::new(DECODE_MS as usize),
            feedback: Calendar::new(ROUND_TRIP_MS as usize),
            pending: Vec::new(),
            packets: Vec::new(),
        }
    }

    /// Expects the results of a transmission at `ms`.
    pub(super) fn expect(&mut self, ms: u64, pending: Pending) {
        self.decoding.add(ms + DECODE_MS, pending);
        self.feedback.add(ms + ROUND_TRIP_MS, pending);
    }

    /// Handles the results that are due.
    pub(super) fn handle(
        &mut self,
        now: Timestamp,
        ms: u64,
        population: &mut Population,
        counters: &mut MacCounters,
        delivered: &mut Vec<Delivered>,
    ) {
        let is_uplink = self.direction == Direction::Uplink;
        self.decoding.take(ms, &mut self.pending);
        for &Pending { user, epoch, process } in &self.pending {
            let Some(channel) = channel_of(population, self.direction, user, epoch) else { continue };
            channel.on_decoded(process, &mut self.packets);
            if is_uplink {
                population.set_busy(user, self.direction, true);
            }
            delivered.extend(self.packets.drain(..).map(|packet| Delivered { user, packet }));
        }
        self.feedback.take(ms, &mut self.pending);
        for &Pending { user, epoch, process } in &self.pending {
            let Some(channel) = channel_of(population, self.direction, user, epoch) else { continue };
            channel.on_feedback(now, process, counters, &mut self.packets);
            if is_uplink || !channel.is_idle() {
                population.set_busy(user, self.direction, true);
            }
            delivered.extend(self.packets.drain(..).map(|packet| Delivered { user, packet }));
        }
    }
}

/// The channel of `user`, unless it has changed since `epoch`.
pub(super) fn channel_of(
    population: &mut Population,
    direction: Direction,
    user: u32,
    epoch: u32,
) -> Option<&mut Channel> {
    population.get_mut(user)?.channel_mut(direction).filter(|channel| channel.epoch == epoch)
}
