//! Scenarios made by a program.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    change::Change,
    error::{Finding, ScenarioError},
    expectation::Expectation,
    model::{FlowSpec, LinkSpec, MediumSpec, Purpose, Scenario},
    validate,
};

/// Assembles a scenario; [`build`](Self::build) validates it.
///
/// # Example
///
/// Voice over a link of 1 Mbit/s that slows down:
///
/// ```
/// use giusto::{
///     run,
///     scenario::{Expectation, FlowKind, FlowSpec, LinkSpec, Metric, Scenario},
/// };
/// use giusto_sim::{link::rate::RateProfile, traffic::Departures};
/// use giusto_units::{Ecn, Timestamp};
///
/// let mut wire = LinkSpec::new("wire", "here", "there");
/// wire.config.rate = RateProfile::Fixed("1 Mbit/s".parse()?);
/// wire.config.delay = "20 ms".parse::<giusto_units::TimeDelta>()?.into();
/// let voice = FlowKind::Source {
///     departures: Departures::Constant(RateProfile::Fixed("64 kbit/s".parse()?)),
///     size: "200 B".parse::<giusto_units::DataSize>()?.into(),
///     ecn: Ecn::NotEct,
/// };
/// let received_rate = Metric::named("received-rate").ok_or("no such metric")?;
/// let scenario = Scenario::builder("voice")
///     .duration("10 s".parse()?)
///     .link(wire)
///     .flow(FlowSpec::new("voice", voice, "here", "there"))
///     .change_rate(Timestamp::from_nanos(5_000_000_000), "wire", "100 kbit/s".parse()?)
///     .expect(Expectation::of_flow("voice", received_rate).between(63e3, 64e3))
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

impl Scenario {
    /// A builder of a scenario of this name.
    pub fn builder(name: impl Into<String>) -> Builder {
        let scenario = Self { duration: TimeDelta::from_seconds(60), ..Self::empty(name) };
        Builder { scenario, changes: Vec::new() }
    }
}

impl Builder {
    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.scenario.description = description.into();
        self
    }

    /// Sets the random seed; default 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.scenario.seed = seed;
        self
    }

    /// Sets the simulated time; default 60 s.
    #[must_use]
    pub fn duration(mut self, duration: TimeDelta) -> Self {
        self.scenario.duration = duration;
        self
    }

    /// Sets the time at the start of each flow that results leave out; default 0 s.
    #[must_use]
    pub fn warmup(mut self, warmup: TimeDelta) -> Self {
        self.scenario.warmup = warmup;
        self
    }

    /// Adds a Wi-Fi medium, which links name.
    #[must_use]
    pub fn medium(mut self, medium: MediumSpec) -> Self {
        self.scenario.mediums.push(medium);
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

    /// Changes the rate of a link at a moment of the run.
    #[must_use]
    pub fn change_rate(mut self, at: Timestamp, link: impl Into<String>, rate: DataRate) -> Self {
        self.changes.push(Change { at, link: link.into(), rate: Some(rate), delay: None });
        self
    }

    /// Adds an expectation.
    #[must_use]
    pub fn expect(mut self, expectation: Expectation) -> Self {
        self.scenario.expectations.push(expectation);
        self
    }

    /// Validates the scenario.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] lists every problem.
    pub fn build(self) -> Result<Scenario, ScenarioError> {
        let text = |found: Vec<Finding>| found.into_iter().map(|(_, text)| text).collect();
        let valid = validate::scenario(self.scenario, &self.changes, Purpose::Simulation);
        valid.map_err(|found| ScenarioError::new(text(found)))
    }
}
