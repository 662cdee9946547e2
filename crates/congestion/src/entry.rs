//! One row of the table of controllers.

use alloc::boxed::Box;

use crate::{
    controller::Controller,
    limits::{Limits, Options},
    requirements::Requirements,
};

pub(crate) type Build = dyn Fn(Limits, Options) -> Box<dyn Controller> + Send + Sync;

/// A controller that can be made by name.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Description in one phrase.
    pub(crate) summary: &'static str,
    pub(crate) requirements: Requirements,
    pub(crate) build: &'static Build,
}
