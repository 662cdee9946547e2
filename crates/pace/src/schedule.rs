//! The interface between a schedule and its driver.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The next action of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Send the datagrams of one cycle back to back, then call [`Schedule::on_sent`].
    Send(Cycle),
    /// Sleep for a span from now, then call [`Schedule::on_woke`]. What a sleep overshoots is lost, unless the schedule makes
    /// up for it.
    SleepFor(TimeDelta),
    /// Sleep until a moment, then call [`Schedule::on_woke`]. What a sleep overshoots does not move the next one.
    SleepUntil(Timestamp),
    /// Ask again at once: the schedule polls the clock.
    LookAgain,
    /// The schedule has ended.
    Done,
}

/// Datagrams that leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// How many datagrams, at least one.
    pub packets: u32,
    /// When an ideal sender at this rate would send them. The actual time less this is the schedule error.
    pub due: Timestamp,
}

/// A transmit loop without clock or socket.
///
/// The order of calls is `next`, then what the step asks for, then `on_sent` or `on_woke`, then `next` again. Calls in
/// any other order are safe, and a second `next` before `on_sent` asks for the same cycle again. Time that runs backwards
/// counts as no time. Every call takes constant time.
///
/// Once the moment of a [`Step::SleepUntil`] has come, or the span of a [`Step::SleepFor`] has passed, `next` does not ask
/// for the same sleep again.
pub trait Schedule: Send + std::fmt::Debug {
    /// The next step.
    fn next(&mut self, now: Timestamp) -> Step;

    /// The cycle asked for has been sent: `size` is its total, header layers included as the plan counts them.
    ///
    /// A size of zero says that nothing could be sent.
    fn on_sent(&mut self, now: Timestamp, size: DataSize);

    /// The sleep asked for is over.
    fn on_woke(&mut self, now: Timestamp);

    /// The cycle asked for found no data when it was asked for at `since`; its data came at `now`, and it is sent now.
    ///
    /// Called between the [`Step::Send`] and [`on_sent`](Self::on_sent), if at all. A schedule that does nothing about it takes
    /// the wait for a slow send. [`Grid`](super::Grid) does so on purpose: its [`CatchUp`](super::CatchUp) rule says what becomes of cycles that are late,
    /// for whatever cause, and [`CatchUp::Reanchor`](super::CatchUp::Reanchor) begins anew after a gap beyond the burst bound.
    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let _ = (since, now);
    }

    /// The driver sends nothing more: what was due before `end` and has not been sent is skipped.
    fn on_ended(&mut self, end: Timestamp) {
        let _ = end;
    }

    /// How the schedule has dealt with late cycles.
    fn slips(&self) -> Slips {
        Slips::default()
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn next(&mut self, now: Timestamp) -> Step {
        (**self).next(now)
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        (**self).on_sent(now, size);
    }

    fn on_woke(&mut self, now: Timestamp) {
        (**self).on_woke(now);
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        (**self).on_starved(since, now);
    }

    fn on_ended(&mut self, end: Timestamp) {
        (**self).on_ended(end);
    }

    fn slips(&self) -> Slips {
        (**self).slips()
    }
}

/// How a schedule has dealt with late cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slips {
    /// Datagrams that were late beyond the burst bound and left in a catch-up burst.
    pub caught_up_packets: u64,
    /// The most datagrams that left back to back, without a pause, in one catch-up burst.
    pub largest_burst_packets: u64,
    /// Datagrams that were never sent because their time had passed.
    pub skipped_packets: u64,
    /// How often the schedule was moved to begin anew.
    pub reanchors: u64,
    /// Calls with a time before that of an earlier call.
    pub clock_reversals: u64,
}
