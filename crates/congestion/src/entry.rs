//! One row of the table of controllers.

use crate::{
    controller::Controller,
    limits::{Limits, Options},
    requirements::Requirements,
};

/// Makes a controller.
pub(crate) type Build = dyn Fn(Limits, Options) -> Box<dyn Controller> + Send + Sync;

/// A controller that can be made by name.
pub(crate) struct Entry {
    /// Name in scenarios and results.
    pub(crate) name: &'static str,
    /// What it is, in one phrase.
    pub(crate) summary: &'static str,
    pub(crate) requirements: Requirements,
    pub(crate) build: &'static Build,
}
