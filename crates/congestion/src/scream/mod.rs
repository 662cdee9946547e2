//! SCReAM: Self-Clocked Rate Adaptation for Multimedia, in three generations.
//!
//! | controller | text | module |
//! |---|---|---|
//! | `scream:d00`, `scream:d00+giusto` | draft-johansson-rmcat-scream-cc-00 | [`d00`] |
//! | `scream:rfc8298`, `scream:rfc8298+giusto` | RFC 8298 | [`rfc8298`] |
//! | `scream:v2` | draft-ietf-ccwg-rfc8298bis-screamv2-01 | [`v2`] |

mod competing;
pub mod d00;
pub(crate) mod flight;
mod follow;
mod losses;
mod observed;
mod queue_delay;
pub mod rfc8298;
pub mod v2;
