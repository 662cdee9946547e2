//! Contention for a Wi-Fi channel, frames and acknowledgements.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use super::{
    config::{Access, MediumError, Station, WifiConfig},
    phy::Phy,
};
use crate::{
    link::Link,
    packet::{LinkId, NodeId, Packet},
    random::{self, Random},
    trace::Observer,
};

/// Largest A-MPDU of HT format in bytes (IEEE 802.11-2016 §9.4.2.56.3).
const MAX_FRAME: u64 = 65_535;

/// The links that a medium may ask for packets.
pub(crate) trait Members {
    /// The link, if it exists.
    fn link(&mut self, id: LinkId) -> Option<&mut Link>;
}

/// Counters of a medium since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MediumCounters {
    /// Times that the medium was taken: exchanges and collisions.
    pub accesses: u64,
    /// Accesses by more than one contender at the same time.
    pub collisions: u64,
    /// Frames sent, those in collisions included.
    pub frames: u64,
    /// Packets in them, those sent again included.
    pub transmissions: u64,
    /// Packets dropped after the last retry.
    pub given_up_packets: u64,
    /// Time during which frames or acknowledgements were on the air.
    pub busy: TimeDelta,
}

/// A Wi-Fi channel.
#[derive(Debug)]
pub struct Medium {
    config: WifiConfig,
    random: Random,
    contenders: Vec<Contender>,
    members: Vec<Member>,
    /// End of the last exchange, from which interframe spaces count.
    free_at: Timestamp,
    /// The frames on the air, and the end of their exchange.
    on_air: Option<(Timestamp, Vec<Frame>)>,
    counters: MediumCounters,
    touched: Vec<LinkId>,
}

/// A node with an access category.
#[derive(Debug)]
struct Contender {
    node: NodeId,
    access: Access,
    /// Its members, by index.
    members: Vec<usize>,
    /// The member whose turn it is.
    turn: usize,
    /// Slots to wait after AIFS, from `free_at` on.
    backoff: u32,
    window: u32,
    /// When it last began to have packets; `None` if it has none.
    ready: Option<Timestamp>,
}

/// A link on the medium.
#[derive(Debug)]
struct Member {
    link: LinkId,
    station: Station,
    contender: usize,
    /// Whether packets are queued.
    waits: bool,
    /// Packets that were taken from the queue and are neither delivered nor dropped, in order.
    window: VecDeque<Mpdu>,
}

#[derive(Debug)]
struct Mpdu {
    packet: Packet,
    sojourn: TimeDelta,
    transmissions: u32,
    received: bool,
}

#[derive(Debug)]
struct Frame {
    member: usize,
    /// Indices of its packets in the member's window.
    packets: Vec<usize>,
}

impl Member {
    fn has_packets(&self) -> bool {
        self.waits || !self.window.is_empty()
    }
}

impl Medium {
    /// An idle medium without links. `seed` and `name` select its random numbers.
    ///
    /// # Errors
    ///
    /// [`MediumError`] if a field of `config` is invalid.
    pub fn new(config: WifiConfig, seed: u64, name: &str) -> Result<Self, MediumError> {
        config.validate()?;
        Ok(Self {
            config,
            random: random::stream(seed, &format!("medium {name}: access")),
            contenders: Vec::new(),
            members: Vec::new(),
            free_at: Timestamp::ZERO,
            on_air: None,
            counters: MediumCounters::default(),
            touched: Vec::new(),
        })
    }

    /// Counters since the start.
    pub fn counters(&self) -> MediumCounters {
        self.counters
    }

    /// Adds a link that begins at `node`.
    pub(crate) fn join(&mut self, link: LinkId, node: NodeId, station: Station) -> Result<(), MediumError> {
        station.validate()?;
        let same = |contender: &Contender| (contender.node, contender.access) == (node, station.access);
        let contender = self.contenders.iter().position(same).unwrap_or_else(|| {
            let window = station.access.window(self.config.window).0;
            let backoff = self.random.random_range(0..=window);
            self.contenders.push(Contender {
                node,
                access: station.access,
                members: Vec::new(),
                turn: 0,
                backoff,
                window,
                ready: None,
            });
            self.contenders.len() - 1
        });
        if let Some(contender) = self.contenders.get_mut(contender) {
            contender.members.push(self.members.len());
        }
        self.members.push(Member { link, station, contender, waits: false, window: VecDeque::new() });
        Ok(())
    }

    /// Notes that packets are queued at `link`.
    pub(crate) fn on_queued(&mut self, now: Timestamp, link: LinkId) {
        let Some(member) = self.members.iter_mut().find(|member| member.link == link) else { return };
        member.waits = true;
        let Some(contender) = self.contenders.get_mut(member.contender) else { return };
        // On a busy medium the first packet of a contender waits for a backoff, a new one if the last is over (§10.22.2.2).
        if contender.ready.is_none() && contender.backoff == 0 && self.on_air.is_some() {
            contender.backoff = self.random.random_range(0..=contender.window);
        }
        contender.ready.get_or_insert(now);
    }

    /// Time of the next [`poll`](Self::poll) call; `None` if there is nothing to send.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        match &self.on_air {
            Some((end, _)) => Some(*end),
            None => self.contenders.iter().filter_map(|contender| self.access_at(contender)).min(),
        }
    }

    /// The links that have new arrivals or drops since the last call.
    pub(crate) fn poll_touched(&mut self) -> Option<LinkId> {
        self.touched.pop()
    }

    /// Ends the exchange that is over by `now`, and begins the next one.
    pub(crate) fn poll(&mut self, now: Timestamp, links: &mut impl Members, observer: &mut impl Observer) {
        if let Some((end, frames)) = self.on_air.take_if(|(end, _)| *end <= now) {
            self.finish(end, &frames, links, observer);
        }
        if self.on_air.is_some() {
            return;
        }
        // Queues may drop all they have when they are asked for a packet; then another contender may be due.
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            if self.begin(at, now, links, observer) {
                return;
            }
        }
    }

    /// The time at which the backoff of `contender` may count down: the end of its AIFS.
    fn count_from(&self, contender: &Contender) -> Timestamp {
        self.free_at + self.config.sifs + self.config.slot * contender.access.aifsn()
    }

    /// When a contender sends if no other does before: at a slot boundary.
    fn access_at(&self, contender: &Contender) -> Option<Timestamp> {
        let ready = contender.ready?;
        let start = self.count_from(contender);
        let counted = start + self.config.slot * i64::from(contender.backoff);
        if ready <= counted {
            return Some(counted);
        }
        let since = (ready - start).as_nanos();
        let slots = since.unsigned_abs().div_ceil(self.config.slot.as_nanos().unsigned_abs());
        Some(start + self.config.slot * i64::try_from(slots).unwrap_or(i64::MAX))
    }

    /// Starts the frames of all contenders that are due at `at`. Returns whether there are any.
    fn begin(
        &mut self,
        at: Timestamp,
        now: Timestamp,
        links: &mut impl Members,
        observer: &mut impl Observer,
    ) -> bool {
        let slot = self.config.slot.as_nanos().unsigned_abs();
        let due: Vec<usize> = (0..self.contenders.len())
            .filter(|&index| {
                self.contenders.get(index).and_then(|contender| self.access_at(contender)) == Some(at)
            })
            .collect();
        let mut frames: Vec<Frame> = Vec::new();
        let mut senders: Vec<usize> = Vec::new();
        for &index in &due {
            let Some(frame) = self.frame(now, index, links, observer) else { continue };
            frames.push(frame);
            senders.push(index);
        }
        if frames.is_empty() {
            return false;
        }
        // The others freeze their backoff.
        for index in 0..self.contenders.len() {
            let Some(contender) = self.contenders.get(index) else { continue };
            let passed = at.saturating_since(self.count_from(contender)).as_nanos().unsigned_abs() / slot;
            if let Some(contender) = self.contenders.get_mut(index) {
                contender.backoff =
                    contender.backoff.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
            }
        }
        self.withdraw(&mut frames, &mut senders);
        self.counters.accesses += 1;
        self.counters.collisions += u64::from(frames.len() > 1);
        self.counters.frames += frames.len() as u64;
        let busy = self.duration(&frames);
        self.counters.busy += busy;
        let spacing = if frames.len() > 1 && self.config.extended_space {
            self.extended(&frames)
        } else {
            TimeDelta::ZERO
        };
        self.on_air = Some((at + busy + spacing, frames));
        true
    }

    /// Of frames of one node, only that of the highest access category is sent; the others behave as after a collision
    /// (§10.22.2.4).
    fn withdraw(&mut self, frames: &mut Vec<Frame>, senders: &mut Vec<usize>) {
        let rank = |medium: &Self, sender: usize| {
            medium.contenders.get(sender).map(|contender| (contender.node, contender.access))
        };
        let mut index = 0;
        while index < frames.len() {
            let own = senders.get(index).and_then(|&sender| rank(self, sender));
            let higher = senders.iter().any(|&other| {
                rank(self, other).zip(own).is_some_and(|(other, own)| other.0 == own.0 && other.1 > own.1)
            });
            if !higher {
                index += 1;
                continue;
            }
            frames.remove(index);
            let sender = senders.remove(index);
            self.back_off(sender, false);
        }
    }

    /// Takes the packets of the next frame of a contender.
    fn frame(
        &mut self,
        now: Timestamp,
        index: usize,
        links: &mut impl Members,
        observer: &mut impl Observer,
    ) -> Option<Frame> {
        let turns = self.contenders.get(index).map_or(0, |contender| contender.members.len());
        for _ in 0..turns {
            let contender = self.contenders.get_mut(index)?;
            let place = *contender.members.get(contender.turn % turns)?;
            let frame = self.frame_of(now, place, links, observer);
            let contender = self.contenders.get_mut(index)?;
            if frame.is_some() {
                return frame;
            }
            contender.turn = (contender.turn + 1) % turns;
        }
        self.contenders.get_mut(index)?.ready = None;
        None
    }

    /// Takes the packets of the next frame of a member: those to be sent again, then those of the queue.
    fn frame_of(
        &mut self,
        now: Timestamp,
        place: usize,
        links: &mut impl Members,
        observer: &mut impl Observer,
    ) -> Option<Frame> {
        let member = self.members.get_mut(place)?;
        let aggregates = self.config.phy.aggregates(member.station.rate);
        let limit = if aggregates { self.config.aggregation as usize } else { 1 };
        let mut bytes: u64 = member.window.iter().map(|mpdu| Phy::subframe(mpdu.packet.bytes)).sum();
        if member.waits && member.window.len() < limit {
            let link = links.link(member.link)?;
            self.touched.push(member.link);
            while member.window.len() < limit {
                // The size of the next packet is not known before it is taken: a full-sized one must fit.
                if !member.window.is_empty() && bytes + Phy::subframe(1500) > MAX_FRAME {
                    break;
                }
                let Some((packet, sojourn)) = link.take(now, observer) else { break };
                bytes += Phy::subframe(packet.bytes);
                member.window.push_back(Mpdu { packet, sojourn, transmissions: 0, received: false });
            }
            member.waits = !link.queue_is_empty();
        }
        let packets: Vec<usize> = member
            .window
            .iter()
            .enumerate()
            .filter(|(_, mpdu)| !mpdu.received)
            .map(|(index, _)| index)
            .collect();
        self.counters.transmissions += packets.len() as u64;
        (!packets.is_empty()).then_some(Frame { member: place, packets })
    }

    fn data(&self, frame: &Frame) -> TimeDelta {
        let Some(member) = self.members.get(frame.member) else { return TimeDelta::ZERO };
        let sizes: Vec<u32> =
            frame.packets.iter().filter_map(|&index| Some(member.window.get(index)?.packet.bytes)).collect();
        self.config.phy.data(member.station.rate, sizes.into_iter())
    }

    fn acknowledgement(&self, frame: &Frame) -> TimeDelta {
        let Some(member) = self.members.get(frame.member) else { return TimeDelta::ZERO };
        self.config.phy.acknowledgement(member.station.rate, frame.packets.len() > 1)
    }

    /// Time on the air: a frame, SIFS and its acknowledgement; in a collision the longest frame.
    fn duration(&self, frames: &[Frame]) -> TimeDelta {
        match frames {
            [frame] => self.data(frame) + self.config.sifs + self.acknowledgement(frame),
            frames => frames.iter().map(|frame| self.data(frame)).max().unwrap_or_default(),
        }
    }

    /// What EIFS adds to the interframe space: SIFS and an acknowledgement.
    fn extended(&self, frames: &[Frame]) -> TimeDelta {
        let acknowledgement = frames.iter().map(|frame| self.acknowledgement(frame)).max();
        self.config.sifs + acknowledgement.unwrap_or_default()
    }

    /// Draws a new backoff: from the minimum window after a success, from a doubled one after a failure (§10.3.3).
    fn back_off(&mut self, index: usize, succeeded: bool) {
        let Some(contender) = self.contenders.get_mut(index) else { return };
        let (min, max) = contender.access.window(self.config.window);
        contender.window = if succeeded { min } else { (contender.window * 2 + 1).min(max) };
        contender.backoff = self.random.random_range(0..=contender.window);
    }

    /// Ends an exchange or a collision at `end`.
    fn finish(
        &mut self,
        end: Timestamp,
        frames: &[Frame],
        links: &mut impl Members,
        observer: &mut impl Observer,
    ) {
        let collided = frames.len() > 1;
        self.free_at = end;
        for frame in frames {
            let Some(member) = self.members.get_mut(frame.member) else { continue };
            let mut received = 0;
            for &index in &frame.packets {
                let Some(mpdu) = member.window.get_mut(index) else { continue };
                mpdu.transmissions += 1;
                let error = member.station.error;
                mpdu.received = !collided && (error == 0.0 || self.random.random::<f64>() >= error);
                received += u64::from(mpdu.received);
            }
            let given_up = Self::release(end, member, self.config.retries, links, observer);
            self.counters.given_up_packets += given_up;
            self.touched.push(member.link);
            let index = member.contender;
            self.back_off(index, received > 0 || given_up > 0);
            let Some(contender) = self.contenders.get_mut(index) else { continue };
            contender.turn =
                (contender.turn + usize::from(received > 0 || given_up > 0)) % contender.members.len().max(1);
            let has_packets = contender
                .members
                .iter()
                .any(|&place| self.members.get(place).is_some_and(Member::has_packets));
            if !has_packets {
                contender.ready = None;
            }
        }
    }

    /// Delivers the packets that were received, in order, and drops those that were sent too often. Returns the number dropped.
    fn release(
        now: Timestamp,
        member: &mut Member,
        retries: u32,
        links: &mut impl Members,
        observer: &mut impl Observer,
    ) -> u64 {
        let mut given_up = 0;
        let Some(link) = links.link(member.link) else { return given_up };
        while let Some(head) = member.window.front() {
            if !head.received && head.transmissions <= retries {
                break;
            }
            let Some(Mpdu { packet, sojourn, received, .. }) = member.window.pop_front() else { break };
            given_up += u64::from(!received);
            link.release(now, packet, sojourn, received, observer);
        }
        given_up
    }
}
