//! Estimator: losses that follow each other, and what arrives between them.
//!
//! A policer passes its rate between two losses, however large its bucket is, and drops packets that have not waited. A short queue drops
//! those that meet a full one: the packet before has waited.

use giusto_units::{TimeDelta, Timestamp};

use super::path::Path;

/// So many feedbacks with losses, over more than these seconds (three frames), show what passes between them; with fewer a frame decides.
const SEVERAL: u32 = 3;
const LEAST: f64 = 0.1;
/// Losses further apart are of different causes: it is the window of the loss ratio.
const GAP: TimeDelta = TimeDelta::from_seconds(1);

/// Losses each soon after the one before.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin: Timestamp,
    latest: Timestamp,
    /// Feedbacks with losses, and those of them in which the packet before a loss had waited.
    losses: u32,
    waited: u32,
    /// Bits that arrived since the first loss, and until the latest.
    arrived: f64,
    until: f64,
}

/// The latest run of losses without a standing queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRun(Option<Run>);

impl LossRun {
    /// Handles a feedback. `grows`: no queue is being drained; else its losses are of that queue.
    pub(super) fn on_feedback(&mut self, path: &Path, grows: bool) {
        self.0 = self.0.filter(|run| grows && path.now.saturating_since(run.latest) < GAP);
        if let Some(run) = &mut self.0 {
            run.arrived += path.arrived;
        }
        if path.is_lost_now && grows {
            let new =
                Run { begin: path.now, latest: path.now, losses: 0, waited: 0, arrived: 0.0, until: 0.0 };
            let run = self.0.get_or_insert(new);
            (run.latest, run.until) = (path.now, run.arrived);
            run.losses += 1;
            run.waited += u32::from(path.has_waited);
        }
    }

    /// What arrived between the losses, in bit/s; `None` if there are too few.
    pub(super) fn passed(self) -> Option<f64> {
        let run = self.0.filter(|run| run.losses >= SEVERAL)?;
        let time = (run.latest - run.begin).as_seconds();
        (time > LEAST).then(|| run.until / time)
    }

    /// Whether most of the losses followed packets that had waited: a queue overflowed.
    pub(super) fn is_of_a_queue(self) -> bool {
        self.0.is_some_and(|run| run.waited * 2 > run.losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After `feedbacks` of 50 ms in each of which 40 000 bits arrive. Each of `every` has a loss, the first `waited` of them after a delay.
    fn run(feedbacks: u32, grows: bool, every: u32, waited: u32) -> LossRun {
        let mut run = LossRun::default();
        for step in 0..feedbacks {
            let now = Timestamp::ZERO + TimeDelta::from_millis(i64::from(step) * 50);
            let (is_lost_now, has_waited) = (step % every == 0, step / every < waited);
            run.on_feedback(&Path { now, arrived: 4e4, is_lost_now, has_waited, ..Path::example() }, grows);
        }
        run
    }

    #[test]
    fn what_passes_is_what_arrived_between_losses() {
        let passed = run(40, true, 4, 0).passed();
        assert!(passed.is_some_and(|rate| (rate - 0.8e6).abs() < 1.0), "{passed:?}");
        // Two losses may be chance, losses with a queue are the queue's, and those 1.5 s apart have nothing in common.
        assert!(run(8, true, 4, 0).passed().is_none() && run(9, true, 4, 0).passed().is_some());
        assert!(run(40, false, 4, 0).passed().is_none());
        assert!(run(200, true, 30, 0).passed().is_none() && run(200, true, 15, 0).passed().is_some());
    }

    #[test]
    fn losses_after_delays_are_of_a_queue() {
        assert!(run(40, true, 4, 6).is_of_a_queue());
        assert!(!run(40, true, 4, 5).is_of_a_queue() && !run(40, true, 4, 0).is_of_a_queue());
        assert!(!LossRun::default().is_of_a_queue());
    }
}
