//! Controllers by name.

use alloc::{borrow::ToOwned, boxed::Box, string::String, vec::Vec};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::{
    controller::Controller,
    entry::Entry,
    limits::{Limits, Options},
    requirements::Requirements,
    table::TABLE,
};

/// A congestion control algorithm, from which controllers are built: a small handle that is compared, ordered and hashed by name.
///
/// A plain name is the algorithm exactly as published. The suffix `+giusto` marks a variant with our own
/// changes, which its configuration documents.
///
/// # Example
///
/// ```
/// use giusto_congestion::{Algorithm, FeedbackKind, Limits};
///
/// let algorithm: Algorithm = "scream:v2".parse()?;
/// assert_eq!(algorithm.requirements().feedback, FeedbackKind::CongestionControl);
/// let controller = algorithm.build(Limits::default());
/// assert_eq!(controller.target().media, Limits::default().start);
/// # Ok::<(), giusto_congestion::UnknownAlgorithm>(())
/// ```
#[derive(Clone, Copy)]
pub struct Algorithm(&'static Entry);

impl Algorithm {
    /// All built-in algorithms, related ones next to each other.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator + Clone {
        TABLE.iter().map(Self as fn(&'static Entry) -> Self)
    }

    /// An algorithm of the caller's own, for use wherever a built-in one is accepted.
    ///
    /// The name should differ from all others, since algorithms are compared by name. `requirements` should be those that the
    /// controller returns. The name and `build` are never freed: call this once for each algorithm, not for each session.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_congestion::{Algorithm, Fixed, Limits, Requirements};
    ///
    /// let most = Algorithm::custom("most", Requirements::DEFAULT, |limits, _options| Box::new(Fixed::new(limits.max)));
    /// let controller = most.build(Limits::default());
    /// assert_eq!(controller.target().media, Limits::default().max);
    /// ```
    pub fn custom(
        name: &str,
        requirements: Requirements,
        build: impl Fn(Limits, Options) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        let name: &'static str = Box::leak(Box::from(name));
        let build = Box::leak(Box::new(build));
        Self(Box::leak(Box::new(Entry { name, summary: "custom controller", requirements, build })))
    }

    /// The name used in scenarios and results.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Description of the algorithm in one phrase.
    pub const fn summary(self) -> &'static str {
        self.0.summary
    }

    /// What its controllers require of the sender and the receiver.
    pub const fn requirements(self) -> Requirements {
        self.0.requirements
    }

    /// Makes a controller with default options. Inconsistent limits are put in order ([`Limits::ordered`]).
    pub fn build(self, limits: Limits) -> Box<dyn Controller> {
        self.build_with(limits, Options::default())
    }

    /// Makes a controller.
    pub fn build_with(self, limits: Limits, options: Options) -> Box<dyn Controller> {
        (self.0.build)(limits, options)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Algorithm").field(&self.name()).finish()
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Algorithm {}

impl PartialOrd for Algorithm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Algorithm {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Algorithm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

/// No built-in algorithm has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller \"{0}\": expected one of {known}", known = names())]
pub struct UnknownAlgorithm(String);

impl UnknownAlgorithm {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

fn names() -> String {
    Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataRate, TimeDelta};

    use super::*;
    use crate::{
        closed_loop::{Scenario, run_with},
        fixed::Fixed,
        requirements::FeedbackKind,
    };

    #[test]
    fn names_are_unique_and_controllers_begin_at_the_start_rate() {
        for algorithm in Algorithm::all() {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(Algorithm::all().filter(|other| *other == algorithm).count(), 1);
            let limits = Limits::default();
            let target = algorithm.build(limits).target();
            assert_eq!(target.media, limits.start, "{algorithm}");
            assert!(target.pacing >= target.media, "{algorithm}");
        }
    }

    #[test]
    fn limits_out_of_order_are_put_in_order() {
        let limits = |min, start, max| {
            let [min, start, max] = [min, start, max].map(DataRate::from_bps);
            Limits { min, start, max }
        };
        let start = |algorithm: Algorithm, limits| algorithm.build(limits).target().media.as_bps();
        for algorithm in Algorithm::all() {
            assert_eq!(start(algorithm, limits(500, 100, 1000)), 500, "{algorithm}");
            assert_eq!(start(algorithm, limits(500, 5000, 1000)), 1000, "{algorithm}");
            assert_eq!(start(algorithm, limits(500, 300, 100)), 500, "{algorithm}");
            assert_eq!(start(algorithm, limits(0, 0, 0)), 0, "{algorithm}");
            assert_eq!(start(algorithm, limits(u64::MAX, u64::MAX, u64::MAX)), u64::MAX, "{algorithm}");
        }
    }

    /// 95th percentile of the queueing delay of a clean link of 3 Mbit/s after the start, in ms.
    fn queueing_delay(algorithm: Algorithm, options: Options) -> f64 {
        let scenario = Scenario { seconds: 40, ..Scenario::default() };
        run_with(algorithm.build_with(scenario.limits, options), algorithm, scenario)
            .queue_delay_p95(20.0, 40.0)
    }

    #[test]
    fn the_delay_target_changes_the_queueing_delay_if_supported() {
        for algorithm in Algorithm::all() {
            let with = |ms| {
                queueing_delay(
                    algorithm,
                    Options { delay_target: Some(TimeDelta::from_millis(ms)), ..Options::default() },
                )
            };
            let (low, default, high) = (with(20), queueing_delay(algorithm, Options::default()), with(200));
            if algorithm.requirements().delay_target {
                assert!(low < default && default < high, "{algorithm}: {low} {default} {high}");
            } else {
                assert!((low - default).abs() + (high - default).abs() < 1e-9, "{algorithm}");
            }
        }
    }

    #[test]
    fn each_accepts_its_feedback_and_some_discard_old_packets() {
        for algorithm in Algorithm::all() {
            let requirements = algorithm.requirements();
            assert!(requirements.accepts(requirements.feedback), "{algorithm}");
            let is_first = algorithm.name().starts_with("scream:d00");
            assert_eq!(requirements.feedback == FeedbackKind::ScreamDraft, is_first, "{algorithm}");
            assert_eq!(requirements.staleness.skip_after.is_some(), is_first, "{algorithm}");
            let discards = algorithm.name().starts_with("scream:") || algorithm.name() == "tempo";
            assert_eq!(requirements.staleness.discard_after.is_some(), discards, "{algorithm}");
        }
    }

    #[test]
    fn an_unknown_name_gives_an_error_with_the_known_names() {
        let error = "gcc".parse::<Algorithm>().unwrap_err().to_string();
        assert!(
            error.contains("\"gcc\"") && error.contains("gcc:libwebrtc, gcc:libwebrtc+giusto"),
            "{error}"
        );
    }

    #[test]
    fn a_custom_algorithm_is_built_with_its_limits() {
        let build = |limits: Limits, _| Box::new(Fixed::new(limits.max)) as Box<dyn Controller>;
        let custom = Algorithm::custom("max", Fixed::REQUIREMENTS, build);
        assert_eq!((custom.name(), custom.to_string().as_str()), ("max", "max"));
        assert_eq!(custom.build(Limits::default()).target().media, Limits::default().max);
        assert_eq!(custom, Algorithm::custom("max", Requirements::DEFAULT, build), "the name decides");
        assert!(Algorithm::all().all(|other| other != custom));
    }
}
