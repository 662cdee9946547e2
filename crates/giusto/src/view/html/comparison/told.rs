//! What the cursor tells of each controller: figures, the decision in force, and the last cut.

use std::collections::BTreeMap;

use giusto_congestion::Decision;
use giusto_sim::observe::MediaSeries;
use giusto_units::Timestamp;

use super::{
    ComparedRun, ComparisonPage,
    drawn::{Drawn, DrawnRun},
    middle,
};
use crate::view::{
    decision::{cause_in_words, change_in_words},
    html::linked::{LineValues, rounded},
};

impl Drawn {
    /// What each controller tells of this flow; rates in `unit` bit/s.
    pub(super) fn told(&self, page: &ComparisonPage<'_>, unit: f64) -> Vec<LineValues> {
        page.runs.iter().zip(&self.runs).map(|(run, drawn)| self.told_by(run, drawn, unit)).collect()
    }

    fn told_by(&self, run: &ComparedRun<'_>, drawn: &DrawnRun, unit: f64) -> LineValues {
        let timeline = run.page.timeline;
        let decisions = timeline.media(self.flow.id).map(MediaSeries::decisions).unwrap_or_default();
        let mut told = LineValues::default();
        let mut targets = Vec::with_capacity(timeline.len());
        // What the script is told of each decision, once it is needed.
        let mut known: BTreeMap<usize, usize> = BTreeMap::new();
        let mut said = Vec::new();
        let mut tell = |number: usize| {
            let decision = decisions.get(number)?;
            Some(*known.entry(number).or_insert_with(|| {
                said.push((rounded(decision.at.as_seconds(), 4), in_words(decision)));
                said.len() - 1
            }))
        };
        for place in 0..timeline.len() {
            let at = middle(timeline, place);
            let is_over = at > run.page.result.duration_s;
            let number = in_force(decisions, at).filter(|_| !is_over);
            let cut = number.and_then(|number| last_cut(decisions, number));
            targets.push(number.and_then(|number| Some(decisions.get(number)?.to.as_bps() as f64 / unit)));
            told.last_decrease.push(cut.filter(|&cut| Some(cut) != number).and_then(&mut tell));
            told.current.push(number.and_then(&mut tell));
        }
        told.texts = said;
        let joined = |points: &[(f64, f64)]| -> Vec<f64> {
            points.iter().flat_map(|&(_, value)| std::iter::repeat_n(value, self.together)).collect()
        };
        let received: Vec<f64> = joined(&drawn.received_bps).into_iter().map(|bps| bps / unit).collect();
        let figures = |values: Vec<f64>, decimals| -> Vec<Option<f64>> {
            let mut values: Vec<Option<f64>> =
                values.into_iter().map(|value| value.is_finite().then(|| rounded(value, decimals))).collect();
            values.resize(timeline.len(), None);
            values
        };
        told.values = vec![
            targets.into_iter().map(|target| target.map(|target: f64| rounded(target, 3))).collect(),
            figures(received, 3),
            figures(drawn.queue_ms.clone(), 1),
            figures(joined(&drawn.loss_percent), 1),
            figures(drawn.frame_ms.clone(), 0),
        ];
        told
    }
}

/// The last of `decisions` until `at`, in seconds.
fn in_force(decisions: &[Decision], at: f64) -> Option<usize> {
    let at = Timestamp::from_nanos((at * 1e9) as u64);
    decisions.partition_point(|decision| decision.at <= at).checked_sub(1)
}

/// The last of `decisions` up to `number` that lowered the target.
fn last_cut(decisions: &[Decision], number: usize) -> Option<usize> {
    decisions.get(..=number)?.iter().rposition(|decision| decision.to < decision.from)
}

/// From what to what, and why.
fn in_words(decision: &Decision) -> String {
    format!("{}, {}", change_in_words(decision), cause_in_words(&decision.cause))
}
