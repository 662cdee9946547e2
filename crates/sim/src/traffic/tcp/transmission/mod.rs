//! The data phase of a connection: what is sent when, and what an acknowledgement does.

mod detection;
mod feedback;
mod frto;
mod recovery;
mod tail_probe;

use giusto_units::{DataSize, TimeDelta, Timestamp};

use self::{frto::Frto, recovery::Recovery, tail_probe::TailProbe};
use super::{
    control::{Acknowledgment, CongestionControl, ConnectionStart},
    delivery::Delivery,
    news::News,
    rack::Rack,
    ranges::Range,
    rto::RtoEstimator,
    scoreboard::Scoreboard,
    settings::Settings,
    stats::TcpStats,
};
use crate::traffic::segment::{Flags, Segment};

/// A data segment to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) range: Range,
    pub(super) is_retransmission: bool,
    /// Whether it carries CWR.
    pub(super) announces_reduction: bool,
}

/// What a connection does about losses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// No known loss.
    #[default]
    Open,
    /// Fast recovery until all data below `point` is acknowledged. `partial`: a partial acknowledgement has arrived, without
    /// SACK.
    Recovery { point: u64, partial: bool },
    /// After a timeout, until all data below `point` is acknowledged.
    Loss { point: u64 },
}

/// The sender's half of the data phase.
#[derive(Debug)]
pub(super) struct Transmission {
    control: Box<dyn CongestionControl>,
    board: Scoreboard,
    settings: Settings,
    segment: u64,
    counts: TcpStats,
    last_sent: Timestamp,
    /// With pacing: when the next segment may leave.
    paced_until: Timestamp,

    // What follows belongs to one connection: `begin` resets it.
    rto: RtoEstimator,
    /// The negotiated options.
    uses: Flags,
    /// Whether RACK and tail loss probes are in use (RFC 8985).
    uses_rack: bool,
    rack: Rack,
    /// When RACK will mark the next segments as lost.
    reorder_due: Option<Timestamp>,
    /// End of the data written by the application.
    written: u64,
    recovery: Recovery,
    frto: Frto,
    tail_probe: TailProbe,
    /// Without timestamps: end and send time of the segment whose RTT is being measured.
    timed: Option<(u64, Timestamp)>,
    /// Whether the congestion window ended the last burst.
    window_limited: bool,
    /// Whether the next segment waits for `paced_until`.
    is_paced: bool,
    timer: Option<Timestamp>,
    /// Count of marked segments in the last acknowledgement (accurate ECN).
    marked: u16,
    /// Delivery-rate samples, if the congestion control needs them.
    delivery: Option<Box<Delivery>>,
}

impl Transmission {
    pub(super) fn new(settings: Settings, control: Box<dyn CongestionControl>) -> Self {
        let segment = settings.segment();
        let rto = RtoEstimator::new(settings.rto_floor);
        let mut transmission = Self {
            control,
            board: Scoreboard::new(segment),
            settings,
            segment,
            counts: TcpStats::default(),
            last_sent: Timestamp::ZERO,
            paced_until: Timestamp::ZERO,
            rto,
            uses: Flags::NONE,
            uses_rack: false,
            rack: Rack::default(),
            reorder_due: None,
            written: 0,
            recovery: Recovery::default(),
            frto: Frto::Off,
            tail_probe: TailProbe::default(),
            timed: None,
            window_limited: false,
            is_paced: false,
            timer: None,
            marked: 0,
            delivery: None,
        };
        transmission.begin(rto, Flags::NONE, false);
        transmission
    }

    /// Starts the data phase with the negotiated options and the RTO of the handshake. After a SYN retransmission the
    /// initial window is one segment (RFC 5681 §3.1).
    pub(super) fn begin(&mut self, rto: RtoEstimator, uses: Flags, syn_was_lost: bool) {
        let window = if syn_was_lost { self.segment } else { self.settings.initial_window_bytes() };
        self.control.on_start(ConnectionStart {
            segment: self.segment,
            window,
            threshold: self
                .settings
                .initial_threshold
                .map_or(u64::MAX, |size| size.as_bytes().max(self.segment)),
            slow_start_limit: self.settings.slow_start_limit(),
            hystart: self.settings.uses_hystart(),
        });
        self.rto = rto;
        self.uses = uses;
        self.uses_rack = self.settings.rack && uses.contains(Flags::SACK_PERMITTED);
        self.board.clear(self.uses_rack);
        self.rack = Rack::starting_with(rto.smoothed());
        self.reorder_due = None;
        self.written = 0;
        self.recovery = Recovery::default();
        self.frto = Frto::Off;
        self.tail_probe = TailProbe::default();
        self.timed = None;
        self.window_limited = false;
        self.is_paced = false;
        self.timer = None;
        self.marked = 0;
        self.delivery = (self.uses_rack && self.control.needs_rate()).then(Box::default);
    }

    /// Adds `bytes` of application data; `None`: unlimited.
    pub(super) fn write(&mut self, now: Timestamp, bytes: Option<u64>) {
        let idle = now.saturating_since(self.last_sent);
        if self.board.flight() == 0 && self.board.next() > 0 && idle > self.rto.timeout() {
            // RFC 5681 §4.1: the restart window is at most the initial window.
            self.control.limit_window(now, self.settings.initial_window_bytes());
        }
        self.written = bytes.map_or(u64::MAX, |bytes| self.written.saturating_add(bytes));
    }

    /// Discards all data that has not been sent.
    pub(super) fn stop(&mut self) {
        self.written = self.written.min(self.board.next());
    }

    /// Whether all application data is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.board.first() == self.written
    }

    /// End of the data written by the application.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether data is ECN-capable.
    pub(super) fn uses_ecn(&self) -> bool {
        self.uses.contains(Flags::ECE)
    }

    pub(super) fn timer(&self) -> Option<Timestamp> {
        let paced = self.is_paced.then_some(self.paced_until);
        Timestamp::earliest([self.timer, self.tail_probe.due, self.reorder_due, paced])
    }

    /// The counters of the data phase over all connections; the rest of it is the sender's.
    pub(super) fn counts(&self) -> TcpStats {
        self.counts
    }

    pub(super) fn window(&self) -> u64 {
        self.recovery.reduction.map_or(self.control.window(), |reduction| reduction.window())
    }

    pub(super) fn threshold(&self) -> u64 {
        self.control.threshold()
    }

    pub(super) fn rto(&self) -> &RtoEstimator {
        &self.rto
    }

    pub(super) fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    /// Returns the next segment that may be sent now.
    pub(super) fn next_segment(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.is_paced = false;
        if now < self.paced_until && self.control.pacing_rate().is_some() {
            // There may be nothing to send; then the timer has no effect.
            self.is_paced = true;
            // Pacing spreads the window over the RTT, so the window is the limit although it is not full (as in the slow
            // start of Linux, `tcp_is_cwnd_limited`).
            self.window_limited = self.new_end().is_some() && 2 * self.board.pipe() >= self.window();
            return None;
        }
        if std::mem::take(&mut self.tail_probe.is_next)
            && let Some(probe) = self.loss_probe(now)
        {
            return Some(probe);
        }
        if let Frto::Probing { point, new } = self.frto {
            // Step 3 sends new data only.
            let new = new.checked_sub(1)?;
            self.frto = Frto::Probing { point, new };
            return self.transmit_new(now);
        }
        if std::mem::take(&mut self.recovery.retransmit_first)
            && let Some(first) = self.board.first_segment()
        {
            if self.uses_rack {
                let range = self.board.next_lost().unwrap_or(first);
                return Some(self.repair(now, range));
            }
            if self.sack() || matches!(self.recovery.phase, Phase::Loss { .. }) {
                self.board.on_retransmitted(first);
                self.board.on_rescued(first.1);
            }
            return Some(self.retransmit(now, first));
        }
        if self.frto == Frto::Retransmitted {
            return None;
        }
        match self.recovery.phase {
            Phase::Loss { .. } => match self.board.next_lost() {
                Some(range) => self.fits(range.1 - range.0).then(|| self.repair(now, range)),
                None => self.send_new(now),
            },
            // RFC 6675 §5, step C: while there is room for a full segment.
            Phase::Recovery { point, .. } if self.sack() => {
                if !self.fits(self.segment) {
                    return None;
                }
                if let Some(range) = self.board.next_lost() {
                    return Some(self.repair(now, range));
                }
                if let Some(new) = self.send_new(now) {
                    return Some(new);
                }
                if self.uses_rack {
                    // The reordering timer finds further losses.
                    return None;
                }
                if let Some(range) = self.board.next_suspect() {
                    return Some(self.repair(now, range));
                }
                let range = self.board.rescue()?;
                self.board.on_rescued(point);
                Some(self.retransmit(now, range))
            }
            Phase::Open | Phase::Recovery { .. } => self.send_new(now),
        }
    }

    /// Processes an acknowledgement.
    pub(super) fn on_ack(&mut self, now: Timestamp, segment: &Segment) {
        let flight = self.board.flight();
        let before = self.board.first();
        let (delivered, lost_below) = (self.board.delivered(), self.board.lost_below());
        let echo = self.uses.contains(Flags::TIMESTAMPS).then_some(segment.echo);
        let mut news = News::new(now, echo, &mut self.rack);
        let advanced = self.board.on_cumulative(segment.acknowledgment, &mut news);
        let mut selective = 0;
        if self.uses.contains(Flags::SACK_PERMITTED) {
            for range in segment.sack.ranges(segment.acknowledgment) {
                selective += self.board.on_selective(range, &mut news);
            }
        }
        let (newest, original) = news.finish();
        if self.uses_rack && segment.flags.contains(Flags::DSACK) {
            self.rack.on_duplicate(self.board.first(), self.board.next());
        }
        let lost_again = self.board.has_lost();
        self.detect_lost(now);
        let mut sample = None;
        if advanced > 0 {
            self.recovery.previous_first = before;
            sample = self.on_advance(now, advanced, segment);
        }
        self.give_feedback(now, segment, newest, delivered, sample);
        let echo = self.uses.contains(Flags::ECE) && segment.flags.contains(Flags::ECE);
        if echo && advanced > 0 && before >= self.recovery.reduced_until {
            self.reduce(now, flight);
            self.counts.ecn_reductions += 1;
        }
        self.on_probe_acknowledged(now, segment, flight);
        self.run_frto(now, advanced, selective, original);
        // With SACK, a duplicate acknowledgement is one with new SACK information (RFC 6675 §2).
        let duplicate = if self.sack() {
            selective > 0
        } else {
            advanced == 0 && flight > 0 && segment.acknowledgment == before
        };
        // RFC 3168 §6.1.2: no growth for an acknowledgement with ECE.
        let growth = if echo { 0 } else { advanced };
        match self.recovery.phase {
            Phase::Open => {
                self.grow(now, growth, sample);
                if self.uses_rack {
                    self.recover_if_lost(now);
                } else if duplicate {
                    self.on_duplicate(now);
                }
            }
            Phase::Recovery { point, .. } => self.on_ack_in_recovery(now, point, advanced, duplicate),
            Phase::Loss { point } => {
                self.grow(now, growth, sample);
                if self.board.first() >= point {
                    self.end_recovery();
                }
            }
        }
        let more_lost = self.board.has_lost_since(lost_below) || (self.board.has_lost() && !lost_again);
        self.update_reduction(before, delivered, more_lost);
        if advanced > 0 {
            self.arm_probe(now);
        }
    }

    /// Processes the timers that have expired.
    pub(super) fn run_timer(&mut self, now: Timestamp) {
        if self.reorder_due.is_some_and(|due| due <= now) {
            self.detect_lost(now);
            if self.recovery.phase == Phase::Open {
                self.recover_if_lost(now);
            }
        }
        if self.tail_probe.due.is_some_and(|due| due <= now) {
            self.on_probe_timeout(now);
        }
        if self.timer.is_some_and(|due| due <= now) {
            self.timer = None;
            if self.board.flight() > 0 {
                self.on_retransmission_timeout(now);
            }
        }
    }

    fn sack(&self) -> bool {
        self.uses.contains(Flags::SACK_PERMITTED)
    }

    /// Whether the congestion window permits `bytes` more in flight.
    fn fits(&mut self, bytes: u64) -> bool {
        let window = self.window().saturating_add_signed(self.recovery.inflation).max(self.segment);
        let fits = self.board.pipe() + bytes <= window;
        self.window_limited = !fits;
        fits
    }

    fn send_new(&mut self, now: Timestamp) -> Option<Outgoing> {
        let from = self.board.next();
        let Some(to) = self.new_end() else {
            self.window_limited = false;
            return None;
        };
        if !self.fits(to - from) {
            return None;
        }
        self.transmit_new(now)
    }

    /// End of the next new segment, if there is one and the receive window permits it.
    fn new_end(&self) -> Option<u64> {
        let from = self.board.next();
        let to = self.written.min(from.saturating_add(self.segment));
        (from < to && to - self.board.first() <= self.settings.receive_window.as_bytes()).then_some(to)
    }

    /// Sends new data without a check of the congestion window.
    fn transmit_new(&mut self, now: Timestamp) -> Option<Outgoing> {
        let (from, to) = (self.board.next(), self.new_end()?);
        let stamp = self.stamp(now, to - from);
        self.board.on_sent(now, to - from, stamp);
        if self.recovery.phase == Phase::Open && self.recovery.duplicates > 0 {
            self.recovery.limited_transmit += to - from;
        }
        if !self.uses.contains(Flags::TIMESTAMPS) && self.timed.is_none() {
            self.timed = Some((to, now));
        }
        let announces_reduction = std::mem::take(&mut self.recovery.announce_reduction);
        self.on_sent(now, to - from);
        self.arm_probe(now);
        Some(Outgoing { range: (from, to), is_retransmission: false, announces_reduction })
    }

    /// Retransmits a segment that the scoreboard found lost.
    fn repair(&mut self, now: Timestamp, range: Range) -> Outgoing {
        self.board.on_retransmitted(range);
        self.retransmit(now, range)
    }

    fn retransmit(&mut self, now: Timestamp, range: Range) -> Outgoing {
        if range.0 == self.board.first()
            && matches!(self.recovery.phase, Phase::Recovery { partial: false, .. })
        {
            // Restarts the timer, so that no segment times out less than an RTO after its transmission (RFC 6298 §5; RFC
            // 6675 §6 permits it).
            self.timer = None;
        }
        self.resend(now, range, false)
    }

    /// Sends `range` once more; `is_probe` if its original is not known to be lost.
    fn resend(&mut self, now: Timestamp, range: Range, is_probe: bool) -> Outgoing {
        // Karn's algorithm (RFC 6298 §3).
        self.timed = None;
        self.counts.retransmitted += 1;
        let stamp = self.stamp(now, range.1 - range.0);
        self.board.on_resent(now, range, is_probe, stamp);
        self.on_sent(now, range.1 - range.0);
        Outgoing { range, is_retransmission: true, announces_reduction: false }
    }

    fn on_sent(&mut self, now: Timestamp, bytes: u64) {
        if let Some(reduction) = &mut self.recovery.reduction {
            reduction.on_sent(bytes);
        }
        self.counts.segments += 1;
        self.last_sent = now;
        if let Some(time) =
            self.control.pacing_rate().and_then(|rate| rate.time_for(DataSize::from_bytes(bytes)))
        {
            self.paced_until = self.paced_until.max(now) + time;
        }
        if self.timer.is_none() {
            self.timer = Some(now + self.rto.timeout());
        }
    }

    /// Processes an advance of the cumulative acknowledgement: samples the RTT and restarts the timer (RFC 6298 §5.2, §5.3).
    /// Returns the RTT sample.
    fn on_advance(&mut self, now: Timestamp, advanced: u64, segment: &Segment) -> Option<TimeDelta> {
        self.counts.acknowledged += advanced;
        self.recovery.duplicates = 0;
        self.recovery.limited_transmit = 0;
        if self.recovery.phase == Phase::Open {
            self.recovery.inflation = 0;
        }
        let sent = if self.uses.contains(Flags::TIMESTAMPS) {
            Some(segment.echo)
        } else {
            self.timed.take_if(|(end, _)| *end <= self.board.first()).map(|(_, sent)| sent)
        };
        let sample = sent.map(|sent| now.saturating_since(sent));
        if let Some(sample) = sample {
            self.rto.on_sample(sample);
            self.tail_probe.awaits_sample = false;
        }
        if self.board.flight() == 0 {
            self.timer = None;
        } else if !matches!(self.recovery.phase, Phase::Recovery { partial: true, .. }) {
            // Without SACK only the first partial acknowledgement restarts it (RFC 6582 §3.2, step 3).
            self.timer = Some(now + self.rto.timeout());
        }
        sample
    }

    fn grow(&mut self, now: Timestamp, bytes: u64, rtt_sample: Option<TimeDelta>) {
        if bytes == 0 {
            return;
        }
        let ack = Acknowledgment {
            bytes,
            window_limited: self.window_limited,
            smoothed_rtt: self.rto.smoothed().unwrap_or_default(),
            rtt_sample,
            first_unacknowledged: self.board.first(),
            next_sequence: self.board.next(),
        };
        self.control.on_ack(now, ack);
    }
}
