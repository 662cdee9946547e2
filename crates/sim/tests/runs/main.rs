//! Complete runs: calls between two ends, queues against theory, a sender on a busy machine, and pictures.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

mod bad_input;
mod discarding;
mod lies;
mod link;
mod loaded_machine;
mod long_calls;
mod media;
mod own_feedback;
mod pictures;
mod queueing;
mod sender;
mod sharing;
mod video;
mod window;
