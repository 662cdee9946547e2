//! The data phase of a connection: what to send next, what an acknowledgement means, how losses are mended.

use giusto_units::{TimeDelta, Timestamp};

use super::{
    control::{Acknowledged, CongestionControl, Opening},
    prr::{Progress, ProportionalReduction},
    rto::RtoEstimator,
    scoreboard::{DUPLICATE_THRESHOLD, Range, Scoreboard},
    segment::{Flags, Segment},
    settings::Settings,
};

/// What happened in the data phase, over all connections.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    pub(super) segments: u64,
    pub(super) resent: u64,
    pub(super) timeouts: u64,
    pub(super) fast_recoveries: u64,
    pub(super) reductions: u64,
    pub(super) marks_heeded: u64,
}

/// A segment of data to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) range: Range,
    /// It was sent before.
    pub(super) again: bool,
    /// It tells that the window was reduced.
    pub(super) reduced: bool,
}

/// Where loss recovery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is missing, as far as is known.
    Open,
    /// Fast recovery, until all below the point is acknowledged; `partial`: an acknowledgement below it has come, without SACK.
    Recovery { point: u64, partial: bool },
    /// After a timeout, until all below the point is acknowledged.
    Loss { point: u64 },
}

/// The sender's half of the data phase.
#[derive(Debug)]
pub(super) struct Transmission {
    control: Box<dyn CongestionControl>,
    board: Scoreboard,
    rto: RtoEstimator,
    settings: Settings,
    /// What both ends agreed on.
    uses: Flags,
    segment: u64,
    /// How far the application has written.
    offered: u64,
    phase: Phase,
    /// Within a fast recovery, if it is used.
    reduction: Option<ProportionalReduction>,
    /// The first unacknowledged segment is to be sent again, whatever the window.
    resend_first: bool,
    duplicates: u32,
    /// New data that left during limited transmit.
    limited_transmit: u64,
    /// What fast recovery and limited transmit without SACK add to the window (RFC 5681 §3.2).
    inflation: i64,
    /// `recover` + 1 (RFC 6582 §3.2).
    recover: Option<u64>,
    /// The cumulative acknowledgment before the latest (RFC 6582 §4.1).
    previous_first: u64,
    /// The first unacknowledged byte at the latest timeout.
    timed_out: Option<u64>,
    /// All that was sent before the latest reduction lies below; no further reduction until it is acknowledged.
    reduced_until: u64,
    announce_reduction: bool,
    /// Without timestamps: the end of the segment whose round trip is measured, and when it left.
    timed: Option<(u64, Timestamp)>,
    /// It was the window that ended the latest burst.
    held_by_window: bool,
    timer: Option<Timestamp>,
    last_sent: Timestamp,
    counts: Counts,
}

impl Transmission {
    pub(super) fn new(settings: Settings, control: Box<dyn CongestionControl>) -> Self {
        let segment = settings.segment();
        let mut transmission = Self {
            control,
            board: Scoreboard::new(segment),
            rto: RtoEstimator::new(settings.rto_floor),
            settings,
            uses: Flags::NONE,
            segment,
            offered: 0,
            phase: Phase::Open,
            reduction: None,
            resend_first: false,
            duplicates: 0,
            limited_transmit: 0,
            inflation: 0,
            recover: None,
            previous_first: 0,
            timed_out: None,
            reduced_until: 0,
            announce_reduction: false,
            timed: None,
            held_by_window: false,
            timer: None,
            last_sent: Timestamp::ZERO,
            counts: Counts::default(),
        };
        transmission.begin(RtoEstimator::new(transmission.settings.rto_floor), Flags::NONE, false);
        transmission
    }

    /// A connection was opened, with `uses` agreed on and `rto` as the handshake left it; `late`: its SYN was sent more than once,
    /// and the initial window is one segment (RFC 5681 §3.1).
    pub(super) fn begin(&mut self, rto: RtoEstimator, uses: Flags, late: bool) {
        let window = if late { self.segment } else { self.settings.initial_window_bytes() };
        self.control.begin(Opening {
            segment: self.segment,
            window,
            threshold: self
                .settings
                .initial_threshold
                .map_or(u64::MAX, |size| size.as_bytes().max(self.segment)),
            slow_start_limit: self.settings.slow_start_limit(),
            hystart: self.settings.runs_hystart(),
        });
        self.rto = rto;
        self.uses = uses;
        self.board.clear();
        self.offered = 0;
        self.phase = Phase::Open;
        self.reduction = None;
        self.resend_first = false;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = 0;
        self.recover = None;
        self.previous_first = 0;
        self.timed_out = None;
        self.reduced_until = 0;
        self.announce_reduction = false;
        self.timed = None;
        self.held_by_window = false;
        self.timer = None;
    }

    /// The application writes `bytes` more; `None`: without end.
    pub(super) fn offer(&mut self, now: Timestamp, bytes: Option<u64>) {
        let idle = now.saturating_since(self.last_sent);
        if self.board.flight() == 0 && self.board.next() > 0 && idle > self.rto.timeout() {
            // RFC 5681 §4.1: the restart window is the initial one, or less.
            self.control.cap(now, self.settings.initial_window_bytes());
        }
        self.offered = bytes.map_or(u64::MAX, |bytes| self.offered.saturating_add(bytes));
    }

    /// The application writes no more.
    pub(super) fn stop(&mut self) {
        self.offered = self.offered.min(self.board.next());
    }

    /// Whether all that the application wrote is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.board.first() == self.offered
    }

    /// How far the application has written.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// Whether data is ECN-capable.
    pub(super) fn uses_ecn(&self) -> bool {
        self.uses.contains(Flags::ECE)
    }

    pub(super) fn timer(&self) -> Option<Timestamp> {
        self.timer
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The congestion window.
    pub(super) fn window(&self) -> u64 {
        self.reduction.map_or(self.control.window(), |reduction| reduction.window())
    }

    /// The slow start threshold.
    pub(super) fn threshold(&self) -> u64 {
        self.control.threshold()
    }

    pub(super) fn rto(&self) -> &RtoEstimator {
        &self.rto
    }

    /// Bytes believed to be in the network.
    pub(super) fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    /// The next segment that may leave now.
    pub(super) fn next_segment(&mut self, now: Timestamp) -> Option<Outgoing> {
        let first = std::mem::take(&mut self.resend_first).then(|| self.board.first_segment()).flatten();
        if let Some(range) = first {
            if self.sack() {
                self.board.on_resent(range);
                self.board.on_rescued(range.1);
            }
            return Some(self.send_again(now, range));
        }
        match self.phase {
            Phase::Loss { .. } => {
                if let Some(range) = self.board.next_lost() {
                    return self.fits(range.1 - range.0).then(|| {
                        self.board.on_resent(range);
                        self.send_again(now, range)
                    });
                }
                self.send_new(now)
            }
            // RFC 6675 §5, step C: as long as there is room for a full segment.
            Phase::Recovery { point, .. } if self.sack() => {
                if !self.fits(self.segment) {
                    return None;
                }
                if let Some(range) = self.board.next_lost() {
                    self.board.on_resent(range);
                    return Some(self.send_again(now, range));
                }
                if let Some(new) = self.send_new(now) {
                    return Some(new);
                }
                if let Some(range) = self.board.next_suspect() {
                    self.board.on_resent(range);
                    return Some(self.send_again(now, range));
                }
                let range = self.board.rescue()?;
                self.board.on_rescued(point);
                Some(self.send_again(now, range))
            }
            Phase::Open | Phase::Recovery { .. } => self.send_new(now),
        }
    }

    /// `segment` acknowledges.
    pub(super) fn on_ack(&mut self, now: Timestamp, segment: &Segment) {
        let flight = self.board.flight();
        let before = self.board.first();
        let (delivered, lost_below) = (self.board.delivered(), self.board.lost_below());
        let advanced = self.board.on_cumulative(segment.acknowledgment);
        let mut selective = 0;
        if self.sack() {
            for range in segment.sack.ranges(segment.acknowledgment) {
                selective += self.board.on_selective(range);
            }
        }
        let mut sample = None;
        if advanced > 0 {
            self.previous_first = before;
            sample = self.on_advance(now, advanced, segment);
        }
        let echo = self.uses.contains(Flags::ECE) && segment.flags.contains(Flags::ECE);
        if echo && advanced > 0 && before >= self.reduced_until {
            self.reduce(now, flight);
            self.counts.marks_heeded += 1;
        }
        // With SACK, a duplicate acknowledgement is one that tells of an arrival (RFC 6675 §2).
        let duplicate = if self.sack() {
            selective > 0
        } else {
            advanced == 0 && flight > 0 && segment.acknowledgment == before
        };
        // RFC 3168 §6.1.2: no growth for an acknowledgement with an echo.
        let growth = if echo { 0 } else { advanced };
        match self.phase {
            Phase::Open => {
                self.grow(now, growth, sample);
                if duplicate {
                    self.on_duplicate(now);
                }
            }
            Phase::Recovery { point, .. } if self.board.first() >= point => {
                if !self.sack() {
                    // RFC 6582 §3.2, step 3, full acknowledgement, the first way: no burst.
                    self.control.cap(now, self.board.flight().max(self.segment) + self.segment);
                    self.inflation = 0;
                }
                self.phase = Phase::Open;
                self.reduction = None;
            }
            Phase::Recovery { .. } if self.sack() => {}
            Phase::Recovery { point, .. } if advanced > 0 => self.on_partial(point, advanced),
            Phase::Recovery { .. } => self.inflation += if duplicate { self.segment as i64 } else { 0 },
            Phase::Loss { point } => {
                self.grow(now, growth, sample);
                if self.board.first() >= point {
                    self.phase = Phase::Open;
                }
            }
        }
        self.regulate(before, delivered, lost_below);
    }

    /// Proportional rate reduction, from what was acknowledged, delivered and lost before an acknowledgement (RFC 9937 §6.1, §6.2).
    fn regulate(&mut self, first: u64, delivered: u64, lost_below: u64) {
        if !matches!(self.phase, Phase::Recovery { .. }) || !self.sack() || !self.settings.prr {
            return;
        }
        let target = self.control.window();
        // What was sent and not delivered before: what is not delivered now, and what this acknowledgement brought.
        let flight = self.board.next() - delivered;
        let reduction =
            self.reduction.get_or_insert_with(|| ProportionalReduction::new(self.segment, target, flight));
        reduction.on_ack(Progress {
            delivered: self.board.delivered() - delivered,
            pipe: self.board.pipe(),
            is_safe: self.board.first() > first && !self.board.has_lost_since(lost_below),
        });
    }

    /// The retransmission timer, if it has expired (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    pub(super) fn fire_due(&mut self, now: Timestamp) {
        if self.timer.is_none_or(|due| due > now) {
            return;
        }
        if self.board.flight() == 0 {
            self.timer = None;
            return;
        }
        let again = self.timed_out == Some(self.board.first());
        let flight = self.board.flight().min(self.control.window());
        self.control.on_timeout(now, flight, again);
        self.timed_out = Some(self.board.first());
        self.rto.back_off();
        self.board.give_up();
        self.phase = Phase::Loss { point: self.board.next() };
        self.reduction = None;
        self.recover = Some(self.board.next());
        self.resend_first = false;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = 0;
        self.timed = None;
        self.note_reduction();
        self.timer = Some(now + self.rto.timeout());
        self.counts.timeouts += 1;
    }

    fn sack(&self) -> bool {
        self.uses.contains(Flags::SACK_PERMITTED)
    }

    /// Whether `bytes` more may be under way, as far as the congestion window goes.
    fn fits(&mut self, bytes: u64) -> bool {
        let window = self.window().saturating_add_signed(self.inflation).max(self.segment);
        let fits = self.board.pipe() + bytes <= window;
        self.held_by_window = !fits;
        fits
    }

    fn send_new(&mut self, now: Timestamp) -> Option<Outgoing> {
        let from = self.board.next();
        let to = self.offered.min(from.saturating_add(self.segment));
        if from >= to || to - self.board.first() > self.settings.receive_window.as_bytes() {
            self.held_by_window = false;
            return None;
        }
        if !self.fits(to - from) {
            return None;
        }
        self.board.on_sent(to - from);
        if self.phase == Phase::Open && self.duplicates > 0 {
            self.limited_transmit += to - from;
        }
        if !self.uses.contains(Flags::TIMESTAMPS) && self.timed.is_none() {
            self.timed = Some((to, now));
        }
        let reduced = std::mem::take(&mut self.announce_reduction);
        self.on_sent(now, to - from);
        Some(Outgoing { range: (from, to), again: false, reduced })
    }

    fn send_again(&mut self, now: Timestamp, range: Range) -> Outgoing {
        // Karn's rule (RFC 6298 §3).
        self.timed = None;
        if range.0 == self.board.first() && matches!(self.phase, Phase::Recovery { partial: false, .. }) {
            // No segment is sent again less than a timeout after it was sent (RFC 6298 §5; RFC 6675 §6 allows it).
            self.timer = None;
        }
        self.counts.resent += 1;
        self.on_sent(now, range.1 - range.0);
        Outgoing { range, again: true, reduced: false }
    }

    fn on_sent(&mut self, now: Timestamp, bytes: u64) {
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent(bytes);
        }
        self.counts.segments += 1;
        self.last_sent = now;
        if self.timer.is_none() {
            self.timer = Some(now + self.rto.timeout());
        }
    }

    /// New data was cumulatively acknowledged: measures, and sets the timer anew (RFC 6298 §5.2, §5.3). Returns the round trip that
    /// was measured.
    fn on_advance(&mut self, now: Timestamp, advanced: u64, segment: &Segment) -> Option<TimeDelta> {
        self.counts.acknowledged += advanced;
        self.duplicates = 0;
        self.limited_transmit = 0;
        if self.phase == Phase::Open {
            self.inflation = 0;
        }
        let sent = if self.uses.contains(Flags::TIMESTAMPS) {
            Some(segment.echo)
        } else {
            self.timed.take_if(|(end, _)| *end <= self.board.first()).map(|(_, sent)| sent)
        };
        let sample = sent.map(|sent| now.saturating_since(sent));
        if let Some(sample) = sample {
            self.rto.on_sample(sample);
        }
        if self.board.flight() == 0 {
            self.timer = None;
        } else if !matches!(self.phase, Phase::Recovery { partial: true, .. }) {
            // Without SACK only the first partial acknowledgement does (RFC 6582 §3.2, step 3).
            self.timer = Some(now + self.rto.timeout());
        }
        sample
    }

    fn grow(&mut self, now: Timestamp, bytes: u64, sample: Option<TimeDelta>) {
        if bytes == 0 {
            return;
        }
        let round_trip = self.rto.smoothed().unwrap_or_default();
        let ack = Acknowledged {
            bytes,
            limited: self.held_by_window,
            round_trip,
            sample,
            up_to: self.board.first(),
            next: self.board.next(),
        };
        self.control.on_ack(now, ack);
    }

    /// A duplicate acknowledgement while nothing is known to be lost (RFC 6675 §5, steps 1 to 4; RFC 5681 §3.2).
    fn on_duplicate(&mut self, now: Timestamp) {
        self.duplicates += 1;
        let enough = self.duplicates >= DUPLICATE_THRESHOLD;
        if self.sack() {
            if enough || self.board.is_first_lost() {
                self.enter_recovery(now);
            } else {
                self.board.begin_recovery();
            }
        } else if !enough {
            // Limited transmit (RFC 3042).
            self.inflation += self.segment as i64;
        } else if self.duplicates == DUPLICATE_THRESHOLD && self.may_recover() {
            self.enter_recovery(now);
        }
    }

    /// Whether three duplicates tell of a loss, and not of what a timeout sent needlessly (RFC 6582 §3.2, step 2, and §4.1).
    fn may_recover(&self) -> bool {
        let first = self.board.first();
        self.recover.is_none_or(|recover| first > recover)
            || (self.control.window() > self.segment && first - self.previous_first <= 4 * self.segment)
    }

    fn enter_recovery(&mut self, now: Timestamp) {
        if self.board.first() >= self.reduced_until {
            self.reduce(now, self.board.flight() - self.limited_transmit.min(self.board.flight()));
        }
        let point = self.board.next();
        self.phase = Phase::Recovery { point, partial: false };
        self.recover = Some(point);
        self.board.begin_recovery();
        self.resend_first = true;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = if self.sack() { 0 } else { i64::from(DUPLICATE_THRESHOLD) * self.segment as i64 };
        self.counts.fast_recoveries += 1;
    }

    /// A partial acknowledgement during a recovery without SACK (RFC 6582 §3.2, step 3).
    fn on_partial(&mut self, point: u64, advanced: u64) {
        self.resend_first = true;
        self.phase = Phase::Recovery { point, partial: true };
        self.inflation -= advanced as i64;
        if advanced >= self.segment {
            self.inflation += self.segment as i64;
        }
    }

    fn reduce(&mut self, now: Timestamp, flight: u64) {
        self.control.on_congestion(now, flight.min(self.control.window()));
        // A new reduction is a new episode (RFC 9937 §6.4).
        self.reduction = None;
        self.note_reduction();
    }

    /// One reduction for each window of data (RFC 3168 §6.1.2), told to the receiver with the next new data.
    fn note_reduction(&mut self) {
        self.reduced_until = self.board.next();
        self.announce_reduction = self.uses.contains(Flags::ECE);
        self.counts.reductions += 1;
    }
}
