//! Replays the seeds of the fuzz targets, and runs the same code with random bytes.

#[path = "../../../fuzz/bodies.rs"]
mod bodies;
#[path = "../../../fuzz/call_body.rs"]
mod call_body;
#[path = "../../../fuzz/media_body.rs"]
mod media_body;
#[path = "../../../fuzz/video_body.rs"]
mod video_body;

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

macro_rules! seeds {
    ($($test:ident: $target:literal, $body:expr;)*) => {
        $(#[test] fn $test() { replay($target, $body); })*
    };
}

seeds! {
    seeds_of_datagrams: "datagram", bodies::datagram;
    seeds_of_rtcp: "rtcp", bodies::rtcp;
    seeds_of_sessions: "session", bodies::session;
    seeds_of_senders: "sender", bodies::sender;
    seeds_of_channels: "channel", bodies::channel;
    seeds_of_calls: "call", call_body::call;
    seeds_of_media: "media", media_body::media;
    seeds_of_texts: "text", bodies::text;
    seeds_of_video: "video", damaged_at_every_place;
}

fn damaged_at_every_place(bytes: &[u8]) {
    video_body::video(bytes);
    for at in 0..bytes.len().min(400) {
        let mut damaged = bytes.to_vec();
        damaged.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x55);
        video_body::video(&damaged);
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes: Vec<u8>, kind: u8) {
        bodies::datagram(&bytes);
        bodies::datagram(&[&[b'g', b'i', b'u', 0x30 | (kind % 4)], &bytes[..]].concat());
        bodies::rtcp(&bytes);
        // A packet of any type, with the length that it has.
        let words = bytes.len() / 4;
        let rtcp = [&[0x80 | kind >> 3, 200 + kind % 8, 0, words as u8], &bytes[..words * 4]].concat();
        bodies::rtcp(&rtcp);
        // The same, and an RTP packet, to the sender of media and to its receiver.
        for packet in [rtcp, [&[0x80 | kind & 0x1f, [96, 98, 99, 111][usize::from(kind % 4)]], &bytes[..]].concat()] {
            for way in [12, 13] {
                media_body::media(&[&[kind, way, packet.len() as u8, kind], &packet[..], &bytes].concat());
            }
        }
        bodies::session(&bytes);
        bodies::sender(&bytes);
        bodies::channel(&bytes);
        call_body::call(&bytes);
        // The same as a datagram of a call, to either end, when its first messages have arrived.
        let message = [&[b'g', b'i', b'u', 0x30 | (kind % 8)], &bytes[..]].concat();
        let opening = [174_u8, 0, 0].repeat(20);
        call_body::call(&[&[kind], &opening[..], &[0, message.len() as u8, kind], &message].concat());
        media_body::media(&bytes);
        let begin = [&b""[..], b"\x05DKIF\0\0\x20\0VP80", b"\x05\0\0\0\x01"][usize::from(kind % 3)];
        video_body::video(&[begin, &bytes].concat());
    }

    #[test]
    fn random_texts(text in "((uniform|normal|exp|lognormal|pareto|choice):)?[0-9.,#*\\-+a-z_\n ]{0,80}", any: String) {
        bodies::text(text.as_bytes());
        bodies::text(any.as_bytes());
    }
}
