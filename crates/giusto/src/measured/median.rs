//! Medians of several runs.

use serde_json::{Map, Number, Value};

use super::result::RunResult;

/// The median of the finite numbers among `values`: the middle one, or the mean of the middle two.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().saturating_sub(1) / 2)?;
    Some(lower + (upper - lower) / 2.0)
}

/// The median of repeated runs of one configuration, number by number.
///
/// Unknown numbers are left out; counts are rounded to whole numbers; texts are those of the first run. Without runs nothing
/// is known.
pub fn median_of(runs: &[RunResult]) -> RunResult {
    let Some(first) = runs.first() else { return RunResult::default() };
    // The JSON form lets one rule serve all fields.
    let values: Vec<Value> = runs.iter().filter_map(|run| crate::json::tree(run).ok()).collect();
    let median = median_value(&values).to_string();
    let result: RunResult = serde_json::from_str(&median).unwrap_or_else(|_| first.clone());
    // What is true of most runs. Medians of counts need not add up.
    let doubtful = runs.iter().filter(|run| !run.doubts.is_empty()).map(|run| &run.doubts);
    let doubts = doubtful.clone().nth(runs.len() / 2).cloned().unwrap_or_default();
    RunResult { repeats: u32::try_from(runs.len()).ok().filter(|&runs| runs > 1), doubts, ..result }
}

fn median_value(values: &[Value]) -> Value {
    let known: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
    match known.first() {
        None => Value::Null,
        Some(Value::Number(_)) => median_number(&known),
        Some(Value::Object(first)) => {
            let field = |name: &String| {
                let of_each: Vec<Value> = known.iter().filter_map(|value| value.get(name)).cloned().collect();
                (name.clone(), median_value(&of_each))
            };
            let mut fields = Map::new();
            fields.extend(first.keys().map(field));
            Value::Object(fields)
        }
        Some(first) => (*first).clone(),
    }
}

fn median_number(values: &[&Value]) -> Value {
    let Some(middle) = median(values.iter().filter_map(|value| value.as_f64())) else { return Value::Null };
    if values.iter().all(|value| value.is_u64()) {
        return Value::Number(Number::from(middle.round() as u64));
    }
    Number::from_f64(middle).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::Quantiles;

    fn run(rx_rate_bps: f64, lost_packets: u64, p99: Option<f64>) -> RunResult {
        RunResult {
            strategy: "grid".to_owned(),
            rate_bps: Some(1_000_000),
            rx_rate_bps: Some(rx_rate_bps),
            lost_packets: Some(lost_packets),
            gap_error_us: Quantiles { p99, ..Quantiles::default() },
            ..RunResult::default()
        }
    }

    #[test]
    fn the_median_is_taken_field_by_field() {
        let runs = [run(3.5, 7, Some(1.0)), run(1.5, 9, None), run(2.5, 0, Some(2.0))];
        let repeated = |runs, run| RunResult { repeats: Some(runs), ..run };
        assert_eq!(median_of(&runs), repeated(3, run(2.5, 7, Some(1.5))));
        let two = [run(1.0, 2, None), run(2.0, 5, Some(3.0))];
        assert_eq!(median_of(&two), repeated(2, run(1.5, 4, Some(3.0))));
    }

    #[test]
    fn the_median_of_one_run_is_that_run() {
        assert_eq!(median_of(&[]), RunResult::default());
        let one = run(1e6 + 0.125, 3, Some(0.1));
        assert_eq!(median_of(std::slice::from_ref(&one)), one);
        assert_eq!(median([]), None);
        assert_eq!(median([f64::NAN, 4.0]), Some(4.0));
    }
}
