//! Scenarios, runs, records and views.
//!
//! | module | holds |
//! |---|---|
//! | [`scenario`] | what is simulated, and what is expected of it |
//! | [`run`] | simulated runs: one, several controllers side by side, sweeps |
//! | [`link`] | a scenario's links in real time, for other programs |
//! | [`call`] | calls: the media sessions of the simulator over real UDP |
//! | [`measured`] | runs over real sockets: send, receive, both on loopback, other programs |
//! | [`record`] | the result of a simulated run |
//! | [`view`] | tables, HTML pages, trace files |
//! | [`whole_file`] | files that are complete or absent |

pub mod call;
pub mod link;
pub mod measured;
pub mod record;
pub mod run;
pub mod scenario;
pub mod view;
pub mod whole_file;
