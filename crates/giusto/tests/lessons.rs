//! The lessons of `scenarios/lessons`: what their texts say happens.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::{fs, path::PathBuf};

use giusto::{
    run::{self, RecordOptions},
    scenario::{Document, Setting, Step},
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
    assert_eq!(lessons.len(), 15);
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

#[test]
fn a_lesson_is_guessed_turned_and_tried() {
    for document in lessons() {
        let (name, lesson) = (document.name().to_owned(), document.lesson().unwrap().unwrap());
        let right = lesson.right as usize;
        assert!((1..=lesson.guesses.len()).contains(&right) && lesson.guesses.len() <= 4, "{name}");
        assert!((1..=2).contains(&lesson.charts.len()) && (1..=3).contains(&lesson.knobs.len()), "{name}");
        assert!(!lesson.seen.is_empty() && lesson.command.contains("giusto "), "{name}");
        // What a phone shows without scrolling.
        for text in [&lesson.question, &lesson.seen, &lesson.answer] {
            let length = text.chars().count();
            assert!((40..=330).contains(&length), "{name}: {length} characters: {text}");
        }
        let is_expectation = |own: &&Setting| own.path == "expect";
        for step in &lesson.steps {
            let lengths = [&step.text, &step.seen].map(|text| text.chars().count());
            assert!(lengths[0] <= 160 && lengths[1] <= 210, "{name}: {}", step.text);
            // The knobs can be turned to it, each to one position.
            let settings: Vec<&Setting> = step.settings.iter().filter(|own| !is_expectation(own)).collect();
            let fits = |own: &&Step| own.settings.iter().all(|one| settings.contains(&one));
            let positions = lesson
                .knobs
                .iter()
                .filter_map(|knob| knob.positions.iter().filter(fits).max_by_key(|own| own.settings.len()));
            let mut turned: Vec<&Setting> = positions.flat_map(|own| &own.settings).collect();
            let mut wanted = settings.clone();
            for list in [&mut turned, &mut wanted] {
                list.sort_by_key(|own| &own.path);
            }
            assert_eq!(turned, wanted, "{name}: {}", step.text);
        }
        // Each position runs, and the first one is that of the file.
        for knob in &lesson.knobs {
            assert!((2..=4).contains(&knob.positions.len()), "{name}: {}", knob.name);
            for (place, position) in knob.positions.iter().enumerate() {
                assert_eq!(position.settings.is_empty(), place == 0, "{name}: {}", position.text);
                let scenario = document.scenario(&position.settings);
                assert!(scenario.is_ok(), "{name}: {:?}", scenario.err());
            }
        }
    }
}
