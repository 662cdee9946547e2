//! The radio: pure functions and tables.
//!
//! | module | content |
//! |---|---|
//! | [`layout`] | sites, sectors, wrap-around |
//! | [`propagation`] | path loss, antennas, shadowing, noise |
//! | [`draw`] | random draws |
//! | [`error`] | configuration errors |
//! | [`fading`] | tapped delay lines with Doppler, precomputed |
//! | [`tables`] | CQI, MCS and transport block sizes |
//! | [`link`] | SINR per stream, mutual information, block error rate |

pub mod draw;
pub mod error;
pub mod fading;
pub mod layout;
pub mod link;
pub mod propagation;
pub mod tables;
