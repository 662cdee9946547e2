//! Tokens of the cookies that were used: a copy of an old request begins nothing.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use giusto_units::Timestamp;

use crate::{
    cookie::{COOKIE_LIFE, StreamToken},
    host::host,
};

/// Remembers tokens, each with a value, until their cookies expire.
///
/// Where it is full, a token takes the place of one that was used without authentication, or of the oldest one of the host that has the
/// most, if that host has more than the newcomer. Without authentication, no token of a key holder is forgotten.
#[derive(Debug)]
pub(crate) struct UsedTokens<T> {
    entries: BTreeMap<StreamToken, Used<T>>,
    max: usize,
    max_per_host: usize,
}

#[derive(Debug)]
struct Used<T> {
    until: Timestamp,
    host: IpAddr,
    authenticated: bool,
    value: T,
}

/// Why a token is not remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crowded {
    /// There are too many.
    Full,
    /// There are too many of this host.
    HostFull,
}

impl<T> UsedTokens<T> {
    /// At most `max` tokens.
    pub(crate) fn new(max: usize, max_per_host: usize) -> Self {
        Self { entries: BTreeMap::new(), max, max_per_host }
    }

    /// The value of a used token.
    pub(crate) fn get_mut(&mut self, token: StreamToken) -> Option<&mut T> {
        self.entries.get_mut(&token).map(|used| &mut used.value)
    }

    pub(crate) fn remove(&mut self, token: StreamToken) {
        self.entries.remove(&token);
    }

    /// Remembers a token that `from` uses at `now`.
    pub(crate) fn insert(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        (token, authenticated): (StreamToken, bool),
        value: T,
    ) -> Result<(), Crowded> {
        self.entries.retain(|_, used| used.until > now);
        let host = host(from.ip());
        let is_of_host = |used: &&Used<T>| used.host == host && used.authenticated == authenticated;
        let of_host = self.entries.values().filter(is_of_host).count();
        if of_host >= self.max_per_host {
            return Err(Crowded::HostFull);
        }
        if self.entries.len() >= self.max {
            let loser = self.loser(authenticated, of_host).ok_or(Crowded::Full)?;
            self.entries.remove(&loser);
        }
        self.entries.insert(token, Used { until: now + COOKIE_LIFE, host, authenticated, value });
        Ok(())
    }

    /// The token that makes room for one of a host that has `theirs`.
    fn loser(&self, authenticated: bool, theirs: usize) -> Option<StreamToken> {
        let mut counts: BTreeMap<(bool, IpAddr), usize> = BTreeMap::new();
        for used in self.entries.values().filter(|used| authenticated || !used.authenticated) {
            *counts.entry((!used.authenticated, used.host)).or_default() += 1;
        }
        let (&(plain, host), &held) = counts.iter().max_by_key(|((plain, _), held)| (*plain, **held))?;
        if plain != authenticated && held < theirs + 2 {
            return None;
        }
        let of_host =
            self.entries.iter().filter(|(_, used)| used.host == host && used.authenticated != plain);
        of_host.min_by_key(|(_, used)| used.until).map(|(token, _)| *token)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;

    #[test]
    fn full_tables_share_room_between_hosts() {
        let mut used = UsedTokens::new(8, 4);
        let mut number = 0;
        let mut insert = |seconds: i64, host: u8, authenticated: bool| {
            number += 1;
            let now = Timestamp::ZERO + TimeDelta::from_seconds(seconds);
            let from = SocketAddr::from(([192, 0, 2, host], number as u16));
            let outcome = used.insert(now, from, (StreamToken(number), authenticated), ());
            (outcome, used.entries.len(), used.get_mut(StreamToken(1)).is_some())
        };
        for host in [1, 1, 1, 1, 2, 2, 2, 2] {
            assert_eq!(insert(0, host, false).0, Ok(()));
        }
        assert_eq!(insert(0, 1, false), (Err(Crowded::HostFull), 8, true));
        // Two hosts have all: each other one gets its share.
        assert_eq!(insert(1, 3, false).0, Ok(()));
        assert_eq!(insert(1, 4, false), (Ok(()), 8, false));
        assert_eq!(insert(1, 3, false).0, Ok(()));
        assert_eq!(insert(1, 4, false).0, Ok(()));
        assert_eq!(insert(1, 3, false).0, Err(Crowded::Full), "nobody has more");
        // Key holders get the room of all others, and keep it.
        for host in [5, 5, 5, 5, 6, 6, 6, 6] {
            assert_eq!(insert(2, host, true).0, Ok(()));
        }
        assert_eq!(insert(2, 7, false), (Err(Crowded::Full), 8, false));
        assert_eq!(insert(2, 7, true).0, Ok(()));
        assert_eq!(insert(40, 8, false), (Ok(()), 1, false), "the others have expired");
    }
}
