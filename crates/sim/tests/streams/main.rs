//! Several streams of one sender: sharing, skipping, discarding and pausing.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

mod bad_input;
mod discarding;
mod lies;
mod link;
mod sharing;
mod window;
