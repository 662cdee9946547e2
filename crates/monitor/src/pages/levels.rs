//! The colours of values.

use giusto::{scenario::Thresholds, view::html::Level};
use giusto_units::TimeDelta;

use crate::metric::Metric;

/// Where the levels 1 to 4 begin; a value of at most the first is of level 0, for MOS and availability one of at least the first.
fn scale(metric: Metric) -> [f64; 4] {
    match metric {
        // The share of results that are known.
        Metric::Known => [1.0, 0.99, 0.95, 0.5],
        Metric::Loss => [0.0, 0.001, 0.01, 0.05],
        // User satisfaction (ITU-T G.107 Annex B): satisfied, some, many, nearly all dissatisfied.
        Metric::Mos => [4.03, 3.6, 3.1, 2.58],
        Metric::Jitter => [5.0, 20.0, 30.0, 50.0],
        // One way 150 ms and 400 ms are the bounds of ITU-T G.114; round trips have twice these.
        Metric::Delay | Metric::DelayP99 => [50.0, 100.0, 150.0, 400.0],
        _ => [100.0, 200.0, 300.0, 800.0],
    }
}

fn falls(metric: Metric) -> bool {
    matches!(metric, Metric::Known | Metric::Mos)
}

/// The limit that the configuration sets.
pub(super) fn limit(metric: Metric, thresholds: &Thresholds) -> Option<f64> {
    match metric {
        Metric::Loss => thresholds.loss,
        Metric::RttP99 => thresholds.rtt_p99.map(TimeDelta::as_millis),
        Metric::DelayP99 => thresholds.delay_p99.map(TimeDelta::as_millis),
        Metric::FrameDelayP99 => thresholds.frame_delay_p99.map(TimeDelta::as_millis),
        Metric::Mos => thresholds.mos,
        _ => None,
    }
}

/// The level of a value: by its scale, but a value within its limit is at most 2, one beyond it at least 3.
pub(super) fn level(metric: Metric, value: f64, thresholds: &Thresholds) -> Level {
    let is_worse = |than: f64| if falls(metric) { value < than } else { value > than };
    let own = scale(metric).into_iter().filter(|bound| is_worse(*bound)).count() as u8;
    Level::Of(match limit(metric, thresholds) {
        Some(limit) if is_worse(limit) => own.max(3),
        Some(_) => own.min(2),
        None => own,
    })
}

/// What the colours mean.
pub(super) fn legend(metric: Metric, thresholds: &Thresholds) -> Vec<(Level, String)> {
    let limited = limit(metric, thresholds);
    let show = |value: f64| match metric {
        Metric::Known | Metric::Loss | Metric::Mos => crate::engine::show(metric, value),
        _ => format!("{value} ms"),
    };
    let sign = if falls(metric) { "below" } else { "above" };
    let [first, ..] = scale(metric);
    let words = match limited {
        Some(limit) => ["within bounds".to_owned(), format!("{sign} the bound, {}", show(limit))].to_vec(),
        None => vec![if falls(metric) {
            format!("at least {}", show(first))
        } else {
            format!("at most {}", show(first))
        }],
    };
    let mut legend = vec![(Level::Of(0), words.first().cloned().unwrap_or_default())];
    if let Some(beyond) = words.get(1) {
        legend.push((Level::Of(3), beyond.clone()));
    } else {
        let bounds = scale(metric).into_iter().zip(1..);
        legend.extend(bounds.map(|(bound, level)| (Level::Of(level), format!("{sign} {}", show(bound)))));
    }
    legend.push((Level::Unknown, "unknown".to_owned()));
    legend
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_agrees_with_the_bound() {
        let none = Thresholds::default();
        let strict = Thresholds { loss: Some(0.0005), mos: Some(4.2), ..none };
        let lax = Thresholds { loss: Some(0.5), ..none };
        for (metric, value, thresholds, expected) in [
            (Metric::Loss, 0.0, &none, 0),
            (Metric::Loss, 0.0008, &none, 1),
            (Metric::Loss, 0.06, &none, 4),
            (Metric::Loss, 0.0008, &strict, 3),
            (Metric::Loss, 0.0005, &strict, 1),
            (Metric::Loss, 0.2, &lax, 2),
            (Metric::Mos, 4.3, &strict, 0),
            (Metric::Mos, 4.1, &strict, 3),
            (Metric::Mos, 1.5, &none, 4),
            (Metric::Known, 1.0, &none, 0),
            (Metric::Known, 0.999, &none, 1),
        ] {
            assert_eq!(level(metric, value, thresholds), Level::Of(expected), "{metric} {value}");
        }
    }
}
