//! What a page calls: it puts a request where [`giusto_input`] says, calls [`giusto_answer`], and reads the answer at [`giusto_output`].
#![allow(unsafe_code)] // names that are not mangled: no other library here has these names

use std::{cell::RefCell, panic};

use crate::Engine;

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::default();
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn put(text: String) {
    OUTPUT.set(text.into_bytes());
}

/// The place of a request of `length` bytes.
#[unsafe(no_mangle)]
extern "C" fn giusto_input(length: usize) -> *mut u8 {
    // A panic ends the instance: its message is the last output.
    panic::set_hook(Box::new(|about| put(about.to_string())));
    INPUT.with_borrow_mut(|input| {
        *input = vec![0; length];
        input.as_mut_ptr()
    })
}

/// Answers the request. The answer has [`giusto_length`] bytes at [`giusto_output`]. 0: it is the answer; 1: it is a list of problems.
#[unsafe(no_mangle)]
extern "C" fn giusto_answer() -> u32 {
    let request = String::from_utf8_lossy(&INPUT.take()).into_owned();
    let (status, text) = match ENGINE.with_borrow_mut(|engine| engine.answer(&request)) {
        Ok(text) => (0, text),
        Err(problems) => (1, serde_json::to_string(&problems).unwrap_or_default()),
    };
    put(text);
    status
}

/// The place of the answer, or of what is known about a panic.
#[unsafe(no_mangle)]
extern "C" fn giusto_output() -> *const u8 {
    OUTPUT.with_borrow(Vec::as_ptr)
}

/// The number of its bytes.
#[unsafe(no_mangle)]
extern "C" fn giusto_length() -> usize {
    OUTPUT.with_borrow(Vec::len)
}
