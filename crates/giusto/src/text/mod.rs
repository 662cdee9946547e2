//! Figures and decisions in words.

pub mod decision;
pub mod format;
