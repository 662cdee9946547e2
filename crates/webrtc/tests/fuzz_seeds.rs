//! Replays the seeds of the fuzz target, and runs the same code with random bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail loudly")]

#[path = "../../../fuzz/browser_body.rs"]
mod browser_body;

use std::path::Path;

use proptest::prelude::*;

#[test]
fn seeds_of_browsers() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/browser");
    let files: Vec<_> = std::fs::read_dir(&seeds).unwrap().collect();
    assert!(files.len() >= 5, "no seeds in {}", seeds.display());
    for file in files {
        browser_body::browser(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes: Vec<u8>, kind in 0..4_u8) {
        browser_body::browser(&[&[kind], &bytes[..]].concat());
    }
}
