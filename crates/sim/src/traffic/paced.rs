//! A sender that follows a transmit schedule.

use giusto_pace::{Schedule, Step};
use giusto_units::{DataSize, Ecn, Timestamp};

use super::agent::{Agent, Body, Transmit};
use crate::{
    machine::Machine,
    packet::{FlowId, Packet},
};

/// The datagrams of a [`Paced`] sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams {
    /// Size on the wire in bytes, all headers included.
    pub bytes: u32,
    /// Size at the layer that the schedule's plan counts.
    pub counted: DataSize,
    /// ECN codepoint.
    pub ecn: Ecn,
}

/// Runs a [`Schedule`] on a [`Machine`], ideal or coarse.
///
/// There is always data to send. A packet leaves at the start of its processing time.
#[derive(Debug)]
pub struct Paced {
    flow: FlowId,
    datagrams: Datagrams,
    schedule: Box<dyn Schedule>,
    machine: Machine,
    stop: Option<Timestamp>,
    state: State,
    to_send: u32,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Calls the schedule at this time.
    NextStep {
        at: Timestamp,
    },
    /// Sends the rest of a cycle; the next packet leaves at this time.
    Sending {
        at: Timestamp,
        left: u32,
        cycle: u32,
    },
    /// Sleeps until this time.
    Sleeping {
        until: Timestamp,
    },
    Done,
}

impl Paced {
    /// Creates a sender on `flow` that starts at `start`.
    pub fn new(
        flow: FlowId,
        datagrams: Datagrams,
        schedule: Box<dyn Schedule>,
        machine: Machine,
        start: Timestamp,
    ) -> Self {
        let state = State::NextStep { at: start };
        Self { flow, datagrams, schedule, machine, stop: None, state, to_send: 0 }
    }

    /// Sets the stop time: no packet leaves at or after it.
    #[must_use]
    pub fn until(self, stop: Option<Timestamp>) -> Self {
        Self { stop, ..self }
    }

    /// Processes one deadline. Each call moves the deadline or produces a packet.
    fn advance(&mut self, now: Timestamp) {
        self.state = match self.state {
            State::NextStep { at } => match self.schedule.next(self.machine.clock(at)) {
                Step::Send(cycle) => State::Sending { at, left: cycle.packets, cycle: cycle.packets },
                Step::SleepFor(span) => State::Sleeping { until: self.machine.wake(at, span) },
                Step::SleepUntil(moment) => State::Sleeping { until: self.machine.wake_at(at, moment) },
                Step::Poll => State::NextStep { at: self.machine.polled(at) },
                _ => State::Done,
            },
            State::Sending { at, left: 0, cycle } => {
                let size = self.datagrams.counted * u64::from(cycle);
                self.schedule.on_sent(self.machine.clock(at), size);
                State::NextStep { at }
            }
            State::Sending { at, left, cycle } => {
                self.to_send += 1;
                State::Sending { at: self.machine.sent(at, 1), left: left - 1, cycle }
            }
            State::Sleeping { until } => {
                self.schedule.on_woke(self.machine.clock(until));
                State::NextStep { at: until }
            }
            State::Done => State::Done,
        };
        if self.stop.is_some_and(|stop| now >= stop) {
            self.state = State::Done;
        }
    }
}

impl Agent for Paced {
    fn handle_packet(&mut self, _now: Timestamp, _packet: &Packet, _body: &Body) {}

    fn handle_timeout(&mut self, now: Timestamp) {
        // Stops a faulty schedule that requests steps without advancing time.
        const MAX_STEPS: u32 = 10_000;
        for _ in 0..MAX_STEPS {
            if self.to_send > 0 || self.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
            self.advance(now);
        }
        self.state = State::Done;
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.handle_timeout(now);
        self.to_send = self.to_send.checked_sub(1)?;
        if self.stop.is_some_and(|stop| now >= stop) {
            return None;
        }
        let Datagrams { bytes, ecn, .. } = self.datagrams;
        Some(Transmit { flow: self.flow, bytes, ecn, body: Body::None })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        match self.state {
            State::NextStep { at } | State::Sending { at, .. } | State::Sleeping { until: at } => Some(at),
            State::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy, StrategyOptions};
    use giusto_units::{DataRate, TimeDelta};

    use super::*;
    use crate::{machine::Data, testing::at};

    const SIZE: DataSize = DataSize::from_bytes(500);

    fn schedule(strategy: Strategy, packets: u32) -> Box<dyn Schedule> {
        let (rate, rule) = (DataRate::from_bps(800_000), CycleRule::Given(packets));
        let plan = CyclePlan::new(rate, SIZE, HeaderLayer::Payload, IpVersion::V4, rule).unwrap();
        strategy.build(&plan, StrategyOptions::default()).unwrap()
    }

    /// Departure times of a sender that stops at `millis`, in microseconds.
    fn departures(strategy: Strategy, packets: u32, machine: Machine, millis: u64) -> Vec<u64> {
        let datagrams = Datagrams { bytes: 528, counted: SIZE, ecn: Ecn::NotEct };
        let schedule = schedule(strategy, packets);
        let paced = Paced::new(FlowId(0), datagrams, schedule, machine, Timestamp::ZERO);
        let mut paced = paced.until(Some(at(millis)));
        let mut times = Vec::new();
        while let Some(now) = paced.poll_timeout() {
            paced.handle_timeout(now);
            while paced.poll_transmit(now).is_some() {
                times.push(now.as_nanos() / 1000);
            }
            assert!(paced.poll_timeout().is_none_or(|next| next > now), "no progress at {now}");
        }
        times
    }

    #[test]
    fn the_grid_is_exact_on_an_ideal_machine() {
        let single = departures(Strategy::Grid, 1, Machine::default(), 1000);
        assert_eq!(single, (0..200).map(|k| k * 5000).collect::<Vec<_>>());
        let in_pairs = departures(Strategy::Grid, 2, Machine::default(), 25);
        assert_eq!(in_pairs, [0, 0, 10_000, 10_000, 20_000, 20_000]);
    }

    #[test]
    fn departures_match_those_of_machine_run() {
        for strategy in Strategy::ALL.into_iter().filter(|&strategy| strategy != Strategy::Unpaced) {
            for packets in [1, 3] {
                let until = Timestamp::ZERO + TimeDelta::from_millis(500);
                let data = Data::File { packets: 10_000 };
                let record = Machine::SUN_LABS.run(&mut *schedule(strategy, packets), &data, SIZE, until);
                let alone: Vec<u64> =
                    record.departures.iter().map(|departure| departure.at.as_nanos() / 1000).collect();
                let here = departures(strategy, packets, Machine::SUN_LABS, 500);
                let both = alone.len().min(here.len());
                assert!(both > 40, "{strategy}: {both}");
                assert_eq!(here[..both], alone[..both], "{strategy}");
            }
        }
    }
}
