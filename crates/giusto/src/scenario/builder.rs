//! A scenario made by a program.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{Expectation, FlowSpec, LinkSpec, Scenario, ScenarioError, check, read::Change};

/// Puts a scenario together; [`build`](Self::build) says whether it fits.
///
/// # Example
///
/// Voice over a link of 1 Mbit/s that slows down:
///
/// ```
/// use giusto::{
///     core::{ecn::Ecn, units::Timestamp},
///     scenario::{Expectation, FlowKind, FlowSpec, LinkSpec, Metric, Scenario},
///     sim::{link::rate::RateProfile, traffic::Departures},
///     simulation,
/// };
///
/// let mut wire = LinkSpec::new("wire", "here", "there");
/// wire.config.rate = RateProfile::Fixed("1 Mbit/s".parse()?);
/// wire.config.delay = "20 ms".parse::<giusto_units::TimeDelta>()?.into();
/// let voice = FlowKind::Source {
///     departures: Departures::Constant(RateProfile::Fixed("64 kbit/s".parse()?)),
///     size: "200 B".parse()?,
///     ecn: Ecn::NotEct,
/// };
/// let scenario = Scenario::builder("voice")
///     .duration("10 s".parse()?)
///     .link(wire)
///     .flow(FlowSpec::new("voice", voice, ("here", "there")))
///     .change_rate(Timestamp::from_nanos(5_000_000_000), "wire", "100 kbit/s".parse()?)
///     .expect(Expectation::of_flow("voice", Metric::ReceivedRate).between(63e3, 64e3))
///     .build()?;
///
/// let result = run::simulate(&scenario, 1, run::RecordOptions::default(), &mut ());
/// assert!(result.passed(), "{:?}", result.checks);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    scenario: Scenario,
    changes: Vec<Change>,
}

impl Builder {
    pub(super) fn new(name: impl Into<String>) -> Self {
        const DURATION: TimeDelta = TimeDelta::from_seconds(60);
        let scenario = Scenario {
            name: name.into(),
            description: String::new(),
            seed: 1,
            duration: DURATION,
            warmup: TimeDelta::ZERO,
            links: Vec::new(),
            flows: Vec::new(),
            expectations: Vec::new(),
        };
        Self { scenario, changes: Vec::new() }
    }

    /// What it shows.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.scenario.description = description.into();
        self
    }

    /// What all chance derives from; by default 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.scenario.seed = seed;
        self
    }

    /// How long it lasts; by default 60 s.
    #[must_use]
    pub fn duration(mut self, duration: TimeDelta) -> Self {
        self.scenario.duration = duration;
        self
    }

    /// How much of each beginning the figures leave out; by default nothing.
    #[must_use]
    pub fn warmup(mut self, warmup: TimeDelta) -> Self {
        self.scenario.warmup = warmup;
        self
    }

    /// Adds a link in one direction.
    #[must_use]
    pub fn link(mut self, link: LinkSpec) -> Self {
        self.scenario.links.push(link);
        self
    }

    /// Adds a link in both directions.
    #[must_use]
    pub fn duplex(self, link: LinkSpec) -> Self {
        let reverse = link.reversed();
        self.link(link).link(reverse)
    }

    /// Adds a flow.
    #[must_use]
    pub fn flow(mut self, flow: FlowSpec) -> Self {
        self.scenario.flows.push(flow);
        self
    }

    /// Lets a link have another rate from a moment on.
    #[must_use]
    pub fn change_rate(mut self, at: Timestamp, link: impl Into<String>, rate: DataRate) -> Self {
        self.changes.push(Change { at, link: link.into(), rate: Some(rate), delay: None });
        self
    }

    /// Lets a link have another delay from a moment on.
    #[must_use]
    pub fn change_delay(mut self, at: Timestamp, link: impl Into<String>, delay: TimeDelta) -> Self {
        self.changes.push(Change { at, link: link.into(), rate: None, delay: Some(delay) });
        self
    }

    /// Adds an expectation.
    #[must_use]
    pub fn expect(mut self, expectation: Expectation) -> Self {
        self.scenario.expectations.push(expectation);
        self
    }

    /// The scenario, whether it fits or not.
    #[cfg(test)]
    pub(crate) fn unchecked(self) -> Scenario {
        self.scenario
    }

    /// The scenario.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] names all that does not fit.
    pub fn build(mut self) -> Result<Scenario, ScenarioError> {
        let mut problems = Vec::new();
        let duration = self.scenario.duration;
        for (change, number) in self.changes.iter().zip(1..) {
            if let Err((_, text)) = check::change(&mut self.scenario.links, duration, change) {
                problems.push(format!("change {number}: {text}"));
            }
        }
        problems.extend(check::scenario(&self.scenario).into_iter().map(|(_, text)| text));
        if problems.is_empty() { Ok(self.scenario) } else { Err(ScenarioError::new(problems)) }
    }
}
