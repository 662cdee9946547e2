//! The state of one user in one direction, and the users of all cells.

use giusto_sim::packet::Packet;
use giusto_units::{DataRate, Timestamp};

use super::{
    adaptation::{OuterLoop, Report},
    harq::{Block, MAX_TRANSMISSIONS, PROCESSES, Process},
    status::BufferStatus,
};
use crate::{
    bearer::Bearer,
    radio::{layout::CELLS, link::Direction},
    terminal::Terminal,
};

/// An average rate that has not been updated for this many windows is at its minimum: 0.99^2000 is 2e-9.
const FORGOTTEN_WINDOWS: u64 = 20;

/// A packet delivered to the far end of a bearer of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The user's place in the [`Population`].
    pub user: u32,
    /// The packet.
    pub packet: Packet,
}

/// Counters of a direction since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MacCounters {
    /// First transmissions of transport blocks.
    pub first_blocks: u64,
    /// First transmissions that failed.
    pub first_failed: u64,
    /// All transmissions of transport blocks.
    pub blocks: u64,
    /// Blocks that failed in every transmission.
    pub lost_blocks: u64,
    /// Bits of decoded transport blocks, headers included.
    pub decoded_bits: u64,
    /// Resource block groups used, in all cells.
    pub used_groups: u64,
    /// Resource block groups there were.
    pub groups: u64,
    /// Transmissions with two streams (downlink).
    pub two_streams: u64,
    /// Transmissions.
    pub transmissions: u64,
}

impl MacCounters {
    /// Share of first transmissions that failed.
    pub fn first_error_ratio(&self) -> f64 {
        self.first_failed as f64 / (self.first_blocks as f64).max(1.0)
    }

    /// Share of the resource blocks that was used.
    pub fn used_ratio(&self) -> f64 {
        self.used_groups as f64 / (self.groups as f64).max(1.0)
    }
}

giusto_units::defaults! {
    /// What the base station knows and holds of one user in one direction.
    #[derive(Debug)]
    pub struct Channel {
        /// The packets.
        pub bearer: Bearer = bearer,
        pub(super) report: Report = Report::default(),
        /// When the report was measured, in ms.
        pub(super) measured: Option<u64> = None,
        pub(super) outer: OuterLoop = OuterLoop::default(),
        /// Average rate in bits per ms, and the time up to which it counts, in ms.
        average: f32 = 1.0,
        averaged: u64 = 0,
        /// Time constant of the average in ms.
        window_ms: u16 = window_ms.max(1),
        pub(super) processes: [Process; PROCESSES] = std::array::from_fn(|_| Process::default()),
        /// A bit for each process that holds a block, and for each whose retransmission is due.
        pub(super) holding: u8 = 0,
        pub(super) retransmit: u8 = 0,
        /// Changes with every handover and every user of a place, after which earlier grants and results do not count.
        pub(super) epoch: u32 = 0,
        /// SINR in dB of the last transmission, an average over its resource blocks.
        pub(super) sinr_db: f32 = f32::NAN,
        /// Uplink: a path gain and the transmit power that it asks for.
        pub(super) power: (f32, f32) = (0.0, 0.0),
        /// Uplink: what the base station knows of the queue.
        pub(super) status: BufferStatus = BufferStatus::default(),
    }
    /// A channel with nothing to send, whose average rate has a time constant of `window_ms`.
    pub fn new(bearer: Bearer, window_ms: u16);
}

impl Channel {
    /// SINR in dB of the last transmission, averaged over its resource blocks; NaN before the first one. Downlink: of an antenna,
    /// before the streams are separated. Uplink: behind the equaliser.
    pub fn sinr_db(&self) -> f32 {
        self.sinr_db
    }

    /// Average rate over the window of proportional fair scheduling, at `ms`.
    pub fn average_rate(&mut self, ms: u64) -> DataRate {
        DataRate::from_bps((self.average(ms) * 1000.0) as u64)
    }

    /// Average rate in bits per ms before the millisecond `ms`.
    pub(super) fn average(&mut self, ms: u64) -> f32 {
        let idle = ms.saturating_sub(self.averaged);
        if idle > 0 {
            self.averaged = ms;
            // By squaring: the same on every machine.
            let mut factor = 1.0 - self.weight();
            let mut left = idle.min(FORGOTTEN_WINDOWS * u64::from(self.window_ms));
            while left > 0 {
                if left & 1 == 1 {
                    self.average *= factor;
                }
                factor *= factor;
                left >>= 1;
            }
            self.average = self.average.max(1.0);
        }
        self.average
    }

    /// Weight of a new value in the average rate.
    fn weight(&self) -> f32 {
        1.0 / f32::from(self.window_ms)
    }

    /// Counts the bits scheduled in the millisecond `ms`. Milliseconds without a call count as 0.
    pub(super) fn on_scheduled(&mut self, ms: u64, bits: u32) {
        self.average(ms);
        self.average += self.weight() * (bits as f32 - self.average);
        self.averaged = ms + 1;
    }

    /// Whether nothing waits and nothing is to be sent again, now or later.
    pub(super) fn is_idle(&self) -> bool {
        self.retransmit == 0 && self.status.is_idle() && self.bearer.is_idle()
    }

    /// Puts blocks into process `place`.
    pub(super) fn hold(&mut self, place: usize) {
        self.holding |= 1 << place;
    }

    /// The receiver has decoded what process `place` sent: passes the content of decoded blocks on.
    pub(super) fn on_decoded(&mut self, place: usize, delivered: &mut Vec<Packet>) {
        let Some(process) = self.processes.get_mut(place) else { return };
        for block in process.blocks.iter_mut().flatten().filter(|block| block.decoded && !block.delivered) {
            block.delivered = true;
            self.bearer.receive(&block.content, delivered);
            if let Some(report) = block.report {
                self.status.received(report);
            }
        }
    }

    /// The sender of process `place` knows the results.
    pub(super) fn on_feedback(
        &mut self,
        now: Timestamp,
        place: usize,
        counters: &mut MacCounters,
        delivered: &mut Vec<Packet>,
    ) {
        let Some(process) = self.processes.get_mut(place) else { return };
        for slot in &mut process.blocks {
            let Some(block) = slot else { continue };
            if block.transmissions == 1 {
                self.outer.on_result(block.decoded);
                counters.first_blocks += 1;
                counters.first_failed += u64::from(!block.decoded);
            }
            if block.decoded {
                counters.decoded_bits += u64::from(block.bits);
                *slot = None;
            } else if block.transmissions >= MAX_TRANSMISSIONS {
                counters.lost_blocks += 1;
                self.bearer.lose(now, &block.content, delivered);
                *slot = None;
            }
        }
        if process.is_free() {
            self.holding &= !(1 << place);
        } else {
            self.retransmit |= 1 << place;
        }
    }

    /// The user is served by another cell from now on: what was in the air is sent again.
    pub(super) fn hand_over(&mut self, now: Timestamp, delivered: &mut Vec<Packet>) {
        self.epoch += 1;
        for place in 0..PROCESSES {
            self.on_decoded(place, delivered);
        }
        for process in &mut self.processes {
            for block in process.blocks.iter_mut().filter_map(Option::take) {
                let Block { content, delivered, .. } = block;
                if !delivered {
                    self.bearer.forward(now, &content);
                }
            }
            *process = Process::default();
        }
        (self.holding, self.retransmit, self.measured) = (0, 0, None);
        self.outer = OuterLoop::default();
        self.status.hand_over(self.bearer.backlog(now));
    }
}

/// A user as the radio sees it.
#[derive(Debug)]
pub struct RadioUser {
    /// Place and path gains.
    pub terminal: Terminal,
    /// Downlink, if it is modelled.
    pub downlink: Option<Channel>,
    /// Uplink, if it is modelled.
    pub uplink: Option<Channel>,
}

impl RadioUser {
    /// The channel in `direction`.
    pub fn channel_mut(&mut self, direction: Direction) -> Option<&mut Channel> {
        match direction {
            Direction::Downlink => self.downlink.as_mut(),
            Direction::Uplink => self.uplink.as_mut(),
        }
    }

    fn channels_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.downlink.iter_mut().chain(self.uplink.iter_mut())
    }

    /// The channel in `direction`.
    pub fn channel(&self, direction: Direction) -> Option<&Channel> {
        match direction {
            Direction::Downlink => self.downlink.as_ref(),
            Direction::Uplink => self.uplink.as_ref(),
        }
    }
}

giusto_units::defaults! {
    /// All users, and which cell serves whom.
    #[derive(Debug)]
    pub struct Population {
        users: Vec<Option<RadioUser>> = Vec::new(),
        free: Vec<u32> = Vec::new(),
        members: [Vec<u32>; CELLS] = std::array::from_fn(|_| Vec::new()),
        /// Per place and direction: whether the scheduler has something to do. Most users are idle in most milliseconds.
        busy: Vec<[bool; 2]> = Vec::new(),
        /// Per place: the epoch of the next user's channels. What is under way for one that has left does not reach it.
        epochs: Vec<u32> = Vec::new(),
    }
}

impl Population {
    /// Adds a user and returns its place.
    pub fn add(&mut self, mut user: RadioUser) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.users.push(None);
            self.busy.push([false; 2]);
            self.epochs.push(0);
            self.users.len() as u32 - 1
        });
        let epoch = self.epochs.get(place as usize).copied().unwrap_or(0);
        for channel in user.channels_mut() {
            channel.epoch = epoch;
        }
        self.join(place, user.terminal.serving());
        if let Some(slot) = self.users.get_mut(place as usize) {
            *slot = Some(user);
        }
        place
    }

    /// Removes a user.
    pub fn remove(&mut self, place: u32) -> Option<RadioUser> {
        let mut user = self.users.get_mut(place as usize)?.take()?;
        let last = user.channels_mut().map(|channel| channel.epoch).max();
        if let (Some(next), Some(last)) = (self.epochs.get_mut(place as usize), last) {
            *next = last + 1;
        }
        self.leave(place, user.terminal.serving());
        self.free.push(place);
        for direction in [Direction::Downlink, Direction::Uplink] {
            self.set_busy(place, direction, false);
        }
        Some(user)
    }

    fn join(&mut self, place: u32, cell: usize) {
        if let Some(members) = self.members.get_mut(cell) {
            // In order of their places, so that the order does not depend on the past.
            let at = members.partition_point(|&other| other < place);
            members.insert(at, place);
        }
    }

    fn leave(&mut self, place: u32, cell: usize) {
        if let Some(members) = self.members.get_mut(cell) {
            members.retain(|&other| other != place);
        }
    }

    /// The user at `place`.
    pub fn get(&self, place: u32) -> Option<&RadioUser> {
        self.users.get(place as usize)?.as_ref()
    }

    /// The user at `place`.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut RadioUser> {
        self.users.get_mut(place as usize)?.as_mut()
    }

    /// Puts a packet into the bearer of the user at `place`. Returns it if there is no such bearer.
    ///
    /// # Errors
    ///
    /// The packet.
    pub fn offer(
        &mut self,
        now: Timestamp,
        place: u32,
        direction: Direction,
        packet: Packet,
    ) -> Result<(), Packet> {
        let channel = self.get_mut(place).and_then(|user| user.channel_mut(direction));
        channel.ok_or(packet)?.bearer.offer(now, packet);
        self.set_busy(place, direction, true);
        Ok(())
    }

    /// Whether the scheduler has something to do for the user at `place`.
    #[inline]
    pub(super) fn is_busy(&self, place: u32, direction: Direction) -> bool {
        self.busy.get(place as usize).is_some_and(|busy| busy.get(direction as usize) == Some(&true))
    }

    pub(super) fn set_busy(&mut self, place: u32, direction: Direction, is_busy: bool) {
        let busy = self.busy.get_mut(place as usize).and_then(|busy| busy.get_mut(direction as usize));
        if let Some(busy) = busy {
            *busy = is_busy;
        }
    }

    /// Places that are or were in use: from 0 to this.
    pub fn places(&self) -> u32 {
        self.users.len() as u32
    }

    /// The users of `cell`.
    pub fn members(&self, cell: usize) -> &[u32] {
        self.members.get(cell).map_or(&[], Vec::as_slice)
    }

    /// Moves the user at `place` from cell `from` to the cell that serves it now.
    pub fn hand_over(&mut self, now: Timestamp, place: u32, from: usize, delivered: &mut Vec<Delivered>) {
        let Some(to) = self.get(place).map(|user| user.terminal.serving()) else { return };
        self.leave(place, from);
        self.join(place, to);
        let Some(user) = self.get_mut(place) else { return };
        let mut packets = Vec::new();
        for channel in [&mut user.downlink, &mut user.uplink].into_iter().flatten() {
            channel.hand_over(now, &mut packets);
        }
        for direction in [Direction::Downlink, Direction::Uplink] {
            self.set_busy(place, direction, true);
        }
        delivered.extend(packets.into_iter().map(|packet| Delivered { user: place, packet }));
    }
}
