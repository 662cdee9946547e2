//! The thread that sends on time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};

use giusto_units::Timestamp;

use super::{
    ahead,
    flow::{Flow, FlowOutcome, FlowState, Running, first_due},
    shared::SharedTicks,
};
use crate::{Clock, Grouping, Sleeper, SocketConfig, UdpSocket};

/// Sleeps and sends for practice until shortly before `start`.
///
/// The first call of any code is slow: without practice the first datagram of a stream would be sent about 15
/// µs later than the others. The practice datagrams go to a socket on loopback.
pub fn rehearse(sleeper: &mut Sleeper, clock: Clock, start: Timestamp) {
    const DATAGRAM: [u8; 64] = [0; 64];
    let config = SocketConfig { receive_buffer: None, ..SocketConfig::default() };
    let scratch = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &config);
    sleeper.rehearse(clock, start, || {
        // Without such a socket the rehearsal is incomplete.
        if let Ok(scratch) = &scratch {
            let _ =
                scratch.send_segments(Some(scratch.local_addr()), &DATAGRAM, DATAGRAM.len(), Grouping::Each);
        }
    });
}

/// Sends all `flows` from the calling thread until each is done or `stop` is set.
///
/// An unreachable port does not end a flow: the control messages detect whether the receiver is gone.
pub fn transmit(
    flows: Vec<Flow<'_>>,
    clock: Clock,
    sleeper: &mut Sleeper,
    stop: &AtomicBool,
) -> Vec<FlowOutcome> {
    let streams = flows.len();
    let mut flows: Vec<_> = flows.into_iter().map(|flow| Running::new(flow, streams)).collect();
    if let Some(launch) = flows.first().and_then(|flow| flow.flow.launch) {
        ahead::hand_over(&mut flows, launch, clock, sleeper, stop);
        return flows.into_iter().map(|flow| flow.finish(clock)).collect();
    }
    let alone = flows.len() == 1;
    let mut ticks = SharedTicks::new(flows.iter().map(|flow| flow.flow.period));
    while !stop.load(Ordering::Relaxed) {
        let Some(next) = first_due(&mut flows) else { break };
        match next.state {
            FlowState::Turn(_) | FlowState::Over => sleeper.share(clock),
            // A relative sleep is exact only if nothing else is to be done in the meantime.
            FlowState::For(span, _) if alone => {
                let now = if next.flow.spin {
                    sleeper.spin_for(clock, span)
                } else {
                    sleeper.for_span(clock, span)
                };
                next.woke(now);
            }
            FlowState::Until(at) | FlowState::For(_, at) => {
                let now = clock.now();
                let now = match ticks.wake_for(now, at) {
                    // The wake-up for another stream serves this one too.
                    Some(_) if at <= now => now,
                    Some(tick) => sleeper.until_tick(clock, tick),
                    None => sleeper.until(clock, at),
                };
                next.woke(now);
            }
        }
        next.step(clock);
    }
    flows.into_iter().map(|flow| flow.finish(clock)).collect()
}
