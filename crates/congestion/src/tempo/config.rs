//! Configuration of [`Tempo`](super::Tempo).

use giusto_units::TimeDelta;

use crate::limits::Limits;

/// Configuration of [`Tempo`](super::Tempo).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Config {
    /// Range and initial value of the target.
    pub limits: Limits,
    /// Standing queue from which there is congestion, besides the two terms below. Default 5 ms: five steps of the timestamps of
    /// RFC 8888, and the target of `CoDel` (RFC 8289 §4.3), which drops nothing below.
    pub congested_above: TimeDelta,
    /// Standing queue up to which the path counts as empty. Default 1.5 ms: more than a step of those timestamps.
    pub empty_below: TimeDelta,
    /// Share of the variation within a window that is added to the first limit; half of it to the second. Default 0.2: the minimum of a
    /// window moves by a fraction of what single delays do.
    pub spread_share: f64,
    /// Interval at which silence and the sender's queue are examined. Default 25 ms, less than a frame.
    pub look: TimeDelta,
    /// RTT before the first measurement. Default 0.3 s, near that of RFC 9002 §6.2.2 (333 ms).
    pub presumed_rtt: TimeDelta,
    /// The laws that are in force. Default: all but the window. For experiments that show what each of them does.
    pub laws: Laws,
}

/// Laws of [`Tempo`](super::Tempo) that can be turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Laws {
    /// Growth uses trains.
    pub trains: bool,
    /// It competes with flows that fill the queue.
    pub compete: bool,
    /// Losses are judged by experiments.
    pub loss: bool,
    /// Bytes in flight are limited. Off: it moves the queue to the sender, where frames wait longer.
    pub window: bool,
    /// Frames are skipped while too much waits.
    pub skip: bool,
}

impl Config {
    /// The defaults with these limits.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            congested_above: TimeDelta::from_millis(5),
            empty_below: TimeDelta::from_micros(1500),
            spread_share: 0.2,
            look: TimeDelta::from_millis(25),
            presumed_rtt: TimeDelta::from_millis(300),
            laws: Laws { trains: true, compete: true, loss: true, window: false, skip: true },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}
