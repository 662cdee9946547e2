//! Quantities in the units in which tests write them, and packets.

use std::{fmt::Debug, io::Write as _, ops::RangeBounds};

use prelude::*;

use crate::gcc::delay::GroupDelta;

/// What most tests need.
pub(crate) mod prelude {
    pub(crate) use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

    pub(crate) use super::{Case, at, feed, kbps, limits, ms, near, peer_at, report, sent, within};
    pub(crate) use crate::{
        algorithm::Algorithm,
        closed_loop::{self, Outcome, Scenario, run, run_with, windows_around_a_silent_second},
        controller::Controller,
        feedback::{Extension, Feedback, LossReport, PacketReport, QueueState, SentPacket, StreamState},
        limits::{Limits, Options},
        shared_queue::{self, Flow},
        target::{Cause, Decision, Signal, Target},
    };
}

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

pub(crate) const fn peer_at(ms: u64) -> PeerTimestamp {
    PeerTimestamp::from_nanos(ms * 1_000_000)
}

pub(crate) const fn ms(ms: i64) -> TimeDelta {
    TimeDelta::from_millis(ms)
}

pub(crate) const fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

/// In kbit/s.
pub(crate) const fn limits(min: u64, start: u64, max: u64) -> Limits {
    Limits { min: kbps(min), start: kbps(start), max: kbps(max) }
}

/// A packet of 1200 bytes, alone in flight, that was sent at a time in ms.
pub(crate) const fn sent(sequence: u64, ms: u64) -> SentPacket {
    SentPacket::new(sequence, at(ms), DataSize::from_bytes(1200))
}

/// Its report, with the arrival time in ms.
pub(crate) fn report(sequence: u64, ms: u64, arrival: Option<u64>) -> PacketReport {
    PacketReport::new(sent(sequence, ms), arrival.map(peer_at))
}

/// Feedback about these packets, after which nothing is in flight.
pub(crate) fn feed(controller: &mut dyn Controller, now: Timestamp, packets: &[PacketReport]) {
    controller.on_feedback(now, &Feedback::new(packets, DataSize::ZERO));
}

/// The difference of two groups of one size.
pub(crate) fn group_delta(departure: TimeDelta, arrival: TimeDelta) -> GroupDelta {
    let at = peer_at(0);
    GroupDelta { departure, arrival, size_bytes: 0, arrived_at: at, closed_at: at }
}

/// Names the case of a loop if a check after it fails.
pub(crate) struct Case<T: Debug>(pub(crate) T);

impl<T: Debug> Drop for Case<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "case {:?}", self.0);
        }
    }
}

#[track_caller]
pub(crate) fn within(found: f64, range: impl RangeBounds<f64> + Debug) {
    assert!(range.contains(&found), "{found} is not within {range:?}");
}

#[track_caller]
pub(crate) fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
}
