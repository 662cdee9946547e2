//! The data phase of a connection: transmission, acknowledgements, loss recovery.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    control::{Acknowledgment, CongestionControl, ConnectionStart, Feedback, Lost},
    delivery::Delivery,
    history::{Stamp, Transmitted},
    prr::{Progress, ProportionalReduction},
    rack::{DUPLICATE_THRESHOLD, Rack},
    ranges::Range,
    rto::RtoEstimator,
    scoreboard::{News, Scoreboard},
    settings::Settings,
};
use crate::traffic::segment::{Flags, Segment};

/// Counters of the data phase over all connections.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    pub(super) segments: u64,
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) spurious_timeouts: u64,
    pub(super) probes: u64,
    pub(super) fast_recoveries: u64,
    pub(super) reductions: u64,
    pub(super) ecn_reductions: u64,
}

/// A data segment to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) range: Range,
    pub(super) is_retransmission: bool,
    /// Whether it carries CWR.
    pub(super) announces_reduction: bool,
}

/// The state of loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No known loss.
    Open,
    /// Fast recovery until all data below `point` is acknowledged. `partial`: a partial acknowledgement has arrived, without
    /// SACK.
    Recovery { point: u64, partial: bool },
    /// After a timeout, until all data below `point` is acknowledged.
    Loss { point: u64 },
}

/// The state of F-RTO (RFC 5682), which detects spurious timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frto {
    Off,
    /// Until the first acknowledgement after the timeout (step 2).
    Retransmitted,
    /// Until the second one (step 3). `new`: number of new segments that may still be sent.
    Probing {
        point: u64,
        new: u8,
    },
}

/// A tail loss probe in flight (RFC 8985 §7).
#[derive(Debug, Clone, Copy)]
struct Probe {
    end: u64,
    is_retransmission: bool,
}

/// The sender's half of the data phase.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(super) struct Transmission {
    control: Box<dyn CongestionControl>,
    board: Scoreboard,
    rto: RtoEstimator,
    settings: Settings,
    /// The negotiated options.
    uses: Flags,
    segment: u64,
    /// End of the data written by the application.
    written: u64,
    phase: Phase,
    /// Present during fast recovery with proportional rate reduction.
    reduction: Option<ProportionalReduction>,
    /// Whether to retransmit the first unacknowledged segment regardless of the window.
    retransmit_first: bool,
    duplicates: u32,
    /// Bytes of new data sent by limited transmit.
    limited_transmit: u64,
    /// Window inflation by fast recovery and limited transmit without SACK (RFC 5681 §3.2).
    inflation: i64,
    /// `recover` + 1 (RFC 6582 §3.2).
    recover: Option<u64>,
    /// The previous cumulative acknowledgement (RFC 6582 §4.1).
    previous_first: u64,
    /// First unacknowledged byte at the last timeout.
    timed_out: Option<u64>,
    /// End of the data sent before the last reduction; no further reduction until it is acknowledged.
    reduced_until: u64,
    announce_reduction: bool,
    /// Without timestamps: end and send time of the segment whose RTT is being measured.
    timed: Option<(u64, Timestamp)>,
    /// Whether the congestion window ended the last burst.
    window_limited: bool,
    timer: Option<Timestamp>,
    last_sent: Timestamp,
    /// Whether RACK and tail loss probes are in use (RFC 8985).
    uses_rack: bool,
    rack: Rack,
    /// When RACK will mark the next segments as lost.
    reorder_due: Option<Timestamp>,
    /// Time of the last reduction.
    reduced_at: Timestamp,
    probe: Option<Probe>,
    probe_due: Option<Timestamp>,
    send_probe: bool,
    /// Whether there was an RTT sample since the last probe.
    sampled_since_probe: bool,
    frto: Frto,
    /// Count of marked segments in the last acknowledgement (accurate ECN).
    marked: u16,
    /// Delivery-rate samples, if the congestion control needs them.
    delivery: Option<Box<Delivery>>,
    /// With pacing: when the next segment may leave, and whether it waits for that.
    paced_until: Timestamp,
    is_paced: bool,
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
            written: 0,
            phase: Phase::Open,
            reduction: None,
            retransmit_first: false,
            duplicates: 0,
            limited_transmit: 0,
            inflation: 0,
            recover: None,
            previous_first: 0,
            timed_out: None,
            reduced_until: 0,
            announce_reduction: false,
            timed: None,
            window_limited: false,
            timer: None,
            last_sent: Timestamp::ZERO,
            uses_rack: false,
            rack: Rack::default(),
            reorder_due: None,
            reduced_at: Timestamp::ZERO,
            probe: None,
            probe_due: None,
            send_probe: false,
            sampled_since_probe: true,
            frto: Frto::Off,
            marked: 0,
            delivery: None,
            paced_until: Timestamp::ZERO,
            is_paced: false,
            counts: Counts::default(),
        };
        transmission.begin(RtoEstimator::new(transmission.settings.rto_floor), Flags::NONE, false);
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
        self.reduced_at = Timestamp::ZERO;
        self.probe = None;
        self.probe_due = None;
        self.send_probe = false;
        self.sampled_since_probe = true;
        self.frto = Frto::Off;
        self.marked = 0;
        self.delivery = (self.uses_rack && self.control.needs_rate()).then(Box::default);
        self.is_paced = false;
        self.written = 0;
        self.phase = Phase::Open;
        self.reduction = None;
        self.retransmit_first = false;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = 0;
        self.recover = None;
        self.previous_first = 0;
        self.timed_out = None;
        self.reduced_until = 0;
        self.announce_reduction = false;
        self.timed = None;
        self.window_limited = false;
        self.timer = None;
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
        earlier(earlier(self.timer, self.probe_due), earlier(self.reorder_due, paced))
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn window(&self) -> u64 {
        self.reduction.map_or(self.control.window(), |reduction| reduction.window())
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
        if std::mem::take(&mut self.send_probe)
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
        let first = std::mem::take(&mut self.retransmit_first).then(|| self.board.first_segment()).flatten();
        if let Some(first) = first.filter(|_| self.uses_rack) {
            let range = self.board.next_lost().unwrap_or(first);
            self.board.on_retransmitted(range);
            return Some(self.retransmit(now, range));
        }
        if let Some(range) = first {
            if self.sack() || matches!(self.phase, Phase::Loss { .. }) {
                self.board.on_retransmitted(range);
                self.board.on_rescued(range.1);
            }
            return Some(self.retransmit(now, range));
        }
        if self.frto == Frto::Retransmitted {
            return None;
        }
        match self.phase {
            Phase::Loss { .. } => {
                if let Some(range) = self.board.next_lost() {
                    return self.fits(range.1 - range.0).then(|| {
                        self.board.on_retransmitted(range);
                        self.retransmit(now, range)
                    });
                }
                self.send_new(now)
            }
            // RFC 6675 §5, step C: while there is room for a full segment.
            Phase::Recovery { point, .. } if self.sack() => {
                if !self.fits(self.segment) {
                    return None;
                }
                if let Some(range) = self.board.next_lost() {
                    self.board.on_retransmitted(range);
                    return Some(self.retransmit(now, range));
                }
                if let Some(new) = self.send_new(now) {
                    return Some(new);
                }
                if self.uses_rack {
                    // The reordering timer finds further losses.
                    return None;
                }
                if let Some(range) = self.board.next_suspect() {
                    self.board.on_retransmitted(range);
                    return Some(self.retransmit(now, range));
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
            self.previous_first = before;
            sample = self.on_advance(now, advanced, segment);
        }
        self.give_feedback(now, segment, newest, delivered, sample);
        let echo = self.uses.contains(Flags::ECE) && segment.flags.contains(Flags::ECE);
        if echo && advanced > 0 && before >= self.reduced_until {
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
        match self.phase {
            Phase::Open => {
                self.grow(now, growth, sample);
                if self.uses_rack {
                    if self.board.has_lost() {
                        self.enter_recovery(now);
                    }
                } else if duplicate {
                    self.on_duplicate(now);
                }
            }
            Phase::Recovery { point, .. } if self.board.first() >= point => {
                if !self.sack() {
                    // RFC 6582 §3.2, step 3, full acknowledgement, option 1, which avoids a burst.
                    self.control.limit_window(now, self.board.flight().max(self.segment) + self.segment);
                    self.inflation = 0;
                }
                self.phase = Phase::Open;
                self.reduction = None;
                self.rack.on_recovered();
                if self.uses_rack && self.board.has_lost() {
                    self.enter_recovery(now);
                }
            }
            Phase::Recovery { .. } if self.sack() => {}
            Phase::Recovery { point, .. } if advanced > 0 => self.on_partial(point, advanced),
            Phase::Recovery { .. } => self.inflation += if duplicate { self.segment as i64 } else { 0 },
            Phase::Loss { point } => {
                self.grow(now, growth, sample);
                if self.board.first() >= point {
                    self.phase = Phase::Open;
                    self.rack.on_recovered();
                }
            }
        }
        let more_lost = self.board.has_lost_since(lost_below) || (self.board.has_lost() && !lost_again);
        self.update_reduction(before, delivered, more_lost);
        if advanced > 0 {
            self.arm_probe(now);
        }
    }

    /// Updates proportional rate reduction. The arguments are the state before the acknowledgement (RFC 9937 §6.1, §6.2).
    fn update_reduction(&mut self, first: u64, delivered: u64, more_lost: bool) {
        let uses_prr = self.settings.prr && !self.control.controls_recovery();
        if !matches!(self.phase, Phase::Recovery { .. }) || !self.sack() || !uses_prr {
            return;
        }
        let target = self.control.window();
        // The data that was not delivered before this acknowledgement.
        let flight = self.board.next() - delivered;
        let reduction =
            self.reduction.get_or_insert_with(|| ProportionalReduction::new(self.segment, target, flight));
        reduction.on_ack(Progress {
            delivered: self.board.delivered() - delivered,
            pipe: self.board.pipe(),
            is_safe: self.board.first() > first && !more_lost,
        });
    }

    /// Processes the retransmission timer if it has expired (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    pub(super) fn run_timer(&mut self, now: Timestamp) {
        if self.reorder_due.is_some_and(|due| due <= now) {
            self.detect_lost(now);
            if self.phase == Phase::Open && self.board.has_lost() {
                self.enter_recovery(now);
            }
        }
        if self.probe_due.is_some_and(|due| due <= now) {
            self.on_probe_timeout(now);
        }
        if self.timer.is_none_or(|due| due > now) {
            return;
        }
        if self.board.flight() == 0 {
            self.timer = None;
            return;
        }
        let is_repeated = self.timed_out == Some(self.board.first());
        let flight = self.board.flight().min(self.control.window());
        self.control.on_timeout(now, flight, is_repeated);
        self.timed_out = Some(self.board.first());
        self.rto.back_off();
        self.start_frto(is_repeated);
        self.probe = None;
        self.probe_due = None;
        self.send_probe = false;
        if self.uses_rack {
            let wait = self.rack.rtt() + self.reordering_window();
            let mut lost = Vec::new();
            self.board.on_rack_timeout(now, wait, &mut |sent, bytes| lost.push((sent, bytes)));
            self.report_losses(now, lost);
        } else {
            self.board.on_timeout();
        }
        self.phase = Phase::Loss { point: self.board.next() };
        self.reduction = None;
        self.recover = Some(self.board.next());
        self.retransmit_first = self.uses_rack || self.frto != Frto::Off;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = 0;
        self.timed = None;
        self.note_reduction(now);
        self.timer = Some(now + self.rto.timeout());
        self.counts.timeouts += 1;
    }

    fn sack(&self) -> bool {
        self.uses.contains(Flags::SACK_PERMITTED)
    }

    /// Whether the congestion window permits `bytes` more in flight.
    fn fits(&mut self, bytes: u64) -> bool {
        let window = self.window().saturating_add_signed(self.inflation).max(self.segment);
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
        if self.phase == Phase::Open && self.duplicates > 0 {
            self.limited_transmit += to - from;
        }
        if !self.uses.contains(Flags::TIMESTAMPS) && self.timed.is_none() {
            self.timed = Some((to, now));
        }
        let announces_reduction = std::mem::take(&mut self.announce_reduction);
        self.on_sent(now, to - from);
        self.arm_probe(now);
        Some(Outgoing { range: (from, to), is_retransmission: false, announces_reduction })
    }

    fn retransmit(&mut self, now: Timestamp, range: Range) -> Outgoing {
        // Karn's algorithm (RFC 6298 §3).
        self.timed = None;
        if range.0 == self.board.first() && matches!(self.phase, Phase::Recovery { partial: false, .. }) {
            // Restarts the timer, so that no segment times out less than an RTO after its transmission (RFC 6298 §5; RFC
            // 6675 §6 permits it).
            self.timer = None;
        }
        self.counts.retransmitted += 1;
        let stamp = self.stamp(now, range.1 - range.0);
        self.board.on_resent(now, range, false, stamp);
        self.on_sent(now, range.1 - range.0);
        Outgoing { range, is_retransmission: true, announces_reduction: false }
    }

    fn on_sent(&mut self, now: Timestamp, bytes: u64) {
        if let Some(reduction) = &mut self.reduction {
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
            self.sampled_since_probe = true;
        }
        if self.board.flight() == 0 {
            self.timer = None;
        } else if !matches!(self.phase, Phase::Recovery { partial: true, .. }) {
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

    /// Processes a duplicate acknowledgement outside recovery (RFC 6675 §5, steps 1 to 4; RFC 5681 §3.2).
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

    /// Whether three duplicates indicate a loss and not spurious retransmissions after a timeout (RFC 6582 §3.2, step 2, and
    /// §4.1).
    fn may_recover(&self) -> bool {
        let first = self.board.first();
        self.recover.is_none_or(|recover| first > recover)
            || (self.control.window() > self.segment && first - self.previous_first <= 4 * self.segment)
    }

    fn enter_recovery(&mut self, now: Timestamp) {
        self.probe = None;
        self.probe_due = None;
        if self.board.first() >= self.reduced_until {
            self.reduce(now, self.board.flight() - self.limited_transmit.min(self.board.flight()));
        }
        let point = self.board.next();
        self.phase = Phase::Recovery { point, partial: false };
        self.recover = Some(point);
        if !self.uses_rack {
            self.board.begin_recovery();
        }
        self.retransmit_first = true;
        self.duplicates = 0;
        self.limited_transmit = 0;
        self.inflation = if self.sack() { 0 } else { i64::from(DUPLICATE_THRESHOLD) * self.segment as i64 };
        self.counts.fast_recoveries += 1;
    }

    /// Processes a partial acknowledgement during recovery without SACK (RFC 6582 §3.2, step 3).
    fn on_partial(&mut self, point: u64, advanced: u64) {
        self.retransmit_first = true;
        self.phase = Phase::Recovery { point, partial: true };
        self.inflation -= advanced as i64;
        if advanced >= self.segment {
            self.inflation += self.segment as i64;
        }
    }

    fn reduce(&mut self, now: Timestamp, flight: u64) {
        self.control.on_congestion(now, flight.min(self.control.window()));
        // Another reduction restarts proportional rate reduction (RFC 9937 §6.4).
        self.reduction = None;
        self.note_reduction(now);
    }

    /// Records a reduction: at most one per window of data, announced with the next new data (RFC 3168 §6.1.2).
    fn note_reduction(&mut self, now: Timestamp) {
        self.reduced_at = now;
        self.reduced_until = self.board.next();
        self.announce_reduction = self.uses.contains(Flags::ECE);
        self.counts.reductions += 1;
    }

    fn reordering_window(&self) -> TimeDelta {
        let sacked = self.board.received_above() / self.segment;
        self.rack.reordering_window(
            self.phase != Phase::Open,
            sacked,
            self.rto.smoothed().unwrap_or_default(),
        )
    }

    /// Marks losses by time (RFC 8985 §6.2) and sets the reordering timer.
    fn detect_lost(&mut self, now: Timestamp) {
        self.reorder_due = None;
        if !self.uses_rack {
            return;
        }
        let wait = self.rack.rtt() + self.reordering_window();
        let reduced_at = self.reduced_at;
        let mut is_lost_again = false;
        let mut lost = Vec::new();
        let reports = self.delivery.is_some();
        let due = self.board.detect_lost(now, &self.rack, wait, &mut |sent, bytes| {
            if reports {
                lost.push((sent, bytes));
            }
            is_lost_again |= sent.is_retransmission && sent.at >= reduced_at;
        });
        self.reorder_due = due;
        self.report_losses(now, lost);
        if is_lost_again && matches!(self.phase, Phase::Recovery { .. }) {
            // The loss of a retransmission indicates congestion once more (RFC 5681 §4.3).
            self.reduce(now, self.board.pipe());
        }
    }

    /// The state to store with a transmission of `bytes` now.
    fn stamp(&mut self, now: Timestamp, bytes: u64) -> Option<Stamp> {
        let board = &self.board;
        let delivery = self.delivery.as_mut();
        delivery.map(|delivery| delivery.stamp(now, board.delivered(), board.pipe(), bytes))
    }

    /// Reports losses to the congestion control, if it needs them.
    fn report_losses(&mut self, now: Timestamp, lost: Vec<(Transmitted, u64)>) {
        let Some(delivery) = &mut self.delivery else { return };
        for (sent, bytes) in lost {
            delivery.lost += bytes;
            if let Some(stamp) = sent.stamp {
                let lost_since_sent = delivery.lost - stamp.lost;
                let (flight_when_sent, delivered_when_sent) = (stamp.flight, stamp.delivered);
                self.control
                    .on_loss(now, Lost { bytes, flight_when_sent, lost_since_sent, delivered_when_sent });
            }
        }
    }

    /// Passes an acknowledgement on to the congestion control. `before` and `sample` are the bytes delivered before it and
    /// its RTT sample.
    fn give_feedback(
        &mut self,
        now: Timestamp,
        ack: &Segment,
        newest: Option<Transmitted>,
        before: u64,
        sample: Option<TimeDelta>,
    ) {
        let total = self.board.delivered();
        let marked = if self.settings.uses_accurate_ecn() { ack.marked.wrapping_sub(self.marked) } else { 0 };
        self.marked = ack.marked;
        let is_limited = self.written <= self.board.next() && !self.board.has_lost();
        let flight = self.board.pipe();
        let min_rtt = self.rack.min_rtt();
        let rate = self.delivery.as_mut().and_then(|delivery| {
            delivery.on_ack(now, newest, (total, total - before), (flight, is_limited), min_rtt)
        });
        let feedback = Feedback {
            delivered: total - before,
            marked: u64::from(marked),
            smoothed_rtt: self.rto.smoothed().unwrap_or_default(),
            rtt_sample: sample,
            flight,
            first_unacknowledged: self.board.first(),
            next_sequence: self.board.next(),
            rate,
        };
        self.control.on_feedback(now, &feedback);
    }

    /// Sets the timer of the loss probe (RFC 8985 §7.2).
    fn arm_probe(&mut self, now: Timestamp) {
        self.probe_due = None;
        let flight = self.board.flight();
        let is_usual = self.phase == Phase::Open && self.board.received_above() == 0 && flight > 0;
        if !self.uses_rack || !is_usual || self.probe.is_some() {
            return;
        }
        let wait = match self.rto.smoothed() {
            Some(smoothed) if flight <= self.segment => smoothed * 2 + self.settings.delayed_ack,
            Some(smoothed) => smoothed * 2,
            None => TimeDelta::from_seconds(1),
        };
        let due = now + wait;
        self.probe_due = Some(self.timer.map_or(due, |timer| due.min(timer)));
    }

    /// Processes the timer of the loss probe (RFC 8985 §7.3).
    fn on_probe_timeout(&mut self, now: Timestamp) {
        self.probe_due = None;
        if self.board.flight() == 0 || self.phase != Phase::Open {
            return;
        }
        if self.probe.is_none() && self.sampled_since_probe {
            self.send_probe = true;
            self.timer = Some(now + self.rto.timeout());
        }
    }

    /// Sends a loss probe: new data, or else the last segment.
    fn loss_probe(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.sampled_since_probe = false;
        self.counts.probes += 1;
        if let Some(new) = self.transmit_new(now) {
            self.probe = Some(Probe { end: self.board.next(), is_retransmission: false });
            self.probe_due = None;
            return Some(new);
        }
        let range = self.board.last_segment()?;
        self.probe = Some(Probe { end: self.board.next(), is_retransmission: true });
        self.timed = None;
        self.counts.retransmitted += 1;
        let is_probe = self.board.is_original(range);
        let stamp = self.stamp(now, range.1 - range.0);
        self.board.on_resent(now, range, is_probe, stamp);
        self.on_sent(now, range.1 - range.0);
        Some(Outgoing { range, is_retransmission: true, announces_reduction: false })
    }

    /// Processes the acknowledgement of a loss probe (RFC 8985 §7.4.2).
    fn on_probe_acknowledged(&mut self, now: Timestamp, ack: &Segment, flight: u64) {
        let Some(probe) = self.probe.filter(|probe| self.board.first() >= probe.end) else { return };
        let is_repaired = self.board.first() > probe.end;
        let is_duplicate = ack.flags.contains(Flags::DSACK);
        if !probe.is_retransmission || is_duplicate {
            self.probe = None;
        } else if is_repaired {
            self.probe = None;
            if probe.end > self.reduced_until {
                self.reduce(now, flight);
            }
        }
    }

    /// Starts F-RTO with a timeout (RFC 5682 §2.1 and §3.1, step 1).
    fn start_frto(&mut self, is_repeated: bool) {
        let may_start = match self.phase {
            Phase::Open => true,
            Phase::Recovery { .. } => false,
            Phase::Loss { .. } => is_repeated && self.frto != Frto::Off,
        };
        self.frto = if self.settings.frto && may_start { Frto::Retransmitted } else { Frto::Off };
    }

    /// Processes an acknowledgement after a timeout (RFC 5682 §2.1 and §3.1, steps 2 and 3). `original` is the end of newly
    /// acknowledged data that was never retransmitted, known with RACK.
    fn run_frto(&mut self, now: Timestamp, advanced: u64, selective: u64, original: Option<u64>) {
        match self.frto {
            Frto::Off => {}
            Frto::Retransmitted if advanced > 0 => {
                let Phase::Loss { point } = self.phase else { return };
                let goes_on = self.board.first() < point && self.new_end().is_some();
                let recover = self.board.next();
                self.frto = if goes_on { Frto::Probing { point: recover, new: 2 } } else { Frto::Off };
            }
            // With SACK the sender waits for the acknowledgement of the retransmission.
            Frto::Retransmitted => {
                if !self.sack() && selective == 0 {
                    self.frto = Frto::Off;
                }
            }
            Frto::Probing { point, .. } => {
                self.frto = Frto::Off;
                let is_covered = self.board.first() <= point;
                let is_original = if self.uses_rack {
                    original.is_some_and(|end| end <= point)
                } else {
                    advanced > 0 || selective > 0
                };
                if is_covered && is_original {
                    self.on_spurious_timeout(now);
                }
            }
        }
    }

    /// Undoes the effects of a spurious timeout.
    fn on_spurious_timeout(&mut self, now: Timestamp) {
        self.counts.spurious_timeouts += 1;
        self.board.on_spurious_timeout();
        self.control.on_spurious_timeout(now);
        self.phase = Phase::Open;
        self.recover = Some(self.board.first());
        self.timed_out = None;
        self.reduced_until = self.board.first();
        self.announce_reduction = false;
    }
}

/// The earlier one of two optional times.
#[inline]
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
