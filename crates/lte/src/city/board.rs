//! The parts of a city, each of which one member of the crew takes in each step.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

use giusto_units::Timestamp;

use super::{
    air::Air,
    ends::{Ends, SHARDS},
};
use crate::{
    mac::{Downlink, Uplink},
    terminal::Environment,
};

/// Milliseconds from the first one until before the second one.
pub(super) type Window = (u64, u64);

/// What a step processes: a window of the downlink, one of all ends, one of the uplink.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) downlink: Option<Window>,
    pub(super) ends: Option<Window>,
    pub(super) uplink: Option<Window>,
}

/// Radio and ends.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) downlink: Option<Box<Air<Downlink>>>,
    pub(super) uplink: Option<Box<Air<Uplink>>>,
    /// The ends at the network's side and at the user's, in groups.
    pub(super) network: Vec<Ends>,
    pub(super) user: Vec<Ends>,
}

/// Number of parts.
const PARTS: u64 = 2 + 2 * SHARDS as u64;

/// Bits of a ticket that count the parts of a step; the others count steps.
const PART_BITS: u32 = 16;

/// How often one who waits looks again before it sleeps. Waking it takes longer than most waits, but a processor that somebody else
/// needs must not be kept for longer.
const SPINS: u32 = 10_000;

/// The parts and what is to be done with them. Nobody waits for a lock: each part is taken once in a step.
#[derive(Debug)]
pub(super) struct Board<'a> {
    environment: &'a Environment,
    pub(super) downlink: Option<Mutex<&'a mut Air<Downlink>>>,
    pub(super) uplink: Option<Mutex<&'a mut Air<Uplink>>>,
    pub(super) network: Vec<Mutex<&'a mut Ends>>,
    pub(super) user: Vec<Mutex<&'a mut Ends>>,
    step: Mutex<Step>,
    /// The step, and the next part to be taken in it.
    ticket: AtomicU64,
    /// Parts of the step that are not finished.
    open: AtomicUsize,
    is_over: AtomicBool,
    bell: Bell,
}

impl<'a> Board<'a> {
    pub(super) fn new(environment: &'a Environment, parts: &'a mut Parts) -> Self {
        Self {
            environment,
            downlink: parts.downlink.as_deref_mut().map(Mutex::new),
            uplink: parts.uplink.as_deref_mut().map(Mutex::new),
            network: parts.network.iter_mut().map(Mutex::new).collect(),
            user: parts.user.iter_mut().map(Mutex::new).collect(),
            step: Mutex::default(),
            ticket: AtomicU64::new(PARTS),
            open: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }

    /// Begins a step: those who [`help`](Self::help) take its parts.
    pub(super) fn begin(&self, step: Step) {
        *lock(&self.step) = step;
        self.open.store(PARTS as usize, Ordering::Relaxed);
        let next = (self.ticket.load(Ordering::Relaxed) >> PART_BITS) + 1;
        self.ticket.store(next << PART_BITS, Ordering::Release);
        self.bell.ring();
    }

    /// Takes parts in the step until all are finished.
    pub(super) fn finish(&self) {
        while self.take_part() {}
        self.bell.wait(|| self.open.load(Ordering::Acquire) == 0);
    }

    /// Takes parts in all steps until it is [over](Self::end).
    pub(super) fn help(&self) {
        loop {
            self.bell.wait(|| self.is_over.load(Ordering::Relaxed) || self.has_part());
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            while self.take_part() {}
        }
    }

    /// Those who help go.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    fn has_part(&self) -> bool {
        self.ticket.load(Ordering::Relaxed) & ((1 << PART_BITS) - 1) < PARTS
    }

    /// Processes the next part of the step. Returns whether there was one.
    fn take_part(&self) -> bool {
        let next = |ticket: u64| (ticket & ((1 << PART_BITS) - 1) < PARTS).then_some(ticket + 1);
        let Ok(ticket) = self.ticket.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) else {
            return false;
        };
        // Also if it panics, so that nobody waits for ever.
        let _finished = Finished(self);
        let step = *lock(&self.step);
        self.run((ticket & ((1 << PART_BITS) - 1)) as usize, step);
        true
    }

    /// Processes part number `part`: the largest come first.
    fn run(&self, part: usize, step: Step) {
        match part {
            0 => {
                if let (Some(air), Some(window)) = (&self.downlink, step.downlink) {
                    lock(air).run(window, self.environment);
                }
            }
            1 => {
                if let (Some(air), Some(window)) = (&self.uplink, step.uplink) {
                    lock(air).run(window, self.environment);
                }
            }
            _ => {
                let ends = self.network.iter().chain(&self.user).nth(part - 2);
                if let (Some(ends), Some((_, until))) = (ends, step.ends) {
                    lock(ends).run(Timestamp::from_nanos((until - 1) * 1_000_000));
                }
            }
        }
    }
}

/// A part that is being processed.
struct Finished<'a, 'b>(&'a Board<'b>);

impl Drop for Finished<'_, '_> {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Release) == 1 {
            self.0.bell.ring();
        }
    }
}

/// A part. After a panic the crew passes the panic on.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes those who sleep until something has changed.
#[derive(Debug, Default)]
struct Bell {
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Bell {
    /// Something has changed.
    fn ring(&self) {
        // Either this finds the sleeper, or the sleeper finds the change.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.lock));
            self.changed.notify_all();
        }
    }

    /// Waits: awake for a short time, then asleep.
    fn wait(&self, is_done: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while !is_done() {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
