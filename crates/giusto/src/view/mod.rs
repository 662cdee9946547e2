//! Views of results: tables, HTML pages, trace files.

pub mod decision;
pub mod figures;
pub mod format;
pub mod html;
pub mod page;
pub mod table;
pub mod tables;
pub mod trace;
pub mod why;
