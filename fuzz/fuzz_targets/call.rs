#![no_main]

#[path = "../call_body.rs"]
mod call_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| call_body::call(bytes));
