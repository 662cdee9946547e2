//! Loss detection by time (RACK, RFC 8985 §6).

use giusto_units::{TimeDelta, Timestamp};

use super::history::Transmitted;

/// Number of later segments received that makes a segment lost: `DupThresh` (RFC 6675 §2, RFC 5681 §3.2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// Number of loss recoveries after which an enlarged reordering window is reset (RFC 8985 §6.2, step 4).
const PERSISTENCE: u32 = 16;
/// Length of the window of the minimum RTT: that of Linux. RFC 8985 §6.2, step 1, sets none.
const MIN_RTT_WINDOW: TimeDelta = TimeDelta::from_seconds(300);

/// The state of RACK.
///
/// | here | RFC 8985 §5.3 |
/// |---|---|
/// | `newest` | `RACK.xmit_ts`, `RACK.end_seq` |
/// | `rtt`, `min_rtt` | `RACK.rtt`, `RACK.min_RTT` |
/// | `highest` | `RACK.fack` |
/// | `reordering_seen` | `RACK.reordering_seen` |
/// | `multiplier`, `persistence`, `duplicate_until` | `RACK.reo_wnd_mult`, `RACK.reo_wnd_persist`, `RACK.dsack_round` |
#[derive(Debug, Default)]
pub(super) struct Rack {
    newest: Option<(Timestamp, u64)>,
    newest_is_retransmission: bool,
    rtt: TimeDelta,
    /// Minimum RTT of this window and of the one before.
    min_rtt: [Option<TimeDelta>; 2],
    min_rtt_since: Timestamp,
    highest: u64,
    reordering_seen: bool,
    multiplier: u32,
    persistence: u32,
    duplicate_until: Option<u64>,
}

impl Rack {
    /// Creates the state of a connection whose handshake had this RTT.
    pub(super) fn starting_with(rtt: Option<TimeDelta>) -> Self {
        Self { min_rtt: [rtt, None], ..Self::default() }
    }

    /// Processes a delivered transmission (step 2). `echo` is the echoed timestamp, if timestamps are in use. Returns
    /// whether the acknowledgement is one of this transmission.
    pub(super) fn on_delivered(
        &mut self,
        now: Timestamp,
        echo: Option<Timestamp>,
        sent: &Transmitted,
    ) -> bool {
        let rtt = now.saturating_since(sent.at);
        if sent.is_retransmission {
            let is_of_original = echo.is_some_and(|echo| echo < sent.at);
            if is_of_original || self.min_rtt().is_some_and(|min_rtt| rtt < min_rtt) {
                return false;
            }
        } else {
            self.on_rtt(now, rtt);
        }
        self.rtt = rtt;
        if self.newest.is_none_or(|newest| (sent.at, sent.end) > newest) {
            self.newest = Some((sent.at, sent.end));
            self.newest_is_retransmission = sent.is_retransmission;
        }
        true
    }

    fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        if now.saturating_since(self.min_rtt_since) >= MIN_RTT_WINDOW {
            self.min_rtt = [None, self.min_rtt[0]];
            self.min_rtt_since = now;
        }
        self.min_rtt[0] = Some(self.min_rtt[0].map_or(rtt, |min_rtt| min_rtt.min(rtt)));
    }

    pub(super) fn min_rtt(&self) -> Option<TimeDelta> {
        self.min_rtt.iter().flatten().min().copied()
    }

    /// Processes the delivery of data from `from` that was never retransmitted, before
    /// [`on_highest`](Self::on_highest) (step 3).
    pub(super) fn on_original(&mut self, from: u64) {
        self.reordering_seen |= from < self.highest;
    }

    /// Processes the highest delivered byte of an acknowledgement (step 3).
    pub(super) fn on_highest(&mut self, end: u64) {
        self.highest = self.highest.max(end);
    }

    /// Processes the report of a duplicate (step 4). `first` and `next` are `SND.UNA` and `SND.NXT`.
    pub(super) fn on_duplicate(&mut self, first: u64, next: u64) {
        if self.duplicate_until.is_none_or(|until| first >= until) {
            self.duplicate_until = Some(next);
            self.multiplier = self.multiplier.max(1) + 1;
            self.persistence = PERSISTENCE;
        }
    }

    /// Processes the end of a recovery (step 4).
    pub(super) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.multiplier = 1;
        }
    }

    /// The reordering window (step 4). `sacked` is the number of segments received above a missing one.
    pub(super) fn reordering_window(&self, in_recovery: bool, sacked: u64, smoothed: TimeDelta) -> TimeDelta {
        if !self.reordering_seen && (in_recovery || sacked >= u64::from(DUPLICATE_THRESHOLD)) {
            return TimeDelta::ZERO;
        }
        let quarter = self.min_rtt().unwrap_or_default() / 4;
        (quarter * i64::from(self.multiplier.max(1))).min(smoothed)
    }

    /// Whether the newest delivered segment was sent after `sent` (`RACK_sent_after`).
    ///
    /// Deviation: at the same time, the sequence does not tell whether new data was sent before or after a retransmission,
    /// so neither is newer. The simulated clock makes such times frequent.
    pub(super) fn is_newer_than(&self, sent: &Transmitted) -> bool {
        let is_ordered = sent.is_retransmission == self.newest_is_retransmission;
        self.newest.is_some_and(|newest| {
            newest.0 > sent.at || (newest.0 == sent.at && newest.1 > sent.end && is_ordered)
        })
    }

    /// Send time of the newest delivered segment.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.newest.map(|newest| newest.0)
    }

    /// RTT of the last delivered segment; 0 before the first.
    pub(super) fn rtt(&self) -> TimeDelta {
        self.rtt
    }
}
