//! Views of records and results: tables, HTML pages, trace files.

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "system")]
pub mod benchmark;
#[cfg(feature = "system")]
pub mod call;
pub mod city;
#[cfg(feature = "system")]
mod columns;
pub mod comparison;
pub mod figures;
#[cfg(feature = "system")]
pub mod files;
#[cfg(feature = "system")]
pub mod histogram;
pub mod html;
#[cfg(feature = "system")]
pub mod intervals;
#[cfg(feature = "system")]
pub mod lte;
#[cfg(feature = "system")]
pub mod replay;
#[cfg(feature = "system")]
pub mod rows;
#[cfg(feature = "system")]
pub mod stamp;
#[cfg(feature = "system")]
pub mod summary;
#[cfg(feature = "system")]
pub mod sweep;
pub mod table;
pub mod tables;
pub mod why;

pub use crate::text::{decision, format};
#[cfg(feature = "system")]
pub use crate::trace;
