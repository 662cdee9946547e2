#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`city`] | users, their traffic and the run |
//! | [`carrier`] | bandwidth and resource blocks |
//! | [`terminal`] | places and channels of users |
//! | [`coverage`] | a map of the SINR |
//! | [`trace`] | capacity and delay of one user |
//! | [`bearer`] | queues, segmentation, retransmission (RLC) |
//! | [`mac`] | link adaptation, HARQ, scheduling |
//! | [`radio`] | layout, propagation, fading, tables of 36.213, block error rates |

pub mod bearer;
pub mod carrier;
pub mod city;
pub mod coverage;
pub mod mac;
pub mod radio;
pub mod terminal;
pub mod trace;
