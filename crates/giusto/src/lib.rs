#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`benchmark`] | random scenarios and a judgement of controllers on them |
//! | [`capture`] | session logs, packet captures and Chrome traces of simulated runs |
//! | [`scenario`] | what is simulated, and what is expected of it |
//! | [`run`] | simulated runs: one, several controllers side by side, sweeps |
//! | [`environment`] | simulations in steps, for controllers that learn |
//! | [`city`] | calls in the cells of a city (LTE) |
//! | [`explore`] | a scenario whose values are changed, and the pictures of its runs |
//! | [`live`] | a scenario with one media flow in real time: a call across the links |
//! | [`link`] | a scenario's links in real time, for other programs |
//! | [`call`] | calls: the media sessions of the simulator over real UDP |
//! | [`measured`] | runs over real sockets: send, receive, both on loopback, other programs |
//! | [`order`] | sorting, in a small program |
//! | [`record`] | the result of a simulated run |
//! | [`replay`] | recorded sessions, run through any controller |
//! | [`json`] | JSON through one writer and one reader |
//! | [`view`] | tables, HTML pages, trace files |
//! | [`watch`] | a run while it lasts: figures of each stream, for a page |
//! | [`whole_file`] | files that are complete or absent |

#![cfg_attr(
    not(feature = "system"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "parts that are left out use them")
)]

#[cfg(feature = "system")]
pub mod benchmark;
#[cfg(feature = "system")]
pub mod call;
#[cfg(feature = "system")]
pub mod capture;
pub mod city;
#[cfg(feature = "system")]
mod confidence;
#[cfg(feature = "system")]
pub mod environment;
pub mod explore;
#[cfg(feature = "system")]
mod fresh_file;
#[cfg(test)]
mod generated;
#[cfg(feature = "system")]
mod growing;
#[cfg(feature = "system")]
pub mod interval;
pub mod json;
#[cfg(feature = "system")]
pub mod link;
#[cfg(feature = "system")]
pub mod live;
pub mod measured;
pub mod order;
mod packed;
mod quantiles;
pub mod record;
#[cfg(feature = "system")]
pub mod replay;
pub mod run;
pub mod scenario;
pub mod statistics;
#[cfg(test)]
mod testing;
pub mod text;
#[cfg(feature = "system")]
pub mod trace;
#[cfg(feature = "system")]
mod trust;
#[cfg(feature = "system")]
mod unreadable;
pub mod view;
#[cfg(feature = "system")]
pub mod watch;
#[cfg(feature = "system")]
pub mod whole_file;
