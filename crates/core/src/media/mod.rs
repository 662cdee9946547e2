//! What is in a datagram?
//!
//! | module | answers |
//! |---|---|
//! | [`source`] | how large is the next frame of sound or video, and when does it come? |
//! | [`packetizer`] | how does a frame fit into packets? |
//! | [`payload`] | how large is the next datagram where nothing is encoded? |
//! | [`voice`], [`g711`] | how does voice travel as RTP? |

pub mod g711;
pub mod packetizer;
pub mod payload;
pub mod source;
pub mod voice;
