//! Views of records and results: tables, HTML pages, trace files.

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod benchmark;
pub mod call;
pub mod city;
mod columns;
pub mod comparison;
pub mod figures;
pub mod files;
pub mod html;
pub mod intervals;
pub mod lte;
pub mod replay;
pub mod rows;
pub mod stamp;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod tables;
pub mod why;

pub use crate::{
    text::{decision, format},
    trace,
};
