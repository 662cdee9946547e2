#![no_main]

#[path = "../browser_body.rs"]
mod browser_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| browser_body::browser(bytes));
