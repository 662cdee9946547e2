//! Google Congestion Control at the receiver: estimates the available rate.
//!
//! | part | module |
//! |---|---|
//! | configuration | [`Config`] |
//! | delay detector | `delay` |
//! | received rate | [`IncomingRate`] |
//! | detection of initial probes | `probes` |
//! | rate control | `rate` |
//! | all of it as in February 2014 | `rmcat_02` |

mod config;
mod incoming;
mod probes;
mod rmcat_02;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../../tests/vectors/receive_side.rs"]
mod vectors;

pub use config::Config;
pub use incoming::IncomingRate;

use alloc::boxed::Box;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};
use probes::Probes;

use super::{
    delay::{DelayConfigError, DelayEstimator, Detection, ReceivedPacket},
    rate::{Aimd, AimdConfig, Observation},
};
use crate::target::{Cause, Decision, Signal};

/// Size of the feedback message from which the update interval is computed (libwebrtc,
/// `aimd_rate_control.cc`).
const MESSAGE: DataSize = DataSize::from_bytes(80);

/// The receiver's estimate of the available rate.
///
/// The estimate is updated when a packet arrives: at intervals, after a probe, and on over-use at once if the rate control permits
/// another decrease. If it does not limit repeated decreases ([`AimdConfig::again`](super::rate::AimdConfig::again) is `None`), only
/// the start of over-use triggers an immediate update; then the intervals apply. An update at an interval may decrease the estimate
/// however short the time since the last change, as in libwebrtc.
///
/// # Example
///
/// ```
/// use giusto_congestion::gcc::receive_side::{Config, ReceiveSide};
/// use giusto_units::{DataRate, DataSize, PeerTimestamp, Timestamp};
///
/// // 1250 bytes each 10 ms are 1 Mbit/s: the first packets already tell, as they come in pace.
/// let mut receive_side = ReceiveSide::new(Config::libwebrtc())?;
/// for packet in 0..10 {
///     let sent = PeerTimestamp::from_nanos(packet * 10_000_000);
///     let now = Timestamp::from_nanos(30_000_000 + packet * 10_000_000);
///     receive_side.on_packet(now, sent, DataSize::from_bytes(1250));
/// }
/// // The update after a probe adds 1 kbit/s.
/// assert_eq!(receive_side.estimate(), Some(DataRate::from_bps(1_001_000)));
/// # Ok::<(), giusto_congestion::gcc::config::DelayConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReceiveSide {
    config: Config,
    delay: DelayEstimator,
    incoming: IncomingRate,
    probes: Probes,
    aimd: Aimd,
    now: Timestamp,
    /// Whether there is an estimate.
    known: bool,
    first_packet: Option<Timestamp>,
    /// Time since which the received rate has been known.
    rate_since: Option<Timestamp>,
    looked: Option<Timestamp>,
    decision: Decision,
    last_sent: Option<(Timestamp, DataRate)>,
    /// The estimator that replaces all of the above but the clock and the sending.
    rmcat_02: Option<Box<rmcat_02::Estimator>>,
}

impl ReceiveSide {
    /// An estimator without packets.
    ///
    /// # Errors
    ///
    /// A constant of the delay configuration is out of range.
    pub fn new(config: Config) -> Result<Self, DelayConfigError> {
        let start = config.start.unwrap_or(config.aimd.max);
        let aimd = Aimd::new(config.aimd, start);
        let known = config.start.is_some();
        let decision =
            Decision { to: if known { aimd.rate() } else { DataRate::ZERO }, ..Decision::default() };
        Ok(Self {
            config,
            delay: DelayEstimator::new(config.delay)?,
            incoming: IncomingRate::new(config.rate_window),
            probes: Probes::default(),
            aimd,
            now: Timestamp::ZERO,
            known,
            first_packet: None,
            rate_since: None,
            looked: None,
            decision,
            last_sent: None,
            rmcat_02: config.rmcat_02.then(|| Box::new(rmcat_02::Estimator::new(&config))),
        })
    }

    /// Handles the arrival of a packet that was `sent` at this time on the sender's clock. With `None` it counts towards the received rate
    /// only. With `gcc:rmcat-02` the time should be that of the first packet of its video frame, and `None` for all but
    /// videos.
    pub fn on_packet(&mut self, now: Timestamp, sent: impl Into<Option<PeerTimestamp>>, size: DataSize) {
        self.now = self.now.max(now);
        let (now, sent) = (self.now, sent.into());
        if let Some(estimator) = &mut self.rmcat_02 {
            if let Some(decision) = estimator.on_packet(now, sent, size) {
                self.decision = decision;
            }
            return;
        }
        self.incoming.on_packet(now, size);
        let Some(sent) = sent else { return };
        let probed = self.probed(now, sent, size);
        let before = self.delay.signal();
        // The estimator's local clock is the one by which packets are sent. Here that is the remote clock.
        let packet = ReceivedPacket {
            sent: Timestamp::from_nanos(sent.as_nanos()),
            arrival: PeerTimestamp::from_nanos(now.as_nanos()),
            size,
        };
        let signal = self.delay.on_packet(now, packet);
        let incoming = self.incoming.rate(now);
        let is_due = self.looked.is_none_or(|looked| now - looked > self.interval());
        let starts = before != Signal::OverUse || self.config.aimd.again.is_some();
        let over_use = signal == Signal::OverUse
            && starts
            && incoming.is_some_and(|rate| self.aimd.may_decrease(now, Some(rate)));
        let probe = probed.then_some(self.decision);
        if probed || is_due || over_use {
            self.look(now, signal, incoming);
        }
        // The update after a probe adds libwebrtc's minimum step of 1 kbit/s.
        if let Some(probe) = probe
            && self.decision.to >= probe.to
        {
            self.decision = Decision { to: self.decision.to, ..probe };
        }
    }

    /// Sets the RTT.
    pub fn on_rtt(&mut self, rtt: TimeDelta) {
        self.aimd.on_rtt(rtt);
        if let Some(estimator) = &mut self.rmcat_02 {
            estimator.on_rtt(rtt);
        }
    }

    /// The estimate, if there is one.
    pub fn estimate(&self) -> Option<DataRate> {
        if let Some(estimator) = &self.rmcat_02 {
            let AimdConfig { min, max, .. } = self.config.aimd;
            return estimator.estimate().map(|rate| rate.min(max).max(min));
        }
        self.known.then(|| self.aimd.rate())
    }

    /// The last change of the estimate, and its cause.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The estimate to send now, if one is due: at once after a decrease, otherwise at intervals.
    pub fn poll_estimate(&mut self, now: Timestamp) -> Option<DataRate> {
        self.advance(now);
        self.sending().filter(|due| *due <= self.now)?;
        self.take_estimate(now)
    }

    /// The estimate, if there is one, to send now with a report that is sent anyway. Counts as sent.
    pub fn take_estimate(&mut self, now: Timestamp) -> Option<DataRate> {
        self.advance(now);
        let estimate = self.estimate()?;
        self.last_sent = Some((self.now, estimate));
        Some(estimate)
    }

    /// Time at which [`poll_estimate`](Self::poll_estimate) should be called next.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        let update = self.rmcat_02.as_ref().and_then(|estimator| estimator.next_timeout());
        [update, self.sending()].into_iter().flatten().min()
    }

    /// Time at which the estimate should be sent next.
    fn sending(&self) -> Option<Timestamp> {
        let estimate = self.estimate()?;
        let Some((at, last_sent)) = self.last_sent else { return Some(self.now) };
        let fell = estimate.as_bps() as f64 * self.config.fallen <= last_sent.as_bps() as f64;
        // No estimate is sent twice at the same time, whatever the configuration.
        let soon = TimeDelta::from_millis(1);
        Some(match (fell, estimate == last_sent) {
            (true, false) => self.decision.at.max(at + soon),
            (false, false) => at + self.config.min_send_interval.max(soon),
            (_, true) => at + self.config.max_send_interval.max(soon),
        })
    }

    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if let Some(decision) = self.rmcat_02.as_mut().and_then(|estimator| estimator.advance(self.now)) {
            self.decision = decision;
        }
    }

    /// Whether a probe has given an estimate.
    fn probed(&mut self, now: Timestamp, sent: PeerTimestamp, size: DataSize) -> bool {
        let first = *self.first_packet.get_or_insert(now);
        let Some(time) = self.config.probing_time else { return false };
        if self.known && now - first >= time {
            return false;
        }
        let estimate = self.estimate().unwrap_or_default();
        let Some(rate) = self.probes.on_packet(now, sent, size, estimate) else { return false };
        self.begin(now, rate, Cause::Probe { rate_bps: rate.as_bps() as f64 });
        true
    }

    fn look(&mut self, now: Timestamp, signal: Signal, incoming: Option<DataRate>) {
        if let Some(rate) = incoming {
            let since = *self.rate_since.get_or_insert(now);
            if !self.known && now - since > self.config.learning_time {
                self.begin(now, rate, Cause::AcknowledgedRate { rate_bps: rate.as_bps() as f64 });
            }
        }
        // Over-use also gives the first estimate; nothing else changes an unknown estimate (libwebrtc,
        // `aimd_rate_control.cc`).
        if !self.known && (signal != Signal::OverUse || incoming.is_none()) {
            return;
        }
        let delay = Detection { signal, ..self.delay.detection() };
        let seen = Observation { delay, acknowledged: incoming, ..Observation::default() };
        let decision = self.aimd.update_at_interval(now, &seen);
        self.looked = Some(now);
        if decision.from != decision.to || !self.known {
            self.known = true;
            self.decision = decision;
        }
    }

    fn begin(&mut self, now: Timestamp, rate: DataRate, cause: Cause) {
        let from = self.estimate().unwrap_or_default();
        self.aimd.set_rate(now, rate);
        self.known = true;
        self.decision = Decision { at: now, from, to: self.aimd.rate(), cause };
    }

    /// Update interval of the estimate (libwebrtc, `aimd_rate_control.cc`).
    fn interval(&self) -> TimeDelta {
        let bits = self.aimd.rate().as_bps() as f64 * self.config.feedback_share;
        let time = TimeDelta::from_seconds_f64(MESSAGE.as_bits() as f64 / bits);
        time.min(self.config.max_interval).max(self.config.min_interval)
    }
}
