//! Replays the seeds of the fuzz target `video`, and runs the same code with random bytes.

#[path = "../../../fuzz/video_body.rs"]
mod video_body;

use proptest::prelude::*;

#[test]
fn seeds_of_video() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/video");
    let files: Vec<_> = std::fs::read_dir(&seeds).expect("the seeds are in the repository").collect();
    assert!(files.len() >= 5, "{} seeds", files.len());
    for file in files {
        let bytes = std::fs::read(file.expect("readable").path()).expect("readable");
        video_body::video(&bytes);
        // Damaged at every place.
        for at in 0..bytes.len().min(400) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            video_body::video(&damaged);
        }
    }
}

proptest! {
    #[test]
    fn random_bytes(begin in 0_usize..3, bytes: Vec<u8>) {
        let begin = [&b""[..], b"\x05DKIF\0\0\x20\0VP80", b"\x05\0\0\0\x01"][begin];
        video_body::video(&[begin, &bytes].concat());
    }
}
