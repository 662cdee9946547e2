//! Replays the seeds of the fuzz target of the relay, and runs the same code with other bytes.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "../../../fuzz/emulator_body.rs"]
mod emulator_body;

use std::path::Path;

use emulator_body::emulator;

#[test]
fn seeds_of_the_relay() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/emulator");
    let files: Vec<_> = std::fs::read_dir(&seeds).unwrap().collect();
    assert!(!files.is_empty(), "no seeds in {}", seeds.display());
    for file in files {
        emulator(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn multiplied_bytes() {
    for seed in 1..500_u32 {
        let bytes: Vec<u8> =
            (0..90_u32).map(|n| (n.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        emulator(&bytes);
    }
}
