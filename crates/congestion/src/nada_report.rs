//! The report of a receiver of NADA.

use giusto_rtp::rtcp::NadaFeedback;
use giusto_units::{DataRate, math};

/// A message has units of 100 µs (§5.3).
const UNITS_PER_MS: f64 = 10.0;

/// How the sender changes its rate (`rmode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum RateMode {
    /// 0: the path is underused; accelerated ramp-up.
    RampUp,
    /// 1: gradual update.
    #[default]
    Gradual,
}

/// What the receiver tells the sender (RFC 8698 §5.3).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Report {
    /// `rmode`.
    pub mode: RateMode,
    /// `x_curr`: aggregate congestion signal in ms, 0 to 3276.7.
    pub signal_ms: f64,
    /// `r_recv`: received rate.
    pub received: DataRate,
}

impl Report {
    /// A report of this mode, congestion signal in ms and received rate.
    pub const fn new(mode: RateMode, signal_ms: f64, received: DataRate) -> Self {
        Self { mode, signal_ms, received }
    }

    /// The report as a message of the receiver with this SSRC. The signal is rounded to 100 µs.
    pub fn to_message(&self, sender_ssrc: u32) -> NadaFeedback {
        let signal =
            math::round(self.signal_ms * UNITS_PER_MS).clamp(0.0, f64::from(NadaFeedback::MAX_SIGNAL)) as u16;
        NadaFeedback { sender_ssrc, gradual: self.mode == RateMode::Gradual, signal, received: self.received }
    }

    /// The report in a message.
    pub fn from_message(message: &NadaFeedback) -> Self {
        Self {
            mode: if message.gradual { RateMode::Gradual } else { RateMode::RampUp },
            signal_ms: f64::from(message.signal) / UNITS_PER_MS,
            received: message.received,
        }
    }
}
