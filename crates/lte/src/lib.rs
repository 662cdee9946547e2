#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`radio`] | layout, propagation, fading, tables of 36.213, block error rates |

pub mod radio;
