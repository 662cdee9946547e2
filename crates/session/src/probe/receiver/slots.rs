//! Which streams get a slot, and which lose theirs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use giusto_units::Timestamp;

use super::{Receiver, Stream};
use crate::{
    host::host,
    probe::{
        stream::Ended,
        wire::{Refusal, StreamLimit, StreamToken},
    },
    used::Crowded,
};

/// How many streams may follow each other in a slot while their cookies are valid: it bounds what is remembered of them.
pub(super) const STREAMS_PER_SLOT: usize = 16;

/// What a sender has proved. A later one is worth more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Nothing: its address may be forged.
    Unannounced,
    /// That it receives at its address.
    Verified,
    /// That it has a key.
    Authenticated,
}

impl Standing {
    fn of(stream: &Stream) -> Self {
        match (&stream.token, &stream.keys) {
            (None, _) => Self::Unannounced,
            (Some(_), None) => Self::Verified,
            (Some(_), Some(_)) => Self::Authenticated,
        }
    }
}

impl Receiver {
    /// Whether there is a slot for an unannounced stream from this address.
    pub(super) fn room_for_unannounced(&self, from: SocketAddr) -> bool {
        self.config.passive.is_some() && self.full(from, Standing::Unannounced).is_none()
    }

    /// Makes room for a stream from this verified address; where there is no slot, one of a stream that does not need it, or of the
    /// host that holds the most.
    pub(super) fn make_room(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        standing: Standing,
    ) -> Result<(), Refusal> {
        match self.full(from, standing) {
            None => Ok(()),
            Some(Refusal::Full) => {
                let idle = self.yielding(standing).filter_map(|(address, stream)| {
                    Some((stream.usage.unneeded(now, stream.request())?, address))
                });
                let idlest = idle.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, address)| address);
                let of_host = || self.of_largest_host(now, host(from.ip()), standing);
                let loser = idlest.map(|address| (address, StreamLimit::Slot));
                let loser = loser.or_else(|| Some((of_host()?, StreamLimit::HostShare)));
                let (address, why) = loser.ok_or(Refusal::Full)?;
                self.retire(address, Ended::Limit(why), None);
                self.full(from, standing).map_or(Ok(()), Err)
            }
            Some(why) => Err(why),
        }
    }

    /// The streams that may lose their slot to a sender of this standing.
    fn yielding(&self, standing: Standing) -> impl Iterator<Item = (SocketAddr, &Stream)> {
        let streams = self.streams.iter().map(|(address, (_, stream))| (*address, stream));
        streams.filter(move |(_, stream)| {
            let of = Standing::of(stream);
            of != Standing::Unannounced && of <= standing
        })
    }

    /// The slowest stream of the host that holds the most slots, if it still holds no fewer than `newcomer` after that.
    fn of_largest_host(&self, now: Timestamp, newcomer: IpAddr, standing: Standing) -> Option<SocketAddr> {
        let mut slots: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.yielding(standing) {
            *slots.entry(host(address.ip())).or_default() += 1;
        }
        let theirs = slots.get(&newcomer).copied().unwrap_or(0);
        let (largest, held) = slots.into_iter().max_by_key(|(_, held)| *held)?;
        if held < theirs + 2 {
            return None;
        }
        let of_host = self.yielding(standing).filter(|(address, _)| host(address.ip()) == largest);
        // A new stream keeps its slot for a while.
        let rated = of_host.filter_map(|(address, stream)| Some((stream.usage.recent_bps(now)?, address)));
        rated.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, address)| address)
    }

    /// Takes note of a cookie that is used up; an error where too many are.
    pub(super) fn use_up(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        (token, authenticated): (StreamToken, bool),
    ) -> Result<(), Refusal> {
        self.used.insert(now, from, (token, authenticated), ()).map_err(|why| match why {
            Crowded::Full => Refusal::Full,
            Crowded::HostFull => Refusal::HostFull,
        })
    }

    /// Why no further stream from this address is accepted, if so.
    fn full(&self, from: SocketAddr, standing: Standing) -> Option<Refusal> {
        let others = self.streams.values().map(|(_, stream)| (Standing::of(stream), stream.from()));
        let from = host(from.ip());
        let (mut announced, mut equals, mut of_host) = (0, 0, 0);
        for (of, address) in others {
            announced += usize::from(of != Standing::Unannounced);
            equals += usize::from(of == standing);
            // Streams that prove less may have forged this host's address.
            of_host += usize::from(of == standing && host(address.ip()) == from);
        }
        let max = self.config.max_streams;
        let is_full = match standing {
            Standing::Unannounced => equals >= self.config.max_unannounced,
            // A quarter is kept for those with keys.
            Standing::Verified if self.config.keys.is_some() => announced >= max || equals >= max - max / 4,
            Standing::Verified | Standing::Authenticated => announced >= max,
        };
        if is_full {
            Some(Refusal::Full)
        } else if of_host >= self.config.max_streams_per_host {
            Some(Refusal::HostFull)
        } else {
            None
        }
    }
}
