//! Estimator: how much of the bottleneck is ours.
//!
//! Where packets leave in the order of their arrival, a train that is sent at *S* beside others that send *X* arrives at *A* = *C* *S* /
//! (*S* + *X*), if *S* + *X* is more than the capacity *C* (Melander, Björkman and Gunningberg, "A New End-to-End Probing and Analysis Method
//! for Estimating Bandwidth Bottlenecks", GLOBECOM 2000). So beside others a train is faster than our share. When a queue begins to
//! stand, our share *D* arrives. *D* / *A* is 1 alone, and less beside others.

use giusto_units::{DataRate, TimeDelta, Timestamp, math};

use super::{
    bps,
    frames::{Passage, TrainRate},
    loss::PACING,
    path::Path,
};

/// Weight of a time of congestion in the ratio.
const WEIGHT: f64 = 0.5;
/// A train that leaves at less than this times the rate says nothing: it is no faster than the media.
const TRAIN: f64 = 1.3;
/// With a lower ratio others are there: the timestamps of trains are good for 4 %, the delivery rate for some more.
const ALONE: f64 = 0.93;
/// A larger share by frames, or ratio, counts as all.
const ALL: f64 = 0.9;
const ALL_RATIO: f64 = 0.97;
/// Growth of a flow that has half of the capacity, per second: over a cycle of a second it is near the 3 % that draining takes.
const CATCH_UP: f64 = 0.05;
/// Smaller shares count as this one: there the ratio differs by no more than its error.
const LEAST_SHARE: f64 = 0.25;

/// Shorter congestion says nothing: jitter and short fades look like it.
const LASTING: TimeDelta = TimeDelta::from_millis(200);

/// Time constant of the share, in seconds in which frames let others pass, and for how many of them it was 1 at first.
const FORGOTTEN: f64 = 1.0;
const FIRST: f64 = 0.05;

/// Our share of a busy bottleneck by how long frames take. A frame of *Z* bits leaves in *s* = *Z* / *S*, arrives in *a* = *Z* / *A*, and the
/// next one arrives *p* = *Z* / *D* after it. With *X* = *C* - *D*, *a* - *s* = *Z* (*S* - *D*) / (*C* *S*) and *p* - *s* = *Z* (*S* - *D*) /
/// (*D* *S*): the first over the second is *D* / *C*. What others send in one frame's time varies, so sums are taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    /// Sums of *a* - *s* and of *p* - *s*, in seconds, and of *D* (*p* - *s*), in bits.
    longer: f64,
    left: f64,
    passed: f64,
}

impl Share {
    /// Handles a frame that passed a busy bottleneck. `forgotten`: time constant of the sums, in seconds of *p* - *s*.
    pub(super) fn on_frame(&mut self, frame: &Passage, forgotten: f64) {
        let left = frame.period - frame.sent;
        let kept = math::exp(-left.max(0.0) / forgotten);
        self.longer = kept * self.longer + frame.arrived - frame.sent;
        self.left = kept * self.left + left;
        self.passed = kept * self.passed + frame.size / frame.period.max(1e-3) * left;
    }

    /// *D* / *C*, if it was 1 for the time `first` before, in seconds.
    fn get(self, first: f64) -> f64 {
        (self.longer + first) / (self.left + first).max(first)
    }

    /// *C*, in bit/s; `None` as long as frames left no more than the time `enough`, in seconds.
    pub(super) fn capacity(self, enough: f64) -> Option<f64> {
        (self.left > enough).then(|| self.passed / self.longer.max(1e-3 * self.left))
    }
}

/// What trains say about our share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sharing {
    /// Smoothed *D* / *A*.
    ratio: f64,
    /// Begin of congestion, and *D* / *A* then, until it counts.
    begun: Option<(Timestamp, f64)>,
    share: Share,
}

impl Default for Sharing {
    fn default() -> Self {
        Self { ratio: 1.0, begun: None, share: Share::default() }
    }
}

impl Sharing {
    /// Handles a frame that passed a busy bottleneck before we yielded.
    pub(super) fn on_frame(&mut self, frame: &Passage) {
        self.share.on_frame(frame, FORGOTTEN);
    }

    /// Our share of the bottleneck, by frames.
    fn share(self) -> f64 {
        self.share.get(FIRST)
    }

    /// Whether nearly all of the bottleneck is ours. Jitter that lasts over a frame looks like others to [`Share`], a capacity that falls
    /// does to the ratio: others are there if both say so.
    pub(super) fn has_all(self) -> bool {
        self.share() > ALL || self.ratio > ALL_RATIO
    }

    /// Handles the begin of congestion at `rate`, in bit/s.
    pub(super) fn on_congestion(&mut self, path: &Path, rate: f64) {
        let train = path.train.filter(|train| bps(train.sent) > TRAIN * rate);
        self.begun = train.map(|train| (path.now, (path.delivered / bps(train.arrived).max(1.0)).min(1.0)));
    }

    /// Handles congestion that goes on.
    pub(super) fn on_queue(&mut self, path: &Path) {
        if let Some((_, ratio)) =
            self.begun.take_if(|(begin, _)| path.now.saturating_since(*begin) >= LASTING)
        {
            self.ratio += WEIGHT * (ratio - self.ratio);
        }
    }

    /// Whether nobody else seems to use the bottleneck, so that what a train finds is ours.
    pub(super) fn is_alone(self) -> bool {
        self.ratio > ALONE && self.has_all()
    }

    /// Whether a train of a media `rate`, in bit/s, arrives as fast as it left although a queue begins to stand. With *S* = 2.5 *D*, *A* is
    /// 0.96 *S* where we have 3 % of the capacity: our yielding would not empty that queue. A queue far above the limit may be ours, since
    /// older trains count as well.
    pub(super) fn has_little(path: &Path, rate: f64) -> bool {
        let is_open = |train: TrainRate| train.is_open() && bps(train.sent) > TRAIN * rate;
        path.queue() < path.high + path.high / 2 && path.train.is_some_and(is_open)
    }

    /// The path with trains that show what is ours. A train that the path carried as fast as it was sent shows room, even beside others.
    pub(super) fn ours(self, path: &Path) -> Path {
        let ours = |train: TrainRate| {
            let share = if train.is_open() { 1.0 } else { self.ratio };
            TrainRate { arrived: DataRate::from_bps((share * bps(train.arrived)) as u64), ..train }
        };
        Path { train: path.train.map(ours), ..*path }
    }

    /// Additional growth, per second: slower flows grow faster, so that shares become equal.
    ///
    /// With *S* = 2.5 *D* and *X* = *C* - *D*, *D* / *A* is 0.4 + 0.6 *D* / *C*. Growth in inverse proportion to *D* / *C* adds the same to all.
    pub(super) fn growth(self) -> f64 {
        let share = (self.ratio - 1.0 / PACING) / (1.0 - 1.0 / PACING);
        CATCH_UP * (1.0 / share.min(self.share()).clamp(LEAST_SHARE, 1.0) - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::near;

    fn train(sent: f64, arrived: f64) -> TrainRate {
        let [sent, arrived] = [sent, arrived].map(|bps| DataRate::from_bps(bps as u64));
        TrainRate { sent, arrived }
    }

    /// After congestion at 1 Mbit/s beside others that send `others` on a link that is full.
    fn beside(others: f64) -> Sharing {
        let (own, sent) = (1e6, 2.5e6);
        let train = Some(train(sent, (own + others) * sent / (sent + others)));
        let mut sharing = Sharing::default();
        let mut path = Path { train, delivered: own, ..Path::example() };
        for _ in 0..20 {
            sharing.on_congestion(&path, own);
            path.now += LASTING;
            sharing.on_queue(&path);
        }
        sharing
    }

    #[test]
    fn who_has_little_does_not_empty_a_queue_of_others() {
        let has_little = |share: f64, sent: f64| {
            let others = 1e6 / share - 1e6;
            let train = Some(train(sent, (1e6 + others) * sent / (sent + others)));
            Sharing::has_little(&Path { train, ..Path::example() }, 1e6)
        };
        assert!(has_little(0.02, 2.5e6) && !has_little(0.04, 2.5e6));
        // A train that is no faster than the media shows nothing, nor does none.
        assert!(!has_little(0.02, 1.2e6) && !Sharing::has_little(&Path::example(), 1e6));
        let train = Some(train(2.5e6, 2.5e6));
        let queue = |ms| Path { train, queue: Some(TimeDelta::from_millis(ms)), ..Path::example() };
        assert!(Sharing::has_little(&queue(14), 1e6) && !Sharing::has_little(&queue(15), 1e6));
    }

    #[test]
    fn who_has_little_grows_faster_and_who_is_alone_does_not() {
        let alone = beside(0.0);
        assert!(alone.is_alone() && alone.growth() < 1e-6, "{alone:?}");
        // Half of the capacity, a third, and a tenth, which counts as a quarter.
        for (others, growth) in [(1e6, 0.05), (2e6, 0.1), (9e6, 0.15)] {
            let sharing = beside(others);
            assert!(!sharing.is_alone(), "{others}");
            assert!((sharing.growth() - growth).abs() < 1e-3, "{others}: {}", sharing.growth());
        }
    }

    #[test]
    fn a_train_shows_our_share_unless_it_shows_room() {
        let sharing = beside(1e6);
        let shown = |arrived| {
            let path = Path { train: Some(train(2.5e6, arrived)), ..Path::example() };
            bps(sharing.ours(&path).train.unwrap().arrived)
        };
        // The ratio beside one equal flow is 0.7.
        near(shown(1_428_571.0), 1e6, 1e3);
        near(shown(2.45e6), 2.45e6, 1.0);
        // Packets that are paced as the media say nothing.
        let mut steady = Sharing::default();
        let mut path = Path { train: Some(train(1.2e6, 0.6e6)), delivered: 3e5, ..Path::example() };
        steady.on_congestion(&path, 1e6);
        path.now += LASTING;
        steady.on_queue(&path);
        assert!(steady.is_alone() && steady.growth() < 1e-6);
    }

    #[test]
    fn frames_on_a_busy_bottleneck_show_our_share_and_the_capacity() {
        // 10 Mbit/s, of which we have 2, 5 or 9, in frames that leave at twice that and are large and small in turn.
        for own in [2e6, 5e6, 9e6] {
            let mut sharing = Sharing::default();
            for number in 0..300 {
                let size = if number % 2 == 0 { 1e4 } else { 7e4 };
                let (sent, own) = (size / (2.0 * own), own);
                let arrived = sent * (2.0 * own + 1e7 - own) / 1e7;
                sharing.on_frame(&Passage { period: size / own, ..Passage::example(sent, arrived, size) });
            }
            let share = sharing.share();
            near(share, (own / 1e7 * sharing.share.left + FIRST) / (sharing.share.left + FIRST), 1e-6);
            near(sharing.share.capacity(0.1).unwrap() / 1e7, 1.0, 1e-6);
            assert!(sharing.has_all(), "the ratio says so");
            sharing.ratio = 0.95;
            assert_eq!(sharing.has_all(), own > 8e6);
            assert_eq!(sharing.share.capacity(1.1), None);
        }
    }

    #[test]
    fn one_frame_shows_no_other() {
        // 30 ms in which nobody else sent: jitter, perhaps. Before any frame, all is ours.
        let mut sharing = Sharing::default();
        assert!(sharing.has_all());
        sharing.on_frame(&Passage { period: 0.04, ..Passage::example(0.01, 0.01, 1e4) });
        near(sharing.share(), 0.625, 1e-9);
        assert!(sharing.has_all());
        sharing.ratio = 0.5;
        assert!(!sharing.has_all());
        // Alone, a frame arrives until the next one does.
        for _ in 0..30 {
            sharing.on_frame(&Passage { period: 0.04, ..Passage::example(0.01, 0.04, 1e4) });
        }
        assert!(sharing.has_all());
    }

    #[test]
    fn short_congestion_says_nothing() {
        let begin = Path { train: Some(train(2.5e6, 1_428_571.0)), delivered: 1e6, ..Path::example() };
        let after = |time: i64| Path { now: begin.now + TimeDelta::from_millis(time), ..begin };
        let mut sharing = Sharing::default();
        for (times, time, is_alone) in [(20, 199, true), (5, 200, false)] {
            for _ in 0..times {
                sharing.on_congestion(&begin, 1e6);
                sharing.on_queue(&after(time));
            }
            assert_eq!(sharing.is_alone(), is_alone, "{time} ms");
        }
    }
}
