//! Pins the records of a few runs: a scenario and a seed give the same bytes on every machine.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

use giusto::{
    run::{self, RecordOptions},
    scenario::Scenario,
};
use sha2::{Digest, Sha256};

/// TCP through RED with jitter and random losses, on-off traffic, and two calls with different controllers and encoders.
const LINKS: &str = r#"
duration = "20 s"
link = [{ id = "l", from = "a", to = "b", rate = "6 Mbit/s", delay = "20 ms", jitter = "rfc8868", loss = 0.002, queue = "red", reverse = { rate = "unlimited", delay = "20 ms" } }]
"#;

/// The first digits of the digest of the record of a run in which `flow` uses the link.
fn digest(flow: &str) -> String {
    let scenario =
        Scenario::parse(&format!("{LINKS}\n[[flow]]\nid = \"f\"\n{flow}"), "same_bytes.toml").unwrap();
    let record = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
    assert!(record.flows[0].received_packets > 1000, "{}", record.flows[0].received_packets);
    let json = serde_json::to_string(&record).unwrap();
    let digest = Sha256::digest(json.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// A change of a digest is a change of results: name it in the changelog.
#[test]
fn runs_have_the_same_bytes_on_every_machine() {
    let call = |controller: &str, video: &str| {
        format!("kind = \"media\"\ncontroller = \"{controller}\"\nvideo = {{ {video} }}")
    };
    let cases = [
        ("CUBIC", "kind = \"tcp\"\ncontrol = \"cubic\"\ncount = 2".to_owned(), "9f93d3b15c0f382b"),
        (
            "on-off",
            "kind = \"on-off\"\nrate = \"2 Mbit/s\"\nsize = \"500 B\"\non = { pareto = \"200 ms\", shape = 1.5 }\noff = { exponential = \"200 ms\" }".to_owned(),
            "6ebd0d7174cb8350",
        ),
        ("GCC", call("gcc:libwebrtc", "model = \"statistical\""), "439e69c520be5710"),
        ("SCReAM", call("scream:rfc8298", "model = \"perfect\", min = \"100 kbit/s\", max = \"6 Mbit/s\""), "ff305af3c3fe1667"),
    ];
    let found = cases.iter().map(|(name, flow, _)| (*name, digest(flow)));
    let expected = cases.iter().map(|(name, _, digest)| (*name, (*digest).to_owned()));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
