//! Repair of lost packets: requests and retransmissions (RFC 4585, RFC 4588), parity (RFC 8627).
//!
//! | part | task |
//! |---|---|
//! | [`sent`] | the packets that can be retransmitted |
//! | [`sender`] | the repair packets of all streams |
//! | [`parity`] | parity of several packets |
//! | [`meter`] | the rate of the repair packets |

mod meter;
mod parity;
mod sender;
mod sent;

pub(super) use sender::{Repairs, Wanted};
