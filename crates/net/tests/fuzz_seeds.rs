//! Replays the seeds of the fuzz targets of the relay and of the real-time emulator, and runs the same code with other bytes.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "../../../fuzz/emulator_body.rs"]
mod emulator_body;
#[cfg(feature = "emulate")]
#[path = "../../../fuzz/links_body.rs"]
mod links_body;

use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files: Vec<_> = std::fs::read_dir(&seeds).unwrap().collect();
    assert!(!files.is_empty(), "no seeds in {}", seeds.display());
    for file in files {
        body(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

fn multiplied(seeds: u32, length: u32, body: fn(&[u8])) {
    for seed in 1..seeds {
        let byte = |n: u32| (n.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 24) as u8;
        body(&(0..length).map(byte).collect::<Vec<_>>());
    }
}

#[test]
fn seeds_of_the_relay() {
    replay("emulator", emulator_body::emulator);
    multiplied(500, 90, emulator_body::emulator);
}

#[cfg(feature = "emulate")]
#[test]
fn seeds_of_the_links() {
    replay("links", links_body::links);
    multiplied(2000, 241, links_body::links);
}
