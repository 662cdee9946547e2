//! Controllers by name.

use alloc::{borrow::ToOwned, boxed::Box, string::String, vec::Vec};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::{
    constants::{self, Constant, ConstantError, Setter},
    controller::Controller,
    entry::Entry,
    gcc::receive_side,
    limits::{Limits, Options},
    requirements::Requirements,
    table::{self, TABLE},
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

/// Constants by name, and their values in their units.
type Values = Vec<(&'static str, f64)>;

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
        let build = Box::leak(Box::new(move |limits, options, _: &mut Setter| build(limits, options)));
        Self(Box::leak(Box::new(Entry { name, summary: "custom controller", requirements, build })))
    }

    /// The constants that can be set by name, each with its range and its value.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_congestion::Algorithm;
    ///
    /// let nada: Algorithm = "nada".parse()?;
    /// let kappa = nada.constants().into_iter().find(|constant| constant.name == "kappa").unwrap();
    /// assert_eq!((kappa.value, kappa.unit), (0.5, ""));
    /// # Ok::<(), giusto_congestion::UnknownAlgorithm>(())
    /// ```
    pub fn constants(self) -> Vec<Constant> {
        self.listed().into_iter().map(|(constant, _)| constant).collect()
    }

    fn listed(self) -> Vec<(Constant, bool)> {
        let mut setter = Setter::listing();
        (self.0.build)(Limits::default(), Options::default(), &mut setter);
        setter.listed()
    }

    /// The algorithm with other values of some constants, by their names and in their units; `nada+kappa=0.4+tau=450ms` is the name of such
    /// a one. An [option](Options) goes before a constant.
    ///
    /// The name is never freed, as with [`custom`](Self::custom).
    ///
    /// # Errors
    ///
    /// [`ConstantError`]: there is no constant of this name, it is set twice, or the value is out of its range.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_congestion::Algorithm;
    ///
    /// let slow = "nada".parse::<Algorithm>()?.with_constants(&[("kappa", 0.4), ("tau", 450.0)])?;
    /// assert_eq!(slow.name(), "nada+kappa=0.4+tau=450ms");
    /// assert!(slow.with_constants(&[("kappa", 1000.0)]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_constants(self, values: &[(&str, f64)]) -> Result<Self, ConstantError> {
        let before = self.listed();
        let known: Vec<Constant> = before.iter().map(|(constant, _)| *constant).collect();
        let values = constants::checked(self.name(), &known, values)?;
        let Entry { name, summary, requirements, build } = *self.0;
        let set = before.iter().filter(|(_, is_set)| *is_set).count();
        let plain = name.rsplitn(set + 1, '+').last().unwrap_or(name);
        let build = move |limits, options, setter: &mut Setter| {
            setter.want(&values);
            build(limits, options, setter)
        };
        let mut setter = Setter::listing();
        build(Limits::default(), Options::default(), &mut setter);
        let name = constants::name_with(plain, &setter.listed());
        let (name, build) = (Box::leak(Box::from(name)), Box::leak(Box::new(build)));
        Ok(Self(Box::leak(Box::new(Entry { name, summary, requirements, build }))))
    }

    /// The built-in algorithm and the values of constants of a name such as `nada+kappa=0.4+tau=450ms`, in their units. Whether they are in
    /// range, [`with_constants`](Self::with_constants) and [`build_constants`](Self::build_constants) check.
    ///
    /// # Errors
    ///
    /// [`ConstantError`]: the algorithm or a constant is unknown, or a value is no number with its unit.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_congestion::Algorithm;
    ///
    /// let (nada, constants) = Algorithm::read_name("nada+kappa=0.4+tau=0.45s")?;
    /// assert_eq!((nada.name(), constants), ("nada", vec![("kappa", 0.4), ("tau", 450.0)]));
    /// # Ok::<(), giusto_congestion::ConstantError>(())
    /// ```
    pub fn read_name(text: &str) -> Result<(Self, Values), ConstantError> {
        // What stands before the first constant.
        let end = text.find('=').map_or(text.len(), |place| {
            text.get(..place).and_then(|before| before.rfind('+')).unwrap_or(text.len())
        });
        let (name, items) = text.split_at(end);
        let plain = name
            .parse::<Self>()
            .map_err(|_| ConstantError::Algorithm { name: name.to_owned(), known: names() })?;
        let constants = plain.constants();
        let mut values = Vec::new();
        for item in items.split('+').skip(1) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| ConstantError::NoValue { text: text.to_owned(), found: item.to_owned() })?;
            let constant = constants::named(plain.name(), &constants, name)?;
            values.push((constant.name, constant.value_of(value)?));
        }
        Ok((plain, values))
    }

    /// Makes a controller with other values of some constants. Unlike [`with_constants`](Self::with_constants), it leaves nothing behind when
    /// the controller is dropped.
    ///
    /// # Errors
    ///
    /// [`ConstantError`]: there is no constant of this name, it is set twice, or the value is out of its range.
    pub fn build_constants(
        self,
        limits: Limits,
        options: Options,
        values: &[(&str, f64)],
    ) -> Result<Box<dyn Controller>, ConstantError> {
        let values = constants::checked(self.name(), &self.constants(), values)?;
        let mut setter = Setter::default();
        setter.want(&values);
        Ok((self.0.build)(limits, options, &mut setter))
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

    /// The estimator at the receiver for which it was designed, if its feedback is
    /// [`ReceiverEstimate`](crate::FeedbackKind::ReceiverEstimate); otherwise that of libwebrtc.
    pub fn receive_side(self) -> receive_side::Config {
        table::receive_side(self.name())
    }

    /// Makes a controller with default options. Inconsistent limits are put in order ([`Limits::ordered`]).
    pub fn build(self, limits: Limits) -> Box<dyn Controller> {
        self.build_with(limits, Options::default())
    }

    /// Makes a controller.
    pub fn build_with(self, limits: Limits, options: Options) -> Box<dyn Controller> {
        (self.0.build)(limits, options, &mut Setter::default())
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

    /// A built-in algorithm. Constants that follow its name are for [`read_name`](Self::read_name).
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
    use super::*;
    use crate::{fixed::Fixed, requirements::FeedbackKind, testing::prelude::*};

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
        for algorithm in Algorithm::all() {
            for (limits, expected) in [
                ([500, 100, 1000], 500),
                ([500, 5000, 1000], 1000),
                ([500, 300, 100], 500),
                ([0; 3], 0),
                ([u64::MAX; 3], u64::MAX),
            ] {
                let [min, start, max] = limits.map(DataRate::from_bps);
                let target = algorithm.build(Limits { min, start, max }).target();
                assert_eq!(target.media.as_bps(), expected, "{algorithm} {limits:?}");
            }
        }
    }

    #[test]
    fn a_priority_that_is_no_weight_is_the_default() {
        let nada: Algorithm = "nada".parse().unwrap();
        let delay = |priority| queueing_delay(nada, Options { priority, ..Options::default() });
        let default = delay(None);
        assert!(delay(Some(4.0)) > default);
        for priority in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            assert!((delay(Some(priority)) - default).abs() < 1e-9, "{priority}");
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
            let with =
                |target| queueing_delay(algorithm, Options { delay_target: target, ..Options::default() });
            let (low, default, high) = (with(Some(ms(20))), with(None), with(Some(ms(200))));
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
            // Those that limit the bytes in flight, so that packets wait for a window.
            let discards = requirements.staleness.discard_after.is_some();
            assert_eq!(
                discards,
                !matches!(algorithm.name().split(':').next(), Some("gcc" | "nada" | "fixed")),
                "{algorithm}"
            );
        }
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

    #[test]
    fn constants_have_names_and_values_within_their_ranges() {
        let mut with_some = 0;
        for algorithm in Algorithm::all() {
            let constants = algorithm.constants();
            with_some += usize::from(!constants.is_empty());
            for (place, constant) in constants.iter().enumerate() {
                let Constant { name, summary, unit, range: (min, max), value, .. } = *constant;
                assert!(constants.iter().take(place).all(|other| other.name != name), "{algorithm} {name}");
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
                assert!(["", "ms", "kbit/s"].contains(&unit) && !summary.ends_with('.'), "{name}");
                assert!(min < max && (min..=max).contains(&value), "{algorithm} {name}: {value}");
            }
        }
        assert!(with_some >= Algorithm::all().len() - 1);
    }

    #[test]
    fn a_constant_changes_what_its_algorithm_does_and_its_default_nothing() {
        let delay = |algorithm| queueing_delay(algorithm, Options::default());
        for (name, constant) in
            [("scream:v2", "delay-target"), ("nada", "reference-signal"), ("scream:rfc8298", "delay-target")]
        {
            let plain: Algorithm = name.parse().unwrap();
            let default = plain.constants().into_iter().find(|own| own.name == constant).unwrap().value;
            let with = |value| delay(plain.with_constants(&[(constant, value)]).unwrap());
            assert!(with(default * 0.4) < delay(plain) && delay(plain) < with(default * 2.5), "{name}");
            assert_eq!(with(default).to_bits(), delay(plain).to_bits(), "{name}");
        }
        let half = "fixed".parse::<Algorithm>().unwrap().with_constants(&[("share", 0.5)]).unwrap();
        assert_eq!(half.build(Limits::default()).target().media, DataRate::from_bps(150_000));
    }

    #[test]
    fn an_algorithm_with_constants_is_named_by_them_and_takes_more() {
        let plain: Algorithm = "gcc:libwebrtc+giusto".parse().unwrap();
        let first = plain.with_constants(&[("upper-bound-balance", 250.0), ("trend-window", 30.0)]).unwrap();
        assert_eq!(first.name(), "gcc:libwebrtc+giusto+trend-window=30+upper-bound-balance=250kbit/s");
        let second = first.with_constants(&[("trend-window", 40.0), ("growth", 1.1)]).unwrap();
        let name = "gcc:libwebrtc+giusto+trend-window=40+growth=1.1+upper-bound-balance=250kbit/s";
        assert_eq!((second.name(), second.requirements()), (name, plain.requirements()));
        let value =
            |own: Algorithm| own.constants().into_iter().find(|own| own.name == "trend-window").unwrap();
        assert_eq!([plain, first, second].map(|own| value(own).value.to_string()), ["20", "30", "40"]);
        assert!(value(plain).is_whole && first != plain);
    }

    #[test]
    fn constants_that_cannot_be_set_are_refused_with_what_can_be() {
        let nada: Algorithm = "nada".parse().unwrap();
        let refused = |values: &[(&str, f64)]| nada.with_constants(values).unwrap_err().to_string();
        let unknown = refused(&[("kapa", 0.4)]);
        let expected = "nada has no constant \"kapa\": known are reference-signal, kappa,";
        assert!(unknown.starts_with(expected), "{unknown}");
        assert_eq!(refused(&[("kappa", 9.0)]), "kappa must be 0.02 to 2, found 9");
        assert_eq!(refused(&[("tau", f64::NAN)]), "tau must be 100 to 2000 ms, found NaN");
        assert_eq!(refused(&[("tau", 300.0), ("tau", 400.0)]), "tau is set twice: leave one out");
        let gcc: Algorithm = "gcc:libwebrtc".parse().unwrap();
        let whole = gcc.with_constants(&[("trend-window", 20.5)]).unwrap_err().to_string();
        assert_eq!(whole, "trend-window must be a whole number, 4 to 100, found 20.5");
        let custom =
            Algorithm::custom("most", Requirements::DEFAULT, |limits, _| Box::new(Fixed::new(limits.max)));
        let none = custom.with_constants(&[("share", 1.0)]).unwrap_err().to_string();
        assert_eq!(none, "most has no constant \"share\": it has none");
    }

    #[test]
    fn a_name_with_constants_is_read_and_built() {
        let (gcc, constants) = Algorithm::read_name("gcc:libwebrtc+giusto+trend-window=30").unwrap();
        assert_eq!((gcc.name(), constants), ("gcc:libwebrtc+giusto", vec![("trend-window", 30.0)]));
        assert_eq!(Algorithm::read_name("nada").unwrap().1, []);
        for (text, expected) in [
            ("gcc", "unknown controller \"gcc\": expected one of fixed, gcc:libwebrtc, gcc:libwebrtc+giusto"),
            ("", "unknown controller \"\": expected"),
            ("=", "unknown controller \"=\": expected"),
            ("nada+", "unknown controller \"nada+\": expected"),
            ("nada+kapa=1", "nada has no constant \"kapa\": known are reference-signal,"),
            ("nada+kappa=", "kappa: expected a number, found \"\""),
            ("nada+kappa=0.4+tau", "\"nada+kappa=0.4+tau\": expected NAME+CONSTANT=VALUE"),
            ("nada+tau=450", "tau: "),
        ] {
            let error = Algorithm::read_name(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        // Built at once or by an algorithm of its own: the same controller.
        let scenario = Scenario { seconds: 20, ..Scenario::default() };
        let delay =
            |controller, algorithm| run_with(controller, algorithm, scenario).queue_delay_p95(5.0, 20.0);
        let nada: Algorithm = "nada".parse().unwrap();
        let values = [("kappa", 0.2), ("reference-signal", 30.0)];
        let at_once = nada.build_constants(scenario.limits, Options::default(), &values).unwrap();
        let by_own = nada.with_constants(&values).unwrap().build(scenario.limits);
        let [at_once, by_own] = [at_once, by_own].map(|controller| delay(controller, nada));
        assert_eq!(at_once.to_bits(), by_own.to_bits());
        assert!((at_once - delay(nada.build(scenario.limits), nada)).abs() > 0.5, "{at_once}");
        let refused = nada.build_constants(scenario.limits, Options::default(), &[("kappa", 9.0)]);
        assert_eq!(refused.unwrap_err().to_string(), "kappa must be 0.02 to 2, found 9");
    }
}
