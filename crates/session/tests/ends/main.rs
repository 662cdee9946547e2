//! Both ends of sessions over simulated networks, on a virtual clock.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod admission;
mod authentication;
mod conservation;
mod frames;
mod late;
mod moves;
mod prelude;
mod repair;
mod rtcp;
mod rtp_delay;
mod session;
mod video;
