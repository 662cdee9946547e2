//! Links.

pub mod queue;
