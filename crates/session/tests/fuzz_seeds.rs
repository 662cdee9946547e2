//! Replays the seeds of the fuzz targets, and runs the same code with random bytes.

#[path = "../../../fuzz/bodies.rs"]
mod bodies;
#[path = "../../../fuzz/call_body.rs"]
mod call_body;
#[path = "../../../fuzz/media_body.rs"]
mod media_body;

use std::path::Path;

use proptest::prelude::*;

fn replay(target: &str, body: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files: Vec<_> = std::fs::read_dir(&seeds).expect("the seeds are in the repository").collect();
    assert!(!files.is_empty(), "no seeds in {}", seeds.display());
    for file in files {
        body(&std::fs::read(file.expect("readable").path()).expect("readable"));
    }
}

#[test]
fn seeds_of_datagrams() {
    replay("datagram", bodies::datagram);
}

#[test]
fn seeds_of_rtcp() {
    replay("rtcp", bodies::rtcp);
}

#[test]
fn seeds_of_sessions() {
    replay("session", bodies::session);
}

#[test]
fn seeds_of_senders() {
    replay("sender", bodies::sender);
}

#[test]
fn seeds_of_channels() {
    replay("channel", bodies::channel);
}

#[test]
fn seeds_of_calls() {
    replay("call", call_body::call);
}

#[test]
fn seeds_of_media() {
    replay("media", media_body::media);
}

#[test]
fn seeds_of_texts() {
    replay("text", bodies::text);
}

proptest! {
    #[test]
    fn random_bytes(bytes: Vec<u8>) {
        bodies::datagram(&bytes);
        bodies::rtcp(&bytes);
        bodies::session(&bytes);
        bodies::sender(&bytes);
        bodies::channel(&bytes);
        call_body::call(&bytes);
        media_body::media(&bytes);
        bodies::text(&bytes);
    }
}
