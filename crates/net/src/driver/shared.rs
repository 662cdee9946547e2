//! Many streams on one schedule: on a contended machine, one wake-up serves all that are due.

use std::{fs::File, os::unix::fs::FileExt};

use giusto_units::{TimeDelta, Timestamp};
use nix::unistd::{SysconfVar, sysconf};

/// The longest tick: a datagram leaves late by up to a tick. With longer ones a thread has more to do at each, exceeds its share of
/// the processor (EEVDF) and is woken late: in a test beside 20 busy loops on two processors, 50 µs of work each 2 ms were late by
/// 48 µs at p90, 100 µs of work each 4 ms by 4 ms.
const MAX_TICK: TimeDelta = TimeDelta::from_millis(2);
/// Below this many wake-ups a second a wake-up for each datagram costs little.
const FEW_WAKES: f64 = 200.0;

/// Decides when streams that share a thread wake it.
///
/// On a quiet machine each datagram has its own wake-up. Each takes 20 to 30 µs of a processor; on a machine with more runnable
/// threads than processors, a thread that takes much is woken late. There the streams share ticks: a stream whose period is a
/// whole number of ticks is late by the same time at each, so that its gaps are even.
#[derive(Debug)]
pub(super) struct SharedTicks {
    /// `None`: each datagram has its own wake-up.
    tick: Option<TimeDelta>,
    contention: Contention,
}

impl SharedTicks {
    /// For streams with these periods. A stream without one, and a stream alone, have their own wake-ups.
    pub(super) fn new(periods: impl IntoIterator<Item = Option<TimeDelta>>) -> Self {
        let periods: Option<Vec<TimeDelta>> = periods.into_iter().collect();
        let tick = periods.filter(|periods| periods.len() > 1).and_then(|periods| {
            let wakes: f64 = periods.iter().map(|period| 1.0 / period.as_seconds().max(1e-9)).sum();
            tick_of(*periods.iter().min()?).filter(|_| wakes > FEW_WAKES)
        });
        Self { tick, contention: Contention::new(tick.is_some()) }
    }

    /// When to wake for what is due at `due`; `None`: at that time, as a stream alone.
    pub(super) fn wake_for(&mut self, now: Timestamp, due: Timestamp) -> Option<Timestamp> {
        let tick = self.tick?.as_nanos().unsigned_abs();
        self.contention
            .is_contended(now)
            .then(|| Timestamp::from_nanos(due.as_nanos().div_ceil(tick).saturating_mul(tick)))
    }
}

/// The longest part of `period` that is a tick: itself if it is short; `None` if it is too short.
fn tick_of(period: TimeDelta) -> Option<TimeDelta> {
    const MIN_TICK: TimeDelta = TimeDelta::from_millis(1);
    let (period, longest) = (period.as_nanos(), MAX_TICK.as_nanos());
    let ticks = period.saturating_add(longest - 1) / longest;
    let tick = TimeDelta::from_nanos(period / ticks.max(1));
    (tick >= MIN_TICK).then_some(tick)
}

/// Whether threads wait for processors, by the number that the kernel counts as runnable (proc(5), `/proc/loadavg`).
#[derive(Debug)]
struct Contention {
    /// `None` where the kernel does not say.
    source: Option<File>,
    processors: u64,
    next_look: Timestamp,
    state: Runnable,
}

impl Contention {
    const LOOK: TimeDelta = TimeDelta::from_millis(100);

    fn new(wanted: bool) -> Self {
        // All of the machine, as the count of runnable threads, not only those that this process may use.
        let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
        let processors = online.and_then(|count| u64::try_from(count).ok()).unwrap_or(1).max(1);
        let source = if wanted { File::open("/proc/loadavg").ok() } else { None };
        Self { source, processors, next_look: Timestamp::ZERO, state: Runnable::default() }
    }

    fn is_contended(&mut self, now: Timestamp) -> bool {
        if let Some(source) = &self.source
            && now >= self.next_look
        {
            self.next_look = now + Self::LOOK;
            let mut text = [0; 64];
            let read = source.read_at(&mut text, 0).unwrap_or(0);
            let runnable = text.get(..read).and_then(runnable).unwrap_or(0);
            self.state.on_look(runnable, self.processors);
        }
        self.state.contended
    }
}

/// The runnable threads in a line of `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206`.
fn runnable(line: &[u8]) -> Option<u64> {
    let fourth = std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(3)?;
    fourth.split_once('/')?.0.parse().ok()
}

/// Contended soon, and free of contention only after a while: each change moves the departures of every stream once.
#[derive(Debug, Default)]
struct Runnable {
    contended: bool,
    /// Looks in a row that speak for a change.
    changes: u32,
}

impl Runnable {
    const SOON: u32 = 2;
    const LATER: u32 = 30;

    fn on_look(&mut self, runnable: u64, processors: u64) {
        // The thread that looks is one of them.
        let speaks_for_change = if self.contended {
            runnable <= processors.saturating_add(1)
        } else {
            runnable > processors.saturating_mul(2)
        };
        self.changes = if speaks_for_change { self.changes + 1 } else { 0 };
        if self.changes >= if self.contended { Self::LATER } else { Self::SOON } {
            *self = Self { contended: !self.contended, changes: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: i64) -> TimeDelta {
        TimeDelta::from_micros(micros)
    }

    fn contended(periods: &[Option<TimeDelta>]) -> SharedTicks {
        let mut ticks = SharedTicks::new(periods.iter().copied());
        ticks.contention.source = None;
        ticks.contention.state.contended = true;
        ticks
    }

    #[test]
    fn a_period_is_a_whole_number_of_ticks() {
        for (period, tick) in [
            (20_000, Some(2_000)),
            (5_000, Some(1_666)),
            (2_000, Some(2_000)),
            (2_001, Some(1_000)),
            (1_000, Some(1_000)),
            (999, None),
        ] {
            assert_eq!(tick_of(micros(period)).map(|tick| tick.as_nanos() / 1_000), tick, "{period}");
        }
    }

    #[test]
    fn only_many_streams_on_a_contended_machine_share_ticks() {
        let voice = Some(micros(20_000));
        let at = |micros: u64| Timestamp::from_nanos(micros * 1_000);
        let mut fifty = contended(&[voice; 50]);
        for (due, wake) in [(8_000, 8_000), (8_001, 10_000), (9_999, 10_000)] {
            assert_eq!(fifty.wake_for(at(0), at(due)), Some(at(wake)), "{due}");
        }
        // 200 wake-ups a second are few, 250 are not.
        assert_eq!(contended(&[voice; 4]).wake_for(at(0), at(1)), None);
        assert_eq!(contended(&[voice; 5]).wake_for(at(0), at(1)), Some(at(2_000)));
        assert_eq!(contended(&[Some(micros(2_000))]).wake_for(at(0), at(1)), None);
        assert_eq!(contended(&[Some(micros(2_000)), None]).wake_for(at(0), at(1)), None);
        fifty.contention.state.contended = false;
        assert_eq!(fifty.wake_for(at(0), at(8_001)), None);
    }

    #[test]
    fn runnable_threads_are_read_from_the_fourth_field() {
        // From the example of proc(5), and from a machine with twenty busy loops.
        assert_eq!(runnable(b"0.20 0.18 0.12 1/80 11206\n"), Some(1));
        assert_eq!(runnable(b"12.45 5.93 3.68 28/155 27080\n"), Some(28));
        for other in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 1", "0.20 0.18 0.12 180 1"] {
            assert_eq!(runnable(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn contention_begins_after_two_looks_and_ends_after_thirty_without_a_break() {
        let mut state = Runnable::default();
        let mut look = |runnable, times: u32| {
            (0..times).for_each(|_| state.on_look(runnable, 2));
            state.contended
        };
        assert!(!look(4, 100), "twice the processors are not more than twice");
        assert!(!look(5, 1));
        assert!(look(5, 1));
        assert!(look(3, 29));
        assert!(look(4, 1), "a break");
        assert!(look(3, 29));
        assert!(!look(3, 1));
    }
}
