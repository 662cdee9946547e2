//! Groups packets and computes the differences between groups.
//!
//! Packets that are sent together are delayed together, so a burst counts as one group. The departure time of
//! a group is that of its last packet sent, its arrival time that of its last packet received
//! (draft-ietf-rmcat-gcc-02 §5.1). A group is complete once a packet of the next one has arrived. The
//! difference between two groups is therefore known when the first packet of a third group arrives.
//!
//! A packet stays in the current group if
//!
//! - it left within [`send_time`](GroupingConfig::send_time) of the first packet of the group, or
//! - it arrived within [`burst_gap`](GroupingConfig::burst_gap) of the previous packet and had a lower
//!   one-way delay: both packets were delayed and then released together (draft-ietf-rmcat-gcc-02 §5.2), or
//! - it left at exactly the same time as the last packet of the group (libwebrtc).
//!
//! A packet that left before its group began is out of order and ignored.
//!
//! # Resets
//!
//! After a jump of a clock, differences would look like queueing delay. Therefore all groups are discarded
//! ([`Reset`]) when the receiver's clock jumps ahead of ours, or when it runs backwards several times in a
//! row. The packet that reveals the jump is discarded too. A single group that arrived before its predecessor
//! yields no difference. As in libwebrtc, neither group is replaced, so the following packets find the same
//! condition until the count is reached.

use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

giusto_units::defaults! {
    /// How packets are grouped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct GroupingConfig {
        /// A packet sent at most this long after the first packet of a group belongs to the group. Default 5 ms
        /// (draft-ietf-rmcat-gcc-02 §5.6, `burst_time`; libwebrtc, `delay_based_bwe.cc`).
        pub send_time: TimeDelta = TimeDelta::from_millis(5),
        /// A packet with a lower one-way delay than the previous packet joins its group if it arrives at most
        /// this long after it. Default 5 ms (libwebrtc, `inter_arrival_delta.cc`); draft-ietf-rmcat-gcc-02 §5.2
        /// requires *less* than 5 ms.
        pub burst_gap: TimeDelta = TimeDelta::from_millis(5),
        /// It joins only if it arrives less than this time after the first arrival of the group; `None`: always.
        /// Default 100 ms (libwebrtc, `inter_arrival_delta.cc`); the draft has no such limit.
        pub burst_duration: Option<TimeDelta> = Some(TimeDelta::from_millis(100)),
        /// Number of consecutive findings that a group arrived before its predecessor after which everything is
        /// reset; `None`: never. Default 3 (libwebrtc, `inter_arrival_delta.h`). Not specified in the draft.
        pub reordered_limit: Option<u32> = Some(3),
        /// Everything is reset if the receiver's clock advances by this much more than ours between two groups;
        /// `None`: never. Default 3 s (libwebrtc, `inter_arrival_delta.h`). Not specified in the draft.
        pub clock_jump: Option<TimeDelta> = Some(TimeDelta::from_seconds(3)),
    }
}

impl GroupingConfig {
    /// The constants of libwebrtc.
    pub fn libwebrtc() -> Self {
        Self::default()
    }

    /// The rules of draft-ietf-rmcat-gcc-02 §5.2, with libwebrtc's resets. Without resets, a clock that is
    /// set back once would disable the estimator until it has caught up.
    pub fn draft_02() -> Self {
        Self { burst_gap: TimeDelta::from_nanos(4_999_999), burst_duration: None, ..Self::libwebrtc() }
    }
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedPacket {
    /// Send time.
    pub(crate) sent: Timestamp,
    /// Arrival time on the receiver's clock.
    pub(crate) arrival: PeerTimestamp,
    /// Packet size.
    pub(crate) size: DataSize,
}

/// Difference between a group and the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupDelta {
    /// Difference of the departure times. Negative if a burst was joined out of order.
    pub(crate) departure: TimeDelta,
    /// Difference of the arrival times. Never negative.
    pub(crate) arrival: TimeDelta,
    /// Difference of the sizes, in bytes.
    pub(crate) size_bytes: i64,
    /// Arrival time of its last packet: `t(i)` of draft-ietf-rmcat-gcc-02 §5.1.
    pub(crate) arrived_at: PeerTimestamp,
    /// Arrival time of the packet that completed it: the time that libwebrtc's filters use.
    pub(crate) closed_at: PeerTimestamp,
}

impl GroupDelta {
    /// The delay variation: one-way delay of this group minus that of the previous group. `d(i)` of
    /// draft-ietf-rmcat-gcc-02 §5.1.
    pub(crate) fn variation(&self) -> TimeDelta {
        self.arrival - self.departure
    }
}

/// Reason for a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The receiver's clock jumped ahead.
    ClockJump,
    /// Groups arrived before their predecessors too many times in a row.
    Reordered,
    /// No packet arrived for too long.
    StreamTimeout,
}

/// Result of processing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grouped {
    /// It belongs to an incomplete group, or is the first packet of the second group.
    Pending,
    /// It started a new group, and the previous group was compared with the one before.
    Delta(GroupDelta),
    /// It was ignored, because it or the group before it was out of order.
    OutOfOrder,
    /// It revealed a clock jump: earlier and later packets cannot be compared.
    Reset(Reset),
}

impl Grouped {
    /// The difference, if one became known.
    #[cfg(test)]
    pub(super) fn delta(self) -> Option<GroupDelta> {
        match self {
            Self::Delta(delta) => Some(delta),
            _ => None,
        }
    }
}

/// Groups packets in order of arrival.
#[derive(Debug, Clone)]
pub(super) struct Grouping {
    config: GroupingConfig,
    previous: Option<Group>,
    current: Option<Group>,
    reordered: u32,
}

impl Grouping {
    /// No packets yet.
    pub(super) const fn new(config: GroupingConfig) -> Self {
        Self { config, previous: None, current: None, reordered: 0 }
    }

    /// Processes a packet that became known at `now`. Packets of one feedback message must be in order of
    /// arrival.
    pub(super) fn on_packet(&mut self, now: Timestamp, packet: ReceivedPacket) -> Grouped {
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

    /// Discards all packets.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.config);
    }
}

impl GroupingConfig {
    /// The difference between `current` and `previous`, after a packet that arrived at `closed_at` has closed
    /// `current`.
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
            || (gains && arrival <= config.burst_gap && config.burst_duration.is_none_or(|max| lasts < max))
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
