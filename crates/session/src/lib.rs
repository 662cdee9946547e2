//! Whole endpoints without clock or socket.
//!
//! | module | holds |
//! |---|---|
//! | [`probe`] | the measurement protocol: a paced stream and the report of what arrived |
//! | [`media`] | an adaptive media session over RTP and RTCP |
//! | [`source`] | models of video and audio encoders |
//! | [`packetizer`] | frames cut into packets |
//! | [`payload`] | payload sizes of streams that carry no media |
//! | [`voice`], [`g711`] | voice streams as RTP packets |

pub mod g711;
pub mod media;
pub mod packetizer;
pub mod payload;
pub mod probe;
pub mod source;
pub mod voice;
