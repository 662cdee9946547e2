//! Who does the work of a city.

/// Those who work on a city at the same time. Its results do not depend on how many they are.
pub trait Crew {
    /// Calls `lead` here, and each other member of the crew calls `help` meanwhile, which returns some time after `lead` has. Returns when
    /// all have returned. A crew of one calls `lead` alone.
    fn work(&self, lead: &mut dyn FnMut(), help: &(dyn Fn() + Sync));
}

/// A crew of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Crew for Alone {
    fn work(&self, lead: &mut dyn FnMut(), _help: &(dyn Fn() + Sync)) {
        lead();
    }
}
