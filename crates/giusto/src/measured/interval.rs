//! The figures of the intervals of a run, from differences of counters.

use std::collections::BTreeMap;

use giusto_measure::{StreamMeter, StreamSummary};
use giusto_session::probe::{Receiver, ReceiverEvent, StreamId};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

/// A datagram that arrived at most this long before the counters were read ends the interval: the receiver reads its socket about
/// 50 times a second, so that the counters are as old as their last datagram.
const RECENT: TimeDelta = TimeDelta::from_millis(50);

/// The same for intervals of 0.1 s: a receiver that is late by this time must not show a gap and a peak after it.
const RECENT_OF_STREAM: TimeDelta = TimeDelta::from_millis(500);

/// How long before and after its time an interval may end, so that it ends with a report: reports come every 0.5 s.
const REPORT_WINDOW: TimeDelta = TimeDelta::from_millis(270);

/// The figures of one interval, of all streams together.
///
/// Counts are those of the interval alone. A quantity that is not known is `None`, in JSON `null`. The received figures are those of
/// the stream that is sent, as its receiver reports them; with iperf3 at the far end, which reports none, those of the stream that
/// this end receives, if there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalFigures {
    /// The interval begins here, in seconds since the first datagram.
    pub start_s: f64,
    /// The interval ends here, in seconds since the first datagram.
    pub end_s: f64,
    /// Streams in this interval.
    pub streams: usize,
    /// Datagrams handed to the network.
    pub sent_packets: Option<u64>,
    /// Their UDP payload, in bytes.
    pub sent_bytes: Option<u64>,
    /// The rate at the sender, in bit/s, at the layer that was asked for.
    pub tx_rate_bps: Option<f64>,
    /// The time that the received figures cover, in seconds: at the sender, the time between two reports.
    pub received_span_s: Option<f64>,
    /// Unique datagrams that arrived.
    pub received_packets: Option<u64>,
    /// Their UDP payload, in bytes.
    pub received_bytes: Option<u64>,
    /// The rate at the receiver, in bit/s, at the layer that was asked for.
    pub rx_rate_bps: Option<f64>,
    /// Datagrams newly missing less those that were missing and have arrived since: the sum over all intervals is the loss.
    pub lost_packets: Option<i64>,
    /// Lost over lost and received datagrams, 0 to 1; 0 where more were recovered than lost.
    pub loss_ratio: Option<f64>,
    /// Inter-arrival jitter at the end of the interval, in ms (RFC 3550 §6.4.1); the largest of the streams.
    pub jitter_ms: Option<f64>,
}

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
    jitter: Option<TimeDelta>,
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
            jitter: meter.jitter(),
        }
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
        Self { at, arrivals, packets, payload, header, lost, jitter: None }
    }

    /// When they were read, on the receiver's clock.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    fn of_report(at: Timestamp, summary: &StreamSummary, header: DataSize) -> Self {
        Self {
            at,
            arrivals: summary.first_arrival.zip(summary.last_arrival),
            packets: summary.received_packets,
            payload: summary.received_bytes,
            header,
            lost: summary.lost_packets,
            jitter: summary.jitter,
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
    jitter: Option<TimeDelta>,
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
            all.jitter = all.jitter.max(now.jitter);
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
        let Arrived { start, end, packets, bytes, rate_bps, lost, jitter, .. } = *arrived;
        let expected = packets.saturating_add_signed(lost);
        self.received_span_s = Some((end - start).as_seconds());
        self.received_packets = Some(packets);
        self.received_bytes = Some(bytes);
        self.rx_rate_bps = Some(rate_bps);
        self.lost_packets = Some(lost);
        self.loss_ratio = (expected > 0).then(|| lost.max(0) as f64 / expected as f64);
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
        let is_new = |side: &Side| side.now.counted_until(RECENT_OF_STREAM) > side.base_at;
        if !closed && !self.0.sides.values().any(is_new) {
            return None;
        }
        // Without a time there is no rate yet.
        let arrived = self.0.take(RECENT_OF_STREAM).filter(|arrived| arrived.end > arrived.start)?;
        let mut figures = IntervalFigures { streams: 1, ..IntervalFigures::default() };
        figures.add_arrived(&arrived);
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
}

impl ReceptionIntervals {
    /// Intervals of this length.
    pub fn new(interval: TimeDelta) -> Self {
        Self { interval, arrivals: Arrivals::default(), due: None }
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
        if let Some(ReceiverEvent::Closed(id, stream)) = event
            && counts(*id)
        {
            self.arrivals.update(id.0, Counts::of_meter(now, stream.meter()), true);
            let ended = !receiver.streams().any(|(id, _)| counts(id));
            return ended.then(|| self.end()).flatten();
        }
        if self.is_early(now) {
            return None;
        }
        for (id, stream) in receiver.streams().filter(|(id, _)| counts(*id)) {
            self.arrivals.update(id.0, Counts::of_meter(now, stream.meter()), false);
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
        last.filter(|last| last.received_packets != Some(0) || last.lost_packets != Some(0))
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

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The first end of an interval after `now`.
pub(super) fn next_due(due: Timestamp, interval: TimeDelta, now: Timestamp) -> Timestamp {
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

/// The end of an interval at the sender, which waits for the receiver's reports.
#[derive(Debug, Clone, Copy)]
struct Tick {
    at: Timestamp,
    sent: SentCounts,
}

/// The intervals of a sending end: its own figures, and the receiver's from the reports.
#[derive(Debug)]
pub(super) struct TransmissionIntervals {
    interval: TimeDelta,
    header: DataSize,
    start: Timestamp,
    due: Timestamp,
    last: Tick,
    arrivals: Arrivals,
    /// For each stream: the receiver's clock, and when the latest report came. Empty where no reports come.
    reports: Vec<(ReportClock, Option<Timestamp>)>,
    /// A report has come since the last interval.
    heard: bool,
    streams: usize,
}

impl TransmissionIntervals {
    /// Intervals of this length, of `streams` streams whose datagrams have `header` bytes that the rate counts. Sending begins at
    /// `start`. `reported`: the receiver reports.
    pub(super) fn new(
        interval: TimeDelta,
        header: DataSize,
        start: Timestamp,
        (streams, reported): (usize, bool),
    ) -> Self {
        Self {
            interval,
            header,
            start,
            due: start + interval,
            last: Tick { at: start, sent: SentCounts::default() },
            arrivals: Arrivals::default(),
            reports: vec![(ReportClock::default(), None); if reported { streams } else { 0 }],
            heard: false,
            streams,
        }
    }

    /// Takes a report that came at `now`.
    pub(super) fn on_report(&mut self, now: Timestamp, stream: usize, summary: &StreamSummary) {
        let Some((clock, came)) = self.reports.get_mut(stream) else { return };
        *came = Some(now);
        self.heard = true;
        if let Some(counts) = clock.counts(now, summary, self.header) {
            self.arrivals.update(stream as u64, counts, false);
        }
    }

    /// The figures of an interval that has ended. Where the receiver reports, it ends with the report that is next to its time, so
    /// that both ends' figures are those of the same time.
    pub(super) fn on_turn(&mut self, now: Timestamp, sent: SentCounts) -> Option<IntervalFigures> {
        let reports = !self.reports.is_empty();
        let window = if reports { REPORT_WINDOW } else { TimeDelta::ZERO };
        let reported =
            self.reports.iter().all(|(_, came)| came.is_some_and(|came| came + window >= self.due));
        let over = now + window >= self.due && reported;
        if !over && now < self.due + window {
            return None;
        }
        self.due = next_due(self.due, self.interval, now.max(self.due));
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
        let bits = (bytes + self.header.as_bytes() * packets) as f64 * 8.0;
        let mut figures = IntervalFigures {
            start_s: (self.last.at - self.start).as_seconds(),
            end_s: (at - self.start).as_seconds(),
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
                let mut intervals = TransmissionIntervals::new(interval, header, start, (streams, false));
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
            Self::Sending(intervals) if now < intervals.due => None,
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
        (ended, sent): (Timestamp, SentCounts),
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
mod tests {
    use giusto_measure::{Arrival, MeterConfig};

    use super::*;

    const GAP: u64 = 10_000_000;

    /// Datagrams of 1250 B, one every 10 ms, from number `from` on; those in `lost` do not arrive.
    fn feed(meter: &mut StreamMeter, numbers: std::ops::Range<u64>, lost: &[u64]) {
        for sequence in numbers.filter(|number| !lost.contains(number)) {
            meter.on_arrival(&Arrival {
                at: Timestamp::from_nanos(5_000_000_000 + sequence * GAP),
                sequence,
                size: DataSize::from_bytes(1250),
                scheduled: None,
                sent: None,
                tos: None,
            });
        }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn an_interval_has_its_own_rate_and_loss() {
        let mut meter = StreamMeter::new(&MeterConfig::default());
        let mut arrivals = Arrivals::default();
        feed(&mut meter, 0..101, &[]);
        arrivals.update(1, Counts::of_meter(at(6_015), &meter), false);
        let first = arrivals.take(RECENT).unwrap();
        // 101 datagrams enclose 100 gaps of 10 ms.
        assert_eq!((first.packets, first.lost, first.rate_bps), (101, 0, 1e6));
        assert_eq!((first.start, first.end), (at(5_000), at(6_000)));
        // Half of the next hundred are lost: the mean since the start would be 0.75 Mbit/s.
        let odd: Vec<u64> = (101..201).filter(|number| number % 2 == 1).collect();
        feed(&mut meter, 101..201, &odd);
        arrivals.update(1, Counts::of_meter(at(7_005), &meter), false);
        let second = arrivals.take(RECENT).unwrap();
        assert_eq!((second.packets, second.lost, second.rate_bps), (50, 50, 0.5e6));
        // A second of silence, then a quarter of a second of datagrams.
        arrivals.update(1, Counts::of_meter(at(8_000), &meter), false);
        let silent = arrivals.take(RECENT).unwrap();
        assert_eq!((silent.packets, silent.rate_bps, silent.end), (0, 0.0, at(8_000)));
        feed(&mut meter, 376..401, &[]);
        arrivals.update(1, Counts::of_meter(at(9_001), &meter), true);
        let last = arrivals.take(RECENT).unwrap();
        assert_eq!((last.packets, last.lost, last.bytes, last.rate_bps), (25, 175, 31_250, 0.25e6));
        assert!(arrivals.take(RECENT).is_none());
    }

    #[test]
    fn a_late_receiver_shows_no_peak_in_short_intervals() {
        let mut meter = StreamMeter::new(&MeterConfig::default());
        let mut intervals = StreamIntervals::default();
        let mut rates = Vec::new();
        // A hundred datagrams a second. The socket is read late in the fourth and in the fifth tenth of a second, not at all in the sixth.
        let mut read = 0;
        for (tenth, until) in [(1, 10), (2, 20), (3, 30), (4, 32), (5, 49), (6, 49), (7, 70), (8, 80)] {
            feed(&mut meter, read..until, &[]);
            read = until;
            let figures = intervals.next(&Counts::of_meter(at(5_000 + tenth * 100), &meter), false);
            rates.push(figures.and_then(|figures| figures.rx_rate_bps).map(f64::round));
        }
        assert_eq!(rates, [1, 1, 1, 1, 1, 0, 1, 1].map(|known| (known == 1).then_some(1e6)));
        // After half a second it is a silence: the interval is that since the last datagram.
        let silent = |millis| Counts::of_meter(at(millis), &meter);
        assert_eq!(intervals.next(&silent(6_200), false), None);
        let figures = intervals.next(&silent(6_300), false).unwrap();
        assert_eq!((figures.received_packets, figures.rx_rate_bps), (Some(0), Some(0.0)));
    }

    #[test]
    fn recovered_datagrams_are_taken_back() {
        let mut meter = StreamMeter::new(&MeterConfig::default());
        let mut arrivals = Arrivals::default();
        feed(&mut meter, 0..10, &[7]);
        arrivals.update(1, Counts::of_meter(at(5_090), &meter), false);
        assert_eq!(arrivals.take(RECENT).unwrap().lost, 1);
        feed(&mut meter, 7..8, &[]);
        arrivals.update(1, Counts::of_meter(at(5_100), &meter), false);
        let after = arrivals.take(RECENT).unwrap();
        assert_eq!((after.packets, after.lost), (1, -1));
        let mut figures = IntervalFigures::default();
        figures.add_arrived(&after);
        assert_eq!((figures.lost_packets, figures.loss_ratio), (Some(-1), None));
    }

    #[test]
    fn streams_add_up() {
        let mut arrivals = Arrivals::default();
        let mut meters: Vec<_> = (0..3).map(|_| StreamMeter::new(&MeterConfig::default())).collect();
        let mut totals = (0, 0);
        for second in 1..4 {
            for (id, meter) in meters.iter_mut().enumerate() {
                feed(meter, (second - 1) * 100 + u64::from(second > 1)..second * 100 + 1, &[]);
                arrivals.update(id as u64, Counts::of_meter(at(5_000 + second * 1_000), meter), second == 3);
            }
            let all = arrivals.take(RECENT).unwrap();
            totals = (totals.0 + all.packets, totals.1 + all.lost);
            assert!((3.0e6..3.03e6).contains(&all.rate_bps), "{all:?}");
        }
        assert_eq!(totals, (903, 0));
    }

    #[test]
    fn intervals_of_a_sender_end_with_reports() {
        let second = TimeDelta::from_seconds(1);
        let sent = |packets| SentCounts { packets, bytes: packets * 1250 };
        let mut intervals = TransmissionIntervals::new(second, DataSize::ZERO, at(100), (1, true));
        // The receiver's clock differs by far.
        let report = |received: u64, lost: u64| StreamSummary {
            received_packets: received,
            received_bytes: DataSize::from_bytes(1250 * received),
            lost_packets: lost,
            first_arrival: Some(at(77_000)),
            last_arrival: Some(at(77_000 + (received + lost - 1) * 10)),
            ..StreamMeter::new(&MeterConfig::default()).summary()
        };
        intervals.on_report(at(505), 0, &report(41, 0));
        assert_eq!(intervals.on_turn(at(600), sent(50)), None);
        intervals.on_report(at(1_005), 0, &report(91, 0));
        let first = intervals.on_turn(at(1_010), sent(91)).unwrap();
        assert_eq!((first.start_s, first.end_s, first.sent_packets), (0.0, 0.91, Some(91)));
        assert_eq!((first.tx_rate_bps, first.rx_rate_bps), (Some(1e6), Some(1e6)));
        assert_eq!((first.received_packets, first.lost_packets), (Some(91), Some(0)));
        // Without reports only our own figures are known, after a while.
        assert_eq!(intervals.on_turn(at(2_110), sent(201)), None);
        let second = intervals.on_turn(at(2_410), sent(231)).unwrap();
        assert_eq!((second.sent_packets, second.received_packets), (Some(140), None));
        intervals.on_report(at(3_105), 0, &report(201, 100));
        let last = intervals.finish(at(3_100), sent(301)).unwrap();
        assert_eq!(
            (last.sent_packets, last.received_packets, last.lost_packets),
            (Some(70), Some(110), Some(100))
        );
        assert_eq!((last.received_span_s, last.end_s), (Some(2.1), 3.0));
        assert_eq!(last.loss_ratio, Some(100.0 / 210.0));
        assert_eq!(intervals.finish(at(3_100), sent(301)), None);
    }
    #[test]
    fn both_directions_are_counted_at_one_end() {
        let second = TimeDelta::from_seconds(1);
        let sent = |packets| SentCounts { packets, bytes: packets * 1250 };
        let sends = Some((1, DataSize::ZERO));
        let mut intervals = LocalIntervals::new(second, at(5_000), sent(7), sends);
        let mut meter = StreamMeter::new(&MeterConfig::default());
        assert_eq!(intervals.on_turn(at(5_900), sent(97), [Some(&meter)].into_iter()), None);
        feed(&mut meter, 0..101, &[50]);
        let first = intervals.on_turn(at(6_000), sent(107), [Some(&meter)].into_iter()).unwrap();
        assert_eq!((first.start_s, first.end_s), (0.0, 1.0));
        assert_eq!((first.sent_packets, first.tx_rate_bps), (Some(100), Some(1e6)));
        assert_eq!((first.received_packets, first.lost_packets), (Some(100), Some(1)));
        feed(&mut meter, 101..111, &[]);
        let last = intervals.finish(at(6_200), (at(6_150), sent(122)), [Some(&meter)].into_iter()).unwrap();
        assert_eq!((last.sent_packets, last.received_packets, last.end_s), (Some(15), Some(10), 1.15));

        let mut intervals = LocalIntervals::new(second, at(0), sent(0), None);
        assert_eq!(intervals.on_turn(at(4_000), sent(0), [None].into_iter()), None);
        let first = intervals.on_turn(at(6_110), sent(0), [None, Some(&meter)].into_iter()).unwrap();
        assert_eq!(
            (first.sent_packets, first.received_packets, first.lost_packets),
            (None, Some(110), Some(1))
        );
        // Losses at the end are known only then.
        meter.finish(120);
        let last = intervals.finish(at(6_200), (at(0), sent(0)), [None, Some(&meter)].into_iter()).unwrap();
        assert_eq!((last.received_packets, last.lost_packets), (Some(0), Some(9)));
    }
}
