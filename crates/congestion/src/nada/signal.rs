//! The congestion signal (RFC 8698 §4.2, equations 1 and 2). Delays are in ms.

use giusto_units::math;

use super::config::ReceiverConfig;

/// Queueing delay after non-linear warping (equation 1).
pub(super) fn warped(config: &ReceiverConfig, queueing_ms: f64) -> f64 {
    let from = config.warp_from.as_millis();
    if queueing_ms < from {
        return queueing_ms;
    }
    from * math::exp(-config.lambda * (queueing_ms - from) / from)
}

/// Queueing delay that enters the signal: warped for `loss_exp` = [`loss_intervals`](ReceiverConfig) × `average_interval` packets
/// after a loss, then interpolated to the delay itself for one more interval. `average_interval` is `None` before the first loss.
pub(super) fn equivalent_delay(
    config: &ReceiverConfig,
    queueing_ms: f64,
    average_interval: Option<f64>,
    packets_since_loss: f64,
) -> f64 {
    let Some(interval) = average_interval else { return queueing_ms };
    let beyond = (packets_since_loss / interval - config.loss_intervals).clamp(0.0, 1.0);
    beyond * queueing_ms + (1.0 - beyond) * warped(config, queueing_ms)
}

/// Aggregate congestion signal (equation 2), in ms; at most [`max_signal`](ReceiverConfig). The ratios are 0 to 1.
pub(super) fn aggregate(config: &ReceiverConfig, delay_ms: f64, mark_ratio: f64, loss_ratio: f64) -> f64 {
    let marks = mark_ratio / config.reference_marks;
    let losses = loss_ratio / config.reference_loss;
    let signal = delay_ms
        + config.mark_penalty.as_millis() * marks * marks
        + config.loss_penalty.as_millis() * losses * losses;
    // Not a number only with a reference ratio of zero.
    let max = config.max_signal.as_millis().max(0.0);
    if signal.is_nan() { max } else { signal.clamp(0.0, max) }
}
