//! The parts of a link as text.

use giusto_sim::link::{delay::Jitter, loss::Loss, rate::RateProfile};
use giusto_units::{DataRate, Timestamp};

use crate::{scenario::LinkSpec, text::format::plural};

/// A rate: `3 Mbit/s`, `1 to 3 Mbit/s`; nothing if it is unlimited.
pub(super) fn rate(profile: &RateProfile) -> String {
    match profile {
        RateProfile::Unlimited => String::new(),
        RateProfile::Fixed(rate) => rate.to_string(),
        RateProfile::Steps { steps, .. } => {
            let rates = steps.iter().map(|&(_, rate)| rate);
            match (rates.clone().min(), rates.max()) {
                (Some(low), Some(high)) if low < high => from_to(&low.to_string(), &high.to_string()),
                (Some(rate), _) => rate.to_string(),
                (None, _) => String::new(),
            }
        }
        RateProfile::TokenBucket(bucket) => {
            let peak = bucket.peak.map(|peak| format!(" at {peak}")).unwrap_or_default();
            format!("{}, bursts of {}{peak}", bucket.rate, bucket.burst)
        }
        RateProfile::Opportunities { at, bytes } => {
            let period = at.last().copied().unwrap_or_default();
            let mean = at.len() as f64 * f64::from(*bytes) * 8.0 / period.as_seconds();
            // Of a trace, three digits are enough.
            let digit = 10_f64.powf(mean.max(1.0).log10().floor() - 2.0).max(1.0);
            format!("trace, mean {}", DataRate::from_bps(((mean / digit).round() * digit) as u64))
        }
    }
}

/// `3 Mbit/s` and `5 Mbit/s` are `3 to 5 Mbit/s`.
fn from_to(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn in_words(changes: usize) -> String {
    plural(changes as u64, "change", "changes")
}

/// Delay, jitter, loss, corruption and duplication: `20 ms, jitter up to 5 ms, loss 1 %`.
pub(super) fn wire(link: &LinkSpec) -> String {
    let mut parts = Vec::new();
    parts.extend(link.medium.as_ref().map(|medium| format!("on {}", medium.id)));
    match link.config.delay.as_steps() {
        [(_, delay)] => parts.push(delay.to_string()),
        steps => {
            let changes = steps.iter().filter(|(at, _)| *at > Timestamp::ZERO).count();
            parts.extend(steps.first().map(|(_, delay)| format!("{delay} at first, {}", in_words(changes))));
        }
    }
    match link.config.jitter {
        Some(Jitter::TruncatedGaussian { std, bound }) => {
            parts.push(format!("Gaussian jitter with σ = {std}, at most {bound} σ"));
        }
        Some(Jitter::Uniform { max }) => parts.push(format!("jitter up to {max}")),
        None => {}
    }
    match &link.config.loss {
        Loss::None => {}
        Loss::List(list) => parts.push(format!("loses {} packets", list.len())),
        Loss::Steps(steps) => {
            let changes = steps.iter().filter(|(at, _)| *at > Timestamp::ZERO).count();
            let first = link.config.loss.ratio_at(Timestamp::ZERO);
            parts.push(format!("loss {} at first, {}", percent(first), in_words(changes)));
        }
        loss => parts.push(format!("loss {}", percent(loss.mean()))),
    }
    if link.config.corruption > 0.0 {
        parts.push(format!("corruption {}", percent(link.config.corruption)));
    }
    if link.config.duplication > 0.0 {
        parts.push(format!("duplication {}", percent(link.config.duplication)));
    }
    parts.join(", ")
}

/// A share: `20 %`, `0.05 %`.
fn percent(ratio: f64) -> String {
    format!("{} %", (ratio * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_trace_is_that_of_its_period() {
        // Four times 1250 B in 40 ms; a repetition begins where the period ends.
        let at = [0, 10, 20, 40].map(|millis| Timestamp::from_nanos(millis * 1_000_000)).to_vec();
        assert_eq!(rate(&RateProfile::Opportunities { at, bytes: 1250 }), "trace, mean 1 Mbit/s");
    }
}
