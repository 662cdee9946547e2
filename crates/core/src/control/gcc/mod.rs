//! Google congestion control: delay first, loss beside it, and probes to learn what the path could carry.
//!
//! | part | module |
//! |---|---|
//! | how the rate moves | [`rate`] |

pub mod rate;
