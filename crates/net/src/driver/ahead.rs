//! Hands departures to the kernel ahead of their times.

use std::sync::atomic::{AtomicBool, Ordering};

use giusto_units::{TimeDelta, Timestamp};

use super::transmit::{FlowState, Running, first_due};
use crate::{Clock, Launch, Sleeper};

/// What the kernel holds of a stream, at most: so long after an interruption the last datagram leaves.
const AHEAD: TimeDelta = TimeDelta::from_millis(10);
/// Each wake-up hands over the departures of at least so much time.
const BATCH: TimeDelta = TimeDelta::from_millis(5);

/// Sends all `flows` until each is done or `stop` is set, and then until the last datagram has left.
pub(super) fn hand_over(
    flows: &mut [Running<'_>],
    launch: Launch,
    clock: Clock,
    sleeper: &mut Sleeper,
    stop: &AtomicBool,
) {
    let mut latest = Timestamp::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let Some(next) = first_due(flows) else { break };
        let now = clock.now();
        let at = match next.state {
            // The schedule sees the times of the departures, whenever they are handed over.
            FlowState::Turn(at) => at.max(now),
            FlowState::Until(at) | FlowState::For(_, at) => {
                if at > now + AHEAD {
                    sleeper.until_tick(clock, at - (AHEAD - BATCH));
                    continue;
                }
                let at = at.max(now);
                next.woke(at);
                at
            }
            FlowState::Over => break,
        };
        sleeper.share(clock);
        next.step_at(at, clock, Some(launch.at(clock, at)));
        latest = latest.max(at);
    }
    // What follows on the socket, such as the end of the stream, must not overtake them.
    let now = clock.now();
    if latest > now {
        sleeper.for_span(clock, latest - now);
    }
}
