//! Random draws with the same digits on every machine.

use giusto_sim::random::Random;
use rand::RngExt;

/// Draws from the standard normal distribution, by the polar method (Marsaglia and Bray 1964), with the logarithm of `libm`.
pub fn normal(random: &mut Random) -> f64 {
    loop {
        let (u, v) = (random.random_range(-1.0..1.0_f64), random.random_range(-1.0..1.0_f64));
        let s = u * u + v * v;
        if s > 0.0 && s < 1.0 {
            return u * libm::sqrt(-2.0 * libm::log(s) / s);
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_sim::random;

    use super::*;

    #[test]
    fn normal_draws_have_the_moments_and_tails_of_the_normal_distribution() {
        let mut random = random::stream(1, "normal");
        let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut random)).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / draws.len() as f64;
        assert!(moment(1).abs() < 0.02, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.15, "{}", moment(4));
        let beyond = draws.iter().filter(|x| **x > 1.959_964).count();
        assert!((2300..2700).contains(&beyond), "{beyond} of 2500 above the 97.5 % point");
    }
}
