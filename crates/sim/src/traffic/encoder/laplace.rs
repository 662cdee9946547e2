//! The Laplacian deviations of RFC 8593 §5.3.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1};

use super::error::{SourceError, parameter};

/// The maximum deviation: between 1 % and almost twice the reference.
///
/// RFC 8593 does not limit the deviation, but below −1 there is no frame. The limit is symmetric, so the mean
/// stays zero. At the example scale of 0.15 one draw in 735 reaches it.
pub(super) const DEVIATION_MAX: f64 = 0.99;

/// A draw from the zero-mean Laplacian distribution of this scale, limited to ±[`DEVIATION_MAX`].
///
/// The magnitude of a Laplacian variable is exponential with the scale as its mean; both signs are equally
/// likely.
pub(super) fn deviation<R: Rng>(scale: f64, rng: &mut R) -> f64 {
    let magnitude: f64 = Exp1.sample(rng);
    let magnitude = (magnitude * scale).min(DEVIATION_MAX);
    if rng.random::<bool>() { magnitude } else { -magnitude }
}

pub(super) fn check_scale(what: &'static str, scale: f64) -> Result<(), SourceError> {
    parameter(what, scale, 0.0..=1.0, "0 to 1").map(|_| ())
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn the_moments_match_the_clipped_laplacian() {
        const DRAWS: u32 = 400_000;
        for scale in [0.05, 0.15, 0.5] {
            let mut rng = StdRng::seed_from_u64(11);
            let draws: Vec<f64> = (0..DRAWS).map(|_| deviation(scale, &mut rng)).collect();
            let mean_of =
                |f: &dyn Fn(f64) -> f64| draws.iter().map(|&x| f(x)).sum::<f64>() / f64::from(DRAWS);
            let (mean, magnitude, square) = (mean_of(&|x| x), mean_of(&f64::abs), mean_of(&|x| x * x));
            // with c the bound over the scale: E|x| = s (1 − e^−c), E x² = 2 s² (1 − (1 + c) e^−c)
            let tail = (-DEVIATION_MAX / scale).exp();
            let expected = scale * (1.0 - tail);
            let variance = 2.0 * scale * scale * (1.0 - (1.0 + DEVIATION_MAX / scale) * tail);
            // five standard errors of the mean
            assert!(mean.abs() < 5.0 * (variance / f64::from(DRAWS)).sqrt(), "{scale}: mean {mean}");
            assert!((magnitude / expected - 1.0).abs() < 0.01, "{scale}: {magnitude} for {expected}");
            assert!((square / variance - 1.0).abs() < 0.02, "{scale}: {square} for {variance}");
            let clipped = draws.iter().filter(|x| x.abs() >= DEVIATION_MAX).count() as f64 / f64::from(DRAWS);
            let bound = 5.0 * (tail / f64::from(DRAWS)).sqrt() + 1e-9;
            assert!((clipped - tail).abs() < bound, "{scale}: {clipped}");
        }
        let mut rng = StdRng::seed_from_u64(1);
        assert!((0..100).all(|_| deviation(0.0, &mut rng).abs() < f64::MIN_POSITIVE));
    }
}
