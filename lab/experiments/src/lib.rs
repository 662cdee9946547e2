//! Published figures and ours, side by side.
//!
//! Each reproduction states its rule of agreement in its page of `docs/reproduce`; an [`Item`] that does not agree says why.

pub mod firebind;
mod item;
mod page;
pub mod rfc8867;
pub mod rrtcc;
pub mod scream_lte;
pub mod shaper;

pub use item::{Item, Reproduction};
pub use page::{Findings, Page, PageTable};
