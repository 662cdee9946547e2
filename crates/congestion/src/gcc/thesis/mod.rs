//! `gcc:thesis`: Google Congestion Control as a thesis of 2017 simulated it.
//!
//! | part | module |
//! |---|---|
//! | the algorithm, and where it differs from the draft | [`algorithm`] |
//! | the algorithm as a controller | [`controller`] |

pub mod algorithm;
pub mod controller;

pub use algorithm::{
    LossWindow, Pace, REPORT_INTERVAL, START, Thesis, ThesisConfig, WINDOW, aimd, delay, detector, filter,
    loss,
};
pub use controller::ThesisController;
