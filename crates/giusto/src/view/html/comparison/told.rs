//! What the cursor tells of each controller: figures, the decision in force, and the last cut.

use std::collections::BTreeMap;

use super::{
    drawn::{Drawn, DrawnRun},
    over_time,
};
use crate::record::DecisionRecord;
use crate::run::comparison::{Comparison, Run};
use crate::view::{
    decision::{cause_in_words, change_in_words},
    html::linked::{LineValues, rounded},
};

impl Drawn {
    /// What each controller tells of this flow; rates in `unit` bit/s.
    pub(super) fn told(&self, comparison: &Comparison, places: &[f64], unit: f64) -> Vec<LineValues> {
        let runs = comparison.runs.iter().zip(&self.runs);
        runs.map(|(run, drawn)| self.told_by(run, drawn, places, unit)).collect()
    }

    fn told_by(&self, run: &Run, drawn: &DrawnRun, places: &[f64], unit: f64) -> LineValues {
        let (_, own) = over_time(run, &self.flow);
        let media = own.and_then(|own| own.media.as_ref());
        let decisions = media.map(|media| media.decisions.as_slice()).unwrap_or_default();
        let mut told = LineValues::default();
        let mut targets = Vec::with_capacity(places.len());
        // What the script is told of each decision, once it is needed.
        let mut known: BTreeMap<usize, usize> = BTreeMap::new();
        let mut said = Vec::new();
        let mut tell = |number: usize| {
            let decision = decisions.get(number)?;
            Some(*known.entry(number).or_insert_with(|| {
                said.push((rounded(decision.at_s, 4), in_words(decision)));
                said.len() - 1
            }))
        };
        for &at in places {
            let is_over = at > run.result.duration_s;
            let number = in_force(decisions, at).filter(|_| !is_over);
            let cut = number.and_then(|number| last_cut(decisions, number));
            targets.push(number.and_then(|number| Some(decisions.get(number)?.to_bps as f64 / unit)));
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
            values.resize(places.len(), None);
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

/// The last of `decisions` until `at_s`.
fn in_force(decisions: &[DecisionRecord], at_s: f64) -> Option<usize> {
    decisions.partition_point(|decision| decision.at_s <= at_s).checked_sub(1)
}

/// The last of `decisions` up to `number` that lowered the target.
fn last_cut(decisions: &[DecisionRecord], number: usize) -> Option<usize> {
    decisions.get(..=number)?.iter().rposition(|decision| decision.to_bps < decision.from_bps)
}

/// From what to what, and why.
fn in_words(decision: &DecisionRecord) -> String {
    format!("{}, {}", change_in_words(decision), cause_in_words(&decision.cause))
}
