//! Replays the seeds of the fuzz target of the real-time emulator, and runs the same code with other bytes.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "../../../fuzz/links_body.rs"]
mod links_body;

use std::path::Path;

use links_body::links;

#[test]
fn seeds_of_the_links() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/links");
    let files: Vec<_> = std::fs::read_dir(&seeds).unwrap().collect();
    assert!(!files.is_empty(), "no seeds in {}", seeds.display());
    for file in files {
        links(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn multiplied_bytes() {
    for seed in 1..2000_u32 {
        let bytes: Vec<u8> =
            (0..241_u32).map(|n| (n.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        links(&bytes);
    }
}
