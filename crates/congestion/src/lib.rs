//! How much may be sent?
//!
//! A [`Controller`] hears what was sent and what the far end says of it, and names a [`Target`]: a rate for the media, a rate for
//! the pacer, and, where the algorithm has one, a window. It never reads a clock and never sends anything. What it decided last,
//! and why, is its [`Decision`].
//!
//! | part | module |
//! |---|---|
//! | what a controller hears | [`feedback`] |
//! | what it says | [`target`] |
//! | controllers by name | [`kind`] |
//! | the baseline that heeds nothing | [`fixed`] |
//! | Google Congestion Control, by its parts | [`gcc`] |
//! | SCReAM, in three generations | [`scream`] |

#[cfg(test)]
mod closed_loop;
pub mod feedback;
pub mod fixed;
pub mod gcc;
pub mod kind;
pub mod scream;
pub mod target;

pub use feedback::{Feedback, LossReport, PacketReport, QueueState, SentPacket, StreamState};
pub use fixed::Fixed;
pub use kind::{ControllerKind, FeedbackKind, Limits, Options, PacerSettings, Staleness, UnknownController};
pub use target::{Cause, Decision, Probe, Signal, Target};

use giusto_units::{DataRate, Timestamp};

/// Congestion control as a state machine.
///
/// Calls in any order are safe; time that runs backwards counts as no time; each call does work bounded by what it is given.
/// It begins with its first call, which may be [`on_timeout`](Self::on_timeout). After a call, ask [`target`](Self::target),
/// [`next_probe`](Self::next_probe) and [`next_timeout`](Self::next_timeout) again.
pub trait Controller: Send + std::fmt::Debug {
    /// `packet` has left.
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket);

    /// The far end has told something.
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>);

    /// The deadline of [`next_timeout`](Self::next_timeout) has come; `queue` is what waits then.
    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState);

    /// When [`on_timeout`](Self::on_timeout) is wanted at the latest.
    fn next_timeout(&self) -> Option<Timestamp>;

    /// How much may be sent.
    fn target(&self) -> Target;

    /// Takes the next probe that is to be sent, until there is none. By default there is never one.
    fn next_probe(&mut self) -> Option<Probe> {
        None
    }

    /// What the sender's streams are about, told right before each [`on_timeout`](Self::on_timeout), always in the same order. By
    /// default of no interest.
    fn on_streams(&mut self, _now: Timestamp, _streams: &[StreamState]) {}

    /// What each stream may take of [`Target::media`], headers included, in the order of [`on_streams`](Self::on_streams), where
    /// each has a rate control of its own. By default none has: the sender divides the target by priority.
    fn stream_targets(&self) -> &[DataRate] {
        &[]
    }

    /// What was decided last, and why. A change of the target makes a new one; so does a probe that was forbidden.
    fn decision(&self) -> &Decision;
}
