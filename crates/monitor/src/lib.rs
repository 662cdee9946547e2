#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`metric`] | the figures of a result |
//! | [`sample`] | what came of one stream |
//! | [`schedule`] | when streams are due |
//! | [`watch`] | outages, changes of the path, and bounds that are crossed |
//! | [`engine`] | all of it for the pairs of a host, without input and output |
//! | [`store`] | results, figures of hours and days, and events in `SQLite` |
//! | [`notice`] | the body of a notice |
//! | [`pages`] | the pages |
//! | [`exposition`] | the state for Prometheus |
//! | [`service`] | the monitor that runs: clock, threads, sockets |

pub mod engine;
pub mod exposition;
pub mod metric;
pub mod notice;
pub mod pages;
pub mod sample;
pub mod schedule;
pub mod service;
pub mod store;
mod utc;
pub mod watch;
