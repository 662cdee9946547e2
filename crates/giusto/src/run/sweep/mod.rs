//! Many runs of one scenario with different values and seeds.
//!
//! A sweep is a pure function of scenario, values and seeds: its outcome does not depend on the number of threads. Finished runs can
//! be written to a [`Journal`], from which a sweep that was ended early continues. Several processes may each run a
//! [shard](crate::run::Shard) of it: [`Part`], [`merge`].

mod fingerprint;
mod journal;
mod outcome;
mod part;
mod plan;
mod spelling;

pub use fingerprint::fingerprint;
pub use journal::{Journal, JournalError};
pub use outcome::{Failed, Finished, Outcome, run, simulate};
pub use part::{Part, PartError, Whole, merge};
pub use plan::{Planned, Seeds, Sweep, Values};

#[cfg(test)]
mod tests;
