//! The target rate and the update of the window (NSDI 2018 §2.1, steps 2 and 3). Windows are in bytes, rates in bytes per second.

use giusto_units::TimeDelta;

/// Target rate: one packet per δ times the queueing delay (equation 1). Infinite without a queue.
pub(super) fn target_rate(packet: f64, delta: f64, queueing: TimeDelta) -> f64 {
    let time = delta * queueing.as_seconds();
    if time > 0.0 { packet / time } else { f64::INFINITY }
}

/// Change of the window for `acked` bytes, up or down: v/(δ cwnd) for a packet, all in packets (step 3).
pub(super) fn change(window: f64, acked: f64, packet: f64, velocity: f64, delta: f64) -> f64 {
    acked * velocity * packet / (delta * window)
}

/// Highest velocity at which the window changes at most by itself in an RTT, at least 1 (authors' code, `markoviancc.cc`).
pub(super) fn max_velocity(window: f64, packet: f64, delta: f64) -> f64 {
    (delta * window / packet).max(1.0)
}
