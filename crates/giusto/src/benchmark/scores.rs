//! Scores that others have published, from the figures of a run: rankings are shown under them too.

use giusto_units::math;

use super::judge::Figures;

/// The network part of the score of the challenge "Bandwidth Estimation for Real-Time Communications" (ACM `MMSys` 2021;
/// `metrics/utils/net_eval_method.py` of OpenNetLab/Challenge-Environment), over its maximum: 0 to 1. The least delay is that of an
/// empty queue, `ground_recv_rate` the fair share.
pub(super) fn challenge(figures: &Figures) -> f64 {
    let delay = 1.0 - figures.queue_delay_p95_ms.min(MAX_DELAY_MS) / MAX_DELAY_MS;
    let rate = figures.utilisation_ratio.min(1.0);
    (0.2 * delay + 0.2 * rate + 0.3 * (1.0 - figures.loss_ratio)) / 0.7
}

/// `max_delay` of the challenge.
const MAX_DELAY_MS: f64 = 400.0;

/// The logarithm of Kleinrock's power, throughput over delay ("Power and Deterministic Rules of Thumb for Probabilistic Problems in
/// Computer Communications", ICC 1979): the objective log(throughput) − log(delay) of Winstein and Balakrishnan ("TCP ex Machina",
/// SIGCOMM 2013, §3.3). The throughput is the use, the delay the 95th percentile of the frame delay in tenths of a second.
pub(super) fn log_power(figures: &Figures) -> f64 {
    math::ln(figures.utilisation_ratio.max(LEAST_USE)) - math::ln(figures.frame_delay_p95_ms.max(1.0) / 100.0)
}

/// A run without throughput has no logarithm.
const LEAST_USE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_their_formulas() {
        let figures = Figures {
            utilisation_ratio: 0.5,
            queue_delay_p95_ms: 100.0,
            loss_ratio: 0.1,
            frame_delay_p95_ms: 200.0,
            ..Figures::default()
        };
        // By hand: (0.2 · 0.75 + 0.2 · 0.5 + 0.3 · 0.9) / 0.7; 0.5 / 2.
        assert!((challenge(&figures) - 0.52 / 0.7).abs() < 1e-9);
        assert!((log_power(&figures) - math::ln(0.25)).abs() < 1e-9);
        let worst = Figures { queue_delay_p95_ms: 9e3, loss_ratio: 1.0, ..Figures::default() };
        assert!(challenge(&worst).abs() < 1e-9 && log_power(&worst).is_finite());
    }
}
