//! A controller of giusto, and what it needs to run on what quinn reports.

use std::{
    fmt,
    time::{Duration, Instant},
};

use giusto_congestion::{
    Controller, Decision, Feedback, FeedbackKind, Limits, LossReport, PacketReport, QueueDrain, QueueState,
    Requirements, SentPacket, Target,
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use crate::{budget::Budget, ledger::Ledger, probes::Probes, waiting::Waiting};

/// Headers of UDP and IPv4, which controllers count (RFC 768, RFC 791 §3.1).
const HEADERS: u64 = 28;
/// Bytes of a QUIC packet that are not the application's: a short header with a connection ID of 8 bytes and a packet number of 2 (RFC
/// 9000 §17.3.1), the tag of 16 (RFC 9001 §5.3), and a STREAM frame's type, stream, offset and length (RFC 9000 §19.8).
const OVERHEAD: u64 = 37;
/// The least of it: a packet number of one byte, and neither offset nor length. By it, what has left never seems to wait.
const LEAST_OVERHEAD: u64 = 28;
/// Quinn paces at this many windows in a smoothed RTT (RFC 9002 §7.7; `Pacer::delay` of quinn-proto 0.11).
const PACING_GAIN: f64 = 1.25;
/// Acknowledgements may be this late (`max_ack_delay`, 25 ms, RFC 9000 §18.2), and twice for the peer's timer.
const ACK_DELAY: Duration = Duration::from_millis(50);
/// The window is at least so many packets: quinn refuses one that fills it, and the peer acknowledges every second.
const MIN_PACKETS: u64 = 4;
/// Packets without report this much older than an acknowledged one are never reported: they hold only acknowledgements.
const FORGET_AFTER: Duration = Duration::from_secs(3);
/// More packets than any window holds; those of acknowledgements alone count too.
const MAX_PACKETS: usize = 100_000;
/// Loss ratios are of about this time.
const LOSS_TIME: Duration = Duration::from_secs(1);
/// A timer that does not move is a mistake of a controller; it is called no more often than this at a time.
const MAX_TIMEOUTS: usize = 8;
/// Frames are skipped after this wait where the controller names none: with it, a frame is late but of use.
const SKIP_AFTER: Duration = Duration::from_millis(150);

pub(crate) struct State {
    controller: Box<dyn Controller>,
    requirements: Requirements,
    origin: Instant,
    ledger: Ledger,
    waiting: Waiting,
    spare: Budget,
    padding: Budget,
    /// Bytes of padding that the application was asked for and that have not left.
    requested: u64,
    probes: Probes,
    losses: Losses,
    next_sequence: u64,
    in_flight: u64,
    /// What is added to the peer's times, once it has told one, so that its first packet arrived when it was acknowledged.
    peer_offset: Option<i128>,
    srtt: Duration,
    mtu: u64,
    /// What the acknowledgement at this time has reported so far.
    reports: Vec<PacketReport>,
    reported_at: Instant,
    skip_after: Duration,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl State {
    pub(crate) fn new(controller: Box<dyn Controller>, now: Instant, mtu: u16) -> Self {
        let requirements = controller.requirements();
        let skip_after = requirements.staleness.skip_after.map_or(SKIP_AFTER, duration);
        let mut state = Self {
            controller,
            requirements,
            origin: now,
            ledger: Ledger::default(),
            waiting: Waiting::default(),
            spare: Budget::default(),
            padding: Budget::default(),
            requested: 0,
            probes: Probes::default(),
            losses: Losses::new(now),
            next_sequence: 0,
            in_flight: 0,
            peer_offset: None,
            srtt: Duration::from_millis(100),
            mtu: u64::from(mtu),
            reports: Vec::new(),
            reported_at: now,
            skip_after,
        };
        state.controller.on_timeout(Timestamp::ZERO, &QueueState::default());
        state
    }

    fn time(&self, at: Instant) -> Timestamp {
        Timestamp::from_instant(self.origin, at)
    }

    // What quinn reports.

    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.settle();
        self.tick(now);
        // With segmentation offload, one call is of several datagrams.
        let mut left = bytes;
        while left > 0 {
            let size = left.min(self.mtu.max(1));
            left -= size;
            self.on_packet_sent(now, size);
        }
        self.waiting.on_sent(now, bytes.saturating_sub(LEAST_OVERHEAD * bytes.div_ceil(self.mtu.max(1))));
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u64) {
        self.in_flight += bytes;
        let at = self.time(now);
        let size = bytes + HEADERS;
        let packet = SentPacket::new(self.next_sequence, at, DataSize::from_bytes(size))
            .with_probe(self.probes.on_sent(now, bytes))
            .with_in_flight(DataSize::from_bytes(self.in_flight));
        self.next_sequence += 1;
        self.spare.on_sent(size);
        let counted = self.requested.min(size);
        self.requested -= counted;
        self.padding.on_sent(size - counted);
        if self.ledger.len() < MAX_PACKETS {
            self.ledger.push(now, bytes, packet);
        }
        self.controller.on_sent(at, &packet);
    }

    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, srtt: Duration) {
        self.begin_report(now);
        self.srtt = srtt;
        if let Some((packet, arrival)) = self.ledger.take_acknowledged(sent, bytes) {
            let arrival = self.arrival(now, arrival);
            self.reports.push(PacketReport::new(packet, Some(arrival)));
            self.losses.on_received();
        }
        if let Some(old) = sent.checked_sub(FORGET_AFTER) {
            self.ledger.forget_before(old);
        }
    }

    /// The arrival of an acknowledged packet: by the peer's clock, otherwise the time of the acknowledgement.
    fn arrival(&mut self, now: Instant, by_peer: Option<Duration>) -> PeerTimestamp {
        let now = i128::from(self.time(now).as_nanos());
        let at = by_peer.map_or(now, |at| {
            let at = at.as_nanos() as i128;
            at + *self.peer_offset.get_or_insert(now - at)
        });
        PeerTimestamp::from_nanos(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
    }

    pub(crate) fn on_arrival(&mut self, sent: Instant, bytes: u64, at: Duration) {
        self.ledger.set_arrival(sent, bytes, at);
    }

    pub(crate) fn on_end_acks(&mut self, now: Instant, in_flight: u64, nothing_left: bool) {
        self.begin_report(now);
        self.in_flight = in_flight;
        if nothing_left {
            self.waiting.on_nothing_left();
        }
    }

    pub(crate) fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.begin_report(now);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        for packet in self.ledger.take_lost(sent, bytes) {
            self.waiting.on_lost(now, packet.size.as_bytes().saturating_sub(HEADERS + OVERHEAD));
            self.reports.push(PacketReport::new(packet, None));
            self.losses.on_lost();
        }
    }

    /// A congestion mark: at least one among the packets that the acknowledgement reports, of which the last left at `sent`.
    pub(crate) fn on_marked(&mut self, sent: Instant) {
        let at = self.time(sent);
        let marked =
            self.reports.iter_mut().rev().find(|report| report.sent.at == at && report.arrival.is_some());
        if let Some(report) = marked {
            report.ecn = Ecn::Ce;
        }
    }

    pub(crate) fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    /// The window by which quinn sends at the pacing rate, and which does not limit what is paced.
    pub(crate) fn window(&mut self) -> u64 {
        self.settle();
        let target = self.controller.target();
        let (probe_rate, probe_bytes) = self.probes.active().unwrap_or_default();
        let srtt = self.srtt.as_secs_f64();
        let bytes = |rate: DataRate, seconds: f64| rate.as_bps() as f64 / 8.0 * seconds;
        let paced = bytes(target.pacing.max(probe_rate), srtt / PACING_GAIN);
        let needed = bytes(target.media, srtt + ACK_DELAY.as_secs_f64());
        let window = paced.max(needed) as u64;
        let limit = target.window.map_or(u64::MAX, DataSize::as_bytes);
        window.min(limit).max(MIN_PACKETS * self.mtu) + 2 * probe_bytes
    }

    fn begin_report(&mut self, now: Instant) {
        if now != self.reported_at {
            self.settle();
            self.reported_at = now;
        }
    }

    /// Passes on what an acknowledgement or a timer of quinn reported. Quinn calls for each packet, for the losses and for marks: the
    /// feedback is complete when it calls for something else.
    fn settle(&mut self) {
        let now = self.reported_at;
        if !self.reports.is_empty() {
            let mut reports = std::mem::take(&mut self.reports);
            if accepts_arrival_times(&self.requirements) {
                reports.sort_unstable_by_key(|report| report.sent.sequence);
                let feedback = Feedback::new(&reports, DataSize::from_bytes(self.in_flight));
                self.controller.on_feedback(self.time(now), &feedback);
            }
            reports.clear();
            self.reports = reports;
        }
        // What receiver reports are with RTP: some controllers grow by these alone.
        if let Some((ratio, packets)) = self.losses.poll(now) {
            let feedback = Feedback::new(&[], DataSize::from_bytes(self.in_flight))
                .with_loss(Some(LossReport::new(ratio, packets)))
                .with_rtt(Some(delta(self.srtt)));
            self.controller.on_feedback(self.time(now), &feedback);
        }
        self.take_probes();
    }

    fn take_probes(&mut self) {
        while let Some(probe) = self.controller.next_probe() {
            self.probes.push(probe);
        }
    }

    // What the application asks.

    /// Calls the controller at its deadlines.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.settle();
        let at = self.time(now);
        let (bytes, oldest) = self.waiting.state(now);
        let queue = QueueState::new(DataSize::from_bytes(bytes), delta(oldest));
        for _ in 0..MAX_TIMEOUTS {
            match self.controller.next_timeout() {
                Some(due) if due <= at => self.controller.on_timeout(at, &queue),
                _ => break,
            }
        }
        self.take_probes();
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let due = self.controller.next_timeout()?;
        self.origin.checked_add(Duration::from_nanos(due.as_nanos()))
    }

    pub(crate) fn target(&mut self) -> Target {
        self.settle();
        self.controller.target()
    }

    /// The part of the target that is left for frames without headers and retransmissions. What waits makes it lower for a while, unless
    /// the controller has a rule for that.
    pub(crate) fn frame_rate(&mut self) -> DataRate {
        let media = self.target().media.as_bps() as f64;
        let payload = self.mtu.saturating_sub(OVERHEAD) as f64 / (self.mtu + HEADERS) as f64;
        let mut rate = media * payload * (1.0 - self.losses.ratio());
        if !self.requirements.sender_queue {
            let drain = QueueDrain::default();
            let waiting = self.waiting.bytes() as f64 * 8.0;
            let excess = (waiting - rate * drain.allowance.as_seconds()).max(0.0);
            rate = (rate - excess / drain.time.as_seconds()).max(drain.min_share * rate);
        }
        DataRate::from_bps(rate as u64)
    }

    pub(crate) fn decision(&self) -> Decision {
        *self.controller.decision()
    }

    pub(crate) fn on_frame(&mut self, now: Instant, bytes: u64) {
        self.waiting.on_written(now, bytes);
    }

    pub(crate) fn on_discarded(&mut self) {
        self.waiting.on_discarded();
    }

    pub(crate) fn waiting(&self, now: Instant) -> (u64, Duration) {
        self.waiting.state(now)
    }

    pub(crate) fn should_skip(&self, now: Instant) -> bool {
        self.waiting.state(now).1 > self.skip_after || self.controller.frame_drop_interval() == Some(1)
    }

    pub(crate) fn set_skip_after(&mut self, age: Duration) {
        self.skip_after = age;
    }

    /// Bytes of other data that the target leaves.
    pub(crate) fn spare(&mut self, now: Instant) -> u64 {
        let media = self.target().media;
        let left = self.spare.left(now, media);
        // The frames that wait go first.
        left.saturating_sub(self.waiting.state(now).0)
    }

    /// The size of a datagram of padding that is to leave now.
    pub(crate) fn padding(&mut self, now: Instant) -> Option<usize> {
        self.tick(now);
        let size = self.mtu.saturating_sub(OVERHEAD).max(1);
        let padding = self.controller.target().padding;
        if !self.probes.wants_padding(now, size) {
            if self.padding.left(now, padding) < size || self.waiting.state(now).0 > 0 {
                return None;
            }
            self.padding.on_sent(size);
            self.requested += size;
        }
        Some(size as usize)
    }

    pub(crate) fn set_limits(&mut self, now: Instant, limits: Limits) {
        self.settle();
        self.controller.set_limits(self.time(now), limits);
    }
}

fn accepts_arrival_times(requirements: &Requirements) -> bool {
    requirements.accepts(FeedbackKind::TransportWide) || requirements.accepts(FeedbackKind::CongestionControl)
}

fn duration(time: TimeDelta) -> Duration {
    Duration::from_nanos(time.as_nanos().max(0).unsigned_abs())
}

fn delta(time: Duration) -> TimeDelta {
    TimeDelta::from_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

/// The share of packets that were lost lately.
#[derive(Debug)]
struct Losses {
    since: Instant,
    received: u64,
    lost: u64,
    /// That of the second before.
    ratio: f64,
}

impl Losses {
    fn new(now: Instant) -> Self {
        Self { since: now, received: 0, lost: 0, ratio: 0.0 }
    }

    fn on_received(&mut self) {
        self.received += 1;
    }

    fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// Ratio and packets of a second that has ended.
    fn poll(&mut self, now: Instant) -> Option<(f64, u64)> {
        let all = self.received + self.lost;
        if all == 0 || now.saturating_duration_since(self.since) < LOSS_TIME {
            return None;
        }
        let ratio = self.lost as f64 / all as f64;
        // Smoothed over two seconds: retransmissions come an RTT later, and follow no single burst.
        *self = Self { ratio: self.ratio.midpoint(ratio), ..Self::new(now) };
        Some((ratio, all))
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests;
