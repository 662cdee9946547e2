//! Google Congestion Control, in parts.
//!
//! | part | module |
//! |---|---|
//! | what losses allow | [`loss`] |

pub mod loss;
