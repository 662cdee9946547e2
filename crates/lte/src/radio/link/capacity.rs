//! Capacities by numerical integration.

use std::f64::consts::{LOG2_E, PI};

use crate::radio::tables::Modulation;

/// Reach and step of the integration over a standard normal variable. The trapezoidal rule converges exponentially here.
const REACH: i32 = 64;
const STEP: f64 = 0.125;

/// Sums `f` over the standard normal distribution.
fn expectation(mut f: impl FnMut(f64) -> f64) -> f64 {
    let density = |z: f64| libm::exp(-z * z / 2.0) / libm::sqrt(2.0 * PI);
    (-REACH..=REACH)
        .map(|i| {
            let z = f64::from(i) * STEP;
            f(z) * density(z) * STEP
        })
        .sum()
}

/// Returns log2(1 + e^x) without overflow.
fn log2_1p_exp(x: f64) -> f64 {
    LOG2_E * if x > 0.0 { x + libm::log1p(libm::exp(-x)) } else { libm::log1p(libm::exp(x)) }
}

/// Returns capacity (bit) and dispersion (bit²) of a bit in QPSK at a symbol SINR of `sinr`: mean and variance of the information
/// density 1 − log2(1 + e^−L), where the log-likelihood ratio L has the mean 2 sinr and the variance 4 sinr.
pub(super) fn binary(sinr: f64) -> (f64, f64) {
    let density = |z: f64| 1.0 - log2_1p_exp(-2.0 * sinr - 2.0 * libm::sqrt(sinr) * z);
    let mean = expectation(density);
    let variance = expectation(|z| {
        let deviation = density(z) - mean;
        deviation * deviation
    });
    (mean.clamp(0.0, 1.0), variance)
}

/// Returns the mutual information per coded bit of a bit-interleaved system with Gray labels (TS 36.211 §7.1) at a symbol SINR of
/// `sinr`: Caire, Taricco and Biglieri, "Bit-interleaved coded modulation", IEEE Trans. Inf. Theory 44(3), 1998, eq. 14.
pub(super) fn per_coded_bit(modulation: Modulation, sinr: f64) -> f64 {
    // Each dimension is an amplitude modulation of its own.
    let bits = modulation.bits() / 2;
    let points = 1_u32 << bits;
    if bits == 1 {
        return binary(sinr).0;
    }
    let unit = libm::sqrt(3.0 * sinr / f64::from(points * points - 1));
    let level = |point: u32| unit * (2.0 * f64::from(point) - f64::from(points - 1));
    let label = |point: u32| point ^ (point >> 1);
    let mut lost = 0.0;
    // The constellation is symmetric.
    for sent in 0..points / 2 {
        lost += expectation(|z| {
            let received = level(sent) + z;
            // The likelihoods relative to that of the point sent.
            let likelihood = |point: u32| {
                let offset = received - level(point);
                libm::exp((z * z - offset * offset) / 2.0)
            };
            let mut all = 0.0;
            let mut same = [0.0; 3];
            for point in 0..points {
                let value = likelihood(point);
                all += value;
                for (bit, sum) in same.iter_mut().enumerate() {
                    if (label(point) ^ label(sent)) >> bit & 1 == 0 {
                        *sum += value;
                    }
                }
            }
            same.iter().take(bits as usize).map(|same| libm::log2(all / same)).sum()
        });
    }
    (1.0 - lost / f64::from(points / 2) / f64::from(bits)).clamp(0.0, 1.0)
}
