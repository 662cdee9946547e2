//! A STAMP reflector, in one thread.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_session::stamp::{
    Arrived, Reflector,
    time::{ClockState, WallTime},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    ReceiveError, Verdict,
    nap::{WrappingCount, dropped},
};
use crate::{Clock, ReceiveBatch, TrafficClass, UdpSocket, Wait, is_passing};

/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// Time between two readings of the state of the clock.
const CLOCK_INTERVAL: TimeDelta = TimeDelta::from_seconds(1);

/// What the system says of its clock, for the packets of STAMP. Where it says nothing, the clock is not synchronised and its error
/// is unknown.
pub fn stamp_clock() -> ClockState {
    let state = Clock::synchronisation().ok();
    let micros = state.map(|state| i64::try_from(state.maximum_error_us).unwrap_or(i64::MAX / 1_000));
    ClockState {
        synchronised: state.is_some_and(|state| state.synchronised),
        error: micros.map(|micros| TimeDelta::from_micros(micros.min(i64::MAX / 1_000))),
        tai_offset_s: state.map_or(0, |state| state.tai_offset_s),
    }
}

/// Drives a [`Reflector`] over one socket.
///
/// Every packet is answered as soon as it is read. Its times are those of the system's clock: the arrival as the kernel saw it,
/// the departure immediately before it is sent.
#[derive(Debug)]
pub struct ReflectDriver<'a> {
    socket: &'a UdpSocket,
    clock: Clock,
    batch: ReceiveBatch,
    next_clock: Timestamp,
    /// The traffic class that the socket has.
    class: TrafficClass,
    unsent: u64,
    dropped: WrappingCount,
}

impl<'a> ReflectDriver<'a> {
    /// A driver for the calling thread. The socket should report the TTL of arrivals.
    pub fn new(socket: &'a UdpSocket, clock: Clock) -> Self {
        const MESSAGES: usize = 16;
        const MESSAGE_BYTES: usize = 65_535;
        let batch = ReceiveBatch::new(MESSAGES, MESSAGE_BYTES);
        let class = socket.config().traffic_class;
        Self {
            socket,
            clock,
            batch,
            next_clock: Timestamp::ZERO,
            class,
            unsent: 0,
            dropped: WrappingCount::default(),
        }
    }

    /// Answers that the system did not take.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Reflects until `stop` is set or `on_turn` returns [`Verdict::Stop`].
    ///
    /// `on_turn` is called with the source of every new session, and several times per second without one.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] if the socket fails.
    pub fn run(
        &mut self,
        reflector: &mut Reflector,
        stop: &AtomicBool,
        mut on_turn: impl FnMut(&Reflector, Option<SocketAddr>) -> Verdict,
    ) -> Result<(), ReceiveError> {
        let mut next_look = self.clock.now();
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_batch(&mut self.batch, Wait::For(LOOK)) {
                Err(error) if !is_passing(&error) => return Err(error.into()),
                _ => {}
            }
            let now = self.clock.now();
            if now >= self.next_clock {
                self.next_clock = now + CLOCK_INTERVAL;
                reflector.set_clock(stamp_clock());
            }
            let mut verdict = Verdict::Continue;
            for received in self.batch.iter() {
                let wall = Clock::time_of_day_nanos();
                let arrived = Arrived {
                    from: received.from,
                    bytes: received.bytes,
                    at: WallTime::from_unix_nanos(received.stamp.unwrap_or(wall)),
                    ttl: received.ttl,
                    traffic_class: received.traffic_class.map(TrafficClass::byte),
                };
                let answer = reflector.reflect(now, WallTime::from_unix_nanos(wall), &arrived);
                let Some(answer) = answer else { continue };
                // ECN is not asked for: nothing here would react to it.
                let class = TrafficClass::new(answer.dscp, 0).unwrap_or_default();
                if class != self.class && self.socket.set_traffic_class(class).is_ok() {
                    self.class = class;
                }
                self.unsent += u64::from(self.socket.send_to(answer.bytes, received.from).is_err());
                if answer.new_session && on_turn(reflector, Some(received.from)) == Verdict::Stop {
                    verdict = Verdict::Stop;
                }
            }
            if now >= next_look {
                next_look = now + TimeDelta::from_std(LOOK);
                reflector.note_kernel_dropped(dropped(self.socket, &mut self.dropped));
                if on_turn(reflector, None) == Verdict::Stop {
                    verdict = Verdict::Stop;
                }
            }
            if verdict == Verdict::Stop {
                break;
            }
        }
        reflector.note_kernel_dropped(dropped(self.socket, &mut self.dropped));
        Ok(())
    }
}
