#![no_main]

#[path = "../media_body.rs"]
mod media_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| media_body::media(bytes));
