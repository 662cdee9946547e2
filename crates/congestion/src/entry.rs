//! One row of the table of controllers.

use alloc::boxed::Box;

use crate::{
    constants::Setter,
    controller::Controller,
    limits::{Limits, Options},
    requirements::Requirements,
};

/// Builds a controller; the setter is shown its constants.
pub(crate) type Build = dyn Fn(Limits, Options, &mut Setter) -> Box<dyn Controller> + Send + Sync;

/// A controller that can be made by name.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Description in one phrase.
    pub(crate) summary: &'static str,
    pub(crate) requirements: Requirements,
    pub(crate) build: &'static Build,
}
