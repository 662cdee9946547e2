//! The rate and the number of sessions of each source address.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
};

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// How far a source may be ahead of its rate.
const BURST: TimeDelta = TimeDelta::from_millis(250);

/// The sources that have a session, by IPv4 address or by IPv6 prefix of 64 bits.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<IpAddr, Source>);

#[derive(Debug, Default)]
struct Source {
    sessions: usize,
    /// The time at which everything answered so far has been sent at the permitted rate.
    paid_until: Timestamp,
}

/// What counts as one source: a host may use every address of its IPv6 prefix.
pub(super) fn source(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

impl Sources {
    /// Adds a session, unless the source has `limit` of them.
    pub(super) fn add_session(&mut self, ip: IpAddr, limit: usize) -> bool {
        let sessions = self.0.get(&source(ip)).map_or(0, |source| source.sessions);
        if sessions >= limit {
            return false;
        }
        self.0.entry(source(ip)).or_default().sessions += 1;
        true
    }

    /// The sources that have `limit` sessions.
    pub(super) fn full(&self, limit: usize) -> BTreeSet<IpAddr> {
        self.0.iter().filter(|(_, source)| source.sessions >= limit).map(|(key, _)| *key).collect()
    }

    /// Removes a session, and with the last one its source.
    pub(super) fn remove_session(&mut self, ip: IpAddr) {
        let key = source(ip);
        if let Some(source) = self.0.get_mut(&key) {
            source.sessions = source.sessions.saturating_sub(1);
            if source.sessions == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// Whether the source may be answered with `size` now; if so, the size is counted.
    pub(super) fn take(&mut self, now: Timestamp, ip: IpAddr, size: DataSize, rate: DataRate) -> bool {
        let (Some(source), Some(time)) = (self.0.get_mut(&source(ip)), rate.time_for(size)) else {
            return false;
        };
        let paid_until = source.paid_until.max(now);
        if paid_until - now > BURST {
            return false;
        }
        source.paid_until = paid_until + time;
        true
    }
}
