//! What the agents of media told, over time: the target, the decisions behind it, and frames.

use std::collections::BTreeMap;

use giusto_congestion::Decision;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Decisions of a flow that are kept. Beyond it the smaller half of the changes is left out.
const MOST_DECISIONS: usize = 20_000;

/// What a media flow told within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MediaWindow {
    /// Frames that arrived whole.
    pub frames: u64,
    /// The longest that one of them took from its capture.
    pub frame_delay_max: Option<TimeDelta>,
    target_bps_seconds: f64,
    target_seconds: f64,
}

impl MediaWindow {
    /// The mean of the target over the time of the window in which there was one.
    pub fn target_mean_bps(&self) -> Option<f64> {
        (self.target_seconds > 0.0).then(|| self.target_bps_seconds / self.target_seconds)
    }
}

/// What a media flow told over a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MediaSeries {
    windows: Vec<MediaWindow>,
    /// Bytes of the frames that were whole in each window, of each stream by its source.
    streams: BTreeMap<u32, Vec<u64>>,
    decisions: Vec<Decision>,
    left_out: u64,
    target: Option<DataRate>,
    since: Timestamp,
    /// The window of `since`.
    current: usize,
}

impl MediaSeries {
    pub(super) fn new(windows: usize) -> Self {
        Self { windows: vec![MediaWindow::default(); windows], ..Self::default() }
    }

    /// Window by window.
    pub fn windows(&self) -> &[MediaWindow] {
        &self.windows
    }

    /// The streams of which a frame arrived whole, by their sources in order: the bytes of such frames, window by window.
    pub fn streams(&self) -> impl Iterator<Item = (u32, &[u64])> {
        self.streams.iter().map(|(&ssrc, bytes)| (ssrc, bytes.as_slice()))
    }

    /// The decisions in order: all, or of very many those with the larger changes.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// How many decisions were left out, the smallest changes among them.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// In window `place` a frame of a stream was whole, of this delay and size.
    pub(super) fn frame(&mut self, place: usize, ssrc: u32, (delay, size): (Option<TimeDelta>, DataSize)) {
        let len = self.windows.len();
        let bytes = self.streams.entry(ssrc).or_insert_with(|| vec![0; len]);
        if let Some(bytes) = bytes.get_mut(place) {
            *bytes += size.as_bytes();
        }
        if let Some(window) = self.windows.get_mut(place) {
            window.frames += 1;
            window.frame_delay_max = window.frame_delay_max.max(delay);
        }
    }

    /// At `now`, in window `place`, something was decided.
    pub(super) fn decide(&mut self, now: Timestamp, (place, width_ns): (usize, u64), decision: &Decision) {
        self.hold(now, (place, width_ns));
        self.target = Some(decision.to);
        self.decisions.push(*decision);
        if self.decisions.len() > MOST_DECISIONS {
            self.left_out += leave_out_smallest(&mut self.decisions, MOST_DECISIONS / 2);
        }
    }

    /// The target has held until `now`, in window `place`.
    pub(super) fn hold(&mut self, now: Timestamp, (place, width_ns): (usize, u64)) {
        while self.current < place {
            if self.target.is_none() {
                self.current = place;
                break;
            }
            self.add(Timestamp::from_nanos(width_ns.saturating_mul(self.current as u64 + 1)));
            self.current += 1;
        }
        self.add(now);
    }

    fn add(&mut self, until: Timestamp) {
        let seconds = until.saturating_since(self.since).as_seconds().max(0.0);
        if let (Some(target), Some(window)) = (self.target, self.windows.get_mut(self.current)) {
            window.target_bps_seconds += target.as_bps() as f64 * seconds;
            window.target_seconds += seconds;
        }
        self.since = self.since.max(until);
    }
}

/// Keeps the `keep` decisions with the largest changes, in order; of changes that are alike the earlier ones. Returns how many
/// it left out.
pub fn leave_out_smallest(decisions: &mut Vec<Decision>, keep: usize) -> u64 {
    let before = decisions.len();
    if before <= keep {
        return 0;
    }
    let change = |decision: &Decision| decision.from.as_bps().abs_diff(decision.to.as_bps());
    let mut changes: Vec<u64> = decisions.iter().map(change).collect();
    changes.sort_unstable_by(|a, b| b.cmp(a));
    let least = keep.checked_sub(1).and_then(|last| changes.get(last)).copied().unwrap_or(u64::MAX);
    let mut alike = keep - changes.iter().take_while(|&&change| change > least).count().min(keep);
    decisions.retain(|decision| match change(decision) {
        size if size > least => keep > 0,
        size if size == least && alike > 0 => {
            alike -= 1;
            true
        }
        _ => false,
    });
    (before - decisions.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(at_ms: u64, from: u64, to: u64) -> Decision {
        let [from, to] = [from, to].map(DataRate::from_bps);
        Decision { at: Timestamp::from_nanos(at_ms * 1_000_000), from, to, ..Decision::default() }
    }

    #[test]
    fn the_smallest_changes_are_left_out_and_the_order_stays() {
        let mut decisions = vec![
            decision(1, 10, 20),
            decision(2, 20, 10),
            decision(3, 10, 10),
            decision(4, 10, 50),
            decision(5, 50, 40),
        ];
        let all = decisions.clone();
        assert_eq!((leave_out_smallest(&mut decisions, 5), &decisions), (0, &all));
        assert_eq!(leave_out_smallest(&mut decisions, 3), 2);
        assert_eq!(decisions, [all[0], all[1], all[3]]);
        assert_eq!(leave_out_smallest(&mut decisions, 1), 2);
        assert_eq!(decisions, [all[3]]);
        assert_eq!((leave_out_smallest(&mut decisions, 0), decisions.len()), (1, 0));
    }

    #[test]
    fn a_flow_that_decides_without_end_takes_bounded_room_and_keeps_its_cuts() {
        let mut series = MediaSeries::new(1);
        for at in 0..100_000 {
            let to = if at % 1000 == 0 { 500_000 } else { 1_000_001 };
            series.decide(Timestamp::from_nanos(at), (0, 1_000_000), &decision(at, 1_000_000, to));
        }
        assert!((10_000..=MOST_DECISIONS).contains(&series.decisions().len()));
        assert_eq!(series.decisions().len() as u64 + series.left_out(), 100_000);
        let cuts = series.decisions().iter().filter(|decision| decision.to.as_bps() == 500_000);
        assert_eq!(cuts.count(), 100);
    }
}
