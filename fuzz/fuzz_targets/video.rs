#![no_main]

#[path = "../video_body.rs"]
mod video_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| video_body::video(bytes));
