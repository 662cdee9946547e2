//! `gcc:thesis`: Google Congestion Control as a thesis of 2017 simulated it.
//!
//! | part | module |
//! |---|---|
//! | the algorithm, and where it differs from the draft | [`algorithm`] |
//! | the algorithm as a controller | [`controller`] |

#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, reason = "the experiments use more of it")
)]
mod algorithm;
mod controller;

#[cfg(feature = "internals")]
pub use algorithm::{
    LossWindow, Pace, REPORT_INTERVAL, START, Thesis, ThesisConfig, WINDOW, aimd, detector, filter,
};
pub(crate) use controller::ThesisController;
