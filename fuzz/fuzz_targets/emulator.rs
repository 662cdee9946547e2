#![no_main]

#[path = "../emulator_body.rs"]
mod emulator_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emulator_body::emulator(bytes));
