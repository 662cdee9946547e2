//! Replays the seeds of the fuzz target, and runs the same code with random bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

#[path = "../../../fuzz/browser_body.rs"]
mod browser_body;

use std::{fs, path::Path};

use proptest::{prelude::*, sample::Index};

fn seeds() -> Vec<Vec<u8>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/browser");
    fs::read_dir(&seeds).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn seeds_of_browsers() {
    assert!(seeds().len() >= 5, "no seeds");
    for seed in seeds() {
        browser_body::browser(&seed);
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes: Vec<u8>, kind in 0..4_u8) {
        browser_body::browser(&[&[kind], &bytes[..]].concat());
    }

    #[test]
    fn changed_and_cut_seeds(seed: Index, at: Index, byte: u8, cut: Index) {
        let mut bytes = seed.get(&seeds()).clone();
        browser_body::browser(&bytes[..cut.index(bytes.len())]);
        let at = at.index(bytes.len() - 1) + 1;
        bytes[at] = byte;
        browser_body::browser(&bytes);
    }
}
