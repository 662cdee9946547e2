//! The test cases: scenarios, settings, and judgements that the scenario files do not contain.

use giusto::{
    explore,
    scenario::{Document, Expectation, REVERSE, Scenario, ScenarioError, Setting},
};
use giusto_congestion::Algorithm;
use giusto_sim::link::rate::RateProfile;
use giusto_units::{DataRate, TimeDelta};
use serde::Serialize;

use super::{
    expected::{
        AS_THE_REFERENCE, Expected, FAIR_OVER_5S, FAIR_OVER_20S, MARKED_DELAY, MARKED_GOODPUT, NOT_STARVED,
        PRIORITY, STEADY,
    },
    metrics::{Bottleneck, constant_rate},
};

const ONE: &[Bottleneck] = &[("bottleneck", &["s1"])];
const TWO: &[Bottleneck] = &[("bottleneck", &["s1", "s2"])];
const THREE: &[Bottleneck] = &[("bottleneck", &["s1", "s2", "s3"])];
const FIVE: &[Bottleneck] = &[("bottleneck", &["s1", "s2", "s3", "s4", "s5"])];
const BOTH_WAYS: &[Bottleneck] = &[("bottleneck", &["s1"]), ("bottleneck:reverse", &["s2"])];
const IN_A_ROW: &[Bottleneck] = &[("a-b", &["s1", "s2"]), ("c-d", &["s1", "s3"])];

/// The queue of §6.2: `CoDel` that marks, with the limit of the queues of the other cases.
const MARKING: &str = r#"{ kind = "codel", limit = "300 ms" }"#;

/// A test case of RFC 8867, or a variant that the document describes.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name: the section, and what distinguishes it.
    pub id: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Its file in `scenarios/rfc8867`.
    pub file: &'static str,
    /// Values that replace those of the file.
    settings: &'static [(&'static str, &'static str)],
    /// Whether media is ECN-capable and the bottleneck marks (§6.2).
    marks: bool,
    /// The id of the case that it is compared with.
    pub(super) against: Option<&'static str>,
    /// Judged besides the expectations of the file.
    pub(super) judged: &'static [Expected],
    /// Its bottlenecks with the media flows that cross them.
    pub(super) bottlenecks: &'static [Bottleneck],
    quick: bool,
}

/// A change of all cases that no rule was tuned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Variant {
    /// All rates of links and UDP times 0.7.
    #[serde(rename = "capacity-0.7")]
    LowCapacity,
    /// All rates of links and UDP times 1.5.
    #[serde(rename = "capacity-1.5")]
    HighCapacity,
    /// 30 ms more one-way delay at the first bottleneck.
    #[serde(rename = "rtt-30ms")]
    LongRtt,
}

giusto_units::names!(Variant {
    LowCapacity = "capacity × 0.7",
    HighCapacity = "capacity × 1.5",
    LongRtt = "RTT + 30 ms",
});

impl Variant {
    fn settings(self, scenario: &Scenario, bottlenecks: &[Bottleneck]) -> Vec<Setting> {
        let factor = match self {
            Self::LowCapacity => 0.7,
            Self::HighCapacity => 1.5,
            Self::LongRtt => {
                let first = bottlenecks.first().map_or("", |(id, _)| id);
                let link = scenario.links().iter().find(|link| link.id == first);
                let delay = link.and_then(|link| Some(link.config.delay.as_steps().first()?.1));
                let value = delay.map(|delay| (delay + TimeDelta::from_millis(30)).to_string());
                let setting = value.map(|value| Setting { path: format!("{first}.delay"), value });
                return setting.into_iter().collect();
            }
        };
        let links = scenario.links().iter().filter_map(|link| {
            let id =
                link.id.strip_suffix(REVERSE).map_or_else(|| link.id.clone(), |id| format!("{id}.reverse"));
            Some(Setting { path: format!("{id}.rate"), value: scaled(&link.config.rate, factor)? })
        });
        let udp = scenario.flows().iter().filter_map(|flow| {
            let value = scaled(constant_rate(flow)?, factor)?;
            Some(Setting { path: format!("flow.{}.rate", flow.id), value })
        });
        links.chain(udp).collect()
    }
}

/// A rate of a scenario file, multiplied; `None` if it is unlimited.
fn scaled(profile: &RateProfile, factor: f64) -> Option<String> {
    let rate = |rate: &DataRate| format!("\"{} bit/s\"", (rate.as_bps() as f64 * factor).round());
    match profile {
        RateProfile::Fixed(fixed) => Some(rate(fixed)),
        RateProfile::Steps { steps, .. } => {
            let steps = steps.iter().map(|(at, bps)| format!("[\"{} s\", {}]", at.as_seconds(), rate(bps)));
            Some(format!("{{ steps = [{}] }}", steps.collect::<Vec<_>>().join(", ")))
        }
        _ => None,
    }
}

const OSCILLATION: &[Expected] = &[STEADY];
const FAIR_5S: &[Expected] = &[FAIR_OVER_5S, STEADY];
const FAIR: &[Expected] = &[FAIR_OVER_5S, FAIR_OVER_20S, STEADY];
const SHORT_TCP: &[Expected] = &[NOT_STARVED, FAIR_OVER_20S];
const PRIORITIES: &[Expected] = &[PRIORITY, STEADY];
const MARKED: &[Expected] = &[MARKED_GOODPUT, MARKED_DELAY];
const MARKED_STEADY: &[Expected] = &[MARKED_GOODPUT, MARKED_DELAY, STEADY];
const REFERENCE: &[Expected] = &[AS_THE_REFERENCE, STEADY];

const fn case(
    id: &'static str,
    what: &'static str,
    file: &'static str,
    bottlenecks: &'static [Bottleneck],
    judged: &'static [Expected],
) -> Case {
    let settings = &[];
    Case { id, what, file, settings, marks: false, against: None, judged, bottlenecks, quick: false }
}

impl Case {
    const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    const fn with(self, settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { settings, ..self }
    }

    const fn against(self, other: &'static str) -> Self {
        Self { against: Some(other), ..self }
    }

    /// The case `base` with marks (§6.2).
    const fn marking(self, base: &'static str) -> Self {
        Self { marks: true, ..self.against(base) }
    }
}

/// All cases, in the order of the document.
pub const CASES: &[Case] = &[
    case("5.1", "variable capacity, one flow", "5.1-variable-capacity.toml", ONE, OSCILLATION).quick(),
    case("5.1-100ms", "variable capacity, 100 ms forwards", "5.1-variable-capacity.toml", ONE, OSCILLATION)
        .with(&[("bottleneck.delay", "100 ms")]),
    case("5.1-udp", "variable capacity by UDP, one flow", "5.1-variable-capacity-udp.toml", ONE, OSCILLATION),
    case("5.2", "variable capacity, two flows", "5.2-several-flows.toml", TWO, FAIR_5S),
    case("5.2-udp", "variable capacity by UDP, two flows", "5.2-several-flows-udp.toml", TWO, FAIR_5S),
    case("5.3", "congested feedback link", "5.3-congested-feedback.toml", BOTH_WAYS, REFERENCE)
        .against("5.3-clean"),
    case(
        "5.3-clean",
        "clean feedback link, the reference",
        "5.3-clean-feedback.toml",
        BOTH_WAYS,
        OSCILLATION,
    ),
    case("5.4", "same algorithm", "5.4-same-algorithm.toml", THREE, FAIR).quick(),
    case("5.5", "round-trip fairness", "5.5-rtt-fairness.toml", FIVE, FAIR),
    case("5.6", "long TCP, queue of 300 ms", "5.6-long-tcp.toml", ONE, &[]).quick(),
    case("5.6-1000ms", "long TCP, queue of 1000 ms", "5.6-long-tcp.toml", ONE, &[])
        .with(&[("bottleneck.queue.limit", "1000 ms")]),
    case("5.7", "short TCP flows", "5.7-short-tcp.toml", TWO, SHORT_TCP),
    case("5.8", "pause and resume", "5.8-pause-resume.toml", THREE, FAIR),
    case("6.1", "priority (not expressible)", "6.1-priority.toml", THREE, PRIORITIES),
    case("6.2", "ECN: variable capacity, one flow", "6.2-ecn.toml", ONE, MARKED_STEADY).against("5.1"),
    case("6.2-5.2", "ECN: variable capacity, two flows", "5.2-several-flows.toml", TWO, MARKED)
        .marking("5.2"),
    case("6.2-5.3", "ECN: congested feedback link", "5.3-congested-feedback.toml", BOTH_WAYS, MARKED)
        .marking("5.3"),
    case("6.2-5.4", "ECN: same algorithm", "5.4-same-algorithm.toml", THREE, MARKED).marking("5.4"),
    case("6.2-5.5", "ECN: round-trip fairness", "5.5-rtt-fairness.toml", FIVE, MARKED).marking("5.5"),
    case("6.2-5.6", "ECN: long TCP", "5.6-long-tcp.toml", ONE, MARKED).marking("5.6"),
    case("6.2-5.7", "ECN: short TCP flows", "5.7-short-tcp.toml", TWO, MARKED).marking("5.7"),
    case("6.2-5.8", "ECN: pause and resume", "5.8-pause-resume.toml", THREE, MARKED).marking("5.8"),
    case("6.3", "multiple bottlenecks", "6.3-multiple-bottlenecks.toml", IN_A_ROW, OSCILLATION),
];

impl Case {
    /// The cases of a quick reproduction, or all.
    pub fn list(quick: bool) -> impl Iterator<Item = Self> {
        CASES.iter().copied().filter(move |case| case.quick || !quick)
    }

    /// Its scenario with every media flow under `controller`, changed by `variant`.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: the file is invalid, which a test excludes.
    pub fn scenario(
        &self,
        controller: Algorithm,
        variant: Option<Variant>,
    ) -> Result<Scenario, ScenarioError> {
        self.document()?.scenario(&self.settings(controller, variant)?)
    }

    fn document(&self) -> Result<Document, ScenarioError> {
        explore::built_in(&format!("rfc8867/{}", self.file.trim_end_matches(".toml")))
    }

    /// The expectations of its file.
    pub(super) fn expectations(&self) -> Result<Vec<Expectation>, ScenarioError> {
        Ok(self.document()?.scenario(&[])?.expectations().to_vec())
    }

    fn settings(
        &self,
        controller: Algorithm,
        variant: Option<Variant>,
    ) -> Result<Vec<Setting>, ScenarioError> {
        let set = |path: String, value: &str| Setting { path, value: value.to_owned() };
        let mut settings: Vec<Setting> =
            self.settings.iter().map(|&(path, value)| set(path.to_owned(), value)).collect();
        if self.marks {
            settings.push(set("bottleneck.queue".to_owned(), MARKING));
        }
        for flow in self.media() {
            settings.push(set(format!("flow.{flow}.controller"), controller.name()));
            if self.marks {
                settings.push(set(format!("flow.{flow}.ecn"), "ect0"));
            }
        }
        if let Some(variant) = variant {
            let scenario = self.document()?.scenario(&settings)?;
            settings.extend(variant.settings(&scenario, self.bottlenecks));
        }
        Ok(settings)
    }

    /// The command that repeats one run.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: the file is invalid, which a test excludes.
    pub fn command(
        &self,
        controller: Algorithm,
        seed: u64,
        variant: Option<Variant>,
    ) -> Result<String, ScenarioError> {
        let settings = self.settings(controller, variant)?;
        let settings = settings.iter().map(|Setting { path, value }| format!(" --set '{path}={value}'"));
        let settings: String = settings.collect();
        Ok(format!("giusto sim scenarios/rfc8867/{} --seed {seed}{settings}", self.file))
    }

    /// Whether its media compete with TCP.
    pub(super) fn has_tcp(&self) -> bool {
        self.file.ends_with("-tcp.toml")
    }

    /// Its media flows.
    pub(super) fn media(&self) -> impl Iterator<Item = &'static str> {
        let mut names: Vec<&'static str> =
            self.bottlenecks.iter().flat_map(|(_, flows)| flows.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}
