//! What a sweep says of each combination of values: means over its seeds.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Finished;
use crate::record::FlowResult;

/// The share of such intervals that hold the true mean.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds, and between which limits the true one lies with 95 % confidence, by Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower limit; none of a single value.
    pub low: Option<f64>,
    /// The upper limit; none of a single value.
    pub high: Option<f64>,
}

impl Interval {
    /// The interval of some values; none of no value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let half = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let t = StudentsT::new(0.0, 1.0, count - 1.0)
                .map_or(f64::NAN, |t| t.inverse_cdf(0.5 + CONFIDENCE / 2.0));
            t * (variance / count).sqrt()
        });
        Some(Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) })
    }

    /// Half of its width.
    pub fn half(&self) -> Option<f64> {
        self.high.map(|high| high - self.mean)
    }
}

/// One flow with one combination of values, over all seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// What was set, by its path.
    pub parameters: BTreeMap<String, String>,
    /// Which flow.
    pub flow: String,
    /// How many seeds.
    pub runs: usize,
    /// What arrived.
    pub received_rate_bps: Option<Interval>,
    /// What was lost.
    pub loss_ratio: Option<Interval>,
    /// The median of the one-way delay.
    pub delay_p50_ms: Option<Interval>,
    /// Its 95th percentile.
    pub delay_p95_ms: Option<Interval>,
    /// The 95th percentile of the time in queues.
    pub queue_delay_p95_ms: Option<Interval>,
}

/// One summary for each combination and flow, in the order of the runs.
pub fn summaries(finished: &[Finished]) -> Vec<Summary> {
    let mut groups: Vec<(&BTreeMap<String, String>, &str, Vec<&FlowResult>)> = Vec::new();
    let mut places: BTreeMap<(&BTreeMap<String, String>, &str), usize> = BTreeMap::new();
    for run in finished {
        for flow in &run.result.flows {
            let place = *places.entry((&run.parameters, &flow.id)).or_insert_with(|| {
                groups.push((&run.parameters, &flow.id, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, _, flows)) = groups.get_mut(place) {
                flows.push(flow);
            }
        }
    }
    groups
        .into_iter()
        .map(|(parameters, flow, flows)| {
            let over = |figure: fn(&FlowResult) -> Option<f64>| {
                Interval::of(&flows.iter().filter_map(|flow| figure(flow)).collect::<Vec<_>>())
            };
            Summary {
                parameters: parameters.clone(),
                flow: flow.to_owned(),
                runs: flows.len(),
                received_rate_bps: over(|flow| Some(flow.received_rate_bps)),
                loss_ratio: over(|flow| flow.loss_ratio),
                delay_p50_ms: over(|flow| flow.delay_ms.map(|delay| delay.p50)),
                delay_p95_ms: over(|flow| flow.delay_ms.map(|delay| delay.p95)),
                queue_delay_p95_ms: over(|flow| flow.queue_delay_ms.map(|delay| delay.p95)),
            }
        })
        .collect()
}

/// Whether runs of several seeds are there and each is as the one before it with the same values.
pub fn seeds_make_no_difference(finished: &[Finished]) -> bool {
    let pairs = || finished.iter().zip(finished.iter().skip(1)).filter(|(a, b)| a.parameters == b.parameters);
    pairs().next().is_some() && pairs().all(|(a, b)| a.result.flows == b.result.flows && a.seed != b.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_students_t() {
        // Four values of mean 5 and standard deviation 2: t with 3 degrees of freedom is 3.182 (tables of Student's t).
        let values = [5.0 - 6.0_f64.sqrt(), 5.0, 5.0, 5.0 + 6.0_f64.sqrt()];
        let interval = Interval::of(&values).unwrap();
        assert!((interval.mean - 5.0).abs() < 1e-12);
        assert!((interval.half().unwrap() - 3.1824).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of(&[7.0]), Some(Interval { mean: 7.0, low: None, high: None }));
        assert_eq!(Interval::of(&[]), None);
    }
}
