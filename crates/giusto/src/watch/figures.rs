//! From snapshots to figures.

use std::collections::BTreeMap;

use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::Serialize;

use super::{Decided, DelayState, SentState, Snapshot, StreamState, board::Board, quantity::Quantity};
use crate::{
    interval::{IntervalFigures, StreamIntervals},
    text::decision::cause_in_words,
};

/// The length of the coarse intervals.
const COARSE: TimeDelta = TimeDelta::from_seconds(1);

/// The figures of one stream in one interval, in the order of [`Quantity::ALL`].
type Sample = [Option<f64>; Quantity::ALL.len()];

/// One stream at the end of its last interval of one length.
#[derive(Debug, Clone, Default)]
struct Level {
    at: Timestamp,
    sent: SentState,
    received: StreamIntervals,
    /// When the received counters were read.
    received_at: Option<Timestamp>,
    delay: Option<DelayState>,
}

impl Level {
    fn sample(&mut self, now: Timestamp, stream: &StreamState) -> Sample {
        let span = (now - self.at).as_seconds();
        let sent = stream.sent.filter(|_| span > 0.0).map(|sent| {
            let size = sent.size.saturating_sub(self.sent.size).as_bytes();
            size as f64 * 8.0 / span
        });
        // Reports come less often than snapshots.
        let news = stream.received.filter(|counts| self.received_at != Some(counts.at()) || stream.closed);
        let figures = news.and_then(|counts| {
            self.received_at = Some(counts.at());
            self.received.next(&counts, stream.closed)
        });
        let of = |value: fn(&IntervalFigures) -> Option<f64>| figures.as_ref().and_then(value);
        let (delay, queue) = self.delays(stream.delay).unzip();
        let is_of_frames = matches!(stream.delay, Some(DelayState::Frames(..)));
        self.at = now;
        self.sent = stream.sent.unwrap_or_default();
        self.delay = stream.delay;
        let ms = |time: TimeDelta| time.as_millis();
        [
            sent,
            of(|figures| figures.rx_rate_bps),
            stream.target.map(|target| target.as_bps() as f64),
            of(|figures| figures.loss_ratio),
            of(IntervalFigures::buffer_loss_ratio).filter(|_| news.is_some_and(|counts| counts.has_drops())),
            delay.filter(|_| !is_of_frames).map(ms),
            delay.filter(|_| is_of_frames).map(ms),
            queue.flatten().map(ms),
            stream.sender_queue.map(ms),
            of(|figures| figures.jitter_ms),
            stream.rtt.map(ms),
        ]
    }

    /// The delay of the interval, and what it exceeds the minimum by.
    fn delays(&self, now: Option<DelayState>) -> Option<(TimeDelta, Option<TimeDelta>)> {
        match (now?, self.delay) {
            (DelayState::Packets(now), before) => {
                let before = match &before {
                    Some(DelayState::Packets(before)) => Some(before),
                    _ => None,
                };
                now.mean_since(before).map(|(mean, queue)| (mean, Some(queue)))
            }
            (DelayState::Frames(sum, count), before) => {
                let (sum_before, count_before) = match before {
                    Some(DelayState::Frames(sum, count)) => (sum, count),
                    _ => (TimeDelta::ZERO, 0),
                };
                let frames = i64::try_from(count.saturating_sub(count_before)).ok()?;
                (frames > 0).then(|| ((sum - sum_before) / frames, None))
            }
            (DelayState::SoFar(delay), _) => Some((delay, None)),
        }
    }
}

/// Makes the figures of a run from its snapshots, and puts them on a [`Board`].
#[derive(Debug)]
pub struct Figures<'a> {
    board: &'a Board,
    start: Option<Timestamp>,
    /// Fine and coarse.
    streams: BTreeMap<u64, [Level; 2]>,
    coarse_due: Timestamp,
}

/// An update, as pages read it.
#[derive(Debug, Serialize)]
struct Update {
    /// The end of the interval, in seconds since the run began.
    t: f64,
    /// Streams that are not shown.
    more: usize,
    /// The id, then the sample.
    s: Vec<(u64, Sample)>,
}

/// A decision, as pages read it.
#[derive(Debug, Serialize)]
struct Said {
    t: f64,
    id: u64,
    from_bps: u64,
    to_bps: u64,
    cause: String,
}

impl<'a> Figures<'a> {
    /// Figures of a run that begins with the first snapshot.
    pub fn new(board: &'a Board) -> Self {
        Self { board, start: None, streams: BTreeMap::new(), coarse_due: Timestamp::ZERO }
    }

    /// Takes a snapshot.
    pub fn on_snapshot(&mut self, snapshot: &Snapshot) {
        let now = snapshot.at;
        let start = *self.start.get_or_insert(now);
        if self.coarse_due == Timestamp::ZERO {
            self.coarse_due = start + COARSE;
        }
        let seconds = |at: Timestamp| ((at - start).as_seconds() * 1e3).round() / 1e3;
        self.board.name(seconds(now), &snapshot.names);
        let tick = now >= self.coarse_due;
        if tick {
            self.coarse_due = (self.coarse_due + COARSE).max(now);
        }
        let (mut fine, mut coarse) = (Vec::new(), Vec::new());
        for stream in &snapshot.streams {
            let begins = || Level { at: now, sent: stream.sent.unwrap_or_default(), ..Level::default() };
            let levels = self.streams.entry(stream.id).or_insert_with(|| [begins(), begins()]);
            let [tenth, second] = levels;
            fine.push((stream.id, rounded(tenth.sample(now, stream))));
            // The last interval of a stream ends with it.
            if tick || stream.closed {
                coarse.push((stream.id, rounded(second.sample(now, stream))));
            }
        }
        let open = |id: &u64| snapshot.streams.iter().any(|stream| stream.id == *id && !stream.closed);
        self.streams.retain(|id, _| open(id));
        let update = |s: Vec<(u64, Sample)>| json(&Update { t: seconds(now), more: snapshot.more, s });
        let coarse = (!coarse.is_empty()).then(|| update(coarse));
        self.board.update(update(fine), coarse);
        for decided in &snapshot.decisions {
            self.board.decide(json(&said(decided, seconds(decided.at))));
        }
        for closed in snapshot.streams.iter().filter(|stream| stream.closed) {
            self.board.close(seconds(now), closed.id);
        }
    }
}

fn rounded(mut sample: Sample) -> Sample {
    for (value, quantity) in sample.iter_mut().zip(Quantity::ALL) {
        *value = value.and_then(|value| quantity.rounded(value));
    }
    sample
}

fn said(decided: &Decided, t: f64) -> Said {
    let Decided { id, rates, cause, .. } = decided;
    let [from_bps, to_bps] = rates.map(DataRate::as_bps);
    Said { t, id: *id, from_bps, to_bps, cause: cause_in_words(cause) }
}

/// Numbers and strings: serialisation has no way to fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use giusto_congestion::Cause;
    use giusto_measure::{Arrival, MeterConfig, StreamMeter};
    use giusto_units::{DataRate, DataSize, PeerTimestamp};
    use serde_json::Value;

    use super::*;
    use crate::interval::Counts;
    use crate::testing::at;

    const NAMES: [&str; 11] = [
        "sent_rate_bps",
        "received_rate_bps",
        "target_rate_bps",
        "loss_ratio",
        "buffer_loss_ratio",
        "delay_ms",
        "frame_delay_ms",
        "queue_delay_ms",
        "sender_queue_ms",
        "jitter_ms",
        "rtt_ms",
    ];

    fn history(board: &Board) -> Value {
        serde_json::from_str(&board.history().json).unwrap()
    }

    /// The value of `name` in each sample of stream 1.
    fn column(updates: &Value, name: &str) -> Vec<Option<f64>> {
        let place = NAMES.iter().position(|own| *own == name).unwrap();
        let updates = updates.as_array().unwrap().iter();
        let samples = updates.flat_map(|update| update["s"].as_array().unwrap());
        samples.filter(|sample| sample[0] == 1).map(|sample| sample[1][place].as_f64()).collect()
    }

    #[test]
    fn quantities_have_the_names_that_pages_know() {
        assert_eq!(serde_json::to_value(Quantity::ALL).unwrap(), serde_json::json!(NAMES));
    }

    #[test]
    fn intervals_have_their_own_rate_loss_and_delay() {
        let board = Board::new("giusto recv");
        let mut figures = Figures::new(&board);
        let mut meter =
            StreamMeter::new(&MeterConfig::default().with_clocks(giusto_measure::ClockRelation::Same));
        let mut sequence = 0;
        for tenth in 0..=40_u64 {
            figures.on_snapshot(&Snapshot {
                at: at(tenth * 100),
                streams: vec![StreamState {
                    id: 1,
                    received: Some(Counts::of_meter(at(tenth * 100), &meter)),
                    delay: meter.delay().totals().map(DelayState::Packets),
                    ..StreamState::default()
                }],
                ..Snapshot::default()
            });
            // 100 packets of 1250 B a second: 1 Mbit/s. In the third second every second one is lost, and the others wait 30 ms more.
            for step in 1..=10 {
                sequence += 1;
                let bad = (20..30).contains(&tenth);
                if bad && sequence % 2 == 0 {
                    // From the middle of that second on it is the receiver itself that loses them.
                    meter.on_kernel_drops(u64::from(tenth >= 25));
                    continue;
                }
                let arrives = at(tenth * 100 + step * 10);
                let wait = if bad { 35_000_000 } else { 5_000_000 };
                let sent = (arrives.as_nanos() + 100_000_000).saturating_sub(wait + 100_000_000);
                let arrival = Arrival::new(arrives, sequence, DataSize::from_bytes(1250));
                meter.on_arrival(&arrival.with_sent(PeerTimestamp::from_nanos(sent)));
            }
        }
        let history = history(&board);
        let coarse = &history["coarse"];
        let bounds = [0.99e6..1.01e6, 0.99e6..1.01e6, 0.49e6..0.52e6, 0.98e6..1.01e6];
        let rates = column(coarse, "received_rate_bps");
        let within = rates.iter().zip(&bounds).all(|(rate, bound)| bound.contains(&rate.unwrap()));
        assert!(within && rates.len() == 4, "{rates:?}");
        let losses: Vec<f64> = column(coarse, "loss_ratio").into_iter().flatten().collect();
        assert!(losses[1] == 0.0 && (0.48..=0.51).contains(&losses[2]) && losses[3] < 0.02, "{losses:?}");
        let own = column(coarse, "buffer_loss_ratio");
        assert!(own[1].is_none() && own[2].is_some_and(|own| (0.22..=0.28).contains(&own)), "{own:?}");
        assert_eq!(column(coarse, "delay_ms")[1..], [Some(5.0), Some(35.0), Some(5.0)]);
        assert_eq!(column(coarse, "queue_delay_ms")[1..], [Some(0.0), Some(30.0), Some(0.0)]);
        // The same in tenths of a second.
        let fine = column(&history["fine"], "received_rate_bps");
        assert_eq!(fine.len(), 41);
        let is_near = |rate: &Option<f64>| rate.is_some_and(|rate| (0.99e6..1.01e6).contains(&rate));
        assert!(fine[5..20].iter().all(is_near), "{fine:?}");
        assert_eq!(column(&history["fine"], "queue_delay_ms")[25], Some(30.0));
    }

    #[test]
    fn what_is_sent_and_reported_has_its_own_pace() {
        let board = Board::new("giusto send");
        let mut figures = Figures::new(&board);
        for tenth in 0..=10_u64 {
            let halves = tenth / 5;
            let received = DataSize::from_bytes(halves * 50 * 1250);
            figures.on_snapshot(&Snapshot {
                at: at(tenth * 100),
                streams: vec![StreamState {
                    id: 1,
                    sent: Some(SentState { packets: tenth * 10, size: DataSize::from_bytes(tenth * 12_500) }),
                    received: Some(Counts::of_media(at(halves * 500), at(0), halves * 50, received, 0)),
                    target: Some(DataRate::from_bps(1_200_000)),
                    delay: Some(DelayState::Frames(TimeDelta::from_millis(tenth as i64 * 20), tenth)),
                    ..StreamState::default()
                }],
                decisions: vec![Decided {
                    id: 1,
                    at: at(tenth * 100),
                    rates: [DataRate::from_bps(1), DataRate::from_bps(2)],
                    cause: Cause::Silence,
                }],
                ..Snapshot::default()
            });
        }
        let history = history(&board);
        let fine = &history["fine"];
        assert_eq!(column(fine, "sent_rate_bps")[1..], [Some(1e6); 10]);
        let received: Vec<bool> = column(fine, "received_rate_bps").iter().map(Option::is_some).collect();
        assert_eq!(received, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1].map(|known| known == 1));
        assert_eq!(column(fine, "frame_delay_ms")[5], Some(20.0));
        assert_eq!(column(fine, "delay_ms"), [None; 11]);
        assert_eq!(column(fine, "target_rate_bps")[0], Some(1.2e6));
        let last = &history["decisions"][10];
        assert_eq!((&last["t"], &last["to_bps"]), (&serde_json::json!(1.0), &serde_json::json!(2)));
        assert_eq!(last["cause"], "no feedback, backing off");
    }
}
