//! The figures of one run, and its utility.

use giusto_measure::{ErrorHistogram, mos::EModel};
use giusto_sim::{
    packet::{FlowId, Packet},
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp, math};
use serde::{Deserialize, Serialize};

use super::share::{BIN, FairShare, FairShares};
use crate::run::media::FIRST_VIDEO_SSRC;

/// Frames that are captured this long before the end, or later, are not judged: they may still be on their way.
const TAIL: TimeDelta = TimeDelta::from_seconds(2);

/// A time without a complete frame that is longer is a freeze.
const FREEZE: TimeDelta = TimeDelta::from_millis(400);

/// Use below this, with nothing competing, is a collapse.
pub(super) const COLLAPSE: f64 = 0.4;

/// A run with a lower utility is of no use, whatever its use.
pub(super) const POOR: f64 = 0.2;

/// The window of the queueing delay after a fall of the capacity, from the fall on.
const AFTER_FALL: (TimeDelta, TimeDelta) = (TimeDelta::from_seconds(1), TimeDelta::from_seconds(5));

/// A rise is followed when the received rate over this many bins reaches [`RISEN`] of the share.
const RISE_BINS: usize = 5;
const RISEN: f64 = 0.9;

/// Part of a run, at its end, over which calls must share equally.
const JAIN_PART: f64 = 1.0 / 3.0;

/// ITU-T G.1070 (06/2018) §11, the opinion model of video telephony, with its coefficients v1 to v7 for H.264 in VGA. Models of
/// video on demand are flatter: P.1203.1 (10/2017) in mode 0 gives 0.94 at 30 % of 500 kbit/s in 360p.
const G_1070: [f64; 7] = [5.517, 0.0129, 3.459, 178.53, 1.02, 1.15, 0.000_355];

/// The frame rate at which it is used: encoders here hold theirs. Hz.
const FRAME_RATE: f64 = 30.0;

/// The rate at which it is used for the whole share, kbit/s: what libwebrtc sends at most in VGA (`video/config/simulcast.cc`,
/// `max_bitrate` between 640 × 360 and 960 × 540). A sender chooses the resolution for the rate that it expects.
const WHOLE_SHARE: f64 = 833.0;

/// Share of missing frames that divides the quality by e. ITU-T G.1070 §11, with the same coefficients: that share of packets is 5.9 %
/// at 0.5 Mbit/s, 2.7 % at 1 Mbit/s and 1.0 % at 2 Mbit/s, which damage 11 %, 10 % and 8 % of the frames of 30 Hz.
const MISSING_SCALE: f64 = 0.1;

/// The utility of a run and its parts, each from 0 to 1. `docs/reference/benchmark.md` argues for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Utility {
    /// The product of the parts.
    pub total: f64,
    /// Of the use *u*: the quality of coding of ITU-T G.1070 §11 at *u* of the rate, over that at the rate. Beside a long TCP connection or
    /// other calls, use above the fair share counts as 1/*u*, otherwise as 1. Several calls: their mean.
    pub rate: f64,
    /// Of the 95th percentile of the frame delay: the rating factor of ITU-T G.107 with this absolute delay, over that without.
    pub delay: f64,
    /// Of the share *m* of frames that did not arrive whole and in time: e^(−*m*/0.1), the form of ITU-T G.1070 §11.
    pub frames: f64,
    /// Of *n* freezes per minute that take the share *s* of the time: e^(−*n*/9.35) · e^(−*s*/0.919), from ITU-T P.1203.3 §8.4.
    pub freezes: f64,
}

/// The figures of one run. All judged flows together, from 5 s after the start of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Bits of media that arrived, over those that the fair share could carry.
    pub utilisation_ratio: f64,
    /// The same of each judged flow.
    pub flows: Vec<f64>,
    /// From the capture of a frame until it, or a later frame, was complete.
    pub frame_delay_p50_ms: f64,
    /// Its 95th percentile.
    pub frame_delay_p95_ms: f64,
    /// Its 99th percentile.
    pub frame_delay_p99_ms: f64,
    /// 95th percentile of the queueing delay of packets on the path.
    pub queue_delay_p95_ms: f64,
    /// Share of packets lost.
    pub loss_ratio: f64,
    /// Frames that were due: encoded or skipped.
    pub frames: u64,
    /// Share of these that the sender skipped.
    pub skipped_ratio: f64,
    /// Share of these that were encoded and never became whole; frames that the sender discarded are among them.
    pub missing_ratio: f64,
    /// Share of these that became whole more than 400 ms later than the fastest frame would have.
    pub late_ratio: f64,
    /// Share of these that became whole because of a repair.
    pub repaired_ratio: f64,
    /// Packets that the sender discarded.
    pub discarded_packets: u64,
    /// Share of time in freezes: times without a complete frame of more than 400 ms.
    pub freeze_ratio: f64,
    /// Freezes per minute.
    pub freezes_per_minute: f64,
    /// Changes of the target, sampled each second, in octaves per minute.
    pub target_octaves_per_minute: f64,
    /// Several judged calls: Jain's index of their rates over the last third of the run.
    pub jain: Option<f64>,
    /// After a rise of the capacity: time to 90 % of the share over 0.5 s, at most the rest of the run.
    pub rise_s: Option<f64>,
    /// After a fall of the capacity: 95th percentile of the queueing delay from 1 s to 5 s.
    pub queue_delay_after_fall_p95_ms: Option<f64>,
    /// Use below 0.4 with nothing competing.
    pub collapsed: bool,
    /// The utility.
    pub utility: Utility,
}

/// Collects what the judged flows of a run do.
#[derive(Debug)]
pub(crate) struct Watch {
    shares: FairShares,
    /// The judged flows by the number of their flow in the simulation.
    places: Vec<Option<usize>>,
    flows: Vec<Watched>,
    /// The moment of the only change of the path.
    change: Option<Timestamp>,
    queue_delay: ErrorHistogram,
    after_fall: ErrorHistogram,
    lost: u64,
    delivered: u64,
    discarded: u64,
}

/// A judged flow.
#[derive(Debug, Clone, Default)]
struct Watched {
    /// Bytes received in each bin.
    received: Vec<u64>,
    padding: u64,
    sent: u64,
    /// Times of capture of the frames that were due, and whether they were skipped.
    due: Vec<(Timestamp, bool)>,
    /// Times of capture and arrival of whole frames, and whether they were late and repaired.
    whole: Vec<(Timestamp, Timestamp, [bool; 2])>,
    /// Target rate and the next second at which it is sampled.
    target: Option<f64>,
    sampled: i64,
    before: Option<f64>,
    octaves: f64,
}

impl Watch {
    pub(crate) fn new(shares: FairShares, judged: &[FlowId], change_s: Option<f64>) -> Self {
        let most = judged.iter().map(|flow| flow.0 as usize + 1).max().unwrap_or(0);
        let mut places = vec![None; most];
        for (place, flow) in judged.iter().enumerate() {
            if let Some(own) = places.get_mut(flow.0 as usize) {
                *own = Some(place);
            }
        }
        let bins = usize::try_from((shares.end - Timestamp::ZERO).as_nanos() / BIN.as_nanos()).unwrap_or(0);
        Self {
            shares,
            places,
            flows: vec![Watched { received: vec![0; bins], ..Watched::default() }; judged.len()],
            change: change_s.map(|at| Timestamp::ZERO + TimeDelta::from_seconds_f64(at)),
            queue_delay: ErrorHistogram::new(),
            after_fall: ErrorHistogram::new(),
            lost: 0,
            delivered: 0,
            discarded: 0,
        }
    }

    /// The end of the run.
    pub(super) fn end(&self) -> Timestamp {
        self.shares.end
    }

    fn flow(&mut self, flow: FlowId) -> Option<(&FairShare, &mut Watched)> {
        let place = self.places.get(flow.0 as usize).copied().flatten()?;
        Some((self.shares.flows.get(place)?, self.flows.get_mut(place)?))
    }

    fn on_delivered(&mut self, now: Timestamp, packet: &Packet) {
        let change = self.change;
        let Some((share, own)) = self.flow(packet.flow) else { return };
        if now < share.from {
            return;
        }
        let bin = usize::try_from((now - Timestamp::ZERO).as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX);
        if let Some(bytes) = own.received.get_mut(bin) {
            *bytes += u64::from(packet.bytes);
        }
        let delay = TimeDelta::from_nanos(packet.queue_delay_ns as i64);
        self.delivered += 1;
        self.queue_delay.record(delay);
        if change.is_some_and(|at| (at + AFTER_FALL.0..at + AFTER_FALL.1).contains(&now)) {
            self.after_fall.record(delay);
        }
    }

    /// The figures at the end of the run; `ratio` is that of the capacity after the change to that before.
    pub(crate) fn figures(&mut self, ratio: Option<f64>) -> Figures {
        let shares = &self.shares;
        let loss_ratio = quotient(self.lost as f64, (self.lost + self.delivered) as f64);
        let (mut frames, mut freezes) = (FrameCounts::default(), Freezes::default());
        let (mut uses, mut got, mut could) = (Vec::new(), 0.0, 0.0);
        let mut octaves = 0.0;
        let mut seconds = 0.0;
        for (own, share) in self.flows.iter_mut().zip(&shares.flows) {
            own.sample(shares.end, share.from);
            frames.add(own, share, shares.end);
            freezes.add(own, share, shares.end);
            let bits = own.received.iter().sum::<u64>() as f64 * 8.0;
            let media = bits * (1.0 - quotient(own.padding as f64, own.sent as f64));
            let possible = share.bits.iter().sum::<f64>();
            uses.push(quotient(media, possible));
            (got, could) = (got + media, could + possible);
            octaves += own.octaves;
            seconds += shares.end.saturating_since(share.from).as_seconds();
        }
        let utilisation_ratio = quotient(got, could);
        frames.delays.sort_unstable_by(f64::total_cmp);
        let due = frames.due as f64;
        let ms = |histogram: &ErrorHistogram| {
            histogram.quantile(0.95).map_or(0.0, |delay| delay.as_millis().max(0.0))
        };
        let rises = ratio.is_some_and(|ratio| ratio > 1.0);
        let change = self.change.filter(|_| shares.is_alone);
        let mut figures = Figures {
            utilisation_ratio,
            frame_delay_p50_ms: quantile(&frames.delays, 0.5),
            frame_delay_p95_ms: quantile(&frames.delays, 0.95),
            frame_delay_p99_ms: quantile(&frames.delays, 0.99),
            queue_delay_p95_ms: ms(&self.queue_delay),
            loss_ratio,
            frames: frames.due,
            skipped_ratio: quotient(frames.skipped as f64, due),
            missing_ratio: quotient(frames.missing as f64, due),
            late_ratio: quotient(frames.late as f64, due),
            repaired_ratio: quotient(frames.repaired as f64, due),
            discarded_packets: self.discarded,
            freeze_ratio: quotient(freezes.frozen, freezes.seconds),
            freezes_per_minute: quotient(freezes.count as f64 * 60.0, freezes.seconds),
            target_octaves_per_minute: quotient(octaves * 60.0, seconds),
            jain: self.jain(),
            rise_s: change.filter(|_| rises).and_then(|at| self.rise(at)),
            queue_delay_after_fall_p95_ms: change
                .filter(|_| !rises)
                .filter(|_| self.after_fall.count() > 0)
                .map(|_| ms(&self.after_fall)),
            collapsed: shares.is_alone && utilisation_ratio < COLLAPSE,
            utility: Utility::default(),
            flows: uses,
        };
        figures.utility = utility(&figures, shares.competes);
        figures
    }

    /// Jain's index of the rates of the judged flows, each over its own share, in the last part of the run.
    fn jain(&self) -> Option<f64> {
        let own: Vec<f64> = self
            .flows
            .iter()
            .zip(&self.shares.flows)
            .map(|(flow, share)| {
                let from = (flow.received.len() as f64 * (1.0 - JAIN_PART)) as usize;
                let bits = flow.received.iter().skip(from).sum::<u64>() as f64 * 8.0;
                quotient(bits, share.bits.iter().skip(from).sum())
            })
            .collect();
        let (sum, squares) = own.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        (own.len() > 1).then(|| quotient(sum * sum, own.len() as f64 * squares))
    }

    /// The time from `at` until the received rate reaches the share.
    fn rise(&self, at: Timestamp) -> Option<f64> {
        let (flow, share) = (self.flows.first()?, self.shares.flows.first()?);
        let first = usize::try_from((at - Timestamp::ZERO).as_nanos() / BIN.as_nanos()).ok()? + 1;
        let last = flow.received.len().checked_sub(RISE_BINS)?;
        let reached = |from: &usize| {
            let sum = |values: f64, place: usize| values + share.bits.get(place).copied().unwrap_or(0.0);
            let bits = |place| flow.received.get(place).copied().unwrap_or(0) as f64 * 8.0;
            let window = *from..*from + RISE_BINS;
            window.clone().map(bits).sum::<f64>() >= RISEN * window.fold(0.0, sum)
        };
        let end = (first..last).find(reached).unwrap_or(last) + RISE_BINS;
        Some(end as f64 * BIN.as_seconds() - (at - Timestamp::ZERO).as_seconds())
    }
}

impl Watched {
    /// Samples the target up to `now`.
    fn sample(&mut self, now: Timestamp, from: Timestamp) {
        let second = (now - Timestamp::ZERO).as_nanos() / 1_000_000_000;
        let first = (from - Timestamp::ZERO).as_nanos() / 1_000_000_000;
        while self.sampled < second {
            self.sampled += 1;
            if let Some(target) = self.target.filter(|target| *target > 0.0) {
                let change = self.before.map_or(0.0, |before| math::log2(target / before).abs());
                self.octaves += if self.sampled > first { change } else { 0.0 };
                self.before = Some(target);
            }
        }
    }
}

impl Observer for Watch {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Delivered { packet } => self.on_delivered(now, packet),
            Event::Sent { packet } => {
                if let Some((_, own)) = self.flow(packet.flow) {
                    own.sent += u64::from(packet.bytes);
                }
            }
            Event::Dropped { packet, .. } => {
                if let Some((share, _)) = self.flow(packet.flow)
                    && now >= share.from
                {
                    self.lost += 1;
                }
            }
            _ => {}
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let Some((share, own)) = self.flow(note.flow()) else { return };
        let from = share.from;
        match *note {
            Note::Decided { decision, .. } => {
                own.sample(now, from);
                own.target = Some(decision.to.as_bps() as f64);
            }
            Note::Queued { ssrc, captured, .. } if ssrc >= FIRST_VIDEO_SSRC => {
                own.due.push((captured, false));
            }
            Note::Skipped { .. } => own.due.push((now, true)),
            Note::Frame { ssrc, at, delay: Some(delay), repaired, late, .. } if ssrc >= FIRST_VIDEO_SSRC => {
                own.whole.push((at - delay, at, [late, repaired]));
            }
            Note::Padding { size, .. } => own.padding += size.as_bytes(),
            Note::Discarded { packets, .. } if now >= from => self.discarded += packets,
            _ => {}
        }
    }

    fn watches_queues(&self) -> bool {
        false
    }
}

/// Frames of all judged flows.
#[derive(Debug, Default)]
struct FrameCounts {
    due: u64,
    skipped: u64,
    missing: u64,
    late: u64,
    repaired: u64,
    /// Of each frame that was due, in ms.
    delays: Vec<f64>,
}

impl FrameCounts {
    fn add(&mut self, own: &mut Watched, share: &FairShare, end: Timestamp) {
        let until = end - TAIL;
        own.whole.sort_unstable();
        // The earliest arrival of a frame that was captured at each place or later.
        let mut fresh: Vec<Timestamp> = own.whole.iter().map(|&(_, arrived, _)| arrived).collect();
        let mut earliest = end;
        for arrived in fresh.iter_mut().rev() {
            earliest = earliest.min(*arrived);
            *arrived = earliest;
        }
        let window = share.from..until;
        for &(captured, skipped) in own.due.iter().filter(|(captured, _)| window.contains(captured)) {
            // The receiver knows times of capture to a tick of the RTP clock.
            let next = own.whole.partition_point(|&(at, ..)| at + SAME_FRAME < captured);
            let shown = fresh.get(next).copied().unwrap_or(end);
            self.delays.push(shown.saturating_since(captured).as_millis());
            self.due += 1;
            let whole = own.whole.get(next).filter(|(at, ..)| *at <= captured + SAME_FRAME && !skipped);
            match whole {
                Some((_, _, [late, repaired])) => {
                    self.late += u64::from(*late);
                    self.repaired += u64::from(*repaired);
                }
                None if skipped => self.skipped += 1,
                None => self.missing += 1,
            }
        }
    }
}

/// Times of capture that differ by less are those of one frame: more than a tick of the RTP clock, less than a frame.
pub(crate) const SAME_FRAME: TimeDelta = TimeDelta::from_millis(1);

/// Freezes of all judged flows.
#[derive(Debug, Default)]
struct Freezes {
    count: u64,
    frozen: f64,
    seconds: f64,
}

impl Freezes {
    fn add(&mut self, own: &Watched, share: &FairShare, end: Timestamp) {
        let mut arrivals: Vec<Timestamp> = own.whole.iter().map(|&(_, arrived, _)| arrived).collect();
        arrivals.retain(|at| *at >= share.from);
        arrivals.push(end);
        arrivals.sort_unstable();
        let mut before = share.from;
        for arrived in arrivals {
            // A pause is no freeze.
            let paused: f64 = share.pauses.iter().map(|pause| overlap((before, arrived), *pause)).sum();
            let gap = arrived.saturating_since(before).as_seconds() - paused;
            if gap > FREEZE.as_seconds() {
                self.count += 1;
                self.frozen += gap;
            }
            before = arrived;
        }
        let paused: f64 = share.pauses.iter().map(|pause| overlap((share.from, end), *pause)).sum();
        self.seconds += end.saturating_since(share.from).as_seconds() - paused;
    }
}

/// The common part of two intervals in seconds.
fn overlap(a: (Timestamp, Timestamp), b: (Timestamp, Timestamp)) -> f64 {
    a.1.min(b.1).saturating_since(a.0.max(b.0)).as_seconds().max(0.0)
}

fn quotient(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The quantile of sorted values: the smallest value that at least this share of them does not exceed; 0 without values.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The utility of a run.
pub(super) fn utility(figures: &Figures, competes: bool) -> Utility {
    let uses = figures.flows.iter().map(|&used| utility_of_use(used, competes));
    let rate = quotient(uses.sum(), figures.flows.len() as f64);
    let delay = utility_of_delay(TimeDelta::from_seconds_f64(figures.frame_delay_p95_ms / 1e3));
    let lost = figures.skipped_ratio + figures.missing_ratio + figures.late_ratio;
    let frames = utility_of_missed(lost);
    let freezes =
        math::exp(-figures.freezes_per_minute / FREEZES_SCALE - figures.freeze_ratio / FREEZE_RATIO_SCALE);
    // Without a single frame there is no quality.
    let any = f64::from(u8::from(figures.frames > 0 && lost < 1.0));
    Utility { total: any * rate * delay * frames * freezes, rate, delay, frames, freezes }
}

/// [`Utility::rate`] of a flow that uses this share of what it could.
pub(crate) fn utility_of_use(used: f64, competes: bool) -> f64 {
    let used = if competes && used > 1.0 { 1.0 / used } else { used.min(1.0) };
    quotient(quality_of_coding(used * WHOLE_SHARE), quality_of_coding(WHOLE_SHARE))
}

/// The quality of coding at this rate in kbit/s (ITU-T G.1070 §11: `Icoding`), 0 to 3.459.
fn quality_of_coding(kbps: f64) -> f64 {
    let [v1, v2, v3, v4, v5, v6, v7] = G_1070;
    if kbps <= 0.0 {
        return 0.0;
    }
    let best_frame_rate = v1 + v2 * kbps;
    let at_best = v3 * (1.0 - 1.0 / (1.0 + math::exp(v5 * math::ln(kbps / v4))));
    let distance = (math::ln(FRAME_RATE) - math::ln(best_frame_rate)) / (v6 + v7 * kbps);
    at_best * math::exp(-distance * distance / 2.0)
}

/// [`Utility::delay`] of this frame delay.
pub(crate) fn utility_of_delay(frame_delay: TimeDelta) -> f64 {
    let rating = |absolute_delay| EModel { absolute_delay, ..EModel::default() }.rate().r_factor;
    quotient(rating(frame_delay), rating(TimeDelta::ZERO))
}

/// [`Utility::frames`] of this share of missed frames.
pub(crate) fn utility_of_missed(share: f64) -> f64 {
    math::exp(-share / MISSING_SCALE)
}

/// ITU-T P.1203.3 (10/2017) §8.4, equation 29: the number of stalling events, here in a minute, and their share of the time that
/// divide the quality by e each. Its third term, of the distance between stalling events, is left out.
const FREEZES_SCALE: f64 = 9.351_586_84;
const FREEZE_RATIO_SCALE: f64 = 0.918_908_15;

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
