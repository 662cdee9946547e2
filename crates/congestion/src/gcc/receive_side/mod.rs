//! What may be sent here? Google Congestion Control at the receiver.
//!
//! | part | module |
//! |---|---|
//! | what is settable | [`ReceiveSideConfig`] |
//! | what the delay says | [`DelayEstimator`] |
//! | what arrives | [`IncomingRate`] |
//! | packets sent in pace, at the beginning | `probes` |
//! | how the rate moves | [`Aimd`] |

mod config;
mod incoming;
mod probes;
#[cfg(test)]
mod tests;

pub use config::ReceiveSideConfig;
pub use incoming::IncomingRate;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};
use probes::Probes;

use super::{
    delay::{DelayConfigError, DelayEstimator, ReceivedPacket},
    rate::{Aimd, DelayReading, Observation},
};
use crate::target::{Cause, Decision, Signal};

/// The message whose share of the estimate says how often it is looked at (libwebrtc, `aimd_rate_control.cc`).
const MESSAGE: DataSize = DataSize::from_bytes(80);

/// The receiver's estimate of what it may be sent.
///
/// The estimate is looked at when a packet arrives: at intervals, and at once where the delay says over-use. Where the rate
/// control itself does not hold back a further decrease ([`AimdConfig::again`](super::rate::AimdConfig::again) is `None`), only the
/// beginning of an over-use counts as such; then the intervals do.
///
/// # Example
///
/// ```
/// use giusto_congestion::gcc::{ReceiveSide, ReceiveSideConfig};
/// use giusto_units::{DataRate, DataSize, PeerTimestamp, Timestamp};
///
/// // 1250 bytes each 10 ms are 1 Mbit/s: the first packets already tell, as they come in pace.
/// let mut receive_side = ReceiveSide::new(ReceiveSideConfig::libwebrtc())?;
/// for packet in 0..10 {
///     let sent = PeerTimestamp::from_nanos(packet * 10_000_000);
///     let now = Timestamp::from_nanos(30_000_000 + packet * 10_000_000);
///     receive_side.on_packet(now, sent, DataSize::from_bytes(1250));
/// }
/// assert_eq!(receive_side.estimate(), Some(DataRate::from_bps(1_000_000)));
/// # Ok::<(), giusto_congestion::gcc::delay::DelayConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReceiveSide {
    config: ReceiveSideConfig,
    delay: DelayEstimator,
    incoming: IncomingRate,
    probes: Probes,
    aimd: Aimd,
    now: Timestamp,
    /// Whether there is an estimate.
    known: bool,
    first_packet: Option<Timestamp>,
    /// Since when it is known what arrives.
    rate_since: Option<Timestamp>,
    looked: Option<Timestamp>,
    decision: Decision,
    told: Option<(Timestamp, DataRate)>,
}

impl ReceiveSide {
    /// Nothing has come.
    ///
    /// # Errors
    ///
    /// A constant of the delay's configuration is outside its range.
    pub fn new(config: ReceiveSideConfig) -> Result<Self, DelayConfigError> {
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
            told: None,
        })
    }

    /// A packet came that was `sent` then by the sender's clock.
    pub fn on_packet(&mut self, now: Timestamp, sent: PeerTimestamp, size: DataSize) {
        self.now = self.now.max(now);
        let now = self.now;
        self.incoming.on_packet(now, size);
        let probed = self.probed(now, sent, size);
        let before = self.delay.signal();
        // The estimator calls the clock "ours" that packets are sent by. Here that is the far end's.
        let packet = ReceivedPacket {
            sent: Timestamp::from_nanos(sent.as_nanos()),
            arrival: PeerTimestamp::from_nanos(now.as_nanos()),
            size,
        };
        let signal = self.delay.on_packet(now, packet);
        let incoming = self.incoming.rate(now);
        let is_due = self.looked.is_none_or(|looked| now - looked > self.interval());
        let over_use = signal == Signal::OverUse
            && incoming.is_some()
            && (before != Signal::OverUse || self.config.aimd.again.is_some());
        if probed && signal != Signal::OverUse {
            // libwebrtc looks here too, and adds its least step of 1 kbit/s to what the probe has found.
            self.looked = Some(now);
        } else if probed || is_due || over_use {
            self.look(now, signal, incoming);
        }
    }

    /// The round trip is known.
    pub fn on_round_trip(&mut self, round_trip: TimeDelta) {
        self.aimd.on_round_trip(round_trip);
    }

    /// The estimate, if there is one.
    pub fn estimate(&self) -> Option<DataRate> {
        self.known.then(|| self.aimd.rate())
    }

    /// The last change of the estimate, and its cause.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The estimate that is to be told now, if one is due: at once where it fell, otherwise now and then.
    pub fn poll_estimate(&mut self, now: Timestamp) -> Option<DataRate> {
        self.now = self.now.max(now);
        self.next_timeout().filter(|due| *due <= self.now)?;
        self.tell(now)
    }

    /// The estimate, if there is one, told now whether or not it is due: with a report that leaves anyway.
    pub fn tell(&mut self, now: Timestamp) -> Option<DataRate> {
        self.now = self.now.max(now);
        let estimate = self.estimate()?;
        self.told = Some((self.now, estimate));
        Some(estimate)
    }

    /// When [`poll_estimate`](Self::poll_estimate) is wanted next.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        let estimate = self.estimate()?;
        let Some((at, told)) = self.told else { return Some(self.now) };
        let fell = estimate.as_bps() as f64 * self.config.fallen <= told.as_bps() as f64;
        // Nothing is told twice at one moment, whatever is configured.
        let soon = TimeDelta::from_millis(1);
        Some(match (fell, estimate == told) {
            (true, false) => self.decision.at.max(at + soon),
            (false, false) => at + self.config.least_told.max(soon),
            (_, true) => at + self.config.most_told.max(soon),
        })
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
        // An over-use gives even the first estimate; nothing else moves what is not known (libwebrtc, `aimd_rate_control.cc`).
        if !self.known && (signal != Signal::OverUse || incoming.is_none()) {
            return;
        }
        let detection = self.delay.detection();
        let delay =
            DelayReading { signal, trend_ms: detection.trend_ms, threshold_ms: detection.threshold_ms };
        let seen = Observation { delay, acknowledged: incoming, ..Observation::default() };
        let decision = self.aimd.update(now, &seen);
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

    /// How often the estimate is looked at (libwebrtc, `aimd_rate_control.cc`).
    fn interval(&self) -> TimeDelta {
        let bits = self.aimd.rate().as_bps() as f64 * self.config.feedback_share;
        let time = TimeDelta::from_seconds_f64(MESSAGE.as_bits() as f64 / bits);
        time.min(self.config.most_interval).max(self.config.least_interval)
    }
}
