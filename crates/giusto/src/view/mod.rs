//! Views of records and results: tables, HTML pages, trace files.

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod benchmark;
pub mod call;
pub mod city;
mod columns;
pub mod comparison;
pub mod decision;
pub mod figures;
pub mod files;
pub mod format;
pub mod html;
pub mod lte;
pub mod replay;
pub mod rows;
pub mod stamp;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod tables;
pub mod trace;
pub mod why;
