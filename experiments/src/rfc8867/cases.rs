//! The test cases: their scenarios, what is set in them, and what is judged beside their own expectations.

use giusto::scenario::{Document, FlowKind, Scenario, ScenarioError, Setting};
use giusto_congestion::Algorithm;

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

/// The queue of §6.2: controlled delay that marks, as large as the queues of the other cases.
const MARKING: &str = r#"{ kind = "codel", limit = "300 ms" }"#;

/// A test case of RFC 8867, or one of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// What it is called: the section, and what sets it apart.
    pub id: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// The name of its file in `scenarios/rfc8867`.
    pub file: &'static str,
    text: &'static str,
    /// What is set in the file.
    settings: &'static [(&'static str, &'static str)],
    /// Whether every packet of media can bear marks, and the bottleneck makes them (§6.2).
    marks: bool,
    /// The case that it is compared with, by its id.
    pub(super) against: Option<&'static str>,
    /// What is judged beside the expectations of the file.
    pub(super) judged: &'static [Judged],
    /// Where its flows meet.
    pub(super) bottlenecks: &'static [Bottleneck],
    quick: bool,
}

/// What is judged beside the expectations of a file: what needs more than one figure, or another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// RFC 8868 §3, item 7, over 5 s.
    FairOver5s,
    /// RFC 8868 §3, item 7, over 20 s.
    FairOver20s,
    /// RFC 8868 §3, item 9.
    Steady,
    /// §5.3: the media forwards against those of the reference.
    AsTheReference,
    /// §5.7: the worst 5 s of a media flow.
    NotStarved,
    /// §6.1: twice the rate of the others.
    Priority,
    /// §6.2: the goodput against that without marks.
    MarkedGoodput,
    /// §6.2: the delay in queues against that without marks.
    MarkedDelay,
}

use Judged::{
    AsTheReference, FairOver5s, FairOver20s, MarkedDelay, MarkedGoodput, NotStarved, Priority, Steady,
};

const PLAIN: Case = Case {
    id: "",
    what: "",
    file: "",
    text: "",
    settings: &[],
    marks: false,
    against: None,
    judged: &[Steady],
    bottlenecks: ONE,
    quick: false,
};

const fn case(id: &'static str, what: &'static str, (file, text): File) -> Case {
    Case { id, what, file, text, ..PLAIN }
}

/// A case of §6.2: `base` with marks.
const fn marked(id: &'static str, what: &'static str, base: Case) -> Case {
    Case {
        id,
        what,
        marks: true,
        against: Some(base.id),
        judged: &[MarkedGoodput, MarkedDelay],
        quick: false,
        ..base
    }
}

const C51: Case = Case { quick: true, ..case("5.1", "variable capacity, one flow", F51) };
const C52: Case = Case {
    bottlenecks: TWO,
    judged: &[FairOver5s, Steady],
    ..case("5.2", "variable capacity, two flows", F52)
};
const C53: Case = Case {
    bottlenecks: BOTH_WAYS,
    against: Some("5.3-clean"),
    judged: &[AsTheReference, Steady],
    ..case("5.3", "congested feedback link", F53)
};
const C54: Case = Case {
    bottlenecks: THREE,
    judged: &[FairOver5s, FairOver20s, Steady],
    quick: true,
    ..case("5.4", "same algorithm", F54)
};
const C55: Case = Case {
    bottlenecks: FIVE,
    judged: &[FairOver5s, FairOver20s, Steady],
    ..case("5.5", "round-trip fairness", F55)
};
const C56: Case = Case { judged: &[], quick: true, ..case("5.6", "long TCP, queue of 300 ms", F56) };
const C57: Case =
    Case { bottlenecks: TWO, judged: &[NotStarved, FairOver20s], ..case("5.7", "short TCP flows", F57) };
const C58: Case = Case {
    bottlenecks: THREE,
    judged: &[FairOver5s, FairOver20s, Steady],
    ..case("5.8", "pause and resume", F58)
};

/// All cases and their variants, in the order of the document.
pub const CASES: &[Case] = &[
    C51,
    Case {
        settings: &[("bottleneck.delay", "100 ms")],
        ..case("5.1-100ms", "variable capacity, 100 ms forwards", F51)
    },
    case("5.1-udp", "variable capacity by UDP, one flow", F51_UDP),
    C52,
    Case {
        bottlenecks: TWO,
        judged: &[FairOver5s, Steady],
        ..case("5.2-udp", "variable capacity by UDP, two flows", F52_UDP)
    },
    C53,
    Case { bottlenecks: BOTH_WAYS, ..case("5.3-clean", "clean feedback link, the reference", F53_CLEAN) },
    C54,
    C55,
    C56,
    Case {
        settings: &[("bottleneck.queue.limit", "1000 ms")],
        judged: &[],
        ..case("5.6-1000ms", "long TCP, queue of 1000 ms", F56)
    },
    C57,
    C58,
    Case {
        bottlenecks: THREE,
        judged: &[Priority, Steady],
        ..case("6.1", "priority (not expressible)", F61)
    },
    Case {
        against: Some("5.1"),
        judged: &[MarkedGoodput, MarkedDelay, Steady],
        ..case("6.2", "ECN: variable capacity, one flow", F62)
    },
    marked("6.2-5.2", "ECN: variable capacity, two flows", C52),
    marked("6.2-5.3", "ECN: congested feedback link", C53),
    marked("6.2-5.4", "ECN: same algorithm", C54),
    marked("6.2-5.5", "ECN: round-trip fairness", C55),
    marked("6.2-5.6", "ECN: long TCP", C56),
    marked("6.2-5.7", "ECN: short TCP flows", C57),
    marked("6.2-5.8", "ECN: pause and resume", C58),
    Case { bottlenecks: IN_A_ROW, ..case("6.3", "multiple bottlenecks", F63) },
];

impl Case {
    /// The cases of a quick reproduction, or all.
    pub fn list(quick: bool) -> impl Iterator<Item = Self> {
        CASES.iter().copied().filter(move |case| case.quick || !quick)
    }

    /// Its scenario with every media flow under `controller`.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: the file is wrong, which a test excludes.
    pub fn scenario(&self, controller: Algorithm) -> Result<Scenario, ScenarioError> {
        let document = Document::parse(self.text, self.file)?;
        let set = |path: String, value: &str| Setting { path, value: value.to_owned() };
        let mut settings: Vec<Setting> =
            self.settings.iter().map(|&(path, value)| set(path.to_owned(), value)).collect();
        if self.marks {
            settings.push(set("bottleneck.queue".to_owned(), MARKING));
        }
        for flow in document.scenario(&[])?.flows() {
            if matches!(flow.kind, FlowKind::Media(_)) {
                settings.push(set(format!("flow.{}.controller", flow.id), controller.name()));
                if self.marks {
                    settings.push(set(format!("flow.{}.ecn", flow.id), "ect0"));
                }
            }
        }
        document.scenario(&settings)
    }

    /// The command that runs it alone.
    pub fn command(&self, controller: Algorithm, seed: u64) -> String {
        use std::fmt::Write;
        let mut text = format!("giusto sim scenarios/rfc8867/{} --seed {seed}", self.file);
        for (path, value) in self.settings {
            let _ = write!(text, " --set \"{path}={value}\"");
        }
        if self.marks {
            let _ = write!(text, " --set 'bottleneck.queue={MARKING}'");
        }
        for flow in self.media() {
            let _ = write!(text, " --set flow.{flow}.controller={controller}");
            if self.marks {
                let _ = write!(text, " --set flow.{flow}.ecn=ect0");
            }
        }
        text
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
