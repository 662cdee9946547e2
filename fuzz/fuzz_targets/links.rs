#![no_main]

#[path = "../links_body.rs"]
mod links_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| links_body::links(bytes));
