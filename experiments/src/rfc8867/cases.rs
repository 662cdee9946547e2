//! The test cases: scenarios, settings, and judgements that the scenario files do not contain.

use giusto::scenario::{Document, FlowKind, LinkSpec, REVERSE, Scenario, ScenarioError, Setting};
use giusto_congestion::Algorithm;
use giusto_sim::{link::rate::RateProfile, traffic::Departures};
use giusto_units::{DataRate, TimeDelta};
use serde::Serialize;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../scenarios/rfc8867/", $name)))
    };
}

type File = (&'static str, &'static str);

const F51: File = file!("5.1-variable-capacity.toml");
const F51_UDP: File = file!("5.1-variable-capacity-udp.toml");
const F52: File = file!("5.2-several-flows.toml");
const F52_UDP: File = file!("5.2-several-flows-udp.toml");
const F53: File = file!("5.3-congested-feedback.toml");
const F53_CLEAN: File = file!("5.3-clean-feedback.toml");
const F54: File = file!("5.4-same-algorithm.toml");
const F55: File = file!("5.5-rtt-fairness.toml");
const F56: File = file!("5.6-long-tcp.toml");
const F57: File = file!("5.7-short-tcp.toml");
const F58: File = file!("5.8-pause-resume.toml");
const F61: File = file!("6.1-priority.toml");
const F62: File = file!("6.2-ecn.toml");
const F63: File = file!("6.3-multiple-bottlenecks.toml");

/// A bottleneck and the media flows that cross it.
type Bottleneck = (&'static str, &'static [&'static str]);

const ONE: &[Bottleneck] = &[("bottleneck", &["s1"])];
const TWO: &[Bottleneck] = &[("bottleneck", &["s1", "s2"])];
const THREE: &[Bottleneck] = &[("bottleneck", &["s1", "s2", "s3"])];
const FIVE: &[Bottleneck] = &[("bottleneck", &["s1", "s2", "s3", "s4", "s5"])];
const BOTH_WAYS: &[Bottleneck] = &[("bottleneck", &["s1"]), ("bottleneck:reverse", &["s2"])];
const IN_A_ROW: &[Bottleneck] = &[("a-b", &["s1", "s2"]), ("c-d", &["s1", "s3"])];

/// The queue of §6.2: `CoDel` that marks, with the limit of the queues of the other cases.
const MARKING: &str = r#"{ kind = "codel", limit = "300 ms" }"#;

/// A test case of RFC 8867, or a variant that the document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Its name: the section, and what distinguishes it.
    pub id: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Its file in `scenarios/rfc8867`.
    pub file: &'static str,
    text: &'static str,
    /// Values that replace those of the file.
    settings: &'static [(&'static str, &'static str)],
    /// Whether media is ECN-capable and the bottleneck marks (§6.2).
    marks: bool,
    /// The id of the case that it is compared with.
    pub(super) against: Option<&'static str>,
    /// Judged besides the expectations of the file.
    pub(super) judged: &'static [Judged],
    /// Its bottlenecks with the media flows that cross them.
    pub(super) bottlenecks: &'static [Bottleneck],
    quick: bool,
}

/// A judgement that needs more than one figure, or another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// RFC 8868 §3, item 7, over 5 s.
    FairOver5s,
    /// RFC 8868 §3, item 7, over 20 s.
    FairOver20s,
    /// RFC 8868 §3, item 9.
    Steady,
    /// §5.3: the goodput of the forward media over that of the reference.
    AsTheReference,
    /// §5.7: the worst 5 s of a media flow.
    NotStarved,
    /// §6.1: twice the rate of the other flows.
    Priority,
    /// §6.2: the goodput over that without marks.
    MarkedGoodput,
    /// §6.2: the queueing delay over that without marks.
    MarkedDelay,
    /// Of held-out variants, without TCP: the settled media rate over the capacity or the maximum of the media.
    Used,
}

use Judged::{
    AsTheReference, FairOver5s, FairOver20s, MarkedDelay, MarkedGoodput, NotStarved, Priority, Steady,
};

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

impl Variant {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::LowCapacity, Self::HighCapacity, Self::LongRtt];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowCapacity => "capacity × 0.7",
            Self::HighCapacity => "capacity × 1.5",
            Self::LongRtt => "RTT + 30 ms",
        }
    }

    fn settings(self, scenario: &Scenario, bottlenecks: &[Bottleneck]) -> Vec<Setting> {
        let factor = match self {
            Self::LowCapacity => 0.7,
            Self::HighCapacity => 1.5,
            Self::LongRtt => {
                let first = bottlenecks
                    .first()
                    .and_then(|(id, _)| scenario.links().iter().find(|link| link.id == *id));
                let delay = |link: &LinkSpec| {
                    Some(link.config.delay.as_steps().first()?.1 + TimeDelta::from_millis(30))
                };
                let longer = |link: &LinkSpec| {
                    Some(Setting { path: format!("{}.delay", link.id), value: delay(link)?.to_string() })
                };
                return first.and_then(longer).into_iter().collect();
            }
        };
        let links = scenario.links().iter().filter_map(|link| {
            let id =
                link.id.strip_suffix(REVERSE).map_or_else(|| link.id.clone(), |id| format!("{id}.reverse"));
            Some(Setting { path: format!("{id}.rate"), value: scaled(&link.config.rate, factor)? })
        });
        let udp = scenario.flows().iter().filter_map(|flow| match &flow.kind {
            FlowKind::Source { departures: Departures::Constant(profile), .. } => {
                Some(Setting { path: format!("flow.{}.rate", flow.id), value: scaled(profile, factor)? })
            }
            _ => None,
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

const STEADY: &[Judged] = &[Steady];
const FAIR_5S: &[Judged] = &[FairOver5s, Steady];
const FAIR: &[Judged] = &[FairOver5s, FairOver20s, Steady];
const MARKED: &[Judged] = &[MarkedGoodput, MarkedDelay];
const MARKED_STEADY: &[Judged] = &[MarkedGoodput, MarkedDelay, Steady];
const REFERENCE: &[Judged] = &[AsTheReference, Steady];

const fn case(
    id: &'static str,
    what: &'static str,
    (file, text): File,
    bottlenecks: &'static [Bottleneck],
    judged: &'static [Judged],
) -> Case {
    let settings = &[];
    Case { id, what, file, text, settings, marks: false, against: None, judged, bottlenecks, quick: false }
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
    case("5.1", "variable capacity, one flow", F51, ONE, STEADY).quick(),
    case("5.1-100ms", "variable capacity, 100 ms forwards", F51, ONE, STEADY)
        .with(&[("bottleneck.delay", "100 ms")]),
    case("5.1-udp", "variable capacity by UDP, one flow", F51_UDP, ONE, STEADY),
    case("5.2", "variable capacity, two flows", F52, TWO, FAIR_5S),
    case("5.2-udp", "variable capacity by UDP, two flows", F52_UDP, TWO, FAIR_5S),
    case("5.3", "congested feedback link", F53, BOTH_WAYS, REFERENCE).against("5.3-clean"),
    case("5.3-clean", "clean feedback link, the reference", F53_CLEAN, BOTH_WAYS, STEADY),
    case("5.4", "same algorithm", F54, THREE, FAIR).quick(),
    case("5.5", "round-trip fairness", F55, FIVE, FAIR),
    case("5.6", "long TCP, queue of 300 ms", F56, ONE, &[]).quick(),
    case("5.6-1000ms", "long TCP, queue of 1000 ms", F56, ONE, &[])
        .with(&[("bottleneck.queue.limit", "1000 ms")]),
    case("5.7", "short TCP flows", F57, TWO, &[NotStarved, FairOver20s]),
    case("5.8", "pause and resume", F58, THREE, FAIR),
    case("6.1", "priority (not expressible)", F61, THREE, &[Priority, Steady]),
    case("6.2", "ECN: variable capacity, one flow", F62, ONE, MARKED_STEADY).against("5.1"),
    case("6.2-5.2", "ECN: variable capacity, two flows", F52, TWO, MARKED).marking("5.2"),
    case("6.2-5.3", "ECN: congested feedback link", F53, BOTH_WAYS, MARKED).marking("5.3"),
    case("6.2-5.4", "ECN: same algorithm", F54, THREE, MARKED).marking("5.4"),
    case("6.2-5.5", "ECN: round-trip fairness", F55, FIVE, MARKED).marking("5.5"),
    case("6.2-5.6", "ECN: long TCP", F56, ONE, MARKED).marking("5.6"),
    case("6.2-5.7", "ECN: short TCP flows", F57, TWO, MARKED).marking("5.7"),
    case("6.2-5.8", "ECN: pause and resume", F58, THREE, MARKED).marking("5.8"),
    case("6.3", "multiple bottlenecks", F63, IN_A_ROW, STEADY),
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
        Document::parse(self.text, self.file)?.scenario(&self.settings(controller, variant)?)
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
            let scenario = Document::parse(self.text, self.file)?.scenario(&settings)?;
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
