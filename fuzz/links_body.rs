//! Function of the fuzz target of the real-time emulator. The ordinary tests run the seeds in `fuzz/seeds/links` through the same
//! code.

use giusto_net::emulate::{Arrival, Emulator};
use giusto_sim::{
    link::{
        Link, LinkConfig,
        loss::Loss,
        queue::{CoDel, CoDelConfig, DropTail, Limit, Queue},
        rate::RateProfile,
    },
    packet::LinkId,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

/// Packets of any sizes at any times, forwards and backwards, over two links. What goes in comes out unchanged, is dropped, or is
/// inside; nothing comes out before its time or before an earlier packet; once events are processed, the next one lies ahead.
pub(crate) fn links(bytes: &[u8]) {
    const MEMORY: u64 = 20_000;
    let [kind, rest @ ..] = bytes else { return };
    let config = LinkConfig {
        rate: match kind % 3 {
            0 => RateProfile::Unlimited,
            1 => RateProfile::Fixed(DataRate::from_bps(64_000)),
            _ => RateProfile::Fixed(DataRate::from_bps(10_000_000)),
        },
        delay: TimeDelta::from_micros(i64::from(*kind) * 100).into(),
        loss: if kind & 8 > 0 { Loss::Random(0.2) } else { Loss::None },
        duplication: if kind & 16 > 0 { 0.2 } else { 0.0 },
        corruption: if kind & 64 > 0 { 0.1 } else { 0.0 },
        ..LinkConfig::default()
    };
    let link = |id: u32| {
        let queue: Box<dyn Queue> = if kind & 32 > 0 {
            Box::new(CoDel::new(CoDelConfig::default()).expect("the defaults are valid"))
        } else {
            Box::new(DropTail::new(Limit::Packets(5)))
        };
        Link::new(LinkId(id), &config, queue, u64::from(*kind), "link").expect("the link is valid")
    };
    let routes = vec![vec![LinkId(0), LinkId(1)], vec![LinkId(1)], Vec::new()];
    let mut emulator = Emulator::new(vec![link(0), link(1)], routes, DataSize::from_bytes(MEMORY))
        .expect("the routes exist");
    let mut now = Timestamp::ZERO;
    // What was offered, by its tag: the time, the route, the content.
    let mut offered: Vec<(Timestamp, usize, Vec<u8>)> = Vec::new();
    let (mut refused, mut delivered, mut latest) = (0_u64, 0_u64, Timestamp::ZERO);
    let mut rest = rest;
    while let [action, size, time, tail @ ..] = rest {
        rest = tail;
        let step = TimeDelta::from_micros(i64::from(*time) * i64::from(*time));
        // Timestamps of the kernel may be earlier than what has been processed.
        let at = if action & 64 > 0 { now - step } else { now + step };
        now = now.max(at);
        let route = usize::from(action % 4);
        let content = vec![*size; usize::from(*size) * 6];
        let arrival = Arrival {
            route,
            bytes: content.len() as u32 + 28,
            ecn: Ecn::from_bits(action >> 4),
            flow: u32::from(*action),
            tag: offered.len(),
        };
        if action & 128 == 0 && emulator.offer(at, arrival, &content, &mut ()) {
            assert!(route < 3);
            offered.push((at, route, content));
        } else {
            refused += u64::from(action & 128 == 0);
        }
        emulator.advance(now, &mut ());
        assert!(emulator.next_event().is_none_or(|next| next > emulator.now()));
        while let Some(delivery) = emulator.poll_delivery() {
            let (sent, route, content) = offered.get(delivery.tag).expect("it was offered");
            assert!(delivery.due >= *sent && delivery.due >= latest && delivery.due <= emulator.now());
            assert!(delivery.route == *route && delivery.bytes == *content);
            (latest, delivered) = (delivery.due, delivered + 1);
            emulator.recycle(delivery);
        }
        let counters = emulator.counters();
        assert_eq!((counters.accepted_packets, counters.refused_packets), (offered.len() as u64, refused));
        let sum = |of: fn(&giusto_sim::link::LinkCounters) -> u64| {
            emulator.links().map(|link| of(&link.counters())).sum::<u64>()
        };
        let entered = offered.len() as u64 + sum(|link| link.duplicated_packets);
        let left = delivered + sum(|link| link.overflow_packets + link.aqm_packets + link.lost_packets);
        assert_eq!(entered, left + emulator.inside());
    }
}
