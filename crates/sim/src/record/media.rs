//! A media flow over time: target rate, decisions and frames.

use std::collections::BTreeMap;

use giusto_congestion::Decision;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::types::{DecisionRecord, MediaTimeline, StreamTimeline};

/// One window of a media flow.
#[derive(Debug, Clone, Copy, Default)]
struct MediaWindow {
    frames: u64,
    frame_delay_max: Option<TimeDelta>,
    target_bps_seconds: f64,
    target_seconds: f64,
}

/// The windows of a media flow.
#[derive(Debug, Clone, Default)]
pub(super) struct MediaSeries {
    windows: Vec<MediaWindow>,
    /// Bytes of the frames that became complete in each window, per stream by SSRC.
    streams: BTreeMap<u32, Vec<u64>>,
    decisions: Vec<DecisionRecord>,
    max_decisions: usize,
    omitted: u64,
    target: Option<DataRate>,
    since: Timestamp,
    /// When the flow stops: from then on it has no target.
    stop: Timestamp,
    /// The window that contains `since`.
    current: usize,
}

impl MediaSeries {
    pub(super) fn new(windows: usize, max_decisions: usize, stop: Timestamp) -> Self {
        Self { windows: vec![MediaWindow::default(); windows], max_decisions, stop, ..Self::default() }
    }

    /// Adds a complete frame of this delay and size in window `place`.
    pub(super) fn frame(&mut self, place: usize, ssrc: u32, delay: Option<TimeDelta>, size: DataSize) {
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

    /// Adds a decision of the controller at `now`, in window `place`.
    pub(super) fn decide(&mut self, now: Timestamp, place: usize, width_ns: u64, decision: &Decision) {
        self.hold(now, place, width_ns);
        self.target = Some(decision.to);
        self.decisions.push(DecisionRecord::from(decision));
        if self.decisions.len() > self.max_decisions {
            self.omitted += keep_largest_changes(&mut self.decisions, self.max_decisions / 2);
        }
    }

    /// Accounts for the target up to `now`, in window `place`.
    pub(super) fn hold(&mut self, now: Timestamp, place: usize, width_ns: u64) {
        while self.current < place {
            if self.target.is_none() {
                self.current = place;
                break;
            }
            let end = Timestamp::from_nanos(width_ns.saturating_mul(self.current as u64 + 1));
            self.add(end.min(now));
            self.current += 1;
        }
        self.add(now);
    }

    fn add(&mut self, until: Timestamp) {
        let seconds = until.min(self.stop).saturating_since(self.since).as_seconds().max(0.0);
        if let (Some(target), Some(window)) = (self.target, self.windows.get_mut(self.current)) {
            window.target_bps_seconds += target.as_bps() as f64 * seconds;
            window.target_seconds += seconds;
        }
        self.since = self.since.max(until);
    }

    /// The first `windows` windows as columns.
    pub(super) fn columns(self, windows: usize) -> MediaTimeline {
        let shown = || self.windows.iter().take(windows);
        let target = |window: &MediaWindow| {
            (window.target_seconds > 0.0).then(|| window.target_bps_seconds / window.target_seconds)
        };
        MediaTimeline {
            target_rate_bps: shown().map(target).collect(),
            frames: shown().map(|window| window.frames).collect(),
            frame_delay_max_ms: shown()
                .map(|window| window.frame_delay_max.map(TimeDelta::as_millis))
                .collect(),
            streams: self
                .streams
                .into_iter()
                .map(|(ssrc, mut frame_bytes)| {
                    frame_bytes.truncate(windows);
                    StreamTimeline { ssrc, frame_bytes, goodput_bps: Vec::new() }
                })
                .collect(),
            decisions: self.decisions,
            omitted_decisions: self.omitted,
        }
    }
}

impl From<&Decision> for DecisionRecord {
    fn from(decision: &Decision) -> Self {
        Self {
            at_s: decision.at.as_seconds(),
            from_bps: decision.from.as_bps(),
            to_bps: decision.to.as_bps(),
            cause: decision.cause,
        }
    }
}

/// Keeps the `keep` decisions with the largest changes, in order; of equal changes the earlier ones. Returns
/// the number of omitted decisions.
pub fn keep_largest_changes(decisions: &mut Vec<DecisionRecord>, keep: usize) -> u64 {
    let before = decisions.len();
    if before <= keep {
        return 0;
    }
    let change = |decision: &DecisionRecord| decision.from_bps.abs_diff(decision.to_bps);
    let mut changes: Vec<u64> = decisions.iter().map(change).collect();
    changes.sort_unstable_by(|a, b| b.cmp(a));
    let smallest = keep.checked_sub(1).and_then(|last| changes.get(last)).copied().unwrap_or(u64::MAX);
    let mut equal = keep - changes.iter().take_while(|&&change| change > smallest).count().min(keep);
    decisions.retain(|decision| match change(decision) {
        size if size > smallest => keep > 0,
        size if size == smallest && equal > 0 => {
            equal -= 1;
            true
        }
        _ => false,
    });
    (before - decisions.len()) as u64
}

#[cfg(test)]
mod tests {
    use giusto_congestion::Cause;

    use super::*;

    fn decision(at_ms: u64, from: u64, to: u64) -> Decision {
        let [from, to] = [from, to].map(DataRate::from_bps);
        Decision::new(Timestamp::from_nanos(at_ms * 1_000_000), to, Cause::Start).with_from(from)
    }

    fn record(at_ms: u64, from: u64, to: u64) -> DecisionRecord {
        DecisionRecord::from(&decision(at_ms, from, to))
    }

    #[test]
    fn the_smallest_changes_are_omitted_in_order() {
        let changes = [(10, 20), (20, 10), (10, 10), (10, 50), (50, 40)];
        let mut decisions: Vec<_> =
            changes.iter().zip(1..).map(|(&(from, to), at)| record(at, from, to)).collect();
        let all = decisions.clone();
        assert_eq!((keep_largest_changes(&mut decisions, 5), &decisions), (0, &all));
        assert_eq!(keep_largest_changes(&mut decisions, 3), 2);
        assert_eq!(decisions, [all[0], all[1], all[3]]);
        assert_eq!(keep_largest_changes(&mut decisions, 1), 2);
        assert_eq!(decisions, [all[3]]);
        assert_eq!((keep_largest_changes(&mut decisions, 0), decisions.len()), (1, 0));
    }

    #[test]
    fn many_decisions_take_bounded_memory() {
        let mut series = MediaSeries::new(1, 20_000, Timestamp::MAX);
        for at in 0..100_000 {
            let to = if at % 1000 == 0 { 500_000 } else { 1_000_001 };
            series.decide(Timestamp::from_nanos(at), 0, 1_000_000, &decision(at, 1_000_000, to));
        }
        let media = series.columns(1);
        assert!((10_000..=20_000).contains(&media.decisions.len()));
        assert_eq!(media.decisions.len() as u64 + media.omitted_decisions, 100_000);
        let cuts = media.decisions.iter().filter(|decision| decision.to_bps == 500_000);
        assert_eq!(cuts.count(), 100);
    }
}
