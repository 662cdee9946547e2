//! Parts of controllers for our own experiments. **Nothing in this module is promised**: anything may change or go in any version.

/// The algorithm of `gcc:thesis`, outside of its controller.
pub mod thesis {
    pub use crate::gcc::thesis::{
        LossWindow, Pace, REPORT_INTERVAL, START, Thesis, ThesisConfig, WINDOW, aimd, detector, filter,
    };
}
