//! The same runs, judged by the frames that arrive.

use giusto::{
    record::{FlowRecord, StreamKind, StreamRecord},
    view::format::{or_unknown, percent, short},
};
use serde::Serialize;

use super::Scoreboard;

/// One-way delay above which ITU-T G.114 (05/2003, §4) calls a conversation unacceptable for planning, in ms.
const MAX_FRAME_DELAY_MS: f64 = 400.0;

/// The video frames of all media flows of a controller, in all cases, with all seeds and variants.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Frames {
    /// The controller.
    pub controller: &'static str,
    /// Its streams of video.
    pub videos: usize,
    /// Median over the videos of the 95th percentile of the frame delay, from capture to complete arrival.
    pub frame_delay_p95_ms: Option<f64>,
    /// The 90th percentile over the videos of the same.
    pub frame_delay_p95_of_worst_tenth_ms: Option<f64>,
    /// Share of the videos in which 95 % of the frames that arrived took at most 400 ms.
    pub in_time_ratio: Option<f64>,
    /// Skipped frames, of those and the frames that arrived complete. Lost frames are in neither.
    pub skipped_ratio: Option<f64>,
}

impl Frames {
    fn of<'a>(controller: &'static str, flows: impl Iterator<Item = &'a FlowRecord>) -> Self {
        let (mut delays, mut skipped, mut arrived) = (Vec::new(), 0, 0);
        let is_video = |stream: &&StreamRecord| stream.kind == StreamKind::Video;
        for video in flows.flat_map(|flow| flow.streams.iter().filter(is_video)) {
            // Without any frame it is the worst of all.
            delays.push(video.frame_delay_ms.map_or(f64::INFINITY, |delay| delay.p95));
            arrived += video.frames;
            skipped += video.skipped_frames.unwrap_or(0);
        }
        delays.sort_unstable_by(f64::total_cmp);
        let quantile = |share: f64| {
            let place = (delays.len() as f64 * share).ceil() as usize;
            delays.get(place.saturating_sub(1)).copied().filter(|delay| delay.is_finite())
        };
        let ratio = |part: usize, all: usize| (all > 0).then(|| part as f64 / all as f64);
        let in_time = delays.iter().filter(|&&delay| delay <= MAX_FRAME_DELAY_MS).count();
        Self {
            controller,
            videos: delays.len(),
            frame_delay_p95_ms: quantile(0.5),
            frame_delay_p95_of_worst_tenth_ms: quantile(0.9),
            in_time_ratio: ratio(in_time, delays.len()),
            skipped_ratio: ratio(skipped as usize, (skipped + arrived) as usize),
        }
    }
}

impl Scoreboard {
    /// The frames of each controller.
    pub fn frames(&self) -> Vec<Frames> {
        let of = |name: &'static str| {
            let runs = self.runs.iter().filter(move |run| run.controller == name);
            let own = |flow: &&FlowRecord| flow.controller.as_deref() == Some(name);
            Frames::of(name, runs.flat_map(|run| &run.result.flows).filter(own))
        };
        self.plan.controllers.iter().map(|controller| of(controller.name())).collect()
    }

    /// The header and the rows of the table of [`Self::frames`].
    pub(super) fn frames_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let header = [
            "controller",
            "videos",
            "frame delay p95 (ms)",
            "worst tenth (ms)",
            "in 400 ms",
            "skipped frames",
        ];
        let row = |it: Frames| {
            vec![
                it.controller.to_owned(),
                it.videos.to_string(),
                or_unknown(it.frame_delay_p95_ms, short),
                or_unknown(it.frame_delay_p95_of_worst_tenth_ms, short),
                or_unknown(it.in_time_ratio, percent),
                or_unknown(it.skipped_ratio, percent),
            ]
        };
        (header.map(str::to_owned).to_vec(), self.frames().into_iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use giusto::record::Distribution;

    use super::*;

    fn stream(kind: StreamKind, p95: Option<f64>) -> StreamRecord {
        StreamRecord {
            frame_delay_ms: p95.map(|p95| Distribution { p95, ..Distribution::default() }),
            frames: if p95.is_some() { 100 } else { 0 },
            skipped_frames: Some(25),
            ..StreamRecord::new("any", 1, kind)
        }
    }

    #[test]
    fn videos_count_and_one_without_frames_is_the_worst() {
        let videos = [Some(100.0), Some(200.0), Some(400.0), Some(401.0), None];
        let call = |p95| FlowRecord {
            // Audio does not count, whatever its delay.
            streams: vec![stream(StreamKind::Video, p95), stream(StreamKind::Audio, Some(1.0))],
            ..FlowRecord::default()
        };
        let mut flows: Vec<FlowRecord> = videos.map(call).into();
        flows.push(FlowRecord::default());
        let frames = Frames::of("any", flows.iter());
        assert_eq!((frames.videos, frames.in_time_ratio), (5, Some(0.6)));
        let delays = (frames.frame_delay_p95_ms, frames.frame_delay_p95_of_worst_tenth_ms);
        assert_eq!(delays, (Some(400.0), None));
        // 125 of 525.
        assert!((frames.skipped_ratio.unwrap() - 125.0 / 525.0).abs() < 1e-12);
        assert_eq!(Frames::of("none", [].iter()).in_time_ratio, None);
    }
}
