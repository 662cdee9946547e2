//! Streams to a multicast group: announced, and never answered.

use std::net::SocketAddr;

use giusto_units::Timestamp;

use super::{Receiver, slots::Standing};
use crate::probe::{
    announcer::NO_COOKIE,
    stream::Stream,
    wire::{StreamFormat, StreamRequest, StreamToken},
};

impl Receiver {
    /// Handles the announcement of a stream to our group, whose next datagram is number `next`.
    pub(super) fn handle_announcement(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        (token, next): (StreamToken, u64),
        request: StreamRequest,
    ) {
        let is_known = self.streams.get(&from).is_some_and(|(_, stream)| stream.token == Some(token));
        let has_ended = self.lingering.get(&from).is_some_and(|past| past.token == Some(token));
        if is_known || has_ended {
            return;
        }
        let limit = self.config.limits.rate;
        let is_too_fast = limit.is_some_and(|max| request.rate_bps.is_none_or(|asked| asked > max.as_bps()));
        // A source has one stream: what else claims its address is doubtful.
        let is_taken = self.streams.contains_key(&from) || request.format != StreamFormat::Giusto;
        if is_too_fast || is_taken || self.make_room(now, from, Standing::Verified).is_err() {
            self.counters.refused += 1;
            return;
        }
        let their_origin = self.config.clock.origin_of(&request.clock, token.0, &NO_COOKIE);
        let begin = if next > 0 { Stream::joined } else { Stream::requested };
        let mut stream = begin(now, from, request, &self.config.clock, their_origin);
        stream.token = Some(token);
        stream.begin_kernel_dropped(self.kernel_dropped);
        self.insert(from, stream);
    }
}
