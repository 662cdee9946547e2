//! Several streams of one sender: how they share, skip, discard and pause.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

mod bad_input;
mod discarding;
mod lies;
mod link;
mod sharing;
mod window;
