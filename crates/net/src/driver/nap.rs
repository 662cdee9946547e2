//! When a receiving thread sleeps, and for how long.

use giusto_units::TimeDelta;

use crate::{Clock, SleepMode, Sleeper, SleeperConfig, UdpSocket};

/// Naps between reads of sockets, so that datagrams accumulate and are read together: about 50 a second, more as a buffer fills
/// faster.
///
/// It holds the one rule: a thread does not sleep while a socket may hold more than was read from it. A reader says so with
/// [`left`](Self::left), and all its sleeps and waits ask here.
#[derive(Debug)]
pub(super) struct Nap {
    sleeper: Sleeper,
    length: TimeDelta,
    /// What the sockets hold has accumulated in a nap.
    slept: bool,
    /// A socket may hold more.
    more: bool,
}

impl Nap {
    /// 50 wake-ups per second take a few thousandths of a core, and seldom preempt a sender.
    const MAX: TimeDelta = TimeDelta::from_millis(20);
    /// A short sleep is better than waiting in the kernel even at full speed, because each arrival would cost
    /// the *sender* a wake-up: on loopback 10 % of its throughput.
    const MIN: TimeDelta = TimeDelta::from_micros(100);
    /// Where the kernel does not say how full a buffer is.
    const BLIND: TimeDelta = TimeDelta::from_millis(1);

    /// For the calling thread.
    pub(super) fn new() -> Self {
        let sleeper = Sleeper::new(SleeperConfig { mode: SleepMode::Eco, ..SleeperConfig::default() });
        Self { sleeper, length: Self::MIN, slept: true, more: false }
    }

    /// A new stream may be fast: the next naps are short.
    pub(super) fn wake_up(&mut self) {
        self.length = Self::MIN;
    }

    /// Before `sockets` are read: the fuller they have become, the shorter is the next nap.
    pub(super) fn begin_read<'a>(&mut self, sockets: impl IntoIterator<Item = &'a UdpSocket>) {
        self.more = false;
        if std::mem::take(&mut self.slept) {
            let fill = |socket: &UdpSocket| {
                let buffer = socket.receive_buffer().ok()?;
                Some(f64::from(buffer.held_bytes) / f64::from(buffer.room_bytes.max(1)))
            };
            let fullest =
                sockets.into_iter().map(fill).try_fold(0.0, |fullest: f64, fill| Some(fullest.max(fill?)));
            self.adapt(fullest);
        }
    }

    /// Sets the length of the next nap where this share of the room was filled in the last one; `None`: nobody knows.
    fn adapt(&mut self, fill: Option<f64>) {
        const FULL: f64 = 1.0 / 16.0;
        const EMPTY: f64 = 1.0 / 64.0;
        match fill {
            None => self.length = Self::BLIND,
            Some(fill) if fill > FULL => self.length = (self.length / 2).max(Self::MIN),
            Some(fill) if fill < EMPTY => self.length = (self.length * 2).min(Self::MAX),
            Some(_) => {}
        }
    }

    /// Whether a socket may hold more than was read from it.
    pub(super) fn left(&mut self, more: bool) {
        self.more |= more;
    }

    /// Whether a socket may hold more.
    pub(super) fn is_behind(&self) -> bool {
        self.more
    }

    /// Sleeps until the buffers are worth reading again, 0.1 to 20 ms; not at all while a socket may hold more.
    pub(super) fn take(&mut self, clock: Clock) {
        if !self.more {
            self.sleeper.for_span(clock, self.length);
            self.slept = true;
        }
    }

    /// Waits by `wait` instead; not at all while a socket may hold more.
    pub(super) fn take_by(&mut self, wait: impl FnOnce()) {
        if !self.more {
            wait();
            self.slept = true;
        }
    }
}

/// What a socket has dropped so far, now: 0 where the kernel does not say.
pub(super) fn dropped(socket: &UdpSocket, count: &mut WrappingCount) -> u64 {
    socket.dropped_messages().map_or(0, |now| count.unwrap(now))
}

/// Unwraps a count of 32 bits.
#[derive(Debug, Default)]
pub(super) struct WrappingCount {
    total: u64,
}

impl WrappingCount {
    pub(super) fn unwrap(&mut self, count: u32) -> u64 {
        let grown = count.wrapping_sub(self.total as u32);
        // A decreasing count is an older one that was read late.
        if grown < u32::MAX / 2 {
            self.total += u64::from(grown);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_are_short_at_first_and_as_a_buffer_fills() {
        let mut nap = Nap::new();
        let mut lengths = |fill| -> Vec<_> {
            (0..20)
                .map(|_| {
                    nap.adapt(fill);
                    nap.length
                })
                .collect()
        };
        let emptier = lengths(Some(0.01));
        assert_eq!((emptier[0], emptier[19]), (Nap::MIN * 2, Nap::MAX));
        assert_eq!(lengths(Some(0.05)), [Nap::MAX; 20]);
        let fuller = lengths(Some(0.07));
        assert_eq!((fuller[0], fuller[19]), (Nap::MAX / 2, Nap::MIN));
        assert_eq!(lengths(None), [Nap::BLIND; 20]);
        nap.wake_up();
        assert_eq!(nap.length, Nap::MIN);
    }

    #[test]
    fn a_wrapping_count_is_unwrapped() {
        let mut count = WrappingCount::default();
        let readings = [0, 5, 5, u32::MAX, 3, 2].map(|reading| count.unwrap(reading));
        assert_eq!(readings[..3], [0, 5, 5]);
        let mut near_the_end = WrappingCount { total: u64::from(u32::MAX) - 1 };
        assert_eq!(near_the_end.unwrap(3), u64::from(u32::MAX) + 4);
        assert_eq!(near_the_end.unwrap(2), u64::from(u32::MAX) + 4, "never backwards");
    }
}
