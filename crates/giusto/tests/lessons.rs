//! The lessons of `scenarios/lessons`: what their texts say happens.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::{fs, path::PathBuf};

use giusto::{
    run::{self, RecordOptions},
    scenario::{Document, Setting},
};
use rayon::prelude::*;

fn lessons() -> Vec<Document> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lessons");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| Document::load(path).unwrap()).collect()
}

/// What fails of the expectations of a file with these settings.
fn unmet(document: &Document, settings: &[Setting]) -> Vec<String> {
    let scenario = document.scenario(settings).unwrap();
    assert!(!scenario.expectations().is_empty(), "{}: {settings:?}", scenario.name());
    for expectation in scenario.expectations() {
        assert!(expectation.min.is_some() && expectation.max.is_some(), "{}", expectation.title());
    }
    let seeds = [1, 2].into_iter();
    let records = seeds.map(|seed| run::simulate(&scenario, seed, RecordOptions::default(), &mut ()));
    let checks = records.flat_map(|record| record.checks).filter(|check| !check.passed);
    checks.map(|check| format!("{}, {settings:?}: {check:?}", scenario.name())).collect()
}

#[test]
fn every_lesson_and_each_of_its_steps_meet_their_expectations() {
    let lessons = lessons();
    assert_eq!(lessons.len(), 10);
    let wrong: Vec<String> = lessons
        .par_iter()
        .flat_map(|document| {
            let steps = document.lesson().unwrap().unwrap().steps;
            assert!(!steps.is_empty(), "{}", document.text());
            let all: Vec<Vec<Setting>> =
                std::iter::once(Vec::new()).chain(steps.into_iter().map(|step| step.settings)).collect();
            all.into_par_iter().flat_map_iter(|settings| unmet(document, &settings))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
