//! The estimator of draft-alvestrand-rmcat-congestion-02 (February 2014) at the receiver.
//!
//! The text of the draft is not to be had whole. The rules and constants are those of libwebrtc in the state published on 9 April 2014, before
//! its rate control became AIMD: "libwebrtc 2014" below. A test replays packets that were also given to that code.
//!
//! | part | module | libwebrtc 2014, `modules/remote_bitrate_estimator` |
//! |---|---|---|
//! | frames, filter, fixed threshold | [`detector`] | `overuse_detector.cc` |
//! | rate control: growth by noise and response time | [`rate`] | `remote_rate_control.cc` |
//! | when it is updated | here | `remote_bitrate_estimator_single_stream.cc` |
//!
//! # Differences
//!
//! - Times are not rounded to milliseconds.
//! - Sizes include headers, as in the limits of the sender; in libwebrtc 2014 they did not.
//! - All videos share one detector, as they share the clock of their send times; in libwebrtc 2014 each had its own.

mod detector;
mod rate;
#[cfg(test)]
mod tests;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use self::{detector::Detector, rate::RateControl};
use super::{Config, IncomingRate};
use crate::target::{Cause, Decision, Signal};

/// Interval of updates without over-use (libwebrtc 2014, `remote_bitrate_estimator.h`).
const INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
/// Without frames for this long, everything is forgotten (same file).
const STREAM_TIMEOUT: TimeDelta = TimeDelta::from_seconds(2);
/// Window of the received rate (libwebrtc 2014, `remote_bitrate_estimator_single_stream.cc`).
const WINDOW: TimeDelta = TimeDelta::from_millis(500);
/// It has one bucket of a millisecond more than the rate is divided by (libwebrtc 2014, `rate_statistics.cc`).
const BUCKETS: TimeDelta = TimeDelta::from_millis(501);

/// Detector and rate control.
#[derive(Debug, Clone)]
pub(super) struct Estimator {
    min: DataRate,
    detector: Option<Detector>,
    incoming: IncomingRate,
    rate: RateControl,
    last_frame: Timestamp,
    /// Time of the next update at an interval.
    due: Option<Timestamp>,
}

impl Estimator {
    /// Without packets.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            min: config.aimd.min,
            detector: None,
            incoming: IncomingRate::new(BUCKETS),
            rate: RateControl::new(config.aimd.min),
            last_frame: Timestamp::ZERO,
            due: None,
        }
    }

    /// Handles the arrival of a packet of the frame that was `sent` at this time; `None`: it belongs to no frame of a video, and counts
    /// towards the received rate only. Returns the decision, if it changed the estimate.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        sent: Option<PeerTimestamp>,
        size: DataSize,
    ) -> Option<Decision> {
        let mut decision = self.advance(now);
        self.incoming.on_packet(now, size);
        let Some(sent) = sent else { return decision };
        let detector = self.detector.get_or_insert_default();
        self.last_frame = now;
        let before = detector.detection().signal;
        detector.on_packet(now, sent, size);
        if detector.detection().signal == Signal::OverUse {
            let incoming = self.incoming.over(now, WINDOW);
            if before != Signal::OverUse || self.rate.may_decrease(now, incoming) {
                decision = self.update(now).or(decision);
            }
        }
        if self.due.is_none() {
            decision = self.update(now).or(decision);
            self.due = Some(now + INTERVAL);
        }
        decision
    }

    /// Makes the updates that are due.
    pub(super) fn advance(&mut self, now: Timestamp) -> Option<Decision> {
        let mut decision = None;
        while let Some(due) = self.due.filter(|&due| due <= now && due < Timestamp::MAX) {
            if self.detector.is_some() && due - self.last_frame > STREAM_TIMEOUT {
                self.detector = None;
                self.rate = RateControl::new(self.min);
            }
            if self.detector.is_none() {
                // Nothing happens until the next packet, but the times of updates stay the same.
                let since = TimeDelta::from_nanos((now - due).as_nanos() % INTERVAL.as_nanos());
                self.due = Some(now + (INTERVAL - since));
                return decision;
            }
            decision = self.update(due).or(decision);
            self.due = Some(due + INTERVAL);
        }
        decision
    }

    /// Time of the next update without a packet.
    pub(super) fn next_timeout(&self) -> Option<Timestamp> {
        self.due.filter(|_| self.detector.is_some())
    }

    /// Sets the RTT.
    pub(super) fn on_rtt(&mut self, rtt: TimeDelta) {
        self.rate.rtt = rtt;
    }

    /// The estimate, if there is one.
    pub(super) fn estimate(&self) -> Option<DataRate> {
        self.rate.estimate()
    }

    fn update(&mut self, now: Timestamp) -> Option<Decision> {
        let incoming = self.incoming.over(now, WINDOW);
        let detector = self.detector.as_mut()?;
        let detection = detector.detection();
        // The threshold follows the region that this update began with, as in libwebrtc 2014.
        let is_near = self.rate.is_near_known_max();
        let from = self.rate.estimate();
        self.rate.update(now, detection.signal, incoming, detector.noise_variance());
        detector.set_near_max(is_near);
        let to = self.rate.estimate().filter(|&to| Some(to) != from)?;
        let cause = match from {
            None => Cause::AcknowledgedRate { rate_bps: incoming.as_bps() as f64 },
            Some(_) => detection.cause(),
        };
        Some(Decision { at: now, from: from.unwrap_or_default(), to, cause })
    }
}
