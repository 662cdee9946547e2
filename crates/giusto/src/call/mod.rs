//! Calls: an adaptive media session over real UDP, with the encoders, the controllers and the record of the simulator.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | the media of a call: from flags, from a scenario, from an offer |
//! | [`side`] | the media of one end, recorded as the simulator records them |
//! | [`record`] | the record of one end |
//! | [`voice`] | speech as Opus |
//! | [`heard`] | its playout and quality at the other end |
//! | [`video`], [`save`] | real video: files and encoders, and what is saved of it |
//! | [`end`] | what both ends share: settings, open calls, live figures, their page and their records |
//! | [`run`] | the caller and the listener over a socket |
//! | [`race`] | which of several addresses has a listener |
//! | `browser` | calls to a browser, with the feature `browser` |
//!
//! A call has two ends. Several parties behind a selective forwarding middlebox (RFC 7667 §3.7) would need: a forwarder that ends the
//! feedback of each hop and runs a controller for each receiver; that chooses for it a temporal layer ([`droppable`] frames) or one of several
//! encodings, and renumbers what it forwards; that asks senders for key frames on behalf of receivers; and a scenario key that says
//! who receives whom.
//!
//! [`droppable`]: giusto_session::video::VideoFrame::droppable

mod anchor;
#[cfg(feature = "browser")]
pub mod browser;
pub mod end;
mod flows;
pub mod heard;
mod known;
mod matroska;
pub mod plan;
pub mod race;
pub mod record;
pub mod run;
pub mod save;
pub mod side;
pub mod video;
pub mod voice;

#[cfg(feature = "browser")]
pub use giusto_webrtc::{Fingerprint, dtls::Certificate, exchange::Identity};

pub use end::{CallSettings, Live, LiveSide};
pub use heard::HeardVoice;
pub use plan::{CallPlan, Direction, Encoder, MediaPlan, PlanError, Repair};
pub use record::{CallFigures, CallPath, CallRecord};
pub use run::{CallRunError, Caller, Listener};
pub use save::{SaveTarget, SavedVideo};
pub use video::{SentVideo, VideoInput, VideoInputError};
pub use voice::{SentVoice, VoiceInput};
