//! Times for tests.

use std::time::{Duration, Instant};

/// A first instant. Its value does not matter, and there is no other way to get one.
#[expect(clippy::disallowed_methods, reason = "times of a test are relative to it")]
pub(crate) fn origin() -> Instant {
    Instant::now()
}

pub(crate) fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}
