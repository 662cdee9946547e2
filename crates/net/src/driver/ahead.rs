//! Hands departures to the kernel ahead of their times.

use std::sync::atomic::{AtomicBool, Ordering};

use giusto_units::{TimeDelta, Timestamp};

use super::flow::{FlowState, Running, first_due};
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use giusto_pace::{HeaderLayer, IpVersion, Replay};
    use giusto_session::probe::{
        Content, Outgoing,
        payload::{SizeLimits, SizeSource},
    };
    use giusto_units::DataSize;

    use super::*;
    use crate::{
        Grouping, SleeperConfig, SocketConfig, UdpSocket,
        driver::{Flow, FlowEnd, FlowOutcome, transmit},
    };

    /// Sends one datagram a millisecond, at most 100, over an interface without fq: there each leaves when it is handed over.
    /// Returns when it was stopped and when it ended, since the first departure.
    fn sent(stop_after: Option<TimeDelta>) -> (FlowOutcome, TimeDelta, TimeDelta) {
        let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        let socket = UdpSocket::connected(receiver.local_addr(), &SocketConfig::default()).unwrap();
        let launch = socket.launch_as_by_fq();
        let size = DataSize::from_bytes(100);
        let sizes = SizeSource::new("100".parse().unwrap(), SizeLimits::new(size, size).unwrap());
        let clock = Clock::start();
        let start = clock.now() + TimeDelta::from_millis(20);
        let departures: Vec<TimeDelta> = (0..100).map(TimeDelta::from_millis).collect();
        let flow = Flow {
            schedule: Box::new(Replay::new(Arc::from(departures), Some(start))),
            outgoing: Outgoing::new(Content::Raw { sizes }, 1),
            socket: &socket,
            to: None,
            grouping: Grouping::Each,
            spin: false,
            layer: HeaderLayer::Payload,
            ip: IpVersion::V4,
            period: None,
            launch: Some(launch),
            reports: None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let config = SleeperConfig { stop: Some(Arc::clone(&stop)), ..SleeperConfig::default() };
        std::thread::scope(|scope| {
            let outcome = scope.spawn(|| {
                let mut sleeper = Sleeper::new(config);
                let outcome = transmit(vec![flow], clock, &mut sleeper, &stop).remove(0);
                (outcome, clock.now())
            });
            let mut stopped_at = None;
            if let Some(after) = stop_after {
                let mut waiter = Sleeper::new(SleeperConfig::default());
                stopped_at = Some(waiter.until(clock, start + after));
                stop.store(true, Ordering::Relaxed);
            }
            let (outcome, ended) = outcome.join().unwrap();
            (outcome, stopped_at.unwrap_or(ended) - start, ended - start)
        })
    }

    #[test]
    fn all_are_handed_over_and_the_last_has_left() {
        let (outcome, _, ended) = sent(None);
        assert!(matches!(outcome.end, FlowEnd::Done));
        assert_eq!((outcome.packets, outcome.unsent_packets), (100, 0));
        // The last leaves after 99 ms.
        assert!(ended >= TimeDelta::from_millis(99), "{ended}");
        assert!(outcome.schedule_error.is_empty(), "when the kernel sends is not known");
    }

    #[test]
    fn after_an_interruption_the_kernel_holds_at_most_ten_milliseconds() {
        let (outcome, stopped, ended) = sent(Some(TimeDelta::from_millis(50)));
        assert!(matches!(outcome.end, FlowEnd::Stopped));
        let most = (stopped + AHEAD).as_millis() as u64 + 1;
        // On a busy machine the thread may run late, and hand over less.
        assert!(outcome.packets <= most && outcome.packets >= 1, "{} {stopped}", outcome.packets);
        assert!(ended >= stopped, "{ended}");
    }
}
