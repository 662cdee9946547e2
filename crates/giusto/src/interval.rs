//! The figures of the intervals of a run, from differences of counters.

mod figures;

use std::collections::{BTreeMap, BTreeSet};

use giusto_measure::{StreamMeter, StreamSummary};
use giusto_net::UdpSocket;
use giusto_session::probe::{Receiver, ReceiverEvent, Stream, StreamId, wire::StreamFormat};
use giusto_units::{DataSize, TimeDelta, Timestamp};

pub use figures::{Interval, IntervalFigures, ReflectorInterval, StampInterval};

/// A datagram that arrived at most this long before the counters were read ends the interval: the receiver reads its socket about
/// 50 times a second, so that the counters are as old as their last datagram.
const RECENT: TimeDelta = TimeDelta::from_millis(50);

/// The same for intervals of 0.1 s: a receiver that is late by this time must not show a gap and a peak after it.
const RECENT_OF_STREAM: TimeDelta = TimeDelta::from_millis(500);

/// The rate over a shorter time is that of a burst: the next interval has its datagrams, too.
const MIN_SPAN: TimeDelta = TimeDelta::from_millis(50);

/// How long before and after its time an interval may end, so that it ends with a report: reports come every 0.5 s.
const REPORT_WINDOW: TimeDelta = TimeDelta::from_millis(270);

/// The counters of one received stream at one time: quick to read where it is measured, and enough for its intervals elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// When they were read, on the receiver's clock.
    at: Timestamp,
    /// The first and the latest arrival.
    arrivals: Option<(Timestamp, Timestamp)>,
    packets: u64,
    payload: DataSize,
    /// The header bytes of a datagram that the rate includes.
    header: DataSize,
    lost: u64,
    /// Of these, those that the receiver's socket dropped.
    dropped: u64,
    jitter: Option<TimeDelta>,
    /// The datagrams have no sequence numbers: what was lost is unknown.
    is_raw: bool,
}

impl Counts {
    /// The counters of `meter`, which are read at `at`, on the receiver's clock.
    pub fn of_meter(at: Timestamp, meter: &StreamMeter) -> Self {
        let losses = meter.sequence().losses();
        Self {
            at,
            arrivals: meter.arrivals(),
            packets: losses.received,
            payload: meter.received_bytes(),
            header: meter.header(),
            lost: losses.lost,
            dropped: meter.kernel_dropped_packets(),
            jitter: meter.jitter(),
            is_raw: false,
        }
    }

    /// Those of a stream of datagrams.
    pub(crate) fn of_stream(at: Timestamp, stream: &Stream) -> Self {
        let is_raw = stream.format() == StreamFormat::Raw;
        Self { dropped: stream.kernel_dropped_packets(), is_raw, ..Self::of_meter(at, stream.meter()) }
    }

    /// Those of all packets of a media session that has received since `began`, headers included.
    pub(crate) fn of_media(
        at: Timestamp,
        began: Timestamp,
        packets: u64,
        payload: DataSize,
        lost: u64,
    ) -> Self {
        let (arrivals, header) = ((packets > 0).then_some((began, at)), DataSize::ZERO);
        Self { at, arrivals, packets, payload, header, lost, dropped: 0, jitter: None, is_raw: false }
    }

    /// When they were read, on the receiver's clock.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether the receiver's socket has dropped datagrams.
    pub(crate) fn has_drops(&self) -> bool {
        self.dropped > 0
    }

    fn of_report(at: Timestamp, summary: &StreamSummary, header: DataSize) -> Self {
        Self {
            at,
            arrivals: summary.first_arrival.zip(summary.last_arrival),
            packets: summary.received_packets,
            payload: summary.received_bytes,
            header,
            lost: summary.lost_packets,
            dropped: summary.kernel_dropped_packets,
            jitter: summary.jitter,
            is_raw: false,
        }
    }

    /// The time up to which they count: the latest datagram, if it is as `recent` as this.
    fn counted_until(&self, recent: TimeDelta) -> Timestamp {
        match self.arrivals {
            Some((_, latest)) if latest + recent >= self.at => latest,
            _ => self.at,
        }
    }
}

/// One stream: its counters at the end of the last interval, and now.
#[derive(Debug, Clone, Copy)]
struct Side {
    /// The first datagram begins the first interval and is not among those that fill it: N datagrams have N − 1 gaps.
    begins: bool,
    base_at: Timestamp,
    base: Counts,
    now: Counts,
    closed: bool,
}

/// The received figures of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Arrived {
    start: Timestamp,
    end: Timestamp,
    streams: usize,
    packets: u64,
    bytes: u64,
    rate_bps: f64,
    lost: i64,
    dropped: i64,
    jitter: Option<TimeDelta>,
    /// What a stream lost is unknown.
    is_raw: bool,
}

/// The received streams of a run. Times are those of one clock, the receiver's.
#[derive(Debug, Clone, Default)]
struct Arrivals {
    sides: BTreeMap<u64, Side>,
    origin: Option<Timestamp>,
    /// Where the last interval ended.
    start: Timestamp,
}

impl Arrivals {
    /// Takes the counters of stream `id`. Before its first datagram a stream does not count.
    fn update(&mut self, id: u64, now: Counts, closed: bool) {
        let Some((first, _)) = now.arrivals else { return };
        let begins = self.origin.is_none();
        if begins {
            self.origin = Some(first);
            self.start = first;
        }
        let base_at = self.start;
        let side =
            self.sides.entry(id).or_insert(Side { begins, base_at, base: Counts::default(), now, closed });
        (side.now, side.closed) = (now, closed);
    }

    /// Takes the counters of all streams, each always at the same place.
    fn update_all<'a>(
        &mut self,
        now: Timestamp,
        meters: impl Iterator<Item = Option<&'a StreamMeter>>,
        closed: bool,
    ) {
        for (id, meter) in (0..).zip(meters) {
            if let Some(meter) = meter {
                self.update(id, Counts::of_meter(now, meter), closed);
            }
        }
    }

    /// The figures since the last call, if there are any.
    fn take(&mut self, recent: TimeDelta) -> Option<Arrived> {
        let open = self.sides.values().filter(|side| !side.closed);
        let open = open.map(|side| side.now.counted_until(recent)).max();
        let last = self.sides.values().filter_map(|side| side.now.arrivals).map(|(_, latest)| latest).max();
        let end = open.or(last)?.max(self.start);
        let mut all = Arrived { start: self.start, end, streams: self.sides.len(), ..Arrived::default() };
        for side in self.sides.values_mut() {
            let Side { now, base, begins, .. } = *side;
            let until = if side.closed { end } else { now.counted_until(recent).max(side.base_at) };
            let packets = now.packets.saturating_sub(base.packets);
            let payload = now.payload.saturating_sub(base.payload).as_bytes();
            let counted = payload.saturating_add(now.header.as_bytes().saturating_mul(packets));
            let filling = if begins && packets > 0 { (packets - 1) as f64 / packets as f64 } else { 1.0 };
            let span = (until - side.base_at).as_seconds();
            if span > 0.0 {
                all.rate_bps += counted as f64 * 8.0 * filling / span;
            }
            // The counts of a report are the far end's: any number is possible.
            all.packets = all.packets.saturating_add(packets);
            all.bytes = all.bytes.saturating_add(payload);
            all.lost = all.lost.saturating_add(signed(now.lost).saturating_sub(signed(base.lost)));
            all.dropped =
                all.dropped.saturating_add(signed(now.dropped).saturating_sub(signed(base.dropped)));
            all.jitter = all.jitter.max(now.jitter);
            all.is_raw |= now.is_raw;
            *side = Side { begins: begins && packets == 0, base_at: until, base: now, ..*side };
        }
        self.sides.retain(|_, side| !side.closed);
        self.start = end;
        Some(all)
    }

    fn origin(&self) -> Timestamp {
        self.origin.unwrap_or_default()
    }
}

impl IntervalFigures {
    fn add_arrived(&mut self, arrived: &Arrived) {
        let Arrived { start, end, packets, bytes, rate_bps, lost, dropped, jitter, is_raw, .. } = *arrived;
        self.received_span_s = Some((end - start).as_seconds());
        self.received_packets = Some(packets);
        self.received_bytes = Some(bytes);
        self.rx_rate_bps = Some(rate_bps);
        self.lost_packets = (!is_raw).then_some(lost);
        self.loss_ratio = loss_ratio(packets, lost).filter(|_| !is_raw);
        self.kernel_dropped_packets = Some(dropped);
        self.jitter_ms = jitter.map(TimeDelta::as_millis);
    }
}

/// The intervals of one received stream, each from the time of its counters to the next.
#[derive(Debug, Clone, Default)]
pub struct StreamIntervals(Arrivals);

impl StreamIntervals {
    /// The figures since the last that were returned. `closed`: nothing follows. `None` before the second datagram, and where none has
    /// come for a time that is too short to be a silence.
    pub fn next(&mut self, now: &Counts, closed: bool) -> Option<IntervalFigures> {
        self.0.update(0, *now, closed);
        let is_new = |side: &Side| side.now.counted_until(RECENT_OF_STREAM) >= side.base_at + MIN_SPAN;
        if !closed && !self.0.sides.values().any(is_new) {
            return None;
        }
        // The last interval may have no time of its own.
        let arrived = self.0.take(RECENT_OF_STREAM).filter(|arrived| arrived.end > arrived.start)?;
        let mut figures = IntervalFigures { streams: 1, ..IntervalFigures::default() };
        figures.add_arrived(&arrived);
        figures.rx_rate_bps = figures.rx_rate_bps.filter(|_| arrived.end >= arrived.start + MIN_SPAN);
        Some(figures)
    }
}

/// The clock of a receiver, as far as its reports show it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReportClock {
    /// Our clock less the receiver's, at most.
    offset: Option<TimeDelta>,
}

impl ReportClock {
    /// The counters of a report that came at `now`; `None` before the first arrival.
    pub(crate) fn counts(
        &mut self,
        now: Timestamp,
        summary: &StreamSummary,
        header: DataSize,
    ) -> Option<Counts> {
        let latest = summary.last_arrival?;
        // The report was sent after its latest arrival: the smallest difference is the closest.
        let difference = now - latest;
        let offset = *self.offset.insert(self.offset.map_or(difference, |offset| offset.min(difference)));
        let at = (Timestamp::ZERO + (now - Timestamp::ZERO - offset)).max(latest);
        Some(Counts::of_report(at, summary, header))
    }
}

/// The intervals of a receiving end. They begin with the first datagram of the first stream, and end with the last stream.
///
/// # Example
///
/// ```
/// use giusto::measured::interval::ReceptionIntervals;
/// use giusto_units::TimeDelta;
///
/// let intervals = ReceptionIntervals::new(TimeDelta::from_seconds(1));
/// # drop(intervals);
/// ```
#[derive(Debug, Clone)]
pub struct ReceptionIntervals {
    interval: TimeDelta,
    arrivals: Arrivals,
    due: Option<Timestamp>,
    /// The streams that have been opened and not been closed. Of those that end together, the receiver holds none when the first is
    /// closed.
    open: BTreeSet<StreamId>,
}

impl ReceptionIntervals {
    /// Intervals of this length.
    pub fn new(interval: TimeDelta) -> Self {
        Self { interval, arrivals: Arrivals::default(), due: None, open: BTreeSet::new() }
    }

    /// Call it with every event, and now and then without one. Only stream `only` counts, if it is given. Returns the figures of an
    /// interval that has ended.
    pub fn on_event(
        &mut self,
        now: Timestamp,
        receiver: &Receiver,
        event: Option<&ReceiverEvent>,
        only: Option<StreamId>,
    ) -> Option<IntervalFigures> {
        let counts = |id| only.is_none_or(|only| only == id);
        if let Some(ReceiverEvent::Opened(id)) = event
            && counts(*id)
        {
            self.open.insert(*id);
        }
        if let Some(ReceiverEvent::Closed(id, stream)) = event
            && counts(*id)
        {
            self.arrivals.update(id.0, Counts::of_stream(now, stream), true);
            self.open.remove(id);
            let ended = self.open.is_empty() && !receiver.streams().any(|(id, _)| counts(id));
            return ended.then(|| self.end()).flatten();
        }
        if self.is_early(now) {
            return None;
        }
        for (id, stream) in receiver.streams().filter(|(id, _)| counts(*id)) {
            self.arrivals.update(id.0, Counts::of_stream(now, stream), false);
        }
        self.on_turn(now)
    }

    /// Like [`on_event`](Self::on_event), with the meters of all streams, each always at the same place.
    fn on_meters<'a>(
        &mut self,
        now: Timestamp,
        meters: impl Iterator<Item = Option<&'a StreamMeter>>,
    ) -> Option<IntervalFigures> {
        if self.is_early(now) {
            return None;
        }
        self.arrivals.update_all(now, meters, false);
        self.on_turn(now)
    }

    fn is_early(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| now < due)
    }

    fn on_turn(&mut self, now: Timestamp) -> Option<IntervalFigures> {
        let origin = self.arrivals.origin?;
        let due = *self.due.get_or_insert(origin + self.interval);
        if now < due {
            return None;
        }
        self.due = Some(next_due(due, self.interval, now));
        self.take()
    }

    /// The last interval, after which the times start again.
    fn end(&mut self) -> Option<IntervalFigures> {
        let last = self.take();
        self.arrivals = Arrivals::default();
        self.due = None;
        last.filter(|last| {
            last.received_packets != Some(0) || last.lost_packets.is_some_and(|lost| lost != 0)
        })
    }

    fn take(&mut self) -> Option<IntervalFigures> {
        let arrived = self.arrivals.take(RECENT)?;
        let origin = self.arrivals.origin();
        let mut figures = IntervalFigures {
            start_s: (arrived.start - origin).as_seconds(),
            end_s: (arrived.end - origin).as_seconds(),
            streams: arrived.streams,
            ..IntervalFigures::default()
        };
        figures.add_arrived(&arrived);
        Some(figures)
    }
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The loss ratio of an interval in which `lost` are newly missing, less those that were missing and have arrived since.
pub(super) fn loss_ratio(arrived: u64, lost: i64) -> Option<f64> {
    let expected = arrived.saturating_add_signed(lost);
    (expected > 0).then(|| lost.max(0) as f64 / expected as f64)
}

/// The times of intervals that follow each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    length: TimeDelta,
    start: Timestamp,
    from: Timestamp,
    due: Timestamp,
}

impl Ticks {
    /// Of this length, from `start` on.
    pub(super) fn new(length: TimeDelta, start: Timestamp) -> Self {
        Self { length, start, from: start, due: start + length }
    }

    /// When the present one ends.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Whether the present one has ended; then another end is due.
    pub(super) fn has_ended(&mut self, now: Timestamp) -> bool {
        let has_ended = now >= self.due;
        if has_ended {
            self.due = next_due(self.due, self.length, now);
        }
        has_ended
    }

    /// Ends the present one at `at`, not before it began: its times in seconds since the start.
    pub(super) fn close(&mut self, at: Timestamp) -> (f64, f64) {
        let (from, at) = (self.from, at.max(self.from));
        self.from = at;
        ((from - self.start).as_seconds(), (at - self.start).as_seconds())
    }
}

/// The first end of an interval after `now`.
fn next_due(due: Timestamp, interval: TimeDelta, now: Timestamp) -> Timestamp {
    let step = interval.as_nanos().max(1);
    let missed = now.saturating_since(due).as_nanos() / step;
    due + TimeDelta::from_nanos(step.saturating_mul(missed + 1))
}

/// What a sender has sent, of all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SentCounts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl SentCounts {
    /// What these sockets have sent of their streams: no greetings.
    pub(super) fn of(sockets: &[UdpSocket]) -> Self {
        let counters = sockets.iter().map(UdpSocket::send_counters);
        counters.fold(Self::default(), |all, counters| Self {
            packets: all.packets + counters.run_datagrams,
            bytes: all.bytes + counters.run_bytes,
        })
    }
}

/// The end of an interval at the sender, which waits for the receiver's reports.
#[derive(Debug, Clone, Copy)]
struct Tick {
    at: Timestamp,
    sent: SentCounts,
}

/// The intervals of a sending end: its own figures, and the receiver's from the reports.
#[derive(Debug)]
pub(super) struct TransmissionIntervals {
    ticks: Ticks,
    header: DataSize,
    last: Tick,
    arrivals: Arrivals,
    /// For each stream: the receiver's clock, and when the latest report came. Empty where no reports come.
    reports: Vec<(ReportClock, Option<Timestamp>)>,
    /// A report has come since the last interval.
    heard: bool,
    streams: usize,
    /// The datagrams have no sequence numbers: what was lost is unknown.
    is_raw: bool,
}

impl TransmissionIntervals {
    /// Intervals of this length, of `streams` streams whose datagrams have `header` bytes that the rate counts. Sending begins at
    /// `start`. `reported`: the format of what the receiver reports, if it does.
    pub(super) fn new(
        interval: TimeDelta,
        header: DataSize,
        start: Timestamp,
        streams: usize,
        reported: Option<StreamFormat>,
    ) -> Self {
        Self {
            ticks: Ticks::new(interval, start),
            header,
            last: Tick { at: start, sent: SentCounts::default() },
            arrivals: Arrivals::default(),
            reports: vec![(ReportClock::default(), None); if reported.is_some() { streams } else { 0 }],
            heard: false,
            streams,
            is_raw: reported == Some(StreamFormat::Raw),
        }
    }

    /// Takes a report that came at `now`.
    pub(super) fn on_report(&mut self, now: Timestamp, stream: usize, summary: &StreamSummary) {
        let Some((clock, came)) = self.reports.get_mut(stream) else { return };
        *came = Some(now);
        self.heard = true;
        if let Some(counts) = clock.counts(now, summary, self.header) {
            self.arrivals.update(stream as u64, Counts { is_raw: self.is_raw, ..counts }, false);
        }
    }

    /// The figures of an interval that has ended. Where the receiver reports, it ends with the report that is next to its time, so
    /// that both ends' figures are those of the same time.
    pub(super) fn on_turn(&mut self, now: Timestamp, sent: SentCounts) -> Option<IntervalFigures> {
        let reports = !self.reports.is_empty();
        let window = if reports { REPORT_WINDOW } else { TimeDelta::ZERO };
        let reported =
            self.reports.iter().all(|(_, came)| came.is_some_and(|came| came + window >= self.ticks.due));
        let over = now + window >= self.ticks.due && reported;
        if !over && now < self.ticks.due + window {
            return None;
        }
        // Within the window it may end before its time.
        self.ticks.has_ended(now.max(self.ticks.due));
        Some(self.close(Tick { at: now, sent }))
    }

    /// The last interval, after the last report.
    pub(super) fn finish(&mut self, ended: Timestamp, sent: SentCounts) -> Option<IntervalFigures> {
        // Nothing more comes: the received figures end with the last arrival.
        self.arrivals.sides.values_mut().for_each(|side| side.closed = true);
        let last = self.close(Tick { at: ended.max(self.last.at), sent });
        let counts = [last.sent_packets, last.received_packets, last.lost_packets.map(i64::unsigned_abs)];
        counts.into_iter().flatten().any(|count| count > 0).then_some(last)
    }

    fn close(&mut self, tick: Tick) -> IntervalFigures {
        let Tick { at, sent } = tick;
        let packets = sent.packets.saturating_sub(self.last.sent.packets);
        let bytes = sent.bytes.saturating_sub(self.last.sent.bytes);
        let span = (at - self.last.at).as_seconds();
        let (start_s, end_s) = self.ticks.close(at);
        let bits = (bytes + self.header.as_bytes() * packets) as f64 * 8.0;
        let mut figures = IntervalFigures {
            start_s,
            end_s,
            streams: self.streams,
            sent_packets: Some(packets),
            sent_bytes: Some(bytes),
            tx_rate_bps: (span > 0.0).then(|| bits / span),
            ..IntervalFigures::default()
        };
        if let Some(arrived) = std::mem::take(&mut self.heard).then(|| self.arrivals.take(RECENT)).flatten() {
            figures.add_arrived(&arrived);
        }
        self.last = tick;
        figures
    }
}

/// The intervals of an end that itself counts what it sends and what it receives, as with iperf3 at the far end.
#[derive(Debug)]
pub(super) enum LocalIntervals {
    /// It sends, and may receive another stream meanwhile: the intervals begin with sending.
    Sending(TransmissionIntervals),
    /// It only receives: the intervals begin with the first datagram.
    Receiving(ReceptionIntervals),
}

impl LocalIntervals {
    /// Intervals of this length. `sends`: the number of streams that are sent, and the header bytes that their rate counts; counting
    /// begins at `start`, when `sent` had been sent.
    pub(super) fn new(
        interval: TimeDelta,
        start: Timestamp,
        sent: SentCounts,
        sends: Option<(usize, DataSize)>,
    ) -> Self {
        match sends {
            Some((streams, header)) => {
                let mut intervals = TransmissionIntervals::new(interval, header, start, streams, None);
                intervals.last.sent = sent;
                Self::Sending(intervals)
            }
            None => Self::Receiving(ReceptionIntervals::new(interval)),
        }
    }

    /// Call it many times a second, with all that was sent, and the meters of the received streams, each always at the same place.
    /// Returns the figures of an interval that has ended.
    pub(super) fn on_turn<'a>(
        &mut self,
        now: Timestamp,
        sent: SentCounts,
        meters: impl Iterator<Item = Option<&'a StreamMeter>>,
    ) -> Option<IntervalFigures> {
        match self {
            Self::Sending(intervals) if now < intervals.ticks.due => None,
            Self::Sending(intervals) => {
                intervals.arrivals.update_all(now, meters, false);
                intervals.heard = intervals.arrivals.origin.is_some();
                intervals.on_turn(now, sent)
            }
            Self::Receiving(intervals) => intervals.on_meters(now, meters),
        }
    }

    /// The last interval; sending ended at `ended`.
    pub(super) fn finish<'a>(
        mut self,
        now: Timestamp,
        ended: Timestamp,
        sent: SentCounts,
        meters: impl Iterator<Item = Option<&'a StreamMeter>>,
    ) -> Option<IntervalFigures> {
        match &mut self {
            Self::Sending(intervals) => {
                intervals.arrivals.update_all(now, meters, true);
                intervals.heard = intervals.arrivals.origin.is_some();
                intervals.finish(ended, sent)
            }
            Self::Receiving(intervals) => {
                intervals.arrivals.update_all(now, meters, true);
                intervals.end()
            }
        }
    }
}

#[cfg(test)]
mod tests;
