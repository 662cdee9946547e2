//! SCReAM: Self-Clocked Rate Adaptation for Multimedia, in the generations that there are.
//!
//! | controller | text | module |
//! |---|---|---|
//! | `scream:rfc8298` | RFC 8298 | [`rfc8298`] |
//! | `scream:v2` | draft-ietf-ccwg-rfc8298bis-screamv2-01 | [`v2`] |

pub mod rfc8298;
pub mod v2;
