//! The Wi-Fi cases of RFC 8869 §3 as scenario files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use giusto::{
    run::{self, RecordOptions},
    scenario::Scenario,
};

/// The cases that run here; the others take longer and differ in traffic only.
const RUN: [&str; 7] = [
    "3.1-uplink",
    "3.1-pair",
    "3.1-pair-cbr-first",
    "3.1-pair-cbr-later",
    "3.1-tcp",
    "3.2-downlink",
    "3.2-varying-04",
];

fn files() -> Vec<(String, Scenario)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rfc8869");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    // Those of §2 are cities.
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("3."));
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let scenario = Scenario::parse(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        (name, scenario)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_case_of_wifi_has_a_file_with_two_sided_expectations() {
    let files = files();
    let of = |section: &str| files.iter().filter(|(name, _)| name.starts_with(section)).count();
    // §3.1.3 and §3.2.3; the last of them with four numbers of flows besides 16.
    assert_eq!((of("3.1-"), of("3.2-")), (5, 10));
    for (name, scenario) in &files {
        assert!(!scenario.expectations().is_empty(), "{name}");
        for own in scenario.expectations() {
            assert!(own.min.is_some() && own.max.is_some(), "{name}: {}", own.title());
        }
        let on_air: BTreeSet<&str> =
            scenario.links().iter().filter_map(|link| Some(link.medium.as_ref()?.id.as_str())).collect();
        assert_eq!(on_air, BTreeSet::from(["wifi"]), "{name}");
    }
}

#[test]
fn wifi_cases_meet_their_expectations() {
    let files = files();
    for name in RUN {
        let (_, scenario) = files.iter().find(|(other, _)| other == name).unwrap();
        let record = run::simulate(scenario, scenario.seed(), RecordOptions::default(), &mut ());
        assert!(record.passed(), "{name}: {:#?}", record.checks);
    }
}
