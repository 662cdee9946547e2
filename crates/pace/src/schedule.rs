//! The interface between a schedule and its driver.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The next action of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Step {
    /// Send the datagrams of one cycle back to back, then call [`Schedule::on_sent`].
    Send(Cycle),
    /// Sleep for this time from now, then call [`Schedule::on_woke`]. An oversleep is lost, unless the
    /// schedule compensates for it.
    SleepFor(TimeDelta),
    /// Sleep until this time, then call [`Schedule::on_woke`]. An oversleep does not move the next one.
    SleepUntil(Timestamp),
    /// Call `next` again at once: the schedule polls the clock.
    Poll,
    /// The schedule has ended.
    Done,
}

/// Datagrams that are sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Cycle {
    /// Number of datagrams, at least one.
    pub packets: u32,
    /// Time at which an ideal sender at this rate would send them. The actual time minus this is the schedule
    /// error.
    pub due: Timestamp,
}

impl Cycle {
    /// `packets` datagrams that are due at `due`.
    pub const fn new(packets: u32, due: Timestamp) -> Self {
        Self { packets, due }
    }
}

/// A transmit loop without clock and socket.
///
/// The order of calls is `next`, then the action of the step, then `on_sent` or `on_woke`, then `next` again.
/// Calls in any other order are safe, and a second `next` before `on_sent` returns the same cycle again. Time
/// that runs backwards counts as no time. Every call takes constant time.
///
/// Once the time of a [`Step::SleepUntil`] has come, or that of a [`Step::SleepFor`] has passed, `next` does
/// not request the same sleep again.
pub trait Schedule: Send + core::fmt::Debug {
    /// The next step.
    fn next(&mut self, now: Timestamp) -> Step;

    /// Handles the sent cycle: `size` is its total, including the headers that the plan counts.
    ///
    /// A size of zero means that nothing could be sent.
    fn on_sent(&mut self, now: Timestamp, size: DataSize);

    /// Handles the end of the requested sleep, before `next` is called again.
    fn on_woke(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The cycle requested at `since` had no data until `now`, and is sent now.
    ///
    /// Called between the [`Step::Send`] and [`on_sent`](Self::on_sent), if at all. A schedule without its
    /// own implementation treats the wait as a slow send. For [`Grid`](super::Grid) this is intended: its
    /// [`CatchUp`](super::CatchUp) rule decides about late cycles, whatever the cause, and
    /// [`CatchUp::Reanchor`](super::CatchUp::Reanchor) restarts after a gap beyond the burst bound.
    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let _ = (since, now);
    }

    /// The driver sends nothing more: what was due before `end` and has not been sent is skipped.
    fn on_ended(&mut self, end: Timestamp) {
        let _ = end;
    }

    /// How the schedule has dealt with late cycles.
    fn late_cycles(&self) -> LateCycles {
        LateCycles::default()
    }
}

/// Statistics of late cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LateCycles {
    /// Datagrams that were late beyond the burst bound and were sent in a catch-up burst.
    pub caught_up_packets: u64,
    /// The most datagrams that left back to back, without a pause, in one catch-up burst.
    pub largest_burst_packets: u64,
    /// Datagrams that were never sent because their time had passed.
    pub skipped_packets: u64,
    /// How often the schedule restarted.
    pub reanchors: u64,
    /// Calls with a time before that of an earlier call.
    pub clock_reversals: u64,
}
