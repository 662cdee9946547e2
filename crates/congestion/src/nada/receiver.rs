//! The receiver (RFC 8698 §4.2 and §5.1): delay, losses, marks and rate of the received packets, and the report to the sender.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    config::{DelaySamples, RatioSmoothing, ReceiverConfig},
    delay::QueueingDelay,
    loss_interval::LossIntervals,
    signal,
    window::{Arrived, Window},
};
use crate::nada_report::{RateMode, Report};

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReceivedMedia {
    /// One-way delay. The clocks may differ by a constant.
    pub delay: TimeDelta,
    /// Size that counts towards the rate.
    pub size: DataSize,
    /// Packets lost directly before this one; `None` if this one is out of order. Then it counts as lost (§5.1.2).
    pub missing: Option<u64>,
    /// Whether it carries a congestion mark (ECN-CE).
    pub is_marked: bool,
}

impl ReceivedMedia {
    /// A packet without mark, directly after the one before.
    pub const fn new(delay: TimeDelta, size: DataSize) -> Self {
        Self { delay, size, missing: Some(0), is_marked: false }
    }
}

giusto_units::setters!(ReceivedMedia {
    /// Sets the packets lost directly before this one; `None`: this one is out of order.
    with_missing(missing: Option<u64>);
    /// Sets whether it carries a congestion mark (ECN-CE).
    with_mark(is_marked: bool);
});

giusto_units::defaults! {
    /// Measures a flow and makes reports.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_congestion::nada::{RateMode, ReceivedMedia, Receiver, ReceiverConfig};
    /// use giusto_units::{DataSize, TimeDelta, Timestamp};
    ///
    /// // 1250 bytes each 10 ms, without a queue: 1 Mbit/s, and more is possible.
    /// let mut receiver = Receiver::new(ReceiverConfig::default());
    /// for packet in 0..50 {
    ///     let now = Timestamp::from_nanos(packet * 10_000_000);
    ///     let delay = TimeDelta::from_millis(20);
    ///     receiver.on_packet(now, &ReceivedMedia::new(delay, DataSize::from_bytes(1250)));
    /// }
    /// let report = receiver.poll_report(Timestamp::from_nanos(495_000_000)).unwrap();
    /// assert_eq!((report.mode, report.received.as_bps()), (RateMode::RampUp, 1_000_000));
    /// assert_eq!(report.signal_ms, 0.0);
    /// ```
    #[derive(Debug, Clone)]
    pub struct Receiver {
        config: ReceiverConfig = config,
        delay: QueueingDelay = QueueingDelay::new(config.base_delay_memory, config.filter_samples),
        window: Window = Window::new(config.window),
        intervals: LossIntervals = LossIntervals::default(),
        /// `p_loss` and `p_mark`.
        loss_ratio: f64 = 0.0,
        mark_ratio: f64 = 0.0,
        now: Timestamp = Timestamp::ZERO,
        /// Time of the latest report; initially of the first packet.
        reported: Option<Timestamp> = None,
        /// Whether a packet arrived since then.
        has_news: bool = false,
    }
    /// A receiver without packets.
    pub fn new(config: ReceiverConfig);
}

impl Receiver {
    /// Handles a packet that arrives at `now`. Time that runs backwards by more than the window is a new clock: all measurements restart.
    pub fn on_packet(&mut self, now: Timestamp, packet: &ReceivedMedia) {
        if self.now.saturating_since(now) > self.config.window {
            *self = Self::new(self.config);
        }
        self.now = self.now.max(now);
        let now = self.now;
        self.reported.get_or_insert(now);
        self.has_news = true;
        let &ReceivedMedia { delay, size, missing, is_marked } = packet;
        let Some(missing) = missing else {
            self.window.push(Arrived { at: now, size, in_order: None, is_marked });
            return;
        };
        self.delay.on_delay(now, delay);
        let sample = match self.config.ramp_up_samples {
            DelaySamples::Filtered => self.delay.filtered().unwrap_or_default(),
            DelaySamples::Raw => self.delay.above_base(delay),
        };
        self.window.push(Arrived { at: now, size, in_order: Some((sample, missing)), is_marked });
        self.intervals.on_packet(missing);
        if self.config.smoothing == RatioSmoothing::Packet {
            self.smooth();
        }
    }

    /// The queueing delay of a packet with this one-way delay; zero before the first one.
    pub(super) fn queueing(&self, delay: TimeDelta) -> TimeDelta {
        if self.delay.filtered().is_some() { self.delay.above_base(delay) } else { TimeDelta::ZERO }
    }

    /// A clock has jumped: delays before and after cannot be compared.
    pub(super) fn forget_delays(&mut self) {
        self.delay = QueueingDelay::new(self.config.base_delay_memory, self.config.filter_samples);
    }

    /// The report, if one is due: a packet arrived since the previous one, which was sent [`interval`](ReceiverConfig) ago or
    /// earlier.
    pub fn poll_report(&mut self, now: Timestamp) -> Option<Report> {
        let now = self.now.max(now);
        self.next_timeout().filter(|&due| due <= now)?;
        self.now = now;
        self.reported = Some(now);
        self.has_news = false;
        self.window.forget(now);
        if self.config.smoothing == RatioSmoothing::Report {
            self.smooth();
        }
        let report = Report { mode: self.mode(), signal_ms: self.signal_ms(), received: self.window.rate() };
        Some(report)
    }

    /// When [`poll_report`](Self::poll_report) has a report; `None` while there is nothing to report.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        let reported = self.reported.filter(|_| self.has_news)?;
        Some(reported + self.config.interval.max(TimeDelta::from_millis(1)))
    }

    /// Equation 10.
    fn smooth(&mut self) {
        let alpha = self.config.alpha.clamp(0.0, 1.0);
        self.loss_ratio = alpha * self.window.loss_ratio() + (1.0 - alpha) * self.loss_ratio;
        self.mark_ratio = alpha * self.window.mark_ratio() + (1.0 - alpha) * self.mark_ratio;
    }

    /// End of §4.2.
    fn mode(&self) -> RateMode {
        let has_queue = || self.window.delays().any(|delay| delay >= self.config.ramp_up_below);
        if self.window.has_losses() || has_queue() { RateMode::Gradual } else { RateMode::RampUp }
    }

    fn signal_ms(&self) -> f64 {
        let queueing_ms = self.delay.filtered().unwrap_or_default().as_millis();
        let since = self.intervals.since_loss() as f64;
        let delay_ms = signal::equivalent_delay(&self.config, queueing_ms, self.intervals.average(), since);
        signal::aggregate(&self.config, delay_ms, self.mark_ratio, self.loss_ratio)
    }
}

#[cfg(test)]
impl Receiver {
    /// Smoothed loss ratio, 0 to 1 (`p_loss`).
    pub(super) fn loss_ratio(&self) -> f64 {
        self.loss_ratio
    }

    /// Smoothed mark ratio, 0 to 1 (`p_mark`).
    pub(super) fn mark_ratio(&self) -> f64 {
        self.mark_ratio
    }
}
