//! Losses by time, for RACK (RFC 8985).

use giusto_units::{TimeDelta, Timestamp};

use super::Scoreboard;
use crate::traffic::tcp::{history::Transmitted, rack::Rack};

impl Scoreboard {
    /// With RACK, marks losses after a timeout (RFC 8985 §6.3): the first segment, and all whose RTT of `wait` has passed.
    pub(in crate::traffic::tcp) fn on_rack_timeout(
        &mut self,
        now: Timestamp,
        wait: TimeDelta,
        lost: &mut dyn FnMut(Transmitted, u64),
    ) {
        let Some(history) = &mut self.history else { return };
        history.lose_resent_at(self.first);
        while history.oldest_resent().is_some_and(|sent| sent.at + wait <= now) {
            history.lose_oldest_resent();
        }
        let end = self.received.front().map_or(self.next, |range| range.0).min(self.first + self.segment);
        let last = history.sent_until(now - wait).filter(|_| now >= Timestamp::ZERO + wait);
        self.raise_lost(last.unwrap_or(0).max(end), lost);
    }

    /// With RACK, marks losses (RFC 8985 §6.2, step 5). Calls `lost` for each lost transmission with the number of missing
    /// bytes. Returns the time at which the next segments will be lost.
    pub(in crate::traffic::tcp) fn detect_lost(
        &mut self,
        now: Timestamp,
        rack: &Rack,
        wait: TimeDelta,
        lost: &mut dyn FnMut(Transmitted, u64),
    ) -> Option<Timestamp> {
        let newest = rack.newest()?;
        let history = self.history.as_mut()?;
        let mut due = None;
        while let Some(sent) = history.oldest_resent().filter(|sent| rack.is_newer_than(sent)) {
            if sent.at + wait > now {
                due = Some(sent.at + wait);
                break;
            }
            let bytes = history.lose_oldest_resent();
            if bytes > 0 {
                lost(sent, bytes);
            }
        }
        // The originals that are missing and older than the newest delivered segment.
        let from = self.lost_below.max(self.first);
        let (mut to, mut waiting) = (from, None);
        for sent in history.originals_above(from).take_while(|sent| rack.is_newer_than(sent)) {
            if sent.at + wait > now {
                waiting = Some(newest + wait);
                break;
            }
            to = sent.end;
        }
        if to > from {
            self.raise_lost(to, lost);
        }
        // The timer has to expire only if some of the others are missing.
        let history = self.history.as_ref()?;
        let waiting = waiting.filter(|_| {
            history
                .originals_above(to)
                .take_while(|sent| rack.is_newer_than(sent))
                .any(|sent| !self.is_received(sent.end - 1))
        });
        due.into_iter().chain(waiting).min()
    }

    fn is_received(&self, byte: u64) -> bool {
        let at = self.received.partition_point(|range| range.1 <= byte);
        byte < self.first || self.received.get(at).is_some_and(|range| range.0 <= byte)
    }

    /// Marks all missing bytes below `point` as lost.
    fn raise_lost(&mut self, point: u64, lost: &mut dyn FnMut(Transmitted, u64)) {
        let (from, to) = (self.lost_below.max(self.first), point.min(self.next));
        if to <= from {
            return;
        }
        if let Some(history) = &self.history {
            for sent in history.originals_above(from).take_while(|sent| sent.end <= to) {
                if !self.is_received(sent.end - 1) {
                    lost(sent, self.segment.min(sent.end - self.first));
                }
            }
        }
        let at = self.received.partition_point(|range| range.1 <= from);
        let between = self.received.iter().skip(at).take_while(|range| range.0 < to);
        let received: u64 = between.map(|range| range.1.min(to) - range.0.max(from)).sum();
        self.received_above_lost = self.received_above_lost.saturating_sub(received);
        self.lost_below = to;
    }
}
