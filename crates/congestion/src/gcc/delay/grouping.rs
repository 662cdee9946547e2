//! Packets become groups, and groups differences.
//!
//! What is sent together is delayed together, so a burst counts as one. Its departure is that of its packet sent last, its
//! arrival that of its packet received last (draft-ietf-rmcat-gcc-02 §5.1). A group is known to be complete once a packet of
//! the next one has arrived: the difference of two groups comes with the first packet of a third.
//!
//! A packet stays in the current group if
//!
//! - it left within [`send_time`](GroupingConfig::send_time) of the first packet of the group, or
//! - it arrived within [`burst_gap`](GroupingConfig::burst_gap) of the packet before, and took less time on its way than
//!   that one: something has held both back and lets them go at once (draft-ietf-rmcat-gcc-02 §5.2), or
//! - it left at the very moment at which the group's last one did (libwebrtc).
//!
//! A packet that left before its group began is out of order and ignored.
//!
//! # Resets
//!
//! Differences across a break in a clock would be taken for queues. So everything is forgotten ([`Reset`]) when the clock of
//! the far end jumps ahead of ours, and when it was found several times in a row that it runs backwards. The packet that
//! shows it is forgotten too. One group that arrived before its predecessor yields no difference; neither group is replaced,
//! so that, as in libwebrtc, the packets which follow find the same again until the count is full.

use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// How packets are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupingConfig {
    /// Packets sent at most so long after the first of a group belong to it. Default 5 ms (draft-ietf-rmcat-gcc-02 §5.6,
    /// `burst_time`; libwebrtc, `delay_based_bwe.cc`).
    pub send_time: TimeDelta,
    /// A packet that gains on the one before joins its group if it arrives at most so long after it. Default 5 ms
    /// (libwebrtc, `inter_arrival_delta.cc`); draft-ietf-rmcat-gcc-02 §5.2 asks for *less* than 5 ms.
    pub burst_gap: TimeDelta,
    /// It joins only within less than this time since the group's first arrival; `None`: always. Default 100 ms
    /// (libwebrtc, `inter_arrival_delta.cc`); the draft knows no such limit.
    pub burst_duration: Option<TimeDelta>,
    /// So many findings in a row that a group arrived before its predecessor are a reset; `None`: never. Default 3
    /// (libwebrtc, `inter_arrival_delta.h`). The draft says nothing of it.
    pub reordered_limit: Option<u32>,
    /// That the far end's clock advances so much more than ours between two groups is a reset; `None`: never. Default 3 s
    /// (libwebrtc, `inter_arrival_delta.h`). The draft says nothing of it.
    pub clock_jump: Option<TimeDelta>,
}

impl GroupingConfig {
    /// What libwebrtc does.
    pub const fn libwebrtc() -> Self {
        Self {
            send_time: TimeDelta::from_millis(5),
            burst_gap: TimeDelta::from_millis(5),
            burst_duration: Some(TimeDelta::from_millis(100)),
            reordered_limit: Some(3),
            clock_jump: Some(TimeDelta::from_seconds(3)),
        }
    }

    /// The rules of draft-ietf-rmcat-gcc-02 §5.2, with libwebrtc's resets: without any, a clock that is once set back would
    /// silence the estimator until it has caught up.
    pub const fn draft_02() -> Self {
        Self { burst_gap: TimeDelta::from_nanos(4_999_999), burst_duration: None, ..Self::libwebrtc() }
    }
}

impl Default for GroupingConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// When it left.
    pub sent: Timestamp,
    /// When it arrived, by the far end's clock.
    pub arrival: PeerTimestamp,
    /// Its size.
    pub size: DataSize,
}

/// How a group differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupDelta {
    /// How much later it left; below zero if a burst was joined out of order.
    pub departure: TimeDelta,
    /// How much later it arrived; never below zero.
    pub arrival: TimeDelta,
    /// By how many bytes it is larger.
    pub size_bytes: i64,
    /// When its last packet arrived: `t(i)` of draft-ietf-rmcat-gcc-02 §5.1.
    pub arrived_at: PeerTimestamp,
    /// When the packet arrived that showed it to be complete: the time that libwebrtc's filters see.
    pub closed_at: PeerTimestamp,
}

impl GroupDelta {
    /// How much longer it was on its way than the group before: `d(i)` of draft-ietf-rmcat-gcc-02 §5.1.
    pub fn variation(&self) -> TimeDelta {
        self.arrival - self.departure
    }
}

/// Why everything was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The far end's clock has jumped ahead.
    ClockJump,
    /// Groups arrived before their predecessors, too often in a row.
    Reordered,
    /// Nothing arrived for too long.
    StreamTimeout,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouped {
    /// It is part of a group that is not complete, or the first of the second one.
    Pending,
    /// It began a group, and the one before can be compared.
    Delta(GroupDelta),
    /// It was ignored, being out of order or following a group that was.
    OutOfOrder,
    /// It showed that nothing before can be compared with anything after.
    Reset(Reset),
}

impl Grouped {
    /// The difference, if one became known.
    pub fn delta(self) -> Option<GroupDelta> {
        match self {
            Self::Delta(delta) => Some(delta),
            _ => None,
        }
    }
}

/// Groups packets, which come by arrival.
#[derive(Debug, Clone)]
pub struct Grouping {
    config: GroupingConfig,
    previous: Option<Group>,
    current: Option<Group>,
    reordered: u32,
}

impl Grouping {
    /// No packets yet.
    pub const fn new(config: GroupingConfig) -> Self {
        Self { config, previous: None, current: None, reordered: 0 }
    }

    /// Takes a packet of which we learn `now`. Packets of one feedback message come by arrival.
    pub fn on_packet(&mut self, now: Timestamp, packet: ReceivedPacket) -> Grouped {
        let Some(current) = &mut self.current else {
            self.current = Some(Group::begin(now, packet));
            return Grouped::Pending;
        };
        if packet.sent < current.first_sent {
            return Grouped::OutOfOrder;
        }
        if current.takes(&self.config, packet) {
            current.extend(now, packet);
            return Grouped::Pending;
        }
        let outcome = match self.previous {
            None => Grouped::Pending,
            Some(previous) => self.config.compare(previous, *current, packet.arrival),
        };
        match outcome {
            Grouped::Reset(_) => {
                self.clear();
                return outcome;
            }
            Grouped::OutOfOrder => {
                self.reordered += 1;
                if self.config.reordered_limit.is_some_and(|limit| self.reordered >= limit) {
                    self.clear();
                    return Grouped::Reset(Reset::Reordered);
                }
                return outcome;
            }
            Grouped::Delta(_) => self.reordered = 0,
            Grouped::Pending => {}
        }
        self.previous = self.current.replace(Group::begin(now, packet));
        outcome
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        *self = Self::new(self.config);
    }
}

impl GroupingConfig {
    /// What `current` is to `previous`, once a packet that arrived at `closed_at` has closed it.
    fn compare(&self, previous: Group, current: Group, closed_at: PeerTimestamp) -> Grouped {
        let arrival = current.last_arrival - previous.last_arrival;
        let ours = current.last_known.saturating_since(previous.last_known);
        if self.clock_jump.is_some_and(|jump| arrival - ours >= jump) {
            return Grouped::Reset(Reset::ClockJump);
        }
        if arrival < TimeDelta::ZERO {
            return Grouped::OutOfOrder;
        }
        let bytes = |size: DataSize| i64::try_from(size.as_bytes()).unwrap_or(i64::MAX);
        Grouped::Delta(GroupDelta {
            departure: current.last_sent - previous.last_sent,
            arrival,
            size_bytes: bytes(current.size) - bytes(previous.size),
            arrived_at: current.last_arrival,
            closed_at,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Timestamp,
    last_sent: Timestamp,
    first_arrival: PeerTimestamp,
    last_arrival: PeerTimestamp,
    last_known: Timestamp,
    size: DataSize,
}

impl Group {
    fn begin(now: Timestamp, packet: ReceivedPacket) -> Self {
        Self {
            first_sent: packet.sent,
            last_sent: packet.sent,
            first_arrival: packet.arrival,
            last_arrival: packet.arrival,
            last_known: now,
            size: packet.size,
        }
    }

    fn takes(&self, config: &GroupingConfig, packet: ReceivedPacket) -> bool {
        let departure = packet.sent - self.last_sent;
        let arrival = packet.arrival - self.last_arrival;
        let gains = arrival < departure;
        let lasts = packet.arrival - self.first_arrival;
        departure == TimeDelta::ZERO
            || (gains && arrival <= config.burst_gap && config.burst_duration.is_none_or(|most| lasts < most))
            || packet.sent - self.first_sent <= config.send_time
    }

    fn extend(&mut self, now: Timestamp, packet: ReceivedPacket) {
        self.last_sent = self.last_sent.max(packet.sent);
        self.last_arrival = packet.arrival;
        self.last_known = now;
        self.size += packet.size;
    }
}

#[cfg(test)]
mod tests;
