//! Statistics of links.

use super::{Read, Statistic, Unit, flow::ratio};
use crate::record::LinkRecord;

type Link = Statistic<LinkRecord>;

/// Statistics of a link.
pub const LINK: &[Link] = &[
    Link::ratio("utilisation_ratio", "utilisation", |link| link.utilisation_ratio)
        .defined("Bytes whose transmission begins in the window, over the capacity in it; unknown if the rate is unlimited.")
        .column(0)
        .in_sweeps()
        .metric("utilisation", |all| all.link?.utilisation_ratio),
    Link::rate("capacity_bps", "capacity", |link| link.capacity_bps).defined("Mean of its rate over time."),
    Link::packets("offered_packets", "offered packets", |link| Some(link.offered_packets))
        .defined("Packets that come to it in the window, and those inside it at the window's start.")
        .column(4)
        .in_sweeps(),
    Link::packets("delivered_packets", "delivered packets", |link| Some(link.delivered_packets))
        .defined("Packets delivered at its far end.")
        .column(3)
        .in_sweeps(),
    Link::packets("dropped_packets", "dropped packets", |link| Some(link.dropped_packets))
        .defined("Packets dropped in its queue or lost on the wire.")
        .column(1)
        .in_sweeps(),
    Link::packets("overflow_packets", "overflow packets", |link| Some(link.overflow_packets))
        .defined("Of these, packets dropped by a full queue or a policer."),
    Link::packets("aqm_packets", "packets dropped by AQM", |link| Some(link.aqm_packets))
        .defined("Of these, packets dropped by active queue management."),
    Link::packets("lost_packets", "lost packets", |link| Some(link.lost_packets))
        .defined("Of these, packets lost on the wire."),
    Link::packets("marked_packets", "marked packets", |link| Some(link.marked_packets))
        .defined("Packets that its queue marked.")
        .column(2)
        .in_sweeps(),
    Link::packets("in_flight_packets", "packets in flight", |link| Some(link.in_flight_packets))
        .defined("Packets inside it at the end: queued, in transmission, propagating."),
    Link::packets("duplicated_packets", "duplicated packets", |link| Some(link.duplicated_packets))
        .defined("Copies that it made."),
    Link::packets("corrupted_packets", "corrupted packets", |link| Some(link.corrupted_packets))
        .defined("Packets whose content it changed; it delivers them, and their receivers discard them."),
    Link::delay("queue_delay_ms", "queueing delay", |link| link.queue_delay_ms)
        .defined("From entering its queue to the start of transmission, of the packets transmitted in the window.")
        .column(0)
        .in_sweeps()
        .delay_metric("queue-delay", |all| all.link?.queue_delay_ms),
    Link::new("", "dropped", Read::Metric(Unit::Ratio))
        .defined("Packets dropped or lost over the packets that leave the queue in the window, transmitted or dropped.")
        .metric("dropped", |all| ratio(all.link?.dropped_packets, all.link?.packets)),
    Link::new("", "marked", Read::Metric(Unit::Ratio))
        .defined("Packets that the queue marks over the packets that leave it in the window, transmitted or dropped.")
        .metric("marked", |all| ratio(all.link?.marked_packets, all.link?.packets)),
];
