//! Random number streams, one per component.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use sha2::{Digest, Sha256};

/// The random number stream of one component.
///
/// It depends only on the seed of the run and on the name of the component, so adding another component does not change its
/// draws. The generator is PCG XSL 128/64 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
/// Algorithms for Random Number Generation", 2014), seeded with the SHA-256 of the seed and the name.
pub type Random = Pcg64;

/// Returns the random number stream of the component `name` in a run with seed `seed`.
///
/// # Example
///
/// ```
/// use giusto_sim::random;
/// use rand::RngExt;
///
/// let draw = |seed, name| random::stream(seed, name).random::<u64>();
/// assert_eq!(draw(1, "link bottleneck: loss"), draw(1, "link bottleneck: loss"));
/// assert_ne!(draw(1, "link bottleneck: loss"), draw(2, "link bottleneck: loss"));
/// assert_ne!(draw(1, "link bottleneck: loss"), draw(1, "link bottleneck: jitter"));
/// ```
pub fn stream(seed: u64, name: &str) -> Random {
    let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(name.as_bytes()).finalize();
    Random::from_seed(digest.into())
}
