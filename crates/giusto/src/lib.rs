//! Experiments, reports and the `giusto` command.
//!
//! | module | answers |
//! |---|---|
//! | [`plan`] | what is to be sent, and how is time kept? |
//! | [`transmission`], [`reception`], [`loopback`] | how does one run go, at one end or both? |
//! | [`scenario`] | what is simulated, and what is expected of it? |
//! | [`simulation`] | how does a scenario go, in numbers alone? |
//! | [`comparison`] | how does it go under one controller or another? |
//! | [`sweep`] | how does it go with other values, with other seeds? |
//! | [`peer`] | how do other programs fare under the same meter? |
//! | [`figures`], [`result`] | what came of it, in numbers? |
//! | [`table`], [`report`] | how does a person see that? |
//! | [`whole_file`] | how does a file appear whole or not at all? |
//! | [`reproduce`] | what was published, and what do we find? |
//! | [`command`] | what do the flags of `giusto` mean? |

pub mod command;
pub mod comparison;
pub mod error;
pub mod figures;
pub mod loopback;
pub mod peer;
pub mod plan;
pub mod reception;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod scenario;
pub mod simulation;
pub mod sweep;
pub mod table;
pub mod transmission;
pub mod whole_file;

pub use giusto_net as net;
pub use giusto_sim as sim;
pub use giusto_units as units;
